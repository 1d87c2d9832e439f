"""Vehicles with guards of their own: closed forms, properties, and flights that they decide."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from point_fleet import PointFleet, goes_to
from scipy.optimize import linprog, minimize

from quadsim.base.files import find
from quadsim.base.parameters import load
from quadsim.hil.guard.guard import Guard, GuardParams
from quadsim.hil.guard.parameters import PERIOD_S
from quadsim.hil.guard.reaches import MOST_POINTS, Neighbours, growth_mps, separation

PARAMS = load(GuardParams, find("guards", "default"))
PARAMS = replace(PARAMS, sight=replace(PARAMS.sight, required=False))
APART_M = 2.0 * PARAMS.keep_out_m
Z = 1.5
HERE_W = np.array((0.0, 0.0, Z))
STANDS = np.zeros((1, 3))


def distance(a, b):
    """Between two hulls, by a general minimiser over the weights of their corners."""
    count = len(a)

    def square(w):
        off = w[:count] @ a - w[count:] @ b
        return off @ off

    sums = [
        {"type": "eq", "fun": lambda w: w[:count].sum() - 1.0},
        {"type": "eq", "fun": lambda w: w[count:].sum() - 1.0},
    ]
    start = np.concatenate((np.full(count, 1.0 / count), np.full(len(b), 1.0 / len(b))))
    found = minimize(
        square, start, bounds=[(0.0, 1.0)] * len(start), constraints=sums, method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 500},
    )  # fmt: skip
    return math.sqrt(max(found.fun, 0.0))


def holds(hull, point, by_m):
    """Whether a point is within a hull, or so near each axis, by a linear programme."""
    lines = np.vstack((hull.T, -hull.T))
    bounds = np.concatenate((point + by_m, by_m - point))
    ones = np.ones((1, len(hull)))
    return linprog(np.zeros(len(hull)), lines, bounds, ones, [1.0]).status == 0


@pytest.mark.parametrize("seed", range(10))
def test_the_plane_between_two_hulls_leaves_the_distance_of_a_general_minimiser(seed):
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(6, 3))
    b = rng.normal(size=(8, 3)) + rng.normal(size=3) * 4.0 + np.array((4.0, 0.0, 0.0))
    nx, ny, nz, top, gap = separation(a, b)
    normal = np.array((nx, ny, nz))
    assert np.linalg.norm(normal) == pytest.approx(1.0)
    assert (a @ normal).max() == pytest.approx(top)
    assert (b @ normal).min() == pytest.approx(top + gap)
    truth = distance(a, b)
    assert gap <= truth + 1e-6
    if truth > 0.3:  # the bound comes near; the hulls are about a metre wide
        assert gap == pytest.approx(truth, abs=0.02)
    back = separation(b, a)  # both guards find one plane
    np.testing.assert_allclose(back[:3], -normal, atol=1e-9)
    assert back[4] == pytest.approx(gap, abs=1e-9)


def known(place_W, params=PARAMS, now_ns=10**9):
    neighbours = Neighbours(params)
    neighbours.expect({"quad2": params.keep_out_m})
    assert neighbours.take("quad2", now_ns, now_ns, [place_W]) is None
    return neighbours


def test_each_has_its_half_of_the_gap_less_what_may_have_grown():
    """Standing, 10 m apart: (10 - D - g (age + period)) / 2, g the fastest growth of a reach."""
    neighbours = known((10.0, 0.0, Z))
    limits, vehicle = PARAMS.limits, PARAMS.vehicle
    level = limits.acceleration_max_mps2
    fastest = math.hypot(limits.speed_max_mps, limits.climb_max_mps)
    growth = fastest * (1.0 + level / vehicle.brake_mps2) + level * vehicle.latency_s
    halves = neighbours.halves(10**9 + 50_000_000, HERE_W, STANDS, 0.1)
    free_m = 10.0 - APART_M - growth * (0.05 + PERIOD_S)
    np.testing.assert_allclose(halves.normal_W, [[1.0, 0.0, 0.0]], atol=1e-9)
    assert halves.bound_m == pytest.approx([0.5 * free_m])
    assert halves.law_m == pytest.approx([0.5 * (free_m - 0.1)])
    assert halves.words == ("neighbour quad2",)
    assert halves.room(np.array([(0.0, 0.0, 0.0), (2.0, 1.0, 0.0)])) == pytest.approx(
        0.5 * free_m - 2.0
    )


def test_growth_forbids_to_come_nearer_and_pushes_nobody():
    """1.2 m apart, where 1 m is kept: until it counts as lost neither moves for it."""
    neighbours = known((1.2, 0.0, Z))
    for age_ns in (0, 200_000_000, 490_000_000):
        assert neighbours.halves(10**9 + age_ns, HERE_W, STANDS, 0.1).bound_m == pytest.approx(
            [0.0]
        )
        assert neighbours.fault(10**9 + age_ns) == ""
    assert "quad2 lost: not heard for 0.51 s" in neighbours.fault(10**9 + 510_000_000)


@pytest.mark.parametrize(("place", "free_m"), [((0.6, 0.0, Z), -0.4), ((0.0, 0.0, Z + 2.4), -0.2)])
def test_who_is_too_near_is_led_away_by_half_of_what_lacks(place, free_m):
    """A height counts for a third: 2.4 m above is as 0.8 m beside, and leads down 0.3 m."""
    halves = known(place).halves(10**9, HERE_W, STANDS, 0.1)
    ratio = 3.0 if place[2] > Z else 1.0
    assert halves.bound_m == pytest.approx([0.5 * free_m * ratio])
    assert halves.own_m == pytest.approx([0.0])


def test_a_message_that_is_late_counts_as_older():
    """0.1 s later than the quickest before it."""
    neighbours = known((10.0, 0.0, Z))
    fresh = neighbours.halves(10**9, HERE_W, STANDS, 0.0).bound_m[0]
    now_ns = 10**9 + 200_000_000
    assert neighbours.take("quad2", now_ns - 100_000_000, now_ns, [(10.0, 0.0, Z)]) is None
    late = neighbours.halves(now_ns, HERE_W, STANDS, 0.0).bound_m[0]
    assert fresh - late == pytest.approx(0.5 * 0.1 * growth_mps(PARAMS), rel=1e-3)


@pytest.mark.parametrize(
    ("name", "stamp_ns", "points", "words"),
    [
        ("quad9", 2 * 10**9, [(1.0, 0.0, 0.0)], "no neighbour is named 'quad9'"),
        ("quad2", 2 * 10**9, [(math.nan, 0.0, 0.0)], "not finite"),
        ("quad2", 2 * 10**9, [(math.inf, 0.0, 0.0)], "not finite"),
        ("quad2", 2 * 10**9, [(1e300, 0.0, 0.0)], "farther than 1e\\+06 m"),
        ("quad2", 2 * 10**9, [(1.0, 2.0)], "shape"),
        ("quad2", 2 * 10**9, [(1.0, 2.0, 3.0)] * (MOST_POINTS + 1), "shape"),
        ("quad2", 10**9, [(1.0, 0.0, 0.0)], "repeats or goes back"),
        ("quad2", 10**9 - 1000, [(1.0, 0.0, 0.0)], "repeats or goes back"),
    ],
)
def test_what_is_no_reach_is_refused_and_changes_nothing(name, stamp_ns, points, words):
    neighbours = known((10.0, 0.0, Z))
    before = neighbours.halves(2 * 10**9, HERE_W, STANDS, 0.0)
    refusal = neighbours.take(name, stamp_ns, 2 * 10**9, points)
    assert refusal is not None
    assert re.search(words, refusal)
    after = neighbours.halves(2 * 10**9, HERE_W, STANDS, 0.0)
    np.testing.assert_array_equal(after.bound_m, before.bound_m)


def test_who_does_not_know_where_it_is_grows_and_is_then_named():
    neighbours = known((10.0, 0.0, Z))
    for k in range(1, 30):
        stamp_ns = 10**9 + 20_000_000 * k
        assert neighbours.take("quad2", stamp_ns, stamp_ns, []) is None
        named = neighbours.fault(stamp_ns) == "neighbour quad2 does not know where it is"
        assert named == (20 * k > 500)
    assert neighbours.take("quad2", 2 * 10**9, 2 * 10**9, [(10.0, 0.0, Z)]) is None
    assert neighbours.fault(2 * 10**9) == ""


def test_a_driver_that_begins_anew_is_heard_again():
    neighbours = known((10.0, 0.0, Z), now_ns=100 * 10**9)
    assert neighbours.take("quad2", 10**9, 101 * 10**9, [(9.0, 0.0, Z)]) is None
    assert neighbours.fault(101 * 10**9) == ""


def test_one_that_comes_faster_leaves_less_of_the_gap():
    """Another vehicle has limits and brakes of its own: its reach grows by those."""
    own, theirs = Neighbours(PARAMS), Neighbours(PARAMS)
    own.expect({"quad2": PARAMS.keep_out_m})
    theirs.expect({"quad2": PARAMS.keep_out_m}, {"quad2": growth_mps(PARAMS) + 5.0})
    now_ns = 10**9 + 100_000_000
    bounds = []
    for neighbours in (own, theirs):
        assert neighbours.take("quad2", 10**9, 10**9, [(10.0, 0.0, Z)]) is None
        bounds.append(neighbours.halves(now_ns, HERE_W, STANDS, 0.0).bound_m[0])
    age_s = 0.1 + PERIOD_S
    assert bounds[0] - bounds[1] == pytest.approx(0.5 * 5.0 * age_s)


# ---- what a scan sees of them ------------------------------------------------------------------


def test_hits_of_a_neighbour_are_those_within_its_keep_out_about_its_reach():
    """By a general minimiser, with heights that count for a third."""
    rng = np.random.default_rng(3)
    reach = np.array([(4.0, 0.0, Z), (5.0, 1.0, Z), (5.0, -0.5, Z + 0.2)])
    neighbours = Neighbours(PARAMS)
    neighbours.expect({"quad2": PARAMS.keep_out_m})
    assert neighbours.take("quad2", 10**9, 10**9, reach) is None
    hits = rng.uniform((3.0, -1.5, Z - 2.0), (6.0, 2.0, Z + 2.0), (200, 3))
    third = np.array((1.0, 1.0, 1.0 / 3.0))
    away_m = np.array([distance(hit[None] * third, reach * third) for hit in hits])
    sure = np.abs(away_m - PARAMS.keep_out_m) > 0.02  # as near as Gilbert's method comes
    found = neighbours.hit(10**9, 10**9, hits)
    np.testing.assert_array_equal(found[sure], (away_m <= PARAMS.keep_out_m)[sure])
    assert 10 < found.sum() < 190


def test_a_scan_is_compared_with_where_the_neighbour_was_then():
    """It flies at 4 m/s; a scan that comes 0.2 s late shows it 0.8 m behind."""
    neighbours = Neighbours(PARAMS)
    neighbours.expect({"quad2": PARAMS.keep_out_m})
    for k in range(30):
        now_ns = 10**9 + 20_000_000 * k
        x = 0.08 * k
        assert neighbours.take("quad2", now_ns, now_ns, [(x, 0.0, Z), (x + 3.0, 0.0, Z)]) is None
    hit = np.array([(x - 0.8 - 0.4, 0.0, Z)])  # its hull's rear
    assert neighbours.hit(now_ns, now_ns - 200_000_000, hit) == [True]
    assert neighbours.hit(now_ns, now_ns, hit) == [False]
    # one that is lost is an obstacle, where it was seen
    assert neighbours.hit(now_ns + 510_000_000, now_ns - 200_000_000, hit) == [False]


def test_a_guard_passes_a_neighbour_that_its_lidar_sees_as_if_it_did_not():
    """It counts by its reach alone; the same hit of a pillar slows the vehicle down."""
    commands = {}
    for seen in ("nothing", "neighbour", "pillar"):
        guard = Guard(PARAMS)
        guard.expect_neighbours({"quad2": PARAMS.keep_out_m})
        guard.enable(0)
        for k in range(1, 100):
            now_ns = 20_000_000 * k
            p_W = (1e-6 * k, 0.0, Z)  # of no vehicle in motion is it the same to the bit
            guard.take_pose(now_ns, now_ns, p_W, (1.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
            guard.take_dead_man(now_ns, True)
            # above, where a height counts for a third, and the scan's columns reach all heights
            place = (0.9, 0.0, Z + (12.0 if seen == "pillar" else 7.0))
            guard.take_neighbour("quad2", now_ns, now_ns, [place])
            hit = (0.7, 0.0, Z + 7.0)
            hits = np.zeros((0, 3)) if seen == "nothing" else np.array([hit])
            guard.take_scan(now_ns, now_ns, (0.0, 0.0, Z), hits)
            guard.take_wish(now_ns, (1.0, 0.0, 0.0), 0.0)
            if not guard.enabled:
                guard.enable(now_ns)
            said = guard.step(now_ns)
        commands[seen] = said.v_W
    np.testing.assert_array_equal(commands["neighbour"], commands["nothing"])
    assert commands["pillar"][0] < 0.5 * commands["nothing"][0]


# ---- flights -----------------------------------------------------------------------------------


def ring(count, radius_m=9.0):
    angle = 2.0 * math.pi * np.arange(count) / count + 0.3
    places = np.column_stack((np.cos(angle), np.sin(angle), np.full(count, 0.0))) * radius_m
    return places + HERE_W, HERE_W - places


def fleet_to(goals_W, places_W, params=PARAMS, seed=0):
    return PointFleet(params, places_W, [goes_to(goal, 4.0) for goal in goals_W], seed)


@pytest.mark.parametrize("seed", range(3))
def test_vehicles_of_different_limits_keep_their_distance(seed):
    """A fast one meets a small one that is slow and answers late, straight on."""
    slow = replace(
        PARAMS,
        limits=replace(PARAMS.limits, speed_max_mps=1.0),
        vehicle=replace(PARAMS.vehicle, radius_m=0.1, brake_mps2=1.5, latency_s=0.5),
    )
    places_W = np.array([(-8.0, 0.0, Z), (8.0, 0.1 * seed, Z)])
    wishes = [goes_to(-places_W[0] + 2 * HERE_W, 4.0), goes_to(places_W[0], 4.0)]
    fleet = PointFleet([PARAMS, slow], places_W, wishes, seed)
    fleet.run(8.0)
    assert fleet.least_m > PARAMS.keep_out_m + slow.keep_out_m
    assert fleet.members["quad1"].mass.p_W[0] > 6.0


@pytest.mark.parametrize("count", [2, 3])
def test_vehicles_that_meet_in_one_place_pass_on_the_right_and_arrive(count):
    places_W, goals_W = ring(count)
    fleet = fleet_to(goals_W, places_W, seed=count)
    fleet.run(9.0)
    assert fleet.least_m > APART_M
    for member, goal_W in zip(fleet.members.values(), goals_W, strict=True):
        assert np.linalg.norm(member.mass.p_W - goal_W) < 0.5


@pytest.mark.parametrize("seed", range(3))
def test_arbitrary_wishes_lead_nobody_into_another(seed):
    """Each wishes to be where the next one is, all the time, at 4 m/s: they would all collide."""
    rng = np.random.default_rng(seed)
    places_W = ring(3, 4.0)[0] + rng.uniform(-1.0, 1.0, (3, 3)) * (1.0, 1.0, 0.3)
    fleet = fleet_to(places_W, places_W, seed=seed)
    members = list(fleet.members.values())
    for k, member in enumerate(members):
        chased = members[(k + 1) % 3].mass
        member.wish = lambda mass, chased=chased: goes_to(chased.p_W, 4.0)(mass) * 3.0
    fleet.run(4.0)
    assert fleet.least_m > APART_M - 1e-3
    assert max(np.linalg.norm(m.outputs[-1].v_W) for m in members) < 4.0


def test_a_reach_holds_where_a_vehicle_is_until_it_stands():
    """From when zero alone is commanded on; within 5 cm, a pose's way between two steps."""
    places_W = np.array([(0.0, 0.0, Z), (30.0, 0.0, Z)])
    fleet = fleet_to(np.array([(30.0, 5.0, Z), (0.0, 5.0, Z)]), places_W)
    fleet.run(1.5)
    member = fleet.members["quad1"]
    reach_W = member.guard.reach(fleet.now_ns)
    member.wish = lambda _: np.zeros(3)
    member.guard.take_dead_man(fleet.now_ns, False)
    way = []
    for _ in range(40):
        now_ns = fleet.now_ns = fleet.now_ns + 5_000_000
        member.mass.command(now_ns, np.zeros(3))
        member.mass.step(now_ns)
        way.append(member.mass.p_W)
    assert np.linalg.norm(way[-1] - way[0]) > 0.3
    assert all(holds(reach_W, p_W, 0.05) for p_W in way)


def test_all_brake_and_land_where_one_falls_silent():
    places_W, goals_W = ring(2)
    params = replace(PARAMS, watch=replace(PARAMS.watch, hold_s=1.0))
    fleet = fleet_to(goals_W, places_W, params)
    fleet.run(1.0)
    fleet.silent = {"quad2"}
    fleet.run(4.0)
    assert "neighbour quad2 lost: not heard for" in fleet.words("quad1")
    assert fleet.members["quad1"].outputs[-1].state == "landing"
    assert fleet.least_m > APART_M


def test_a_way_that_stays_shut_is_told_once(monkeypatch):
    """A corridor as wide as one vehicle, and another that stands in it."""
    monkeypatch.setattr("quadsim.hil.guard.guard.BLOCKED_S", 1.0)
    limits = replace(PARAMS.limits, fence_min_W_m=(-20.0, -0.5), fence_max_W_m=(20.0, 0.5))
    params = replace(PARAMS, limits=limits)
    places_W = np.array([(-5.0, 0.0, Z), (0.0, 0.0, Z)])
    goals_W = np.array([(5.0, 0.0, Z), (0.0, 0.0, Z)])
    fleet = fleet_to(goals_W, places_W, params)
    fleet.run(6.0)
    assert fleet.words("quad1").count("no way past neighbour quad2 for 1 s") == 1
    assert fleet.members["quad1"].outputs[-1].reason.startswith("neighbour quad2")
    assert fleet.least_m > APART_M


def test_a_flight_begins_only_where_neighbours_are_heard_and_apart():
    guard = Guard(PARAMS)
    guard.expect_neighbours({"quad2": PARAMS.keep_out_m})
    refusals = []
    for k in range(1, 100):
        now_ns = 20_000_000 * k
        guard.take_pose(now_ns, now_ns, (0.0, 0.0, Z), (1.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
        guard.take_dead_man(now_ns, True)
        if k > 60:
            guard.take_neighbour("quad2", now_ns, now_ns, [(0.9 if k < 80 else 1.1, 0.0, Z)])
        refusals.append(guard.enable(now_ns) if k in (50, 70, 90) else "")
    assert refusals[49] == "neighbour quad2 not heard"
    assert refusals[69] == "neighbour quad2 is 0.90 m away; allowed: 1.00"
    assert refusals[89] is None


def test_one_that_knows_not_where_it_is_says_so():
    """Its frame is turned, or its pose is lost: no point of its reach."""
    guard = Guard(PARAMS)
    assert guard.reach(0) is None
    for k in range(1, 60):
        now_ns = 20_000_000 * k
        pose = (now_ns, now_ns, (0.01 * k, 0.0, Z), (1.0, 0.0, 0.0, 0.0))
        guard.take_pose(*pose, (0.5, 0.0, 0.0))
    reach_W = guard.reach(now_ns)
    assert reach_W is not None
    assert reach_W.shape == (2, 3)
    # nobody guards it: 1 s more than the latency, then it brakes
    vehicle = PARAMS.vehicle
    way_m = 0.5 * (1.0 + vehicle.latency_s + 0.5 / (2.0 * vehicle.brake_mps2))
    assert reach_W[1] - reach_W[0] == pytest.approx([way_m, 0.0, 0.0])
    assert len(guard.reach(now_ns + 200_000_000)) == 0  # no pose since
    for _ in range(60):  # its velocity is turned by 90 degrees, at 2 m/s
        k, now_ns = k + 1, now_ns + 20_000_000
        pose = (now_ns, now_ns, (0.04 * k, 0.0, Z), (1.0, 0.0, 0.0, 0.0))
        guard.take_pose(*pose, (0.0, 2.0, 0.0))
    assert len(guard.reach(now_ns)) == 0
