"""Hold without fixes, distrusted estimates, low batteries, recovery."""

import math
from dataclasses import replace

import numpy as np
import pytest
from obedient import LIMITS, MISSION, PARAMS, TICK_NS, Flight

from quadsim.base.errors import InputError
from quadsim.base.parameters import from_mapping
from quadsim.base.records import (
    MODE_ATTITUDE,
    MODE_DESCEND,
    MODE_POSITION,
    MODE_VELOCITY,
    ODOMETRY,
    SETPOINT,
)
from quadsim.control.parameters import FailsafeParams
from quadsim.geometry.rotation import from_euler
from quadsim.mission.flight.context import Battery
from quadsim.mission.flight.detours import RECOVERY_S
from quadsim.mission.flight.estimate_check import ESTIMATE_RETURN_S, UPSET_RAD, UPSET_S
from quadsim.mission.flight.flight import ERROR, WARN, FlightManager
from quadsim.mission.flight.rules import (
    IMPACT_ACCELERATION_MPS2,
    IMPACT_LAG_S,
    IMPACT_MARGIN_M,
    OFF_COURSE_S,
)
from quadsim.mission.items import Hover, Land, Takeoff
from quadsim.sim.closed_loop import ClosedLoop
from quadsim.sim.scenario import load_scenario

# ---- no fix of the position ----------------------------------------------------------------------


def unaided(flight, lost_s):
    """The deviation of a position without fixes: 0.02 m, and then 0.01 t^2."""

    def spoil(odometry):
        t_s = max(flight.stamp_ns * 1e-9 - lost_s, 0.0)
        odometry.p_variance[:2] = (0.02 + 0.01 * t_s * t_s) ** 2

    flight.spoil = spoil


def test_a_position_that_is_not_fixed_is_held_and_the_mission_goes_on_after_it():
    flight = Flight().run(1.0)
    begin_s = flight.stamp_ns * 1e-9
    unaided(flight, begin_s)
    flight.run(5.0)
    assert flight.manager.state == "mission"  # 0.25 m: nothing yet
    flight.until("hold", most_s=8.0)
    [(level, words)] = flight.named("hold")
    assert level == WARN
    assert words.startswith("the position is not fixed any more, +-")
    # growth is measured against what it was over the last 10 s: 0.5 m later than 7.1 s
    assert 7.0 < flight.stamp_ns * 1e-9 - begin_s < 10.0
    flight.run(1.0)
    np.testing.assert_allclose(flight.setpoint.v_W, 0.0, atol=1e-12)
    flight.p += (0.5, 0.1, 0.0)  # the estimate drifts: nobody flies after it
    flight.tick()
    flight.tick()
    np.testing.assert_allclose(flight.setpoint.p_W, flight.odometry.p_W, atol=1e-9)
    flight.spoil = lambda odometry: odometry.p_variance.fill(0.02**2)  # a fix
    flight.run(ESTIMATE_RETURN_S + 0.1)
    assert flight.manager.state == "mission"
    flight.until("hover")
    np.testing.assert_allclose(flight.p, [30.0, 0.0, 2.0], atol=1e-6)


def test_a_hold_that_lasts_ends_in_a_descent_at_zero_velocity():
    flight = Flight(items=(Takeoff(height_m=2.0),))
    unaided(flight, flight.stamp_ns * 1e-9)
    flight.until("hold")
    begin_s = flight.stamp_ns * 1e-9
    flight.until("failsafe_landing", most_s=LIMITS.hold_s + 1.0)
    assert flight.stamp_ns * 1e-9 - begin_s == pytest.approx(LIMITS.hold_s, abs=0.1)
    assert (
        flight.named("failsafe_landing")[0][1] == f"no fix of the position for {LIMITS.hold_s:g} s"
    )
    assert flight.setpoint.mode == MODE_POSITION
    flight.until("disarmed")
    assert flight.p[2] == 0.0
    np.testing.assert_allclose(flight.p[:2], 0.0, atol=0.05)


def test_a_landing_without_a_position_does_not_lean_over_feet_that_are_held():
    """It touches down at 1.1 m/s to the side; friction looks like a start the other way."""
    log = ClosedLoop(load_scenario("failsafe_gps_lost")).fly()
    x, y = log.truth.q_WB[:, 1], log.truth.q_WB[:, 2]
    # the lean at which the centre of mass stands over the feet is 0.5 rad
    assert np.arccos(1.0 - 2.0 * (x * x + y * y)).max() < 0.2


def test_what_stops_a_descent_and_lets_go_was_not_the_ground():
    flight = Flight(items=(Takeoff(height_m=2.0),))
    unaided(flight, flight.stamp_ns * 1e-9)
    flight.until("failsafe_landing", most_s=30.0)
    while flight.p[2] > 0.8:
        flight.tick()
    for _ in range(5):
        flight.carry(0.0, 0.0, 0.0)  # a gust from below
    assert flight.setpoint.mode == MODE_ATTITUDE
    assert flight.setpoint.thrust == pytest.approx(0.5 * 9.80665)
    sink_mps, fallen_m = 0.0, 0.0
    while flight.setpoint.mode == MODE_ATTITUDE:
        sink_mps += 0.5 * 9.80665 * 0.02
        fallen_m += 0.02 * sink_mps
        flight.carry(0.0, 0.0, -sink_mps)
    assert fallen_m < 0.2
    assert flight.manager.state == "failsafe_landing"


def test_a_worse_receiver_is_no_lost_one():
    """Deviations that step to 0.4 m and stay there are flown on."""
    flight = Flight().run(1.0)

    def spoil(odometry):
        odometry.p_variance[:2] = 0.4**2

    flight.spoil = spoil
    flight.until("hover")
    assert flight.named("hold") == []


# ---- a confident estimate that is wrong ----------------------------------------------------------


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda o, k: {"v_W": np.add(o.v_W, (6.0, 0.0, 0.0))}, "the velocity has jumped"),
        (lambda o, k: {"q_WB": from_euler(0.9, 0.0, 0.0)}, "the attitude has jumped"),
        (
            lambda o, k: {"p_W": np.add(o.p_W, (0.0, 0.02 * k, 0.0))},
            "position and velocity disagree",
        ),
    ],
)
def test_motion_that_contradicts_itself_is_not_flown_on(spoil, words):
    flight = Flight(items=(Takeoff(height_m=2.0),)).run(0.5)
    first = flight.stamp_ns

    def spoiled(odometry):
        for name, value in spoil(odometry, (flight.stamp_ns - first) // TICK_NS).items():
            odometry[name][:] = value

    flight.spoil = spoiled
    flight.run(8.0)
    assert words in flight.named("failsafe_landing")[0][1]
    assert flight.named("failsafe_landing")[0][0] == ERROR


def test_a_correction_within_its_own_deviations_is_no_jump():
    """After an outage the estimate steps by 4 m, as it had said it might."""
    flight = Flight(items=(Takeoff(height_m=2.0),)).run(0.5)
    flight.spoil = lambda odometry: odometry.p_variance.__setitem__(slice(0, 2), 1.5**2)
    flight.run(0.3)
    flight.spoil = lambda odometry: odometry.p_variance.fill(0.0)
    flight.p[0] += 4.0
    flight.run(0.3)
    assert flight.named("failsafe_landing") == []


def test_a_vehicle_that_stays_tilted_has_lost_its_attitude():
    flight = Flight(items=(Takeoff(height_m=2.0),)).run(0.5)
    angle = 0.0

    def spoil(odometry):
        odometry.w_B[0] = 5.0
        odometry.q_WB[:] = from_euler(angle, 0.0, 0.0)

    flight.spoil = spoil
    for _ in range(15):  # turns over at 5 rad/s
        angle = min(angle + 0.1, UPSET_RAD + 0.2)
        flight.tick()
    assert flight.manager.state == "hover"
    flight.run(UPSET_S + 0.1)
    assert flight.named("failsafe_landing") == [(ERROR, "the attitude does not follow")]
    assert flight.setpoint.mode == MODE_DESCEND


def test_a_vehicle_that_flies_away_from_its_reference_descends_level():
    flight = Flight(items=(Takeoff(height_m=2.0),))
    for k in range(400):  # a heading that is wrong by half a turn
        flight.carry(min(0.05 * k, 3.0), 0.0, 0.0)
        if flight.manager.state == "failsafe_landing":
            break
    [(level, words)] = flight.named("failsafe_landing")
    assert level == ERROR
    assert words.startswith("off course by ")
    longest_m = LIMITS.off_course_m + 3.0 * (OFF_COURSE_S + 0.3)
    assert LIMITS.off_course_m < flight.p[0] < longest_m
    flight.run(2.0)
    assert flight.setpoint.mode == MODE_DESCEND  # a good estimate is not believed any more
    flight.until("stopped")


def test_who_gives_way_is_not_off_course():
    """As far and as long away as above, for another vehicle's sake; then with no such reason."""
    flight = Flight(items=(Takeoff(height_m=2.0),))
    for k in range(300):
        flight.carry(min(0.05 * k, 3.0), 0.0, 0.0)
        flight.manager.give_way(0)
    assert flight.odometry.p_W[0] > LIMITS.off_course_m + 3.0 * OFF_COURSE_S
    assert flight.named("failsafe_landing") == []
    for _ in range(round((OFF_COURSE_S + 0.3) / 0.02)):
        flight.carry(3.0, 0.0, 0.0)
    assert len(flight.named("failsafe_landing")) == 1


def test_a_vehicle_that_comes_back_to_its_reference_is_on_course():
    flight = Flight(items=(Takeoff(height_m=2.0),))
    speeds = np.concatenate([np.arange(0.0, 6.0, 0.1), np.arange(6.0, -1.5, -0.1), [-1.5] * 300])
    for speed in speeds:
        flight.carry(speed, 0.0, 0.0)
    assert flight.p[0] < LIMITS.off_course_m
    assert max(0.02 * np.cumsum(speeds)) > LIMITS.off_course_m
    assert flight.named("failsafe_landing") == []


# ---- arming --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("charge", "refused"),
    [(0.29, "battery low: 29 %, at least 30"), (0.31, None), (math.nan, None)],
)
def test_arming_with_a_low_battery_is_refused(charge, refused):
    manager = FlightManager(PARAMS, MISSION)
    odometries, setpoints = np.zeros(1, ODOMETRY), np.zeros(1, SETPOINT)
    odometries[0].q_WB[0], odometries[0].stamp_ns = 1.0, TICK_NS
    manager.take_battery(TICK_NS, charge, 14.8)
    manager.step(TICK_NS, odometries, setpoints)
    assert manager.arm() == refused


# ---- the battery ---------------------------------------------------------------------------------


def drained(battery, seconds, per_s, start=1.0, flying=True):
    for k in range(seconds):
        battery.take(k * 1_000_000_000, start - per_s * k, 14.0, flying)


def test_the_consumption_is_the_slope_of_the_charge_in_flight():
    battery = Battery(LIMITS)
    drained(battery, 100, 0.002)
    assert battery.drain_per_s == pytest.approx(0.002, rel=1e-6)
    assert battery.charge == pytest.approx(0.802)
    # what is left above critical lasts so long, and not a second longer
    left_s = (0.802 - LIMITS.battery_critical) / 0.002
    assert battery.lasts(left_s - 1.0)
    assert not battery.lasts(left_s + 1.0)
    idle = Battery(LIMITS)
    drained(idle, 100, 0.002, flying=False)
    assert idle.drain_per_s == 0.0


def test_a_reading_without_a_charge_is_none():
    battery = Battery(LIMITS)
    battery.take(0, math.nan, 14.0, True)
    assert math.isnan(battery.charge)
    assert not battery.is_critical
    assert not battery.warns(10.0)
    battery.take(1, 0.05, 14.0, True)
    assert battery.is_critical


def discharge(flight, charge, per_s, most_s=60.0, until="disarmed"):
    for k in range(round(most_s * 50)):
        if flight.manager.state == until:
            return
        if k % 50 == 0:
            charge = max(charge - per_s, 0.0)
            flight.manager.take_battery(flight.stamp_ns, charge, 14.0)
        flight.tick()


def test_a_low_battery_flies_home_and_lands_there():
    flight = Flight().until("hover")  # 30 m away
    discharge(flight, LIMITS.battery_warn + 0.005, 0.002)
    [(level, words)] = flight.named("failsafe_return")
    assert (level, words) == (ERROR, "battery at 25 %")
    assert flight.named("failsafe_landing") == [(ERROR, "battery at 25 %")]
    np.testing.assert_allclose(flight.p, 0.0, atol=1e-6)
    assert flight.manager.state == "disarmed"
    assert flight.manager.status()["reason"] == "battery at 25 %"


def test_it_turns_back_before_the_warning_where_the_way_home_needs_it():
    """30 m at 3 m/s, half as long again, 2 m down and 5 s: 23.3 s, with 30 % to spare."""
    flight = Flight().until("hover")
    per_s = 0.01
    discharge(flight, 0.6, per_s, until="failsafe_return")
    charge = flight.manager.battery.charge
    needed = per_s * 1.3 * (1.5 * 30.0 / 3.0 + 2.0 / 0.6 + 5.0)
    assert charge - LIMITS.battery_critical == pytest.approx(needed, abs=0.011)


def test_home_is_too_far_for_what_is_left():
    flight = Flight().until("hover")
    discharge(flight, 0.6, 0.001, most_s=3.0)
    flight.manager.take_battery(flight.stamp_ns, 0.15, 14.0)  # cells have failed
    flight.run(0.2)
    assert flight.named("failsafe_landing") == [(ERROR, "battery at 15 %, home is too far")]
    flight.until("disarmed")
    assert flight.p[0] == pytest.approx(30.0)


@pytest.mark.parametrize("before", ["hover", "failsafe_return"])
def test_a_critical_battery_lands_here(before):
    flight = Flight().until("hover")
    if before == "failsafe_return":
        discharge(flight, 0.26, 0.002, until=before)
        flight.run(3.0)
    flight.manager.take_battery(flight.stamp_ns, 0.09, 13.0)
    flight.run(0.2)
    assert flight.named("failsafe_landing") == [(ERROR, "battery at 9 %")]
    flight.until("disarmed")
    assert flight.p[0] > 15.0


def test_a_warning_after_what_it_warns_of_is_refused():
    with pytest.raises(
        InputError, match=r"battery_warn: 0\.05; allowed: >= battery_critical, 0\.1"
    ):
        from_mapping(FailsafeParams, {"battery_warn": 0.05}, "x")


# ---- near the ground -----------------------------------------------------------------------------


def fall(flight, sink_mps, to_m=0.0):
    """Let a vehicle fall, up to a speed, until something is done or a height is reached."""
    speed, state = max(-flight.v[2], 0.0), flight.manager.state
    while flight.manager.state == state and flight.odometry.p_W[2] > to_m:
        speed = min(speed + 0.4, sink_mps)
        flight.carry(0.0, 0.0, -speed)


@pytest.mark.parametrize("sink_mps", [2.0, 4.0])
def test_a_fall_is_caught_where_full_thrust_can_still_stop_it(sink_mps):
    stop_m = sink_mps * IMPACT_LAG_S + sink_mps**2 / (2.0 * IMPACT_ACCELERATION_MPS2)
    least_m = stop_m + IMPACT_MARGIN_M
    flight = Flight(items=(Takeoff(height_m=least_m + 2.0),))
    fall(flight, sink_mps)
    assert flight.manager.state == "recovery"
    height_m = flight.odometry.p_W[2]
    assert least_m - 0.02 * sink_mps <= height_m <= least_m
    assert flight.named("recovery") == [(WARN, f"falls, {sink_mps:.1f} m/s at {height_m:.2f} m")]
    # level, all the thrust there is
    assert flight.setpoint.mode == MODE_VELOCITY
    np.testing.assert_array_equal(flight.setpoint.v_W[:2], 0.0)
    np.testing.assert_array_equal(flight.setpoint.a_W[:2], 0.0)
    assert flight.setpoint.a_W[2] > 20.0
    flight.until("hover")
    assert flight.p[2] == pytest.approx(least_m + 2.0, abs=LIMITS.floor_m)


def test_a_landing_that_falls_is_caught_and_goes_on():
    flight = Flight(items=(Takeoff(height_m=4.0),))
    flight.manager.land()
    flight.run(1.0)
    fall(flight, 2.5)
    assert flight.manager.state == "recovery"
    flight.until("disarmed")
    assert [name for _, _, name, _ in flight.events].count("landing") == 2


def test_a_landing_at_its_own_speed_is_no_fall():
    """Two metres a second wanted: faster than a descent en route may be near the ground."""
    flight = Flight(items=(Takeoff(height_m=6.0), Hover(duration_s=1.0), Land(speed_mps=2.0)))
    flight.until("disarmed")
    assert flight.named("recovery") == []


def test_a_felt_ground_is_not_flown_over():
    """Neither a wind nor an estimate that drifts tilts the vehicle that stands on the ground."""
    flight = Flight(items=(Takeoff(height_m=1.0),))
    flight.manager.land()
    flight.until("landing")
    while flight.odometry.p_W[2] > 0.0:
        flight.tick()
    for _ in range(20):  # 0.25 m/s
        flight.p[0] += 0.005
        flight.v = np.array([0.25, 0.0, 0.0])
        flight.tick()
        if flight.manager.state != "landing":
            break
        setpoint = flight.setpoint
        assert setpoint.mode == MODE_ATTITUDE
        assert setpoint.roll == setpoint.pitch == setpoint.yaw_rate == 0.0
        assert setpoint.thrust < 0.75 * 9.80665


def test_no_way_up_ends_in_a_landing():
    flight = Flight(items=(Takeoff(height_m=4.0),))
    fall(flight, 2.0)
    for _ in range(round((RECOVERY_S + 1.0) * 50)):
        flight.carry(0.0, 0.0, -0.01)  # something heavy holds it down
        if flight.manager.state == "failsafe_landing":
            break
    assert flight.named("failsafe_landing")[0][1] == "it falls, and no recovery"


def test_recovery_can_be_asked_for():
    flight = Flight().run(1.0)
    assert flight.manager.recover() is None
    assert flight.manager.state == "recovery"
    assert flight.manager.recover() == "not while recovery"
    flight.until("mission")
    flight.until("hover")
    np.testing.assert_allclose(flight.p, [30.0, 0.0, 2.0], atol=1e-6)


def test_a_floor_below_the_take_off_point_is_where_the_ground_is():
    """A mission downhill: fast descents below home are no falls."""
    params = replace(PARAMS, failsafe=replace(LIMITS, floor_m=-30.0))
    flight = Flight(params, (Takeoff(height_m=4.0),))
    fall(flight, 2.5, to_m=-2.0)
    assert flight.manager.state == "hover"


@pytest.mark.parametrize("seed", [2, 5])
def test_a_gust_in_cold_dense_air_is_not_taken_for_the_ground(seed: int) -> None:
    """Its least thrust carries the vehicle there: 5 was switched off at 1.6 m, and fell."""
    weather = {
        "temperature_offset_K": -33.3,
        "wind_W_mps": [7.91, 2.1, 0.0],
        "wind": {"turbulence": "von_karman", "w20_mps": 8.2},
    }
    loop = ClosedLoop(
        load_scenario("hover", {"environment": weather}, vehicle="hexacopter", seed=seed)
    )
    log = loop.fly()
    at_ns = next(event.stamp_ns for event in log.events if event.name == "landed")
    landed = log.truth.p_W[np.searchsorted(log.truth.stamp_ns, at_ns), 2]
    assert landed - log.truth.p_W[0, 2] < 0.1
    assert not loop.crashed


# ---- what is let down on the ground --------------------------------------------------------------


def tilt_after(log, name):
    """Largest tilt from an event on, rad."""
    at_ns = next(event.stamp_ns for event in log.events if event.name == name)
    x, y = log.truth.q_WB[np.searchsorted(log.truth.stamp_ns, at_ns) :, 1:3].T
    return np.arccos(1.0 - 2.0 * (x * x + y * y)).max()


@pytest.mark.parametrize("seed", [1, 5])
def test_wind_does_not_blow_a_vehicle_over_that_has_landed(seed: int) -> None:
    """Level, with its rotors at 0.7 g, it was blown along the ground at 1 m/s, and tipped over."""
    weather = {
        "temperature_offset_K": -30.0,
        "wind_W_mps": [-15.0, 0.0, 0.0],
        "wind": {"turbulence": "dryden", "w20_mps": 15.0},
    }
    changes = {"environment": weather, "mission.1.hover.duration_s": 1.0}
    log = ClosedLoop(load_scenario("hover", changes, seed=seed)).fly()
    assert tilt_after(log, "landed") < 0.02


SLOPE = """<sdf version="1.9"><world name="slope"><model name="ground"><static>true</static>
<link name="link"><collision name="plane"><geometry><plane>
<normal>0.34202 0 0.93969</normal></plane>
</geometry></collision></link></model></world></sdf>
"""


@pytest.mark.parametrize(
    ("vehicle", "yaw_deg"), [("x500", 0.0), ("x500", 45.0), ("hexacopter", 0.0)]
)
def test_a_vehicle_is_let_down_on_a_slope(tmp_path, vehicle: str, yaw_deg: float) -> None:
    """Two feet stood on it; the others fell when the motors stopped, and it tipped over."""
    (tmp_path / "slope.sdf").write_text(SLOPE)
    changes = {
        "world": str(tmp_path / "slope.sdf"),
        "start.yaw_deg": yaw_deg,
        "autopilot.flight.arming.tilt_rad": 0.5,
    }
    loop = ClosedLoop(load_scenario("hover", changes, vehicle=vehicle))
    assert tilt_after(loop.fly(), "landing") < math.radians(24.0)
    assert not loop.crashed
