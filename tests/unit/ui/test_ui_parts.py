"""What the page is made of, without a page: choices, curves, models, gains, runs."""

import io
import json
import math

import numpy as np
import pytest
import trimesh
import yaml
from click.testing import CliRunner
from ray_casts import cast_rays

from quadsim.api.simulation import Simulation
from quadsim.base.errors import InputError
from quadsim.base.parameters import from_mapping
from quadsim.cli import main
from quadsim.control.parameters import AutopilotParams
from quadsim.lab.tune.step_flights import AXES, fly_steps, make_flights
from quadsim.lab.tune.tuning import load_vehicle
from quadsim.sim.scenario import load_scenario
from quadsim.ui.charts import VIEWS, WINDOW_S, error_panels, options, step_panels
from quadsim.ui.choices import WINDS, FlightSetup, description, scenarios
from quadsim.ui.gain_bench import GAINS, GainBench
from quadsim.ui.models import ModelStore, as_gltf
from quadsim.ui.workspace import MOST_RUNS, Workspace
from quadsim.view.shapes import vehicle_shape
from quadsim.view.world_shapes import GroundPatch, world_shapes
from quadsim.world.scene.obstacles import Box, Cylinder, Obstacle, Pose, Sphere
from quadsim.world.scene.scene import scene_of


@pytest.fixture(scope="module")
def flown():
    return Simulation("hover", seed=7, duration_s=15.0).run()


# ---- choices -----------------------------------------------------------------------------------


def test_the_choices_are_those_that_one_vehicle_flies():
    assert "square" in scenarios()
    assert "formation" not in scenarios()  # twelve vehicles
    assert description("square") == scenarios()["square"] != ""
    assert "no such file" in description("nowhere.yaml")


@pytest.mark.parametrize("wind", WINDS)
def test_the_wind_blows_where_it_is_told_to(wind):
    scenario = FlightSetup("windy_square", wind=wind, wind_to_deg=30.0).simulation().scenario
    named = WINDS[wind]
    if named is None:
        assert scenario.environment == load_scenario("windy_square").environment
        return
    east, north, up = scenario.environment.wind_W_mps
    assert math.hypot(east, north) == pytest.approx(named[0])
    assert up == 0.0
    if named[0]:
        assert math.degrees(math.atan2(east, north)) == pytest.approx(30.0)
    assert scenario.environment.wind.w20_mps == named[1]


def test_keys_and_files_are_those_of_the_command():
    setup = FlightSetup(
        "hover", vehicle="iris", sensors="fcnd", autopilot="fcnd", seed=5,
        keys="vehicle.mass_kg=1.7\n\n duration_s=9", gains={"attitude.tilt_gain": 7.0},
    )  # fmt: skip
    scenario = setup.simulation().scenario
    changes = {"vehicle.mass_kg": 1.7, "duration_s": 9, "autopilot.attitude.tilt_gain": 7.0}
    same = load_scenario("hover", changes, vehicle="iris", sensors="fcnd", autopilot="fcnd", seed=5)
    assert (scenario.file, scenario.vehicle) == (same.file, same.vehicle)
    assert (scenario.sensors, scenario.autopilot) == (same.sensors, same.autopilot)
    with pytest.raises(InputError, match="KEY=VALUE"):
        FlightSetup("hover", keys="mass").simulation()


# ---- curves ------------------------------------------------------------------------------------


def test_the_error_is_estimate_minus_truth(flown):
    """Against plain interpolation."""
    truth, estimate = flown.truth, flown.estimate
    for axis, panel in enumerate(error_panels(flown.log)):
        error, high, low = panel.curves
        true = np.interp(error.time_s, truth.stamp_ns * 1e-9, truth.p_W[:, axis])
        there = np.isin(estimate.stamp_ns * 1e-9, error.time_s)
        np.testing.assert_allclose(error.values, estimate.p_W[there, axis] - true, atol=1e-6)
        np.testing.assert_allclose(high.values, 3.0 * estimate.sigma[there, axis])
        np.testing.assert_array_equal(low.values, -high.values)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("since_s", [0.0, 14.99, 1e9])
def test_every_view_is_json_of_few_points(view, since_s):
    simulation = Simulation("hover", seed=7)
    simulation.step(1500)
    chart = options(VIEWS[view](simulation.log(min(since_s, simulation.time_s - 0.05))))
    text = json.dumps(chart, allow_nan=False)
    assert len(text) < 200_000
    assert len(chart["grid"]) == len(chart["xAxis"]) == len(chart["yAxis"])
    assert {series["xAxisIndex"] for series in chart["series"]} <= set(range(len(chart["grid"])))
    assert max(len(series["data"]) for series in chart["series"]) <= 300
    assert WINDOW_S > 0.0


# ---- models ------------------------------------------------------------------------------------


def _loaded(content):
    return trimesh.load(io.BytesIO(content), file_type="glb").to_geometry()


def test_a_model_holds_the_vehicle():
    shape = vehicle_shape(load_scenario("square").vehicle)
    mesh = _loaded(as_gltf(shape.body))
    assert len(mesh.faces) == len(shape.body.faces)
    np.testing.assert_allclose(mesh.bounds[0], shape.body.points_m.min(axis=0), atol=1e-6)
    np.testing.assert_allclose(mesh.bounds[1], shape.body.points_m.max(axis=0), atol=1e-6)


@pytest.mark.parametrize("scenario", ["square", "forest", "hills_5m"])
def test_models_of_a_flight_are_kept_by_their_content(scenario):
    store, loaded = ModelStore(), load_scenario(scenario)
    first, again = (store.of_flight(loaded, np.zeros((1, 3))) for _ in range(2))
    assert first == again
    assert (first.discs is None) == (not loaded.vehicle.rotor_directions)
    for name in filter(None, (first.body, first.ghost, first.discs, first.world)):
        assert store.get(name)[:4] == b"glTF"
        assert len(store.get(name)) < 12_000_000
    assert store.get("../setup.py") is None


def test_rays_meet_the_drawn_world_where_sensors_meet_the_true_one():
    """Triangles against the ray casting of the range finders."""
    q = _unit(np.array([[0.9, 0.1, -0.3, 0.3]]))[0]
    obstacles = [
        Obstacle("box", Box((1.0, 2.0, 0.6)), Pose((3.0, -1.0, 2.0), tuple(q.tolist()))),
        Obstacle("ball", Sphere(0.8), Pose((-3.0, 2.0, 1.5))),
        Obstacle("post", Cylinder(0.5, 2.0), Pose((0.0, 4.0, 1.0))),
    ]
    scene = scene_of(obstacles)
    shapes = list(world_shapes(scene, 0.0, GroundPatch()))
    assert len(shapes) == 4
    corners = np.concatenate([shape.points_m[shape.faces] for shape in shapes[1:]])
    rng = np.random.default_rng(5)
    targets = np.repeat([(3.0, -1.0, 2.0), (-3.0, 2.0, 1.5), (0.0, 4.0, 1.0)], 60, axis=0)
    origins = targets + 6.0 * _unit(rng.normal(size=(180, 3)) * [1.0, 1.0, 0.2])
    rays = _unit(targets + rng.uniform(-0.2, 0.2, (180, 3)) - origins)
    ranges, _ = cast_rays(scene, -100.0, origins, rays, 50.0)
    # round things have corners when drawn
    np.testing.assert_allclose(_first_hit(corners, origins, rays), ranges, atol=0.03)
    assert np.isfinite(ranges).all()


def _first_hit(corners, origins, rays):
    """Distance to the nearest of (F, 3, 3) triangles of each of N rays, by solving for it."""
    edges = np.moveaxis(corners[:, 1:] - corners[:, :1], 1, 2)  # (F, 3, 2)
    found = []
    for origin, ray in zip(origins, rays, strict=True):
        system = np.concatenate([edges, np.broadcast_to(-ray[:, None], (len(edges), 3, 1))], axis=2)
        solvable = np.abs(np.linalg.det(system)) > 1e-12
        u, v, distance = np.linalg.solve(
            system[solvable], (origin - corners[solvable, 0])[:, :, None]
        )[:, :, 0].T
        inside = (u >= -1e-9) & (v >= -1e-9) & (u + v <= 1.0 + 1e-9) & (distance > 0.0)
        found.append(distance[inside].min(initial=np.inf))
    return np.array(found)


def _unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


# ---- gains -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bench():
    return GainBench("x500", "default", "default")


def test_every_slider_reads_what_it_writes(bench):
    flat = dict(bench.start)
    for k, gain in enumerate(GAINS):
        gain.write(flat, 0.01 + 0.001 * k)
        assert gain.read(flat) == 0.01 + 0.001 * k
        assert gain.spec.doc
    assert [gain.read(flat) for gain in GAINS] == [0.01 + 0.001 * k for k in range(len(GAINS))]
    assert set(bench.changed(flat)) == {gain.key for gain in GAINS}
    assert bench.changed(bench.start) == {}


def test_the_steps_are_those_that_tuning_flies(bench):
    flat = dict(bench.start)
    GAINS[0].write(flat, 1.0)
    tried = bench.try_out(flat)
    again = bench.try_out(dict(bench.start))
    scenario = load_vehicle("x500", "default", "default", 1)
    steps = fly_steps(make_flights(scenario, 1), scenario.autopilot)
    assert again.steps.cost == steps.cost
    assert tried.steps.of("x").figures.rise_s > steps.of("x").figures.rise_s  # a lower gain
    panels = step_panels(tried.steps, again.steps, windy=False)
    assert [panel.title.split(",")[0] for panel in panels] == list(AXES)
    assert [curve.name for curve in panels[0].curves] == ["file", "now", "step"]


def test_a_saved_file_has_the_gains(bench):
    flat = dict(bench.start)
    GAINS[8].write(flat, 20.0)
    params = from_mapping(AutopilotParams, yaml.safe_load(bench.file_text(flat)), "file")
    assert params.attitude.rate_gain[:2] == (20.0, 20.0)
    assert params == bench.params(flat)


# ---- runs --------------------------------------------------------------------------------------


def test_runs_have_numbers_and_the_oldest_goes(flown):
    workspace = Workspace()
    numbers = [workspace.add("hover", flown) for _ in range(MOST_RUNS + 1)]
    assert len(set(numbers)) == len(numbers)
    assert len(workspace.runs) == MOST_RUNS
    page = workspace.report(numbers[-2:])
    assert "2 runs compared" in page
    for wrong in ([], numbers[-9:], numbers[:1]):
        with pytest.raises(InputError):
            workspace.report(wrong)
    with pytest.raises(InputError, match="nowhere"):
        workspace.open("nowhere.mcap")
    with pytest.raises(InputError, match="type the path"):
        workspace.open(" ")


def test_a_bag_is_opened_as_recorded_or_with_an_estimator(tmp_path):
    bag = tmp_path / "run" / "bag"
    command = ["sim", "--scenario", "hover", "--duration", "8", "--bag", str(bag), "--no-report"]
    CliRunner().invoke(main.main, [*command, "--output", str(tmp_path / "out")])
    workspace = Workspace()
    recorded = workspace.open(str(bag.parent))  # a run's folder
    again = workspace.open(f" {bag} ", estimator="eskf")
    titles = [title for title, _ in workspace.runs.values()]
    assert titles == ["1: run", "2: bag, eskf"]
    truth, replayed = (workspace.runs[number][1].truth for number in (recorded, again))
    np.testing.assert_array_equal(truth.p_W, replayed.p_W)
    with pytest.raises(InputError, match="/quad7"):
        workspace.open(str(bag), namespace="/quad7")
