"""What the guard promises for every vehicle that its assumptions allow, and for every wish."""

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from point_mass import LEVEL, PointMass, fly

from quadsim.base.files import find
from quadsim.base.parameters import load
from quadsim.hil.guard.guard import STATES, Guard, GuardParams, Shape

PARAMS = load(GuardParams, find("guards", "default"))
HEIGHT_M = 1.5
#: A pillar is seen by rays 1 degree apart: from 2 m, 35 mm. Between two hits the keep-outs of 0.5 m
#: meet 0.3 mm nearer.
SEEN_M = 1e-3


def pillars(seed: int) -> np.ndarray:
    """Some, not about the start."""
    rng = np.random.default_rng(seed)
    count = rng.integers(5, 30)
    found = np.column_stack((rng.uniform(-9.0, 9.0, (count, 2)), rng.uniform(0.1, 0.6, count)))
    return found[np.hypot(found[:, 0], found[:, 1]) - found[:, 2] > 0.9]


@settings(max_examples=5)
@given(
    seed=st.integers(0, 10_000),
    share=st.floats(0.0, 1.0),
    brake=st.floats(1.0, 3.0),
    hold_s=st.floats(0.3, 3.0),
)
def test_no_wish_leads_a_vehicle_into_what_the_scan_saw(
    seed: int, share: float, brake: float, hold_s: float
) -> None:
    """Wishes of any direction, up to 6 m/s, that change at any time.

    The latency is shared between pose and answer in any way; brakes are as assumed or better.
    """
    latency_s = PARAMS.vehicle.latency_s
    mass = PointMass(
        np.array((0.0, 0.0, HEIGHT_M)),
        brake_mps2=brake * PARAMS.vehicle.brake_mps2,
        answer_s=share * latency_s,
        pose_s=(1.0 - share) * latency_s,
    )

    def wish(t_s: float, _: PointMass) -> np.ndarray:
        rng = np.random.default_rng((seed, max(int(t_s / hold_s), 0)))
        angle, speed = rng.uniform(-math.pi, math.pi), rng.uniform(0.0, 6.0)
        return np.array((speed * math.cos(angle), speed * math.sin(angle), rng.uniform(-0.3, 0.3)))

    flight = fly(Guard(PARAMS), mass, wish, 4.0, pillars(seed))
    limits = PARAMS.limits
    assert flight.least_m >= PARAMS.keep_out_m - SEEN_M
    assert np.linalg.norm(flight.v_W[:, :2], axis=1).max() <= limits.speed_max_mps + 1e-9
    assert flight.p_W[:, 2].min() >= limits.height_min_m
    assert flight.p_W[:, 2].max() <= limits.height_max_m
    assert min(output.margin_m for output in flight.outputs) >= 0.0


NUMBERS = st.floats(-20.0, 20.0) | st.sampled_from((math.nan, math.inf, -math.inf, 0.0))
TRIPLES = st.tuples(NUMBERS, NUMBERS, NUMBERS)
CALLS = st.one_of(
    st.tuples(st.just("pose"), TRIPLES, st.sampled_from((None, (0.0, 0.0, 0.0))) | TRIPLES),
    st.tuples(st.just("near"), st.floats(-0.05, 0.05), st.just(None)),
    st.tuples(st.just("wish"), TRIPLES, NUMBERS),
    st.tuples(st.just("scan"), st.lists(TRIPLES, max_size=3), NUMBERS),
    st.tuples(st.just("shapes"), TRIPLES, TRIPLES),
    st.tuples(st.just("button"), st.booleans(), st.none()),
    st.tuples(st.just("enable"), st.booleans(), st.none()),
)


@settings(max_examples=30)
@given(calls=st.lists(st.tuples(CALLS, st.sampled_from((0, 20, 100, 700, -50))), max_size=40))
def test_whatever_comes_the_command_is_a_number_within_the_limits(calls) -> None:
    """Any order of anything, at any time: no exception; nothing is sent that was not enabled."""
    guard = Guard(PARAMS)
    now_ns, x_m, asked = 10**10, 0.0, False
    for _ in range(60):  # poses that are well, so that a flight can begin
        now_ns += 20_000_000
        guard.take_pose(now_ns, now_ns, (0.0, 0.0, HEIGHT_M), LEVEL, (0.0, 0.0, 0.0))
        guard.take_scan(now_ns, now_ns, (0.0, 0.0, HEIGHT_M), np.zeros((0, 3)))
        guard.take_dead_man(now_ns, True)
    limits = PARAMS.limits
    for (what, first, second), later_ms in calls:
        now_ns += 1_000_000 * later_ms
        if what == "pose":
            guard.take_pose(now_ns, now_ns, first, LEVEL, second)
        elif what == "near":
            x_m += first
            guard.take_pose(now_ns, now_ns, (x_m, 0.0, HEIGHT_M), LEVEL, second)
        elif what == "wish":
            guard.take_wish(now_ns, first, second)
        elif what == "scan":
            guard.take_scan(now_ns, now_ns, (0.0, 0.0, HEIGHT_M), first, second)
        elif what == "shapes":
            guard.take_shapes(now_ns, [Shape(first, second, 0.3, 0.2)])
        elif what == "button":
            guard.take_dead_man(now_ns, first)
        elif first:
            asked = guard.enable(now_ns) is None or asked
        else:
            guard.disable()
        output = guard.step(now_ns)
        assert output.state in STATES
        assert output.send <= asked
        v_W = output.v_W
        assert np.isfinite(v_W).all()
        assert math.hypot(v_W[0], v_W[1]) <= limits.speed_max_mps + 1e-9
        assert -limits.sink_max_mps - 1e-9 <= v_W[2] <= limits.climb_max_mps + 1e-9
        assert abs(output.yaw_rate_radps) <= limits.yaw_rate_max_radps
        assert output.land == (output.state == "landing")
