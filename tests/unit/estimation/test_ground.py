"""The ground learned from a range finder, against planes, steps and statistics."""

import math

import numpy as np
import pytest
from scipy.stats import chi2

from quadsim.base.records import ODOMETRY
from quadsim.control.parameters import FlightParams
from quadsim.estimation.terrain import (
    GROUND,
    SLOPE_WALK,
    GroundParams,
    heights_ahead,
    nearest_direction,
)
from quadsim.geometry.rotation import from_euler, quat, rotate
from quadsim.mission.reference.ground import Ground, clear_mps
from quadsim.world.scene.terrain import Heightmap, terrain_arrays

TICK_S = 0.02


class Flown:
    """A vehicle on rails over a ground, with a range finder that reads every second tick."""

    def __init__(
        self, ground_of, sigma_m=1e-4, velocity=(5.0, 0.0), height_m=5.0, seed=1, **kwargs
    ):
        self.ground_of, self.sigma_m = ground_of, sigma_m
        self.velocity, self.height_m = velocity, height_m
        self.latency_ticks = kwargs.pop("latency_ticks", 0)
        self.swing = kwargs.pop("swing", 0.0)
        ground = GroundParams(**kwargs.pop("params", {}))
        self.ground = Ground(FlightParams(ground=ground), **kwargs)
        self.ground.use()
        self.odometries = np.zeros(1, ODOMETRY)
        self.odometry = self.odometries[0]
        self.odometry.attitude_variance[:] = 1e-6
        self.random = np.random.default_rng(seed)
        self.k, self.jump_m, self.bias_mps = 0, 0.0, 0.0
        self.sent = []

    def p(self, t_s):
        x, y = self.velocity[0] * t_s, self.velocity[1] * t_s
        return np.array([x, y, self.ground_of(x, y) + self.height_m])

    def slant(self, p, down):
        """Distance to the ground along a ray: where it comes through, by bisection."""
        low, high = 0.0, 60.0
        for _ in range(50):
            middle = 0.5 * (low + high)
            x, y, z = p + middle * np.array(down)
            low, high = (middle, high) if z > self.ground_of(x, y) else (low, middle)
        return low

    def tick(self, reading=None):
        self.k += 1
        t_s, odometry = self.k * TICK_S, self.odometry
        p = self.p(t_s)
        odometry.stamp_ns = round(t_s * 1e9)
        odometry.v_W[:] = (self.p(t_s + 1e-5) - self.p(t_s - 1e-5)) / 2e-5
        odometry.v_W[2] += self.bias_mps
        odometry.p_W[:] = p[0], p[1], p[2] + self.jump_m
        roll, pitch = self.swing * math.sin(2.0 * t_s), self.swing * math.sin(3.0 * t_s)
        odometry.q_WB[:] = from_euler(roll, pitch, 0.3)
        if self.k % 2 == 0:
            if reading is None:
                down = rotate(quat(odometry.q_WB), (0.0, 0.0, -1.0))
                reading = self.slant(p, down) + self.sigma_m * self.random.standard_normal()
            self.sent.append((odometry.stamp_ns, reading))
        while self.sent and self.sent[0][0] <= odometry.stamp_ns - self.latency_ticks * 20_000_000:
            self.ground.take(*self.sent.pop(0), self.sigma_m**2)
        self.ground.observe(self.odometries)

    def fly(self, seconds, **kwargs):
        for _ in range(round(seconds / TICK_S)):
            self.tick(**kwargs)
        return self

    def error_m(self, ahead_m=0.0):
        """Predicted less true height of the ground, on the way ahead."""
        p = self.odometry.p_W
        x = float(p[0]) + ahead_m
        return self.ground.at(x, float(p[1]))[0] - self.jump_m - self.ground_of(x, float(p[1]))


def slope(x, y):
    return 3.0 + 0.4 * x - 0.2 * y


def test_a_slope_is_learned_along_the_way_and_predicted_ahead():
    flown = Flown(slope, swing=0.15).fly(8.0)
    _, east, _ = flown.ground.at(*map(float, flown.odometry.p_W[:2]))
    # what is left is the roughness of 3 cm that the filter counts on, averaged
    assert east == pytest.approx(0.4, abs=0.02)
    assert abs(flown.error_m()) < 0.03
    assert abs(flown.error_m(ahead_m=5.0)) < 0.1


def test_flat_ground_is_range_times_the_cosine_of_the_tilt():
    flown = Flown(lambda x, y: 0.0, velocity=(0.0, 0.0))
    flown.odometry.stamp_ns = 20_000_000
    flown.odometry.p_W[:] = 0.0, 0.0, 4.0
    flown.odometry.q_WB[:] = from_euler(0.0, 0.3, 0.0)
    flown.ground.take(20_000_000, 4.5, 1e-4)
    flown.ground.observe(flown.odometries)
    # on the axis of the beam; beneath the vehicle a slope is as likely up as down
    height, _, _ = flown.ground.at(0.0, 0.0)
    assert 4.0 - height == pytest.approx(4.5 * math.cos(0.3), abs=1e-6)


@pytest.mark.parametrize("sigma_m", [0.025, 0.5])
def test_errors_are_as_large_as_the_filter_says(sigma_m):
    """Over ground whose slope walks as the filter counts on: normalised errors are chi-square."""
    squares = []
    for seed in range(8):
        random = np.random.default_rng(100 + seed)
        xs = np.arange(-5.0, 90.0, 0.5)
        slopes = np.cumsum(SLOPE_WALK * math.sqrt(0.5) * random.standard_normal(len(xs)))
        heights = np.cumsum(0.5 * slopes)
        flown = Flown(
            lambda x, y, xs=xs, heights=heights: float(np.interp(x, xs, heights)),
            sigma_m,
            (8.0, 0.0),
            seed=seed,
        )
        for _ in range(4):
            flown.fly(2.0)
            variance = float(flown.ground.now["ground"]["covariance"][0, 0, 0])
            squares.append(flown.error_m() ** 2 / (variance + 1e-4))
    # 1e-4: kinks of the interpolated ground, a centimetre. 8 flights of 4 looks 16 m apart, far
    # more than the filter remembers; bounds of 99.9 %. Below is fine: the slope is capped.
    assert sum(squares) < chi2.ppf(0.999, len(squares))
    assert sum(squares) > 0.2 * chi2.ppf(0.001, len(squares))


def test_a_bad_sonar_is_smoothed():
    flown = Flown(slope, sigma_m=0.5, swing=0.1).fly(4.0)
    errors = []
    for _ in range(200):
        flown.tick()
        errors.append(flown.error_m())
    # 25 readings a second, of which those of the last half second count: 0.5 / sqrt(12) = 0.14,
    # and the slope of a line at its end doubles it
    assert np.sqrt(np.mean(np.square(errors))) < 0.3


def test_an_outlier_is_left_out_and_a_step_taken_up():
    flown = Flown(lambda x, y: 0.0, sigma_m=0.02).fly(3.0)
    before = flown.error_m()
    flown.fly(0.04, reading=2.0)
    # the way goes on along the learned slope, of a few mm a metre; the outlier is 3 m off
    assert flown.error_m() == pytest.approx(before, abs=5e-3)
    flown.fly(1.0)
    flown.ground_of = lambda x, y: 2.0  # the vehicle is carried up with it: the way is velocity's
    flown.height_m = 3.0
    flown.fly(0.12)
    assert flown.error_m() == pytest.approx(-2.0, abs=0.1)  # three readings: not yet believed
    flown.fly(0.04)
    assert flown.error_m() == pytest.approx(0.0, abs=0.1)
    flown.fly(1.0)
    assert abs(flown.ground.at(*map(float, flown.odometry.p_W[:2]))[1]) < 0.05


def test_a_step_of_the_position_leaves_the_height_above_ground():
    flown = Flown(slope, sigma_m=0.02).fly(4.0)
    flown.jump_m = 4.0
    flown.tick()
    assert flown.error_m() == pytest.approx(0.0, abs=0.05)


def test_late_readings_count_where_they_were_taken():
    errors = [
        abs(Flown(slope, velocity=(10.0, 0.0), latency_ticks=k).fly(6.0).error_m()) for k in (0, 5)
    ]
    # 0.1 s at 10 m/s on this slope are 0.4 m
    assert max(errors) < 0.05


def test_a_wide_beam_reads_the_nearest_point():
    for tilt in (0.0, 0.2, 0.5):
        axis = (math.sin(tilt), 0.0, -math.cos(tilt))
        way = nearest_direction(axis, (0.0, 0.0), 0.35)
        assert -way[2] == pytest.approx(math.cos(max(0.0, tilt - 0.35)), abs=1e-12)
    # on a slope of 15 degrees the plumb is inside the cone: r = h cos(15 degrees)
    way = nearest_direction((0.0, 0.0, -1.0), (math.tan(math.radians(15.0)), 0.0), 0.35)
    assert 1.0 / (-way[2] + way[0] * math.tan(math.radians(15.0))) == pytest.approx(
        math.cos(math.radians(15.0))
    )
    np.testing.assert_allclose(
        nearest_direction((0.0, 0.6, -0.8), (0.3, 0.1), 0.0), (0.0, 0.6, -0.8)
    )


def test_elevation_data_tell_what_is_ahead_and_the_readings_their_error():
    heights = np.zeros((3, 41))
    heights[:, 21:] = 8.0  # from x = 0 on, over a cell of 2 m
    terrain = terrain_arrays(Heightmap(heights, (80.0, 4.0)))

    flown = Flown(None, 0.02, params={"map": True}, terrain=terrain, velocity=(5.0, 0.0))
    # the ground is the map's and 1.5 m more, which readings before the step tell
    flown.p = lambda t_s: np.array([-30.0 + 5.0 * t_s, 0.0, 1.5 + 5.0])
    flown.ground_of = lambda x, y: 1.5 + float(np.clip(4.0 * x, 0.0, 8.0))
    assert flown.ground.known  # by the map alone
    flown.fly(4.0)
    assert flown.ground.at(5.0, 0.0)[0] == pytest.approx(9.5, abs=0.1)
    # without them, the level goes on
    assert not Flown(slope).ground.known


def test_the_speed_leads_clear_of_every_point_ahead():
    heights = np.zeros((3, 41))
    heights[:, 21:] = 8.0  # from x = 0 on, over a cell of 2 m
    terrain = terrain_arrays(Heightmap(heights, (80.0, 4.0)))
    # 1.5 m above the flat part, of which 1 m is to be left; it climbs at its most already
    d = np.arange(1.0, 7.0)
    gain = np.clip(4.0 * (d - 3.0), 0.0, 8.0) + 1.0 - 1.5
    least = np.min(2.0 * d[gain > 0.0] / gain[gain > 0.0])
    heights, place = np.zeros(6), (-3.0, 0.0)
    for course, wanted in (((1.0, 0.0), least), ((-1.0, 0.0), math.inf)):
        heights_ahead(np.zeros(1, GROUND), terrain, place, course, 6.0, 15.0, heights)
        assert clear_mps(heights + 1.0 - 1.5, 6.0, 2.0, 2.0, 3.0) == pytest.approx(
            wanted, rel=1e-12
        )


def test_the_ground_is_lost_when_nothing_is_seen():
    flown = Flown(slope)
    assert not flown.ground.known
    flown.fly(1.0)
    assert flown.ground.known
    flown.fly(0.9, reading=math.inf)
    assert flown.ground.known
    assert flown.ground.far
    flown.fly(0.3, reading=math.inf)
    assert not flown.ground.known
    flown.fly(0.1, reading=-math.inf)
    assert flown.ground.near
    assert not flown.ground.far
    flown.fly(0.1, reading=math.nan)
    assert not flown.ground.near
    flown.fly(0.2)
    assert flown.ground.known


def test_nothing_is_taken_in_before_it_is_wanted():
    ground = Ground(FlightParams())
    ground.take(0, 1.0, 0.01)
    odometries = np.zeros(1, ODOMETRY)
    odometries["q_WB"][0, 0] = 1.0
    ground.observe(odometries)
    ground.use()
    ground.observe(odometries)
    assert ground.never_seen
    ground.take(0, 1.0, 0.01)
    ground.observe(odometries)
    assert not ground.never_seen


def test_a_vertical_velocity_that_is_wrong_is_allowed_for():
    """A bias as large as its stated deviation: readings say what the integral gets wrong."""
    flown = Flown(lambda x, y: 0.0, sigma_m=0.025, velocity=(0.0, 0.0))
    flown.odometry.v_variance[2] = 0.2**2
    flown.bias_mps = 0.2
    errors = []
    for _ in range(400):
        flown.tick()
        errors.append(flown.error_m())
    # 0.2 m/s for the two or three readings of 25 Hz that are averaged, and their noise
    assert max(map(abs, errors[50:])) < 0.08
