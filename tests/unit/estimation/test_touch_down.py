"""The estimate through a touch-down that ends in one step of the physics, as Gazebo's does."""

import numpy as np
import pytest

from quadsim.sim.closed_loop import ClosedLoop
from quadsim.sim.scenario import load_scenario

#: Feet so stiff and damped that 0.6 m/s ends within 2 ms.
HARD = {"vehicle.contact.sag_m": 0.00011, "vehicle.contact.damping_ratio": 2.0}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_estimate_stays_through_a_hard_touch_down(seed):
    """The IMU (18 g) cuts such an impact off."""
    log = ClosedLoop(load_scenario("hover", HARD, seed=seed)).fly()
    truth, estimate = log.truth, log.estimates["eskf"]
    fastest = np.abs(np.diff(truth.v_W[:, 2])).max()
    assert fastest > 0.3  # between two rows of the log, 10 ms
    at = np.searchsorted(truth.stamp_ns, estimate.stamp_ns)
    error_m = np.linalg.norm(estimate.p_W - truth.p_W[at], axis=1)
    names = [event.name for event in log.events]
    assert "crash" not in names
    assert "motor lost" not in names
    landed_ns = next(event.stamp_ns for event in log.events if event.name == "landed")
    near = np.abs(estimate.stamp_ns - landed_ns) < 2_000_000_000
    assert error_m[near].max() < 0.05
