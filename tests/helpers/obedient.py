"""A vehicle that does what the flight manager wants, and an estimate that can be spoiled."""

import numpy as np

from quadsim.base.records import (
    MODE_DESCEND,
    MODE_IDLE,
    MODE_POSITION,
    MODE_STOP,
    MODE_VELOCITY,
    ODOMETRY,
    SETPOINT,
)
from quadsim.control.parameters import FailsafeParams, FlightParams
from quadsim.geometry.rotation import from_euler
from quadsim.mission.flight.flight import FlightManager
from quadsim.mission.items import Goto, Takeoff

TICK_NS = 20_000_000
LIMITS = FailsafeParams()
PARAMS = FlightParams()
MISSION = (Takeoff(height_m=2.0), Goto(position_W_m=(30.0, 0.0, 2.0)))


class Rig:
    """A flight manager and what it needs for a tick; how the vehicle moves is for others to say."""

    def __init__(self, items=(), params=PARAMS, **kwargs):
        self.manager = FlightManager(params, items, **kwargs)
        self.odometries, self.setpoints = np.zeros(1, ODOMETRY), np.zeros(1, SETPOINT)
        self.odometry, self.setpoint = self.odometries[0], self.setpoints[0]
        self.odometry.q_WB[0] = 1.0
        self.stamp_ns, self.thrust, self.events = 0, 9.8, []
        self.estimate = True

    @property
    def state(self):
        return self.manager.state

    def sense(self):
        """What comes in before a tick."""

    def move(self):
        """What the vehicle does of what is wanted."""

    def tick(self):
        self.stamp_ns += TICK_NS
        if self.estimate:
            self.odometry.stamp_ns = self.stamp_ns
            self.sense()
        self.manager.step(self.stamp_ns, self.odometries, self.setpoints, self.thrust)
        for name in ("p_W", "v_W", "a_W", "yaw", "yaw_rate"):
            assert np.isfinite(self.setpoint[name]).all()
        self.events += self.manager.take_events()
        self.move()

    def run(self, seconds):
        for _ in range(round(seconds * 50)):
            self.tick()
        return self

    def until(self, *states, most_s=60.0):
        for _ in range(round(most_s * 50)):
            if self.state in states:
                return self
            self.tick()
        raise AssertionError(f"{self.state}, not {states}: {self.events}")

    def take_off(self, *states):
        """Arm, start the mission, and fly until a state, or to the end of the take-off."""
        self.tick()
        assert self.manager.arm() is None
        assert self.manager.start() is None
        return self.until(*(states or ("mission", "hover")))

    def names(self):
        return [name for _, _, name, _ in self.events]

    def named(self, name):
        return [(level, message) for _, level, event, message in self.events if event == name]

    def follow(self):
        """Be at once where a wanted position is."""
        if self.setpoint.mode == MODE_POSITION:
            self.odometry.p_W[:], self.odometry.v_W[:] = self.setpoint.p_W, self.setpoint.v_W
            self.odometry.q_WB[:] = from_euler(0.0, 0.0, float(self.setpoint.yaw))


class Flight(Rig):
    """A vehicle that follows at once, in flight, with an estimate that can be spoiled."""

    def __init__(self, params=PARAMS, items=MISSION):
        super().__init__(items, params)
        self.p, self.v, self.thrust = np.zeros(3), np.zeros(3), 0.0
        self.spoil = lambda odometry: None
        self.take_off()

    def sense(self):
        self.odometry.p_W[:], self.odometry.v_W[:] = self.p, self.v
        self.spoil(self.odometry)

    def move(self):
        mode = self.setpoint.mode
        self.thrust = {MODE_STOP: 0.0, MODE_IDLE: 1e-3}.get(int(mode), 9.8)
        if mode == MODE_POSITION:
            self.p, self.v = self.setpoint.p_W.copy(), self.setpoint.v_W.copy()
        elif mode in (MODE_VELOCITY, MODE_DESCEND):
            change = self.setpoint.v_W - self.v
            self.v = self.v + change * min(1.0, 0.8 / max(np.linalg.norm(change), 1e-9))
            self.p = self.p + 0.02 * self.v
        if self.p[2] <= 0.0:
            self.p[2], self.v, self.thrust = 0.0, np.zeros(3), min(self.thrust, 5.0)

    def carry(self, *velocity):
        """One tick in which something stronger carries the vehicle at a velocity."""
        self.v = np.array(velocity)
        self.p = self.odometry.p_W + 0.02 * self.v
        self.tick()
