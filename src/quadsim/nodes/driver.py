"""Node ``driver``: a driver's topics in, ours out, converted; our commands to it, converted.

What is which, in which frames, types and quality of service, is said by files of
``config/drivers``; see docs/drivers.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from rclpy.context import Context

from quadsim.errors import InputError
from quadsim.nodes import topics
from quadsim.nodes.base import QuadsimNode
from quadsim.nodes.driver_inputs import Place, converter, find_source, profile_of, topic_of
from quadsim.nodes.driver_outputs import Outputs
from quadsim.nodes.drivers import SIM, Drivers, choose
from quadsim.nodes.packages import installed, lost
from quadsim.nodes.params import declare_bool, declare_text
from quadsim.nodes.runtime import main_of
from quadsim.nodes.topics import message_class
from quadsim.nodes.vehicles import frame_prefix

SEARCH_PERIOD_S = 0.2
#: Wall time after which the log says what is not there.
PATIENCE_S = 5.0
#: Without it nothing flies, so the graph is complete when it is there.
NEEDED = "imu/data_raw"
#: All topics that the chain gives.
EVERY = "*"

Take = Callable[[bytes], "bytes | None"]


class DriverNode(QuadsimNode):
    """Passes on what drivers publish, and sends what they take.

    Parameters: ``drivers`` (a chain, as of :func:`quadsim.nodes.drivers.choose`), ``topics`` (those
    of ours that it gives), ``driver_namespace``, ``alone``, ``send``.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__("driver", **kwargs)
        chain = declare_text(self, "drivers", "", "files of config/drivers, or paths, with commas")
        wanted = declare_text(
            self, "topics", EVERY, "of ours, with spaces; *: all that nodes of ours do not publish"
        )
        before = declare_text(self, "driver_namespace", "", "before the driver's topics: /uav1")
        alone = declare_bool(self, "alone", True, "there is one vehicle")
        send = declare_bool(self, "send", True, "take commands, and ask the vehicle for things")
        chosen = choose(chain) if wanted == EVERY else choose(chain, ())
        if not chosen.entries:
            raise InputError(
                f"node {self.get_fully_qualified_name()}: drivers: {SIM} needs no node"
            )
        self._place = Place(self.get_namespace(), before, alone)
        self._prefix = frame_prefix(self.get_namespace())
        self._missing: dict[str, Any] = {}  # our topic to driver and what its file says of it
        self._offered: dict[str, Any] = {}
        self._ways: dict[str, list[tuple[str, Take]]] = {}  # driver's topic to ours
        self._sources: dict[str, str] = {}
        self._said: set[str] = set()
        self._offer_all(chosen, None if wanted == EVERY else wanted.split())
        drivers = [entry.driver for entry in chosen.entries]
        self._senders = [d for d in drivers if send and (d.commands or d.services)]
        for driver in self._senders:
            types = [c.type for c in driver.commands] + [s.type for s in driver.services]
            for type_name in filter(installed, types):
                message_class(type_name)
        self._outputs: Outputs | None = None
        awaited = any(driver in self._senders for driver, _ in self._missing.values())
        if self._senders and (before or not awaited):
            self._outputs = Outputs(self, self._senders, self._place.expected)
        self._started_s = time.monotonic()
        self._finding: Any = None
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
            usable = [topic for topic in known if installed(topic.type)]
            if not usable:
                continue
            for topic in usable:
                message_class(topic.type)  # an installed package may lack it, which is said now
            self._offered[ours] = self.offer(topic_of(ours, usable[0].our_type))
            self._missing[ours] = (driver, usable)
            if ours == NEEDED:
                self.need(lambda: int(NEEDED in self._sources))
        for line in lost(needs):
            self.get_logger().error(line)

    # ---- finding -------------------------------------------------------------------------------

    def _find(self) -> None:
        """Look for what is not there yet."""
        there = dict(self.get_topic_names_and_types())
        for ours, (driver, usable) in list(self._missing.items()):
            notes: list[str] = []
            target = topics.full_name(self._place.namespace, ours)
            types = {
                name: kinds
                for name, kinds in there.items()
                if name != target and self.count_publishers(name) > 0
            }
            found = find_source(driver, usable, types, self._place, notes)
            for note in notes:
                self._say(note)
            if found is None:
                continue
            topic, source, before = found
            del self._missing[ours]
            self._sources[ours] = source
            self._subscribe(source, topic, ours)
            self.get_logger().info(f"{source} is {ours}")
            if self._outputs is None and before is not None and driver in self._senders:
                self._outputs = Outputs(self, self._senders, before)
        if not self._missing:
            self.destroy_timer(self._finding)
        elif time.monotonic() - self._started_s > PATIENCE_S:
            self._say(f"nothing here for {', '.join(self._missing)}")

    def _say(self, words: str) -> None:
        if words not in self._said:
            self._said.add(words)
            self.get_logger().warning(words)

    def _subscribe(self, source: str, topic: Any, ours: str) -> None:
        ways = self._ways.setdefault(source, [])
        ways.append((ours, converter(topic, self._prefix)))
        if len(ways) == 1:
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
        for ours, convert in self._ways[source]:
            try:
                made = convert(payload)
            except ValueError as error:
                self.fault(source, str(error))
                continue
            if made is not None:
                self._offered[ours].publish(made)
                self.count(ours)

    def health(self) -> tuple[int, str, dict[str, Any]]:
        """What comes from where, and what is missing."""
        values: dict[str, Any] = {f"{ours} from": name for ours, name in self._sources.items()}
        if self._outputs is not None:
            values["commands"] = self._outputs.sent
        if self._missing:
            return 1, f"nothing here for {', '.join(self._missing)}", values
        return 0, "running", values


def make(context: Context, **kwargs: Any) -> DriverNode:
    """Make the node in a context.

    Raises:
        InputError: of the drivers; a type that its package does not have.
    """
    try:
        return DriverNode(context=context, **kwargs)
    except ImportError as error:
        raise InputError(f"node driver: {error}; another version of it is needed") from None


def main() -> None:
    """Run the node."""
    main_of(make)


if __name__ == "__main__":
    main()
