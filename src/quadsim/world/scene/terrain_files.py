"""Files of heights: PNG images as Gazebo takes them, GeoTIFF elevation models by rasterio (GDAL).

An image is square with 2^n + 1 pixels a side, its top row the northern border; black is height 0,
the brightest pixel the full height. Rasterio is loaded where a file is read: it takes a while,
which only such worlds shall cost. Files are read from memory, so that they cannot name others.
"""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from quadsim.base.errors import InputError
from quadsim.base.extras import need
from quadsim.base.files import read_limited
from quadsim.base.parameters import Vec3
from quadsim.world.scene.terrain import MAX_POINTS, Heightmap

#: 4097 x 4097 heights of 8 bytes, and what belongs to them.
MAX_GEOTIFF_BYTES = 150_000_000

#: What files write for metres; nothing stated means metres too.
METRES = ("", "m", "metre", "metres", "meter", "meters")

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


def read_geotiff(path: Path, center_W: Vec3) -> Heightmap:
    """Read a terrain from an elevation model in a projected coordinate system.

    Heights are those of the pixels' centres. Its east and north are taken as those of the world
    (a grid rotated by its meridian's convergence stays so), and lengths on its grid as those on the
    ground.

    Args:
        path: a GeoTIFF of one band.
        center_W: where the middle of the rectangle is in the world, at the file's height 0.

    Raises:
        InputError: the file is missing, too large, no such model, or has holes.
    """
    content = read_limited(path, MAX_GEOTIFF_BYTES)
    if not content:
        raise InputError(f"{path}: not a readable GeoTIFF (it is empty)")
    rasterio = need("rasterio", path)
    try:
        with warnings.catch_warnings(), rasterio.Env(GDAL_NUM_THREADS="1"):
            warnings.simplefilter("ignore")  # of a file without coordinates, which is refused
            with rasterio.MemoryFile(content) as memory, memory.open(driver="GTiff") as raster:
                cell_m = _cell_size_m(path, raster)
                heights = _heights_m(path, raster)
    except rasterio.errors.RasterioError as error:
        reason = " ".join(str(error).split())[:100]
        raise InputError(f"{path}: not a readable GeoTIFF ({reason})") from None
    rows, columns = heights.shape
    size_m = ((columns - 1) * abs(cell_m[0]), (rows - 1) * abs(cell_m[1]))
    if cell_m[0] < 0.0:
        heights = np.fliplr(heights)
    if cell_m[1] < 0.0:  # the first row is the northern border, as usual
        heights = np.flipud(heights)
    return Heightmap(np.ascontiguousarray(heights + center_W[2]), size_m, center_W[:2])


def _cell_size_m(path: Path, raster: Any) -> tuple[float, float]:
    """Step to the next column and to the next row, east and north, in m."""
    rows, columns = raster.height, raster.width
    if min(rows, columns) < 2 or max(rows, columns) > MAX_POINTS:
        raise InputError(
            f"{path}: {columns} x {rows} pixels; allowed: 2 to {MAX_POINTS} each way"
            " (gdalwarp -tr makes a coarser one, -te a part)"
        )
    if raster.count != 1:
        raise InputError(f"{path}: {raster.count} bands; allowed: one, of heights")
    if raster.crs is None or raster.transform.is_identity:
        raise InputError(
            f"{path}: it has no coordinate system; allowed: a projected one, in metres"
            " (gdal_translate -a_srs EPSG:326xx -a_ullr west north east south)"
        )
    if not raster.crs.is_projected:
        raise InputError(
            f"{path}: its coordinates are degrees ({raster.crs}); allowed: a projected system, in"
            " metres (gdalwarp -t_srs EPSG:326xx)"
        )
    transform = raster.transform
    if transform.b != 0.0 or transform.d != 0.0:
        raise InputError(f"{path}: its grid is rotated; allowed: rows to the east (gdalwarp)")
    metres = float(raster.crs.linear_units_factor[1])
    return transform.a * metres, transform.e * metres


def _heights_m(path: Path, raster: Any) -> NDArray[np.float64]:
    """Heights as the file has its rows and columns."""
    unit = (raster.units[0] or "").strip().lower()
    if unit not in METRES:
        raise InputError(f"{path}: heights in {unit!r}; allowed: metres")
    if np.issubdtype(np.dtype(raster.dtypes[0]), np.complexfloating):
        raise InputError(f"{path}: complex numbers; allowed: heights")
    values = raster.read(1, masked=True)
    scale, offset = float(raster.scales[0]), float(raster.offsets[0])
    heights: NDArray[np.float64] = values.data.astype(np.float64) * scale + offset
    holes = np.broadcast_to(values.mask, heights.shape) | ~np.isfinite(heights)
    if holes.any():
        row, column = np.argwhere(holes)[0]
        east, north = raster.xy(row, column)
        raise InputError(
            f"{path}: {np.count_nonzero(holes)} of {holes.size} heights are missing, the first in"
            f" row {row}, column {column} (east {east:.1f}, north {north:.1f});"
            " allowed: none (gdal_fillnodata fills holes)"
        )
    return heights


def read_heightmap_file(path: Path, size_m: Vec3 | None, center_W: Vec3) -> Heightmap:
    """Read a terrain from an image or an elevation model, by the path's ending.

    Args:
        path: .png, or .tif or .tiff.
        size_m: what an image stands for: extent east and north, and height of the brightest pixel
            above black; None for an elevation model, which reports it itself.
        center_W: where the middle of the rectangle is in the world, at the height of black, or at
            the model's height 0.

    Raises:
        InputError: of another ending, with a size too many or too few, or not readable.
    """
    kind = path.suffix.lower()
    if kind == ".png":
        if size_m is None:
            raise InputError(f"{path}: an image has no size of its own; give it")
        return read_heightmap(path, size_m, center_W)
    if kind not in (".tif", ".tiff"):
        raise InputError(f"{path}: heightmaps are read from .png, .tif and .tiff")
    if size_m is not None:
        raise InputError(f"{path}: a size of {size_m}; an elevation model has its own, give none")
    return read_geotiff(path, center_W)
