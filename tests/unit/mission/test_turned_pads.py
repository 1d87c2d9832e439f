"""A pad of steel turns the magnetic field at take-off: the heading is found in flight."""

import math

import numpy as np
import pytest
from obedient import MISSION, PARAMS, TICK_NS, Flight

from quadsim.base.records import (
    MODE_ATTITUDE,
    MODE_DESCEND,
    MODE_IDLE,
    MODE_POSITION,
    ODOMETRY,
    SETPOINT,
)
from quadsim.geometry.rotation import wrap, yaw_of
from quadsim.mission.flight.commands import LOST_RAD, MOST_S, PERIOD_S, TILT_RAD
from quadsim.mission.flight.flight import ERROR, OK, WARN, FlightManager
from quadsim.sim.closed_loop import ClosedLoop
from quadsim.sim.scenario import load_scenario

ANGLES_DEG = (45.0, 90.0, 135.0, 170.0)
CLEAN_NS = 8_000_000_000


def from_pad(angle_deg: float, seed: int, name: str = "hover") -> tuple[ClosedLoop, float]:
    """Fly from a pad that turns the field until eight seconds; and how far from it that led, m."""
    loop = ClosedLoop(load_scenario(name, seed=seed))
    field_W_T = loop.setup["environment"][0]["magnetic_field_W_T"]
    clean_W_T = field_W_T.copy()
    c, s = math.cos(math.radians(angle_deg)), math.sin(math.radians(angle_deg))
    field_W_T[:2] = np.array([[c, -s], [s, c]]) @ clean_W_T[:2]
    away_m = 0.0
    while not loop.over:
        loop.tick()
        loop.take_off_when_ready()
        if loop.stamp_ns >= CLEAN_NS:
            field_W_T[:] = clean_W_T
        away_m = max(away_m, math.hypot(*loop.state["truth"]["p_W"][0, :2]))
    return loop, away_m


def assert_landed(loop: ClosedLoop) -> None:
    names = [event.name for event in loop.events]
    assert not loop.crashed, loop.events
    assert not {"failsafe_landing", "failsafe_return", "stopped"} & set(names), loop.events
    assert loop.manager.finished


def heading_error_deg(loop: ClosedLoop) -> float:
    """By the truth."""
    estimate, truth = loop.state["odometry"]["q_WB"], loop.state["truth"]["q_WB"][0]
    return abs(math.degrees(wrap(yaw_of(tuple(estimate)) - yaw_of(tuple(truth)))))


@pytest.mark.parametrize("angle_deg", ANGLES_DEG)
@pytest.mark.parametrize(
    "seeds", [range(3), pytest.param(range(3, 23), marks=pytest.mark.thorough)], ids=["3", "20"]
)
def test_a_hover_from_a_pad_that_turns_the_field_lands_where_it_began(
    angle_deg: float, seeds: range
) -> None:
    for seed in seeds:
        loop, away_m = from_pad(angle_deg, seed)
        assert_landed(loop)
        assert away_m < 2.0  # twice what a control that turns about would take: 0.5 m/s for 2 s
        assert heading_error_deg(loop) < 6.0


def test_a_flight_with_corners_from_such_a_pad_goes_on_to_its_end() -> None:
    for seed, angle_deg in ((1, -90.0), (2, 170.0)):
        loop, away_m = from_pad(angle_deg, seed, "square")
        assert_landed(loop)
        assert away_m < 6.0  # the square's far corner is 5.66 m away
        assert heading_error_deg(loop) < 2.0


def test_without_the_pad_nothing_sways() -> None:
    loop, away_m = from_pad(0.0, 1)
    assert_landed(loop)
    assert "heading lost" not in [event.name for event in loop.events]
    assert away_m < 0.2


# ---- the sway ------------------------------------------------------------------------------------


def lose_heading(flight: Flight) -> None:
    flight.odometry.attitude_variance[2] = (LOST_RAD + 0.1) ** 2


def names(flight: Flight) -> list[str]:
    return [name for _, _, name, _ in flight.events]


def test_a_lost_heading_is_swayed_for_and_the_mission_waits() -> None:
    """The tilts add up to no velocity after a period, and to no way: a body that follows them."""
    flight = Flight()
    before = flight.setpoint.copy()
    lose_heading(flight)
    v, p, farthest, fastest = 0.0, 0.0, 0.0, 0.0
    for _ in range(round(PERIOD_S * 50)):
        flight.tick()
        assert flight.setpoint.mode == MODE_ATTITUDE
        assert abs(flight.setpoint.pitch) <= TILT_RAD + 1e-12
        assert (flight.setpoint.roll, flight.setpoint.yaw_rate) == (0.0, 0.0)
        # height is held: the thrust's vertical part stays
        lift = flight.setpoint.thrust * math.cos(flight.setpoint.pitch)
        assert lift == pytest.approx(9.8, abs=0.5)
        v += 9.8 * math.tan(flight.setpoint.pitch) * 0.02
        p += v * 0.02
        farthest, fastest = max(farthest, abs(p)), max(fastest, abs(v))
    assert abs(v) < 0.05
    assert 0.4 < fastest < 0.6
    assert farthest < 0.3
    flight.odometry.attitude_variance[2] = 0.0
    flight.tick()
    assert flight.setpoint.mode == MODE_POSITION
    assert names(flight)[-2:] == ["heading lost", "heading found"]
    levels = [level for _, level, name, _ in flight.events if name.startswith("heading")]
    assert levels == [WARN, OK]
    # the reference has waited
    assert np.linalg.norm(flight.setpoint.p_W - before.p_W) < 0.1


def test_a_heading_that_is_not_found_ends_in_a_level_descent() -> None:
    flight = Flight()
    lose_heading(flight)
    flight.until("failsafe_landing", most_s=MOST_S + 1.0)
    flight.tick()
    assert flight.setpoint.mode == MODE_DESCEND
    assert flight.manager.reason == "the heading is lost"
    assert [level for _, level, name, _ in flight.events if name == "failsafe_landing"] == [ERROR]


def test_on_the_ground_nothing_sways() -> None:
    manager = FlightManager(PARAMS, MISSION)
    odometries, setpoints = np.zeros(1, ODOMETRY), np.zeros(1, SETPOINT)
    odometries[0].q_WB[0] = 1.0
    for k in range(1, 50):
        odometries[0].stamp_ns = k * TICK_NS
        manager.step(k * TICK_NS, odometries, setpoints)
        if k == 1:
            assert manager.arm() is None
            odometries[0].attitude_variance[2] = (LOST_RAD + 0.1) ** 2
    assert manager.state == "armed"
    assert setpoints[0].mode == MODE_IDLE
    assert "heading lost" not in [name for _, _, name, _ in manager.take_events()]


# ---- arming --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sensor", "fault", "name"),
    [
        (
            "gnss",
            {"fault": "bias", "channel": "position", "value": [4.0, 0.0, 0.0]},
            "gnss_position",
        ),
        ("barometer", {"fault": "bias", "value": [200.0]}, "pressure"),
        ("rangefinder", {"fault": "bias", "value": [2.0]}, "range"),
    ],
)
def test_arming_is_refused_while_a_sensor_is_rejected(
    sensor: str, fault: dict[str, object], name: str
) -> None:
    faults = [{"sensor": sensor, "at_s": 2.0, **fault}]
    loop = ClosedLoop(load_scenario("hover", {"faults": faults}))
    while loop.stamp_ns < 2_000_000_000:
        loop.tick()
    while loop.stamp_ns < 3_000_000_000:
        loop.tick()
    assert loop.manager.arm() == f"measurements are rejected: {name}"
    assert loop.manager.state == "disarmed"
