"""Parameters of the estimators, most of them the error-state Kalman filter's.

Parameters of the linear GPS/INS filter.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from quadsim.base.parameters import Choice, Spec, Vec3
from quadsim.geometry.axes import refuse_steep_baseline

#: Rejected for so long, a sensor is right and the state is wrong: it is reset, s.
RECOVERY_S = 2.0
#: IMU silent for so long: the filter starts anew, s.
GAP_MAX_S = 1.0
#: How far specific force and angular velocity may change in a gap (sigma), m/s^2.
GAP_ACCEL_MPS2 = 3.0
GAP_RATE_RADPS = 0.5
#: Deviations of the rotation and of the velocity of a standing vehicle, rad/s.
STILL_RATE_RADPS = 0.001
#: First deviation of the tilt in flight without GNSS velocity, deg.
TILT_FLIGHT_DEG = 30.0
#: First deviation of the velocity in flight without GNSS, m/s.
FLIGHT_VELOCITY_SIGMA_MPS = 5.0


#: Where the attitude comes from.
COMPLEMENTARY, EXTERNAL = range(2)
ATTITUDES = ("complementary", "external")

#: Of the floating-point numbers of its inertial navigation.
DOUBLE, SINGLE = range(2)
PRECISIONS = ("double", "single")


@dataclass(frozen=True)
class GpsInsParams:
    """The attitude it is given; noise is that of the messages, or of ``noise`` where unknown."""

    attitude: Annotated[
        Choice,
        Spec("from gyroscope, accelerometer and heading, or the external pose", choices=ATTITUDES),
    ] = "complementary"
    precision: Annotated[
        Choice, Spec("floating-point numbers of the inertial navigation", choices=PRECISIONS)
    ] = "double"
    attitude_sigma_rad: Annotated[
        float, Spec("error of the attitude, each axis", "rad", ge=0.0, le=3.0)
    ] = 0.035
    attitude_correlation_s: Annotated[
        float, Spec("how long that error stays as it is", "s", ge=0.0, le=1000.0)
    ] = 1.0


#: Estimators that the closed loop can fly on.
ERROR_STATE, LINEAR = "eskf", "gps_ins"
FILTERS = (ERROR_STATE, LINEAR)


@dataclass(frozen=True)
class MountingParams:
    """Where the sensors are, in the axes of ``base_link``."""

    imu_position_B_m: Annotated[Vec3, Spec("of the IMU", "m", ge=-10.0, le=10.0)] = (0.0, 0.0, 0.0)
    imu_roll_pitch_yaw_deg: Annotated[
        Vec3, Spec("attitude of the IMU's axes", "deg", ge=-180.0, le=180.0)
    ] = (0.0, 0.0, 0.0)
    imu_sigma_deg: Annotated[
        float, Spec("how well that attitude is known, about each axis", "deg", ge=0.0, le=45.0)
    ] = 0.0
    imu_sigma_m: Annotated[
        float, Spec("how well its position is known, along each axis", "m", ge=0.0, le=10.0)
    ] = 0.0
    antenna_position_B_m: Annotated[Vec3, Spec("of the GNSS antenna", "m", ge=-10.0, le=10.0)] = (
        0.0,
        0.0,
        0.0,
    )
    rangefinder_position_B_m: Annotated[
        Vec3, Spec("of the rangefinder, which looks along -z of base_link", "m", ge=-10.0, le=10.0)
    ] = (0.0, 0.0, 0.0)
    rangefinder_beam_deg: Annotated[
        float, Spec("width of its beam, which sees the nearest ground in it", "deg", ge=0.0, le=90)
    ] = 0.0
    baseline_B_m: Annotated[
        Vec3, Spec("from the first GNSS antenna to the second", "m", ge=-10.0, le=10.0)
    ] = (1.0, 0.0, 0.0)
    flow_position_B_m: Annotated[
        Vec3, Spec("of the optical flow sensor", "m", ge=-10.0, le=10.0)
    ] = (0.0, 0.0, 0.0)
    flow_roll_pitch_yaw_deg: Annotated[
        Vec3, Spec("attitude of its axes; it looks along its -z", "deg", ge=-180.0, le=180.0)
    ] = (0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        """Refuse a baseline that tells no heading."""
        refuse_steep_baseline("baseline_B_m", self.baseline_B_m)


@dataclass(frozen=True)
class SecondParams:
    """The second of two of a kind, in the axes of ``base_link``."""

    imu: Annotated[bool, Spec("there is a second IMU, on imu_1/data_raw")] = False
    imu_position_B_m: Annotated[Vec3, Spec("of the second IMU", "m", ge=-10.0, le=10.0)] = (
        0.0,
        0.0,
        0.0,
    )
    imu_roll_pitch_yaw_deg: Annotated[
        Vec3, Spec("attitude of the second IMU's axes", "deg", ge=-180.0, le=180.0)
    ] = (0.0, 0.0, 0.0)
    gnss: Annotated[bool, Spec("there is a second receiver, on gps_1/fix and gps_1/vel")] = False
    antenna_position_B_m: Annotated[
        Vec3, Spec("of the second receiver's antenna", "m", ge=-10.0, le=10.0)
    ] = (0.0, 0.0, 0.0)
    gnss_correlated_share: Annotated[
        float, Spec("noise.gnss_correlated_share of the second receiver", ge=0.0, le=1.0)
    ] = 0.0
    gnss_correlation_s: Annotated[
        float, Spec("noise.gnss_correlation_s of the second receiver", "s", ge=0.0, le=1e5)
    ] = 60.0
    rangefinder: Annotated[bool, Spec("there is a second range finder, on range_1/down")] = False
    rangefinder_position_B_m: Annotated[
        Vec3, Spec("of the second range finder", "m", ge=-10.0, le=10.0)
    ] = (0.0, 0.0, 0.0)
    rangefinder_beam_deg: Annotated[
        float, Spec("width of the second range finder's beam", "deg", ge=0.0, le=90)
    ] = 0.0
    range_offset_m: Annotated[
        float, Spec("noise.range_offset_m of the second range finder", "m", ge=0.0)
    ] = 0.0
    range_scale: Annotated[
        float, Spec("noise.range_scale of the second range finder", ge=0.0, le=0.5)
    ] = 0.0

    @property
    def any(self) -> bool:
        """Whether there are two of anything."""
        return self.imu or self.gnss or self.rangefinder


@dataclass(frozen=True)
class DelayParams:
    """How much later than its measurement a message is stamped."""

    imu_s: Annotated[
        float, Spec("IMU; what is given out bears the earlier stamps", "s", ge=0.0, le=0.4)
    ] = 0.0
    gnss_s: Annotated[float, Spec("fixes and velocities", "s", ge=0.0, le=0.4)] = 0.0
    magnetic_field_s: Annotated[float, Spec("magnetic field", "s", ge=0.0, le=0.4)] = 0.0
    pressure_s: Annotated[float, Spec("static pressure", "s", ge=0.0, le=0.4)] = 0.0
    range_s: Annotated[float, Spec("range to the ground", "s", ge=0.0, le=0.4)] = 0.0
    external_pose_s: Annotated[float, Spec("external pose and attitude", "s", ge=0.0, le=0.4)] = 0.0
    flow_s: Annotated[
        float, Spec("optical flow; its stamp is the end of its interval", "s", ge=0.0, le=0.4)
    ] = 0.0
    odometry_s: Annotated[float, Spec("external odometry and velocity", "s", ge=0.0, le=0.4)] = 0.0


@dataclass(frozen=True)
class NoiseParams:
    """What the filter assumes where a message states nothing (all zero: unknown), and its walks."""

    accel_density: Annotated[
        float,
        Spec("accelerometer, unknown: propeller vibration", "m/s^2/sqrt(Hz)", gt=0.0, le=10.0),
    ] = 0.4
    gyro_density: Annotated[
        float, Spec("gyroscope, unknown: propeller vibration", "rad/s/sqrt(Hz)", gt=0.0, le=1.0)
    ] = 0.015
    accel_bias_walk: Annotated[
        float, Spec("accelerometer bias", "m/s^3/sqrt(Hz)", ge=0.0, le=1.0)
    ] = 3.0e-3
    gyro_bias_walk: Annotated[float, Spec("gyroscope bias", "rad/s^2/sqrt(Hz)", ge=0.0, le=0.1)] = (
        1.0e-4
    )
    gyro_scale: Annotated[
        float, Spec("gyroscope: error of an axis over its own rate (sigma)", ge=0.0, le=0.5)
    ] = 0.0
    gyro_axes: Annotated[
        float, Spec("gyroscope: the same over another axis's rate (sigma)", ge=0.0, le=0.5)
    ] = 0.0
    accel_scale: Annotated[
        float,
        Spec("accelerometer: error of an axis over its own change from hover", ge=0.0, le=0.5),
    ] = 0.0
    accel_axes: Annotated[
        float, Spec("accelerometer: the same over another axis's (sigma)", ge=0.0, le=0.5)
    ] = 0.0
    pressure_walk: Annotated[
        float, Spec("offset of the pressure's height", "m/s/sqrt(Hz)", ge=0.0, le=10.0)
    ] = 0.02
    heading_sigma_rad: Annotated[
        float, Spec("magnetic heading, unknown", "rad", gt=0.0, le=3.0)
    ] = 0.1
    gnss_position_sigma_m: Annotated[
        Vec3, Spec("GNSS position, unknown", "m", gt=0.0, le=1000.0)
    ] = (1.5, 1.5, 3.0)
    gnss_velocity_sigma_mps: Annotated[
        Vec3, Spec("GNSS velocity, unknown", "m/s", gt=0.0, le=100.0)
    ] = (0.2, 0.2, 0.4)
    pressure_sigma_pa: Annotated[float, Spec("pressure, unknown", "Pa", gt=0.0, le=1e4)] = 12.0
    range_sigma_m: Annotated[float, Spec("range, unknown", "m", gt=0.0, le=100.0)] = 0.05
    range_correlation_s: Annotated[
        float, Spec("how long a range's error stays as it is, where it is no state", "s", ge=0.0)
    ] = 10.0
    range_offset_m: Annotated[
        float, Spec("of a range's variance, the constant part: a state (sigma)", "m", ge=0.0)
    ] = 0.0
    range_scale: Annotated[
        float, Spec("the same, over the range: its error of scale (sigma)", ge=0.0, le=0.5)
    ] = 0.0
    flow_sigma_rad: Annotated[
        float, Spec("optical flow over an interval, unknown: a pixel or two", "rad", gt=0.0, le=1.0)
    ] = 0.003
    flow_share: Annotated[
        float,
        Spec("optical flow: error over the flow itself that stays for a second", ge=0.0, le=1.0),
    ] = 0.0
    field_sigma_T: Annotated[
        float,
        Spec(
            "vertical part of the magnetic field, unknown: chips have 0.04 to 0.3 uT",
            "T",
            gt=0.0,
            le=1e-4,
        ),
    ] = 1e-7
    field_lasting_share: Annotated[
        float,
        Spec("of a field's variance, what stays (offset, scale, axes): a state", ge=0.0, le=1.0),
    ] = 0.0
    field_turned_share: Annotated[
        float, Spec("of a field's variance, what turns it about the vertical", ge=0.0, le=1.0)
    ] = 0.0
    field_scale: Annotated[
        float, Spec("measured field: error of an axis over the field along it", ge=0.0, le=0.5)
    ] = 0.0
    field_axes: Annotated[
        float, Spec("measured field: the same over the field along another axis", ge=0.0, le=0.5)
    ] = 0.0
    field_bias_walk: Annotated[float, Spec("bias of the field", "T/sqrt(s)", ge=0.0, le=1e-5)] = (
        2e-9
    )
    gnss_correlated_share: Annotated[
        float, Spec("of the variance of a GNSS position, correlated: a state", ge=0.0, le=1.0)
    ] = 0.0
    gnss_correlation_s: Annotated[
        float, Spec("how long that share stays as it is", "s", ge=0.0, le=1e5)
    ] = 60.0
    terrain_walk: Annotated[
        float, Spec("terrain height over the distance flown", "m/sqrt(m)", ge=0.0, le=10.0)
    ] = 0.3
    wind_walk: Annotated[float, Spec("wind", "m/s/sqrt(s)", ge=0.0, le=10.0)] = 0.2
    maneuver_mps2: Annotated[
        float, Spec("sigma of the vehicle's horizontal acceleration", "m/s^2", gt=0.0, le=100.0)
    ] = 3.0
    maneuver_correlation_s: Annotated[
        float, Spec("how long an acceleration stays as it is", "s", gt=0.0, le=100.0)
    ] = 2.0
    external_position_sigma_m: Annotated[
        float, Spec("external position, unknown", "m", gt=0.0, le=100.0)
    ] = 0.01
    external_attitude_sigma_rad: Annotated[
        float, Spec("external attitude, unknown", "rad", gt=0.0, le=3.0)
    ] = 0.02
    external_velocity_sigma_mps: Annotated[
        float, Spec("external velocity, unknown", "m/s", gt=0.0, le=100.0)
    ] = 0.1
    odometry_position_sigma_m: Annotated[
        float, Spec("external odometry: white noise of a position", "m", gt=0.0, le=100.0)
    ] = 0.01
    odometry_yaw_sigma_rad: Annotated[
        float, Spec("external odometry: white noise of a yaw", "rad", gt=0.0, le=3.0)
    ] = 0.01
    gnss_heading_sigma_rad: Annotated[
        float, Spec("heading by two GNSS antennas", "rad", gt=0.0, le=3.0)
    ] = 0.02
    gnss_heading_correlation_s: Annotated[
        float, Spec("correlation time of its error; 0: white", "s", ge=0.0, le=1e5)
    ] = 30.0
    odometry_position_walk: Annotated[
        float, Spec("external odometry: drift of its position", "m/sqrt(m)", ge=0.0, le=10.0)
    ] = 0.03
    odometry_yaw_walk: Annotated[
        float, Spec("external odometry: drift of its yaw", "rad/sqrt(m)", ge=0.0, le=1.0)
    ] = 0.005
    odometry_turn_walk: Annotated[
        float, Spec("external odometry: drift of its yaw in turns", "rad/sqrt(rad)", ge=0.0, le=1.0)
    ] = 0.005
    odometry_scale: Annotated[
        float, Spec("external odometry: error of a way over it (sigma)", ge=0.0, le=1.0)
    ] = 0.01


@dataclass(frozen=True)
class FusionParams:
    """What is fused, and how, where there is a choice."""

    magnetic_inclination: Annotated[
        bool, Spec("the field counts in 3-D, with its vertical part")
    ] = True
    gravity_after_s: Annotated[
        float, Spec("fuse gravity's direction where nothing else has held the attitude", "s", ge=0)
    ] = 1.0
    drag_per_s: Annotated[
        float, Spec("rotor drag over mass and speed; 0: not fused", "1/s", ge=0.0, le=10.0)
    ] = 0.0


@dataclass(frozen=True)
class NisParams:
    """Which measurements are fused, and what happens when none is."""

    chi2_1: Annotated[
        float, Spec("largest normalised innovation squared of one number", gt=0.0)
    ] = 15.14
    chi2_3: Annotated[float, Spec("the same of three numbers", gt=0.0)] = 21.11
    range_min_m: Annotated[float, Spec("shortest range that counts", "m", ge=0.0)] = 0.02
    range_max_m: Annotated[float, Spec("longest range that counts", "m", gt=0.0)] = 100.0


@dataclass(frozen=True)
class AlignParams:
    """How the filter starts, standing or in flight; sigmas are of its first covariance."""

    window_s: Annotated[float, Spec("time averaged", "s", gt=0.0, le=60.0)] = 1.0
    require_gnss: Annotated[bool, Spec("wait for a position fix")] = True
    require_heading: Annotated[bool, Spec("wait for the magnetic field")] = True
    gyro_bias_radps: Annotated[float, Spec("sigma before any averaging", "rad/s", gt=0.0)] = 0.02
    accel_bias_mps2: Annotated[
        float, Spec("sigma: 10 mg, a calibrated MEMS sensor", "m/s^2", gt=0.0)
    ] = 0.1
    gnss_time_s: Annotated[
        float,
        Spec("sigma of the time offset of GNSS stamps; 0: they are exact, no state", "s", ge=0.0),
    ] = 0.1
    field_bias_T: Annotated[
        float,
        Spec("sigma of the field's bias; 0: it is calibrated, no state", "T", ge=0.0),
    ] = 0.0
    field_T: Annotated[
        float, Spec("sigma of the reference field; 0: it is taken as exact", "T", ge=0.0)
    ] = 0.0
    lever_arm_m: Annotated[
        float, Spec("sigma of the lever arm, IMU to antenna; 0: known", "m", ge=0.0, le=10.0)
    ] = 0.0
    pressure_scale: Annotated[
        float,
        Spec("sigma of the pressure's height over the way up: air unlike the standard's", ge=0.0),
    ] = 0.07
    position_m: Annotated[float, Spec("sigma without GNSS", "m", gt=0.0)] = 1.0
    local: Annotated[
        bool,
        Spec("go without a fix and a field: map begins where the vehicle stands, x is its nose"),
    ] = False
    flow_scale: Annotated[
        float,
        Spec("sigma of the scale of the optical flow, a state; 0: it is exact", ge=0.0, le=0.5),
    ] = 0.0


@dataclass(frozen=True)
class EstimatorParams:
    """The estimators (files of ``config/estimators``): the error-state filter, and others."""

    filter: Annotated[
        str, Spec("what the closed loop flies on; the graph flies on eskf", choices=FILTERS)
    ] = "eskf"
    gravity_mps2: Annotated[
        float, Spec("gravity at z = 0 of map, downwards", "m/s^2", gt=0.0, le=30.0)
    ] = 9.80665
    gravity_gradient_per_s2: Annotated[
        float, Spec("what gravity loses with each metre up", "1/s^2", ge=0.0, le=1e-3)
    ] = 0.0
    magnetic_field_W_T: Annotated[
        Vec3, Spec("reference field, east, north, up", "T", ge=-1e-3, le=1e-3)
    ] = (0.0, 2.15e-5, -4.3e-5)
    ground_height_m: Annotated[
        float, Spec("height of the flat ground under the rangefinder in map", "m")
    ] = 0.0
    flat_ground: Annotated[
        bool, Spec("the ground is flat and free: what the rangefinder sees is that height")
    ] = True
    mount: MountingParams = field(default_factory=MountingParams)
    second: SecondParams = field(default_factory=SecondParams)
    delay: DelayParams = field(default_factory=DelayParams)
    noise: NoiseParams = field(default_factory=NoiseParams)
    fusion: FusionParams = field(default_factory=FusionParams)
    gate: NisParams = field(default_factory=NisParams)
    start: AlignParams = field(default_factory=AlignParams)
    gps_ins: GpsInsParams = field(default_factory=GpsInsParams)
