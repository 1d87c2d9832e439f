"""Scenarios with ropes, terrain from files, events and crashes, in the closed loop."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import yaml
from heightmap_image import write_heightmap
from scipy.spatial.transform import Rotation

from quadsim.base.errors import InputError
from quadsim.base.files import find
from quadsim.base.parameters import read_yaml
from quadsim.sim.closed_loop import ClosedLoop
from quadsim.sim.log import ERROR
from quadsim.sim.scenario import load_scenario
from quadsim.vehicle.start import standing_height_m
from quadsim.world.scene.terrain import Heightmap


@pytest.fixture
def variant(tmp_path):
    """A scenario that differs from `hover` by some keys."""

    def make(**changes):
        content = read_yaml(find("scenarios", "hover")) | changes
        path = tmp_path / "variant.yaml"
        path.write_text(yaml.safe_dump(content))
        return str(path)

    return make


def test_a_heightmap_beside_the_scenario_is_stood_upon(variant, tmp_path):
    """A plane of slope 0.1 to the east, 2 m high in the middle, along which the feet stand."""
    ticks = np.linspace(-0.5, 0.5, 65) * 64.0
    plane = Heightmap(np.tile(2.0 + 0.1 * ticks, (65, 1)), (64.0, 64.0))
    size, position = write_heightmap(plane, tmp_path / "slope.png")
    keys = {"file": "slope.png", "size_m": list(size), "center_W_m": list(position)}
    scenario = load_scenario(variant(heightmap=keys))
    assert not scenario.scene.is_flat
    contact = scenario.vehicle.contact
    pose = (0.0, 0.0, 0.0)
    height = standing_height_m(scenario.vehicle, scenario.environment, scenario.scene, pose)
    foot = -contact.points_B_m[0][2] * math.sqrt(1.0 + 0.1**2)
    # 16 bits over 6.4 m of relief
    assert height == pytest.approx(2.0 + foot - contact.sag_m, abs=6.4 / 65535)


def test_hills_and_a_heightmap_are_one_too_many(variant):
    with pytest.raises(InputError, match=r"heightmap\.file: with terrain\.height_m"):
        load_scenario(variant(heightmap={"file": "x.png"}, terrain={"height_m": 5.0}))


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (
            {"load": {"mass_kg": 0.2, "rope_length_m": 2000.0}},
            "load.rope_length_m: 2000 m is longer",
        ),
        ({"tether": {"length_m": 1500.0}}, "tether.length_m: 1500 m is longer"),
        (
            {"events": [{"kind": "motor", "at_s": 1.0, "index": 6}]},
            "motors of this vehicle: 0 to 3",
        ),
        ({"events": [{"kind": "drop", "at_s": 1.0, "mass_kg": 9.0}]}, "allowed: what leaves more"),
        ({"events": [{"kind": "meteor", "at_s": 1.0}]}, "'meteor' is not known; allowed: push"),
    ],
)
def test_what_cannot_be_is_refused_with_the_file(variant, keys, words):
    path = variant(**keys)
    with pytest.raises(InputError, match=words) as refusal:
        load_scenario(path)
    assert str(refusal.value).startswith(path)
    assert "\n" not in str(refusal.value)


def test_a_lost_motor_ends_in_a_named_crash_with_motors_off(variant):
    """A quadrotor on three rotors cannot hold its attitude; it comes down, and says so."""
    events = [{"kind": "motor", "at_s": 4.0, "index": 1, "effectiveness": 0.0}]
    loop = ClosedLoop(load_scenario(variant(events=events)), use_truth=True)
    log = loop.fly()
    names = [(event.name, event.level) for event in log.events]
    assert ("disturbance", 1) in names
    crash = next(event for event in log.events if event.name == "crash")
    assert crash.level == ERROR
    assert "motors off" in crash.message
    assert crash.stamp_ns > 4_000_000_000
    # from the height of the flight: not sooner than free fall takes, and the log ends soon after
    height_m = float(log.truth.p_W[:, 2].max()) - 0.3
    assert crash.stamp_ns * 1e-9 > 4.0 + 0.5 * math.sqrt(2.0 * height_m / 9.80665)
    assert int(log.truth.stamp_ns[-1]) - crash.stamp_ns <= 2_100_000_000
    assert float(np.abs(log.motor_speed_radps[-1]).max()) < 1.0


def test_a_push_moves_the_vehicle_and_it_comes_back(variant):
    events = [{"kind": "push", "at_s": 6.0, "duration_s": 0.3, "force_W_N": [6.0, 0.0, 0.0]}]
    log = ClosedLoop(load_scenario(variant(events=events)), use_truth=True).fly()
    t_s = log.truth.stamp_ns * 1e-9
    east = log.truth.p_W[:, 0]
    assert np.abs(east[(t_s > 5.0) & (t_s < 6.0)]).max() < 0.05
    assert east[(t_s > 6.0) & (t_s < 7.5)].max() > 0.1
    assert not [event for event in log.events if event.level == ERROR]


def test_steady_wind_is_hovered_in_at_the_tilt_of_the_closed_form(variant):
    """Thrust along body z carries weight and drag: tan(tilt) = D u / (m g), nose into the wind."""
    drag_N_s_m, wind_mps = 0.3, 6.0
    file = variant(
        environment={"wind_W_mps": [wind_mps, 0.0, 0.0]},
        mission=[{"takeoff": {"height_m": 2.0}}, {"hover": {"duration_s": 15.0}}, {"land": {}}],
    )
    scenario = load_scenario(file)
    vehicle = replace(
        scenario.vehicle,
        body_drag_N_s_m=(drag_N_s_m,) * 3,
        drag_area_m2=(0.0, 0.0, 0.0),
        rotor_drag_N_s2=0.0,
        rolling_moment_N_s2=0.0,
        rotor=replace(scenario.vehicle.rotor, flapping_rad=0.0),
        air_density_kg_m3=0.0,
    )
    log = ClosedLoop(replace(scenario, vehicle=vehicle), use_truth=True).fly()
    t_s = log.truth.stamp_ns * 1e-9
    steady = (t_s > 14.0) & (t_s < 16.0)
    assert np.abs(log.truth.v_W[steady]).max() < 0.02  # it stands in the air
    up_W = Rotation.from_quat(log.truth.q_WB[steady], scalar_first=True).apply([0.0, 0.0, 1.0])
    weight_N = vehicle.mass_kg * 9.80665
    # a residual speed of 2 cm/s is 0.3 % of the wind
    tilt = np.mean(up_W[:, 0] / up_W[:, 2])
    assert tilt == pytest.approx(-drag_N_s_m * wind_mps / weight_N, rel=5e-3)
    assert np.abs(up_W[:, 1]).max() < 5e-3
