"""The publishers of a player: topics of a bag, their quality of service, and who hears them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from rclpy.duration import Duration
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.type_support import check_for_type_support

from quadsim.bag.reading import Bag
from quadsim.bag.topics import namespaces
from quadsim.base.errors import FlightError, InputError
from quadsim.ros.player.control import PlayControl
from quadsim.ros.player.playback import CLOCK, CLOCK_TYPE, TICKS, Offer, Selection, offer_of
from quadsim.ros.runtime import qos, topics
from quadsim.ros.runtime.base import QuadsimNode
from quadsim.ros.runtime.topics import message_class

#: Listeners are there when for so long no other was found; and for how long they are waited for.
SETTLE_S, LISTENERS_S = 0.5, 5.0
NOW = Duration(seconds=0)


class Output:
    """A publisher of one topic.

    Attributes:
        publisher: publishes a message, or its bytes.
        name: on DDS.
        latched: whether late listeners get its last messages.
        limit: how many messages may be on their way to a listener that is waited for.
        underway: how many are, at most.
        count: published so far.
    """

    def __init__(self, publisher: Any, offer: Offer, window: int) -> None:
        self.publisher = publisher
        self.name: str = publisher.topic_name
        self.latched = offer.latched
        self.limit = max(1, min(window, offer.depth // 2))
        self.underway = self.count = 0

    def publish(self, message: Any) -> None:
        """Publish and count one."""
        self.publisher.publish(message)
        self.count += 1


class PlayedTopics:
    """All publishers of a player.

    Args:
        node: whose they are.
        bag: what is played.
        selection: which topics.
        left_out: names of nodes whose topics are left out.
        clock: as of :class:`quadsim.ros.nodes.player.PlayerParams`.
        window: messages of a topic that may be on their way to a node that is waited for.

    Raises:
        InputError: nothing is left to play.
    """

    def __init__(
        self,
        node: QuadsimNode,
        bag: Bag,
        selection: Selection,
        left_out: Collection[str],
        clock: str,
        window: int,
    ) -> None:
        self._node = node
        self._window = window
        self.by_topic: dict[str, Output] = {}
        self.skipped: dict[str, str] = {}
        table = dict(topics.every_topic(namespaces(bag)))
        excluded = topics.published_by(table, left_out)
        if clock in ("log", "none"):
            excluded.add(CLOCK)
        for name in selection.chosen(bag):
            if name in excluded:
                continue
            kind = _installed(bag.types[name])
            if kind is None:
                self.skipped[name] = bag.types[name]
                continue
            known = table.get(name)
            default = None if known is None else _offer(known.offered)
            offer = offer_of(name, bag.qos[name], default, bag.counts[name])
            offer = offer._replace(reliable=offer.reliable or selection.reliable)
            self._add(name, selection.renamed(name), kind, offer)
        for type_name in sorted(set(self.skipped.values())):
            of = ", ".join(name for name, kind in self.skipped.items() if kind == type_name)
            node.get_logger().warning(f"{type_name} is not installed here; not played: {of}")
        if not self.by_topic:
            raise InputError(
                f"{bag.path}: nothing of it can be played; see --topics, --exclude, --without"
            )
        if clock == "log" or (clock == "auto" and CLOCK not in self.by_topic):
            self._add(TICKS, CLOCK, message_class(CLOCK_TYPE), _offer(topics.CLOCK.offered))

    def _add(self, topic: str, name: str, kind: Any, offer: Offer) -> None:
        publisher = self._node.create_publisher(
            kind, name, qos.profile(*offer), event_callbacks=self._node.publisher_events(name)
        )
        self.by_topic[topic] = Output(publisher, offer, self._window)

    @property
    def counts(self) -> dict[str, int]:
        """Messages published so far, by the name on DDS."""
        return {output.name: output.count for output in self.by_topic.values()}

    def await_listeners(self, control: PlayControl) -> None:
        """Wait until everybody who listens is found, and nobody else for a while."""
        for _ in range(round(LISTENERS_S / SETTLE_S)):
            found = self._found()

            def are_more(before: int = found) -> bool:
                return self._found() > before

            more = control.wait_until(are_more, SETTLE_S)
            known = sum(self._node.count_subscribers(o.name) for o in self.by_topic.values())
            if control.stopping or (not more and known <= found):
                return

    def _found(self) -> int:
        outputs = self.by_topic.values()
        return sum(output.publisher.get_subscription_count() for output in outputs)

    def name_rivals(self, friends: Collection[str]) -> None:
        """Say which topics somebody else publishes, too.

        Args:
            friends: full names of nodes that may.

        Raises:
            InputError: the time is among them.
        """
        ours = {output.name for output in self.by_topic.values()}
        if CLOCK in ours and self._node.count_publishers(CLOCK) > 1:
            raise InputError(
                "somebody else publishes /clock here: stop it, choose another domain (--domain), or"
                " play without (--clock none)"
            )
        for name in sorted(ours):
            if name.startswith("/tf") or name == topics.DIAGNOSTICS.name:
                continue  # has many publishers
            infos = self._node.get_publishers_info_by_topic(name)
            others = [other for other in self._nodes(infos) if other not in friends]
            if others:
                self._node.get_logger().warning(
                    f"{name} is published by {', '.join(others)} too; leave it out with --exclude,"
                    " or all that a node publishes with --without"
                )

    def _nodes(self, infos: Iterable[Any]) -> list[str]:
        """Full names of the nodes of some endpoints, without this one."""
        names = {f"{info.node_namespace.rstrip('/')}/{info.node_name}" for info in infos}
        return sorted(names - {self._node.get_fully_qualified_name()})

    def await_acknowledgement(
        self, control: PlayControl, waited_for: Collection[str], within_s: float
    ) -> None:
        """Wait until listeners have everything; those that are waited for anyway left out.

        Raises:
            FlightError: they do not within the time.
        """
        open_ones = [
            output
            for output in self.by_topic.values()
            if set(self._nodes(self._node.get_subscriptions_info_by_topic(output.name)))
            - set(waited_for)
        ]

        def all_acknowledged() -> bool:
            while open_ones and open_ones[-1].publisher.wait_for_all_acked(NOW):
                open_ones.pop()
            return not open_ones

        if not control.wait_until(all_acknowledged, within_s) and not control.stopping:
            names = ", ".join(sorted(output.name for output in open_ones))
            raise FlightError(
                f"within {within_s:g} s not all was acknowledged by listeners of {names}"
            )


def _installed(type_name: str) -> Any:
    """Class of a type; None where it, or what DDS needs of it, is not installed."""
    try:
        kind = message_class(type_name)
        check_for_type_support(kind)
    except (ImportError, AttributeError, ValueError, RuntimeError):
        return None
    return kind


def _offer(profile: QoSProfile) -> Offer:
    return Offer(
        profile.depth,
        profile.reliability == ReliabilityPolicy.RELIABLE,
        profile.durability == DurabilityPolicy.TRANSIENT_LOCAL,
    )
