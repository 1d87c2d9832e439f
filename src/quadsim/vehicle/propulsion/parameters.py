"""Parameters of rotors, motors and battery."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

from quadsim.base.errors import InputError
from quadsim.base.parameters import Choice, Spec

#: How the open-circuit voltage of a battery goes with its charge.
OPEN_CIRCUITS = ("constant", "lithium_polymer")
CONSTANT, LITHIUM_POLYMER = range(2)


@dataclass(frozen=True)
class BatteryParams:
    """A voltage behind a resistance and one RC pair; see ``vehicle.propulsion.motors``."""

    capacity_Ah: Annotated[float, Spec("capacity", "A h", gt=0.0, le=1000.0)] = 5.0
    voltage_V: Annotated[float, Spec("nominal voltage", "V", gt=0.0, le=1000.0)] = 14.8
    efficiency: Annotated[
        float, Spec("shaft power over electric power (first_order)", "1", gt=0.0, le=1.0)
    ] = 0.6
    open_circuit: Annotated[
        Choice, Spec("open-circuit voltage over the charge", choices=OPEN_CIRCUITS)
    ] = "constant"
    resistance_ohm: Annotated[
        float, Spec("in series, of the whole pack", "ohm", ge=0.0, le=100.0)
    ] = 0.0
    polarization_ohm: Annotated[
        float, Spec("of the RC pair, of the whole pack", "ohm", ge=0.0, le=100.0)
    ] = 0.0
    polarization_s: Annotated[float, Spec("time constant of the RC pair", "s", gt=0.0, le=1e4)] = (
        30.0
    )


#: What the ground does to the thrust of a rotor; see ``vehicle.propulsion.ground_effect``.
GROUND_EFFECTS = ("none", "cheeseman_bennett", "sanchez_cuevas")
NO_GROUND_EFFECT, CHEESEMAN_BENNETT, SANCHEZ_CUEVAS = range(3)


#: Where the air that passes a rotor's disc comes from; see ``vehicle.propulsion.inflow``.
INFLOW_MODELS = ("linear", "momentum")
LINEAR_INFLOW, MOMENTUM = range(2)
#: Features of the residuals of thrust and torque; see ``vehicle.propulsion.rotors``.
RESIDUAL_FEATURES = 10
TORQUE_FEATURES = 16


def check_torque_residual(numbers: tuple[float, ...]) -> None:
    """Refuse a residual that lacks features."""
    if len(numbers) not in (0, RESIDUAL_FEATURES, TORQUE_FEATURES):
        raise InputError(
            f"torque_residual: {len(numbers)} numbers;"
            f" allowed: none or {RESIDUAL_FEATURES} or {TORQUE_FEATURES}"
        )


@dataclass(frozen=True)
class RotorParams:
    """What a rotor does besides its thrust; see :mod:`quadsim.vehicle.propulsion.rotors`."""

    thrust_residual_count: ClassVar[int]  # in kernels, as the next
    torque_residual_count: ClassVar[int]
    radius_m: Annotated[float, Spec("of the disc", "m", gt=0.0, le=5.0)] = 0.12
    inertia_kg_m2: Annotated[
        float, Spec("of blades and motor bell about the shaft", "kg m^2", ge=0.0, le=10.0)
    ] = 0.0
    inflow_N_s2: Annotated[
        float,
        Spec(
            "thrust lost over rotor speed and air speed along the shaft",
            "N s^2/(m rad)",
            ge=0.0,
            le=1.0,
        ),
    ] = 0.0
    inflow_model: Annotated[
        Choice,
        Spec("induced velocity: a line through hover, or momentum theory", choices=INFLOW_MODELS),
    ] = "linear"
    blade_inflow_N_s2: Annotated[
        float,
        Spec(
            "momentum: thrust lost over rotor speed and flow through the disc, induced included",
            "N s^2/(m rad)",
            ge=0.0,
            le=1.0,
        ),
    ] = 0.0
    inflow_drag_N_s2_m2: Annotated[
        float,
        Spec(
            "momentum: drag over flow through the disc and air speed in it",
            "N s^2/m^2",
            ge=-10.0,
            le=10.0,
        ),
    ] = 0.0
    hub_moment_N_s2: Annotated[
        float,
        Spec(
            "moment on the hub, up at the side that advances into the air, over rotor speed and"
            " air speed in the disc",
            "N m s^2/(m rad)",
            ge=-1.0,
            le=1.0,
        ),
    ] = 0.0
    thrust_residual: Annotated[
        tuple[float, ...],
        Spec("what data add to the thrust, 10 numbers; none: nothing", max_items=RESIDUAL_FEATURES),
    ] = ()
    residual_advance_ratio: Annotated[
        float,
        Spec(
            "air speed over tip speed beyond which thrust_residual stays; 0: none",
            "1",
            ge=0.0,
            le=10.0,
        ),
    ] = 0.0
    torque_residual: Annotated[
        tuple[float, ...],
        Spec(
            "what data add to the torque, 10 or 16 numbers; none: nothing",
            max_items=TORQUE_FEATURES,
        ),
    ] = ()
    translational_lift_N_s2_m2: Annotated[
        float,
        Spec("thrust gained over squared air speed in the disc", "N s^2/m^2", ge=0.0, le=10.0),
    ] = 0.0
    flapping_rad: Annotated[
        float, Spec("tilt of the disc over the advance ratio", "rad", ge=0.0, le=10.0)
    ] = 0.0
    hinge_stiffness_N_m: Annotated[
        float, Spec("moment on the hub over the tilt of the disc", "N m/rad", ge=0.0, le=100.0)
    ] = 0.0
    ground_effect: Annotated[
        Choice, Spec("gain of thrust near the ground", choices=GROUND_EFFECTS)
    ] = "none"
    fountain: Annotated[
        float,
        Spec("share of the air that rises under the body (sanchez_cuevas)", "1", ge=0.0, le=10.0),
    ] = 2.0

    def __post_init__(self) -> None:
        """Refuse a residual that lacks features, and figures that the inflow model does not use."""
        if len(self.thrust_residual) not in (0, RESIDUAL_FEATURES):
            raise InputError(
                f"thrust_residual: {len(self.thrust_residual)} numbers;"
                f" allowed: none or {RESIDUAL_FEATURES}"
            )
        check_torque_residual(self.torque_residual)
        momentum = (self.blade_inflow_N_s2, self.inflow_drag_N_s2_m2)
        unused = (self.inflow_N_s2,) if self.inflow_model == "momentum" else momentum
        if any(unused):
            raise InputError(
                f"inflow_model: {self.inflow_model}; allowed: inflow_N_s2 with linear,"
                " blade_inflow_N_s2 and inflow_drag_N_s2_m2 with momentum"
            )


#: What a motor is; see :mod:`quadsim.vehicle.propulsion.motors`.
MOTOR_MODELS = ("first_order", "electric")
FIRST_ORDER, ELECTRIC = range(2)


@dataclass(frozen=True)
class MotorParams:
    """A brushless motor and its speed controller; the figures are those of model ``electric``."""

    model: Annotated[Choice, Spec("how the speed follows the command", choices=MOTOR_MODELS)] = (
        "first_order"
    )
    kv_rpm_V: Annotated[float, Spec("no-load speed over voltage", "rev/min/V", ge=0.0, le=1e5)] = (
        0.0
    )
    resistance_ohm: Annotated[float, Spec("of winding and controller", "ohm", ge=0.0, le=100.0)] = (
        0.0
    )
    no_load_current_A: Annotated[
        float, Spec("current that friction takes", "A", ge=0.0, le=100.0)
    ] = 0.0
    current_max_A: Annotated[
        float, Spec("limit of the controller; 0 for none", "A", ge=0.0, le=1000.0)
    ] = 0.0

    def __post_init__(self) -> None:
        """Refuse an electric motor without a winding."""
        if self.model == "electric" and min(self.kv_rpm_V, self.resistance_ohm) <= 0.0:
            raise InputError(
                f"kv_rpm_V: {self.kv_rpm_V:g} with resistance_ohm {self.resistance_ohm:g}; allowed"
                " with model electric: both > 0"
            )


def check_electric(
    rotor: RotorParams,
    motor: MotorParams,
    battery: BatteryParams,
    hover_radps: float,
    torque_Nm: float,
) -> None:
    """Refuse electric motors that cannot turn their rotors at hover.

    Args:
        rotor: for its inertia.
        motor: the motor.
        battery: for its nominal voltage.
        hover_radps: rotor speed at hover.
        torque_Nm: drag torque of a rotor then.

    Raises:
        InputError: no inertia, or the voltage or the current does not suffice.
    """
    if rotor.inertia_kg_m2 <= 0.0:
        raise InputError("rotor: inertia_kg_m2: 0; allowed with motor: model: electric: > 0")
    constant = 30.0 / (math.pi * motor.kv_rpm_V)  # V s/rad, and N m/A
    current_A = torque_Nm / constant + motor.no_load_current_A
    needed_V = constant * hover_radps + motor.resistance_ohm * current_A
    if needed_V >= battery.voltage_V:
        raise InputError(
            f"motor: hover takes {needed_V:.3g} V of {battery.voltage_V:.3g} V; allowed: less"
            " (kv_rpm_V, resistance_ohm, battery)"
        )
    if 0.0 < motor.current_max_A <= current_A:
        raise InputError(f"motor: current_max_A: hover takes {current_A:.3g} A; allowed: more")
