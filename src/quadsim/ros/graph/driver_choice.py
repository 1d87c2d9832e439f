"""Which parts of a graph are simulated and which a driver gives: ``drivers:=mavros,sim``.

A chain of driver files, of which ``sim`` stands for our own nodes. It decides, live, what
:mod:`quadsim.drivers.driver` decides of a bag. Nothing here needs ROS.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from quadsim.base.errors import InputError
from quadsim.drivers.convert import DriverTopic, frame_names
from quadsim.drivers.driver import Driver, load_driver
from quadsim.ros.graph.options import SIM
from quadsim.ros.graph.vehicles import frame_prefix
from quadsim.ros.runtime.packages import is_installed, lost
from quadsim.sensors import PUBLISHING, SCANNERS, SECONDS, topics_of

#: Executables whose topics a driver can give, and those topics; of a scanner's one is enough.
GIVEN_BY: Mapping[str, tuple[str, ...]] = {
    **{kind: tuple(topic.name for topic in topics_of(kind)) for kind in (*PUBLISHING, *SECONDS)},
    "estimator": ("odometry/filtered",),
}
#: What our nodes publish in addition to those that a driver file could name too.
ALSO_BY: Mapping[str, tuple[str, ...]] = {
    "dynamics": ("/clock", "/datum", "ground_truth/odom", "battery_state", "motor_speed", "wind"),
    "estimator": ("imu/data", "odometry/blind"),
    "mixer": ("command_motor_speed",),
}
#: Nodes that a chain without ``sim`` runs: our own software, simulating nothing. The mixer is not
#: among them, as a driver's vehicle has one.
SOFTWARE = ("estimator", "autopilot")
#: What a real device or another program may stand in for.
REPLACEABLE = (*PUBLISHING, *SECONDS, "estimator", "autopilot", "mixer", "dynamics")
#: Forms of a pose from outside, and the estimator's parameter ``external_pose_type`` for them.
EXTERNAL = {
    "external/pose_stamped": "pose",
    "external/pose": "pose_with_covariance",
    "external/odom": "odometry",
}
_ENTRY = re.compile(r"(?P<name>[^:]+)(:(?P<parts>-?[\w/]+([+-][\w/]+)*))?")


@dataclass(frozen=True)
class Entry:
    """One driver of a chain, and which of its topics count.

    Attributes:
        name: as it was given, the name or path of a file.
        driver: of the file.
        parts: our topics that it gives; of ``sim``: nodes that run.
        text: the entry as it was given.
        without: of ``sim:-a-b``, the nodes whose topics somebody else publishes as they are.
    """

    name: str
    driver: Driver
    parts: frozenset[str]
    text: str = ""
    without: frozenset[str] = frozenset()

    @property
    def topics(self) -> tuple[DriverTopic, ...]:
        """Its topics that count."""
        return tuple(
            topic
            for topic in self.driver.topics
            if topic.ours in self.parts and not topic.bags_only
        )


@dataclass(frozen=True)
class Drivers:
    """Who gives what.

    Attributes:
        nodes: our executables that run.
        passed: (driver, our topic) that a driver gives; the first of the chain that has it.
        entries: the chain, ``sim`` left out.
        without: executables whose topics somebody else publishes as they are.
    """

    nodes: frozenset[str]
    passed: tuple[tuple[str, str], ...]
    entries: tuple[Entry, ...]
    without: frozenset[str] = frozenset()

    @property
    def simulated(self) -> bool:
        """Whether ``/clock`` is there: the vehicle's physics is ours, or somebody else's."""
        return self._has("/clock")

    @property
    def has_datum(self) -> bool:
        """Whether somebody publishes where ``map`` is."""
        return self._has("/datum")

    def _has(self, topic: str) -> bool:
        return "dynamics" in self.nodes | self.without or self.gives(topic)

    def gives(self, ours: str) -> bool:
        """Whether a driver gives one of our topics."""
        return any(topic == ours for _, topic in self.passed)

    @property
    def external_pose_type(self) -> str:
        """The estimator's parameter of that name."""
        return next((EXTERNAL[topic] for _, topic in self.passed if topic in EXTERNAL), "none")

    def entry(self, name: str) -> Entry:
        """A driver of the chain."""
        return next(entry for entry in self.entries if entry.name == name)

    def remapped(
        self, namespace: str, driver_namespace: str
    ) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:
        """What a vehicle's nodes can take as it is, and what has to be passed on by ``driver``.

        A topic is remapped where its name is definite, its type, axes, units and frame are ours,
        and it is reliable, as the recorder asks.

        Args:
            driver_namespace: before the driver's topics; empty: not known.

        Returns:
            Pairs of full names, ours and the driver's; pairs of driver and our topic.
        """
        pairs, left = [], []
        for name, ours in self.passed:
            driver = self.entry(name).driver
            known = [topic for topic in driver.topics if topic.ours == ours]
            source = definite(driver, known, driver_namespace)
            if source and _fits(known[0], namespace):
                target = ours if ours.startswith("/") else f"{namespace}/{ours}"
                if source != target:
                    pairs.append((target, source))
            else:
                left.append((name, ours))
        return tuple(pairs), tuple(left)


def definite(driver: Driver, topics: list[DriverTopic], driver_namespace: str) -> str:
    """Full name of a topic where there is no doubt about it; else empty."""
    if len(topics) != 1 or len(topics[0].names) != 1:
        return ""
    full = driver.full_name(topics[0].names[0])
    if "*" in full:
        return ""
    if full.startswith("/"):
        return full
    return f"{driver_namespace.rstrip('/')}/{full}" if driver_namespace else ""


def _fits(topic: DriverTopic, namespace: str) -> bool:
    frame = next(iter(frame_names(topic.our_type, frame_prefix(namespace))), topic.frame)
    return (
        topic.as_it_is
        and topic.frame == frame
        and topic.reliability == "reliable"
        and (topic.ours != "/datum" or topic.durability == "transient_local")
    )


def choose(chain: str, available: Collection[str] = REPLACEABLE) -> Drivers:
    """Read a chain such as ``sim``, ``mavros,mocap``, ``vectornav:imu,sim``, ``sim:-gnss``.

    Behind a colon stand the parts of a driver that count, with ``+`` between them: nodes of ours
    that it replaces, or topics of ours; or, with ``-`` before each, those that do not. Of ``sim``
    they are the nodes that run.

    Args:
        chain: names or paths of driver files, with commas.
        available: our nodes that there are; a scenario may have no lidar.

    Raises:
        InputError: an unknown driver or part; a bad file; a message package that is not installed
            and without which nothing of a driver is left.
    """
    entries = [_entry(text.strip()) for text in chain.split(",") if text.strip()]
    if not entries:
        raise InputError("drivers: give a name, or several with commas: sim, or mavros,mocap")
    names = [entry.name for entry in entries]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"drivers: {twice!r} is there twice; give its parts in one: {twice}:a+b")
    own = next((entry.parts for entry in entries if entry.name == SIM), frozenset(SOFTWARE))
    own &= frozenset(available)
    givers = {node: _giver(node, entries, node in own) for node in GIVEN_BY}
    nodes = frozenset(node for node in own if givers.get(node) in (None, SIM))
    passed = _passed(entries, nodes, givers)
    without = next((entry.without for entry in entries if entry.name == SIM), frozenset())
    chosen = Drivers(nodes, passed, tuple(e for e in entries if e.name != SIM), without)
    lonely = [kind for kind in PUBLISHING if kind in nodes]
    if lonely and "dynamics" not in nodes | without and not chosen.gives("ground_truth/odom"):
        raise InputError(
            f"drivers: {chain}: {', '.join(lonely)} simulated without a truth; let sim have"
            " dynamics too, or chain a driver that gives ground_truth/odom, as mocap does"
        )
    for entry in chosen.entries:
        _check_packages(chosen, entry)
    return chosen


def _entry(text: str) -> Entry:
    found = _ENTRY.fullmatch(text)
    if found is None:
        raise InputError(
            f"drivers: {text!r}; give a driver, or with some parts of it only, vectornav:imu+gnss,"
            " or but for some, sim:-gnss"
        )
    name, parts = found["name"], found["parts"]
    driver = load_driver(name)
    has = {topic.ours for topic in driver.topics if not topic.bags_only}
    every = set(REPLACEABLE) if name == SIM else has
    if parts is None:
        return Entry(name, driver, frozenset(every), text)
    named: set[str] = set()
    for part in re.split(r"[+-]", parts.removeprefix("-")):
        topics = {part} if name == SIM else set(GIVEN_BY.get(part, (part,)))
        if not topics & every:
            there = sorted(every | {node for node, t in GIVEN_BY.items() if set(t) & has})
            what = REPLACEABLE if name == SIM else there
            raise InputError(f"drivers: {name} has no {part!r}; it has {', '.join(what)}")
        named |= topics & every
    if ("-" if not parts.startswith("-") else "+") in parts:
        raise InputError(
            f"drivers: {text!r}: either + between parts that count, or - before others"
        )
    excluded = parts.startswith("-")
    without = frozenset(named if excluded and name == SIM else ())
    return Entry(name, driver, frozenset(every - named if excluded else named), text, without)


def _giver(node: str, entries: list[Entry], runs: bool) -> str | None:
    """Who gives what a node would: the first driver that gives all of it, or else some of it."""
    topics = set(GIVEN_BY[node])
    enough = 1 if node in SCANNERS else len(topics)
    shares: list[tuple[bool, str]] = []
    for entry in entries:
        share = enough * runs if entry.name == SIM else len(entry.parts & topics)
        if share:
            shares.append((share < enough, entry.name))
    return min(shares, key=lambda share: share[0])[1] if shares else None


def _passed(
    entries: list[Entry], nodes: Collection[str], givers: Mapping[str, str | None]
) -> tuple[tuple[str, str], ...]:
    """Topics that drivers give, each by the first that has it; what our nodes publish is theirs."""
    taken = {topic for node in nodes for topic in (*GIVEN_BY.get(node, ()), *ALSO_BY.get(node, ()))}
    owner = {topic: givers[node] for node, topics in GIVEN_BY.items() for topic in topics}
    found: dict[str, str] = {}
    if "dynamics" in nodes:
        taken.add("/clock")
    pose = next(
        (t.ours for e in entries if e.name != SIM for t in e.topics if t.ours in EXTERNAL), ""
    )
    taken |= EXTERNAL.keys() - {pose}  # the estimator takes one form
    for first in (True, False):  # whoever gives a sensor as a whole comes before who gives a part
        for entry in entries:
            for topic in entry.topics if entry.name != SIM else ():
                whole = owner.get(topic.ours, entry.name) == entry.name
                if topic.ours not in taken and whole == first:
                    found.setdefault(topic.ours, entry.name)
    return tuple((name, topic) for topic, name in found.items())


def _check_packages(chosen: Drivers, entry: Entry) -> None:
    """Refuse a driver of which nothing is left."""
    passed = {ours for name, ours in chosen.passed if name == entry.name}
    used = [(topic.ours, topic.type) for topic in entry.topics if topic.ours in passed]
    if used and not any(is_installed(type_name) for _, type_name in used):
        raise InputError(f"driver {entry.name}: {'; '.join(lost(used))}")
