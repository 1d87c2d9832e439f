"""Assisted control: sticks to a reference that a novice cannot fly into the ground.

Sticks command velocity in the heading frame, the height held above ground, and the yaw rate; all of
them released, the reference brakes and stays where it has come to rest. The reference is a moving
point of bounded acceleration and jerk; its height follows the ground below at the held distance.
Its speed is bounded so that ground which rises as steeply as ``slope`` removes no more of the
height than is left above ``guard_m`` until the climb answers, and so that the slope which is known
can be climbed; at the guard's height only climbing is left.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np

from quadsim.base.compiled import Array, Record, Records, Vector, kernel
from quadsim.base.elementary import cos, sin
from quadsim.base.parameters import Vec3, dtype_of
from quadsim.base.records import MODE_POSITION, Setpoint
from quadsim.control.joystick import Sticks
from quadsim.control.parameters import GRAVITY_MPS2, AssistedParams, ManualParams
from quadsim.control.pid import clamp, limit_horizontal
from quadsim.geometry.rotation import wrap
from quadsim.geometry.vector import store

#: Most change of the acceleration, m/s^3.
JERK_MPS3 = 10.0
#: How fast the reference's velocity goes over into the wanted one, and its height, 1/s.
VELOCITY_GAIN, HEIGHT_GAIN, YAW_GAIN = 4.0, 2.0, 4.0
#: Most vertical acceleration of the reference, up and down, m/s^2, and its change, m/s^3: full
#: thrust would leave nothing for roll and pitch.
ASCENT_MPS2, DESCENT_MPS2, LIFT_MPS3 = 3.0, 2.0, 20.0
#: Share of the climb that a known slope may take; the rest regains height.
FOLLOWED = 0.8
#: Braking before the ground over the acceleration and jerk that sticks get.
BRAKING = 1.5
#: Below this speed and acceleration the released reference rests, m/s, m/s^2.
REST_MPS, REST_MPS2 = 0.02, 0.1
#: The same of its climb, which readings of the ground shake, m/s.
REST_UP_MPS = 0.1
#: How far the reference may be ahead of the vehicle, m: what it cannot follow is not saved up.
LEAD_M = 1.0
#: How far the held height may be from the actual one by the stick, m.
HELD_LEAD_M = 1.0
#: Slopes below this are level, and speeds below this are none.
LEAST = 1e-3


class Assisted(Record):
    """The reference that sticks move."""

    request: Annotated[Array, 4]
    p_W: Vector
    v_W: Vector
    a_W: Vector
    yaw: float
    yaw_rate: float
    seen: int
    held_m: float


ASSISTED = dtype_of(Assisted)

#: Whether the ground is seen, its height in W in m, how it rises east and north in m/m, and a limit
#: of the speed in m/s. Where it is not seen, the height is what no held one may come near.
Ground = tuple[int, float, float, float, float]


def new_assisted() -> np.recarray[Any, Any]:
    """The (1,) ASSISTED record of a reference at the origin that requests nothing.

    A record goes into compiled code as an array of one: as a scalar it takes 20 us a call.
    """
    return np.zeros(1, ASSISTED).view(np.recarray)


def assisted_wish(params: AssistedParams, sticks: Sticks) -> Sticks:
    """Velocity forward and left of the heading, and up, in m/s, and yaw rate in rad/s, of sticks.

    Args:
        params: what a full stick means.
        sticks: each in [-1, 1]; both horizontal ones together ask for no more than full speed.
    """
    forward, left = limit_horizontal(sticks[0], sticks[1], 1.0)
    return (
        params.speed_mps * forward,
        params.speed_mps * left,
        params.climb_mps * sticks[2],
        params.yaw_rate_radps * sticks[3],
    )


def manual_wish(params: ManualParams, sticks: Sticks) -> Sticks:
    """Roll and pitch in rad, yaw rate in rad/s, collective specific thrust in m/s^2, of sticks.

    The middle of the throttle is the weight, its ends are ``thrust_min`` and ``thrust_max`` of it.
    """
    forward, left, up, yaw = sticks
    span = params.thrust_max - 1.0 if up > 0.0 else 1.0 - params.thrust_min
    return (
        -params.tilt_rad * left,
        params.tilt_rad * forward,
        params.yaw_rate_radps * yaw,
        GRAVITY_MPS2 * (1.0 + span * up),
    )


@kernel
def begin_assisted(
    states: Records[Assisted], p_W: Vec3, v_W: Vec3, a_W: Vec3, yaw: float, yaw_rate: float
) -> None:
    """Take the reference up in a motion, with no request; the height that is flown is held."""
    state = states[0]
    for i in range(4):
        state.request[i] = 0.0
    store(state.p_W, p_W)
    store(state.v_W, v_W)
    store(state.a_W, a_W)
    state.yaw, state.yaw_rate = yaw, yaw_rate
    state.seen = 0
    state.held_m = p_W[2]


@kernel
def _steepness(ground: Ground, x: float, y: float) -> float:
    """Slope of the ground along a horizontal vector, 0 for none."""
    size = math.sqrt(x * x + y * y)
    return (ground[2] * x + ground[3] * y) / size if size > LEAST else 0.0


@kernel
def speed_limit(params: AssistedParams, ground: Ground, height_m: float, slope: float) -> float:
    """Fastest horizontal speed in m/s at a height above ground.

    Args:
        params: packed AssistedParams.
        ground: as of :data:`Ground`.
        height_m: above it.
        slope: of it, along the way.
    """
    most: float = min(ground[4], params.speed_mps)
    if ground[0] == 0:
        return most
    if params.slope > 0.0:
        left_m = max(height_m - params.guard_m, 0.0)
        most = min(most, left_m / (params.slope * params.reaction_s))
    if slope > LEAST:
        most = min(most, FOLLOWED * params.follow_mps / slope)
    return most


@kernel
def _move(state: Assisted, params: AssistedParams, ground: Ground, z_m: float, dt_s: float) -> None:
    """Horizontal part: the wanted velocity, within acceleration and jerk."""
    c, s = cos(state.yaw), sin(state.yaw)
    forward, left = state.request[0], state.request[1]
    vx, vy = c * forward - s * left, s * forward + c * left
    slope = max(_steepness(ground, vx, vy), _steepness(ground, state.v_W[0], state.v_W[1]))
    most_mps = speed_limit(params, ground, z_m - ground[1], slope)
    vx, vy = limit_horizontal(vx, vy, most_mps)
    speed = math.sqrt(state.v_W[0] * state.v_W[0] + state.v_W[1] * state.v_W[1])
    most = params.acceleration_mps2
    jerk = JERK_MPS3
    if speed > most_mps:  # the ground asks for it, not the pilot
        most, jerk = BRAKING * most, BRAKING * jerk
    ax, ay = limit_horizontal(
        VELOCITY_GAIN * (vx - state.v_W[0]), VELOCITY_GAIN * (vy - state.v_W[1]), most
    )
    jx, jy = limit_horizontal(ax - state.a_W[0], ay - state.a_W[1], jerk * dt_s)
    ax, ay = state.a_W[0] + jx, state.a_W[1] + jy
    if (
        forward == 0.0
        and left == 0.0
        and speed < REST_MPS
        and math.sqrt(ax * ax + ay * ay) < REST_MPS2
    ):
        state.v_W[0], state.v_W[1], ax, ay = 0.0, 0.0, 0.0, 0.0
    state.p_W[0] += (state.v_W[0] + 0.5 * ax * dt_s) * dt_s
    state.p_W[1] += (state.v_W[1] + 0.5 * ay * dt_s) * dt_s
    state.v_W[0] += ax * dt_s
    state.v_W[1] += ay * dt_s
    state.a_W[0], state.a_W[1] = ax, ay


@kernel
def _hold_height(
    state: Assisted, params: AssistedParams, ground: Ground, z_m: float, dt_s: float
) -> None:
    """Vertical part: the stick moves the held height, the reference goes there with the ground."""
    seen, ground_m, east, north, _ = ground
    if seen != state.seen:  # the height that is flown now is the one to hold
        state.held_m = state.p_W[2] - ground_m if seen != 0 else state.p_W[2]
        state.seen = seen
    below = ground_m if seen != 0 else 0.0
    lowest = params.lowest_m if seen != 0 else ground_m + params.lowest_m
    ahead = state.held_m - (z_m - below)
    up = max(state.request[2], HEIGHT_GAIN * (lowest - state.held_m))
    if abs(ahead) > HELD_LEAD_M and up * ahead > 0.0:
        up = 0.0
    state.held_m += up * dt_s
    rise, lift = 0.0, 0.0  # velocity and acceleration of the ground beneath
    if seen != 0:
        rise = east * state.v_W[0] + north * state.v_W[1]
        lift = east * state.a_W[0] + north * state.a_W[1]
    wanted = rise + up + HEIGHT_GAIN * (below + state.held_m - state.p_W[2])
    wanted = clamp(wanted, -params.follow_mps, params.follow_mps)
    change = clamp(lift + VELOCITY_GAIN * (wanted - state.v_W[2]), -DESCENT_MPS2, ASCENT_MPS2)
    change = clamp(change, state.a_W[2] - LIFT_MPS3 * dt_s, state.a_W[2] + LIFT_MPS3 * dt_s)
    state.p_W[2] += (state.v_W[2] + 0.5 * change * dt_s) * dt_s
    state.v_W[2] += change * dt_s
    state.a_W[2] = change


@kernel
def assisted_step(
    states: Records[Assisted],
    all_params: Records[AssistedParams],
    p_W: Vec3,
    ground: Ground,
    turn_radps2: float,
    dt_s: float,
) -> None:
    """Advance the reference by one tick.

    Args:
        states: (1,) ASSISTED records, changed in place.
        all_params: (1,) packed AssistedParams.
        p_W: estimated position in m.
        ground: as of :data:`Ground`.
        turn_radps2: most change of the yaw rate.
        dt_s: length of the tick.
    """
    state, params = states[0], all_params[0]
    _move(state, params, ground, p_W[2], dt_s)
    _hold_height(state, params, ground, p_W[2], dt_s)
    change = clamp(YAW_GAIN * (state.request[3] - state.yaw_rate), -turn_radps2, turn_radps2)
    state.yaw_rate += change * dt_s
    if state.request[3] == 0.0 and abs(state.yaw_rate) < REST_MPS:
        state.yaw_rate = 0.0
    state.yaw = wrap(state.yaw + state.yaw_rate * dt_s)
    ahead_x, ahead_y = state.p_W[0] - p_W[0], state.p_W[1] - p_W[1]
    ahead_x, ahead_y = limit_horizontal(ahead_x, ahead_y, LEAD_M)
    state.p_W[0], state.p_W[1] = p_W[0] + ahead_x, p_W[1] + ahead_y
    state.p_W[2] = clamp(state.p_W[2], p_W[2] - LEAD_M, p_W[2] + LEAD_M)


@kernel
def at_rest(states: Records[Assisted]) -> bool:
    """Whether the reference stands and nothing is wished."""
    state = states[0]
    total: float = abs(state.v_W[0]) + abs(state.v_W[1]) + abs(state.yaw_rate)
    for i in range(4):
        total += abs(state.request[i])
    climb: float = abs(state.v_W[2])
    return total == 0.0 and climb < REST_UP_MPS


@kernel
def write_assisted(states: Records[Assisted], setpoints: Records[Setpoint]) -> None:
    """Write the reference into a (1,) SETPOINT array."""
    setpoint = setpoints[0]
    state = states[0]
    setpoint.mode = MODE_POSITION
    for i in range(3):
        setpoint.p_W[i], setpoint.v_W[i] = state.p_W[i], state.v_W[i]
        setpoint.a_W[i] = state.a_W[i]
    setpoint.yaw, setpoint.yaw_rate = state.yaw, state.yaw_rate
