"""The planner flies a point mass that obeys with a lag, seen by a lidar in closed form."""

import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from planned_flight import BEGIN_NS, STEP_S, PlannedFlight, scan

from quadsim.base.errors import InputError
from quadsim.hil.planner.parameters import PASSING_RADIUS_M, MapParams, PlannerParams, SpeedParams
from quadsim.hil.planner.planner import Planner
from quadsim.world.scene.movers import Mover, Movers
from quadsim.world.scene.obstacle_fields import clearances, make_field
from quadsim.world.scene.obstacles import Box, Cylinder, Obstacle, Pose

RADIUS_M = PlannerParams().vehicle_radius_m
NOTHING = np.zeros((0, 3))


def box(name, x, y, size_x, size_y):
    return Obstacle(name, Box((size_x, size_y, 6.0)), Pose((x, y, 3.0)))


#: Coarse and small, so that a search takes a fifth of the time.
QUICK = PlannerParams(map=MapParams(cell_m=0.4, around_m=6.0))


def begin(obstacles, goals_W, params=QUICK, **given):
    planner = Planner(params)
    planner.take_goals(np.array(goals_W, float))
    start_W = given.pop("start_W", (0.0, 0.0, 2.0))
    return PlannedFlight(planner, list(obstacles), np.array(start_W, float), **given)


def fly(flight, most_s, until=("arrived",)):
    """Fly until a state; (N, 7) time, true position and velocity, and the least clearance."""
    track, nearest_m = [], math.inf
    while flight.t_s < most_s:
        said = flight.step()
        there = flight.there()
        if there:
            nearest_m = min(nearest_m, clearances(there, flight.p_W[None])[0])
        track.append((flight.t_s, *flight.p_W, *flight.v_W))
        if said.state in until:
            break
    return np.array(track), nearest_m


def test_a_forest_at_speed():
    field = make_field("forest", 3)
    flight = begin(field.obstacles, [field.goal_W], PlannerParams(map=MapParams(around_m=6.0)))
    track, nearest_m = fly(flight, 30.0)
    assert flight.said.state == "arrived"
    assert nearest_m > RADIUS_M
    # 40 m at up to 4 m/s with 2.5 m/s^2: 11.6 s if nothing stood there
    assert 11.0 < flight.t_s < 20.0
    assert np.linalg.norm(track[:, 4:], axis=1).max() == pytest.approx(4.0, abs=0.2)


def test_a_dead_end_is_left():
    """A room whose walls are seen inside alone: it goes in, and out again."""
    field = make_field("dead_end", 1)
    assert any(obstacle.name == "screen" for obstacle in field.obstacles)
    flight = begin(field.obstacles, [field.goal_W])
    track, nearest_m = fly(flight, 60.0)
    assert flight.said.state == "arrived"
    assert nearest_m > RADIUS_M
    assert np.diff(track[:, 1]).min() < -0.02  # there was a way back in it


@pytest.mark.parametrize("range_max_m", [3.0, 6.0])
def test_it_can_always_stop_in_what_it_has_seen(range_max_m):
    """A wall all across that is seen late: whatever the lidar's reach, it is not touched."""
    flight = begin([box("wall", 10.0, 0.0, 0.4, 80.0)], [(16.0, 0.0, 2.0)], range_max_m=range_max_m)
    track, nearest_m = fly(flight, 12.0, until=("blocked",))
    assert nearest_m > RADIUS_M
    speed = np.linalg.norm(track[:, 4:], axis=1)
    limits = SpeedParams()
    stops_m = speed * limits.reaction_s + speed**2 / (2.0 * limits.braking_mps2)
    assert stops_m.max() < range_max_m
    assert speed.max() > 0.5 * math.sqrt(2.0 * limits.braking_mps2 * range_max_m)


def test_it_says_blocked_and_flies_on_when_the_way_is_free():
    """A closed hall with a door that opens: blocked before, through it after."""
    walls = [
        box("west", -4.0, 0.0, 0.4, 8.4), box("north", 0.0, 4.0, 8.4, 0.4),
        box("south", 0.0, -4.0, 8.4, 0.4), box("east_1", 4.0, 2.75, 0.4, 2.9),
        box("east_2", 4.0, -2.75, 0.4, 2.9), box("door", 4.0, 0.0, 0.4, 2.6),
    ]  # fmt: skip
    flight = begin(walls, [(10.0, 0.0, 2.0)])
    fly(flight, 20.0, until=("blocked",))
    assert flight.said.reason == "no way to the goal (10.0, 0.0) is left"
    for _ in range(50):
        flight.step()
    assert flight.said.state == "blocked"
    assert np.linalg.norm(flight.v_W) < 0.05
    del flight.obstacles[-1]
    _, nearest_m = fly(flight, 30.0)
    assert flight.said.state == "arrived"
    assert nearest_m > RADIUS_M


@pytest.mark.parametrize(("goal_x", "state"), [(10.24, "blocked"), (10.05, "arrived")])
def test_a_goal_beside_an_obstacle(goal_x, state):
    """It is 0.37 m and 0.18 m beyond the last place that may be flown to; 0.3 m is arrived.

    The wall's cells begin at 10.75, less 0.65 m that are kept: the last middle is at 9.875.
    """
    params = PlannerParams(map=MapParams(around_m=6.0))
    flight = begin([box("wall", 11.0, 0.0, 0.4, 6.0)], [(goal_x, 0.12, 2.0)], params)
    fly(flight, 15.0, until=("arrived", "blocked"))
    assert flight.said.state == state
    if state == "blocked":
        assert "an obstacle stands at the goal" in flight.said.reason


@pytest.mark.parametrize(("begin_y", "speed_mps"), [(-5.5, 1.4), (-8.0, 1.8)])
def test_it_passes_what_is_known_to_move(begin_y, speed_mps):
    """It crosses the straight way when the vehicle is there, and gives no way.

    Who is not told of it flies into it: the planner's map shows where it is, not where it will be.
    """
    way = ((12.0, begin_y, 2.0), (12.0, -begin_y, 2.0))
    nearest_m = {}
    for known in (False, True):
        movers = Movers([Mover("crosses", Cylinder(0.5, 4.0), way, speed_mps)])
        flight = begin([], [(20.0, 0.0, 2.0)], movers=movers, known=known)
        _, nearest_m[known] = fly(flight, 20.0)
        assert flight.said.state == "arrived"
    assert nearest_m[False] < RADIUS_M
    assert nearest_m[True] > QUICK.keep_m
    assert flight.t_s < 10.0


@pytest.mark.parametrize("side_m", [0.0, 0.3])
def test_who_comes_is_passed_on_the_right(side_m):
    """Also where it comes a little to the right of the straight way."""
    way = ((16.0, -side_m, 2.0), (-4.0, -side_m, 2.0))
    movers = Movers([Mover("comes", Cylinder(0.4, 0.4), way, 1.5)])
    flight = begin([], [(14.0, 0.0, 2.0)], movers=movers, known=True)
    track, nearest_m = fly(flight, 15.0)
    assert flight.said.state == "arrived"
    assert nearest_m > QUICK.keep_m - 0.1  # it follows the way to 0.1 m here
    assert track[:, 2].min() < -0.5 - side_m
    assert track[:, 2].max() < 0.3


def test_a_goal_that_another_vehicle_takes_up_is_waited_for_beside_it():
    """Two may fly to each other's place: neither waits until the other has gone."""
    there = Mover("stands", Cylinder(0.4, 0.4), ((12.0, 0.0, 2.0), (12.0, 9.0, 2.0)), 0.0)
    flight = begin([], [(12.0, 0.0, 2.0)], movers=Movers([there]), known=True)
    _, nearest_m = fly(flight, 12.0)
    assert flight.said.state == "flying"
    assert nearest_m > QUICK.keep_m - 0.1
    assert math.dist(flight.p_W, (12.0, 0.0, 2.0)) < 0.4 + QUICK.keep_m + 2.0 * QUICK.map.cell_m
    flight.movers = Movers([replace(there, speed_mps=1.0)])  # it leaves
    fly(flight, 30.0)
    assert flight.said.state == "arrived"


@pytest.mark.parametrize(("gap_m", "state"), [(1.6, "blocked"), (2.8, "arrived")])
def test_gaps_are_flown_through_where_there_is_room(gap_m, state):
    """What is kept is 0.65 m, and what a cell of 0.4 m leaves unsaid: 0.2 m to each side, and one.

    A gap of 1.6 m has less than 0.65 m + 0.2 m beside its middle, one of 2.8 m more with a cell.
    """
    params = replace(QUICK, area_min_W_m=(-5.0, -8.0), area_max_W_m=(20.0, 8.0))
    walls = [box(f"wall_{side}", 6.0, side * 0.5 * (gap_m + 9.0), 0.4, 9.0) for side in (-1.0, 1.0)]
    flight = begin(walls, [(12.0, 0.0, 2.0)], params)
    _, nearest_m = fly(flight, 15.0, until=("arrived", "blocked"))
    assert flight.said.state == state
    assert nearest_m > QUICK.keep_m - 0.1  # it follows the way to 0.1 m here


def test_what_appears_2_s_ahead_is_flown_around():
    """By commands that change no faster than is allowed."""
    field = make_field("appearing", 2)
    flight = begin(field.obstacles, [field.goal_W], movers=Movers(field.movers))
    commands, nearest_m = [], math.inf
    while not commands or (flight.said.state != "arrived" and flight.t_s < 25.0):
        commands.append(flight.step().v_W)
        nearest_m = min(nearest_m, clearances(flight.there(), flight.p_W[None])[0])
    assert flight.said.state == "arrived"
    assert [obstacle.name for obstacle in flight.movers.obstacles()] == ["appears"]
    assert nearest_m > RADIUS_M
    change = np.linalg.norm(np.diff(commands, axis=0), axis=1) / STEP_S
    assert change.max() < SpeedParams().braking_mps2 + 1e-9


def test_goals_come_one_after_the_other_and_the_last_is_held():
    goals = [(6.0, 0.0, 2.0), (6.0, 6.0, 3.0), (0.0, 6.0, 2.0)]
    flight = begin([], goals)
    track, _ = fly(flight, 30.0)
    closest_m = [np.linalg.norm(track[:, 1:4] - goal, axis=1).min() for goal in goals]
    passing_m = PASSING_RADIUS_M
    assert max(closest_m[:2]) < passing_m
    assert np.linalg.norm(track[:, 4:6], axis=1)[20:-60].min() > 0.5  # it stops at none before
    for _ in range(100):
        flight.step()
    assert flight.p_W == pytest.approx(goals[-1], abs=0.05)
    assert flight.said.state == "arrived"


def test_pushed_away_from_its_goal_it_flies_around_what_stands_between():
    """A pillar comes, and the vehicle is behind it: straight home would lead through it."""
    flight = begin([], [(5.0, 0.0, 2.0)])
    fly(flight, 15.0)
    assert flight.said.state == "arrived"
    flight.obstacles.append(Obstacle("pillar", Cylinder(0.6, 6.0), Pose((9.0, 0.0, 3.0))))
    flight.p_W, flight.v_W = np.array((13.0, 0.0, 2.0)), np.zeros(3)
    assert flight.step().state == "flying"
    _, nearest_m = fly(flight, 40.0)
    assert flight.said.state == "arrived"
    assert nearest_m > RADIUS_M


def test_at_its_goal_it_stands_without_scans():
    flight = begin([], [(5.0, 0.0, 2.0)])
    fly(flight, 15.0)
    flight.range_max_m = 0.0  # the lidar is gone
    for _ in range(50):
        flight.step()
    flight.p_W = flight.p_W + np.array((0.25, 0.0, 0.25))
    assert (flight.step().state, flight.said.reason) == ("arrived", "no scan")
    assert flight.said.v_W == (0.0, 0.0, 0.0)


def test_it_stays_inside_of_the_area():
    params = replace(QUICK, area_min_W_m=(-2.0, -2.0), area_max_W_m=(22.0, 5.0))
    wall = [box("wall", 10.0, 0.0, 0.4, 5.0)]  # to the right there is room, but outside
    flight = begin(wall, [(20.0, 0.0, 2.0)], params)
    track, nearest_m = fly(flight, 25.0)
    assert flight.said.state == "arrived"
    assert nearest_m > RADIUS_M
    assert track[:, 2].min() > -2.0
    assert track[:, 2].max() > 2.5
    closed = begin([box("wall", 10.0, 1.0, 0.4, 12.0)], [(20.0, 0.0, 2.0)], params)
    fly(closed, 15.0, until=("blocked",))
    assert "no way" in closed.said.reason
    with pytest.raises(InputError, match=r"goal \(30, 0, 2\): outside of area_min_W_m"):
        flight.planner.take_goals(np.array([(30.0, 0.0, 2.0)]))


def test_it_stops_without_scans():
    flight = begin([], [(40.0, 0.0, 2.0)])
    while flight.t_s < 4.0:
        flight.step()
    assert flight.v_W[0] > 3.5
    flight.range_max_m = 0.0  # the lidar is gone
    flown_m = flight.p_W[0]
    while flight.t_s < 7.0:
        flight.step()
    assert flight.said.reason == "no scan"
    assert np.linalg.norm(flight.v_W) < 0.05
    v, params = 4.0, PlannerParams()
    stops_m = v * (params.scan_timeout_s + 0.3 + 0.2) + v * v / (2.0 * params.speed.braking_mps2)
    assert flight.p_W[0] - flown_m < stops_m


def test_it_turns_to_where_it_flies():
    planner = Planner(QUICK)
    planner.take_goals(np.array([(0.0, 10.0, 2.0)]))
    here, still = (0.0, 0.0, 2.0), (0.0, 0.0, 0.0)
    planner.step(BEGIN_NS, here, still, 0.0)
    planner.take_scan(BEGIN_NS, here, *scan([], np.array(here), 20.0))
    for after_ms, yaw, low, high in (
        (20, 0.0, 0.5, 1.5), (40, 3.0, -1.5, -0.5), (60, math.pi / 2, -0.4, 0.4),
        (80, -3.0, -1.5, -0.5), (100, None, 0.0, 0.0),
    ):  # fmt: skip
        said = planner.step(BEGIN_NS + after_ms * 1_000_000, here, still, yaw)
        assert low <= said.yaw_rate_radps <= high


def test_near_an_obstacle_it_finds_the_way_out():
    """It begins nearer to a wall than ways may be, and leaves through no wall."""
    walls = [box("wall", 0.65, 0.0, 0.4, 8.0)]
    flight = begin(walls, [(5.0, 0.0, 2.0)])
    _, nearest_m = fly(flight, 25.0)
    assert flight.said.state == "arrived"
    assert nearest_m > 0.35  # it began at 0.45


def test_time_that_goes_back_begins_anew():
    flight = begin([box("wall", 8.0, 0.0, 0.4, 6.0)], [(16.0, 0.0, 2.0)])
    while flight.t_s < 2.0:
        flight.step()
    flight.steps, flight.p_W, flight.v_W = 0, np.array((0.0, 0.0, 2.0)), np.zeros(3)
    flight.obstacles = [box("other", 8.0, 4.0, 0.4, 6.0)]
    _, nearest_m = fly(flight, 20.0)
    assert flight.said.state == "arrived"
    assert nearest_m > RADIUS_M


def test_a_stamp_that_is_a_little_older_changes_nothing():
    """Such as of two drivers, or of one that interpolates; the map is not lost by it."""
    flight = begin([box("wall", 10.0, -4.0, 0.4, 2.0)], [(30.0, 0.0, 2.0)])
    while flight.t_s < 3.0:
        flight.step()
    seen, wanted = flight.planner.seen.seen(3.0), flight.said.v_W
    assert np.linalg.norm(wanted) > 3.5
    back_ns = flight.stamp_ns - 200_000_000
    said = flight.planner.step(back_ns, tuple(flight.p_W), tuple(flight.v_W), 0.0)
    assert (said.state, said.reason) == ("flying", flight.said.reason)
    assert said.v_W == pytest.approx(wanted, abs=1e-9)
    np.testing.assert_array_equal(flight.planner.seen.seen(3.0), seen)
    assert (seen == 100).any()


def test_numbers_that_are_none_do_no_harm():
    flight = begin([], [(12.0, 0.0, 2.0)])
    while flight.t_s < 1.0:
        flight.step()
    bad = np.array([[math.nan, 0.0, 2.0], [math.inf, 1.0, 2.0], [3.0, 9.0, 2.0]])
    flight.planner.take_scan(flight.stamp_ns, (0.0, 0.0, 2.0), bad, bad)
    flight.planner.take_scan(flight.stamp_ns + 1, (math.nan, 0.0, 2.0), NOTHING, NOTHING)
    said = flight.planner.step(flight.stamp_ns, (math.nan, 0.0, 2.0), (4.0, 0.0, 0.0))
    assert (said.state, said.reason) == ("blocked", "no pose")
    assert np.isfinite(said.v_W).all()
    fly(flight, 25.0)
    assert flight.said.state == "arrived"


def test_goals_that_cannot_be():
    planner = Planner(QUICK)
    with pytest.raises(InputError, match="not finite"):
        planner.take_goals(np.array([(math.nan, 0.0, 2.0)]))
    planner.take_goals(np.array([(3e4, 0.0, 2.0)]))
    said = planner.step(BEGIN_NS, (0.0, 0.0, 2.0), (0.0, 0.0, 0.0))
    assert said.state == "blocked"
    assert said.reason == "the goal is 30000 m away: more than map.cells_max cells"


def test_what_sees_ahead_alone_turns_before_it_flies():
    """87 deg, a goal behind: it flies where it looks, and only through what was seen."""
    params = replace(
        QUICK, speed=SpeedParams(speed_mps=2.0, look_rad=0.4, yaw_gain=3.0, yaw_rate_radps=1.5)
    )
    planner = Planner(params)
    planner.take_goals(np.array([(-8.0, 0.5, 2.0)]))
    pillar = Obstacle("pillar", Cylinder(0.5, 6.0), Pose((-4.0, 0.0, 3.0)))
    p_W, v_W, yaw, nearest_m, moved = np.array((0.0, 0.0, 2.0)), np.zeros(3), 0.0, math.inf, []
    for k in range(1000):
        stamp_ns = BEGIN_NS + round(k * STEP_S * 1e9)
        for rows in [scan([pillar], p_W, 10.0)]:
            seen = [
                ends[
                    np.abs(np.angle(np.exp(1j * (np.arctan2(*(ends - p_W)[:, 1::-1].T) - yaw))))
                    < 0.76
                ]
                for ends in rows
            ]
            planner.take_scan(stamp_ns, tuple(p_W), *seen)
        said = planner.step(stamp_ns, tuple(p_W), tuple(v_W), yaw)
        yaw += STEP_S * said.yaw_rate_radps
        v_W = v_W + STEP_S / 0.3 * (np.array(said.v_W) - v_W)
        p_W = p_W + STEP_S * v_W
        nearest_m = min(nearest_m, math.hypot(p_W[0] + 4.0, p_W[1]) - 0.5)
        if np.hypot(*v_W[:2]) > 0.3 and said.state == "flying":
            moved.append(abs(np.angle(np.exp(1j * (math.atan2(v_W[1], v_W[0]) - yaw)))))
        if said.state == "arrived":
            break
    assert said.state == "arrived"
    assert nearest_m > RADIUS_M
    assert k * STEP_S < 25.0
    assert max(moved) < 0.6  # 0.4 and what the velocity lags behind


def test_a_first_goal_waits_for_no_kernel():
    """The guard gives a wish 0.3 s, and kernels took 0.4 s to load with the first plan."""
    code = """
import numpy as np
from numba.core import event
from quadsim.hil.planner.parameters import PlannerParams
from quadsim.hil.planner.planner import Planner, load_kernels

load_kernels(PlannerParams())
planner = Planner(PlannerParams())
with event.install_recorder("numba:compile") as loaded:
    planner.take_goals(np.array([[8.0, 0.0, 1.5]]))
    for k in range(1, 9):
        planner.step(k * 20_000_000, (0.1 * k, 0.0, 1.5), (1.0, 0.0, 0.0), 0.0)
        scan = np.array([[4.0, 0.2 * k, 1.5]]), np.array([[3.0, 3.0, 1.5]])
        planner.take_scan(k * 20_000_000, (0.1 * k, 0.0, 1.5), *scan)
assert planner.plans > 1
print(sorted({str(found.data["dispatcher"].__name__) for _, found in loaded.buffer}))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
