"""A heading by two antennas: the start without a compass, late and wrong ones, a map of its own."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from quadsim.base.errors import InputError
from quadsim.estimation import ErrorStateEkf, EstimatorParams
from quadsim.estimation.eskf.layout import GNSS_HEADING, THETA
from quadsim.estimation.eskf.parameters import AlignParams, MountingParams
from quadsim.estimation.interface import LOCAL
from quadsim.geometry.geodesy import Datum

SIGMA, G = 0.0065, 9.80665
PARAMS = replace(
    EstimatorParams(),
    start=AlignParams(require_heading=False),
    mount=MountingParams(baseline_B_m=(0.0, 0.5, 0.1)),
)


class Standing:
    """A vehicle that stands at a yaw, leaning a little, with IMU, fixes and two antennas."""

    def __init__(self, yaw, params=PARAMS, seed=1, fixes=True, gyro_bias_radps=0.0):
        self.gyro_bias_radps = gyro_bias_radps
        self.ekf = ErrorStateEkf(params, Datum())
        self.rng, self.k, self.fixes = np.random.default_rng(seed), 0, fixes
        self.R = Rotation.from_euler("ZYX", [yaw, 0.05, -0.03])
        x, y, _ = self.R.apply(params.mount.baseline_B_m)
        self.azimuth = math.atan2(y, x)

    def run(self, until_s, headings=True, off=0.0):
        ekf, rng, verdicts = self.ekf, self.rng, []
        while self.k * 0.01 < until_s:
            self.k += 1
            stamp_ns = 1_000_000_000 + self.k * 10_000_000
            f_S = self.R.inv().apply([0.0, 0.0, G]) + rng.normal(0.0, 0.02, 3)
            w_S = rng.normal(self.gyro_bias_radps, 0.002, 3)
            ekf.imu(stamp_ns, f_S, w_S, 4e-4 * np.eye(3), 4e-6 * np.eye(3))
            if self.k % 10 == 0 and self.fixes:
                place = Datum().to_geodetic(rng.normal(0.0, 0.02, 3))
                ekf.gnss_position(stamp_ns, place, 4e-4 * np.eye(3))
                ekf.gnss_velocity(stamp_ns, rng.normal(0.0, 0.03, 3), 9e-4 * np.eye(3))
            if self.k % 10 == 0 and headings:
                heading = self.azimuth + off + rng.normal(0.0, SIGMA)
                verdicts.append(ekf.gnss_heading(stamp_ns, heading, SIGMA**2))
        return verdicts

    @property
    def error(self):
        """Of the heading, and its deviation, rad."""
        x, y, z, w = (self.ekf.state.q_WS[i] for i in (1, 2, 3, 0))
        off = (Rotation.from_quat([x, y, z, w]) * self.R.inv()).as_rotvec()[2]
        return off, math.sqrt(self.ekf.state.covariance[THETA + 2, THETA + 2])


@pytest.mark.parametrize("yaw", [0.3, -2.9, 1.7])
def test_the_start_takes_its_heading_from_the_baseline(yaw):
    """Whose direction to the left is no nose; a single one tells it to its own deviation."""
    standing = Standing(yaw)
    assert set(standing.run(1.5)) == {"ok"}
    off, sigma = standing.error
    assert standing.ekf.running
    assert standing.ekf.state.recoveries == 0
    assert abs(off) < 4.0 * SIGMA
    assert 0.3 * SIGMA < sigma < 2.0 * SIGMA
    assert standing.ekf.health()["awaited"] == ""


def test_the_start_is_as_good_as_one_heading_whatever_the_gyroscope_reads():
    """A bias of 0.01 rad/s turns nothing; of an error that lasts 30 s ten headings say one."""
    params = replace(PARAMS, start=replace(PARAMS.start, gyro_bias_radps=0.01))
    squares = []
    for seed in range(20):
        standing = Standing(0.3, params, seed, gyro_bias_radps=0.01)
        standing.run(1.3)
        off, sigma = standing.error
        squares.append((off / sigma) ** 2)
        assert sigma > 0.9 * SIGMA
    assert np.mean(squares) < 1.9  # three deviations of a mean of twenty


def test_a_heading_that_comes_late_sets_what_was_not_known():
    standing = Standing(2.0)
    standing.run(3.0, headings=False)
    assert standing.ekf.running
    assert standing.error[1] > 1.0
    standing.run(3.5)
    off, sigma = standing.error
    assert abs(off) < 4.0 * SIGMA
    assert sigma < 2.0 * SIGMA


def test_a_map_of_its_own_becomes_the_worlds():
    params = replace(PARAMS, start=AlignParams(local=True, require_heading=False))
    standing = Standing(2.0, params, fixes=False)
    standing.run(3.0, headings=False)
    assert standing.ekf.health()["awaited"] == LOCAL
    standing.run(3.5)
    assert standing.ekf.health()["awaited"] == ""
    assert abs(standing.error[0]) < 4.0 * SIGMA


def test_wrong_headings_are_left_out():
    """One that is off by a radian, and none; the verdict on no number names it."""
    standing = Standing(0.3)
    standing.run(4.0)
    before = standing.error[0]
    standing.run(4.5, off=1.0)
    assert standing.ekf.state.rejected[GNSS_HEADING] == 5
    assert standing.error[0] == pytest.approx(before, abs=SIGMA)
    stamp_ns = 1_000_000_000 + standing.k * 10_000_000 + 1
    assert standing.ekf.gnss_heading(stamp_ns, math.nan, SIGMA**2) == "not_finite"


@pytest.mark.parametrize("baseline_B_m", [(0.0, 0.0, 0.0), (0.0, 0.0, 1.0)])
def test_a_baseline_that_tells_no_heading_is_refused(baseline_B_m: tuple[float, ...]) -> None:
    with pytest.raises(InputError, match=r"baseline_B_m: .* a heading needs two antennas"):
        MountingParams(baseline_B_m=baseline_B_m)
