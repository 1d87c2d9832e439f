"""Commands that a scenario gives while the vehicle flies, as if somebody had sent them.

Each is one mapping::

    commands:
      - {at_s: 8.0, until_s: 12.0, velocity_W_mps: [2.0, 0.0, 0.0]}
      - {at_s: 15.0, position_W_m: [3.0, 0.0, 2.0], yaw_deg: 90.0}
      - {at_s: 20.0, request: land}

A velocity is sent ten times a second until ``until_s``, and then no more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from quadsim.base.errors import InputError
from quadsim.base.parameters import Spec, Vec3, from_mapping
from quadsim.mission.flight.flight import FlightManager

#: Between two sendings of a velocity.
PERIOD_NS = 100_000_000

REQUESTS = ("start", "pause", "hover", "abort", "return_home", "land", "recover")

AtS = Annotated[float, Spec("simulated time at which it is given", "s", ge=0.0, le=86400.0)]


@dataclass(frozen=True)
class ScriptedVelocity:
    """A velocity, given again and again."""

    at_s: AtS
    until_s: Annotated[float, Spec("simulated time of the last", "s", ge=0.0, le=86400.0)]
    velocity_W_mps: Annotated[Vec3, Spec("east, north, up", "m/s", ge=-100.0, le=100.0)]
    yaw_rate_radps: Annotated[float, Spec("about the vertical", "rad/s", ge=-20.0, le=20.0)] = 0.0
    broken: Annotated[bool, Spec("with NaN instead of its numbers")] = False


@dataclass(frozen=True)
class ScriptedPose:
    """A pose to fly to."""

    at_s: AtS
    position_W_m: Annotated[Vec3, Spec("east, north, up", "m", ge=-1e5, le=1e5)]
    yaw_deg: Annotated[float, Spec("0 = east", "deg", ge=-360.0, le=360.0)] = 0.0


@dataclass(frozen=True)
class ScriptedRequest:
    """A request by its name."""

    at_s: AtS
    request: Annotated[str, Spec("what", choices=REQUESTS)]


Command = ScriptedVelocity | ScriptedPose | ScriptedRequest

_KINDS: Mapping[str, type[ScriptedVelocity] | type[ScriptedPose] | type[ScriptedRequest]] = {
    "velocity_W_mps": ScriptedVelocity,
    "position_W_m": ScriptedPose,
    "request": ScriptedRequest,
}


def commands_from(content: Any, where: str) -> tuple[Command, ...]:
    """Read the commands of a scenario from the plain values of its file.

    Raises:
        InputError: naming the command, the key, the value and what is allowed.
    """
    if not isinstance(content, list):
        raise InputError(f"{where}: commands: expected a list")
    read: list[Command] = []
    for i, item in enumerate(content):
        at = f"{where}: commands[{i}]"
        keys = item if isinstance(item, Mapping) else ()
        kind = next((of for key, of in _KINDS.items() if key in keys), None)
        if kind is None:
            raise InputError(f"{at}: expected one of the keys {', '.join(_KINDS)}")
        read.append(from_mapping(kind, item, at))
    return tuple(read)


class Script:
    """Gives commands to a flight manager when their time has come."""

    def __init__(self, commands: Sequence[Command]) -> None:
        self._due = [(round(command.at_s * 1e9), command) for command in commands]

    def give(self, manager: FlightManager, stamp_ns: int) -> None:
        """Give what is due.

        Args:
            manager: obeys, or refuses with an event.
            stamp_ns: the flight's time.
        """
        if not self._due:
            return
        left = []
        for due_ns, command in self._due:
            if due_ns > stamp_ns:
                left.append((due_ns, command))
                continue
            if isinstance(command, ScriptedVelocity):
                factor = math.nan if command.broken else 1.0
                x, y, z = (factor * value for value in command.velocity_W_mps)
                manager.command_velocity((x, y, z), command.yaw_rate_radps)
                if stamp_ns + PERIOD_NS <= round(command.until_s * 1e9):
                    left.append((stamp_ns + PERIOD_NS, command))
            elif isinstance(command, ScriptedPose):
                manager.command_pose(command.position_W_m, math.radians(command.yaw_deg))
            else:
                getattr(manager, command.request)()
        self._due = left
