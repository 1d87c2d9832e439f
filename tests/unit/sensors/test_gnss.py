"""GNSS receiver against closed forms; every error against the distribution of its own samples."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from sensor_rig import ALPHA, assert_deviation, truth_at
from sensor_rig import samples as fixes

from quadsim.geometry.rotation import from_euler
from quadsim.sensors import SENSORS
from quadsim.sensors.devices import load_device
from quadsim.sensors.error_terms import next_state, uniform
from quadsim.sensors.faults import FaultParams
from quadsim.sensors.gnss import GnssParams
from quadsim.sensors.model import SimulatedSensor
from quadsim.world.environment import EnvironmentParams
from quadsim.world.scene.scene import EMPTY_SCENE

#: The same in deviations of a normal distribution.
DEVIATIONS = stats.norm.ppf(1 - ALPHA / 2)


def device(params, seed=1, scene=EMPTY_SCENE, faults=()):
    return SimulatedSensor(
        SENSORS["gnss"], params, EnvironmentParams(), seed, "quad", scene, faults
    )


def first_fixes(params, seeds):
    """The first fix of each of so many receivers."""
    return np.concatenate([fixes(device(params, seed), 1) for seed in range(seeds)])


def assert_share(inside, probability):
    """So many of independent events came as their probability says."""
    low, high = stats.binom.ppf([ALPHA / 2, 1 - ALPHA / 2], len(inside), probability)
    assert low <= np.sum(inside) <= high, np.mean(inside)


# ---- accuracies --------------------------------------------------------------------------------

DISTANCE = stats.rayleigh
COUNT = 8_000


@pytest.mark.parametrize(
    ("measure", "probability"),
    [
        ("cep", 0.5),
        ("r95", 0.95),
        # within a root mean square of the distance, and within twice that
        ("drms", DISTANCE.cdf(math.sqrt(DISTANCE.moment(2)))),
        ("2drms", DISTANCE.cdf(2.0 * math.sqrt(DISTANCE.moment(2)))),
        ("sigma", DISTANCE.cdf(1.0)),
    ],
)
@pytest.mark.many
def test_the_circle_of_a_horizontal_accuracy_holds_its_share_of_fixes(measure, probability):
    params = GnssParams(horizontal_accuracy_m=2.5, horizontal_measure=measure)
    found = fixes(device(params), COUNT)["p_W"]
    assert_share(np.hypot(found[:, 0], found[:, 1]) < 2.5, probability)
    assert np.all(found[:, 2] == 0.0)
    assert_deviation(found[:, :2], params.position_sigma_m()[:2])


@pytest.mark.parametrize(
    ("measure", "probability"), [("sigma", 0.6827), ("r50", 0.5), ("r95", 0.95)]
)
@pytest.mark.many
def test_an_accuracy_of_one_axis_bounds_its_share_of_fixes(measure, probability):
    params = GnssParams(
        vertical_accuracy_m=0.5,
        vertical_measure=measure,
        velocity_accuracy_mps=0.05,
        velocity_measure=measure,
        vertical_velocity_factor=2.0,
    )
    found = fixes(device(params), COUNT)
    assert np.all(found["p_W"][:, :2] == 0.0)
    assert_share(np.abs(found["p_W"][:, 2]) < 0.5, probability)
    for axis, accuracy in enumerate((0.05, 0.05, 0.1)):
        assert_share(np.abs(found["v_W"][:, axis]) < accuracy, probability)
    assert_deviation(found["v_W"], params.velocity_sigma_mps())


@pytest.mark.many
def test_the_fcnd_receiver_is_white_as_its_project_says():
    found = fixes(device(load_device("gnss", "fcnd_gps")), COUNT)
    for field, sigma in (("p_W", [0.7, 0.7, 2.0]), ("v_W", [0.1, 0.1, 0.3])):
        assert_deviation(found[field], sigma)
        assert np.all(np.abs(found[field].mean(axis=0)) < DEVIATIONS * np.array(sigma) / COUNT**0.5)
        # of white noise the sample autocorrelation has the deviation 1/sqrt(n)
        for lag in (1, 10):
            products = found[field][:-lag] * found[field][lag:] / np.square(sigma)
            assert np.all(np.abs(products.mean(axis=0)) < DEVIATIONS / math.sqrt(COUNT - lag))


@pytest.mark.parametrize(
    ("name", "position", "velocity"),
    [
        # 0.01 m CEP and median, 0.05 m/s median
        ("ublox_f9p_rtk", (0.01 / 1.1774, 0.01 / 0.6745), 0.05 / 0.6745),
        ("ublox_m8", (2.5 / 1.1774, 3.6), 0.05 / 0.6745),
        ("fv_m8", (2.83, 2.83), 0.05),
        ("fcnd_gps", (0.7, 2.0), 0.1),
        ("ideal_gnss", (0.0, 0.0), 0.0),
    ],
)
def test_devices_have_the_deviations_of_their_data_sheets(name, position, velocity):
    params = load_device("gnss", name)
    # the factors above have five figures
    assert params.position_sigma_m()[0::2] == pytest.approx(position, rel=1e-4)
    assert params.velocity_sigma_mps()[0] == pytest.approx(velocity, rel=1e-4)


# ---- correlated errors -------------------------------------------------------------------------

WANDERING = GnssParams(
    horizontal_accuracy_m=2.0, vertical_accuracy_m=3.0, correlated_share=1.0, correlation_time_s=2.0
)


@pytest.mark.parametrize("rate_hz", [4.0, 20.0])
@pytest.mark.many
def test_the_correlated_error_has_its_time_at_any_rate(rate_hz):
    found = fixes(device(replace(WANDERING, rate_hz=rate_hz)), COUNT)["p_W"]
    kept = math.exp(-1.0 / (rate_hz * 2.0))
    # least squares of a first-order autoregression: deviation sqrt((1 - a^2)/n) (Mann and Wald)
    estimate = np.sum(found[1:] * found[:-1], axis=0) / np.sum(found[:-1] ** 2, axis=0)
    assert np.all(np.abs(estimate - kept) < DEVIATIONS * math.sqrt((1.0 - kept**2) / COUNT))
    fresh = found[1:] - kept * found[:-1]
    assert_deviation(fresh, np.array([2.0, 2.0, 3.0]) * math.sqrt(1.0 - kept**2))


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_the_error_has_its_variance_from_the_first_fix_on_however_it_is_shared(share):
    params = replace(WANDERING, correlated_share=share, correlation_time_s=1000.0)
    assert_deviation(first_fixes(params, 400)["p_W"], [2.0, 2.0, 3.0])


def test_only_the_correlated_share_lasts():
    # over 0.1 s of 1000 s the correlated part stays: pairs of fixes share its variance alone
    params = replace(WANDERING, correlated_share=0.3, correlation_time_s=1000.0)
    pairs = np.array([fixes(device(params, seed), 2)["p_W"] for seed in range(400)])
    pairs /= [2.0, 2.0, 3.0]
    difference = pairs[:, 1] - pairs[:, 0]
    assert_deviation(difference, math.sqrt(2.0 * 0.7))  # 2e-4 of the correlated part aside


# ---- the covariance that messages state --------------------------------------------------------


def everything(**changes):
    """A receiver with every error; but for multipath they are normal."""
    params = GnssParams(
        horizontal_accuracy_m=2.5,
        horizontal_measure="cep",
        vertical_accuracy_m=2.0,
        vertical_measure="r50",
        velocity_accuracy_mps=0.05,
        velocity_measure="r50",
        correlated_share=0.6,
        correlation_time_s=30.0,
        satellites=9,
        hdop=1.1,
        vdop=1.6,
    )
    return replace(params, **changes)


def normalised_squares(seeds, **changes):
    """Squares of the first errors over their stated variances, (seeds, 3) position, velocity."""
    found = first_fixes(everything(**changes), seeds)
    assert np.all(found["status"] >= 0.0)
    return [found[f"{name}_W"] ** 2 / found[f"{name}_variance"] for name in ("p", "v")]


def test_errors_are_as_large_as_their_stated_covariance():
    for nees in normalised_squares(400):
        low, high = stats.chi2.ppf([ALPHA / 2, 1 - ALPHA / 2], nees.size)
        assert low < nees.sum() < high
        # each of them chi-square of one degree of freedom, not their sum alone
        assert stats.kstest(nees.ravel(), stats.chi2(1).cdf).pvalue > ALPHA


def test_the_stated_covariance_has_its_part_of_multipath():
    # 30 m for a quarter of the time beside about 3 m: squares of a mixture of two normal errors
    nees = normalised_squares(
        1000, multipath_rate_hz=0.05, multipath_mean_s=20.0 / 3.0, multipath_sigma_m=30.0
    )[0]
    fourth = 3.0 / 0.25  # moment of offsets alone, which bounds that of the sum
    bound = DEVIATIONS * math.sqrt((fourth - 1.0) / nees.shape[0])
    assert np.all(np.abs(nees.mean(axis=0) - 1.0) < bound)


def test_dilution_scales_errors_and_their_covariance():
    params = everything(correlated_share=0.0)
    found = fixes(device(params, 4), 5000)
    hdop, vdop = found[0]["hdop"], found[0]["vdop"]
    assert abs(hdop / 1.1 - 1.0) > 0.1  # else this shows nothing
    scales = np.array([hdop / 1.1, hdop / 1.1, vdop / 1.6])
    for field, sigma in (("p", params.position_sigma_m()), ("v", params.velocity_sigma_mps())):
        assert_deviation(found[f"{field}_W"], scales * sigma)
        assert found[0][f"{field}_variance"] == pytest.approx((scales * sigma) ** 2, rel=1e-12)


# ---- outages and multipath ---------------------------------------------------------------------


def test_uniform_numbers_are_uniform_and_do_not_feel_a_common_factor():
    pairs = np.random.default_rng(1).standard_normal((COUNT, 2))
    numbers = np.array([uniform(a, b) for a, b in pairs])
    assert stats.kstest(numbers, stats.uniform.cdf).pvalue > ALPHA
    assert numbers[:1000] == pytest.approx([uniform(7.0 * a, 7.0 * b) for a, b in pairs[:1000]])


def test_transitions_over_an_interval_are_those_of_its_halves():
    # Chapman-Kolmogorov: the probability of a state after dt is the same by way of dt/2
    def probability(on, dt_s):
        """Largest chance with which the state is on, by bisection."""
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if next_state(on, 0.3, 1.7, dt_s, middle) else (low, middle)
        return low

    for on in (0, 1):
        half = probability(on, 0.4)
        both = half * probability(1, 0.4) + (1.0 - half) * probability(0, 0.4)
        assert both == pytest.approx(probability(on, 0.8), abs=1e-12)
    assert probability(0, 1e-6) == pytest.approx(0.3e-6, rel=1e-5)  # begins at its rate
    assert 1.0 - probability(1, 1e-6) == pytest.approx(1e-6 / 1.7, rel=1e-5)  # ends after its mean
    assert probability(0, 1e3) == pytest.approx(0.3 * 1.7 / (1.0 + 0.3 * 1.7))


def assert_two_states(on, rate_hz, mean_s, dt_s):
    """Begin and end of a state come as often as rate and mean say (closed form of the process)."""
    share = rate_hz * mean_s / (1.0 + rate_hz * mean_s)
    left = 1.0 - math.exp(-(rate_hz + 1.0 / mean_s) * dt_s)
    assert_share(on[1:][~on[:-1]], share * left)
    assert_share(~on[1:][on[:-1]], (1.0 - share) * left)


@pytest.mark.parametrize("rate_hz", [2.0, 20.0])
@pytest.mark.many
def test_outages_come_at_their_rate_and_last_their_time(rate_hz):
    params = GnssParams(rate_hz=rate_hz, outage_rate_hz=0.2, outage_mean_s=3.0)
    found = fixes(device(params), COUNT)
    lost = np.isnan(found["p_W"]).all(axis=1)
    assert np.array_equal(lost, np.isnan(found["v_W"]).any(axis=1))
    assert np.array_equal(lost, found["status"] == -1.0)
    assert_two_states(lost, 0.2, 3.0, 1.0 / rate_hz)


def test_a_receiver_may_be_switched_on_in_an_outage():
    params = GnssParams(outage_rate_hz=0.01, outage_mean_s=1000.0 / 3.0)
    lost = np.isnan(first_fixes(params, 400)["p_W"][:, 0])
    assert_share(lost, (10.0 / 3.0) / (1.0 + 10.0 / 3.0))


@pytest.mark.many
def test_multipath_offsets_come_stay_and_go():
    params = GnssParams(multipath_rate_hz=0.3, multipath_mean_s=2.0, multipath_sigma_m=5.0)
    found = fixes(device(params), COUNT)["p_W"]
    on = np.all(found != 0.0, axis=1)
    assert_two_states(on, 0.3, 2.0, 0.1)
    offsets = found[1:][on[1:] & ~on[:-1]]  # each where it comes
    assert_deviation(offsets, 5.0)
    stays = on[1:] & on[:-1]
    assert np.array_equal(found[1:][stays], found[:-1][stays])
    assert np.all(found[~on] == 0.0)
    variance = fixes(device(params), 1)["p_variance"][0]
    assert variance == pytest.approx(25.0 * 0.6 / 1.6, rel=1e-12)


def test_a_louder_fault_makes_no_outage_likelier():
    params = everything(outage_rate_hz=0.5, outage_mean_s=1.0)
    loud = FaultParams("noisier", value=(8.0,))
    quiet, noisy = (fixes(device(params, faults=faults), 2000) for faults in ((), (loud,)))
    assert np.array_equal(np.isnan(quiet["p_W"]), np.isnan(noisy["p_W"]))
    assert 0 < np.isnan(quiet["p_W"][:, 0]).sum() < 2000
    silent = fixes(device(params, faults=[FaultParams("noisier", value=(0.0,))]), 2000)
    assert np.isnan(silent["p_W"]).sum() == 0  # no fix is lost in the middle of all chances
    assert np.nanstd(noisy["v_W"]) > 7.0 * np.nanstd(quiet["v_W"])


# ---- where it sits, what it tells --------------------------------------------------------------


def test_it_measures_its_antenna():
    params = GnssParams(position_B_m=(0.0, 0.0, 0.5))
    q_WB = from_euler(math.pi / 2, 0.0, 0.0)  # rolled right: up in the body is -y
    found = fixes(device(params), 1, p_W=(1.0, 2.0, 3.0), q_WB=q_WB, w_B=(2.0, 0.0, 0.0))[0]
    assert found["p_W"] == pytest.approx([1.0, 1.5, 3.0], abs=1e-12)
    assert found["v_W"] == pytest.approx([0.0, 0.0, -1.0], abs=1e-12)


@pytest.mark.parametrize(("fix", "status"), [("fix", 0), ("sbas", 1), ("rtk", 2)])
def test_messages_state_the_kind_of_fix_and_that_there_is_none(fix, status):
    pytest.importorskip("rclpy")
    from rclpy.serialization import deserialize_message
    from sensor_msgs.msg import NavSatFix

    from quadsim.geometry.geodesy import Datum
    from quadsim.wire.samples import fix_messages, has_fix

    def message(*faults):
        sample = fixes(device(everything(fix=fix), faults=faults), 1)[0]
        payload = fix_messages("gps_link", Datum()).payload(sample)
        return has_fix(sample), deserialize_message(payload, NavSatFix)

    known, found = message()
    assert known
    assert found.status.status == status
    known, found = message(FaultParams("outage"))
    assert not known
    assert found.status.status == -1
    assert math.isnan(found.latitude)
    assert np.all(np.isfinite(found.position_covariance))


@pytest.mark.parametrize("first_fix_s", [0.0, 1.0, 35.0])
def test_the_first_fix_comes_after_its_time(first_fix_s):
    sensor, truth = device(GnssParams(rate_hz=5.0, first_fix_s=first_fix_s)), truth_at()
    sensor.measure(truth)
    for k in range(1, 200):
        truth.stamp_ns = k * 200_000_000
        sample = sensor.measure(truth)
        assert (sample.status >= 0) == (0.2 * k >= first_fix_s - 1e-9)
        assert np.isfinite(sample.p_W).all() == (sample.status >= 0)
