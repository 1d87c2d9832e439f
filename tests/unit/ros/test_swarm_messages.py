"""Messages of many vehicles made together, beside those of writers of their own."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("rclpy")

from quadsim.base.records import ODOMETRY
from quadsim.ros.messages.cdr import Reader
from quadsim.ros.messages.conversion import OdometryWriter
from quadsim.ros.nodes.swarm import SwarmOutputs
from quadsim.ros.runtime import topics
from quadsim.sensors import SENSORS
from quadsim.sim.loop import LOG_ROW
from quadsim.sim.scenario import load_scenario
from quadsim.wire.encode import Template, VehicleTemplates
from quadsim.wire.samples import imu_messages, motion_columns


def new_samples(kind):
    return np.zeros(1, SENSORS[kind].sample)[0]


def test_messages_of_all_are_those_of_each():
    """Names of two lengths, rows in any order: the bytes that a writer of its own gives."""
    generator = np.random.default_rng(5)
    names = [f"quad{i}/imu_link" for i in (1, 2, 10, 11, 12)]
    writers = [imu_messages(name, (1e-4,) * 3, (2e-6,) * 3) for name in names]
    sample = new_samples("imu")
    copies = VehicleTemplates([writer.template for writer in writers])
    whose = np.array([3, 0, 4, 4, 1])
    stamp_ns = np.array([1_999_999_999, 5, 7_000_000_000, 8, 123_456_789_012])
    f, w = generator.normal(size=(2, 5, 3))
    made = copies.payloads(whose, stamp_ns, f=f, w=w)
    for i, payload in enumerate(made):
        sample["stamp_ns"], sample["f_S"], sample["w_S"] = stamp_ns[i], f[i], w[i]
        assert payload == writers[whose[i]].payload(sample)


def test_motions_of_all_are_those_of_each():
    """Sums in another order: equal to rounding."""
    rows = np.zeros(3, ODOMETRY)
    generator = np.random.default_rng(6)
    for name in ("p_W", "v_W", "w_B"):
        rows[name] = generator.normal(size=(3, 3))
    q = generator.normal(size=(3, 4))
    rows["q_WB"] = q / np.linalg.norm(q, axis=1, keepdims=True)
    rows["stamp_ns"] = (1, 2, 3)
    writers = [OdometryWriter("map", "quad1/base_link", row) for row in rows]
    copies = VehicleTemplates([Template.of(topics.ODOMETRY.type_name, "map", "quad1/base_link")])
    made = copies.payloads(np.zeros(3, np.intp), rows["stamp_ns"], **motion_columns(rows))
    one, other = (Reader(topics.ODOMETRY.type_name) for _ in range(2))
    for writer, payload in zip(writers, made, strict=True):
        assert len(payload) == len(writer.payload())
        found, wanted = one.read(payload), other.read(writer.payload())
        for name in ("nanosec", "p", "q_xyzw", "v", "w"):
            np.testing.assert_allclose(found[name], wanted[name], atol=1e-14, rtol=0.0)


class Network:
    """Stands for a node: keeps what its publishers publish, by topic."""

    def __init__(self):
        self.sent = {}

    def create_publisher(self, kind, name, qos, event_callbacks=None):
        return self.offer(None, name)

    def get_logger(self):
        return logging.getLogger(__name__)

    def offer(self, topic, name):
        heard = self.sent.setdefault(name, [])

        class Publisher:
            publish = staticmethod(heard.append)

        return Publisher()


class Logged:
    """Two vehicles whose filters say the same thing in several rows, and one sample of each IMU."""

    def __init__(self):
        self.rows = np.zeros(6, LOG_ROW)
        self.rows["estimated"] = 1
        self.rows["stamp_ns"] = (10, 20, 30, 10, 20, 30)
        self.rows["estimate"]["stamp_ns"] = (10, 10, 20, 20, 30, 30)
        self.rows["estimate"]["q_WB"][:, 0] = self.rows["q_WB"][:, 0] = 1.0

    def logged(self):
        return np.array([0, 0, 0, 1, 1, 1]), self.rows

    def published(self, kind):
        return np.array([0, 1]), np.array([new_samples(kind)] * 2)


def test_each_estimate_is_said_once_and_a_reset_tells_the_devices_anew():
    network, scenario = Network(), load_scenario("formation")
    outputs = SwarmOutputs(network, ["/quad1", "/quad2"], scenario, "imu")
    outputs.publish(Logged(), 0)
    for name, stamps_ns in (("quad1", [10, 20]), ("quad2", [20, 30])):
        reader = Reader(topics.ODOMETRY.type_name)
        heard = network.sent[f"/{name}/{topics.ODOMETRY.name}"]
        assert [int(reader.read(payload)["nanosec"]) for payload in heard] == stamps_ns
    assert outputs.count == sum(map(len, network.sent.values()))

    worse = replace(scenario.imu, accel_noise_density=(0.5, 0.5, 0.5))
    outputs.begin(replace(scenario, sensors={**scenario.sensors, "imu": worse}))
    outputs.publish(Logged(), 0)
    variances = worse.accel_variance(), worse.gyro_variance()
    first, second = network.sent[f"/quad2/{topics.IMU_RAW.name}"]
    assert second == imu_messages("quad2/imu_link", *variances).payload(new_samples("imu"))
    assert second != first
