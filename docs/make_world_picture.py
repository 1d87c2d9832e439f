"""Make the picture of docs/worlds.md: worlds and a vehicle's model, as our rays meet them.

python docs/make_world_picture.py
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from quadsim.base.files import find, find_world, known_worlds
from quadsim.base.parameters import load
from quadsim.gazebo.shapes import height_over_ground_m, shape_parts
from quadsim.vehicle.parameters import VehicleParams
from quadsim.world.scene.obstacles import Obstacle, Pose
from quadsim.world.scene.scene import Scene, cast_ray, scene_of
from quadsim.world.sdf.world_file import load_world

Array = NDArray[np.float64]

PICTURE = Path(__file__).parent / "images" / "worlds.png"
WIDTH, HEIGHT, COLUMNS = 400, 250, 3
#: World: where the eye is, what it looks at, and the width of the view in degrees.
VIEWS = {
    "obstacle_course": ((-6.0, -12.0, 9.0), (20.0, 1.0, 1.5), 65.0),
    "forest": ((-48.0, -30.0, 24.0), (0.0, 0.0, 4.0), 60.0),
    "urban_canyon": ((-95.0, -24.0, 75.0), (0.0, 0.0, 0.0), 65.0),
    "hills": ((-128.0, -118.0, 62.0), (0.0, 0.0, -6.0), 60.0),
    "hall": ((-9.5, -9.5, 15.0), (0.0, 0.0, 0.5), 65.0),
    "x500": ((0.75, -0.85, 0.75), (0.0, 0.0, 0.13), 45.0),
}
SKY, GROUND, THING = (203, 221, 236), (156, 172, 128), (188, 178, 166)
#: From where the light comes.
SUN = np.array([0.5, -0.35, 0.8])
#: Beyond it nothing is drawn, m; and how many times the target's distance one sees well.
FARTHEST_M, CLEAR = 600.0, 4.0


def look(scene: Scene, eye: Array, direction: Array) -> Array:
    """Distances along unit vectors (N, 3) from an eye."""
    start = tuple(eye.tolist())
    return np.array(
        [cast_ray(scene, 0.0, start, tuple(ray), FARTHEST_M)[0] for ray in direction.tolist()]
    )


def scene_named(name: str) -> Scene:
    """A world, or a vehicle that stands on the ground."""
    if name in known_worlds():
        return load_world(find_world(name)).scene()
    vehicle = load(VehicleParams, find("vehicles", name))
    stands = Pose((0.0, 0.0, height_over_ground_m(vehicle)))
    return scene_of(
        [Obstacle(part.name, part.shape, stands @ part.pose_B) for part in shape_parts(vehicle)]
    )


def draw(name: str) -> Image.Image:
    """One world, in the light of the sun."""
    scene = scene_named(name)
    eye, target, width_deg = VIEWS[name]
    ahead = np.subtract(target, eye) / math.dist(target, eye)
    right = np.cross(ahead, [0.0, 0.0, 1.0])
    right /= np.linalg.norm(right)
    step = 2.0 * math.tan(math.radians(0.5 * width_deg)) / WIDTH
    x, y = np.meshgrid(np.arange(WIDTH) - 0.5 * WIDTH, 0.5 * HEIGHT - np.arange(HEIGHT))
    rays = ahead + step * (x[..., None] * right + y[..., None] * np.cross(right, ahead))
    rays /= np.linalg.norm(rays, axis=2, keepdims=True)
    distance = look(scene, np.array(eye), rays.reshape(-1, 3)).reshape(HEIGHT, WIDTH)
    met = np.isfinite(distance)
    points = eye + np.where(met, distance, 0.0)[..., None] * rays
    normal = np.cross(
        np.gradient(points, axis=1, edge_order=1), -np.gradient(points, axis=0, edge_order=1)
    )
    normal /= np.maximum(np.linalg.norm(normal, axis=2, keepdims=True), 1e-12)
    # the sun sees a point that no ray from it towards the sun is stopped at
    sun = SUN / np.linalg.norm(SUN)
    lit = np.clip(normal @ sun, 0.0, 1.0)
    shadow = np.zeros(met.shape, bool)
    for i, j in np.argwhere(met):
        start = (
            points[i, j]
            + 1e-5 * math.dist(target, eye) * normal[i, j]
            + 1e-4 * math.dist(target, eye) * sun
        )
        shadow[i, j] = np.isfinite(look(scene, start, sun[None])[0])
    light = 0.45 + 0.55 * np.where(shadow, 0.0, lit)
    level = np.abs(normal[..., 2]) > 0.9
    on_ground = level & ((points[..., 2] < 0.02) | (name == "hills"))
    colour = np.where(on_ground[..., None], GROUND, THING) * light[..., None]
    clear_m = CLEAR * math.dist(target, eye)
    haze = np.clip(np.where(met, distance, FARTHEST_M) / clear_m - 0.3, 0.0, 0.7)[..., None]
    colour = (1.0 - haze) * colour + haze * np.array(SKY)
    colour[~met] = SKY
    picture = Image.fromarray(colour.astype(np.uint8))
    ImageDraw.Draw(picture).text((8, 6), name, fill=(20, 20, 20), font_size=16)
    return picture


def main() -> None:
    """Draw ``images/worlds.png``."""
    rows = -(-len(VIEWS) // COLUMNS)
    sheet = Image.new("RGB", (COLUMNS * WIDTH, rows * HEIGHT))
    for i, name in enumerate(VIEWS):
        sheet.paste(draw(name), (i % COLUMNS * WIDTH, i // COLUMNS * HEIGHT))
    sheet.quantize(96).save(PICTURE, optimize=True)


if __name__ == "__main__":
    main()
