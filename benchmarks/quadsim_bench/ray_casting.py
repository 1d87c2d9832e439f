"""How long rays take: a scan among 100 obstacles over a heightmap of 256 x 256 cells."""

from __future__ import annotations

import statistics
import timeit
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from quadsim_bench.figure import Measurement, Session, lines

if TYPE_CHECKING:
    from quadsim.world.scene.obstacles import Obstacle
    from quadsim.world.scene.scene import Scene
    from quadsim.world.scene.terrain import Heightmap

OBSTACLES, CELLS, SIZE_M, RANGE_M, HEIGHT_M = 100, 256, 256.0, 100.0, 15.0

#: Rays: an automotive lidar's 16 rows of 45, a scanner's of a third of a degree.
ALL_AROUND, LEVEL = 720, 1080

SCENES = {
    "flat": "flat ground",
    "terrain": f"a heightmap of {CELLS} x {CELLS} cells",
    "obstacles": f"{OBSTACLES} boxes, spheres and cylinders",
    "both": "both",
}


def terrain(rng: np.random.Generator) -> Heightmap:
    """Hills of some metres."""
    from quadsim.world.scene.terrain import Heightmap

    x, y = np.meshgrid(*2 * [np.linspace(0.0, SIZE_M, CELLS + 1)])
    heights = 6.0 * np.sin(x / 15.0) * np.cos(y / 11.0) + rng.normal(0.0, 0.05, x.shape)
    return Heightmap(heights, (SIZE_M, SIZE_M))


def obstacles(rng: np.random.Generator) -> list[Obstacle]:
    """Boxes, spheres and cylinders, strewn over the terrain."""
    from quadsim.world.scene.obstacles import Box, Cylinder, Obstacle, Pose, Sphere

    shapes: list[Box | Sphere | Cylinder] = [Box((2.0, 3.0, 4.0)), Sphere(2.0), Cylinder(0.5, 12.0)]
    found = []
    for k in range(OBSTACLES):
        x, y, z, w = Rotation.random(rng=rng).as_quat()
        place = rng.uniform([-80.0, -80.0, 0.0], [80.0, 80.0, 12.0])
        found.append(Obstacle(f"{k}", shapes[k % 3], Pose(tuple(place), (w, x, y, z))))
    return found


def scenes() -> dict[str, Scene]:
    """What the rays meet, by the names of :data:`SCENES`."""
    from quadsim.world.scene.scene import EMPTY_SCENE, scene_of

    rng = np.random.default_rng(1)
    hills, things = terrain(rng), obstacles(rng)
    return {
        "flat": EMPTY_SCENE,
        "terrain": scene_of((), hills),
        "obstacles": scene_of(things),
        "both": scene_of(things, hills),
    }


@cache
def compiled() -> Callable[..., None]:
    """A kernel that casts rays from one point."""
    from quadsim.base.compiled import kernel
    from quadsim.world.scene.scene import cast_ray

    @kernel
    def cast_rays(
        scene: Scene,
        directions: NDArray[np.float64],
        distance: NDArray[np.float64],
        cosine: NDArray[np.float64],
    ) -> None:
        origin = (0.0, 0.0, HEIGHT_M)
        for i in range(directions.shape[0]):
            direction = (directions[i, 0], directions[i, 1], directions[i, 2])
            distance[i], cosine[i] = cast_ray(scene, 0.0, origin, direction, RANGE_M)

    return cast_rays


def caster(scene: Scene, directions: NDArray[np.float64]) -> Callable[[], None]:
    """A call that casts all rays from one point."""
    cast_rays = compiled()
    distance, cosine = np.zeros(len(directions)), np.zeros(len(directions))

    def call() -> None:
        cast_rays(scene, directions, distance, cosine)

    return call


def around(count: int) -> NDArray[np.float64]:
    """Directions (count, 3), evenly strewn over the sphere."""
    directions = np.random.default_rng(2).standard_normal((count, 3))
    unit: NDArray[np.float64] = directions / np.linalg.norm(directions, axis=1)[:, None]
    return unit


def level(count: int) -> NDArray[np.float64]:
    """Directions (count, 3) of a level scan all around."""
    angle = np.linspace(0.0, 2.0 * np.pi, count, endpoint=False)
    return np.column_stack([np.cos(angle), np.sin(angle), np.zeros(count)])


def measure(session: Session) -> dict[str, Any]:
    """Median of many calls in one round, ms."""
    found = session.once("scenes", scenes)
    calls = 20 if session.short else 200
    result = {}
    for name, scene in found.items():
        for way, directions in (("around", around(ALL_AROUND)), ("level", level(LEVEL))):
            call = caster(scene, directions)
            call()
            times = timeit.repeat(call, number=1, repeat=calls)
            result[f"ray_casting_{name}_{way}_ms"] = 1e3 * statistics.median(times)
    return result


FIGURES = "\n".join(
    f"ray_casting_{name}_{way}_ms ms less {rays} rays {way}, 100 m: {words}"
    for name, words in SCENES.items()
    for way, rays in (("around", ALL_AROUND), ("level", LEVEL))
)

MEASUREMENTS = (Measurement("ray_casting", lines(FIGURES), measure, short=True),)
