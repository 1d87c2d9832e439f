"""A scenario as one text with every parameter resolved, and back: what a bag keeps of its run.

The text is YAML: the keys of the scenario's file under ``scenario``, each file that it names under
a key of its own (``vehicle``, ``sensors``, ``estimator``, ``autopilot``), its lists (``mission``,
``criteria``, ``faults``, ``events``, ``commands``), the own ``parts``, and under ``files`` the
SHA-256 of what is too large for it: worlds, heightmaps, recorded wind. Numbers come back to the
bit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import yaml

from quadsim.base.errors import InputError
from quadsim.base.files import find_world
from quadsim.base.parameters import (
    IsDataclass,
    P,
    from_mapping,
    read_yaml_text,
    without_unknown,
)
from quadsim.base.parts import parts_from, parts_out
from quadsim.control.parameters import AutopilotParams
from quadsim.estimation.eskf.parameters import EstimatorParams
from quadsim.mission.items import Item, items_from, name_of
from quadsim.mission.script import commands_from
from quadsim.mission.trajectories.items import TimedFollow
from quadsim.mission.trajectories.timed import TrajectoryPoint
from quadsim.sensors import KINDS, SCANNERS
from quadsim.sensors import kind_of as sensor_kind_of
from quadsim.sim.criterion import criteria_from
from quadsim.sim.scenario import Scenario, ScenarioFile, check_scenario, faults_from
from quadsim.vehicle.disturbances import disturbances_from, kind_of
from quadsim.vehicle.parameters import VehicleParams
from quadsim.world.build import make_scene

#: Item of a mission whose points carry derivatives; in a scenario's file they are a file.
TIMED = "timed_points"


def plain_values(value: Any) -> Any:
    """Nested values as YAML has them: tuples become lists."""
    if isinstance(value, Mapping):
        return {str(key): plain_values(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_values(item) for item in value]
    return value


def _item_out(item: Item) -> dict[str, Any]:
    if isinstance(item, TimedFollow):
        return {TIMED: [point._asdict() for point in item.points]}
    return {name_of(item): asdict(cast(IsDataclass, item))}


def _item_in(content: Any, where: str) -> Item:
    """One item; the mission's first and last are checked by whoever reads all."""
    if not isinstance(content, Mapping) or TIMED not in content:
        (item,) = items_from([content], where, whole=False)
        return item
    points = []
    for values in content[TIMED]:
        given: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in values.items()
        }
        points.append(TrajectoryPoint(**given))
    return TimedFollow(points=tuple(points))


def _large_files(file: ScenarioFile) -> dict[str, Path]:
    """Files that come with the text, by the name under which the scenario knows them."""
    named = {file.world: find_world(file.world)}
    for name in (file.heightmap.file, file.environment.wind.file):
        if name:
            named[name] = Path(name).expanduser()
    return named


def _digests(file: ScenarioFile) -> dict[str, str]:
    return {
        name: hashlib.sha256(path.read_bytes()).hexdigest()
        for name, path in _large_files(file).items()
        if path.is_file()
    }


def scenario_text(scenario: Scenario) -> str:
    """Everything that a scenario holds, as YAML."""
    devices = {**scenario.sensors, **scenario.devices}
    content = {
        "name": scenario.name,
        "scenario": asdict(scenario.file),
        "vehicle": asdict(scenario.vehicle),
        "sensors": {kind: asdict(params) for kind, params in devices.items()},
        "estimator": asdict(scenario.estimator),
        "autopilot": asdict(scenario.autopilot),
        "mission": [_item_out(item) for item in scenario.items],
        "criteria": [asdict(criterion) for criterion in scenario.criteria],
        "faults": [
            {"sensor": kind, **asdict(fault)}
            for kind, faults in scenario.faults.items()
            for fault in faults
        ],
        "events": [{"kind": kind_of(item), **asdict(item)} for item in scenario.disturbances],
        "commands": [asdict(command) for command in scenario.commands],
        **({"parts": parts_out(scenario.parts)} if scenario.parts else {}),
        "files": _digests(scenario.file),
    }
    return str(yaml.safe_dump(plain_values(content), sort_keys=False, width=100))


def scenario_from_text(text: str, where: str) -> tuple[Scenario, list[str]]:
    """The scenario that a text describes.

    Args:
        text: of :func:`scenario_text`.
        where: what errors name.

    Returns:
        The scenario, and what is not as it was: files, and keys that this version has not.

    Raises:
        InputError: one line that names ``where``, the key and what is allowed.
    """
    content = read_yaml_text(text, where)
    wanted = ("name", "scenario", "vehicle", "sensors", "estimator", "autopilot", "mission")
    if not isinstance(content, Mapping) or any(key not in content for key in wanted):
        raise InputError(f"{where}: no whole scenario; expected the keys {', '.join(wanted)}, ...")
    notes: list[str] = []

    def part(cls: type[P], key: str, values: object) -> P:
        return from_mapping(cls, without_unknown(cls, values, key, notes), f"{where}: {key}")

    file = part(ScenarioFile, "scenario", content["scenario"])
    devices = {
        kind: part(KINDS[sensor_kind_of(kind)], f"sensors: {kind}", values)
        for kind, values in content["sensors"].items()
        if sensor_kind_of(kind) in KINDS
    }
    scenario = Scenario(
        name=str(content["name"]),
        file=file,
        vehicle=part(VehicleParams, "vehicle", content["vehicle"]),
        sensors={kind: params for kind, params in devices.items() if kind not in SCANNERS},
        estimator=part(EstimatorParams, "estimator", content["estimator"]),
        autopilot=part(AutopilotParams, "autopilot", content["autopilot"]),
        items=tuple(
            _item_in(item, f"{where}: mission[{i}]") for i, item in enumerate(content["mission"])
        ),
        criteria=criteria_from(content.get("criteria", []), Path(file.sensors).stem, where),
        path=Path(where),
        scene=make_scene(file.world, file.terrain, file.heightmap, file.environment),
        faults=faults_from(content.get("faults", []), devices, where),
        scanners={kind: params for kind, params in devices.items() if kind in SCANNERS},
        disturbances=disturbances_from(content.get("events", []), where),
        commands=commands_from(content.get("commands", []), where),
        parts=parts_from(content.get("parts", {}), {}, where),
    )
    check_scenario(scenario)
    now = _digests(file)
    then = content.get("files", {})
    changed = [name for name, digest in then.items() if now.get(name) != digest]
    return scenario, notes + [f"{name} is not the file that was flown in" for name in changed]
