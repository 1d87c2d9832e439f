"""Where and how vehicles begin: at rest on the ground, or anywhere in any motion."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.errors import InputError
from quadsim.base.parameters import Spec, Vec3, flatten, unflatten
from quadsim.base.records import KINEMATICS
from quadsim.geometry.rotation import from_euler, quat, to_euler
from quadsim.mission.formations import places
from quadsim.vehicle.parameters import VehicleParams
from quadsim.vehicle.physics import PhysicsParams
from quadsim.vehicle.start import check_place, hover_speed_radps, lying_height_m
from quadsim.world.environment import EnvironmentParams
from quadsim.world.scene.scene import Scene

#: How several vehicles stand: to the south of the first, or in a formation about its place.
LAYOUTS = ("line", "grid", "circle", "vee")
#: Height that no vehicle is put at: it stands, or lies, on the ground.
ON_GROUND_M = -1e5
#: What the filter knows at the start.
ALIGNED, TRUTH, DRAWN = "aligned", "truth", "drawn"
#: Deviations of an estimate that is drawn.
SIGMAS = ("position_sigma_m", "velocity_sigma_mps", "tilt_sigma_deg", "yaw_sigma_deg")
#: Keys that say the same.
_SAME = {"p_W": ("x_m", "y_m", "z_m"), "q_WB": ("roll_deg", "pitch_deg", "yaw_deg")}
#: How the autopilot begins.
MODES = ("auto", "disarmed", "hover")


@dataclass(frozen=True)
class StartParams:
    """Where the vehicles start: one alone, or the first of a line; of a formation the middle.

    On the ground they stand at rest. With a height they are in the air, their rotors at the speed
    of a hover, and the autopilot hovers.
    """

    x_m: Annotated[float, Spec("east", "m", ge=-1e5, le=1e5)] = 0.0
    y_m: Annotated[float, Spec("north", "m", ge=-1e5, le=1e5)] = 0.0
    z_m: Annotated[
        float, Spec("height of the centre of mass; -1e5: on the ground", "m", ge=-1e5, le=1e5)
    ] = ON_GROUND_M
    roll_deg: Annotated[float, Spec("to the right", "deg", ge=-360.0, le=360.0)] = 0.0
    pitch_deg: Annotated[float, Spec("nose down", "deg", ge=-360.0, le=360.0)] = 0.0
    yaw_deg: Annotated[float, Spec("heading, 0 = east", "deg", ge=-360.0, le=360.0)] = 0.0
    velocity_W_mps: Annotated[
        Vec3, Spec("east, north, up; in the air", "m/s", ge=-1000.0, le=1000.0)
    ] = (0.0, 0.0, 0.0)
    rates_B_radps: Annotated[
        Vec3, Spec("about the body's axes; in the air", "rad/s", ge=-1000.0, le=1000.0)
    ] = (0.0, 0.0, 0.0)
    rotor_speed_radps: Annotated[
        tuple[float, ...],
        Spec("of each rotor in the air; none: those of a hover", "rad/s", ge=0.0, max_items=8),
    ] = ()
    spacing_m: Annotated[float, Spec("between vehicles", "m", gt=0.0, le=1000.0)] = 5.0
    layout: Annotated[
        str, Spec("of several: a line to the south, or a formation", choices=LAYOUTS)
    ] = "line"
    positions_m: Annotated[
        tuple[Vec3, ...],
        Spec("of each vehicle, on the ground, instead of a layout: x, y, z", "m", ge=-1e5, le=1e5),
    ] = ()
    charge: Annotated[float, Spec("of the battery", "1", gt=0.0, le=1.0)] = 1.0
    mode: Annotated[
        str, Spec("of the autopilot; auto: hover in the air, else disarmed", choices=MODES)
    ] = "auto"
    estimate: Annotated[
        str,
        Spec(
            "what the filter begins with: aligned by its sensors (in the air the truth is flown on"
            " until then), the truth, or drawn about it by the deviations below",
            choices=(ALIGNED, TRUTH, DRAWN),
        ),
    ] = ALIGNED
    position_sigma_m: Annotated[float, Spec("of an estimate that is drawn", "m", ge=0.0)] = 0.5
    velocity_sigma_mps: Annotated[float, Spec("likewise", "m/s", ge=0.0)] = 0.2
    tilt_sigma_deg: Annotated[float, Spec("likewise", "deg", ge=0.0, le=60.0)] = 1.0
    yaw_sigma_deg: Annotated[float, Spec("likewise", "deg", ge=0.0, le=60.0)] = 3.0

    def __post_init__(self) -> None:
        """Refuse what a vehicle on the ground cannot have, and what would not be used.

        Raises:
            InputError: naming the key.
        """
        for each in fields(self) if self.estimate != DRAWN else ():
            if each.name in SIGMAS and getattr(self, each.name) != each.default:
                raise InputError(f"{each.name}: is of a drawn estimate; give estimate: drawn")
        if self.is_airborne:
            if self.positions_m:
                raise InputError("positions_m: are on the ground; leave z_m out, or positions_m")
            return
        for name in ("velocity_W_mps", "rates_B_radps", "rotor_speed_radps"):
            if any(getattr(self, name)):
                raise InputError(f"{name}: is of a start in the air; give z_m as well")
        if self.mode == "hover":
            raise InputError("mode: hover is of a start in the air; give z_m as well")

    @property
    def is_airborne(self) -> bool:
        """Whether it is put at a height."""
        return self.z_m > ON_GROUND_M

    @property
    def is_standing(self) -> bool:
        """Whether it stands on its feet, at rest."""
        return not (self.is_airborne or self.roll_deg or self.pitch_deg)

    @property
    def is_plain(self) -> bool:
        """Whether it stands, its filter empty: as the devices are switched on."""
        return self.is_standing and self.estimate == ALIGNED

    @property
    def hovers(self) -> bool:
        """Whether the autopilot begins in a hover."""
        return self.mode == "hover" or (self.mode == "auto" and self.is_airborne)

    def words(self, on_truth: bool) -> str:
        """How a vehicle begins in the air, in a line.

        Args:
            on_truth: whether it flies on the truth in any case.
        """
        known = {
            ALIGNED: "the truth until the filter has aligned",
            TRUTH: "an estimate that begins as the truth",
            DRAWN: "an estimate drawn about the truth",
        }
        source = "the truth" if on_truth else known[self.estimate]
        does = "hovers" if self.hovers else "is disarmed"
        return f"in the air at z = {self.z_m:g} m: the autopilot {does}, on {source}"

    @property
    def deviations(self) -> tuple[float, float, float, float]:
        """Of an estimate that is known: m, m/s, rad of tilt and of yaw."""
        if self.estimate != DRAWN:
            return (0.0, 0.0, 0.0, 0.0)
        tilt, yaw = math.radians(self.tilt_sigma_deg), math.radians(self.yaw_sigma_deg)
        return (self.position_sigma_m, self.velocity_sigma_mps, tilt, yaw)

    def poses(self, count: int) -> list[tuple[float, float, float]]:
        """Give x and y in m and yaw in rad of each of ``count`` vehicles.

        Raises:
            InputError: fewer positions are given than vehicles.
        """
        yaw = math.radians(self.yaw_deg)
        if self.positions_m:
            if len(self.positions_m) < count:
                raise InputError(f"start.positions_m: {len(self.positions_m)} for {count} vehicles")
            return [(x, y, yaw) for x, y, _ in self.positions_m[:count]]
        if self.layout == "line":
            return [(self.x_m, self.y_m - i * self.spacing_m, yaw) for i in range(count)]
        apart = places(self.layout, count, self.spacing_m, yaw).tolist()
        return [(self.x_m + x, self.y_m + y, yaw) for x, y in apart]

    def motion(
        self,
        i: int,
        count: int,
        params: VehicleParams,
        environment: EnvironmentParams,
        scene: Scene,
    ) -> NDArray[np.record]:
        """(1,) KINEMATICS of vehicle ``i`` of ``count``: pose, velocities and rotor speeds.

        Args:
            i, count: which of how many.
            params: the vehicle.
            environment: for the flat ground.
            scene: for the terrain.
        """
        x, y, yaw = self.poses(count)[i]
        q_WB = from_euler(math.radians(self.roll_deg), math.radians(self.pitch_deg), yaw)
        z = self.z_m
        if not self.is_airborne:
            z = lying_height_m(params, environment, scene, (x, y), q_WB)
        found: NDArray[np.record] = np.zeros(1, KINEMATICS)
        found["p_W"], found["q_WB"] = (x, y, z), q_WB
        if self.is_airborne:
            found["v_W"], found["w_B"] = self.velocity_W_mps, self.rates_B_radps
            rotors = len(params.commands)
            speeds = self.rotor_speed_radps or (hover_speed_radps(params),) * rotors
            if len(speeds) != rotors:
                raise InputError(f"start.rotor_speed_radps: {len(speeds)} for {rotors} rotors")
            found["rotor_speed_radps"][0, :rotors] = speeds
        return found

    def check(
        self,
        count: int,
        params: VehicleParams,
        environment: EnvironmentParams,
        scene: Scene,
        physics: PhysicsParams,
    ) -> None:
        """Refuse a start in which a vehicle cannot be; on its feet it always can.

        Raises:
            InputError: naming the key.
        """
        if self.is_airborne and params.kind != "multirotor":
            raise InputError("start: z_m: a helicopter starts on the ground")
        for i in range(0 if self.is_standing else count):
            motion = self.motion(i, count, params, environment, scene)
            try:
                check_place(params, environment, scene, physics, motion[0])
            except InputError as error:
                raise InputError(f"start: {error}") from None

    def changed(self, keys: Mapping[str, Any], where: str) -> StartParams:
        """This start with other keys; ``q_WB`` gives roll, pitch and yaw, ``p_W`` the place.

        Raises:
            InputError: an unknown key, or a value that is not allowed.
        """
        keys = {key: value for key, value in keys.items() if value is not None}
        for short, longer in _SAME.items():
            if short in keys and (also := [key for key in longer if key in keys]):
                raise InputError(f"{where}: {also[0]} and {short} say the same; give one")
        if not np.iterable(keys.get("rotor_speed_radps", ())):
            speed = keys["rotor_speed_radps"]
            raise InputError(f"{where}: rotor_speed_radps: {speed!r}; needed: a row of numbers")
        renamed: dict[str, Any] = {}
        if "p_W" in keys:
            renamed |= dict(
                zip(("x_m", "y_m", "z_m"), _numbers(keys, "p_W", 3, where), strict=True)
            )
        if "q_WB" in keys:
            q = np.array(_numbers(keys, "q_WB", 4, where))
            length = float(np.sqrt(np.sum(q * q)))
            if length == 0.0:
                raise InputError(f"{where}: q_WB: is zero; a unit quaternion is needed, w first")
            angles = (math.degrees(angle) for angle in to_euler(quat(q / length)))
            renamed |= dict(zip(("roll_deg", "pitch_deg", "yaw_deg"), angles, strict=True))
        for short, key in (("v_W", "velocity_W_mps"), ("w_B", "rates_B_radps")):
            if short in keys:
                renamed[key] = _numbers(keys, short, 3, where)
        rest = {k: v for k, v in keys.items() if k not in ("p_W", "q_WB", "v_W", "w_B")}
        merged = flatten(self) | rest | renamed
        if merged["estimate"] != DRAWN:  # the deviations of an earlier one are over
            merged = {k: v for k, v in merged.items() if k not in SIGMAS or k in keys}
        return unflatten(StartParams, merged, where)


def _numbers(keys: Mapping[str, Any], key: str, count: int, where: str) -> list[float]:
    """A vector among keys."""
    try:
        found = np.asarray(keys[key], float)
    except (TypeError, ValueError):
        found = np.zeros(0)
    if found.shape != (count,) or not np.isfinite(found).all():
        raise InputError(f"{where}: {key}: {keys[key]!r}; needed: {count} finite numbers")
    return [float(value) for value in found]
