"""The records that the parts exchange: the kernels' counterpart of the topics.

A record is a class of annotated fields, from which :func:`quadsim.base.parameters.dtype_of` makes
the structured type of its arrays::

    class Wheel(Record):
        turns: int  # int64
        speed_radps: float  # float64
        axis_B: Vector  # (3,) float64
        slip: Annotated[Array, 2, 4]  # (2, 4) float64; NDArray[np.int64] for whole numbers
        tyre: Tyre  # another record, or a parameter class
        spokes: Annotated[Records[Spoke], 20]
        hub: Annotated[Any, HUB]  # a structured type that no class declares

    WHEEL = dtype_of(Wheel)

Kernels annotate ``wheel: Wheel``, ``wheels: Records[Wheel]`` for an array of them, and packed
parameters by their dataclass, so that mypy knows every field. ``new(Wheel)`` makes one. The length
of a parameter's list, ``NAME_count``, is a ``ClassVar[int]`` of its dataclass, and a choice, which
a kernel sees as its index, is a :data:`quadsim.base.parameters.Choice`.

Frames: W is the world (``map``, ENU), B the body (``base_link``, FLU). Quaternions are Hamilton,
``w`` first. Units are SI, stamps integer nanoseconds.
"""

from __future__ import annotations

from typing import Annotated

from quadsim.base.compiled import Array, Quaternion, Record, Vector
from quadsim.base.parameters import dtype_of

MAX_ROTORS = 8
PerRotor = Annotated[Array, MAX_ROTORS]

#: What lifts a vehicle.
VEHICLE_KINDS = ("multirotor", "helicopter")
MULTIROTOR, HELICOPTER = range(2)

#: A helicopter's command, in the first slots of a multirotor's rotor speeds: body rates in rad/s
#: and the throttle in [0, 1].
HELICOPTER_COMMANDS = ("roll_rate", "pitch_rate", "yaw_rate", "throttle")


class Kinematics(Record):
    """A vehicle's true motion, and what else of the vehicle its sensors feel.

    The motion is ``ground_truth/odom`` with ``ground_truth/accel``. ``a_W`` is the second
    derivative of the centre of mass' position (gravity not removed), in m/s^2; ``wind_W`` the
    velocity of the air.
    """

    stamp_ns: int
    p_W: Vector
    v_W: Vector
    q_WB: Quaternion
    w_B: Vector
    a_W: Vector
    w_dot_B: Vector
    rotor_speed_radps: PerRotor
    motor_current_A: float  # of all motors together
    wind_W: Vector


KINEMATICS = dtype_of(Kinematics)


class Odometry(Record):
    """What control flies on (``odometry/filtered``, or the truth).

    Variances are diagonals, attitude's as rotation about the world axes in rad^2; that of a rate is
    of one axis, in (rad/s)^2, and 0 where nobody states it.
    """

    stamp_ns: int
    p_W: Vector
    v_W: Vector
    q_WB: Quaternion
    w_B: Vector
    p_variance: Vector
    v_variance: Vector
    attitude_variance: Vector
    w_variance: float


ODOMETRY = dtype_of(Odometry)


class Setpoint(Record):
    """What the mission wants (the ``reference``). Modes: see :data:`SETPOINT_MODES`."""

    mode: int
    p_W: Vector
    v_W: Vector
    a_W: Vector
    yaw: float
    yaw_rate: float
    speed_mps: float  # fastest, horizontal; 0 for the autopilot's limit
    roll: float  # in mode attitude
    pitch: float
    thrust: float  # collective specific thrust along body z, m/s^2


SETPOINT = dtype_of(Setpoint)

#: stop: motors off. idle: motors at their lowest speed, armed on the ground. position: p, v, a
#: and yaw are followed. velocity: v, a and yaw_rate are followed, p is ignored.
#: descend: level, down at v_W[2] as far as the estimate allows, yaw held (no position needed).
#: attitude: roll, pitch, yaw_rate and thrust are passed on, within the limits.
MODE_STOP, MODE_IDLE, MODE_POSITION, MODE_VELOCITY, MODE_DESCEND, MODE_ATTITUDE = range(6)
SETPOINT_MODES = ("stop", "idle", "position", "velocity", "descend", "attitude")


class AttitudeCommand(Record):
    """Desired attitude (``command_attitude``).

    Roll and pitch of q_WB count, its yaw is ignored; yaw_rate about the vertical in rad/s;
    thrust is the collective specific thrust along body z in m/s^2, exactly 0 meaning "stop the
    motors". Body rates are wanted instead of the attitude by policies alone.
    """

    stamp_ns: int
    q_WB: Quaternion
    yaw_rate: float
    thrust: float
    by_rates: int  # 1: body rates are wanted instead, in rad/s
    w_B: Vector


ATTITUDE_COMMAND = dtype_of(AttitudeCommand)
