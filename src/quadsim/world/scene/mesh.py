"""Mesh files, read from memory, so that they cannot name others: by trimesh, COLLADA by us."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.errors import InputError
from quadsim.base.files import read_limited
from quadsim.base.parameters import Vec3
from quadsim.world.scene.mesh_collada import read_collada
from quadsim.world.scene.obstacles import Mesh, is_sliver

MAX_MESH_BYTES = 50_000_000
FORMATS = (".stl", ".obj", ".ply", ".dae")


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
