"""Linear models of the control loops with their stability margins, and rules for the gains.

The motors are first-order lags, everything that is sampled is held for half a period, and what a
graph may take is a delay; docs/control.md has the figures. Roll and pitch are alike: gains are
angular accelerations, so that the inertia does not count. About the vertical a rotor that is sped
up turns the body by its own inertia, before its drag does: a lead.

Rules make gains of an ultimate gain and period: Ziegler and Nichols, "Optimum settings for
automatic controllers", *Trans. ASME* 64, 1942; Tyreus and Luyben, "Tuning PI controllers for
integrator/dead time processes", *Ind. Eng. Chem. Res.* 31, 1992. ``cascade`` is ours, for loops
around loops: gains that leave a factor of about 4 until they oscillate, integrals slower than the
rules of a single loop have them, and the linear model has the last word: what has too little margin
is taken back, and the rate loop, of whose derivative the ultimate gain knows nothing, is raised
where there is margin to spare.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quadsim.base.parameters import leaves, pack
from quadsim.control.attitude import rate_gain_and_lead
from quadsim.control.parameters import GRAVITY_MPS2, AttitudeParams, AutopilotParams, PositionParams
from quadsim.lab.parameter_text import rounded
from quadsim.vehicle.parameters import VehicleParams

Complex = NDArray[np.complex128]

#: From the inside out: what each is closed around comes before it.
LOOPS = ("rate", "yaw_rate", "tilt", "velocity", "position", "climb", "height", "yaw")

#: Body axes on which ``rate_lead_s`` acts.
LEAD_AXES = (0, 1)

#: IMU sample to rotor: half a sample of hold and what the graph may take (sample to command 3 ms,
#: one sample of waiting on either side).
INNER_DELAY_S = 0.001 + 0.006
#: Outer loop: half its period of hold, and one sample of waiting.
OUTER_DELAY_S = 0.010 + 0.002

#: What every loop has to keep: degrees, and a factor.
LEAST_PHASE_DEG, LEAST_GAIN = 45.0, 3.0

OMEGA = np.logspace(-1.5, 2.8, 8_000)  # rad/s


@dataclass(frozen=True, slots=True)
class Margins:
    """Of one open loop.

    Attributes:
        crossover_radps: where its gain falls through 1.
        phase_deg: from -180 degrees there; of several crossings, the worst.
        gain: by which it may grow until it oscillates; infinite where no gain makes it.
    """

    crossover_radps: float
    phase_deg: float
    gain: float

    @property
    def hold(self) -> bool:
        """Whether they are what every loop has to keep."""
        return self.phase_deg >= LEAST_PHASE_DEG and self.gain >= LEAST_GAIN

    def summary(self) -> dict[str, float | bool]:
        """As JSON has it."""
        return asdict(self) | {"hold": self.hold}


def margins(loop: Complex) -> Margins:
    """Margins of an open loop given at :data:`OMEGA`; all zero where it never crosses 1."""
    size, phase = np.abs(loop), np.unwrap(np.angle(loop))
    crossings = np.flatnonzero((size[:-1] >= 1.0) & (size[1:] < 1.0))
    if not len(crossings):
        return Margins(0.0, 0.0, 0.0)
    turns = np.flatnonzero((phase[:-1] > -np.pi) & (phase[1:] <= -np.pi))
    phase_deg = 180.0 + np.degrees(phase[crossings].min())
    gain = float((1.0 / size[turns]).min()) if len(turns) else np.inf
    return Margins(float(OMEGA[crossings[-1]]), float(phase_deg), gain)


def spin_up_lead_s(vehicle: VehicleParams) -> float:
    """Lead of the torque about the vertical by the inertia of the rotors, in hover, s.

    The drag torque is k w^2 and grows by 2 k w with the speed, the rotor's inertia gives J w_dot:
    together 2 k w (1 + s J / (2 k w)).
    """
    if not vehicle.rotor_directions:
        return 0.0
    thrust_N = vehicle.mass_kg * GRAVITY_MPS2 / vehicle.upright_rotors
    speed_radps = math.sqrt(thrust_N / vehicle.thrust_coefficient_N_s2)
    slope = 2.0 * vehicle.torque_ratio_m * vehicle.thrust_coefficient_N_s2 * speed_radps
    return vehicle.rotor.inertia_kg_m2 / slope


class Delays(NamedTuple):
    """What there is besides the motors' lag, in s."""

    inner_s: float = INNER_DELAY_S
    outer_s: float = OUTER_DELAY_S


GRAPH = Delays()


def control_loops(
    params: AutopilotParams, vehicle: VehicleParams, delays: Delays = GRAPH
) -> dict[str, tuple[Complex, Complex]]:
    """Controller and process of each loop at :data:`OMEGA`; their product is the open loop.

    Args:
        params: the gains.
        delays: those that a graph may take where none are given.
    """
    attitude, position = params.attitude, params.position
    s = 1j * OMEGA
    # a turn speeds two rotors up and slows two down: the mean lag counts
    lag_s = vehicle.motor_lag_s
    plant = np.exp(-s * delays.inner_s) / (lag_s * s + 1.0)
    spun = plant * (1.0 + spin_up_lead_s(vehicle) * s)
    gyro = 1.0 / (s / (2.0 * np.pi * attitude.gyro_cutoff_hz) + 1.0)
    outer = np.exp(-s * delays.outer_s) / s

    more_gain, more_lead = rate_gain_and_lead(pack(params).attitude, lag_s)

    def rate_gain(axis: int) -> float:
        return attitude.rate_gain[axis] * (more_gain if axis in LEAD_AXES else 1.0)

    def rate(axis: int) -> tuple[Complex, Complex, Complex]:
        """Controller, process, and the closed loop; there is no lead on the request."""
        turn = spun if axis == 2 else plant
        lead_s = more_lead * attitude.rate_lead_s if axis in LEAD_AXES else 0.0
        gain, integral = rate_gain(axis), attitude.rate_integral[axis] / s
        controller, process = gain * (1.0 + lead_s * s) + integral, gyro * turn / s
        return controller, process, (gain + integral) * turn / s / (1.0 + controller * process)

    def closed(controller: Complex, process: Complex) -> Complex:
        return np.asarray(controller * process / (1.0 + controller * process))

    def of(gain: float, integral: float = 0.0) -> Complex:
        return np.asarray(gain + integral / s)

    tilt = of(attitude.tilt_gain), rate(0)[2] / s
    across = of(position.velocity_gain_xy, position.velocity_integral_xy), closed(*tilt) * outer
    up = of(position.velocity_gain_z, position.velocity_integral_z), plant * outer
    return {
        "rate": rate(0)[:2],
        "yaw_rate": rate(2)[:2],
        "tilt": tilt,
        "velocity": across,
        "position": (of(position.position_gain_xy), closed(*across) / s),
        "climb": up,
        "height": (of(position.position_gain_z), closed(*up) / s),
        "yaw": (of(position.yaw_gain), rate(2)[2] * outer),
    }


def all_margins(params: AutopilotParams, vehicle: VehicleParams) -> dict[str, Margins]:
    """Margins of every loop by name; see :func:`control_loops`."""
    loops = control_loops(params, vehicle)
    return {
        name: margins(np.asarray(controller * process))
        for name, (controller, process) in loops.items()
    }


#: A loop with less than this flies badly, if at all: degrees, and a factor.
POOR_PHASE_DEG, POOR_GAIN = 30.0, 1.5


def gains_that_do_not_suit(params: AutopilotParams, vehicle: VehicleParams) -> str:
    """One line where gains leave a multirotor's loops so little margin that it may not fly; or ''.

    Args:
        params: the gains.
    """
    if vehicle.kind != "multirotor":
        return ""
    poor = [
        f"{name} {found.phase_deg:.0f} deg and a factor of {found.gain:.2g}"
        for name, found in all_margins(params, vehicle).items()
        if found.phase_deg < POOR_PHASE_DEG or found.gain < POOR_GAIN
    ]
    if not poor:
        return ""
    return (
        f"the gains of the autopilot {params.name!r} do not suit this vehicle: margin of"
        f" {', '.join(poor)}; asked: {LEAST_PHASE_DEG:g} deg and {LEAST_GAIN:g} (quadsim tune)"
    )


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
#: Lag of the attitude loop over 1 / tilt_gain, as the shipped files have it, and at most.
LAG_SHARE, MOST_LAG_S = 0.8, 1.0

#: Digits of a gain that are worth writing.
DIGITS = 4


@dataclass(frozen=True, slots=True)
class GainBounds:
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


#: Keys of a loop, the proportional gain before the integral: part of the file, name, and of a
#: list the elements that count.
Key = tuple[str, str, tuple[int, ...]]
KEYS: dict[str, tuple[Key, ...]] = {
    "rate": (("attitude", "rate_gain", (0, 1)), ("attitude", "rate_integral", (0, 1))),
    "yaw_rate": (("attitude", "rate_gain", (2,)), ("attitude", "rate_integral", (2,))),
    "tilt": (("attitude", "tilt_gain", ()),),
    "velocity": (("position", "velocity_gain_xy", ()), ("position", "velocity_integral_xy", ())),
    "position": (("position", "position_gain_xy", ()),),
    "climb": (("position", "velocity_gain_z", ()), ("position", "velocity_integral_z", ())),
    "height": (("position", "position_gain_z", ()),),
    "yaw": (("position", "yaw_gain", ()),),
}


def _changed(
    params: AutopilotParams, key: Key, change: Callable[[float], float]
) -> AutopilotParams:
    """Gains with one key changed; the lag of the attitude loop goes with its gain."""
    part, name, axes = key
    group: Any = getattr(params, part)
    value: Any = getattr(group, name)
    new: Any
    if axes:
        new = tuple(rounded(change(v), DIGITS) if i in axes else v for i, v in enumerate(value))
    else:
        new = rounded(change(value), DIGITS)
    parts: dict[str, Any] = {part: replace(group, **{name: new})}
    if name == "tilt_gain":
        lag_s = rounded(min(LAG_SHARE / new, MOST_LAG_S), DIGITS)
        parts["position"] = replace(params.position, attitude_lag_s=lag_s)
    return replace(params, **parts)


def apply_rule(
    name: str, params: AutopilotParams, loop: str, ultimate: tuple[float, float], bounds: GainBounds
) -> AutopilotParams:
    """Set one loop's gains.

    Args:
        name: of :data:`RULES`.
        params: gains so far.
        loop: of :data:`quadsim.lab.tune.loop_margins.LOOPS`.
        ultimate: gain, and period in s.
    """
    rule = RULES[name]
    gain, period_s = ultimate
    attitude, outer = params.attitude, params.position
    share, integral = rule.pi
    if loop == "rate":
        pid_share, pid_integral, lead = rule.pid
        if bounds.lead_fits(pid_share * gain, lead * period_s):
            share, integral = pid_share, pid_integral
        else:
            lead = 0.0
        params = replace(
            params, attitude=replace(attitude, rate_lead_s=rounded(lead * period_s, DIGITS))
        )
        k = bounds.rate_gain(share * gain, 0)
    elif loop == "yaw_rate":
        lead = attitude.rate_lead_s if 2 in LEAD_AXES else 0.0
        # the lead of the other axes raises this one's gain where it would oscillate
        raised_by = math.hypot(1.0, 2.0 * math.pi * lead / period_s)
        k = bounds.rate_gain(share * gain / raised_by, 2)
    elif loop == "climb":
        k = min(share * gain, bounds.lift / FULL_THRUST_MPS)
    elif loop == "velocity":
        k = min(share * gain, min(outer.acceleration_max_mps2, bounds.lift) / FULL_PUSH_MPS)
    else:
        k = rounded(rule.p * gain, DIGITS)
        if loop != "tilt":
            k = bounds.outermost(k, loop)
        if loop == "yaw":
            k = min(k, YAW_SHARE * attitude.rate_gain[2])
    k = rounded(k, DIGITS)
    i = rounded(k / (integral * period_s), DIGITS)
    if loop == "yaw_rate":
        # the inertia of the rotors makes the period short; the integral is to be no quicker for it
        i = min(i, k)
    elif loop == "climb":
        # a gain held back by the actuators leaves no use for the rule's integral
        i = min(i, k * k / 6.0)
    for key, value in zip(KEYS[loop], (k, i), strict=False):
        params = _changed(params, key, lambda _, value=value: value)  # type: ignore[misc]
    return params


def scale_gains(params: AutopilotParams, loop: str, factor: float) -> AutopilotParams:
    """A loop's gains, integral included, times a factor."""
    for key in KEYS[loop]:
        params = _changed(params, key, lambda gain: gain * factor)
    return params


_MOST = {
    (part, leaf.name): math.inf if leaf.spec.le is None else leaf.spec.le
    for part, cls in (("attitude", AttitudeParams), ("position", PositionParams))
    for leaf in leaves(cls)
}


def with_factors(
    params: AutopilotParams, loops: Sequence[str], factors: Sequence[float]
) -> AutopilotParams:
    """Gains times factors, within the ranges that a file may have.

    Args:
        params: gains.
        loops: whose gains are meant.
        factors: one for each key of the loops, in their order.
    """
    keys = [key for loop in loops for key in KEYS[loop]]
    for key, factor in zip(keys, factors, strict=True):
        most = _MOST[key[0], key[1]]
        params = _changed(params, key, lambda gain, f=factor, m=most: min(gain * f, m))  # type: ignore[misc]
    return params


#: Margins that a rate loop is raised to, at most by so much.
RAISED_PHASE_DEG, RAISED_GAIN, RAISED_BY = 46.0, 4.0, 2.0


def raised(params: AutopilotParams, vehicle: VehicleParams, bounds: GainBounds) -> AutopilotParams:
    """Gains of the rate loop about x and y, raised in steps while there is margin to spare."""
    first = params.attitude.rate_gain[0]
    while True:
        tried = scale_gains(params, "rate", 1.1)
        gain = tried.attitude.rate_gain[0]
        found = all_margins(tried, vehicle)["rate"]
        if found.phase_deg < RAISED_PHASE_DEG or found.gain < RAISED_GAIN:
            return params
        fits = bounds.lead_fits(gain, tried.attitude.rate_lead_s)
        if gain > min(RAISED_BY * first, bounds.rate_gain(gain, 0)) or not fits:
            return params
        params = tried


def within_margins(params: AutopilotParams, vehicle: VehicleParams, loop: str) -> AutopilotParams:
    """A loop's gains, taken back by tenths until its margins hold, at most to a tenth."""
    tried = params
    for _ in range(22):
        if all_margins(tried, vehicle)[loop].hold:
            return tried
        tried = scale_gains(tried, loop, 0.9)
    return params
