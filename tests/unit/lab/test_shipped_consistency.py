"""Errors of shipped sensors over the deviations that the filter states, in the closed loop.

What a device has from switch-on stays for the whole flight, so a flight is one sample: the sum
over n flights of the mean normalised square is at most as spread as chi-square with n degrees of
freedom.
"""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import stats

from quadsim.cli.sensors import sensors
from quadsim.lab.campaign.experiment import (
    AXES,
    SCENARIOS,
    SUITES,
    consistency_summary,
    means,
    run_consistency,
)
from quadsim.sensors.devices import not_held
from quadsim.sim.closed_loop import ClosedLoop
from quadsim.sim.scenario import load_scenario

pytestmark = pytest.mark.many

#: Two chances in a thousand to miss by chance, over nine axes.
SURE = 1.0 - 2e-3 / len(AXES)
#: An IMU of the default set whose scale and axes are calibrated: the better it is, the more the
#: magnetometer's errors count.
CALIBRATED = {
    f"sensors.imu.{name}_{error}_sigma": 0.0
    for name in ("accel", "gyro")
    for error in ("scale", "cross_axis")
}
#: Those whose own file says so.
BEYOND = tuple(suite for suite in SUITES if not_held(suite))


def check(flights):
    low, high = stats.chi2.interval(SURE, len(flights))
    squares = means(flights) * len(flights)
    assert np.all((low <= squares) & (squares <= high)), dict(
        zip(AXES, means(flights), strict=True)
    )


@pytest.mark.parametrize(
    ("name", "changes"),
    [("square", {}), ("figure_of_eight", CALIBRATED)],
    ids=["default", "calibrated-imu"],
)
def test_the_default_sensors_err_as_the_filter_says(name, changes):
    check(run_consistency(["default"], [name], 20, 1, changes=changes)["default", name])


@pytest.mark.parametrize("offset_K", [-40.0, 30.0])
def test_heights_err_as_the_filter_says_in_air_of_any_temperature(offset_K):
    """To 40 m up: the pressure's height is off by 3 to 6 m there."""
    scenario = load_scenario(
        "hover",
        {
            "environment.temperature_offset_K": offset_K,
            "mission": [{"takeoff": {"height_m": 40.0}}, {"hover": {"duration_s": 10.0}}],
            "duration_s": 60.0,
        },
        sensors="default",
        seed=1,
    )
    loop = ClosedLoop(scenario, log_hz=10.0)
    loop.fly()
    rows = loop.rows()
    rows = rows[rows["estimated"] != 0]
    assert rows["p_W"][-1, 2] > 39.0
    estimate = rows["estimate"]
    errors_m = rows["p_W"][:, 2] - estimate["p_W"][:, 2]
    # 600 numbers, alike over seconds: once in ten thousand one is beyond
    assert np.abs(errors_m / np.sqrt(estimate["p_variance"][:, 2])).max() < 5.0


@pytest.mark.thorough
@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("suite", [suite for suite in SUITES if suite not in BEYOND])
def test_shipped_sensors_err_as_the_filter_says(suite, name):
    check(run_consistency([suite], [name], 40)[suite, name])


def test_the_table_fails_where_an_axis_does():
    found = run_consistency(
        ["ideal"], ["square"], 1, 1
    )  # errors of zero, beside deviations of "unknown"
    summary = consistency_summary(found)
    assert not summary["passed"]
    assert summary["rows"][0]["squares"]["roll"] < 0.01


def test_a_suite_beyond_the_limits_says_so_in_its_file_and_in_the_command():
    found = json.loads(CliRunner().invoke(sensors, ["suites", "--json"]).stdout)["not_consistent"]
    assert found["fcnd"] == []
    assert found["fast_spin"] == not_held("fast_spin")
    assert {"thesis_devices", "thesis_devices_bad", "swarm", "default_250hz"} < set(BEYOND)
    words = CliRunner().invoke(sensors, ["suites"]).stdout
    assert f"fast_spin\n    not consistent: {not_held('fast_spin')[0]}" in words
