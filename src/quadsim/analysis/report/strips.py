"""What a depth camera of a bag saw: a few frames beside each other, as a picture in the page."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from plotly.colors import get_colorscale, sample_colorscale, unlabel_rgb

from quadsim.bag.contents import Bag
from quadsim.bag.reading import open_bag
from quadsim.wire.standard import IMAGE

#: Frames of a strip, their largest width, and the gap between two, in pixels.
FRAMES, WIDE, GAP = 8, 150, 4
#: Kind of the numbers of an image, by its encoding; depths are in m or in mm.
KINDS = {"32FC1": "f4", "16UC1": "u2", "mono16": "u2"}
#: Where nothing came back.
NOTHING = (222, 222, 222)
Pixels = NDArray[Any]
_SCALE = np.array(
    [
        unlabel_rgb(colour)
        for colour in sample_colorscale(get_colorscale("Viridis"), np.linspace(0.0, 1.0, 256))
    ]
).astype(np.uint8)


@dataclass(frozen=True)
class Strip:
    """Frames of one topic.

    Attributes:
        title: its name.
        note: times, and what the colours mean.
        address: of the picture, as data.
    """

    title: str
    note: str
    address: str


def strips_of(path: str | None) -> list[Strip]:
    """Strips of all images that a bag holds; none without a bag.

    Raises:
        InputError: the bag cannot be read.
    """
    if path is None:
        return []
    with open_bag(path) as bag:
        topics = [name for name, kind in sorted(bag.types.items()) if kind == IMAGE]
        return [strip for topic in topics if (strip := _strip(bag, topic)) is not None]


def _strip(bag: Bag, topic: str) -> Strip | None:
    """The strip of a topic; None where its images are of no kind that is known."""
    found = list(_frames(bag, topic))
    if not found:
        return None
    begin_ns = found[0][0]
    times = ", ".join(f"{(stamp_ns - begin_ns) * 1e-9:.1f}" for stamp_ns, _, _ in found)
    thin = [pixels[:: _step(pixels), :: _step(pixels)] for _, _, pixels in found]
    if found[0][1] == "mono16":
        colours, words = [_by_id(pixels) for pixels in thin], "one colour each thing"
    else:
        scale = 1e-3 if found[0][1] == "16UC1" else 1.0
        metres = [scale * np.where(pixels > 0, pixels, np.nan).astype(float) for pixels in thin]
        seen = np.concatenate([pixels[np.isfinite(pixels)] for pixels in metres])
        far_m = float(np.quantile(seen, 0.98)) if len(seen) else 1.0
        colours = [_by_depth(pixels, far_m) for pixels in metres]
        words = f"dark near, bright from {far_m:.1f} m on, grey: nothing came back"
    gap = np.full((len(colours[0]), GAP, 3), 255, np.uint8)
    side = [part for colour in colours for part in (colour, gap)][:-1]
    address = "data:image/png;base64," + b64encode(png(np.concatenate(side, axis=1))).decode()
    return Strip(topic, f"After {times} s; {words}.", address)


def _frames(bag: Bag, topic: str) -> Iterator[tuple[int, str, Pixels]]:
    """Log time, encoding and pixels of a few images, evenly over the bag."""
    first = next(iter(bag.messages([topic])), None)
    shape = None
    for k in range(FRAMES if first is not None else 0):
        start_ns = first.log_ns + round(k * bag.duration_s * 1e9 / FRAMES)  # type: ignore[union-attr]
        message = next(iter(bag.messages([topic], start_ns)), None)
        if message is None:
            return
        image: Any = bag.deserialize(message)
        kind = KINDS.get(image.encoding)
        if kind is None or (shape is not None and shape != (image.height, image.width)):
            return
        shape = (image.height, image.width)
        order = ">" if image.is_bigendian else "<"
        strides = (image.step, int(kind[1]))
        pixels: Pixels = np.ndarray(shape, order + kind, bytes(image.data), strides=strides)
        yield message.log_ns, image.encoding, pixels


def _step(pixels: Pixels) -> int:
    return -(-pixels.shape[1] // WIDE)


def _by_depth(metres: Pixels, far_m: float) -> Pixels:
    shares = np.clip(np.nan_to_num(metres / far_m, posinf=1.0), 0.0, 1.0)
    colours = _SCALE[(255.0 * shares).astype(np.uint8)]
    colours[~np.isfinite(metres)] = NOTHING
    return np.asarray(colours)


def _by_id(ids: Pixels) -> Pixels:
    """Colours far apart for ids that are near each other; 0 is nothing."""
    colours = _SCALE[(ids.astype(np.uint64) * 97 % 256).astype(np.uint8)]
    colours[ids == 0] = NOTHING
    return np.asarray(colours)


def png(rgb: Pixels) -> bytes:
    """A PNG of (H, W, 3) bytes (ISO/IEC 15948: colour type 2, no filter)."""
    height, width, _ = rgb.shape

    def chunk(name: bytes, content: bytes) -> bytes:
        body = name + content
        return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))

    rows = np.concatenate([np.zeros((height, 1), np.uint8), rgb.reshape(height, -1)], axis=1)
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows.tobytes()))
        + chunk(b"IEND", b"")
    )  # fmt: skip
