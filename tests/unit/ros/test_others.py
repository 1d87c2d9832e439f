"""Other vehicles by what was last heard of them: where they are, and for how long that is known."""

import pytest

pytest.importorskip("rclpy")

from quadsim.ros.parts import other_vehicles as others
from quadsim.ros.parts.other_vehicles import Others, OthersParams

SECOND_NS = 1_000_000_000


@pytest.fixture
def two(monkeypatch):
    """Two that were heard of 10 s and 9.4 s from the start, each at 3 m/s to the east."""
    monkeypatch.setattr(others, "declare", lambda *_: OthersParams(flies_on_s=0.5))
    monkeypatch.setattr(others, "declare_texts", lambda *_: ())
    made = Others(object())
    made._sizes_m = [(0.4, 0.8)] * 3
    for name, stamp_s in (("heard", 10.0), ("silent", 9.4)):
        track = made.tracks[name] = others.VehicleTrack()
        track.take(round(stamp_s * SECOND_NS), (stamp_s, 1.0, 2.0), (3.0, 0.0, 0.0))
    made.tracks["never"] = others.VehicleTrack()
    return made


def test_a_silent_one_flies_on_for_a_while_and_then_stands(two):
    heard, silent = two.at(10 * SECOND_NS)
    assert (heard.p_W, heard.v_W) == ((10.0, 1.0, 2.0), (3.0, 0.0, 0.0))
    assert silent.p_W == pytest.approx((9.4 + 0.5 * 3.0, 1.0, 2.0))
    assert silent.v_W == (0.0, 0.0, 0.0)


def test_the_planner_knows_those_that_were_heard_of_lately(two):
    (shape,) = two.at(10 * SECOND_NS, 0.5)
    assert (shape.p_W, shape.v_W) == ((10.0, 1.0, 2.0), (3.0, 0.0, 0.0))
    assert (shape.radius_m, shape.half_height_m) == (0.4, 0.4)
    assert len(two.at(10 * SECOND_NS, 0.7)) == 2
    assert two.at(11 * SECOND_NS, 0.5) == []
