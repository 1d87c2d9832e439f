"""Parameters of one device from its file in ``config/sensors``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from quadsim.base.errors import InputError, shown
from quadsim.base.files import find
from quadsim.base.parameters import from_mapping, read_yaml
from quadsim.sensors.error_terms import SensorParams

#: Reads the content of a file, which is then changed.
Read = Callable[[Path], dict[str, Any]]


def read_device(
    kind: str,
    params_type: type[Any],
    name: str,
    installed: Mapping[str, Any] | None = None,
    where: str = "",
    read: Read = read_yaml,
    change: Callable[[dict[str, Any], str], str] | None = None,
) -> SensorParams:
    """Parameters of one device.

    Args:
        kind: what the file's key ``sensor`` must say.
        params_type: parameter class of this kind.
        name: of a file in ``config/sensors``, or its path.
        installed: keys that are set instead of the file's, such as where it sits.
        where: what errors of these keys name.
        read: reads the file.
        change: sets keys of the content after all, given the path too, and gives their names.

    Raises:
        InputError: the file is missing, of another kind of sensor, or has a key that is refused.
    """
    path = find("sensors", name)
    content = read(path)
    found = content.pop("sensor", None)
    if found != kind:
        raise InputError(f"{path}: sensor: {shown(found)} where {shown(kind)} is wanted")
    params: SensorParams = from_mapping(params_type, content, str(path))
    if installed:
        content |= installed
        params = from_mapping(params_type, content, where or str(path))
    if change:
        params = from_mapping(params_type, content, f"{path} with {change(content, str(path))} set")
    return params
