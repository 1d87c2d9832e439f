"""What every node has: endpoints by the table of topics, counts of what came, diagnostics.

A node reports on ``/diagnostics`` once a second, and at once when all its endpoints have found a
counterpart: whoever starts the graph waits for that, not for a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cached_property, partial
from inspect import Parameter as Argument
from inspect import Signature
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.clock import Clock, JumpThreshold
from rclpy.clock_type import ClockType
from rclpy.duration import Duration
from rclpy.event_handler import PublisherEventCallbacks, SubscriptionEventCallbacks
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.qos import qos_policy_name_from_kind

from quadsim.ros.graph.vehicles import frame_prefix
from quadsim.ros.messages.cdr import MessageError, deserialize
from quadsim.ros.runtime import qos, topics
from quadsim.ros.runtime.domain import held_name
from quadsim.ros.runtime.intra_process import Listening, handing_of
from quadsim.ros.runtime.topics import Topic

REPORT_PERIOD_S = 1.0
#: How often a node that still misses a counterpart looks for it.
SEARCH_PERIOD_S = 0.1
#: Simulated time that goes back, however little.
BACK = JumpThreshold(min_forward=None, min_backward=Duration(nanoseconds=-1), on_clock_change=False)

NO_ARGUMENTS = Signature()
#: By which rclpy sees that a callback of a subscription takes a message and what is known of it.
TWO_ARGUMENTS = Signature([Argument(name, Argument.POSITIONAL_ONLY) for name in ("m", "i")])

LEVELS = (DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR)


def make_status(
    level: int, name: str, message: str, values: dict[str, Any] | None = None
) -> DiagnosticStatus:
    """A DiagnosticStatus; numbers become texts."""
    return DiagnosticStatus(
        level=LEVELS[level],
        name=name,
        message=message,
        values=[KeyValue(key=key, value=_text(value)) for key, value in (values or {}).items()],
    )


def make_event(
    stamp_ns: int, level: int, name: str, message: str, **values: Any
) -> DiagnosticStatus:
    """Something that happened at a time, for ``events``."""
    return make_status(level, name, message, {"stamp_s": f"{stamp_ns * 1e-9:.3f}", **values})


def values_of(status: DiagnosticStatus) -> dict[str, str]:
    """Values of a status by their keys."""
    return {pair.key: pair.value for pair in status.values}


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


class QuadsimNode(Node):
    """A node of the graph.

    Args:
        name: default name; ROS arguments can change it.
        overrides: parameters set by whoever makes the node.
        kwargs: as of :class:`rclpy.node.Node` (context, namespace, cli_args, ...).
    """

    def __init__(self, name: str, overrides: dict[str, Any] | None = None, **kwargs: Any) -> None:
        given = [Parameter(key, value=value) for key, value in (overrides or {}).items()]
        super().__init__(name, parameter_overrides=given, **kwargs)
        #: Whether the node was started in simulated time, as it never is with a real vehicle.
        self.simulated = bool(self.get_parameter("use_sim_time").value)
        self.counts: dict[str, int] = {}
        self._faults: set[str] = set()
        self._needed: list[Callable[[], int]] = []
        self._paused_subscriptions: set[Any] = set()
        self._held = ExitStack()
        self._handed: list[tuple[str, Listening]] = []
        self._handing = handing_of(self.context)
        self._steady = Clock(clock_type=ClockType.STEADY_TIME)
        self._report = self.create_publisher(
            DiagnosticArray, topics.DIAGNOSTICS.name, topics.DIAGNOSTICS.offered
        )
        self.wall_timer(REPORT_PERIOD_S, self.report)
        self._search_timer = self.wall_timer(SEARCH_PERIOD_S, self._search)

    def wall_timer(self, period_s: float, callback: Callable[[], None]) -> Any:
        """Timer on the steady clock, which goes on where simulated time stands."""
        handing = self._handing

        def tick() -> None:
            try:
                if handing is None:
                    callback()
                else:
                    handing.run(callback)
            except Exception as error:
                if not self.endures(error):
                    raise

        # the executor asks for it at each tick; to find it takes longer than many a callback
        tick.__signature__ = NO_ARGUMENTS  # type: ignore[attr-defined]
        return self.create_timer(period_s, tick, clock=self._steady)

    def be_alone(self) -> None:
        """Be the only node with this name on the domain, until the node is destroyed.

        Raises:
            InputError: there is one already on this machine.
        """
        domain, name = self.context.get_domain_id(), self.get_fully_qualified_name()
        self._held.enter_context(held_name(domain, name))

    def when_destroyed(self, callback: Callable[[], None]) -> None:
        """Call when the node is destroyed, the last first.

        A node that refuses its parameters is destroyed, too, before it holds everything.
        """
        self._held.callback(callback)

    def destroy_node(self) -> None:
        """Give back what the node holds."""
        try:
            self._held.close()
        finally:
            super().destroy_node()

    def endures(self, error: Exception) -> bool:
        """Whether the node goes on after an exception that nobody expected; here: it does not."""
        return False

    # ---- time ----------------------------------------------------------------------------------

    def when_time_goes_back(self, callback: Callable[[], None], anew: str) -> None:
        """Call when ``/clock`` goes back: a bag is played again, a simulation was restarted.

        Args:
            callback: begins anew.
            anew: what it does, in words.
        """
        if not self.simulated:
            return

        def jumped(jump: Any) -> None:
            back_s = -jump.delta.nanoseconds * 1e-9
            self.get_logger().warning(f"/clock went back by {back_s:.3f} s: {anew}")
            callback()

        self._jumps = self.get_clock().create_jump_callback(BACK, post_callback=jumped)

    # ---- endpoints -----------------------------------------------------------------------------

    def frame(self, name: str) -> str:
        """Name of a frame of this vehicle: with a prefix where there are several."""
        return frame_prefix(self.get_namespace()) + name

    def count(self, what: str) -> None:
        """One more of something that ``/diagnostics`` tells."""
        self.counts[what] = self.counts.get(what, 0) + 1

    def offer(self, topic: Topic, name: str | None = None, needed: bool = False) -> Any:
        """Publisher of a topic.

        Args:
            needed: whether the graph is incomplete while nobody listens.
        """
        full = name or topic.name
        publisher: Any = self.create_publisher(
            topic.message, full, topic.offered, event_callbacks=self.publisher_events(full)
        )
        if self._handing is not None and topic.handed:
            publisher = self._handing.offer(self.resolve_topic_name(full), publisher)
        if needed:
            self.need(publisher.get_subscription_count)
        return publisher

    def listen(
        self,
        topic: Topic,
        callback: Callable[[Any], None],
        name: str | None = None,
        raw: bool = True,
        needed: bool = False,
        reliable: bool = True,
        note_publishers: bool = False,
    ) -> Listening:
        """Listen to a topic, by default to the bytes.

        Whatever the callback takes, bytes come, and are read here: what is no message is refused as
        one that the callback raises a :class:`MessageError` of: counted, and named in the log once.

        Args:
            callback: takes the bytes or the message.
            raw: whether it takes bytes.
            needed: whether the graph is incomplete while nobody publishes.
            reliable: False takes a best-effort publisher too.
            note_publishers: keep who has spoken, for :meth:`rivals`.
        """
        full = name or topic.name
        wanted = topic.wanted if reliable else qos.best_effort(topic.wanted)

        kind = topic.message

        def guarded(payload: bytes) -> None:
            try:
                callback(payload if raw else deserialize(payload, kind))
            except MessageError as error:
                self.fault(full, str(error))
            except Exception as error:
                if not self.endures(error):
                    raise

        handing = self._handing
        listening = Listening(kind, guarded, wanted.depth)
        take: Callable[..., None] = guarded if handing is None else partial(handing.run, guarded)

        def note_and_take(*given: Any) -> None:
            # rclpy's events executor gives one tuple, and Humble the bytes alone
            payload, about = (*(given[0] if isinstance(given[0], tuple) else given), {})[:2]
            gid = about.get("publisher_gid") or {"data": b""}
            listening.heard[gid["data"]] = time.monotonic_ns()
            take(payload)

        note_and_take.__signature__ = TWO_ARGUMENTS  # type: ignore[attr-defined]

        def subscribe() -> None:
            subscription = listening.subscription = self.create_subscription(
                topic.message,
                full,
                note_and_take if note_publishers else take,
                wanted,
                raw=True,
                event_callbacks=self.subscription_events(full),
            )
            if listening.paused:
                self._paused_subscriptions.add(subscription)

        if handing is not None and topic.handed:
            resolved = self.resolve_topic_name(full)
            handing.listen(resolved, listening, subscribe)
            self._handed.append((resolved, listening))
        else:
            subscribe()
        if needed:
            self.need(listening.get_publisher_count)
        return listening

    def rivals(
        self, topic: str, heard: dict[bytes, int] | None = None, within_s: float = 0.0
    ) -> str:
        """Who publishes a topic, in words, where more than one does; else empty.

        Of those ``heard`` there (:class:`Listening`), who are still listed or spoke within a time.
        """
        full = self.resolve_topic_name(topic)
        heard = None if heard is None or b"" in heard else heard
        if (self.count_publishers(full) if heard is None else len(heard)) < 2:
            return ""
        listed = {
            bytes(one.endpoint_gid): f"{one.node_namespace.rstrip('/')}/{one.node_name}"
            for one in self.get_publishers_info_by_topic(full)
        }
        names = sorted(listed.values())
        if heard is not None:
            oldest_ns = time.monotonic_ns() - within_s * 1e9
            for gid in [gid for gid in heard if gid not in listed and heard[gid] < oldest_ns]:
                del heard[gid]
            names = sorted(listed.get(gid, "one not listed") for gid in heard)
        return f"{len(names)} publish {topic}: {', '.join(names)}" if len(names) > 1 else ""

    # ---- messages that wake nobody -------------------------------------------------------------

    @property
    def subscriptions(self) -> Iterator[Any]:
        """What the executor takes messages from: not what a node has paused."""
        return (one for one in super().subscriptions if one not in self._paused_subscriptions)

    def pause_messages(self, listening: Listening) -> Listening:
        """Let messages wait, as many as the topic keeps, until somebody takes them.

        A message that wakes the executor costs several times what the message itself costs.
        """
        if not listening.paused:
            listening.paused = True
            if listening.subscription is not None:
                self._paused_subscriptions.add(listening.subscription)
                self._wake()
        return listening

    def resume_messages(self, listening: Listening) -> None:
        """Let messages call back again."""
        if listening.paused:
            listening.resume()
            self._paused_subscriptions.discard(listening.subscription)
            self._wake()

    def _wake(self) -> None:
        """Let the executor ask for the subscriptions again."""
        if self.executor is not None:
            self.executor.wake()

    @cached_property
    def events(self) -> Any:
        """Publisher of ``events``."""
        return self.offer(topics.EVENTS)

    def tell_event(self, level: int, name: str, message: str) -> None:
        """Say on ``events`` that something happened."""
        self.events.publish(make_status(level, name, message))

    def need(self, count: Callable[[], int]) -> None:
        """Let the node be incomplete while a count is 0."""
        self._needed.append(count)

    def forget(self, listening: Listening) -> None:
        """Listen no more."""
        self._needed = [
            need for need in self._needed if getattr(need, "__self__", None) is not listening
        ]
        if self._handing is not None:
            self._handing.forget(listening)
            self._handed = [one for one in self._handed if one[1] is not listening]
        if listening.subscription is not None:
            self._paused_subscriptions.discard(listening.subscription)
            self.destroy_subscription(listening.subscription)

    def fault(self, topic: str, reason: str) -> None:
        """Count a message that is not used, and say so the first time."""
        self.count(f"{topic} refused")
        if topic not in self._faults:
            self._faults.add(topic)
            self.get_logger().warning(f"{topic}: a message is not used: {reason}")

    def _incompatible(self, topic: str, event: Any) -> None:
        policy = qos_policy_name_from_kind(event.last_policy_kind)
        self.count(f"{topic} incompatible")
        self.get_logger().error(
            f"{topic}: the other side's quality of service does not fit: {policy}"
        )

    def subscription_events(self, topic: str) -> SubscriptionEventCallbacks:
        """Callbacks that name a topic whose quality of service does not fit."""
        named = partial(self._incompatible, topic)
        return SubscriptionEventCallbacks(incompatible_qos=named, use_default_callbacks=False)

    def publisher_events(self, topic: str) -> PublisherEventCallbacks:
        """The same for a publisher."""
        named = partial(self._incompatible, topic)
        return PublisherEventCallbacks(incompatible_qos=named, use_default_callbacks=False)

    # ---- diagnostics ---------------------------------------------------------------------------

    def health(self) -> tuple[int, str, dict[str, Any]]:
        """Level, message and values for ``/diagnostics``; nodes add their own."""
        return 0, "running", {}

    @property
    def complete(self) -> bool:
        """Whether everything this node needs has a counterpart."""
        return all(count() > 0 for count in self._needed)

    def report(self) -> None:
        """Publish the node's health now."""
        self._tell_unheard()
        level, message, values = self.health()
        status = make_status(
            level,
            self.get_fully_qualified_name(),
            message,
            {"complete": str(self.complete).lower(), **values, **self.counts},
        )
        array = DiagnosticArray(status=[status])
        array.header.stamp = self.get_clock().now().to_msg()
        self._report.publish(array)

    def _tell_unheard(self) -> None:
        """Say once who is not heard: of a topic that is handed over, those of other processes."""
        handing = self._handing
        if handing is None:
            return
        for name, listening in self._handed:
            if listening.handing is None or name in handing.shared:
                continue
            if self.count_publishers(name) > 1:
                handing.shared.add(name)
                self.count(f"{name} unheard")
                self.get_logger().warning(
                    f"{name}: other processes publish it too, and the nodes of this one hear their"
                    " own alone: leave ours out (sim:-NODE), or do not compose"
                )

    def _search(self) -> None:
        """Report as soon as the node is complete and somebody hears it."""
        if self.complete and self._report.get_subscription_count() > 0:
            self.destroy_timer(self._search_timer)
            self.report()
