"""Node ``driver``: a driver's topics in, ours out, converted; our commands to it, converted.

What is which, in which frames, types and quality of service, is reported by files of
``config/drivers``; see docs/drivers.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from std_msgs.msg import String

from quadsim.base.errors import InputError
from quadsim.base.files import find
from quadsim.base.parameters import Spec, Vec3, load
from quadsim.drivers.loans import LENT
from quadsim.hil.guard.gate import CommandGateParams
from quadsim.hil.guard.parameters import GuardParams
from quadsim.ros.drivers.inputs import (
    DriverPlace,
    DriverSource,
    ResetWatch,
    converter,
    find_source,
    origin_shift,
    profile_of,
    topic_of,
)
from quadsim.ros.drivers.outputs import SETPOINTS, Outputs, check_commands
from quadsim.ros.graph.driver_choice import Drivers, choose
from quadsim.ros.graph.options import SIM
from quadsim.ros.graph.vehicles import frame_prefix
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.base import QuadsimNode
from quadsim.ros.runtime.packages import is_installed, lost
from quadsim.ros.runtime.params import declare, declare_one, declare_texts
from quadsim.ros.runtime.runtime import entry_points
from quadsim.ros.runtime.topics import message_class
from quadsim.wire.px4 import PACKAGE

SEARCH_PERIOD_S = 0.2
#: The same once the graph has had its time.
LATE_SEARCH_PERIOD_S = 2.0
#: Wall time after which the log states what is not there, and for which a source that another might
#: replace has to be the only one: discovery brings one topic after the other.
PATIENCE_S = 5.0
#: Time in which a topic that is published brings a message, s; else it is named.
SILENT_S = 5.0
#: Without it nothing flies, so the graph is complete when it is there.
NEEDED = "imu/data_raw"
#: All topics that the chain gives.
EVERY = "*"
#: Outputs of a vehicle's own estimator, which it may reset.
OWN_ODOMETRY = ("odometry/autopilot",)


Take = Callable[[bytes], "bytes | None"]


@dataclass(frozen=True)
class OriginParams:
    """Where the map of the vehicle's own autopilot begins."""

    origin_W_m: Annotated[
        Vec3, Spec("in ours, with the same axes: added to its odometry", "m", ge=-1e5, le=1e5)
    ] = (0.0, 0.0, 0.0)


def in_our_map(convert: Take, move: Callable[[bytes], bytes]) -> Take:
    """A conversion, and a shift of what comes of it."""

    def take(payload: bytes) -> bytes | None:
        made = convert(payload)
        return None if made is None else move(made)

    return take


class DriverNode(QuadsimNode):
    """Passes on what drivers publish, and sends what they take.

    Parameters: ``drivers`` (a chain, as of ``ros.graph.driver_choice.choose``), ``topics`` (those
    of ours that it gives), ``driver_namespace``, ``alone``, ``origin_W_m``, ``send``, ``relay``,
    ``setpoints``, ``lend``; ``config`` (a file of config/guards) and the fields of it that the gate
    holds commands to (``limits``, ``watch``).
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__("driver", **kwargs)
        chain = declare_one(self, "drivers", "", "files of config/drivers, or paths, with commas")
        wanted = declare_one(
            self, "topics", EVERY, "of ours, with spaces; *: all that nodes of ours do not publish"
        )
        before = declare_one(self, "driver_namespace", "", "before the driver's topics: /uav1")
        alone = declare_one(self, "alone", True, "there is one vehicle")
        self._origin_W = declare(self, OriginParams()).origin_W_m
        send = declare_one(self, "send", True, "take commands, and ask the vehicle for things")
        words = (
            "poses from outside that the vehicle's estimator gets: pose (external/pose_stamped),"
            " odometry (external/odom); empty: none"
        )
        self._relay = declare_one(self, "relay", "", words, choices=("", "pose", "odometry"))
        words = "what goes out besides velocities: attitude, rates"
        self._kinds = declare_texts(self, "setpoints", words)
        words = f"what virtual devices measure that goes to the vehicle: {', '.join(LENT)}"
        self._lend = declare_texts(self, "lend", words)
        if unknown := [kind for kind in self._kinds if kind not in SETPOINTS]:
            raise InputError(
                f"node {self.get_fully_qualified_name()}: parameter setpoints: {unknown[0]!r};"
                f" allowed: {', '.join(SETPOINTS)}"
            )
        chosen = choose(chain) if wanted == EVERY else choose(chain, ())
        if not chosen.entries:
            raise InputError(
                f"node {self.get_fully_qualified_name()}: drivers: {SIM} needs no node"
            )
        self._place = DriverPlace(self.get_namespace(), before, alone)
        self._prefix = frame_prefix(self.get_namespace())
        self._missing: dict[str, Any] = {}  # our topic to driver and what its file states of it
        self._offered: dict[str, Any] = {}
        self._ways: dict[str, list[tuple[str, Take]]] = {}  # driver's topic to ours
        self._sources: dict[str, str] = {}
        self._silent: dict[str, float] = {}  # driver's topic without a message, since when
        self._said: set[str] = set()
        self._resets: dict[str, ResetWatch] = {}
        self._reset = self.offer(topics.VEHICLE_RESET)
        self._offer_all(chosen, None if wanted == EVERY else wanted.split())
        drivers = [entry.driver for entry in chosen.entries]
        self._senders = [d for d in drivers if send and (d.commands or d.services)]
        check_commands(self._senders, self._kinds)
        self._candidates: dict[str, tuple[DriverSource, float]] = {}  # since when
        self._late = self._heard = False
        self._before: str | None = None
        self._outputs: Outputs | None = None
        guard = declare_one(self, "config", "default", "a file of config/guards, or a path")
        of_guard = load(GuardParams, find("guards", guard))
        self._gate = declare(self, CommandGateParams(of_guard.limits, of_guard.watch))
        awaited = any(driver in self._senders for driver, _ in self._missing.values())
        if self._senders and (before or not awaited):
            self._outputs = self._open(self._place.expected)
        self._started_s = time.monotonic()
        self._finding: Any = None
        if self._senders:
            self.be_alone()
        if self._missing:
            self._finding = self.wall_timer(SEARCH_PERIOD_S, self._find)
            self._find()

    def _offer_all(self, chosen: Drivers, wanted: list[str] | None) -> None:
        needs: list[tuple[str, str]] = []
        for name, ours in chosen.passed:
            if (wanted is not None and ours not in wanted) or ours == topics.CLOCK.name:
                continue
            driver = chosen.entry(name).driver
            known = [topic for topic in driver.topics if topic.ours == ours]
            needs += [(ours, topic.type) for topic in known]
            usable = [topic for topic in known if is_installed(topic.type)]
            if not usable:
                continue
            for topic in usable:
                message_class(topic.type)  # an installed package may lack it, which is reported now
            self._offered[ours] = self.offer(topic_of(ours, usable[0].our_type))
            self._missing[ours] = (driver, usable)
            if ours == NEEDED:
                self.need(lambda: int(NEEDED in self._sources))
        for line in lost(needs):
            self.get_logger().error(line)

    # ---- finding -------------------------------------------------------------------------------

    def _find(self) -> None:
        """Look for what is not there yet."""
        now_s = time.monotonic()
        there = {
            name: kinds
            for name, kinds in self.get_topic_names_and_types()
            if self.count_publishers(name) > 0
        }
        for ours, (driver, usable) in list(self._missing.items()):
            notes: list[str] = []
            target = topics.full_name(self._place.namespace, ours)
            types = {name: kinds for name, kinds in there.items() if name != target}
            found = find_source(driver, usable, types, self._place, notes)
            for note in notes:
                self._say(note)
            if self._is_settled(ours, found, now_s) and found is not None:
                self._bind(ours, driver, found)
        late = now_s - self._started_s > PATIENCE_S
        self._begin_to_send(late)
        lacking = [ours for ours in self._missing if ours not in self._candidates]
        if late and lacking:
            self._say(f"nothing here for {', '.join(lacking)}")
        if not self._missing:
            self.destroy_timer(self._finding)
        elif late and not self._late and not self._candidates:
            self._late = True
            self.destroy_timer(self._finding)
            self._finding = self.wall_timer(LATE_SEARCH_PERIOD_S, self._find)

    def _is_settled(self, ours: str, found: DriverSource | None, now_s: float) -> bool:
        """Whether no other topic is likely to turn out to be one of ours instead."""
        if found is None:
            self._candidates.pop(ours, None)
            return False
        before, since_s = self._candidates.get(ours, (None, now_s))
        if before != found:
            since_s = now_s
        self._candidates[ours] = found, since_s
        return found.certain or now_s - since_s >= PATIENCE_S

    def _bind(self, ours: str, driver: Any, found: DriverSource) -> None:
        """Take one of ours from a driver's topic from now on."""
        del self._missing[ours], self._candidates[ours]
        self._sources[ours] = found.full
        self._subscribe(found.full, found.topic, ours)
        self.get_logger().info(f"{found.full} is {ours}")
        if driver in self._senders:
            self._heard = True
            self._before = self._before if self._before is not None else found.before

    def _begin_to_send(self, late: bool) -> None:
        """Offer commands where the driver's topics were found.

        Absolute names do not say where that is; others of its topics still may.
        """
        if self._outputs is not None or not self._heard:
            return
        telling = any(
            driver in self._senders and not driver.full_name(name).startswith("/")
            for driver, usable in self._missing.values()
            for topic in usable
            for name in topic.names
        )
        if self._before is not None:
            self._outputs = self._open(self._before)
        elif late or not telling:
            self._outputs = self._open(self._place.expected)

    def _open(self, before: str) -> Outputs:
        return Outputs(
            self, self._senders, before, self._gate, self._relay, self._kinds, self._lend
        )

    def _say(self, words: str) -> None:
        if words not in self._said:
            self._said.add(words)
            self.get_logger().warning(words)

    def _subscribe(self, source: str, topic: Any, ours: str) -> None:
        if ours in OWN_ODOMETRY and topic.type.startswith(PACKAGE):
            self._resets[source] = ResetWatch(topic)
        ways = self._ways.setdefault(source, [])
        convert = converter(topic, self._prefix, self._place.name, self._place.alone)
        if ours in OWN_ODOMETRY and any(self._origin_W):
            convert = in_our_map(convert, origin_shift(topic.our_type, self._origin_W))
        ways.append((ours, convert))
        if len(ways) == 1:
            self._silent[source] = time.monotonic()
            self.create_subscription(
                message_class(topic.type),
                source,
                partial(self._take, source),
                profile_of(topic),
                raw=True,
                event_callbacks=self.subscription_events(source),
            )

    # ---- passing on ----------------------------------------------------------------------------

    def _take(self, source: str, payload: bytes) -> None:
        self._silent.pop(source, None)
        for ours, convert in self._ways[source]:
            try:
                self._tell_reset(source, payload)
                made = convert(payload)
            except ValueError as error:
                self.fault(source, str(error))
                continue
            if made is not None:
                self._offered[ours].publish(made)
                self.count(ours)

    def _tell_reset(self, source: str, payload: bytes) -> None:
        """Say that the vehicle's estimator has reset, before anybody gets the pose."""
        watch = self._resets.get(source)
        words = watch.take(payload) if watch is not None else ""
        if words:
            self._reset.publish(String(data=words))
            self.count("resets")
            self.get_logger().error(words)

    def health(self) -> tuple[int, str, dict[str, Any]]:
        """What comes from where, and what is missing."""
        values: dict[str, Any] = {f"{ours} from": name for ours, name in self._sources.items()}
        if self._outputs is not None:
            values["commands"] = self._outputs.sent
            if self._outputs.relay is not None:
                values["relayed"] = self._outputs.relay.sent
            values |= {f"{each.ours} lent": each.sent for each in self._outputs.lenders}
            values["commands_refused"] = self._outputs.gate.refused or "no"
        missing = [*self._missing]
        if self._senders and self._outputs is None:
            missing.append("commands")
        silent = self._tell_silent()
        if self._outputs is not None and self._outputs.gate.refused:
            return 2, f"commands are refused: {self._outputs.gate.refused}", values
        if missing:
            return 1, f"nothing here for {', '.join(missing)}", values
        if silent:
            return 1, f"no message of {', '.join(silent)}", values
        return 0, "running", values

    def _tell_silent(self) -> list[str]:
        """Our topics whose source is published and has never brought a message; each named once."""
        now_s = time.monotonic()
        silent = [name for name, since_s in self._silent.items() if now_s - since_s > SILENT_S]
        for name in silent:
            ours = ", ".join(ours for ours, _ in self._ways[name])
            self._say(f"{name} ({ours}) is published, and no message has come in {SILENT_S:g} s")
        return [ours for name in silent for ours, _ in self._ways[name]]


def _checked(**kwargs: Any) -> DriverNode:
    """The node."""
    try:
        return DriverNode(**kwargs)
    except ImportError as error:
        raise InputError(f"node driver: {error}; another version of it is needed") from None


make, main = entry_points(_checked)
