"""Devices and sets of devices from files: ``config/sensors`` and ``config/sensors/suites``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from quadsim.base.changes import changes_by_file, set_keys
from quadsim.base.compiled import new_record
from quadsim.base.errors import InputError, did_you_mean, shown
from quadsim.base.files import find
from quadsim.base.parameters import read_yaml
from quadsim.sensors import KINDS, SCANNERS, SENSORS, module_of
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
    kind: str, entry: object, where: str, read: Read, changes: Mapping[str, Any]
) -> SensorParams:
    """A device of a suite: its name, or a mapping with the key ``device`` and what differs."""
    parts = dict(entry) if isinstance(entry, Mapping) else {"device": entry}
    device = parts.pop("device", None)
    if not isinstance(device, str):
        raise InputError(
            f"{where}: {kind}: {shown(entry)} is not the name of a device, nor keys with 'device'"
        )

    def change(content: dict[str, Any], path: str) -> str:
        set_keys(content, changes, KINDS[kind], path)
        return ", ".join(changes)

    return load_device(kind, device, parts, f"{where}: {kind}", read, change if changes else None)


def _with_devices(content: dict[str, Any], devices: Mapping[str, Any], where: str) -> None:
    """Put other devices in the places of a suite; what it says of the place stays."""
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
    """Parameters of the sensors of a vehicle, in the order of :data:`KINDS`.

    Args:
        name: of a file in ``config/sensors/suites``, or its path. It maps a kind to a device, or
            to a mapping with the key ``device`` and keys of the device that differ as it is
            installed (``position_B_m``, ``vibration``, ...).
        read: reads a file.
        changes: dotted keys of devices that are set otherwise (``imu.rate_hz``); a kind alone is
            the name of another device in its place, None takes the device away.

    Raises:
        InputError: an unknown kind or device; no IMU.
    """
    path = find("sensors/suites", name)
    content = read(path)
    changed = changes_by_file(changes or {}, KINDS)
    _with_devices(content, changed.pop(""), str(path))
    for kind in content:
        if kind not in KINDS:
            meant = did_you_mean(kind, KINDS)
            raise InputError(
                f"{path}: unknown sensor {shown(kind)}{meant}; allowed: {', '.join(KINDS)}"
            )
    if "imu" not in content:
        raise InputError(f"{path}: the key 'imu' is missing; nothing flies without one")
    for kind, keys in changed.items():
        if keys and kind not in content:
            raise InputError(f"{path}: sensors.{kind}.{next(iter(keys))}: there is no {kind} in it")
    return {
        kind: _entry(kind, content[kind], str(path), read, changed[kind])
        for kind in KINDS
        if kind in content
    }


#: Beginning of a comment of a suite that says what the filter does not hold with it.
NOT_HELD = "# not consistent: "


def not_held(name: str) -> list[str]:
    """What a suite's file says of errors that are larger than the filter states.

    Args:
        name: of a file in ``config/sensors/suites``, or its path.
    """
    lines = find("sensors/suites", name).read_text(encoding="utf-8").splitlines()
    return [line.removeprefix(NOT_HELD) for line in lines if line.startswith(NOT_HELD)]


def needs_of(kind: str, params: Any) -> frozenset[str]:
    """What a device feels beside pose and velocity; see :attr:`SensorModel.needs`."""
    return NEEDS if kind in SCANNERS else SENSORS[kind].needs(params)


def simulate(
    kind: str, params: Any, environment: EnvironmentParams, seed: int, vehicle: str, scene: Scene
) -> SimulatedSensor | Scanner:
    """One device on one vehicle, fed with the truth as it comes; arguments as of its class."""
    if kind in SCANNERS:
        scanner: Scanner = module_of(kind).SCANNER(params, environment, seed, vehicle, scene)
        return scanner
    return SimulatedSensor(SENSORS[kind], params, environment, seed, vehicle, scene)


def check_faults(kind: str, params: Any, faults: Sequence[FaultParams], where: str) -> None:
    """Refuse faults that do not fit a device.

    Raises:
        InputError: with ``where`` before it.
    """
    try:
        if kind in SCANNERS:
            fault_list(kind, params, faults)
        else:
            model = SENSORS[kind]
            set_faults(new_record(model.outbox), model, params, faults)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
