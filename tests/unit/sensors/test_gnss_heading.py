"""Heading by two antennas against closed forms, and its message."""

import math

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from sensor_rig import assert_deviation, samples

from quadsim.bag.measurements import SENSORS as MEASURED
from quadsim.base.errors import InputError
from quadsim.sensors.gnss_heading import MODEL, GnssHeadingParams
from quadsim.sensors.model import SimulatedSensor
from quadsim.wire.decode import decode
from quadsim.wire.samples import heading_messages, heading_of
from quadsim.wire.standard import IMU
from quadsim.world.environment import EnvironmentParams


def measured(params, count=1, seed=1, q=None):
    sensor = SimulatedSensor(MODEL, params, EnvironmentParams(), seed, "quad")
    x, y, z, w = (q or Rotation.identity()).as_quat()
    return samples(sensor, count, q_WB=(w, x, y, z))


@pytest.mark.parametrize("baseline", [(1.0, 0.0, 0.0), (0.0, 0.5, 0.1), (-0.3, 0.2, 0.0)])
def test_it_is_the_azimuth_of_the_baseline(baseline):
    q = Rotation.from_euler("ZYX", [2.5, 0.3, -0.2])
    (sample,) = measured(GnssHeadingParams(baseline_B_m=baseline), q=q)
    x, y, _ = q.apply(baseline)
    assert sample["heading_rad"] == pytest.approx(math.atan2(y, x), abs=1e-12)


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_its_deviation_is_that_over_the_length_and_is_stated(share):
    """0.15 deg over 1 m are 0.3 deg over 0.5 m; a second is long against its correlation."""
    params = GnssHeadingParams(
        baseline_B_m=(0.5, 0.0, 0.0), noise_deg_m=0.15, correlated_share=share,
        correlation_time_s=0.01,
    )  # fmt: skip
    found = measured(params, 8_000)
    sigma = math.radians(0.3)
    assert_deviation(found["heading_rad"], sigma)
    assert found["variance_rad2"][0] == pytest.approx(sigma**2)
    assert (found["heading_rad"] == measured(params, 8_000)["heading_rad"]).all()


def test_what_lasts_is_correlated():
    """A Gauss-Markov process: exp(-dt / T) between two of its samples."""
    params = GnssHeadingParams(noise_deg_m=1.0, correlated_share=1.0, correlation_time_s=0.5)
    found = measured(params, 20_000)["heading_rad"]
    correlation = np.corrcoef(found[:-1], found[1:])[0, 1]
    assert correlation == pytest.approx(math.exp(-0.1 / 0.5), abs=0.02)


def test_there_is_none_before_the_first_fix_or_with_antennas_above_each_other():
    found = measured(GnssHeadingParams(first_fix_s=1.0), 20)
    assert np.isnan(found["heading_rad"][:8]).all()
    assert np.isfinite(found["heading_rad"][10:]).all()
    up = Rotation.from_euler("y", -math.pi / 2)
    assert np.isnan(measured(GnssHeadingParams(), q=up)["heading_rad"]).all()
    with pytest.raises(InputError, match=r"baseline_B_m: .* a heading needs two antennas"):
        GnssHeadingParams(baseline_B_m=(0.0, 0.0, 0.5))


def test_its_message_is_an_orientation_whose_yaw_alone_counts():
    """As u-blox's driver publishes navheading; a filter reads the same numbers again."""
    params = GnssHeadingParams(noise_deg_m=0.15)
    found = measured(params, 3, q=Rotation.from_euler("z", -2.0))
    block = decode(IMU, heading_messages("gps_link").payloads(found))
    _, _, numbers = MEASURED["gps/heading"]
    heading, variance = numbers(block)
    assert heading[:, 0] == pytest.approx(found["heading_rad"])
    assert variance[:, 0] == pytest.approx(found["variance_rad2"])
    assert block["q_covariance"][0, 0, 0] > 100.0
    assert block["f_covariance"][0, 0, 0] == block["w_covariance"][0, 0, 0] == -1.0


def test_an_orientation_that_nobody_filled_in_is_no_heading():
    """A quaternion of zeros; a length other than one changes no yaw."""
    q_xyzw = Rotation.from_euler("ZYX", [-2.0, 0.3, 0.2]).as_quat()
    heading, _ = heading_of(np.array([np.zeros(4), q_xyzw, 3.0 * q_xyzw]), np.zeros((3, 3, 3)))
    assert np.isnan(heading[0])
    assert heading[1:] == pytest.approx([-2.0, -2.0], abs=1e-12)
