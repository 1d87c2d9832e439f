"""Rehearsals of several vehicles, each with a stand-in, links and a guard of its own."""

import math

import numpy as np
import pytest

from quadsim.base.errors import InputError
from quadsim.hil.rehearsal.flight import FleetFlight
from quadsim.hil.rehearsal.hil_side import HilSide, OtherVehicle, VirtualLidar
from quadsim.hil.rehearsal.rehearsal import load_rehearsal, refuse_on_dds
from quadsim.hil.rehearsal.stand_in import Telemetry
from quadsim.lab.rehearsals import rehearsal_picture
from quadsim.world.scene.movers import Movers
from quadsim.world.scene.vehicle_track import VehicleTrack

STAND_IN = (
    "stand_in: {vehicle: x500, sensors: motion_capture, estimator: eskf, autopilot: stand_in}\n"
)
HEAD_ON = """world: flat
duration_s: 20.0
fleet:
  - {start_W_m: [-8.0, 0.0, 2.0], goal_W_m: [5.0, 0.0, 2.0]}
  - {start_W_m: [8.0, 0.0, 2.0], goal_W_m: [-5.0, 0.0, 2.0]}
"""


def written(tmp_path, text=HEAD_ON, name="fleet.yaml"):
    path = tmp_path / name
    path.write_text(text + STAND_IN)
    return str(path)


def test_each_vehicle_has_places_and_noise_of_its_own(tmp_path):
    rehearsal = load_rehearsal(written(tmp_path, HEAD_ON + "troubles: [{what: pose, at_s: 1.0,"
                                       " duration_s: 1.0}]\n"), seed=3, speed_mps=2.0)  # fmt: skip
    first, second = rehearsal.members
    assert first is rehearsal
    assert (first.field.start_W, second.field.start_W) == ((-8.0, 0.0, 2.0), (8.0, 0.0, 2.0))
    assert second.field.goal_W == (-5.0, 0.0, 2.0)
    assert first.scenario.vehicle.mass_kg != second.scenario.vehicle.mass_kg
    assert second.guard.limits.speed_max_mps == 2.0
    assert len(first.params.troubles) == 1  # that is the first one's
    assert second.params.troubles == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (HEAD_ON.replace("world: flat", "field: row"), "fleet: 2 vehicles, field 'row'; allowed"),
        ("world: flat\nfleet: [{start_W_m: [0, 0, 2], goal_W_m: [9, 0, 2]}]\n", "fleet: 1 vehi"),
        (HEAD_ON + "goal_W_m: [1, 2, 2]\n", "goal_W_m: only with world; a fleet has places"),
        (HEAD_ON.replace("[5.0, 0.0, 2.0]", "[5.0, 0.0]"), "goal_W_m"),
    ],
)
def test_a_fleet_that_cannot_be_is_named(tmp_path, text, words):
    with pytest.raises(InputError, match=words):
        load_rehearsal(written(tmp_path, text))


def test_a_fleet_is_rehearsed_in_process_alone(tmp_path):
    with pytest.raises(InputError, match="fleet: not with --dds; allowed: one vehicle"):
        refuse_on_dds(load_rehearsal(written(tmp_path)))


def pose_at(stamp_ns, p_W, v_W=(0.0, 0.0, 0.0)):
    return Telemetry(stamp_ns, p_W, (1.0, 0.0, 0.0, 0.0), v_W, "hover")


def test_a_lidar_meets_a_vehicle_beside_at_its_cylinder(tmp_path):
    """Where it flies on by its last velocity: 6 m away, less what it has come and its radius."""
    rehearsal = load_rehearsal(written(tmp_path))
    lidar = VirtualLidar(rehearsal.eye, rehearsal.scene, 1, level=True)
    side = HilSide(rehearsal.guard, rehearsal.planner, lidar, (5.0, 0.0, 2.0))
    track = VehicleTrack()
    side.neighbours = [OtherVehicle(track, (0.3, 0.4))]
    scans = []
    side.planner.take_scan = lambda stamp_ns, origin, hits, ends: scans.append((stamp_ns, hits))
    assert track.take(10**9, (6.0, 0.0, 2.0), (-2.0, 0.0, 0.0)) is None
    for k in range(20):
        stamp_ns = 10**9 + 20_000_000 * k
        side.take_pose(stamp_ns, pose_at(stamp_ns, (0.0, 0.0, 2.0)), Movers([]))
    assert len(scans) > 4
    for stamp_ns, hits in scans:
        nearest_m = np.linalg.norm(hits - (0.0, 0.0, 2.0), axis=1).min()
        come_m = 2.0 * (stamp_ns - 10**9) * 1e-9
        # a scan is taken where the pose before it was: 20 ms at 2 m/s; noise of 1 cm
        assert nearest_m == pytest.approx(6.0 - come_m - 0.3, abs=0.08)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [2, 3, 4])
def test_two_that_meet_head_on_pass_each_other_and_arrive(tmp_path, seed):
    name = written(tmp_path)
    flight = FleetFlight(load_rehearsal(name, seed))
    outcome = flight.fly()
    assert outcome.reason == "arrived"
    assert outcome.arrived
    assert not outcome.collided
    # by the tracks: what the guards keep between the centres, less the two hulls
    tracks = np.split(outcome.track, np.flatnonzero(np.isnan(outcome.track[:, 0])))[:2]
    first, second = (track[~np.isnan(track[:, 0])] for track in tracks)
    t_s = np.arange(0.0, min(first[-1, 0], second[-1, 0]), 0.02)
    places = [
        np.column_stack([np.interp(t_s, track[:, 0], track[:, k]) for k in (1, 2, 3)])
        for track in (first, second)
    ]
    least_m = np.linalg.norm(places[0] - places[1], axis=1).min()
    assert least_m > 2.0 * flight.flights["quad1"].rehearsal.guard.keep_out_m
    hulls_m = 2.0 * (math.hypot(math.hypot(0.174, 0.174) + 0.1396, 0.0581))
    assert flight.apart_m == pytest.approx(least_m - hulls_m, abs=0.15)
    assert outcome.clearance_m == pytest.approx(flight.apart_m)
    figure = rehearsal_picture([(name, outcome)])
    ends = next(trace for trace in figure.data if trace.name == "start, goal")
    assert len(ends.x) == 4
