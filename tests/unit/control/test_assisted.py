"""Assisted and manual flight: what sticks do to the reference, and to the flight's states."""

from __future__ import annotations

import math

import numpy as np
import pytest
from obedient import Rig

from quadsim.base.compiled import new_record
from quadsim.base.errors import InputError
from quadsim.base.parameters import pack
from quadsim.base.records import (
    ATTITUDE_COMMAND,
    MODE_ATTITUDE,
    MODE_DESCEND,
    MODE_POSITION,
    ODOMETRY,
    SETPOINT,
)
from quadsim.control.airframe import pack_airframe
from quadsim.control.assisted import (
    FOLLOWED,
    JERK_MPS3,
    assisted_step,
    assisted_wish,
    at_rest,
    begin_assisted,
    manual_wish,
    new_assisted,
    speed_limit,
)
from quadsim.control.parameters import (
    GRAVITY_MPS2,
    AssistedParams,
    AutopilotParams,
    FenceParams,
    FlightParams,
    ManualParams,
)
from quadsim.control.position import new_position_control, position_control
from quadsim.geometry.rotation import from_euler
from quadsim.mission.flight.flight import ERROR, WARN
from quadsim.mission.items import Goto, Hover, Takeoff
from quadsim.sim.scenario import load_scenario

DT_S = 0.02
PARAMS = AssistedParams()
FLAT = (1, 0.0, 0.0, 0.0, PARAMS.speed_mps)


class Reference:
    """The reference above a plane, with a vehicle that is exactly on it."""

    def __init__(self, height_m=20.0, yaw=0.0, ground=FLAT, params=PARAMS):
        self.states, self.packed = new_assisted(), np.array([pack(params)])
        self.state, self.ground = self.states[0], ground
        start = (0.0, 0.0, height_m + (ground[1] if ground[0] else 0.0))
        begin_assisted(self.states, start, (0.0,) * 3, (0.0,) * 3, yaw, 0.0)

    def beneath(self):
        seen, height_m, east, north, _ = self.ground
        if not seen:
            return 0.0
        return height_m + east * self.state.p_W[0] + north * self.state.p_W[1]

    def fly(self, seconds, *wish):
        """Positions, velocities, accelerations and heights above ground of each tick."""
        self.state.request[:] = wish
        p, v, a, heights = [], [], [], []
        for _ in range(round(seconds / DT_S)):
            seen, _, east, north, most = self.ground
            ground = (seen, self.beneath() if seen else self.ground[1], east, north, most)
            place = tuple(map(float, self.state.p_W))
            assisted_step(self.states, self.packed, place, ground, 3.0, DT_S)
            p.append(self.state.p_W.copy())
            v.append(self.state.v_W.copy())
            a.append(self.state.a_W.copy())
            heights.append(self.state.p_W[2] - self.beneath())
        return np.array(p), np.array(v), np.array(a), np.array(heights)


def test_a_stick_is_a_velocity_in_the_heading_frame():
    reference = Reference(yaw=0.5 * math.pi)  # north
    reference.fly(6.0, 3.0, 1.0, 0.0, 0.0)
    np.testing.assert_allclose(reference.state.v_W, [-1.0, 3.0, 0.0], atol=1e-3)


def test_a_full_stick_keeps_its_limits_and_a_released_one_stops_there():
    reference = Reference()
    p, v, a, _ = reference.fly(4.0, PARAMS.speed_mps, 0.0, 0.0, 0.0)
    assert v[-1, 0] == pytest.approx(PARAMS.speed_mps, abs=1e-3)
    assert a[:, 0].max() == pytest.approx(PARAMS.acceleration_mps2, rel=1e-6)
    jerk = np.diff(a[:, 0]) / DT_S
    assert np.abs(jerk).max() <= JERK_MPS3 * 1.000001
    start = p[-1, 0]
    p, v, a, _ = reference.fly(5.0, 0.0, 0.0, 0.0, 0.0)
    assert at_rest(reference.states)
    np.testing.assert_array_equal(v[-1], 0.0)
    assert v[:, 0].min() > -1e-9  # it does not swing back
    # v^2 / 2a at the full deceleration, and what its build-up and its end take more: v times half
    # the time of the build-up, and a / gain^2 / 2 of the exponential end
    least = PARAMS.speed_mps**2 / (2.0 * PARAMS.acceleration_mps2)
    more = 0.5 * PARAMS.speed_mps * PARAMS.acceleration_mps2 / JERK_MPS3
    assert least < p[-1, 0] - start < least + more + PARAMS.acceleration_mps2 / 16.0
    held = p[-1].copy()
    p, _, _, _ = reference.fly(1.0, 0.0, 0.0, 0.0, 0.0)
    np.testing.assert_array_equal(p[-1], held)


def test_its_velocity_is_the_derivative_of_its_position():
    p, v, a, _ = Reference().fly(3.0, 3.0, -1.0, 0.5, 0.3)
    np.testing.assert_allclose(np.diff(p, axis=0) / DT_S, 0.5 * (v[1:] + v[:-1]), atol=1e-9)
    np.testing.assert_allclose(np.diff(v, axis=0) / DT_S, a[1:], atol=1e-9)


@pytest.mark.parametrize("slope", [0.3, -0.3])
def test_the_height_above_a_slope_is_held(slope):
    reference = Reference(height_m=3.0, ground=(1, 0.0, slope, 0.0, 10.0))
    _, v, _, heights = reference.fly(8.0, PARAMS.speed_mps, 0.0, 0.0, 0.0)
    assert v[-1, 2] == pytest.approx(slope * v[-1, 0], abs=1e-3)
    # fed forward; without, gains 2 and 4 would leave 0.3 * 3 / 8 = 0.11 m while it accelerates
    assert np.abs(heights - 3.0).max() < 0.01
    assert heights[-1] == pytest.approx(3.0, abs=5e-3)


def test_the_speed_leaves_time_to_climb():
    packed = pack(PARAMS)
    for height_m in (1.0, 2.0, 3.0):
        expected = (height_m - PARAMS.guard_m) / (PARAMS.slope * PARAMS.reaction_s)
        assert speed_limit(packed, FLAT, height_m, 0.0) == pytest.approx(
            min(expected, PARAMS.speed_mps)
        )
    assert speed_limit(packed, FLAT, PARAMS.guard_m - 0.1, 0.0) == 0.0
    assert speed_limit(packed, FLAT, 50.0, 1.0) == pytest.approx(FOLLOWED * PARAMS.follow_mps)
    assert speed_limit(packed, (0, 0.0, 0.0, 0.0, 0.5), 50.0, 0.0) == 0.5


def test_uphill_it_is_only_as_fast_as_it_can_climb():
    steep = Reference(height_m=10.0, ground=(1, 0.0, 1.0, 0.0, 10.0))
    _, v, _, heights = steep.fly(6.0, PARAMS.speed_mps, 0.0, 0.0, 0.0)
    assert v[-1, 0] == pytest.approx(FOLLOWED * PARAMS.follow_mps, abs=0.01)
    assert heights[-1] == pytest.approx(10.0, abs=5e-3)


def test_the_throttle_moves_the_held_height_down_to_the_lowest_and_no_lower():
    reference = Reference(height_m=4.0)
    _, v, _, heights = reference.fly(2.0, 0.0, 0.0, 1.0, 0.0)
    assert v[-1, 2] == pytest.approx(PARAMS.climb_mps, abs=0.02)
    _, _, _, heights = reference.fly(15.0, 0.0, 0.0, -1.0, 0.0)
    assert heights[-1] == pytest.approx(PARAMS.lowest_m, abs=5e-3)
    # gains 2 and 4: damping 0.71, which overshoots by 4 % of the last metre
    assert heights.min() > PARAMS.lowest_m - 0.05


def test_where_the_ground_is_lost_it_goes_no_lower():
    reference = Reference(height_m=5.0)
    reference.fly(1.0, 0.0, 0.0, 0.0, 0.0)
    reference.ground = (0, 5.0 - PARAMS.lowest_m, 0.0, 0.0, 0.0)
    p, v, _, _ = reference.fly(4.0, PARAMS.speed_mps, 0.0, -1.0, 0.0)
    assert p[:, 2].min() > 4.95
    np.testing.assert_allclose(v[:, :2], 0.0, atol=1e-9)


def test_ground_that_comes_into_sight_does_not_move_it():
    reference = Reference(height_m=5.0, ground=(0, -math.inf, 0.0, 0.0, 4.0))
    reference.fly(1.0, 0.0, 0.0, -1.0, 0.0)
    reference.fly(3.0, 0.0, 0.0, 0.0, 0.0)
    before = reference.state.p_W[2]
    reference.ground = (1, 0.7, 0.0, 0.0, 4.0)
    p, _, _, _ = reference.fly(3.0, 0.0, 0.0, 0.0, 0.0)
    np.testing.assert_allclose(p[:, 2], before, atol=5e-3)


def test_the_reference_does_not_run_away_from_a_vehicle_that_cannot_follow():
    reference = Reference()
    reference.state.request[:] = (4.0, 0.0, 1.0, 0.0)
    for _ in range(500):
        assisted_step(reference.states, reference.packed, (0.0, 0.0, 20.0), FLAT, 3.0, DT_S)
    assert np.hypot(*reference.state.p_W[:2]) <= 1.0 + 1e-9
    assert reference.state.p_W[2] <= 21.0 + 1e-9
    assert reference.state.held_m <= 21.1


def test_both_horizontal_sticks_at_their_stops_ask_for_full_speed_not_more():
    forward, left, up, turn = assisted_wish(PARAMS, (1.0, -1.0, -0.5, 1.0))
    assert math.hypot(forward, left) == pytest.approx(PARAMS.speed_mps)
    assert forward == pytest.approx(-left)
    assert (up, turn) == (-0.5 * PARAMS.climb_mps, PARAMS.yaw_rate_radps)


def test_a_guard_above_the_lowest_height_is_refused():
    with pytest.raises(InputError, match=r"guard_m: 2 m; allowed: below lowest_m, 1 m"):
        AssistedParams(guard_m=2.0)


# ---- the flight manager ----------------------------------------------------------------------


MANUAL = FlightParams(manual=ManualParams(allowed=True))
MISSION = (Takeoff(height_m=2.0), Hover(duration_s=1.0), Goto(position_W_m=(20.0, 0.0, 2.0)))


class Flight(Rig):
    """A vehicle that follows at once above a slope to the east, with a range finder."""

    def __init__(self, params=None, items=MISSION, slope=0.0):
        super().__init__(items, params or FlightParams())
        self.slope, self.thrust, self.sticks, self.ranges = slope, 0.0, None, True
        self.tick()

    @property
    def height_m(self):
        return float(self.odometry.p_W[2] - self.slope * self.odometry.p_W[0])

    def sense(self):
        if self.ranges:  # straight down, as the vehicle is level
            self.manager.take_range(self.stamp_ns, self.height_m, 1e-4)
        if self.sticks is not None:
            self.manager.take_sticks(self.sticks)

    def move(self):
        stands = self.setpoint.mode == MODE_ATTITUDE and self.state == "landing"
        in_air = 9.8 if self.manager.flying else 0.0
        self.thrust = float(self.setpoint.thrust) if stands else in_air
        if self.manager.flying:
            self.follow()
        if self.height_m < 0.0:
            self.odometry.p_W[2] = self.slope * self.odometry.p_W[0]
            self.odometry.v_W[:], self.thrust = 0.0, 5.0


def test_a_stick_that_moves_takes_over_and_the_mission_goes_on_by_start():
    flight = Flight().take_off().run(2.0)
    flight.sticks = (0.0, 0.0, 0.0, 0.0)
    flight.run(0.2)
    assert flight.manager.state == "mission"
    flight.sticks = (0.0, 1.0, 0.0, 0.0)
    flight.run(3.0)
    assert flight.manager.state == "assisted"
    assert flight.odometry.v_W[1] == pytest.approx(PARAMS.speed_mps * 0.67, abs=0.1)  # at 2 m
    flight.sticks = (0.0, 0.0, 0.0, 0.0)
    flight.run(4.0)
    held = flight.odometry.p_W.copy()
    flight.run(1.0)
    np.testing.assert_allclose(flight.odometry.p_W, held, atol=1e-6)
    assert flight.manager.state == "assisted"
    assert flight.manager.has_reference
    assert flight.manager.start() is None
    flight.sticks = None
    flight.until("hover")
    np.testing.assert_allclose(flight.odometry.p_W[:2], [20.0, 0.0], atol=1e-6)


def test_above_a_slope_the_sticks_hold_the_height_that_was_flown():
    flight = Flight(slope=0.3).take_off().until("mission").run(0.5)
    flight.sticks = (1.0, 0.0, 0.0, 0.0)
    flight.run(1.0)
    heights = [flight.run(0.02).height_m for _ in range(300)]
    assert flight.odometry.p_W[0] > 10.0
    np.testing.assert_allclose(heights, 2.0, atol=0.15)


def test_downhill_below_the_take_off_point_is_nothing_to_recover_from():
    flight = Flight(slope=-0.4).take_off()
    flight.sticks = (1.0, 0.0, -0.4, 0.0)
    flight.run(10.0)
    assert flight.odometry.p_W[2] < -3.0
    assert flight.height_m == pytest.approx(PARAMS.lowest_m, abs=0.1)
    flight.sticks = (0.0, 0.0, 0.0, 0.0)
    flight.run(3.0)
    flight.manager.pause()
    flight.run(5.0)
    assert flight.manager.state == "hover"
    assert not flight.named("recovery")


def test_a_low_battery_flies_home_above_the_ground():
    flight = Flight(slope=-0.3).take_off()
    flight.sticks = (1.0, 0.0, 0.0, 0.0)
    flight.run(15.0)
    assert flight.odometry.p_W[0] > 20.0
    for charge in (0.251, 0.249):  # 25 % is where it warns
        flight.manager.take_battery(flight.stamp_ns, charge, 14.0)
        flight.run(1.0)
    assert flight.manager.state == "failsafe_return"
    heights = []
    while flight.manager.state == "failsafe_return":
        heights.append(flight.run(0.02).height_m)
    assert min(heights) > 1.0  # a straight line would have gone home 6 m deep in the slope
    assert abs(flight.odometry.p_W[0]) < 1.0


def test_the_fence_stops_the_sticks():
    fence = FenceParams(radius_m=15.0, margin_m=1.0)
    flight = Flight(FlightParams(fence=fence), items=MISSION[:2]).take_off()
    flight.sticks = (1.0, 0.3, 0.0, 0.0)
    flight.run(20.0)
    assert flight.manager.state == "assisted"
    assert 12.0 < np.hypot(*flight.odometry.p_W[:2]) < 14.2
    assert not flight.named("fence")


def test_sticks_that_stay_away_stop_hover_and_land():
    flight = Flight().take_off()
    flight.sticks = (1.0, 0.0, 0.0, 0.0)
    flight.run(2.0)
    flight.sticks = None
    flight.run(PARAMS.timeout_s - 0.04)
    assert not flight.named("sticks lost")
    flight.run(0.1)
    assert [level for level, _ in flight.named("sticks lost")] == [WARN]
    flight.until("hover", most_s=4.0)
    assert np.linalg.norm(flight.odometry.v_W) < 0.1
    flight.until("landing", most_s=FlightParams().failsafe.command_land_s + 0.1)
    flight.until("disarmed")
    assert flight.manager.finished
    assert all(level < ERROR for _, level, _, _ in flight.events)


def test_sticks_that_come_back_released_call_the_landing_off():
    flight = Flight().take_off()
    flight.sticks = (1.0, 0.0, 0.0, 0.0)
    flight.run(1.0)
    flight.sticks = None
    flight.until("hover", most_s=6.0)
    flight.sticks = (0.0, 0.0, 0.0, 0.0)
    flight.run(15.0)
    assert flight.manager.state == "hover"
    flight.sticks = (0.0, 0.0, 1.0, 0.0)
    assert flight.run(0.1).manager.state == "assisted"


def test_a_lost_range_finder_stops_the_vehicle_and_keeps_it_up():
    flight = Flight(slope=0.3).take_off()
    flight.sticks = (1.0, 0.0, 0.0, 0.0)
    flight.run(3.0)
    flight.ranges = False
    flight.sticks = (1.0, 0.0, -1.0, 0.0)
    heights = [flight.run(0.02).height_m for _ in range(500)]
    assert min(heights) > PARAMS.guard_m
    assert np.linalg.norm(flight.odometry.v_W) < 1e-6


def test_without_a_range_finder_the_take_off_point_is_the_ground():
    flight = Flight()
    flight.ranges = False
    flight.take_off()
    flight.sticks = (0.0, 0.0, -1.0, 0.0)
    flight.run(20.0)
    assert flight.height_m == pytest.approx(PARAMS.lowest_m, abs=0.01)


@pytest.mark.parametrize("bad", [math.nan, -math.inf])
def test_a_stick_that_is_no_number_is_refused_and_the_flight_goes_on(bad):
    flight = Flight().take_off()
    assert "not finite" in flight.manager.pilot.command_stick(0.0, bad, 0.0, 0.0)
    assert flight.run(0.1).manager.state == "mission"
    assert [level for level, _ in flight.named("stick refused")] == [WARN]


def test_sticks_on_the_ground_and_in_a_landing_do_nothing():
    flight = Flight()
    assert flight.manager.pilot.command_stick(1.0, 0.0, 0.0, 0.0) == "not while disarmed"
    flight.take_off()
    flight.manager.land()
    assert flight.manager.pilot.command_stick(1.0, 0.0, 0.0, 0.0) == "not while landing"
    assert flight.manager.assist() == "not while landing"


def test_a_take_off_without_a_mission_ends_in_the_hands_of_the_sticks():
    flight = Flight(items=())
    assert "arm first" in flight.manager.take_off()
    assert flight.manager.arm() is None
    flight.run(2.0)
    assert flight.manager.state == "armed"
    assert flight.manager.take_off() is None
    flight.sticks = (0.0, 0.0, 0.0, 0.0)
    flight.until("assisted")
    flight.run(1.0)
    assert flight.height_m == pytest.approx(PARAMS.takeoff_m, abs=0.05)
    assert flight.manager.pause() is None
    flight.until("hover", most_s=2.0)
    assert flight.manager.land() is None
    flight.until("disarmed")


def test_a_mission_can_follow_a_take_off_by_hand():
    flight = Flight()
    flight.manager.arm()
    flight.manager.take_off()
    flight.sticks = (0.0, 0.0, 0.0, 0.0)
    flight.until("assisted")
    assert flight.manager.start() is None
    assert flight.run(0.1).manager.status()["item_name"] == "hover"


# ---- manual ----------------------------------------------------------------------------------


def test_manual_flight_is_only_where_it_is_allowed():
    flight = Flight().take_off()
    assert "not allowed" in flight.manager.fly_manually()
    assert flight.manager.state == "mission"
    allowed = Flight(MANUAL).take_off()
    assert allowed.manager.fly_manually() is None
    assert allowed.manager.state == "manual"
    assert not allowed.manager.has_reference


def test_manual_sticks_are_roll_pitch_yaw_rate_and_thrust():
    manual = MANUAL.manual
    flight = Flight(MANUAL).take_off()
    flight.manager.fly_manually()
    flight.sticks = (0.5, 1.0, 0.0, -1.0)
    flight.run(0.02)
    setpoint = flight.setpoint
    assert setpoint.mode == MODE_ATTITUDE
    # forward is nose down, about +y; left is a roll to the left, about -x
    assert (setpoint.pitch, setpoint.roll) == (0.5 * manual.tilt_rad, -manual.tilt_rad)
    assert setpoint.yaw_rate == -manual.yaw_rate_radps
    assert setpoint.thrust == pytest.approx(GRAVITY_MPS2)
    assert manual_wish(manual, (0.0, 0.0, 1.0, 0.0))[3] == pytest.approx(1.6 * GRAVITY_MPS2)
    assert manual_wish(manual, (0.0, 0.0, -1.0, 0.0))[3] == pytest.approx(0.4 * GRAVITY_MPS2)


def test_manual_sticks_that_stay_away_end_in_a_hover():
    flight = Flight(MANUAL).take_off()
    flight.manager.fly_manually()
    flight.sticks = (0.0, 0.0, 0.0, 0.0)
    flight.run(1.0)
    assert flight.manager.state == "manual"
    flight.sticks = None
    flight.run(PARAMS.timeout_s + 0.1)
    assert flight.setpoint.mode == MODE_POSITION
    flight.until("hover", most_s=3.0)
    assert len(flight.named("sticks lost")) == 1


def test_manual_flight_is_left_by_button():
    flight = Flight(MANUAL).take_off()
    flight.manager.fly_manually()
    flight.odometry.v_W[:] = (2.0, 0.0, 0.0)
    flight.run(0.02)
    flight.sticks = (0.0, 0.0, 0.0, 0.0)
    assert flight.manager.assist() is None
    flight.tick()
    assert flight.setpoint.v_W[0] == pytest.approx(2.0, abs=0.1)  # taken up in its motion
    flight.run(4.0)
    assert np.linalg.norm(flight.odometry.v_W) == 0.0


@pytest.fixture(scope="module")
def loop():
    """The position loop of the default autopilot on the x500."""
    airframe = pack_airframe(load_scenario("hover").airframe)
    params = AutopilotParams()
    odometry, setpoint = new_record(ODOMETRY), new_record(SETPOINT)
    odometry.q_WB[:] = from_euler(0.1, -0.1, 0.7)
    setpoint.mode = MODE_ATTITUDE

    def step(**changes):
        for name, value in {"roll": 0.2, "pitch": -0.3, "yaw_rate": 0.5, "thrust": 9.0}.items():
            setpoint[name] = changes.get(name, value)
        state, command = new_position_control(params, airframe), new_record(ATTITUDE_COMMAND)
        position_control(state, pack(params), odometry, setpoint, DT_S, command)
        return state, command

    return step


def test_an_attitude_setpoint_is_passed_on(loop):
    _, command = loop()
    np.testing.assert_allclose(command.q_WB, from_euler(0.2, -0.3, 0.7), atol=1e-12)
    assert (command.yaw_rate, command.thrust) == (0.5, 9.0)


def test_an_attitude_setpoint_keeps_the_limits(loop):
    limits = AutopilotParams().position
    state, command = loop(roll=3.0, pitch=0.0, yaw_rate=-9.0, thrust=1e3)
    np.testing.assert_allclose(command.q_WB, from_euler(limits.tilt_max_rad, 0.0, 0.7), atol=1e-12)
    assert command.yaw_rate == -limits.yaw_rate_max_radps
    assert command.thrust == state.thrust_max
    state, command = loop(thrust=0.0)
    assert command.thrust == state.thrust_min > 0.0


@pytest.mark.parametrize("name", ["roll", "pitch", "yaw_rate", "thrust"])
def test_an_attitude_setpoint_without_a_number_is_a_descent(loop, name):
    state, command = loop(**{name: math.nan})
    assert state.mode == MODE_DESCEND
    assert np.isfinite([*command.q_WB, command.yaw_rate, command.thrust]).all()
