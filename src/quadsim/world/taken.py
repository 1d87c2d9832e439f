"""What a scenario leaves open is taken from its world's file, and noted."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import asdict
from typing import Any

from quadsim.base.errors import InputError
from quadsim.base.parameters import from_mapping
from quadsim.world.environment import EnvironmentParams
from quadsim.world.ground import ground_height_of
from quadsim.world.sdf.world_file import World

#: A field so near to the World Magnetic Model's, whose own error is 0.13 uT, is the model's, T.
SAME_FIELD_T = 1e-7


def environment_of(
    world: World,
    environment: EnvironmentParams,
    given: Collection[str],
    place: tuple[float, float],
    own_terrain: bool,
) -> tuple[EnvironmentParams, list[str]]:
    """The environment of a scenario, with its world's place, gravity, wind, field and ground.

    Args:
        world: what its file holds.
        environment: as the scenario has it.
        given: dotted keys that the scenario sets, which stay.
        place: where its first vehicle stands: x, y in m.
        own_terrain: whether the scenario brings terrain of its own.

    Returns:
        The environment, and a line that says what is taken, if anything is.

    Raises:
        InputError: the world cannot be flown in.
    """
    taken: dict[str, Any] = {}
    notes: list[str] = []

    def is_open(*names: str) -> bool:
        keys = [f"environment.{name}" for name in names]
        return not any(f"{one}.".startswith(f"{key}.") for one in given for key in keys)

    if world.datum not in (None, environment.datum) and is_open("datum"):
        assert world.datum is not None
        taken["datum"] = asdict(world.datum)
        notes.append(
            "place {latitude_deg:g}, {longitude_deg:g} deg, {height_m:g} m".format(**taken["datum"])
        )
    gravity = world.gravity_W_mps2
    if gravity is not None and is_open("gravity", "gravity_mps2", "gravity_gradient_per_s2"):
        if math.hypot(*gravity[:2]) > 1e-6 or gravity[2] > 0.0:
            raise InputError(
                f"{world.path}: <gravity> {gravity}; allowed: downwards (or set"
                " environment.gravity_mps2 in the scenario)"
            )
        if -gravity[2] != environment.gravity_mps2:
            taken["gravity_mps2"] = abs(gravity[2])
            notes.append(f"gravity {abs(gravity[2]):g} m/s^2")
    wind = world.wind_W_mps
    if wind not in (None, environment.wind_W_mps) and is_open("wind_W_mps", "wind.file"):
        assert wind is not None
        taken["wind_W_mps"] = wind
        notes.append("wind ({:g}, {:g}, {:g}) m/s".format(*wind))
    field = world.magnetic_field_W_T
    if field is not None and is_open("magnetic_field", "magnetic_field_W_T", "magnetic_date_year"):
        there = EnvironmentParams(datum=world.datum or environment.datum).field_W_T()
        if max(abs(a - b) for a, b in zip(field, there, strict=True)) > SAME_FIELD_T:
            if world.datum is None or "datum" in taken or world.datum == environment.datum:
                taken |= {"magnetic_field": "fixed", "magnetic_field_W_T": field}
                micro = [1e6 * value for value in field]
                notes.append("magnetic field ({:.3g}, {:.3g}, {:.3g}) uT".format(*micro))
            else:
                notes.append("not its magnetic field, which is of another place")
    if is_open("ground_height_m"):
        level_m = world.ground_height_m
        own = None if level_m is None else (level_m, "")
        found = own if own_terrain else ground_height_of(world, *place)
        if found is not None and (found[1] or found[0] != environment.ground_height_m):
            taken["ground_height_m"] = found[0]
            notes.append(found[1] or f"flat ground at {found[0]:.6g} m")
        elif found is None and not own_terrain:
            notes.append(f"it has no ground here: flat ground at {environment.ground_height_m:g} m")
    if world.heading_deg:
        notes.append(f"rotated by its heading of {world.heading_deg:g} deg, x is east")
    if taken:
        where = f"{world.path}: what the scenario leaves open"
        environment = from_mapping(EnvironmentParams, asdict(environment) | taken, where)
    return environment, [f"from {world.path.name}: {'; '.join(notes)}"] if notes else []
