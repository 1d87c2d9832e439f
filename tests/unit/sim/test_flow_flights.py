"""Flights without GNSS and compass: on optical flow, a range finder and an IMU."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from quadsim.sim.recorded import RecordedLoop
from quadsim.sim.scenario import load_scenario
from quadsim.sim.swarm import run_all

Array = NDArray[np.float64]


def flown(name: str, seed: int = 1, **overrides: Any) -> tuple[RecordedLoop, Any]:
    """A flight, and its rows while the filter runs."""
    loops: list[RecordedLoop] = []

    def make(*arguments: Any) -> RecordedLoop:
        loops.append(RecordedLoop(*arguments))
        return loops[-1]

    scenario = load_scenario(name, {}, seed=seed, **overrides)
    run_all(scenario, None, make, scenario.imu.rate_hz, keep_samples=True)
    rows = loops[0].all_rows()
    return loops[0], rows[rows["estimated"] != 0]


def yaw_of(q_WB: Array) -> Array:
    w, x, y, z = q_WB.T
    return np.asarray(np.arctan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z)))


def nees_in_the_air(rows: Any) -> Array:
    """Mean normalised squares of position (3), velocity (3) and yaw above 0.6 m."""
    rows = rows[rows["p_W"][:, 2] > 0.6]
    estimate = rows["estimate"]
    p, v = estimate["p_W"] - rows["p_W"], estimate["v_W"] - rows["v_W"]
    yaw = np.angle(np.exp(1j * (yaw_of(estimate["q_WB"]) - yaw_of(rows["q_WB"]))))
    squares = (
        p**2 / estimate["p_variance"],
        v**2 / estimate["v_variance"],
        (yaw**2 / estimate["attitude_variance"][:, 2])[:, None],
    )
    return np.concatenate([part.mean(axis=0) for part in squares])


def test_a_square_indoors_lands_where_it_believes() -> None:
    loop, rows = flown("indoor_square")
    assert loop.events[-1].message == "motors stopped"
    off_m = np.linalg.norm(rows["estimate"]["p_W"] - rows["p_W"], axis=1)
    way_m = np.linalg.norm(np.diff(rows["p_W"], axis=0), axis=1).sum()
    assert off_m[rows["p_W"][:, 2] > 0.6].max() < 0.01 * way_m + 0.1


@pytest.mark.thorough
def test_twenty_squares_indoors_are_consistent() -> None:
    """NEES of each axis 0.5 to 1.6 over 20 seeds; the drift's own spread lets few be farther."""
    nees, far = [], 0
    for seed in range(1, 21):
        loop, rows = flown("indoor_square", seed)
        assert loop.events[-1].message == "motors stopped"
        nees.append(nees_in_the_air(rows))
        off_m = np.linalg.norm(rows["estimate"]["p_W"] - rows["p_W"], axis=1)
        way_m = np.linalg.norm(np.diff(rows["p_W"], axis=0), axis=1).sum()
        far += int(off_m[rows["p_W"][:, 2] > 0.6].max() > 0.01 * way_m + 0.1)
    mean = np.mean(nees, axis=0)
    assert (mean > 0.5).all(), mean
    assert (mean < 1.6).all(), mean
    assert far <= 2


def test_flow_holds_what_gnss_leaves() -> None:
    """Ten seconds without a fix: with flow the estimate is off by less than half."""
    off_m = {}
    for suite in ("default", "gnss_flow"):
        _, rows = flown("gps_outage", sensors=suite)
        errors = np.linalg.norm(rows["estimate"]["p_W"] - rows["p_W"], axis=1)
        off_m[suite] = errors.max()
    assert off_m["gnss_flow"] < 0.5 * off_m["default"]


def test_a_lost_flow_ends_in_a_descent_nearby() -> None:
    loop, rows = flown("failsafe_flow_lost")
    assert any("no fix of the position" in event.message for event in loop.events)
    assert loop.events[-1].message == "motors stopped"
    away_m = np.linalg.norm(rows["p_W"][-1, :2])
    assert away_m < 2.0
