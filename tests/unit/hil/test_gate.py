"""The gate before a vehicle: what it refuses, and what it does then."""

import math

import pytest

from quadsim.base.files import find
from quadsim.base.parameters import load
from quadsim.hil.guard.emergency import LAND_SINK_MPS
from quadsim.hil.guard.gate import CommandGateParams, Gate
from quadsim.hil.guard.parameters import GuardParams

GUARD = load(GuardParams, find("guards", "default"))
PARAMS = CommandGateParams(GUARD.limits, GUARD.watch)
ALONE = ("/quad/guard",)
STEP_NS = 20_000_000
#: By so much the vehicle's clock, which stamps poses and so commands, is behind.
CLOCK_NS = 7 * 10**15


class Way:
    """Commands at 50 Hz through a gate, and what comes out of it."""

    def __init__(self) -> None:
        self.gate = Gate(PARAMS, "/quad/guard")
        self.now_ns = 10**12
        self.obeys: bool | None = True
        self.sent: list[tuple[float, float, float]] = []
        self.told: list[str] = []
        self.behind_ns = 0

    def stall(self, seconds) -> None:
        """Commands come later by so much from now on."""
        self.now_ns += round(seconds * 1e9)
        self.behind_ns += round(seconds * 1e9)

    def run(self, seconds, v_W=(1.0, 0.0, 0.0), yaw_rate=0.0, age_s=0.01, publishers=ALONE):
        """Commands; ``v_W`` None: there are none."""
        self.sent.clear()
        for _ in range(round(seconds * 50)):
            self.now_ns += STEP_NS
            stamp_ns = self.now_ns - CLOCK_NS - round(age_s * 1e9) - self.behind_ns
            if v_W is not None and self.gate.take(self.now_ns, stamp_ns, v_W, yaw_rate, publishers):
                self.sent.append(v_W)
            instead = self.gate.step(self.now_ns, self.obeys)
            if instead is not None:
                self.sent.append(instead)
            self.told += [event.words for event in self.gate.take_events()]
        return self


BAD = [
    ({"publishers": ("/quad/guard", "/quad/guard")}, "2 publish command_velocity/safe"),
    ({"publishers": ("/quad/guard", "/me/script")}, "(/me/script, /quad/guard)"),
    ({"publishers": ("/me/script",)}, "comes from /me/script; allowed: the guard (/quad/guard)"),
    ({"v_W": (3.0, 2.7, 0.0)}, "speed 4.04 m/s; the guard's file allows: 4"),
    ({"v_W": (1e30, 0.0, 0.0)}, "speed 1e+30 m/s"),
    ({"v_W": (0.0, 0.0, 1.6)}, "climb 1.6 m/s; the guard's file allows: 1.5"),
    ({"v_W": (0.0, 0.0, -1.1)}, "sink 1.1 m/s; the guard's file allows: 1"),
    ({"yaw_rate": -1.6}, "yaw rate 1.6 rad/s; the guard's file allows: 1.5"),
]


@pytest.mark.parametrize(("wrong", "words"), BAD)
def test_what_is_wrong_does_not_go_out_and_is_named_once(wrong, words):
    way = Way().run(0.5, **wrong)
    assert way.sent == []  # nor is a vehicle stopped that was not flown
    (told,) = way.told
    assert words in told
    assert words in way.gate.refused


@pytest.mark.parametrize(("wrong", "words"), BAD)
def test_a_vehicle_that_was_flown_is_stopped_and_landed(wrong, words):
    """Zero after late_s, 0.06 s, and a landing after 1 s."""
    way = Way().run(1.0)
    assert way.sent == [(1.0, 0.0, 0.0)] * 50
    way.run(0.9, **wrong)
    assert set(way.sent) == {(0.0, 0.0, 0.0)}
    assert 45 - 4 <= len(way.sent) <= 45 - 3
    assert not way.gate.landing
    way.run(0.5, **wrong)
    assert words in way.gate.landing
    assert way.sent[-1] == (0.0, 0.0, -LAND_SINK_MPS)
    assert [words in told for told in way.told] == [True, True]
    assert way.told[1].startswith("landing: ")
    # what is good again does not fly it on, until the commands have ended
    assert way.run(0.5).sent == [(0.0, 0.0, -LAND_SINK_MPS)] * 25
    way.run(1.0, v_W=None)
    assert not way.gate.landing
    assert len(way.run(0.1).sent) == 5


def test_a_short_refusal_is_over_when_it_is_over():
    way = Way().run(1.0)
    way.run(0.3, publishers=("/quad/guard", "/me/script"))
    assert way.run(0.2).sent == [(1.0, 0.0, 0.0)] * 10
    assert not way.gate.refused
    assert len(way.told) == 1


def test_commands_that_come_late_do_not_go_out():
    """A link or a driver that is slower by 0.2 s from then on; to stop and land is never late."""
    way = Way().run(1.0)
    way.stall(0.2)
    way.run(0.3)
    assert set(way.sent) == {(0.0, 0.0, 0.0)}
    assert "a command is 0.20 s old; allowed: 0.15" in way.told[0]
    for ends in ((0.0, 0.0, 0.0), (0.0, 0.0, -LAND_SINK_MPS)):
        way = Way().run(1.0)
        way.stall(0.2)
        assert way.run(0.2, ends).gate.refused == ""


def test_what_has_waited_while_the_process_stood_still_is_dropped():
    """SIGSTOP and SIGCONT, 1 s apart: the old command is refused, whichever is turned first."""
    for steps_first in (True, False):
        way = Way().run(1.0)
        old_ns = way.now_ns - CLOCK_NS + STEP_NS
        way.now_ns += 10**9
        if steps_first:
            way.gate.step(way.now_ns, True)
        assert not way.gate.take(way.now_ns, old_ns, (1.0, 0.0, 0.0), 0.0, ALONE)
        assert "a command is 0.9" in way.gate.refused
        assert len(way.run(0.1).sent) == 5  # fresh ones go on


def test_stamps_rise():
    way = Way().run(1.0)
    stamp_ns = way.now_ns - CLOCK_NS
    for back_ns in (0, 10**9, 10**15):
        assert not way.gate.take(way.now_ns + 1, stamp_ns - back_ns - 10**7, (1, 0, 0), 0.0, ALONE)
        assert "goes back, or stays" in way.gate.refused
    way.run(1.0, v_W=None)  # another clock, once the guard was silent
    assert len(way.run(0.1, age_s=100.0).sent) == 5


@pytest.mark.parametrize("obeys", [True, None, False])
def test_a_vehicle_that_its_pilot_flies_is_left_alone(obeys):
    way = Way().run(1.0)
    way.obeys = obeys
    way.run(2.0, publishers=(*ALONE, "/me/script"))
    assert bool(way.sent) is (obeys is not False)
    assert bool(way.gate.landing) is (obeys is not False)


def test_a_guard_that_falls_silent_is_not_replaced():
    """It was disabled: the vehicle's own loss of setpoints acts, or its pilot."""
    way = Way().run(1.0)
    assert way.run(3.0, v_W=None).sent == []
    assert way.told == []


def test_what_the_guard_itself_sends_is_within_the_gate():
    """The descent beside the call to land, and the limits themselves."""
    limits = GUARD.limits
    level = limits.speed_max_mps * math.sqrt(0.5)
    for v_W in (
        (0.0, 0.0, -LAND_SINK_MPS),
        (level, -level, limits.climb_max_mps),
        (0.0, 0.0, -limits.sink_max_mps),
    ):
        assert len(Way().run(0.1, v_W, limits.yaw_rate_max_radps).sent) == 5
