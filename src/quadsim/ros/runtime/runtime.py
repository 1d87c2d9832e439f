"""Running nodes in this process until somebody reports stop: what every ``main`` calls.

rclpy's own signal handlers shut the context down under the executor, and a second Ctrl-C then
breaks the way out. Here a signal sets an event; the executor's loop sees it, and everything is
taken down in order, once. The executor works in turns of a tenth of a second, each of which takes
as many events as come without a way back into Python in between (``EventsExecutor.spin()`` of
rclpy 9.1 would never end a turn: without a timeout it never sleeps and runs no timer). A turn lasts
longer while events wait, in a loop of nodes that never rests for ever: who reports stop ends it.
"""

from __future__ import annotations

import faulthandler
import gc
import inspect
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import rclpy
from rclpy.context import Context
from rclpy.executors import Executor, ExternalShutdownException, SingleThreadedExecutor
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from rclpy.task import Future
from rclpy.utilities import remove_ros_args

from quadsim.base.compile_count import count_compiled
from quadsim.base.errors import InputError, QuadsimError
from quadsim.base.kernel_folder import is_filled
from quadsim.base.surroundings import need_compiler
from quadsim.ros.runtime.dds_environment import release, set_dds_environment
from quadsim.ros.runtime.domain import leaving
from quadsim.ros.runtime.intra_process import share_context

#: A turn of the executor, s: the longest time until the loop sees that it is to stop.
WAIT_S = 0.1
#: Taking leave of DDS takes 20 ms; a process that has not after this time ends all the same, s.
END_S = 10.0
PASSED, FAILED, BAD_INPUT = 0, 1, 2

Watching = TypeVar("Watching", bound=Node)


def in_order_of_arrival() -> bool:
    """Whether our nodes take messages in the order of their arrival, whatever the topic."""
    numbers = release()
    return numbers >= (9,) or (7, 1, 11) <= numbers < (8,)


def make_executor(context: Context) -> Executor:
    """The events executor where rclpy has it: 0.03 ms of work a message instead of 0.12.

    That of Jazzy's rclpy before 7.1.11 does not wait for services that are coroutines, as those of
    the node ``driver`` are.
    """
    if not in_order_of_arrival():
        return SingleThreadedExecutor(context=context)
    from rclpy.experimental import EventsExecutor

    return EventsExecutor(context=context)


@contextmanager
def ending(context: Context) -> Iterator[None]:
    """A block that takes leave of DDS; the process ends, with status 1, where it never does.

    Fast DDS can stand still there for ever, with Python's lock in its hand, so that nothing else
    could end the process (eProsima/Fast-DDS, issue 6502). Where it stood is on stderr then.

    Args:
        context: of the nodes; its domain is left one process after another. The time counts from
            this process's turn on: whoever has its turn before ends too.
    """
    with leaving(context.get_domain_id()) if context.ok() else nullcontext():
        faulthandler.dump_traceback_later(END_S, exit=True)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()


@contextmanager
def secured() -> Iterator[None]:
    """A block in which what DDS refuses is one line where SROS2 is asked for.

    Raises:
        InputError: a keystore is missing or wrong, or this DDS has no security.
    """
    try:
        yield
    except rclpy_implementation.RCLError as error:
        if os.environ.get("ROS_SECURITY_ENABLE", "").lower() != "true":
            raise
        words = " ".join(str(error).split())
        raise InputError(
            f"{words}; ROS_SECURITY_ENABLE asks for SROS2, docs/security.md has what that needs"
        ) from None


def new_context(domain: int | None = None, args: Sequence[str] = ()) -> Context:
    """A context of its own, without signal handlers.

    Args:
        domain: DDS domain; None takes ROS_DOMAIN_ID.
        args: ROS arguments.
    """
    context = Context()
    rclpy.init(
        args=list(args),
        context=context,
        domain_id=domain,
        signal_handler_options=SignalHandlerOptions.NO,
    )
    return context


class Stopped(BaseException):
    """Told to stop while nobody looks at the event: nodes are made, and compile."""


@contextmanager
def stop_on_signals(stop: threading.Event, making: threading.Event | None = None) -> Iterator[None]:
    """Let SIGINT and SIGTERM set an event, however often they come.

    Args:
        stop: the event.
        making: while it is set, the first signal raises Stopped, too.
    """
    numbers = (signal.SIGINT, signal.SIGTERM)
    came: list[int] = []

    def take(number: int, _: Any) -> None:
        if not came:  # a second one may come while the first sets the event, which holds a lock
            came.append(number)
            stop.set()
            if making is not None and making.is_set():
                raise Stopped

    before = [signal.signal(number, take) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def find_sources() -> None:
    """Let ``inspect`` find the files of all modules, as the first line that rclpy logs does.

    It looks at 1300 of them for 50 ms, in which a node in flight answers nobody.
    """
    inspect.getmodule(inspect.currentframe())


class Turns:
    """Turns of an executor, the last of which ends when an event is set, whatever still waits.

    Args:
        stop: the event.
    """

    def __init__(self, executor: Executor, stop: threading.Event) -> None:
        self._executor, self._stop = executor, stop
        self._over = threading.Event()
        self._turn: Future[None] = Future()
        self._ends = threading.Thread(target=self._end, daemon=True)
        self._ends.start()

    def take(self) -> None:
        """Run what comes within a turn."""
        self._turn = Future()  # a new one each time, as rclpy may keep callbacks on it
        if not self._stop.is_set():
            self._executor.spin_until_future_complete(self._turn, WAIT_S)

    def _end(self) -> None:
        self._stop.wait()
        while not self._over.is_set():
            self._turn.set_result(None)
            self._over.wait(WAIT_S)

    def close(self) -> None:
        """There are no more."""
        self._over.set()
        self._stop.set()
        self._ends.join()


def spin(
    makers: Sequence[Callable[[Context], Node]],
    context: Context,
    stop: threading.Event,
    making: threading.Event | None = None,
) -> None:
    """Make nodes, run them until the event is set, and destroy them in order; then it is set.

    Args:
        stop: the event.
        making: set while nodes are made.

    Raises:
        QuadsimError: a node refuses its parameters, or gives up.
    """
    making = making or threading.Event()
    executor = make_executor(context)
    nodes: list[Node] = []
    handing = share_context(context, executor) if len(makers) > 1 else None
    turns = Turns(executor, stop)
    try:
        making.set()
        for make in makers:
            if stop.is_set():
                break
            node = make(context)
            nodes.append(node)
            executor.add_node(node)
        making.clear()
        if handing is not None:
            handing.connect()
        find_sources()
        gc.collect()
        gc.freeze()  # what is here stays; a collection in flight shall not walk over it
        while not stop.is_set() and context.ok():
            turns.take()
    except (ExternalShutdownException, Stopped):
        pass  # told to stop, or somebody else shut the context down: a stop like any other
    finally:
        making.clear()
        with ending(context):
            turns.close()
            if handing is not None:
                handing.close()
            for node in nodes:
                executor.remove_node(node)
            executor.shutdown(0)
            for node in nodes:
                node.destroy_node()


@contextmanager
def own_node(
    make: Callable[[Context], Watching], domain: int
) -> Iterator[tuple[Watching, Callable[[float], None]]]:
    """A node of a command's own next to a graph, and what turns it for so many seconds."""
    with secured():
        context = new_context(domain)
        executor = make_executor(context)
        node = make(context)
    executor.add_node(node)
    try:
        yield node, executor.spin_once
    finally:
        with ending(context):
            executor.remove_node(node)
            executor.shutdown(0)
            node.destroy_node()
            context.try_shutdown()


def run(
    makers: Sequence[Callable[[Context], Node]],
    args: Sequence[str] = (),
    domain: int | None = None,
    stop: threading.Event | None = None,
) -> int:
    """Run nodes until SIGINT, SIGTERM or ``stop``.

    Args:
        args: ROS arguments.
        domain: DDS domain; None takes ROS_DOMAIN_ID.
        stop: another way to end.

    Returns:
        Exit status: 0 stopped, 1 a node gave up, 2 its parameters were refused.
    """
    stop, making = stop or threading.Event(), threading.Event()
    name = Path(sys.argv[0]).name
    count_compiled(lambda words: print(f"quadsim: {name}: {words}", file=sys.stderr, flush=True))
    set_dds_environment()
    with stop_on_signals(stop, making):
        try:
            if not is_filled():
                need_compiler()
            with secured():
                context = new_context(domain, args)
                try:
                    spin(makers, context, stop, making)
                finally:
                    context.try_shutdown()
        except QuadsimError as error:
            return report_error(error)
    return PASSED


def report_error(error: QuadsimError) -> int:
    """Say on stderr, in one line, why a process ends; its exit status."""
    sys.stderr.write(f"quadsim: error: {' '.join(str(error).split())}\n")
    return BAD_INPUT if isinstance(error, InputError) else FAILED


def entry_points(
    node: Callable[..., Watching], stops: bool = False
) -> tuple[Callable[..., Watching], Callable[[], None]]:
    """What a module of ``ros/nodes`` gives: what makes its node in a context, and its executable.

    Args:
        node: makes the node; keyword arguments as of :class:`QuadsimNode`.
        stops: whether the node ends by itself: it takes the event ``stop``, and sets it.
    """

    def make(context: Context, **kwargs: Any) -> Watching:
        return node(context=context, **kwargs)

    def main() -> None:
        if unknown := remove_ros_args(sys.argv)[1:]:
            words = f"{unknown[0]!r} is no ROS argument (see --ros-args -p)"
            sys.exit(report_error(InputError(words)))
        stop = threading.Event()
        sys.exit(run([partial(make, stop=stop) if stops else make], sys.argv, stop=stop))

    return make, main
