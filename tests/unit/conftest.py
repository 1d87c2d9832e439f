"""A flight with known errors, as a bag: messages are made by rosbags, not by what is tested."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pymap3d
import pytest
from rosbags.typesys import Stores, get_typestore

from quadsim.bag.metadata import qos_yaml
from quadsim.bag.writer import BagWriter
from quadsim.sim.log import Arrivals, Event, FlightLog, Innovations, Inside, Track

TYPES = get_typestore(Stores.ROS2_JAZZY)
DATUM = (47.397742, 8.545594, 488.0)
RADIUS_M, RATE_RADPS, HEIGHT_M = 5.0, 0.5, 3.0
OFFSET_W_M = np.array([0.3, 0.0, -0.4])  # 0.5 m in space
YAW_OFFSET_RAD = 0.1
SIGMA_M = (0.1, 0.2, 0.4)
GRAVITY_MPS2 = 9.80665
START_NS = 1_000_000_000


class Row(NamedTuple):
    """One message before it is written."""

    topic: str
    type_name: str
    stamp_ns: int
    payload: bytes


def message(name: str, /, **fields: Any) -> Any:
    """A message of a standard type; fields that are not given are zero."""
    package, kind = name.split("/")
    cls = TYPES.types[f"{package}/msg/{kind}"]
    values = {}
    for field, (node, detail) in TYPES.get_msgdef(f"{package}/msg/{kind}").fields:
        if field in fields:
            values[field] = fields[field]
        elif node.name == "NAME":
            values[field] = message(detail.replace("/msg", ""))
        elif node.name == "BASE":
            values[field] = "" if detail[0] == "string" else 0
        elif node.name == "ARRAY":
            values[field] = np.zeros(detail[1])
        else:
            values[field] = []
    return cls(**values)


def header(stamp_ns: int, frame: str) -> Any:
    stamp = message("builtin_interfaces/Time", sec=stamp_ns // 10**9, nanosec=stamp_ns % 10**9)
    return message("std_msgs/Header", stamp=stamp, frame_id=frame)


def vector(values: Any, kind: str = "Vector3") -> Any:
    x, y, z = (float(value) for value in values)
    return message(f"geometry_msgs/{kind}", x=x, y=y, z=z)


def pose(p_W: Any, yaw: float) -> Any:
    turned = message("geometry_msgs/Quaternion", z=float(np.sin(yaw / 2)), w=float(np.cos(yaw / 2)))
    return message("geometry_msgs/Pose", position=vector(p_W, "Point"), orientation=turned)


def row(topic: str, name: str, stamp_ns: int, content: Any) -> Row:
    type_name = name.replace("/", "/msg/")
    return Row(topic, type_name, stamp_ns, bytes(TYPES.serialize_cdr(content, type_name)))


def motion(t_s: float) -> tuple[np.ndarray, np.ndarray, float]:
    """p_W, v_W and yaw on a level circle, nose along the velocity."""
    angle = RATE_RADPS * t_s
    p_W = np.array([RADIUS_M * np.cos(angle), RADIUS_M * np.sin(angle), HEIGHT_M])
    v_W = RADIUS_M * RATE_RADPS * np.array([-np.sin(angle), np.cos(angle), 0.0])
    return p_W, v_W, angle + np.pi / 2


def odometry(stamp_ns: int, p_W: Any, speed_mps: float, yaw: float, covariance: bool) -> Any:
    """Level flight straight ahead: the twist is in base_link, so its velocity is along x."""
    pose_covariance, twist_covariance = np.zeros((6, 6)), np.zeros((6, 6))
    if covariance:
        pose_covariance[range(6), range(6)] = [*np.square(SIGMA_M), 1e-4, 4e-4, 9e-4]
        twist_covariance[range(3), range(3)] = [0.04, 0.01, 0.09]
    twist = message(
        "geometry_msgs/Twist", linear=vector([speed_mps, 0, 0]), angular=vector([0, 0, RATE_RADPS])
    )
    return message(
        "nav_msgs/Odometry",
        header=header(stamp_ns, "map"),
        child_frame_id="base_link",
        pose=message(
            "geometry_msgs/PoseWithCovariance",
            pose=pose(p_W, yaw),
            covariance=pose_covariance.ravel(),
        ),
        twist=message(
            "geometry_msgs/TwistWithCovariance", twist=twist, covariance=twist_covariance.ravel()
        ),
    )


def sensor_rows(namespace: str, stamp_ns: int, step: int) -> list[Row]:
    """Noiseless sensors of the circle at one 100 Hz step."""
    p_W, v_W, yaw = motion((stamp_ns - START_NS) * 1e-9)
    # towards the centre, which is to the left of the nose
    force = [0.0, RADIUS_M * RATE_RADPS**2, GRAVITY_MPS2]
    imu = message(
        "sensor_msgs/Imu",
        header=header(stamp_ns, "imu_link"),
        orientation_covariance=np.array([-1.0] + [0.0] * 8),
        angular_velocity=vector([0, 0, RATE_RADPS]),
        angular_velocity_covariance=np.diag([1e-6] * 3).ravel(),
        linear_acceleration=vector(force),
        linear_acceleration_covariance=np.diag([1e-4] * 3).ravel(),
    )
    rows = [row(f"{namespace}/imu/data_raw", "sensor_msgs/Imu", stamp_ns, imu)]
    if step % 10 == 0:
        east, north = 0.0, 2.15e-5
        c, s = np.cos(yaw), np.sin(yaw)
        field = [c * east + s * north, -s * east + c * north, -4.3e-5]
        mag = message(
            "sensor_msgs/MagneticField",
            header=header(stamp_ns, "imu_link"),
            magnetic_field=vector(field),
        )
        rows.append(row(f"{namespace}/imu/mag", "sensor_msgs/MagneticField", stamp_ns, mag))
        latitude, longitude, height = pymap3d.enu2geodetic(*p_W, *DATUM)
        fix = message(
            "sensor_msgs/NavSatFix",
            header=header(stamp_ns, "gps_link"),
            latitude=float(latitude),
            longitude=float(longitude),
            altitude=float(height),
            position_covariance=np.diag([0.01, 0.01, 0.04]).ravel(),
            position_covariance_type=2,
        )
        rows.append(row(f"{namespace}/gps/fix", "sensor_msgs/NavSatFix", stamp_ns, fix))
        twist = message(
            "geometry_msgs/TwistWithCovariance",
            twist=message("geometry_msgs/Twist", linear=vector(v_W)),
            covariance=np.diag([0.01] * 6).ravel(),
        )
        velocity = message(
            "geometry_msgs/TwistWithCovarianceStamped",
            header=header(stamp_ns, "map"),
            twist=twist,
        )
        kind = "geometry_msgs/TwistWithCovarianceStamped"
        rows.append(row(f"{namespace}/gps/vel", kind, stamp_ns, velocity))
    return rows


def flight_rows(duration_s: float, namespace: str, datum: bool, truth: bool) -> list[Row]:
    """Messages of the circle: truth, an estimate that is off by a constant, sensors, events."""
    rows = []
    if datum:
        fix = message(
            "sensor_msgs/NavSatFix",
            header=header(START_NS, "map"),
            latitude=DATUM[0],
            longitude=DATUM[1],
            altitude=DATUM[2],
        )
        rows.append(row("/datum", "sensor_msgs/NavSatFix", START_NS, fix))
    armed = message("diagnostic_msgs/DiagnosticStatus", name="mission", message="armed")
    rows.append(row(f"{namespace}/events", "diagnostic_msgs/DiagnosticStatus", START_NS, armed))
    corners = [
        message("geometry_msgs/PoseStamped", header=header(START_NS, "map"), pose=pose(p_W, 0.0))
        for p_W in ([5, 0, 3], [0, 5, 3])
    ]
    path = message("nav_msgs/Path", header=header(START_NS, "map"), poses=corners)
    rows.append(row(f"{namespace}/mission", "nav_msgs/Path", START_NS, path))
    speed_mps = RADIUS_M * RATE_RADPS
    for step in range(round(duration_s * 100)):
        stamp_ns = START_NS + step * 10_000_000
        p_W, _, yaw = motion(step * 0.01)
        rows += sensor_rows(namespace, stamp_ns, step)
        if truth:
            content = odometry(stamp_ns, p_W, speed_mps, yaw, covariance=False)
            topic = f"{namespace}/ground_truth/odom"
            rows.append(row(topic, "nav_msgs/Odometry", stamp_ns, content))
        guess = odometry(stamp_ns, p_W + OFFSET_W_M, speed_mps, yaw + YAW_OFFSET_RAD, True)
        topic = f"{namespace}/odometry/filtered"
        rows.append(row(topic, "nav_msgs/Odometry", stamp_ns, guess))
        if step % 2 == 0:
            wanted = message(
                "geometry_msgs/PoseStamped",
                header=header(stamp_ns, "map"),
                pose=pose(p_W + np.array([0, 0, 0.2]), yaw),
            )
            kind = "geometry_msgs/PoseStamped"
            rows.append(row(f"{namespace}/reference", kind, stamp_ns, wanted))
            motors = message(
                "sensor_msgs/JointState",
                header=header(stamp_ns, ""),
                name=[f"rotor_{i}" for i in range(4)],
                velocity=np.array([400.0, 410.0, 420.0, 430.0]),
                position=np.zeros(0),
                effort=np.zeros(0),
            )
            kind = "sensor_msgs/JointState"
            rows.append(row(f"{namespace}/motor_speed", kind, stamp_ns, motors))
    return rows


#: Kinds of measurements with their components.
KINDS = {"gnss_position": 3, "gnss_velocity": 3, "magnetic_field": 3, "pressure": 1, "range": 1}


def believed(stamp_ns: np.ndarray, rng: np.random.Generator) -> Inside:
    """What an estimator may believe, out of normal numbers."""
    count = len(stamp_ns)
    found = {}
    for kind, width in KINDS.items():
        at = stamp_ns[::5]
        value = rng.normal(0, 0.5, (len(at), width))
        nis = np.sum((value / 0.5) ** 2, axis=1)
        found[kind] = Innovations(at, value, np.full(value.shape, 0.5), nis, nis < 8.0)
    walk = np.cumsum(rng.normal(0, 1e-5, (count, 6)), axis=0)
    return Inside(stamp_ns, walk[:, :3], walk[:, 3:], np.full((count, 6), 1e-3), found)


def flight_500_hz(duration_s: float, seed: int = 1) -> FlightLog:
    """A flight at 500 Hz, as the graph records it and a replay looks into it."""
    count = round(duration_s * 500)
    rng = np.random.default_rng(seed)
    truth = Track.empty(count)
    truth.stamp_ns[:] = np.arange(count) * 2_000_000
    truth.p_W[:] = np.cumsum(rng.normal(0, 0.01, (count, 3)), axis=0)
    noise = rng.normal(0, 0.05, (count, 3))
    filtered = replace(truth, p_W=truth.p_W + noise, sigma=np.full((count, 9), 0.05))
    return FlightLog(
        scenario="long",
        truth=truth,
        estimates={"filtered": filtered, "blind": truth[::10]},
        reference=truth[::5],
        motor_stamps_ns=truth.stamp_ns,
        motor_speed_radps=rng.normal(500, 20, (count, 4)),
        command_stamps_ns=truth.stamp_ns,
        command_radps=rng.normal(500, 20, (count, 4)),
        gnss=truth[::50],
        ground_m=np.sin(truth.p_W[:, 0]) - 1.0,
        events=[Event(second * 10**9, second % 3, "a", "b") for second in range(8)],
        inside={"filtered": believed(truth.stamp_ns, rng)},
        arrivals={
            "imu/data_raw": Arrivals(1000, 500.0, np.array([[10**8, 2 * 10**8]]), 2, 3e-4, 2e-3),
            "gps/fix": Arrivals(10, 10.0, np.zeros((0, 2), np.int64), 0, 3e-4, 2e-3),
        },
        topics={"imu/data_raw": count, "gps/fix": 10},
        wall_s=duration_s,
    )


@pytest.fixture
def long_flight() -> Callable[..., FlightLog]:
    """Makes a flight as long as wanted, s, with everything that a report can show."""
    return flight_500_hz


@pytest.fixture(scope="session")
def circle_rows() -> list[Row]:
    """Messages of a 12 s flight."""
    return flight_rows(12.0, "/quad", datum=True, truth=True)


def write(rows: list[Row], path: Path, **custom: str) -> Path:
    profile = qos_yaml()
    with BagWriter(path, custom) as writer:
        for item in rows:
            writer.add(item.topic, item.type_name, profile, item.stamp_ns, item.payload)
    return path


@pytest.fixture(scope="session")
def _circle_original(circle_rows: list[Row], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bags") / "circle"
    return write(circle_rows, path, scenario="circle", seed="7")


@pytest.fixture
def circle_bag(_circle_original: Path, tmp_path: Path) -> Path:
    """A bag of a 12 s flight with known errors; each test has its own."""
    return Path(shutil.copytree(_circle_original, tmp_path / "circle"))


@pytest.fixture
def write_rows(tmp_path: Path) -> Callable[..., Path]:
    """Write chosen messages as a bag of a given name."""

    def writer(rows: list[Row], name: str = "bag", **custom: str) -> Path:
        return write(rows, tmp_path / name, **custom)

    return writer
