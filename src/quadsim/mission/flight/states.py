"""The states of a flight and what leads from one to the next.

The mission's items are in ``progress``, requests in ``flight``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from quadsim.base.parameters import Vec3, pack
from quadsim.control.parameters import DEFAULT_POSITION, GRAVITY_MPS2, FlightParams, PositionParams
from quadsim.mission.flight.estimate_check import MISSING, new_watch
from quadsim.mission.flight.ground import Ground
from quadsim.mission.items import Follow, Item, check
from quadsim.mission.reference.guidance import Guidance
from quadsim.mission.reference.terrain_following import TerrainFollowing
from quadsim.mission.trajectories.items import TrackItem
from quadsim.world.scene.raycast_terrain import NO_TERRAIN, TerrainArrays

#: Levels of events, as diagnostic_msgs/DiagnosticStatus counts them.
OK, WARN, ERROR = 0, 1, 2

STATES = (
    "disarmed",
    "armed",
    "takeoff",
    "mission",
    "hover",
    "guided",
    "velocity",
    "returning",
    "hold",
    "assisted",
    "manual",
    "recovery",
    "failsafe_return",
    "landing",
    "failsafe_landing",
    "landed",
    "stopped",
)

#: States in which the motors stand, and in which they turn on the ground.
MOTORS_OFF, ON_THE_GROUND = ("disarmed", "stopped"), ("armed", "landed")

#: What a blind descent is given beyond the time that its height takes, s.
BLIND_MARGIN_S = 5.0

FlightEvent = tuple[int, int, str, str]


class FlightStates(ABC):
    """The machine without its requests: what happens by itself, tick by tick.

    Args:
        params: how the vehicle takes off, moves and lands, and its failsafes.
        items: the mission; may be empty.
        terrain: elevation data, which ``flight.ground.map`` lets it use.
        flat_m: height of the ground outside of them, m.
        position: the position loop's; its limits are those of a trajectory, and by its navigation
            places are flown to with or without a leg.

    Attributes:
        ground: the ground beneath, where something is held above it.
        state: one of STATES.
        armed: whether the motors turn.
        flying: whether the vehicle is, or should be, in the air.
        reason: why it is in a failsafe or was stopped; empty otherwise.
        finished: the motors have stopped after a flight.
    """

    def __init__(
        self,
        params: FlightParams,
        items: Sequence[Item],
        terrain: TerrainArrays = NO_TERRAIN,
        flat_m: float = 0.0,
        position: PositionParams = DEFAULT_POSITION,
    ) -> None:
        check(items, "the mission")
        self._params = params
        self._items = tuple(items)
        self._position = position
        self._limits = np.array([pack(params.failsafe)])
        self._watch = new_watch()
        self.ground = Ground(params.ground, terrain, flat_m)
        self._following = TerrainFollowing(params, self.ground)
        self._guidance = Guidance(params, self._following, position.navigation != "trajectory")
        if any(getattr(item, "height", "") == "above_ground" for item in items):
            self.ground.use()
        self._events: list[FlightEvent] = []
        self.state = "disarmed"
        self.armed = self.flying = False
        self.reason = ""
        self.finished = False
        self._stamp_ns = 0
        self._entered_ns = 0  # the state
        self._item_ns = 0  # the item was begun
        self._verdict = MISSING
        self._good_s = 0.0
        self._v_up = 0.0
        self._odometry: Any = None  # (1,) ODOMETRY, the newest
        self._growth_m = self._sigma_m = self._sigma_z_m = 0.0  # as of :data:`Observation`
        self._thrust = 0.0
        self._reset()
        self._handlers: dict[str, Callable[[], None]] = {
            "armed": self._on_armed,
            "takeoff": self._on_mission,
            "mission": self._on_mission,
            "hover": self._on_hover,
            "guided": self._on_guided,
            "velocity": self._on_velocity,
            "returning": self._on_returning,
            "landing": self._on_landing,
            "landed": self._on_landed,
        }

    def _reset(self) -> None:
        """Forget the last flight."""
        self.reason = ""
        self.finished = False
        self._index = 0
        self._started = False
        self._paused_s = 0.0  # into timed points or a trajectory
        self._takeoff_ns = 0
        self._ground_m = 0.0
        self._home: tuple[float, float] = (0.0, 0.0)
        self._way: list[Vec3] = []  # places still to come on the way home
        self._way_mps = 0.0
        self._reached_ns: int | None = None  # the waypoint
        self._released = False  # whether all others are here too
        self._ground_lost = False
        self._commanded_ns = 0
        self._asked: tuple[Vec3, float] = ((0.0, 0.0, 0.0), 0.0)  # velocity and yaw rate
        self._land_at_ns: int | None = None
        self._sink_mps = self._params.landing_speed_mps
        self._blind = False  # descends without an estimate
        self._placed = True  # there is a position to hold
        self._trusted = True  # a good estimate may be flown on again
        self._blind_until_ns = 0
        self._light_ns: int | None = None  # since when the ground seems to carry the vehicle

    def _event(self, level: int, name: str, message: str) -> None:
        self._events.append((self._stamp_ns, level, name, message))

    def _enter(self, state: str, message: str, level: int = OK) -> None:
        self.state = state
        self.armed = state not in MOTORS_OFF
        self.flying = self.armed and state not in ON_THE_GROUND
        self._entered_ns = self._stamp_ns
        self._light_ns = None
        self._event(level, state, message)

    def _since_s(self, stamp_ns: int) -> float:
        return (self._stamp_ns - stamp_ns) * 1e-9

    def _height_m(self) -> float:
        """Estimated height above the take-off point; while one is held, above the ground."""
        x, y, z = self._guidance.estimate[0]
        if self._guidance.above and self.ground.known:
            return z - self.ground.at(x, y)[0]
        return z - self._ground_m

    @property
    def _sink_rate_mps(self) -> float:
        """Speed towards the ground: along a slope that is followed downhill, it is none."""
        if self._guidance.above and not self._following.lost:
            return self._following.climb_mps - self._v_up
        return -self._v_up

    def _fail(self, reason: str, blind: bool = False, placed: bool = True) -> None:
        """Begin a landing that nothing but its end, or force, ends.

        Args:
            reason: in words.
            blind: without any estimate: level, by thrust.
            placed: whether there is a position to land at; without, the velocity is kept at zero.
        """
        self.reason = reason
        self._blind, self._placed = blind, placed
        if blind:
            height_m = max(self._height_m(), 0.0)
            down_s = height_m / self._params.failsafe.descent_mps + BLIND_MARGIN_S
            self._blind_until_ns = self._stamp_ns + round(down_s * 1e9)
        elif placed:
            self._sink_mps = self._params.landing_speed_mps
            self._guidance.brake(self._stamp_ns)
        else:
            self._guidance.drift(self._stamp_ns, self._params.failsafe.descent_mps)
        self._enter("failsafe_landing", reason, ERROR)

    def _cut(self, v_W: Vec3) -> Vec3:
        """A commanded velocity, cut where it must not lead."""
        return v_W

    def _suspend(self) -> None:
        """Remember how far points or a trajectory were followed; drop what was to come."""
        self._land_at_ns = None
        if self.state == "mission" and isinstance(self._items[self._index], Follow | TrackItem):
            self._paused_s = self._guidance.progress_s(self._stamp_ns)

    def _stop(self, message: str) -> None:
        """Motors off, wherever the vehicle is."""
        self.reason = message
        self.finished = True
        self._blind = False
        self._enter("stopped", message, ERROR)

    # states

    def _on_armed(self) -> None:
        if not self._started or self._since_s(self._entered_ns) < self._params.spool_up_s:
            return
        p_W, yaw = self._guidance.estimate
        self._takeoff_ns = self._stamp_ns
        self._ground_m = self._following.level_m = p_W[2]
        self._home = p_W[:2]
        self._guidance.stand(self._stamp_ns, p_W, yaw)
        self._begin_item()

    @abstractmethod
    def _begin_item(self) -> None:
        """Set the reference for the present item, from its start or from where it was paused."""

    @abstractmethod
    def _on_mission(self) -> None:
        """Take-off and items: go on to the next when this one is done."""

    @abstractmethod
    def _on_returning(self) -> None:
        """On the way home by request; it ends on the ground."""

    def _begin_landing(self, speed_mps: float, message: str) -> None:
        self._sink_mps = speed_mps
        self._guidance.brake(self._stamp_ns)
        self._enter("landing", message)

    def _on_hover(self) -> None:
        if self._land_at_ns is not None and self._stamp_ns >= self._land_at_ns:
            self._land_at_ns = None
            self._begin_landing(self._params.landing_speed_mps, "no new command")

    def _on_guided(self) -> None:
        """Come to rest at the end of a commanded trajectory that ends in motion."""
        if self._guidance.flies_plan and self._guidance.is_over(self._stamp_ns):
            self._guidance.brake(self._stamp_ns)

    def _on_velocity(self) -> None:
        failsafe = self._params.failsafe
        v_W, yaw_rate = self._asked
        self._guidance.fly_velocity(self._stamp_ns, self._cut(v_W), yaw_rate)
        if self._since_s(self._commanded_ns) > failsafe.command_timeout_s:
            self._guidance.brake(self._stamp_ns)
            self._enter("hover", "the velocity commands stay away", WARN)
            self._land_at_ns = self._stamp_ns + round(failsafe.command_land_s * 1e9)

    def _on_landing(self) -> None:
        """Descend once the vehicle has come to rest; feel for the ground."""
        if self._guidance.is_over(self._stamp_ns):
            self._guidance.sink(self._stamp_ns, self._sink_mps)
        if self._is_down():
            self._enter("landed", "touch-down")

    def _is_down(self) -> bool:
        """Whether the ground has carried the vehicle for a while."""
        params = self._params
        light = self._thrust < params.touchdown_thrust * GRAVITY_MPS2
        if not light or abs(self._v_up) > params.touchdown_speed_mps:
            self._light_ns = None
        elif self._light_ns is None:
            self._light_ns = self._stamp_ns
        return self._light_ns is not None and self._since_s(self._light_ns) >= params.touchdown_s

    def _on_landed(self) -> None:
        if self._since_s(self._entered_ns) >= self._params.spool_down_s:
            self.finished = True
            self._enter("disarmed", "motors stopped")
