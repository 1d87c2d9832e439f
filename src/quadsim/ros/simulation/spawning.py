"""Services of simulation_interfaces by which obstacles are spawned: SDF models of solids."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

from quadsim.base.errors import InputError, shown
from quadsim.base.files import share_dir
from quadsim.ros.simulation.entity_services import FARTHEST_M, pose_in_world
from quadsim.ros.simulation.interfaces import Interfaces, RefusedError
from quadsim.ros.simulation.spawned import SimulatedWorld, Spawned
from quadsim.world.entities import Drift, Entity, box_around
from quadsim.world.scene.obstacle_markers import MOST_SHAPES
from quadsim.world.scene.obstacles import Mesh, Plane
from quadsim.world.sdf.files import MissingFileError, read_sdf, sdf_root
from quadsim.world.sdf.world_file import Model, read_model

#: What a model is spawned from, as SimulatorFeatures names it.
FORMATS = ("sdf",)
#: Names of entities; a namespace stands before the name, with a slash.
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
NAMESPACE = re.compile(r"/?([A-Za-z_][A-Za-z0-9_]*/?)+")
LONGEST_NAME = 60
#: Largest SDF in a request, in characters, and triangles of all that is spawned.
LONGEST_SDF, MOST_TRIANGLES = 200_000, 20_000
#: Models of the folder ``worlds/models``.
MODEL_URI = re.compile(r"model://([A-Za-z0-9_.-]+)/?")
FILE_URI = re.compile(r"file://(/.*\.sdf)")
LONGEST_URI = 4096


def model_folder() -> Path:
    """Where the shipped models are."""
    return share_dir() / "worlds" / "models"


def _file_of(uri: str) -> Path:
    """The SDF file that a uri names."""
    known = MODEL_URI.fullmatch(uri)
    if known and known[1].strip("."):
        return model_folder() / known[1] / "model.sdf"
    file = FILE_URI.fullmatch(unquote(uri)) if len(uri) < LONGEST_URI else None
    if file and file[1].isprintable():
        return Path(file[1])
    raise RefusedError(
        "UNSUPPORTED_FORMAT", f"uri {shown(uri)}; allowed: model://NAME, file:///PATH.sdf"
    )


def _is_there(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # the name is too long, or none
        return False


def model_of(resource: Any) -> Model:
    """The model of a Resource, or of a request that has its fields.

    Raises:
        RefusedError: with the code that SpawnEntity has for it.
    """
    uri, text = resource.uri, resource.resource_string
    if not uri and not text.strip():
        raise RefusedError("NO_RESOURCE", "uri and resource_string are empty")
    if not uri and len(text) > LONGEST_SDF:
        words = f"resource_string: {len(text)} characters; allowed: {LONGEST_SDF}"
        raise RefusedError("RESOURCE_PARSE_ERROR", words)
    # what a text names lies where the world files are
    path = _file_of(uri) if uri else share_dir() / "worlds" / "resource_string"
    if not uri and not re.search(r"<\s*sdf\b", text):
        raise RefusedError("UNSUPPORTED_FORMAT", "resource_string; allowed: <sdf> with a <model>")
    if uri and not _is_there(path):
        raise RefusedError("MISSING_ASSETS", f"{shown(uri)}: no such file")
    try:
        model = read_model(read_sdf(path) if uri else sdf_root(text, path), path)
    except MissingFileError as error:
        raise RefusedError("MISSING_ASSETS", str(error)) from None
    except InputError as error:
        raise RefusedError("RESOURCE_PARSE_ERROR", str(error)) from None
    if not model.obstacles:
        raise RefusedError("RESOURCE_PARSE_ERROR", "no <collision>: nothing would meet it")
    if any(isinstance(one.shape, Plane) for one in model.obstacles):
        raise RefusedError("UNSUPPORTED_ASSETS", "<plane>; allowed: box, sphere, cylinder, mesh")
    with np.errstate(over="ignore", invalid="ignore"):  # sizes may be any finite numbers
        reach_m = np.abs(box_around(model.obstacles)).max()
    if not reach_m <= FARTHEST_M:
        words = f"shapes; allowed: within {FARTHEST_M:g} m of the model's origin"
        raise RefusedError("RESOURCE_PARSE_ERROR", words)
    return model


@lru_cache
def spawnable_models() -> tuple[str, ...]:
    """Names of the shipped models that stand still."""
    files = sorted(model_folder().glob("*/model.sdf"))
    static = (path for path in files if read_sdf(path).findtext("model/static") == "true")
    return tuple(path.parent.name for path in static)


class SpawnServices:
    """Offers them."""

    def __init__(self, interfaces: Interfaces, world: SimulatedWorld, spawned: Spawned) -> None:
        self._interfaces, self._world, self._spawned = interfaces, world, spawned
        offer = interfaces.offer
        offer("SpawnEntity", self._spawn, "SPAWNING", "SPAWNING_RESOURCE_STRING")
        offer("SpawnEntities", self._spawn_several, "SPAWNING_ENTITIES")
        offer("GetSpawnables", self._spawnables, "SPAWNABLES")

    def _spawn(self, request: Any, response: Any) -> None:
        """Put a model into the world; ``response`` is told its name."""
        model = model_of(getattr(request, "entity_resource", request))
        name = self._name_for(request, model)
        pose_W = pose_in_world(request.initial_pose.pose, request.initial_pose.header)
        others = [one.model for one in self._spawned.entities.values()]
        shapes = [one.shape for each in (*others, model) for one in each.obstacles]
        triangles = sum(len(shape.triangles_m) for shape in shapes if isinstance(shape, Mesh))
        if len(shapes) > MOST_SHAPES or triangles > MOST_TRIANGLES:
            raise InputError(
                f"{len(shapes)} shapes and {triangles} triangles with it; allowed:"
                f" {MOST_SHAPES} and {MOST_TRIANGLES}"
            )
        course = Drift(pose_W, stamp_ns=self._world.now_ns())
        self._spawned.add(name, Entity(model, course, course))
        response.entity_name = name

    def _name_for(self, request: Any, model: Model) -> str:
        """A name that is free."""
        name, space = request.name or model.name, request.entity_namespace
        if space and (len(space) > LONGEST_NAME or not NAMESPACE.fullmatch(space)):
            raise RefusedError("NAMESPACE_INVALID", shown(space))
        if not name and request.allow_renaming:
            name = "entity"
        if len(name) > LONGEST_NAME or not NAME.fullmatch(name):
            words = f"name {shown(name)}; allowed: {LONGEST_NAME} of letters, digits, _ . -"
            raise RefusedError("NAME_INVALID", words)
        full = "/".join(filter(None, (*space.split("/"), name)))
        taken = {*self._world.truths(), *self._spawned.entities}
        if full not in taken:
            return full
        if not request.allow_renaming:
            raise RefusedError("NAME_NOT_UNIQUE", f"{full} is there already")
        return next(other for i in count(1) if (other := f"{full}_{i}") not in taken)

    def _spawn_several(self, request: Any, response: Any) -> None:
        """One after the other; each has a result of its own."""
        failed = 0
        for one in request.spawn_requests:
            answer = self._interfaces.message("SpawnResult")()
            try:
                self._spawn(one, answer)
                self._interfaces.say(answer, "RESULT_OK")
            except InputError as error:
                code = getattr(error, "code", "RESULT_OPERATION_FAILED")
                self._interfaces.say(answer, code, str(error))
                failed += 1
            response.results.append(answer)
        if failed:
            raise RefusedError("ENTITIES_SPAWN_FAILED", f"{failed} of them failed")

    def _spawnables(self, request: Any, response: Any) -> str:
        made = self._interfaces.message("Spawnable")
        for name in spawnable_models():
            spawnable = made()
            resource = getattr(spawnable, "entity_resource", spawnable)
            resource.uri = f"model://{name}"
            spawnable.description = f"{name}, an obstacle that stands still"
            response.spawnables.append(spawnable)
        unknown = ", ".join(shown(source) for source in request.sources[:10])
        return f"sources that are not known: {unknown}" if unknown else ""
