"""Logs of other releases and autopilots, and what of a log no topic takes: nothing is dropped."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest
from click.testing import CliRunner
from firmware_logs import STAMPS_US, DataFlashWriter, UlogWriter

from quadsim.bag.log import read_log
from quadsim.bag.measurements import heard_of
from quadsim.bag.reading import format_of, open_bag
from quadsim.bag.unread import unread_notes
from quadsim.base.errors import InputError
from quadsim.cli.main import main
from quadsim.wire.decode import decode

IMU, MAG = "sensor_msgs/msg/Imu", "sensor_msgs/msg/MagneticField"
PRESSURE, FIX = "sensor_msgs/msg/FluidPressure", "sensor_msgs/msg/NavSatFix"
TWIST, RANGE = "geometry_msgs/msg/TwistWithCovarianceStamped", "sensor_msgs/msg/Range"
OLD_COMBINED = (
    "float[3] gyro_rad;float gyro_integral_dt;int32_t accelerometer_timestamp_relative;"
    "float[3] accelerometer_m_s2;float accelerometer_integral_dt;"
    "int32_t magnetometer_timestamp_relative;float[3] magnetometer_ga;"
    "int32_t baro_timestamp_relative;float baro_alt_meter;float baro_temp_celcius"
)
RELATIVE_TIMESTAMP_INVALID = 2**31 - 1


def block(bag, topic, kind):
    return decode(kind, [message.payload for message in bag.messages([topic])])


def read(path):
    """Blocks by short names, and the notes that a user sees."""
    kinds = {"imu/data_raw": IMU, "imu/mag": MAG, "imu/static_pressure": PRESSURE, "gps/fix": FIX,
             "gps/vel": TWIST, "range/down": RANGE, "flow/down": TWIST}  # fmt: skip
    with open_bag(path) as bag:
        blocks = {
            n: block(bag, f"/quad/{n}", k) for n, k in kinds.items() if f"/quad/{n}" in bag.counts
        }
        return blocks, "\n".join([*bag.notes, *unread_notes(bag)]), bag.custom


@pytest.fixture
def old_ulog(tmp_path):
    """PX4 1.7: all devices in sensor_combined, with times of their own, 5 of 20 new."""
    writer = UlogWriter()
    height = lambda k: 500.0 + k // 4  # noqa: E731
    writer.topic(
        "sensor_combined", OLD_COMBINED, "3ffi3ffi3fiff",
        lambda k: [0.1, 0.2, 0.3, 0.004, 0, 0.0, 0.0, -9.8, 0.004, -1000 - 100_000 * (k % 4),
                   0.2, 0.0, 0.4, -2000 - 100_000 * (k % 4) if k else RELATIVE_TIMESTAMP_INVALID,
                   height(k), 20.0],
    )  # fmt: skip
    return writer, tmp_path / "old.ulg"


def test_sensors_of_an_old_sensor_combined_are_read_at_their_own_times(old_ulog):
    writer, path = old_ulog
    writer.write(path)
    blocks, notes, _ = read(path)
    assert len(blocks["imu/data_raw"]) == 20
    assert blocks["imu/mag"].stamp_ns.tolist() == (STAMPS_US[::4] * 1000 - 1_000_000).tolist()
    assert blocks["imu/mag"]["m"][0] == pytest.approx([2e-5, 0.0, -4e-5])
    # ICAO's atmosphere at 500 and 504 m (Doc 7488): 954.61 and 954.15 hPa
    pressure = blocks["imu/static_pressure"]["pressure"]
    assert pressure[[0, -1]] == pytest.approx([95461.0, 95415.0], abs=5.0)
    assert "by the standard atmosphere" in notes
    assert "sensor_combined.baro_temp_celcius 20" in notes


@pytest.mark.parametrize("unit", [1.0, 100.0], ids=["hPa before 1.14", "Pa"])
def test_a_barometers_own_topic_is_taken_before_its_height(old_ulog, unit):
    writer, path = old_ulog
    writer.topic("sensor_baro", "float pressure;float altitude", "2f", [954.0 * unit, 500.0])
    writer.write(path)
    blocks, notes, _ = read(path)
    assert blocks["imu/static_pressure"]["pressure"] == pytest.approx(np.full(20, 95400.0))
    assert "sensor_baro.altitude 20" in notes


def test_a_local_position_that_is_not_valid_is_no_estimate(old_ulog):
    writer, path = old_ulog
    writer.topic("vehicle_attitude", "float[4] q", "4f", [1.0, 0.0, 0.0, 0.0])
    writer.topic(
        "vehicle_local_position", "float x;float y;float z;float vx;float vy;float vz;"
        "bool xy_valid;bool z_valid;bool v_xy_valid;bool v_z_valid", "6f4B",
        lambda k: [k, 0.0, 0.0, 0.0, 0.0, 0.0, k >= 10, 1, k >= 12, 1],
    )  # fmt: skip
    writer.write(path)
    with open_bag(path) as bag:
        track = read_log(bag, "/quad").estimates["px4"]
        notes = "\n".join(unread_notes(bag))
    assert track.p_W[:, 1].tolist() == list(range(10, 20))
    assert np.isnan(track.v_W[:2]).all()
    assert np.isfinite(track.v_W[2:]).all()
    assert "vehicle_local_position (not valid) 10" in notes


def test_what_no_topic_takes_is_named_with_counts(old_ulog):
    writer, path = old_ulog
    writer.topic("optical_flow", "float x", "f", [1.0])
    nothing = [0.0, 0.0, 0.0, 0.0, 0, 0.0, 0.0, 0.0, 0.0, 0, 0.0, 0.0, 0.0, 0, 0.0, 0.0]
    writer.topic("sensor_combined", OLD_COMBINED, "3ffi3ffi3fiff", nothing, instance=1)
    writer.topic("cpuload", "float load", "f", [1.0])
    writer.topic(
        "distance_sensor", "float min_distance;float max_distance;float current_distance;"
        "float variance;int8_t signal_quality;uint8_t type;float h_fov;uint8_t orientation",
        "4fbBfB", lambda k: [0.1, 10.0, 2.0, 0.0, 100, 0, 0.0, 25 if k < 15 else 0],
    )  # fmt: skip
    writer.write(path)
    called = CliRunner().invoke(
        main, ["convert", str(path), "--output", str(path.with_suffix(".bag_")), "--json"]
    )
    result = json.loads(called.stdout)
    assert result["topics"]["/quad/range/down"] == 15
    assert result["unread"]["distance_sensor (does not look down)"] == 5
    read_line, other = (n for n in result["notes"] if "not read" in n)
    for part in (
        ": of a release that is not known) 20",
        "sensor_combined[1] 20",
        "distance_sensor (does not look down) 5",
    ):
        assert part in read_line
    assert "cpuload 20" in other


@pytest.mark.parametrize("release", ["1.13", "1.14"])
def test_an_optical_flow_of_px4_is_turned_to_our_axes(old_ulog, release):
    """Forward at 1 m/s over 1 m: about y, to the right down; quality 0 is no measurement."""
    writer, path = old_ulog
    of_14 = "uint64_t timestamp_sample;float[2] pixel_flow;float[3] delta_angle;"
    of_14 += "uint32_t integration_timespan_us;uint8_t quality"
    of_13 = "float pixel_flow_x_integral;float pixel_flow_y_integral;float gyro_x_rate_integral;"
    of_13 += "float gyro_y_rate_integral;float gyro_z_rate_integral;uint32_t integration_timespan;"
    of_13 += "uint8_t quality"
    values = [0.01, 0.05, 0.001, 0.002, 0.003, 50_000]
    if release == "1.14":
        writer.topic(
            "vehicle_optical_flow", of_14, "Q5fIB", lambda k: [0, *values, 255 if k < 15 else 0]
        )
    else:
        writer.topic("optical_flow", of_13, "5fIB", lambda k: [*values, 255 if k < 15 else 0])
    writer.write(path)
    flow = read(path)[0]["flow/down"]
    assert flow["v"][:15] == pytest.approx(np.tile([0.01, -0.05, 0.05], (15, 1)))
    assert np.isnan(flow["v"][15:, :2]).all()
    assert flow["w"][0] == pytest.approx([0.001, -0.002, -0.003])
    assert flow["covariance"][0, 2, 2] == 1.0


def test_an_optical_flow_of_ardupilot_is_a_turn_since_the_one_before(tmp_path):
    pytest.importorskip("pymavlink")
    writer, path = DataFlashWriter(), tmp_path / "flow.bin"
    writer.message(
        1, "OF", "QBffff", "TimeUS,Qual,flowX,flowY,bodyX,bodyY",
        lambda k: [200 if k else 0, 0.1, 0.5, 0.01, 0.02],
    )  # fmt: skip
    path.write_bytes(writer.data)
    flow = read(path)[0]["flow/down"]
    step_s = np.diff(flow.stamp_ns).mean() * 1e-9
    assert flow["v"][1:] == pytest.approx(
        np.tile([0.1 * step_s, -0.5 * step_s, step_s], (len(flow) - 1, 1))
    )
    assert np.isnan(flow["v"][0, :2]).all()
    assert flow["w"][1] == pytest.approx([0.01 * step_s, -0.02 * step_s, 0.0])


def test_null_island_is_no_fix_and_the_date_is_the_receivers(old_ulog):
    """Before it knows, a receiver says 0, 0 and 1980; then Zurich on 2017-10-08."""
    writer, path = old_ulog
    begin_us = 1_507_500_000_000_000
    writer.topic(
        "vehicle_gps_position", "uint64_t time_utc_usec;int32_t lat;int32_t lon;int32_t alt;"
        "int32_t alt_ellipsoid;float s_variance_m_s;uint8_t fix_type;float eph;float epv;"
        "float vel_n_m_s;float vel_e_m_s;float vel_d_m_s;bool vel_ned_valid", "Q4ifB5f?",
        lambda k: [begin_us + int(STAMPS_US[k]) if k > 4 else 315_964_800_000_000,
                   473_977_420 * (k > 4), 85_455_940 * (k > 4), 488_000, 535_000, 0.1, 3, 1.0, 1.0,
                   0.0, 0.0, 0.0, True],
    )  # fmt: skip
    writer.write(path)
    blocks, notes, custom = read(path)
    assert (blocks["gps/fix"]["status"] >= 0).tolist() == [False] * 5 + [True] * 15
    assert "5 fixes at 0, 0 or nowhere" in notes
    assert custom["recorded"].startswith("2017-10-08")
    with open_bag(path) as bag:
        assert heard_of(bag, "/quad", None).date_year == pytest.approx(2017.77, abs=0.01)


def test_values_beyond_sense_are_marked_and_counted(tmp_path):
    writer, path = UlogWriter(), tmp_path / "wild.ulg"
    writer.topic(
        "sensor_combined", "float[3] gyro_rad;float[3] accelerometer_m_s2", "6f",
        lambda k: [0.0, 0.0, 0.0, 0.0, 0.0, -9.8 if k % 10 else 1e30],
    )  # fmt: skip
    writer.write(path)
    blocks, notes, _ = read(path)
    assert np.flatnonzero(np.isnan(blocks["imu/data_raw"]["f"]).any(axis=1)).tolist() == [0, 10]
    assert "imu/data_raw: 2 messages with f beyond sense" in notes


OLD_TEXT = """

ArduCopter V3.0.1 (5c6503e2)
FMT, 128, 89, FMT, BBnNZ, Type,Length,Name,Format
FMT, 129, 23, PARM, Nf, Name,Value
FMT, 130, 35, GPS, BIBcLLeeEe, Status,Time,NSats,HDop,Lat,Lng,RelAlt,Alt,Spd,GCrs
FMT, 131, 27, IMU, ffffff, GyrX,GyrY,GyrZ,AccX,AccY,AccZ
FMT, 4, 25, CTUN, hcefhhhhh, ThrIn,SonAlt,BarAlt,WPAlt,NavThr,AngBst,CRate,ThrOut,DCRate
"""


def test_a_text_log_of_2013_is_read_and_what_has_no_time_is_counted(tmp_path):
    """ArduCopter 3.0.1: a banner before the formats, no week, no vertical velocity, no times."""
    pytest.importorskip("pymavlink")
    path, lines = tmp_path / "2013-08-01.log", []
    for k in range(20):
        lines.append(
            f"GPS, 3, {594593000 + 200 * k}, 9, 1.5, 47.3977, 8.5456, 1.0, 488.0, 2.0, 90.0"
        )
        lines.append("IMU, 0.1, 0.2, 0.3, 0.0, 0.0, -9.8")
        lines.append("CTUN, 0, 0.5, 1.0, 0, 0, 0, 0, 0, 0")
    path.write_text(OLD_TEXT + "\n".join(lines) + "\n")
    blocks, notes, _ = read(path)
    assert np.diff(blocks["gps/fix"].stamp_ns).tolist() == [200_000_000] * 19
    assert blocks["gps/vel"]["v"][3] == pytest.approx([2.0, 0.0, 0.0], abs=1e-9)
    assert blocks["gps/vel"]["covariance"][3, 2, 2] > 1e3  # nobody says the vertical one
    assert "IMU (without a time) 20" in notes
    assert "CTUN.SonAlt/BarAlt 20" in notes


@pytest.mark.parametrize(
    ("columns", "codes", "values", "taken"),
    [
        ("TimeUS,Dist1,Dist2", "Qff", lambda k: [7.5, 3.0], 20),
        ("TimeUS,Dist1,Orient1,Dist2,Orient2", "QfBfB", lambda k: [7.5, 25 * (k > 4), 3.0, 25], 15),
        ("TimeUS,Dist1,Stat1,Orient1", "QfBB", lambda k: [7.5, 4 - (k < 5), 25], 15),
        ("TimeUS,Instance,Dist,Stat,Orient", "QBfBB", lambda k: [k % 2, 7.5, 4, 25], 10),
    ],
    ids=["3.3", "3.5", "3.6", "4.0"],
)
def test_range_finders_of_every_release_are_read(tmp_path, columns, codes, values, taken):
    pytest.importorskip("pymavlink")
    writer, path = DataFlashWriter(), tmp_path / "range.bin"
    writer.message(1, "RFND", codes, columns, values)
    path.write_bytes(writer.data)
    blocks, notes, _ = read(path)
    assert blocks["range/down"]["range"] == pytest.approx(np.full(taken, 7.5))
    if taken < 20:
        assert any(f"{words} {20 - taken}" in notes for words in
                   ("(does not look down)", "(without data)", "RFND[1]"))  # fmt: skip


def test_a_dataflash_log_says_its_date_and_noise_is_counted(tmp_path, capfd):
    """Week 1970 of the GPS began on 2017-10-08; 600 bytes of noise are one line, not many."""
    pytest.importorskip("pymavlink")
    writer, path = DataFlashWriter(), tmp_path / "dated.bin"
    writer.message(
        1, "GPS", "QBIHLLffff", "TimeUS,Status,GMS,GWk,Lat,Lng,Alt,Spd,GCrs,VZ",
        [3, 1000, 1970, 474000000, 85000000, 488.0, 2.0, 90.0, -0.5],
    )  # fmt: skip
    writer.message(2, "MAG2", "Qf", "TimeUS,MagX", [1.0])
    path.write_bytes(writer.data + b"\x07" * 600 + writer.data[-23:] * 40)
    _, notes, custom = read(path)
    assert custom["recorded"].startswith("2017-10-08")
    assert "MAG2 " in notes
    assert "places that are no message" in notes
    assert capfd.readouterr() == ("", "")


def telemetry(path, autopilot, *messages):
    """A log of telemetry: a heartbeat, and each message twenty times."""
    mavlink = pytest.importorskip("pymavlink.dialects.v20.ardupilotmega")
    link, content = mavlink.MAVLink(None, 1, 1), b""
    link.robust_parsing = True
    beat = mavlink.MAVLink_heartbeat_message(2, autopilot, 0, 0, 4, 3)
    for k, stamp_us in enumerate(1_500_000_000_000_000 + STAMPS_US):
        for message in (beat, *(make(mavlink, k) for make in messages)):
            content += struct.pack(">Q", int(stamp_us)) + message.pack(link)
    path.write_bytes(content)
    return path


def raw_imu(mavlink, k):
    return mavlink.MAVLink_raw_imu_message(0, 0, 0, -1000, 100, 200, 300, 200, 0, 400)


def test_ardupilots_raw_imu_is_scaled_and_others_are_counted(tmp_path):
    """GCS_MAVLINK::send_raw_imu: mG, mrad/s, mgauss; of another autopilot nobody knows."""
    blocks, _, _ = read(telemetry(tmp_path / "ardupilot.tlog", 3, raw_imu))
    assert blocks["imu/data_raw"]["f"][0] == pytest.approx([0.0, 0.0, 9.80665])
    assert blocks["imu/data_raw"]["w"][0] == pytest.approx([0.1, -0.2, -0.3])
    assert blocks["imu/mag"]["m"][0] == pytest.approx([2e-5, 0.0, -4e-5])
    path = telemetry(tmp_path / "other.tlog", 12, raw_imu)
    with pytest.raises(InputError, match=r"RAW_IMU \(units only this autopilot knows\) 20"):
        format_of(path).read(path)


@pytest.mark.parametrize(("autopilot", "pressure"), [(3, 950.0), (12, 95000.0), (12, 950.0)])
def test_highres_imu_is_read_whose_ever_it_is(tmp_path, autopilot, pressure):
    """Its pressure is in hPa, PX4's up to 1.14 in Pa; what is not updated is no new sample."""

    def highres(mavlink, k):
        return mavlink.MAVLink_highres_imu_message(
            0, 0.0, 0.0, -9.8, 0.1, 0.2, 0.3, 0.2, 0.0, 0.4, pressure, 0.0, 0.0, 20.0,
            0xFFFF if k % 4 == 0 else 0x3F,
        )  # fmt: skip

    path = telemetry(tmp_path / "highres.tlog", autopilot, highres, raw_imu)
    blocks, notes, _ = read(path)
    assert blocks["imu/data_raw"]["f"][0] == pytest.approx([0.0, 0.0, 9.8])
    assert blocks["imu/mag"]["m"] == pytest.approx(np.tile([2e-5, 0.0, -4e-5], (5, 1)))
    assert blocks["imu/static_pressure"]["pressure"] == pytest.approx(np.full(5, 95000.0))
    assert "RAW_IMU" in notes


def test_ranges_of_telemetry_are_those_that_look_down(tmp_path):
    def distance(mavlink, k):
        orientation = 25 if k < 15 else 0
        return mavlink.MAVLink_distance_sensor_message(0, 20, 700, 250, 0, 0, orientation, 0)

    blocks, notes, _ = read(telemetry(tmp_path / "range.tlog", 3, distance))
    assert blocks["range/down"]["range"] == pytest.approx(np.full(15, 2.5))
    assert "DISTANCE_SENSOR (does not look down) 5" in notes


@pytest.mark.parametrize("rad", [True, False])
def test_flows_of_telemetry_are_in_our_axes(tmp_path, rad):
    """Forward is up about y of FRD; 0 is no quality; rates hold since the message before."""

    def flow(mavlink, k):
        quality = 200 if k < 15 else 0
        if rad:
            turn = (0.001, 0.002, 0.003)
            return mavlink.MAVLink_optical_flow_rad_message(
                0, 0, 50_000, 0.01, 0.05, *turn, 2000, quality, 0, -1.0
            )
        return mavlink.MAVLink_optical_flow_message(0, 0, 3, 4, 0.0, 0.0, quality, -1.0, 0.1, 0.5)

    flows = read(telemetry(tmp_path / "flow.tlog", 3, flow))[0]["flow/down"]
    step_s = 0.05 if rad else 0.1
    seen = [0.01, -0.05, 0.05]
    expected = seen if rad else [0.1 * step_s, -0.5 * step_s, step_s]
    assert flows["v"][:15] == pytest.approx(np.tile(expected, (15, 1)))
    assert np.isnan(flows["v"][15:, :2]).all()
    if rad:
        assert flows["w"][0] == pytest.approx([0.001, -0.002, -0.003])


def test_a_flow_in_pixels_alone_is_counted(tmp_path):
    """Of MAVLink 1: nobody knows what a pixel of its lens is."""

    def flow(mavlink, k):
        return mavlink.MAVLink_optical_flow_message(0, 0, 3, 4, 0.0, 0.0, 200, -1.0)

    _, notes, _ = read(telemetry(tmp_path / "pixels.tlog", 3, raw_imu, flow))
    assert "OPTICAL_FLOW (without rates: pixels of a lens that nobody knows) 20" in notes


def test_a_csvs_ragged_rows_and_a_mats_cells_are_counted(tmp_path):
    from scipy import io

    path = tmp_path / "flight.csv"
    path.write_text("t,x,gyro_extra\n0,1,2\n1,2,3\n2,3\n")
    entry = "entries:\n  - {topic: wind, field: v, columns: [x]}\n"
    beside = f"description: d\nformat: csv\ntime: t\n{entry}"
    path.with_name("flight.csv.columns.yaml").write_text(beside.replace("[x]", "[x, x, x]"))
    with open_bag(path) as bag:
        notes = "\n".join(unread_notes(bag))
    assert "rows (of another number of columns) 1" in notes
    assert "gyro_extra 2" in notes
    path = tmp_path / "flight.mat"
    rows = np.tile(np.arange(3.0)[:, None], (1, 2))
    io.savemat(path, {"log": rows, "cells": np.array([[1], "a"], dtype=object)})
    beside = beside.replace("csv", "matlab").replace("time: t", "time: '0'")
    path.with_name("flight.mat.columns.yaml").write_text(beside.replace("[x]", "['1', '1', '1']"))
    with open_bag(path) as bag:
        assert "cells (no matrix of numbers)" in "\n".join(unread_notes(bag))


def test_a_ulog_in_which_pyulog_turns_in_circles_ends(tmp_path):
    """A message of type 0 that claims 257 bytes where 3 are left: it seeks back, and again."""
    pytest.importorskip("pyulog")
    key = b"char[231] sys_name"
    body = bytes([len(key)]) + key + b"x" * 231
    path = tmp_path / "circles.ulg"
    path.write_bytes(
        b"ULog\x01\x12\x35\x01" + struct.pack("<Q", 0) + struct.pack("<Hc", 40, b"B") + bytes(40)
        + struct.pack("<Hc", len(body), b"I") + body + b"\x01\x01\x00abc"
    )  # fmt: skip
    with pytest.raises(InputError, match="no message in this PX4 ULog"):
        format_of(path).read(path)


def test_a_height_above_the_ellipsoid_that_is_never_set_gives_way_to_that_above_sea(tmp_path):
    """PX4's simulation before 1.12."""
    writer, path = UlogWriter(), tmp_path / "sitl.ulg"
    writer.topic(
        "vehicle_gps_position", "int32_t lat;int32_t lon;int32_t alt;int32_t alt_ellipsoid;"
        "float s_variance_m_s;uint8_t fix_type;float eph;float epv;float vel_n_m_s;"
        "float vel_e_m_s;float vel_d_m_s;bool vel_ned_valid", "4ifB5f?",
        [473_977_420, 85_455_940, 488_123, 0, 0.1, 3, 1.0, 1.0, 0.0, 0.0, 0.0, True],
    )  # fmt: skip
    writer.write(path)
    blocks, notes, _ = read(path)
    assert blocks["gps/fix"]["height_m"] == pytest.approx(np.full(20, 488.123))
    assert "alt_ellipsoid is always 0" in notes


def test_a_format_of_no_length_does_not_keep_the_index_where_it_is(tmp_path):
    """A damaged FMT says that its messages have 0 bytes: pymavlink would index them for ever."""
    pytest.importorskip("pymavlink")
    writer, path = DataFlashWriter(), tmp_path / "damaged.bin"
    writer.message(1, "BARO", "Qf", "TimeUS,Press", [95000.0])
    whole = writer.data
    writer.message(2, "IMU", "Qf", "TimeUS,GyrX", [0.0])
    bad = bytearray(writer.data[len(whole) :])
    bad[4] = 0
    path.write_bytes(whole + bytes(bad))
    blocks, _, _ = read(path)
    assert len(blocks["imu/static_pressure"]) == 20
