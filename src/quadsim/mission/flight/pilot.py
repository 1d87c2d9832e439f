"""Flight by somebody's sticks: assisted, or manual where that is allowed; see docs/piloting.md."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.elementary import cos, sin
from quadsim.base.parameters import pack
from quadsim.base.records import MODE_ATTITUDE, SETPOINT
from quadsim.control import assisted
from quadsim.control.joystick import RELEASED, Sticks
from quadsim.control.parameters import GRAVITY_MPS2
from quadsim.control.pid import clamp
from quadsim.mission.flight.context import FlightContext
from quadsim.mission.flight.estimate_check import ZERO
from quadsim.mission.flight.landing import Landing
from quadsim.mission.flight.mission_items import MissionItems
from quadsim.mission.flight.states import OK, STEERED, WARN
from quadsim.mission.reference.legs import write_setpoint
from quadsim.mission.reference.reference import YAW_ACCELERATION_RADPS2

#: Longest tick that the reference is advanced by, s.
MOST_TICK_S = 0.1


class Pilot:
    """The sticks of one flight.

    Args:
        flight: whose state and reference they lead.
        landing, mission: which they interrupt.

    Attributes:
        lifts: takes off without a mission.
    """

    def __init__(self, flight: FlightContext, landing: Landing, mission: MissionItems) -> None:
        self._flight, self._landing, self._mission = flight, landing, mission
        self._assisteds: Any = assisted.new_assisted()
        self._params = np.array([pack(flight.params.assisted)])
        self._given: NDArray[np.record] = np.zeros(1, SETPOINT)
        self.lifts = False
        self._stick_ns = 0  # when sticks were last heard
        self._stepped_ns = 0
        self._resting = ""  # why it is to come to rest and hover; empty: it is not
        self._lost = False
        self._wish = RELEASED  # forward, left, up, yaw rate
        self._attitude = (0.0, 0.0, 0.0, GRAVITY_MPS2)  # roll, pitch, yaw rate, thrust

    # requests

    def take_off(self) -> str | None:
        """Take off to ``assisted.takeoff_m`` and hover there."""
        flight = self._flight
        if flight.state != "armed":
            return f"not while {flight.state}" + ("" if flight.armed else "; arm first")
        self.lifts = True
        return None

    def assist(self) -> str | None:
        """Take the vehicle over in assisted control."""
        if self._flight.state not in (*STEERED, "manual"):
            return f"not while {self._flight.state}"
        self._begin("by request")
        return None

    def fly_manually(self) -> str | None:
        """Take the vehicle over without any help."""
        flight = self._flight
        if not flight.params.manual.allowed:
            return "manual flight is not allowed (flight.manual.allowed)"
        if flight.state not in (*STEERED, "assisted"):
            return f"not while {flight.state}"
        self._mission.suspend()
        self._attitude = (0.0, 0.0, 0.0, GRAVITY_MPS2)
        self._stick_ns = flight.now_ns
        flight.reference.borrow(self._given)
        flight.enter("manual", "by request")
        self.manual_tick()
        return None

    def take_sticks(self, sticks: Sticks) -> str | None:
        """Fly by sticks as the state has it: manual where that was asked for, else assisted.

        Args:
            sticks: forward, left, up, yaw; each in [-1, 1].
        """
        if self._flight.state == "manual":
            return self.command_manual(*assisted.manual_wish(self._flight.params.manual, sticks))
        return self.command_stick(*assisted.assisted_wish(self._flight.params.assisted, sticks))

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
        flight, limits = self._flight, self._flight.params.assisted
        request = (forward_mps, left_mps, up_mps, yaw_rate_radps)
        if refused := self._refusal(request, (*STEERED, "assisted")):
            return refused
        moved = any(request)
        if flight.state != "assisted":
            if not moved:
                flight.land_at_ns = None  # somebody is there again
                return None
            self._begin("a stick was moved")
        up_mps = clamp(up_mps, -limits.climb_mps, limits.climb_mps)
        turn = clamp(yaw_rate_radps, -limits.yaw_rate_radps, limits.yaw_rate_radps)
        self._wish = (forward_mps, left_mps, up_mps, turn)
        self._stick_ns, self._lost = flight.now_ns, False
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
        request = (roll, pitch, yaw_rate, thrust)
        if refused := self._refusal(request, ("manual",)):
            return refused
        self._attitude, self._stick_ns = request, self._flight.now_ns
        return None

    def _refusal(self, numbers: tuple[float, ...], states: tuple[str, ...]) -> str | None:
        if not all(map(math.isfinite, numbers)):
            self._flight.event(WARN, "stick refused", f"not a number in {numbers}")
            return "a number in it is not finite"
        return None if self._flight.state in states else f"not while {self._flight.state}"

    def come_to_rest(self) -> None:
        """Brake by the sticks' own reference, which minds the ground; then hover."""
        if self._flight.state == "manual":
            self._begin("to come to rest")
        self._wish, self._resting = RELEASED, "paused"

    # assisted

    def _begin(self, why: str) -> None:
        flight = self._flight
        self._mission.suspend()
        flight.ground.use()
        assisted.begin_assisted(self._assisteds, *flight.reference.motion())
        assisted.write_assisted(self._assisteds, self._given)
        flight.reference.borrow(self._given)
        self._stick_ns = self._stepped_ns = flight.now_ns
        self._resting, self._lost, self._wish = "", False, RELEASED
        flight.took_over, flight.recoveries = True, 0
        flight.enter("assisted", why)

    def _below(self) -> assisted.Ground:
        """The ground, as far as it is known, and how fast one may fly above it."""
        flight, ground, params = self._flight, self._flight.ground, self._flight.params.assisted
        reference = self._assisteds[0]
        if ground.near:
            return (1, flight.estimate.p_W[2], 0.0, 0.0, 0.0)
        if ground.known:
            height_m, east, north = ground.at(float(reference.p_W[0]), float(reference.p_W[1]))
            return (1, height_m, east, north, params.speed_mps)
        if ground.far:
            return (0, -math.inf, 0.0, 0.0, params.speed_mps)
        if ground.never_seen:  # no range finder: as flat as the take-off point
            return (0, flight.ground_m, 0.0, 0.0, params.speed_mps)
        return (0, float(reference.held_m) - params.lowest_m, 0.0, 0.0, 0.0)

    def _inside(self, request: Sticks) -> Sticks:
        """A request, cut where it would lead across the fence."""
        flight, params = self._flight, self._flight.params.assisted
        if not flight.fence.bounds_anything:
            return request
        yaw = float(self._assisteds[0].yaw)
        c, s = cos(yaw), sin(yaw)
        forward, left, up, turn = request
        v_W = (c * forward - s * left, s * forward + c * left, up)
        east, north, up = flight.fence.cut(
            flight.estimate.p_W, v_W, params.acceleration_mps2, params.timeout_s
        )
        return (c * east + s * north, -s * east + c * north, up, turn)

    def assisted_tick(self) -> None:
        """Move the reference by the sticks; come to rest where they are missing."""
        flight, params = self._flight, self._flight.params
        silent_s = flight.since_s(self._stick_ns)
        if silent_s > params.assisted.timeout_s and not self._lost:
            self._lost, self._wish, self._resting = True, RELEASED, "the sticks stay away"
            words = f"nothing heard for {silent_s:.1f} s: stops and hovers"
            flight.event(WARN, "sticks lost", words)
        self._assisteds[0].wish[:] = self._inside(self._wish)
        dt_s = min(flight.since_s(self._stepped_ns), MOST_TICK_S)
        self._stepped_ns = flight.now_ns
        assisted.assisted_step(
            self._assisteds, self._params, flight.estimate.p_W, self._below(),
            YAW_ACCELERATION_RADPS2, dt_s,
        )  # fmt: skip
        assisted.write_assisted(self._assisteds, self._given)
        if self._resting and assisted.at_rest(self._assisteds):
            flight.reference.brake()
            flight.enter("hover", self._resting, WARN if self._lost else OK)
            if self._lost:
                self._landing.begin_after(params.failsafe.command_land_s)

    # manual

    def manual_tick(self) -> None:
        """Pass the attitude on; assisted where the sticks are missing."""
        flight, given, estimate = self._flight, self._given, self._flight.estimate
        roll, pitch, yaw_rate, thrust = self._attitude
        write_setpoint(
            given, MODE_ATTITUDE, estimate.p_W, estimate.v_W, ZERO, estimate.yaw, yaw_rate
        )
        given["roll"], given["pitch"], given["thrust"] = roll, pitch, thrust
        if flight.since_s(self._stick_ns) > flight.params.assisted.timeout_s:
            stick_ns = self._stick_ns
            self._begin("no message from the sticks")
            self._stick_ns = stick_ns
            self.assisted_tick()
        elif self._landing.is_down():
            flight.enter("landed", "touch-down")

    # take-off

    def lift_tick(self) -> None:
        """Take over at the end of a take-off without a mission."""
        flight = self._flight
        if flight.reference.is_over and self._mission.is_reached(None):
            self.lifts = False
            if flight.state == "takeoff":
                self._begin("in the air")
