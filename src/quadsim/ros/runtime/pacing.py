"""When physics may go on: by the wall clock, or in step with the motor commands.

Pure bookkeeping in integer nanoseconds; the node brings the clock and the messages.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: A lag beyond this is not caught up: simulated time stays behind, and the slip is counted.
MAX_LAG_NS = 100_000_000


def nearest(stamp_ns: int, period_ns: int) -> int:
    """The multiple of a period that a stamp is nearest to: what a jittering stamp means."""
    return (stamp_ns + period_ns // 2) // period_ns * period_ns


class WallClock:
    """Simulated time tied to the wall clock at a rate.

    Args:
        period_ns: length of a step of simulated time.
        rate: simulated over wall time.
    """

    def __init__(self, period_ns: int, rate: float) -> None:
        self.period_ns = period_ns
        self.rate = rate
        self.slips = 0
        self.slipped_ns = 0
        self._sim_ns = 0
        self._wall_ns = 0

    @property
    def wall_period_s(self) -> float:
        """Wall time of a step, s."""
        return self.period_ns / self.rate * 1e-9

    def tie(self, sim_ns: int, wall_ns: int) -> None:
        """Let this simulated time be this wall time."""
        self._sim_ns, self._wall_ns = sim_ns, wall_ns

    def wall_of(self, sim_ns: int) -> int:
        """Wall time at which a simulated time is due, ns."""
        return self._wall_ns + round((sim_ns - self._sim_ns) / self.rate)

    def steps_due(self, sim_ns: int, wall_ns: int) -> int:
        """Whole steps that simulated time lacks; a timer's jitter of half a step is forgiven.

        A lag beyond :data:`MAX_LAG_NS` shifts the tie.
        """
        lag_ns = wall_ns - self.wall_of(sim_ns)
        if lag_ns > MAX_LAG_NS:
            self.slips += 1
            self.slipped_ns += lag_ns
            self.tie(sim_ns + self.period_ns, wall_ns)
            return 1
        return max(0, math.floor(lag_ns * self.rate / self.period_ns + 0.5))


class Forbearance:
    """Whether physics by the wall clock waits for commands that are on their way.

    On an overloaded machine the graph answers late. Physics that went on regardless would fly a
    vehicle whose autopilot sleeps, so a result of the load; instead simulated time stays behind
    until the answer comes. Somebody who has stopped answering is waited for once: then physics goes
    on without them, as a real vehicle would.

    Args:
        max_age_ns: a command whose stamp is older than this is waited for; 0 never waits.
        patience_ns: wall time that one silence is waited for.
    """

    def __init__(self, vehicles: int, max_age_ns: int, patience_ns: int) -> None:
        self.max_age_ns = max_age_ns
        self.patience_ns = patience_ns
        self.waits = 0
        self._newest_ns = [-1] * vehicles
        self._since_ns: list[int | None] = [None] * vehicles

    def add(self, vehicle: int, stamp_ns: int) -> None:
        """A command has come."""
        self._newest_ns[vehicle] = stamp_ns
        self._since_ns[vehicle] = None

    def waits_for(self, sim_ns: int, wall_ns: int) -> bool:
        """Whether the step from ``sim_ns`` on has to wait; never for who has not spoken yet."""
        waiting = False
        for i, newest_ns in enumerate(self._newest_ns):
            if not self.max_age_ns or newest_ns < 0 or sim_ns - newest_ns <= self.max_age_ns:
                continue
            since_ns = self._since_ns[i]
            if since_ns is None:
                self._since_ns[i] = since_ns = wall_ns
                self.waits += 1
            waiting |= wall_ns - since_ns < self.patience_ns
        return waiting


class Lockstep:
    """Which motor command belongs to which step, for several vehicles.

    The step that begins at s takes the command stamped s - delay. A command that never comes while
    later ones do is replaced by the newest older one, and counted.

    Args:
        delay_ns: from the stamp that a command answers to its effect.
    """

    def __init__(self, vehicles: int, delay_ns: int) -> None:
        self.delay_ns = delay_ns
        self.skipped = 0
        self._waiting: list[dict[int, Array]] = [{} for _ in range(vehicles)]
        self._newest = [-1] * vehicles

    @property
    def started(self) -> bool:
        """Whether every vehicle has been commanded once; before, physics runs freely."""
        return min(self._newest) >= 0

    def add(self, vehicle: int, stamp_ns: int, speeds: Array) -> None:
        """Keep a command until its step."""
        self._waiting[vehicle][stamp_ns] = speeds
        self._newest[vehicle] = max(self._newest[vehicle], stamp_ns)

    def missing(self, stamp_ns: int) -> list[int]:
        """Vehicles whose command for the step from ``stamp_ns`` on is not there."""
        wanted_ns = stamp_ns - self.delay_ns
        return [i for i, newest in enumerate(self._newest) if newest < wanted_ns]

    def take(self, vehicle: int, stamp_ns: int) -> Array | None:
        """Command of one vehicle for the step from ``stamp_ns`` on; None leaves the last one."""
        waiting = self._waiting[vehicle]
        wanted_ns = stamp_ns - self.delay_ns
        passed = [stamp for stamp in waiting if stamp <= wanted_ns]
        if not passed:
            return None
        newest = max(passed)
        self.skipped += newest != wanted_ns
        speeds = waiting[newest]
        for stamp in passed:
            del waiting[stamp]
        return speeds
