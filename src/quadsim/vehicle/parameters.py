"""Parameters of a multirotor; files in ``config/vehicles``."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from quadsim.base.errors import InputError
from quadsim.base.parameters import Choice, Spec, Vec3
from quadsim.base.records import HELICOPTER_COMMANDS, MAX_ROTORS, VEHICLE_KINDS
from quadsim.geometry.axes import unit_axes
from quadsim.vehicle.contact.hull import MAX_FEET, MAX_HULL, hull_points
from quadsim.vehicle.layout import LAYOUTS, lay_out
from quadsim.vehicle.propulsion.parameters import (
    TORQUE_FEATURES,
    BatteryParams,
    MotorParams,
    RotorParams,
    check_electric,
    check_torque_residual,
)

#: Most steps back of the torque's memory.
TORQUE_STEPS = 6


@dataclass(frozen=True)
class ContactParams:
    """Points that ground, obstacles and vehicles push back; see ``vehicle.contact.contact``."""

    points_B_m_count: ClassVar[int]  # in kernels, as the next
    hull_B_m_count: ClassVar[int]
    points_B_m: Annotated[
        tuple[Vec3, ...], Spec("feet", "m", ge=-5.0, le=5.0, max_items=MAX_FEET)
    ] = (
        (0.1, 0.1, -0.1),
        (-0.1, 0.1, -0.1),
        (-0.1, -0.1, -0.1),
        (0.1, -0.1, -0.1),
    )
    sag_m: Annotated[
        float, Spec("depth to which the feet sink under the weight", "m", gt=1e-4, le=0.1)
    ] = 0.003
    damping_ratio: Annotated[float, Spec("of the vertical motion", "1", ge=0.0, le=2.0)] = 0.7
    friction: Annotated[float, Spec("Coulomb coefficient", "1", ge=0.0, le=2.0)] = 0.8
    hull_B_m: Annotated[
        tuple[Vec3, ...],
        Spec(
            "what else touches, with the feet; none: tips of the rotors and the top",
            "m",
            ge=-10.0,
            le=10.0,
            max_items=MAX_HULL,
        ),
    ] = ()
    hull_sag_m: Annotated[
        float,
        Spec("depth to which one point of the hull sinks under the weight", "m", gt=1e-4, le=0.1),
    ] = 0.0005
    crash_speed_mps: Annotated[
        float,
        Spec("a foot that meets something at more than this is a crash", "m/s", gt=0.0, le=100.0),
    ] = 3.0
    hull_speed_mps: Annotated[
        float,
        Spec("the hull that meets something at more than this is one", "m/s", gt=0.0, le=100.0),
    ] = 1.0
    crash_tilt_deg: Annotated[
        float, Spec("to lie tilted by more than this is one", "deg", gt=0.0, le=180.0)
    ] = 60.0
    crash_time_s: Annotated[
        float, Spec("after it has lain so for this long", "s", ge=0.0, le=100.0)
    ] = 0.5


#: The shortest rope; on a shorter one a load turns by too much in a step.
SHORTEST_ROPE_M = 0.01


def _check_length(name: str, length_m: float) -> None:
    if 0.0 < length_m < SHORTEST_ROPE_M:
        raise InputError(
            f"{name}: {length_m!r} m; allowed: 0 for none, or >= {SHORTEST_ROPE_M:g} m"
        )


@dataclass(frozen=True)
class LoadParams:
    """A point mass slung under the vehicle on a massless inelastic rope; length 0: none."""

    mass_kg: Annotated[float, Spec("of the load", "kg", ge=0.0, le=1000.0)] = 0.0
    rope_length_m: Annotated[float, Spec("0 for no load", "m", ge=0.0, le=1e5)] = 0.0
    attachment_B_m: Annotated[
        Vec3, Spec("where the rope is tied to the body", "m", ge=-10.0, le=10.0)
    ] = (0.0, 0.0, 0.0)
    drag_area_m2: Annotated[
        float, Spec("drag coefficient times area of the load", "m^2", ge=0.0, le=10.0)
    ] = 0.0

    def __post_init__(self) -> None:
        """Refuse a load without a rope and a rope without a load."""
        if (self.mass_kg > 0.0) != (self.rope_length_m > 0.0):
            raise InputError(
                f"mass_kg: {self.mass_kg!r} with rope_length_m {self.rope_length_m!r};"
                " allowed: both > 0, or both 0 for no load"
            )
        _check_length("rope_length_m", self.rope_length_m)


@dataclass(frozen=True)
class TetherParams:
    """A massless inelastic rope from the vehicle to a fixed point; length 0: none."""

    anchor_W_m: Annotated[Vec3, Spec("fixed end: east, north, up in map", "m", ge=-1e5, le=1e5)] = (
        0.0,
        0.0,
        0.0,
    )
    length_m: Annotated[float, Spec("0 for no tether", "m", ge=0.0, le=1e5)] = 0.0
    attachment_B_m: Annotated[
        Vec3, Spec("where the rope is tied to the body", "m", ge=-10.0, le=10.0)
    ] = (0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        """Refuse a length at which nothing can swing."""
        _check_length("length_m", self.length_m)


@dataclass(frozen=True)
class RecorderParams:
    """Where and when the vehicle's own recorder measures, as its flights tell it.

    ``quadsim validate`` corrects recorded flights by it; the simulation does not use it. Under
    feedback the rotors' torque goes with the motion that it answers. A residual found there
    predicts such flights, but it takes from the rotors some of their effect.
    """

    torque_residual_count: ClassVar[int]  # in kernels, as the next
    torque_memory_count: ClassVar[int]
    imu_position_B_m: Annotated[
        Vec3, Spec("of the accelerometer from the centre of mass", "m", ge=-10.0, le=10.0)
    ] = (0.0, 0.0, 0.0)
    pose_position_B_m: Annotated[
        Vec3, Spec("of the pose from outside from the centre of mass", "m", ge=-10.0, le=10.0)
    ] = (0.0, 0.0, 0.0)
    mount_rad: Annotated[
        Vec3,
        Spec(
            "rotation vector that turns IMU and rotors out of the axes of the pose from outside",
            "rad",
            ge=-3.2,
            le=3.2,
        ),
    ] = (0.0, 0.0, 0.0)
    gyroscope_bias_radps: Annotated[
        Vec3, Spec("that is left in the logged rates", "rad/s", ge=-1.0, le=1.0)
    ] = (0.0, 0.0, 0.0)
    accelerometer_bias_mps2: Annotated[
        Vec3, Spec("that is left in the logged specific force", "m/s^2", ge=-10.0, le=10.0)
    ] = (0.0, 0.0, 0.0)
    specific_force_cutoff_hz: Annotated[
        float,
        Spec(
            "corner of each derivative's low-pass where specific force is that of poses; 0: none",
            "Hz",
            ge=0.0,
            le=90.0,
        ),
    ] = 0.0
    imu_delay_s: Annotated[
        float, Spec("by which gyroscope and accelerometer are late", "s", ge=-0.1, le=0.1)
    ] = 0.0
    rotor_speed_delay_s: Annotated[
        float, Spec("by which rotor speeds are late", "s", ge=-0.1, le=0.1)
    ] = 0.0
    pose_delay_s: Annotated[
        float, Spec("by which the pose from outside is late", "s", ge=-0.1, le=0.1)
    ] = 0.0
    torque_residual: Annotated[
        tuple[float, ...],
        Spec(
            "rotor.torque_residual for recorded flights alone, whose controller is in it",
            max_items=TORQUE_FEATURES,
        ),
    ] = ()
    torque_memory: Annotated[
        tuple[float, ...],
        Spec(
            "by which the torque left by the file continues: autoregression of means over 20 ms,"
            " the last one first; for roll and pitch, then as many for yaw",
            "1",
            max_items=2 * TORQUE_STEPS,
            ge=-10.0,
            le=10.0,
        ),
    ] = ()

    def __post_init__(self) -> None:
        """Refuse a residual that lacks features, and a memory of one axis alone."""
        check_torque_residual(self.torque_residual)
        if len(self.torque_memory) % 2:
            raise InputError(f"torque_memory: {len(self.torque_memory)} numbers; allowed: even")


@dataclass(frozen=True)
class HelicopterParams:
    """What a helicopter answers to its stick; see :mod:`quadsim.vehicle.helicopter`."""

    lift_ratio: Annotated[
        float, Spec("lift at full throttle over the weight", "1", gt=0.0, le=20.0)
    ] = 1.7
    stick_rate_max_radps: Annotated[
        Vec3, Spec("roll, pitch and yaw rate at full stick", "rad/s", gt=0.0, le=50.0)
    ] = (6.0, 6.0, 3.0)
    rate_time_constant_s: Annotated[
        float,
        Spec("lag of the body rates behind the stick; 0: they are the stick's", "s", ge=0.0, le=10),
    ] = 0.0


#: What a multirotor must say, each with the bound above which it is.
_MULTIROTOR_NEEDS = {
    "thrust_coefficient_N_s2": 0.0,
    "rotor_speed_max_radps": 0.0,
    "time_constant_up_s": 1e-3,
    "time_constant_down_s": 1e-3,
}

#: What else describes the rotors of a multirotor.
_ROTORS_ALONE = (
    "rotor_positions_B_m",
    "rotor_directions",
    "rotor_axes_B",
    "torque_ratio_m",
    "rotor_speed_min_radps",
    "rotor_drag_N_s2",
    "rolling_moment_N_s2",
    "rotor_layout",
    "arm_m",
    "rotor_height_m",
)


@dataclass(frozen=True)
class VehicleParams:
    """A rigid body; B is ``base_link`` (FLU) at the centre of mass.

    A multirotor has fixed rotors, and what begins with ``rotor`` describes them; a helicopter has
    none of that, and ``helicopter`` instead.
    """

    name: Annotated[str, Spec("what the figures describe, with their source")]
    mass_kg: Annotated[float, Spec("mass", "kg", gt=0.0, le=1000.0)]
    inertia_kg_m2: Annotated[
        Vec3, Spec("moments of inertia about x, y, z", "kg m^2", gt=0.0, le=1000.0)
    ]
    rotor_directions_count: ClassVar[int]  # in kernels, as the next
    rotor_axes_B_count: ClassVar[int]
    inertia_products_kg_m2: Annotated[
        Vec3,
        Spec(
            "elements xy, xz and yz of the inertia matrix, as ixy, ixz, iyz of SDF and URDF",
            "kg m^2",
            ge=-1000.0,
            le=1000.0,
        ),
    ] = (0.0, 0.0, 0.0)
    kind: Annotated[Choice, Spec("what lifts it", choices=VEHICLE_KINDS)] = "multirotor"
    helicopter: HelicopterParams = field(default_factory=HelicopterParams)
    rotor_layout: Annotated[
        str,
        Spec("rotors around a circle, instead of their positions and directions", choices=LAYOUTS),
    ] = "explicit"
    arm_m: Annotated[float, Spec("radius of the circle of rotor_layout", "m", ge=0.0, le=10.0)] = (
        0.0
    )
    rotor_height_m: Annotated[
        float, Spec("of the circle over the centre of mass", "m", ge=-10.0, le=10.0)
    ] = 0.0
    rotor_positions_B_m: Annotated[
        tuple[Vec3, ...], Spec("rotor hubs", "m", ge=-10.0, le=10.0, max_items=MAX_ROTORS)
    ] = ()
    rotor_directions: Annotated[
        tuple[float, ...],
        Spec(
            "+1 turns counter-clockwise seen from above, -1 clockwise",
            "1",
            ge=-1.0,
            le=1.0,
            max_items=MAX_ROTORS,
        ),
    ] = ()
    rotor_axes_B: Annotated[
        tuple[Vec3, ...],
        Spec(
            "directions in which the rotors pull, of any length; none: all along body z",
            "1",
            ge=-1e3,
            le=1e3,
            max_items=MAX_ROTORS,
        ),
    ] = ()
    thrust_coefficient_N_s2: Annotated[
        float, Spec("thrust over squared speed", "N s^2/rad^2", ge=0.0, le=1.0)
    ] = 0.0
    torque_ratio_m: Annotated[float, Spec("torque over thrust", "m", ge=0.0, le=1.0)] = 0.0
    rotor_speed_min_radps: Annotated[
        float, Spec("speed of a running rotor at idle", "rad/s", ge=0.0, le=1e5)
    ] = 0.0
    rotor_speed_max_radps: Annotated[float, Spec("highest speed", "rad/s", ge=0.0, le=1e5)] = 0.0
    time_constant_up_s: Annotated[float, Spec("motor, speeding up", "s", ge=0.0, le=10.0)] = 0.0
    time_constant_down_s: Annotated[float, Spec("motor, slowing down", "s", ge=0.0, le=10.0)] = 0.0
    rotor_drag_N_s2: Annotated[
        float,
        Spec(
            "rotor drag force over rotor speed and air speed in the disc",
            "N s^2/(m rad)",
            ge=0.0,
            le=1.0,
        ),
    ] = 0.0
    rolling_moment_N_s2: Annotated[
        float,
        Spec(
            "rolling moment over rotor speed and air speed in the disc",
            "N m s^2/(m rad)",
            ge=0.0,
            le=1.0,
        ),
    ] = 0.0
    body_drag_N_s_m: Annotated[
        Vec3, Spec("linear drag over air speed, body axes", "N s/m", ge=0.0, le=100.0)
    ] = (0.0, 0.0, 0.0)
    drag_area_m2: Annotated[
        Vec3, Spec("drag coefficient times area, body axes", "m^2", ge=0.0, le=100.0)
    ] = (0.0, 0.0, 0.0)
    air_density_kg_m3: Annotated[
        float,
        Spec("at which the rotors' and drag's figures hold; 0: in any air", "kg/m^3", ge=0.0, le=2),
    ] = 0.0
    rotor: RotorParams = field(default_factory=RotorParams)
    motor: MotorParams = field(default_factory=MotorParams)
    contact: ContactParams = field(default_factory=ContactParams)
    battery: BatteryParams = field(default_factory=BatteryParams)
    load: LoadParams = field(default_factory=LoadParams)
    tether: TetherParams = field(default_factory=TetherParams)
    recorder: RecorderParams = field(default_factory=RecorderParams)

    def packed_as(self) -> VehicleParams:
        """What kernels take: the same vehicle with the points of its hull written out."""
        contact = self.contact
        if contact.hull_B_m or not contact.points_B_m:  # without feet it touches nothing
            return self
        hull = hull_points(self.rotor_positions_B_m, self.rotor.radius_m)
        return replace(self, contact=replace(contact, hull_B_m=hull))

    @property
    def commands(self) -> tuple[str, ...]:
        """Names of the numbers of a motor command, in their order."""
        if self.kind == "helicopter":
            return HELICOPTER_COMMANDS
        return tuple(f"rotor_{i}" for i in range(len(self.rotor_directions)))

    @property
    def motor_lag_s(self) -> float:
        """Mean of the motors' time constants in s: a turn speeds some up and slows others down."""
        return 0.5 * (self.time_constant_up_s + self.time_constant_down_s)

    @property
    def disc_drag_N_s2(self) -> float:
        """Rotor drag with that of the disc's tilt, which has the same form, N s^2/(m rad)."""
        tilt_N_s2 = self.thrust_coefficient_N_s2 * self.rotor.flapping_rad / self.rotor.radius_m
        return self.rotor_drag_N_s2 + tilt_N_s2

    @property
    def inertia_tensor_kg_m2(self) -> NDArray[np.float64]:
        """(3, 3) matrix of inertia, body axes."""
        (xx, yy, zz), (xy, xz, yz) = self.inertia_kg_m2, self.inertia_products_kg_m2
        return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])

    @property
    def upright_rotors(self) -> float:
        """How many upright rotors lift as much as these do with the same thrusts."""
        if not self.rotor_axes_B:
            return float(len(self.rotor_directions))
        return math.fsum(axis[2] for axis in self.rotor_axes_B)

    @property
    def rotor_inertia_kg_m2(self) -> float:
        """Of a rotor about its shaft."""
        return self.rotor.inertia_kg_m2

    @property
    def lift_ratio(self) -> float:
        """A helicopter's lift at full throttle over its weight."""
        return self.helicopter.lift_ratio

    @property
    def stick_rate_max_radps(self) -> Vec3:
        """A helicopter's rates at full stick in rad/s."""
        return self.helicopter.stick_rate_max_radps

    def __post_init__(self) -> None:
        """Refuse bodies that cannot be."""
        small, middle, large = sorted(self.inertia_kg_m2)
        if self.inertia_products_kg_m2 != (0.0, 0.0, 0.0):
            small, middle, large = np.linalg.eigvalsh(self.inertia_tensor_kg_m2).tolist()
            if small <= 0.0:
                raise InputError(
                    f"inertia_products_kg_m2: no body has them (a principal moment of {small:g});"
                    " give the elements of the matrix, or smaller ones"
                )
        if small + middle < large:
            raise InputError(
                f"inertia_kg_m2: no body has it ({large:g} > {small + middle:g}); the largest"
                " moment is at most the sum of the others"
            )
        if self.kind == "multirotor":
            self._check_rotors()
        else:
            self._check_helicopter()

    def _check_helicopter(self) -> None:
        """Refuse a helicopter that cannot fly, and figures of rotors that it does not have."""
        for name in (*_MULTIROTOR_NEEDS, *_ROTORS_ALONE, "inertia_products_kg_m2"):
            if getattr(self, name) != type(self).__dataclass_fields__[name].default:
                raise InputError(f"{name}: a helicopter has none; allowed: with kind: multirotor")
        if self.rotor != RotorParams() or self.motor != MotorParams():
            raise InputError("rotor, motor: a helicopter has none; allowed: with kind: multirotor")
        if self.helicopter.lift_ratio <= 1.0:
            raise InputError(
                f"helicopter: lift_ratio: {self.helicopter.lift_ratio:g} does not lift the weight"
            )

    def _check_rotors(self) -> None:
        """Refuse a multirotor that cannot be."""
        self._place_rotors()
        if self.helicopter != HelicopterParams():
            raise InputError("helicopter: this is a multirotor; allowed: with kind: helicopter")
        for name, bound in _MULTIROTOR_NEEDS.items():
            value = getattr(self, name)
            if value <= bound:
                raise InputError(f"{name}: {value!r}; a multirotor needs one, > {bound:g}")
        if len(self.rotor_positions_B_m) != len(self.rotor_directions):
            raise InputError(
                f"rotor_directions: {len(self.rotor_directions)} for"
                f" {len(self.rotor_positions_B_m)} rotor_positions_B_m; give one each"
            )
        if len(self.rotor_directions) < 3 or any(abs(d) != 1.0 for d in self.rotor_directions):
            raise InputError("rotor_directions: give 3 to 8 rotors, each 1 or -1")
        axes = unit_axes(self.rotor_axes_B, len(self.rotor_directions))
        object.__setattr__(self, "rotor_axes_B", axes)
        if self.rotor_speed_min_radps >= self.rotor_speed_max_radps:
            raise InputError("rotor_speed_min_radps: not below rotor_speed_max_radps")
        hover_N = self.mass_kg * 9.80665
        most_N = (
            self.upright_rotors
            * self.thrust_coefficient_N_s2
            * (self.rotor_speed_max_radps * self.rotor_speed_max_radps)
        )
        if most_N < hover_N:
            raise InputError(
                f"rotor_speed_max_radps: {most_N:.3g} N at most do not lift the weight"
                f" {hover_N:.3g} N"
            )
        if self.motor.model == "electric":
            hover_radps = math.sqrt(hover_N / most_N) * self.rotor_speed_max_radps
            torque_Nm = (
                self.thrust_coefficient_N_s2 * self.torque_ratio_m * hover_radps * hover_radps
            )
            check_electric(self.rotor, self.motor, self.battery, hover_radps, torque_Nm)

    def _place_rotors(self) -> None:
        """Positions and directions of a layout; one that is given must be the layout's."""
        if self.rotor_layout == "explicit":
            if self.arm_m or self.rotor_height_m:
                raise InputError("arm_m, rotor_height_m: allowed: with a rotor_layout")
            return
        if self.arm_m <= 0.0:
            raise InputError(f"arm_m: {self.arm_m:g}; a rotor_layout needs one, > 0 m")
        placed = lay_out(self.rotor_layout, self.arm_m, self.rotor_height_m)
        for name, wanted in zip(("rotor_positions_B_m", "rotor_directions"), placed, strict=True):
            if getattr(self, name) not in ((), wanted):
                raise InputError(f"{name}: not those of rotor_layout; give one or the other")
            object.__setattr__(self, name, wanted)
