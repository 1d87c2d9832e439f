"""What the flight manager promises for every sequence of requests, estimates, batteries, ranges."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quadsim.base.records import (
    MODE_ATTITUDE,
    MODE_DESCEND,
    MODE_IDLE,
    MODE_POSITION,
    MODE_STOP,
    MODE_VELOCITY,
    ODOMETRY,
    SETPOINT,
)
from quadsim.control.parameters import FailsafeParams, FenceParams, FlightParams, ManualParams
from quadsim.geometry.rotation import from_euler
from quadsim.mission.flight import detours, landing, states
from quadsim.mission.flight.flight import STATES, FlightManager
from quadsim.mission.items import Goto, Hover, Land, Takeoff

TICK_NS = 20_000_000
MISSION = (Takeoff(height_m=2.0), Goto(position_W_m=(6.0, 0.0, 2.0)), Hover(duration_s=1.0), Land())
PARAMS = FlightParams(
    failsafe=FailsafeParams(hold_s=1.0, command_land_s=1.0),
    manual=ManualParams(allowed=True),
    arrival_timeout_s=0.5,
)


@pytest.fixture(scope="module", autouse=True)
def short_times():
    """So that a sequence of a few seconds meets every state."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(states, "SPOOL_UP_S", 0.1)
        patch.setattr(states, "SPOOL_DOWN_S", 0.1)
        patch.setattr(detours, "RECOVERY_S", 1.0)
        patch.setattr(detours, "ESTIMATE_RETURN_S", 0.2)
        patch.setattr(landing, "TOUCHDOWN_S", 0.1)
        patch.setattr(landing, "ESTIMATE_RETURN_S", 0.2)
        yield


FENCED = replace(
    PARAMS,
    fence=FenceParams(
        radius_m=9.0,
        polygon_W_m=((-8.0, -8.0), (8.0, -8.0), (8.0, 8.0), (-8.0, 8.0)),
        ceiling_m=6.0,
        action="return",
    ),
)

wild = st.sampled_from([math.nan, math.inf, -math.inf, 1e300, -1e300, 1e9, 0.0, -5.0, 3.0, 0.5])
numbers = st.one_of(st.floats(-12.0, 12.0), wild)
vectors = st.tuples(numbers, numbers, numbers)

#: What may happen at one tick: a name, and what it needs.
happenings = st.one_of(
    st.tuples(
        st.just("ask"),
        st.sampled_from(
            [
                "arm",
                "disarm",
                "start",
                "pause",
                "abort",
                "hover",
                "return_home",
                "land",
                "recover",
                "take_off",
                "assist",
                "fly_manually",
            ]
        ),
    ),
    st.tuples(st.just("stick"), st.tuples(numbers, numbers, numbers, numbers)),
    st.tuples(st.just("manual"), st.tuples(numbers, numbers, numbers, numbers)),
    st.tuples(st.just("force"), st.just(None)),
    st.tuples(st.just("pose"), st.tuples(vectors, numbers)),
    st.tuples(st.just("velocity"), st.tuples(vectors, numbers)),
    st.tuples(st.just("battery"), st.tuples(numbers, numbers)),
    st.tuples(st.just("range"), st.tuples(numbers, numbers)),
    st.tuples(st.just("motor"), st.integers(0, 7)),
    st.tuples(
        st.just("spoil"),
        st.tuples(
            st.sampled_from(
                ["p_W", "v_W", "w_B", "q_WB", "p_variance", "v_variance", "attitude_variance"]
            ),
            st.integers(0, 2),
            numbers,
        ),
    ),
    st.tuples(st.just("jump"), vectors),
    st.tuples(st.just("gap"), st.integers(1, 60)),
    st.tuples(st.just("fly"), st.integers(1, 150)),
)


class Sequence:
    """A vehicle that follows its setpoint, tick by tick, with whatever happens to it."""

    def __init__(self, params):
        self.manager = FlightManager(params, MISSION)
        self.odometries, self.setpoints = np.zeros(1, ODOMETRY), np.zeros(1, SETPOINT)
        self.odometry, self.setpoint = self.odometries[0], self.setpoints[0]
        self.p, self.v, self.thrust = np.zeros(3), np.zeros(3), 0.0
        self.stamp_ns = 0

    def tick(self, fresh=True, spoil=None):
        self.stamp_ns += TICK_NS
        odometry, setpoint = self.odometry, self.setpoint
        if fresh:
            odometry.p_W[:], odometry.v_W[:], odometry.w_B[:] = self.p, self.v, 0.0
            odometry.q_WB[:] = from_euler(0.0, 0.0, 0.3)
            for name in ("p_variance", "v_variance", "attitude_variance"):
                odometry[name][:] = 1e-4
            if spoil is not None:
                name, axis, value = spoil
                odometry[name][axis] = value
            odometry.stamp_ns = self.stamp_ns
        self.manager.step(self.stamp_ns, self.odometries, self.setpoints, self.thrust)
        self.check()
        mode = int(setpoint.mode)
        self.thrust = {MODE_STOP: 0.0, MODE_IDLE: 1e-3}.get(mode, 9.8)
        if mode == MODE_POSITION:
            self.p, self.v = setpoint.p_W.copy(), setpoint.v_W.copy()
        elif mode in (MODE_VELOCITY, MODE_DESCEND):
            self.v = setpoint.v_W.copy()
            self.p = self.p + 0.02 * self.v
        if self.p[2] <= 0.0:
            self.p[2], self.v, self.thrust = 0.0, np.zeros(3), min(self.thrust, 5.0)

    def check(self):
        manager, setpoint = self.manager, self.setpoint
        assert manager.state in STATES
        for name in SETPOINT.names:
            assert np.isfinite(setpoint[name]).all()
        if manager.state in ("disarmed", "stopped"):
            assert setpoint.mode == MODE_STOP
        elif manager.state in ("armed", "landed"):
            assert setpoint.mode == MODE_IDLE
        else:
            assert setpoint.mode in (MODE_POSITION, MODE_VELOCITY, MODE_DESCEND, MODE_ATTITUDE)
        assert manager.armed == (setpoint.mode != MODE_STOP)
        for stamp_ns, level, name, message in manager.take_events():
            assert stamp_ns <= self.stamp_ns
            assert level in (0, 1, 2)
            assert name
            assert "\n" not in message
        assert all(isinstance(value, str) for value in manager.status().values())

    def happen(self, what, value):
        manager = self.manager
        if what == "ask":
            answer = getattr(manager, value)()
            assert answer is None or (answer and "\n" not in answer)
            self.tick()
        elif what == "force":
            manager.disarm(force=True)
            assert not manager.armed
            self.tick()
        elif what == "pose":
            manager.command_pose(*value)
            self.tick()
        elif what == "velocity":
            manager.command_velocity(*value)
            self.tick()
        elif what == "battery":
            manager.take_battery(self.stamp_ns, *value)
            self.tick()
        elif what == "range":
            manager.take_range(self.stamp_ns, *value)
            self.tick()
        elif what == "stick":
            manager.pilot.command_stick(*value)
            self.tick()
        elif what == "manual":
            manager.pilot.command_manual(*value)
            self.tick()
        elif what == "motor":
            manager.motor_lost(value)
            self.tick()
        elif what == "spoil":
            self.tick(spoil=value)
        elif what == "jump":
            if all(map(math.isfinite, value)):
                self.p = self.p + np.clip(value, -50.0, 50.0)
            self.tick()
        elif what == "gap":
            for _ in range(value):
                self.tick(fresh=False)
        else:
            for _ in range(value):
                self.tick()


@settings(max_examples=60, deadline=None)
@given(
    fenced=st.booleans(),
    begins=st.sampled_from(["standing", "armed", "flying"]),
    sequence=st.lists(happenings, min_size=1, max_size=14),
)
def test_no_sequence_breaks_the_flight_manager(fenced, begins, sequence):
    """Nothing raises, no setpoint is without a number, no rotor turns disarmed."""
    flight = Sequence(FENCED if fenced else PARAMS)
    flight.tick()
    if begins != "standing":
        assert flight.manager.arm() is None
    if begins == "flying":
        assert flight.manager.start() is None
        for _ in range(120):
            flight.tick()
    for what, value in sequence:
        flight.happen(what, value)


@settings(max_examples=25, deadline=None)
@given(sequence=st.lists(happenings.filter(lambda h: h[0] not in ("ask", "force")), max_size=10))
def test_every_flight_ends_when_it_is_told_to_land(sequence):
    """Whatever has happened: with a good estimate again, a landing ends disarmed or stopped."""
    flight = Sequence(PARAMS)
    flight.tick()
    assert flight.manager.arm() is None
    assert flight.manager.start() is None
    for _ in range(120):
        flight.tick()
    for what, value in sequence:
        flight.happen(what, value)
    for _ in range(20_000):
        if not flight.manager.armed:
            break
        if flight.manager.state in ("mission", "hover", "guided", "velocity", "hold"):
            flight.manager.land()
        flight.tick()
    assert not flight.manager.armed
    assert flight.setpoint.mode == MODE_STOP
