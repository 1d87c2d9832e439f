"""Devices and sets of devices from files: ``config/sensors`` and ``config/sensors/suites``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from quadsim.base.changes import changes_by_file, set_keys
from quadsim.base.compiled import new_record
from quadsim.base.errors import InputError, did_you_mean, shown
from quadsim.base.files import find
from quadsim.base.parameters import read_yaml
from quadsim.sensors import (
    KINDS,
    SCANNERS,
    SECOND,
    SECONDS,
    SENSORS,
    TWICE,
    kind_of,
    module_of,
)
from quadsim.sensors.device_file import Read, read_device
from quadsim.sensors.error_terms import SensorParams
from quadsim.sensors.faults import FaultParams
from quadsim.sensors.model import SimulatedSensor, set_faults
from quadsim.sensors.scanner import NEEDS, Scanner, fault_list
from quadsim.world.environment import EnvironmentParams
from quadsim.world.scene.scene import Scene


def load_device(kind: str, name: str, *args: Any, **kwargs: Any) -> SensorParams:
    """Parameters of one device of a kind of sensor; further arguments as `read_device`."""
    return read_device(kind, KINDS[kind], name, *args, **kwargs)


def _entry(
    name: str, entry: object, where: str, read: Read, changes: Mapping[str, Any]
) -> SensorParams:
    """A device of a suite: its file, or a mapping with the key ``device`` and what differs."""
    kind = kind_of(name)
    parts = dict(entry) if isinstance(entry, Mapping) else {"device": entry}
    device = parts.pop("device", None)
    if not isinstance(device, str):
        raise InputError(
            f"{where}: {name}: {shown(entry)} is not the name of a device, nor keys with 'device'"
        )

    def change(content: dict[str, Any], path: str) -> str:
        set_keys(content, changes, KINDS[kind], path)
        return ", ".join(changes)

    return load_device(kind, device, parts, f"{where}: {name}", read, change if changes else None)


def _one_by_one(content: Mapping[str, Any], where: str) -> dict[str, Any]:
    """A suite with the two devices of a list under names of their own: ``imu`` and ``imu_1``."""
    found: dict[str, Any] = {}
    for kind, entry in content.items():
        if not isinstance(entry, list):
            found[kind] = entry
            continue
        if kind not in TWICE:
            raise InputError(f"{where}: {kind}: a list; two may be of {', '.join(TWICE)} alone")
        if len(entry) > 2 or not entry:
            raise InputError(f"{where}: {kind}: {len(entry)} in a list; allowed: one or two")
        found[kind] = entry[0]
        if len(entry) == 2:
            if kind + SECOND in content:
                raise InputError(f"{where}: {kind + SECOND}: the second of the list {kind} is it")
            found[kind + SECOND] = entry[1]
    return found


def _with_devices(content: dict[str, Any], devices: Mapping[str, Any], where: str) -> None:
    """Put other devices in the places of a suite; what it states of the place stays."""
    for kind, name in devices.items():
        if name is None:
            content.pop(kind, None)
        elif not isinstance(name, str):
            raise InputError(f"{where}: sensors.{kind}: {shown(name)} is not the name of a device")
        elif isinstance(content.get(kind), dict):
            content[kind]["device"] = name
        else:
            content[kind] = name


def load_suite(
    name: str,
    read: Read = read_yaml,
    changes: Mapping[str, Any] | None = None,
) -> dict[str, SensorParams]:
    """Parameters of the sensors of a vehicle, in the order of :data:`KINDS`, second ones behind.

    Args:
        name: of a file in ``config/sensors/suites``, or its path. It maps a kind to a device, or
            to a mapping with the key ``device`` and keys of the device that differ as it is
            installed (``position_B_m``, ``vibration``, ...); a list has two of them, the second
            of which is known as ``imu_1``.
        read: reads a file.
        changes: dotted keys of devices that are set otherwise (``imu.rate_hz``); a kind alone is
            the name of another device in its place, None removes the device.

    Raises:
        InputError: an unknown kind or device; no IMU.
    """
    path = find("sensors/suites", name)
    content = _one_by_one(read(path), str(path))
    names = [*KINDS, *SECONDS]
    changed = changes_by_file(changes or {}, names)
    _with_devices(content, changed.pop(""), str(path))
    for kind in content:
        if kind not in names:
            meant = did_you_mean(kind, KINDS)
            raise InputError(
                f"{path}: unknown sensor {shown(kind)}{meant}; allowed: {', '.join(KINDS)}"
            )
    if "imu" not in content:
        raise InputError(f"{path}: the key 'imu' is missing; nothing flies without one")
    for kind, keys in changed.items():
        if keys and kind not in content:
            raise InputError(f"{path}: sensors.{kind}.{next(iter(keys))}: there is no {kind} in it")
    for kind in TWICE:
        if kind + SECOND in content and kind not in content:
            raise InputError(f"{path}: {kind + SECOND}: a second one, and there is no {kind}")
    return {
        name: _entry(name, content[name], str(path), read, changed[name])
        for name in names
        if name in content
    }


#: Beginning of a comment of a suite on what the filter does not hold with it.
NOT_HELD = "# not consistent: "


def not_held(name: str) -> list[str]:
    """A suite's own comments on errors that are larger than the filter states.

    Args:
        name: of a file in ``config/sensors/suites``, or its path.
    """
    lines = find("sensors/suites", name).read_text(encoding="utf-8").splitlines()
    return [line.removeprefix(NOT_HELD) for line in lines if line.startswith(NOT_HELD)]


def needs_of(device: str, params: Any) -> frozenset[str]:
    """What a device feels apart from pose and velocity; see :attr:`SensorModel.needs`."""
    return NEEDS if device in SCANNERS else SENSORS[kind_of(device)].needs(params)


def simulate(
    kind: str, params: Any, environment: EnvironmentParams, seed: int, vehicle: str, scene: Scene
) -> SimulatedSensor | Scanner:
    """One device on one vehicle, fed with the truth as it comes; arguments as of its class."""
    if kind in SCANNERS:
        scanner: Scanner = module_of(kind).SCANNER(params, environment, seed, vehicle, scene)
        return scanner
    return SimulatedSensor(SENSORS[kind], params, environment, seed, vehicle, scene)


def check_faults(device: str, params: Any, faults: Sequence[FaultParams], where: str) -> None:
    """Refuse faults that do not fit a device.

    Raises:
        InputError: with ``where`` before it.
    """
    try:
        if device in SCANNERS:
            fault_list(device, params, faults)
        else:
            model = SENSORS[kind_of(device)]
            set_faults(new_record(model.outbox), model, params, faults)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
