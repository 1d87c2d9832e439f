"""Depth camera: a stereo pair or time of flight, pinhole or wide angle; and what each pixel sees.

A stereo pair matches a pixel at a disparity d = f b / z, which is off by a noise and counted in
steps, so that the error of z grows with its square (Intel, *Depth camera tuning*, 2017: error =
z^2 subpixel / (f b)). At edges of depth a pixel has a part of both sides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Records, kernel, owning_kernel
from quadsim.base.elementary import acos, cos, each, sin, tan
from quadsim.base.errors import InputError
from quadsim.base.parameters import Spec
from quadsim.base.records import Kinematics
from quadsim.geometry.rotation import multiply, quat, rotate, to_matrix
from quadsim.geometry.vector import add, vec3
from quadsim.sensors.error_terms import (
    Constant,
    Dropout,
    Position,
    Quantisation,
    Rate,
    Rotation,
    White,
)
from quadsim.sensors.model import read_out
from quadsim.sensors.rangefinder import EchoParams, EchoState, is_missed, read_echo
from quadsim.sensors.scanner import Scanner, pose_between
from quadsim.world.scene.raycast_image import ImageHits, ImageRays, cast_image, image_rays
from quadsim.world.scene.scene import Scene

KIND = "depth_camera"

#: Most rays of an image.
MAX_RAYS = 4_000_000
#: From one side of an edge to the other, depth grows by this part of it at least.
EDGE_SHARE = 0.1
#: No ray is cast farther than so many times the range in depth.
LONGEST_RAY = 4.0


@dataclass(frozen=True)
class DepthCameraParams(EchoParams):
    """One depth camera; x is ahead, z up. Distances are depths, along x."""

    range_max_m: Annotated[float, Spec("beyond it the reading is +inf", "m", gt=0.0)] = 10.0
    rate_hz: Annotated[float, Rate("images a second", "Hz", ge=0.1, le=200.0)] = 30.0
    position_B_m: Position = (0.0, 0.0, 0.0)
    rotation_deg: Rotation = (0.0, 0.0, 0.0)
    columns: Annotated[int, Spec("pixels of a row", ge=1, le=4096)] = 320
    rows: Annotated[int, Spec("pixels of a column", ge=1, le=4096)] = 240
    field_of_view_deg: Annotated[
        float, Spec("from the left to the right border", "deg", gt=0.0, lt=180.0)
    ] = 87.0
    projection: Annotated[
        str,
        Spec(
            "equidistant: wide angle, the pixel's distance from the middle is the ray's angle",
            choices=("pinhole", "equidistant"),
        ),
    ] = "pinhole"
    samples: Annotated[
        int,
        Spec("rays across and down a pixel, which reads the nearest hit", ge=1, le=16),
    ] = 1
    separation_m: Annotated[
        float,
        Spec("hits of a pixel so near behind its nearest are averaged with it", "m", ge=0.0),
    ] = 0.0
    baseline_m: Annotated[
        float,
        Constant("between a stereo pair; 0: time of flight", "m", ge=0.0, le=2.0),
    ] = 0.0
    matching_focal_px: Annotated[
        float, Spec("focal length at which the pair is matched; 0: that of the image", "px", ge=0.0)
    ] = 0.0
    disparity_sigma_px: Annotated[
        float, White("noise of the disparity, at matching_focal_px", "px", ge=0.0, le=10.0)
    ] = 0.0
    disparity_step_px: Annotated[
        float, Quantisation("resolution of the disparity, 0 for none", "px", ge=0.0, le=10.0)
    ] = 0.0
    edge_probability: Annotated[
        float, Dropout("that a pixel at an edge of depth reads something between", ge=0.0, le=1.0)
    ] = 0.0
    exposure_s: Annotated[
        float,
        Spec(
            "a turn smears edges meanwhile; the stamp is its middle",
            "s",
            ge=0.0,
            le=0.2,
        ),
    ] = 0.0
    readout_s: Annotated[
        float,
        Spec("from first to last row, of a rolling shutter; 0: all at once", "s", ge=0.0),
    ] = 0.0
    encoding: Annotated[
        str, Spec("32FC1: m; 16UC1: mm, 0 for no reading", choices=("32FC1", "16UC1"))
    ] = "32FC1"
    points: Annotated[bool, Spec("publish each image as a cloud too")] = False
    segmentation: Annotated[bool, Spec("publish what each pixel sees, as ids")] = False

    def __post_init__(self) -> None:
        """Refuse what no camera can be, and errors that would act on nothing.

        Raises:
            InputError: no range, too many rays, a corner that looks backwards, or a key without the
                one that it needs.
        """
        EchoParams.__post_init__(self)
        rays = self.columns * self.rows * self.samples * self.samples
        if rays > MAX_RAYS:
            raise InputError(f"columns, rows, samples: {rays} rays an image; allowed: {MAX_RAYS}")
        stereo = (self.matching_focal_px, self.disparity_sigma_px, self.disparity_step_px)
        if self.baseline_m == 0.0 and any(stereo):
            raise InputError("baseline_m: 0, but a disparity is given; allowed: > 0")
        if self.baseline_m > 0.0 and (self.noise_sigma_m or self.noise_share):
            raise InputError(
                "noise_sigma_m, noise_share: of a stereo pair; allowed: disparity_sigma_px"
            )
        if self.readout_s > 1.0 / self.rate_hz:
            raise InputError(
                f"readout_s: {self.readout_s:g} is longer than a period; allowed: <= 1 / rate_hz"
            )
        corner = 0.5 * math.hypot(self.columns, self.rows) / self.focal_px
        if self.projection == "equidistant" and corner >= 0.5 * math.pi:
            raise InputError(
                f"field_of_view_deg: {self.field_of_view_deg:g} deg turns the corners by"
                f" {math.degrees(corner):.0f} deg; allowed: < 90"
            )

    @property
    def focal_px(self) -> float:
        """Focal length, px; of a wide angle pixels per rad."""
        half_rad = 0.5 * math.radians(self.field_of_view_deg)
        slope = half_rad if self.projection == "equidistant" else tan(half_rad)
        return float(0.5 * self.columns / slope)

    def offsets_s(self) -> NDArray[np.float64]:
        """Time of each row after the first, (rows,) s."""
        return np.asarray(np.linspace(0.0, self.readout_s, self.rows), np.float64)

    def directions(self, samples: int = 1) -> NDArray[np.float64]:
        """Unit vectors of the pixels' rays in the camera's axes, (rows, columns, 3).

        Args:
            samples: so many rays each way of a pixel, (rows samples, columns samples, 3).
        """
        left, up = (
            (0.5 * count - (np.arange(count * samples) + 0.5) / samples) / self.focal_px
            for count in (self.columns, self.rows)
        )
        y, z = np.broadcast_arrays(left, up[:, None])
        if self.projection == "pinhole":
            x = 1.0 / np.sqrt(1.0 + y * y + z * z)
            return np.stack([x, x * y, x * z], axis=2)
        angle = np.sqrt(y * y + z * z)
        aside = each(sin, angle) / np.maximum(angle, 1e-12)
        return np.stack([each(cos, angle), aside * y, aside * z], axis=2)


class DepthImage(NamedTuple):
    """What a depth camera gives.

    Attributes:
        stamp_ns: middle of the first row's exposure.
        depth_m: (rows, columns) along x; -inf too near, +inf too far, NaN none (REP-117, 118).
        ids: (rows, columns) what each pixel sees, as ``ImageHits.ids``, without any error.
    """

    stamp_ns: int
    depth_m: NDArray[np.float32]
    ids: NDArray[np.uint16]


@owning_kernel
def cast_rows(
    cameras: Records[DepthCameraParams],
    states: Records[EchoState],
    scene: Scene,
    ground_height_m: float,
    previous: Records[Kinematics],
    now: Records[Kinematics],
    stamps_ns: NDArray[np.int64],
    rows: tuple[int, int],
    range_m: float,
    rays: ImageRays,
    hits: ImageHits,
) -> float:
    """Cast the rays of some rows, each from where the camera is at the row's time.

    Args:
        cameras: (1,) parameters.
        states: (1,) its state.
        scene, ground_height_m: what is there.
        previous, now: (1,) KINEMATICS between which the rows' times lie.
        stamps_ns: (rows,) time of each.
        rows: first, and behind the last.
        range_m: how far rays are cast.
        rays, hits: of the image; the second is filled.

    Returns:
        How fast the camera turns, rad/s.
    """
    camera = cameras[0]
    R_WS = np.empty((3, 3))
    begin = rows[0]
    while begin < rows[1]:
        stop = begin + 1
        while stop < rows[1] and stamps_ns[stop] == stamps_ns[begin]:
            stop += 1
        p_W, q_WB = pose_between(previous[0], now[0], stamps_ns[begin])
        matrix = to_matrix(multiply(q_WB, quat(states[0].q_BS)))
        for i in range(3):
            for j in range(3):
                R_WS[i, j] = matrix[i][j]
        origin_W = add(p_W, rotate(q_WB, vec3(camera.position_B_m)))
        lines = (begin * camera.samples, stop * camera.samples)
        cast_image(scene, ground_height_m, rays, origin_W, R_WS, range_m, lines, hits)
        begin = stop
    a, b = quat(previous[0].q_WB), quat(now[0].q_WB)
    alike = min(1.0, abs(a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3]))
    return float(2e9 * acos(alike) / (now[0].stamp_ns - previous[0].stamp_ns))


@kernel
def _true_depth(
    camera: DepthCameraParams,
    state: EchoState,
    ahead: NDArray[np.float64],
    hits: ImageHits,
    row: int,
    column: int,
    chance: float,
) -> tuple[float, int]:
    """Depth of what a pixel sees in m, NaN for no reading and inf for nothing; and its id."""
    top, left, count = row * camera.samples, column * camera.samples, camera.samples
    nearest, cosine, seen, grazed = math.inf, 0.0, 0, False
    for i in range(top, top + count):
        for j in range(left, left + count):
            depth = hits.distances[i, j] * ahead[i, j]
            if depth < nearest:
                if hits.cosines[i, j] < state.cos_incidence_max:
                    grazed = True
                else:
                    nearest, cosine, seen = depth, hits.cosines[i, j], hits.ids[i, j]
    if nearest == math.inf:
        return (math.nan if grazed else math.inf), hits.ids[top + count // 2, left + count // 2]
    if is_missed(camera, state, cosine, chance):
        return math.nan, seen
    if count == 1:
        return nearest, seen
    total, near = 0.0, 0
    for i in range(top, top + count):
        for j in range(left, left + count):
            depth = hits.distances[i, j] * ahead[i, j]
            steep = hits.cosines[i, j] >= state.cos_incidence_max
            if steep and nearest <= depth <= nearest + camera.separation_m:
                total, near = total + depth, near + 1
    return total / near, seen


@kernel
def _mixed(depths: NDArray[np.float64], row: int, column: int, spread: int, share: float) -> float:
    """What a pixel reads that sees both sides of an edge: between them; without one, as it is."""
    here = depths[row, column]
    low, high = here, here
    for i, j in ((row - spread, column), (row + spread, column),
                 (row, column - spread), (row, column + spread)):  # fmt: skip
        if 0 <= i < depths.shape[0] and 0 <= j < depths.shape[1] and depths[i, j] < math.inf:
            low, high = min(low, depths[i, j]), max(high, depths[i, j])
    return float(low + share * (high - low)) if high - low > EDGE_SHARE * low else here


@kernel
def read_image(
    cameras: Records[DepthCameraParams],
    states: Records[EchoState],
    ahead: NDArray[np.float64],
    hits: ImageHits,
    matching: float,
    spread: int,
    white: NDArray[np.float64],
    chances: NDArray[np.float64],
    depths: NDArray[np.float64],
    readings: NDArray[np.float32],
    ids: NDArray[np.uint16],
) -> None:
    """What a depth camera reads of what its rays have met.

    Args:
        cameras: (1,) parameters.
        states: (1,) its state.
        ahead: depth over distance of each ray.
        hits: what they have met.
        matching: focal length times baseline of a stereo pair, px m; 0 for none.
        spread: an edge is seen by pixels so near.
        white: (pixels,) standard normal.
        chances: (2 pixels,) uniform in [0, 1).
        depths: (rows, columns), for the true ones.
        readings: (rows, columns) is filled, m.
        ids: (rows, columns) is filled.
    """
    camera, state = cameras[0], states[0]
    rows, columns = depths.shape
    for row in range(rows):
        for column in range(columns):
            chance = chances[2 * (row * columns + column)]
            depths[row, column], ids[row, column] = _true_depth(
                camera, state, ahead, hits, row, column, chance
            )
    for row in range(rows):
        for column in range(columns):
            pixel = row * columns + column
            depth, chance = depths[row, column], chances[2 * pixel + 1]
            if math.isnan(depth):
                readings[row, column] = math.nan
                continue
            if chance < camera.edge_probability and depth < math.inf:
                depth = _mixed(depths, row, column, spread, chance / camera.edge_probability)
            noise = white[pixel]
            if matching > 0.0 and 0.0 < depth < math.inf:
                disparity = matching / depth + camera.disparity_sigma_px * noise
                disparity = read_out(disparity, camera.disparity_step_px, 0.0)
                depth, noise = matching / disparity if disparity > 0.0 else math.inf, 0.0
            readings[row, column] = read_echo(camera, state, depth, noise)


class SimulatedDepthCamera(Scanner):
    """One depth camera on one vehicle; arguments as of :class:`Scanner`. Its lines are rows."""

    KIND, params_type, sample_type = KIND, DepthCameraParams, DepthImage

    def __init__(self, params: DepthCameraParams, *args: Any, **kwargs: Any) -> None:
        directions = params.directions(params.samples)
        shape = directions.shape[:2]
        self._rays = image_rays(directions, *((params.samples,) if params.readout_s > 0.0 else ()))
        self._ahead = np.ascontiguousarray(directions[..., 0])
        farthest = min(1.0 / float(self._ahead.min()), LONGEST_RAY)
        self._range_m = params.range_max_m * farthest
        self._hits = ImageHits(np.zeros(shape), np.zeros(shape), np.zeros(shape, np.uint16))
        self._depths = np.zeros((params.rows, params.columns))
        focal_px = params.matching_focal_px or params.focal_px
        self._matching = focal_px * params.baseline_m
        self._spread = 1
        pixels = params.rows * params.columns
        super().__init__(params, params.offsets_s(), (pixels, 2 * pixels), *args, **kwargs)

    def cast(self, stamps_ns: NDArray[np.int64], lines: tuple[int, int]) -> None:
        """Cast the rays of some rows."""
        turn_radps = cast_rows(
            self._params, self._states, self._scene, self._ground_height_m, self._previous,
            self._now, stamps_ns, lines, self._range_m, self._rays, self._hits,
        )  # fmt: skip
        smear_px = self.params.focal_px * turn_radps * self.params.exposure_s
        self._spread = 1 + min(round(0.5 * smear_px), self.params.columns)

    def read(
        self, white: NDArray[np.float64], chances: NDArray[np.float64]
    ) -> tuple[NDArray[Any], ...]:
        """Depths and ids."""
        readings = np.empty(self._depths.shape, np.float32)
        ids = np.empty(self._depths.shape, np.uint16)
        read_image(
            self._params, self._states, self._ahead, self._hits, self._matching, self._spread,
            white, chances, self._depths, readings, ids,
        )  # fmt: skip
        return readings, ids


SCANNER = SimulatedDepthCamera
