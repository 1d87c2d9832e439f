"""A Crazyflie's commands: polynomials against numpy's, priorities and timeouts of the firmware."""

import math

import numpy as np
import pytest
from obedient import Rig

from quadsim.base.records import MODE_ATTITUDE, MODE_IDLE, MODE_POSITION, MODE_STOP, MODE_VELOCITY
from quadsim.control.parameters import PositionParams
from quadsim.geometry.rotation import from_euler, yaw_of
from quadsim.mission.flight.commander import PIECES, TRAJECTORIES
from quadsim.mission.trajectories.pieces import Piece, PieceTrajectory
from quadsim.sim.scenario import load_scenario
from quadsim.sim.swarm import Swarm

RNG = np.random.default_rng(22)
PIECES_GIVEN = [
    Piece(s, tuple(map(tuple, RNG.normal(size=(4, 8), scale=0.05).tolist()))) for s in (0.7, 1.3, 1)
]
#: From rest to rest with no acceleration and jerk at both ends, of tau, highest power first.
REST = [-20, 70, -84, 35, 0, 0, 0, 0]
DURATION_S = sum(piece.duration_s for piece in PIECES_GIVEN)


def by_numpy(t_s, derivative=0, timescale=1.0):
    """Position and yaw, or their derivative, of PIECES_GIVEN."""
    t_s /= timescale
    for piece in PIECES_GIVEN:
        if t_s <= piece.duration_s:
            polynomials = [np.poly1d(row[::-1]).deriv(derivative) for row in piece.coefficients]
            return np.array([p(t_s) for p in polynomials]) / timescale**derivative
        t_s -= piece.duration_s
    raise AssertionError


@pytest.mark.parametrize("timescale", [1.0, 2.5])
def test_pieces_are_the_polynomials(timescale):
    plan = PieceTrajectory(PIECES_GIVEN, timescale, shift_W=(1.0, -2.0, 3.0))
    assert plan.duration_s == pytest.approx(DURATION_S * timescale)
    for t_s in np.linspace(0.01, DURATION_S * timescale - 0.01, 40):
        p, v, a, yaw, rate = plan.at(t_s)
        expected = [by_numpy(t_s, k, timescale) for k in range(3)]
        np.testing.assert_allclose((*p, yaw), expected[0] + (1, -2, 3, 0), atol=1e-9)
        np.testing.assert_allclose((*v, rate), expected[1], atol=1e-8)
        np.testing.assert_allclose(a, expected[2][:3], atol=1e-7)
    end = plan.at(plan.duration_s + 1.0)
    np.testing.assert_allclose(end[0], np.add(by_numpy(DURATION_S)[:3], (1, -2, 3)), atol=1e-9)
    assert end[1] == end[2] == (0.0, 0.0, 0.0)
    assert end[4] == 0.0


def test_backwards_they_are_their_mirror_in_time():
    plan = PieceTrajectory(PIECES_GIVEN, 2.0, backwards=True)
    for t_s in np.linspace(0.01, 2 * DURATION_S - 0.01, 40):
        p, v, a, yaw, rate = plan.at(t_s)
        mirrored = 2 * DURATION_S - t_s
        np.testing.assert_allclose((*p, yaw), by_numpy(mirrored, 0, 2.0), atol=1e-9)
        np.testing.assert_allclose((*v, rate), -by_numpy(mirrored, 1, 2.0), atol=1e-8)
        np.testing.assert_allclose(a, by_numpy(mirrored, 2, 2.0)[:3], atol=1e-7)


class Flight(Rig):
    """A vehicle that is at once where it is wanted."""

    def __init__(self):
        super().__init__()
        self.odometry.v_variance[:] = 0.01
        self.commander = self.manager.commander
        self.run(1.0)

    def move(self):
        self.follow()
        if self.setpoint.mode == MODE_VELOCITY:
            self.odometry.v_W[:] = self.setpoint.v_W
            self.odometry.p_W += 0.02 * self.setpoint.v_W
            yaw = yaw_of(tuple(self.odometry.q_WB.tolist())) + 0.02 * float(self.setpoint.yaw_rate)
            self.odometry.q_WB[:] = from_euler(0.0, 0.0, yaw)

    @property
    def at(self):
        return self.odometry.p_W.tolist()

    def up(self, height_m=1.0):
        assert self.commander.take_off(height_m, 2.0) is None
        return self.run(3.0)

    def stream(self, seconds, command):
        for _ in range(round(seconds * 10)):
            assert command() is None
            self.run(0.1)


HOLD = ((0.5, 0.0, 1.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0), 0.0, 0.0)


def test_take_off_go_to_and_land_are_polynomials_of_degree_7():
    flight, times = Flight(), np.arange(1, 100) * 0.02
    assert flight.setpoint.mode == MODE_STOP
    assert flight.commander.take_off(1.5, 2.0) is None
    heights = []
    for _ in times:
        flight.tick()
        heights.append(flight.at[2])
    np.testing.assert_allclose(heights, 1.5 * np.polyval(REST, times / 2.0), atol=1e-9)
    flight.run(1.0)
    assert flight.commander.go_to((2.0, 1.0, 1.0), 1.2, 2.0) is None
    track = []
    for _ in times:
        flight.tick()
        track.append([*flight.at, float(flight.setpoint.yaw)])
    share = np.polyval(REST, times / 2.0)[:, None]
    np.testing.assert_allclose(track, (0, 0, 1.5, 0) + share * (2, 1, -0.5, 1.2), atol=1e-9)
    assert flight.commander.go_to((1.0, 0.0, 0.0), -0.2, 1.0, relative=True) is None
    flight.run(2.0)
    np.testing.assert_allclose(flight.at, (3.0, 1.0, 1.0), atol=1e-3)  # from where it was wanted
    assert float(flight.setpoint.yaw) == pytest.approx(1.0, abs=1e-3)
    assert flight.commander.land(0.04, 2.0) is None
    flight.run(2.1)
    assert flight.state == "landed"
    assert flight.at[2] == pytest.approx(0.04, abs=1e-5)
    assert flight.setpoint.mode == MODE_IDLE
    assert flight.until("disarmed").setpoint.mode == MODE_STOP
    flight.up()  # and once more


def test_an_uploaded_trajectory_begins_at_the_setpoint():
    flight = Flight().up()
    commander = flight.commander
    assert commander.upload(3, 4, PIECES_GIVEN) is None
    assert commander.start_trajectory(3, timescale=2.0) is None
    start = by_numpy(0.0)[:3]
    for k in range(1, 100):
        flight.tick()
        moved = by_numpy(0.02 * k, 0, 2.0)[:3] - start + (0, 0, 1)
        np.testing.assert_allclose(flight.at, moved, atol=1e-9)
    assert commander.start_trajectory(3, relative=False) is None
    flight.tick()
    np.testing.assert_allclose(flight.at, by_numpy(0.02)[:3], atol=1e-9)
    assert commander.upload(TRAJECTORIES, 0, PIECES_GIVEN) == "trajectory 10; allowed: 0 to 9"
    assert "there is room for" in commander.upload(0, PIECES - 2, PIECES_GIVEN)
    assert "8 coefficients" in commander.upload(0, 0, [Piece(1.0, ((0.0,),) * 4)])
    for number, duration_s in ((math.nan, 1.0), (1e300, 1.0), (1e308, 100.0), (1.0, 5000.0)):
        far = [Piece(duration_s, ((number,) * 8,) * 4)]
        assert "finite" in commander.upload(0, 0, far)
    for duration_s in (0.0, math.nan, math.inf):
        assert "duration" in commander.upload(0, 0, [Piece(duration_s, ((0.0,) * 8,) * 4)])
    assert commander.start_trajectory(7) == "trajectory 7 was not uploaded"


def test_setpoints_go_before_commands_until_they_are_said_to_stop():
    flight = Flight().up()
    commander = flight.commander
    flight.stream(1.0, lambda: commander.full_state(*HOLD))
    assert flight.at == [0.5, 0.0, 1.0]
    assert "have priority" in commander.go_to((0.0, 0.0, 1.0), 0.0, 1.0)
    assert "have priority" in commander.land(0.04, 1.0)
    commander.stop_setpoints()
    assert commander.land(0.04, 1.0) is None
    flight.run(1.2)
    assert flight.state == "landed"
    assert flight.at[:2] == [0.5, 0.0]


def test_setpoints_that_stay_away_level_the_vehicle_and_stop_its_motors():
    """As supervisor.c: after 0.5 s and 2 s."""
    flight = Flight().up()
    moving = ((0.0, 0.0, 1.0), (1.0, 0.0, 0.0), (2.0, 0.0, 0.0), 0.0, 0.0)
    assert flight.commander.full_state(*moving) is None
    flight.run(0.5)
    assert flight.setpoint.a_W[0] == 2.0
    flight.run(0.1)
    assert flight.setpoint.mode == MODE_POSITION
    assert not flight.setpoint.a_W.any()
    assert flight.setpoint.p_W[2] == 1.0
    assert flight.named("setpoints stay away") == [(1, "level after 0.5 s")]
    flight.run(1.3)
    assert flight.state == "commanded"
    flight.run(0.2)
    assert flight.state == "stopped"
    assert flight.setpoint.mode == MODE_STOP


def test_hover_and_velocity_setpoints():
    flight = Flight().up()
    commander = flight.commander
    flight.stream(4.0, lambda: commander.hover((0.0, 0.0, 0.0), 0.6, math.pi / 8))
    assert flight.at[2] == pytest.approx(0.6, abs=1e-3)
    assert yaw_of(tuple(flight.odometry.q_WB)) == pytest.approx(math.pi / 2, abs=0.01)
    before = flight.at
    flight.stream(1.0, lambda: commander.hover((0.5, 0.0, 0.0), 0.6, 0.0))  # ahead is north now
    np.testing.assert_allclose(np.subtract(flight.at, before), (0, 0.5, 0), atol=0.01)
    before = flight.at
    flight.stream(1.0, lambda: commander.velocity((0.3, 0.0, 0.1), 0.0))
    np.testing.assert_allclose(np.subtract(flight.at, before), (0.3, 0, 0.1), atol=0.02)
    fast = PositionParams()
    assert commander.hover((0.0, 0.0, 0.0), 50.0, 0.0) is None
    assert flight.run(0.1).setpoint.v_W[2] == fast.ascent_max_mps


def test_thrust_counts_from_the_first_setpoint_without():
    flight = Flight()
    assert flight.commander.arm(True) is None
    assert flight.commander.attitude(0.1, 0.2, 0.3, 12.0) is None
    flight.tick()
    assert (flight.setpoint.mode, flight.setpoint.thrust) == (MODE_ATTITUDE, 0.0)
    for thrust in (0.0, 12.0):
        assert flight.commander.attitude(0.1, 0.2, 0.3, thrust) is None
    flight.tick()
    given = flight.setpoint
    assert (given.roll, given.pitch, given.yaw_rate, given.thrust) == (0.1, 0.2, 0.3, 12.0)
    flight.run(0.6)  # level, with the same thrust
    assert (given.roll, given.pitch, given.yaw_rate, given.thrust) == (0.0, 0.0, 0.0, 12.0)


def test_only_requests_arm():
    flight = Flight()
    assert flight.commander.full_state(*HOLD) == "disarmed; arm or take off first"
    assert flight.run(0.1).state == "disarmed"
    assert flight.commander.land(0.0, 1.0) == "not on the ground"
    assert flight.commander.arm(True) is None
    assert flight.run(0.1).setpoint.mode == MODE_IDLE
    flight.up()
    assert flight.commander.take_off(2.0, 1.0) == "it flies already"
    assert flight.commander.arm(False) is None  # in the air, too
    assert flight.run(0.1).setpoint.mode == MODE_STOP


def test_an_emergency_stop_locks():
    flight = Flight().up()
    flight.commander.emergency()
    assert flight.run(0.1).setpoint.mode == MODE_STOP
    for refused in (
        flight.commander.take_off(1.0, 1.0),
        flight.commander.arm(True),
        flight.commander.full_state(*HOLD),
    ):
        assert "locked by an emergency stop" in refused


@pytest.mark.parametrize(
    "command",
    [
        lambda c: c.take_off(math.nan, 1.0),
        lambda c: c.take_off(1.0, 0.0),
        lambda c: c.take_off(1.0, math.inf),
        lambda c: c.go_to((0.0, math.inf, 1.0), 0.0, 1.0),
        lambda c: c.go_to((0.0, 0.0, 1.0), 1e30, 1.0),
        lambda c: c.start_trajectory(0, timescale=-1.0),
        lambda c: c.full_state((math.nan, 0.0, 1.0), *HOLD[1:]),
        lambda c: c.hover((0.0, 0.0, 0.0), math.nan, 0.0),
        lambda c: c.attitude(math.nan, 0.0, 0.0, 1.0),
    ],
)
def test_numbers_that_cannot_be_are_refused(command):
    flight = Flight().up()
    assert command(flight.commander)
    assert flight.run(0.2).at == pytest.approx([0.0, 0.0, 1.0])


def test_groups_are_bits():
    commander = Flight().commander
    commander.group_mask = 0b1001
    assert [commander.addressed(mask) for mask in (0, 1, 2, 8, 9)] == [
        True,
        True,
        False,
        True,
        True,
    ]


def test_failsafes_stay():
    """A request may not bring back what a failsafe lands."""
    flight = Flight().up()
    flight.manager.motor_lost(0)
    assert flight.state == "failsafe_landing"
    assert flight.commander.go_to((0.0, 0.0, 1.0), 0.0, 1.0) == "not while failsafe_landing"
    assert flight.commander.full_state(*HOLD) == "not while failsafe_landing"


def test_a_crazyflie_follows_a_circle():
    """With sensors, estimator and our loops: 0.5 m of radius in 6 s, within 0.1 m."""
    swarm = Swarm(load_scenario("crazyswarm"), seconds=1.0, each_starts=False)
    loop, error_m = swarm.loops[0], []
    commander = loop.manager.commander

    def run(seconds):
        for _ in range(round(seconds * 50)):
            swarm.decide()
            swarm.forget()
            swarm.advance()
            if loop.manager.flying:
                wanted = loop.manager.reference.place
                error_m.append(math.dist(wanted, loop.state["truth"]["p_W"][0]))

    run(1.5)
    assert commander.take_off(1.0, 2.5) is None
    run(3.0)
    begin_ns = swarm.stamp_ns
    for _ in range(300):
        t_s, w = (swarm.stamp_ns - begin_ns) * 1e-9, 2 * math.pi / 6.0
        c, s = 0.5 * math.cos(w * t_s), 0.5 * math.sin(w * t_s)
        commander.full_state(
            (c - 0.5, s, 1.0), (-w * s, w * c, 0.0), (-w * w * c, -w * w * s, 0.0), 0.0, 0.0
        )
        run(0.02)
    commander.stop_setpoints()
    assert commander.land(0.04, 2.0) is None
    run(3.5)
    assert loop.manager.state == "disarmed"
    assert not loop.crashed
    assert np.sqrt(np.mean(np.square(error_m))) < 0.1
    assert loop.state["truth"]["p_W"][0, 2] == pytest.approx(0.019, abs=0.005)
