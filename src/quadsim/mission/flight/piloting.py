"""Flight by somebody's sticks: assisted, or manual where that is allowed; see docs/piloting.md."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.elementary import cos, sin
from quadsim.base.parameters import Vec3, pack
from quadsim.base.records import MODE_ATTITUDE, SETPOINT
from quadsim.control.assisted import (
    Ground,
    assisted_step,
    assisted_wish,
    at_rest,
    begin_assisted,
    manual_wish,
    new_assisted,
    write_assisted,
)
from quadsim.control.joystick import Sticks
from quadsim.control.parameters import GRAVITY_MPS2
from quadsim.control.pid import clamp
from quadsim.mission.flight.failsafes import Failsafes
from quadsim.mission.flight.states import WARN
from quadsim.mission.items import Takeoff
from quadsim.mission.reference.guidance import ZERO
from quadsim.mission.reference.legs import write_setpoint

#: States in which a stick that moves takes over, and those that sticks fly.
YIELDING = ("mission", "hover", "guided", "velocity", "returning")
PILOTED = ("assisted", "manual")

#: Longest tick that the reference is advanced by, s.
MOST_TICK_S = 0.1
#: Height that "nothing within the range finder's reach" stands for at least, m.
FAR_M = 5.0


class PilotedStates(Failsafes):
    """The states ``assisted`` and ``manual``, and the take-off without a mission."""

    _v_W: Vec3 = ZERO

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._assisteds = new_assisted()
        self._given: NDArray[np.record] = np.zeros(1, SETPOINT)
        super().__init__(*args, **kwargs)
        self._assisted_params = np.array([pack(self._params.assisted)])
        self._handlers |= {
            "takeoff": self._on_takeoff,
            "assisted": self._on_assisted,
            "manual": self._on_manual,
        }

    def _reset(self) -> None:
        """Forget the last flight and its pilot."""
        super()._reset()
        self._lifts = False  # takes off without a mission
        self._stick_ns = 0  # when sticks were last heard
        self._stepped_ns = 0
        self._resting = ""  # why it is to come to rest and hover; empty: it is not
        self._sticks_lost = False
        self._wish = (0.0, 0.0, 0.0, 0.0)  # forward, left, up, yaw rate
        self._piloted = False  # since the sticks took over, heights count from the ground beneath
        self._attitude = (0.0, 0.0, 0.0, GRAVITY_MPS2)  # roll, pitch, yaw rate, thrust

    # requests

    def take_off(self) -> str | None:
        """Take off to ``assisted.takeoff_m`` and hover there, for whoever flies by sticks."""
        if self.state != "armed":
            return f"not while {self.state}" + ("" if self.armed else "; arm first")
        self._lifts = True
        return None

    def assist(self) -> str | None:
        """Give the vehicle to the sticks, in assisted control."""
        if self.state not in (*YIELDING, "manual"):
            return f"not while {self.state}"
        self._begin_assisted("by request")
        return None

    def fly_manually(self) -> str | None:
        """Give the vehicle to the sticks, without any help."""
        if not self._params.manual.allowed:
            return "manual flight is not allowed (flight.manual.allowed)"
        if self.state not in (*YIELDING, "assisted"):
            return f"not while {self.state}"
        self._suspend()
        self._attitude = (0.0, 0.0, 0.0, GRAVITY_MPS2)
        self._stick_ns = self._stamp_ns
        self._guidance.borrow(self._given)
        self._enter("manual", "by request")
        self._on_manual()
        return None

    def take_sticks(self, sticks: Sticks) -> str | None:
        """Fly by sticks as the state has it: manual where that was asked for, else assisted.

        Args:
            sticks: forward, left, up, yaw; each in [-1, 1].
        """
        if self.state == "manual":
            return self.command_manual(*manual_wish(self._params.manual, sticks))
        return self.command_stick(*assisted_wish(self._params.assisted, sticks))

    def command_stick(
        self, forward_mps: float, left_mps: float, up_mps: float, yaw_rate_radps: float
    ) -> str | None:
        """Fly by sticks in assisted control; a stick that is moved takes over.

        Args:
            forward_mps: velocity along the heading; all four 0: released, hover.
            left_mps: velocity to the left of it.
            up_mps: how fast the height held above ground grows.
            yaw_rate_radps: about the vertical.
        """
        wish = (forward_mps, left_mps, up_mps, yaw_rate_radps)
        if refused := self._refuse_sticks(wish, (*YIELDING, "assisted")):
            return refused
        moved = any(wish)
        if self.state != "assisted":
            if not moved:
                self._land_at_ns = None  # somebody is there again
                return None
            self._begin_assisted("a stick was moved")
        limits = self._params.assisted
        climb, turn = limits.climb_mps, limits.yaw_rate_radps
        self._wish = (
            forward_mps,
            left_mps,
            clamp(up_mps, -climb, climb),
            clamp(yaw_rate_radps, -turn, turn),
        )
        self._stick_ns = self._stamp_ns
        self._sticks_lost = False
        if moved:
            self._resting = ""
        return None

    def command_manual(
        self, roll: float, pitch: float, yaw_rate: float, thrust: float
    ) -> str | None:
        """Fly by sticks in manual flight.

        Args:
            roll: wanted, in rad.
            pitch: wanted, in rad.
            yaw_rate: about the vertical, in rad/s.
            thrust: collective specific thrust in m/s^2.
        """
        wish = (roll, pitch, yaw_rate, thrust)
        if refused := self._refuse_sticks(wish, ("manual",)):
            return refused
        self._attitude = wish
        self._stick_ns = self._stamp_ns
        return None

    def _refuse_sticks(self, numbers: tuple[float, ...], states: tuple[str, ...]) -> str | None:
        if not all(map(math.isfinite, numbers)):
            self._event(WARN, "stick refused", f"not a number in {numbers}")
            return "a number in it is not finite"
        return None if self.state in states else f"not while {self.state}"

    # assisted

    def _begin_assisted(self, why: str) -> None:
        self._suspend()
        self.ground.use()
        begin_assisted(self._assisteds, *self._guidance.motion(self._stamp_ns))
        write_assisted(self._assisteds, self._given)
        self._guidance.borrow(self._given)
        self._stick_ns = self._stepped_ns = self._stamp_ns
        self._resting, self._sticks_lost = "", False
        self._wish = (0.0, 0.0, 0.0, 0.0)
        self._piloted, self._recoveries = True, 0
        self._enter("assisted", why)

    def _come_to_rest(self) -> str | None:
        """Brake by the sticks' own reference, which minds the ground; then hover."""
        if self.state == "manual":
            self._begin_assisted("to come to rest")
        self._wish = (0.0, 0.0, 0.0, 0.0)
        self._resting = "paused"
        return None

    def _below(self) -> Ground:
        """The ground, as far as it is known, and how fast one may fly above it."""
        ground, params = self.ground, self._params.assisted
        reference = self._assisteds[0]
        p_W = self._guidance.estimate[0]
        if ground.is_near:
            return (1, p_W[2], 0.0, 0.0, 0.0)
        if ground.known:
            height_m, east, north = ground.at(float(reference.p_W[0]), float(reference.p_W[1]))
            return (1, height_m, east, north, params.speed_mps)
        if ground.is_far:
            return (0, -math.inf, 0.0, 0.0, params.speed_mps)
        if ground.age_s == math.inf:  # no range finder: as flat as the take-off point
            return (0, self._ground_m, 0.0, 0.0, params.speed_mps)
        return (0, float(reference.held_m) - params.lowest_m, 0.0, 0.0, 0.0)

    def _inside(self, wish: Sticks) -> Sticks:
        """A wish, cut where it would lead across the fence."""
        if not self._fence.bounds_anything:
            return wish
        yaw = float(self._assisteds[0].yaw)
        c, s = cos(yaw), sin(yaw)
        forward, left, up, turn = wish
        v_W = (c * forward - s * left, s * forward + c * left, up)
        braking, lag_s = self._params.assisted.acceleration_mps2, self._params.assisted.timeout_s
        east, north, up = self._fence.cut(self._guidance.estimate[0], v_W, braking, lag_s)
        return (c * east + s * north, -s * east + c * north, up, turn)

    def _height_m(self) -> float:
        """Estimated height above the ground beneath, where a pilot flies and it is known."""
        if not self._piloted:
            return super()._height_m()
        (x, y, z), _ = self._guidance.estimate
        if self.ground.known:
            return z - self.ground.at(x, y)[0]
        if self.ground.is_far:
            return max(super()._height_m(), FAR_M)
        return super()._height_m()

    def _falls(self) -> bool:
        """Pull up; not where it sinks along a slope, nor in manual flight."""
        if self.state == "manual":
            return False
        if self.state == "assisted" and self.ground.known:
            (x, y, _), _ = self._guidance.estimate
            _, east, north = self.ground.at(x, y)
            rise = east * self._v_W[0] + north * self._v_W[1]
            if rise - self._v_up <= self._params.failsafe.impact_sink_mps:
                return False
        return super()._falls()

    def _begin_way_home(self, height_m: float, speed_mps: float) -> None:
        """Fly home; above the ground as it comes, where a pilot flew so."""
        if self._piloted and self.ground.known:
            (x, y, _), yaw = self._guidance.estimate
            self._guidance.go(self._stamp_ns, (x, y, self._height_m()), yaw, above=True)
            height_m = max(height_m, self._params.assisted.takeoff_m)
        super()._begin_way_home(height_m, speed_mps)

    def _recover(self) -> None:
        """Climb away from the ground; in manual flight it is the pilot's."""
        if self.state != "manual":
            super()._recover()

    def _on_assisted(self) -> None:
        silent_s = self._since_s(self._stick_ns)
        if silent_s > self._params.assisted.timeout_s and not self._sticks_lost:
            self._sticks_lost = True
            self._wish = (0.0, 0.0, 0.0, 0.0)
            self._resting = "the sticks stay away"
            self._event(
                WARN, "sticks lost", f"nothing heard for {silent_s:.1f} s: stops and hovers"
            )
        self._assisteds[0].wish[:] = self._inside(self._wish)
        dt_s = min(self._since_s(self._stepped_ns), MOST_TICK_S)
        self._stepped_ns = self._stamp_ns
        turn = self._params.yaw_acceleration_radps2
        p_W = self._guidance.estimate[0]
        assisted_step(self._assisteds, self._assisted_params, p_W, self._below(), turn, dt_s)
        write_assisted(self._assisteds, self._given)
        if self._resting and at_rest(self._assisteds):
            self._guidance.brake(self._stamp_ns)
            self._enter("hover", self._resting, WARN if self._sticks_lost else 0)
            if self._sticks_lost:
                wait_s = self._params.failsafe.command_land_s
                self._land_at_ns = self._stamp_ns + round(wait_s * 1e9)

    # manual

    def _on_manual(self) -> None:
        silent_s = self._since_s(self._stick_ns)
        p_W, yaw = self._guidance.estimate
        roll, pitch, yaw_rate, thrust = self._attitude
        given = self._given
        write_setpoint(given, MODE_ATTITUDE, p_W, self._v_W, ZERO, yaw, yaw_rate)
        given["roll"], given["pitch"], given["thrust"] = roll, pitch, thrust
        if silent_s > self._params.assisted.timeout_s:
            stick_ns = self._stick_ns
            self._begin_assisted("no message from the sticks")
            self._stick_ns = stick_ns
            self._on_assisted()
        elif self._is_down():
            self._enter("landed", "touch-down")

    # take-off

    def _on_armed(self) -> None:
        if not self._lifts:
            super()._on_armed()
        elif self._since_s(self._entered_ns) >= self._params.spool_up_s:
            (x, y, z), yaw = self._guidance.estimate
            self._takeoff_ns, self._ground_m, self._home = self._stamp_ns, z, (x, y)
            self._started = True
            self._index = int(bool(self._items) and isinstance(self._items[0], Takeoff))
            self.ground.use()
            self._guidance.stand(self._stamp_ns, (x, y, z), yaw)
            height_m = self._params.assisted.takeoff_m
            self._guidance.go(self._stamp_ns, (x, y, z + height_m), yaw)
            self._enter("takeoff", f"to {height_m:g} m")

    def _on_takeoff(self) -> None:
        if not self._lifts:
            self._on_mission()
        elif self._guidance.is_over(self._stamp_ns):
            away_m = self._guidance.away_m
            if away_m <= self._params.arrival_radius_m:
                self._lifts = False
                self._begin_assisted("in the air")
            elif self._guidance.late_s(self._stamp_ns) > self._params.arrival_timeout_s:
                self._fail(f"take-off failed, {away_m:.2f} m short")
