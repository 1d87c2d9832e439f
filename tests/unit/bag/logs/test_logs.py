"""Logs of other formats read as bags: what a writer of the tests puts in comes out."""

import numpy as np
import pytest
from click.testing import CliRunner
from flown import FLIGHTS, usd_log
from scipy import io
from scipy.spatial.transform import Rotation

from quadsim.bag.log import read_log
from quadsim.bag.logs import crazyflie_usd
from quadsim.bag.reading import open_bag
from quadsim.bag.unread import unread_notes
from quadsim.base.errors import InputError
from quadsim.cli.main import main
from quadsim.wire.decode import decode

RATES = ("gyro.x", "gyro.y", "gyro.z")
RPM = tuple(f"rpm.m{i}" for i in range(1, 5))
POSE = tuple(f"locSrv.{name}" for name in ("x", "y", "z", "qx", "qy", "qz", "qw"))


@pytest.fixture
def usd(tmp_path):
    """Path of a log of 20 rows: rates in deg/s, speeds in 1/min and a pose every other row."""
    variables = [(name, "f") for name in RATES] + [(name, "H") for name in RPM]
    rows = [(1000 * k, 90.0, 0.0, -180.0, 6000, 12000, 18000, 24000 + k) for k in range(20)]
    half = np.sqrt(0.5)
    poses = [(2000 * k + 7, 1.0, 2.0, 0.1 * k, 0.0, 0.0, half, half) for k in range(10)]
    path = tmp_path / "log00"
    pose = ("estPose", [(name, "f") for name in POSE], poses)
    path.write_bytes(usd_log([("fixedFrequency", variables, rows), pose]))
    return path


def rows_of(path, topic, kind):
    with open_bag(path) as bag:
        return decode(kind, [message.payload for message in bag.messages([topic])])


def test_a_usd_log_is_read_in_si_units(usd):
    imu = rows_of(usd, "/quad/imu/data_raw", "sensor_msgs/msg/Imu")
    assert imu["w"] == pytest.approx(np.tile([np.pi / 2, 0.0, -np.pi], (20, 1)))
    assert imu.stamp_ns[3] == 3_000_000
    with open_bag(usd) as bag:
        log = read_log(bag, "/quad")
    assert log.motor_speed_radps[0] == pytest.approx(2 * np.pi * np.array([100, 200, 300, 400]))
    assert log.truth.p_W[:, 2] == pytest.approx(0.1 * np.arange(10))
    assert log.truth.q_WB[0] == pytest.approx([np.sqrt(0.5), 0, 0, np.sqrt(0.5)])
    assert log.truth.stamp_ns[1] == 2_007_000


def test_columns_that_no_topic_takes_are_said(tmp_path):
    """A flow's shutter has no topic; what another table has of the same name is taken."""
    gyro = [(f"gyro.{axis}", "f") for axis in "xyz"]
    flow = [("motion.shutter", "h"), ("motion.squal", "h")]
    fast = [(1000 * k, 0.0, 0.0, 1.0) for k in range(9)]
    tables = [("imu", gyro, fast), ("slow", [gyro[0], ("baro.temp", "f")], [(0, 0.0, 20.0)])]
    path = tmp_path / "log"
    path.write_bytes(usd_log([*tables, ("estFlow", flow, [(0, 1, 2)])]))
    with open_bag(path) as bag:
        (note,) = unread_notes(bag)
    assert note == "in the file but not read: baro.temp 1, motion.shutter/squal 1"


def test_a_flow_decks_counts_are_turns_of_the_ground(tmp_path):
    """Forward motion over 10 ms and a gap of a count that was not logged; firmware's constants."""
    gyro = [(f"gyro.{axis}", "f") for axis in "xyz"]
    flow = [("motion.deltaX", "h"), ("motion.deltaY", "h")]
    counts = [(10_000 * k, 2, -35) for k in (0, 1, 2, 4)]
    path = tmp_path / "log"
    path.write_bytes(usd_log([("imu", gyro, [(0, 0.0, 0.0, 0.0)]), ("estFlow", flow, counts)]))
    rows = rows_of(path, "/quad/flow/down", "geometry_msgs/msg/TwistWithCovarianceStamped")
    assert rows["v"] == pytest.approx(np.tile([-0.0040957, -0.071674, 0.01], (4, 1)), rel=1e-4)
    assert np.isnan(rows["w"]).all()
    assert not rows["covariance"].any()


def test_messages_of_all_tables_come_in_order(usd):
    with open_bag(usd) as bag:
        log_ns = [message.log_ns for message in bag.messages(bag.types)]
    assert log_ns == sorted(log_ns)


@pytest.mark.thorough
def test_crazyflies_logs_are_read_to_the_last_event():
    """The counts of Bitcraze's cfusdlog.py; docs/logs.md."""
    paths = [*FLIGHTS.glob("crazyflie_rpm/*/*"), *FLIGHTS.glob("bitcraze_flow/*")]
    logs = [path for path in paths if path.read_bytes()[:1] == b"\xbc"]
    if not logs:
        pytest.skip(f"the logs are not in {FLIGHTS}")
    notes, events, values = [], 0, 0
    for path in logs:
        for table in crazyflie_usd.read_tables(path, notes).values():
            events += len(table.stamp_ns)
            values += sum(map(len, table.columns.values()))
    assert (len(logs), events, values, notes) == (52, 424_901, 7_309_288, [])


def test_a_cut_log_is_read_as_far_as_it_goes(usd):
    usd.write_bytes(usd.read_bytes()[:-60])
    with open_bag(usd) as bag:
        assert bag.counts["/quad/ground_truth/odom"] == 8
        assert any("checksum" in note for note in bag.notes)


def test_a_log_that_is_none_is_refused(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"\xbc\x07\x00\x00\x00")
    with pytest.raises(InputError, match="header"), open_bag(path):
        pass


def compressed(q_xyzw):
    """The firmware's ``quatcompress``, number by number."""
    largest = int(np.argmax(np.abs(q_xyzw)))
    negate = q_xyzw[largest] < 0
    packed = largest
    for part in range(4):
        if part != largest:
            bit = int((q_xyzw[part] < 0) != negate)
            size = int(511 * abs(q_xyzw[part]) / np.sqrt(0.5) + 0.5)
            packed = packed << 10 | bit << 9 | size
    return packed


def test_compressed_attitudes_are_those_that_went_in(tmp_path):
    attitudes = Rotation.random(50, rng=1)
    names = [("stateEstimateZ.x", "h"), ("stateEstimateZ.y", "h"), ("stateEstimateZ.z", "h")]
    rows = [(k, 0, 0, 1500, compressed(q)) for k, q in enumerate(attitudes.as_quat())]
    path = tmp_path / "log"
    path.write_bytes(usd_log([("fixedFrequency", [*names, ("stateEstimateZ.quat", "I")], rows)]))
    block = rows_of(path, "/quad/odometry/compressed", "nav_msgs/msg/Odometry")
    apart = Rotation.from_quat(block["q_xyzw"]) * attitudes.inv()
    assert apart.magnitude().max() < 4e-3  # 9 bits of 0.707: 0.0014 a part
    assert block["p"][:, 2] == pytest.approx(1.5)


MAP = """
description: a table of ours
format: {kind}
time: {time}
time_scale_s: 0.001
entries:
  - {{topic: ground_truth/odom, field: p, columns: {p}, world: ned}}
  - {{topic: ground_truth/odom, field: q_wxyz, columns: {q}, world: ned, body: frd}}
  - {{topic: ground_truth/odom, field: v_W, columns: {v}, world: ned}}
"""


def check_ned(path):
    """North 1, east 2, down 3; yaw 30 deg east of north; flying north at 2 m/s."""
    with open_bag(path) as bag:
        truth = read_log(bag, "/quad").truth
    assert truth.p_W == pytest.approx(np.tile([2.0, 1.0, -3.0], (5, 1)))
    forward_W = Rotation.from_quat(np.roll(truth.q_WB, -1, axis=1)).apply([1.0, 0.0, 0.0])
    assert forward_W == pytest.approx(np.tile([0.5, np.sqrt(0.75), 0.0], (5, 1)))
    assert truth.v_W == pytest.approx(np.tile([0.0, 2.0, 0.0], (5, 1)))
    assert truth.stamp_ns.tolist() == [0, 10_000_000, 20_000_000, 30_000_000, 40_000_000]


def ned_rows():
    half = np.deg2rad(15.0)
    attitude = [np.cos(half), 0.0, 0.0, np.sin(half)]
    return [[10.0 * k, 1.0, 2.0, 3.0, *attitude, 2.0, 0.0, 0.0] for k in range(5)]


def test_a_csv_file_is_read_by_its_map(tmp_path):
    path = tmp_path / "flight.csv"
    names = ["t", "n", "e", "d", "qw", "qx", "qy", "qz", "vn", "ve", "vd"]
    lines = [";".join(names)] + [";".join(f"{x:.17g}" for x in row) for row in ned_rows()]
    path.write_text("\n".join(lines), encoding="utf-8")
    columns = MAP.format(
        kind="csv", time="t", p="[n, e, d]", q="[qw, qx, qy, qz]", v="[vn, ve, vd]"
    )
    (tmp_path / "flight.csv.columns.yaml").write_text(columns, encoding="utf-8")
    check_ned(path)


def test_a_matlab_file_is_read_by_its_map(tmp_path):
    path = tmp_path / "flight.mat"
    io.savemat(path, {"flight": np.array(ned_rows())})
    columns = MAP.format(
        kind="matlab", time='"0"', p='["1", "2", "3"]', q='["4", "5", "6", "7"]',
        v='["8", "9", "10"]',
    )  # fmt: skip
    (tmp_path / "flight.mat.columns.yaml").write_text(columns, encoding="utf-8")
    check_ned(path)


@pytest.mark.filterwarnings("error")
def test_rows_without_a_time_are_left_out_and_counted(tmp_path):
    path = tmp_path / "flight.csv"
    times = ["0", "nan", "10", "1e300", "20"]
    lines = ["t;n;e;d;qw;qx;qy;qz", *(f"{t};1;2;3;1;0;0;0" for t in times)]
    path.write_text("\n".join(lines), encoding="utf-8")
    columns = MAP.format(kind="csv", time="t", p="[n, e, d]", q="[qw, qx, qy, qz]", v="[x]")
    (tmp_path / "flight.csv.columns.yaml").write_text(columns, encoding="utf-8")
    with open_bag(path) as bag:
        assert bag.duration_s == pytest.approx(0.02)
        assert sum(bag.counts.values()) == 3
        assert bag.unread["rows (without a time)"] == 2


def test_a_log_without_a_map_is_refused_with_its_columns(tmp_path):
    path = tmp_path / "flight.csv"
    path.write_text("time,width\n0,1\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"flight.csv.columns.yaml.*time, width"), open_bag(path):
        pass


def test_convert_writes_the_same_messages_as_a_bag(usd, tmp_path):
    target = tmp_path / "bag"
    result = CliRunner().invoke(main, ["convert", str(usd), "--output", str(target)])
    assert result.exit_code == 0, result.output
    with open_bag(usd) as log, open_bag(target) as bag:
        assert list(log.messages(log.types)) == list(bag.messages(bag.types))


@pytest.mark.parametrize(
    ("time", "rates", "words"),
    [
        ("t", "[gx, gy, gz]", ""),
        ("t_s", "[gx, gy, gz]", r"time: t_s: no such column in .*; it has t, ax, ay, az, gx"),
        ("t", "[gx, gyy, gz]", r"entries\[1\]: no column gyy in "),
        ("t", "[gx, gy]", "field w takes 3 columns, not 2"),
        ("t", "[wx, wy, wz]", "imu/data_raw: no column gives w (rates): NaN"),
    ],
)
def test_a_column_map_that_does_not_fit_is_refused_by_its_column(tmp_path, time, rates, words):
    """An IMU whose rates had a misspelt column was written with rates of 0."""
    path = tmp_path / "flight.csv"
    rows = "".join(f"{0.01 * i:.2f},0,0,9.81,0.1,0,0\n" for i in range(20))
    path.write_text("t,ax,ay,az,gx,gy,gz\n" + rows, encoding="utf-8")
    (tmp_path / "flight.csv.columns.yaml").write_text(
        f"description: x\nformat: csv\ntime: {time}\nentries:\n"
        "  - {topic: imu/data_raw, field: f, columns: [ax, ay, az]}\n"
        f"  - {{topic: imu/data_raw, field: w, columns: {rates}}}\n",
        encoding="utf-8",
    )
    if not words or rates == "[wx, wy, wz]":
        with open_bag(path) as bag:
            assert bag.counts["/quad/imu/data_raw"] == 20
            assert words in " ".join(bag.notes)
            first = bag.deserialize(next(bag.messages(["/quad/imu/data_raw"])))
        assert np.isnan(first.angular_velocity.x) == bool(words)
        assert first.linear_acceleration.z == 9.81
        return
    with pytest.raises(InputError, match=words), open_bag(path):
        pass
