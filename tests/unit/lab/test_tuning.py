"""``quadsim tune``: rules, the search, the file, and one short tune in the closed loop."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import yaml
from click.testing import CliRunner

from quadsim.base import surroundings
from quadsim.base.errors import InputError
from quadsim.base.files import find
from quadsim.base.parameters import leaves, load
from quadsim.cli import main
from quadsim.cli.tune import TuneOptions
from quadsim.control.parameters import AutopilotParams
from quadsim.lab.tune import step_flights, tuning
from quadsim.lab.tune.loop_margins import (
    GainBounds,
    all_margins,
    apply_rule,
    scale_gains,
    with_factors,
    within_margins,
)
from quadsim.lab.tune.step_flights import ripple_of
from quadsim.lab.tune.tuning import load_vehicle

DEFAULT = load(AutopilotParams, find("autopilots", "default"))
FREE = GainBounds(torque=(1e6, 1e6, 1e6), lift=1e6, noise=(0.0, 0.0))


def test_ziegler_and_nichols():
    """PID: 0.6 Ku, Tu / 2, Tu / 8; PI: 0.45 Ku, Tu / 1.2; P: 0.5 Ku."""
    found = apply_rule("ziegler-nichols", DEFAULT, "rate", (100.0, 0.08), FREE)
    assert found.attitude.rate_gain == (60.0, 60.0, DEFAULT.attitude.rate_gain[2])
    assert found.attitude.rate_integral[:2] == (1500.0, 1500.0)
    assert found.attitude.rate_lead_s == pytest.approx(0.01)
    found = apply_rule("ziegler-nichols", DEFAULT, "velocity", (8.0, 0.6), FREE)
    assert found.position.velocity_gain_xy == pytest.approx(3.6)
    assert found.position.velocity_integral_xy == pytest.approx(3.6 / 0.5)
    found = apply_rule("ziegler-nichols", DEFAULT, "position", (6.0, 1.0), FREE)
    assert found.position.position_gain_xy == pytest.approx(3.0)


def test_tyreus_and_luyben():
    """PI: Ku / 3.2, 2.2 Tu; PID: Ku / 2.2, 2.2 Tu, Tu / 6.3."""
    found = apply_rule("tyreus-luyben", DEFAULT, "rate", (110.0, 0.1), FREE)
    assert found.attitude.rate_gain[:2] == (50.0, 50.0)
    assert found.attitude.rate_integral[0] == pytest.approx(50.0 / 0.22, rel=1e-3)
    assert found.attitude.rate_lead_s == pytest.approx(0.1 / 6.3, rel=1e-3)
    found = apply_rule("tyreus-luyben", DEFAULT, "velocity", (16.0, 0.5), FREE)
    assert found.position.velocity_gain_xy == pytest.approx(5.0)
    assert found.position.velocity_integral_xy == pytest.approx(5.0 / 1.1, rel=1e-3)


def test_a_noisy_gyroscope_takes_the_derivative_away():
    noisy = replace(FREE, torque=(200.0, 200.0, 20.0), noise=(0.2, 60.0))
    found = apply_rule("ziegler-nichols", DEFAULT, "rate", (80.0, 0.1), noisy)
    assert found.attitude.rate_lead_s == 0.0
    assert found.attitude.rate_gain[0] == pytest.approx(36.0)  # PI's


def test_actuators_bound_the_gains():
    weak = GainBounds(torque=(10.0, 10.0, 2.0), lift=5.0, noise=(0.0, 0.0))
    found = apply_rule("ziegler-nichols", DEFAULT, "rate", (1000.0, 0.1), weak)
    assert found.attitude.rate_gain[0] == 10.0 / 0.25
    found = apply_rule("ziegler-nichols", DEFAULT, "height", (100.0, 0.1), weak)
    assert found.position.position_gain_z == pytest.approx(math.sqrt(0.8 * 5.0), rel=1e-3)


def test_gains_are_taken_back_until_the_margins_hold():
    vehicle = load_vehicle("x500", "default", "default", 1).vehicle
    quick = scale_gains(DEFAULT, "velocity", 3.0)
    assert not all_margins(quick, vehicle)["velocity"].hold
    found = within_margins(quick, vehicle, "velocity")
    assert all_margins(found, vehicle)["velocity"].hold
    assert not all_margins(scale_gains(found, "velocity", 1 / 0.9), vehicle)["velocity"].hold
    ratio = found.position.velocity_integral_xy / quick.position.velocity_integral_xy
    assert found.position.velocity_gain_xy / quick.position.velocity_gain_xy == pytest.approx(
        ratio, rel=1e-3
    )


def test_the_search_finds_the_least_cost(monkeypatch):
    """On a made-up cost with its least at 0.7 and 1.5 times the gains of the start."""
    scenario = load_vehicle("x500", "default", "default", 1)
    start = scenario.autopilot.position

    class Flown:
        def __init__(self, params):
            height = math.log(params.position.position_gain_z / start.position_gain_z)
            climb = math.log(params.position.velocity_gain_z / start.velocity_gain_z)
            self.cost = (height - math.log(0.7)) ** 2 + (climb - math.log(1.5)) ** 2

    monkeypatch.setattr(tuning, "make_flights", lambda *_: {})
    monkeypatch.setattr(tuning, "fly_steps", lambda _, params, __: Flown(params))
    said = []
    found = tuning.search(scenario, scenario.autopilot, ("climb", "height"), 1, 100, 1, said.append)
    assert found.position.position_gain_z == pytest.approx(0.7 * start.position_gain_z, rel=0.03)
    assert found.position.velocity_gain_z == pytest.approx(1.5 * start.velocity_gain_z, rel=0.03)
    assert found.attitude == scenario.autopilot.attitude
    assert len(said) == 1


def test_a_search_stays_within_the_ranges_of_a_file():
    found = with_factors(DEFAULT, ("rate", "yaw"), (100.0, 1.0, 100.0))
    assert found.attitude.rate_gain[:2] == (200.0, 200.0)
    assert found.attitude.rate_gain[2] == DEFAULT.attitude.rate_gain[2]
    assert found.position.yaw_gain == 20.0


def test_ripple_is_the_quick_part_of_the_commands():
    """A sine of 1 % and ten rows a period has 0.01 / sqrt(2); a slow one has next to none."""
    rows = np.arange(2000)
    quick = 500.0 * (1.0 + 0.01 * np.sin(2.0 * np.pi * rows / 11.0))
    slow = 500.0 * (1.0 + 0.01 * np.sin(2.0 * np.pi * rows / 1000.0))
    assert ripple_of(np.stack([quick, quick], axis=1)) == pytest.approx(
        0.01 / math.sqrt(2), rel=0.01
    )
    assert ripple_of(slow[:, None]) < 1e-5


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """A detuned height, tuned by ``quadsim tune`` as a user calls it."""
    folder = tmp_path_factory.mktemp("tune")
    start = folder / "start.yaml"
    start.write_text("position: {velocity_gain_z: 1.2, position_gain_z: 5.0}\n")
    options = ["--autopilot", str(start), "--loops", "climb", "--loops", "height", "--json"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(surroundings, "browser", lambda: None)
        patch.setattr(step_flights, "SETTLE_S", 1.5)
        patch.setattr(step_flights, "HOLD_S", 3.0)
        result = CliRunner().invoke(main.main, ["tune", *options, "--output", str(folder / "run")])
    return result, folder / "run"


def test_a_short_tune_in_the_closed_loop(tuned):
    result, folder = tuned
    summary = json.loads(result.stdout)
    height = next(row for row in summary["steps"] if row["axis"] == "z" and not row["wind"])
    assert height["before"]["overshoot"] > 0.2
    assert height["after"]["overshoot"] < 0.1
    assert height["after"]["rise_s"] < 1.0
    assert summary["cost"]["after"] < summary["cost"]["before"]
    assert summary["as_good"]
    margins = summary["margins"]
    assert margins["height"]["after"]["hold"]
    assert not margins["height"]["before"]["hold"]
    lost = [name for name, found in margins.items() if not found["after"]["hold"]]
    assert result.exit_code == (1 if lost else 0)
    assert set(summary["relay"]) == {"climb", "height"}
    assert (folder / "steps.html").stat().st_size > 100_000


def test_the_file_holds_every_key_and_loads(tuned):
    result, folder = tuned
    text = (folder / "autopilot.yaml").read_text()
    params = load(AutopilotParams, folder / "autopilot.yaml")
    content = yaml.safe_load(text)
    for leaf in leaves(AutopilotParams):
        node = content
        for part in leaf.name.split("."):
            assert part in node, leaf.name
            node = node[part]
    gains = json.loads(result.stdout)["gains"]
    assert params.position.velocity_gain_z == gains["position.velocity_gain_z"]["after"]
    assert params.position.position_gain_z == gains["position.position_gain_z"]["after"]
    assert params.attitude == AutopilotParams().attitude  # not tuned: as before
    assert text.startswith("# Made by quadsim ")
    assert "seed 1" in text.splitlines()[0]
    assert "x500" in text.splitlines()[1]


def test_an_unknown_loop_is_refused_and_the_command_offers_all():
    option = TuneOptions.__dataclass_fields__["loops"].metadata["option"]
    assert option.choices == tuning.LOOPS
    with pytest.raises(InputError, match="'rat' unknown; known: rate, "):
        tuning.tune_loops(load_vehicle("x500", "default", "default", 1), loops=["rat"])
