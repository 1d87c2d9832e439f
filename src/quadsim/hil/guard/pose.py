"""The pose that the guard flies on: fresh, going on in time, going on in space."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quadsim.base.parameters import Vec3
from quadsim.geometry.rotation import Quat, normalize, rotate, yaw_of
from quadsim.hil.guard.parameters import FARTHEST_M, FASTEST_MPS, GuardParams

#: With a heading farther off than the fastest turn explains, a pose is not taken, rad.
HEADING_JUMP_RAD = 0.35

Array = NDArray[np.float64]

#: A velocity is compared with the poses' way over this time.
COMPARE_S = 0.3
#: Of the poses' way over this time at least it is made where the driver gives none.
DIFFERENCE_S = 0.06
#: Acceleration that explains a pose, on top of the last one's velocity, m/s^2.
EXPLAINED_MPS2 = 15.0
#: Time over which poses are counted for their rate, s.
COUNTED_S = 1.0
#: Faster than a clock drifts: how the least delay of poses that was seen is forgotten, s/s.
FORGET = 1e-4
#: In flight a pose may come so much sooner after its stamp than the quickest before, as a share of
#: ``pose_stale_s``: a stamp of the future would make all that follow look old.
AHEAD_SHARE = 0.5
#: Largest error of a unit quaternion's length that is rounding.
UNIT = 0.01


@dataclass(frozen=True)
class AcceptedPose:
    """A pose that was taken.

    Attributes:
        stamp_ns: its own time.
        now_ns: when it came.
        p_W: (3,) position, m.
        q_WB: attitude.
        v_W: (3,) velocity, m/s.
    """

    stamp_ns: int
    now_ns: int
    p_W: Array
    q_WB: Quat
    v_W: Array

    @property
    def tilt_rad(self) -> float:
        """Angle between body z and the vertical."""
        return math.acos(min(max(rotate(self.q_WB, (0.0, 0.0, 1.0))[2], -1.0), 1.0))

    @property
    def speed_mps(self) -> float:
        """Size of the velocity."""
        return math.sqrt(self.v_W @ self.v_W)


def refused_pose(p_W: Vec3, q_WB: Quat, v_W: Vec3 = (0.0, 0.0, 0.0)) -> str | None:
    """Why numbers from a message cannot be a pose in m with a velocity in m/s; None: they can."""
    if not all(map(math.isfinite, (*p_W, *q_WB, *v_W))):
        return "a number in it is not finite"
    if max(map(abs, p_W)) > FARTHEST_M:
        return f"farther than {FARTHEST_M:g} m from the map's origin"
    if max(map(abs, v_W)) > FASTEST_MPS:
        return f"faster than {FASTEST_MPS:g} m/s"
    if abs(math.hypot(*q_WB) - 1.0) > UNIT:
        return f"its quaternion has the length {math.hypot(*q_WB):.3f}; allowed: 1"
    return None


class PoseWatch:
    """The newest pose, and what is wrong with it."""

    def __init__(self, params: GuardParams) -> None:
        self._params = params
        self.pose: AcceptedPose | None = None
        #: The first of those since that are the same place and attitude to the bit.
        self.fresh: AcceptedPose | None = None
        #: Way that the vehicle should have gone since.
        self.unmoved_m = 0.0
        #: In words: for how long it had been the same when the vehicle should have moved.
        self.frozen = ""
        #: In words: how the pose jumped, while no pose has gone on from the last good one.
        self.jump = ""
        #: In words: how velocity and poses disagree.
        self.mismatch = ""
        self._late_s = 0.0
        self._least_ns: float | None = None
        self._history: deque[tuple[int, Array, Array]] = deque()
        self._sum_W = np.zeros(3)  # of the velocities in the history
        self._since_ns: int | None = None
        self._stamps: deque[int] = deque()  # of the last COUNTED_S

    def take(
        self, stamp_ns: int, now_ns: int, p_W: Vec3, q_WB: Quat, v_W: Vec3 | None, in_flight: bool
    ) -> str | None:
        """Take a pose; why not, or None.

        Args:
            stamp_ns: its own time.
            now_ns: when it came.
            p_W: position, m.
            q_WB: attitude.
            v_W: velocity, m/s; None: of the poses.
            in_flight: whether a jump is refused; otherwise all begins anew with it.
        """
        refusal = refused_pose(p_W, q_WB, v_W or (0.0, 0.0, 0.0))
        if refusal:
            return refusal
        last = self.pose
        if last is not None and stamp_ns <= last.stamp_ns:
            if in_flight or stamp_ns == last.stamp_ns:
                return "repeats or jumps back in time"
            self._begin()
            last = None
        p, q = np.array(p_W, dtype=np.float64), normalize(q_WB)
        fresh = self.fresh
        repeats = fresh is not None and np.array_equal(p, fresh.p_W) and q == fresh.q_WB
        if repeats and self.frozen:
            return self.frozen
        if in_flight and self._least_ns is not None:
            ahead_s = (self._least_ns - (now_ns - stamp_ns)) * 1e-9
            if ahead_s > AHEAD_SHARE * self._params.watch.pose_stale_s:
                return f"its stamp is {ahead_s:.3f} s ahead of the other poses'"
        if last is not None:
            jumped = self._jumped(last, stamp_ns, p, q)
            stale_ns = round(self._params.watch.pose_stale_s * 1e9)
            if self.jump and stamp_ns - last.stamp_ns > stale_ns:
                jumped = self.jump  # what motion explains grows with time; a jump stays one
            if jumped and in_flight:
                self.jump = jumped
                return jumped
            if jumped:
                self._begin()
        self.jump = ""
        self._measure_delay(stamp_ns, now_ns)
        if self._since_ns is None:
            self._since_ns = now_ns
        v = self._velocity(stamp_ns, p, v_W)
        self.pose = AcceptedPose(stamp_ns, now_ns, p, q, v)
        if not repeats:
            self.fresh, self.frozen, self.unmoved_m = self.pose, "", 0.0
        self._stamps.append(stamp_ns)
        while stamp_ns - self._stamps[0] > COUNTED_S * 1e9:
            self._stamps.popleft()
        return None

    def freeze(self, words: str) -> None:
        """Take back every pose since :attr:`fresh`: one that repeats to the bit is none."""
        self.pose, self.frozen = self.fresh, words
        self._history.clear()
        self._sum_W = np.zeros(3)

    def _begin(self) -> None:
        """Forget what was before."""
        self._history.clear()
        self._stamps.clear()
        self._sum_W = np.zeros(3)
        self._since_ns = self._least_ns = None
        self.mismatch = ""

    def _jumped(self, last: AcceptedPose, stamp_ns: int, p_W: Array, q_WB: Quat) -> str:
        """In words, how far a pose is from where motion can have led; empty if it is not."""
        dt_s = (stamp_ns - last.stamp_ns) * 1e-9
        off = p_W - last.p_W - dt_s * last.v_W
        off_m = math.sqrt(off @ off)
        if off_m > self._params.watch.pose_jump_m + 0.5 * EXPLAINED_MPS2 * dt_s * dt_s:
            return f"pose jumped by {off_m:.2f} m within {dt_s:.3f} s"
        turn_rad = abs(math.remainder(yaw_of(q_WB) - yaw_of(last.q_WB), 2.0 * math.pi))
        if turn_rad > HEADING_JUMP_RAD + self._params.limits.yaw_rate_max_radps * dt_s:
            return f"heading jumped by {math.degrees(turn_rad):.0f} deg within {dt_s:.3f} s"
        return ""

    def _measure_delay(self, stamp_ns: int, now_ns: int) -> None:
        """How much later than the least delayed pose this one came; the clocks may differ."""
        offset_ns = float(now_ns - stamp_ns)
        if self._least_ns is None or self.pose is None:
            self._least_ns = offset_ns
        else:
            self._least_ns += FORGET * (now_ns - self.pose.now_ns)
            self._least_ns = min(self._least_ns, offset_ns)
        self._late_s = (offset_ns - self._least_ns) * 1e-9

    def _velocity(self, stamp_ns: int, p_W: Array, v_W: Vec3 | None) -> Array:
        """Velocity, given or of the poses, compared with them."""
        history = self._history
        if v_W is not None:
            oldest_ns = stamp_ns - round(COMPARE_S * 1e9)
            while history and history[0][0] < oldest_ns:
                self._sum_W -= history.popleft()[2]
        else:  # a difference needs one that is old enough, however old that is
            oldest_ns = stamp_ns - round(DIFFERENCE_S * 1e9)
            while len(history) > 1 and history[1][0] <= oldest_ns:
                self._sum_W -= history.popleft()[2]
        v = np.zeros(3) if v_W is None else np.array(v_W, dtype=np.float64)
        if history and v_W is None:
            first_ns, first_W, _ = history[0]
            v = (p_W - first_W) / ((stamp_ns - first_ns) * 1e-9)
        elif history:
            self._compare(stamp_ns, p_W, v)
        history.append((stamp_ns, p_W, v))
        self._sum_W += v
        return v

    def _compare(self, stamp_ns: int, p_W: Array, v_W: Array) -> None:
        """Whether the mean of the velocities is the way between the poses over the time."""
        first_ns, first_W, _ = self._history[0]
        dt_s = (stamp_ns - first_ns) * 1e-9
        if dt_s < 0.5 * COMPARE_S:
            return
        mean = (self._sum_W + v_W) / (len(self._history) + 1)
        off = (p_W - first_W) / dt_s - mean
        off_mps = math.sqrt(off @ off)
        if off_mps > self._params.watch.velocity_mismatch_mps:
            self.mismatch = (
                f"velocity and poses disagree by {off_mps:.1f} m/s; is the velocity in the frame"
                " of the driver's file?"
            )
        else:
            self.mismatch = ""

    def age_s(self, now_ns: int) -> float:
        """Time since the last pose came, and by how much that one was late; inf without."""
        if self.pose is None:
            return math.inf
        return max(now_ns - self.pose.now_ns, 0) * 1e-9 + self._late_s

    @property
    def rate_hz(self) -> float:
        """Poses a second, by their stamps over the last :data:`COUNTED_S`."""
        if len(self._stamps) < 2:
            return 0.0
        return (len(self._stamps) - 1) * 1e9 / (self._stamps[-1] - self._stamps[0])

    def settled_s(self, now_ns: int) -> float:
        """For how long poses have come without a jump."""
        return 0.0 if self._since_ns is None else (now_ns - self._since_ns) * 1e-9
