"""The live viewer on real DDS: it finds a vehicle by its topics and draws it."""

import threading
import time
from functools import partial

import numpy as np
import pytest

pytest.importorskip("rerun", reason="the extra [view] is not installed")

from nav_msgs.msg import Odometry
from rclpy.node import Node
from rerun.experimental import RrdReader

from quadsim.ros.messages.world import make_time
from quadsim.ros.parts import viewer
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.runtime import run
from quadsim.sim.scenario import load_scenario
from quadsim.view.flights import Picture, new_recording
from quadsim.view.output import send_to
from quadsim.view.scenarios import site_of

PATIENCE_S = 60.0


class Flyer(Node):
    """A truth and an estimate, a metre apart, and whoever is to be asked."""

    def __init__(self, context):
        super().__init__("flyer", context=context, namespace="/quad")
        self._publishers = [
            self.create_publisher(Odometry, topic.name, topic.offered)
            for topic in (topics.TRUTH, topics.ODOMETRY)
        ]
        self._step = 0
        self.create_timer(0.01, self._fly)

    def _fly(self):
        self._step += 1
        for offset_m, publisher in enumerate(self._publishers):
            message = Odometry()
            message.header.stamp = make_time(self._step * 10_000_000)
            message.pose.pose.position.x = 0.01 * self._step
            message.pose.pose.position.y = float(offset_m)
            message.pose.pose.orientation.w = 1.0
            message.pose.covariance[0] = message.pose.covariance[7] = 0.04 * offset_m
            publisher.publish(message)


def test_a_live_vehicle_is_found_and_drawn(tmp_path, domain):
    recording = new_recording()
    send_to(recording, None, tmp_path / "live.rrd")
    picture = Picture(recording, site_of(load_scenario("hover")), live=True)
    stop = threading.Event()

    def watch_over():
        end_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < end_s and not stop.wait(0.05):
            view = picture.views.get("quad")
            if view is not None and view.high_W[0] - view.low_W[0] > 0.5:  # 50 steps
                break
        stop.set()

    watcher = threading.Thread(target=watch_over)
    watcher.start()
    shown = partial(viewer.ViewerNode, picture, [], None, None, stop)
    status = run([Flyer, lambda context: shown(context=context)], domain=domain, stop=stop)
    watcher.join()
    recording.flush()
    recording.disconnect()
    assert status == 0
    chunks = RrdReader(tmp_path / "live.rrd").stream().to_chunks()
    rows: dict[str, int] = {}
    for chunk in chunks:
        rows[str(chunk.entity_path)] = rows.get(str(chunk.entity_path), 0) + chunk.num_rows
    assert rows["/world/quad/vehicle"] > 20
    assert rows["/world/quad/ghost"] > 20
    assert rows["/world/quad/uncertainty"] > 20
    assert rows["/world/ground"] == 1
    assert np.isfinite(picture.views["quad"].low_W).all()
