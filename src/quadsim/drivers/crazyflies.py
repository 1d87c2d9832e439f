"""Which Crazyflies there are: the file crazyflies.yaml of Crazyswarm2.

It is read as its server does (IMRCLab/crazyswarm2, crazyflie_server.cpp): robots that are enabled
and connected, and the firmware's parameters of all, of a type, and of one, the last of which count.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from quadsim.base.errors import InputError, shown
from quadsim.base.parameters import Vec3, read_yaml

#: What a robot may be called: a part of the names of topics.
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
#: Scripts read a number from the last two digits.
_URI = re.compile(r".*[0-9A-Fa-f]{2}")
#: Parameter whose bits are the groups of a robot.
GROUP_MASK = "hlCommander.groupmask"
#: Parameters of the firmware that scripts set; other than the first they have no effect here.
FIRMWARE_PARAMS: Mapping[str, int | float] = {
    GROUP_MASK: 0, "usd.logging": 0, "led.bitmask": 0, "ring.effect": 0,
    "ring.solidRed": 0, "ring.solidGreen": 0, "ring.solidBlue": 0, "ring.headlightEnable": 0,
    "commander.enHighLevel": 1, "stabilizer.estimator": 2, "stabilizer.controller": 2,
    "kalman.resetEstimation": 0, "colAv.enable": 0,
    "locSrv.extPosStdDev": 1e-3, "locSrv.extQuatStdDev": 0.05,
}  # fmt: skip


@dataclass(frozen=True)
class Robot:
    """One Crazyflie.

    Attributes:
        name: before its topics and services.
        uri: address of its radio.
        initial_position: where it stands, m.
        firmware_params: ``group.name`` to value.
    """

    name: str
    uri: str
    initial_position: Vec3
    firmware_params: Mapping[str, int | float] = field(default_factory=lambda: FIRMWARE_PARAMS)


def numbered(positions: Sequence[Vec3]) -> tuple[Robot, ...]:
    """Robots cf1, cf2, ... at places."""
    return tuple(
        Robot(f"cf{i}", f"radio://0/80/2M/E7E7E7E7{i % 256:02X}", position)
        for i, position in enumerate(positions, 1)
    )


def robots_of(path: Path) -> tuple[Robot, ...]:
    """Robots of a file that are enabled.

    Raises:
        InputError: naming the file, the robot, the key and what is allowed.
    """
    content = read_yaml(path)
    robots, where = _mapping(content.get("robots"), f"{path}: robots"), f"{path}: robots"
    types = _mapping(content.get("robot_types", {}), f"{path}: robot_types")
    of_all = _mapping(content.get("all", {}), f"{path}: all")
    found = []
    for name, keys in robots.items():
        keys = _mapping(keys, f"{where}: {shown(name)}")
        kind = keys.get("type")
        if not isinstance(kind, str) or not isinstance(types.get(kind, {}), Mapping):
            raise InputError(f"{where}: {shown(name)}: type: {shown(kind)}; see robot_types")
        connected = types.get(kind, {}).get("connection", "crazyflie") == "crazyflie"
        if keys.get("enabled") is True and connected:
            params = dict(FIRMWARE_PARAMS)
            for level in (of_all, types.get(kind, {}), keys):
                params |= _firmware_params(level, f"{where}: {name}")
            if not isinstance(params[GROUP_MASK], int):
                raise InputError(
                    f"{where}: {name}: {GROUP_MASK}: {params[GROUP_MASK]} is no integer"
                )
            found.append(_robot(name, keys, params, where))
    if not found:
        raise InputError(f"{where}: none is enabled")
    return tuple(found)


def _mapping(value: Any, where: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise InputError(f"{where}: expected keys and values, found {shown(value)}")
    return value


def _robot(name: Any, keys: Mapping[Any, Any], params: Any, where: str) -> Robot:
    """One robot, its keys checked."""
    uri, position = keys.get("uri", "radio://0/80/2M/E7E7E7E7E7"), keys.get("initial_position")
    if not isinstance(name, str) or name == "all" or not _NAME.fullmatch(name):
        raise InputError(f"{where}: {shown(name)}; allowed: letters, digits and _, but not all")
    if not isinstance(uri, str) or not _URI.fullmatch(uri):
        raise InputError(f"{where}: {name}: uri: {shown(uri)}; allowed: two hex digits at its end")
    if not isinstance(position, list) or len(position) != 3 or not all(map(_is_number, position)):
        raise InputError(
            f"{where}: {name}: initial_position: {shown(position)}; allowed: three numbers, m"
        )
    x, y, z = map(float, position)
    return Robot(name, uri, (x, y, z), params)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _firmware_params(level: Mapping[Any, Any], where: str) -> Iterator[tuple[str, int | float]]:
    """Names and values of one level of the file."""
    where = f"{where}: firmware_params"
    for group, values in _mapping(level.get("firmware_params") or {}, where).items():
        for name, value in _mapping(values, f"{where}: {shown(group)}").items():
            if not _is_number(value):
                raise InputError(f"{where}: {group}.{name}: {shown(value)} is no number")
            yield f"{group}.{name}", value
