"""Elevation models as GeoTIFF, written here by GDAL with every convention that may be met."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import rasterio
from heightmap_image import write_heightmap
from rasterio.transform import Affine, from_origin

from quadsim.base.errors import InputError
from quadsim.world.scene.raycast_terrain import terrain_height
from quadsim.world.scene.scene import scene_of
from quadsim.world.scene.terrain import Heightmap
from quadsim.world.scene.terrain_files import read_geotiff, read_heightmap_file

UTM32 = "EPSG:32632"
EAST_M, NORTH_M = 465_000.0, 5_249_000.0  # of the north-west corner
CENTER = (0.0, 0.0, 0.0)


def height_m(east, north):
    """A slope with a bump, so that no flip or turn of it is the same."""
    return 400.0 + 0.1 * east + 0.03 * north + 2.0 * np.exp(-((east - 6) ** 2 + (north - 3) ** 2))


def write(path, values, transform=None, crs=UTM32, tags=None, units="", **profile):
    profile = {"dtype": values.dtype, "count": 1, "transform": transform, "crs": crs} | profile
    rows, columns = values.shape[-2:]
    with rasterio.open(path, "w", driver="GTiff", height=rows, width=columns, **profile) as raster:
        raster.write(values.reshape(profile["count"], rows, columns))
        if units:
            raster.units = [units]
        if tags:
            raster.update_tags(**tags)
    return path


def samples(rows, columns, cell_x, cell_y, dtype="float32"):
    """Heights at the centres of the pixels, first row north, counted from the south-west one."""
    east, north = np.arange(columns) * cell_x, (rows - 1 - np.arange(rows)) * cell_y
    return height_m(*np.meshgrid(east, north)).astype(dtype)


def check(terrain, cell_x=2.0, cell_y=1.5, rows=7, columns=9, center=CENTER, tolerance=3e-5):
    """Heights of the world at the pixels' centres; float32 of 400 m is good to 2e-5."""
    width, depth = (columns - 1) * cell_x, (rows - 1) * cell_y
    assert terrain.size_m == pytest.approx((width, depth))
    assert terrain.center_W_m == center[:2]
    scene = scene_of((), terrain)
    for i in range(columns):
        for j in range(rows):
            east, north = i * cell_x, j * cell_y
            x, y = center[0] - 0.5 * width + east, center[1] - 0.5 * depth + north
            inside = np.array([x, y]) + 1e-9 * (np.array(center[:2]) - [x, y])
            found = terrain_height(scene.terrain, -999.0, *inside)
            assert found == pytest.approx(height_m(east, north) + center[2], abs=tolerance)


NORTH_UP = from_origin(EAST_M, NORTH_M, 2.0, 1.5)


def test_heights_are_those_of_the_pixels_centres(tmp_path):
    path = write(tmp_path / "a.tif", samples(7, 9, 2.0, 1.5), NORTH_UP)
    check(read_geotiff(path, CENTER))
    check(read_heightmap_file(path, None, (50.0, -20.0, -400.0)), center=(50.0, -20.0, -400.0))


def test_points_instead_of_areas_change_nothing(tmp_path):
    """GDAL moves the corner by half a pixel; the middle of the file lies where it is told."""
    path = write(
        tmp_path / "a.tiff", samples(7, 9, 2.0, 1.5), NORTH_UP, tags={"AREA_OR_POINT": "Point"}
    )
    check(read_geotiff(path, CENTER))


def test_rows_that_go_north_and_columns_that_go_west(tmp_path):
    values = samples(7, 9, 2.0, 1.5)
    southern = Affine(2.0, 0.0, EAST_M, 0.0, 1.5, NORTH_M)
    check(read_geotiff(write(tmp_path / "s.tif", values[::-1], southern), CENTER))
    western = Affine(-2.0, 0.0, EAST_M, 0.0, -1.5, NORTH_M)
    check(read_geotiff(write(tmp_path / "w.tif", values[:, ::-1], western), CENTER))


def test_tiles_compression_and_whole_numbers(tmp_path):
    values = samples(64, 48, 2.0, 1.5, "float64")
    path = write(
        tmp_path / "t.tif",
        values,
        NORTH_UP,
        tiled=True,
        blockxsize=16,
        blockysize=16,
        compress="deflate",
        predictor=3,
        nodata=-9999.0,
    )
    check(read_geotiff(path, CENTER), rows=64, columns=48, tolerance=1e-7)
    decimetres = np.round(10.0 * samples(7, 9, 2.0, 1.5)).astype("int16")
    path = write(tmp_path / "i.tif", decimetres, NORTH_UP)
    with rasterio.open(path, "r+") as raster:
        raster.scales, raster.offsets = [0.1], [-5.0]
    check(read_geotiff(path, (0.0, 0.0, 5.0)), center=(0.0, 0.0, 5.0), tolerance=5.05)
    heights = read_geotiff(path, CENTER).heights_m
    assert heights == pytest.approx(0.1 * np.flipud(decimetres) - 5.0, abs=1e-9)


def test_a_grid_in_feet(tmp_path):
    """EPSG:2263, New York: US survey feet of 1200/3937 m."""
    foot = 1200.0 / 3937.0
    values = samples(7, 9, 2.0, 1.5)
    grid = from_origin(1_000_000.0, 200_000.0, 2.0 / foot, 1.5 / foot)
    check(read_geotiff(write(tmp_path / "f.tif", values, grid, "EPSG:2263"), CENTER))


@pytest.mark.parametrize("marker", [-9999.0, np.nan])
def test_holes_are_counted_and_named(tmp_path, marker):
    values = samples(7, 9, 2.0, 1.5)
    values[3, 4] = values[5, 1] = marker
    path = write(tmp_path / "a.tif", values, NORTH_UP, nodata=-9999.0)
    with pytest.raises(InputError) as error:
        read_geotiff(path, CENTER)
    text = str(error.value)
    assert "2 of 63 heights are missing" in text
    assert "row 3, column 4 (east 465009.0, north 5248994.8)" in text  # 4.5 and 3.5 pixels in
    assert "\n" not in text


def test_a_mask_makes_holes_too(tmp_path):
    path = write(tmp_path / "a.tif", samples(7, 9, 2.0, 1.5), NORTH_UP)
    mask = np.full((7, 9), 255, np.uint8)
    mask[0, 8] = 0
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True), rasterio.open(path, "r+") as raster:
        raster.write_mask(mask)
    with pytest.raises(InputError, match="1 of 63 heights are missing, the first in row 0, column"):
        read_geotiff(path, CENTER)


@pytest.mark.filterwarnings("ignore:Dataset has no geotransform")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"crs": "EPSG:4326"}, "coordinates are degrees"),
        ({"crs": None}, "no coordinate system"),
        ({"crs": None, "transform": None}, "no coordinate system"),
        ({"transform": Affine(2.0, 0.1, EAST_M, 0.1, -1.5, NORTH_M)}, "rotated"),
        ({"units": "ft"}, "heights in 'ft'"),
        ({"values": np.zeros((3, 7, 9), "float32"), "count": 3}, "3 bands"),
        ({"values": np.zeros((7, 9), "complex64")}, "complex"),
        ({"values": np.zeros((1, 9), "float32")}, "9 x 1 pixels"),
        ({"values": np.zeros((4098, 2), "uint8")}, "2 x 4098 pixels"),
    ],
)
def test_what_is_no_model_of_heights_is_refused(tmp_path, change, words):
    given = {"values": samples(7, 9, 2.0, 1.5), "transform": NORTH_UP, "crs": UTM32} | change
    path = write(tmp_path / "a.tif", **given)
    with pytest.raises(InputError, match=words) as error:
        read_geotiff(path, CENTER)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_broken_files_and_other_kinds_are_refused(tmp_path):
    whole = write(tmp_path / "a.tif", samples(7, 9, 2.0, 1.5), NORTH_UP).read_bytes()
    path = tmp_path / "b.tif"
    for content in (b"", b"II*\0", whole[:90], whole[: len(whole) // 2], b"<VRTDataset/>"):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"b\.tif"):
            read_geotiff(path, CENTER)
    virtual = tmp_path / "v.tif"  # another format under this name may point at other files
    virtual.write_text(
        '<VRTDataset rasterXSize="9" rasterYSize="7"><VRTRasterBand dataType="Float32" band="1">'
        f"<SimpleSource><SourceFilename>{tmp_path}/a.tif</SourceFilename></SimpleSource>"
        "</VRTRasterBand></VRTDataset>"
    )
    with pytest.raises(InputError, match="not a readable GeoTIFF"):
        read_geotiff(virtual, CENTER)
    with pytest.raises(InputError, match="no such file"):
        read_geotiff(tmp_path / "none.tif", CENTER)


def test_the_ending_says_what_a_file_is(tmp_path):
    picture = tmp_path / "a.png"
    hills = Heightmap(np.random.default_rng(1).uniform(0.0, 9.0, (9, 9)), (16.0, 16.0))
    size, pos = write_heightmap(hills, picture)
    read = read_heightmap_file(picture, size, pos)
    assert read.heights_m == pytest.approx(hills.heights_m, abs=9.0 / 65535)
    with pytest.raises(InputError, match="size"):
        read_heightmap_file(picture, None, CENTER)
    model = write(tmp_path / "a.tif", samples(7, 9, 2.0, 1.5), NORTH_UP)
    with pytest.raises(InputError, match="size"):
        read_heightmap_file(model, (1.0, 1.0, 1.0), CENTER)
    with pytest.raises(InputError, match=r"\.png, \.tif and \.tiff"):
        read_heightmap_file(tmp_path / "a.asc", None, CENTER)


def test_without_rasterio_it_says_what_to_install(tmp_path, monkeypatch):
    path = write(tmp_path / "a.tif", samples(7, 9, 2.0, 1.5), NORTH_UP)
    monkeypatch.setitem(sys.modules, "rasterio", None)
    with pytest.raises(InputError, match=r"pip install 'quadsim\[terrain\]'"):
        read_geotiff(path, CENTER)
