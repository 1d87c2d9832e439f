"""Images of a depth camera to messages and back; pixels go as one block of bytes."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.ros.messages.cdr import MessageError
from quadsim.wire.encode import SECOND_NS, Cdr

#: Encodings of depths that are read, and what a count is, m.
DEPTHS = {"32FC1": ("f4", 1.0), "16UC1": ("u2", 1e-3), "mono16": ("u2", 1e-3)}
#: Most pixels of an image that is read.
MOST_PIXELS = 4_000_000
#: Largest number of a 16UC1, mm.
MOST_MM = 65535.0

_STAMP = struct.Struct("<iI")


class ImageWriter:
    """Serialised sensor_msgs/Image of one size.

    Args:
        shape: rows and columns.
        encoding: ``32FC1``, ``16UC1`` or ``mono16``.
    """

    def __init__(self, frame: str, shape: tuple[int, int], encoding: str) -> None:
        rows, columns = shape
        size = 4 if encoding == "32FC1" else 2
        message = Cdr().text(frame).count(rows).count(columns).text(encoding).put(b"\0")
        self._head = message.count(columns * size).count(rows * columns * size).content

    def message(self, stamp_ns: int, pixels: NDArray[Any]) -> bytes:
        """The message of pixels that have the encoding's type."""
        _STAMP.pack_into(self._head, 4, *divmod(stamp_ns, SECOND_NS))
        return bytes(self._head) + pixels.tobytes()


def millimetres(depth_m: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Depths as 16UC1 has them: 0 for no reading (REP-118)."""
    whole = np.nan_to_num(depth_m, posinf=0.0, neginf=0.0) * 1e3
    return np.asarray(np.where(whole > MOST_MM, 0.0, np.round(whole)).astype(np.uint16))


def read_depth(message: Any) -> NDArray[np.float32]:
    """(rows, columns) depths in m of a sensor_msgs/Image, NaN for no reading.

    Raises:
        MessageError: another encoding, or sizes that do not fit each other.
    """
    if message.encoding not in DEPTHS:
        raise MessageError(f"encoding {message.encoding!r}; allowed: {', '.join(DEPTHS)}")
    kind, unit_m = DEPTHS[message.encoding]
    rows, columns, step, size = message.height, message.width, message.step, int(kind[1])
    if not 0 < rows * columns <= MOST_PIXELS:
        raise MessageError(f"{columns} x {rows} pixels; allowed: {MOST_PIXELS}")
    if step < columns * size or len(message.data) < (rows - 1) * step + columns * size:
        raise MessageError(
            f"its sizes do not fit: {columns} x {rows} pixels of {size} bytes, step {step},"
            f" {len(message.data)} bytes"
        )
    order = ">" if message.is_bigendian else "<"
    pixels: NDArray[Any] = np.ndarray(
        (rows, columns), order + kind, bytes(message.data), strides=(step, size)
    )
    depth_m = np.ascontiguousarray(pixels, np.float32)
    if unit_m != 1.0:
        depth_m *= np.float32(unit_m)
        depth_m[depth_m == 0.0] = np.nan
    return depth_m


def rays_of(message: Any) -> NDArray[np.float64]:
    """(rows, columns, 3) unit vectors (x ahead, z up) of a CameraInfo's pixels.

    Raises:
        MessageError: no focal length, distorted, or too large.
    """
    (fx, _, cx, _, fy, cy), rows, columns = message.k[:6], message.height, message.width
    if not (math.isfinite(fx + fy + cx + cy) and fx > 0.0 and fy > 0.0):
        raise MessageError(f"focal length {fx:g}, {fy:g} px; allowed: > 0 (is it calibrated?)")
    if not 0 < rows * columns <= MOST_PIXELS:
        raise MessageError(f"{columns} x {rows} pixels; allowed: {MOST_PIXELS}")
    if any(message.d):
        raise MessageError("its image is distorted; allowed: a rectified one (d of zeros)")
    y, z = np.broadcast_arrays((cx - np.arange(columns)) / fx, (cy - np.arange(rows)[:, None]) / fy)
    if message.distortion_model == "equidistant":
        angle = np.hypot(y, z)
        if angle.max() >= 0.5 * math.pi:
            raise MessageError("its corners look backwards; allowed: less than 90 deg")
        y, z = (side * np.tan(angle) / np.maximum(angle, 1e-12) for side in (y, z))
    rays = np.stack([np.ones_like(y), y, z], axis=2)
    return np.asarray(rays / np.linalg.norm(rays, axis=2, keepdims=True))
