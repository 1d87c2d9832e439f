"""Keys that are set otherwise than files say: of scenarios, and of the files they name."""

import pytest

from quadsim.base.changes import changes_by_file, parse_changes, set_keys
from quadsim.base.errors import InputError
from quadsim.sim.library import Library, OtherFileError, shared_name
from quadsim.sim.scenario import ScenarioFile, load_scenario


def test_values_are_read_as_yaml():
    found = parse_changes(["seed=3", "world=flat", "x.y=[1.0, 2e-3]", "a=b=c"])
    assert found == {"seed": 3, "world": "flat", "x.y": [1.0, 0.002], "a": "b=c"}


@pytest.mark.parametrize(
    ("texts", "words"), [(["seed"], "KEY=VALUE"), (["=1"], "KEY=VALUE"), (["a=1", "a=2"], "twice")]
)
def test_what_is_no_change_is_refused(texts, words):
    with pytest.raises(InputError, match=words):
        parse_changes(texts)


def test_changes_go_to_the_file_whose_name_comes_first():
    changes = {"vehicle.mass_kg": 2, "vehicle": "x500", "terrain.seed": 3}
    assert changes_by_file(changes, ["vehicle", "sensors"]) == {
        "": {"vehicle": "x500", "terrain.seed": 3},
        "vehicle": {"mass_kg": 2},
        "sensors": {},
    }


def test_keys_that_are_not_written_begin_at_their_defaults():
    content = {"mission": [{"hover": {"duration_s": 1.0}}], "terrain": {"seed": 1}}
    changes = {
        "environment.wind_W_mps.1": 3.0,
        "mission.0.hover.duration_s": 9.0,
        "terrain.height_m": 5.0,
    }
    set_keys(content, changes, ScenarioFile, "file")
    assert content == {
        "mission": [{"hover": {"duration_s": 9.0}}],
        "terrain": {"seed": 1, "height_m": 5.0},
        "environment": {"wind_W_mps": [0.0, 3.0, 0.0]},
    }


@pytest.mark.parametrize("order", [1, -1])
def test_a_whole_list_is_set_before_its_parts_and_stays_the_caller_s(order):
    mission = [{"hover": {"duration_s": 1.0}}]
    changes = {"mission.0.hover.duration_s": 9.0, "mission": mission}
    content = {"mission": []}
    set_keys(content, dict(list(changes.items())[::order]), ScenarioFile, "file")
    assert content == {"mission": [{"hover": {"duration_s": 9.0}}]}
    assert mission == [{"hover": {"duration_s": 1.0}}]


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("environment.wnd_W_mps.0", "did you mean environment.wind_W_mps?"),
        ("environment.wind_W_mps.3", "no place in a list of 3"),
        ("duration_s.x", "duration_s is 5.0, which has no 'x'"),
        ("mission.0.hover", "no 'mission'"),
    ],
)
def test_a_key_that_is_nowhere_is_refused(key, words):
    with pytest.raises(InputError, match=f"^file: {key}: .*{words}"):
        set_keys({"duration_s": 5.0}, {key: 1.0}, ScenarioFile, "file")


def test_every_file_of_a_scenario_can_be_changed():
    plain = load_scenario("hover")
    changes = {
        "mission.1.hover.duration_s": 7.5,
        "vehicle.mass_kg": 2.5,
        "vehicle.inertia_kg_m2.2": 0.04,
        "estimator.noise.gyro_density": 0.01,
        "autopilot.position.yaw_gain": 1.25,
        "sensors.imu.accel_turn_on_sigma": 0.5,
        "sensors.gnss": "ublox_m8",
        "sensors.rangefinder": None,
    }
    scenario = load_scenario("hover", changes, seed=9)
    assert scenario.items[1].duration_s == 7.5
    assert scenario.vehicle.mass_kg == 2.5
    assert scenario.vehicle.inertia_kg_m2 == (*plain.vehicle.inertia_kg_m2[:2], 0.04)
    assert scenario.estimator.noise.gyro_density == 0.01
    assert scenario.autopilot.position.yaw_gain == 1.25
    assert scenario.imu.accel_turn_on_sigma == 0.5
    # the estimator is told what the changed device says of itself
    assert scenario.estimator.start.accel_bias_mps2 > 0.5
    assert plain.estimator.start.accel_bias_mps2 < 0.5
    assert scenario.sensors["gnss"].horizontal_accuracy_m > 1.0
    assert "rangefinder" not in scenario.sensors
    assert scenario.file.seed == 9


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"vehicle.mass_kg": -1.0}, "x500.yaml with mass_kg set: mass_kg: -1.0 is out of range"),
        ({"vehicle.mas": 1.0}, "unknown key 'mas'"),
        ({"sensors.lidar.rate_hz": 1.0}, "there is no lidar in it"),
        ({"sensors.gnss": "bmp390"}, "'barometer' where 'gnss' is wanted"),
        ({"sensors.gnss": 3}, "not the name of a device"),
        ({"sensors.imu": None}, "the key 'imu' is missing"),
    ],
)
def test_a_refused_value_names_file_and_key(changes, words):
    with pytest.raises(InputError, match=words):
        load_scenario("hover", changes)


def test_a_library_reads_a_file_once_and_hands_out_copies(tmp_path):
    path = tmp_path / "some.yaml"
    path.write_text("a: [1, 2]\n")
    library = Library()
    library.yaml(path)["a"].append(3)
    path.write_text("a: []\n")
    assert library.yaml(path) == {"a": [1, 2]}
    with pytest.raises(OtherFileError, match="is not the file that was planned with"):
        Library(library.digests).yaml(path)
    assert list(library.digests) == [shared_name(path)]


def test_scenarios_of_one_library_share_their_terrain():
    library = Library()
    hills = {"terrain.height_m": 5.0, "terrain.cells": 32}
    first, same, other = (
        load_scenario("hover", changes, library).scene
        for changes in (hills, {**hills, "vehicle.mass_kg": 2.0}, {**hills, "terrain.seed": 7})
    )
    assert same is first
    assert other is not first
