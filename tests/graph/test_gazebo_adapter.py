"""gazebo_adapter at its border, on real DDS: time, what is refused, and what it says of Gazebo."""

import sys
from types import ModuleType

import pytest
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import Imu, JointState, MagneticField, NavSatFix

from quadsim.base.errors import InputError
from quadsim.ros.nodes import gazebo_adapter
from quadsim.ros.runtime import qos

SECOND_NS = 10**9


@pytest.fixture
def actuators(monkeypatch):
    """JointState, which has a velocity too, in place of a type that the wheels lack."""
    messages = ModuleType("actuator_msgs.msg")
    messages.Actuators = JointState
    monkeypatch.setitem(sys.modules, "actuator_msgs", ModuleType("actuator_msgs"))
    monkeypatch.setitem(sys.modules, "actuator_msgs.msg", messages)


def stamped(message, stamp_ns: int, frame: str = "quad/base_link/sensor"):
    message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp_ns, SECOND_NS)
    message.header.frame_id = frame
    return message


def stamp_ns_of(message) -> int:
    return message.header.stamp.sec * SECOND_NS + message.header.stamp.nanosec


def test_stamps_are_those_of_the_clock(bench, actuators):
    node = bench.add(gazebo_adapter.make(bench.context, namespace="/quad1"))
    datum: list[NavSatFix] = bench.heard(NavSatFix, "/datum", qos.LATCHED)
    samples: list[Imu] = bench.heard(Imu, "/quad1/imu/data_raw", qos.FAST)
    imu = bench.node.create_publisher(Imu, "/quad1/gazebo/imu", qos.FAST)
    clock = bench.node.create_publisher(Clock, "/clock", qos.CLOCK)

    def at(time_ns: int) -> None:
        message = Clock()
        message.clock.sec, message.clock.nanosec = divmod(time_ns, SECOND_NS)
        clock.publish(message)
        bench.until(lambda: node.get_clock().now().nanoseconds == time_ns)

    bench.until(
        lambda: (
            imu.get_subscription_count() > 0
            and clock.get_subscription_count() > 0
            and node.count_subscribers("/quad1/imu/data_raw") > 0
            and bool(datum)
        )
    )
    assert datum[0].latitude == pytest.approx(47.397742)
    assert node.health()[0] == 1  # nothing has come
    imu.publish(stamped(Imu(), SECOND_NS))
    bench.until(lambda: node.counts.get("before /clock") == 1)
    at(10 * SECOND_NS)
    for stamp_ns in (10 * SECOND_NS - 2_000_000, 10 * SECOND_NS, 10 * SECOND_NS, 9 * SECOND_NS):
        # good, good, a repeat; of another time, which is the clock's by now: a repeat too
        imu.publish(stamped(Imu(), stamp_ns))
    bench.until(lambda: node.counts.get("gazebo/imu refused") == 2)
    at(10 * SECOND_NS + 2_000_000)
    imu.publish(stamped(Imu(), 0))  # without a stamp
    bench.until(lambda: len(samples) == 3)
    at(10 * SECOND_NS + 4_000_000)
    imu.publish(stamped(Imu(), 1_700_000_000 * SECOND_NS))  # of the wall clock
    bench.until(lambda: len(samples) == 4)
    assert [stamp_ns_of(m) - 10 * SECOND_NS for m in samples] == [
        -2_000_000, 0, 2_000_000, 4_000_000,
    ]  # fmt: skip
    assert {m.header.frame_id for m in samples} == {"quad1/imu_link"}
    assert node.counts["restamped"] == 3
    assert "not those of /clock" in node.health()[1]
    assert "paused, or gone" in node.health()[1]  # nothing since it was last asked
    at(2 * SECOND_NS)  # Gazebo was reset
    imu.publish(stamped(Imu(), 2 * SECOND_NS))
    bench.until(lambda: len(samples) == 5)
    assert stamp_ns_of(samples[-1]) == 2 * SECOND_NS


def test_a_field_in_gauss_is_said_once_and_reaches_nobody(bench, actuators, capfd):
    node = bench.add(gazebo_adapter.make(bench.context, namespace="/quad"))
    clock = bench.node.create_publisher(Clock, "/clock", qos.CLOCK)
    field = bench.node.create_publisher(MagneticField, "/quad/gazebo/magnetometer", qos.FAST)
    bench.until(lambda: field.get_subscription_count() > 0 and clock.get_subscription_count() > 0)
    time = Clock()
    time.clock.sec = 1
    clock.publish(time)
    bench.until(lambda: node.get_clock().now().nanoseconds > 0)
    for i in range(3):
        message = stamped(MagneticField(), SECOND_NS + i)
        message.magnetic_field.y = 0.2
        field.publish(message)
    bench.until(lambda: node.counts.get("gazebo/magnetometer refused") == 3)
    said = capfd.readouterr().err
    assert said.count("a message is not used") == 1
    assert "<use_units_gauss>false" in said


def test_without_actuator_msgs_it_says_so_in_one_line(bench, monkeypatch):
    monkeypatch.setitem(sys.modules, "actuator_msgs", None)  # wherever this runs
    with pytest.raises(InputError, match="actuator_msgs is not installed"):
        gazebo_adapter.make(bench.context, namespace="/quad")


def test_an_unknown_sensor_is_named(bench, actuators):
    with pytest.raises(InputError, match=r"sensors: 'gps'; known: imu, gnss"):
        gazebo_adapter.make(bench.context, overrides={"sensors": ["imu", "gps"]})
