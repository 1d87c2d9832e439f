"""The loops' stability margins, by their linear models; the figures of docs/control.md."""

from dataclasses import replace

import numpy as np
import pytest

from quadsim.base.files import find, known
from quadsim.base.parameters import load
from quadsim.control.parameters import AutopilotParams
from quadsim.lab.tune.loop_margins import (
    OMEGA,
    all_margins,
    gains_that_do_not_suit,
    margins,
)
from quadsim.vehicle.parameters import VehicleParams

#: Slow motors need a lead, for which the FCND gyroscope leaves no room.
SLOW_S = 0.025
MULTIROTORS = [
    name
    for name in known("vehicles")
    if load(VehicleParams, find("vehicles", name)).kind == "multirotor"
]


@pytest.mark.parametrize("vehicle", MULTIROTORS)
@pytest.mark.parametrize("name", known("autopilots"))
def test_every_loop_has_45_degrees_and_a_factor_of_3(name, vehicle):
    if name == "thesis_table_6_1":
        pytest.skip("these gains are for the thesis's helicopter, which has no rate loop")
    params = load(AutopilotParams, find("autopilots", name))
    body = load(VehicleParams, find("vehicles", vehicle))
    if params.attitude.rate_lead_s == 0.0 and body.motor_lag_s > SLOW_S:
        pytest.skip("these gains are for motors of up to 25 ms")
    for loop_name, found in all_margins(params, body).items():
        if loop_name == "yaw_rate":
            continue
        assert found.phase_deg > 45.0, loop_name
        assert found.gain > 3.0, loop_name


def test_margins_of_a_delayed_integrator():
    """K exp(-s T) / s: crossover k, phase margin 90 degrees - k T, gain margin pi / (2 k T)."""
    k, delay_s = 3.0, 0.1
    loop = k * np.exp(-1j * OMEGA * delay_s) / (1j * OMEGA)
    found = margins(loop)
    assert found.crossover_radps == pytest.approx(k, rel=2e-3)
    assert found.phase_deg == pytest.approx(90.0 - np.degrees(k * delay_s), abs=0.1)
    assert found.gain == pytest.approx(np.pi / (2.0 * k * delay_s), rel=2e-3)


def test_what_no_gain_makes_oscillate():
    loop = 2.0 / (1j * OMEGA)
    assert margins(loop).gain == np.inf
    assert margins(0.01 / (1j * OMEGA + 1.0)).gain == 0.0  # never crosses 1: no margins to speak of


@pytest.mark.parametrize(("lag_s", "poor"), [(0.02, ""), (0.05, ""), (0.3, "height")])
def test_gains_that_do_not_suit_are_named(lag_s, poor):
    """A motor that is too slow for the gains: margins of the linear model, no flight needed."""
    x500 = load(VehicleParams, find("vehicles", "x500"))
    vehicle = replace(x500, time_constant_up_s=lag_s, time_constant_down_s=lag_s)
    said = gains_that_do_not_suit(load(AutopilotParams, find("autopilots", "default")), vehicle)
    assert bool(said) == bool(poor)
    assert poor in said


def test_no_shipped_multirotor_is_told_that_the_gains_do_not_suit():
    gains = load(AutopilotParams, find("autopilots", "default"))
    for name in known("vehicles"):
        assert gains_that_do_not_suit(gains, load(VehicleParams, find("vehicles", name))) == ""
