"""What the monitor says of a flight in which something has fallen silent."""

import struct

import pytest

pytest.importorskip("rclpy")

from rclpy.serialization import serialize_message
from sensor_msgs.msg import LaserScan

from quadsim.ros.nodes.monitor import GuardReport, judge_flight, stamp_reader
from quadsim.ros.runtime.latency import Latency

PERIOD_NS = 20_000_000
PASSING = {"state": "passing", "margin_m": "0.71"}


class Flight:
    """Poses at 50 Hz, setpoints 2 ms after them, and the guard's report each second."""

    def __init__(self) -> None:
        self.latency, self.guard = Latency(), GuardReport()
        self.now_ns = 100 * 10**9

    def fly(self, duration_s, answers=True, reports=True, poses=True, state="passing"):
        for k in range(round(duration_s * 50)):
            self.now_ns += PERIOD_NS
            if poses:
                self.latency.asked(self.now_ns, self.now_ns)
            if answers:
                self.latency.answered(self.now_ns, self.now_ns + 2_000_000)
            if reports and k % 50 == 0:
                self.guard.take(self.now_ns * 1e-9, state, PASSING | {"state": state})
        return judge_flight(self.latency, self.guard, self.now_ns)


def test_all_is_well_while_setpoints_answer():
    flight = Flight()
    assert flight.guard.words(flight.now_ns * 1e-9) == "no guard"
    level, message, values = flight.fly(5.0)
    assert (level, message, values["latency_ms"]) == (0, "running", pytest.approx(2.0))
    assert flight.guard.words(flight.now_ns * 1e-9) == "passing, margin 0.71 m"


def test_setpoints_that_stop_are_told_while_the_guard_says_that_it_sends():
    flight = Flight()
    flight.fly(5.0)
    assert flight.fly(0.9, answers=False)[0] == 0
    level, message, _ = flight.fly(4.0, answers=False)
    assert (level, message) == (1, "no setpoint answers a pose for 4.9 s")
    # 299 s later nothing of before counts any longer
    level, message, values = flight.fly(295.0, answers=False)
    assert (level, values["latency_count"]) == (1, 250)
    assert "latency_ms" not in values
    assert values["latency_missed"] > 14_000
    assert flight.fly(2.0)[0] == 0


def test_setpoints_that_never_came_are_missed_and_those_of_a_disabled_guard_are_not():
    flight = Flight()
    assert flight.fly(20.0, answers=False, state="disabled")[:2] == (0, "running")
    # just enabled
    assert flight.fly(0.5, answers=False)[0] == 0
    assert flight.fly(2.0, answers=False)[:2] == (1, "no setpoint answers a pose for 22.5 s")
    assert flight.fly(2.0, answers=False, poses=False)[0] == 0  # nothing to answer


def test_a_guard_that_died_is_silent():
    flight = Flight()
    flight.fly(5.0)
    assert flight.fly(3.5, answers=False, reports=False)[:2] == (1, "the guard is silent")
    assert flight.guard.words(flight.now_ns * 1e-9) == "guard silent"
    flight.fly(0.1)
    assert flight.guard.words(flight.now_ns * 1e-9) == "passing, margin 0.71 m"


def test_stamps_of_px4_are_in_microseconds_before_all_else():
    """px4_msgs: the first field of each message is uint64 timestamp; others begin with a header."""
    stamp_ns = 1_700_000_000_123_456_000
    cdr = b"\0\1\0\0" + struct.pack("<Q", stamp_ns // 1000) + struct.pack("<3f", 1.0, 2.0, 3.0)
    assert stamp_reader("px4_msgs/msg/TrajectorySetpoint")(cdr) == stamp_ns
    message = LaserScan()
    message.header.stamp.sec, message.header.stamp.nanosec = 3, 4
    assert stamp_reader("sensor_msgs/msg/LaserScan")(serialize_message(message)) == 3 * 10**9 + 4
