"""Each rule of the guard, by a flight that breaks it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from point_mass import LEVEL, Flight, PointMass, fly

from quadsim.base.files import find
from quadsim.base.parameters import load
from quadsim.hil.guard.emergency import LAND_SINK_MPS
from quadsim.hil.guard.guard import RECOVER_S, Guard, GuardOutput, GuardParams, Shape
from quadsim.hil.guard.parameters import PERIOD_S
from quadsim.hil.guard.pose import PoseWatch

PARAMS = load(GuardParams, find("guards", "default"))
STEP_S = PERIOD_S
HEIGHT_M = 1.5
NAN = np.full(3, math.nan)


def east(speed_mps: float) -> Callable[[float, PointMass], np.ndarray]:
    """A wish to the east, always."""
    return lambda *_: np.array((speed_mps, 0.0, 0.0))


def mass_at(x: float = 0.0, y: float = 0.0, z: float = HEIGHT_M) -> PointMass:
    """A vehicle that brakes no better than assumed, and answers no sooner."""
    vehicle = PARAMS.vehicle
    return PointMass(
        np.array((x, y, z)),
        brake_mps2=vehicle.brake_mps2,
        answer_s=0.6 * vehicle.latency_s,
        pose_s=0.4 * vehicle.latency_s,
    )


def states(flight: Flight) -> list[str]:
    """In the order in which they came, without repetitions."""
    found = [output.state for output in flight.outputs]
    return [state for i, state in enumerate(found) if i == 0 or state != found[i - 1]]


def words(flight: Flight) -> str:
    """All that the guard told."""
    return "\n".join(event.words for output in flight.outputs for event in output.events)


class Bench:
    """A guard whose inputs are set one by one; all is well until something is changed."""

    def __init__(self, params: GuardParams = PARAMS) -> None:
        self.guard = Guard(params)
        self.now_ns = 5_000_000_000
        self.p_W = np.array((0.0, 0.0, HEIGHT_M))
        self.v_W = np.zeros(3)
        self.q_WB = LEVEL
        self.points_W = np.array([(6.0, 0.0, HEIGHT_M)])
        self.wish_W: Any = np.zeros(3)
        self.yaw_rate = 0.0
        self.held = True
        self.silent: set[str] = set()
        self.refused: dict[str, str] = {}

    def run(self, duration_s: float, follow: bool = True) -> GuardOutput:
        """Steps; the vehicle is where its velocity leads it, and has the commanded one at once."""
        output = None
        for _ in range(round(duration_s / STEP_S)):
            self.now_ns += 20_000_000
            self.p_W = self.p_W + STEP_S * self.v_W
            now, say = self.now_ns, self.silent
            if "pose" not in say:
                self._keep("pose", self.guard.take_pose(
                    now, now, tuple(self.p_W), self.q_WB, tuple(self.v_W)
                ))  # fmt: skip
            if "scan" not in say:
                self._keep("scan", self.guard.take_scan(now, now, tuple(self.p_W), self.points_W))
            if "wish" not in say:
                self._keep("wish", self.guard.take_wish(now, self.wish_W, self.yaw_rate))
            if "button" not in say:
                self.guard.take_dead_man(now, self.held)
            output = self.guard.step(now)
            if follow and output.send:
                self.v_W = output.v_W
        assert output is not None
        return output

    def _keep(self, name: str, refusal: str | None) -> None:
        if refusal:
            self.refused[name] = refusal

    def flying(self, east_mps: float = 0.0) -> Bench:
        """Enabled and settled; with a wish to the east for a second."""
        self.run(1.0)
        assert self.guard.enable(self.now_ns) is None
        self.run(0.1)
        if east_mps:
            self.wish_W = np.array((east_mps, 0.0, 0.0))
            self.run(1.0)
        return self


# ---- before it begins --------------------------------------------------------------------------


def test_nothing_is_sent_before_it_is_enabled_nor_after() -> None:
    """Nor does a wish of before count: it has to come again."""
    bench = Bench()
    bench.wish_W = np.array((1.0, 0.0, 0.0))
    output = bench.run(1.0)
    assert not output.send
    assert not output.v_W.any()
    assert output.state == "disabled"
    assert bench.guard.enable(bench.now_ns) is None
    bench.silent = {"wish"}
    assert bench.run(0.1).reason == "no wish yet"
    bench.silent = set()
    output = bench.run(1.0)
    assert (output.send, output.state) == (True, "passing")
    assert output.v_W == pytest.approx((1.0, 0.0, 0.0))
    bench.guard.disable()
    assert not bench.run(0.1).send


def _silent(name: str) -> Callable[[Bench], None]:
    return lambda bench: bench.silent.add(name)


def _set(name: str, value: Any) -> Callable[[Bench], None]:
    return lambda bench: setattr(bench, name, value)


def _stale_pose(bench: Bench) -> None:
    bench.run(1.0)
    bench.silent = {"pose"}


def _jumping(bench: Bench) -> None:
    bench.run(1.0)
    bench.p_W = bench.p_W + 2.0
    bench.run(0.1)


def _velocity_of_another_frame(bench: Bench) -> None:
    """It says north; the poses stand."""
    bench.run(0.1)
    take = bench.guard.take_pose
    bench.guard.take_pose = lambda s, n, p, q, v: take(s, n, p, q, (0.0, 0.9, 0.9))  # type: ignore[method-assign]


def _vehicle_around(bench: Bench) -> None:
    bench.guard.take_shapes(bench.now_ns + 900_000_000, [Shape((0.5, 0, 1.5), (0, 0, 0), 0.3, 0.2)])


@pytest.mark.parametrize(
    ("broken", "expected"),
    [
        (_silent("pose"), "no pose has come"),
        (_stale_pose, "no pose for"),
        (_set("p_W", np.array((0.0, 0.0, 0.1))), "height 0.10 m; allowed: 0.5 to 3; take off by"),
        (_set("p_W", np.array((0.0, 0.0, -1.5))), "height -1.50 m; .* in map \\(ENU, z up\\)"),
        (_set("q_WB", (0.0, 1.0, 0.0, 0.0)), "tilted by 180 deg; is the attitude of body FLU in"),
        (_set("p_W", np.array((60.0, 0.0, 1.5))), "outside the fence"),
        (_set("v_W", np.array((1.5, 0.0, 0.0))), "moving at 1.5 m/s; hover first"),
        (_jumping, "without a jump for less than"),
        (_velocity_of_another_frame, "velocity and poses disagree by"),
        (_silent("scan"), "no scan"),
        (
            _set("points_W", np.array([(0.3, 0.0, 1.5), (-0.3, 0.0, 1.5)])),
            "an obstacle 0.30 m from the vehicle's centre; allowed: 0.50",
        ),
        (_vehicle_around, "an obstacle 0.20 m from"),
        (_set("held", False), "dead-man button released"),
        (_silent("button"), "dead-man button: not heard"),
    ],
)
def test_a_flight_is_refused_in_one_line(broken: Callable[[Bench], None], expected: str) -> None:
    """And told as an event; with all well it begins."""
    bench = Bench()
    broken(bench)
    bench.run(0.3 if broken is _jumping else 1.0)
    refusal = bench.guard.enable(bench.now_ns)
    assert refusal is not None
    assert "\n" not in refusal
    assert re.search(expected, refusal), refusal
    output = bench.run(STEP_S)
    assert not output.send
    assert any(refusal in event.words for event in output.events)


def test_before_it_is_enabled_it_says_what_it_would_answer() -> None:
    """And the room that there is, so that both can be tried on the ground, by hand."""
    bench = Bench()
    bench.p_W = np.array((0.0, 0.0, 0.1))
    bench.held = False
    assert bench.run(1.0).reason == "dead-man button released"
    bench.held = True
    assert bench.run(0.1).reason.startswith("height 0.10 m; allowed: 0.5 to 3")
    bench.p_W[2] = HEIGHT_M
    output = bench.run(1.0)
    assert (output.state, output.reason, output.send) == ("disabled", "may be enabled", False)
    # a wall 6 m to the east; it stands, so that nothing but the keep-out is taken off
    assert output.margin_m == pytest.approx(6.0 - PARAMS.keep_out_m, abs=1e-6)
    bench.points_W = bench.p_W + np.array([(PARAMS.keep_out_m, 0.0, 0.0)])
    assert bench.run(0.5).margin_m == pytest.approx(0.0, abs=1e-6)
    bench.silent = {"pose"}
    output = bench.run(0.2)
    assert output.reason.startswith("no pose for 0.2")
    assert math.isnan(output.margin_m)


def test_what_was_commanded_before_it_was_disabled_takes_no_room() -> None:
    """It stands, on its pilot's sticks."""
    bench = Bench().flying()
    bench.points_W = np.array([(9.0, 0.0, HEIGHT_M)])
    bench.wish_W = np.array((2.0, 0.0, 0.0))
    bench.run(1.0)
    bench.guard.disable()
    bench.v_W = np.zeros(3)
    room_m = 9.0 - bench.p_W[0] - PARAMS.keep_out_m
    assert bench.run(0.1).margin_m == pytest.approx(room_m, abs=1e-6)


# ---- limits ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wish_W", "expected_W"),
    [
        ((9.0, 0.0, 0.0), (4.0, 0.0, 0.0)),
        ((-3.0, 4.0, 0.0), (-2.4, 3.2, 0.0)),
        ((0.0, 0.0, 5.0), (0.0, 0.0, 1.5)),
        ((0.0, 0.0, -5.0), (0.0, 0.0, -1.0)),
    ],
)
def test_no_command_is_faster_than_the_limits(wish_W: Any, expected_W: Any) -> None:
    """Speed 4, climb 1.5, sink 1 m/s, in the wish's direction."""
    limits = replace(PARAMS.limits, height_min_m=-100.0, height_max_m=100.0)
    bench = Bench(replace(PARAMS, limits=limits)).flying()
    bench.points_W = np.zeros((0, 3))
    bench.wish_W = np.array(wish_W)
    output = bench.run(1.5)
    assert output.v_W == pytest.approx(expected_W, abs=1e-9)
    assert (output.state, output.reason) == ("limiting", "speed limit")


def test_no_turn_is_faster_than_the_limit() -> None:
    """1.5 rad/s."""
    bench = Bench().flying()
    bench.yaw_rate = -7.0
    output = bench.run(0.5)
    assert (output.yaw_rate_radps, output.reason) == (-1.5, "yaw rate limit")


def test_a_wish_asks_for_no_more_than_the_tilt_gives() -> None:
    """From step to step by g tan(tilt) dt, to and fro."""
    bench = Bench().flying()
    bench.points_W = np.zeros((0, 3))
    most = 9.80665 * math.tan(PARAMS.limits.tilt_max_rad) * STEP_S
    last = bench.run(STEP_S).v_W
    for k in range(120):
        bench.wish_W = np.array((3.0 if k < 60 else -3.0, 0.0, 0.0))
        v_W = bench.run(STEP_S).v_W
        assert np.linalg.norm(v_W - last) <= most + 1e-9
        last = v_W
    assert last == pytest.approx((-3.0, 0.0, 0.0))


@pytest.mark.parametrize(
    ("wish_W", "axis", "bound"),
    [
        ((0.0, 0.0, 1.5), 2, 3.0),
        ((0.0, 0.0, -1.0), 2, 0.5),
        ((4.0, 0.0, 0.0), 0, 5.0),
        ((0.0, -4.0, 0.0), 1, -5.0),
    ],
)
def test_height_band_and_fence_are_not_left(wish_W: Any, axis: int, bound: float) -> None:
    """The vehicle stops at them, on the inner side, with no fault."""
    limits = replace(PARAMS.limits, fence_min_W_m=(-5.0, -5.0), fence_max_W_m=(5.0, 5.0))
    guard = Guard(replace(PARAMS, limits=limits))
    flight = fly(guard, mass_at(), lambda *_: np.array(wish_W), 7.0)
    sign = np.sign(bound - (HEIGHT_M if axis == 2 else 0.0))
    assert (sign * (bound - flight.p_W[:, axis]) > -0.01).all()
    assert abs(bound - flight.p_W[-1, axis]) < 0.15
    assert "landing" not in states(flight)
    assert flight.outputs[-1].reason in ("height band", "fence")


# ---- lost input --------------------------------------------------------------------------------


@pytest.mark.parametrize("speed_mps", [1.0, 2.5, 4.0])
def test_without_a_pose_it_stands_within_the_stated_way_and_time_and_lands(
    speed_mps: float,
) -> None:
    """At most v latency + v^2 / 2a + 0.3 m, and 2 s, counted from the last pose's measurement.

    The latency is the pose's time-out, a period and the vehicle's; the pose is lost while the wish,
    the scan and the button go on.
    """
    lost_s = 2.0
    mass = mass_at()
    flight = fly(Guard(PARAMS), mass, east(speed_mps), 6.0, poses=lambda t_s: t_s < lost_s)
    k = round((lost_s + 1.0) / 0.005)  # the flight begins after 1 s on the spot
    k -= round(mass.pose_s / 0.005)
    v = float(np.linalg.norm(flight.v_W[k]))
    assert v == pytest.approx(speed_mps, abs=0.01)
    latency_s = PARAMS.watch.pose_stale_s + PERIOD_S + PARAMS.vehicle.latency_s
    landing = next(i for i, output in enumerate(flight.outputs) if output.land)
    level = np.linalg.norm(flight.v_W[:, :2], axis=1)
    stands = k + int(np.argmax(level[k:] < 0.05))
    way_m = float(np.linalg.norm(flight.p_W[stands, :2] - flight.p_W[k, :2]))
    assert way_m <= v * latency_s + v * v / (2.0 * PARAMS.vehicle.brake_mps2) + 0.3
    assert (stands - k) * 0.005 <= 2.0
    assert landing * STEP_S <= lost_s + 2.0
    assert states(flight)[-1] == "landing"
    assert "braking" in states(flight)
    assert "pose lost: none for 0.1" in words(flight)
    assert "landing: pose lost" in words(flight)
    assert all(output.land for output in flight.outputs[landing:])


def test_a_short_gap_of_poses_brakes_and_goes_on() -> None:
    """0.25 s: as a motion capture that loses the vehicle for a moment."""
    gap = fly(Guard(PARAMS), mass_at(), east(2.0), 5.0, poses=lambda t: not 2.0 < t < 2.25)
    assert "landing" not in states(gap)
    assert "braking" in states(gap)
    assert gap.outputs[-1].v_W == pytest.approx((2.0, 0.0, 0.0))
    assert "well again after: pose lost" in words(gap)


def test_one_pose_that_jumps_is_not_taken() -> None:
    """By 2 m, once: the flight goes on."""
    bench = Bench().flying(east_mps=1.0)
    bench.p_W = bench.p_W + 2.0
    assert bench.run(STEP_S).state == "passing"
    assert bench.refused["pose"].startswith("pose jumped by 3.4")
    bench.p_W = bench.p_W - 2.0
    assert bench.run(1.0).state == "passing"


@pytest.mark.parametrize("given", [True, False], ids=["velocity", "pose_alone"])
@pytest.mark.parametrize("speed_mps", [0.3, 0.8, 4.0])
def test_a_pose_that_repeats_to_the_bit_is_none(speed_mps: float, given: bool) -> None:
    """As a tracker that says its last one again; at 0.8 m/s no other rule ever found it.

    It is found once the vehicle should have moved by the stated error of its pose, and no sooner
    than a pose that does not come; it stands within the way that it then goes on, and that of a
    lost pose.
    """
    vehicle, watch = PARAMS.vehicle, PARAMS.watch
    bench = Bench().flying(east_mps=speed_mps)
    p_W = tuple(bench.p_W)
    v_W = tuple(bench.v_W) if given else None
    bench.silent = {"pose"}
    begun_ns, output, why = bench.now_ns, None, ""
    for _ in range(100):
        now = bench.now_ns + 20_000_000
        if why:
            assert "pose frozen" in (bench.guard.take_pose(now, now, p_W, LEVEL, v_W) or "")
        else:
            bench.guard.take_pose(now, now, p_W, LEVEL, v_W)
        output = bench.run(STEP_S, follow=False)
        if output.state == "landing":
            break
        if output.reason.startswith("pose frozen") and not why:
            why, found_s = output.reason, (bench.now_ns - begun_ns) * 1e-9
            assert not output.v_W.any()
    assert why.startswith("pose frozen: the same to the bit for")
    expected_s = max(watch.pose_stale_s, vehicle.pose_uncertainty_m / speed_mps)
    assert expected_s < found_s < expected_s + 3.0 * STEP_S
    assert output is not None
    assert output.state == "landing"
    assert (bench.now_ns - begun_ns) * 1e-9 < found_s + 2.1
    assert bench.guard.reach(bench.now_ns).shape == (0, 3)  # where it is it does not know


def test_a_frozen_pose_that_goes_on_is_believed_again() -> None:
    bench = Bench().flying(east_mps=1.0)
    bench.silent = {"pose"}
    p_W, v_W = bench.p_W, tuple(bench.v_W)
    for _ in range(12):
        now = bench.now_ns + 20_000_000
        bench.guard.take_pose(now, now, tuple(p_W), LEVEL, v_W)
        output = bench.run(STEP_S)
    assert output.reason.startswith("pose frozen")
    bench.silent, bench.p_W = set(), p_W + 0.02 * np.array((12.0, 0.0, 0.0))
    assert bench.run(1.0).state == "passing"


@pytest.mark.parametrize(
    ("step_m", "speed_mps"), [(0.001, 0.05), (0.02, 0.1), (0.05, 0.5), (0.0, 0.0)]
)
def test_a_rounded_pose_and_one_at_rest_repeat_by_right(step_m: float, speed_mps: float) -> None:
    """Rounded within the stated error (0.1 m) of it; at rest nothing is commanded."""
    guard, now_ns, x = Guard(PARAMS), 10**9, 0.0
    for k in range(1000):
        now_ns += 20_000_000
        x += 0.02 * speed_mps * (k > 100)
        told = step_m * round(x / step_m) if step_m else 0.0
        for stamp_ns in (now_ns - 10_000_000, now_ns):  # each step sees one that repeats
            guard.take_pose(stamp_ns, stamp_ns, (told, 0.0, HEIGHT_M), LEVEL, (speed_mps, 0.0, 0.0))
        guard.take_dead_man(now_ns, True)
        guard.take_scan(now_ns, now_ns, (told, 0.0, HEIGHT_M), np.zeros((0, 3)))
        guard.take_wish(now_ns, (speed_mps, 0.0, 0.0), 0.0)
        if k == 60:
            assert guard.enable(now_ns) is None
        output = guard.step(now_ns)
        if k > 60:
            assert "frozen" not in output.reason
    assert output.state == "passing"
    told = " ".join(event.words for event in guard.take_events())
    assert "frozen" not in told


def test_that_a_pose_was_the_same_to_the_bit_is_told_at_the_beginning() -> None:
    bench = Bench()
    bench.run(1.0)
    assert bench.guard.enable(bench.now_ns) is None
    told = " ".join(event.words for event in bench.guard.take_events())
    assert "the pose has been the same to the bit for 1.0 s" in told


def test_rivals_stop_a_flight_and_forbid_one() -> None:
    """Of what somebody may stop by, it holds; of the pose, it lands."""
    bench = Bench().flying(east_mps=1.0)
    bench.guard.take_rivals("2 publish dead_man: /a, /b", "")
    output = bench.run(1.0)
    assert (output.state, output.reason) == ("holding", "2 publish dead_man: /a, /b")
    bench.guard.take_rivals("", "")
    assert bench.run(1.5).state == "passing"
    bench.guard.take_rivals("", "2 publish odometry/filtered: /a, /b")
    output = bench.run(1.5)
    assert (output.state, output.reason) == ("landing", "2 publish odometry/filtered: /a, /b")
    bench.guard.disable()
    bench.run(1.0)
    assert bench.guard.enable(bench.now_ns) == "2 publish odometry/filtered: /a, /b; allowed: one"


def test_the_heading_is_that_of_the_pose_that_was_taken_last() -> None:
    """By it wishes in the body's axes are turned; not by one that was refused."""
    bench = Bench().flying()
    assert bench.guard.q_WB == pytest.approx(LEVEL)
    left = (math.cos(0.15), 0.0, 0.0, math.sin(0.15))
    stamp_ns = bench.now_ns + 1
    assert bench.guard.take_pose(stamp_ns, stamp_ns, (5.0, 0.0, HEIGHT_M), left) is not None
    assert bench.guard.q_WB == pytest.approx(LEVEL)
    assert bench.guard.take_pose(stamp_ns, stamp_ns, (0.0, 0.0, HEIGHT_M), left) is None
    assert bench.guard.q_WB == pytest.approx(left)


def test_a_pose_that_has_jumped_brakes_and_lands() -> None:
    """Where the vehicle is nobody knows; that the poses go on from there changes nothing."""
    bench = Bench().flying(east_mps=1.0)
    bench.p_W = bench.p_W + np.array((0.0, 0.4, 0.0))
    output = bench.run(0.2)
    assert not output.v_W.any()
    assert output.reason.startswith("pose jumped by 0.4")
    output = bench.run(1.5)
    assert (output.state, output.land) == ("landing", True)


def test_a_landing_is_ended_by_nothing_but_disable() -> None:
    """Poses that come back do not; the descent is commanded as well."""
    bench = Bench().flying()
    bench.silent = {"pose"}
    assert bench.run(1.5).state == "landing"
    bench.silent = set()
    output = bench.run(1.0)
    assert output.land
    assert output.v_W == pytest.approx((0.0, 0.0, -LAND_SINK_MPS))
    assert bench.guard.enable(bench.now_ns) == "landing; disable first"
    bench.guard.disable()
    assert not bench.run(0.1).send


def test_a_pilot_who_takes_over_has_the_vehicle() -> None:
    """At 2 m/s, by the mode: nothing more is sent, nor is the vehicle told to land."""
    bench = Bench().flying()
    bench.guard.take_offboard(False)  # as it was all the time
    assert bench.guard.enabled
    bench.guard.take_offboard(True)
    bench.wish_W = np.array((2.0, 0.0, 0.0))
    assert bench.run(1.0).state == "passing"
    bench.guard.take_offboard(False)
    output = bench.run(STEP_S)
    assert (output.send, output.land, output.state) == (False, False, "disabled")
    assert any("has left offboard mode" in event.words for event in output.events)
    bench.v_W = np.array((0.0, 2.0, 0.0))
    assert not bench.run(12.0, follow=False).land


def test_a_landing_that_the_vehicle_has_taken_up_is_its_own() -> None:
    """It leaves offboard mode for it; from then on its pilot may do as they like."""
    bench = Bench().flying()
    bench.guard.take_offboard(True)
    bench.silent = {"pose"}
    assert bench.run(1.5).land
    bench.guard.take_offboard(False)
    output = bench.run(STEP_S)
    assert (output.send, output.land) == (False, False)


def test_a_vehicle_that_is_not_in_offboard_mode_is_not_landed() -> None:
    """Enabled, but not handed over: its pilot hovers, and the button is let go."""
    bench = Bench(replace(PARAMS, watch=replace(PARAMS.watch, hold_s=2.0))).flying()
    bench.guard.take_offboard(False)
    bench.held = False
    outputs = [bench.run(STEP_S) for _ in range(150)]
    assert not any(output.land for output in outputs)
    assert outputs[50].state == "holding"
    assert (outputs[-1].send, outputs[-1].reason) == (False, "dead-man button released")
    words = "\n".join(event.words for output in outputs for event in output.events)
    assert "does not land a vehicle that is not in offboard mode: dead-man button" in words


@pytest.mark.parametrize(
    ("silent", "expected"),
    [
        ("scan", "scan lost: none for"),
        ("wish", "wish lost: none for"),
        ("button", "dead-man button: not heard for"),
    ],
)
def test_a_lost_link_brakes_holds_and_lands(silent: str, expected: str) -> None:
    """When the hold is over; if it comes back before, the flight goes on."""
    bench = Bench(replace(PARAMS, watch=replace(PARAMS.watch, hold_s=2.0))).flying(east_mps=1.0)
    bench.silent = {silent}
    output = bench.run(0.44)
    assert not output.v_W.any()
    assert output.state in ("braking", "holding")
    assert output.reason.startswith(expected)
    bench.silent = set()
    assert bench.run(1.0).v_W == pytest.approx((1.0, 0.0, 0.0))
    bench.silent = {silent}
    assert bench.run(2.2).state == "holding"
    assert bench.run(0.5).state == "landing"


def test_the_button_let_go_brakes_at_once() -> None:
    """In the very step."""
    bench = Bench().flying(east_mps=1.0)
    bench.held = False
    output = bench.run(STEP_S)
    assert not output.v_W.any()
    assert (output.state, output.reason) == ("braking", "dead-man button released")
    assert bench.run(1.0).state == "holding"


def test_a_late_loop_brakes_until_it_is_well_again() -> None:
    """0.1 s between two steps."""
    bench = Bench().flying(east_mps=1.0)
    bench.now_ns += 80_000_000
    output = bench.run(STEP_S)
    assert not output.v_W.any()
    assert output.reason == "late loop: 0.100 s between two steps"
    assert not bench.run(RECOVER_S - 2.0 * STEP_S).v_W.any()
    assert bench.run(1.0).state == "passing"


def test_poses_that_come_late_count_as_old() -> None:
    """The link is jammed: poses come at their rate, but each 0.2 s later than it did before."""
    bench = Bench().flying()
    take = bench.guard.take_pose
    bench.guard.take_pose = lambda s, n, p, q, v: take(s - 200_000_000, n, p, q, v)  # type: ignore[method-assign]
    output = bench.run(0.4)
    assert output.reason.startswith("pose lost: none for 0.2")


def test_known_shapes_that_are_lost_brake() -> None:
    """As a scan that is lost."""
    bench = Bench().flying()
    bench.guard.take_shapes(bench.now_ns, [Shape((9.0, 9.0, 1.5), (0.0, 0.0, 0.0), 0.3, 0.2)])
    assert bench.run(0.2).reason == ""
    assert bench.run(0.3).reason.startswith("known shapes lost")


def test_shapes_that_are_expected_and_have_never_come_forbid_to_begin() -> None:
    """And say why; a first one lets it begin."""
    bench = Bench()
    bench.guard.expect_shapes("/a/odom not heard")
    bench.run(1.0)
    assert bench.guard.enable(bench.now_ns) == "no known shapes yet: /a/odom not heard"
    far = Shape((9.0, 9.0, 1.5), (0.0, 0.0, 0.0), 0.3, 0.2)
    assert bench.guard.take_shapes(bench.now_ns, [far]) is None
    assert bench.guard.enable(bench.now_ns) is None
    bench.guard.expect_shapes("/a/odom: its clock is wrong")
    words = bench.run(0.5).reason
    assert re.fullmatch(r"known shapes lost: none for 0.\d\d s: /a/odom: its clock is wrong", words)


def test_a_clock_that_goes_back_ends_all() -> None:
    """Nothing is sent until it is enabled anew."""
    bench = Bench().flying()
    bench.now_ns -= 1_000_000_000
    output = bench.run(STEP_S)
    assert not output.send
    assert any("clock went back" in event.words for event in output.events)


# ---- a vehicle that is not where or what it should be --------------------------------------------


def test_far_outside_the_band_the_flight_ends() -> None:
    """An updraught carries it off."""
    bench = Bench().flying()
    bench.v_W = np.array((0.0, 0.0, 1.0))
    bench.silent = {"wish"}
    output = bench.run(2.1, follow=False)
    assert output.reason.startswith("height 3.6")
    assert bench.run(2.1, follow=False).land


def test_a_vehicle_that_does_not_obey_is_landed() -> None:
    """It flies north whatever is commanded: the axes of map are not what it takes for them."""
    bench = Bench().flying()
    bench.v_W = np.array((0.0, 1.9, 0.0))
    output = bench.run(1.6, follow=False)
    assert output.reason == "the vehicle does not follow the commands"
    assert bench.run(2.1, follow=False).land


def test_a_velocity_of_another_frame_is_found() -> None:
    """In flight: the driver's twist is in the body's axes, the vehicle looks north."""
    bench = Bench().flying(east_mps=2.0)
    take = bench.guard.take_pose
    bench.guard.take_pose = lambda s, n, p, q, v: take(s, n, p, q, (v[1], -v[0], v[2]))  # type: ignore[method-assign]
    assert "velocity and poses disagree by" in bench.run(0.4).reason
    assert bench.run(2.1).land


@pytest.mark.parametrize(
    ("q_WB", "v_W", "expected"),
    [
        ((math.cos(0.5), math.sin(0.5), 0.0, 0.0), (0.0, 0.0, 0.0), "tilted by 57 deg"),
        (LEVEL, (7.0, 0.0, 0.0), "7.0 m/s; allowed: 4.3"),
    ],
)
def test_far_beyond_its_limits_the_vehicle_is_braked(q_WB: Any, v_W: Any, expected: str) -> None:
    """Tilt 0.5 rad and 0.35 more; 1.5 times the fastest."""
    bench = Bench().flying()
    for k in range(1, 9):
        bench.v_W = np.array(v_W) * k / 8.0
        bench.run(STEP_S, follow=False)
    bench.q_WB = q_WB
    assert bench.run(STEP_S, follow=False).reason == expected


# ---- bad numbers -------------------------------------------------------------------------------


def test_numbers_that_are_none_are_refused_and_count_as_silence() -> None:
    """NaN in wish, pose and scan."""
    for name, change in (
        ("wish", lambda bench: setattr(bench, "wish_W", NAN)),
        ("pose", lambda bench: setattr(bench, "p_W", NAN)),
        ("scan", lambda bench: setattr(bench, "points_W", np.array([NAN]))),
    ):
        bench = Bench().flying()
        change(bench)
        output = bench.run(0.5)
        assert "finite" in bench.refused[name]
        assert np.isfinite(output.v_W).all()
        assert output.reason.startswith(f"{name} lost")


@pytest.mark.parametrize(
    ("take", "expected"),
    [
        (lambda g: g.take_pose(1, 1, (0, 0, 1), (2.0, 0, 0, 0)), "quaternion has the length 2.000"),
        (lambda g: g.take_scan(1, 1, (0, 0, 1), np.zeros((3, 2))), r"hits of shape \(3, 2\)"),
        (lambda g: g.take_scan(1, 1, (0, 0, 1), np.zeros((0, 3)), 0.0), "a range of 0 m"),
        (lambda g: g.take_shapes(1, [Shape((0, 0, 0), (0, 0, 0), -1.0, 1.0)]), "a size is below 0"),
        (lambda g: g.take_wish(1, (math.inf, 0, 0), 0.0), "not finite"),
    ],
)
def test_input_that_makes_no_sense_is_refused(take: Callable[[Guard], Any], expected: str) -> None:
    """In words."""
    assert re.search(expected, take(Guard(PARAMS)))


def test_a_repeated_pose_is_no_news() -> None:
    """A driver that repeats its last pose has lost it."""
    bench = Bench().flying()
    stamp_ns = bench.now_ns
    take = bench.guard.take_pose
    bench.guard.take_pose = lambda s, n, p, q, v: take(stamp_ns, n, p, q, v)  # type: ignore[method-assign]
    assert bench.run(0.3).reason.startswith("pose lost")
    assert "repeats" in bench.refused["pose"]


@pytest.mark.parametrize("rate_hz", [12.0, 15.0, 20.0, 50.0, 100.0])
def test_a_pose_alone_gives_the_velocity_at_any_rate(rate_hz: float) -> None:
    """Of 2 m/s; also where poses are farther apart than the time over which it is taken."""
    watch = PoseWatch(PARAMS)
    for k in range(round(rate_hz)):
        stamp_ns = round(1e9 * (1.0 + k / rate_hz))
        assert not watch.take(stamp_ns, stamp_ns, (2.0 * k / rate_hz, 0, 1.5), LEVEL, None, k > 5)
    assert watch.pose is not None
    assert watch.pose.v_W == pytest.approx((2.0, 0.0, 0.0), abs=1e-6)
    assert not watch.jump


# ---- obstacles ---------------------------------------------------------------------------------


def test_it_stops_before_a_wall_and_slides_along_it() -> None:
    """At its keep-out and margin; the part of the wish along the wall is flown."""
    wall = np.array([(8.0, y, 0.2) for y in np.arange(-12.0, 12.0, 0.3)])
    vehicle = PARAMS.vehicle
    stop = fly(Guard(PARAMS), mass_at(), east(4.0), 6.0, wall)
    assert stop.least_m >= PARAMS.keep_out_m
    assert stop.least_m == pytest.approx(PARAMS.keep_out_m + vehicle.margin_m, abs=0.03)
    assert np.linalg.norm(stop.v_W[-1]) < 0.05
    slide = fly(Guard(PARAMS), mass_at(), lambda *_: np.array((2.0, 1.5, 0.0)), 6.0, wall)
    assert slide.least_m >= PARAMS.keep_out_m
    assert slide.v_W[-1][1] == pytest.approx(1.5, abs=0.1)
    assert slide.outputs[-1].reason == "obstacle"


def test_it_flies_through_a_gap_that_is_wide_enough() -> None:
    """Pillars 1.3 m apart, keep-out and margin 0.6: at full speed."""
    gap = np.array([(8.0, 0.85, 0.2), (8.0, -0.85, 0.2)])
    flight = fly(Guard(PARAMS), mass_at(), east(4.0), 5.0, gap)
    assert flight.p_W[-1][0] > 15.0
    assert flight.v_W[700:, 0].min() > 3.9


def test_what_appears_two_seconds_ahead_is_not_hit() -> None:
    """At 4 m/s, 8 m ahead."""
    nothing, pillar = np.array([(90.0, 0.0, 0.3)]), np.array([(16.0, 0.1, 0.3)])
    shown = nothing.copy()

    def before(_: int, __: Guard, mass: PointMass) -> None:
        if mass.p_W[0] > 8.0:
            shown[:] = pillar

    flight = fly(Guard(PARAMS), mass_at(), east(4.0), 7.0, shown, before=before)
    assert np.linalg.norm(flight.v_W[600:700], axis=1).max() == pytest.approx(4.0, abs=0.01)
    assert flight.least_m >= PARAMS.keep_out_m


def test_what_is_nearer_than_the_way_to_a_stop_is_braked_for_and_told() -> None:
    """Outside the guarantee: 1.5 m ahead at 4 m/s; the margin is negative."""
    bench = Bench().flying()
    bench.points_W = np.zeros((0, 3))
    bench.wish_W = np.array((4.0, 0.0, 0.0))
    bench.run(1.5)
    bench.points_W = bench.p_W + np.array([(1.5, 0.0, 0.0)])
    output = bench.run(STEP_S)
    assert not output.v_W.any()
    assert output.state == "braking"
    assert "nearer than the way to a stop" in output.reason
    assert output.margin_m < 0.0


@pytest.mark.parametrize("wish_mps", [0.0, 3.0])
def test_another_vehicle_is_given_way(wish_mps: float) -> None:
    """It comes head-on at 1.5 m/s and does not care; radius 0.4 m. The distance is the truth's."""
    least = math.inf

    def before(now_ns: int, guard: Guard, mass: PointMass) -> None:
        nonlocal least
        x = 9.0 - 1.5 * (now_ns * 1e-9 - 2.0)
        least = min(least, math.hypot(mass.p_W[0] - x, mass.p_W[1]) - 0.4)
        guard.take_shapes(now_ns, [Shape((x, 0.0, HEIGHT_M), (-1.5, 0.0, 0.0), 0.4, 0.2)])

    fly(Guard(PARAMS), mass_at(), east(wish_mps), 9.5, before=before)
    assert least > PARAMS.vehicle.radius_m


@pytest.mark.parametrize(("higher_m", "stops"), [(4.0, False), (0.0, True)])
def test_a_shape_above_or_below_is_in_nobodys_way(higher_m: float, stops: bool) -> None:
    """At its own height it is."""
    shape = Shape((4.0, 0.0, HEIGHT_M + higher_m), (0.0, 0.0, 0.0), 0.4, 0.2)

    def before(now_ns: int, guard: Guard, _: PointMass) -> None:
        guard.take_shapes(now_ns, [shape])

    flight = fly(Guard(PARAMS), mass_at(), east(2.0), 3.0, before=before)
    assert ("known shape" in {output.reason for output in flight.outputs}) == stops
    assert (flight.p_W[-1][0] < 4.5) == stops


def test_the_floor_that_a_tilted_lidar_sees_is_no_wall() -> None:
    """Hits below ignore_below_m; 1 cm higher they are one."""
    bench = Bench().flying()
    bench.wish_W = np.array((1.0, 0.0, 0.0))
    lowest = PARAMS.sight.ignore_below_m
    bench.points_W = np.array([(1.9, 0.0, lowest - 0.01)])
    bench.run(0.6)
    assert bench.run(STEP_S).reason == ""
    bench.points_W = np.array([(1.9, 0.0, lowest + 0.01)])
    assert bench.run(STEP_S).reason == "obstacle"


def test_a_ray_that_fails_leaves_no_hole() -> None:
    """A hit stays for memory_s."""
    bench = Bench().flying()
    bench.points_W = np.array([(0.9, 0.0, HEIGHT_M)])
    bench.wish_W = np.array((1.0, 0.0, 0.0))
    bench.run(0.5)
    near = bench.run(STEP_S)
    assert near.reason == "obstacle"
    bench.points_W = np.zeros((0, 3))
    assert bench.run(PARAMS.sight.memory_s - STEP_S).reason == "obstacle"
    assert bench.run(0.2).reason != "obstacle"


def test_no_stop_is_longer_than_the_sight() -> None:
    """A lidar of 3 m: the way to a stop with the law's delays is 2.45 m at most."""
    params = replace(PARAMS, sight=replace(PARAMS.sight, range_m=3.0))
    flight = fly(Guard(params), mass_at(), east(4.0), 4.0)
    v = flight.v_W[-1][0]
    vehicle = params.vehicle
    free_m = 3.0 - params.keep_out_m - vehicle.margin_m
    assert v * vehicle.latency_s + v * v / (2.0 * vehicle.brake_mps2) < free_m
    assert 1.5 < v < 3.5
    assert flight.outputs[-1].reason == "range of sight"


def test_a_cloud_is_flown_over() -> None:
    """With scan: point a hit 1 m below is no obstacle, though a column would be."""
    params = replace(PARAMS, sight=replace(PARAMS.sight, scan="point"))
    for chosen, expected in ((params, "passing"), (PARAMS, "limiting")):
        bench = Bench(chosen).flying()
        bench.points_W = np.array([(1.2, 0.0, HEIGHT_M - 1.0)])
        bench.wish_W = np.array((1.0, 0.0, 0.0))
        assert bench.run(0.5).state == expected


def test_what_may_move_is_kept_farther_away() -> None:
    """By its speed times the time until the vehicle stands: more than 1 m/s x latency."""
    ends = []
    for speed_mps in (0.0, 1.0):
        sight = replace(PARAMS.sight, obstacle_speed_mps=speed_mps)
        bench = Bench(replace(PARAMS, sight=sight)).flying()
        bench.wish_W = np.array((1.0, 0.0, 0.0))
        bench.run(7.0)
        ends.append(bench.p_W[0])
    vehicle = PARAMS.vehicle
    assert ends[0] == pytest.approx(6.0 - PARAMS.keep_out_m - vehicle.margin_m, abs=0.05)
    assert ends[1] < ends[0] - vehicle.latency_s


@pytest.mark.parametrize(("late_s", "age_s"), [(0.0, 0.0), (0.0, 0.2), (0.25, 0.0), (0.25, 0.2)])
def test_what_may_move_has_moved_since_it_was_seen(late_s: float, age_s: float) -> None:
    """A scan that is that late and that old: at 1 m/s the room is less by as much.

    The vehicle stands, and would answer to zero after its latency and a late loop.
    """
    sight = replace(PARAMS.sight, obstacle_speed_mps=1.0, memory_s=0.0)
    params = replace(PARAMS, sight=sight)
    bench = Bench(params)
    bench.run(1.0)
    hit, stamp_ns = np.array([(6.0, 0.0, HEIGHT_M)]), bench.now_ns - round(late_s * 1e9)
    assert bench.guard.take_scan(stamp_ns, bench.now_ns, (0.0, 0.0, HEIGHT_M), hit) is None
    bench.silent = {"scan"}
    output = bench.run(age_s) if age_s else bench.guard.step(bench.now_ns)
    answer_s = params.vehicle.latency_s + params.watch.late_s
    room_m = 6.0 - params.keep_out_m - 1.0 * (answer_s + late_s + age_s)
    assert output.margin_m == pytest.approx(room_m, abs=1e-6)


# ---- what it does by itself --------------------------------------------------------------------


def drifted(
    hits_W: Any, with_it: bool, params: GuardParams = PARAMS, wish_W: Any = (0.0, 0.0, 0.0)
) -> tuple[Flight, PointMass]:
    """2.5 s beside hits that appear once it flies: fixed, or carried along with it."""
    mass, guard = mass_at(), Guard(params)
    far_W = np.array([(6.0, 0.0, HEIGHT_M)])

    def look(now_ns: int, guard: Guard, mass: PointMass) -> None:
        flies = guard.enabled
        origin_W = mass.p_W if with_it else np.array((0.0, 0.0, HEIGHT_M))
        points_W = origin_W + np.array(hits_W) if flies else far_W
        assert guard.take_scan(now_ns, now_ns, tuple(mass.p_W), points_W) is None

    return fly(guard, mass, lambda *_: np.array(wish_W), 2.5, scan_ns=10**12, before=look), mass


def commands(flight: Flight) -> np.ndarray:
    """(T, 3) what was sent."""
    return np.array([output.v_W for output in flight.outputs])


@pytest.mark.parametrize("offset_m", [0.05, 0.002, 0.0])
@pytest.mark.parametrize("with_it", [True, False])
def test_hits_on_opposite_sides_hold(offset_m: float, with_it: bool) -> None:
    """Nearly opposite hits once led to up to 4 m/s between them without any wish."""
    flight, mass = drifted([(0.35, offset_m, 0.0), (-0.35, offset_m, 0.0)], with_it)
    assert not commands(flight).any()
    assert math.hypot(*mass.p_W[:2]) < 1e-6
    assert flight.outputs[-1].state == "holding"
    assert "opposite sides" in flight.outputs[-1].reason
    assert words(flight).count("opposite sides") == 1
    flight, _ = drifted(
        [(0.35, offset_m, 0.0), (-0.35, offset_m, 0.0)], with_it, wish_W=(0.0, -2.0, 0.0)
    )
    assert np.abs(commands(flight)[5:]).max() == 0.0


def test_hits_on_opposite_sides_are_landed_between_after_a_while() -> None:
    bench = Bench(replace(PARAMS, watch=replace(PARAMS.watch, hold_s=1.0))).flying()
    bench.points_W = bench.p_W + np.array([(0.35, 0.02, 0.0), (-0.35, 0.02, 0.0)])
    assert bench.run(2.0).state == "landing"


def test_what_flies_along_is_not_fled_from_for_ever() -> None:
    """One leg that the lidar sees: away from it for 4 s, then it holds, says so and lands."""
    bench = Bench().flying()
    leg_W = np.array([(0.35, 0.0, 0.0)])
    state = ""
    for _ in range(1000):
        bench.points_W = bench.p_W + leg_W
        state = bench.run(STEP_S).state
        if state == "landing":
            break
    assert state == "landing"
    speed_mps, latency_s = PARAMS.limits.evade_speed_mps, PARAMS.vehicle.latency_s
    leaves_s = PARAMS.keep_out_m / speed_mps + latency_s + 2.0
    assert 0.3 < -bench.p_W[0] <= speed_mps * leaves_s
    assert bench.v_W[0] == 0.0


@pytest.mark.parametrize("angle_deg", [0.0, 60.0, 100.0])
@pytest.mark.parametrize("speed_mps", [0.1, 0.3, 1.0])
def test_the_way_out_of_a_keep_out_is_slow_and_ramped(angle_deg: float, speed_mps: float) -> None:
    """One hit, or two less than 120 degrees apart; fixed ones are left, carried ones followed."""
    limits = replace(PARAMS.limits, evade_speed_mps=speed_mps)
    params, angle = replace(PARAMS, limits=limits), math.radians(0.5 * angle_deg)
    x, y = 0.35 * math.cos(angle), 0.35 * math.sin(angle)
    for with_it in (True, False):
        flight, mass = drifted([(x, y, 0.0), (x, -y, 0.0)], with_it, params)
        sent = commands(flight)
        assert np.linalg.norm(sent, axis=1).max() <= speed_mps + 1e-9
        steps = np.linalg.norm(np.diff(sent, axis=0), axis=1)
        assert steps.max() <= limits.acceleration_max_mps2 * STEP_S + 1e-9
        assert mass.p_W[0] < -0.05
        assert abs(mass.p_W[1]) < 1e-3
    # a fixed one is left as far as the keep-out
    least_m = math.hypot(x - mass.p_W[0], y - mass.p_W[1])
    assert least_m > min(PARAMS.keep_out_m - 0.02, 0.35 + 2.0 * speed_mps)


def test_a_wish_and_the_way_out_add_up_to_no_more_than_both() -> None:
    """Along two hits inside the keep-out, 110 degrees apart."""
    angle = math.radians(55.0)
    hits_W = [(0.35 * math.cos(angle), side * 0.35 * math.sin(angle), 0.0) for side in (1, -1)]
    for direction in np.linspace(0.0, 2.0 * math.pi, 12, endpoint=False):
        wish_W = (1.0 * math.cos(direction), 1.0 * math.sin(direction), 0.0)
        flight, _ = drifted(hits_W, True, wish_W=wish_W)
        speeds = np.linalg.norm(commands(flight)[2:], axis=1)
        assert speeds.max() <= 1.0 + PARAMS.limits.evade_speed_mps + 1e-6


def test_the_way_back_into_the_band_is_slow_and_ramped() -> None:
    bench = Bench()
    bench.p_W = np.array((0.0, 0.0, PARAMS.limits.height_max_m - 0.01))
    bench.flying()
    bench.v_W = np.array((0.0, 0.0, 0.4))  # carried up by something else
    bench.run(0.5, follow=False)
    bench.v_W = np.zeros(3)
    sent = [bench.run(STEP_S).v_W for _ in range(100)]
    assert min(v_W[2] for v_W in sent) >= -PARAMS.limits.evade_speed_mps - 1e-9
    assert bench.p_W[2] < PARAMS.limits.height_max_m + 0.05


@pytest.mark.parametrize("most_mps", [0.0, 0.5, 1.5])
def test_what_gives_way_to_a_shape_has_its_own_bound(most_mps: float) -> None:
    """A vehicle that comes straight at one that wishes nothing."""
    limits = replace(PARAMS.limits, give_way_speed_mps=most_mps)
    mass, guard = mass_at(), Guard(replace(PARAMS, limits=limits))

    def other(now_ns: int, guard: Guard, _: PointMass) -> None:
        x_m = 8.0 - 2.0 * max((now_ns - 2 * 10**9) * 1e-9, 0.0)
        v_W = (-2.0, 0.0, 0.0) if now_ns > 2 * 10**9 else (0.0, 0.0, 0.0)
        guard.take_shapes(now_ns, [Shape((x_m, 0.3, HEIGHT_M), v_W, 0.4, 0.2)])

    flight = fly(guard, mass, lambda *_: np.zeros(3), 6.0, before=other)
    speeds = np.linalg.norm(commands(flight), axis=1)
    assert speeds.max() <= most_mps + 1e-9
    assert (speeds.max() > 0.1) == (most_mps > 0.0)


# ---- directions that were seen -----------------------------------------------------------------


def looking(bench: Bench, from_deg: float, to_deg: float) -> None:
    """The scan covers so much of azimuth."""
    azimuths = np.radians(np.arange(from_deg, to_deg, 1.0))
    take = bench.guard.take_scan

    def covered(stamp_ns: int, now_ns: int, origin_W: Any, points_W: Any) -> str | None:
        return take(stamp_ns, now_ns, origin_W, points_W, 10.0, azimuths)

    bench.guard.take_scan = covered  # type: ignore[method-assign, assignment]


@pytest.mark.parametrize(
    ("azimuth_deg", "expected_deg", "speed_mps"),
    [
        (0.0, 0.0, 1.0),
        (80.0, 80.0, 1.0),
        (-80.0, -80.0, 1.0),
        (150.0, 107.0, math.cos(math.radians(43.0))),
        (-150.0, -107.0, math.cos(math.radians(43.0))),
    ],
)
def test_it_flies_into_directions_that_the_lidar_covers(
    azimuth_deg: float, expected_deg: float, speed_mps: float
) -> None:
    """270 degrees, with 0.5 rad beside: 107 degrees to either side are open."""
    bench = Bench()
    bench.points_W = np.array([(9.0, 9.0, HEIGHT_M)])
    looking(bench, -135.0, 136.0)
    bench.flying()
    angle = math.radians(azimuth_deg)
    bench.wish_W = np.array((math.cos(angle), math.sin(angle), 0.0))
    output = bench.run(1.0)
    assert math.hypot(*output.v_W[:2]) == pytest.approx(speed_mps, abs=0.03)
    direction_deg = math.degrees(math.atan2(output.v_W[1], output.v_W[0]))
    assert direction_deg == pytest.approx(expected_deg, abs=2.0)
    assert output.reason == ("" if speed_mps == 1.0 else "direction not seen")


def test_a_wish_straight_back_into_what_nobody_sees_stands() -> None:
    bench = Bench()
    looking(bench, -45.0, 46.0)
    bench.flying()
    bench.wish_W = np.array((-1.0, 0.0, 0.5))
    output = bench.run(0.5)
    assert not output.v_W[:2].any()
    assert output.v_W[2] == pytest.approx(0.5)
    assert output.reason == "direction not seen"


def test_a_direction_is_forgotten_when_it_is_not_seen_any_more() -> None:
    """The lidar turns away in flight; what is flown into is not seen any more, and it stands."""
    bench = Bench().flying(east_mps=1.0)
    assert bench.run(STEP_S).v_W[0] == pytest.approx(1.0)
    looking(bench, 90.0, 270.0)
    output = bench.run(PARAMS.sight.timeout_s + 0.1)
    assert not output.v_W.any()
    assert output.reason == "direction not seen"


def test_the_way_out_of_a_keep_out_is_not_taken_unseen() -> None:
    """A hit ahead within the keep-out of a vehicle that sees forward alone."""
    bench = Bench()
    looking(bench, -90.0, 91.0)
    bench.flying()
    bench.points_W = bench.p_W + np.array([(0.4, 0.0, 0.0)])
    output = bench.run(0.5)
    assert not output.v_W.any()
    assert output.reason == "direction not seen"
