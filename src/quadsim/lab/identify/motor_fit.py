"""Time constants of motors of first order, and the rotor speeds between two reports.

``speed' = (command - speed) / tau`` with tau_up while the command is above the speed, tau_down
while it is below. Under a command that is held the speed nears it without crossing, so that each
stretch of one command has a closed form. From each reported speed the next one is predicted.

A command that came late, as on a busy machine, spoils the predictions that it is part of, many or
few: predictions weigh less the worse they are (Cauchy's weights, at the median's scale).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Array
from quadsim.lab.identify.least_squares import Prior, Solution, fit_least_squares

#: Delays of a command and time constants among which the search begins, s; the best are followed.
DELAYS_S = np.arange(0.0, 0.0405, 0.001)
TAUS_S = np.geomspace(0.005, 0.16, 6)
BEGINS = 4

#: Shortest time constant, s.
LEAST_TAU_S = 1e-3

#: Reports that are enough to begin with.
LEAST_ROWS = 500

#: Reports farther apart than this many of the usual intervals do not tell of each other.
GAP = 2.5

#: Rounds of weighing, at most, and the change of a parameter, in its sizes, that ends them.
ROUNDS, SETTLED = 12, 1e-4

#: Median of the size of a standard normal number.
NORMAL_MEDIAN = 0.6745

#: Deviation of a parameter beforehand, in sizes: nothing is known of it.
UNKNOWN = 100.0

#: Difference of delays by which their effect is found, s.
DELAY_STEP_S = 1e-3

#: Part of the highest speed below which a difference states nothing.
EXACT = 1e-6


@dataclass(frozen=True)
class Motors:
    """Reported speeds and the commands they answer.

    Attributes:
        time_s: (M,) of the reports, rising.
        speed_radps: (M, n).
        command_s: (C,) stamps of the commands, rising; empty: none recorded.
        command_radps: (C, n).
    """

    time_s: Array
    speed_radps: Array
    command_s: Array
    command_radps: Array

    def advance(self, speed: Array, from_s: Array, to_s: Array, theta: Array) -> Array:
        """Speeds at later times.

        Args:
            speed: (K, n) rad/s at ``from_s``.
            from_s, to_s: (K,) times.
            theta: tau_up, tau_down, delay of a command, s.
        """
        up_s, down_s, delay_s = theta
        speed, now_s = speed.copy(), from_s.copy()
        changes_s = self.command_s + delay_s
        at = np.searchsorted(changes_s, now_s, side="right")  # the next change
        ends_s = np.append(changes_s, np.inf)
        while np.any(now_s < to_s):
            until_s = np.minimum(ends_s[at], to_s)
            wanted = self.command_radps[np.maximum(at - 1, 0)]
            tau_s = np.where(wanted > speed, up_s, down_s)
            stored = np.exp(-(until_s - now_s)[:, None] / tau_s)
            speed = wanted + (speed - wanted) * stored
            now_s = np.maximum(until_s, now_s)
            at = np.minimum(at + (ends_s[at] <= now_s), len(changes_s))
        return speed

    def usable(self) -> NDArray[np.intp]:
        """Reports from which the next can be predicted."""
        apart = np.diff(self.time_s)
        known = self.time_s[:-1] > self.command_s[0] + DELAYS_S[-1]
        known &= self.time_s[1:] < self.command_s[-1]
        return np.flatnonzero(known & (apart < GAP * np.median(apart)))


@dataclass(frozen=True)
class MotorFit:
    """Motors and what is known of them; ``solution`` is None without commands.

    Its parameters are tau_up, tau_down, delay of a command, s. ``jitter_s`` is by how much the
    commands' delays differ, which nothing in the reports tells from a slower motor.
    """

    motors: Motors
    solution: Solution | None
    jitter_s: float = 0.0

    def speeds_at(self, time_s: Array) -> Array:
        """(N, n) speeds at times within the reports: the motor's answer, bent to each report."""
        motors = self.motors
        last = len(motors.time_s) - 2
        before = np.clip(np.searchsorted(motors.time_s, time_s, side="right") - 1, 0, last)
        start_s, end_s = motors.time_s[before], motors.time_s[before + 1]
        share = ((time_s - start_s) / (end_s - start_s))[:, None]
        first, second = motors.speed_radps[before], motors.speed_radps[before + 1]
        if self.solution is None:
            return np.asarray(first + share * (second - first))
        theta = self.solution.value
        speed = motors.advance(first, start_s, time_s, theta)
        reached = motors.advance(first, start_s, end_s, theta)
        return np.asarray(speed + share * (second - reached))


class _Answers:
    """How well speeds are predicted over some of the reports."""

    def __init__(self, motors: Motors, rows: NDArray[np.intp]) -> None:
        self._motors = motors
        self._start, self._reached = motors.speed_radps[rows], motors.speed_radps[rows + 1]
        self._from_s, self._to_s = motors.time_s[rows], motors.time_s[rows + 1]
        self.least = EXACT * float(np.abs(motors.speed_radps).max())

    def residual(self, theta: Array) -> Array:
        """(rows, n) rad/s."""
        bounded = np.array([*np.maximum(theta[:2], LEAST_TAU_S), theta[2]])
        predicted = self._motors.advance(self._start, self._from_s, self._to_s, bounded)
        return np.asarray(self._reached - predicted)

    def misfit(self, theta: Array) -> Array:
        """(rows,) rad/s over all rotors."""
        return np.asarray(np.sqrt(np.mean(self.residual(theta) ** 2, axis=1)))

    def usual(self, theta: Array) -> float:
        """Deviation of the predictions that are not spoilt."""
        return max(float(np.median(self.misfit(theta))) / NORMAL_MEDIAN, self.least)

    def jitter_s(self, theta: Array) -> float:
        """Deviation of the delay that the half of the predictions needs that tells of it most."""
        later = np.array([0.0, 0.0, 0.5 * DELAY_STEP_S])
        slope = (self.residual(theta + later) - self.residual(theta - later)) / DELAY_STEP_S
        weight = np.sum(slope**2, axis=1)
        telling = weight > np.median(weight)
        missed = np.sum(self.residual(theta) * slope, axis=1)[telling] / weight[telling]
        return float(np.median(np.abs(missed))) / NORMAL_MEDIAN if telling.any() else 0.0

    def fit(self, theta: Array) -> Solution:
        """Robust least squares from a beginning."""
        size = np.array([theta[0], theta[1], 0.01])
        noise = np.full(self._reached.shape[1], self.least)
        prior = Prior(theta, UNKNOWN * size, size, noise)
        for _ in range(ROUNDS):
            root = 1.0 / np.hypot(1.0, self.misfit(theta) / self.usual(theta))[:, None]

            def weighed(trial: Array, root: Array = root) -> Array:
                return np.asarray(root * self.residual(trial))

            solution = fit_least_squares(weighed, prior, theta)
            moved, theta = np.abs(solution.value - theta), solution.value
            if np.all(moved <= SETTLED * size):
                break
        return solution


def fit_motors(motors: Motors) -> MotorFit:
    """Find time constants and delay; without commands, or with few reports, nothing."""
    rows = motors.usable() if len(motors.command_s) > 1 else np.zeros(0, np.intp)
    if len(rows) < LEAST_ROWS:
        return MotorFit(motors, None)
    few = _Answers(motors, rows[:: max(1, len(rows) // LEAST_ROWS)])
    begins = []
    for tau_s in TAUS_S:
        trials = [np.array([tau_s, tau_s, delay_s]) for delay_s in DELAYS_S]
        begins.append(min(trials, key=few.usual))
    begins = sorted(begins, key=few.usual)[:BEGINS]
    best = min((few.fit(begin).value for begin in begins), key=few.usual)
    all_rows = _Answers(motors, rows)
    solution = all_rows.fit(best)
    return MotorFit(motors, solution, all_rows.jitter_s(solution.value))
