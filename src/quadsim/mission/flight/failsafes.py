"""What ends or bends a flight when something is wrong; see the table in docs/mission.md."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from quadsim.base.parameters import Vec3
from quadsim.base.records import MODE_ATTITUDE
from quadsim.control.parameters import GRAVITY_MPS2, FlightParams
from quadsim.mission.flight.battery import Battery
from quadsim.mission.flight.estimate_check import GOOD, POSITION_DIVERGED, VERDICTS
from quadsim.mission.flight.fence import Fence, mission_fault
from quadsim.mission.flight.recovery import RECOVERY_CLIMB_M, Recovery
from quadsim.mission.flight.states import ERROR, OK, WARN
from quadsim.mission.flight.swaying import LEAST_M, LOST_RAD, MOST_S, Swaying
from quadsim.mission.reference.guidance import ZERO

#: Flown by somebody who sees for himself how high it is.
PILOTED = ("assisted", "manual")

#: Flown by velocity or attitude: no position is held, none is off course.
WITHOUT_PLACE = ("velocity", "assisted", "manual", "hold", "failsafe_landing")

#: The heading is the pilot's matter, or there is a graver one.
UNSWAYED = ("manual", "recovery")

#: On the way down: the floor, the fence and the battery have nothing more to say.
LANDINGS = ("landing", "failsafe_landing")

#: Share of the growth that begins a hold, below which the position is fixed again.
FIXED_SHARE = 0.3

#: How far inside the fence a vehicle that was about to leave it goes, m, beyond the margin.
BACK_INSIDE_M = 1.0
#: How far beyond the fence a stop on the way of a mission may be foreseen, m.
FENCE_SLACK_M = 0.3
#: Time before a braking begins, s.
BRAKING_LAG_S = 0.3

#: Without a motor: growth of the acceleration upwards, beyond that of the thrust, by which a strike
#: on the ground is felt, m/s^2, within a time, ns; largest sink rate after it, m/s, and height, m.
STRIKE_MPS2, STRIKE_NS, STRIKE_SINK_MPS, STRIKE_BELOW_M = 2.0, 100_000_000, 0.2, 1.0

#: Without a motor: least spin, rad/s, and tangent of the angle (20 degrees) between body z and the
#: axis of the spin, at which one foot would strike alone. Below a height, m, less thrust over the
#: weight brings the body upright, for at most a time, s.
SPINNING_RADPS, LEANING = 5.0, 0.36
DROP_M, DROP_THRUST, DROP_S = 0.25, 0.8, 0.5

#: Without a position: thrust over the weight after a strike on the ground, and sink rate over that
#: of the descent at which the strike was none.
STRUCK_THRUST, STRUCK_SINK = 0.5, 1.5

#: Time between two looks at course and battery, ns.
LOOK_NS = 100_000_000


class Failsafes(Recovery):
    """The machine with all its failsafes; arguments and attributes as of the machine."""

    def __init__(self, params: FlightParams, *args: Any, **kwargs: Any) -> None:
        self._battery = Battery(params.failsafe)
        self._rejected: Sequence[str] = ()
        super().__init__(params, *args, **kwargs)
        self._handlers["hold"] = self._on_hold
        self._handlers["failsafe_return"] = self._on_failsafe_return
        self._handlers["failsafe_landing"] = self._on_failsafe_landing

    def _reset(self) -> None:
        """Forget the last flight; the fence is about here."""
        super()._reset()
        self._fence = Fence(self._params.fence, self._guidance.estimate[0])
        self._battery.begin()
        self._held: tuple[str, Vec3, float] = ("hover", ZERO, 0.0)
        self._fixed_ns: int | None = None  # since when the position has been fixed again
        self._off_ns: int | None = None  # since when the vehicle has been off course
        self._looked_ns = 0
        self._outside = False
        self._swaying = Swaying()
        self._sinking: deque[tuple[float, float, float]] = deque()  # time, speed up, thrust
        self._dropped_ns: int | None = None  # since when it has been let down upright
        self._struck = False  # the ground, in a landing without a position

    # what comes in

    def take_battery(self, stamp_ns: int, charge: float, voltage_V: float) -> None:
        """Take note of the battery.

        Args:
            stamp_ns: the flight's time.
            charge: what is left, 0 to 1; NaN where the battery does not say.
            voltage_V: under load.
        """
        self._battery.take(stamp_ns, charge, voltage_V, self.flying)

    def take_rejected(self, sensors: Sequence[str]) -> None:
        """Take note of which sensors the estimator rejects: with any it does not arm."""
        self._rejected = sensors

    def motor_lost(self, index: int) -> None:
        """Land here: a motor gives no thrust any more; control makes do with the others.

        Args:
            index: of the motor, from 0.
        """
        reason = f"motor {index} is lost"
        self._crippled = True
        if self.state == "armed":
            self.reason = reason
            self._enter("disarmed", reason, ERROR)
        elif self.state == "failsafe_landing":
            self._event(ERROR, "motor lost", reason)
        elif self.flying:
            self._suspend()
            self._fail(reason, placed=self.state != "hold")

    def _refuse_measurements(self) -> str | None:
        """Which sensors the estimator rejects, in words: that says why an estimate is uncertain."""
        names = ", ".join(self._rejected)
        return f"measurements are rejected: {names}" if names else None

    def _refuse_arming(self) -> str | None:
        """What beside the estimate speaks against a flight, in words."""
        return mission_fault(self._items, self._params, self._guidance.estimate[0])

    def _refuse_place(self, p_W: Vec3) -> str | None:
        """Why a commanded position is not flown to, in words."""
        lowest_m = self._ground_m + self._params.failsafe.floor_m
        if p_W[2] < lowest_m:
            return f"z = {p_W[2]:.2f} m is too low; allowed: >= {lowest_m:.2f}"
        return self._fence.way_fault(self._guidance.estimate[0], p_W) or None

    def _cut(self, v_W: Vec3) -> Vec3:
        """A commanded velocity, cut where it would lead across the fence."""
        if not self._fence.bounds_anything:
            return v_W
        braking_mps2 = self._params.acceleration_mps2
        return self._fence.cut(self._guidance.estimate[0], v_W, braking_mps2, BRAKING_LAG_S)

    # what is watched in every state

    def _watch_over(self) -> None:
        """Every failsafe, the gravest first."""
        if self._verdict != GOOD:
            if self.state == "armed":
                self._enter("disarmed", f"{VERDICTS[self._verdict]} before take-off", WARN)
            elif self.flying and not self._blind:
                self._distrust()
            return
        if not self.flying or self._blind:
            return
        failsafe = self._params.failsafe
        # no state has a fall that is slower
        if self._sink_rate_mps > failsafe.impact_sink_mps and self._falls():
            return
        if self._stamp_ns - self._looked_ns >= LOOK_NS:
            self._looked_ns = self._stamp_ns
            if self._is_off_course() or self._is_running_out():
                return
        if self.state in LANDINGS or self.state == "recovery":
            return
        piloted = self.state in PILOTED
        flown_s = (self._stamp_ns - self._takeoff_ns) * 1e-9
        if flown_s > failsafe.mission_timeout_s and not piloted:
            self._fail("the mission takes too long")
            return
        if self._growth_m > failsafe.hold_growth_m and self.state not in WITHOUT_PLACE:
            self._hold()
            return
        if self.state in ("takeoff", "hold"):
            return
        if self._height_m() < failsafe.floor_m and not piloted:
            self._recover()
        elif self._fence.bounds_anything:
            self._keep_inside()

    def _distrust(self) -> None:
        """The estimate is bad; without a position alone, its velocity is still flown on."""
        words = VERDICTS[self._verdict]
        lost = self._verdict != POSITION_DIVERGED
        if lost or self._sigma_z_m > self._params.failsafe.position_sigma_m:
            self._fail(words, blind=True)
        elif self._placed:
            self._fail(words, placed=False)

    # the position is not fixed

    def _hold(self) -> None:
        """Stay by inertial navigation: velocity zero, height kept."""
        p_W, _, _, yaw, _ = self._guidance.motion(self._stamp_ns)
        self._suspend()
        self._held = (self.state, p_W, yaw)
        self._fixed_ns = None
        self._guidance.drift(self._stamp_ns, 0.0)
        sigma_m = self._sigma_m
        self._enter("hold", f"the position is not fixed any more, +-{sigma_m:.1f} m", WARN)

    def _on_hold(self) -> None:
        failsafe = self._params.failsafe
        if self._growth_m > FIXED_SHARE * failsafe.hold_growth_m:
            self._fixed_ns = None
            if self._since_s(self._entered_ns) > failsafe.hold_s:
                self._fail(f"no fix of the position for {failsafe.hold_s:g} s", placed=False)
        elif self._fixed_ns is None:
            self._fixed_ns = self._stamp_ns
        elif self._since_s(self._fixed_ns) >= failsafe.estimate_return_s:
            self._end_hold()

    def _end_hold(self) -> None:
        """Go on with what was held."""
        state, goal_W, yaw = self._held
        self._event(OK, "position fixed", f"after {self._since_s(self._entered_ns):.1f} s")
        self._guidance.stand(self._stamp_ns, *self._guidance.estimate)
        if state in ("takeoff", "mission") and self._index < len(self._items):
            self._begin_item()
        elif state == "failsafe_return":
            self._go_home(self.reason)
        else:
            self._guidance.go(self._stamp_ns, goal_W, yaw)
            self._enter("hover", "back to where it was told")

    # the heading is lost

    def _sway(self, setpoints: Any) -> None:
        """Sway instead of what was written, while the heading is lost; in vain, land."""
        sway, now_ns = self._swaying, self._stamp_ns
        lost = self._watch["yaw_sigma"].item() > LOST_RAD
        if not lost or not self.flying or self._blind or self.state in UNSWAYED:
            if sway.begun_ns is not None and not lost:
                self._event(OK, "heading found", f"after {sway.lasts_s(now_ns):.1f} s")
            sway.begun_ns = None
            return
        height_m = self._height_m()
        if sway.begun_ns is None:
            if height_m < LEAST_M:
                return
            sway.begin(now_ns, height_m, self._thrust)
            self._event(WARN, "heading lost", "sways until GNSS tells it")
        if sway.lasts_s(now_ns) > MOST_S:
            self._fail("the heading is lost", blind=True)
            self._trusted = False
            return
        self._guidance.fall_behind(sway.write(now_ns, height_m, self._v_up, setpoints))

    # the vehicle does not go where it shall

    def _is_off_course(self) -> bool:
        """Whether it is far from its reference and does not come nearer: then nothing is right."""
        failsafe = self._params.failsafe
        if self.state in WITHOUT_PLACE or self._recovers_level:
            self._off_ns = None
            return False
        p_W, v_W = self._guidance.estimate[0], self._guidance.velocity
        wanted_W = self._guidance.place(self._stamp_ns)
        east, north = wanted_W[0] - p_W[0], wanted_W[1] - p_W[1]
        off_m = math.hypot(east, north)
        if off_m < failsafe.off_course_m or east * v_W[0] + north * v_W[1] > 0.5 * off_m:
            self._off_ns = None
        elif self._off_ns is None:
            self._off_ns = self._stamp_ns
        elif self._since_s(self._off_ns) > failsafe.off_course_s:
            self._fail(f"off course by {off_m:.1f} m", blind=True)
            self._trusted = False
            return True
        return False

    # the battery

    def _home_s(self) -> float:
        """Time that the way home and the landing there take, in s."""
        p_W = self._guidance.estimate[0]
        away_m = math.dist(p_W[:2], self._home)
        down_m = max(p_W[2] - self._ground_m, 0.0)
        # a leg takes half as long again as its way at full speed
        return 1.5 * away_m / self._params.speed_mps + down_m / self._params.landing_speed_mps + 5.0

    def _is_running_out(self) -> bool:
        """Low battery: home while it is near enough, else down."""
        if self.state == "failsafe_landing":
            return False
        battery, placed = self._battery, self.state != "hold"
        if battery.is_critical:
            self._suspend()
            self._fail(f"battery at {battery.words}", placed=placed)
            return True
        if self.state == "landing" or not battery.warns(self._home_s()):
            return False
        self._suspend()
        if placed and battery.lasts(self._home_s()):
            self._go_home(f"battery at {battery.words}")
        else:
            self._fail(f"battery at {battery.words}, home is too far", placed=placed)
        return True

    def _go_home(self, reason: str) -> None:
        """Fly home and land there; nothing but its end, or a graver failsafe, ends it."""
        self.reason = reason
        self._enter("failsafe_return", reason, ERROR)
        self._begin_way_home(self._params.failsafe.floor_m + RECOVERY_CLIMB_M, 0.0)

    def _on_failsafe_return(self) -> None:
        if not self._guidance.is_over(self._stamp_ns):
            return
        late = self._guidance.late_s(self._stamp_ns) > self._params.arrival_timeout_s
        if self._guidance.away_m > self._params.arrival_radius_m and not late:
            return
        if self._way:
            self._next_on_way()
        else:
            self._fail(self.reason)

    # the fence

    def _keep_inside(self) -> None:
        """Act where the way on leads out of the fence, by the distance that braking takes."""
        p, v = self._guidance.estimate[0], self._guidance.velocity
        ahead = math.hypot(*v) / (2.0 * self._params.acceleration_mps2)
        stop: Vec3 = (p[0] + ahead * v[0], p[1] + ahead * v[1], p[2] + ahead * v[2])
        told, self._outside = self._outside, self._fence.beyond_m(stop) > FENCE_SLACK_M
        if told or not self._outside or self.state == "failsafe_return":
            return
        self._suspend()
        words = f"about to leave: {self._fence.fault(stop)}"
        self._event(WARN, "fence", words)
        self._guidance.stand(self._stamp_ns, *self._guidance.estimate)
        if self._fence.action == "land":
            self._fail(words)
        elif self._fence.action == "return":
            self._go_home(words)
        else:
            yaw = self._guidance.estimate[1]
            margin_m = self._params.fence.margin_m + BACK_INSIDE_M
            self._guidance.go(self._stamp_ns, self._fence.inside(stop, margin_m), yaw)
            self._enter("hover", "back inside the fence", WARN)

    # the landing that ends it

    def _relax(self, setpoints: Any) -> None:
        """Level, with the thrust that a landing wants at or just above the ground.

        An estimate that goes on drifting, or the lean against a wind, would else tip it over where
        it stands.
        """
        if self.state not in LANDINGS:
            return
        if self._light_ns is not None:
            thrust = self._thrust
        elif self._crippled and self._drops():
            thrust = DROP_THRUST * GRAVITY_MPS2
        elif not self._placed and not self._crippled and self._has_struck():
            thrust = STRUCK_THRUST * GRAVITY_MPS2
        else:
            return
        setpoints["mode"] = MODE_ATTITUDE
        setpoints["roll"] = setpoints["pitch"] = setpoints["yaw_rate"] = 0.0
        setpoints["thrust"] = thrust

    def _has_struck(self) -> bool:
        """Whether the vehicle has met the ground in a landing without a position.

        The ground stops a velocity that the estimate does not know of, and so appears to start one.
        Control that leans against it turns the vehicle over the feet that are held.
        """
        if self._strikes():
            self._struck = True
        elif self._v_up < -STRUCK_SINK * self._params.failsafe.descent_mps:
            self._struck = False
        return self._struck

    def _drops(self) -> bool:
        """Whether a vehicle that spins at an angle to its axis is let down over the last bit.

        The angle is made by the rotor opposite the lost one, which carries what the other two
        cannot. With less thrust the body comes upright and meets the ground with all its feet.
        """
        if self._dropped_ns is None:
            x, y, z = np.abs(self._odometry["w_B"][0])
            if z > SPINNING_RADPS and math.hypot(x, y) > LEANING * z and self._height_m() < DROP_M:
                self._dropped_ns = self._stamp_ns
        return self._dropped_ns is not None and self._since_s(self._dropped_ns) < DROP_S

    def _is_down(self) -> bool:
        """Whether the ground has carried the vehicle for a while; without a motor, has met it."""
        return super()._is_down() or (self._crippled and self._strikes())

    def _strikes(self) -> bool:
        """Whether the ground stops the vehicle: more than its thrust does.

        On three rotors it comes down spinning, on one foot: control that goes on until the ground
        carries it would turn it over. What thrust is left is unknown, so changes are compared.
        """
        past, now_s, span_s = self._sinking, self._stamp_ns * 1e-9, STRIKE_NS * 1e-9
        past.append((now_s, self._v_up, self._thrust))
        while past[0][0] < now_s - 2.01 * span_s:
            past.popleft()
        if past[0][0] > now_s - 1.5 * span_s or self._v_up < -STRIKE_SINK_MPS:
            return False
        middle = next(i for i, one in enumerate(past) if one[0] > now_s - 1.01 * span_s)
        first, between, last = past[0], past[middle], past[-1]
        if not first[0] < between[0] < last[0]:
            return False
        before_mps2 = (between[1] - first[1]) / (between[0] - first[0])
        after_mps2 = (last[1] - between[1]) / (last[0] - between[0])
        thrusts = [one[2] for one in past]
        risen_mps2 = max(0.0, max(thrusts[middle:]) - min(thrusts[: middle + 1]))
        felt_mps2 = after_mps2 - before_mps2 - risen_mps2
        return felt_mps2 > STRIKE_MPS2 and self._height_m() < STRIKE_BELOW_M

    def _on_failsafe_landing(self) -> None:
        back = self._verdict == GOOD and self._good_s >= self._params.failsafe.estimate_return_s
        if self._placed and not self._blind:
            self._on_landing()
        elif back and self._trusted and not self._needs_hold_now():
            self._blind, self._placed = False, True
            self._sink_mps = self._params.landing_speed_mps
            self._guidance.stand(self._stamp_ns, *self._guidance.estimate)
            self._event(WARN, "estimate is back", "the landing goes on under position control")
        elif not self._blind:
            if self._is_down():
                self._enter("landed", "touch-down")
        elif self._stamp_ns >= self._blind_until_ns:
            self._stop(f"{self.reason}; the descent should have ended by now")

    def _needs_hold_now(self) -> bool:
        """Whether the position is still not fixed."""
        return self._growth_m > FIXED_SHARE * self._params.failsafe.hold_growth_m
