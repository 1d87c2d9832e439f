"""What a closed-loop twin is told of what flew: a file of ``config/twins``."""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Annotated

from quadsim.base.errors import InputError
from quadsim.base.parameters import Spec, Vec3
from quadsim.lab.validate.lee import LeeParams

#: Numbers of a piece of the path: a duration, and eight each of x, y and z.
PIECE = 25


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
    climb_s_per_m: Annotated[
        float, Spec("false climb by the square of the horizontal velocity", "s/m", ge=-1.0, le=1.0)
    ]
    tilt_s_per_m: Annotated[Vec3, Spec("error by speed along y, x and z", "s/m", ge=-1.0, le=1.0)]
    tilt_s: Annotated[Vec3, Spec("error by rate about the same axis", "s", ge=-1.0, le=1.0)]


@dataclass(frozen=True)
class InstrumentParams:
    """Filters of what the log shows, and the rotors' lines behind them."""

    gyroscope_hz: Annotated[
        tuple[float, ...], Spec("corners of its low-passes", "Hz", gt=0.0, le=450.0, max_items=4)
    ]
    accelerometer_hz: Annotated[
        tuple[float, ...], Spec("corners of its low-passes", "Hz", gt=0.0, le=450.0, max_items=4)
    ]
    gyroscope_line_radps: Annotated[
        Vec3, Spec("amplitude of each rotor's line", "rad/s", ge=0.0, le=1.0)
    ]
    accelerometer_line_mps2: Annotated[
        Vec3, Spec("amplitude of each rotor's line", "m/s^2", ge=0.0, le=10.0)
    ]
    line_order: Annotated[
        float, Spec("frequency of the lines over that of the recorded speed", "1", gt=0.9, lt=1.1)
    ]


@dataclass(frozen=True)
class SpectrumParams:
    """Noise by its density at some frequencies, straight between them in logarithms."""

    hz: Annotated[tuple[float, ...], Spec("rising", "Hz", gt=0.0, le=1000.0, max_items=60)]
    density: Annotated[
        tuple[tuple[float, ...], ...],
        Spec("of each channel at each, unit of the channel/sqrt(Hz)", "1", gt=0.0, le=1e3,
             max_items=60),
    ]  # fmt: skip

    def __post_init__(self) -> None:
        """Refuse frequencies that do not rise, and densities that are not one for each."""
        if not self.hz or any(after <= before for before, after in pairwise(self.hz)):
            raise InputError("hz: give frequencies that rise")
        counts = [len(row) for row in self.density]
        if counts != [len(self.hz)] * len(counts):
            raise InputError(f"density: {counts} numbers; give {len(self.hz)} for each channel")


@dataclass(frozen=True)
class SessionParams:
    """One battery, and the noise while it was in; a flight is of the session of nearest ``scale``.

    Noise is of the air, of the on-board estimate, of the motors and of what the log shows.
    """

    scale: Annotated[float, Spec("time scale of its flights", "1", gt=0.0, le=10.0)]
    trim_Nm: Annotated[
        Vec3, Spec("of the battery's place and of unlike propellers", "N m", ge=-1.0, le=1.0)
    ]
    force: Annotated[SpectrumParams, Spec("of the air, body axes, N")]
    torque: Annotated[SpectrumParams, Spec("of the air, body axes, N m")]
    attitude: Annotated[SpectrumParams, Spec("of the on-board estimate, body axes, rad")]
    motors: Annotated[SpectrumParams, Spec("of what the motors make of a duty, rad/s")]
    gyroscope: Annotated[SpectrumParams, Spec("behind the filters, rad/s")]
    accelerometer: Annotated[SpectrumParams, Spec("behind the filters, m/s^2")]
    rotors: Annotated[SpectrumParams, Spec("of the recorded speeds, rad/s")]

    def __post_init__(self) -> None:
        """Refuse spectra of another number of channels."""
        for name, spectrum in self.spectra.items():
            channels = 4 if name in ("motors", "rotors") else 3
            if len(spectrum.density) != channels:
                raise InputError(f"{name}: {len(spectrum.density)} channels; give {channels}")

    @property
    def spectra(self) -> dict[str, SpectrumParams]:
        """Spectra by their names."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: each for name, each in values.items() if isinstance(each, SpectrumParams)}


@dataclass(frozen=True)
class SpreadParams:
    """What differs from flight to flight and within one: standard deviations."""

    trim_Nm: Annotated[Vec3, Spec("of the session's", "N m", ge=0.0, le=1.0)]
    shake: Annotated[
        float, Spec("of the logarithm of force, torque and attitude", "1", ge=0.0, le=3.0)
    ]
    noise: Annotated[float, Spec("of the logarithm of all other noise", "1", ge=0.0, le=3.0)]
    wander_s: Annotated[float, Spec("time in which these logarithms wander", "s", gt=0.0, le=1e3)]


@dataclass(frozen=True)
class TwinParams:
    """What flew, beside the vehicle's file."""

    controller: LeeParams
    motors: DutyParams
    estimate: EstimateParams
    instruments: InstrumentParams
    sessions: Annotated[tuple[SessionParams, ...], Spec("one at least")]
    spread: SpreadParams
    path: Annotated[
        tuple[tuple[float, ...], ...],
        Spec("pieces: duration in s, eight numbers each of x, y, z, lowest order first", "1",
             ge=-1e3, le=1e3, max_items=100),
    ]  # fmt: skip

    def __post_init__(self) -> None:
        """Refuse a twin without noise or without a path."""
        if not self.sessions:
            raise InputError("sessions: none; give one at least")
        if not self.path or any(len(piece) != PIECE or piece[0] <= 0.0 for piece in self.path):
            raise InputError(f"path: give pieces of {PIECE} numbers, the first > 0")
