"""The vehicle that stands in for a real one: held by motion capture, flown by velocities."""

from pathlib import Path

import numpy as np
import pytest

from quadsim.estimation.eskf.layout import EXTERNAL_ATTITUDE, EXTERNAL_POSITION
from quadsim.estimation.eskf.measurement_buffer import VERDICTS
from quadsim.hil.rehearsal.motion_capture import MotionCaptureParams
from quadsim.hil.rehearsal.stand_in import StandIn, VehicleCommand, varied
from quadsim.sim.scenario import read_scenario

KEYS = {
    "vehicle": "x500",
    "sensors": "motion_capture",
    "autopilot": "stand_in",
    "duration_s": 30.0,
    "mission": [{"takeoff": {"height_m": 2.0}}],
}


def made(mass_share=1.0, gain_share=1.0):
    scenario = read_scenario(dict(KEYS), Path("stand_in.yaml"), "stand_in", {})
    return StandIn(varied(scenario, mass_share, gain_share), MotionCaptureParams(), 0.5)


def truth(vehicle):
    true = vehicle.state["truth"][0]
    return true["p_W"].copy(), true["v_W"].copy()


def fly(vehicle, seconds, v_W=None):
    """Fly on, told a velocity at each tick or nothing; (N, 6) true motion."""
    motion = []
    end_ns = vehicle.stamp_ns + round(seconds * 1e9)
    while vehicle.stamp_ns < end_ns:
        vehicle.tick()
        if v_W is not None:
            vehicle.obey(VehicleCommand(vehicle.stamp_ns, v_W, 0.0))
            assert vehicle.refused == ""
        motion.append(np.concatenate(truth(vehicle)))
    return np.array(motion)


@pytest.fixture(scope="module")
def flight():
    """Off, 4 m/s to the east, and a stop; then the motion capture goes."""
    vehicle = made(mass_share=1.2, gain_share=0.8)
    fly(vehicle, 4.3)
    assert vehicle.manager.state == "hover"
    east = fly(vehicle, 2.5, (4.0, 0.0, 0.0))
    apart_m = np.linalg.norm(vehicle._odometry.p_W - truth(vehicle)[0])
    stop = fly(vehicle, 2.0, (0.0, 0.0, 0.0))
    counts = vehicle.state["line"][0]
    verdicts = {
        kind: dict(zip(VERDICTS, counts["verdicts"][kind].tolist(), strict=True))
        for kind in (EXTERNAL_POSITION, EXTERNAL_ATTITUDE)
    }
    frames = vehicle.motion_capture.frames - vehicle.motion_capture.unseen
    on_their_way = len(vehicle.motion_capture._queue)
    return vehicle, east, stop, apart_m, verdicts, frames - on_their_way


def test_it_flies_what_it_is_told_though_its_mass_and_gains_are_others(flight):
    _, east, stop, apart_m, _, _ = flight
    assert east[-1, 3:] == pytest.approx([4.0, 0.0, 0.0], abs=0.4)
    assert apart_m < 0.005  # five deviations of the motion capture's noise
    assert np.linalg.norm(stop[-1, 3:]) < 0.15
    # a velocity holds no height: it sinks until the integral carries a fifth more than it believes
    assert 1.5 < stop[-1, 2] < 2.3


def test_it_stops_as_the_guards_of_its_kind_count_on(flight):
    """From 4 m/s within v * 0.25 s + v^2 / (2 * 3 m/s^2), for the heaviest and softest one."""
    _, east, stop, _, _, _ = flight
    speed = np.linalg.norm(stop[:, 3:5], axis=1)
    k = int(np.argmax(speed < 0.15))
    assert k > 0
    v = np.linalg.norm(east[-1, 3:5])
    assert stop[k, 0] - east[-1, 0] < 0.25 * v + v * v / (2.0 * 3.0)


def test_every_pose_that_arrives_is_taken_late_as_it_is(flight):
    _, _, _, _, verdicts, arrived = flight
    for counts in verdicts.values():
        assert counts.pop("ok") == pytest.approx(arrived, abs=2)  # of the last tick
        assert not any(counts.values())


def test_without_motion_capture_it_says_no_pose_and_lands_by_itself(flight):
    vehicle = flight[0]
    assert vehicle.has_pose
    assert vehicle.telemetry().p_W == pytest.approx(truth(vehicle)[0].tolist(), abs=0.005)
    vehicle.motion_capture.gone = True
    fly(vehicle, 0.4, (0.0, 0.0, 0.0))
    assert vehicle.telemetry() is not None
    fly(vehicle, 0.2, (0.0, 0.0, 0.0))
    assert vehicle.telemetry() is None
    for _ in range(30):
        if vehicle.manager.state != "velocity":
            break
        fly(vehicle, 0.2)
        vehicle.obey(VehicleCommand(vehicle.stamp_ns, (0.0, 0.0, 0.0), 0.0))
    assert vehicle.manager.state == "failsafe_landing"
    assert vehicle.manager.reason == "the position has diverged"


def test_another_mass_is_not_known_to_its_autopilot():
    scenario = read_scenario(dict(KEYS), Path("stand_in.yaml"), "stand_in", {})
    other = varied(scenario, 1.25, 0.5)
    assert other.vehicle.mass_kg == pytest.approx(1.25 * scenario.vehicle.mass_kg)
    assert other.airframe.mass_kg == pytest.approx(scenario.airframe.mass_kg)
    assert other.autopilot.position.velocity_gain_xy == pytest.approx(
        0.5 * scenario.autopilot.position.velocity_gain_xy
    )
