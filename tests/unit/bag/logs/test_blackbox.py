"""Betaflight's blackbox: frames written as blackbox_encoding.c writes them, and damage."""

import math

import numpy as np
import pytest

from quadsim.bag.log import read_log
from quadsim.bag.reading import open_bag
from quadsim.base.errors import InputError

NAMES = (
    "loopIteration,time,axisI[0],axisI[1],axisI[2],rcCommand[0],rcCommand[1],rcCommand[2],"
    "rcCommand[3],vbatLatest,amperageLatest,gyroADC[0],gyroADC[1],gyroADC[2],accSmooth[0],"
    "accSmooth[1],accSmooth[2],motor[0],motor[1],eRPM[0],eRPM[1]"
)
HEADER = f"""H Product:Blackbox flight data recorder by Nicholas Sherlock
H Data version:2
H I interval:32
H Field I name:{NAMES}
H Field I predictor:0,0,0,0,0,0,0,0,4,9,0,0,0,0,0,0,0,11,5,0,0
H Field I encoding:1,1,0,0,0,0,0,0,1,3,0,0,0,0,0,0,0,1,0,1,1
H Field P predictor:6,2,1,1,1,1,1,1,1,1,1,3,3,3,3,3,3,3,3,1,1
H Field P encoding:9,0,7,7,7,8,8,8,8,6,6,0,0,0,0,0,0,0,0,0,0
H Field G name:time,GPS_numSat,GPS_coord[0],GPS_coord[1],GPS_altitude,GPS_speed,GPS_ground_course
H Field G predictor:10,0,7,7,0,0,0
H Field G encoding:1,1,0,0,0,1,1
H Field H name:GPS_home[0],GPS_home[1]
H Field H predictor:0,0
H Field H encoding:0,0
H Firmware revision:Betaflight 4.5.1 (77d01ba3b) STM32F7X2
H minthrottle:1070
H gyro_scale:0x3f800000
H motorOutput:158,2047
H acc_1G:2048
H vbatref:1600
H motor_poles:14
""".encode()


def unsigned(value):
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def signed(value):
    return unsigned((value << 1) ^ (value >> 31) if value < 0 else value << 1)


def tag2_3(values):
    """Two bits say how wide each of three is: 2, 4, 6 bits, or whole bytes."""
    for width, limit in ((0, 2), (1, 8), (2, 32)):
        if all(-limit <= v < limit for v in values):
            a, b, c = values
            if width == 0:
                return bytes([(a & 3) << 4 | (b & 3) << 2 | c & 3])
            if width == 1:
                return bytes([1 << 6 | a & 15, (b & 15) << 4 | c & 15])
            return bytes([2 << 6 | a & 63, b & 255, c & 255])
    sizes = [
        next(n for n in (1, 2, 3, 4) if -(1 << 8 * n - 1) <= v < 1 << 8 * n - 1) for v in values
    ]
    tag = 3 << 6 | sum((n - 1) << 2 * k for k, n in enumerate(sizes))
    return bytes([tag]) + b"".join(
        v.to_bytes(n, "little", signed=True) for v, n in zip(values, sizes, strict=True)
    )


def tag8_4(values):
    """Two bits for each of four: nothing, 4, 8 or 16 bits, the highest first, then filled up."""
    bits, tag = "", 0
    for k, v in enumerate(values):
        size = 0 if v == 0 else next(n for n in (4, 8, 16) if -(1 << n - 1) <= v < 1 << n - 1)
        tag |= {0: 0, 4: 1, 8: 2, 16: 3}[size] << 2 * k
        bits += format(v & ((1 << size) - 1), f"0{size}b") if size else ""
    bits += "0" * (-len(bits) % 8)
    return bytes([tag]) + bytes(int(bits[k : k + 8], 2) for k in range(0, len(bits), 8))


def tag8_8(values):
    tag = sum(1 << k for k, v in enumerate(values) if v)
    return bytes([tag]) + b"".join(signed(v) for v in values if v)


def intra(f):
    out = b"I" + unsigned(f[0]) + unsigned(f[1]) + b"".join(map(signed, f[2:8]))
    out += unsigned(f[8] - 1070) + unsigned((1600 - f[9]) & 0x3FFF)
    out += b"".join(map(signed, f[10:17]))
    return out + unsigned(f[17] - 158) + signed(f[18] - f[17]) + unsigned(f[19]) + unsigned(f[20])


def inter(f, a, b):
    """A frame, the one before it, and the one before that."""
    step = [x - y for x, y in zip(f, a, strict=True)]
    mean = [x - int((y + z) / 2) for x, y, z in zip(f, a, b, strict=True)]
    out = b"P" + signed(f[1] - 2 * a[1] + b[1]) + tag2_3(step[2:5]) + tag8_4(step[5:9])
    out += tag8_8(step[9:11]) + b"".join(map(signed, mean[11:19]))
    return out + b"".join(map(signed, step[19:21]))


def frames(count, seed=3, first_us=1000):
    """Random ones, whose changes need every width."""
    rng = np.random.default_rng(seed)
    rows = []
    for k in range(count):
        wide = int(rng.choice([1, 5, 20, 100, 3000]))
        row = [k, first_us + 500 * k + int(rng.integers(0, 20))]
        row += rng.integers(-wide, wide + 1, 3).tolist()
        row += [*rng.integers(-wide, wide + 1, 3).tolist(), 1100 + int(rng.integers(0, 900))]
        row += [1500 + int(rng.integers(0, 90)), int(rng.integers(-5, 2000))]
        row += rng.integers(-2000, 2000, 6).tolist()
        row += rng.integers(160, 2000, 2).tolist() + rng.integers(0, 2000, 2).tolist()
        rows.append(row)
    return rows


def written(rows, every=32):
    out, a, b = [], None, None
    for k, row in enumerate(rows):
        if k % every == 0:
            out.append(intra(row))
            a = b = row
        else:
            out.append(inter(row, a, b))
            a, b = row, a
    return out


def read(path):
    with open_bag(path) as bag:
        log = read_log(bag, "/quad", with_imu=True)
        told = {
            name: list(map(bag.deserialize, bag.messages([f"/quad/{name}"])))
            for name in ("battery_state", "gps/fix", "gps/vel")
        }
    return log, log.notes, told


def test_every_frame_is_what_was_written(tmp_path):
    rows = frames(100)
    parts = written(rows)
    # a beep, home, a fix behind the tenth frame, and the end
    parts.insert(10, b"E\x00" + unsigned(4711))
    parts.insert(11, b"H" + signed(473977418) + signed(85455938))
    parts.insert(
        12, b"G" + unsigned(7) + unsigned(11) + signed(120) + signed(-340) + signed(4880)
        + unsigned(250) + unsigned(900),
    )  # fmt: skip
    path = tmp_path / "btfl_001.bbl"
    path.write_bytes(HEADER + b"".join(parts) + b"E\xffEnd of log\x00" + b"\x00" * 50)
    log, notes, told = read(path)
    assert not [note for note in notes if "damaged" in note]
    table = np.array(rows)
    assert log.imu.stamp_ns.tolist() == (1000 * table[:, 1]).tolist()
    np.testing.assert_allclose(log.imu.w_S, np.radians(table[:, 11:14]))
    np.testing.assert_allclose(log.imu.f_S, table[:, 14:17] * 9.80665 / 2048)
    electrical = table[:, 19:21] * 100 / 60 * 2 * math.pi
    np.testing.assert_allclose(log.motor_speed_radps, electrical / 7)
    battery = told["battery_state"][0]
    assert (battery.voltage, battery.current) == pytest.approx(
        (0.01 * rows[0][9], -0.01 * rows[0][10])
    )
    (fix,), (speed,) = told["gps/fix"], told["gps/vel"]
    assert fix.header.stamp.sec * 10**9 + fix.header.stamp.nanosec == 1000 * (rows[9][1] + 7)
    assert (fix.latitude, fix.longitude) == pytest.approx((47.3977538, 8.5455598), abs=1e-9)
    assert fix.altitude == pytest.approx(488.0)
    assert speed.twist.twist.linear.x == pytest.approx(2.5)  # to the east, by its course of 90 deg


def test_behind_damage_it_goes_on_with_the_next_whole_frame(tmp_path):
    """Noise in the 40th frame: lost are it, the one whose end it was, and all up to the 64th."""
    rows = frames(100)
    parts = written(rows)
    parts[40] = b"\x07\x03" + parts[40][2:]
    path = tmp_path / "btfl_001.bbl"
    path.write_bytes(HEADER + b"".join(parts))
    log, notes, _ = read(path)
    assert any("damaged at" in note for note in notes)
    kept = [1000 * row[1] for k, row in enumerate(rows) if not 39 <= k < 64]
    assert log.imu.stamp_ns.tolist() == kept


def test_a_clock_of_32_bits_runs_over_and_of_two_logs_the_longer_is_read(tmp_path):
    rows = frames(80, first_us=(1 << 32) - 20_000)
    rows = [[row[0], row[1] % (1 << 32), *row[2:]] for row in rows]
    path = tmp_path / "all.bbl"
    path.write_bytes(HEADER + b"".join(written(frames(3))) + HEADER + b"".join(written(rows, 1)))
    log, notes, _ = read(path)
    assert any("2 logs; the longest is read" in note for note in notes)
    assert len(log.imu.stamp_ns) == 80
    assert np.all(np.abs(np.diff(log.imu.stamp_ns) - 500_000) < 20_000)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (
            b"H Field P encoding:9",
            b"H Field P encoding:77",
            r"encodings that are not known: \[77\]",
        ),
        (b"H Data version:2", b"H Data version:1", "encodings that are not known"),
        (b"H Field P predictor:6,", b"H Field P predictor:", "other numbers"),
        (b"H Field P", b"H Field Q", "does not say its fields"),
        (b"gyroADC[2]", b"gyroXXX[2]", r"blackbox log is damaged, or of a form .*\(ValueError: "),
    ],
)
def test_a_header_that_makes_no_sense_is_refused(before, after, words, tmp_path):
    path = tmp_path / "btfl_001.bbl"
    path.write_bytes(HEADER.replace(before, after) + b"".join(written(frames(3))))
    with pytest.raises(InputError, match=words):
        read(path)


def test_a_header_alone_is_refused(tmp_path):
    path = tmp_path / "btfl_001.bbl"
    path.write_bytes(HEADER)
    with pytest.raises(InputError, match="no whole frame"):
        read(path)


@pytest.mark.parametrize(
    ("line", "scale"),
    [
        (b"H gyro.scale:0x3d79db23", 0.061),  # Cleanflight: deg/s of a unit
        (b"H Firmware type:Baseflight\nH gyro.scale:0x30924335", math.degrees(1.0642e-9 * 1e6)),
    ],
)
def test_gyroscopes_of_older_firmware_are_in_their_units(line, scale, tmp_path):
    rows, path = frames(10), tmp_path / "old.bbl"
    header = HEADER.replace(b"H gyro_scale:0x3f800000", line).replace(b"gyroADC", b"gyroData")
    path.write_bytes(header + b"".join(written(rows)))
    log, _, _ = read(path)
    rates = np.radians(np.array(rows)[:, 11:14] * scale)
    np.testing.assert_allclose(log.imu.w_S, rates, rtol=1e-4)


def test_an_accelerometer_that_is_switched_off_measures_nothing(tmp_path):
    """Betaflight writes acc_1G 0 then; its fields, and all others, are counted."""
    rows, path = frames(10), tmp_path / "off.bbl"
    path.write_bytes(HEADER.replace(b"acc_1G:2048", b"acc_1G:0") + b"".join(written(rows)))
    with open_bag(path) as bag:
        log = read_log(bag, "/quad", with_imu=True)
        unread = bag.unread
    assert np.isnan(log.imu.f_S).all()
    assert unread["accSmooth (acc_1G or all of it is 0: switched off)"] == 10
    assert unread["control.motor"] == 10
