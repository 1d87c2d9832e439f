"""What the evidence about axes takes in: IMU samples, fields, fixes, poses.

A plain attitude of its own, by gyroscope, mean force and field, turns the specific force into the
world: the filter's would be led astray by the very sensor that is to be found.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Array, Records, kernel
from quadsim.base.parameters import Vec3
from quadsim.estimation.mounting_check.evidence import (
    EXTERNAL_MOTION,
    EXTERNAL_TURN,
    FIELD,
    G_MPS2,
    GAP_NS,
    HEADING_S,
    MEAN_S,
    POSITION,
    RELATIONS,
    RING,
    SETTLE_S,
    SETTLED_TILT_S,
    STEP_NS,
    TILT_S,
    VELOCITY,
    WINDOW_S,
    AxesEvidence,
    add_pair,
    weigh,
)
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


@kernel
def begin_anew(axes: AxesEvidence) -> None:
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
def take_imu(
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
            begin_anew(axes)
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
def look_up(axes: AxesEvidence, stamp_ns: int) -> bool:
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
    if size == 0.0 or not look_up(axes, stamp_ns):
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
    if axes.heading_age_s > SETTLE_S and look_up(axes, stamp_ns):
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
    if not look_up(axes, stamp_ns):
        return
    turn_B, motion_W = vec3(axes.found_turn_B), vec3(axes.found_motion_W)
    window = axes.windows[EXTERNAL_TURN]
    apart_s = (stamp_ns - window.start_ns) * 1e-9
    if window.known == 0 or apart_s >= WINDOW_S[EXTERNAL_TURN] or apart_s < 0.0:
        if window.known == 1 and 0.0 < apart_s < 1.0:
            d = log(multiply(conjugate(quat(axes.pose_q_WB)), q_WB))
            e = subtract(turn_B, vec3(window.e))
            weigh(axes, EXTERNAL_TURN, d, e, d, norm(e))
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

    The force is turned to the heading of the pose: the map of a motion capture need not face north.
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
