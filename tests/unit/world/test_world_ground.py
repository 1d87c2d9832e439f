"""The ground, place, gravity, wind and field that a scenario has from its world's file."""

import math
from dataclasses import replace

import numpy as np
import pytest
import trimesh
import yaml
from heightmap_image import write_heightmap

from quadsim.base.errors import InputError
from quadsim.geometry.geodesy import Datum
from quadsim.geometry.rotation import from_euler, to_euler, unrotate
from quadsim.sim.closed_loop import ClosedLoop
from quadsim.sim.scenario import load_scenario
from quadsim.vehicle.start import standing_height_m, standing_pose
from quadsim.world.ground import standing_surface_m
from quadsim.world.scene.terrain import Heightmap

LEVEL = "<plane><normal>0 0 1</normal><size>9 9</size></plane>"
SLOPE_RAD = 0.12
SLOPED = f"<plane><normal>{math.sin(SLOPE_RAD)} 0 {math.cos(SLOPE_RAD)}</normal></plane>"
FLOOR = "<box><size>40 40 0.5</size></box>"
START = (0.0, 0.0, 0.0)


def model(geometry, pose="0 0 0 0 0 0"):
    return (
        f"<model name='m'><static>true</static><pose>{pose}</pose><link name='l'>"
        f"<collision name='c'><geometry>{geometry}</geometry></collision></link></model>"
    )


@pytest.fixture
def scenario(tmp_path):
    """Load a short flight in a world of these elements, which lies beside its scenario."""

    def load(inside, **keys):
        world = f"<sdf version='1.9'><world name='w'>{inside}</world></sdf>"
        (tmp_path / "w.sdf").write_text(world)
        content = {
            "description": "a short flight",
            "vehicle": "x500",
            "sensors": "default",
            "duration_s": 30.0,
            "world": "w.sdf",
            "mission": [{"takeoff": {"height_m": 2.0}}, {"land": {}}],
        }
        path = tmp_path / "flight.yaml"
        path.write_text(yaml.safe_dump(content | keys))
        return load_scenario(str(path))

    return load


@pytest.mark.parametrize(
    ("geometry", "pose", "ground_m", "words"),
    [
        (LEVEL, "0 0 -10 0 0 0", -10.0, "flat ground at -10 m"),
        (LEVEL, "0 0 3 0 0 0", 3.0, "flat ground at 3 m"),
        (FLOOR, "0 0 -3.25 0 0 0", -3.0, "a floor at -3 m"),
        (FLOOR, "0 0 2 0 0 0", 2.25, "a floor at 2.25 m"),
    ],
)
def test_level_ground_of_any_height_is_that_of_the_flight(
    scenario, geometry, pose, ground_m, words
):
    loaded = scenario(model(geometry, pose))
    assert loaded.notes == (f"from w.sdf: {words}",)
    log = ClosedLoop(loaded).fly()
    assert [event.name for event in log.events][-1] == "disarmed"
    feet_m = -min(foot[2] for foot in loaded.vehicle.contact.points_B_m)
    sag_m = loaded.vehicle.contact.sag_m
    for row in (0, -1):
        assert log.truth.p_W[row, 2] == pytest.approx(ground_m + feet_m - sag_m, abs=1e-3)
    assert log.truth.p_W[:, 2].max() == pytest.approx(ground_m + feet_m + 2.0, abs=0.3)
    assert log.notes == list(loaded.notes)


def test_a_vehicle_stands_and_lands_along_a_slope(scenario):
    """It rests where the springs of its feet balance weight and friction, so that it stays so."""
    loaded = scenario(model(SLOPED), duration_s=40.0)
    assert loaded.notes == ("from w.sdf: ground sloped by 6.88 deg, 0 m at the origin",)
    assert not loaded.scene.is_flat
    height_m, q_WB = standing_pose(loaded.vehicle, loaded.environment, loaded.scene, START)
    feet = np.array(loaded.vehicle.contact.points_B_m)
    sag_m, arm_m = loaded.vehicle.contact.sag_m, -feet[:, 2].mean()
    # n k (x_i lean) x_i = m g sin(slope) arm, with k = m g / (n sag)
    lean = sag_m * arm_m * math.sin(SLOPE_RAD) / (feet[:, 0] ** 2).mean()
    assert to_euler(q_WB) == pytest.approx((0.0, SLOPE_RAD + lean, 0.0), abs=lean**3)
    assert height_m == pytest.approx(arm_m / math.cos(SLOPE_RAD) - sag_m, abs=1e-6)
    log = ClosedLoop(loaded).fly()
    waits = log.truth.stamp_ns < 1_000_000_000
    assert np.abs(log.truth.v_W[waits]).max() < 0.03  # its friction springs take the load up
    pitch = np.array([to_euler(tuple(q))[1] for q in log.truth.q_WB[waits]])
    assert np.abs(pitch - pitch[0]).max() < 0.003
    assert [event.name for event in log.events][-1] == "disarmed"
    assert to_euler(tuple(log.truth.q_WB[-1]))[1] == pytest.approx(SLOPE_RAD + lean, abs=0.01)
    x_m, _, z_m = log.truth.p_W[-1]
    assert z_m == pytest.approx(height_m - x_m * math.tan(SLOPE_RAD), abs=0.01)


def test_the_heading_is_kept_on_a_slope(scenario):
    """The feet's plane is the slope's, and body x still points where the yaw says."""
    loaded = scenario(model(SLOPED))
    vehicle = replace(
        loaded.vehicle, contact=replace(loaded.vehicle.contact, sag_m=2e-4)
    )  # stiff feet lean little
    _, q_WB = standing_pose(vehicle, loaded.environment, loaded.scene, (3.0, -2.0, 2.0))
    up_B = unrotate(q_WB, (math.sin(SLOPE_RAD), 0.0, math.cos(SLOPE_RAD)))
    assert up_B == pytest.approx((0.0, 0.0, 1.0), abs=2e-3)
    assert to_euler(q_WB)[2] == pytest.approx(2.0, abs=SLOPE_RAD**2)


def test_at_an_edge_it_stands_level(scenario):
    """Two feet on a step of 1 m and two beside it are no plane."""
    step = model("<box><size>2 2 1</size></box>", "1 0 0.5 0 0 0")
    loaded = scenario(model(LEVEL) + step)
    height_m, q_WB = standing_pose(loaded.vehicle, loaded.environment, loaded.scene, START)
    assert q_WB == from_euler(0.0, 0.0, 0.0)
    foot_m = min(foot[2] for foot in loaded.vehicle.contact.points_B_m)
    assert height_m == pytest.approx(1.0 - foot_m - loaded.vehicle.contact.sag_m, abs=1e-6)


@pytest.mark.parametrize("from_m", [-30.0, 2.0])
def test_a_mesh_is_ground_at_any_height_as_trimesh_sees_it(scenario, tmp_path, from_m):
    """Hills of 8 m whose lowest point is below, or above, z = 0."""
    side = np.linspace(-40.0, 40.0, 21)
    x, y = np.meshgrid(side, side)
    z = from_m + 4.0 * (1.0 + np.sin(0.2 * x) * np.cos(0.15 * y))
    points = np.stack((x, y, z), axis=-1).reshape(-1, 3)
    low = (np.arange(20)[:, None] * 21 + np.arange(20)).ravel()
    faces = np.concatenate((low[:, None] + [0, 1, 22], low[:, None] + [0, 22, 21]))
    mesh = trimesh.Trimesh(points, faces)
    mesh.export(tmp_path / "hills.stl")
    loaded = scenario(model("<mesh><uri>hills.stl</uri></mesh>"))
    assert "ground" in loaded.notes[0]
    flat = mesh.triangles * (1.0, 1.0, 0.0)
    for place in np.random.default_rng(3).uniform(-35.0, 35.0, (20, 2)):
        beneath = np.tile((*place, 0.0), (len(flat), 1))
        shares = trimesh.triangles.points_to_barycentric(flat, beneath)
        k = shares.min(axis=1).argmax()
        found = standing_surface_m(loaded.scene, loaded.environment.ground_height_m, *place)
        # an STL has 32 bits
        assert found == pytest.approx(shares[k] @ mesh.triangles[k, :, 2], abs=1e-5)
    height_m = standing_height_m(loaded.vehicle, loaded.environment, loaded.scene, START)
    assert height_m == pytest.approx(from_m + 4.0 + 0.22, abs=0.25)


def test_terrain_below_zero_is_not_filled_up(scenario, tmp_path):
    bowl = Heightmap(np.tile(np.abs(np.linspace(-8.0, 8.0, 65)), (65, 1)), (64.0, 64.0))
    size, position = write_heightmap(bowl, tmp_path / "bowl.png")
    uri = (
        f"<heightmap><uri>bowl.png</uri><size>{' '.join(map(str, size))}</size>"
        f"<pos>{position[0]} {position[1]} {position[2] - 20.0}</pos></heightmap>"
    )
    loaded = scenario(model(uri))
    assert loaded.environment.ground_height_m == pytest.approx(-20.0, abs=1e-3)
    assert "terrain from -20 to -12 m" in loaded.notes[0]
    height_m = standing_height_m(loaded.vehicle, loaded.environment, loaded.scene, (16.0, 0.0, 0.0))
    assert height_m == pytest.approx(-16.0 + 0.22, abs=0.05)


WORLD = (
    "<gravity>0 0 -9.78</gravity><magnetic_field>1e-6 2e-5 -3e-5</magnetic_field>"
    "<spherical_coordinates><latitude_deg>-22.9</latitude_deg><longitude_deg>-43.2</longitude_deg>"
    "<elevation>7</elevation></spherical_coordinates>"
    "<wind><linear_velocity>5 2 0</linear_velocity></wind>" + model(LEVEL)
)


def test_place_gravity_wind_and_field_are_taken_and_said(scenario):
    loaded = scenario(WORLD)
    environment = loaded.environment
    assert environment.datum == Datum(-22.9, -43.2, 7.0)
    assert environment.gravity_mps2 == 9.78
    assert environment.wind_W_mps == (5.0, 2.0, 0.0)
    assert environment.field_W_T() == (1e-6, 2e-5, -3e-5)
    assert loaded.estimator.gravity_mps2 == 9.78
    (note,) = loaded.notes
    assert note == (
        "from w.sdf: place -22.9, -43.2 deg, 7 m; gravity 9.78 m/s^2; wind (5, 2, 0) m/s;"
        " magnetic field (1, 20, -30) uT"
    )


def test_what_the_scenario_sets_stays(scenario):
    own = {
        "datum": {"latitude_deg": 60.0},
        "gravity_mps2": 9.82,
        "wind_W_mps": [0.0, 0.0, 0.0],
        "ground_height_m": 0.0,
    }
    environment = scenario(WORLD, environment=own).environment
    assert environment.datum.latitude_deg == 60.0
    assert environment.gravity_mps2 == 9.82
    assert environment.wind_W_mps == (0.0, 0.0, 0.0)
    assert environment.magnetic_field == "model"  # the world's is of another place
    assert "another place" in scenario(WORLD, environment=own).notes[0]


def test_nothing_is_said_where_a_world_adds_nothing():
    for name in ("hover", "forest", "square"):
        assert load_scenario(name).notes == ()


def test_a_world_without_ground_says_where_it_is(scenario):
    loaded = scenario(model("<sphere><radius>1</radius></sphere>", "5 0 3 0 0 0"))
    assert loaded.notes == ("from w.sdf: it has no ground here: flat ground at 0 m",)


def test_gravity_upwards_is_refused(scenario):
    with pytest.raises(InputError, match="downwards"):
        scenario("<gravity>0 0 9.8</gravity>" + model(LEVEL))
