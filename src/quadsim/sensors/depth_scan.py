"""What planner and guard take of a depth image: a scan of the band about the vehicle's height.

Of each degree of azimuth the nearest obstacle within the band counts, by its third nearest pixel,
so that a flying pixel is none. A direction is seen free where a ray that stays within the band all
the way finds nothing; where no ray measures, nothing is known.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from quadsim.base.compiled import kernel
from quadsim.base.elementary import atan2, cos, each, sin
from quadsim.base.errors import InputError
from quadsim.base.parameters import Vec3

Array = NDArray[np.float64]

#: So much above and below the vehicle counts, m.
HALF_BAND_M = 0.5
#: Directions that are told apart, and pixels that make an obstacle; of an image of fewer columns
#: than MANY, each of which is wider than a direction, one does.
DIRECTIONS, PIXELS, MANY = 720, 3, 64
#: Middles of the directions, rad, and as unit vectors.
AZIMUTHS = (np.arange(DIRECTIONS) + 0.5) * (2.0 * math.pi / DIRECTIONS)
AHEAD = np.stack([each(cos, AZIMUTHS), each(sin, AZIMUTHS), np.zeros(DIRECTIONS)], axis=1)
#: What is too near to be measured is so near, m.
TOO_NEAR_M = 0.1


class DepthScan(NamedTuple):
    """A scan out of a depth image, in the world.

    Attributes:
        origin_W: where the camera was, m.
        points_W: (N, 3) the nearest of each direction, m.
        ends_W: (M, 3) how far those were seen free that have nothing, m.
        azimuths_W: (N + M,) where that is known, rad.
    """

    origin_W: Vec3
    points_W: Array
    ends_W: Array
    azimuths_W: Array


@kernel
def _sort_pixels(
    depth_m: NDArray[np.float32],
    slopes: Array,
    turn_WS: Array,
    rise_m: tuple[float, float],
    range_m: float,
    empty_is_free: bool,
    nearest: Array,
    free: NDArray[np.bool_],
) -> None:
    """Put the pixels of an image into directions.

    Args:
        depth_m: (rows, columns), NaN and inf by REP-117.
        slopes: (2, rows, columns) left and up of each pixel's ray, per depth.
        turn_WS: (3, 3) attitude of the camera.
        rise_m: from the camera to the lower and the upper border of the band.
        range_m: level; nothing counts beyond.
        empty_is_free: whether NaN is taken for nothing within the range.
        nearest: (DIRECTIONS, pixels, 4) level distance, and place relative to the camera, of the
            nearest ones, the nearest first; is filled.
        free: (DIRECTIONS,) whether a level ray found nothing; is filled.
    """
    rows, columns = depth_m.shape
    for row in range(rows):
        for column in range(columns):
            depth = float(depth_m[row, column])
            if math.isnan(depth):
                if not empty_is_free:
                    continue
                depth = math.inf
            left, up = slopes[0, row, column], slopes[1, row, column]
            x = turn_WS[0, 0] + turn_WS[0, 1] * left + turn_WS[0, 2] * up
            y = turn_WS[1, 0] + turn_WS[1, 1] * left + turn_WS[1, 2] * up
            z = turn_WS[2, 0] + turn_WS[2, 1] * left + turn_WS[2, 2] * up
            level = math.sqrt(x * x + y * y)
            depth = max(depth, TOO_NEAR_M)
            inside = rise_m[1] if z > 0.0 else rise_m[0]
            leaves = inside / z if z != 0.0 else math.inf  # at this depth
            hit = depth <= leaves and depth * level <= range_m
            if not hit and leaves * level < range_m:
                continue
            turn = atan2(y, x) * (DIRECTIONS / (2.0 * math.pi))
            direction = math.floor(turn) % DIRECTIONS
            if not hit:
                free[direction] = True
                continue
            pixels = nearest.shape[1]
            k = pixels
            while k > 0 and depth * level < nearest[direction, k - 1, 0]:
                k -= 1
                if k + 1 < pixels:
                    for i in range(4):
                        nearest[direction, k + 1, i] = nearest[direction, k, i]
            if k < pixels:
                nearest[direction, k, 0] = depth * level
                nearest[direction, k, 1] = depth * x
                nearest[direction, k, 2] = depth * y
                nearest[direction, k, 3] = depth * z


class DepthScanner:
    """Makes scans of the images of one camera.

    Args:
        directions_S: (rows, columns, 3) unit vectors of the pixels' rays in the camera's axes.
        position_B_m, rotation_deg: where the camera sits.
        range_m: how far it is relied on, level.
        empty_is_free: whether a pixel without a reading has nothing within the range.

    Raises:
        InputError: a ray does not look ahead.
    """

    def __init__(
        self,
        directions_S: Array,
        position_B_m: Vec3,
        rotation_deg: Vec3,
        range_m: float,
        empty_is_free: bool = False,
    ) -> None:
        if not (directions_S[..., 0] > 0.0).all():
            raise InputError("a ray of the camera does not look ahead")
        slopes = directions_S[..., 1:] / directions_S[..., :1]
        self._slopes = np.ascontiguousarray(np.moveaxis(slopes, 2, 0))
        self._position_B = np.array(position_B_m)
        self._turn_BS = Rotation.from_euler("ZYX", rotation_deg[::-1], degrees=True)
        self.range_m, self._empty_is_free = range_m, empty_is_free
        pixels = PIXELS if directions_S.shape[1] >= MANY else 1
        self._nearest, self._free = np.zeros((DIRECTIONS, pixels, 4)), np.zeros(DIRECTIONS, bool)

    def scan(self, depth_m: NDArray[np.float32], p_W: Array, q_WB: Array) -> DepthScan:
        """The scan of an image, taken where the vehicle was at its stamp.

        Args:
            depth_m: (rows, columns) m, by REP-117 and REP-118.
            p_W: (3,) m.
            q_WB: (4,) w first.
        """
        turn_WB = Rotation.from_quat(q_WB, scalar_first=True)
        origin_W = p_W + turn_WB.apply(self._position_B)
        rise_m = p_W[2] - origin_W[2] - HALF_BAND_M, p_W[2] - origin_W[2] + HALF_BAND_M
        nearest, free = self._nearest, self._free
        nearest[:], free[:] = math.inf, False
        turn_WS = np.ascontiguousarray((turn_WB * self._turn_BS).as_matrix())
        _sort_pixels(
            depth_m, self._slopes, turn_WS, rise_m, self.range_m, self._empty_is_free, nearest, free
        )
        hit = np.isfinite(nearest[:, -1, 0])
        free &= ~hit
        x, y, z = origin_W.tolist()
        return DepthScan(
            (x, y, z),
            origin_W + nearest[hit, -1, 1:],
            origin_W + self.range_m * AHEAD[free],
            np.concatenate([AZIMUTHS[hit], AZIMUTHS[free]]),
        )
