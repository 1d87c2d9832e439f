"""Heightmaps as PNG images, with the meaning that Gazebo gives them.

The image is square with 2^n + 1 pixels a side, its top row the northern border; black is height 0,
the brightest pixel the full height.
"""

from __future__ import annotations

import io
import warnings
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from quadsim.base.errors import InputError
from quadsim.base.files import read_limited
from quadsim.base.parameters import Vec3
from quadsim.world.scene.terrain import MAX_POINTS, Heightmap

MAX_IMAGE_BYTES = 50_000_000
DEPTHS = ("L", "I;16", "I;16B", "I", "LA", "RGB", "RGBA")  # as Pillow names them


def read_heightmap(path: Path, size_m: Vec3, center_W: Vec3) -> Heightmap:
    """Read a terrain from an image.

    Args:
        path: a PNG file.
        size_m: extent east and north, and height of the brightest pixel above black.
        center_W: where the middle of the rectangle is in the world, at the height of black.

    Raises:
        InputError: the file is missing, too large, or no such image.
    """
    content = read_limited(path, MAX_IMAGE_BYTES)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(content), formats=["PNG"]) as image:
                _check(path, image)
                pixels = np.asarray(image, dtype=np.float64)
                if pixels.ndim == 3:  # of colours Gazebo takes the first, red
                    pixels = pixels[..., 0]
    except InputError:
        raise
    except UnidentifiedImageError:
        raise InputError(f"{path}: not a PNG image, which heightmaps must be") from None
    except (Image.DecompressionBombWarning, Image.DecompressionBombError):
        raise InputError(
            f"{path}: the image is too large; allowed: {MAX_POINTS} pixels a side"
        ) from None
    except (OSError, ValueError, SyntaxError) as error:
        raise InputError(f"{path}: not a readable PNG image ({error})") from None
    brightest = pixels.max()
    heights = pixels * (size_m[2] / brightest if brightest > 0.0 else 0.0) + center_W[2]
    return Heightmap(np.flipud(heights), size_m[:2], center_W[:2])


def _check(path: Path, image: Image.Image) -> None:
    """Refuse what Gazebo would not take as a heightmap, before any pixel is unpacked."""
    width, height = image.size
    cells = width - 1
    if width != height or cells < 1 or cells & (cells - 1) or width > MAX_POINTS:
        raise InputError(
            f"{path}: {width} x {height} pixels; allowed: as many each way, 2^n + 1,"
            f" at most {MAX_POINTS}"
        )
    if image.mode not in DEPTHS:
        raise InputError(f"{path}: pixels of kind {image.mode!r}; allowed: grey or colours")
