"""How good an estimate is, and how well a reference was flown.

An error is estimate minus truth, the truth interpolated at the estimate's stamps (linear; attitude
along the great arc), never extrapolated and never across a gap of the truth.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from quadsim.sim.disk_arrays import blocks_of_track, forget_track
from quadsim.sim.log import Array, FlightLog, Stamps, Track
from quadsim.wire.axes import multiply_rows

MAX_GAP_S = 0.5
SETTLE_S = 5.0


@dataclass(frozen=True, slots=True)
class Errors:
    """Errors of a track.

    Attributes:
        stamp_ns: (N,) ns.
        position_W: (N, 3) m.
        velocity_W: (N, 3) m/s; NaN where the truth knows none.
        attitude_W: (N, 3) rotation about the world axes that turns the true attitude into the
            estimated one, rad.
        yaw: (N,) difference of the yaw angles within +-pi, rad.
        tilt: (N,) angle between the estimated and the true vertical axis of the body, rad.
        sigma: (N, 9) stated deviations, as in :class:`Track`; None where unknown.
    """

    stamp_ns: Stamps
    position_W: Array
    velocity_W: Array
    attitude_W: Array
    yaw: Array
    tilt: Array
    sigma: Array | None

    def __len__(self) -> int:
        return len(self.stamp_ns)


@dataclass(frozen=True, slots=True)
class Score:
    """Figures of one estimator; None where there is nothing to take them from.

    Attributes:
        position_rmse_m: root of the mean square of the error's length in space.
        position_max_m: its largest length.
        velocity_rmse_mps: the same of the velocity.
        yaw_rmse_rad: root mean square of the yaw error.
        tilt_rmse_rad: root mean square of the angle between estimated and true body z.
        nees_mean: mean of the sum of (error / stated deviation)^2 over the three position axes;
            3 for a filter whose deviations are right and whose axes are independent.
    """

    position_rmse_m: float | None
    position_max_m: float | None
    velocity_rmse_mps: float | None
    yaw_rmse_rad: float | None
    tilt_rmse_rad: float | None
    nees_mean: float | None
    count: int

    def figures(self) -> dict[str, float | int | None]:
        """Name to value."""
        return asdict(self)


def conjugates(q: Array) -> Array:
    """Inverses of (N, 4) unit quaternions."""
    return np.asarray(q * np.array([1.0, -1.0, -1.0, -1.0]))


def rotation_vector(q: Array) -> Array:
    """(N, 3) rotation vectors of (N, 4) unit quaternions, at most pi long, rad."""
    q = np.where(q[:, :1] < 0, -q, q)
    sine = np.linalg.norm(q[:, 1:], axis=1, keepdims=True)
    angle = 2.0 * np.arctan2(sine, q[:, :1])
    factor = np.divide(angle, sine, out=np.full_like(sine, 2.0), where=sine > 1e-12)
    return np.asarray(factor * q[:, 1:])


def yaws_of(q_WB: Array) -> Array:
    """(N,) yaw of (N, 4) quaternions, rad."""
    w, x, y, z = q_WB.T
    return np.asarray(np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)))


def body_z(q_WB: Array) -> Array:
    """(N, 3) body z axis in the world."""
    w, x, y, z = q_WB.T
    return np.stack([2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)], axis=1)


def _slerp(a: Array, b: Array, fraction: Array) -> Array:
    """Quaternions on the shorter great arc from a to b; (N, 4), (N, 4), (N, 1)."""
    dot = np.sum(a * b, axis=1, keepdims=True)
    b = np.where(dot < 0, -b, b)
    angle = np.arccos(np.clip(np.abs(dot), 0.0, 1.0))
    sine = np.sin(angle)
    straight = sine < 1e-6  # so close that the chord is the arc
    safe = np.where(straight, 1.0, sine)
    wa = np.where(straight, 1.0 - fraction, np.sin((1.0 - fraction) * angle) / safe)
    wb = np.where(straight, fraction, np.sin(fraction * angle) / safe)
    q = wa * a + wb * b
    return np.asarray(q / np.linalg.norm(q, axis=1, keepdims=True))


def _places(
    track: Track, stamp_ns: Stamps
) -> tuple[NDArray[np.bool_], NDArray[np.intp], NDArray[np.intp], Array]:
    """Which stamps lie inside a track, and of those the rows around and the share between."""
    right = np.searchsorted(track.stamp_ns, stamp_ns, side="left")
    inside = right < len(track)
    right = np.minimum(right, len(track) - 1)
    exact = track.stamp_ns[right] == stamp_ns
    left = np.where(exact, right, right - 1)
    step_ns = track.stamp_ns[right] - track.stamp_ns[np.maximum(left, 0)]
    known = inside & (left >= 0) & (step_ns <= MAX_GAP_S * 1e9)
    left, right, step = left[known], right[known], step_ns[known]
    return known, left, right, (stamp_ns[known] - track.stamp_ns[left]) / np.maximum(step, 1)


def _linear(
    values: Array, left: NDArray[np.intp], right: NDArray[np.intp], fraction: Array
) -> Array:
    """Rows of values between rows."""
    if not fraction.any():
        return np.asarray(values[left])
    share = fraction[:, None]
    return np.asarray((1.0 - share) * values[left] + share * values[right])


def at_stamps(track: Track, stamp_ns: Stamps) -> tuple[NDArray[np.bool_], Track]:
    """A track interpolated at other stamps; rows farther apart than MAX_GAP_S are not bridged.

    Args:
        track: at least two rows for anything to be interpolated between stamps.
        stamp_ns: (N,) where it is wanted.

    Returns:
        (known, interpolated): (N,) which stamps lie inside the track, and the track at those.
    """
    if not len(track):
        return np.zeros(len(stamp_ns), bool), Track.empty()
    known, left, right, fraction = _places(track, stamp_ns)
    q_WB = track.q_WB[left]
    if fraction.any():
        q_WB = _slerp(q_WB, track.q_WB[right], fraction[:, None])
    else:
        q_WB = q_WB / np.linalg.norm(q_WB, axis=1, keepdims=True)
    p_W, v_W, w_B = (
        _linear(values, left, right, fraction) for values in (track.p_W, track.v_W, track.w_B)
    )
    return known, Track(stamp_ns[known], p_W, v_W, q_WB, w_B)


def positions_at(track: Track, stamp_ns: Stamps) -> tuple[NDArray[np.bool_], Array]:
    """As :func:`at_stamps`, of the positions alone: (N,) known, and (K, 3) m."""
    if not len(track):
        return np.zeros(len(stamp_ns), bool), np.zeros((0, 3))
    known, left, right, fraction = _places(track, stamp_ns)
    return known, _linear(track.p_W, left, right, fraction)


def errors(estimate: Track, truth: Track) -> Errors:
    """Errors of an estimate at each of its stamps where the truth is known."""
    known, true = at_stamps(truth, estimate.stamp_ns)
    at = estimate[known]
    z_true, z = body_z(true.q_WB), body_z(at.q_WB)
    yaw = yaws_of(at.q_WB) - yaws_of(true.q_WB)
    return Errors(
        stamp_ns=at.stamp_ns,
        position_W=at.p_W - true.p_W,
        velocity_W=at.v_W - true.v_W,
        attitude_W=rotation_vector(multiply_rows(at.q_WB, conjugates(true.q_WB))),
        yaw=np.arctan2(np.sin(yaw), np.cos(yaw)),
        tilt=np.arctan2(np.linalg.norm(np.cross(z_true, z), axis=1), np.sum(z_true * z, axis=1)),
        sigma=at.sigma,
    )


def errors_in_parts(estimate: Track, truth: Track, from_ns: int | None = None) -> Iterator[Errors]:
    """Errors from a stamp on, in blocks: a long flight's are more than memory need hold."""
    for part in blocks_of_track(estimate, from_ns):
        yield errors(part, truth)
        forget_track(truth)


class Mean:
    """Mean of the finite ones of numbers that come in blocks, of which none is stored."""

    def __init__(self) -> None:
        self.count = 0
        self._sums: list[float] = []

    def take(self, values: Array) -> None:
        """Take the next (N,) numbers."""
        finite = values[np.isfinite(values)]
        self.count += len(finite)
        self._sums.append(float(np.sum(finite)))

    @property
    def value(self) -> float | None:
        """It; None without a finite number."""
        return math.fsum(self._sums) / self.count if self.count else None

    @property
    def root(self) -> float | None:
        """Its square root."""
        return None if self.value is None else math.sqrt(self.value)


def squares(values: Array) -> Array:
    """(N,) squares of numbers, or of the lengths of rows."""
    return np.asarray(values**2 if values.ndim == 1 else np.sum(values**2, axis=1))


def rms(values: Array) -> float | None:
    """Root mean square of numbers, or of the lengths of rows; None without a finite one."""
    mean = Mean()
    mean.take(squares(values))
    return mean.root


def normalised(values: Array, sigma: Array | None) -> Array:
    """(K,) sums of (error / deviation)^2 over rows (N, k) whose first k deviations are stated."""
    if sigma is None:
        return np.zeros(0)
    stated = (sigma[:, : values.shape[1]] > 0.0).all(axis=1)
    deviation = sigma[stated, : values.shape[1]]
    return np.asarray(np.sum((values[stated] / deviation) ** 2, axis=1))


def score(estimate: Track, truth: Track, from_ns: int | None = None) -> Score:
    """Figures of an estimate, from a stamp on.

    Args:
        from_ns: first stamp that counts; None counts all.
    """
    position, velocity, yaw, tilt, nees = (Mean() for _ in range(5))
    largest_m, count = [], 0
    for error in errors_in_parts(estimate, truth, from_ns):
        position.take(squares(error.position_W))
        velocity.take(squares(error.velocity_W))
        yaw.take(squares(error.yaw))
        tilt.take(squares(error.tilt))
        nees.take(normalised(error.position_W, error.sigma))
        count += len(error.yaw)
        lengths_m = np.linalg.norm(error.position_W, axis=1)
        lengths_m = lengths_m[np.isfinite(lengths_m)]  # as the root mean square takes them
        if len(lengths_m):
            largest_m.append(float(lengths_m.max()))
    return Score(
        position_rmse_m=position.root,
        position_max_m=max(largest_m, default=None),
        velocity_rmse_mps=velocity.root,
        yaw_rmse_rad=yaw.root,
        tilt_rmse_rad=tilt.root,
        nees_mean=nees.value,
        count=count,
    )


def tracking_rmse_m(log: FlightLog) -> float | None:
    """Root mean square distance of the truth from the reference, where there was one, m."""
    if log.reference is None:
        return None
    mean = Mean()
    for part in blocks_of_track(log.truth):
        known, wanted_W = positions_at(log.reference, part.stamp_ns)
        mean.take(squares(part.p_W[known] - wanted_W))
        forget_track(log.reference)
    return mean.root
