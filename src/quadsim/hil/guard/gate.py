"""The gate before a vehicle: which velocity commands go out to it, and what does where none may.

A command goes out if its one publisher is the guard, it is fresh, and it is within the limits of
the guard's file. Otherwise it is dropped, and why is told once. A vehicle that was flown until then
is stopped, and landed where nothing may go out any more.

``now_ns`` is a clock that nobody sets; a command's stamp may be of another clock. Its age is what
it comes later than the least delayed one did.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

from quadsim.base.parameters import Spec, Vec3
from quadsim.hil.guard.emergency import LAND_SINK_MPS
from quadsim.hil.guard.output import GuardEvent
from quadsim.hil.guard.parameters import LimitParams, WatchParams
from quadsim.hil.guard.setpoints import ThrustSetpoint, refused_setpoint

#: What rounding adds to a command at the limit, m/s and rad/s.
ROUNDING = 0.01
#: A vehicle was flown if a command went out no longer ago than that, s.
FLOWN_S = 1.0
#: After so long without a command that may go out, the vehicle is landed, s.
LAND_S = 1.0
#: Commands that have ended for so long are nobody's any more: the guard was disabled, s.
SILENT_S = 0.5
#: A longer time between two steps is one in which the process stood still, s.
TURN_S = 0.1
#: Faster than a clock drifts: how the least delay that was seen is forgotten, s/s.
FORGET = 1e-4
#: The same refusal is told again after that time without it, s.
TOLD_S = 5.0


@dataclass(frozen=True)
class CommandGateParams:
    """What the gate holds commands to: two parts of the guard's file."""

    limits: LimitParams = field(default_factory=LimitParams)
    watch: WatchParams = field(default_factory=WatchParams)
    guard_node: Annotated[
        str, Spec("node whose commands go out; without a slash: in the vehicle's namespace")
    ] = "guard"


class Gate:
    """See the module.

    Args:
        params: of the guard whose commands it lets pass.

    Attributes:
        refused: why the last command did not go out; empty: it did, or none has come.
        landing: why the vehicle is landed; empty: it is not.
    """

    def __init__(self, params: CommandGateParams, guard: str) -> None:
        self._params, self._guard = params, guard
        self.refused = self.landing = ""
        self._passed_ns: int | None = None
        self._since_ns = self._last_ns = 0
        self._flown = False
        self._step_ns: int | None = None
        self._silent_s = 0.0
        self._forget()
        self._told_ns: dict[str, int] = {}
        self._events: list[GuardEvent] = []

    def _forget(self) -> None:
        """The next command may be of another clock."""
        self._stamp_ns: int | None = None
        self._came_ns = 0
        self._least_ns = 0.0  # least delay, with the clocks' difference

    def take(
        self,
        now_ns: int,
        stamp_ns: int,
        v_W: Vec3,
        yaw_rate_radps: float,
        publishers: Sequence[str],
    ) -> bool:
        """Whether a command may go out.

        Args:
            now_ns: time.
            stamp_ns: of the command.
            v_W: east, north, up, m/s.
            yaw_rate_radps: about up.
            publishers: full names of the nodes that publish commands.
        """
        sink = LAND_SINK_MPS
        ends = not any(v_W[:2]) and -sink - ROUNDING <= v_W[2] <= 0.0
        beyond = self._beyond(v_W, yaw_rate_radps)
        return self._take(now_ns, stamp_ns, self.misfit(publishers), beyond, ends)

    def take_setpoint(
        self, now_ns: int, stamp_ns: int, setpoint: ThrustSetpoint, publishers: Sequence[str]
    ) -> bool:
        """Whether an attitude or rates may go out; arguments as of :meth:`take`."""
        words = refused_setpoint(setpoint, self._params.limits)
        beyond = f"a command of {words}" if words else ""
        misfit = self.misfit(publishers, f"command_{setpoint.kind}/safe")
        return self._take(now_ns, stamp_ns, misfit, beyond, ends=False)

    def _take(self, now_ns: int, stamp_ns: int, misfit: str, beyond: str, ends: bool) -> bool:
        """Whether a command may go out: one that stops or lands is never too late."""
        self._silent_s = 0.0
        words = self.landing or misfit or self._late(now_ns, stamp_ns, ends) or beyond
        if words:
            self.refuse(now_ns, words)
            return False
        self.refused = ""
        self._passed_ns = now_ns
        return True

    def misfit(self, publishers: Sequence[str], topic: str = "command_velocity/safe") -> str:
        """What is wrong with who publishes; empty: the guard does, alone."""
        if len(publishers) > 1:
            names = ", ".join(sorted(publishers))
            return (
                f"{len(publishers)} publish {topic} ({names}); allowed: the guard"
                " alone. Is a second graph on this domain?"
            )
        if publishers and publishers[0] != self._guard:
            return f"{topic} comes from {publishers[0]}; allowed: the guard ({self._guard})"
        return ""

    def _late(self, now_ns: int, stamp_ns: int, ends: bool) -> str:
        """How old a command is; empty: not too old."""
        if self._stamp_ns is not None and stamp_ns <= self._stamp_ns:
            return "the stamp of a command goes back, or stays"
        offset_ns = float(now_ns - stamp_ns)
        if self._stamp_ns is not None:
            least_ns = self._least_ns + FORGET * (now_ns - self._came_ns)
            self._least_ns = min(least_ns, offset_ns)
        else:
            self._least_ns = offset_ns
        self._stamp_ns, self._came_ns = stamp_ns, now_ns
        age_s = (offset_ns - self._least_ns) * 1e-9
        if age_s <= self._params.watch.command_age_s or ends:
            return ""
        return f"a command is {age_s:.2f} s old; allowed: {self._params.watch.command_age_s:g}"

    def _beyond(self, v_W: Vec3, yaw_rate_radps: float) -> str:
        """What of a command is beyond the limits; empty: nothing."""
        limits = self._params.limits
        level = math.hypot(v_W[0], v_W[1])
        sink = max(limits.sink_max_mps, LAND_SINK_MPS)
        for what, value, most in (
            ("speed", level, limits.speed_max_mps),
            ("climb", v_W[2], limits.climb_max_mps),
            ("sink", -v_W[2], sink),
            ("yaw rate", abs(yaw_rate_radps), limits.yaw_rate_max_radps),
        ):
            if value > most + ROUNDING:
                unit = "rad/s" if what == "yaw rate" else "m/s"
                return f"a command of {what} {value:.3g} {unit}; the guard's file allows: {most:g}"
        return ""

    def refuse(self, now_ns: int, words: str) -> None:
        """Count a command as one that may not go out."""
        if not self.refused:
            self._since_ns = now_ns
            passed_ns = self._passed_ns
            self._flown = passed_ns is not None and now_ns - passed_ns < FLOWN_S * 1e9
        self.refused, self._last_ns = words, now_ns
        kind = "".join(c for c in words if not (c.isdigit() or c in ".-+e"))
        if now_ns - self._told_ns.get(kind, -(10**18)) > TOLD_S * 1e9 and not self.landing:
            self._events.append(GuardEvent(2, "gate", f"commands are refused: {words}"))
        self._told_ns[kind] = now_ns

    def step(self, now_ns: int, obeys: bool | None) -> Vec3 | None:
        """What is commanded in place of what was refused; None: nothing.

        Args:
            now_ns: time.
            obeys: whether the vehicle obeys setpoints; None: nobody states it.
        """
        self._count_silence(now_ns)
        if not self.refused:
            return None
        if now_ns - self._last_ns > SILENT_S * 1e9:
            self.refused = self.landing = ""
            self._passed_ns = None
            return None
        since_s = (now_ns - self._since_ns) * 1e-9
        if not self._flown or obeys is False or since_s < self._params.watch.late_s:
            return None
        if since_s > LAND_S and not self.landing:
            self.landing = self.refused
            self._events.append(GuardEvent(2, "gate", f"landing: {self.refused}"))
        return (0.0, 0.0, -LAND_SINK_MPS if self.landing else 0.0)

    def _count_silence(self, now_ns: int) -> None:
        """After a silence of commands their clock is learned anew.

        Time in which this process did not turn is none: what comes then may have waited.
        """
        before_ns = now_ns if self._step_ns is None else self._step_ns
        self._step_ns = now_ns
        self._silent_s += min((now_ns - before_ns) * 1e-9, TURN_S)
        if self._silent_s > SILENT_S:
            self._forget()

    def take_events(self) -> tuple[GuardEvent, ...]:
        """What has happened since the last call."""
        events, self._events = tuple(self._events), []
        return events
