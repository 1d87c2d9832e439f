"""Parts of the player without a graph: its time, what goes wrong in its thread, its end."""

import threading
from types import SimpleNamespace

import pytest

pytest.importorskip("rclpy")

from quadsim.base.errors import FlightError, InputError
from quadsim.ros.nodes.player import PlayedTopics, PlayerNode
from quadsim.ros.parts.playback import TICKS, Pace

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


def test_all_that_is_played_and_taken_is_finished():
    node = player()
    PlayerNode._work(node)
    assert node.finished
    assert node._stop.is_set()


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


def test_a_listener_that_does_not_take_it_is_named():
    publisher = SimpleNamespace(wait_for_all_acked=lambda _: False)
    outputs = SimpleNamespace(
        by_topic={"a": SimpleNamespace(name="/quad/imu", publisher=publisher)},
        _node=SimpleNamespace(get_subscriptions_info_by_topic=lambda _: ["rviz"]),
        _nodes=lambda infos: infos,
    )
    pace = Pace(1.0, False, BEGIN_NS)
    with pytest.raises(FlightError, match="acknowledged by listeners of /quad/imu"):
        PlayedTopics.await_acknowledgement(outputs, pace, [], 0.0)
    publisher.wait_for_all_acked = lambda _: True
    PlayedTopics.await_acknowledgement(outputs, pace, [], 0.0)
    pace.stop()
    publisher.wait_for_all_acked = lambda _: False
    PlayedTopics.await_acknowledgement(outputs, pace, [], 0.0)  # somebody ended it: no failure


# ---- the clock ---------------------------------------------------------------------------------


def outputs_of(monkeypatch, types, excluded):
    """What is played of a bag with these topics, without DDS."""
    bag = SimpleNamespace(
        path="bag", types=types, qos=dict.fromkeys(types, ""), counts=dict.fromkeys(types, 9)
    )
    node = SimpleNamespace(
        create_publisher=lambda kind, name, *_, **__: SimpleNamespace(
            topic_name=name, publish=lambda _: None
        ),
        publisher_events=lambda _: None,
        count_publishers=lambda name: 1 + (name in made) if name == "/clock" else 0,
        get_publishers_info_by_topic=lambda _: [],
        get_fully_qualified_name=lambda: "/player",
    )
    made: set[str] = set()
    monkeypatch.setattr("quadsim.ros.nodes.player.namespaces", lambda _: ["/quad"])
    outputs = PlayedTopics(node, bag, [], excluded, [], False, 1)
    made |= {output.name for output in outputs.by_topic.values()}
    return outputs


def test_without_a_clock_somebody_elses_is_no_rival(monkeypatch):
    """The remedy that the message names is one."""
    imu = {"/quad/imu/data_raw": "sensor_msgs/msg/Imu"}
    timed = imu | {"/clock": "rosgraph_msgs/msg/Clock"}
    for types, excluded, played in (
        (timed, [], ["/clock"]),
        (imu, [], [TICKS]),
        (timed, ["/clock"], []),
        (imu, ["/clock"], []),
    ):
        outputs = outputs_of(monkeypatch, types, excluded)
        assert set(outputs.by_topic) == {"/quad/imu/data_raw", *played}
        if not played:
            outputs.name_rivals([])
        else:
            with pytest.raises(InputError, match=r"play without \(--exclude /clock\)"):
                outputs.name_rivals([])
