"""Flights recorded and of the closed loop keep their figures; see tests/golden/README.md."""

from pathlib import Path

import golden
import pytest

from quadsim.analysis.replay import Settings, replay
from quadsim.analysis.summary import summarize
from quadsim.bag.origin import origin_of
from quadsim.base.files import find
from quadsim.base.parameters import load
from quadsim.estimation.eskf.parameters import EstimatorParams
from quadsim.sim.closed_loop import run
from quadsim.sim.installation import as_installed
from quadsim.sim.scenario import Scenario, load_scenario

HERE = Path(__file__).parent
FLIGHTS = sorted((HERE / "flights").glob("*.mcap"))
ESTIMATORS = ("eskf", "smoother", "ekf7", "gps_ins", "blind")
#: A square by the estimate, wind on the truth, and another vehicle, filter and loop of the thesis.
SCENARIOS = ("square", "hover_wind", "ntnu_1_short_flat")
#: Of an estimator; what else is scored is derived from these or counts messages.
FIGURES = (
    "position_rmse_m", "position_max_m", "velocity_rmse_mps", "yaw_rmse_rad", "tilt_rmse_rad",
    "nees_mean",
)  # fmt: skip


def todays_estimator(scenario: Scenario) -> EstimatorParams:
    """The estimator as its file is now, told of the sensors that flew then."""
    params = load(EstimatorParams, find("estimators", "eskf"))
    return as_installed(params, scenario.sensors, scenario.environment, scenario.scene.is_flat)


def figures_of(estimators) -> dict:
    return {name: {key: scores[key] for key in FIGURES} for name, scores in estimators.items()}


@pytest.mark.parametrize("path", FLIGHTS, ids=lambda path: path.stem)
def test_a_recorded_flight_is_estimated_as_ever(path, update_golden):
    params = todays_estimator(origin_of(path).scenario)
    result = replay(path, Settings(ESTIMATORS, "/quad", params))
    summary = summarize(result.log)
    now = figures_of(summary["estimators"])
    for name, counts in result.counts.items():
        now[name]["refused"] = sum(n for key, n in counts.items() if "received" not in key)
        inside = result.log.inside.get(name)
        if inside is not None and inside.innovations:  # what got in and was refused by its NIS
            now[name]["rejected"] = {
                sensor: int((~found.accepted).sum()) for sensor, found in inside.innovations.items()
            }
    changed = golden.check(HERE / "expected" / f"replay_{path.stem}.yaml", now, update_golden)
    assert not changed, changed


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_is_flown_as_ever(name, update_golden):
    scenario = load_scenario(name)
    log, digest = run(scenario)
    summary = summarize(log, scenario.criteria)
    now = {
        "duration_s": summary["duration_s"],
        "passed": summary["passed"],
        "tracking": summary["tracking"],
        "landing": summary["landing"],
        "estimators": figures_of(summary["estimators"]),
        "events": [f"{event.name}: {event.message}" for event in log.events],
        "digest": digest,
        "digest_versions": golden.digest_versions(),
    }
    changed = golden.check(HERE / "expected" / f"sim_{name}.yaml", now, update_golden)
    assert not changed, changed


def test_there_are_flights_and_nothing_is_expected_of_others():
    """A flight that is taken away takes its figures along."""
    wanted = {f"replay_{path.stem}" for path in FLIGHTS} | {f"sim_{name}" for name in SCENARIOS}
    assert len(FLIGHTS) >= 3
    assert {path.stem for path in (HERE / "expected").glob("*.yaml")} == wanted


def test_a_change_is_read_as_a_diff():
    then = {"eskf.nees_mean": 3.0, "eskf.yaw_rmse_rad": 0.01, "state": "landed", "gone": 1}
    now = {"eskf": {"nees_mean": 3.001, "yaw_rmse_rad": 0.011}, "state": "crashed", "new": 2}
    assert golden.difference(now, then) == [
        "- eskf.yaw_rmse_rad: 0.01",
        "+ eskf.yaw_rmse_rad: 0.011   (+10.00 %)",
        "- state: landed",
        "+ state: crashed",
        "- gone: 1",
        "+ new: 2",
    ]


def test_figures_are_written_only_when_that_is_asked_for(tmp_path):
    path, now = tmp_path / "x.yaml", {"a": 1.23456, "b": [True, None]}
    assert "not there" in golden.check(path, now, update=False)
    assert golden.check(path, now, update=True) == ""
    assert path.read_text().splitlines()[1:] == ["a: 1.235", "b.0: true", "b.1: null"]
    assert golden.check(path, now, update=False) == ""
    assert "--update-golden" in golden.check(path, {"a": 1.24, "b": [True, None]}, update=False)


def test_digests_are_compared_where_the_versions_are_the_same(tmp_path):
    path = tmp_path / "x.yaml"
    then = {"a": 1.0, "digest": "0123", "digest_versions": golden.digest_versions()}
    golden.check(path, then, update=True)
    assert golden.check(path, then, update=False) == ""
    assert "- digest: 0123\n+ digest: 4567" in golden.check(path, then | {"digest": "4567"}, False)
    other = {"digest": "4567", "digest_versions": "x86_64, Python 3.11, numpy 3.0.0, numba 1.0.0"}
    assert golden.check(path, then | other, update=False) == ""
    assert "+ a: 2.0" in golden.check(path, then | other | {"a": 2.0}, update=False)
