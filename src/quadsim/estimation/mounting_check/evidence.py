"""Evidence about the axes of vector sensors: each signed permutation's misfit, sensor by sensor.

Two vectors of which one should be the other's image, d = A e, are compared window by window, for
all 48 ways A of naming three perpendicular axes. What enters are differences between the means of
two windows, so that offsets do not count, and windows in which something moves. Frames: B is
``base_link`` as the declared mount reports, W is ``map``.

What the evidence about axes takes in: IMU samples, fields, fixes, poses.

A plain attitude of its own, by gyroscope, mean force and field, turns the specific force into the
world: the filter's would be led astray by the very sensor that is to be found.
"""

from __future__ import annotations

from itertools import permutations, product
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Array, Quaternion, Record, Records, Vector, argument, kernel
from quadsim.base.parameters import Vec3, dtype_of
from quadsim.geometry.rotation import (
    Quat,
    conjugate,
    exp,
    log,
    multiply,
    normalize,
    quat,
    rotate,
    wrap,
    yaw_of,
)
from quadsim.geometry.vector import add, cross, norm, scale, store, subtract, vec3

#: All signed permutations: component i of A e is SIGN[k, i] * e[PERM[k, i]].
PERM = np.array([p for p in permutations(range(3)) for _ in range(8)])
SIGN = np.array([s for _ in range(6) for s in product((1.0, -1.0), repeat=3)])
WAYS = len(PERM)

#: Relations: the field's change against the gyroscope's turn; GNSS velocity's change against the
#: integrated specific force; GNSS position's change against the integrated GNSS velocity; the
#: external attitude's turn against the gyroscope's; the external position's against the force's.
FIELD, VELOCITY, POSITION, EXTERNAL_TURN, EXTERNAL_MOTION = map(argument, range(5))
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

#: Steps of the attitude that the evidence is seen from, and how many are stored for late data.
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
    pose_motion_W: Vector  # its integral, rotated to the pose's heading
    found_turn_B: Vector  # working memory of a look-up
    found_motion_W: Vector
    found_f_B: Vector


AXES = dtype_of(AxesEvidence)


@kernel
def image(k: int, e: Vec3) -> Vec3:
    """A e, of the k-th signed permutation."""
    return (SIGN[k, 0] * e[PERM[k, 0]], SIGN[k, 1] * e[PERM[k, 1]], SIGN[k, 2] * e[PERM[k, 2]])


@kernel
def weigh_namings(
    axes: AxesEvidence, relation: int, d: Vec3, e: Vec3, arm: Vec3, size: float
) -> None:
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
    weigh_namings(axes, relation, d, e, arm, size)


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
            # sums become the change, the means are stored for the next one
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


@kernel
def restart_evidence(axes: AxesEvidence) -> None:
    """Forget what reaches over a pause: windows and integrals, not what has been found."""
    axes.ring_count = 0
    axes.pose_ns = 0
    axes.heading_ns = 0
    axes.heading_age_s = 0.0
    axes.velocity_ns = 0
    axes.step_f_B[:] = 0.0
    axes.step_turn_B[:] = 0.0
    for r in range(RELATIONS):
        axes.windows[r].count = 0
        axes.windows[r].known = 0
        axes.windows[r].d_mean[:] = 0.0
        axes.windows[r].e_mean[:] = 0.0


@kernel
def take_imu_block(
    lines: Records[AxesEvidence],
    count: int,
    stamps_ns: NDArray[np.int64],
    f_S: Array,
    w_S: Array,
    q_BS: Quat,
) -> None:
    """IMU samples in order: turn, motion and mean force.

    Args:
        lines: (1,) AXES.
        count: how many there are.
        stamps_ns: (N,) ends of the samples' intervals.
        f_S: (N, 3) m/s^2.
        w_S: (N, 3) rad/s.
        q_BS: mount.
    """
    axes = lines[0]
    for i in range(count):
        gap_ns = stamps_ns[i] - axes.newest_ns
        if axes.newest_ns == 0 or gap_ns <= 0 or gap_ns > GAP_NS:
            restart_evidence(axes)
            axes.newest_ns = stamps_ns[i]
            axes.step_ns = stamps_ns[i]
            continue
        dt = gap_ns * 1e-9
        f_B, w_B = rotate(q_BS, vec3(f_S[i])), rotate(q_BS, vec3(w_S[i]))
        for k in range(3):
            axes.step_f_B[k] += f_B[k] * dt
            axes.step_turn_B[k] += w_B[k] * dt
        axes.newest_ns = stamps_ns[i]
        if stamps_ns[i] - axes.step_ns >= STEP_NS:
            end_step(axes, (stamps_ns[i] - axes.step_ns) * 1e-9)
            axes.step_ns = stamps_ns[i]


@kernel
def end_step(axes: AxesEvidence, dt: float) -> None:
    """Move attitude and integrals on by one step.

    The attitude is a complementary filter's (Mahony et al., *Nonlinear complementary filters on
    the special orthogonal group*, 2008): gyroscope, levelled slowly by the specific force.
    """
    f_B = scale(1.0 / dt, vec3(axes.step_f_B))
    turn_B = vec3(axes.step_turn_B)
    size = norm(f_B)
    if axes.age_s == 0.0:
        axes.q_WB[:] = 0.0
        axes.q_WB[0] = 1.0
    q_WB = normalize(multiply(quat(axes.q_WB), exp(turn_B)))
    f_W = rotate(q_WB, f_B)
    if size > 1.0:
        tilt_s = TILT_S if axes.age_s < SETTLE_S else SETTLED_TILT_S
        lean = scale(dt / (tilt_s * size), cross(f_W, (0.0, 0.0, 1.0)))
        q_WB = normalize(multiply(exp(lean), q_WB))
    store(axes.q_WB, q_WB)
    weight = min(axes.f_weight_s + dt, MEAN_S)
    axes.f_weight_s = weight
    at = axes.ring_count % RING
    axes.ring_ns[at] = axes.newest_ns
    for k in range(3):
        axes.turn_B[k] += turn_B[k]
        axes.motion_W[k] += f_W[k] * dt
        axes.f_mean_B[k] += dt / weight * (f_B[k] - axes.f_mean_B[k])
        axes.ring_f_B[at, k] = f_B[k]
        axes.ring_turn_B[at, k] = axes.turn_B[k]
    axes.motion_W[2] -= G_MPS2 * dt
    for k in range(3):
        axes.ring_motion_W[at, k] = axes.motion_W[k]
    axes.ring_count += 1
    axes.age_s += dt
    if axes.heading_ns > 0:
        axes.heading_age_s += dt
    axes.step_f_B[:] = 0.0
    axes.step_turn_B[:] = 0.0


@kernel
def motion_at(axes: AxesEvidence, stamp_ns: int) -> bool:
    """Turn and motion at a stamp, between two steps; False: out of reach."""
    count = axes.ring_count
    if count < 2 or stamp_ns > axes.ring_ns[(count - 1) % RING]:
        return False
    last = max(0, count - RING)
    i = count - 1
    while i > last and axes.ring_ns[(i - 1) % RING] > stamp_ns:
        i -= 1
    if i == last:
        return False
    a, b = (i - 1) % RING, i % RING
    share = (stamp_ns - axes.ring_ns[a]) / (axes.ring_ns[b] - axes.ring_ns[a])
    for k in range(3):
        turn, motion = axes.ring_turn_B[a, k], axes.ring_motion_W[a, k]
        axes.found_turn_B[k] = turn + share * (axes.ring_turn_B[b, k] - turn)
        axes.found_motion_W[k] = motion + share * (axes.ring_motion_W[b, k] - motion)
        axes.found_f_B[k] = axes.ring_f_B[b, k]
    return True


@kernel
def take_magnetic_field(
    lines: Records[AxesEvidence], stamp_ns: int, m_S: Vec3, q_BS: Quat, field_W: Vec3
) -> None:
    """A magnetic field: its direction against the turn and the force, and for the heading.

    Args:
        lines: (1,) AXES.
        stamp_ns: when it was measured.
        m_S: (3,) T.
        q_BS: mount.
        field_W: (3,) the reference, T.
    """
    axes, m_B = lines[0], rotate(q_BS, m_S)
    size = norm(m_B)
    if size == 0.0 or not motion_at(axes, stamp_ns):
        return
    direction = scale(1.0 / size, m_B)
    add_pair(axes, FIELD, stamp_ns, direction, vec3(axes.found_turn_B))
    f_B = vec3(axes.found_f_B)
    force = norm(f_B)
    if force > 1.0:
        count = min(axes.field_force_count + 1.0, 400.0)
        axes.field_force_count = count
        for i in range(3):
            for k in range(3):
                now = f_B[i] * direction[k] / force
                axes.field_force[i, k] += (now - axes.field_force[i, k]) / count
    m_W = rotate(quat(axes.q_WB), direction)
    if field_W[0] == 0.0 and field_W[1] == 0.0:
        return
    off = wrap(np.arctan2(field_W[1], field_W[0]) - np.arctan2(m_W[1], m_W[0]))
    share = 1.0
    if axes.heading_ns > 0:
        share = min(max((stamp_ns - axes.heading_ns) * 1e-9, 0.0), 0.5 * HEADING_S) / HEADING_S
    axes.heading_ns = max(stamp_ns, axes.heading_ns)
    turn = (0.0, 0.0, share * off)
    store(axes.q_WB, normalize(multiply(exp(turn), quat(axes.q_WB))))


@kernel
def set_weight(axes: AxesEvidence, relation: int, variance: Vec3) -> None:
    """Weigh axes by what their messages say."""
    least = max(min(variance[0], variance[1], variance[2]), 1e-12)
    for i in range(3):
        axes.weight[relation, i] = least / max(variance[i], least)


@kernel
def take_velocity(lines: Records[AxesEvidence], stamp_ns: int, v_W: Vec3, variance: Vec3) -> None:
    """A GNSS velocity, against the motion by the specific force.

    Args:
        lines: (1,) AXES.
        stamp_ns: when it was taken.
        v_W: (3,) m/s.
        variance: (3,) (m/s)^2.
    """
    axes = lines[0]
    set_weight(axes, VELOCITY, variance)
    dt = (stamp_ns - axes.velocity_ns) * 1e-9
    if axes.velocity_ns == 0 or not 0.0 < dt < 1.5:
        axes.windows[POSITION].count = 0
        axes.windows[POSITION].known = 0
        axes.way_W[:] = 0.0
    else:
        for k in range(3):
            axes.way_W[k] += 0.5 * dt * (axes.velocity_W[k] + v_W[k])
    axes.velocity_ns = stamp_ns
    store(axes.velocity_W, v_W)
    if axes.heading_age_s > SETTLE_S and motion_at(axes, stamp_ns):
        add_pair(axes, VELOCITY, stamp_ns, v_W, vec3(axes.found_motion_W))


@kernel
def take_position(lines: Records[AxesEvidence], stamp_ns: int, p_W: Vec3, variance: Vec3) -> None:
    """A GNSS position, against the way by the GNSS velocities.

    Args:
        lines: (1,) AXES.
        stamp_ns: when it was taken.
        p_W: (3,) m.
        variance: (3,) m^2.
    """
    axes = lines[0]
    set_weight(axes, POSITION, variance)
    axes.fix_sigma_m = np.sqrt(max(min(variance[0], variance[1]), 0.0))
    dt = (stamp_ns - axes.velocity_ns) * 1e-9
    if axes.velocity_ns == 0 or not -0.5 < dt < 1.0:
        return
    way_W = add(vec3(axes.way_W), scale(dt, vec3(axes.velocity_W)))
    add_pair(axes, POSITION, stamp_ns, p_W, way_W)


@kernel
def take_pose(lines: Records[AxesEvidence], stamp_ns: int, p_W: Vec3, q_WB: Quat) -> None:
    """An external pose: its turn against the gyroscope's, its motion against the force's.

    Args:
        lines: (1,) AXES.
        stamp_ns: when it was taken.
        p_W: (3,) m.
        q_WB: attitude, w first.
    """
    axes = lines[0]
    if not motion_at(axes, stamp_ns):
        return
    turn_B, motion_W = vec3(axes.found_turn_B), vec3(axes.found_motion_W)
    window = axes.windows[EXTERNAL_TURN]
    apart_s = (stamp_ns - window.start_ns) * 1e-9
    if window.known == 0 or apart_s >= WINDOW_S[EXTERNAL_TURN] or apart_s < 0.0:
        if window.known == 1 and 0.0 < apart_s < 1.0:
            d = log(multiply(conjugate(quat(axes.pose_q_WB)), q_WB))
            e = subtract(turn_B, vec3(window.e))
            weigh_namings(axes, EXTERNAL_TURN, d, e, d, norm(e))
        window.known = 1
        window.start_ns = stamp_ns
        store(window.e, turn_B)
        store(axes.pose_q_WB, q_WB)
    take_pose_motion(axes, stamp_ns, p_W, q_WB, motion_W)


@kernel
def take_pose_motion(
    axes: AxesEvidence, stamp_ns: int, p_W: Vec3, q_WB: Quat, motion_W: Vec3
) -> None:
    """Mean velocity between two positions half a window apart, against the integrated force.

    The force is given the heading of the pose: the map of a motion capture need not face north.
    """
    dt = (stamp_ns - axes.pose_ns) * 1e-9
    known = axes.pose_ns > 0 and 0.0 < dt < 1.0
    if known and dt < 0.5 * WINDOW_S[EXTERNAL_MOTION]:
        return
    if known:
        turn = exp((0.0, 0.0, wrap(yaw_of(q_WB) - yaw_of(quat(axes.q_WB)))))
        step_W = rotate(turn, subtract(motion_W, vec3(axes.pose_seen_W)))
        v_W = scale(1.0 / dt, subtract(p_W, vec3(axes.pose_p_W)))
        mean_W = add(vec3(axes.pose_motion_W), scale(0.5, step_W))
        if axes.age_s > SETTLE_S:
            add_pair(axes, EXTERNAL_MOTION, stamp_ns, v_W, mean_W)
        store(axes.pose_motion_W, add(vec3(axes.pose_motion_W), step_W))
    axes.pose_ns = stamp_ns
    store(axes.pose_p_W, p_W)
    store(axes.pose_seen_W, motion_W)
