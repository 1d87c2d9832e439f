"""What a closed-loop twin is told of what flew: a file of ``config/twins``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from quadsim.base.parameters import Spec, Vec3
from quadsim.lab.validate.lee import LeeParams


@dataclass(frozen=True)
class DutyParams:
    """Rotor speeds by duty and battery voltage."""

    speed: Annotated[
        tuple[float, ...],
        Spec("speed by 1, duty, volt, duty x volt, duty^2", "rad/s", ge=-1e5, le=1e5, max_items=5),
    ]
    apart_radps: Annotated[
        tuple[float, ...], Spec("of each rotor from that", "rad/s", ge=-1e3, le=1e3, max_items=4)
    ]
    delay_s: Annotated[float, Spec("from rates to motors", "s", ge=0.0, le=0.1)]


@dataclass(frozen=True)
class EstimateParams:
    """What the on-board estimate makes of the motion, in which a Kalman filter errs alike again."""

    velocity: Annotated[Vec3, Spec("estimated over true, in W", "1", gt=0.0, le=2.0)]
    tilt_s_per_m: Annotated[Vec3, Spec("error by speed along y, x and z", "s/m", ge=-1.0, le=1.0)]
    tilt_s: Annotated[Vec3, Spec("error by rate about the same axis", "s", ge=-1.0, le=1.0)]


@dataclass(frozen=True)
class InstrumentParams:
    """Filters and noise of what the log shows."""

    gyroscope_hz: Annotated[
        tuple[float, ...], Spec("corners of its low-passes", "Hz", gt=0.0, le=450.0, max_items=4)
    ]
    accelerometer_hz: Annotated[
        tuple[float, ...], Spec("corners of its low-passes", "Hz", gt=0.0, le=450.0, max_items=4)
    ]
    gyroscope_radps: Annotated[Vec3, Spec("noise of a sample", "rad/s", ge=0.0, le=10.0)]
    accelerometer_mps2: Annotated[Vec3, Spec("noise of a sample", "m/s^2", ge=0.0, le=100.0)]
    accelerometer_rise: Annotated[
        float,
        Spec("of a sample's noise taken off the next", "1", ge=0.0, lt=1.0),
    ]
    frame_hz: Annotated[float, Spec("where the frame resonates", "Hz", gt=0.0, le=450.0)]
    frame_width: Annotated[float, Spec("of that, over its frequency", "1", gt=0.0, le=10.0)]
    frame_density: Annotated[
        Vec3, Spec("of its acceleration there", "m/s^2/sqrt(Hz)", ge=0.0, le=10.0)
    ]
    gyroscope_line_radps: Annotated[
        Vec3, Spec("amplitude of each rotor's line, behind the filters", "rad/s", ge=0.0, le=1.0)
    ]
    accelerometer_line_mps2: Annotated[
        Vec3, Spec("amplitude of each rotor's line, behind the filters", "m/s^2", ge=0.0, le=10.0)
    ]
    line_order: Annotated[
        float, Spec("frequency of the lines over that of the recorded speed", "1", gt=0.9, lt=1.1)
    ]
    accelerometer_floor_mps2: Annotated[
        Vec3, Spec("noise of a sample behind the filters", "m/s^2", ge=0.0, le=10.0)
    ]
    gyroscope_floor_radps: Annotated[
        Vec3, Spec("noise of a sample behind the filters", "rad/s", ge=0.0, le=1.0)
    ]
    speed_floor_radps: Annotated[
        tuple[float, ...], Spec("noise of each rotor's speed, beside turn_s", "rad/s", ge=0.0,
                                le=100.0, max_items=4)
    ]  # fmt: skip
    turn_s: Annotated[
        tuple[float, ...], Spec("noise of the time at which a blade passes", "s", ge=0.0, le=1e-3,
                                max_items=4)
    ]  # fmt: skip


@dataclass(frozen=True)
class ShakeParams:
    """Force and torque that the vehicle's file does not explain: Gauss-Markov, body axes."""

    force_N: Annotated[Vec3, Spec("deviation", "N", ge=0.0, le=10.0)]
    torque_Nm: Annotated[Vec3, Spec("deviation", "N m", ge=0.0, le=10.0)]
    force_s: Annotated[float, Spec("correlation time", "s", gt=0.0, le=10.0)]
    torque_s: Annotated[float, Spec("correlation time", "s", gt=0.0, le=10.0)]


@dataclass(frozen=True)
class SpreadParams:
    """What differs from flight to flight: standard deviations."""

    centre_m: Annotated[Vec3, Spec("centre of mass: a battery put in anew", "m", ge=0.0, le=0.1)]
    shake: Annotated[float, Spec("of the logarithm of what shakes it", "1", ge=0.0, le=3.0)]
    turn: Annotated[float, Spec("of the logarithm of a rotor's turn_s", "1", ge=0.0, le=3.0)]


@dataclass(frozen=True)
class TwinParams:
    """What flew, beside the vehicle's file."""

    controller: LeeParams
    motors: DutyParams
    estimate: EstimateParams
    instruments: InstrumentParams
    shake: ShakeParams
    spread: SpreadParams
    path: Annotated[
        tuple[tuple[float, ...], ...],
        Spec("pieces: duration in s, eight numbers each of x, y, z, lowest order first", "1",
             ge=-1e3, le=1e3, max_items=100),
    ]  # fmt: skip
