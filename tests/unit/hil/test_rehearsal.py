"""Rehearsals: what the judge sees, what a flight comes to, and files that are refused."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import yaml

from quadsim.base.errors import InputError
from quadsim.base.files import find, find_world, known
from quadsim.cli.main import main
from quadsim.geometry.rotation import from_euler
from quadsim.hil.guard.parameters import GuardParams
from quadsim.hil.rehearsal.flight import TRACK, Outcome, RehearsalFlight
from quadsim.hil.rehearsal.hil_side import VirtualLidar
from quadsim.hil.rehearsal.judge import Judge, hull_radius_m
from quadsim.hil.rehearsal.parameters import PassParams, TroubleParams
from quadsim.hil.rehearsal.rehearsal import load_rehearsal
from quadsim.hil.rehearsal.stand_in import Telemetry
from quadsim.hil.rehearsal.stopping import StopWatch
from quadsim.lab.rehearsals import criteria, flights_to_draw, rehearsal_summary
from quadsim.sensors.devices import load_device
from quadsim.world.scene.movers import Mover, Movers
from quadsim.world.scene.obstacles import Box, Cylinder, Obstacle, Pose, Sphere
from quadsim.world.scene.scene import scene_of
from quadsim.world.sdf.world_file import load_world


def test_the_judge_measures_to_what_stands_and_what_moves():
    """A pillar of 0.5 m at the origin, and one that comes along x = 5 at 2 m/s."""
    pillar = Obstacle("pillar", Cylinder(0.5, 6.0), Pose((0.0, 0.0, 3.0)))
    movers = Movers([Mover("other", Cylinder(0.3, 6.0), ((5.0, -8.0, 3.0), (5.0, 8.0, 3.0)), 2.0)])
    judge = Judge(scene_of([pillar]), 0.4)
    movers.update(0.0, (3.0, 0.0, 2.0), (0.0, 0.0, 0.0))
    assert judge.look((3.0, 0.0, 2.0), movers) == pytest.approx(3.0 - 0.5 - 0.4)
    movers.update(4.0, (3.0, 0.0, 2.0), (0.0, 0.0, 0.0))  # it is at (5, 0)
    assert judge.look((3.0, 0.0, 2.0), movers) == pytest.approx(2.0 - 0.3 - 0.4)
    movers.update(6.0, (3.0, 0.0, 2.0), (0.0, 0.0, 0.0))
    judge.look((3.0, 0.0, 2.0), movers)
    assert judge.clearance_m == pytest.approx(1.3)
    assert not judge.collided
    judge.look((0.85, 0.0, 2.0), movers)
    assert judge.collided


def test_a_position_that_is_no_number_is_a_collision():
    judge = Judge(scene_of([Obstacle("box", Box((1.0, 1.0, 1.0)))]), 0.4)
    judge.look((math.nan, 0.0, 0.0), Movers([]))
    assert judge.collided


def test_a_virtual_lidar_that_turns_sees_a_ball_where_it_is():
    """10 Hz, at 4 m/s and 1.5 rad/s, tilted, off the middle: each ray from its own place.

    Taken at once, the last rays would be off by 0.4 m and 0.15 rad.
    """
    centre_W, radius_m = np.array([3.0, 0.5, 2.0]), 1.0
    params = replace(
        load_device("lidar", "virtual_lidar"),
        rate_hz=10.0, spinning=True, position_B_m=(0.1, -0.2, 0.05), rotation_deg=(5.0, 0.0, 90.0),
    )  # fmt: skip
    scene = scene_of([Obstacle("ball", Sphere(radius_m), Pose(tuple(centre_W)))])
    lidar = VirtualLidar(params, scene, 1, level=False)
    seen = []
    for k in range(50):
        t_s = 0.02 * k
        q_WB = from_euler(0.1, -0.2, 1.5 * t_s)
        said = Telemetry(20_000_000 * k, (4.0 * t_s - 2.0, -3.0, 2.0), q_WB, (4.0, 0.0, 0.0), "")
        scan = lidar.look(said, [])
        if scan is not None:
            above = scan.points_W[scan.points_W[:, 2] > 0.5]  # the floor is met by tilted rays
            seen += np.linalg.norm(above - centre_W, axis=1).tolist()
    assert len(seen) > 100
    # straight between poses 20 ms apart; ranges in float32
    assert seen == pytest.approx([radius_m] * len(seen), abs=1e-4)


def test_the_hull_of_the_x500_reaches_to_the_tips_of_its_rotors():
    """Hubs at 0.174 m, 0.174 m and 0.0581 m up, rotors of 0.1396 m."""
    vehicle = load_rehearsal("pillars").scenario.vehicle
    assert hull_radius_m(vehicle) == pytest.approx(
        math.hypot(math.hypot(0.174, 0.174) + 0.1396, 0.0581), rel=1e-6
    )


def test_a_stop_is_measured_from_the_trouble_on():
    """4 m/s for 0.2 s, then braking by 4 m/s^2: 0.8 m + 2 m after 1.2 s."""
    watch = StopWatch(GuardParams())
    trouble = TroubleParams("pose", at_s=1.0)
    dt_s, x = 0.001, 0.0
    for k in range(4000):
        t_s = k * dt_s
        v = 4.0 if t_s < 1.2 else max(4.0 - 4.0 * (t_s - 1.2), 0.0)
        watch.begin(trouble, t_s, (x, 0.0, 2.0), (v, 0.0, 0.0))
        watch.look(t_s, (x, 0.0, 2.0), (v, 0.0, 0.0))
        x += v * dt_s
    watch.landing_began(3.0)
    (stop,) = watch.stops
    slow_s, slow_m = 0.15 / 4.0, 0.15**2 / 8.0  # it counts as standing so much earlier
    assert stop.speed_mps == pytest.approx(4.0)
    assert stop.stop_s == pytest.approx(1.2 - slow_s, abs=0.002)
    assert stop.stop_m == pytest.approx(2.8 - slow_m, abs=0.01)
    assert stop.landing_s == pytest.approx(2.0)
    assumed = GuardParams().vehicle
    assert stop.allowed_m == pytest.approx(4.0 * assumed.latency_s + 8.0 / assumed.brake_mps2)


def outcome(seed=1, **given):
    """A flight that arrived."""
    keys = {
        "arrived": True, "collided": False, "landed": False, "clearance_m": 0.5, "time_s": 10.0,
        "reason": "arrived", "speed_mps": 4.0, "way_m": 40.0, "stops": (), "events": (),
        "track": np.zeros((1, len(TRACK))),
    } | given  # fmt: skip
    return Outcome(seed=seed, **keys)


def test_criteria_count_collisions_arrivals_and_landings():
    flights = [outcome(seed) for seed in range(1, 20)]
    flights.append(outcome(20, arrived=False, collided=True, clearance_m=-0.01, time_s=99.0))
    summary = rehearsal_summary("x", flights, PassParams())
    assert (summary["collisions"], summary["arrivals"], summary["passed"]) == (1, 19, False)
    assert (summary["clearance_m"], summary["clearance_seed"]) == (-0.01, 20)
    assert (summary["time_median_s"], summary["speed_mean_mps"]) == (10.0, 4.0)
    assert [item["passed"] for item in criteria(flights, PassParams())] == [False, True]
    assert all(item["passed"] for item in criteria(flights[:-1], PassParams()))
    asked = PassParams(lands=True, stop_s=2.0)
    assert [item["passed"] for item in criteria(flights[:-1], asked)] == [True, True, False, False]
    assert flights_to_draw(flights)[0].seed == 20


@pytest.mark.parametrize("name", known("rehearsals"))
def test_every_file_is_a_rehearsal(name):
    rehearsal = load_rehearsal(name, 3)
    assert rehearsal.scenario.file.seed == rehearsal.field.seed == 3
    assert not rehearsal.scenario.scene.shapes.boxes.size  # it flies in an empty hall
    assert 0.85 <= rehearsal.scenario.vehicle.mass_kg / 2.0643 <= 1.2


def test_another_seed_is_another_field_and_vehicle():
    one, other = load_rehearsal("pillars", 1), load_rehearsal("pillars", 2)
    assert one.field.obstacles != other.field.obstacles
    assert one.scenario.vehicle.mass_kg != other.scenario.vehicle.mass_kg
    assert load_rehearsal("pillars", 1, 2.5).guard.limits.speed_max_mps == 2.5
    assert load_rehearsal("pillars", 1, 2.5).planner.speed.speed_mps == 2.5


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"field": ""}, "field, world: neither"),
        ({"troubles": [{"what": "rain", "at_s": 1.0}]}, "'rain' is not known"),
        ({"troubles": [{"what": "turned", "at_s": 1.0}]}, "angle_deg: 0 with turned"),
        (
            {"troubles": [{"what": "pose", "at_s": 1.0, "angle_deg": 9.0}]},
            "angle_deg: 9 with pose; allowed: other than 0 with turned",
        ),
        ({"troubles": [{"what": "y_up", "at_s": 1.0}]}, "y_up: allowed: at_s 0"),
        ({"mass_share": [1.2, 0.9]}, "mass_share"),
        ({"world": "forest"}, "field, world: 'forest' and 'forest'; allowed: one of them"),
        ({"goal_W_m": [5.0, 0.0, 2.0]}, "goal_W_m: only with world"),
        ({"speed_mps": 30.0}, r"speed_mps: 30.0 is out of range; allowed: .* 20"),
        (
            {
                "troubles": [
                    {"what": "scan", "at_s": 1.0, "duration_s": 0.2},
                    {"what": "pose", "at_s": 9.0},
                ]
            },
            r"passes.arrivals: 0.95, but troubles.1 \(pose\) is for good",
        ),
        ({"stand_in": {"mission": []}}, "stand_in: mission: not here"),
        ({"stand_in": [1]}, "stand_in: expected keys"),
        ({"lidar": 3}, "lidar: 3 is no device"),
    ],
)
def test_what_cannot_be_flown_is_refused_in_one_line(tmp_path, changes, words):
    content = yaml.safe_load(find("rehearsals", "pillars").read_text()) | changes
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(content))
    with pytest.raises(InputError, match=words) as caught:
        load_rehearsal(str(path))
    assert "\n" not in str(caught.value)


def test_a_world_is_flown_between_places_that_are_free(tmp_path):
    tree = load_world(find_world("forest")).obstacles[-1]
    content = yaml.safe_load(find("rehearsals", "pillars").read_text())
    content |= {"field": "", "world": "forest", "start_W_m": [0.0, 0.0, 2.0]}
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(content))
    assert tree in load_rehearsal(str(path)).field.obstacles
    path.write_text(yaml.safe_dump(content | {"goal_W_m": [*tree.pose_W.p_A[:2], 2.0]}))
    with pytest.raises(
        InputError, match=r"goal_W_m: .* from an obstacle; allowed: more than 0\.39 m"
    ):
        load_rehearsal(str(path))


def short(name, seconds, **changes):
    """A rehearsal that is over after some seconds."""
    rehearsal = load_rehearsal(name)
    return replace(rehearsal, params=replace(rehearsal.params, duration_s=seconds, **changes))


@pytest.fixture(scope="module")
def twice():
    """The same flight twice."""
    return [RehearsalFlight(short("row", 1.5)).fly() for _ in range(2)]


def test_the_same_seed_gives_the_same_flight(twice):
    first, second = twice
    assert first.reason.startswith("out of time")
    assert first.digest == second.digest
    assert first.row() == second.row()


def test_pose_lost_at_speed_stands_within_what_is_promised_and_lands():
    """Within v latency + v^2 / (2 brake) + 0.3 m and 2 s; a landing begins, and it is said why."""
    flight = RehearsalFlight(load_rehearsal("pose_lost"))
    flown = flight.fly()
    (stop,) = flown.stops
    assert stop.speed_mps > 3.0
    assert stop.stop_m < stop.allowed_m + 0.3
    assert stop.stop_s < 2.0
    assert flown.landed
    assert not flown.collided
    assert any("pose lost" in event.message for event in flown.events)
    assert flight.vehicle.manager.finished
    assert all(item["passed"] for item in criteria([flown], flight.rehearsal.params.passes))


@pytest.mark.parametrize("speed_mps", [4.0, pytest.param(0.8, marks=pytest.mark.thorough)])
def test_a_frozen_pose_is_found_at_any_speed_and_the_vehicle_lands(speed_mps):
    """Slower than 1 m/s it flew on, to the end of the rehearsal."""
    flight = RehearsalFlight(load_rehearsal("pose_frozen", speed_mps=speed_mps))
    flown = flight.fly()
    (stop,) = flown.stops
    assert stop.speed_mps > 0.75 * speed_mps
    assert flown.landed
    assert not flown.collided
    assert all(item["passed"] for item in criteria([flown], flight.rehearsal.params.passes))


def test_a_vehicle_that_does_not_land_when_told_is_told_on():
    """It says yes for 6 s and hears no landing; the guard's own descent goes on beside it."""
    troubles = (TroubleParams("dead_man", 0.5), TroubleParams("land", 0.0, 6.0))
    rehearsal = short("row", 30.0, troubles=troubles, passes=PassParams(arrivals=0.0))
    watch = replace(rehearsal.guard.watch, hold_s=1.0)
    flight = RehearsalFlight(replace(rehearsal, guard=replace(rehearsal.guard, watch=watch)))
    flown = flight.fly()
    assert flown.reason == "landed: guard: dead-man button released"
    assert flown.time_s > 6.0
    assert flight.vehicle.manager.finished


def test_it_arrives_when_every_trouble_is_over():
    """At the goal from the start, at rest: it has arrived as soon as the scans are back."""
    troubles = (TroubleParams("scan", 0.2, 0.4), TroubleParams("commands", 0.1, 0.2))
    rehearsal = short("row", 4.0, troubles=troubles)
    field = replace(rehearsal.field, goal_W=rehearsal.field.start_W)
    flown = RehearsalFlight(replace(rehearsal, field=field)).fly()
    assert (flown.reason, flown.arrived) == ("arrived", True)
    assert flown.time_s == pytest.approx(0.6, abs=0.05)
    assert {stop.what: stop.at_s for stop in flown.stops} == pytest.approx(
        {"scan": 0.2, "commands": 0.1}, abs=0.011
    )


def test_the_command_flies_a_field_and_writes_what_came_of_it(tmp_path, capsys):
    """The judge's smallest distance, against the field's own geometry along the track."""
    folder = tmp_path / "run"
    with pytest.raises(SystemExit) as ended:
        main(["rehearse", "row", "--seed", "2", "--output", str(folder), "--json"])
    assert ended.value.code == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary == json.loads((folder / "summary.json").read_text())
    (run,) = summary["runs"]
    assert (summary["arrivals"], summary["collisions"], run["reason"]) == (1, 0, "arrived")
    assert run["speed_mps"] > 3.0
    assert len(list(folder.iterdir())) == 2


def test_a_suite_without_a_depth_camera_is_refused_in_a_line():
    with pytest.raises(
        InputError, match=r"^--sensors: default has no depth_camera; allowed: a suite"
    ):
        load_rehearsal("pillars", 1, sensors="default")


def test_a_depth_camera_brings_its_guard_and_planner():
    rehearsal = load_rehearsal("pillars", 1, 2.0, sensors="depth")
    assert rehearsal.eye == replace(
        load_device("depth_camera", "realsense_d455"), position_B_m=(0.12, 0.0, 0.02)
    )
    assert rehearsal.planner.speed.look_rad == 0.4
    assert (rehearsal.guard.sight.memory_s, rehearsal.guard.limits.speed_max_mps) == (4.0, 2.0)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [1, 2])
def test_a_depth_camera_ahead_is_enough_to_fly_through_pillars(seed):
    outcome = RehearsalFlight(load_rehearsal("pillars", seed, 2.0, sensors="depth")).fly()
    assert outcome.arrived, outcome.reason
    assert outcome.clearance_m > 0.3
