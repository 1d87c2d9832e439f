"""Ways to navigate that fly to a place by the cyclic, as A. Larsen's thesis does (NTNU, 2010).

The setpoint of each is the place itself; the leg of ``trajectory`` is another way. Throttle and
height are the position loop's, and so are the limits of speed.

- ``nose_on``: yaw to the target, and pitch. Forward acceleration by PD on the distance along the
  nose, while the nose points there; sideways drift is damped by roll. Nearer than ``near_m`` the
  heading is held and both axes are flown as in ``acceleration``.
- ``acceleration``: the position error, projected on the body's heading, to pitch and roll by PD.
- ``velocity``: the wanted velocity points at the target, its size falls linearly near it (the
  distance over the deceleration reaction time, 1 / ``position_gain_xy``), is held to what
  ``braking_mps2`` can stop and to the limit; velocity errors to pitch and roll. These are the
  velocity loops of :mod:`quadsim.control.position`, so there is nothing of it here.

The proportional part is limited to what the derivative part removes at the fastest speed: far
off, both are flown at that speed.
"""

from __future__ import annotations

from quadsim.base.compiled import kernel
from quadsim.base.elementary import atan2, cos, sin, tan
from quadsim.base.records import Odometry, Setpoint
from quadsim.control.parameters import NAVIGATIONS, AutopilotParams, NavigationParams
from quadsim.control.pid import clamp
from quadsim.geometry.length import hypot
from quadsim.geometry.rotation import wrap

TRAJECTORY, NOSE_ON, ACCELERATION, VELOCITY = range(len(NAVIGATIONS))


@kernel
def _pull(params: NavigationParams, error: float, drift: float, speed: float) -> float:
    """PD on one axis, its proportional part limited to what flies at a speed.

    Args:
        params: packed NavigationParams.
        error: to the target, m.
        drift: velocity along the axis over the wanted one, m/s.
        speed: fastest, m/s.
    """
    most = params.gain_d * speed
    return float(clamp(params.gain_p * error, -most, most) - params.gain_d * drift)


@kernel
def cyclic(
    params: AutopilotParams, odometry: Odometry, setpoint: Setpoint, yaw: float
) -> tuple[float, float, float, bool]:
    """Horizontal acceleration wanted on the body's heading.

    Args:
        params: packed AutopilotParams.
        odometry: ODOMETRY record.
        setpoint: SETPOINT record of the mode *position*; p, v and speed are followed.
        yaw: present heading in rad.

    Returns:
        Acceleration forward and left in m/s^2 within the tilt limit on each, yaw rate in rad/s, and
        whether that yaw rate shall replace the setpoint's.
    """
    gains, limits = params.navigation, params.position
    c, s = cos(yaw), sin(yaw)
    east = setpoint.p_W[0] - odometry.p_W[0]
    north = setpoint.p_W[1] - odometry.p_W[1]
    forward, left = c * east + s * north, -s * east + c * north
    v_east, v_north = odometry.v_W[0] - setpoint.v_W[0], odometry.v_W[1] - setpoint.v_W[1]
    v_forward, v_left = c * v_east + s * v_north, -s * v_east + c * v_north
    speed = limits.speed_max_mps
    if setpoint.speed_mps > 0.0:
        speed = min(speed, setpoint.speed_mps)
    distance = hypot(forward, left)
    turning = limits.navigation == NOSE_ON and distance > gains.near_m
    yaw_rate = 0.0
    if turning:
        bearing = wrap(atan2(north, east) - yaw)
        yaw_rate = gains.nose_gain * bearing
        # pitch waits for the nose; roll only damps
        ahead = distance * max(cos(bearing), 0.0) ** 2
        forward, left = _pull(gains, ahead, v_forward, speed), -gains.gain_d * v_left
    else:
        # the speed's limit is that of the whole: shared as the error is
        share = speed / distance if distance > 0.0 else speed
        forward = _pull(gains, forward, v_forward, share * abs(forward))
        left = _pull(gains, left, v_left, share * abs(left))
    most = params.gravity_mps2 * tan(limits.tilt_max_rad)
    turn = limits.yaw_rate_max_radps
    return (
        clamp(forward, -most, most),
        clamp(left, -most, most),
        clamp(yaw_rate, -turn, turn),
        turning,
    )
