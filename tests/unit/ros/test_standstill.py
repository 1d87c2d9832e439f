"""How long a graph whose time stands still is waited for: by hand-made looks."""

import pytest

pytest.importorskip("rclpy")

from quadsim.ros.graph.supervisor import NAMED_S, STALL_S, Standstill


class Queue:
    """Time that two processes have waited for a processor; the second grows by ``share``."""

    def __init__(self) -> None:
        self.share, self.now_s = 0.0, 0.0

    def __call__(self, pid: int) -> float:
        return self.share * self.now_s if pid == 2 else 0.0


def looks(share: float, seconds: int, step_s: float = 1.0) -> tuple[Standstill, float]:
    """After some seconds of standing still: the watch, and when it was first said."""
    queue = Queue()
    queue.share = share
    watch, said_s = Standstill([1, 2], queue), float("inf")
    for i in range(round(seconds / step_s) + 1):
        queue.now_s = 100.0 + i * step_s
        if watch.look(5_000_000, queue.now_s):
            said_s = min(said_s, queue.now_s - 100.0)
    return watch, said_s


def test_who_is_idle_uses_up_the_patience():
    watch, said_s = looks(0.1, int(STALL_S))
    assert watch.counted_s == pytest.approx(STALL_S)
    assert said_s == NAMED_S


def test_who_waits_for_a_processor_is_waited_for():
    watch, said_s = looks(0.8, 600)
    assert watch.counted_s < 2.0  # the first second is not known
    assert said_s == NAMED_S


def test_a_look_that_comes_late_counts_as_one():
    """Then this process itself did not run."""
    assert looks(0.0, 100, step_s=10.0)[0].counted_s == pytest.approx(10.0)


def test_time_that_goes_on_forgives_all():
    watch = Standstill([], Queue())
    for i in range(30):
        watch.look(7, float(i))
    assert watch.counted_s > 20.0
    assert not watch.look(8, 30.0)
    assert watch.counted_s == 0.0
