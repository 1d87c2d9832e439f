"""Linear models of the control loops: open loops, stability margins, ultimate gain and period.

The motors are first-order lags, everything that is sampled is held for half a period, and what a
graph may take is a delay; docs/control.md has the figures. Roll and pitch are alike: gains are
angular accelerations, so that the inertia does not count. About the vertical a rotor that is sped
up turns the body by its own inertia, before its drag does: a lead.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from quadsim.base.parameters import pack
from quadsim.control.attitude import rate_gain_and_lead
from quadsim.control.parameters import GRAVITY_MPS2, AutopilotParams
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
