"""Which resets count: none of the future, none that states no time."""

from types import SimpleNamespace

import pytest

pytest.importorskip("rclpy")

from quadsim.base.errors import InputError
from quadsim.ros.messages.cdr import MessageError
from quadsim.ros.runtime.base import make_status
from quadsim.ros.runtime.reset_times import BEHIND_IN_ROW, Behind, ResetTimes, reset_stamp
from quadsim.ros.runtime.resets import Resets

SECOND_NS = 1_000_000_000


@pytest.mark.parametrize("text", ["abc", "nan", "inf", "-1", "1e12", ""])
def test_a_reset_at_no_time_is_refused(text):
    with pytest.raises(MessageError, match="is no time"):
        reset_stamp(make_status(0, "reset", "", {"stamp_s": text}))


def test_a_reset_states_its_time():
    assert reset_stamp(make_status(0, "reset", "", {"stamp_s": "2.5"})) == 2_500_000_000
    assert reset_stamp(make_status(0, "reset", "")) == 0


def test_a_reset_of_the_future_is_refused():
    times = ResetTimes()
    times.settled(10 * SECOND_NS)
    times.check(11 * SECOND_NS, 0)
    times.check(21 * SECOND_NS, 20 * SECOND_NS)
    with pytest.raises(MessageError, match="of the future"):
        times.check(11 * SECOND_NS + 1, 0)


def test_what_was_said_of_another_time_is_forgotten():
    times = ResetTimes()
    assert times.begin(100 * SECOND_NS)
    assert not times.begin(SECOND_NS)
    assert not times.settled(100 * SECOND_NS)
    times.forget()
    assert times.settled(2 * SECOND_NS)
    assert times.begin(3 * SECOND_NS)
    times.follow(50 * SECOND_NS)
    times.follow(40 * SECOND_NS)  # the truth of another run
    assert times.begin(SECOND_NS)


def test_one_late_message_is_no_new_time_but_a_row_of_them_is():
    behind = Behind()
    seen = [behind.seen(SECOND_NS, 9 * SECOND_NS) for _ in range(BEHIND_IN_ROW)]
    assert seen == [False] * (BEHIND_IN_ROW - 1) + [True]
    behind = Behind()
    for _ in range(4 * BEHIND_IN_ROW):
        assert not behind.seen(SECOND_NS, 9 * SECOND_NS)
        assert not behind.seen(9 * SECOND_NS, 9 * SECOND_NS)
        assert not behind.seen(8 * SECOND_NS, 9 * SECOND_NS)  # late, not of another time


@pytest.mark.parametrize(("simulated", "sensor"), [(True, False), (False, True), (False, False)])
def test_resets_count_in_simulation_only(simulated, sensor):
    clock = SimpleNamespace(now=lambda: SimpleNamespace(nanoseconds=5 * SECOND_NS))
    begun = []
    resets = Resets.__new__(Resets)
    resets._node = SimpleNamespace(simulated=simulated, get_clock=lambda: clock)
    resets._simulated, resets._times = sensor, ResetTimes()
    resets._begin, resets._read_again = lambda *given: begun.append(given), lambda: True
    resets.hear(make_status(0, "reset", "back", {"stamp_s": "5.0"}))
    assert begun == ([(5 * SECOND_NS, True)] if simulated or sensor else [])


def test_parameters_are_in_force_only_when_nobody_has_refused_them():
    held = []

    def take(given, _):
        if "bad" in given:
            raise InputError("bad")
        return lambda: held.append(given)

    resets = Resets.__new__(Resets)
    resets._reading, resets._take, resets._apply = True, take, lambda: None
    assert resets._on_set([SimpleNamespace(name="a", value=1)]).successful
    assert held == []  # a later callback may still refuse
    assert not resets._on_set([SimpleNamespace(name="bad", value=1)]).successful
    resets._after_set([])
    assert held == []  # nor is what was refused applied with the next
    assert resets._on_set([SimpleNamespace(name="b", value=2)]).successful
    resets._after_set([])
    resets._after_set([])
    assert held == [{"b": 2}]
