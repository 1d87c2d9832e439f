"""What all parts of a flight share: time, state, estimate, ground and parameters."""

from __future__ import annotations

import math

from quadsim.base.parameters import Vec3
from quadsim.control.parameters import FailsafeParams, FlightParams
from quadsim.mission.flight.estimate_check import EstimateCheck
from quadsim.mission.flight.fence import Fence
from quadsim.mission.flight.states import ERROR, OK, STATES, FlightEvent
from quadsim.mission.reference.ground import Ground
from quadsim.mission.reference.reference import Reference
from quadsim.world.scene.raycast_terrain import TerrainArrays

#: Time constant of the consumption, s.
DRAIN_S = 10.0
#: What is counted on top of a way home.
SPARE = 1.3


class Battery:
    """Charge and consumption of one vehicle's battery.

    Args:
        limits: when it warns and when it is critical.

    Attributes:
        charge: 0 to 1; NaN as long as nobody has told.
        voltage_V: under load; NaN likewise.
        drain_per_s: low-passed consumption in flight.
    """

    def __init__(self, limits: FailsafeParams) -> None:
        self._limits = limits
        self.charge = math.nan
        self.voltage_V = math.nan
        self.drain_per_s = 0.0
        self._stamp_ns = 0
        self._flew = False
        self._warned = False

    def begin(self) -> None:
        """A new flight: a warning may come once."""
        self._warned = False

    def take(self, stamp_ns: int, charge: float, voltage_V: float, flying: bool) -> None:
        """Take a reading; one without a charge is none.

        Args:
            stamp_ns: when.
            charge: 0 to 1.
            voltage_V: under load.
            flying: what is drawn on the ground states nothing of the flight.
        """
        if not math.isfinite(charge):
            return
        charge = min(max(charge, 0.0), 1.0)
        passed_s = (stamp_ns - self._stamp_ns) * 1e-9
        if flying and self._flew and passed_s > 0.0:
            drain = max(self.charge - charge, 0.0) / passed_s
            first = self.drain_per_s == 0.0
            weight = 1.0 if first else min(passed_s / DRAIN_S, 1.0)
            self.drain_per_s += weight * (drain - self.drain_per_s)
        self._flew = flying
        self._stamp_ns, self.charge, self.voltage_V = stamp_ns, charge, voltage_V

    @property
    def words(self) -> str:
        """The charge, as messages tell it."""
        return f"{100.0 * self.charge:.0f} %"

    @property
    def is_critical(self) -> bool:
        """Whether it must land now."""
        return self.charge <= self._limits.battery_critical

    def lasts(self, time_s: float) -> bool:
        """Whether so long a flight leaves more than what is critical."""
        return self.charge - self.drain_per_s * time_s > self._limits.battery_critical

    def warns(self, home_s: float) -> bool:
        """Whether it is time to go home; true once a flight.

        Args:
            home_s: how long the way home takes.
        """
        low = self.charge <= self._limits.battery_warn or (
            self.charge > self._limits.battery_critical
            and self.drain_per_s > 0.0
            and not self.lasts(SPARE * home_s)
        )
        if not low or self._warned:
            return False
        self._warned = True
        return True


#: Height of a pilot above ground that is out of reach at least, m.
FAR_M = 5.0
#: Part of the fastest ascent with which a long climb leaves the ground.
LIFT_SHARE = 0.33
#: A hold ends when the growth of the position's deviation is below this share of what begins it.
FIXED_SHARE = 0.3


class FlightContext:
    """The record of a flight, on which its parts act; it knows none of them.

    Args:
        params: how the vehicle takes off, moves and lands, and its failsafes.
        terrain: elevation data, which ``ground.map`` lets it use.
        flat_m: height of the ground outside of them, m.
        goals: whether places are flown to without a leg.

    Attributes:
        estimate: the newest estimate, and whether it can be flown on.
        ground: the ground beneath, where something is held above it.
        reference: where the vehicle shall be.
        state: one of STATES.
        armed: whether the motors turn.
        flying: whether the vehicle is, or should be, in the air.
        now_ns, entered_ns, takeoff_ns: time of this tick, of the state's begin, of take-off.
        thrust: last commanded collective specific thrust, m/s^2.
        reason: why it is in a failsafe or was stopped; empty otherwise.
        finished: the motors have stopped after a flight.
        home, ground_m: place of take-off in W and its height, m.
        took_over: since a pilot did, heights count from the ground beneath.
        sink_mps: speed of a descent.
        blind: it descends without an estimate.
        crippled: a motor is lost, so that there is no more thrust than control asks for.
        land_at_ns: when a hover ends in a landing; None: it does not.
        light_ns: since when the ground seems to carry the vehicle.
        recoveries: how often it had to recover.
    """

    def __init__(
        self, params: FlightParams, terrain: TerrainArrays, flat_m: float, goals: bool
    ) -> None:
        self.params = params
        self.estimate = EstimateCheck(params)
        self.ground = Ground(params, terrain, flat_m)
        self.reference = Reference(params, self.estimate, self.ground, goals)
        self.battery = Battery(params.failsafe)
        self.state, self.entered_as = "disarmed", ""
        self.armed = self.flying = False
        self.now_ns = self.entered_ns = 0
        self.thrust = 0.0
        self._events: list[FlightEvent] = []
        self.clear()

    def clear(self) -> None:
        """Forget the last flight; the fence is about here."""
        self.reason, self.finished = "", False
        self.fence = Fence(self.params.fence, self.estimate.p_W)
        self.battery.begin()
        self.takeoff_ns = self.recoveries = 0
        self.ground_m = 0.0
        self.home: tuple[float, float] = (0.0, 0.0)
        self.took_over = self.blind = self.crippled = False
        self.sink_mps = self.params.landing_speed_mps
        self.land_at_ns: int | None = None
        self.light_ns: int | None = None

    @property
    def is_fixed(self) -> bool:
        """Whether the position is fixed well enough to be held."""
        return self.estimate.growth_m <= FIXED_SHARE * self.params.failsafe.hold_growth_m

    @property
    def pulls_up(self) -> bool:
        """Whether it is being pulled up: level, whatever the way."""
        return self.state == "recovery" and self.reference.kind == "pull_up"

    @property
    def sink_rate_mps(self) -> float:
        """Speed towards the ground: along a slope that is followed downhill, it is none."""
        climbs = self.reference.above and not self.ground.lost
        return (self.ground.climb_mps if climbs else 0.0) - self.estimate.v_W[2]

    def height_m(self) -> float:
        """Estimated height above the take-off point.

        While one is held above the ground, or a pilot flies and it is known, above the ground.
        """
        x, y, z = self.estimate.p_W
        if (self.reference.above or self.took_over) and self.ground.known:
            return z - self.ground.at(x, y)[0]
        far = self.took_over and self.ground.far
        return max(z - self.ground_m, FAR_M) if far else z - self.ground_m

    def since_s(self, stamp_ns: int) -> float:
        """Time since a stamp."""
        return (self.now_ns - stamp_ns) * 1e-9

    def take_events(self) -> list[FlightEvent]:
        """Events (stamp_ns, level, name, message) since the last call."""
        events, self._events = self._events, []
        return events

    def event(self, level: int, name: str, message: str) -> None:
        """Add an event."""
        self._events.append((self.now_ns, level, name, message))

    def enter(self, state: str, message: str, level: int = OK) -> None:
        """Go over into a state, which is an event."""
        motors = STATES[state].motors
        self.state, self.armed, self.flying = state, motors != "off", motors == "on"
        self.entered_ns, self.entered_as = self.now_ns, message
        self.light_ns = None
        self.event(level, state, message)

    def stop(self, message: str) -> None:
        """Motors off, wherever the vehicle is."""
        self.reason, self.finished, self.blind = message, True, False
        self.enter("stopped", message, ERROR)

    def leave_ground(self) -> None:
        """Take note of where it stands: heights count from here, and home is here."""
        p_W: Vec3 = self.estimate.p_W
        self.takeoff_ns, self.home, self.ground_m = self.now_ns, p_W[:2], p_W[2]
        self.ground.set_level(p_W[2])
        self.reference.stand()

    def climb(self, height_m: float, speed_mps: float = 0.0) -> None:
        """Take off, straight up to a height above the ground here."""
        (x, y, _), _, _, yaw, _ = self.reference.motion()
        goal_W = (x, y, self.ground_m + height_m)
        lift_mps = LIFT_SHARE * min(self.params.ascent_mps, speed_mps or math.inf)
        self.reference.go(goal_W, yaw, speed_mps, lift_mps=lift_mps)
        self.enter("takeoff", f"to {height_m:g} m")

    def disarm(self, force: bool = False) -> str | None:
        """Stop the motors; in the air only by force."""
        if self.flying and not force:
            return "in the air; land first, or force it"
        if self.flying:
            self.stop("disarmed by force in the air")
        elif self.armed:
            self.enter("disarmed", "motors stopped")
        return None
