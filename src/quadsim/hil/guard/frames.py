"""Whether two velocities that should be one are rotated against each other.

Commands and the motion that answers them, or the motion that motion capture sees and the one that
the autopilot estimates: where their frames differ by a rotation, one is the other one rotated.

In each plane of two axes a velocity is a complex number, and of two of them c(t) and v(t) the sum
of squares of v(t) - exp(i angle) c(t - lag) is V + P - 2 Re(S exp(-i angle)), with S the integral
of conj(c) v. Its least value over all angles and lags is compared with the least over angles within
a limit: a generalised likelihood ratio (Kay 1998, Fundamentals of statistical signal processing II,
6.4). The ratio grows with speed and time, so that slow motion is judged as well, only later.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from quadsim.geometry.rotation import Quat, yaw_of

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]

#: Velocities are means over this time, and lags are multiples of it, s.
BUCKET_S = 0.05
#: What the motion differs from the commands by where nothing is wrong (wind, tracking): standard
#: deviation of an axis, m/s, and for how long it stays alike, s.
NOISE_MPS, NOISE_S = 0.1, 1.0
#: By chance the ratio goes beyond the limit as seldom as a normal variable beyond so many sigmas.
SIGMAS = 4.0
#: Largest ratio that chance explains, m^2/s: the noise's spectral density, times chi squared; and
#: the one from which on it is doubtful whether there is a turn.
LIMIT = 2.0 * NOISE_MPS**2 * NOISE_S * SIGMAS**2
DOUBT = 2.0 * NOISE_MPS**2 * NOISE_S
#: So much squared speed times time is remembered, m^2/s: 1 s at 4 m/s.
MEMORY = 16.0
#: A turn counts if it explains such a share of what moves in its plane.
EXPLAINED = 0.5
#: Axes of each plane, and what a turn in it is about.
PLANES = ((0, 1), (1, 2), (2, 0))
AXES = ("up", "east", "north")
_REAL, _IMAGINARY = (list(column) for column in zip(*PLANES, strict=True))


class MotionAlignment:
    """Two velocities, the second of which is to follow the first.

    Args:
        limit_rad: an angle between them that is nothing wrong.
        longest_lag_s: of the second behind the first.
        forget_s: how long is remembered what was slow; see :data:`MEMORY` for what was fast.
    """

    def __init__(self, limit_rad: float, longest_lag_s: float, forget_s: float) -> None:
        self._limit_rad, self._forget_s = limit_rad, forget_s
        self._lags = 1 + math.ceil(longest_lag_s / BUCKET_S)
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        shape = (self._lags, 3)
        self._before: Complex = np.zeros(shape, np.complex128)  # first ones, the newest first
        self._first2: Array = np.zeros(shape)
        self._both: Complex = np.zeros(shape, np.complex128)
        self._second2: Array = np.zeros(3)
        self.angles_rad: Array = np.zeros(3)
        self.ratios: Array = np.zeros(3)

    def take(self, first_W: Array, second_W: Array, dt_s: float) -> None:
        """Take the means over the last ``dt_s``, each (3,) in m/s."""
        first = first_W[_REAL] + 1j * first_W[_IMAGINARY]
        second = second_W[_REAL] + 1j * second_W[_IMAGINARY]
        self._before[1:] = self._before[:-1]
        self._before[0] = first
        size = 0.5 * float(first_W @ first_W + second_W @ second_W)
        stored = max(1.0 - dt_s * max(1.0 / self._forget_s, size / MEMORY), 0.0)
        self._first2 = stored * self._first2 + dt_s * np.abs(self._before) ** 2
        self._both = stored * self._both + dt_s * self._before.conj() * second
        self._second2 = stored * self._second2 + dt_s * np.abs(second) ** 2
        self._judge()

    def _judge(self) -> None:
        """The ratio in each plane, and the angle that fits best."""
        size, angle = np.abs(self._both), np.angle(self._both)
        beyond = np.maximum(np.abs(angle) - self._limit_rad, 0.0)
        free = self._first2 - 2.0 * size
        within = self._first2 - 2.0 * size * np.cos(beyond)
        best = free.argmin(axis=0)[None]
        self.ratios = within.min(axis=0) - free.min(axis=0)
        self.angles_rad = np.take_along_axis(angle, best, axis=0)[0]
        whole = self._second2 + np.take_along_axis(self._first2, best, axis=0)[0]
        unexplained = 2.0 * np.take_along_axis(size, best, axis=0)[0] < EXPLAINED * whole
        self.ratios[unexplained] = 0.0

    @property
    def doubtful(self) -> bool:
        """Whether there may be a turn, so that more has to be seen before it goes on faster."""
        return bool(self.ratios.max() > DOUBT)

    @property
    def turn(self) -> tuple[float, str] | None:
        """Angle in rad and axis of a turn that chance does not explain; None: there is none."""
        worst = int(self.ratios.argmax())
        if self.ratios[worst] <= LIMIT:
            return None
        if self.ratios[0] > 0.5 * self.ratios[worst]:  # half a turn is one in two planes
            worst = 0
        return float(self.angles_rad[worst]), AXES[worst]


class Means:
    """Places and commands of every step as mean velocities over buckets of time."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        self._from: tuple[int, Array] | None = None
        self._way: Array = np.zeros(3)
        self._dt_s = 0.0

    def take(
        self, stamp_ns: int, p_W: Array, command_W: Array, dt_s: float
    ) -> tuple[Array, Array, float] | None:
        """Take a pose, and what was commanded for the last ``dt_s``.

        Returns:
            Mean command, mean velocity and their time, once a bucket is full.
        """
        if self._from is None:
            self._from = (stamp_ns, p_W)
            return None
        self._way = self._way + dt_s * command_W
        self._dt_s += dt_s
        since_s = (stamp_ns - self._from[0]) * 1e-9
        if self._dt_s < BUCKET_S or since_s < 0.5 * BUCKET_S:
            return None
        full = self._way / self._dt_s, (p_W - self._from[1]) / since_s, self._dt_s
        self.forget()
        self._from = (stamp_ns, p_W)
        return full


def turned_words(angle_rad: float, axis: str) -> str:
    """A turn in words, with the remedy."""
    by = f"{math.degrees(abs(angle_rad)):.0f} deg about {axis}"
    if axis == "up":
        return f"{by}: the pose's north is not the autopilot's; align the two frames"
    return f"{by}: is the world of the pose z up, and x east, y north as the autopilot's is?"


def wrapped(angle_rad: float) -> float:
    """An angle within -pi and pi."""
    return math.remainder(angle_rad, 2.0 * math.pi)


class AutopilotWatch:
    """The autopilot's own estimate besides the pose of somebody else, such as motion capture.

    The autopilot flies commands in its own frame, so its heading has to be that of the pose, and
    its motion that of the poses.

    Args:
        limit_rad: largest difference of the headings.
        angle_rad: largest angle between the motions.
    """

    def __init__(self, limit_rad: float, angle_rad: float) -> None:
        self._limit_rad = limit_rad
        self._alignment = MotionAlignment(angle_rad, 0.3, 600.0)
        self.expected = False
        self.yaw_rad: float | None = None
        self._now_ns = self._stamp_ns = 0
        self._p_W: Array = np.zeros(3)
        self._buckets: tuple[tuple[int, Array], tuple[int, Array]] | None = None
        self._apart_s = 0.0

    def take(self, stamp_ns: int, now_ns: int, p_W: Array, q_WB: Quat) -> None:
        """Take the autopilot's estimate."""
        if stamp_ns < self._stamp_ns:
            self._buckets = None
            self._alignment.forget()
        self._stamp_ns, self._now_ns, self._p_W = stamp_ns, now_ns, p_W
        self.yaw_rad = yaw_of(q_WB)

    def compare(self, stamp_ns: int, p_W: Array, yaw_rad: float, dt_s: float) -> None:
        """Compare with a pose that has come ``dt_s`` after the last one."""
        if self.yaw_rad is None:
            return
        apart = abs(wrapped(yaw_rad - self.yaw_rad)) > self._limit_rad
        self._apart_s = self._apart_s + dt_s if apart else 0.0
        now = (self._stamp_ns, self._p_W), (stamp_ns, p_W)
        if self._buckets is None:
            self._buckets = now
            return
        times_s = [(new[0] - old[0]) * 1e-9 for new, old in zip(now, self._buckets, strict=True)]
        if min(times_s) < BUCKET_S:
            return
        if max(times_s) < 1.0:
            own_W, seen_W = (
                (new[1] - old[1]) / s
                for new, old, s in zip(now, self._buckets, times_s, strict=True)
            )
            self._alignment.take(own_W, seen_W, times_s[1])
        self._buckets = now

    def forget(self) -> None:
        """Begin anew, as after a jump."""
        self._buckets = None
        self._apart_s = 0.0
        self._alignment.forget()

    def refusal(self, now_ns: int, yaw_rad: float, stale_s: float) -> str:
        """Why a flight shall not begin; empty if it may."""
        if not self.expected:
            return ""
        if self.yaw_rad is None or (now_ns - self._now_ns) * 1e-9 > max(stale_s, 1.0):
            return "the autopilot's own odometry is not heard, so its heading is not known"
        off_rad = wrapped(yaw_rad - self.yaw_rad)
        if abs(off_rad) > self._limit_rad:
            pose, own = (math.degrees(angle) for angle in (yaw_rad, self.yaw_rad))
            return (
                f"the heading of the pose is {pose:.0f} deg, the autopilot's {own:.0f} deg (0 is"
                f" east, 90 north); allowed: {math.degrees(self._limit_rad):.0f} deg apart. Align"
                " the rigid body and the world of the motion capture with the autopilot, or relay"
                " the pose to it"
            )
        return self.rotated

    @property
    def rotated(self) -> str:
        """How the motions are rotated against each other; empty: they are not."""
        turn = self._alignment.turn
        return "" if turn is None else f"pose and autopilot move rotated by {turned_words(*turn)}"

    @property
    def fault(self) -> str:
        """What is wrong in flight; empty: nothing."""
        if self._apart_s > 0.5:
            limit = math.degrees(self._limit_rad)
            return f"the headings of pose and autopilot differ by more than {limit:.0f} deg"
        return self.rotated
