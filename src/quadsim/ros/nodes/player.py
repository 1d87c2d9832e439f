"""Node ``player``: a bag on DDS, in the bag's order, with its time.

Messages go out as they lie in the bag. A thread of its own publishes; the executor serves
``/player/pause`` (SetBool).

Nodes that are waited for are asked on their parameter services, which every ROS node has: an
executor works in the order of arrival, or takes one message of each topic in turn, so a node that
answers has taken what was sent before. This does not depend on the middleware's acknowledgements,
which Fast DDS asks for only every 3 s.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from rcl_interfaces.srv import GetParameters
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.type_support import check_for_type_support
from std_srvs.srv import SetBool

from quadsim.bag.reading import Bag, open_bag
from quadsim.bag.topics import namespaces
from quadsim.base.errors import FlightError, InputError
from quadsim.ros.graph.options import PlayOptions
from quadsim.ros.messages.world import make_clock
from quadsim.ros.parts.playback import (
    CLOCK,
    TICKS,
    Item,
    Offer,
    Pace,
    Playback,
    chosen_topics,
    fits,
    offer_of,
)
from quadsim.ros.runtime import qos, topics
from quadsim.ros.runtime.base import QuadsimNode
from quadsim.ros.runtime.params import declare, declare_one, declare_texts
from quadsim.ros.runtime.runtime import entry_points
from quadsim.ros.runtime.topics import message_class

LOOK_PERIOD_S = 0.02
#: Until the nodes that are waited for must answer at first (they may have to compile), and later;
#: after so long without an answer they are asked again: one is lost where the server has not yet
#: found who asked.
START_S, ANSWER_S, ASK_AGAIN_S = 180.0, 10.0, 1.0
#: What several nodes get to find each other: so many answers of all, and the time between.
ROUNDS, ROUND_S = 5, 0.2
#: Until everything must be acknowledged at the end; Fast DDS asks for it every 3 s, and forgets a
#: listener that died without a word after 20 s.
END_S = 25.0
#: Listeners are there when for so long no other was found; and for how long they are waited for.
SETTLE_S, LISTENERS_S = 0.5, 5.0
NOW = Duration(seconds=0)
WAITS = "waits for listeners"

Progress = Callable[[float, str], None]


class InStep:
    """The nodes that a player waits for.

    Args:
        node: who asks; its executor must run in another thread than the one that waits.
        pace: what is woken by an answer, and ends a wait.
    """

    def __init__(self, node: Node, names: Sequence[str], pace: Pace) -> None:
        self.names, self._pace = list(names), pace
        self._clients: dict[str, Any] = {
            name: node.create_client(GetParameters, f"{name}/get_parameters") for name in names
        }

    def wait(self, within_s: float) -> list[str]:
        """Ask all at once, and wait; who has not answered by then."""
        return self._wait(self.names, within_s)

    def wait_in_turn(self, within_s: float) -> list[str]:
        """Ask one after the other: then what one has sent to the next has come, too."""
        return [name for name in self.names if self._wait([name], within_s)]

    def _wait(self, missing: list[str], within_s: float) -> list[str]:
        for _ in range(max(1, round(within_s / ASK_AGAIN_S))):
            asked = {name: self._ask(self._clients[name]) for name in missing}
            self._pace.wait_until(partial(_all_done, asked.values()), ASK_AGAIN_S)
            missing = [name for name, future in asked.items() if not _all_done([future])]
            if not missing or self._pace.stopping:
                break
        return missing

    def _ask(self, client: Any) -> Any:
        """An answer to come; None where nobody is there yet."""
        if not client.service_is_ready():
            return None
        future = client.call_async(GetParameters.Request())
        future.add_done_callback(lambda _: self._pace.notify())
        return future


def _all_done(futures: Iterable[Any]) -> bool:
    return all(future is not None and future.done() for future in futures)


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
        wanted: patterns of topics; empty: all.
        excluded: patterns of what is left out; ``/clock``: the one of the log times, too.
        left_out: names of nodes whose topics are left out.
        reliable: offer every topic reliable, whatever was recorded.
        window: messages of a topic that may be on their way to a node that is waited for.

    Raises:
        InputError: nothing is left to play.
    """

    def __init__(
        self,
        node: QuadsimNode,
        bag: Bag,
        wanted: Collection[str],
        excluded: Collection[str],
        left_out: Collection[str],
        reliable: bool,
        window: int,
    ) -> None:
        self._node, self._window = node, window
        self.by_topic: dict[str, Output] = {}
        self.skipped: dict[str, str] = {}
        table = dict(topics.every_topic(namespaces(bag)))
        omitted = topics.published_by(table, left_out)
        for name in chosen_topics(bag, wanted, excluded):
            if name in omitted:
                continue
            kind = _installed(bag.types[name])
            if kind is None:
                self.skipped[name] = bag.types[name]
                continue
            known = table.get(name)
            default = None if known is None else _offer(known.offered)
            offer = offer_of(name, bag.qos[name], default, bag.counts[name])
            self._add(name, name, kind, offer._replace(reliable=offer.reliable or reliable))
        for type_name in sorted(set(self.skipped.values())):
            of = ", ".join(name for name, kind in self.skipped.items() if kind == type_name)
            node.get_logger().warning(f"{type_name} is not installed here; not played: {of}")
        if not self.by_topic:
            raise InputError(
                f"{bag.path}: nothing of it can be played; see --topics, --exclude, --without"
            )
        if CLOCK not in self.by_topic and not fits(CLOCK, excluded):
            self._add(TICKS, CLOCK, topics.CLOCK.message, _offer(topics.CLOCK.offered))

    def _add(self, topic: str, name: str, kind: Any, offer: Offer) -> None:
        publisher = self._node.create_publisher(
            kind, name, qos.profile(*offer), event_callbacks=self._node.publisher_events(name)
        )
        self.by_topic[topic] = Output(publisher, offer, self._window)

    @property
    def counts(self) -> dict[str, int]:
        """Messages published so far, by the name on DDS."""
        return {output.name: output.count for output in self.by_topic.values()}

    def await_listeners(self, pace: Pace) -> None:
        """Wait until everybody who listens is found, and nobody else for a while."""
        for _ in range(round(LISTENERS_S / SETTLE_S)):
            found = self._found()

            def are_more(before: int = found) -> bool:
                return self._found() > before

            more = pace.wait_until(are_more, SETTLE_S)
            known = sum(self._node.count_subscribers(o.name) for o in self.by_topic.values())
            if pace.stopping or (not more and known <= found):
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
                " play without (--exclude /clock)"
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
        self, pace: Pace, waited_for: Collection[str], within_s: float
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

        if not pace.wait_until(all_acknowledged, within_s) and not pace.stopping:
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


class PlayerNode(QuadsimNode):
    """Plays a bag.

    Args:
        stop: set when the bag has been played.
        progress: called now and then with the time played, s, and a word about the state.
        kwargs: as of :class:`QuadsimNode`.

    Raises:
        InputError: the bag cannot be read, or nothing of it can be played.
    """

    def __init__(
        self, stop: threading.Event | None = None, progress: Progress | None = None, **kwargs: Any
    ) -> None:
        self._stack = ExitStack()
        self._thread: threading.Thread | None = None
        super().__init__("player", **kwargs)
        params = declare(self, PlayOptions())
        path = declare_one(self, "bag", "", "rosbag2 folder or file")
        driver = declare_one(self, "driver", "", "who published it, if not quadsim")
        wanted = declare_texts(self, "topics", "patterns of what is played; empty: all")
        excluded = declare_texts(self, "exclude", "patterns of what is left out")
        without = declare_texts(self, "without", "nodes whose topics are left out")
        names = declare_texts(self, "wait_for", "nodes that must be there, and take what is sent")
        reliable = declare_one(self, "reliable", False, "offer every topic reliable")
        words = "at rate 0: messages of a topic until the nodes of wait_for are asked"
        window = declare_one(self, "window", 1, words, ge=1, le=100)
        if not path:
            raise InputError(f"node {self.get_fully_qualified_name()}: parameter bag is empty")
        self._stop, self._progress = stop or threading.Event(), progress
        self._failure: Exception | None = None
        self._state = WAITS
        self._began_s = self.wall_s = 0.0
        self.finished = False
        bag = self._stack.enter_context(open_bag(Path(path), driver or None))
        for note in bag.notes:
            self.get_logger().info(note)
        self.outputs = PlayedTopics(self, bag, wanted, excluded, without, reliable, window)
        self._playback = self._section(bag, params)
        self.pace = Pace(params.rate, params.paused, self._playback.start_ns, self._repeat_time)
        self._in_step = InStep(self, names, self.pace)
        self.create_service(SetBool, "~/pause", self._on_pause)
        self.wall_timer(LOOK_PERIOD_S, self._look)
        self._thread = threading.Thread(target=self._work, name="player")
        self._thread.start()

    def _section(self, bag: Bag, params: PlayOptions) -> Playback:
        """The part of the bag that is played."""
        begin_ns, length_s = next(bag.messages(bag.types)).log_ns, bag.duration_s
        if params.start_s > length_s:
            raise InputError(
                f"{bag.path}: start {params.start_s:g} s is beyond its end, {length_s:.3f} s"
            )
        start_ns = begin_ns + round(params.start_s * 1e9)
        stop_ns = begin_ns + round(length_s * 1e9) + 1
        if params.duration_s:
            stop_ns = min(stop_ns, start_ns + round(params.duration_s * 1e9))
        latched = {name: output.latched for name, output in self.outputs.by_topic.items()}
        return Playback(bag, latched, start_ns, stop_ns)

    # ---- playing, in the thread ----------------------------------------------------------------

    def _work(self) -> None:
        try:
            self._await_all()
            self._play()
            self.wall_s = time.monotonic() - self._began_s
            if not self.pace.stopping:
                self._finish()
        except Exception as error:
            self._failure = error  # raised where it is seen, in the executor's thread
        else:
            self._stop.set()

    def _await_all(self) -> None:
        """Wait for the nodes that were named, and until everybody who listens is found."""
        missing = self._in_step.wait(START_S)
        if missing and not self.pace.stopping:
            raise FlightError(f"after {START_S:g} s not there: {', '.join(missing)}")
        self.outputs.await_listeners(self.pace)
        for _ in range(ROUNDS if len(self._in_step.names) > 1 else 0):
            # whether they have found each other cannot be seen from here; that they work on it can
            self.pace.wait_until(lambda: False, ROUND_S)
            self._let_them_take_it()
        self.outputs.name_rivals(self._in_step.names)
        self._began_s = time.monotonic()

    def _play(self) -> None:
        """Play to the end, or until it is to stop."""
        self._state = "plays"
        self._let_them_take_it()
        beginning = True
        for item in self._playback:
            if not item.urgent:
                if beginning:  # who hears that time went back shall do so before what follows
                    beginning = False
                    self._let_them_take_it()
                    self.pace.begin()
                if not self.pace.wait(item.log_ns):
                    return
            self._publish(item)

    def _publish(self, item: Item) -> None:
        output = self.outputs.by_topic[item.topic]
        if self._in_step.names and self.pace.rate == 0.0:
            if output.underway >= output.limit:
                self._let_them_take_it()
            output.underway += 1
        output.publish(item.payload if item.topic != TICKS else make_clock(item.log_ns))

    def _let_them_take_it(self) -> None:
        """Wait until the nodes that were named, if any, have taken what is underway."""
        if not self._in_step.names:
            return
        missing = self._in_step.wait(ANSWER_S)
        if missing and not self.pace.stopping:
            raise FlightError(f"for {ANSWER_S:g} s no answer of {', '.join(missing)}")
        for output in self.outputs.by_topic.values():
            output.underway = 0

    def _finish(self) -> None:
        """Wait until all has been delivered."""
        self._state = "ends"
        self.outputs.await_acknowledgement(self.pace, self._in_step.names, END_S)
        missing = self._in_step.wait_in_turn(ANSWER_S)
        if missing and not self.pace.stopping:
            raise FlightError(f"at the end for {ANSWER_S:g} s no answer of {', '.join(missing)}")
        self.finished = not self.pace.stopping
        self._state = "over"

    # ---- in the executor -----------------------------------------------------------------------

    def _repeat_time(self) -> None:
        """While it stands: say again what time it is, for those who come late."""
        if TICKS in self.outputs.by_topic:
            ticks = self.outputs.by_topic[TICKS].publisher
            ticks.publish(make_clock(self.pace.position_ns))

    def _on_pause(self, request: Any, response: Any) -> Any:
        self.pace.pause(request.data)
        response.success, response.message = True, self._describe()
        return response

    def _look(self) -> None:
        """Progress, and what went wrong in the thread."""
        if self._failure is not None:
            raise self._failure
        if self._progress is not None and self._state != WAITS:
            self._progress(self.played_s, self._describe())

    @property
    def played_s(self) -> float:
        """Bag time from where it began to where it is, s."""
        return (self.pace.position_ns - self._playback.start_ns) * 1e-9

    def _describe(self) -> str:
        state = "paused" if self.pace.paused and self._state == "plays" else self._state
        return f"{state}, {self.played_s:.3f} s played, rate {self.pace.rate:.3g}"

    def health(self) -> tuple[int, str, dict[str, Any]]:
        """Where it is, and how exactly."""
        values: dict[str, Any] = {
            "rate": self.pace.rate,
            "messages": sum(self.outputs.counts.values()),
        }
        if self.pace.lateness.count:
            values["late_median_ms"] = self.pace.lateness.percentile_ms(50.0)
            values["late_99_ms"] = self.pace.lateness.percentile_ms(99.0)
        return 0, self._describe(), values

    def destroy_node(self) -> None:
        """End the thread, close the bag; the node is gone afterwards."""
        if self._thread is not None:
            self.pace.stop()
            self._thread.join()
        self._stack.close()
        super().destroy_node()


make, main = entry_points(PlayerNode, stops=True)
