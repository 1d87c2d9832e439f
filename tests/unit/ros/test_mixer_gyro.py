"""What the mixer takes of an IMU while no odometry comes."""

import numpy as np
import pytest

pytest.importorskip("rclpy")

from rclpy.serialization import serialize_message
from sensor_msgs.msg import Imu

from quadsim.ros.graph import graph
from quadsim.ros.messages.cdr import MessageError
from quadsim.ros.nodes.mixer import BIAS_WEIGHT, Gyro
from quadsim.sim.scenario import load_scenario

MS = 1_000_000
HOLD_NS = 50 * MS
NOW_NS = 10_000 * MS


def imu(stamp_ns: int, rate_radps: float = 0.1) -> bytes:
    message = Imu()
    message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp_ns, 10**9)
    message.angular_velocity.x = rate_radps
    return serialize_message(message)


def test_a_sample_of_the_future_or_of_the_past_is_refused_and_the_next_is_taken():
    gyro = Gyro()
    gyro.take(imu(NOW_NS), NOW_NS, HOLD_NS)
    for stamp_ns in (NOW_NS + 61 * MS, 2 * NOW_NS, NOW_NS, NOW_NS - MS):
        with pytest.raises(MessageError):
            gyro.take(imu(stamp_ns), NOW_NS, HOLD_NS)
    assert gyro.stamp_ns == NOW_NS
    gyro.take(imu(NOW_NS + 59 * MS), NOW_NS, HOLD_NS)  # ahead of a clock that has not ticked yet
    assert gyro.stamp_ns == NOW_NS + 59 * MS


def test_only_a_fresh_sample_gives_rates():
    gyro = Gyro()
    assert np.isnan(gyro.rates_B(NOW_NS, HOLD_NS)).all()
    gyro.take(imu(NOW_NS, 0.3), NOW_NS, HOLD_NS)
    assert gyro.rates_B(NOW_NS + HOLD_NS, HOLD_NS) == pytest.approx([0.3, 0.0, 0.0])
    assert np.isnan(gyro.rates_B(NOW_NS + HOLD_NS + 1, HOLD_NS)).all()


def test_the_bias_is_learned_of_the_same_time_only():
    gyro = Gyro()
    gyro.take(imu(NOW_NS, 0.1), NOW_NS, HOLD_NS)
    gyro.learn(NOW_NS - 1, np.zeros(3))
    gyro.learn(NOW_NS, np.full(3, np.nan))
    assert gyro.rates_B(NOW_NS, HOLD_NS)[0] == pytest.approx(0.1)
    gyro.learn(NOW_NS, np.zeros(3))
    assert gyro.rates_B(NOW_NS, HOLD_NS)[0] == pytest.approx(0.1 * (1.0 - BIAS_WEIGHT))


def test_the_gyroscope_is_used_only_where_it_has_the_axes_of_the_body():
    scenario = load_scenario("square")
    assert graph.said_of(scenario)["mixer"]["gyro_fallback"] is True
    turned = {"estimator.mount.imu_roll_pitch_yaw_deg": [180.0, 0.0, 0.0]}
    scenario = load_scenario("square", turned)
    assert graph.said_of(scenario)["mixer"]["gyro_fallback"] is False
