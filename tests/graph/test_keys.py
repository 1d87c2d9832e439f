"""Keys in a terminal: what they push, how long, and that the terminal is given back."""

import math
import os
import pty
import signal
import sys
import termios
from pathlib import Path

import numpy as np
import pytest
from geometry_msgs.msg import WrenchStamped
from nav_msgs.msg import Odometry
from std_srvs.srv import SetBool, Trigger

from quadsim.base.errors import InputError
from quadsim.ros.nodes.keys import Keyboard, KeysNode, force_of
from quadsim.ros.runtime import qos

NORTH = math.pi / 2


@pytest.mark.parametrize(
    ("key", "east_north"),
    [("up", (0.0, 3.0)), ("down", (0.0, -3.0)), ("left", (-3.0, 0.0)), ("right", (3.0, 0.0))],
)
def test_an_arrow_pushes_along_the_heading(key, east_north):
    np.testing.assert_allclose(force_of(key, NORTH, 3.0), (*east_north, 0.0), atol=1e-12)


class World:
    """The truth of a vehicle that faces north and rolls, and the services of the dynamics."""

    def __init__(self, bench) -> None:
        self.bench, self.time_ns, self.asked = bench, 0, []
        self.wrenches: list[tuple[float, WrenchStamped]] = []
        self._truth = bench.node.create_publisher(Odometry, "/quad/ground_truth/odom", qos.FAST)
        bench.node.create_subscription(
            WrenchStamped,
            "/quad/external_wrench",
            lambda message: self.wrenches.append((self.time_ns * 1e-9, message)),
            qos.RELIABLE,
        )
        bench.node.create_service(SetBool, "/sim/pause", self._on_pause)
        bench.node.create_service(Trigger, "/sim/reset", self._on_reset)

    def _on_pause(self, request, response):
        self.asked.append(request.data)
        response.success = True
        return response

    def _on_reset(self, _, response):
        self.asked.append("reset")
        response.success = True
        return response

    def tick(self) -> bool:
        """The next truth, 2 ms later; False, so that a wait goes on."""
        self.time_ns += 2_000_000
        message = Odometry()
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(self.time_ns, 10**9)
        # 90 degrees of yaw after 30 degrees of roll
        half, roll = NORTH / 2, math.radians(15.0)
        q = message.pose.pose.orientation
        q.w, q.x = math.cos(half) * math.cos(roll), math.cos(half) * math.sin(roll)
        q.y, q.z = math.sin(half) * math.sin(roll), math.sin(half) * math.cos(roll)
        self._truth.publish(message)
        return False


def force(message: WrenchStamped) -> list[float]:
    f = message.wrench.force
    return [f.x, f.y, f.z]


def test_a_press_is_a_level_pulse_of_simulated_time_and_letters_ask_the_world(bench, keyboard):
    world = World(bench)
    keys = KeysNode(keyboard, context=bench.context, namespace="/quad", overrides={"force_N": 2.0})
    bench.add(keys)
    bench.until(lambda: world.tick() or keys.count_publishers("/quad/ground_truth/odom") > 0)
    # the first press needs a truth and a listener; one that comes before both pushes nothing
    bench.until(lambda: world.tick() or keys.count_subscribers("/quad/external_wrench") > 0)

    def pressed(key: str, done) -> None:
        keyboard.keys.append(key)
        bench.until(lambda: world.tick() or done())

    bench.until(lambda: world.tick() or bool(keys._truth))
    pressed("up", lambda: len(world.wrenches) >= 2)
    (_, begin), (_, end) = world.wrenches
    assert begin.header.frame_id == "map"
    np.testing.assert_allclose(force(begin), (0.0, 2.0, 0.0), atol=1e-12)
    assert force(end) == [0.0, 0.0, 0.0]
    stamps = [message.header.stamp for message in (begin, end)]
    begin_ns, end_ns = (stamp.sec * 1_000_000_000 + stamp.nanosec for stamp in stamps)
    # stamps come every 2 ms, and the bench is slower than they: a truth or two may be skipped
    assert 200_000_000 <= end_ns - begin_ns < 250_000_000

    pressed(" ", lambda: world.asked == [True])
    pressed(" ", lambda: world.asked == [True, False])
    pressed("r", lambda: world.asked[-1] == "reset")

    seen: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: seen.append(number))
    try:
        pressed("q", lambda: bool(seen))
    finally:
        signal.signal(signal.SIGINT, before)
    bench.end(keys)
    assert keyboard.closed


def test_the_keyboard_reads_arrows_and_gives_the_terminal_back(monkeypatch):
    leader, follower = pty.openpty()
    with os.fdopen(leader, "wb", buffering=0) as person, os.fdopen(follower) as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        before = termios.tcgetattr(follower)
        keyboard = Keyboard()
        assert not termios.tcgetattr(follower)[3] & termios.ECHO
        person.write(b"\x1b[A\x1b[D r")
        pressed: list[str] = []
        while len(pressed) < 4:  # a terminal may hand them over one by one
            pressed += keyboard.pressed()
        assert pressed == ["up", "left", " ", "r"]
        person.write(b"\x03")
        while not (pressed := keyboard.pressed()):
            pass
        assert pressed == ["c-c"]
        keyboard.close()
        assert termios.tcgetattr(follower) == before


def test_no_terminal_is_one_line(monkeypatch):
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        with pytest.raises(InputError, match="no terminal"):
            Keyboard()
