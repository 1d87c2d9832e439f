"""A pilot who knows nothing flies 2 m above hills by assisted control, and does not crash."""

import math

import numpy as np
import pytest
from random_sticks import Job, fly, heights_above, summarize

from quadsim.world.scene.terrain import Heightmap, terrain_arrays

#: Ten minutes in all; docs/piloting.md has the hour.
SECONDS = 150.0


@pytest.mark.many
def test_random_sticks_above_hills_do_not_crash():
    flown = fly(Job(101, SECONDS))
    assert flown.crash == ""
    assert flown.flown_s == pytest.approx(SECONDS, abs=0.03)
    assert not flown.events
    figures = summarize([flown])
    # base_link stands 0.23 m high; below the guard's 0.5 m assisted control has failed in what it
    # promises, though nothing has touched
    assert figures["height_m"]["least"] > 0.5
    assert 1.5 < figures["height_m"]["median"] < 2.5
    # it was flown: full sticks give up to 4 m/s, the guard allows 2.7 m/s at 2 m
    assert figures["speed_mps"]["top"] > 3.0
    assert figures["way_m"] > SECONDS
    assert figures["speed_mps"]["top"] < 4.5


@pytest.mark.many
def test_two_metres_above_curved_terrain_at_36_km_per_hour():
    """What A. Larsen's thesis reports of its assisted control (NTNU, 2010, section 5.7.5)."""

    def pilot(loop):
        if loop.manager.state not in ("hover", "assisted", "mission"):
            return None
        return (1.0, 0.0, 0.0, 0.3 * math.sin(0.4 * loop.stamp_ns * 1e-9))

    flown = fly(Job(1, 40.0, "curved_terrain"), pilot)
    assert flown.crash == ""
    assert not flown.events
    assert np.median(flown.speeds_mps) == pytest.approx(10.0, abs=0.3)
    assert np.median(flown.heights_m) == pytest.approx(2.0, abs=0.2)
    assert flown.heights_m.min() > 0.5  # guard_m: what assisted control promises


def test_heights_above_a_ramp_are_those_of_its_plane():
    x = np.linspace(-50.0, 50.0, 51)
    ramp = Heightmap(np.broadcast_to(0.25 * x, (51, 51)).copy(), (100.0, 100.0))
    generator = np.random.default_rng(5)
    points = generator.uniform(-40.0, 40.0, (20, 3))
    heights = heights_above(terrain_arrays(ramp), 0.0, points)
    np.testing.assert_allclose(heights, points[:, 2] - 0.25 * points[:, 0], atol=1e-9)
    outside = np.array([[60.0, 0.0, 3.0]])
    assert math.isclose(heights_above(terrain_arrays(ramp), -1.0, outside)[0], 4.0)
