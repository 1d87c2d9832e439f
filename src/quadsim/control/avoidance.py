"""The safe velocity nearest to a request, and a certificate of it; derivation in docs/guard.md.

**Stop point.** A vehicle that obeys a command within T and brakes with at least a stops from the
velocity v at x = v (T + |v| / 2a). The map is radial and one-to-one, so what is known to be free, a
convex polytope about the vehicle, is searched for the stop point nearest to the request's.

**Law.** Each obstacle o with keep-out R gives the half-space that touches its ball where the way to
the last stop point comes nearest to it, or enters it (a convex decomposition about a line segment:
Liu et al., *Planning dynamically feasible trajectories for quadrotors using safe flight corridors
in 3-D complex environments*, 2017). The projection is a least-distance problem (Lawson and Hanson,
*Solving least squares problems*, 1974, chapter 23).

**Certificate.** With commands c_j on their way and a velocity v_0, whatever the order in which the
vehicle follows them within T, all that it reaches until it stands after zero is commanded is in
(T + m / 2a) hull{0, v_0, c_j}, m the greatest of their speeds. A plane between that hull and each
ball is searched by Gilbert's method (*An iterative procedure for computing the minimum of a
quadratic form on a convex set*, 1966), whose bound holds at every iteration.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import nnls

from quadsim.base.compiled import Array, kernel

#: Iterations after which Gilbert's bound is taken as it is.
MOST_STEPS = 24
#: A half-space violated by less is stored, m.
TOLERANCE_M = 1e-6
#: Half-spaces that a projection meets one after the other, at most; three touch at its solution.
MOST_CUTS = 40


@dataclass(frozen=True)
class Obstacles:
    """Balls and upright columns that the vehicle's centre keeps out of, relative to it.

    Attributes:
        o_W: (N, 3) their centres less the vehicle's, m; a column's z is 0.
        keep_out_m: (N,) least distance.
        upright: (N,) 0 for a column, whose distance is horizontal, 1 for a ball.
    """

    o_W: Array
    keep_out_m: Array
    upright: Array

    @property
    def distance_m(self) -> Array:
        """(N,) from the vehicle's centre to theirs."""
        distance_m: Array = np.sqrt(np.einsum("ij,ij->i", self.o_W, self.o_W))
        return distance_m

    def chosen(self, which: Any) -> Obstacles:
        """Some of them."""
        return Obstacles(self.o_W[which], self.keep_out_m[which], self.upright[which])


def balls(o_W: Array, keep_out_m: float, column: bool) -> Obstacles:
    """Obstacles at points (N, 3) relative to the vehicle, with one keep-out."""
    upright = np.full(len(o_W), 0.0 if column else 1.0)
    o_W = np.array(o_W)  # a copy, contiguous
    o_W[:, 2] *= upright
    return Obstacles(o_W, np.full(len(o_W), keep_out_m), upright)


# ---- stopping ----------------------------------------------------------------------------------


def stop_m(speed_mps: float, delay_s: float, brake_mps2: float) -> float:
    """Way until the vehicle stands, v T + v^2 / 2a."""
    return speed_mps * (delay_s + speed_mps / (2.0 * brake_mps2))


def speed_of(way_m: float, delay_s: float, brake_mps2: float) -> float:
    """Speed from which the vehicle stands after a way; inverse of :func:`stop_m`."""
    lost = brake_mps2 * delay_s
    return math.sqrt(lost * lost + 2.0 * brake_mps2 * way_m) - lost


def stop_point(v_W: Array, delay_s: float, brake_mps2: float) -> Array:
    """(3,) where it stands, relative to where it is."""
    return v_W * (delay_s + math.sqrt(v_W @ v_W) / (2.0 * brake_mps2))


def velocity_of(x_W: Array, delay_s: float, brake_mps2: float) -> Array:
    """(3,) velocity whose stop point is x; inverse of :func:`stop_point`."""
    way_m = math.sqrt(x_W @ x_W)
    if way_m < 1e-12:
        return np.zeros(3)
    return x_W * (speed_of(way_m, delay_s, brake_mps2) / way_m)


# ---- the law -----------------------------------------------------------------------------------


def half_spaces(obstacles: Obstacles, seed_W: Array) -> tuple[Array, Array]:
    """Half-spaces n x <= b, one for each obstacle, that hold as much of a way as they can.

    Args:
        obstacles: with their keep-outs.
        seed_W: (3,) end of the way, relative to the vehicle.

    Returns:
        n (N, 3), unit, and b (N,). Where the vehicle is outside the keep-out b >= 0, and the way is
        inside the half-space up to where it enters the keep-out. Where the vehicle is inside, n
        leads to the obstacle and b is 0.
    """
    normal, bound = np.empty_like(obstacles.o_W), np.empty(len(obstacles.o_W))
    _half_spaces(obstacles.o_W, obstacles.keep_out_m, obstacles.upright, seed_W, normal, bound)
    return normal, bound


@kernel
def _half_spaces(
    o_W: Array, keep_out_m: Array, upright: Array, seed_W: Array, normal: Array, bound: Array
) -> None:
    """Write the half-spaces of :func:`half_spaces`."""
    for i in range(len(o_W)):
        x, y, z = seed_W[0], seed_W[1], seed_W[2] * upright[i]
        ox, oy, oz, keep_out = o_W[i, 0], o_W[i, 1], o_W[i, 2], keep_out_m[i]
        length2 = max(x * x + y * y + z * z, 1e-12)
        projected = ox * x + oy * y + oz * z
        distance2 = ox * ox + oy * oy + oz * oz
        room2 = distance2 - keep_out * keep_out
        share = 0.0
        if room2 > 0.0:
            share = min(max(projected / length2, 0.0), 1.0)
            near2 = distance2 - 2.0 * share * projected + share * share * length2
            if near2 < keep_out * keep_out:  # where the way enters: |o - s x| = R
                root = math.sqrt(max(projected * projected - length2 * room2, 0.0))
                share = min(max((projected - root) / length2, 0.0), 1.0)
        nx, ny, nz = ox - share * x, oy - share * y, oz - share * z
        size = max(math.sqrt(nx * nx + ny * ny + nz * nz), 1e-9)
        normal[i, 0], normal[i, 1], normal[i, 2] = nx / size, ny / size, nz / size
        bound[i] = max((nx * ox + ny * oy + nz * oz) / size - keep_out, 0.0)


def project(x_W: Array, normal: Array, bound_m: Array) -> Array | None:
    """The point nearest to x in the polytope n x <= b; None where it is empty.

    Half-spaces are taken in as they are found violated, the most violated first.

    Args:
        x_W: (3,).
        normal: (N, 3), unit.
        bound_m: (N,).
    """
    cuts: list[int] = []
    x = x_W
    for _ in range(MOST_CUTS):
        excess = normal @ x - bound_m
        worst = int(np.argmax(excess)) if len(excess) else -1
        if worst < 0 or excess[worst] <= TOLERANCE_M:
            return x
        if worst in cuts:  # no progress left in the numbers
            return None
        cuts.append(worst)
        found = _least_distance(normal[cuts], bound_m[cuts] - normal[cuts] @ x_W)
        if found is None:
            return None
        x = x_W + found
    return None


def _least_distance(normal: Array, bound_m: Array) -> Array | None:
    """The shortest y with n y <= b, by non-negative least squares; None where none is found."""
    matrix = np.empty((4, len(bound_m)))
    matrix[:3] = -normal.T
    matrix[3] = -bound_m
    try:
        weights, _ = nnls(matrix, np.array((0.0, 0.0, 0.0, 1.0)))
    except RuntimeError:  # it has taken more steps than it allows itself
        return None
    residual = matrix @ weights
    residual[3] -= 1.0
    if residual[3] > -1e-9:
        return None
    return np.asarray(-residual[:3] / residual[3])


# ---- the certificate ---------------------------------------------------------------------------


@kernel
def room(reach_W: Array, o_W: Array, keep_out_m: Array, upright: Array) -> tuple[float, int]:
    """Least room between the hull of points and balls or columns, and whose it is.

    A lower bound, less than the truth by little; negative where they may meet, inf without any.

    Args:
        reach_W: (M, 3) points, one of them 0, m.
        o_W: (N, 3) centres.
        keep_out_m: (N,) radii.
        upright: (N,) 1 for balls, 0 for columns.
    """
    least, whose = math.inf, -1
    for i in range(len(o_W)):
        w = upright[i]
        ox, oy, oz = o_W[i, 0], o_W[i, 1], o_W[i, 2] * w
        qx = qy = qz = 0.0
        best = -math.inf
        for _ in range(MOST_STEPS):
            nx, ny, nz = ox - qx, oy - qy, oz - qz
            size = math.sqrt(nx * nx + ny * ny + nz * nz)
            if size < 1e-9:
                best = max(best, -keep_out_m[i])
                break
            nx, ny, nz = nx / size, ny / size, nz / size
            far, k = -math.inf, 0
            for j in range(len(reach_W)):
                along = nx * reach_W[j, 0] + ny * reach_W[j, 1] + nz * reach_W[j, 2]
                if along > far:
                    far, k = along, j
            best = max(best, nx * ox + ny * oy + nz * oz - far - keep_out_m[i])
            if best >= least or far - (nx * qx + ny * qy + nz * qz) < 1e-4:
                break
            dx, dy, dz = reach_W[k, 0] - qx, reach_W[k, 1] - qy, reach_W[k, 2] * w - qz
            length2 = dx * dx + dy * dy + dz * dz
            if length2 < 1e-18:
                break
            step = ((ox - qx) * dx + (oy - qy) * dy + (oz - qz) * dz) / length2
            step = min(max(step, 0.0), 1.0)
            qx, qy, qz = qx + step * dx, qy + step * dy, qz + step * dz
        if best < least:
            least, whose = best, i
    return least, whose


def reach_braking(moving_W: Array, delay_s: float, brake_mps2: float) -> Array:
    """(M + 1, 3) points whose hull holds all that the vehicle reaches while zero is commanded.

    Args:
        moving_W: (M, 3) its velocity and the commands that it may be following.
        delay_s: time until it answers to zero.
        brake_mps2: deceleration from then on.
    """
    fastest = math.sqrt(np.einsum("ij,ij->i", moving_W, moving_W).max())
    points = np.zeros((len(moving_W) + 1, 3))
    points[1:] = moving_W * (delay_s + fastest / (2.0 * brake_mps2))
    return points


def reach(
    moving_W: Array, command_W: Array, answer_s: float, period_s: float, brake_mps2: float
) -> Array:
    """Points whose hull holds all that the vehicle reaches if it gets a command, and then zero.

    A command that differs by no more than half the speed from each of those before is reached
    within what braking would take; another counts as one that may be followed all the time.

    Args:
        moving_W: (M, 3) its velocity and the commands that it may be following.
        command_W: (3,) the next one.
        answer_s: time until it answers.
        period_s: for which the command holds, at most.
        brake_mps2: rate at which the velocity goes to what is commanded, at least.
    """
    every = np.vstack((moving_W, command_W))
    fastest = math.sqrt(np.einsum("ij,ij->i", every, every).max())
    change = moving_W - command_W
    if 2.0 * math.sqrt(np.einsum("ij,ij->i", change, change).max()) > fastest:
        return reach_braking(every, answer_s + period_s, brake_mps2)
    braking_s = fastest / (2.0 * brake_mps2)
    count = len(moving_W)
    points = np.zeros((3 * count + 1, 3))
    points[1 : count + 1] = moving_W * (answer_s + braking_s)
    points[count + 1 : 2 * count + 1] = points[1 : count + 1] + period_s * command_W
    points[2 * count + 1 :] = moving_W * answer_s + (period_s + braking_s) * command_W
    return points
