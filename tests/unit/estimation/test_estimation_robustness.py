"""Bad data: lost, held back, late, shuffled, repeated, senseless. The filter goes on and says so.

A recorded flight of the default set's devices, replayed as it was and with its messages maltreated.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from quadsim.analysis.metrics import at_stamps
from quadsim.estimation import ErrorStateEkf
from quadsim.sim.closed_loop import ClosedLoop
from quadsim.sim.log import FlightLog
from quadsim.sim.scenario import Scenario, load_scenario

Message = tuple[int, str, tuple[Any, ...]]
SECOND_NS = 1_000_000_000
HELD_NS = 200_000_000
SETTLED_NS = 5 * SECOND_NS


@dataclass(frozen=True)
class Flight:
    """A recorded flight: its messages in the order of their stamps, and the truth."""

    scenario: Scenario
    messages: list[Message]
    log: FlightLog

    def estimator(self) -> ErrorStateEkf:
        """A filter that has seen nothing."""
        return ErrorStateEkf(self.scenario.estimator, self.scenario.environment.datum)


def record(name: str) -> Flight:
    """The messages of the sensors of a scenario's closed loop."""
    scenario = load_scenario(name, seed=1)
    loop = ClosedLoop(scenario, keep_samples=True, log_hz=250.0)
    log = loop.fly()
    datum = scenario.environment.datum

    def stated(kind: str, *shape: int) -> Any:
        """Covariances that each sample of a kind states."""
        return loop.devices[kind][0]["stated"][: math.prod(shape)].reshape(shape)

    messages: list[Message] = []
    for s in loop.samples("imu"):
        values = (s["f_S"], s["w_S"], *stated("imu", 2, 3, 3))
        messages.append((int(s["stamp_ns"]), "imu", values))
    for s in loop.samples("gnss"):
        fix = (datum.to_geodetic(s["p_W"]), np.diag(s["p_variance"]))
        messages.append((int(s["stamp_ns"]), "gnss_position", fix))
        velocity = (s["v_W"], np.diag(s["v_variance"]))
        messages.append((int(s["stamp_ns"]), "gnss_velocity", velocity))
    messages += [
        (int(s["stamp_ns"]), "magnetic_field", (s["m_S"], stated("magnetometer", 3, 3)))
        for s in loop.samples("magnetometer")
    ]
    for s in loop.samples("barometer"):
        values = (float(s["pressure_pa"]), float(stated("barometer", 1)[0]))
        messages.append((int(s["stamp_ns"]), "pressure", values))
    for s in loop.samples("rangefinder"):
        values = (float(s["range_m"]), float(s["variance_m2"]))
        messages.append((int(s["stamp_ns"]), "range", values))
    return Flight(scenario, sorted(messages, key=lambda m: (m[0], m[1] != "imu")), log)


@pytest.fixture(scope="module")
def flight() -> Flight:
    return record("square")


@dataclass(frozen=True)
class Result:
    """What a replay gave: the filter, and its errors from 5 s on, in m and rad."""

    estimator: ErrorStateEkf
    position_rmse_m: float
    attitude_rmse_rad: float


def replay(flight: Flight, messages: list[Message]) -> Result:
    estimator = flight.estimator()
    rows = []
    for stamp_ns, kind, values in messages:
        getattr(estimator, kind)(stamp_ns, *values)
        if kind == "imu" and estimator.running:
            odometry = estimator.odometry()
            rows.append((int(odometry["stamp_ns"]), *odometry["p_W"], *odometry["q_WB"]))
    table = {row[0]: row[1:] for row in rows}  # the last word on each stamp
    stamps_ns = np.array(sorted(table))
    found = np.array([table[stamp_ns] for stamp_ns in stamps_ns.tolist()])
    assert np.isfinite(found).all()
    known, _ = at_stamps(flight.log.truth, stamps_ns)
    known &= stamps_ns > SETTLED_NS
    truth = at_stamps(flight.log.truth, stamps_ns[known])[1]
    off_m = np.linalg.norm(found[known, :3] - truth.p_W, axis=1)
    cosine = np.abs(np.sum(found[known, 3:] * truth.q_WB, axis=1)).clip(0.0, 1.0)
    return Result(
        estimator,
        float(np.sqrt(np.mean(off_m**2))),
        float(np.sqrt(np.mean((2.0 * np.arccos(cosine)) ** 2))),
    )


@pytest.fixture(scope="module")
def ordered(flight: Flight) -> Result:
    return replay(flight, flight.messages)


def check(result: Result, ordered: Result, factor: float) -> None:
    """The errors within a factor of those of the whole data in order."""
    assert result.position_rmse_m < factor * ordered.position_rmse_m
    assert result.attitude_rmse_rad < factor * ordered.attitude_rmse_rad
    assert result.estimator.health()["status"] == "running"


def test_the_recorded_flight_is_a_good_one(ordered: Result) -> None:
    """Else nothing below means anything."""
    assert ordered.position_rmse_m < 0.1
    assert ordered.estimator.health()["axes"] == ""
    assert ordered.estimator.health()["starts"] == 1.0


def test_a_tenth_of_everything_lost_at_random(flight: Flight, ordered: Result) -> None:
    """A tenth less data is 5 % more error by the square root; with chance, less than 20 %."""
    rng = np.random.default_rng(1)
    kept = [message for message in flight.messages if rng.random() > 0.1]
    result = replay(flight, kept)
    check(result, ordered, 1.2)
    counts = result.estimator.counts
    assert counts["imu_received"] < 0.92 * ordered.estimator.counts["imu_received"]
    assert result.estimator.health()["starts"] == 1.0


@pytest.mark.parametrize(
    "kinds",
    [
        ("imu",),
        ("gnss_position", "gnss_velocity"),
        ("imu", "gnss_position", "gnss_velocity", "magnetic_field", "pressure", "range"),
    ],
)
def test_bursts_of_200_ms_change_nothing(
    flight: Flight, ordered: Result, kinds: tuple[str, ...]
) -> None:
    """Each second 200 ms of messages are held back and come at once: the end is the same bits."""

    def arrival_ns(message: Message) -> int:
        stamp_ns, kind, _ = message
        phase_ns = stamp_ns % SECOND_NS
        held = kind in kinds and phase_ns < HELD_NS
        return stamp_ns + (HELD_NS - phase_ns if held else 0)

    result = replay(flight, sorted(flight.messages, key=arrival_ns))
    state, expected = result.estimator.state, ordered.estimator.state
    for name in ("p_W", "v_W", "q_WS", "covariance", "accepted", "rejected"):
        np.testing.assert_array_equal(state[name], expected[name], err_msg=name)
    assert result.estimator.counts == ordered.estimator.counts


def test_late_and_shuffled_data_give_the_same_bits(flight: Flight, ordered: Result) -> None:
    """Each measurement up to half a second late by its own chance, so that many overtake others."""
    rng = np.random.default_rng(1)

    def arrival_ns(message: Message) -> int:
        late_s = 0.0 if message[1] == "imu" else rng.uniform(0.0, 0.49)
        return message[0] + round(late_s * 1e9)

    # the last second is in order, so that all has come at the end
    end_ns = flight.messages[-1][0] - SECOND_NS
    body = [m for m in flight.messages if m[0] < end_ns - SECOND_NS // 2]
    tail = flight.messages[len(body) :]
    result = replay(flight, sorted(body, key=arrival_ns) + tail)
    for name in ("p_W", "v_W", "q_WS", "covariance"):
        np.testing.assert_array_equal(
            result.estimator.state[name], ordered.estimator.state[name], err_msg=name
        )


def test_outages_of_200_ms_are_survived_and_counted(flight: Flight, ordered: Result) -> None:
    """Every five seconds nothing at all comes for 200 ms, or the IMU alone is silent."""
    for kinds in ((), ("imu",)):
        kept = [
            (stamp_ns, kind, values)
            for stamp_ns, kind, values in flight.messages
            if stamp_ns % (5 * SECOND_NS) >= HELD_NS
            or stamp_ns < SECOND_NS
            or (kinds and kind not in kinds)
        ]
        result = replay(flight, kept)
        assert result.estimator.counts["imu_gap"] == 5
        check(result, ordered, 2.5)
        assert result.estimator.health()["starts"] == 1.0


def test_an_imu_clock_that_stands_is_named(flight: Flight) -> None:
    estimator = flight.estimator()
    part = [m for m in flight.messages if m[0] < 8 * SECOND_NS]
    for stamp_ns, kind, values in part:
        getattr(estimator, kind)(stamp_ns, *values)
    assert estimator.health()["status"] == "running"
    last = next(m for m in reversed(part) if m[1] == "imu")
    for _ in range(100):
        assert estimator.imu(last[0], *last[2]) == "repeated"
    assert estimator.health()["status"] == "imu clock stands"
    assert estimator.counts["imu_repeated"] == 100
    assert estimator.imu(last[0] + 2_000_000, *last[2]) == "ok"
    assert estimator.health()["status"] == "running"


#: What a broken driver may send; finite numbers can be senseless too.
SENSELESS = (math.nan, math.inf, -math.inf, 0.0, -1.0, 1e-300, 1e300, -1e300, 1e15)


@pytest.mark.parametrize("seed", [1, 2])
def test_senseless_numbers_never_come_out(flight: Flight, ordered: Result, seed: int) -> None:
    """One in twenty messages has one number of it replaced, value or variance; some their stamp."""
    rng = np.random.default_rng(seed)
    estimator = flight.estimator()
    refused = 0
    for stamp_ns, kind, values in flight.messages:
        given = [np.array(value, float) for value in values]
        if rng.random() < 0.05:
            victim = given[rng.integers(len(given))]
            victim.reshape(-1)[rng.integers(victim.size)] = rng.choice(SENSELESS)
            if rng.random() < 0.2:
                stamp_ns += int(rng.choice([-(10**18), -(10**9), 10**9, 10**18]))
        call = [float(v) if v.ndim == 0 else v for v in given]
        refused += getattr(estimator, kind)(stamp_ns, *call) not in ("ok", "gap", "clock_jump")
        if estimator.running:
            odometry = estimator.odometry()
            parts = [odometry[name] for name in ("p_W", "v_W", "q_WB", "w_B", "p_variance")]
            assert math.isfinite(float(np.concatenate(parts).sum()))
    assert np.isfinite(estimator.pose_covariance()).all()
    assert np.isfinite(estimator.twist_covariance()).all()
    health = estimator.health()
    assert all(isinstance(value, str) or math.isfinite(value) for value in health.values())
    assert health["status"] == "running"
    assert refused > 100
    for counted in ("imu_not_finite", "imu_out_of_range", "imu_bad_variance", "imu_too_early"):
        assert health[counted] > 0, counted
    truth = at_stamps(flight.log.truth, np.array([int(odometry["stamp_ns"])]))[1]
    # what is left is a filter that lost a twentieth: as good as the lossy one above
    assert np.linalg.norm(odometry["p_W"] - truth.p_W[0]) < 0.2


def test_one_stamp_of_the_future_does_not_end_the_flight(flight: Flight) -> None:
    """A silence that is over brings more than one sample with stamps so far ahead."""
    estimator = flight.estimator()
    part = [m for m in flight.messages if m[0] < 8 * SECOND_NS]
    for stamp_ns, kind, values in part:
        getattr(estimator, kind)(stamp_ns, *values)
    last = next(m for m in reversed(part) if m[1] == "imu")
    assert estimator.imu(last[0] + 60 * SECOND_NS, *last[2]) == "too_early"
    assert estimator.imu(last[0] + 2_000_000, *last[2]) == "ok"
    assert estimator.running
    assert estimator.health()["starts"] == 1.0
    later = [estimator.imu(last[0] + 3 * SECOND_NS + k * 2_000_000, *last[2]) for k in range(6)]
    assert later == ["too_early"] * 4 + ["gap", "ok"]
    assert not estimator.running
    assert estimator.health()["reason"] == "imu gap too long"
