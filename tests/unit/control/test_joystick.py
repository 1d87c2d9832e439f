"""Joysticks through their mappings: what counts, what does not, and what is refused."""

import math

import numpy as np
import pytest
from click.testing import CliRunner

from quadsim.base.errors import InputError
from quadsim.base.files import known
from quadsim.cli.fly import fly
from quadsim.control.joystick import Joystick, load_joystick, shaped

TICK_NS = 50_000_000
CENTRED = [0.0] * 6
LIKE_A_PAD = """
axes:
  forward: {index: 4, dead_zone: 0.1, expo: 0.0}
  left: {index: 3, dead_zone: 0.1, expo: 0.0}
  up: {index: 1, sign: -1, dead_zone: 0.1, expo: 0.0}
  yaw: {index: 0, dead_zone: 0.1, expo: 0.0}
buttons: {arm: 2, land: 0}
"""


def mapping(tmp_path, text=LIKE_A_PAD):
    path = tmp_path / "pad.yaml"
    path.write_text(text)
    return load_joystick(str(path))


class Pad:
    """A joystick whose messages come every 50 ms."""

    def __init__(self, params):
        self.joystick, self.stamp_ns = Joystick(params), 0

    def say(self, axes=(0.0,) * 6, buttons=(0, 0, 0), after_ns=TICK_NS):
        self.stamp_ns += after_ns
        return self.joystick.read(axes, buttons, self.stamp_ns)


@pytest.mark.parametrize(
    ("deflection", "expected"),
    [
        (0.0, 0.0), (0.2, 0.0), (-0.2, 0.0),  # the dead zone, its edge included
        (1.0, 1.0), (-1.0, -1.0), (1.005, 1.0),
        # x = (0.6 - 0.2) / 0.8 = 1/2: 0.6 x + 0.4 x^3 = 0.35
        (0.6, 0.35), (-0.6, -0.35),
    ],
)  # fmt: skip
def test_a_stick_is_shaped_by_dead_zone_and_expo(deflection, expected):
    assert shaped(deflection, 0.2, 0.4) == pytest.approx(expected, abs=1e-15)


def test_a_shaped_stick_never_jumps_and_never_turns_back():
    deflections = np.linspace(-1.0, 1.0, 2001)
    for dead_zone, expo in [(0.0, 0.0), (0.1, 0.3), (0.5, 1.0)]:
        steps = np.diff([shaped(x, dead_zone, expo) for x in deflections])
        assert steps.min() >= 0.0
        # steepest at the end: (1 - expo + 3 expo) / (1 - dead_zone)
        assert steps.max() <= 1e-3 * (1.0 + 2.0 * expo) / (1.0 - dead_zone) * 1.001


def test_axes_go_to_their_sticks_with_their_signs(tmp_path):
    pad = Pad(mapping(tmp_path))
    pad.say()
    sticks = pad.say([0.1, 1.0, -1.0, 0.55, -0.55, 1.0]).sticks
    assert sticks == pytest.approx((-0.5, 0.5, -1.0, 0.0))


def test_sticks_count_from_when_all_have_been_released(tmp_path):
    pad = Pad(mapping(tmp_path))
    lever = [0.0, 1.0, 0.0, 0.0, 0.5, 0.0]
    assert pad.say(lever).sticks == (0.0, 0.0, 0.0, 0.0)
    pad.say()
    assert pad.say(lever).sticks[2] == -1.0
    # a joystick that was away counts as plugged in anew
    assert pad.say(lever, after_ns=600_000_000).sticks == (0.0, 0.0, 0.0, 0.0)


def test_a_button_asks_once_when_it_goes_down(tmp_path):
    pad = Pad(mapping(tmp_path))
    assert pad.say(buttons=(1, 0, 0)).asked == ()  # held down when it was plugged in
    pad.say()
    assert pad.say(buttons=(1, 0, 0)).asked == ("land",)
    assert pad.say(buttons=(1, 0, 0)).asked == ()


def test_arm_is_held_for_a_second(tmp_path):
    pad = Pad(mapping(tmp_path))
    pad.say()
    asked = [pad.say(buttons=(0, 0, 1)).asked for _ in range(40)]
    assert asked.index(("arm",)) == 20  # 1 s after the first
    assert asked.count(("arm",)) == 1
    pad.say()
    assert not any(pad.say(buttons=(0, 0, 1)).asked for _ in range(19))
    pad.say()
    assert not any(pad.say(buttons=(0, 0, 1)).asked for _ in range(10))
    # two messages with a gap between them do not make a second
    assert pad.say(buttons=(0, 0, 1), after_ns=900_000_000).asked == ()


@pytest.mark.parametrize(
    ("axes", "buttons", "words"),
    [
        (CENTRED[:4], (0, 0, 0), "4 axes and 3 buttons; the mapping needs 5 and 3"),
        (CENTRED, (0, 0), "6 axes and 2 buttons"),
        ([0.0, math.nan, 0.0, 0.0, 0.0], (0, 0, 0), "axis 1: nan"),
        ([0.0, 0.0, -1.02, 0.0, 0.0], (0, 0, 0), "axis 2: -1.02; allowed: -1 to 1"),
        ([0.0, 0.0, 0.0, 0.0, math.inf], (0, 0, 0), "axis 4: inf"),
    ],
)
def test_a_malformed_message_is_refused_and_forgotten(tmp_path, axes, buttons, words):
    pad = Pad(mapping(tmp_path))
    pad.say()
    with pytest.raises(InputError, match=words):
        pad.say(axes, buttons)
    assert pad.say([0.0] * 4 + [1.0, 0.0]).sticks[0] == 1.0


@pytest.mark.parametrize("name", known("joysticks"))
def test_every_shipped_mapping_can_be_flown(name):
    params = load_joystick(name)
    asked_for = params.buttons.named()
    assert {"arm", "disarm", "take_off", "land", "hover", "start", "assisted"} <= set(asked_for)
    pad = Pad(params)
    buttons = [0] * 32
    pad.say([0.0] * 8, buttons)
    for axis, stick in zip(params.axes.all(), range(4), strict=True):
        axes = [0.0] * 8
        axes[axis.index] = axis.sign
        expected = [0.0] * 4
        expected[stick] = 1.0
        assert pad.say(axes, buttons).sticks == tuple(expected)


@pytest.mark.parametrize("name", ["xbox", "ps4", "ps5", "logitech_f310"])
def test_a_pads_left_stick_is_throttle_and_yaw(name):
    """joy_node gives +1 for a stick that is pushed away or to the left."""
    pad = Pad(load_joystick(name))
    buttons = [0] * 13
    pad.say([0.0] * 8, buttons)
    left_away = [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    right_to_the_left = [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    assert pad.say(left_away, buttons).sticks == (0.0, 0.0, 1.0, 0.0)
    assert pad.say(right_to_the_left, buttons).sticks == (0.0, 1.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("sign: -1", "sign: 0", "axes: up: sign: 0; allowed: 1, -1"),
        ("index: 3", "index: 4", "axes: left: 4 is forward already"),
        ("land: 0", "land: 2", "buttons: land: 2 is arm already"),
        ("  yaw: {index: 0, dead_zone: 0.1, expo: 0.0}\n", "", "axes: the key 'yaw' is missing"),
    ],
)
def test_a_bad_mapping_is_one_line(tmp_path, old, new, words):
    assert old in LIKE_A_PAD
    with pytest.raises(InputError, match=words) as refused:
        mapping(tmp_path, LIKE_A_PAD.replace(old, new, 1))
    assert str(tmp_path / "pad.yaml") in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_keys_need_a_terminal():
    refused = CliRunner().invoke(fly, ["--pilot"]).exception
    assert isinstance(refused, InputError)
    assert str(refused) == "--pilot: standard input is no terminal"
