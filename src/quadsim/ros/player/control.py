"""When a message of a bag is due: rate, pause, step and seek, from any thread; no ROS here."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from quadsim.ros.runtime.latency import Latencies

#: While nothing is due: how often a standing clock is told, s.
IDLE_S = 0.1


class PlayControl:
    """The relation of bag time to wall time, and what people want of it.

    Args:
        rate: bag time over wall time; 0: nothing is waited for.
        paused: whether it begins so.
        idle: called now and then while paused.
        now_ns: steady clock.
        start_ns: log time at which it begins.

    Attributes:
        stopping: whether it is to end.
        position_ns: log time at which it is.
        lateness: of messages, as they are published.
    """

    def __init__(
        self,
        rate: float,
        paused: bool,
        idle: Callable[[], None] = lambda: None,
        now_ns: Callable[[], int] = time.monotonic_ns,
        start_ns: int = 0,
    ) -> None:
        self._condition = threading.Condition()
        self._idle, self._now_ns = idle, now_ns
        self.rate, self.paused, self.stopping = rate, paused, False
        self._seek_ns: int | None = None
        self._plays = False
        self._steps = 0
        self._free_ns = 0  # while paused: what is due up to here is played
        self._anchor = (now_ns(), start_ns)
        self.position_ns = start_ns
        self.lateness = Latencies()

    # ---- what people ask -----------------------------------------------------------------------

    @property
    def interrupted(self) -> bool:
        """Whether what is being played is to be left: for a jump, or for good."""
        return self.stopping or self._seek_ns is not None

    def set_rate(self, rate: float) -> None:
        """Go on at another rate."""
        with self._condition:
            self._move_anchor()
            self.rate = rate
            self._condition.notify_all()

    def pause(self, paused: bool) -> None:
        """Stand, or go on."""
        with self._condition:
            if paused != self.paused:
                self._move_anchor()
                self.paused = paused
                self._steps = self._free_ns = 0
            self._condition.notify_all()

    def step(self, span_ns: int) -> bool:
        """While paused: play the next message, or so much of the bag; False: it is not paused."""
        with self._condition:
            if self.paused and span_ns:
                self._free_ns = max(self._free_ns, self.position_ns) + span_ns
            elif self.paused:
                self._steps += 1
            self._condition.notify_all()
            return self.paused

    def seek(self, to_ns: int) -> bool:
        """Go on at another log time; False: it does not play yet, or no more."""
        with self._condition:
            if self._plays:
                self._seek_ns = self.position_ns = to_ns
                self._steps = self._free_ns = 0
                self._condition.notify_all()
            return self._plays

    def stop(self) -> None:
        """End."""
        self.stopping = True
        self.notify()

    def notify(self) -> None:
        """Something that is waited for may have come."""
        with self._condition:
            self._condition.notify_all()

    # ---- what the player does ------------------------------------------------------------------

    def take_seek(self) -> int | None:
        """Where to go on, if somebody wants to; asked once."""
        with self._condition:
            target, self._seek_ns = self._seek_ns, None
            return target

    def play(self) -> None:
        """From now on somebody may want to be elsewhere."""
        self._plays = True

    def end(self) -> int | None:
        """Where to go on after all, as of :meth:`take_seek`; None: nobody can ask any more."""
        with self._condition:
            target, self._seek_ns = self._seek_ns, None
            self._plays = target is not None
            return target

    def begin(self, at_ns: int) -> None:
        """Play from a log time on, from now; steps that were asked for on the way there count."""
        with self._condition:
            self._anchor = (self._now_ns(), at_ns)
            if at_ns != self.position_ns and self._seek_ns is None:  # it begins again
                self.position_ns, self._free_ns = at_ns, 0

    def wait(self, log_ns: int, tick: bool) -> bool:
        """Wait until something is due.

        Args:
            log_ns: its log time.
            tick: whether it is a tick of the clock, which takes no step.

        Returns:
            False: somebody wants to be elsewhere, or the end.
        """
        with self._condition:
            while not self.interrupted:
                if self.paused:
                    if self._is_free(log_ns, tick):
                        break
                    self._condition.wait(IDLE_S)
                    self._idle()
                    continue
                if self.rate == 0.0:
                    break
                wall_ns, bag_ns = self._anchor
                late_s = (self._now_ns() - wall_ns - int((log_ns - bag_ns) / self.rate)) * 1e-9
                if late_s >= 0.0:
                    self.lateness.add(late_s)
                    break
                self._condition.wait(-late_s)
            else:
                return False
            self.position_ns = log_ns
        return True

    def wait_until(self, condition: Callable[[], bool], within_s: float) -> bool:
        """Wait for something else; False: the time is over, or it is interrupted."""
        deadline = time.monotonic() + within_s
        with self._condition:
            while not condition():
                rest_s = deadline - time.monotonic()
                if self.interrupted or rest_s <= 0.0:
                    return False
                self._condition.wait(min(rest_s, IDLE_S))
        return True

    def _is_free(self, log_ns: int, tick: bool) -> bool:
        """Whether a step lets this go, though all stands; it takes the step."""
        if log_ns <= self._free_ns:
            return True
        if self._steps and not tick:
            self._steps -= 1
            return True
        return bool(self._steps)

    def _move_anchor(self) -> None:
        """Let the relation begin anew at this moment."""
        now_ns = self._now_ns()
        wall_ns, bag_ns = self._anchor
        if self.paused:
            bag_ns = max(bag_ns, self.position_ns)
        elif self.rate == 0.0:
            bag_ns = self.position_ns
        else:
            bag_ns += int((now_ns - wall_ns) * self.rate)
        self._anchor = (now_ns, bag_ns)
