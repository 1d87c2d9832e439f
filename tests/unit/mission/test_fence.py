"""The fence against sampled borders and angles, and what is refused by it."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from obedient import PARAMS, Flight

from quadsim.base.errors import InputError
from quadsim.base.parameters import from_mapping
from quadsim.control.parameters import FenceParams
from quadsim.mission.flight.fence import Fence, mission_fault
from quadsim.mission.flight.flight import ERROR, WARN
from quadsim.mission.items import Follow, Goto, Takeoff
from quadsim.sim.scenario import load_scenario

HOME = (1.0, 2.0, 0.5)
#: An L: the corner at (4, 4) points inwards.
CORNERS = ((0.0, 0.0), (10.0, 0.0), (10.0, 4.0), (4.0, 4.0), (4.0, 9.0), (0.0, 9.0))
L = Fence(FenceParams(polygon_W_m=CORNERS), HOME)


def winding(x, y):
    """Turns of the corners around a point: 1 inside, 0 outside."""
    corners = np.array(CORNERS) - (x, y)
    angles = np.arctan2(corners[:, 1], corners[:, 0])
    turns = np.diff(np.append(angles, angles[0]))
    return round(np.sum((turns + np.pi) % (2 * np.pi) - np.pi) / (2 * np.pi))


def border():
    """Points of the L's border, a millimetre apart."""
    corners = np.array([*CORNERS, CORNERS[0]])
    edges = [np.linspace(a, b, int(np.linalg.norm(b - a) * 1000)) for a, b in pairwise(corners)]
    return np.concatenate(edges)


def test_a_polygon_knows_inside_and_its_distance():
    rng = np.random.default_rng(1)
    samples = border()
    for x, y in rng.uniform(-3.0, 13.0, (300, 2)):
        inside = winding(x, y) == 1
        assert (L.fault((x, y, 0.0)) == "") == inside
        away = np.linalg.norm(samples - (x, y), axis=1).min()
        room = min(room for room, _ in L.bounds((x, y, 0.0)))
        assert room == pytest.approx(away if inside else -away, abs=1e-3)
        back = L.inside((x, y, 0.0), 0.4)
        assert winding(*back[:2]) == 1
        assert np.linalg.norm(samples - back[:2], axis=1).min() >= 0.4 - 2e-3


@pytest.mark.parametrize(
    ("params", "beyond"),
    [
        (FenceParams(radius_m=8.0), lambda p: np.hypot(p[0] - HOME[0], p[1] - HOME[1]) - 8.0),
        (FenceParams(ceiling_m=5.0), lambda p: p[2] - HOME[2] - 5.0),
        (FenceParams(floor_m=0.2), lambda p: HOME[2] + 0.2 - p[2]),
        (FenceParams(polygon_W_m=CORNERS), lambda p: -0.5 if winding(p[0], p[1]) == 1 else 0.5),
    ],
)
def test_no_velocity_that_is_cut_leads_across(params, beyond):
    """A vehicle that brakes with 4 m/s^2 after 0.2 s, told to leave at 6 m/s in any direction."""
    fence = Fence(replace(params, margin_m=0.3), HOME)
    rng = np.random.default_rng(2)
    for _ in range(12):
        p, v = np.array([1.5, 2.5, 1.5]), np.zeros(3)
        wanted = rng.normal(size=3)
        wanted *= 6.0 / np.linalg.norm(wanted)
        delayed = [v] * 10
        for _ in range(400):
            cut = np.array(fence.cut(tuple(p), tuple(wanted), 4.0, 0.3))
            delayed.append(cut)
            change = delayed.pop(0) - v
            size = np.linalg.norm(change)
            v = v + change * min(1.0, 4.0 * 0.02 / size if size else 1.0)
            p = p + 0.02 * v
            assert beyond(p) < 0.0
    # and one that leads along the fence, or away from it, is not touched
    if params.radius_m:
        along = fence.cut((HOME[0] + 7.7, HOME[1], 1.0), (0.0, 5.0, 0.0), 4.0, 0.3)
        assert along == (0.0, 5.0, 0.0)
        assert fence.cut((HOME[0] + 7.7, HOME[1], 1.0), (-5.0, 0.0, 0.0), 4.0, 0.3)[0] == -5.0


@pytest.mark.parametrize(
    ("params", "item", "words"),
    [
        ({"radius_m": 10.0}, Goto(position_W_m=(20.0, 2.0, 3.0)), "goto: 19.0 m from home; the"),
        ({"ceiling_m": 5.0}, Goto(position_W_m=(2.0, 2.0, 7.0)), "6.5 m above home; the fence"),
        ({"polygon_W_m": CORNERS}, Goto(position_W_m=(6.0, 6.0, 3.0)), "(6.0, 6.0) is outside"),
        ({}, Goto(position_W_m=(2.0, 2.0, 0.6)), "goto: z = 0.6 m is too low; allowed: >= 0.80"),
        (
            {"radius_m": 9.0},
            Follow(points=((0.0, 2.0, 2.0, 3.0, 0.0), (5.0, 2.0, 14.0, 3.0, 0.0))),
            "follow: 12.0 m from home",
        ),
    ],
)
def test_a_mission_that_does_not_fit_names_its_item(params, item, words):
    items = (Takeoff(height_m=2.0), item)
    flight = fenced(**params)
    fault = mission_fault(items, flight, HOME)
    assert fault.startswith("mission[1]: ")
    assert words in fault
    assert mission_fault(items[:1], flight, HOME) is None


def test_a_straight_way_past_an_inward_corner_leaves_a_polygon():
    start, goal = (2.0, 8.0, 3.0), (9.0, 2.0, 3.0)  # both inside, the way between is not
    assert L.fault(start) == L.fault(goal) == ""
    assert "outside" in L.way_fault(start, goal)
    assert L.way_fault(start, (2.0, 2.0, 3.0)) == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [("  - goto: {position_W_m: [3.0, 0.0, -1.0]}", r"mission\[1\]: goto: z = -1 m is too low")],
)
def test_a_scenario_whose_mission_leaves_is_refused_in_one_line(tmp_path, text, words):
    path = tmp_path / "outside.yaml"
    path.write_text(
        f"fence: {{radius_m: 20.0}}\nmission:\n  - takeoff: {{height_m: 2.0}}\n{text}\n"
    )
    with pytest.raises(InputError, match=words) as caught:
        load_scenario(str(path))
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"polygon_W_m": [[0.0, 0.0], [1.0, 0.0]]}, "2 corners; allowed: none, or 3 to 32"),
        ({"ceiling_m": 2.0, "floor_m": 3.0}, "floor_m: 3; allowed: below ceiling_m, 2"),
    ],
)
def test_a_fence_that_encloses_nothing_is_refused(values, words):
    with pytest.raises(InputError) as caught:
        from_mapping(FenceParams, values, "fence")
    assert words in str(caught.value)


def fenced(**values):
    return replace(PARAMS, fence=FenceParams(**values))


def test_arming_is_refused_where_the_mission_does_not_fit():
    flight = Flight(items=(Takeoff(height_m=2.0),))
    flight.manager.land()
    flight.until("disarmed")
    short = type(flight.manager)(fenced(ceiling_m=1.0), (Takeoff(height_m=2.0),))
    short.step(flight.stamp_ns, flight.odometries, flight.setpoints)
    assert short.arm() == "mission[0]: takeoff: 2.0 m above home; the fence allows 1"


def test_commands_across_the_fence_are_refused_and_the_flight_goes_on():
    flight = Flight(fenced(radius_m=10.0), (Takeoff(height_m=2.0),))
    assert "12.0 m from home" in flight.manager.command_pose((12.0, 0.0, 2.0), 0.0)
    assert "too low" in flight.manager.command_pose((2.0, 0.0, -1.0), 0.0)
    assert flight.manager.commands_refused == 2
    flight.run(0.5)
    assert flight.manager.state == "hover"
    assert len(flight.named("command refused")) == 2
    assert flight.manager.command_pose((9.0, 0.0, 2.0), 0.0) is None
    flight.run(8.0)
    np.testing.assert_allclose(flight.p, (9.0, 0.0, 2.0), atol=1e-9)


def test_a_commanded_velocity_slides_along_the_fence():
    flight = Flight(fenced(radius_m=6.0, margin_m=0.5), (Takeoff(height_m=2.0),))
    for _ in range(600):
        flight.manager.command_velocity((3.0, 1.0, 0.0), 0.0)
        flight.tick()
        assert math.hypot(flight.p[0], flight.p[1]) < 6.0
    assert math.hypot(flight.p[0], flight.p[1]) > 5.0
    assert flight.manager.state == "velocity"


def blown_out(action):
    """A flight whose vehicle is carried across its fence at 5 m/s."""
    flight = Flight(fenced(radius_m=6.0, action=action), (Takeoff(height_m=2.0),))
    for speed in np.linspace(0.0, 5.0, 30):
        flight.carry(speed, 0.0, 0.0)
    for _ in range(60):
        if flight.named("fence"):
            break
        flight.carry(5.0, 0.0, 0.0)
    # told ahead: at 5 m/s a stop takes 5^2 / (2 * 4) = 3.1 m, of which 0.3 m may be outside
    assert 6.3 - 3.125 <= flight.odometry.p_W[0] < 6.3 - 3.125 + 0.11
    for speed in np.arange(5.0, 0.0, -0.5):
        flight.carry(speed, 0.0, 0.0)
    [(level, words)] = flight.named("fence")
    assert level == WARN
    assert "from home; the fence allows 6" in words
    return flight


def test_a_vehicle_about_to_leave_goes_back_inside():
    flight = blown_out("hover")
    flight.run(6.0)
    assert flight.manager.state == "hover"
    assert flight.p[0] == pytest.approx(4.5, abs=0.1)  # margin 0.5 m and 1 m inside
    assert len(flight.named("fence")) == 1


@pytest.mark.parametrize("action", ["return", "land"])
def test_a_vehicle_about_to_leave_returns_or_lands(action):
    flight = blown_out(action)
    assert ("failsafe_return" in [event[2] for event in flight.events]) == (action == "return")
    flight.until("disarmed")
    assert [level for level, _ in flight.named("failsafe_landing")] == [ERROR]
    assert (np.hypot(*flight.p[:2]) < 0.1) == (action == "return")
    assert flight.p[2] == 0.0
