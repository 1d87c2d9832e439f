"""Files that nobody vouches for: refused quickly, with one line, and without reading others."""

from __future__ import annotations

import contextlib
import io
import os
import struct
import time
import zlib

import numpy as np
import pytest
import trimesh
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from quadsim.base.errors import InputError
from quadsim.world.scene.mesh import load_mesh
from quadsim.world.scene.terrain_files import read_heightmap
from quadsim.world.sdf import world_file
from quadsim.world.sdf.world_file import load_world

SIZE, CENTER = (10.0, 10.0, 5.0), (0.0, 0.0, 0.0)
SECRET = "do-not-read-me"


@pytest.fixture
def folder(tmp_path):
    """A world's folder, with a file beside it that no world may reach."""
    (tmp_path / "secret.stl").write_text(f"solid {SECRET}\nendsolid\n")
    (tmp_path / "secret.txt").write_text(SECRET)
    inside = tmp_path / "inside"
    inside.mkdir()
    return inside


@pytest.fixture
def refusal(folder):
    """The line with which a file's content is refused as a world."""

    def message(text):
        path = folder / "w.sdf"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        started = time.monotonic()
        with pytest.raises(InputError) as error:
            load_world(path)
        assert time.monotonic() - started < 20.0  # a bomb would take hours, or all memory
        found = str(error.value)
        assert "\n" not in found
        assert SECRET not in found
        assert str(folder) in found
        return found

    return message


def with_mesh(uri):
    return (
        "<sdf version='1.9'><world name='w'><model name='m'><link name='l'><collision name='c'>"
        f"<geometry><mesh><uri>{uri}</uri></mesh></geometry>"
        "</collision></link></model></world></sdf>"
    )


def test_billion_laughs(refusal):
    entities = "".join(
        f"<!ENTITY l{k} '{f'&l{k - 1};' * 10}'>" if k else "<!ENTITY l0 'ha'>" for k in range(10)
    )
    bomb = f"<!DOCTYPE sdf [{entities}]><sdf version='1.9'><world name='&l9;'/></sdf>"
    assert "entities" in refusal(f"<?xml version='1.0'?>{bomb}")


def test_external_entity(refusal, folder):
    reach = f"<!ENTITY x SYSTEM 'file://{folder.parent / 'secret.txt'}'>"
    text = f"<!DOCTYPE sdf [{reach}]><sdf version='1.9'><world name='w'>&x;</world></sdf>"
    assert "entities" in refusal(text)


def test_any_document_type(refusal):
    assert "document type" in refusal("<!DOCTYPE sdf><sdf version='1.9'><world name='w'/></sdf>")
    remote = "<!DOCTYPE sdf SYSTEM 'http://example.com/sdf.dtd'><sdf version='1.9'/>"
    assert "document type" in refusal(remote)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<sdf version='1.9'><world name='w'>",
        "no xml at all",
        b"\x00\x01\x02",
        b"\xff\xfe<\x00s\x00d",
        "<sdf version='1.9'><world name='w'></sdf></world>",
        "<sdf version='1.9'><world name=w/></sdf>",
        "<sdf version='1.9'><!-- <world name='w'/></sdf>",
        "<sdf version='1.9'><![CDATA[<world name='w'/></sdf>",
        "<" * 100_000,
        "<sdf" + " " * 1_000_000,
        "<sdf " + "a='' " * 200_000,
    ],
)
def test_broken_xml(refusal, text):
    assert "not valid XML" in refusal(text)


def test_deep_xml(refusal):
    deep = "<model name='m'>" * 100_000 + "</model>" * 100_000
    assert "500 elements" in refusal(f"<sdf version='1.9'><world name='w'>{deep}</world></sdf>")
    nested = "<model name='m'>" * 100 + "</model>" * 100
    assert "20 models" in refusal(f"<sdf version='1.9'><world name='w'>{nested}</world></sdf>")


def test_frames_that_stand_on_ever_more(refusal):
    chain = "".join(f"<frame name='f{k}' attached_to='f{k + 1}'/>" for k in range(5000))
    assert "100 frames" in refusal(f"<sdf version='1.9'><world name='w'>{chain}</world></sdf>")
    inside = "a::" * 100_000 + "a"
    world = f"<frame name='f' attached_to='{inside}'/><model name='a'><model name='a'/></model>"
    assert "is not known" in refusal(f"<sdf version='1.9'><world name='w'>{world}</world></sdf>")


def test_a_large_file_is_not_read(refusal, folder):
    path = folder / "w.sdf"
    with path.open("wb") as file:
        file.truncate(10_000_001)  # sparse
    with pytest.raises(InputError, match="too large; allowed: 10 MB"):
        load_world(path)


def test_a_missing_world_and_a_folder(folder):
    with pytest.raises(InputError, match="no such file"):
        load_world(folder / "none.sdf")
    with pytest.raises(InputError, match="no such file"):
        load_world(folder)


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("../secret.stl", "leads out of the world's folder"),
        ("models/../../secret.stl", "no such file"),
        ("model://../secret.stl", "GZ_SIM_RESOURCE_PATH"),
        ("model://ball/../../secret.stl", "no such file"),
        ("{parent}/secret.stl", "leads out of the world's folder"),
        ("model://{parent}/secret.stl", "no such file"),
        ("model://", "names no file"),
        (".", "names no file"),
        ("..", "names no file"),
        ("file://{parent}/secret.stl", "leads out of the world's folder"),
        ("http://example.com/a.stl", "nothing is downloaded"),
        ("https://fuel.gazebosim.org/1.0/x/models/y", "models/NAME"),
        ("https://fuel.gazebosim.org/1.0/../models/../secret.stl", "nothing is downloaded"),
        ("C:/secret.stl", "no such file"),
        ("link.stl", "leads out of the world's folder"),
        ("linked/secret.stl", "leads out of the world's folder"),
        ("none.stl", "no such file"),
        ("x" * 5000, "no such file"),
        ("rock.stl.gz", "compressed"),
        ("rock.zip", "unpack"),
        ("rock.zae", "compressed"),
        ("rock.3mf", "compressed"),
        ("rock.dae", "not a readable .dae mesh"),
        ("rock.glb", ".stl, .obj, .ply"),
        ("sub.stl", "no such file"),
    ],
)
def test_files_that_may_not_be_read(refusal, folder, uri, words):
    (folder / "link.stl").symlink_to(folder.parent / "secret.stl")
    (folder / "linked").symlink_to(folder.parent)
    (folder / "sub.stl").mkdir()
    for name in ("rock.dae", "rock.glb"):
        (folder / name).write_text("x")
    message = refusal(with_mesh(uri.format(parent=folder.parent)))
    assert words in message
    assert "collision 'c'" in message


def test_a_file_that_never_ends(refusal, folder):
    os.mkfifo(folder / "pipe.stl")
    assert "no such file" in refusal(with_mesh("pipe.stl"))


def model_file(folder, name, content):
    path = folder / "models" / name
    path.mkdir(parents=True)
    (path / "model.sdf").write_text(
        f"<sdf version='1.9'><model name='{name}'>{content}</model></sdf>"
    )


def included(name, count=1):
    return f"<include><uri>model://{name}</uri></include>" * count


def test_models_that_include_themselves(refusal, folder):
    model_file(folder, "a", included("b"))
    model_file(folder, "b", included("a"))
    message = refusal(f"<sdf version='1.9'><world name='w'>{included('a')}</world></sdf>")
    assert "20 models, one inside another" in message
    assert len(message) < 3000


def test_models_that_include_ever_more(refusal, folder, monkeypatch):
    """10 levels of 100 would be 10^20 models."""
    monkeypatch.setattr(world_file, "MAX_ITEMS", 1000)
    model_file(folder, "m0", "")
    for level in range(1, 10):
        model_file(folder, f"m{level}", included(f"m{level - 1}", 100))
    text = f"<sdf version='1.9'><world name='w'>{included('m9')}</world></sdf>"
    assert "1000 models and collisions" in refusal(text)


def test_an_included_file_without_a_model(refusal, folder):
    (folder / "models" / "a").mkdir(parents=True)
    (folder / "models" / "a" / "model.sdf").write_text("<sdf version='1.9'/>")
    text = f"<sdf version='1.9'><world name='w'>{included('a')}</world></sdf>"
    assert "there is no <model>" in refusal(text)


def refused_mesh(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError) as error:
        load_mesh(path)
    message = str(error.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    return message


PLY = "ply\nformat {}\nelement vertex {}\n{}element face {}\n{}end_header\n"
XYZ = "property float x\nproperty float y\nproperty float z\n"
CORNERS = "property list {} int vertex_indices\n"


BROKEN_MESHES = [
    ("a.stl", ""),
    ("a.stl", "solid a\nfacet normal 0 0 1\nouter loop\nvertex 1 2\nendloop\nendsolid"),
    ("a.stl", "solid a\nvertex 1 x 3\nvertex 1 2 3\nvertex 0 0 1\nendsolid a"),
    ("a.stl", "endsolid solid"),
    ("a.stl", b"\0" * 80 + struct.pack("<I", 4_000_000_000) + b"\0" * 50),
    ("a.stl", b"\0" * 80 + struct.pack("<I", 0)),
    ("a.stl", b"\0" * 80 + struct.pack("<I", 1) + struct.pack("<12fH", *12 * [np.nan], 0)),
    ("a.stl", b"\0" * 80 + struct.pack("<I", 1) + struct.pack("<12fH", *12 * [0.0], 0)),
    ("a.obj", "v 0 0 0\nv 1 0 0\n"),
    ("a.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 9\n"),
    ("a.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2\n"),
    ("a.obj", "v a b c\nf 1 1 1\n"),
    ("a.obj", "\xff\xfe\x00" * 100),
    ("a.ply", "ply\n"),
    ("a.ply", "no"),
    ("a.ply", PLY.format("ascii 1.0", 10**12, XYZ, 10**12, CORNERS.format("uchar"))),
    ("a.ply", PLY.format("binary_little_endian 1.0", 10**12, XYZ, 1, CORNERS.format("uchar"))),
    (
        "a.ply",
        PLY.format("binary_little_endian 1.0", 1, XYZ, 10**9, CORNERS.format("uint")).encode()
        + b"\xff" * 40,
    ),
    ("a.ply", PLY.format("ascii 1.0", 3, XYZ, 0, "") + "0 0 0\n1 0 0\n0 1 0\n"),
]


@pytest.mark.parametrize(("name", "content"), BROKEN_MESHES, ids=range(len(BROKEN_MESHES)))
def test_broken_meshes(tmp_path, name, content):
    refused_mesh(tmp_path / name, content)


def test_a_huge_mesh(tmp_path):
    path = tmp_path / "huge.stl"
    with path.open("wb") as file:
        file.truncate(50_000_001)  # sparse
    with pytest.raises(InputError, match="too large; allowed: 50 MB"):
        load_mesh(path)


def test_a_mesh_reads_no_other_file(tmp_path):
    os.mkfifo(tmp_path / "never.mtl")  # whoever opens it waits for ever
    path = tmp_path / "a.obj"
    path.write_text("mtllib never.mtl\nv 0 0 0\nv 1 0 0\nv 0 1 0\nusemtl x\nf 1 2 3\n")
    assert load_mesh(path).triangles_m.shape == (1, 3, 3)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_mesh_is_read_or_refused(tmp_path, data):
    ending = data.draw(st.sampled_from(["stl", "obj", "ply"]))
    whole = trimesh.creation.box().export(file_type=ending)
    content = bytearray(whole.encode() if isinstance(whole, str) else whole)
    for _ in range(data.draw(st.integers(1, 8))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / f"a.{ending}"
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    with contextlib.suppress(InputError):
        assert np.all(np.isfinite(load_mesh(path).triangles_m))


def chunk(kind, content):
    return (
        struct.pack(">I", len(content))
        + kind
        + content
        + struct.pack(">I", zlib.crc32(kind + content))
    )


def png(width, height, content, depth=8, colour=0):
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    data = zlib.compress(content, 9)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        [chunk(b"IHDR", header), chunk(b"IDAT", data), chunk(b"IEND", b"")]
    )


#: Rows of 17 grey pixels, each begun by a zero, which do not compress.
NOISE = np.pad(
    np.random.default_rng(8).integers(0, 256, (17, 17), np.uint8), [(0, 0), (1, 0)]
).tobytes()


def saved(image, kind):
    stream = io.BytesIO()
    image.save(stream, kind)
    return stream.getvalue()


NO_HEIGHTMAPS = [
    (png(60_000, 60_000, b"\0" * 1000), "4097"),  # 3.6 GB once unpacked
    (png(8193, 8193, b"\0" * 1000), "8193 x 8193 pixels"),
    (png(17, 33, b"\0" * 18 * 33), "as many each way"),
    (png(16, 16, b"\0" * 17 * 16), "2^n + 1"),
    (png(1, 1, b"\0\0"), "2^n + 1"),
    (png(17, 17, b"\0" * 20), "not a readable PNG"),
    (png(17, 17, NOISE)[:120], "not a readable PNG"),
    (png(3, 3, b"\0" * 12, colour=3), "grey or colours"),
    (saved(Image.new("L", (17, 17)), "JPEG"), "not a PNG"),
    (saved(Image.new("L", (17, 17)), "TIFF"), "not a PNG"),
    (b"", "not a PNG"),
    (b"PK\x03\x04" + b"\0" * 100, "not a PNG"),
]


@pytest.mark.parametrize(("content", "words"), NO_HEIGHTMAPS, ids=range(len(NO_HEIGHTMAPS)))
def test_images_that_are_no_heightmap(tmp_path, content, words):
    path = tmp_path / "h.png"
    path.write_bytes(content)
    with pytest.raises(InputError) as error:
        read_heightmap(path, SIZE, CENTER)
    assert words in str(error.value)
    assert str(error.value).startswith(str(path))


def test_a_compressed_text_in_an_image_is_not_unpacked(tmp_path):
    """50 MB of text in 50 kB."""
    text = b"Comment\0\0" + zlib.compress(b"a" * 50_000_000, 9)
    whole = png(17, 17, b"\0" * 18 * 17)
    path = tmp_path / "h.png"
    path.write_bytes(whole[:33] + chunk(b"zTXt", text) + whole[33:])
    with pytest.raises(InputError, match="not a readable PNG"):
        read_heightmap(path, SIZE, CENTER)


def test_a_heightmap_without_size_or_file(refusal, folder):
    (folder / "h.png").write_bytes(png(17, 17, b"\0" * 18 * 17))
    ground = (
        "<model name='m'>{}<link name='l'><collision name='c'><geometry><heightmap>"
        "<uri>h.png</uri><size>{}</size></heightmap></geometry></collision></link></model>"
    )
    world = "<sdf version='1.9'><world name='w'>{}</world></sdf>"
    assert "<size>" in refusal(world.format(ground.format("", "1 1 -1")))
    assert "<uri> is missing" in refusal(
        world.format(ground.format("", "1 1 1").replace("<uri>h.png</uri>", ""))
    )
