"""Satellites over the antenna: which it sees, and the dilution of precision that they give.

Langley, *Dilution of precision*, GPS World 10(5), 1999: with rows (e, n, u, 1) of the unit vectors
to the satellites the covariance of position and clock is (H^T H)^-1 of the ranges' variance. Here
the clock is eliminated first: what is left are the second moments of the vectors about their mean.
"""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np

from quadsim.base.compiled import Array, Record, kernel
from quadsim.base.elementary import cos, each, sin
from quadsim.base.parameters import Vec3, dtype_of
from quadsim.geometry.vector import vec3
from quadsim.world.scene.scene import Scene, cast_ray

#: One bit for each in an int64.
MAX_SATELLITES = 60

#: Fewer give no position and clock.
LEAST_SATELLITES = 4

#: No fix with a worse geometry: the default of u-blox receivers (CFG-NAVSPG-OUTFIL_PDOP, 25.0).
WORST_PDOP = 25.0

#: What stands for a dilution that is not known, as in NMEA 0183.
NO_DOP = 99.99

#: Farther away nothing hides a satellite.
VIEW_M = 2000.0


class Sky(Record):
    """The satellites above the mask, and what is seen of them."""

    count: int  # above the mask
    hidden: int  # one bit each
    visible: int
    hdop: float
    vdop: float
    direction_W: Annotated[Array, MAX_SATELLITES, 3]


SKY = dtype_of(Sky)


def draw_sky(sky: Sky, count: int, mask_deg: float, generator: np.random.Generator) -> None:
    """Spread satellites evenly over the sky above a mask.

    Args:
        sky: SKY record.
        count: of satellites.
        mask_deg: least elevation.
        generator: the sensor's stream; takes the same number of draws for any count.
    """
    sine = sin(math.radians(mask_deg))
    up = sine + (1.0 - sine) * generator.random(MAX_SATELLITES)
    azimuth = 2.0 * np.pi * generator.random(MAX_SATELLITES)
    level = np.sqrt(1.0 - up * up)
    sky["count"] = count
    sky["direction_W"][:] = np.column_stack(
        [level * each(sin, azimuth), level * each(cos, azimuth), up]
    )
    dilute(sky, 0)


@kernel
def dilute(sky: Sky, hidden: int) -> None:
    """Write how many satellites are seen and the dilution of precision that they give.

    Args:
        sky: SKY record.
        hidden: one bit for each satellite that is not seen.
    """
    sky.hidden, sky.visible = hidden, 0
    x, y, z = 0.0, 0.0, 0.0
    xx, yy, zz, xy, xz, yz = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(sky.count):
        if hidden & (1 << i):
            continue
        e, n, u = vec3(sky.direction_W[i])
        sky.visible += 1
        x, y, z = x + e, y + n, z + u
        xx, yy, zz = xx + e * e, yy + n * n, zz + u * u
        xy, xz, yz = xy + e * n, xz + e * u, yz + n * u
    sky.hdop, sky.vdop = NO_DOP, NO_DOP
    if sky.visible < LEAST_SATELLITES:
        return
    m = 1.0 / sky.visible
    xx, yy, zz = xx - m * x * x, yy - m * y * y, zz - m * z * z
    xy, xz, yz = xy - m * x * y, xz - m * x * z, yz - m * y * z
    # diagonal of the inverse of the symmetric matrix
    east, north, up = yy * zz - yz * yz, xx * zz - xz * xz, xx * yy - xy * xy
    determinant = xx * east - xy * (xy * zz - yz * xz) + xz * (xy * yz - yy * xz)
    if determinant > 1e-9:
        sky.hdop = min(NO_DOP, math.sqrt((east + north) / determinant))
        sky.vdop = min(NO_DOP, math.sqrt(up / determinant))


@kernel
def has_position(sky: Sky) -> bool:
    """Whether what is seen gives a fix."""
    dop2 = sky.hdop * sky.hdop + sky.vdop * sky.vdop
    return bool(sky.visible >= LEAST_SATELLITES and dop2 <= WORST_PDOP * WORST_PDOP)


@kernel
def look_up(sky: Sky, scene: Scene, ground_height_m: float, antenna_W: Vec3) -> None:
    """Find out which satellites terrain and obstacles hide.

    Args:
        sky: SKY record.
        scene: what is there beside the flat ground.
        ground_height_m: height of the flat ground.
        antenna_W: where the antenna is.
    """
    hidden = 0
    obstacles = scene.planes.shape[0] + scene.shapes.boxes.shape[0]
    if obstacles + scene.terrain.heights.shape[0] > 0:
        for i in range(sky.count):
            direction_W = vec3(sky.direction_W[i])
            if cast_ray(scene, ground_height_m, antenna_W, direction_W, VIEW_M)[0] < VIEW_M:
                hidden |= 1 << i
    if hidden != sky.hidden:
        dilute(sky, hidden)
