"""Many rays at once, each cast by itself."""

import numpy as np

from quadsim.world.scene.scene import cast_ray


def cast_rays(scene, ground_height_m, origins_W, directions_W, range_max_m):
    """(N,) distances and (N,) cosines of incidence of (N, 3) rays."""
    rays = zip(origins_W.tolist(), directions_W.tolist(), strict=True)
    return np.transpose(
        [
            cast_ray(scene, ground_height_m, tuple(origin), tuple(direction), range_max_m)
            for origin, direction in rays
        ]
    )
