"""Standard types by short names, and which of our topics has which."""

from __future__ import annotations

IMU = "sensor_msgs/msg/Imu"
FIX = "sensor_msgs/msg/NavSatFix"
TWIST = "geometry_msgs/msg/TwistWithCovarianceStamped"
MAGNETIC_FIELD = "sensor_msgs/msg/MagneticField"
PRESSURE = "sensor_msgs/msg/FluidPressure"
RANGE = "sensor_msgs/msg/Range"
POSE = "geometry_msgs/msg/PoseStamped"
POSE_WITH_COVARIANCE = "geometry_msgs/msg/PoseWithCovarianceStamped"
ODOMETRY = "nav_msgs/msg/Odometry"
BOOL = "std_msgs/msg/Bool"
#: An optical flow: see ``wire.samples.flow_messages``.
FLOW = TWIST

TWIST_STAMPED = "geometry_msgs/msg/TwistStamped"
GEO_POINT = "geographic_msgs/msg/GeoPointStamped"
SCAN = "sensor_msgs/msg/LaserScan"
POINTS = "sensor_msgs/msg/PointCloud2"
IMAGE = "sensor_msgs/msg/Image"
CAMERA_INFO = "sensor_msgs/msg/CameraInfo"
NUMBERS = "std_msgs/msg/Float64MultiArray"

#: Before the name of an own sensor's topic, whose log time is the stamp of the sample.
OWN_SENSORS = "sensor/"

#: Our topics whose type is fixed; what else a file names keeps the driver's type.
OURS = {
    "imu/data_raw": IMU,
    "imu/data": IMU,
    "imu/mag": MAGNETIC_FIELD,
    "imu/static_pressure": PRESSURE,
    "gps/fix": FIX,
    "gps/vel": TWIST,
    "gps/heading": IMU,
    "range/down": RANGE,
    "flow/down": FLOW,
    "external/pose": POSE_WITH_COVARIANCE,
    "external/pose_stamped": POSE,
    "external/odom": ODOMETRY,
    "ground_truth/odom": ODOMETRY,
    "/datum": FIX,
    "vehicle/offboard_state": BOOL,
}
_ESTIMATES = "odometry/"


def our_type(ours: str, type_name: str) -> str:
    """Type that one of our topics has; of a topic that is not in the table, the driver's."""
    return OURS.get(ours, ODOMETRY if ours.startswith(_ESTIMATES) else type_name)
