"""Parts of the player without a graph: steps and jumps, what goes wrong in its thread, its end."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

pytest.importorskip("rclpy")

from quadsim.base.errors import FlightError, InputError
from quadsim.ros.nodes.player import PlayerNode
from quadsim.ros.player.control import PlayControl
from quadsim.ros.player.outputs import PlayedTopics
from quadsim.ros.player.playback import TICKS, Selection

BEGIN_NS = 10**12


# ---- steps and jumps ---------------------------------------------------------------------------


def test_a_step_that_comes_before_the_first_message_is_taken():
    """What is latched is heard before the bag has been read on: whoever hears it may step."""
    control = PlayControl(1.0, True)
    control.play()
    assert control.step(0)
    control.begin(BEGIN_NS)
    assert control.wait(BEGIN_NS, tick=True)
    assert control.wait(BEGIN_NS, tick=False)
    waits = threading.Timer(0.2, control.stop)
    waits.start()
    assert not control.wait(BEGIN_NS, tick=False)  # that was the one step


def test_a_step_on_the_way_of_a_jump_counts_from_where_it_leads():
    control = PlayControl(1.0, True)
    control.play()
    control.begin(BEGIN_NS)
    control.step(10**9)
    assert control.seek(BEGIN_NS + 5 * 10**9)  # what was asked for before is forgotten
    control.step(2 * 10**9)
    assert control.take_seek() == BEGIN_NS + 5 * 10**9
    control.step(10**9)
    control.begin(BEGIN_NS + 5 * 10**9)
    assert control.wait(BEGIN_NS + 8 * 10**9, tick=False)
    waits = threading.Timer(0.2, control.stop)
    waits.start()
    assert not control.wait(BEGIN_NS + 8 * 10**9 + 1, tick=False)


def test_a_jump_is_taken_only_while_it_plays():
    control = PlayControl(1.0, False)
    assert not control.seek(BEGIN_NS)
    assert not control.interrupted  # what is waited for first is still waited for
    control.play()
    assert control.seek(BEGIN_NS)
    assert control.end() == BEGIN_NS  # it came just in time
    assert control.end() is None
    assert not control.seek(BEGIN_NS)


def test_who_seeks_too_early_is_told():
    node = SimpleNamespace(
        control=PlayControl(1.0, False),
        _begin_ns=BEGIN_NS,
        _playback=SimpleNamespace(start_ns=BEGIN_NS, stop_ns=BEGIN_NS + 10**9),
        _state="waits for listeners",
    )
    assert PlayerNode.seek(node, 0.5) == "the bag does not play now (waits for listeners)"
    node.control.play()
    assert PlayerNode.seek(node, 0.5) == ""


# ---- the thread --------------------------------------------------------------------------------


def player(**parts):
    """What a player's methods use, without a node."""
    control = PlayControl(1.0, False)
    values = {
        "control": control,
        "outputs": SimpleNamespace(await_acknowledgement=lambda *_: None),
        "_in_step": SimpleNamespace(names=[], wait_in_turn=lambda _: []),
        "_playback": SimpleNamespace(start_ns=BEGIN_NS),
        "_stop": threading.Event(),
        "_failure": None,
        "_keyboard": None,
        "_progress": None,
        "_began_s": 0.0,
        "_await_all": lambda: None,
        "_play": lambda _: None,
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
    def fail(_):
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
    control = PlayControl(1.0, False)
    with pytest.raises(FlightError, match="acknowledged by listeners of /quad/imu"):
        PlayedTopics.await_acknowledgement(outputs, control, [], 0.0)
    publisher.wait_for_all_acked = lambda _: True
    PlayedTopics.await_acknowledgement(outputs, control, [], 0.0)
    control.stop()
    publisher.wait_for_all_acked = lambda _: False
    PlayedTopics.await_acknowledgement(outputs, control, [], 0.0)  # somebody ended it: no failure


# ---- the clock ---------------------------------------------------------------------------------


def outputs_of(monkeypatch, clock):
    """What is played of a bag with a clock and an IMU, without DDS."""
    types = {"/clock": "rosgraph_msgs/msg/Clock", "/quad/imu/data_raw": "sensor_msgs/msg/Imu"}
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
    monkeypatch.setattr("quadsim.ros.player.outputs.namespaces", lambda _: ["/quad"])
    outputs = PlayedTopics(node, bag, Selection(), [], clock, 1)
    made |= {output.name for output in outputs.by_topic.values()}
    return outputs


def test_without_a_clock_somebody_elses_is_no_rival(monkeypatch):
    """The remedy that the message names is one."""
    for clock, played in (("auto", ["/clock"]), ("log", [TICKS]), ("none", [])):
        outputs = outputs_of(monkeypatch, clock)
        assert set(outputs.by_topic) == {"/quad/imu/data_raw", *played}
        if clock == "none":
            outputs.name_rivals([])
        else:
            with pytest.raises(InputError, match=r"play without \(--clock none\)"):
                outputs.name_rivals([])
