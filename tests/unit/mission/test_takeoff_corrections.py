"""A take-off whose estimate is corrected on the way goes on from there."""

import numpy as np
import pytest
from obedient import MISSION, Rig

from quadsim.base.records import MODE_POSITION
from quadsim.sim.closed_loop import ClosedLoop
from quadsim.sim.scenario import load_scenario


class Corrected(Rig):
    """A vehicle that flies at the setpoint's velocity; its estimate is off by an error."""

    def __init__(self):
        super().__init__(MISSION)
        self.p, self.v, self.error = np.zeros(3), np.zeros(3), np.zeros(3)

    def sense(self):
        self.odometry.p_W[:], self.odometry.v_W[:] = self.p + self.error, self.v
        self.odometry.p_variance[:] = 4.0
        self.odometry.v_variance[:] = 0.01

    def move(self):
        if self.setpoint.mode == MODE_POSITION:
            pull = self.setpoint.p_W - self.odometry.p_W
            self.v = self.setpoint.v_W + np.clip(1.5 * pull, -2.0, 2.0)
            self.p = self.p + 0.02 * self.v


@pytest.mark.parametrize("jump_m", [-4.0, -2.0, 2.0, 4.0])
@pytest.mark.parametrize("over_s", [0.02, 0.6])
def test_a_height_that_is_corrected_at_lift_off_neither_presses_down_nor_throws_up(jump_m, over_s):
    flight = Corrected()
    flight.tick()
    assert flight.manager.arm() is None
    assert flight.manager.start() is None
    flight.until("takeoff")
    home = np.array(flight.manager.home)
    while flight.p[2] < 0.1:
        flight.tick()
    lowest, fastest = 0.1, 0.0
    for k in range(round(6.0 / 0.02)):
        part = min((k + 1) * 0.02 / over_s, 1.0)
        flight.error = part * np.array([0.0, 0.0, jump_m])
        flight.tick()
        if flight.state != "takeoff":
            break
        lowest, fastest = min(lowest, flight.p[2]), max(fastest, abs(flight.v[2]))
    assert flight.state == "mission"
    assert lowest > 0.0
    # the reference is at most CORRECTED_M away: 0.3 m, by 1.5 /s, over the climb's own speed
    assert fastest < flight.manager.params.ascent_mps + 0.5
    assert flight.p[2] == pytest.approx(2.0, abs=0.35)
    assert flight.manager.ground_m == pytest.approx(jump_m, abs=0.35)
    np.testing.assert_allclose(flight.manager.home, home, atol=0.01)
    assert "estimate corrected" in flight.names()


@pytest.mark.parametrize("seed", [18, 23, 37])
def test_a_range_finder_that_begins_at_lift_off_does_not_press_the_vehicle_down(seed, tmp_path):
    path = tmp_path / "takeoff.yaml"
    path.write_text(
        "vehicle: iris\nsensors: thesis_devices\nduration_s: 25.0\n"
        "environment:\n"
        "  wind_W_mps: [0.5, 3.0, 0.0]\n  wind: {turbulence: dryden, w20_mps: 3.1}\n"
        "mission: [{takeoff: {height_m: 4.0}}, {hover: {duration_s: 2.0}}, {land: {}}]\n"
    )
    loop = ClosedLoop(load_scenario(str(path), seed=seed))
    log = loop.fly()
    assert not loop.crashed
    assert loop.manager.state == "disarmed"
    q_WB, p_W = log.truth.q_WB, log.truth.p_W
    assert (1.0 - 2.0 * (q_WB[:, 1] ** 2 + q_WB[:, 2] ** 2)).min() > np.cos(np.radians(30.0))
    assert 2.5 < p_W[:, 2].max() < 6.0


@pytest.mark.parametrize("height_m", [2.0, 33.0, 100.0])
def test_a_high_climb_leaves_the_ground_as_soon_as_a_low_one(height_m, tmp_path):
    """A polynomial from rest to 33 m takes 5 s to the first 0.3 m: light for so long, it tips."""
    path = tmp_path / "climb.yaml"
    path.write_text(
        "vehicle: crazyflie2\nsensors: fcnd\nautopilot: fcnd\nduration_s: 12.0\nseed: 44288\n"
        f"mission: [{{takeoff: {{height_m: {height_m}}}}}, {{land: {{}}}}]\n"
    )
    loop = ClosedLoop(load_scenario(str(path)))
    log = loop.fly(ends=lambda now: now.stamp_ns > 8e9)
    assert not loop.crashed
    begin_ns = next(event.stamp_ns for event in log.events if event.name == "takeoff")
    left = log.truth.stamp_ns[np.argmax(log.truth.p_W[:, 2] > 0.3)]
    assert 0.0 < (left - begin_ns) * 1e-9 < 2.5
