"""Tuning rules: ultimate gain and period to the keys of an autopilot file.

Ziegler and Nichols, "Optimum settings for automatic controllers", *Trans. ASME* 64, 1942; Tyreus
and Luyben, "Tuning PI controllers for integrator/dead time processes", *Ind. Eng. Chem. Res.* 31,
1992. ``cascade`` is ours, for loops around loops: gains that leave a factor of about 4 until they
oscillate, integrals slower than the rules of a single loop have them, and the linear model has the
last word: what has too little margin is taken back, and the rate loop, of whose derivative the
ultimate gain knows nothing, is raised where there is margin to spare.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from quadsim.base.parameters import Vec3
from quadsim.control.parameters import AutopilotParams
from quadsim.lab.tune.loop_margins import LEAD_AXES, Delays, all_margins
from quadsim.vehicle.parameters import VehicleParams


@dataclass(frozen=True, slots=True)
class Rule:
    """Controllers by the ultimate gain and period.

    Attributes:
        p: gain of P over the ultimate gain.
        pi: gain, and integral time over the ultimate period, of PI.
        pid: the same of PID, and its derivative time over the period.
        keeps_margins: whether gains are taken back until the linear margins hold.
    """

    p: float
    pi: tuple[float, float]
    pid: tuple[float, float, float]
    keeps_margins: bool = False


RULES = {
    "cascade": Rule(1 / 4.2, (1 / 4.0, 8.0), (1 / 3.0, 4.0, 1 / 6.3), keeps_margins=True),
    "tyreus-luyben": Rule(1 / 3.2, (1 / 3.2, 2.2), (1 / 2.2, 2.2, 1 / 6.3)),
    "ziegler-nichols": Rule(1 / 2.0, (0.45, 1 / 1.2), (0.6, 1 / 2.0, 1 / 8.0)),
}

#: Part of the torque in hover that the gyroscope's noise may take through the rate loop.
NOISE_SHARE = 0.1
#: A rate error that may take all of that torque, rad/s; one that is smaller makes the loop a relay.
FULL_TORQUE_RADPS = 0.25
#: Climb rate error that may take all of the thrust's room, and horizontal velocity error that may
#: take the horizontal limit, m/s.
FULL_THRUST_MPS, FULL_PUSH_MPS = 1.0, 1.0
#: Part of the acceleration with which a step of one metre or one radian may be braked.
BRAKING_SHARE = 0.8
#: Yaw gain over that of the yaw rate at most. The rotors' inertia makes the yaw rate's process
#: quick at once and slow later, of which the ultimate gain of what is around it tells nothing.
YAW_SHARE = 0.5
#: Lag of the attitude loop over 1 / tilt_gain, as the shipped files have it.
LAG_SHARE = 0.8

#: Digits of a gain that are worth writing.
DIGITS = 4


def _short(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the actuators and the noise allow of the gains.

    Attributes:
        torque: angular acceleration about each body axis in hover, rad/s^2.
        lift: vertical acceleration to either side in hover, m/s^2.
        noise: deviation of the low-passed body rates, rad/s, and of their derivative, rad/s^2.
    """

    torque: tuple[float, float, float]
    lift: float
    noise: tuple[float, float]

    def rate_gain(self, gain: float, axis: int) -> float:
        """A gain of the rate loop within the bounds."""
        most = self.torque[axis] / FULL_TORQUE_RADPS
        if self.noise[0] > 0.0:
            most = min(most, NOISE_SHARE * self.torque[axis] / self.noise[0])
        return min(gain, most)

    def outermost(self, gain: float, loop: str) -> float:
        """A gain of position, height or yaw: its step is braked at gain^2 times what is left."""
        most = self.torque[2] if loop == "yaw" else self.lift
        return min(gain, math.sqrt(BRAKING_SHARE * most))

    def lead_fits(self, gain: float, lead_s: float) -> bool:
        """Whether a derivative leaves the noise small."""
        noise = math.hypot(self.noise[0], lead_s * self.noise[1])
        return gain * noise <= NOISE_SHARE * self.torque[0]


def apply_rule(
    name: str,
    params: AutopilotParams,
    loop: str,
    ultimate: tuple[float, float],
    bounds: Bounds,
) -> AutopilotParams:
    """Set one loop's gains.

    Args:
        name: of :data:`RULES`.
        params: gains so far.
        loop: of :data:`quadsim.lab.tune.loop_margins.LOOPS`.
        ultimate: gain, and period in s.
        bounds: of the vehicle and its sensors.
    """
    rule = RULES[name]
    gain, period_s = ultimate
    attitude, outer = params.attitude, params.position
    p = _short(rule.p * gain)
    if loop == "rate":
        share, integral, lead = rule.pid
        if not bounds.lead_fits(share * gain, lead * period_s):
            (share, integral), lead = rule.pi, 0.0
        k = _short(bounds.rate_gain(share * gain, 0))
        i = _short(k / (integral * period_s))
        attitude = replace(
            attitude,
            rate_gain=(k, k, attitude.rate_gain[2]),
            rate_integral=(i, i, attitude.rate_integral[2]),
            rate_lead_s=_short(lead * period_s),
        )
    elif loop == "yaw_rate":
        share, integral = rule.pi
        lead = attitude.rate_lead_s if 2 in LEAD_AXES else 0.0
        # the lead of the other axes raises this one's gain where it would oscillate
        raised = math.hypot(1.0, 2.0 * math.pi * lead / period_s)
        k = _short(bounds.rate_gain(share * gain / raised, 2))
        # the inertia of the rotors makes the period short; the integral is to be no quicker for it
        i = _short(min(k / (integral * period_s), k))
        attitude = replace(
            attitude,
            rate_gain=(*attitude.rate_gain[:2], k),
            rate_integral=(*attitude.rate_integral[:2], i),
        )
    elif loop == "tilt":
        attitude = replace(attitude, tilt_gain=p)
        outer = replace(outer, attitude_lag_s=_short(LAG_SHARE / p))
    elif loop in ("velocity", "climb"):
        share, integral = rule.pi
        most = bounds.lift / FULL_THRUST_MPS
        if loop == "velocity":
            most = min(outer.acceleration_max_mps2, bounds.lift) / FULL_PUSH_MPS
        k = _short(min(share * gain, most))
        i = _short(k / (integral * period_s))
        if loop == "velocity":
            outer = replace(outer, velocity_gain_xy=k, velocity_integral_xy=i)
        else:
            # a gain held back by the actuators leaves no use for the rule's integral
            i = _short(min(i, k * k / 6.0))
            outer = replace(outer, velocity_gain_z=k, velocity_integral_z=i)
    else:
        key = {"position": "position_gain_xy", "height": "position_gain_z", "yaw": "yaw_gain"}[loop]
        p = bounds.outermost(p, loop)
        if loop == "yaw":
            p = min(p, YAW_SHARE * attitude.rate_gain[2])
        gains: dict[str, Any] = {key: _short(p)}
        outer = replace(outer, **gains)
    return replace(params, attitude=attitude, position=outer)


def scaled(params: AutopilotParams, loop: str, factor: float) -> AutopilotParams:
    """A loop's gains, integral included, times a factor."""
    attitude, outer = params.attitude, params.position

    def turned(values: Vec3, axes: tuple[int, ...]) -> Vec3:
        x, y, z = (_short(v * factor) if i in axes else v for i, v in enumerate(values))
        return x, y, z

    def times(*names: str) -> dict[str, Any]:
        return {name: _short(getattr(outer, name) * factor) for name in names}

    if loop in ("rate", "yaw_rate"):
        axes = (0, 1) if loop == "rate" else (2,)
        attitude = replace(
            attitude,
            rate_gain=turned(attitude.rate_gain, axes),
            rate_integral=turned(attitude.rate_integral, axes),
        )
    elif loop == "tilt":
        tilt_gain = _short(attitude.tilt_gain * factor)
        attitude = replace(attitude, tilt_gain=tilt_gain)
        outer = replace(outer, attitude_lag_s=_short(LAG_SHARE / tilt_gain))
    else:
        names = {
            "velocity": ("velocity_gain_xy", "velocity_integral_xy"),
            "position": ("position_gain_xy",),
            "climb": ("velocity_gain_z", "velocity_integral_z"),
            "height": ("position_gain_z",),
            "yaw": ("yaw_gain",),
        }[loop]
        outer = replace(outer, **times(*names))
    return replace(params, attitude=attitude, position=outer)


#: Margins that a rate loop is raised to, at most by so much.
RAISED_PHASE_DEG, RAISED_GAIN, RAISED_BY = 46.0, 4.0, 2.0


def raised(
    params: AutopilotParams, vehicle: VehicleParams, bounds: Bounds, delays: Delays | None = None
) -> AutopilotParams:
    """Gains of the rate loop about x and y, raised in steps while there is margin to spare."""
    first = params.attitude.rate_gain[0]
    while True:
        tried = scaled(params, "rate", 1.1)
        gain = tried.attitude.rate_gain[0]
        found = all_margins(tried, vehicle, delays)["rate"]
        if found.phase_deg < RAISED_PHASE_DEG or found.gain < RAISED_GAIN:
            return params
        fits = bounds.lead_fits(gain, tried.attitude.rate_lead_s)
        if gain > min(RAISED_BY * first, bounds.rate_gain(gain, 0)) or not fits:
            return params
        params = tried


def within_margins(
    params: AutopilotParams, vehicle: VehicleParams, loop: str, delays: Delays | None = None
) -> AutopilotParams:
    """A loop's gains, taken back by tenths until its margins hold, at most to a tenth."""
    tried = params
    for _ in range(22):
        if all_margins(tried, vehicle, delays)[loop].hold:
            return tried
        tried = scaled(tried, loop, 0.9)
    return params
