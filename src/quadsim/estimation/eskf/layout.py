"""Error state of the filter, its nominal state and what else it remembers: the one layout.

The error state is additive but for the attitude, whose error is a rotation in the WORLD frame:
R_true = exp([theta_W]x) R_nominal. After Sola, *Quaternion kinematics for the error-state Kalman
filter*, 2017, ch. 7 ("global angular errors").

The nominal state lives at the IMU: position and velocity are those of its origin, the attitude is
that of its axes S. Outputs are moved to ``base_link``.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Array, Quaternion, Record, Records, Vector, argument
from quadsim.base.parameters import dtype_of

#: First index of each part of the error state: attitude, velocity, position, gyroscope and
#: accelerometer bias, offset (1 wide) and scale (1) of the pressure's height, time offset of GNSS
#: stamps (1), the correlated part of GNSS positions' error, terrain height (1), bias of the field,
#: reference field, lever arm from IMU to GNSS antenna in the IMU's axes, wind east and north (2),
#: scale of the optical flow (1), of an odometry in a frame of its own where its newest pose lies,
#: that frame's yaw (1) and its scale (1); the others are three wide.
THETA, V, P, BG, BA, PRESSURE, PRESSURE_SCALE, GNSS_TIME = 0, 3, 6, 9, 12, 15, 16, 17
GNSS_BIAS, TERRAIN, FIELD_BIAS, FIELD, ANTENNA, WIND, FLOW_SCALE = 18, 21, 22, 25, 28, 31, 33
FRAME, FRAME_YAW, FRAME_SCALE = 34, 37, 38
#: Size of the error state; of the last parts a filter carries only what its parameters ask for, and
#: those of an odometry from its first message on.
N = 39

#: Sensors, as indices of the per-sensor fields.
(
    GNSS_POSITION, GNSS_VELOCITY, MAGNETIC_FIELD, STATIC_PRESSURE, RANGE, EXTERNAL_POSITION,
    EXTERNAL_ATTITUDE, ZERO_VELOCITY, GRAVITY, DRAG, INCLINATION, OPTICAL_FLOW, EXTERNAL_ODOMETRY,
    ODOMETRY_YAW, EXTERNAL_VELOCITY, GNSS_HEADING,
) = map(argument, range(16))  # fmt: skip
SENSORS = (
    "gnss_position",
    "gnss_velocity",
    "magnetic_field",
    "pressure",
    "range",
    "external_position",
    "external_attitude",
    "zero_velocity",
    "gravity",
    "drag",
    "inclination",
    "optical_flow",
    "external_odometry",
    "odometry_yaw",
    "external_velocity",
    "gnss_heading",
)
#: Those of three numbers that are gated together.
VECTORS = (
    GNSS_POSITION, GNSS_VELOCITY, EXTERNAL_POSITION, EXTERNAL_ATTITUDE, ZERO_VELOCITY,
    EXTERNAL_ODOMETRY, EXTERNAL_VELOCITY,
)  # fmt: skip

#: What a measurement's kernel returns.
REJECTED, ACCEPTED, IGNORED = range(3)

#: Why the filter last started over or recovered.
REASON_NONE, REASON_GNSS_POSITION, REASON_GNSS_VELOCITY, REASON_IMU_GAP = map(argument, range(4))
REASON_NOT_FINITE, REASON_EXTERNAL, REASON_FIELD, REASON_ACCELERATION = map(argument, range(4, 8))
REASON_FLOW, REASON_MOTION, REASON_BASELINE = map(argument, range(8, 11))
REASONS = (
    "",
    "gnss position rejected for too long",
    "gnss velocity rejected for too long",
    "imu gap too long",
    "state not finite",
    "external pose rejected for too long",
    "magnetic field rejected for too long",
    "heading contradicts the acceleration seen by gnss",
    "optical flow rejected for too long",
    "odometry or velocity rejected for too long",
    "heading set by the two antennas of gnss",
)

#: Error state of the reference filters: position, velocity and, one number wide, heading.
POSITION, VELOCITY, YAW = 0, 3, 6
MOTION_SIZE = 7

PerSensor = Annotated[Array, len(SENSORS)]
CountPerSensor = Annotated[NDArray[np.int64], len(SENSORS)]
ErrorState = Annotated[Array, N]


class StartWindow(Record):
    """Sums over the window from which the filter starts.

    ``t`` is the time in the window in s, index 0 the IMU's axes at its beginning.
    """

    start_ns: int
    imu_count: int
    q_0S: Quaternion  # rotation since the beginning, by the gyroscope
    f_integral_0: Vector  # of the specific force, m/s
    f_integral2_0: Vector  # of that, m
    f_sum_S: Vector
    f_square_sum_S: Vector
    w_sum_S: Vector
    f_variance_sum: Vector
    w_variance_sum: Vector
    angle_variance: float
    fix_count: int
    fix_t_sum: float
    fix_t2_sum: float
    fix_sum_W: Vector
    fix_f_integral2_sum_0: Vector
    fix_variance_sum: Vector
    velocity_count: int
    velocity_t_sum: float
    velocity_t2_sum: float
    velocity_sum_W: Vector
    velocity_t_product_W: Vector
    velocity_f_integral_sum_0: Vector
    velocity_f_integral_t_product_0: Vector
    velocity_variance_sum: Vector
    field_count: int
    field_sum_S: Vector
    field_sum_0: Vector
    heading_variance_sum: float
    baseline_0: Vector  # of two antennas, at their newest heading
    baseline_rad: float  # its azimuth, and the variance of that; 0: there is none
    baseline_variance: float


#: Copies of the integral of the specific force, and the time between two of them.
PAST, PAST_STEP_NS = 24, 20_000_000


class Inertial(Record):
    """The IMU alone, in a frame F that no measurement turns.

    F was the world when the filter started, and drifts with what is left of the gyroscope's bias.
    """

    started: int
    q_FS: Quaternion
    f_integral_F: Vector  # of the specific force less its bias, m/s
    way_F: Vector  # integral of that, m
    past_count: int  # of copies ever made; a ring has the last ones
    past_ns: Annotated[NDArray[np.int64], PAST]
    past_F: Annotated[Array, PAST, 3]


class Heading(Record):
    """Evidence outside the filter for its heading: ``estimation.eskf.heading``.

    The sums are of mean horizontal accelerations, seen by the IMU in F (s) and by GNSS in the world
    (z), as complex numbers east + i north; the older, the less they weigh.
    """

    by_position: int  # of GNSS, not by its velocity
    stamp_ns: int  # beginning of the present interval, and what was seen there
    seen_W: Vector
    integral_F: Vector  # of the IMU
    mean_s: float  # the interval before, and its mean velocities
    mean_W: Vector
    mean_F: Vector
    count: float
    age_s: float  # of them all together
    s: Annotated[Array, 2]
    z: Annotated[Array, 2]
    ss: float
    zz: float
    zs: Annotated[Array, 2]  # of z times the conjugate of s
    doubt: float  # variance by the acceleration, which is about to turn the heading
    confirmed: int  # by acceleration, or by a field that agreed in the air
    agreed_s: Annotated[Array, 2]  # for which the field has agreed: on the ground, in the air
    distrusted: int  # the field, after the heading was set against it
    field: Annotated[Array, 2]  # mean direction of the rejected field's innovation
    misfit_T: Annotated[Array, 2]  # mean of what the field is off: level, up
    start_m: float  # height at which the filter started
    accel_bias_variance: float  # at the start


class Scatter(Record):
    """How far the measurements of a kind scatter: see ``gnss.scattered``."""

    innovation: Vector  # the last one, and its change
    change: Vector
    variance: Vector  # of their white noise, as they show it
    count: int  # of late, beyond what they state
    noisy: int


class Eskf(Record):
    """The filter. ``running``: 0 while it aligns, 1 when the estimate is usable."""

    running: int
    n: int  # error states that are carried
    q_BS: Quaternion  # mount of the IMU, and places of the other sensors
    antenna_S: Vector
    rangefinder_S: Vector
    flow_S: Vector
    q_SF: Quaternion  # axes of the optical flow sensor, which looks along its -z
    stamp_ns: int
    imu_stamp_ns: int  # of the newest complete IMU sample
    imu_count: int
    period_s: float  # of the IMU, as it arrives
    started_standing: int
    starts: int
    p_W: Vector
    v_W: Vector
    q_WS: Quaternion
    gyro_bias_S: Vector
    accel_bias_S: Vector
    pressure_offset_m: float
    pressure_started: int
    pressure_scale: float  # of the height above that where the offset was set
    pressure_from_m: float  # the pressure's height there
    gnss_time_s: float  # how much later than the fix its stamp is
    gnss_time_counts: int  # 1: what is given out is that of this offset; -1: it is noted
    terrain_height_m: float
    terrain_started: int
    gnss_bias_W: Vector
    field_bias_S_T: Vector
    field_W_T: Vector
    wind_W_mps: Annotated[Array, 2]
    flow_scale: float  # of what the optical flow sensor reads, over the truth, less one
    covariance: Annotated[Array, N, N]
    turns_unseen: int  # whether the newest rate is not measured
    w_S: Vector  # newest rate as measured
    w_variance: Vector
    f_S: Vector  # newest specific force as measured
    steady_S: Vector  # rate over ten seconds
    turning_S: Vector  # rate, and force less hover's, without their noise
    pushing_S: Vector
    leaning_S: Vector  # such a force over a second; and when it last opened the bias
    leant_S: Vector
    across_W: Vector  # force in the world
    aided_ns: int  # when something that holds the attitude was last accepted
    mean_ns: int  # beginning of the integral below
    f_mean_W: Vector  # of the specific force less its bias, m/s
    inertial: Inertial
    heading: Heading
    innovation: Annotated[Array, len(SENSORS), 3]
    innovation_variance: Annotated[Array, len(SENSORS), 3]
    nis: PerSensor
    nis_sum: PerSensor  # of the accepted
    accepted: CountPerSensor
    rejected: CountPerSensor
    judged: CountPerSensor  # 1: rejected, 2: accepted, by the newest event
    innovation_count: int  # of the log, see ``Timeline``
    rejected_in_row: CountPerSensor
    rejected_since_ns: CountPerSensor
    recoveries: int
    realigning: int  # runs, and fills the window of a new start
    reason: int
    range_ns: int  # newest range that was fused or rejected
    range_m: float
    flow_ns: int  # newest optical flow
    flow_turn_S: Vector  # rotation since then, by the gyroscope
    flow_low_ns: int  # newest one that was left out as the height above the ground is not known
    local: int  # position and heading are counted from the start: no fix and no field told them
    rest_ns: int  # beginning of the sum below, of IMU samples at rest
    rest_count: int
    rest_w_S: Vector
    fix_ns: int  # newest GNSS position
    scatter: Annotated[Records[Scatter], 2]  # of GNSS position and velocity
    field_ns: int  # newest magnetic field
    field_count: int
    field_q_WS: Quaternion  # attitude at that field
    heading_ns: int  # newest one of unknown noise
    heading_count: int
    heading_variance: float  # of their innovations
    baseline_ns: int  # newest heading by two antennas
    strength_error_T: float  # of the field, mean of ten seconds
    pose_ns: int  # newest external position
    pose_p_W: Vector
    pose_variance: Vector
    odometry_ns: int  # newest one; 0: where its frame lies is open
    odometry_p_F: Vector
    odometry_variance: Annotated[Array, 2]  # of position and yaw, as its message states them
    odometry_jumps: int  # how often its frame was found anew in flight
    frame_p_W: Vector  # where the newest pose lies, by the odometry alone
    frame_yaw: float  # of its frame F in the world
    frame_scale: float  # what a way is longer by than in the odometry
    velocity_fix_ns: int  # newest one, accepted or not; for the recovery
    velocity_fix_W: Vector
    velocity_fix_variance: Vector
    alignment: StartWindow
    H: Annotated[Array, 3, N]  # working memory of an update; of a scalar h, P h^T and the gain
    h: ErrorState
    ph: ErrorState
    K: ErrorState
    before: ErrorState
    half: ErrorState
    correction: ErrorState
    heading_moved_rad: float  # by corrections, since they last turned what is fixed in the IMU
    field_moved_T: Vector  # the reference field, since its error last followed the attitude's
    # for the smoother: how corrections have turned the attitude's error and the errors of what is
    # fixed in the IMU, and changed that of the field; which states were set anew
    turned: Annotated[Array, 3, 3]
    turned_S: Annotated[Array, 3, 3]
    followed_T: Vector  # the field's move over which its error has followed the attitude's
    set_anew: Annotated[NDArray[np.int64], N]


ESKF = dtype_of(Eskf)


class DirectState(Record):
    """What the reference filters know (``estimation.reference_filters``), of ``base_link``."""

    running: int
    starts: int
    stamp_ns: int
    p_W: Vector
    v_W: Vector
    angles: Vector  # roll, pitch, yaw
    q_WB: Quaternion
    q_WS: Quaternion
    w_B: Vector  # newest rate, and its variance
    w_variance: Vector
    covariance: Annotated[Array, MOTION_SIZE, MOTION_SIZE]
    tilt_variance: float  # of roll and pitch, each
    field_ns: int  # newest heading
    h: Annotated[Array, MOTION_SIZE]  # working memory of an update
    ph: Annotated[Array, MOTION_SIZE]
    correction: Annotated[Array, MOTION_SIZE]
