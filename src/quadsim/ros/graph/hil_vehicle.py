"""A real vehicle of the graph ``hil``: how it is heard and told, by its drivers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from quadsim.base.errors import InputError
from quadsim.drivers.bodies import TYPES
from quadsim.drivers.convert import DriverTopic
from quadsim.drivers.driver import Driver
from quadsim.ros.graph.driver_choice import Drivers, choose, definite
from quadsim.wire.px4 import PACKAGE
from quadsim.wire.standard import ODOMETRY

#: What goes with a velocity and carries none.
BESIDE_VELOCITY = "/OffboardControlMode"
#: A velocity without a stamp.
UNSTAMPED = "geometry_msgs/msg/Twist"
POSE_STAMPED = "geometry_msgs/msg/PoseStamped"
#: What the autopilot itself estimates.
AUTOPILOT = "odometry/autopilot"
#: Our topics that can say where the vehicle is, the likeliest first, and their types.
POSES = {
    AUTOPILOT: ODOMETRY,
    "external/odom": ODOMETRY,
    "external/pose_stamped": POSE_STAMPED,
    "ground_truth/odom": ODOMETRY,
}
#: What goes to the vehicle.
COMMAND = "command_velocity/safe"
#: What else may go there, by its kind.
SETPOINTS = {"attitude": "command_attitude/safe", "rates": "command_rates/safe"}
#: Whether the vehicle obeys it.
OFFBOARD_STATE = "vehicle/offboard_state"


@dataclass(frozen=True)
class HilVehicle:
    """How the vehicle is heard and told.

    Attributes:
        name: its namespace, of our nodes.
        chain: its drivers.
        namespace: before their topics.
        drivers: who gives what.
        pose: our topic of its pose.
        origin_W: where the map of its own autopilot begins in ours, m.
    """

    name: str
    chain: str
    namespace: str
    drivers: Drivers
    pose: str
    origin_W: tuple[float, ...] = (0.0, 0.0, 0.0)

    @property
    def pose_type(self) -> str:
        """What the pose comes as."""
        return "pose" if POSES[self.pose] == POSE_STAMPED else "odometry"

    def _said(self, ours: str) -> tuple[Driver, list[DriverTopic]]:
        """The driver that gives one of our topics, and what its file states of that."""
        name = next(name for name, given in self.drivers.passed if given == ours)
        driver = self.drivers.entry(name).driver
        return driver, [topic for topic in driver.topics if topic.ours == ours]

    def source_of(self, ours: str) -> str:
        """``NAME TYPE`` of the driver's topic of one of ours; empty: found when it is there."""
        driver, known = self._said(ours)
        full = definite(driver, known, self.namespace)
        return f"{full} {known[0].type}" if full else ""

    def heard_of(self, ours: str) -> str:
        """Where one of our topics is heard: at the driver where nothing is to be converted."""
        _, known = self._said(ours)
        source = self.source_of(ours)
        moved = ours == AUTOPILOT and any(self.origin_W)
        return source.partition(" ")[0] if known[0].as_it_is and source and not moved else ours

    @property
    def heard(self) -> str:
        """Where the pose is heard."""
        return self.heard_of(self.pose)

    @property
    def pose_topic(self) -> str:
        """The full name of that."""
        return self.heard if self.heard.startswith("/") else f"{self.name}/{self.heard}"

    @property
    def autopilot(self) -> str:
        """Whether the autopilot's own odometry is the pose, or comes with it, or is missing."""
        if self.pose == AUTOPILOT:
            return "own"
        return "beside" if self.drivers.gives(AUTOPILOT) else "none"

    @property
    def timed(self) -> str:
        """``NAME TYPE`` of the poses that setpoints answer: with our stamps, nearest the driver."""
        source = self.source_of(self.pose)
        if source and not source.partition(" ")[2].startswith(PACKAGE):
            return source
        return f"{self.name}/{self.pose} {POSES[self.pose]}"

    @property
    def told(self) -> list[str]:
        """``NAME TYPE`` of each of the driver's topics that a velocity goes to."""
        before = self.namespace.rstrip("/")
        for entry in self.drivers.entries:
            found = []
            for command in entry.driver.commands_of(COMMAND):
                full = entry.driver.full_name(command.name)
                absolute = full if full.startswith("/") else f"{before}/{full}"
                found.append(f"{absolute} {command.type}")
            if found:
                return found
        return []

    def takes(self, ours: str) -> bool:
        """Whether the driver that is told velocities takes another of our commands."""
        tellers = (e.driver for e in self.drivers.entries if e.driver.commands_of(COMMAND))
        return any(driver.commands_of(ours) for driver in list(tellers)[:1])

    @property
    def setpoint(self) -> str:
        """The one of these that carries the velocity."""
        return next((text for text in self.told if not text.endswith(BESIDE_VELOCITY)), "")

    @property
    def answer(self) -> str:
        """The same, if its stamps tell how late it is; empty: it has none."""
        return "" if self.setpoint.endswith(f" {UNSTAMPED}") else self.setpoint

    @property
    def keys(self) -> list[str]:
        """Topics of the driver that are this one vehicle's: its pose, and what it is told by."""
        name, _, kind = self.source_of(self.pose).partition(" ")
        return [text.partition(" ")[0] for text in self.told] + [name] * (kind not in TYPES)


def hil_vehicle(
    name: str, chain: str, namespace: str, pose: str, origin_W: tuple[float, ...]
) -> HilVehicle:
    """A vehicle by its drivers, and which of their topics states where it is.

    Args:
        name, chain, namespace, origin_W: as of :class:`HilVehicle`.
        pose: our topic of its pose; empty: the first that the drivers give.

    Raises:
        InputError: no driver that reports a pose, or none that takes commands.
    """
    drivers = choose(chain, ())
    given = [pose for pose in POSES if drivers.gives(pose)]
    chosen = pose or next(iter(given), "")
    if chosen not in given:
        there = ", ".join(given) or "none"
        raise InputError(
            f"pose: {pose or 'none'} from drivers {chain}; what they give of"
            f" {', '.join(POSES)}: {there}{_remedy(pose, drivers)}"
        )
    vehicle = HilVehicle(name, chain, namespace, drivers, chosen, origin_W)
    if not vehicle.setpoint:
        raise InputError(f"drivers: {chain}: none of them takes {COMMAND}")
    if any(origin_W) and not drivers.gives(AUTOPILOT):
        raise InputError(f"origin_W_m: drivers {chain} give no {AUTOPILOT}, whose map they are of")
    return vehicle


def refuse_shared(vehicles: Sequence[HilVehicle]) -> None:
    """Refuse vehicles that are heard or told by one topic.

    Raises:
        InputError: naming it.
    """
    keys = [key for vehicle in vehicles for key in set(vehicle.keys) if key]
    shared = next((key for key in keys if keys.count(key) > 1), "")
    if shared:
        raise InputError(
            f"vehicles: {shared} is of more than one; give each a driver_namespace of its own"
        )


def _remedy(pose: str, drivers: Drivers) -> str:
    """The chain in which a driver gives a pose that it has in several forms; empty: none does."""
    entries = drivers.entries
    for entry in entries:
        if pose in {topic.ours for topic in entry.topics}:
            texts = [f"{entry.name}:{pose}" if e is entry else e.text for e in entries]
            return f"; for {pose}: drivers:={','.join(texts)}"
    return ""
