"""ULog, DataFlash, TUM and EuRoC: tiny logs by writers of the formats' definitions."""

import json
import struct

import numpy as np
import pytest
from click.testing import CliRunner
from firmware_logs import STAMPS_US, DataFlashWriter, UlogWriter
from transforms3d.euler import euler2mat, euler2quat
from transforms3d.quaternions import mat2quat, quat2mat

from quadsim.bag.log import read_log
from quadsim.bag.reading import format_of, open_bag
from quadsim.base.errors import InputError
from quadsim.cli import main

#: NED axes in ENU and FRD axes in FLU, as columns.
NED = np.array([[0, 1, 0], [1, 0, 0], [0, 0, -1.0]])
FRD = np.diag([1.0, -1, -1])
#: Of the body FLU in ENU, and what follows for firmware.
R_WB = euler2mat(0.1, -0.2, 0.7)
Q_NED_FRD = mat2quat(NED.T @ R_WB @ FRD)
P_W, V_W = np.array([1.0, 2.0, 3.0]), np.array([0.5, -0.25, 0.125])
F_B, W_B, M_B = np.array([0.1, 0.2, 9.8]), np.array([0.3, -0.2, 0.1]), np.array([2e-5, 1e-5, -4e-5])


@pytest.fixture
def ulog(tmp_path):
    writer, path = UlogWriter(), tmp_path / "flight.ulg"
    writer.parameter("EKF2_ACC_NOISE", 0.35)
    writer.parameter("EKF2_GPS_P_NOISE", 0.5)
    writer.parameter("MC_ROLL_P", 6.5)
    writer.topic(
        "sensor_combined", "float[3] gyro_rad;float[3] accelerometer_m_s2", "6f",
        [*FRD @ W_B, *FRD @ F_B],
    )  # fmt: skip
    writer.topic("vehicle_magnetometer", "float[3] magnetometer_ga", "3f", FRD @ M_B * 1e4)
    writer.topic("vehicle_air_data", "float baro_pressure_pa", "f", [95000.0])
    writer.topic("vehicle_attitude", "float[4] q", "4f", Q_NED_FRD)
    writer.topic(
        "vehicle_local_position",
        "float x;float y;float z;float vx;float vy;float vz;double ref_lat;double ref_lon;"
        "float ref_alt",
        "6f2df", [*NED.T @ P_W, *NED.T @ V_W, 47.4, 8.5, 488.0],
    )  # fmt: skip
    writer.write(path)
    return path


def check_estimate(track):
    np.testing.assert_allclose(track.p_W, np.tile(P_W, (len(track), 1)), atol=1e-5)
    np.testing.assert_allclose(track.v_W, np.tile(V_W, (len(track), 1)), atol=1e-5)
    np.testing.assert_allclose(quat2mat(track.q_WB[0]), R_WB, atol=1e-5)


def test_a_ulog_is_read_as_a_bag(ulog):
    with open_bag(ulog) as bag:
        log = read_log(bag, "/quad", with_imu=True)
    np.testing.assert_allclose(log.imu.f_S, np.tile(F_B, (20, 1)), atol=1e-5)
    np.testing.assert_allclose(log.imu.w_S, np.tile(W_B, (20, 1)), atol=1e-6)
    assert (log.imu.stamp_ns == STAMPS_US * 1000).all()
    check_estimate(log.estimates["px4"])
    assert log.topics["imu/static_pressure"] == 20


def test_a_ulog_that_is_cut_is_read_as_far_as_it_goes(ulog):
    whole = ulog.read_bytes()
    ulog.write_bytes(whole[:-1000])
    log = format_of(ulog).read(ulog)
    assert 10 < max(topic.count for topic in log.facts.topics) <= 20
    ulog.write_bytes(whole[:30])
    with pytest.raises(InputError, match=r"no ULog that can be read|no message"):
        format_of(ulog).read(ulog)


def test_the_noise_that_ekf2_was_told_is_that_of_a_replay(ulog):
    """0.35 m/s^2 a step of 10 ms is 0.035 m/s^2/sqrt(Hz); PX4's own estimate is scored beside."""
    pytest.importorskip("pyulog")
    called = CliRunner().invoke(main.main, ["replay", str(ulog), "--parameters", "--json"])
    summary = json.loads(called.stdout)
    assert list(summary["estimators"]) == ["px4"]  # ours has no fix to start with
    assert called.exit_code == 1
    notes = "\n".join(summary["notes"])
    assert "as logged: noise.accel_density 0.035" in notes
    assert "as logged: noise.gnss_position_sigma_m [0.5, 0.5, 0.75]" in notes
    assert "eskf: never started" in str(notes)
    set_by_user = ["--set", "noise.accel_density=0.2"]
    called = CliRunner().invoke(
        main.main, ["replay", str(ulog), "--parameters", "--json", *set_by_user]
    )
    assert "noise.accel_density" not in "".join(json.loads(called.stdout)["notes"])


def test_a_bag_that_states_no_noise_is_refused(circle_bag):
    called = CliRunner().invoke(main.main, ["replay", str(circle_bag), "--parameters"])
    assert called.exit_code == 2
    assert "--parameters: it states none of its filter; a ULog does" in called.stderr


@pytest.fixture
def dataflash(tmp_path):
    writer, path = DataFlashWriter(), tmp_path / "00000001.BIN"
    writer.message(
        1, "IMU", "QBffffff", "TimeUS,I,GyrX,GyrY,GyrZ,AccX,AccY,AccZ",
        [0, *FRD @ W_B, *FRD @ F_B],
    )  # fmt: skip
    writer.message(2, "MAG", "QBfff", "TimeUS,I,MagX,MagY,MagZ", [0, *FRD @ M_B * 1e7])
    writer.message(3, "BARO", "QBff", "TimeUS,I,Alt,Press", [0, 1.0, 95000.0])
    writer.message(
        4, "XKF1", "QBfffffffff", "TimeUS,C,Roll,Pitch,Yaw,VN,VE,VD,PN,PE,PD",
        [0, *rotation_deg(), *NED.T @ V_W, *NED.T @ P_W],
    )  # fmt: skip
    writer.message(
        5, "GPS", "QBBLLfffff", "TimeUS,I,Status,Lat,Lng,Alt,Spd,GCrs,VZ,Yaw",
        [0, 3, 474000000, 85000000, 488.0, 2.0, 90.0, -0.5, 0.0],
    )  # fmt: skip
    path.write_bytes(writer.data)
    return path


def rotation_deg():
    """Roll, pitch and yaw of FRD in NED, degrees."""
    R = quat2mat(Q_NED_FRD)
    angles = (np.arctan2(R[2, 1], R[2, 2]), -np.arcsin(R[2, 0]), np.arctan2(R[1, 0], R[0, 0]))
    return np.degrees(angles)


def test_a_dataflash_log_is_read_as_a_bag(dataflash):
    pytest.importorskip("pymavlink")
    with open_bag(dataflash) as bag:
        log = read_log(bag, "/quad", with_imu=True)
    np.testing.assert_allclose(log.imu.f_S, np.tile(F_B, (20, 1)), atol=1e-5)
    np.testing.assert_allclose(log.imu.w_S, np.tile(W_B, (20, 1)), atol=1e-6)
    check_estimate(log.estimates["ardupilot"])
    assert log.topics["gps/vel"] == 20


def test_a_dataflash_log_before_2015_counts_milliseconds(tmp_path):
    """ArduCopter 3.2: TimeMS, of a fix that of the week, and EKF1."""
    pytest.importorskip("pymavlink")
    writer, path = DataFlashWriter(), tmp_path / "171.bin"
    imu = "TimeMS,GyrX,GyrY,GyrZ,AccX,AccY,AccZ"
    writer.message(1, "IMU", "Iffffff", imu, [*FRD @ W_B, *FRD @ F_B], 1000)
    writer.message(
        2, "EKF1", "Ifffffffff", "TimeMS,Roll,Pitch,Yaw,VN,VE,VD,PN,PE,PD",
        [*rotation_deg(), *NED.T @ V_W, *NED.T @ P_W], 1000,
    )  # fmt: skip
    writer.message(
        3, "GPS", "IBLLffffI", "T,Status,Lat,Lng,Alt,Spd,GCrs,VZ,TimeMS",
        [3, 474000000, 85000000, 488.0, 2.0, 90.0, -0.5, 77], 1000,
    )  # fmt: skip
    path.write_bytes(writer.data)
    with open_bag(path) as bag:
        log = read_log(bag, "/quad", with_imu=True)
        fixes = [message.log_ns for message in bag.messages(["/quad/gps/fix"])]
    assert (log.imu.stamp_ns == STAMPS_US * 1000).all()
    assert fixes == (STAMPS_US * 1000).tolist()
    check_estimate(log.estimates["ardupilot"])


def test_what_is_no_dataflash_log_is_refused(tmp_path):
    pytest.importorskip("pymavlink")
    path = tmp_path / "empty.bin"
    path.write_bytes(b"\0" * 500)
    with pytest.raises(InputError, match="no DataFlash log: it does not begin with a format"):
        format_of(path).read(path)


def test_telemetry_is_read_as_a_bag(tmp_path):
    """Messages by pymavlink's own packing, with a break of some bytes in the middle."""
    mavlink = pytest.importorskip("pymavlink.dialects.v20.ardupilotmega")
    link, content = mavlink.MAVLink(None, 1, 1), b""
    f, w = FRD @ F_B / 9.80665e-3, FRD @ W_B * 1e3
    roll, pitch, yaw = np.radians(rotation_deg())
    for i, stamp_us in enumerate(STAMPS_US):
        for message in (
            mavlink.MAVLink_scaled_imu_message(0, *np.rint([*f, *w]).astype(int), 0, 0, 0),
            mavlink.MAVLink_attitude_message(0, roll, pitch, yaw, *FRD @ W_B),
            mavlink.MAVLink_local_position_ned_message(0, *NED.T @ P_W, *NED.T @ V_W),
            mavlink.MAVLink_gps_raw_int_message(
                0, 3, 474000000, 85000000, 488000, 100, 100, 200, 9000, 12
            ),
        ):
            content += struct.pack(">Q", stamp_us) + message.pack(link)
        content += b"noise" if i == 9 else b""
    path = tmp_path / "flight.tlog"
    path.write_bytes(content)
    with open_bag(path) as bag:
        log = read_log(bag, "/quad", with_imu=True)
    np.testing.assert_allclose(log.imu.f_S, np.tile(F_B, (20, 1)), atol=6e-3)
    np.testing.assert_allclose(log.imu.w_S, np.tile(W_B, (20, 1)), atol=6e-4)
    check_estimate(log.estimates["autopilot"])
    assert (log.imu.stamp_ns == STAMPS_US * 1000).all()
    assert any("5 bytes are no message" in note for note in log.notes)
    path.write_bytes(b"\xff" * 8 + content[8:] + content[:10])  # a wild stamp, and cut in a head
    with open_bag(path) as bag:
        assert (read_log(bag, "/quad", with_imu=True).imu.stamp_ns == STAMPS_US[1:] * 1000).all()
    path.write_bytes(struct.pack(">Q", 1_700_000_000_000_000) + content[8:])
    assert format_of(path.rename(tmp_path / "flight.log")).name == "tlog"


def test_a_trajectory_of_tum_is_the_truth(tmp_path):
    path = tmp_path / "truth.tum"
    q = euler2quat(0.1, 0.2, 0.3)
    lines = [f"{100 + 0.1 * i} 1 2 {i} {q[1]} {q[2]} {q[3]} {q[0]}" for i in range(5)]
    path.write_text("# timestamp tx ty tz qx qy qz qw\n" + "\n".join(lines) + "\n")
    with open_bag(path) as bag:
        track = read_log(bag, "/quad").truth
    assert track.stamp_ns[1] == 100_100_000_000
    np.testing.assert_allclose(track.p_W[:, 2], np.arange(5))
    np.testing.assert_allclose(track.q_WB[2], q)
    path.write_text("1 2 3\n")
    with pytest.raises(InputError, match="3 numbers in a line; TUM's have 8"):
        format_of(path).read(path)


def test_a_sequence_of_euroc_is_read(tmp_path):
    imu, truth = (tmp_path / "mav0" / name for name in ("imu0", "state_groundtruth_estimate0"))
    for folder in (imu, truth):
        folder.mkdir(parents=True)
    q = mat2quat(R_WB)
    stamps = [1403636580838555648 + 5_000_000 * i for i in range(10)]
    imu_row = ",".join(map(str, [*W_B, *F_B]))
    truth_row = ",".join(map(str, [*P_W, *q, *V_W, *[0.0] * 6]))
    (imu / "data.csv").write_text("#timestamp\n" + "".join(f"{s},{imu_row}\n" for s in stamps))
    (truth / "data.csv").write_text("#stamp\n" + "".join(f"{s},{truth_row}\n" for s in stamps))
    with open_bag(tmp_path) as bag:
        log = read_log(bag, "/quad", with_imu=True)
    assert log.imu.stamp_ns.tolist() == stamps
    np.testing.assert_allclose(log.imu.f_S, np.tile(F_B, (10, 1)))
    check_estimate(log.truth)
