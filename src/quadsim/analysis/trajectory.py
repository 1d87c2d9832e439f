"""How far a trajectory is from the true one: alignment, absolute and relative errors.

Absolute (ATE) and relative errors (RPE) as Sturm et al., *A benchmark for the evaluation of RGB-D
SLAM systems*, IROS 2012, define them; over distances as Geiger et al., *Are we ready for autonomous
driving?*, CVPR 2012; alignments as Zhang and Scaramuzza, *A tutorial on quantitative trajectory
evaluation for visual(-inertial) odometry*, IROS 2018, list them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from quadsim.analysis.metrics import at_stamps, conjugates, rms, rotation_vector
from quadsim.base.errors import InputError
from quadsim.sim.disk_arrays import (
    KeptTrack,
    blocks_of_track,
    forget_track,
    give_back,
    slices,
    taken_rows,
)
from quadsim.sim.log import Array, Stamps, Track
from quadsim.wire.axes import multiply_rows

#: Nothing; position and yaw; position and attitude; these and the scale.
NONE, YAW, SE3, SIM3 = ALIGNMENTS = ("none", "yaw", "se3", "sim3")
#: Relative errors begin at stamps at least so far apart: nothing new happens between.
START_STEP_NS = 100_000_000
#: A pair may be so much longer than what was asked for (evo's tolerance).
LONGER = 0.1


class Similarity(NamedTuple):
    """y = scale R x + p: what takes an estimate to the truth.

    Attributes:
        R: (3, 3) rotation.
        p: (3,) m.
        scale: 1 but for ``sim3``.
    """

    R: Array
    p: Array
    scale: float = 1.0

    def applied(self, points: Array) -> Array:
        """(N, 3) points moved."""
        return np.asarray(self.scale * points @ self.R.T + self.p)


@dataclass(frozen=True, slots=True)
class Span:
    """How far apart the two poses of a relative error are: in seconds, or in metres of path.

    Attributes:
        size: s or m.
        unit: ``s`` or ``m``.
    """

    size: float
    unit: str

    def __str__(self) -> str:
        return f"{self.size:g}{self.unit}"


SPANS = (Span(1.0, "s"), Span(5.0, "s"), Span(10.0, "m"))


def span_of(text: str) -> Span:
    """A span from text such as ``1s`` or ``10m``.

    Raises:
        InputError: it is none.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([sm])", text.strip())
    if found is None or not float(found[1]) > 0.0:
        raise InputError(f"--rpe: {text!r} is no span; allowed: seconds as 1s, metres as 10m")
    return Span(float(found[1]), found[2])


def similarity(points: Array, true: Array, kind: str) -> Similarity | None:
    """The motion that takes points to the true ones with the least squares.

    Rotation and scale after Umeyama, *Least-squares estimation of transformation parameters between
    two point patterns*, PAMI 1991; about the vertical alone, the angle that maximises
    tr(R^T C), C = sum y x^T.

    Args:
        points: (N, 3) m.
        true: (N, 3) m.
        kind: one of :data:`ALIGNMENTS`.

    Returns:
        None where the points do not say: fewer than three, or (but for ``yaw``) all on a line;
        for ``yaw`` all above one another.
    """
    if kind == NONE:
        return Similarity(np.eye(3), np.zeros(3))
    if len(points) < 3:
        return None
    mean, mean_true = _mean(points), _mean(true)
    C, spread = np.zeros((3, 3)), 0.0
    for rows in slices(len(points)):
        x, y = points[rows] - mean, true[rows] - mean_true
        C += y.T @ x
        spread += float(np.sum(np.sum(x**2, axis=1)))
        give_back(points, true)
    C /= len(points)
    spread /= len(points)
    scale = 1.0
    if kind == YAW:
        sine, cosine = C[1, 0] - C[0, 1], C[0, 0] + C[1, 1]
        if np.hypot(sine, cosine) <= 1e-12:
            return None
        R = Rotation.from_euler("z", np.arctan2(sine, cosine)).as_matrix()
    else:
        U, D, Vt = np.linalg.svd(C)
        if D[1] <= 1e-9 * D[0] or D[0] == 0.0:
            return None
        sign = np.array([1.0, 1.0, np.sign(np.linalg.det(U) * np.linalg.det(Vt))])
        R = (U * sign) @ Vt
        if kind == SIM3:
            scale = float(np.sum(D * sign)) / spread
    return Similarity(R, mean_true - scale * R @ mean, scale)


def _mean(points: Array) -> Array:
    """(3,) mean of (N, 3) points."""
    total = np.zeros(3)
    for rows in slices(len(points)):
        total += points[rows].sum(axis=0)
        give_back(points)
    return total / len(points)


def aligned(estimate: Track, truth: Track, kind: str, from_ns: int | None = None) -> Track:
    """An estimate moved as a whole to where it fits the truth best.

    Args:
        estimate: what is moved; its deviations are lost, as they speak of the axes before.
        kind: one of :data:`ALIGNMENTS`; ``none`` gives the estimate itself.
        from_ns: first stamp that counts for the fit.

    Raises:
        InputError: the truth does not say where to.
    """
    if kind == NONE:
        return estimate
    both = compared(estimate, truth, from_ns)
    found = similarity(both[0].p_W, both[1].p_W, kind)
    if found is None:
        raise InputError(
            f"--align {kind}: {len(both[0])} positions with a truth do not fix the alignment (fewer"
            " than 3, or all on a line); choose --align none"
        )
    q_R = np.roll(Rotation.from_matrix(found.R).as_quat(), 1)
    moved = KeptTrack(with_sigma=False)
    for part in blocks_of_track(estimate):
        v_W = found.scale * part.v_W @ found.R.T
        q_WB = multiply_rows(np.broadcast_to(q_R, (len(part), 4)), part.q_WB)
        moved.append(Track(part.stamp_ns, found.applied(part.p_W), v_W, q_WB, part.w_B))
    return moved.track()


def compared(estimate: Track, truth: Track, from_ns: int | None = None) -> tuple[Track, Track]:
    """An estimate and the truth at the stamps where both are known, from a stamp on."""
    chosen, true = KeptTrack(with_sigma=False), KeptTrack(with_sigma=False)
    for part in blocks_of_track(estimate, from_ns):
        known, at = at_stamps(truth, part.stamp_ns)
        chosen.append(part[known])
        true.append(at)
        forget_track(truth)
    return chosen.track(), true.track()


def absolute(estimate: Track, truth: Track) -> dict[str, dict[str, float] | None]:
    """Absolute errors of position for each alignment.

    Args:
        estimate: (N,) poses.
        truth: (N,) at the same stamps.

    Returns:
        Alignment to ``{rmse_m, mean_m, median_m, max_m}``, of ``sim3`` also the ``scale`` that the
        estimate was multiplied by; None where there is nothing to align.
    """
    result: dict[str, dict[str, float] | None] = {}
    for kind in ALIGNMENTS:
        found = similarity(estimate.p_W, truth.p_W, kind) if len(estimate) else None
        result[kind] = None
        if found is None:
            continue
        apart = np.zeros(len(estimate))
        for rows in slices(len(estimate)):
            gap = found.applied(estimate.p_W[rows]) - truth.p_W[rows]
            apart[rows] = np.linalg.norm(gap, axis=1)
            give_back(estimate.p_W, truth.p_W)
        figures = {
            "rmse_m": float(np.sqrt(np.mean(apart**2))),
            "mean_m": float(np.mean(apart)),
            "median_m": float(np.median(apart)),
            "max_m": float(np.max(apart)),
        }
        result[kind] = figures | ({"scale": found.scale} if kind == SIM3 else {})
    return result


def pairs(truth: Track, span: Span) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """First and second row of the pairs of poses that are a span apart.

    The second is the first row at least the span behind the first; a pair that is more than a
    tenth longer is left out, and so is one with the truth missing between.
    """
    if len(truth) < 2:
        return np.zeros(0, np.intp), np.zeros(0, np.intp)
    if span.unit == "s":
        along = (truth.stamp_ns - truth.stamp_ns[0]) * 1e-9
    else:
        along = _length_of_path(truth.p_W)
    first = _thinned(truth.stamp_ns)
    slack = 1e-9 * span.size  # a second less a rounding error is a second
    second = np.searchsorted(along, along[first] + span.size - slack, side="left")
    first, second = first[second < len(truth)], second[second < len(truth)]
    good = along[second] - along[first] <= (1.0 + LONGER) * span.size
    return first[good], second[good]


def _length_of_path(points: Array) -> Array:
    """(N,) m from the first of (N, 3) points on."""
    steps = np.zeros(len(points))
    for rows in slices(len(points) - 1):
        step = np.diff(points[rows.start : rows.stop + 1], axis=0)
        steps[rows.start + 1 : rows.stop + 1] = np.linalg.norm(step, axis=1)
        give_back(points)
    return np.cumsum(steps)


def _thinned(stamp_ns: Stamps) -> np.ndarray[Any, Any]:
    """Rows at least :data:`START_STEP_NS` apart: the first of each interval of that length."""
    slots = (stamp_ns - stamp_ns[0]) // START_STEP_NS
    return np.flatnonzero(np.concatenate([[True], slots[1:] > slots[:-1]]))


def relative(estimate: Track, truth: Track, span: Span) -> dict[str, float | int | None]:
    """Relative errors over a span: E = (Q_i^-1 Q_j)^-1 (P_i^-1 P_j), P estimated, Q true.

    Args:
        estimate: (N,) poses.
        truth: (N,) at the same stamps.
        span: between the two poses of a pair.

    Returns:
        Translation and rotation of E, and the number of pairs; over metres also the translation's
        mean as a share of them.
    """
    first, second = pairs(truth, span)
    moves = []
    for track in (estimate, truth):
        back = conjugates(taken_rows(track.q_WB, first))
        step_W = taken_rows(track.p_W, second) - taken_rows(track.p_W, first)
        R_BW = Rotation.from_quat(np.roll(back, -1, axis=1)) if len(first) else None
        step_B = step_W if R_BW is None else R_BW.apply(step_W)
        moves.append((step_B, multiply_rows(back, taken_rows(track.q_WB, second))))
    (step, turn), (true_step, true_turn) = moves
    apart = np.linalg.norm(step - true_step, axis=1)
    angle = np.linalg.norm(rotation_vector(multiply_rows(conjugates(true_turn), turn)), axis=1)
    result: dict[str, float | int | None] = {
        "translation_rmse_m": rms(apart),
        "translation_mean_m": _of(np.mean, apart),
        "translation_max_m": _of(np.max, apart),
        "rotation_rmse_rad": rms(angle),
        "rotation_mean_rad": _of(np.mean, angle),
        "rotation_max_rad": _of(np.max, angle),
        "count": len(apart),
    }
    if span.unit == "m":
        mean_m = result["translation_mean_m"]
        result["drift_share"] = None if mean_m is None else mean_m / span.size
    return result


def _of(function: Any, values: Array) -> float | None:
    """A function of numbers; None without any."""
    return float(function(values)) if len(values) else None
