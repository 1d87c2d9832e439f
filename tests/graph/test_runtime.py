"""Nodes in one process: they end when they are told to, and say whom they do not hear."""

import os
import subprocess
import sys
import threading
from functools import partial
from io import StringIO

import pytest
import rclpy
from rclpy.context import Context
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import Imu

from quadsim.ros.nodes.gazebo_view import GazeboViewNode
from quadsim.ros.nodes.keys import KeysNode
from quadsim.ros.nodes.pilot import PilotNode
from quadsim.ros.nodes.recorder import RecorderNode
from quadsim.ros.nodes.stand_in import StandInNode
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.base import QuadsimNode
from quadsim.ros.runtime.intra_process import share_context
from quadsim.ros.runtime.runtime import run, spin

#: So many messages take ten seconds: who has not ended by then does not end.
NEVER = 1_000_000


class Restless(QuadsimNode):
    """Answers each of its own messages with another."""

    def __init__(self, context: Context, stop: threading.Event) -> None:
        super().__init__("restless", context=context)
        self.heard = 0
        self._stop = stop
        self._output = self.offer(topics.IMU_RAW)
        self.listen(topics.IMU_RAW, self._answer)
        self._begin = self.wall_timer(0.01, self._start)

    def _start(self) -> None:
        self.destroy_timer(self._begin)
        self._output.publish(b"")

    def _answer(self, payload: bytes) -> None:
        self.heard += 1
        if self.heard == 1000:
            self._stop.set()
        if self.heard < NEVER:
            self._output.publish(payload)


def test_nodes_that_never_rest_end_when_they_are_told_to(domain):
    stop, context = threading.Event(), Context()
    rclpy.init(context=context, domain_id=domain, signal_handler_options=SignalHandlerOptions.NO)
    made: list[Restless] = []

    def make(context: Context) -> Restless:
        made.append(Restless(context, stop))
        return made[-1]

    try:
        spin([make, lambda context: QuadsimNode("other", context=context)], context, stop)
    finally:
        context.try_shutdown()
    assert 1000 <= made[0].heard < NEVER


def test_a_publisher_of_another_process_is_named_where_it_is_not_heard(bench):
    handing = share_context(bench.context, bench.executor)
    talker = bench.add(QuadsimNode("talker", context=bench.context, namespace="/quad"))
    talker.offer(topics.IMU_RAW)
    listener = bench.add(QuadsimNode("listener", context=bench.context, namespace="/quad"))
    listener.listen(topics.IMU_RAW, lambda _: None)
    handing.connect()
    for _ in range(3):
        listener.report()
    assert listener.counts == {}
    name = "/quad/imu/data_raw"
    bench.node.create_publisher(Imu, name, topics.IMU_RAW.offered)
    bench.until(lambda: f"{name} unheard" in bench.reports.get("/quad/listener", {}))
    listener.report()
    assert listener.counts == {f"{name} unheard": 1}


@pytest.mark.parametrize(
    ("node", "given", "words"),
    [
        (RecorderNode, {"record_profile": "nosuch"}, "unknown recording 'nosuch'"),
        (RecorderNode, {"split_s": -1.0}, "parameter split_s"),
        (KeysNode, {}, "no terminal"),
        (PilotNode, {}, "no terminal"),
        (StandInNode, {"rehearsal": "nosuch"}, "unknown rehearsal 'nosuch'"),
        (GazeboViewNode, {"lent": ["nosuch"]}, "parameter lent: 'nosuch'"),
    ],
)
def test_a_node_that_cannot_start_is_one_line(domain, capfd, monkeypatch, node, given, words):
    """ROS destroys it, too, though it holds only a part of what it gives back."""
    monkeypatch.setattr(sys, "stdin", StringIO())
    assert run([partial(make_node, node, given)], domain=domain) == 2
    *_, line = capfd.readouterr().err.splitlines()
    assert line.startswith("quadsim: error: ")
    assert words in line


def make_node(node, given, context):
    return node(overrides=given, context=context)


@pytest.mark.parametrize("keys", ["missing", "useless"])
def test_a_bad_keystore_is_one_line(domain, tmp_path, keys):
    """None there; and one that is no keystore, or that a DDS without security cannot use."""
    store = tmp_path / keys
    if keys == "useless":
        (store / "enclaves").mkdir(parents=True)
        for name in ("identity_ca.cert.pem", "cert.pem", "key.pem", "permissions_ca.cert.pem",
                     "governance.p7s", "permissions.p7s"):  # fmt: skip
            (store / "enclaves" / name).write_text("no key")
    done = subprocess.run(
        [sys.executable, "-m", "quadsim.ros", "guard"],
        env={**os.environ, "ROS_DOMAIN_ID": str(domain), "ROS_SECURITY_ENABLE": "true",
             "ROS_SECURITY_STRATEGY": "Enforce", "ROS_SECURITY_KEYSTORE": str(store)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("quadsim: error: ")
    assert "docs/security.md" in done.stderr.splitlines()[-1]
