"""Flights without GNSS on visual odometry: jumps, losses, covariances that are too sure."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from quadsim.sim.closed_loop import ClosedLoop
from quadsim.sim.scenario import load_scenario

#: When the odometry of ``indoor_vio`` jumps.
JUMP_S = 14.0


def flown(name: str, seed: int, **changes: Any) -> tuple[ClosedLoop, NDArray[Any]]:
    loop = ClosedLoop(load_scenario(name, changes, seed=seed), log_hz=50.0)
    loop.fly()
    return loop, loop.rows()


def has_landed(loop: ClosedLoop) -> bool:
    return any(event.name == "disarmed" and "stopped" in event.message for event in loop.events)


@pytest.mark.parametrize(
    "seed", [1, 2, *(pytest.param(s, marks=pytest.mark.thorough) for s in range(3, 21))]
)
def test_a_relocalisation_in_flight_moves_the_vehicle_by_little(seed: int) -> None:
    """By 1 m and 20 degrees: against the same flight without it, under 0.2 m in four seconds."""
    loop, rows = flown("indoor_vio", seed)
    _, plain = flown("indoor_vio", seed, faults=[])
    assert has_landed(loop)
    t_s = rows["stamp_ns"] * 1e-9
    after = np.flatnonzero((t_s > JUMP_S) & (t_s < JUMP_S + 4.0))
    apart = np.linalg.norm(rows["p_W"][after] - plain["p_W"][after], axis=1)
    assert apart.max() < 0.2
    assert loop.devices["visual_odometry"]["state"]["yaw_drift"][0] > np.radians(10.0)


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(s, marks=pytest.mark.thorough) for s in range(2, 21))]
)
def test_a_vehicle_whose_odometry_is_lost_comes_down_by_itself(seed: int) -> None:
    """Held by inertial navigation, then down at the velocity that is known, near the pad."""
    loop, rows = flown("vio_lost", seed)
    assert has_landed(loop)
    assert np.linalg.norm(rows["p_W"][-1, :2]) < 10.0
    assert rows["p_W"][-1, 2] < 0.5
    words = [f"{event.name} {event.message}" for event in loop.events]
    assert any("not fixed" in each for each in words)


def test_a_covariance_that_is_too_sure_changes_nothing() -> None:
    """Stated deviations of a hundredth of the true ones: what counts is the device's file."""
    key = "sensors.visual_odometry.stated_ratio"
    unknown = flown("indoor_vio", 3, duration_s=12.0, **{key: 0.0})[1]
    small = flown("indoor_vio", 3, duration_s=12.0, **{key: 0.01})[1]
    np.testing.assert_array_equal(small["p_W"], unknown["p_W"])
