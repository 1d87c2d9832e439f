"""Mesh files, read from memory, so that they cannot name others: by trimesh, COLLADA by us.

A COLLADA file has its unit and its nodes' places; its up axis does not count, as in Gazebo. Faces
with more corners become fans; lines are left out.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element  # the type alone

import numpy as np
from numpy.typing import NDArray

from quadsim.base.elementary import cos, sin
from quadsim.base.errors import InputError
from quadsim.base.files import read_limited
from quadsim.base.parameters import Vec3
from quadsim.base.xml import parse
from quadsim.world.scene.obstacles import Mesh, is_sliver

MAX_MESH_BYTES = 50_000_000
FORMATS = (".stl", ".obj", ".ply", ".dae")

#: Most nodes, one inside another.
MAX_DEPTH = 50
#: Most geometries that the scene may name: nodes may name nodes.
MAX_PARTS = 10_000

Numbers = NDArray[np.float64]


def read_collada(content: bytes, part: str = "") -> Numbers:
    """(T, 3, 3) corners in m.

    Args:
        content: of the file.
        part: the name of the one node or geometry that counts; empty: all.

    Raises:
        ValueError: it is no such file, or nothing in it has that name.
    """
    root = parse(content)
    known = {f"#{element.get('id')}": element for element in root.iter() if element.get("id")}
    unit = root.find("asset/unit")
    meter = float(unit.get("meter", "1")) if unit is not None else 1.0
    found = []
    for geometry, place in _instances(root, known):
        node, name = geometry
        named = (node.get("name"), node.get("id"), name.get("name"), name.get("id"))
        if not part or part in named:
            corners = _triangles(name, known)
            found.append(corners @ place[:3, :3].T + place[:3, 3])
        if len(found) > MAX_PARTS:
            raise ValueError(f"more than {MAX_PARTS} geometries")
    if not found:
        raise ValueError(f"no geometry {part!r}" if part else "no geometry")
    return np.concatenate(found) * meter


def _instances(
    root: Element, known: dict[str, Element]
) -> Iterator[tuple[tuple[Element, Element], Numbers]]:
    """Each node with a geometry of it, and the (4, 4) place of the node; without a scene, all."""
    named = root.find("scene/instance_visual_scene")
    scene = known.get(named.get("url", "")) if named is not None else None
    if scene is None:
        for geometry in root.iter("geometry"):
            yield (geometry, geometry), np.eye(4)
        return
    nodes = [(node, np.eye(4), 0) for node in scene.findall("node")]
    while nodes:
        node, place, depth = nodes.pop()
        if depth > MAX_DEPTH or len(nodes) > MAX_PARTS:
            raise ValueError("too many nodes, one inside another")
        for child in node:
            place = place @ _step(child)
        for child in node:
            other = known.get(child.get("url", ""))
            if child.tag == "node":
                nodes.append((child, place, depth + 1))
            elif child.tag == "instance_node" and other is not None:
                nodes.append((other, place, depth + 1))
            elif child.tag == "instance_geometry" and other is not None:
                yield (node, other), place


def _step(element: Element) -> Numbers:
    """(4, 4) of one transformation of a node."""
    step = np.eye(4)
    if element.tag == "matrix":
        return _numbers(element).reshape(4, 4)
    if element.tag == "translate":
        step[:3, 3] = _numbers(element)
    elif element.tag == "scale":
        step[:3, :3] = np.diag(_numbers(element))
    elif element.tag == "rotate":  # Rodrigues' formula
        x, y, z, angle_deg = _numbers(element)
        axis = np.array([x, y, z]) / (math.sqrt(x * x + y * y + z * z) or 1.0)
        across = np.cross(np.eye(3), -axis)
        angle = math.radians(angle_deg)
        step[:3, :3] += sin(angle) * across + (1.0 - cos(angle)) * (across @ across)
    return step


def _numbers(element: Element) -> Numbers:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return np.fromstring(element.text or "", sep=" ")


def _triangles(geometry: Element, known: dict[str, Element]) -> Numbers:
    """(T, 3, 3) corners of a geometry, in its own unit."""
    found = [np.empty((0, 3, 3))]
    for faces in (
        *geometry.iter("triangles"),
        *geometry.iter("polylist"),
        *geometry.iter("polygons"),
    ):
        inputs = faces.findall("input")
        width = 1 + max(int(one.get("offset", "0")) for one in inputs)
        vertex = next(one for one in inputs if one.get("semantic") == "VERTEX")
        source = known[vertex.get("source", "")].find("input[@semantic='POSITION']")
        assert source is not None
        array, accessor = (
            known[source.get("source", "")].find(path)
            for path in ("float_array", "technique_common/accessor")
        )
        assert array is not None
        assert accessor is not None
        points = _numbers(array).reshape(-1, int(accessor.get("stride", "3")))[:, :3]
        counts = faces.find("vcount")
        lists = [
            _numbers(p).astype(np.int64)[int(vertex.get("offset", "0")) :: width]
            for p in faces.findall("p")
        ]
        if faces.tag == "polygons":
            sizes = np.array([len(one) for one in lists], np.int64)
        elif counts is not None:
            sizes = _numbers(counts).astype(np.int64)
        else:
            sizes = np.full(sum(map(len, lists)) // 3, 3)
        rows = np.concatenate(lists) if lists else np.empty(0, np.int64)
        if np.any(sizes < 0) or sizes.sum() > len(rows) or (len(rows) and rows.min() < 0):
            raise ValueError("faces with other corners than there are")
        first = np.cumsum(sizes) - sizes
        fans = np.maximum(sizes - 2, 0)
        start = np.repeat(first, fans)
        k = np.arange(len(start)) - np.repeat(np.cumsum(fans) - fans, fans)
        found.append(points[rows[np.column_stack([start, start + k + 1, start + k + 2])]])
    return np.concatenate(found)


def load_mesh(path: Path, scale: Vec3 = (1.0, 1.0, 1.0), part: str = "") -> Mesh:
    """Read a mesh file.

    Args:
        path: .stl, .obj, .ply or .dae.
        scale: factor for each axis.
        part: of a .dae: the name of the one node or geometry that counts; empty: all.

    Raises:
        InputError: the file is missing, too large, of another format, or not a mesh.
    """
    if path.suffix.lower() not in FORMATS:
        raise InputError(
            f"{path}: meshes are read from {', '.join(FORMATS)};"
            " convert it, and unpack what is compressed"
        )
    kind = path.suffix.lower()[1:]
    if part and kind != "dae":
        raise InputError(f"{path}: <submesh> {part!r}; allowed: in .dae")
    content = read_limited(path, MAX_MESH_BYTES)
    import trimesh  # takes half a second, which only worlds with meshes shall cost

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.filterwarnings("error", message=".*could not be read to its end.*")
            if kind == "dae":
                return mesh_of(read_collada(content, part) * scale)
            found: Any = trimesh.load_mesh(
                io.BytesIO(content), file_type=kind, process=False, skip_materials=True
            )
            triangles = np.array(found.triangles, dtype=np.float64).reshape(-1, 3, 3) * scale
            return mesh_of(triangles)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except MemoryError:
        raise InputError(f"{path}: too large for the memory of this machine") from None
    except Exception as error:  # whatever a parser makes of a broken file
        reason = " ".join(str(error).split())[:100] or type(error).__name__
        raise InputError(f"{path}: not a readable {path.suffix} mesh ({reason})") from None


def mesh_of(triangles_m: NDArray[np.float64]) -> Mesh:
    """The mesh of (T, 3, 3) triangles, rotated inside out where their normals point inwards.

    Raises:
        InputError: none has an area, or a corner is not finite.
    """
    closed, inside_out = _closed(triangles_m)
    triangles_m = triangles_m[~is_sliver(triangles_m)]
    return Mesh(np.ascontiguousarray(triangles_m[:, ::-1] if inside_out else triangles_m), closed)


def _closed(triangles_m: Any) -> tuple[bool, bool]:
    """Whether triangles enclose a volume, and whether their normals point into it."""
    import trimesh

    count = len(triangles_m)
    if not count or not np.all(np.isfinite(triangles_m)):
        return False, False
    joined: Any = trimesh.Trimesh(
        triangles_m.reshape(-1, 3), np.arange(3 * count).reshape(-1, 3), process=False
    )
    joined.merge_vertices()  # STL repeats each corner in every triangle
    closed = bool(joined.is_watertight and joined.is_winding_consistent and joined.volume != 0.0)
    return closed, closed and bool(joined.volume < 0.0)
