"""Heading by two antennas of one receiver: the azimuth of the baseline from first to second.

A receiver knows the baseline to a few millimetres by the phase of the carrier, so its direction the
better, the longer it is across the vertical (Teunissen, *The LAMBDA method for the GNSS compass*,
Artificial Satellites 41(3), 2006). The error is white, and multipath, which lasts. A fault
``outage`` ends it, as it does that of the receiver's positions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from quadsim.base.compiled import Array, Over, Record, Records, kernel
from quadsim.base.elementary import atan2, exp
from quadsim.base.normals import draw_normals
from quadsim.base.parameters import Spec, Vec3
from quadsim.base.records import Kinematics
from quadsim.geometry.axes import LEAST_BASELINE_M, refuse_steep_baseline
from quadsim.geometry.length import hypot
from quadsim.geometry.rotation import quat, rotate, wrap
from quadsim.geometry.vector import vec3
from quadsim.sensors.error_terms import DeliveredParams, Rate
from quadsim.sensors.model import Reading, SensorModel
from quadsim.sensors.slot import SensorWorld, Slot
from quadsim.wire.samples import heading_messages
from quadsim.world.environment import EnvironmentParams


@dataclass(frozen=True)
class GnssHeadingParams(DeliveredParams):
    """One receiver with two antennas; zero switches an error off."""

    rate_hz: Annotated[float, Rate("headings a second", "Hz", ge=0.1, le=50.0)] = 10.0
    baseline_B_m: Annotated[Vec3, Spec("from the first antenna to the second", "m")] = (
        1.0,
        0.0,
        0.0,
    )
    noise_deg_m: Annotated[
        float, Spec("deviation of a heading over a baseline of 1 m", "deg m", ge=0.0, le=90.0)
    ] = 0.0
    correlated_share: Annotated[
        float, Spec("of its variance, correlated in time: multipath", ge=0.0, le=1.0)
    ] = 0.0
    correlation_time_s: Annotated[
        float, Spec("of that share, a Gauss-Markov process", "s", gt=0.0, le=1e5)
    ] = 30.0
    first_fix_s: Annotated[
        float, Spec("from switch-on to the first heading", "s", ge=0.0, le=1e4)
    ] = 0.0

    def __post_init__(self) -> None:
        """Refuse antennas at one place, or one above the other.

        Raises:
            InputError: naming the baseline.
        """
        refuse_steep_baseline("baseline_B_m", self.baseline_B_m)


class GnssHeadingState(Record):
    """What it remembers: the error that lasts, in its deviations, and the time since switch-on."""

    correlated: float
    age_s: float


class GnssHeadingSample(Record):
    """Azimuth of the baseline from east, counter-clockwise; NaN without one."""

    stamp_ns: int
    heading_rad: float
    variance_rad2: float
    values: Annotated[Array, 1, Over("heading_rad")]
    variances: Annotated[Array, 1, Over("variance_rad2")]


GnssHeadingSlot = Slot[GnssHeadingParams, GnssHeadingState, GnssHeadingSample]


def start_gnss_heading(
    state: GnssHeadingState, params: GnssHeadingParams, generator: np.random.Generator
) -> None:
    """Draw the correlated error of a receiver that has been on for long."""
    state.correlated = float(draw_normals(generator, 1)[0])


@kernel
def gnss_heading_step(
    slots: Records[GnssHeadingSlot], world: SensorWorld, nows: Records[Kinematics], white: Array
) -> None:
    """One heading, or NaN before the first and where the baseline is too steep."""
    slot, true = slots[0], nows[0]
    state, device, sample = slot.state, slot.params, slot.sample
    dt_s = (true.stamp_ns - slot.previous.stamp_ns) * 1e-9
    state.age_s += dt_s
    decay = exp(-dt_s / device.correlation_time_s)
    state.correlated = decay * state.correlated + math.sqrt(1.0 - decay * decay) * white[0]
    x, y, _ = rotate(quat(true.q_WB), vec3(device.baseline_B_m))
    level_m = hypot(x, y)
    sigma = device.noise_deg_m * math.pi / 180.0 / max(level_m, LEAST_BASELINE_M)
    share = device.correlated_share
    error = math.sqrt(1.0 - share) * white[1] + math.sqrt(share) * state.correlated
    sample.variance_rad2 = sigma * sigma
    started = state.age_s + 0.5 / device.rate_hz >= device.first_fix_s
    there = started and level_m >= LEAST_BASELINE_M
    sample.heading_rad = wrap(atan2(y, x) + sigma * error) if there else np.nan


def told_of_gnss_heading(device: GnssHeadingParams, _: EnvironmentParams) -> dict[str, Any]:
    """What an installer tells the estimator of it; it does without a compass then."""
    return {
        "mount.baseline_B_m": device.baseline_B_m,
        "start.require_heading": False,
        "noise.gnss_heading_correlation_s": device.correlation_time_s
        if device.correlated_share > 0.0
        else 0.0,
    }


MODEL = SensorModel(
    "gnss_heading",
    GnssHeadingSlot,
    2,
    start_gnss_heading,
    gnss_heading_step,
    {"heading": (0, 1)},
    readings=(Reading("gnss_heading", variance="variances", rows=1, absent=np.isnan),),
    messages=(lambda frame, *_: heading_messages(frame),),
    told=told_of_gnss_heading,
)
