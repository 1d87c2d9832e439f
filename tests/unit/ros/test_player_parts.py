"""Parts of the player without a graph: its time, what goes wrong in its thread, its end."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

pytest.importorskip("rclpy")

from quadsim.base.errors import FlightError
from quadsim.ros.nodes.player import PlayerNode
from quadsim.ros.parts.playback import Pace

BEGIN_NS = 10**12


# ---- time --------------------------------------------------------------------------------------


def test_a_pause_is_made_up_for_by_no_hurry(monkeypatch):
    """At rate 2 a message 4 s of the bag later is due 2 s later, and what it stood comes on top."""
    now_ns = [0]
    monkeypatch.setattr("quadsim.ros.parts.playback.time.monotonic_ns", lambda: now_ns[0])
    pace = Pace(2.0, True, BEGIN_NS)
    now_ns[0] = 10 * 10**9
    pace.begin()
    now_ns[0] += 3 * 10**9
    pace.pause(False)
    now_ns[0] += 1_900_000_000
    stops = threading.Timer(0.05, pace.stop)
    stops.start()
    assert not pace.wait(BEGIN_NS + 4 * 10**9)  # 0.1 s too early
    pace.stopping = False
    now_ns[0] += 100_000_000
    assert pace.wait(BEGIN_NS + 4 * 10**9)
    assert pace.position_ns == BEGIN_NS + 4 * 10**9
    assert pace.lateness.count == 1


# ---- the thread --------------------------------------------------------------------------------


def player(**parts):
    """What a player's methods use, without a node."""
    pace = Pace(1.0, False, BEGIN_NS)
    values = {
        "pace": pace,
        "outputs": SimpleNamespace(await_acknowledgement=lambda *_: None),
        "_in_step": SimpleNamespace(names=[], wait_in_turn=lambda _: []),
        "_stop": threading.Event(),
        "_failure": None,
        "_progress": None,
        "_began_s": 0.0,
        "_await_all": lambda: None,
        "_play": lambda: None,
        "finished": False,
    }
    node = SimpleNamespace(**values | parts)
    node._finish = lambda: PlayerNode._finish(node)
    return node


def test_an_error_of_ours_in_the_thread_does_not_hang_it():
    def fail():
        raise ZeroDivisionError

    node = player(_play=fail)
    PlayerNode._work(node)
    with pytest.raises(ZeroDivisionError):
        PlayerNode._look(node)


def test_a_node_that_hangs_at_the_end_is_named():
    hangs = SimpleNamespace(names=["/quad/estimator"], wait_in_turn=lambda _: ["/quad/estimator"])
    node = player(_in_step=hangs)
    PlayerNode._work(node)
    assert not node.finished
    with pytest.raises(FlightError, match="no answer of /quad/estimator"):
        PlayerNode._look(node)


# ---- the clock ---------------------------------------------------------------------------------
