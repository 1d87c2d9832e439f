"""crazyflies.yaml of Crazyswarm2 (IMRCLab/crazyswarm2 at f6154e2, shortened)."""

import pytest
import yaml

from quadsim.base.errors import InputError
from quadsim.drivers.crazyflies import numbered, robots_of
from quadsim.sim.scenario import load_scenario

THEIRS = """
fileversion: 3
robots:
  cf231:
    enabled: true
    uri: radio://0/80/2M/E7E7E7E7E7
    initial_position: [0.0, 0.0, 0.0]
    type: cf21  # see robot_types
  cf5:
    enabled: false
    uri: radio://0/80/2M/E7E7E7E705
    initial_position: [0.0, -0.5, 0.0]
    type: cf21
  cf7:
    enabled: true
    uri: radio://0/80/2M/E7E7E7E707
    initial_position: [1, 0.5, 0]
    type: cf21
    firmware_params: {hlCommander: {groupmask: 5}}
  obstacle: {enabled: true, initial_position: [0, 0, 0], type: marker}
robot_types:
  cf21: {big_quad: false, firmware_params: {ring: {effect: 7}}}
  marker: {connection: none}
all:
  firmware_logging: {enabled: true}
  firmware_params:
    ring: {effect: 16}
    locSrv: {extPosStdDev: 1e-3}
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "crazyflies.yaml"
    path.write_text(THEIRS)
    return path


def test_who_is_enabled_and_connected(file):
    first, second = robots_of(file)
    assert (first.name, first.initial_position) == ("cf231", (0.0, 0.0, 0.0))
    assert (second.name, second.initial_position) == ("cf7", (1.0, 0.5, 0.0))
    assert second.uri.endswith("07")
    assert first.firmware_params["ring.effect"] == 7  # the type's go before all's
    assert first.firmware_params["locSrv.extPosStdDev"] == 1e-3
    assert [robot.firmware_params["hlCommander.groupmask"] for robot in (first, second)] == [0, 5]


def test_without_a_file_they_are_numbered():
    robots = numbered([(0.0, 0.0, 0.0), (0.0, -0.5, 0.0)])
    assert [robot.name for robot in robots] == ["cf1", "cf2"]
    assert [int(robot.uri[-2:], 16) for robot in robots] == [1, 2]


def test_they_stand_where_the_file_says(file):
    places = [list(robot.initial_position) for robot in robots_of(file)]
    scenario = load_scenario("crazyswarm", {"start.positions_m": places}, vehicles=2)
    assert [pose[:2] for pose in scenario.file.start.poses(2)] == [(0.0, 0.0), (1.0, 0.5)]
    with pytest.raises(InputError, match="positions_m: 2 for 3 vehicles"):
        scenario.file.start.poses(3)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"initial_position": [0, 0]}, "three numbers"),
        ({"initial_position": [0, 0, float("nan")]}, "three numbers"),
        ({"uri": "radio"}, "two hex digits"),
        ({"type": None}, "see robot_types"),
        ({"enabled": False}, "none is enabled"),
        ({"firmware_params": {"ring": {"effect": "x"}}}, "is no number"),
        ({"firmware_params": {"hlCommander": {"groupmask": 1.5}}}, "is no integer"),
        ({"firmware_params": [1]}, "expected keys and values"),
    ],
)
def test_what_is_wrong_is_named(file, keys, words):
    content = yaml.safe_load(THEIRS)
    del content["robots"]["cf7"]
    content["robots"]["cf231"] |= keys
    file.write_text(yaml.safe_dump(content))
    with pytest.raises(InputError, match=words) as error:
        robots_of(file)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("robots", [{}, [], {"a b": {}}, {"all": {}}, {3: {}}])
def test_names_that_no_topic_has_are_refused(file, robots):
    content = yaml.safe_load(THEIRS)
    body = content["robots"]["cf231"]
    content["robots"] = dict.fromkeys(robots, body) if robots else robots
    file.write_text(yaml.safe_dump(content))
    with pytest.raises(InputError):
        robots_of(file)
