"""Evidence about the axes of vector sensors: each signed permutation's misfit, sensor by sensor.

Two vectors of which one should be the other's image, d = A e, are compared window by window, for
all 48 ways A of naming three perpendicular axes. What enters are differences between the means of
two windows, so that offsets do not count, and windows in which something moves. Frames: B is
``base_link`` as the declared mount says, W is ``map``.
"""

from __future__ import annotations

from itertools import permutations, product
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Array, Quaternion, Record, Records, Vector, kernel
from quadsim.base.parameters import Vec3, dtype_of
from quadsim.geometry.vector import cross, norm, subtract, vec3

#: All signed permutations: component i of A e is SIGN[k, i] * e[PERM[k, i]].
PERM = np.array([p for p in permutations(range(3)) for _ in range(8)])
SIGN = np.array([s for _ in range(6) for s in product((1.0, -1.0), repeat=3)])
WAYS = len(PERM)

#: Relations: the field's change against the gyroscope's turn; GNSS velocity's change against the
#: integrated specific force; GNSS position's change against the integrated GNSS velocity; the
#: external attitude's turn against the gyroscope's; the external position's against the force's.
FIELD, VELOCITY, POSITION, EXTERNAL_TURN, EXTERNAL_MOTION = range(5)
RELATIONS = 5
#: Length of a window, s, and the least change of a window that counts: rad, m/s, m, rad, m/s.
WINDOW_S = np.array([0.2, 0.35, 0.3, 0.2, 0.5])
LEAST = np.array([0.03, 0.25, 0.15, 0.03, 0.3])
#: What a fix of 1 m deviation, or worse, adds to both.
WINDOW_PER_M, LEAST_PER_M = 0.6, 0.35
#: A misfit that is no misfit, in the same units: errors of the windows themselves.
FLOOR = np.array([0.01, 0.03, 0.03, 0.01, 0.05])
#: Share of a new window in the mean change that is taken off: what is constant is a tilt's error.
STEADY = 0.15
#: A change that is so many times the other is an outlier's.
OUTLIER = 30.0
#: So many windows are remembered.
MEMORY = 60.0

#: Steps of the attitude that the evidence is seen from, and how many are kept for late data.
STEP_NS = 10_000_000
RING = 256
#: A pause that the evidence does not reach over.
GAP_NS = 100_000_000
G_MPS2 = 9.81
#: Time over which directions are averaged, s.
MEAN_S = 4.0
#: Time constants of the attitude: of its tilt, at first and later, and of its heading, s.
TILT_S, SETTLED_TILT_S, HEADING_S = 0.5, 6.0, 2.0
SETTLE_S = 3.0


class ChangeWindow(Record):
    """A window of pairs of vectors, and the changes since the one before."""

    start_ns: int
    count: int
    d_sum: Vector
    e_sum: Vector
    known: int  # whether there is a window before
    d: Vector
    e: Vector
    d_mean: Vector  # of the changes
    e_mean: Vector


WINDOW = dtype_of(ChangeWindow)


class AxesEvidence(Record):
    """The evidence, and the attitude from which it is seen."""

    newest_ns: int
    step_ns: int  # begin of the step
    step_f_B: Vector  # sum of f dt
    step_turn_B: Vector
    age_s: float
    q_WB: Quaternion
    heading_age_s: float  # time since the field first gave a heading
    heading_ns: int  # of the newest field
    turn_B: Vector  # integrals since the begin
    motion_W: Vector
    ring_count: int
    ring_ns: Annotated[NDArray[np.int64], RING]
    ring_turn_B: Annotated[Array, RING, 3]
    ring_motion_W: Annotated[Array, RING, 3]
    ring_f_B: Annotated[Array, RING, 3]
    f_mean_B: Vector
    f_weight_s: float
    field_mean: float  # of its size, T
    field_force: Annotated[Array, 3, 3]  # mean of f m^T, of unit vectors
    field_force_count: float
    windows: Annotated[Records[ChangeWindow], RELATIONS]
    weight: Annotated[Array, RELATIONS, 3]  # of the measured axes, the best one's is 1
    fix_sigma_m: float
    misfit: Annotated[Array, RELATIONS, WAYS]
    count: Annotated[Array, RELATIONS]
    velocity_ns: int
    velocity_W: Vector
    way_W: Vector  # integral of GNSS velocity
    pose_ns: int
    pose_p_W: Vector
    pose_q_WB: Quaternion
    pose_seen_W: Vector  # the motion when that pose was taken
    pose_motion_W: Vector  # its integral, turned to the pose's heading
    found_turn_B: Vector  # working memory of a look-up
    found_motion_W: Vector
    found_f_B: Vector


AXES = dtype_of(AxesEvidence)


@kernel
def image(k: int, e: Vec3) -> Vec3:
    """A e, of the k-th signed permutation."""
    return (
        SIGN[k, 0] * e[PERM[k, 0]],
        SIGN[k, 1] * e[PERM[k, 1]],
        SIGN[k, 2] * e[PERM[k, 2]],
    )


@kernel
def weigh(axes: AxesEvidence, relation: int, d: Vec3, e: Vec3, arm: Vec3, size: float) -> None:
    """Add a window's misfit of each permutation: |d - A e|^2, or |d - arm x A e|^2 of the field.

    Args:
        axes: AXES record.
        relation: which.
        d, e: the two changes.
        arm: the field's direction; not used by others.
        size: of the change that makes the window count.
    """
    least = LEAST[relation]
    if relation == POSITION:
        least += LEAST_PER_M * min(axes.fix_sigma_m, 1.0)
    if size < least or norm(d) > OUTLIER * max(size, least):
        return
    weight = axes.weight[relation]
    keep = 1.0 - 1.0 / MEMORY
    axes.count[relation] = keep * axes.count[relation] + 1.0
    floor = FLOOR[relation] * FLOOR[relation]
    for k in range(WAYS):
        expected = image(k, e)
        if relation == FIELD:
            expected = cross(arm, expected)
        off = subtract(d, expected)
        misfit = floor
        for i in range(3):
            misfit += weight[i] * off[i] * off[i]
        axes.misfit[relation, k] = keep * axes.misfit[relation, k] + misfit


@kernel
def weigh_change(axes: AxesEvidence, relation: int) -> None:
    """Weigh the changes that a window ended with."""
    window = axes.windows[relation]
    d, e = vec3(window.d_sum), vec3(window.e_sum)
    size = norm(e)
    arm = vec3(window.d)
    if relation == VELOCITY or relation == EXTERNAL_MOTION:
        for k in range(3):
            window.d_mean[k] += STEADY * (d[k] - window.d_mean[k])
            window.e_mean[k] += STEADY * (e[k] - window.e_mean[k])
        d, e = subtract(d, vec3(window.d_mean)), subtract(e, vec3(window.e_mean))
        size = min(norm(d), norm(e))
    weigh(axes, relation, d, e, arm, size)


@kernel
def add_pair(axes: AxesEvidence, relation: int, stamp_ns: int, d: Vec3, e: Vec3) -> bool:
    """Add a pair of vectors to its window; True when a window ended that has one before it."""
    window = axes.windows[relation]
    ended = False
    length_s = WINDOW_S[relation]
    if relation == POSITION:
        length_s += WINDOW_PER_M * min(axes.fix_sigma_m, 1.0)
    if window.count > 0 and stamp_ns - window.start_ns >= length_s * 1e9:
        n = float(window.count)
        ended = window.known == 1 and stamp_ns - window.start_ns < 3e9 * length_s
        for k in range(3):
            # sums become the change, the means are kept for the next one
            mean_d, mean_e = window.d_sum[k] / n, window.e_sum[k] / n
            window.d_sum[k], window.e_sum[k] = mean_d - window.d[k], mean_e - window.e[k]
            window.d[k], window.e[k] = mean_d, mean_e
        window.known = 1
        window.count = 0
        if ended:
            weigh_change(axes, relation)
    if window.count == 0:
        window.start_ns = stamp_ns
        window.d_sum[:] = 0.0
        window.e_sum[:] = 0.0
    window.count += 1
    for k in range(3):
        window.d_sum[k] += d[k]
        window.e_sum[k] += e[k]
    return ended
