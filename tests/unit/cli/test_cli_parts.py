"""Own parts from the command line: by name, over bags, in campaigns; skeletons that fly."""

import json
import math
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import quadsim
from quadsim.base.compiled import new_record
from quadsim.base.parameters import read_yaml
from quadsim.base.parts import PART_KINDS
from quadsim.base.records import KINEMATICS
from quadsim.cli.main import main
from quadsim.sensors.model import SimulatedSensor
from quadsim.world.environment import EnvironmentParams

EXAMPLES = Path(__file__).parents[3] / "examples"
FILTER = "parts.estimator:Complementary"


def run(text: str):
    """The command in this process."""
    return CliRunner().invoke(main, text.split())


@pytest.fixture(autouse=True)
def folder(monkeypatch):
    """The folder in which ``parts`` are found, in other processes too."""
    monkeypatch.chdir(EXAMPLES)


@pytest.fixture(scope="module")
def flown(tmp_path_factory):
    """A flight on an own estimator, by its bag and its summary."""
    folder = tmp_path_factory.mktemp("flown")
    command = f"sim --scenario hover --seed 2 --estimator {FILTER} --no-report --json"
    done = run(f"{command} --output {folder}/run --bag {folder}/bag")
    assert done.exit_code == 0, done.output
    return folder / "bag", json.loads(done.stdout)


def test_a_part_is_named_by_an_option(flown):
    _, summary = flown
    assert summary["estimator"]["name"] == FILTER
    assert 0.0 < summary["estimator"]["position_rmse_m"] < 0.1


def test_a_replay_gives_what_flew(flown):
    """Messages of the bag come at other times than in flight, so that fixes are fused at others."""
    bag, summary = flown
    scored = quadsim.replay(bag, [FILTER, "eskf"]).summary["estimators"]
    flew = summary["estimator"]
    assert scored[FILTER]["count"] > 5 * flew["count"] * 0.9  # at each IMU sample
    for figure in ("position_rmse_m", "tilt_rmse_rad", "yaw_rmse_rad"):
        assert scored[FILTER][figure] == pytest.approx(flew[figure], rel=0.15)
    assert scored["eskf"]["position_rmse_m"] < scored[FILTER]["position_rmse_m"]


def test_a_bags_own_parts_run_only_if_they_are_trusted(flown, tmp_path):
    bag, summary = flown
    command = f"sim --from-bag {bag} --no-report --json --output {tmp_path}/run"
    refused = run(command)
    assert refused.exit_code == 2
    assert f"was flown with estimator {FILTER}; repeat it with --own-parts" in refused.stderr
    again = run(f"{command} --own-parts")
    assert json.loads(again.stdout)["digest"] == summary["digest"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--controller nowhere:Pid", "controller nowhere:Pid: there is no module nowhere"),
        ("--wind parts.controller:Geometric", "has no method velocity()"),
        ("--estimator nothing", "unknown estimator 'nothing'"),
        ("--controller parts.controller:Geometric --set parts.controller.gian=2", "'gian'"),
        ("--set parts.engine=a:B", "'engine'; allowed: controller, estimator, sensor, planner"),
    ],
)
def test_a_wrong_part_is_one_line_with_status_2(options, said, tmp_path):
    done = run(f"sim --scenario hover {options} --output {tmp_path}/run")
    assert done.exit_code == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_a_part_that_fails_in_flight_leaves_a_summary_and_status_2(tmp_path, monkeypatch):
    (tmp_path / "own_late.py").write_text(
        "class Late:\n"
        "    def velocity(self, time_s, p_W):\n"
        "        return [0.0, 0.0, 1.0 / (time_s < 4.0)]\n"
    )
    monkeypatch.chdir(tmp_path)
    done = run("sim --scenario hover --wind own_late:Late --output run --no-report")
    assert done.exit_code == 2
    last = done.stderr.splitlines()[-1]
    assert "error: wind own_late:Late: failed at 4.000 s: ZeroDivisionError" in last
    assert "own_late.py:3" in last
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert not summary["passed"]
    assert summary["landing"]["speed_mps"] < 1.0


def test_a_campaign_varies_an_argument_of_a_part(tmp_path):
    (tmp_path / "own.yaml").write_text(
        "mission: [{takeoff: {height_m: 0.5}}, {land: {}}]\n"
        "duration_s: 20.0\n"
        "parts: {controller: {part: 'parts.controller:Geometric', stiffness: 4.0}}\n"
    )
    (tmp_path / "gains.yaml").write_text(
        f"scenario: {tmp_path}/own.yaml\nmethod: grid\n"
        "vary: {parts.controller.stiffness: {choices: [4.0, 6.0]}}\n"
    )
    done = run(f"campaign {tmp_path}/gains.yaml --output {tmp_path}/out --processes 1 --json")
    assert done.exit_code == 0, done.output
    import pyarrow.parquet as parquet

    rows = parquet.read_table(tmp_path / "out" / "table.parquet").to_pylist()
    assert [row["status"] for row in rows] == ["passed", "passed"]
    assert len({row["digest"] for row in rows}) == 2


def test_skeletons_fly_as_they_stand(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for kind in PART_KINDS:
        done = run(f"new {kind} own_new_{kind}")
        assert done.exit_code == 0, done.output
        assert run(f"new {kind} own_new_{kind}").exit_code == 2  # nothing is written over
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert tested.returncode == 0, tested.stdout
    assert f"{len(PART_KINDS)} passed" in tested.stdout


def test_a_skeleton_of_a_sensor_model_measures(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "checkout" in run("new sensor_model sonar").stderr
    for folder in ("src/quadsim/sensors", "config/sensors"):
        (tmp_path / folder).mkdir(parents=True)
    done = run("new sensor_model sonar")
    assert '"sonar": Entry((SensorTopic("sonar", RANGE, "base_link"),), "sonar"),' in done.output
    assert "exists already" in run("new sensor_model sonar").stderr
    assert read_yaml(tmp_path / "config/sensors/sonar.yaml")["sensor"] == "sonar"
    spec = spec_from_file_location("sonar", tmp_path / "src/quadsim/sensors/sonar.py")
    made = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "sonar", made)
    spec.loader.exec_module(made)
    params = made.SonarParams(noise_sigma_m=0.1)
    device = SimulatedSensor(made.MODEL, params, EnvironmentParams(), 1, "quad")
    truth, read = new_record(KINEMATICS), []
    for k in range(1001):
        truth.stamp_ns, truth.p_W[2] = k * device.period_ns, 5.0
        sample = device.measure(truth)
        read += [] if sample is None else [float(sample["height_m"])]
    assert np.mean(read) == pytest.approx(5.0, abs=4.0 * 0.1 / math.sqrt(1000))
    assert np.std(read) == pytest.approx(0.1, rel=4.0 / math.sqrt(2000))


@pytest.mark.parametrize(
    ("words", "said"),
    [("engine my_engine", "allowed: controller"), ("wind json", "installed"), ("wind a-b", "name")],
)
def test_a_wrong_skeleton_is_refused(words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run(f"new {words}")
    assert done.exit_code == 2
    assert said in done.stderr
    assert not list(tmp_path.iterdir())
