"""Messages handed from node to node within a process, and listeners that need not be woken.

Through DDS a message takes two threads on its way to a node of the same process, which costs more
than most nodes do with it. Where nodes share a process, a message of a stream (``handed`` in the
table of topics) goes straight into a queue, which is worked off in the order of sending when the
callback that sent has returned. It goes out on DDS too where somebody of another process listens.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

from rclpy.context import Context
from rclpy.executors import Executor
from rclpy.serialization import serialize_message

#: So many messages are handed over before others have a turn: services, timers, DDS. Two or three
#: steps in lockstep.
TURN = 20


class Listening:
    """What one node hears of one topic.

    Args:
        kind: class of the messages.
        callback: takes the bytes of a message.

    Attributes:
        subscription: of DDS; None where a node of the same process publishes the topic.
        paused: whether messages wait to be taken, and call nobody.
        heard: publishers (GID; empty: rclpy does not tell) and when each spoke last, steady ns.
    """

    def __init__(self, kind: Any, callback: Callable[[bytes], None], depth: int) -> None:
        self.callback = callback
        self.subscription: Any = None
        self.paused = False
        self.handing: Handing | None = None
        self.heard: dict[bytes, int] = {}
        self._kind = kind
        self._waiting: deque[tuple[int, bytes]] = deque(maxlen=depth)

    def get_publisher_count(self) -> int:
        """How many publish the topic."""
        if self.subscription is not None:
            return int(self.subscription.get_publisher_count())
        return int(self.handing is not None)

    def give(self, sent_ns: int, payload: bytes) -> None:
        """Take a message of this process."""
        if self.paused or self.handing is None:
            self._waiting.append((sent_ns, payload))
        else:
            self.handing.queue.append((self, payload))

    def resume(self) -> None:
        """Call back from now on; what waits in this process is too old by then."""
        self.paused = False
        self._waiting.clear()

    def taken(self) -> Iterator[tuple[int, int, Any]]:
        """Take what waits: when it was sent and came by the system's clock, ns, and the bytes."""
        while self._waiting:
            sent_ns, payload = self._waiting.popleft()
            yield sent_ns, sent_ns, payload
        if self.subscription is None:
            return
        take = self.subscription.handle.take_message
        while (message := take(self._kind, True)) is not None:
            payload, about = message
            sent_ns = about["source_timestamp"]
            # rmw_cyclonedds reports 0 for what it does not know
            came_ns = about["received_timestamp"] or sent_ns or time.time_ns()
            yield sent_ns or came_ns, came_ns, payload


class Handing:
    """The topics that nodes of one process hand to each other."""

    def __init__(self, executor: Executor) -> None:
        self.queue: deque[tuple[Listening, bytes]] = deque()
        self._executor = executor
        self._listeners: dict[str, list[Listening]] = {}
        self._wishes: list[tuple[str, Listening, Callable[[], None]]] | None = []
        self._working = False
        self._asked = False
        #: Topics of which somebody has stated that others publish them too.
        self.shared: set[str] = set()

    def offer(self, name: str, publisher: Any) -> Publisher:
        """A publisher that hands over."""
        return Publisher(publisher, self._listeners.setdefault(name, []), self)

    def listen(self, name: str, listening: Listening, subscribe: Callable[[], None]) -> None:
        """Hear a topic of this process, or else of another.

        Args:
            listening: who.
            subscribe: hears it through DDS.
        """
        if self._wishes is not None:  # who publishes it may not be made yet
            self._wishes.append((name, listening, subscribe))
        elif name in self._listeners:
            listening.handing = self
            self._listeners[name].append(listening)
        else:
            subscribe()

    def connect(self) -> None:
        """All nodes are made: let them hear each other."""
        wishes, self._wishes = self._wishes or [], None
        for request in wishes:
            self.listen(*request)

    def close(self) -> None:
        """Hand over no more: the nodes are about to be destroyed."""
        for listening in [one for listeners in self._listeners.values() for one in listeners]:
            self.forget(listening)
        self.queue.clear()

    def forget(self, listening: Listening) -> None:
        """Let a node hear no more of a topic."""
        listening.handing = None
        for listeners in self._listeners.values():
            if listening in listeners:
                listeners.remove(listening)

    def run(self, callback: Callable[..., None], *args: Any) -> None:
        """Call back, then work off what was sent meanwhile, and what that sends."""
        if self._working:
            callback(*args)
            return
        self._working = True
        try:
            callback(*args)
            for _ in range(0 if self._asked else TURN):
                if not self.queue:
                    return
                listening, payload = self.queue.popleft()
                if listening.handing is not None:
                    listening.callback(payload)
        finally:
            self._working = False
        self.ask()

    def ask(self) -> None:
        """Let what waits be worked off soon, if nobody does so now: one turn at a time."""
        if self.queue and not self._working and not self._asked:
            self._asked = True
            self._executor.create_task(self._go_on)

    def _go_on(self) -> None:
        self._asked = False
        self.run(lambda: None)  # only the queue is to be worked off


class Publisher:
    """A publisher on DDS that hands messages to listeners of its own process.

    Args:
        listeners: those of this process, as they are at the time.
        handing: works off what they are given.
    """

    def __init__(self, publisher: Any, listeners: list[Listening], handing: Handing) -> None:
        self._publisher = publisher
        self._listeners = listeners
        self._handing = handing

    def publish(self, message: Any) -> None:
        """Send a message, or its bytes."""
        if self._listeners:
            payload = message if isinstance(message, bytes) else serialize_message(message)
            now_ns = time.time_ns()
            for listening in self._listeners:
                listening.give(now_ns, payload)
            self._handing.ask()  # services and parameters call back outside of any turn
        if self._publisher.get_subscription_count():
            self._publisher.publish(message)

    def get_subscription_count(self) -> int:
        """How many listen."""
        return len(self._listeners) + int(self._publisher.get_subscription_count())


#: The nodes of which contexts hand over to each other.
_of_contexts: WeakKeyDictionary[Context, Handing] = WeakKeyDictionary()


def share_context(context: Context, executor: Executor) -> Handing:
    """Let the nodes that are made in a context hand over to each other."""
    handing = _of_contexts[context] = Handing(executor)
    return handing


def handing_of(context: Context | None) -> Handing | None:
    """What the nodes of a context share; None where each stands for itself."""
    return None if context is None else _of_contexts.get(context)
