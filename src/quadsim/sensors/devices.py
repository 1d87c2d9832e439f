"""Devices and sets of devices from files: ``config/sensors`` and ``config/sensors/suites``."""

from __future__ import annotations

from pathlib import Path

from quadsim.errors import InputError
from quadsim.files import find
from quadsim.parameters import from_mapping, read_yaml
from quadsim.sensors import SENSORS
from quadsim.sensors.model import SensorParams


def load_device(kind: str, name: str) -> SensorParams:
    """Parameters of one device.

    Args:
        kind: a key of :data:`quadsim.sensors.SENSORS`.
        name: of a file in ``config/sensors``, or its path.

    Raises:
        InputError: the file is missing, of another kind of sensor, or has a key that is refused.
    """
    path = find("sensors", name)
    content = read_yaml(path)
    found = content.pop("sensor", None)
    if found != kind:
        raise InputError(f"{path}: sensor: {found!r} where {kind!r} is wanted")
    params: SensorParams = from_mapping(SENSORS[kind].params_type, content, str(path))
    return params


def load_suite(name: str, base: Path | None = None) -> dict[str, SensorParams]:
    """Parameters of the sensors of a vehicle, in the order of :data:`quadsim.sensors.SENSORS`.

    Args:
        name: of a file in ``config/sensors/suites``, or its path. It maps kind to device.
        base: folder against which a path is taken.

    Raises:
        InputError: an unknown kind or device; no IMU.
    """
    path = find("sensors/suites", str(base / name) if base and "/" in name else name)
    content = read_yaml(path)
    for kind, device in content.items():
        if kind not in SENSORS:
            raise InputError(f"{path}: unknown sensor {kind!r}; allowed: {', '.join(SENSORS)}")
        if not isinstance(device, str):
            raise InputError(f"{path}: {kind}: {device!r} is not the name of a device")
    if "imu" not in content:
        raise InputError(f"{path}: the key 'imu' is missing; nothing flies without one")
    return {kind: load_device(kind, content[kind]) for kind in SENSORS if kind in content}
