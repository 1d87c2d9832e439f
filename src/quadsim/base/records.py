"""The records that the parts exchange: the kernels' counterpart of the topics.

Frames: W is the world (``map``, ENU), B the body (``base_link``, FLU). Quaternions are Hamilton,
``w`` first. Units are SI, stamps integer nanoseconds.
"""

from __future__ import annotations

import numpy as np

from quadsim.base.compiled import record_dtype

MAX_ROTORS = 8

#: What lifts a vehicle.
VEHICLE_KINDS = ("multirotor", "helicopter")
MULTIROTOR, HELICOPTER = range(2)

#: A helicopter's command, in the first slots of a multirotor's rotor speeds: body rates in rad/s
#: and the throttle in [0, 1].
HELICOPTER_COMMANDS = ("roll_rate", "pitch_rate", "yaw_rate", "throttle")

#: A vehicle's true motion (``ground_truth/odom`` with ``ground_truth/accel``), and what else of the
#: vehicle its sensors feel (``motor_speed``, ``wind``). ``a_W`` is the second derivative of the
#: centre of mass' position (gravity not removed), in m/s^2; ``wind_W`` the velocity of the air.
KINEMATICS = record_dtype(
    [
        ("stamp_ns", np.int64),
        ("p_W", np.float64, (3,)),
        ("v_W", np.float64, (3,)),
        ("q_WB", np.float64, (4,)),
        ("w_B", np.float64, (3,)),
        ("a_W", np.float64, (3,)),
        ("w_dot_B", np.float64, (3,)),
        ("rotor_speed_radps", np.float64, (MAX_ROTORS,)),
        ("motor_current_A", np.float64),  # of all motors together
        ("wind_W", np.float64, (3,)),
    ]
)

#: What control flies on (``odometry/filtered``, or the truth); variances are diagonals,
#: attitude's as rotation about the world axes in rad^2.
ODOMETRY = record_dtype(
    [
        ("stamp_ns", np.int64),
        ("p_W", np.float64, (3,)),
        ("v_W", np.float64, (3,)),
        ("q_WB", np.float64, (4,)),
        ("w_B", np.float64, (3,)),
        ("p_variance", np.float64, (3,)),
        ("v_variance", np.float64, (3,)),
        ("attitude_variance", np.float64, (3,)),
    ]
)

#: What the mission wants (the ``reference``). Modes: see :data:`SETPOINT_MODES`.
SETPOINT = record_dtype(
    [
        ("mode", np.int64),
        ("p_W", np.float64, (3,)),
        ("v_W", np.float64, (3,)),
        ("a_W", np.float64, (3,)),
        ("yaw", np.float64),
        ("yaw_rate", np.float64),
        ("speed_mps", np.float64),  # fastest, horizontal; 0 for the autopilot's limit
        ("roll", np.float64),  # in mode attitude
        ("pitch", np.float64),
        ("thrust", np.float64),  # collective specific thrust along body z, m/s^2
    ]
)

#: stop: motors off. idle: motors at their lowest speed, armed on the ground. position: p, v, a
#: and yaw are followed. velocity: v, a and yaw_rate are followed, p is ignored.
#: descend: level, down at v_W[2] as far as the estimate allows, yaw held (no position needed).
#: attitude: roll, pitch, yaw_rate and thrust are passed on, within the limits.
MODE_STOP, MODE_IDLE, MODE_POSITION, MODE_VELOCITY, MODE_DESCEND, MODE_ATTITUDE = range(6)
SETPOINT_MODES = ("stop", "idle", "position", "velocity", "descend", "attitude")

#: Desired attitude (``command_attitude``): roll and pitch of q_WB count, its yaw is ignored;
#: yaw_rate about the vertical in rad/s; thrust is the collective specific thrust along body z in
#: m/s^2, exactly 0 meaning "stop the motors".
ATTITUDE_COMMAND = record_dtype(
    [
        ("stamp_ns", np.int64),
        ("q_WB", np.float64, (4,)),
        ("yaw_rate", np.float64),
        ("thrust", np.float64),
    ]
)
