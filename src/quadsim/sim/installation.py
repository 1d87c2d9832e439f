"""What estimator and controller believe of the vehicle they fly: what its installer wrote down.

The truth is in the files of sensors, vehicle and world. What nobody states otherwise is assumed as
it is. Two ways lead to a wrong belief: keys of the estimator's file, or of ``--set``, stay as
given; the scenario's ``believed`` states errors, which campaigns draw.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from quadsim.base.elementary import atan2, cos, sin
from quadsim.base.errors import InputError
from quadsim.base.parameters import Spec, Vec3
from quadsim.control.airframe import AirframeParams
from quadsim.estimation.eskf.parameters import EstimatorParams, SecondParams
from quadsim.geometry.rotation import from_euler as quaternion_of
from quadsim.geometry.rotation import multiply, to_euler
from quadsim.sensors import SENSORS, kind_of
from quadsim.sensors.error_terms import SensorParams
from quadsim.world.environment import EnvironmentParams

ZERO: Vec3 = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class BelievedParams:
    """Errors of what is assumed: assumption less truth, or over it (ratios)."""

    imu_roll_pitch_yaw_deg: Annotated[
        Vec3,
        Spec("estimator: mount of the IMU, about base_link's axes", "deg", ge=-180.0, le=180.0),
    ] = ZERO
    imu_position_B_m: Annotated[
        Vec3, Spec("estimator: place of the IMU", "m", ge=-10.0, le=10.0)
    ] = ZERO
    antenna_position_B_m: Annotated[
        Vec3, Spec("estimator: place of the GNSS antenna", "m", ge=-10.0, le=10.0)
    ] = ZERO
    rangefinder_position_B_m: Annotated[
        Vec3, Spec("estimator: place of the range finder", "m", ge=-10.0, le=10.0)
    ] = ZERO
    declination_deg: Annotated[
        float,
        Spec("estimator: declination of the field, east positive", "deg", ge=-180.0, le=180.0),
    ] = 0.0
    inclination_deg: Annotated[
        float, Spec("estimator: inclination of the field, down positive", "deg", ge=-90.0, le=90.0)
    ] = 0.0
    gravity_mps2: Annotated[float, Spec("estimator: gravity", "m/s^2", ge=-1.0, le=1.0)] = 0.0
    thrust: Annotated[
        float, Spec("controller: thrust of a rotor speed, over the true one", "1", ge=0.5, le=2.0)
    ] = 1.0


#: Errors of ``believed``, and the key of the estimator that they change.
_KEYS = {
    "imu_roll_pitch_yaw_deg": "mount.imu_roll_pitch_yaw_deg",
    "imu_position_B_m": "mount.imu_position_B_m",
    "antenna_position_B_m": "mount.antenna_position_B_m",
    "rangefinder_position_B_m": "mount.rangefinder_position_B_m",
    "declination_deg": "magnetic_field_W_T",
    "inclination_deg": "magnetic_field_W_T",
    "gravity_mps2": "gravity_mps2",
}

#: Larger turns of a magnetometer against the IMU are no errors of an installation, deg.
FIELD_TURN_DEG = 15.0
#: Deviation of the height of a vehicle's IMU that stands, whose legs nobody measured, m.
STANDING_SIGMA_M = 0.3
#: Deviations that an installer states who errs: of a mount, of a lever arm, of the declination.
MOUNT_SIGMA_DEG, LEVER_SIGMA_M, DECLINATION_SIGMA_DEG = 0.5, 0.03, 2.0


def believed_airframe(
    airframe: AirframeParams, mass_ratio: float, errors: BelievedParams
) -> AirframeParams:
    """The vehicle as the controller assumes it; ``mass_ratio`` is the assumed mass over its."""
    return replace(
        airframe,
        mass_kg=mass_ratio * airframe.mass_kg,
        thrust_coefficient_N_s2=errors.thrust * airframe.thrust_coefficient_N_s2,
        lift_ratio=errors.thrust * airframe.lift_ratio,
    )


def as_installed(
    estimator: EstimatorParams,
    sensors: Mapping[str, SensorParams],
    environment: EnvironmentParams,
    flat_ground: bool = True,
    errors: BelievedParams | None = None,
    given: frozenset[str] = frozenset(),
    where: str = "believed",
) -> EstimatorParams:
    """The estimator told what its installer knows; nothing of the flight is in it.

    That is where the sensors sit, what their files say of errors that messages do not state (those
    that stay, walk or turn), how wide a beam is, the public models of gravity and of the magnetic
    field at the datum, and whether the ground is flat; with the errors of ``believed``.

    Args:
        estimator: as its file has it.
        sensors: kind to parameters of what the vehicle carries.
        environment: the world.
        flat_ground: whether the ground is flat and free.
        errors: of all this.
        given: dotted keys that somebody set; they stay.
        where: what errors name.

    Raises:
        InputError: an error is stated of a key that was set.
    """
    errors = errors or BelievedParams()
    for name, key in _KEYS.items():
        if getattr(errors, name) not in (0.0, ZERO) and key in given:
            raise InputError(
                f"{where}: believed.{name}: the estimator's {key} is set as well; leave one of them"
            )
    _check_field_axes(sensors)
    found = _of_world(environment, flat_ground)
    for kind, params in sensors.items():
        if kind in SENSORS:
            found |= SENSORS[kind].told(params, environment)
        elif kind_of(kind) in SENSORS:
            _tell_second(found, kind_of(kind), SENSORS[kind_of(kind)].told(params, environment))
    if "visual_odometry" in sensors and not {"gnss", "magnetometer"} & sensors.keys():
        found["start.local"] = True
    if "optical_flow" in sensors and "gnss" not in sensors:
        found |= {"start.local": True, "start.position_m": STANDING_SIGMA_M}
        found["noise.range_correlation_s"] = 0.0  # what stays of it is a state
    _mistake(found, errors)
    told: EstimatorParams = _with(estimator, {k: v for k, v in found.items() if k not in given})
    return told


def _check_field_axes(sensors: Mapping[str, Any]) -> None:
    """Refuse a magnetometer that sits otherwise than the IMU, in whose axes its field is taken.

    Raises:
        InputError: naming both.
    """
    if not {"imu", "magnetometer"} <= sensors.keys():
        return
    imu, own = (sensors[kind].rotation_deg for kind in ("imu", "magnetometer"))
    if imu == own:  # and no kernel is loaded for it
        return
    a, b = (np.array(quaternion_of(*np.radians(each).tolist())) for each in (imu, own))
    if abs(float(np.sum(a * b))) < cos(math.radians(0.5 * FIELD_TURN_DEG)):
        raise InputError(
            f"sensors: magnetometer.rotation_deg {list(own)} is not the IMU's {list(imu)}, in whose"
            " axes (imu_link) the field is taken; give the magnetometer the IMU's rotation_deg"
        )


def _tell_second(found: dict[str, Any], kind: str, told: Mapping[str, Any]) -> None:
    """What an installer knows of a second one: what is its own, and of the rest the larger."""
    found[f"second.{kind}"] = True
    for key, value in told.items():
        name = key.rpartition(".")[2]
        if hasattr(SecondParams, name):
            found[f"second.{name}"] = value
        else:
            found[key] = max(value, found[key])


def _with(params: Any, values: Mapping[str, Any]) -> Any:
    """Parameters with dotted keys replaced."""
    parts: dict[str, dict[str, Any]] = {}
    own: dict[str, Any] = {}
    for key, value in values.items():
        first, dot, rest = key.partition(".")
        if dot:
            parts.setdefault(first, {})[rest] = value
        else:
            own[key] = value
    for name, part in parts.items():
        own[name] = _with(getattr(params, name), part)
    return replace(params, **own)


def _sum(a: Vec3, b: Vec3) -> Vec3:
    return (a[0] + b[0], a[1] + b[1], a[2] + b[2])


def _field(field_W_T: Vec3, errors: BelievedParams) -> Vec3:
    """The field with a wrong declination and inclination."""
    if errors.declination_deg == 0.0 and errors.inclination_deg == 0.0:
        return field_W_T
    east, north, up = field_W_T
    level = math.hypot(east, north)
    dip = atan2(-up, level) + math.radians(errors.inclination_deg)
    # declination counts from north to east
    direction = atan2(east, north) + math.radians(errors.declination_deg)
    strength = math.hypot(level, up)
    level = strength * cos(dip)
    return (level * sin(direction), level * cos(direction), -strength * sin(dip))


def _mistake(found: dict[str, Any], errors: BelievedParams) -> None:
    """Put the errors of belief on top of what is installed."""
    for name, key in _KEYS.items():
        if name.endswith("position_B_m") and key in found:
            found[key] = _sum(found[key], getattr(errors, name))
    key = "mount.imu_roll_pitch_yaw_deg"
    if key in found:
        found[key] = _turned(found[key], errors.imu_roll_pitch_yaw_deg)
    found["gravity_mps2"] += errors.gravity_mps2
    found["magnetic_field_W_T"] = _field(found["magnetic_field_W_T"], errors)
    found |= _deviations(found, errors)


def _deviations(found: Mapping[str, Any], errors: BelievedParams) -> dict[str, float]:
    """How well an installer knows what errs; it does not depend on the error."""
    told: dict[str, float] = {}
    if errors.imu_roll_pitch_yaw_deg != ZERO:
        told["mount.imu_sigma_deg"] = MOUNT_SIGMA_DEG
    if errors.imu_position_B_m != ZERO:
        told["mount.imu_sigma_m"] = LEVER_SIGMA_M
    if errors.imu_position_B_m != ZERO or errors.antenna_position_B_m != ZERO:
        told["start.lever_arm_m"] = LEVER_SIGMA_M
    if errors.imu_position_B_m != ZERO or errors.rangefinder_position_B_m != ZERO:
        offset_m = found.get("noise.range_offset_m", 0.0)
        told["noise.range_offset_m"] = math.hypot(offset_m, LEVER_SIGMA_M)
    if errors.declination_deg or errors.inclination_deg:
        level_T = math.hypot(*found["magnetic_field_W_T"][:2])
        field_T = found.get("start.field_T", 0.0)
        told["start.field_T"] = math.hypot(field_T, math.radians(DECLINATION_SIGMA_DEG) * level_T)
    return told


def _of_world(environment: EnvironmentParams, flat_ground: bool) -> dict[str, Any]:
    gravity_mps2, gradient_per_s2 = environment.gravity_and_gradient()
    return {
        "gravity_mps2": gravity_mps2,
        "gravity_gradient_per_s2": gradient_per_s2,
        "magnetic_field_W_T": environment.field_W_T(),
        "ground_height_m": environment.ground_height_m,
        "flat_ground": flat_ground,
    }


def _turned(rotation_deg: Vec3, error_deg: Vec3) -> Vec3:
    """Roll, pitch and yaw of a mount that is rotated by an error about base_link's axes."""
    if error_deg == ZERO:
        return rotation_deg
    roll, pitch, yaw = np.radians(error_deg).tolist()
    mount = quaternion_of(*np.radians(rotation_deg).tolist())
    angles = to_euler(multiply(quaternion_of(roll, pitch, yaw), mount))
    return (math.degrees(angles[0]), math.degrees(angles[1]), math.degrees(angles[2]))
