"""Topics of the graph: name, type, quality of service and who publishes them, in one table."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

from rclpy.qos import QoSProfile

from quadsim.base.errors import InputError
from quadsim.ros.runtime import qos
from quadsim.sensors import PUBLISHING, SCANNERS, SECONDS, TABLE, topics_of


@dataclass(frozen=True)
class Topic:
    """One topic.

    Attributes:
        name: relative to a vehicle's namespace, or absolute.
        type_name: ``package/msg/Type``.
        offered: quality of service of its publisher.
        wanted: quality of service that our listeners ask for.
        publishers: executables that publish it; empty where only others do, or one may.
        handed: whether it is a stream of one publisher, none of which is latched: nodes of one
            process hand it to each other.
    """

    name: str
    type_name: str
    offered: QoSProfile
    wanted: QoSProfile
    publishers: tuple[str, ...]
    handed: bool = False

    @property
    def message(self) -> Any:
        """The message class."""
        return message_class(self.type_name)


def message_class(type_name: str) -> Any:
    """Class of ``package/msg/Type``.

    Raises:
        ImportError: it is not installed.
    """
    package, kind, name = type_name.split("/")
    try:
        return getattr(import_module(f"{package}.{kind}"), name)
    except (AttributeError, ModuleNotFoundError) as error:
        if isinstance(error, ModuleNotFoundError) and error.name != f"{package}.{kind}":
            raise  # the package is missing
        raise ImportError(f"{package} as it is installed here has no {kind}/{name}") from None


def _topic(
    name: str,
    type_name: str,
    *publishers: str,
    profile: QoSProfile = qos.RELIABLE,
    wanted: QoSProfile | None = None,
    handed: bool = False,
) -> Topic:
    return Topic(name, type_name, profile, wanted or profile, publishers, handed)


_fast = partial(_topic, profile=qos.FAST, handed=True)
_latched = partial(_topic, profile=qos.LATCHED)
#: Of few messages, and within the loop of control like the fast ones.
_stream = partial(_topic, handed=True)
_sensor = partial(_topic, profile=qos.FAST, wanted=qos.SENSOR_INPUT, handed=True)
#: From outside, reliable or not.
_external = partial(_topic, profile=qos.SENSOR_INPUT)
#: Of Gazebo, as ``config/bridge`` names it: into ROS reliable, but no one depends on it.
_bridged = partial(_topic, profile=qos.FAST, wanted=qos.SENSOR_INPUT)


CLOCK = _topic("/clock", "rosgraph_msgs/msg/Clock", "dynamics", "swarm", profile=qos.CLOCK)
DATUM = _latched("/datum", "sensor_msgs/msg/NavSatFix", "dynamics", "gazebo_adapter", "swarm")
DIAGNOSTICS = _topic(
    "/diagnostics",
    "diagnostic_msgs/msg/DiagnosticArray",
    "dynamics", *PUBLISHING, "estimator", "autopilot", "mixer", "recorder", "description",
    "gazebo_adapter", "gazebo_view", "guard", "swarm",
)  # fmt: skip
TRUTH = _fast("ground_truth/odom", "nav_msgs/msg/Odometry", "dynamics", "gazebo_adapter", "swarm")
ACCEL = _fast("ground_truth/accel", "geometry_msgs/msg/AccelStamped", "dynamics")
MOTOR_SPEED = _stream("motor_speed", "sensor_msgs/msg/JointState", "dynamics")
LOAD = _topic("ground_truth/load", "geometry_msgs/msg/PointStamped")
WIND = _stream("wind", "geometry_msgs/msg/Vector3Stamped", "dynamics")
# sets the mean wind of the world; for whoever knows it better
WIND_INPUT = _topic("/wind", "geometry_msgs/msg/Vector3Stamped")
# all that was spawned, or that whoever has no dynamics wants rays to meet
OBSTACLES = _latched("/obstacles", "visualization_msgs/msg/MarkerArray")
EXTERNAL_WRENCH = _topic("external_wrench", "geometry_msgs/msg/WrenchStamped")
CONTACT = _latched("contact", "std_msgs/msg/Bool", "dynamics")
EVENTS = _topic(
    "events", "diagnostic_msgs/msg/DiagnosticStatus",
    "dynamics", "autopilot", "mixer", "guard", "swarm", "gazebo_view", profile=qos.EVENTS,
)  # fmt: skip
BATTERY = _topic("battery_state", "sensor_msgs/msg/BatteryState", "dynamics")
#: Of the sensors. Those of scanners need not be there; few are queued, as they are large.
SENSORS = {
    topic.name: (
        _topic(topic.name, topic.type_name, wanted=qos.best_effort(qos.RELIABLE))
        if kind in SCANNERS
        else _sensor(topic.name, topic.type_name, kind)
    )
    for kind in (*TABLE, *SECONDS)
    for topic in topics_of(kind)
}
IMU_RAW_1 = SENSORS["imu_1/data_raw"]
IMU_RAW, SCAN, POINTS = SENSORS["imu/data_raw"], SENSORS["scan"], SENSORS["points"]
VISUAL_ODOMETRY = SENSORS["odometry/visual"]
IMU = _sensor("imu/data", "sensor_msgs/msg/Imu", "estimator")
DEPTH, DEPTH_INFO = SENSORS["camera/depth/image_rect_raw"], SENSORS["camera/depth/camera_info"]
DEPTH_POINTS, SEGMENTATION = SENSORS["camera/depth/points"], SENSORS["camera/segmentation"]
MAGNETIC_FIELD, PRESSURE = SENSORS["imu/mag"], SENSORS["imu/static_pressure"]
GPS_FIX, GPS_VELOCITY, RANGE = SENSORS["gps/fix"], SENSORS["gps/vel"], SENSORS["range/down"]
OPTICAL_FLOW = SENSORS["flow/down"]
ODOMETRY = _fast("odometry/filtered", "nav_msgs/msg/Odometry", "estimator", "swarm")
# the same at the rate of the position loop; within the graph, in no bag
ODOMETRY_SAMPLED = _fast("odometry/sampled", "nav_msgs/msg/Odometry", "estimator")
# what others know of the vehicle: motion capture in one of three forms, and whether it stands
EXTERNAL_POSE = _external("external/pose", "geometry_msgs/msg/PoseWithCovarianceStamped")
EXTERNAL_POSE_STAMPED = _external("external/pose_stamped", "geometry_msgs/msg/PoseStamped")
EXTERNAL_ODOMETRY = _external("external/odom", "nav_msgs/msg/Odometry")
# of base_link in its own axes, by a DVL or an odometry whose pose nobody wants
EXTERNAL_VELOCITY = _external("external/velocity", "geometry_msgs/msg/TwistWithCovarianceStamped")
# what a real vehicle's own autopilot estimates, as its driver gives it
AUTOPILOT_ODOMETRY = _fast("odometry/autopilot", "nav_msgs/msg/Odometry")
LANDED = _topic("landed", "std_msgs/msg/Bool")
BLIND_ODOMETRY = _topic("odometry/blind", "nav_msgs/msg/Odometry", "estimator")
COMMAND_POSE = _topic("command_pose", "geometry_msgs/msg/PoseStamped")
COMMAND_VELOCITY = _topic(
    "command_velocity", "geometry_msgs/msg/TwistStamped", "autopilot", "planner"
)
# after the guard: what a vehicle may be sent
COMMAND_SAFE = _topic("command_velocity/safe", "geometry_msgs/msg/TwistStamped", "guard")
# where a vehicle will be until it stands if zero is commanded, for the guards of others
GUARD_REACH = _topic("guard/reach", "geometry_msgs/msg/PolygonStamped")
# the same as attitude or body rates with a thrust, where the vehicle takes them
COMMAND_RATES = _topic("command_rates", "trajectory_msgs/msg/MultiDOFJointTrajectory")
ATTITUDE_SAFE = _topic("command_attitude/safe", COMMAND_RATES.type_name)
RATES_SAFE = _topic("command_rates/safe", COMMAND_RATES.type_name)
COMMAND_TRAJECTORY = _topic("command_trajectory", "trajectory_msgs/msg/MultiDOFJointTrajectory")
COMMAND_ATTITUDE = _stream(
    "command_attitude", "trajectory_msgs/msg/MultiDOFJointTrajectory", "autopilot"
)
COMMAND_MOTOR_SPEED = _fast("command_motor_speed", "sensor_msgs/msg/JointState", "mixer")
# a button that is held while the guard may fly; from whoever has one other than a joystick's
DEAD_MAN = _topic("dead_man", "std_msgs/msg/Bool")
# whether the vehicle obeys setpoints, by its driver; when it ceases to, somebody else flies it
OFFBOARD_STATE = _topic("vehicle/offboard_state", "std_msgs/msg/Bool")
# whether the way to the vehicle is in order, as the node driver sees it
VEHICLE_READY = _latched("vehicle/ready", "diagnostic_msgs/msg/DiagnosticStatus")
# that the vehicle's own estimator has reset, in words: its frame is another one from now on
VEHICLE_RESET = _topic("vehicle/reset", "std_msgs/msg/String")
# from a joystick's driver (joy_node of the package joy), or from the node pilot
JOY = _topic("joy", "sensor_msgs/msg/Joy")
REFERENCE = _topic("reference", "geometry_msgs/msg/PoseStamped", "autopilot", "swarm")
MISSION = _latched("mission", "nav_msgs/msg/Path", "autopilot", "swarm")
MISSION_STATUS = _latched(
    "mission/status", "diagnostic_msgs/msg/DiagnosticStatus", "autopilot", "swarm"
)
# where the planner is to fly; a goal alone as RViz gives it
GOALS = _latched("goals", "nav_msgs/msg/Path")
GOAL_POSE = _topic("goal_pose", "geometry_msgs/msg/PoseStamped")
PLANNER_PATH = _latched("planner/path", "nav_msgs/msg/Path", "planner")
PLANNER_STATUS = _latched("planner/status", "diagnostic_msgs/msg/DiagnosticStatus", "planner")
PLANNER_MAP = _latched("planner/map", "nav_msgs/msg/OccupancyGrid", "planner")
PLANNER_MARKERS = _latched("markers/planner", "visualization_msgs/msg/MarkerArray", "planner")
STATE_SOURCE = _latched("state_source", "std_msgs/msg/String", "autopilot")
MARKERS = _latched("markers", "visualization_msgs/msg/MarkerArray", "autopilot")
# URDF; from the node description where another physics than ours flies the vehicle
ROBOT_DESCRIPTION = _latched(
    "robot_description", "std_msgs/msg/String", "dynamics", "description", "swarm"
)
WORLD_MARKERS = _latched("markers/world", "visualization_msgs/msg/MarkerArray", "monitor")
FLIGHT_MARKERS = _topic("markers/flight", "visualization_msgs/msg/MarkerArray", "monitor")

# between ros_gz_bridge and the nodes gazebo_adapter and gazebo_view; no bag needs them
GAZEBO_COMMAND = _bridged("gazebo/command_motor_speed", "actuator_msgs/msg/Actuators")
GAZEBO_ODOMETRY = _bridged("gazebo/odometry", "nav_msgs/msg/Odometry")
GAZEBO_IMU = _bridged("gazebo/imu", "sensor_msgs/msg/Imu")
GAZEBO_MAGNETIC_FIELD = _bridged("gazebo/magnetometer", "sensor_msgs/msg/MagneticField")
GAZEBO_PRESSURE = _bridged("gazebo/air_pressure", "sensor_msgs/msg/FluidPressure")
GAZEBO_NAVSAT = _bridged("gazebo/navsat", "sensor_msgs/msg/NavSatFix")
GAZEBO_RANGE = _bridged("gazebo/range", "sensor_msgs/msg/LaserScan")
GAZEBO_SCAN = _bridged("gazebo/scan", "sensor_msgs/msg/LaserScan")
GAZEBO_POINTS = _bridged("gazebo/points", "sensor_msgs/msg/PointCloud2")
GAZEBO_IMAGE = _bridged("gazebo/image", "sensor_msgs/msg/Image")
GAZEBO_CAMERA_INFO = _bridged("gazebo/camera_info", "sensor_msgs/msg/CameraInfo")
# a camera's, as image_transport names them
_camera = partial(_topic, wanted=qos.SENSOR_INPUT)
IMAGE = _camera("camera/image_raw", "sensor_msgs/msg/Image")
CAMERA_INFO = _camera("camera/camera_info", "sensor_msgs/msg/CameraInfo")

WORLD_TOPICS = (CLOCK, DATUM, DIAGNOSTICS, WIND_INPUT, OBSTACLES)
VEHICLE_TOPICS = (
    TRUTH, ACCEL, LOAD, MOTOR_SPEED, WIND, EXTERNAL_WRENCH, CONTACT, EVENTS, BATTERY,
    *SENSORS.values(), IMU,
    EXTERNAL_POSE, EXTERNAL_POSE_STAMPED, EXTERNAL_ODOMETRY, LANDED,
    ODOMETRY, BLIND_ODOMETRY, AUTOPILOT_ODOMETRY,
    COMMAND_POSE, COMMAND_VELOCITY, COMMAND_SAFE, COMMAND_TRAJECTORY, COMMAND_ATTITUDE,
    COMMAND_MOTOR_SPEED, COMMAND_RATES, ATTITUDE_SAFE, RATES_SAFE, GUARD_REACH,
    JOY, DEAD_MAN, OFFBOARD_STATE,
    VEHICLE_READY, VEHICLE_RESET,
    GOALS, GOAL_POSE, PLANNER_PATH, PLANNER_STATUS, PLANNER_MAP, PLANNER_MARKERS,
    REFERENCE, MISSION, MISSION_STATUS, STATE_SOURCE, MARKERS, WORLD_MARKERS, FLIGHT_MARKERS,
    ROBOT_DESCRIPTION,
)  # fmt: skip


def sampled_truth(kind: str) -> Topic:
    """The truths alone that a sensor needs which samples seldom; within the graph, in no bag."""
    return _fast(f"ground_truth/sampled/{kind}", TRUTH.type_name, "dynamics")


def beside_odometry(name: str) -> Topic:
    """Where an estimator that runs next to the vehicle's own publishes."""
    return _topic(f"odometry/{name}", "nav_msgs/msg/Odometry")


def foreign(text: str, where: str) -> Topic:
    """A topic that the table need not know, of ``NAME TYPE``, taken however it is offered.

    Raises:
        InputError: it is not given so, or the type's package is not installed.
    """
    name, _, type_name = text.partition(" ")
    try:
        message_class(type_name)
    except (ValueError, ImportError, AttributeError):
        raise InputError(
            f"{where}: {text!r}; allowed: NAME TYPE, such as /mavros/local_position/odom"
            " nav_msgs/msg/Odometry"
        ) from None
    return _external(name, type_name)


def full_name(namespace: str, name: str) -> str:
    """Name of a topic or service with its namespace."""
    return name if name.startswith("/") else f"/{namespace.strip('/')}/{name}".replace("//", "/")


def every_topic(namespaces: list[str]) -> Iterator[tuple[str, Topic]]:
    """Full name and description of each topic of a graph."""
    for topic in WORLD_TOPICS:
        yield topic.name, topic
    for namespace in namespaces:
        for topic in VEHICLE_TOPICS:
            yield full_name(namespace, topic.name), topic


#: Topics that nodes publish besides those of the table.
_ALSO = {"/tf": ("estimator",)}


def published_by(table: Mapping[str, Topic], executables: Collection[str]) -> set[str]:
    """Full names of the topics that some nodes publish.

    Args:
        table: full name to topic, as of :func:`every_topic`.
    """
    wanted = set(executables)
    found = {name for name, topic in table.items() if wanted & set(topic.publishers)}
    return found | {name for name, nodes in _ALSO.items() if wanted & set(nodes)}
