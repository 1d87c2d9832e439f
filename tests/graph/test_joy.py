"""A joystick flies the autopilot; a keyboard is a joystick."""

import math
import signal

import numpy as np
import pytest
from nav_msgs.msg import Odometry
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import Joy

from quadsim.base.records import MODE_POSITION
from quadsim.control.joystick import Joystick, load_joystick
from quadsim.ros.messages.world import make_time
from quadsim.ros.nodes import autopilot
from quadsim.ros.nodes.pilot import BUTTONS, Keypad, PilotNode, PilotParams
from quadsim.ros.runtime import qos

TICK_NS = 20_000_000
XBOX = load_joystick("xbox")


class Vehicle:
    """A vehicle that follows at once, its clock, and an Xbox pad in somebody's hands."""

    def __init__(self, bench) -> None:
        self.bench, self.time_ns, self.p, self.v, self.yaw = bench, 0, np.zeros(3), np.zeros(3), 0.0
        self.axes, self.down, self.plugged = [0.0] * 8, [0] * 11, True
        self.node = bench.add(
            autopilot.make(
                bench.context,
                namespace="/quad",
                overrides={"use_sim_time": True, "joystick": "xbox"},
            )
        )
        publisher = bench.node.create_publisher
        self._clock = publisher(Clock, "/clock", qos.CLOCK)
        self._odometry = publisher(Odometry, "/quad/odometry/filtered", qos.FAST)
        self._joy = publisher(Joy, "/quad/joy", qos.RELIABLE)
        bench.until(
            lambda: all(
                p.get_subscription_count() > 0 for p in (self._clock, self._odometry, self._joy)
            )
        )
        self.events: list[str] = []

    @property
    def state(self) -> str:
        return self.node.manager.state

    def say(self, axes) -> None:
        self._joy.publish(Joy(axes=axes, buttons=self.down))

    def tick(self) -> None:
        self.time_ns += TICK_NS
        clock = self.node.get_clock()
        self._clock.publish(Clock(clock=make_time(self.time_ns)))
        self.bench.until(lambda: clock.now().nanoseconds >= self.time_ns)
        if self.plugged and self.time_ns % (5 * TICK_NS) == 0:
            self.say(self.axes)
        message = Odometry(child_frame_id="base_link")
        message.header.frame_id = "map"
        message.header.stamp = make_time(self.time_ns)
        pose, twist = message.pose.pose, message.twist.twist
        pose.position.x, pose.position.y, pose.position.z = self.p.tolist()
        pose.orientation.w, pose.orientation.z = math.cos(self.yaw / 2), math.sin(self.yaw / 2)
        c, s = math.cos(self.yaw), math.sin(self.yaw)
        twist.linear.x, twist.linear.y = (
            c * self.v[0] + s * self.v[1],
            c * self.v[1] - s * self.v[0],
        )
        twist.linear.z = float(self.v[2])
        self._odometry.publish(message)
        self.bench.until(lambda: self.node._stepped_ns >= self.time_ns)
        setpoint = self.node._setpoint
        if setpoint.mode == MODE_POSITION:
            self.p, self.v = setpoint.p_W.copy(), setpoint.v_W.copy()
            self.yaw = float(setpoint.yaw)

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds * 50)):
            self.tick()

    def until(self, *states: str, most_s: float = 15.0) -> None:
        for _ in range(round(most_s * 50)):
            if self.state in states:
                return
            self.tick()
        raise AssertionError(f"{self.state}, not {states}: {self.bench.reports}")

    def press(self, name: str, seconds: float = 0.3) -> None:
        index = XBOX.buttons.named()[name]
        self.down[index] = 1
        self.run(seconds)
        self.down[index] = 0


def test_a_joystick_arms_flies_and_disappears_and_the_vehicle_hovers(bench):
    vehicle = Vehicle(bench)
    vehicle.run(0.3)
    vehicle.press("arm")
    assert vehicle.state == "disarmed"  # not held for a second
    vehicle.run(0.2)
    vehicle.press("arm", 1.2)
    assert vehicle.state == "armed"
    vehicle.press("take_off")
    vehicle.until("assisted")
    assert vehicle.p[2] == pytest.approx(2.0, abs=0.05)
    vehicle.press("manual")  # which is not allowed
    assert vehicle.state == "assisted"
    vehicle.axes[4] = 1.0  # right stick away: forward
    vehicle.run(1.5)
    assert vehicle.v[0] > 2.0
    # what is no joystick's is counted, and the flight goes on
    for axes in ([0.0] * 3, [math.nan] * 8, [1.5] * 8):
        vehicle.say(axes)
    vehicle.run(0.5)
    assert vehicle.node.counts["joy refused"] == 3
    assert vehicle.v[0] > 3.0
    vehicle.plugged = False
    vehicle.until("hover", most_s=5.0)
    assert np.linalg.norm(vehicle.v) < 0.1
    held = vehicle.p.copy()
    vehicle.run(1.0)
    np.testing.assert_allclose(vehicle.p, held, atol=0.02)


def test_of_two_joysticks_none_flies_and_each_lands(bench):
    """Sticks count as released, what begins something is refused, and both are named."""
    vehicle = Vehicle(bench)
    vehicle.run(0.3)
    vehicle.press("arm", 1.2)
    vehicle.press("take_off")
    vehicle.until("assisted")
    vehicle.axes[4] = 1.0
    vehicle.run(1.0)
    assert vehicle.v[0] > 1.0
    other = bench.publisher(Joy, "/quad/joy", qos.RELIABLE)
    for _ in range(100):
        other.publish(Joy(axes=[0.0] * 4 + [1.0] + [0.0] * 3, buttons=[0] * 11))
        vehicle.tick()
    assert np.linalg.norm(vehicle.v) < 0.1
    assert vehicle.node.health()[1] == f"{vehicle.state}; 2 publish joy: /bench, /bench"
    vehicle.press("start")
    assert vehicle.state in ("assisted", "hover")
    vehicle.press("land")
    assert vehicle.state == "landing"


def test_a_key_is_held_for_a_while_and_then_falls_back():
    keypad = Keypad(PilotParams(hold_s=0.4))
    keypad.press("up", 10.0)
    assert keypad.sticks(10.39) == (1.0, 0.0, 0.0, 0.0)
    assert keypad.sticks(10.55) == pytest.approx((0.5, 0.0, 0.0, 0.0))
    assert keypad.sticks(10.71) == (0.0, 0.0, 0.0, 0.0)
    keypad.press("a", 11.0)
    keypad.press("s", 11.1)
    assert keypad.sticks(11.2) == (0.0, 0.0, -1.0, 1.0)
    keypad.press("w", 11.2)  # the other way at once
    assert keypad.sticks(11.2)[2] == 1.0
    keypad.press(" ", 11.2)
    assert keypad.sticks(11.2) == (0.0, 0.0, 0.0, 0.0)


def test_the_keys_are_the_joystick_of_the_shipped_mapping():
    joystick, keypad = Joystick(load_joystick("keyboard")), Keypad(PilotParams())

    def read(now_s):
        return joystick.read(keypad.sticks(now_s), keypad.buttons(now_s), round(now_s * 1e9))

    for k, (key, name) in enumerate(BUTTONS.items(), 1):
        start_s = 10.0 * k
        asked = set(read(start_s - 0.05).asked)
        for step in range(40):  # held, as a terminal repeats it: after half a second, then often
            if step == 0 or step >= 10:
                keypad.press(key, start_s + 0.05 * step)
            asked |= set(read(start_s + 0.05 * step).asked)
        assert asked == {name}, key
    read(499.9)
    keypad.press("right", 500.0)
    assert read(500.0).sticks == (0.0, -1.0, 0.0, 0.0)


def test_the_pilot_publishes_what_is_pressed(bench, keyboard):
    heard = []
    pilot = PilotNode(keyboard, context=bench.context, namespace="/quad")
    bench.add(pilot)
    bench.node.create_subscription(Joy, "/quad/joy", heard.append, qos.RELIABLE)
    bench.until(lambda: bool(heard))
    assert list(heard[-1].axes) == [0.0] * 4
    keyboard.keys += ["up", "o"]
    bench.until(lambda: heard[-1].axes[0] > 0.0)
    assert heard[-1].buttons[0] == 1
    bench.until(lambda: heard[-1].axes[0] == 0.0)  # released, which no terminal says
    assert "waiting for the autopilot" in pilot.line()
    seen: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: seen.append(number))
    try:
        keyboard.keys.append("q")
        bench.until(lambda: bool(seen))
    finally:
        signal.signal(signal.SIGINT, before)
    bench.end(pilot)
    assert keyboard.closed
