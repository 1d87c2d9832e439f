"""A vehicle before its flight: at rest on the ground, everything healthy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import mul
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from quadsim.base.compiled import Records, plain
from quadsim.base.errors import InputError
from quadsim.base.parameters import Vec3
from quadsim.geometry.rotation import Quat, from_euler, multiply, normalize, quat, rotate, unrotate
from quadsim.geometry.vector import add
from quadsim.vehicle.formalisms.formalisms import set_attitude
from quadsim.vehicle.parameters import VehicleParams
from quadsim.vehicle.physics import FORMALISMS, PhysicsParams
from quadsim.vehicle.ropes.suspension import hang
from quadsim.vehicle.state import P, V, Vehicle
from quadsim.world.air.atmosphere import STANDARD_GRAVITY_MPS2
from quadsim.world.air.wind import wind_start
from quadsim.world.environment import EnvironmentParams
from quadsim.world.ground import standing_surface_m
from quadsim.world.scene.distance import surface_distance
from quadsim.world.scene.scene import Scene

#: Sine of the steepest pitch into which a vehicle is put with the formalism euler.
MOST_SINE = 0.9998
#: By how much more than by its weight a vehicle may be put into the ground, m.
TOLERANCE_M = 0.01
#: A vehicle stands along a slope if no foot is this far off the others' plane, m.
FLUSH_M = 0.02


def standing_pose(
    params: VehicleParams, environment: EnvironmentParams, scene: Scene, pose: Sequence[float]
) -> tuple[float, Quat]:
    """How a vehicle stands: along a slope if the ground under its feet is one plane, else level.

    No foot is further below the ground than by its sag, as under the weight.

    Args:
        params: the vehicle.
        environment: for the flat ground.
        scene: terrain and obstacles.
        pose: x, y in m and yaw in rad.

    Returns:
        Height of the centre of mass in m, and its attitude q_WB.
    """
    level = plain(from_euler)(0.0, 0.0, float(pose[2]))
    sag_m = params.contact.sag_m
    feet_B = params.contact.points_B_m or ((0.0, 0.0, 0.0),)
    rooms_m = _rooms_m(feet_B, level, environment, scene, pose)
    heights_m = [room_m + foot[2] for room_m, foot in zip(rooms_m, feet_B, strict=True)]
    ahead, left = _plane_over(
        feet_B, [sum(map(mul, _about_mean(feet_B, i), heights_m)) for i in (0, 1)]
    )
    if ahead == 0.0 == left:
        return max(rooms_m) - sag_m, level
    up = 1.0 + math.sqrt(1.0 + ahead * ahead + left * left)
    along = plain(multiply)(level, plain(normalize)((up, left, -ahead, 0.0)))
    along_m = _rooms_m(feet_B, along, environment, scene, pose)
    spread_m = max(along_m) - min(along_m)
    if spread_m < sag_m:
        return sum(along_m) / len(feet_B) - sag_m, _leaning(along, feet_B, sag_m)
    if spread_m < FLUSH_M:
        return max(along_m) - sag_m, along
    return max(rooms_m) - sag_m, level


def _rooms_m(
    feet_B: Sequence[Vec3],
    q_WB: Quat,
    environment: EnvironmentParams,
    scene: Scene,
    pose: Sequence[float],
) -> list[float]:
    """Height of the centre of mass with which each foot would just touch."""
    arms_W = [plain(rotate)(q_WB, foot_B) for foot_B in feet_B]
    return [
        _ground_m(environment, scene, float(pose[0]) + east, float(pose[1]) + north) - up
        for east, north, up in arms_W
    ]


def _about_mean(feet_B: Sequence[Vec3], axis: int) -> list[float]:
    mean = sum(foot[axis] for foot in feet_B) / len(feet_B)
    return [foot[axis] - mean for foot in feet_B]


def _plane_over(feet_B: Sequence[Vec3], moments: Sequence[float]) -> tuple[float, float]:
    """Slopes in x and y of what grows linearly over the feet; 0 where these are in a line.

    Args:
        feet_B: places of the feet, m.
        moments: sums of its values, each with how far its foot is ahead, and left, of their middle.
    """
    x, y = _about_mean(feet_B, 0), _about_mean(feet_B, 1)
    xx, xy, yy = sum(map(mul, x, x)), sum(map(mul, x, y)), sum(map(mul, y, y))
    determinant = xx * yy - xy * xy
    if determinant <= 1e-6 * (xx + yy) * (xx + yy):
        return 0.0, 0.0
    return (
        (moments[0] * yy - moments[1] * xy) / determinant,
        (moments[1] * xx - moments[0] * xy) / determinant,
    )


def _leaning(q_WB: Quat, feet_B: Sequence[Vec3], sag_m: float) -> Quat:
    """An attitude along a slope, leaning downhill as its feet give way there.

    The feet are springs of stiffness k = m g / (n sag). With depths d_i their forces k d_i balance
    the friction m g (g_x, g_y) at their height z about the centre of mass:
    sum x_i d_i = -n sag z g_x, and as much in y.
    """
    down_B = plain(unrotate)(q_WB, (0.0, 0.0, -1.0))
    lean = [-sag_m * sum(foot[2] for foot in feet_B) * down_B[i] for i in (0, 1)]
    ahead, left = _plane_over(feet_B, lean)
    return plain(multiply)(q_WB, plain(normalize)((1.0, -0.5 * left, 0.5 * ahead, 0.0)))


def standing_height_m(
    params: VehicleParams, environment: EnvironmentParams, scene: Scene, pose: Sequence[float]
) -> float:
    """Height of the centre of mass, as of :func:`standing_pose`."""
    return standing_pose(params, environment, scene, pose)[0]


def lying_height_m(
    params: VehicleParams,
    environment: EnvironmentParams,
    scene: Scene,
    place: tuple[float, float],
    q_WB: Quat,
) -> float:
    """Height of the centre of mass over which no point of a rotated vehicle is below the ground.

    Args:
        params: the vehicle.
        environment: for the flat ground.
        scene: for the terrain.
        place: x, y in m.
        q_WB: attitude.
    """
    contact = params.packed_as().contact
    points_B = ((0.0, 0.0, 0.0), *contact.points_B_m, *contact.hull_B_m)
    return max(_rooms_m(points_B, q_WB, environment, scene, place))


def hover_speed_radps(vehicle: VehicleParams) -> float:
    """Speed of the rotors of a multirotor in hover, where all give the same thrust."""
    thrust_N = vehicle.mass_kg * STANDARD_GRAVITY_MPS2 / vehicle.upright_rotors
    return math.sqrt(thrust_N / vehicle.thrust_coefficient_N_s2)


def _ground_m(environment: EnvironmentParams, scene: Scene, x: float, y: float) -> float:
    """Height of what it stands on; flat ground needs no kernel, which would have to be loaded."""
    if scene.is_flat:
        return environment.ground_height_m
    return standing_surface_m(scene, environment.ground_height_m, x, y)


def stand(
    vehicle: Vehicle,
    params: VehicleParams,
    environment: EnvironmentParams,
    scene: Scene,
    physics: PhysicsParams,
    pose: Sequence[float],
    charge: float = 1.0,
) -> Quat:
    """Set a vehicle on the ground, at rest, motors off.

    Args:
        vehicle: VEHICLE record.
        params: its parameters.
        environment: the world.
        scene: its terrain.
        physics: how its attitude is represented.
        pose: x, y in m and yaw in rad.
        charge: of its battery, 0 to 1.

    Returns:
        Its attitude q_WB.
    """
    zero = np.zeros(1, vehicle.dtype)[0]
    for name in vehicle.dtype.names or ():
        vehicle[name] = zero[name]
    height_m, attitude = standing_pose(params, environment, scene, pose)
    vehicle.x[P : P + 3] = pose[0], pose[1], height_m
    formalism = FORMALISMS.index(physics.formalism)
    set_attitude(vehicle.x[:], vehicle, formalism, attitude, (0.0, 0.0, 0.0))
    vehicle.last_x[:] = vehicle.x
    vehicle.charge_C = charge * params.battery.capacity_Ah * 3600.0
    held = vehicle.held
    held.mass_kg = params.mass_kg
    held.density_ratio = 1.0
    held.battery_V = params.battery.voltage_V
    held.effectiveness[:] = 1.0
    held.thrust_gain[:] = 1.0
    wind_start(vehicle.wind)
    vehicle.wind_from_W_mps[:] = vehicle.wind_to_W_mps[:] = environment.wind_W_mps
    hang(vehicle, params, environment, scene, attitude)
    return attitude


def check_place(
    params: VehicleParams,
    environment: EnvironmentParams,
    scene: Scene,
    physics: PhysicsParams,
    motion: np.record,
) -> None:
    """Refuse to put a vehicle where it cannot be.

    Args:
        params: the vehicle.
        environment: for the flat ground.
        scene: terrain and obstacles.
        physics: how its attitude is represented.
        motion: KINEMATICS of where it shall be.

    Raises:
        InputError: it hangs on a rope, a point of it would be under the ground or inside an
            obstacle, or Euler angles have no rates there.
    """
    if params.load.rope_length_m > 0.0 or params.tether.length_m > 0.0:
        raise InputError("a vehicle with a load or on a tether cannot be put elsewhere")
    p_W, q_WB = tuple(motion["p_W"].tolist()), quat(motion["q_WB"])
    nose_up = plain(unrotate)(q_WB, (0.0, 0.0, 1.0))[0]
    if physics.formalism == "euler" and abs(nose_up) > MOST_SINE:
        raise InputError("formalism euler: the nose points up or down; allowed: less than 89 deg")
    contact = params.packed_as().contact
    ground_m, deepest_m = environment.ground_height_m, -contact.sag_m - TOLERANCE_M
    for point_B in ((0.0, 0.0, 0.0), *contact.points_B_m, *contact.hull_B_m):
        point_W = plain(add)(p_W, plain(rotate)(q_WB, point_B))
        if surface_distance(scene, ground_m, point_W, 1.0)[0] < deepest_m:
            raise InputError("a point of it would be under the ground or inside an obstacle")


def place(
    vehicle: Vehicle,
    physics: PhysicsParams,
    p_W: ArrayLike,
    v_W: ArrayLike,
    q_WB: ArrayLike,
    w_B: ArrayLike,
) -> None:
    """Put a vehicle into another state of motion; all else of it stays.

    Args:
        vehicle: VEHICLE record.
        physics: how its attitude is represented.
        p_W: (3,) m.
        v_W: (3,) m/s.
        q_WB: (4,) unit quaternion, w first.
        w_B: (3,) rad/s.
    """
    x = vehicle.x[:]
    x[P : P + 3], x[V : V + 3] = p_W, v_W
    attitude = tuple(np.asarray(q_WB, dtype=float))
    rates = tuple(np.asarray(w_B, dtype=float))
    set_attitude(x, vehicle, FORMALISMS.index(physics.formalism), attitude, rates)
    vehicle.feet.reach_m, vehicle.feet.near = 0.0, 0  # nothing is known of its new place


def look_anew(vehicles: Records[Vehicle]) -> None:
    """Let vehicles forget how far obstacles are: others are there now."""
    feet: Any = vehicles["feet"]
    feet["free_m"], feet["clear_m"] = 0.0, -math.inf
