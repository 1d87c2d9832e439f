"""Trajectories against scipy, closed forms, the calculus of variations, and their limits."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import make_interp_spline

from quadsim.base.errors import InputError
from quadsim.control.parameters import AutopilotParams, FlightParams, PositionParams
from quadsim.mission.items import Follow, items_from
from quadsim.mission.trajectories.course import Plan
from quadsim.mission.trajectories.items import (
    Circle,
    FigureOfEight,
    Helix,
    MinimumSnap,
    Spiral,
    TimedFollow,
)
from quadsim.mission.trajectories.limits import check_trajectories, excess
from quadsim.mission.trajectories.polynomials import Limits, allocate, course, differentiated
from quadsim.mission.trajectories.timed import TrajectoryPoint, course_of, read_csv

FLIGHT, POSITION = FlightParams(), PositionParams()
CENTER = (1.0, -2.0, 3.0)
WAYPOINTS = ((0.0, 0.0, 2.0), (3.0, 1.0, 2.5), (5.0, -1.0, 2.0), (6.0, 3.0, 4.0), (2.0, 4.0, 3.0))
TIMES = np.array([1.3, 0.8, 1.7, 1.1])

ITEMS = {
    "circle": Circle(center_W_m=CENTER, radius_m=2.0, turns=2.0, speed_mps=2.5, yaw="along"),
    "clockwise": Circle(center_W_m=CENTER, radius_m=2.0, clockwise=True, start_deg=70.0),
    "eight": FigureOfEight(
        center_W_m=CENTER, half_length_m=1.5, half_width_m=0.6, half_height_m=0.75,
        heading_deg=30.0, laps=2.0, acceleration_mps2=6.0, yaw="rate", yaw_rate_degps=40.0,
    ),
    "helix": Helix(center_W_m=CENTER, radius_m=1.0, turns=3.0, climb_m=4.0, yaw="along"),
    "spiral": Spiral(center_W_m=CENTER, radius_m=0.0, end_radius_m=3.0, turns=3.0, yaw="along"),
    "minimum_snap": MinimumSnap(waypoints=WAYPOINTS, yaw="along"),
}  # fmt: skip


def dense(plan, count=4001):
    """Times (N,), positions, velocities, accelerations (N, 3), unwrapped yaws and rates (N,)."""
    times = np.linspace(0.0, plan.duration_s, count)
    motions = [plan.at(float(t_s)) for t_s in times]
    p, v, a = (np.array([motion[i] for motion in motions]) for i in range(3))
    yaw, rate = (np.array([motion[i] for motion in motions]) for i in (3, 4))
    return times, p, v, a, np.unwrap(yaw), rate


def snap_cost(path):
    """Integral of squared snap over the course, m^2/s^7."""
    snap = path.coefficients[:, :3]
    for _ in range(4):
        snap = differentiated(snap) / np.diff(path.knots_s)[:, None, None]
    order = np.arange(snap.shape[-1])
    weights = 1.0 / (order[:, None] + order + 1.0)  # integrals of tau^i tau^j
    squares = np.einsum("kdi,kdj,ij->k", snap, snap, weights)
    return float(np.sum(squares * np.diff(path.knots_s)))


def length(vectors):
    return np.linalg.norm(vectors, axis=1)


# ---- minimum snap ------------------------------------------------------------------------------


def test_least_snap_is_scipys_spline_of_degree_seven():
    # an interpolating spline of degree 7, clamped to the third derivative, is its one minimiser
    path = course(np.array(WAYPOINTS), TIMES)
    rest = [(k, np.zeros(3)) for k in (1, 2, 3)]
    spline = make_interp_spline(path.knots_s, np.array(WAYPOINTS), k=7, bc_type=(rest, rest))
    for u_s in np.linspace(0.0, path.length_s, 301):
        p, v, a, _, _ = path.at(float(u_s))
        np.testing.assert_allclose(p, spline(u_s), atol=1e-11)
        np.testing.assert_allclose(v, spline(u_s, 1), atol=1e-10)
        np.testing.assert_allclose(a, spline(u_s, 2), atol=1e-9)
    cost = np.sum(spline(np.linspace(0.0, path.length_s, 200_001), 4) ** 2, axis=1).mean()
    assert snap_cost(path) == pytest.approx(cost * path.length_s, rel=1e-4)


def test_no_way_through_the_waypoints_has_less_snap():
    path = course(np.array(WAYPOINTS), TIMES)
    bump = np.polynomial.Polynomial.fromroots(
        [0.0] * 4 + [path.length_s] * 4 + list(path.knots_s[1:-1])
    )
    u_s = np.linspace(0.0, path.length_s, 20_001)
    step_s = u_s[1] - u_s[0]
    added = bump.deriv(4)(u_s)
    rest = [(k, np.zeros(3)) for k in (1, 2, 3)]
    spline = make_interp_spline(path.knots_s, np.array(WAYPOINTS), k=7, bc_type=(rest, rest))
    for axis in range(3):
        snap = spline(u_s, 4)[:, axis]
        mixed = np.sum(snap * added) * step_s
        # the first variation is zero, so any share of the bump adds its own snap and no less
        size = math.sqrt(np.sum(snap**2) * np.sum(added**2)) * step_s
        assert abs(mixed) < 1e-3 * size


def test_segments_join_to_the_sixth_derivative():
    path = course(np.array(WAYPOINTS), TIMES)
    for k in range(len(TIMES) - 1):
        before = [np.polynomial.Polynomial(axis) for axis in path.coefficients[k]]
        after = [np.polynomial.Polynomial(axis) for axis in path.coefficients[k + 1]]
        for order in range(1, 7):
            left = [axis.deriv(order)(1.0) / TIMES[k] ** order for axis in before]
            right = [axis.deriv(order)(0.0) / TIMES[k + 1] ** order for axis in after]
            np.testing.assert_allclose(left, right, rtol=1e-7, atol=1e-6)


coordinates = st.tuples(*[st.floats(-20.0, 20.0)] * 3)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(coordinates, min_size=2, max_size=6),
    st.floats(0.5, 8.0),
    st.floats(0.5, 8.0),
    st.floats(0.3, 3.0),
    st.floats(0.3, 3.0),
)
def test_limits_hold_and_one_of_them_just_so(waypoints, speed, acceleration, up, down):
    if any(math.dist(*pair) < 0.1 for pair in pairwise(waypoints)):
        return
    path = course(np.array(waypoints), allocate(waypoints, Limits(speed, acceleration, up, down)))
    _, _, v, a, _, _ = dense(Plan(path), 2001)
    reached = (
        length(v).max() / speed,
        length(a).max() / acceleration,
        v[:, 2].max() / up,
        -v[:, 2].min() / down,
    )
    # 2001 samples may miss a peak by the square of half a step: 1e-4 of it and less
    assert 0.999 < max(reached) < 1.0 + 1e-9


def test_one_segment_is_the_leg_from_rest_to_rest():
    durations = allocate(((0.0, 0.0, 1.0), (4.0, 3.0, 1.0)), Limits(3.0, 4.0))
    # peaks 35/16 d/T and 84 sqrt(5)/25 d/T^2
    wanted = max(35 / 16 * 5 / 3, math.sqrt(84 * math.sqrt(5) / 25 * 5 / 4))
    assert durations[0] == pytest.approx(wanted, rel=1e-9)


def test_the_optimiser_saves_time():
    even = allocate(WAYPOINTS, Limits(3.0, 4.0, 1.5, 1.0))
    best = allocate(WAYPOINTS, Limits(3.0, 4.0, 1.5, 1.0), optimise=True)
    assert best.sum() < 0.97 * even.sum()


# ---- shapes ------------------------------------------------------------------------------------


def test_a_circle_has_its_centripetal_acceleration():
    plan = ITEMS["circle"].plan(FLIGHT)
    times, p, v, a, yaw, rate = dense(plan)
    steady = (times > plan.run_in_s) & (times < plan.duration_s - plan.run_out_s)
    out = (p - CENTER)[steady]
    np.testing.assert_allclose(length(out), 2.0, rtol=1e-12)
    np.testing.assert_allclose(length(v[steady]), 2.5, rtol=1e-12)
    np.testing.assert_allclose(a[steady], -out * (2.5 / 2.0) ** 2, atol=1e-12)
    np.testing.assert_allclose(rate[steady], 2.5 / 2.0, rtol=1e-12)
    np.testing.assert_allclose(p[[0, -1]], [(3.0, -2.0, 3.0)] * 2, atol=1e-12)
    assert yaw[-1] - yaw[0] == pytest.approx(4.0 * math.pi)


def test_a_clockwise_circle_turns_right():
    _, p, v, _, _, _ = dense(ITEMS["clockwise"].plan(FLIGHT), 11)
    assert np.cross((p - CENTER)[5], v[5])[2] < 0.0
    assert math.atan2(*(p[0] - CENTER)[[1, 0]]) == pytest.approx(math.radians(70.0))


def test_a_flat_eight_has_the_peak_acceleration_of_its_closed_form():
    length_m, width_m, wanted = 2.0, 1.0, 6.0
    item = FigureOfEight(
        center_W_m=CENTER, half_length_m=length_m, half_width_m=width_m, acceleration_mps2=wanted
    )
    # |r''|^2 = s (A^2 + 64 B^2 (1 - s)) with s = sin^2: largest at s = (A^2 + 64 B^2) / (128 B^2)
    share = (length_m**2 + 64 * width_m**2) / (128 * width_m**2)
    most = math.sqrt(share * (length_m**2 + 64 * width_m**2 * (1 - share)))
    plan = item.plan(FLIGHT)
    assert plan.course.length_s == pytest.approx(2 * math.pi / math.sqrt(wanted / most), rel=1e-4)
    _, p, _, a, _, _ = dense(plan)
    assert 0.999 * wanted < length(a).max() < 1.04 * wanted
    x, y = (p - CENTER)[:, 0] / length_m, (p - CENTER)[:, 1] / width_m
    np.testing.assert_allclose(y**2, 4 * x**2 * (1 - x**2), atol=1e-12)


def test_helix_and_spiral_end_where_they_say():
    _, p, _, _, _, _ = dense(ITEMS["helix"].plan(FLIGHT), 11)
    np.testing.assert_allclose(p[-1] - p[0], [0.0, 0.0, 4.0], atol=1e-12)
    _, p, _, _, _, _ = dense(ITEMS["spiral"].plan(FLIGHT), 11)
    np.testing.assert_allclose(p[[0, -1]], [CENTER, (4.0, -2.0, 3.0)], atol=1e-12)


@pytest.mark.parametrize("name", ITEMS)
def test_every_plan_moves_as_its_derivatives_say_from_rest_to_rest(name):
    plan = ITEMS[name].plan(FLIGHT)
    times, p, v, a, yaw, rate = dense(plan)
    step_s = times[1]
    # central differences are off by a sixth of the third derivative times the squared step
    inner = slice(1, -1)
    np.testing.assert_allclose(np.gradient(p, step_s, axis=0)[inner], v[inner], atol=2e-3)
    np.testing.assert_allclose(np.gradient(v, step_s, axis=0)[inner], a[inner], atol=2e-2)
    np.testing.assert_allclose(np.gradient(yaw, step_s)[inner], rate[inner], atol=2e-2)
    for still in (v[[0, -1]], a[[0, -1]], rate[[0, -1]]):
        np.testing.assert_allclose(still, 0.0, atol=1e-9)
    assert excess(plan, POSITION, 0.0) is None


def test_the_nose_points_along_the_way():
    plan = ITEMS["minimum_snap"].plan(FLIGHT)
    _, _, v, _, yaw, rate = dense(plan)
    fast = np.hypot(v[:, 0], v[:, 1]) > 1.0
    off = np.angle(np.exp(1j * (yaw - np.arctan2(v[:, 1], v[:, 0]))))[fast]
    assert np.median(np.abs(off)) < 0.2
    assert np.abs(rate).max() < FLIGHT.yaw_rate_radps * 1.05


@pytest.mark.parametrize("name", ["circle", "eight", "minimum_snap"])
@pytest.mark.parametrize("share", [0.01, 0.4, 0.97])
def test_a_plan_is_resumed_from_rest_where_it_was_left(name, share):
    plan = ITEMS[name].plan(FLIGHT)
    t_s = share * plan.duration_s
    rest = plan.resumed(plan.progress(t_s), FLIGHT.acceleration_mps2)
    _, p, v, a, _, _ = dense(rest)
    np.testing.assert_allclose(p[0], plan.at(t_s)[0], atol=1e-9)
    np.testing.assert_allclose(p[-1], plan.at(plan.duration_s)[0], atol=1e-9)
    np.testing.assert_allclose(v[[0, -1]], 0.0, atol=1e-9)
    assert length(a).max() < 1.1 * max(6.0, FLIGHT.acceleration_mps2)
    assert rest.progress(rest.duration_s) == pytest.approx(plan.course.length_s)


# ---- what is refused ---------------------------------------------------------------------------

EIGHT = "half_length_m: 1.5, half_width_m: 0.6, half_height_m: -1"
REFUSED = [
    ("circle: {center_W_m: [0, 0, 2], radius_m: 9, speed_mps: 6}",
     "circle: horizontal speed of 6 m/s", "<= 5 (position.speed_max_mps)"),
    ("circle: {center_W_m: [0, 0, 2], radius_m: 2, speed_mps: 4.5}",
     "circle: horizontal acceleration of 10.1 m/s^2", "<= 8 (position.acceleration_max_mps2)"),
    (f"figure_of_eight: {{center_W_m: [0, 0, 3], {EIGHT}, acceleration_mps2: 8}}",
     "figure_of_eight: tilt of", "<= 0.7 (position.tilt_max_rad)"),
    ("helix: {center_W_m: [0, 0, 2], radius_m: 1, climb_m: 30, speed_mps: 4}",
     "helix: climb of", "<= 3 (position.ascent_max_mps)"),
    ("helix: {center_W_m: [0, 0, 40], radius_m: 1, climb_m: -30, speed_mps: 4}",
     "helix: descent of", "<= 2 (position.descent_max_mps)"),
    ("spiral: {center_W_m: [0, 0, 2], radius_m: 0, end_radius_m: 3, turns: 3, climb_m: -2.5}",
     "spiral: height of -0.5 m", ">= 0, the ground"),
    ("circle: {center_W_m: [0, 0, 2], radius_m: 1, speed_mps: 1, yaw: rate, yaw_rate_degps: 200}",
     "circle: yaw rate of 3.49 rad/s", "<= 2.5 (position.yaw_rate_max_radps)"),
    ("minimum_snap: {waypoints: [[0, 0, 2], [9, 0, 2]], speed_mps: 5.5}",
     "minimum_snap: horizontal speed of 5.5 m/s", "<= 5 (position.speed_max_mps)"),
]  # fmt: skip


def mission(text):
    import yaml

    return items_from([{"takeoff": {}}, yaml.safe_load(text)], "x.yaml")


@pytest.mark.parametrize(("text", "said", "allowed"), REFUSED)
def test_more_than_the_limits_is_refused_in_one_line(text, said, allowed):
    items = mission(text)
    with pytest.raises(InputError) as caught:
        check_trajectories(items, ["takeoff", text.split(":")[0]], AutopilotParams(), 0.0, "x.yaml")
    words = str(caught.value)
    assert words.startswith(f"x.yaml: mission[1]: {said}")
    assert words.endswith(allowed)
    assert "\n" not in words


class Accelerated:
    """A plan with one acceleration."""

    duration_s = 1.0

    def __init__(self, *a_W):
        self.a_W = a_W

    def at(self, _):
        return (0.0, 0.0, 2.0), (0.0, 0.0, 0.0), self.a_W, 0.0, 0.0


def test_the_tilt_is_that_of_the_force_against_gravity():
    # atan(5 / (9.8 - 4)) = 0.71 rad when it sinks faster and faster, 0.35 when it rises so
    assert "tilt of 0.711 rad" in excess(Accelerated(5.0, 0.0, -4.0), POSITION)
    assert excess(Accelerated(5.0, 0.0, 4.0), POSITION) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("minimum_snap: {waypoints: [[0, 0, 2]]}", "waypoints: 1; give at least two"),
        ("minimum_snap: {waypoints: [[0, 0, 2], [0, 0, 2]]}", "waypoints[1]: repeats"),
        ("helix: {center_W_m: [0, 0, 2], radius_m: 0, climb_m: 2}", "radius_m: 0; allowed"),
    ],
)
def test_items_that_make_no_sense_are_refused_when_read(text, said):
    with pytest.raises(InputError, match=r"x.yaml: mission\[1\]") as caught:
        mission(text)
    assert said in str(caught.value)


# ---- timed points ------------------------------------------------------------------------------


def points_of(p, v, a, times):
    return [
        TrajectoryPoint(
            float(t), tuple(map(float, p(t))), 0.1, tuple(map(float, v(t))) if v else None,
            tuple(map(float, a(t))) if a else None,
        )
        for t in times
    ]  # fmt: skip


def test_points_with_velocity_and_acceleration_are_joined_by_the_quintic_they_are_of():
    generator = np.random.default_rng(5)
    axes = [np.polynomial.Polynomial(generator.normal(size=6)) for _ in range(3)]
    p, v, a = (lambda t, k=k: [axis.deriv(k)(t) for axis in axes] for k in range(3))
    path = course_of(points_of(p, v, a, (0.0, 0.7, 1.1)))
    for t in np.linspace(0.0, 1.1, 40):
        found = path.at(float(t))
        for value, wanted in zip(found[:3], (p, v, a), strict=True):
            np.testing.assert_allclose(value, wanted(t), atol=1e-9)


def circle_points(count, with_v):
    def p(t):
        return [math.cos(t), math.sin(t), 2.0]

    def v(t):
        return [-math.sin(t), math.cos(t), 0.0]

    return points_of(p, v if with_v else None, None, np.linspace(0.0, 2 * math.pi, count))


def test_points_with_a_velocity_get_their_acceleration_from_a_spline():
    path = course_of(circle_points(33, True))
    for t in np.linspace(0.5, 5.5, 50):  # the ends of a spline know less
        p, v, a, _, _ = path.at(float(t))
        # a cubic spline's slope is good to the cube of the step, 0.2^3, and better inside
        np.testing.assert_allclose(p[:2], [math.cos(t), math.sin(t)], atol=1e-5)
        np.testing.assert_allclose(v[:2], [-math.sin(t), math.cos(t)], atol=1e-4)
        np.testing.assert_allclose(a[:2], [-math.cos(t), -math.sin(t)], atol=2e-3)


def test_points_alone_are_flown_from_rest_to_rest():
    path = course_of(circle_points(65, False))
    np.testing.assert_allclose(path.at(0.0)[1:3], 0.0, atol=1e-9)
    for t in np.linspace(1.0, 5.0, 50):
        np.testing.assert_allclose(path.at(float(t))[1][:2], [-math.sin(t), math.cos(t)], atol=1e-3)


def test_a_file_that_begins_in_motion_is_run_into():
    plan = TimedFollow(points=tuple(circle_points(33, True))).plan(FLIGHT)
    assert plan.run_in_s > 0.0
    assert plan.at(0.0)[1] == (0.0, 0.0, 0.0)
    assert plan.at(plan.duration_s)[1] == pytest.approx((0.0, 0.0, 0.0))


def test_csv_is_read_with_what_it_has(tmp_path):
    file = tmp_path / "way.csv"
    file.write_text("t, x, y, z, vx, vy, vz, yaw_deg\n0,0,0,2,0,0,0,90\n2,1,0,2,0,0,0,180\n")
    first, last = read_csv(file)
    assert first.yaw == pytest.approx(math.pi / 2)
    assert last == TrajectoryPoint(2.0, (1.0, 0.0, 2.0), math.pi, (0.0, 0.0, 0.0))
    scenario = str(tmp_path / "scenario.yaml")
    follow = {"follow": {"trajectory": "way.csv", "offset_W_m": [0.0, 0.0, 1.0]}}
    item = items_from([{"takeoff": {}}, follow], scenario)[1]
    assert isinstance(item, TimedFollow)
    assert item.points[0].p_W == (0.0, 0.0, 3.0)


def test_yaml_is_joined_by_straight_lines_unless_it_says_otherwise(tmp_path):
    file = tmp_path / "way.yaml"
    lines = "points: [[0, 0, 0, 2, 0], [2, 1, 0, 2, 90]]\n"
    follow = [{"takeoff": {}}, {"follow": {"trajectory": str(file)}}]
    file.write_text(lines)
    assert isinstance(items_from(follow, "x")[1], Follow)
    file.write_text(lines + "interpolation: spline\nvelocities: [[0, 0, 0], [0.5, 0, 0]]\n")
    item = items_from(follow, "x")[1]
    assert item.points[1].v_W == (0.5, 0.0, 0.0)
    file.write_text(lines + "velocities: [[0, 0, 0], [0.5, 0, 0]]\n")
    with pytest.raises(InputError, match="velocities: only with interpolation: spline"):
        items_from(follow, "x")
    file.write_text(lines + "interpolation: spline\nvelocities: [[0, 0, 0]]\n")
    with pytest.raises(InputError, match="velocities: 1; there are 2 points"):
        items_from(follow, "x")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "header: none"),
        ("t,x,y\n0,0,0\n", "header: t, x, y; wanted: t, x, y, z"),
        ("t,x,y,z,vx\n", "wanted"),
        ("t,x,y,z,colour\n", "wanted"),
        ("t,x,y,z\n0,0,0\n", "row 2: 3 values; the header has 4"),
        ("t,x,y,z\n0,0,up,0\n", "row 2: y: 'up' is not a number"),
        ("t,x,y,z\n0,0,0,0\n", "points: 1; give at least two"),
        ("t,x,y,z\n0,0,0,2\n1,nan,0,2\n", r"points[1]: a number in it is not finite"),
        ("t,x,y,z\n1,0,0,2\n1,1,0,2\n", r"points[1]: its time 1 is not after 1"),
    ],
)
def test_a_csv_file_that_is_wrong_is_refused(tmp_path, text, said):
    file = tmp_path / "way.csv"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        TimedFollow(points=read_csv(file)).plan(FLIGHT)
    assert said in str(caught.value)
