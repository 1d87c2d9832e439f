"""A mission that the firmware flies itself: uploaded by MAVLink's mission protocol.

We send MISSION_COUNT, the autopilot asks for each item by MISSION_REQUEST_INT and reports in
MISSION_ACK whether it takes them (mavlink.io/en/services/mission.html). Item 0 is ArduPilot's home.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from quadsim.base.errors import FlightError, InputError
from quadsim.firmware.axes import degrees_e7, heading_degrees
from quadsim.firmware.mavlink import Message, Port
from quadsim.geometry.geodesy import Datum
from quadsim.mission.items import Goto, Hover, Item, Land, Takeoff, name_of
from quadsim.mission.waypoint import Waypoint

#: MAV_CMD: places and times, and what is done on the way to them.
WAYPOINT, LAND, TAKEOFF, DELAY, YAW, SPEED = 16, 21, 22, 93, 115, 178
#: MAV_FRAME_GLOBAL_INT, and _RELATIVE_ALT_INT, whose heights count from home.
ABSOLUTE, ABOVE_HOME = 5, 6
GROUND_SPEED = 1.0


class MissionStep(NamedTuple):
    """An item as MAVLink has it; x and y in degrees times 1e7, z in m."""

    command: int
    params: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    frame: int = ABOVE_HOME
    x: int = 0
    y: int = 0
    z: float = 0.0


def steps_of(items: Sequence[Item], datum: Datum) -> list[MissionStep]:
    """The steps of a mission; the first is a place that the autopilot makes its home.

    Raises:
        InputError: an item that is none of the firmware's.
    """
    steps = [MissionStep(WAYPOINT)]
    for i, item in enumerate(items):
        steps += _steps(item, datum, f"mission[{i}]: {name_of(item)}")
    return steps


def _steps(item: Item, datum: Datum, where: str) -> list[MissionStep]:
    if isinstance(item, Takeoff):
        return [MissionStep(TAKEOFF, z=item.height_m)]
    if isinstance(item, Hover):
        return [MissionStep(DELAY, (item.duration_s, 0.0, 0.0, 0.0))]
    if isinstance(item, Land):
        return [MissionStep(LAND)]
    if not isinstance(item, Goto | Waypoint):
        raise InputError(
            f"{where}: not flown by the firmware itself; allowed: takeoff, goto, waypoint, hover,"
            " land"
        )
    if item.height != "absolute":
        raise InputError(f"{where}: height: {item.height}: not flown by the firmware itself")
    latitude, longitude, height_m = datum.to_geodetic(item.position_W_m)
    place = degrees_e7(latitude), degrees_e7(longitude), height_m
    hold_s = item.hold_s if isinstance(item, Waypoint) else 0.0
    steps = [MissionStep(WAYPOINT, (hold_s, 0.0, 0.0, 0.0), ABSOLUTE, *place)]
    if isinstance(item, Goto) or item.heading == "given":  # done on the way to that place
        steps.append(MissionStep(YAW, (heading_degrees(item.yaw_deg), 0.0, 0.0, 0.0)))
    if item.speed_mps > 0.0:
        steps.append(MissionStep(SPEED, (GROUND_SPEED, item.speed_mps, -1.0, 0.0)))
    if isinstance(item, Waypoint) and item.type == "land":
        steps.append(MissionStep(LAND))
    return steps


class Upload:
    """Hands a mission over, and knows how far it is flown.

    Attributes:
        accepted: the autopilot has it.
        current: the step that it flies.
    """

    def __init__(self, port: Port, system: int, steps: Sequence[MissionStep]) -> None:
        self._port, self._system, self._steps = port, system, steps
        self.accepted = False
        self.current = 0

    @property
    def lands(self) -> bool:
        """Whether it flies the mission's landing."""
        return self._steps[self.current].command == LAND

    def offer(self) -> None:
        """Say how many steps there are."""
        self._port.send("mission_count", self._system, 1, len(self._steps))

    def take(self, message: Message) -> None:
        """Take a message of the protocol.

        Raises:
            FlightError: the autopilot does not take the mission.
        """
        kind = message.get_type()
        if kind in ("MISSION_REQUEST_INT", "MISSION_REQUEST"):
            step = self._steps[message.seq]
            self._port.send(
                "mission_item_int", self._system, 1, message.seq, step.frame, step.command, 0, 1,
                *step.params, step.x, step.y, step.z,
            )  # fmt: skip
        elif kind == "MISSION_ACK":
            if message.type != self._port.messages.MAV_MISSION_ACCEPTED:
                raise FlightError(f"the mission is not taken: MAV_MISSION_RESULT {message.type}")
            self.accepted = True
        elif kind == "MISSION_CURRENT":
            self.current = min(message.seq, len(self._steps) - 1)
