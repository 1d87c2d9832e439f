"""Relay experiments in simulated flight: ultimate gain and period of each loop.

Astrom and Hagglund, "Automatic tuning of simple regulators with specifications on phase and
amplitude margins", *Automatica* 20(5), 1984: with a relay of amplitude d and hysteresis h instead
of a controller, a process oscillates at about its ultimate period, and its ultimate gain is
4 d / (pi sqrt(a^2 - h^2)) by the describing function, a the amplitude of its signal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.errors import FlightError, InputError
from quadsim.base.noise import stream
from quadsim.control.airframe import pack_airframe
from quadsim.control.inner_loop import new_inner_loop
from quadsim.control.parameters import AutopilotParams
from quadsim.control.position import new_position_control
from quadsim.lab.tune.loop_margins import INNER_DELAY_S, LOOPS
from quadsim.lab.tune.relay_flight import HEIGHT, RATE, RELAY, TILT, YAW_RATE, fly_relay
from quadsim.sim.log import Array
from quadsim.sim.loop import MAX_DELAY, STATE
from quadsim.sim.scenario import Scenario
from quadsim.sim.vehicles import make_setups
from quadsim.vehicle.start import stand
from quadsim.vehicle.state import ROTOR, P

Records = NDArray[np.record]

#: Height above ground at which the relays fly, far from its effect.
HEIGHT_M = 60.0

#: Loop to the axes on which it is tried, of which the lower ultimate gain counts, and the amplitude
#: that its limit cycle is to have: rad/s, rad, m/s or m.
AXES_WANTED = {
    "rate": ((0, 1), 0.4),
    "tilt": ((0, 1), 0.1),
    "velocity": ((0, 1), 0.3),
    "position": ((0, 1), 0.25),
    "climb": ((2,), 0.2),
    "height": ((2,), 0.15),
    "yaw_rate": ((2,), 0.1),
    "yaw": ((2,), 0.1),
}

#: Hysteresis over the wanted amplitude, and over the deviation of the noise.
BAND_SHARE, BAND_SIGMAS = 0.02, 3.0
#: The limit cycle is to be so many times as large as the hysteresis.
CLEAR = 5.0
#: Largest part of a loop's authority that a relay takes; first try.
MOST_SHARE, FIRST_SHARE = 0.6, 0.4
#: The same of the relays that hold the rates that are not in question.
KEEP_SHARE = 0.1

_STILL_XY = {"velocity_gain_xy": 1.0, "velocity_integral_xy": 0.0}
_STILL_Z = {"velocity_gain_z": 1.5, "velocity_integral_z": 0.3}
#: Loop to the outer gains of its flight, and to the most of the tilt's.
KEEPERS = {
    "velocity": {"velocity_gain_xy": 0.0, "velocity_integral_xy": 0.0, **_STILL_Z},
    "position": _STILL_Z,
    "climb": {"velocity_gain_z": 0.0, "velocity_integral_z": 0.0, **_STILL_XY},
    "height": _STILL_XY,
    "yaw": {**_STILL_XY, **_STILL_Z},
}
MOST_TILT_GAIN = {"rate": 0.4, "yaw_rate": 0.4, "tilt": 3.0}
#: Longest flight.
LONGEST_S = 48.0


#: Cycles that a flight has at least, of which the last are judged.
CYCLES, JUDGED = 14, 8
#: Periods of a limit cycle differ by less than this part.
REGULAR = 0.3


@dataclass(frozen=True, slots=True)
class LimitCycle:
    """What a relay experiment tells.

    Attributes:
        gain: ultimate gain, output over signal.
        period_s: ultimate period.
        output: amplitude of the relay's output.
        axis: of the body or of the world.
    """

    gain: float
    period_s: float
    amplitude: float
    output: float
    hysteresis: float
    axis: int = 0

    def summary(self) -> dict[str, float]:
        """As JSON has it."""
        return {
            "ultimate_gain": self.gain,
            "ultimate_period_s": self.period_s,
            "amplitude": self.amplitude,
            "relay": self.output,
            "hysteresis": self.hysteresis,
        }


def limit_cycle(
    signal: Array, output: Array, dt_s: float, hysteresis: float, axis: int = 0
) -> LimitCycle | None:
    """Judge the last cycles of a relay experiment.

    The amplitude is that of the signal's first harmonic, which is what the describing function
    means, and which noise does not widen.

    Args:
        signal: (N,) what the relay looked at.
        output: (N,) what it gave, two values.
        axis: to be stored.

    Returns:
        None where there are too few cycles, or irregular ones.
    """
    rises = np.flatnonzero((output[1:] > 0.0) & (output[:-1] < 0.0)) + 1
    if len(rises) < CYCLES:
        return None
    rises = rises[-(JUDGED + 1) :]
    periods = np.diff(rises)
    if np.ptp(periods) > max(REGULAR * periods.mean(), 2.0):
        return None
    rows = slice(rises[0], rises[-1])
    count = rises[-1] - rises[0]
    turns = np.exp(-2j * np.pi * JUDGED * np.arange(count) / count)
    amplitude = float(2.0 * abs(np.mean((signal[rows] - signal[rows].mean()) * turns)))
    size = float(np.abs(output[rows]).max())
    if amplitude <= hysteresis:
        return None
    return LimitCycle(
        gain=4.0 * size / (math.pi * math.sqrt(amplitude**2 - hysteresis**2)),
        period_s=float(periods.mean() * dt_s),
        amplitude=amplitude,
        output=size,
        hysteresis=hysteresis,
        axis=axis,
    )


def torque_authority(scenario: Scenario) -> tuple[float, float, float]:
    """Angular acceleration about each body axis that the rotors give in hover, in rad/s^2."""
    airframe = pack_airframe(scenario.airframe)
    shares = airframe.allocation[: airframe.rotors]
    hover_N = shares[:, 0] * airframe.mass_kg * scenario.autopilot.gravity_mps2
    room_N = np.minimum(
        hover_N - airframe.rotor_thrust_min_N, airframe.rotor_thrust_max_N - hover_N
    )
    torque = (room_N[:, None] / np.maximum(np.abs(shares[:, 1:4]), 1e-12)).min(axis=0)
    x, y, z = (torque / airframe.inertia_kg_m2).tolist()
    return x, y, z


def filtered_share(autopilot: AutopilotParams, dt_s: float) -> tuple[float, float]:
    """Of white noise: deviation that the rates' low-pass leaves, and of its derivative, 1/s."""
    weight = 1.0 - math.exp(-2.0 * math.pi * autopilot.attitude.gyro_cutoff_hz * dt_s)
    left = math.sqrt(weight / (2.0 - weight))
    return left, left * math.sqrt(2.0 * weight) / dt_s


def inner_samples(dt_s: float) -> int:
    """Samples by which a motor command is late in a graph, at most."""
    return min(MAX_DELAY, round((INNER_DELAY_S - 0.001) / dt_s))


class RelayBench:
    """Relay experiments with one vehicle.

    Args:
        scenario: vehicle, sensors and physics; its seed is the noise's.

    Raises:
        InputError: a helicopter, whose rates have a controller of their own, or one that cannot
            hover.
    """

    def __init__(self, scenario: Scenario) -> None:
        if scenario.vehicle.kind != "multirotor":
            raise InputError(
                f"--vehicle {scenario.vehicle.name}: a {scenario.vehicle.kind} has a rate loop of"
                " its own; tune takes a multirotor"
            )
        self.scenario = scenario
        self.dt_s = scenario.imu_period_ns * 1e-9
        self.inner_samples = inner_samples(self.dt_s)
        self.authority = torque_authority(scenario)
        if min(self.authority) <= 0.0:
            raise InputError(
                f"--vehicle {scenario.vehicle.name}: cannot hover with torque to spare"
            )
        #: (3,) deviation of one sample of the body rates, by the gyroscope's file
        self.sigma = np.sqrt(np.asarray(scenario.imu.gyro_variance(), float))

    def outer_samples(self, autopilot: AutopilotParams) -> int:
        """Samples that half a period of the outer loop is."""
        return round(0.5 / autopilot.position.rate_hz / self.dt_s)

    def _start(self, autopilot: AutopilotParams) -> tuple[Records, Records]:
        """STATE and SETUP of a vehicle in hover, high up in calm air."""
        scenario = self.scenario
        setups = make_setups(replace(scenario, autopilot=autopilot, disturbances=()))
        setups[0].delay = self.inner_samples
        states = np.zeros(1, STATE)
        state = states[0]
        stand(
            state.vehicle, scenario.vehicle, scenario.environment, scenario.scene,
            scenario.file.physics, (0.0, 0.0, 0.0),
        )  # fmt: skip
        airframe = setups[0].airframe
        weight_N = airframe.mass_kg * autopilot.gravity_mps2
        thrust_N = airframe.allocation[:, 0] * weight_N
        speeds = np.sqrt(thrust_N / airframe.thrust_coefficient_N_s2)
        state.vehicle.x[P + 2] += HEIGHT_M
        state.vehicle.x[ROTOR : ROTOR + len(speeds)] = speeds
        state.vehicle.last_x[:] = state.vehicle.x
        state.pending[:] = speeds
        state["truth"][0]["p_W"] = state.vehicle.x[P : P + 3]
        state["truth"][0]["q_WB"] = state.odometry.q_WB = (1.0, 0.0, 0.0, 0.0)
        state.odometry.p_W = state.vehicle.x[P : P + 3]
        state["inner"] = new_inner_loop()
        state["position"] = new_position_control(autopilot, airframe)
        return states, setups

    def _keepers(self, autopilot: AutopilotParams, name: str) -> AutopilotParams:
        """Gains of a flight: the relay's loop without its controller, those around it gentle."""
        tilt_gain = min(autopilot.attitude.tilt_gain, MOST_TILT_GAIN.get(name, math.inf))
        outer: Any = {"attitude_lag_s": 0.0, "braking_mps2": 50.0, **KEEPERS.get(name, {})}
        return replace(
            autopilot,
            position=replace(autopilot.position, **outer),
            attitude=replace(autopilot.attitude, tilt_gain=tilt_gain),
        )

    def most(self, name: str, autopilot: AutopilotParams, axis: int) -> float:
        """Largest output of a relay.

        Half of what it jumps by, through the gains of the loops inside, is a part of what the
        rotors give: a limit cycle in which they saturate tells of a slower vehicle.
        """
        outer, attitude = autopilot.position, autopilot.attitude
        if name in ("rate", "yaw_rate"):
            return MOST_SHARE * self.authority[axis]
        lift, gravity = pack_airframe(self.scenario.airframe), autopilot.gravity_mps2
        spare = min(lift.thrust_max_mps2 - gravity, gravity - lift.thrust_min_mps2)
        half = 0.5 * MOST_SHARE
        turn = half * self.authority[0] / attitude.rate_gain[0]
        push = gravity * turn / attitude.tilt_gain
        by_rotors, by_file = {
            "tilt": (turn, attitude.tilt_rate_max_radps),
            "velocity": (push, outer.acceleration_max_mps2),
            "position": (push / max(outer.velocity_gain_xy, 1e-6), outer.speed_max_mps),
            "climb": (half * spare, half * spare),
            "height": (half * spare / max(outer.velocity_gain_z, 1e-6), outer.descent_max_mps),
            "yaw": (half * self.authority[2] / attitude.rate_gain[2], outer.yaw_rate_max_radps),
        }[name]
        return float(min(by_rotors, MOST_SHARE * by_file))

    def fly(
        self, name: str, autopilot: AutopilotParams, axis: int, output: float, hysteresis: float
    ) -> LimitCycle | None:
        """Fly until the limit cycle has shown itself; None where it does not come in time.

        Args:
            name: of :data:`LOOPS`.
            autopilot: gains of the loops inside it.
            axis: of the body (rate, tilt) or of the world.
        """
        loop = LOOPS.index(name)
        gains = self._keepers(autopilot, name)
        seconds = 3.0
        while seconds <= LONGEST_S:
            states, setups = self._start(gains)
            relays = np.zeros(1, RELAY)
            relay = relays[0]
            relay.loop, relay.axis = loop, axis
            relay.amplitude, relay.hysteresis = output, hysteresis
            left = filtered_share(autopilot, self.dt_s)[0]
            relay.keep[:] = KEEP_SHARE * np.array(self.authority)
            relay.keep_hysteresis = BAND_SIGMAS * left * float(self.sigma.max()) + 0.01
            relay.goal = states[0].odometry.p_W[2] if loop == HEIGHT else 0.0
            relay.switched[:] = 1.0
            queue: Array = np.zeros((self.outer_samples(autopilot), 6))
            queue[:, 0], queue[:, 5] = 1.0, autopilot.gravity_mps2
            if loop in (RATE, TILT, YAW_RATE):
                queue = queue[:0]
            trace = np.zeros((round(seconds / self.dt_s), 2))
            white = stream(self.scenario.file.seed, "relay", name).standard_normal((len(trace), 3))
            rows = fly_relay(
                states, setups, self.scenario.scene, relays, queue, white * self.sigma, trace
            )
            signal, given = trace[:rows, 0], trace[:rows, 1]
            found = limit_cycle(signal, given, self.dt_s, hysteresis, axis)
            if found is not None or relay.lost:
                return found
            seconds *= 2.0
        return None

    def measure(self, name: str, autopilot: AutopilotParams, axis: int) -> LimitCycle:
        """Ultimate gain and period of a loop on one axis: a first try, then a clear limit cycle.

        Raises:
            FlightError: the limit cycle does not come.
        """
        most = self.most(name, autopilot, axis)
        band = 0.0
        if name in ("rate", "yaw_rate"):
            left = filtered_share(autopilot, self.dt_s)[0]
            band = BAND_SIGMAS * left * float(self.sigma[axis])
        for output in (FIRST_SHARE * most, most):
            found = self.fly(name, autopilot, axis, output, band)
            if found is not None:
                wanted = max(AXES_WANTED[name][1], CLEAR * band)
                scale = min(wanted / found.amplitude, most / output)
                band = max(band, BAND_SHARE * scale * found.amplitude)
                return self.fly(name, autopilot, axis, scale * output, band) or found
        raise FlightError(
            f"{name} loop, axis {'xyz'[axis]}: no limit cycle under a relay of up to {most:.3g};"
            " tune the loops inside it first (--loops), or give sensors with less noise (--sensors)"
        )

    def ultimate(self, name: str, autopilot: AutopilotParams) -> LimitCycle:
        """The lower ultimate gain of a loop's axes; see :meth:`measure`."""
        found = [self.measure(name, autopilot, axis) for axis in AXES_WANTED[name][0]]
        return min(found, key=lambda cycle: cycle.gain)
