"""Error state of the filter, its nominal state and what else it remembers: the one layout.

The error state is additive but for the attitude, whose error is a rotation in the WORLD frame:
R_true = exp([theta_W]x) R_nominal. After Sola, *Quaternion kinematics for the error-state Kalman
filter*, 2017, ch. 7 ("global angular errors").

The nominal state lives at the IMU: position and velocity are those of its origin, the attitude is
that of its axes S. Outputs are moved to ``base_link``.
"""

from __future__ import annotations

import numpy as np

from quadsim.base.compiled import record_dtype

#: First index of each part of the error state: attitude, velocity, position, gyroscope and
#: accelerometer bias, offset of the pressure's height (1 wide), time offset of GNSS stamps (1), the
#: correlated part of GNSS positions' error, terrain height (1), magnetometer bias, lever arm from
#: IMU to GNSS antenna in the IMU's axes, reference field, wind east and north (2); the others are
#: three wide.
THETA, V, P, BG, BA, PRESSURE, GNSS_TIME = 0, 3, 6, 9, 12, 15, 16
GNSS_BIAS, TERRAIN, FIELD_BIAS, ANTENNA, FIELD, WIND = 17, 20, 21, 24, 27, 30
#: Size of the error state; of the last parts a filter carries only what its parameters ask for.
N = 32

#: Sensors, as indices of the per-sensor fields.
GNSS_POSITION, GNSS_VELOCITY, MAGNETIC_FIELD, STATIC_PRESSURE, RANGE = range(5)
EXTERNAL_POSITION, EXTERNAL_ATTITUDE, ZERO_VELOCITY, GRAVITY, DRAG, INCLINATION = range(5, 11)
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
)
#: Those of three numbers that are gated together.
VECTORS = (GNSS_POSITION, GNSS_VELOCITY, EXTERNAL_POSITION, EXTERNAL_ATTITUDE, ZERO_VELOCITY)

#: What a measurement's kernel says about it.
REJECTED, ACCEPTED, IGNORED = range(3)

#: Why the filter last started over or recovered.
REASON_NONE, REASON_GNSS_POSITION, REASON_GNSS_VELOCITY, REASON_IMU_GAP = range(4)
REASON_NOT_FINITE, REASON_EXTERNAL, REASON_FIELD, REASON_ACCELERATION = range(4, 8)
REASONS = (
    "",
    "gnss position rejected for too long",
    "gnss velocity rejected for too long",
    "imu gap too long",
    "state not finite",
    "external pose rejected for too long",
    "magnetic field rejected for too long",
    "heading contradicts the acceleration seen by gnss",
)

#: Sums over the window from which the filter starts; ``t`` is the time in the window in s, index 0
#: the IMU's axes at its beginning.
ALIGNMENT = record_dtype(
    [
        ("start_ns", np.int64),
        ("imu_count", np.int64),
        ("q_0S", np.float64, (4,)),  # rotation since the beginning, by the gyroscope
        ("f_integral_0", np.float64, (3,)),  # of the specific force, m/s
        ("f_integral2_0", np.float64, (3,)),  # of that, m
        ("f_sum_S", np.float64, (3,)),
        ("f_square_sum_S", np.float64, (3,)),
        ("w_sum_S", np.float64, (3,)),
        ("f_variance_sum", np.float64, (3,)),
        ("w_variance_sum", np.float64, (3,)),
        ("angle_variance", np.float64),
        ("fix_count", np.int64),
        ("fix_t_sum", np.float64),
        ("fix_t2_sum", np.float64),
        ("fix_sum_W", np.float64, (3,)),
        ("fix_f_integral2_sum_0", np.float64, (3,)),
        ("fix_variance_sum", np.float64, (3,)),
        ("velocity_count", np.int64),
        ("velocity_t_sum", np.float64),
        ("velocity_t2_sum", np.float64),
        ("velocity_sum_W", np.float64, (3,)),
        ("velocity_t_product_W", np.float64, (3,)),
        ("velocity_f_integral_sum_0", np.float64, (3,)),
        ("velocity_f_integral_t_product_0", np.float64, (3,)),
        ("velocity_variance_sum", np.float64, (3,)),
        ("field_count", np.int64),
        ("field_sum_S", np.float64, (3,)),
        ("field_sum_0", np.float64, (3,)),
        ("heading_variance_sum", np.float64),
    ]
)

#: Copies of the integral of the specific force, and the time between two of them.
PAST, PAST_STEP_NS = 16, 20_000_000

#: The IMU alone, in a frame F that no measurement turns: it was the world's when the filter started
#: and drifts with what is left of the gyroscope's bias.
INERTIAL = record_dtype(
    [
        ("started", np.int64),
        ("q_FS", np.float64, (4,)),
        ("f_integral_F", np.float64, (3,)),  # of the specific force less its bias, m/s
        ("way_F", np.float64, (3,)),  # integral of that, m
        ("past_count", np.int64),  # of copies ever made; the last ones are kept, a ring
        ("past_ns", np.int64, (PAST,)),
        ("past_F", np.float64, (PAST, 3)),
    ]
)

#: What says whether the heading is right, beside the filter: ``estimation.eskf.heading``.
#: The sums are of mean horizontal accelerations, seen by the IMU in F (s) and by GNSS in the world
#: (z), as complex numbers east + i north; the older, the less they weigh.
HEADING = record_dtype(
    [
        ("by_position", np.int64),  # of GNSS, not by its velocity
        ("stamp_ns", np.int64),  # beginning of the present interval, and what was seen there
        ("seen_W", np.float64, (3,)),
        ("integral_F", np.float64, (3,)),  # of the IMU
        ("mean_s", np.float64),  # the interval before, and its mean velocities
        ("mean_W", np.float64, (3,)),
        ("mean_F", np.float64, (3,)),
        ("count", np.float64),
        ("s", np.float64, (2,)),
        ("z", np.float64, (2,)),
        ("ss", np.float64),
        ("zz", np.float64),
        ("zs", np.float64, (2,)),  # of z times the conjugate of s
        ("doubt", np.float64),  # variance by the acceleration, which is about to turn the heading
        ("confirmed", np.int64),  # by acceleration, or by a field that agreed in the air
        ("agreed_s", np.float64, (2,)),  # for which the field has agreed: on the ground, in the air
        ("distrusted", np.int64),  # the field, after the heading was set against it
        ("field", np.float64, (2,)),  # mean direction of the rejected field's innovation
        ("misfit_T", np.float64, (2,)),  # mean of what the field is off: level, up
        ("start_m", np.float64),  # height at which the filter started
        ("accel_bias_variance", np.float64),  # at the start
    ]
)

#: The filter. ``running``: 0 while it aligns, 1 when the estimate is usable.
ESKF = record_dtype(
    [
        ("running", np.int64),
        ("n", np.int64),  # error states that are carried
        ("q_BS", np.float64, (4,)),  # mount of the IMU, and what is mounted beside it
        ("antenna_S", np.float64, (3,)),
        ("rangefinder_S", np.float64, (3,)),
        ("stamp_ns", np.int64),
        ("imu_stamp_ns", np.int64),  # of the newest complete IMU sample
        ("imu_count", np.int64),
        ("period_s", np.float64),  # of the IMU, as it arrives
        ("started_standing", np.int64),
        ("starts", np.int64),
        ("p_W", np.float64, (3,)),
        ("v_W", np.float64, (3,)),
        ("q_WS", np.float64, (4,)),
        ("gyro_bias_S", np.float64, (3,)),
        ("accel_bias_S", np.float64, (3,)),
        ("pressure_offset_m", np.float64),
        ("pressure_started", np.int64),
        ("gnss_time_s", np.float64),  # how much later than the fix its stamp is
        ("gnss_time_counts", np.int64),  # whether the estimate given out is that of this offset
        ("terrain_height_m", np.float64),
        ("terrain_started", np.int64),
        ("gnss_bias_W", np.float64, (3,)),
        ("field_bias_S_T", np.float64, (3,)),
        ("field_W_T", np.float64, (3,)),
        ("wind_W_mps", np.float64, (2,)),
        ("covariance", np.float64, (N, N)),
        ("w_S", np.float64, (3,)),  # newest rate as measured
        ("w_variance", np.float64, (3,)),
        ("f_S", np.float64, (3,)),  # newest specific force as measured
        ("turning_S", np.float64, (3,)),  # rate, and force less hover's, without their noise
        ("pushing_S", np.float64, (3,)),
        ("f_vibration", np.float64, (3,)),  # variance of a sample, from the data
        ("w_vibration", np.float64, (3,)),
        ("aided_ns", np.int64),  # when something that holds the attitude was last accepted
        ("mean_ns", np.int64),  # beginning of the integral below
        ("f_mean_W", np.float64, (3,)),  # of the specific force less its bias, m/s
        ("inertial", INERTIAL),
        ("heading", HEADING),
        ("innovation", np.float64, (len(SENSORS), 3)),
        ("innovation_variance", np.float64, (len(SENSORS), 3)),
        ("nis", np.float64, (len(SENSORS),)),
        ("nis_sum", np.float64, (len(SENSORS),)),  # of the accepted
        ("accepted", np.int64, (len(SENSORS),)),
        ("rejected", np.int64, (len(SENSORS),)),
        ("rejected_in_row", np.int64, (len(SENSORS),)),
        ("rejected_since_ns", np.int64, (len(SENSORS),)),
        ("recoveries", np.int64),
        ("realigning", np.int64),  # runs, and fills the window of a new start beside it
        ("reason", np.int64),
        ("range_ns", np.int64),  # newest range that was fused or rejected
        ("range_m", np.float64),
        ("fix_ns", np.int64),  # newest GNSS position
        ("field_ns", np.int64),  # newest magnetic field
        ("field_count", np.int64),
        ("field_q_WS", np.float64, (4,)),  # attitude at that field
        ("heading_ns", np.int64),  # newest one of unknown noise
        ("heading_count", np.int64),
        ("heading_variance", np.float64),  # of their innovations
        ("strength_error_T", np.float64),  # of the field, mean of ten seconds
        ("pose_ns", np.int64),  # newest external position
        ("pose_p_W", np.float64, (3,)),
        ("pose_variance", np.float64, (3,)),
        ("velocity_fix_ns", np.int64),  # newest one, accepted or not; for the recovery
        ("velocity_fix_W", np.float64, (3,)),
        ("velocity_fix_variance", np.float64, (3,)),
        ("alignment", ALIGNMENT),
        ("rows", np.float64, (3, N)),  # working memory of an update
        ("row", np.float64, (N,)),
        ("gain", np.float64, (N,)),
        ("product", np.float64, (N,)),
        ("before", np.float64, (N,)),
        ("left", np.float64, (N,)),
        ("correction", np.float64, (N,)),
        ("turned", np.float64, (3, 3)),  # by corrections, for the smoother
    ]
)
