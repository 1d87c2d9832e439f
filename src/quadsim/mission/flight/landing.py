"""Landings: by request, by a failsafe, without a position or without any estimate."""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import numpy as np

from quadsim.base.compiled import plain
from quadsim.base.records import MODE_ATTITUDE
from quadsim.control.parameters import GRAVITY_MPS2
from quadsim.control.pid import clamp
from quadsim.geometry.rotation import quat, to_euler
from quadsim.mission.flight.context import FlightContext
from quadsim.mission.flight.estimate_check import ESTIMATE_RETURN_S
from quadsim.mission.flight.states import ERROR, LANDINGS, WARN

#: Light thrust and small speed for so long are a touch-down, s.
TOUCHDOWN_S = 0.7
#: Thrust over the weight below which the ground carries it.
TOUCHDOWN_THRUST = 0.75
#: While the ground seems to carry it, thrust over the weight falls by so much a second, to so much:
#: a level vehicle that is nearly carried by its rotors is blown along the ground, and tips over
#: when these stop.
SETTLE_PER_S, SETTLED_THRUST = 1.5, 0.3
#: Then the lean that is held goes over, by so much a second, rad, into that in which the vehicle
#: stands. It is down when they differ, and have changed for a time, s, by no more than an angle,
#: rad. On a slope the thrust would else hold one side up until the motors stop.
LET_DOWN_RADPS, LIES_RAD, LIES_S = 0.4, 0.03, 0.3
#: Longest step of that, s.
MOST_TICK_S = 0.1
#: Vertical speed below which the vehicle stands, m/s.
TOUCHDOWN_SPEED_MPS = 0.35
#: What a blind descent is given beyond the time that its height takes, s.
BLIND_MARGIN_S = 5.0
#: Without a motor: growth of the acceleration upwards, beyond that of the thrust, by which a strike
#: on the ground is felt, m/s^2, within a time, s; largest sink rate after it, m/s, and height, m.
STRIKE_MPS2, STRIKE_S, STRIKE_SINK_MPS, STRIKE_BELOW_M = 2.0, 0.1, 0.2, 1.0
#: Without a motor: least spin, rad/s, and tangent of the angle (20 degrees) between body z and the
#: axis of the spin, at which one foot would strike alone. Below a height, m, less thrust over the
#: weight brings the body upright, for at most a time, s.
SPINNING_RADPS, LEANING = 5.0, 0.36
DROP_M, DROP_THRUST, DROP_S = 0.25, 0.8, 0.5
#: Height above the take-off, beyond three deviations, from which on a gust from below carries a
#: vehicle as well as the ground does, m; and how much longer it must have been carried there.
HIGH_M, LONGER = 0.2, 5.0
#: Without a position: thrust over the weight after a strike on the ground, and sink rate over that
#: of the descent at which the strike was none.
STRUCK_THRUST, STRUCK_SINK = 0.5, 1.5


class Landing:
    """How one flight comes down; the ground is felt by the vehicle's own thrust and motion alone.

    Attributes:
        placed: there is a position to hold.
        trusted: a good estimate may be flown on again.
    """

    def __init__(self, flight: FlightContext) -> None:
        self._flight, self._params = flight, flight.params
        self.reset()

    def reset(self) -> None:
        """Forget the last flight."""
        self.placed = self.trusted = True
        self._blind_until_ns = 0
        self._sinking: deque[tuple[float, float, float]] = deque()  # time, speed up, thrust
        self._dropped_ns: int | None = None  # since when it has been let down upright
        self._struck = False  # the ground, in a landing without a position
        self._lean = (0.0, 0.0)  # roll and pitch that are held on the ground
        self._leaned_ns = 0
        self._lay = (0.0, 0.0)  # what they were when they last changed
        self._lay_ns = 0

    def begin(self, message: str, speed_mps: float = 0.0) -> None:
        """Brake, then sink at a speed; 0 for the autopilot's."""
        self._flight.sink_mps = speed_mps or self._params.landing_speed_mps
        self._flight.reference.brake()
        self._flight.enter("landing", message)

    def begin_after(self, wait_s: float) -> None:
        """Land from the hover, if nobody commands anything until then."""
        self._flight.land_at_ns = self._flight.now_ns + round(wait_s * 1e9)

    def fail(self, reason: str, blind: bool = False, placed: bool = True) -> None:
        """Begin a landing that nothing but its end, or force, ends.

        Args:
            reason: in words.
            blind: without any estimate: level, by thrust.
            placed: whether there is a position to land at; without, the velocity is held at zero.
        """
        flight, descent_mps = self._flight, self._params.failsafe.descent_mps
        flight.reason, flight.blind, self.placed = reason, blind, placed
        if blind:
            down_s = max(flight.height_m(), 0.0) / descent_mps + BLIND_MARGIN_S
            self._blind_until_ns = flight.now_ns + round(down_s * 1e9)
        elif placed:
            self._flight.sink_mps = self._params.landing_speed_mps
            flight.reference.brake()
        else:
            flight.reference.drift(descent_mps)
        flight.enter("failsafe_landing", reason, ERROR)

    def tick(self) -> None:
        """Descend once the vehicle has come to rest; feel for the ground."""
        reference = self._flight.reference
        if reference.is_over:
            reference.sink(self._flight.sink_mps)
        if self.is_down():
            self._flight.enter("landed", "touch-down")

    def failsafe_tick(self) -> None:
        """Land with what is left of the estimate; on a good one again, under position control."""
        flight, estimate = self._flight, self._flight.estimate
        back = estimate.good and estimate.good_s >= ESTIMATE_RETURN_S
        if self.placed and not flight.blind:
            self.tick()
        elif back and self.trusted and flight.is_fixed:
            flight.blind, self.placed = False, True
            self._flight.sink_mps = self._params.landing_speed_mps
            flight.reference.stand()
            flight.event(WARN, "estimate is back", "the landing goes on under position control")
        elif not flight.blind:
            if self.is_down():
                flight.enter("landed", "touch-down")
        elif flight.now_ns >= self._blind_until_ns:
            flight.stop(f"{flight.reason}; the descent should have ended by now")

    def is_down(self) -> bool:
        """Whether the ground has carried the vehicle for a while; without a motor, has met it."""
        flight = self._flight
        light = flight.thrust < TOUCHDOWN_THRUST * GRAVITY_MPS2
        if not light or abs(flight.estimate.v_W[2]) > TOUCHDOWN_SPEED_MPS:
            flight.light_ns = None
        elif flight.light_ns is None:
            flight.light_ns = flight.now_ns
        wait_s = TOUCHDOWN_S * (LONGER if self._is_high() else 1.0)
        light_s = 0.0 if flight.light_ns is None else flight.since_s(flight.light_ns)
        if light_s >= wait_s and (self._lies() or light_s >= TOUCHDOWN_S * LONGER):
            return True
        return self._flight.crippled and self._strikes()

    def _seems_carried(self) -> bool:
        """Whether the ground seems to carry it; well above the take-off, for a while."""
        flight = self._flight
        if flight.light_ns is None:
            return False
        return not self._is_high() or flight.since_s(flight.light_ns) >= TOUCHDOWN_S

    def _settle(self) -> float:
        """Let down a vehicle that the ground seems to carry: its thrust, m/s^2."""
        flight = self._flight
        if flight.crippled or flight.light_ns is None:
            return flight.thrust
        carried_s = flight.since_s(flight.light_ns) - (TOUCHDOWN_S if self._is_high() else 0.0)
        settling = TOUCHDOWN_THRUST - SETTLE_PER_S * max(carried_s, 0.0)
        most = LET_DOWN_RADPS * min(flight.since_s(self._leaned_ns), MOST_TICK_S)
        self._leaned_ns = flight.now_ns
        if settling > SETTLED_THRUST:
            self._lean = (0.0, 0.0)
        else:
            steps = (clamp(left, -most, most) for left in self._lean_left())
            roll, pitch = (held + step for held, step in zip(self._lean, steps, strict=True))
            self._lean = (roll, pitch)
        if settling > SETTLED_THRUST or math.dist(self._lean, self._lay) > LIES_RAD:
            self._lay, self._lay_ns = self._lean, flight.now_ns
        return min(flight.thrust, max(settling, SETTLED_THRUST) * GRAVITY_MPS2)

    def _lean_left(self) -> tuple[float, float]:
        """Roll and pitch of the vehicle, less those that are held on the ground, rad."""
        q_WB = self._flight.estimate.watches["q_WB"][0]  # of the last that was whole
        roll, pitch, _ = plain(to_euler)(quat(q_WB))
        return roll - self._lean[0], pitch - self._lean[1]

    def _lies(self) -> bool:
        """Whether the ground, and no thrust, holds its lean; a crippled one turns."""
        flight = self._flight
        if flight.crippled or flight.state not in LANDINGS:
            return True
        return math.hypot(*self._lean_left()) < LIES_RAD and flight.since_s(self._lay_ns) > LIES_S

    def _is_high(self) -> bool:
        """Whether it is well above the take-off, where the ground may be too."""
        flight = self._flight
        variance = float(flight.estimate.odometries["p_variance"][0, 2])
        height_m = flight.estimate.p_W[2] - flight.ground_m
        return height_m > HIGH_M + 3.0 * math.sqrt(max(variance, 0.0))

    def _strikes(self) -> bool:
        """Whether the ground stops the vehicle: more than its thrust does.

        On three rotors it comes down spinning, on one foot: control that goes on until the ground
        carries it would turn it over. What thrust is left is unknown, so changes are compared.
        """
        flight, past = self._flight, self._sinking
        now_s, v_up = flight.now_ns * 1e-9, flight.estimate.v_W[2]
        past.append((now_s, v_up, flight.thrust))
        while past[0][0] < now_s - 2.01 * STRIKE_S:
            past.popleft()
        if past[0][0] > now_s - 1.5 * STRIKE_S or v_up < -STRIKE_SINK_MPS:
            return False
        middle = next(i for i, one in enumerate(past) if one[0] > now_s - 1.01 * STRIKE_S)
        first, between, last = past[0], past[middle], past[-1]
        if not first[0] < between[0] < last[0]:
            return False
        before_mps2 = (between[1] - first[1]) / (between[0] - first[0])
        after_mps2 = (last[1] - between[1]) / (last[0] - between[0])
        thrusts = [one[2] for one in past]
        risen_mps2 = max(0.0, max(thrusts[middle:]) - min(thrusts[: middle + 1]))
        felt_mps2 = after_mps2 - before_mps2 - risen_mps2
        return felt_mps2 > STRIKE_MPS2 and flight.height_m() < STRIKE_BELOW_M

    def relax(self, setpoints: Any) -> None:
        """Level, with less and less thrust, once it is at or just above the ground.

        An estimate that goes on drifting, or the lean against a wind, would else tip it over where
        it stands. If it was a gust that carried it, it sinks, and is flown on.
        """
        if self._flight.state not in LANDINGS:
            return
        roll = pitch = 0.0
        if self._seems_carried():
            thrust = self._settle()
            roll, pitch = self._lean
        elif self._flight.crippled and self._drops():
            thrust = DROP_THRUST * GRAVITY_MPS2
        elif not self.placed and not self._flight.crippled and self._has_struck():
            thrust = STRUCK_THRUST * GRAVITY_MPS2
        else:
            return
        setpoints["mode"] = MODE_ATTITUDE
        setpoints["roll"], setpoints["pitch"], setpoints["yaw_rate"] = roll, pitch, 0.0
        setpoints["thrust"] = thrust

    def _has_struck(self) -> bool:
        """Whether the vehicle has met the ground in a landing without a position.

        The ground stops a velocity that the estimate does not know of, and so appears to start one.
        Control that leans against it turns the vehicle over the feet that are held.
        """
        if self._strikes():
            self._struck = True
        elif self._flight.estimate.v_W[2] < -STRUCK_SINK * self._params.failsafe.descent_mps:
            self._struck = False
        return self._struck

    def _drops(self) -> bool:
        """Whether a vehicle that spins at an angle to its axis is let down over the last bit.

        The angle is made by the rotor opposite the lost one, which carries what the other two
        cannot. With less thrust the body comes upright and meets the ground with all its feet.
        """
        flight = self._flight
        if self._dropped_ns is None:
            x, y, z = np.abs(flight.estimate.odometries["w_B"][0])
            leans = z > SPINNING_RADPS and math.hypot(x, y) > LEANING * z
            if leans and flight.height_m() < DROP_M:
                self._dropped_ns = flight.now_ns
        return self._dropped_ns is not None and flight.since_s(self._dropped_ns) < DROP_S
