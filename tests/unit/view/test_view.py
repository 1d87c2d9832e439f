"""What the viewer draws with, without Rerun, and the layouts for other tools."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from defusedxml.ElementTree import parse
from scipy.spatial.transform import Rotation

from quadsim.base.files import find, known, share_dir
from quadsim.base.parameters import load
from quadsim.cli import main, view
from quadsim.ros.runtime import topics
from quadsim.vehicle.parameters import VehicleParams
from quadsim.view.motion import Rotors, ellipsoids, heading, spaced, xyzw
from quadsim.view.shapes import vehicle_shape

VIEWS = share_dir() / "config" / "views"


def test_an_ellipsoid_has_the_axes_and_the_attitude_of_its_covariance():
    sigma = np.array([0.2, 0.3, 0.5])
    turns = Rotation.random(50, random_state=3)
    R = turns.as_matrix()
    covariance = R @ np.diag(sigma**2) @ np.swapaxes(R, 1, 2)
    half_axes, q = ellipsoids(covariance, sigmas=3.0)
    assert half_axes == pytest.approx(np.tile(3.0 * sigma, (50, 1)), rel=1e-9)
    # turned back, the ellipsoid of the drawing is the covariance again: signs of axes are free
    drawn = Rotation.from_quat(xyzw(q)).as_matrix()
    again = drawn @ (np.eye(3) * (half_axes[:, None] / 3.0) ** 2) @ np.swapaxes(drawn, 1, 2)
    assert again == pytest.approx(covariance, abs=1e-12)
    assert np.linalg.det(drawn) == pytest.approx(np.ones(50))


def test_a_covariance_that_is_none_has_no_ellipsoid():
    covariance = np.stack([np.zeros((3, 3)), np.full((3, 3), np.nan), -np.eye(3)])
    half_axes, q = ellipsoids(covariance)
    assert (half_axes == 0.0).all()
    assert np.linalg.norm(q, axis=1) == pytest.approx(np.ones(3))


def test_rotors_turn_by_the_integral_of_their_speed_in_whatever_blocks_it_comes():
    t_s = np.arange(0.0, 2.0, 0.01)
    stamp_ns = np.round(t_s * 1e9).astype(np.int64)
    # rising and steady: the trapezoidal rule is exact
    speed = np.stack([300.0 * t_s, np.full_like(t_s, 500.0)], axis=1)
    exact = np.stack([150.0 * t_s**2, 500.0 * t_s], axis=1)
    assert Rotors().turn(stamp_ns, speed) == pytest.approx(exact, abs=1e-6)
    rotors = Rotors()
    cuts = np.split(np.arange(len(t_s)), [1, 7, 90])
    angle = np.vstack([rotors.turn(stamp_ns[rows], speed[rows]) for rows in cuts])
    assert angle == pytest.approx(exact, abs=1e-6)


def test_rotors_stand_still_in_a_gap():
    stamp_ns = np.array([0, 100_000_000, 2_100_000_000, 2_200_000_000])
    angle = Rotors().turn(stamp_ns, np.full((4, 1), 10.0))
    assert angle[:, 0] == pytest.approx([0.0, 1.0, 1.0, 2.0])


def test_rows_are_spaced_across_blocks():
    stamp_ns = np.arange(0, 1_000_000_000, 2_000_000)  # 500 Hz
    rows = spaced(stamp_ns, 20_000_000)
    assert len(rows) == 50
    assert (np.diff(stamp_ns[rows]) == 20_000_000).all()
    first, second = stamp_ns[:123], stamp_ns[123:]
    kept = first[spaced(first, 20_000_000)]
    more = second[spaced(second, 20_000_000, int(kept[-1]))]
    assert np.concatenate([kept, more]).tolist() == stamp_ns[rows].tolist()


def test_headings_are_level():
    turns = Rotation.from_euler("ZYX", [[0.4, 0.3, -0.2], [-3.0, 1.2, 2.0]])
    q = np.roll(turns.as_quat(), 1, axis=1)
    level = Rotation.from_quat(xyzw(heading(q)))
    assert level.as_euler("ZYX") == pytest.approx(np.array([[0.4, 0, 0], [-3.0, 0, 0]]), abs=1e-12)


@pytest.mark.parametrize("name", known("vehicles"))
def test_every_vehicle_is_drawn_by_its_file(name):
    params = load(VehicleParams, find("vehicles", name))
    shape = vehicle_shape(params)
    assert [rotor.hub_B_m for rotor in shape.rotors] == list(params.rotor_positions_B_m)
    assert np.isfinite(shape.body.points_m).all()
    assert np.linalg.norm(shape.body.normals, axis=1) == pytest.approx(1.0)
    feet = np.array(params.contact.points_B_m).reshape(-1, 3)
    if len(feet):  # it stands on its feet, but for the thickness of a leg
        reach = 0.1 * np.abs(feet).max()
        assert shape.body.points_m[:, 2].min() == pytest.approx(feet[:, 2].min(), abs=reach)
    for rotor in shape.rotors:
        radius = np.hypot(*rotor.disc.points_m[:, :2].T).max()
        assert radius == pytest.approx(params.rotor.radius_m or radius)


def test_blades_lift_in_their_direction():
    for rotor in vehicle_shape(load(VehicleParams, find("vehicles", "x500"))).rotors:
        points = rotor.blades.points_m
        # a point's way as the rotor turns: what is ahead of a blade's middle is higher
        ahead = rotor.direction * np.cross([0.0, 0.0, 1.0], points)
        blade = points * [1.0, 0.0, 0.0]
        along = ((points - blade) * ahead).sum(axis=1)
        assert (np.sign(along) == np.sign(points[:, 2] - np.median(points[:, 2]))).all()


# ---- layouts of other tools ---------------------------------------------------------------------

TYPES = {name: topic.type_name for name, topic in topics.every_topic(["/quad"])}
#: Display or panel to the types it shows.
RVIZ = {
    "MarkerArray": "visualization_msgs/msg/MarkerArray",
    "Path": "nav_msgs/msg/Path",
    "Odometry": "nav_msgs/msg/Odometry",
    "Pose": "geometry_msgs/msg/PoseStamped",
    "Range": "sensor_msgs/msg/Range",
    "LaserScan": "sensor_msgs/msg/LaserScan",
    "PointCloud2": "sensor_msgs/msg/PointCloud2",
    "Wrench": "geometry_msgs/msg/WrenchStamped",
    "SetGoal": "geometry_msgs/msg/PoseStamped",
}
LATCHED = {"/quad/markers", "/quad/mission"}


def rviz_parts() -> Iterator[dict]:
    manager = yaml.safe_load((VIEWS / "quadsim.rviz").read_text())["Visualization Manager"]
    yield from (part for part in manager["Displays"] + manager["Tools"] if "Topic" in part)


def test_rviz_shows_topics_of_the_graph_with_their_types():
    parts = list(rviz_parts())
    assert {"/quad/ground_truth/odom", "/quad/odometry/filtered", "/quad/markers"} <= {
        part["Topic"]["Value"] for part in parts
    }
    for part in parts:
        topic = part["Topic"]
        assert TYPES[topic["Value"]] == RVIZ[part["Class"].rpartition("/")[2]], topic
        # what is latched is asked for as latched, or a late viewer never sees it
        latched = topic["Durability Policy"] == "Transient Local"
        assert latched == (topic["Value"] in LATCHED), topic


def has_field(name: str, path: list[str]) -> bool:
    """Whether a message of a topic has a field; indices of arrays are left out of the path."""
    message = topics.message_class(TYPES[name])()
    for part in path:
        if not hasattr(message, part):
            return False
        message = getattr(message, part)
    return True


def fields_of(panel: dict) -> Iterator[str]:
    yield from (path["value"] for path in panel.get("paths", []))


def test_foxglove_shows_topics_of_the_graph_and_their_fields():
    layout = json.loads((VIEWS / "foxglove.json").read_text())
    panels = layout["configById"]
    plotted = [value for panel in panels.values() for value in fields_of(panel)]
    assert len(plotted) > 20
    for value in plotted:
        name, *path = value.split(".")
        assert has_field(name, [part.partition("[")[0] for part in path]), value
    space = panels["3D!space"]
    assert space["topics"].keys() <= TYPES.keys()
    assert space["publish"]["poseTopic"] in TYPES
    others = (
        panels["RawMessages!events"]["topicPath"],
        panels["map!gps"]["followTopic"],
        panels["DiagnosticSummary!all"]["topicToRender"],
    )
    assert set(others) <= TYPES.keys()


def panel_names(node: object) -> Iterator[str]:
    """Panels that a Foxglove layout places."""
    if isinstance(node, str):
        yield node
    elif isinstance(node, dict):
        for part in ("first", "second"):
            yield from panel_names(node[part])


def test_foxglove_places_every_panel_once():
    layout = json.loads((VIEWS / "foxglove.json").read_text())
    placed = list(panel_names(layout["layout"]))
    for tab in layout["configById"]["Tab!series"]["tabs"]:
        placed += panel_names(tab["layout"])
    assert sorted(placed) == sorted(layout["configById"])


def test_plotjuggler_plots_fields_of_the_graph_and_takes_their_topics():
    root = parse(str(VIEWS / "plotjuggler.xml")).getroot()
    curves = [curve.get("name") for curve in root.iter("curve")]
    assert len(curves) > 15
    for plugin in root.iter("plugin"):
        taken = {topic.get("name") for topic in plugin.iter("topic")}
        assert taken <= TYPES.keys()
        for curve in curves:
            (name,) = (topic for topic in taken if curve.startswith(f"{topic}/"))
            path = curve.removeprefix(f"{name}/").split("/")
            if TYPES[name] == "sensor_msgs/msg/JointState":  # by the joint's name, then the field
                path = path[1:]
            assert has_field(name, path), curve
    assert Path(VIEWS / "plotjuggler.xml").read_text().count("<DockArea") > 5


# ---- the command, where Rerun is not needed ------------------------------------------------------


def run(*arguments: str):
    return CliRunner().invoke(main.main, ["view", *arguments])


def test_without_rerun_one_line_says_what_helps(monkeypatch):
    monkeypatch.setattr(view, "find_spec", lambda name: None)
    result = run("square", "--save", "x.rrd")
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "pip install 'quadsim[view]'" in result.stderr


def test_bags_are_told_from_scenarios(tmp_path):
    assert view.is_bag(str(tmp_path))
    assert view.is_bag("flight.mcap")
    assert view.is_bag("flight.db3")
    assert not view.is_bag("square")
    assert not view.is_bag("my_scenario.yaml")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["x.rrd", "--save", "y.rrd"], "--save: not for a recording"),
        (["x.mcap", "--seed", "3"], "--seed: not for a bag; it goes with: flight"),
        (["square", "--domain", "3"], "--domain: not for a flight; it goes with: live"),
        (["--duration", "3"], "--duration: not for a live graph"),
        (["square", "--port", "3"], "--port: of the page for a browser; add --web"),
        (["square", "--bind", "127.0.0.1"], "--bind: of the page"),
        (["square", "--browser"], "--browser: of the page"),
    ],
)
def test_an_option_that_would_be_ignored_is_refused(arguments, words):
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert words in result.stderr
