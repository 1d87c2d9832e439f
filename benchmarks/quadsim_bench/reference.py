"""The fixed loops that kernels are compared with, compiled by Numba as kernels are.

Processors differ by half in how fast they run such code beside code of a C compiler. These loops do
what kernels do, and no kernel of quadsim: steps of a rigid body, a covariance and its updates, rays
over a table. Whoever changes them measures all kept ratios anew.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

#: 10 ms in all.
STEPS, UPDATES, RAYS = 36_000, 1_800, 5_000

compiled = numba.njit(cache=True, error_model="numpy")


@compiled
def fly_body(state: Any, steps: int) -> None:
    """Euler steps of a rigid body with drag: scalars, roots and divisions, a record's fields."""
    one, dt_s = state[0], 2.5e-4
    for k in range(steps):
        q0, q1, q2, q3 = one.q[0], one.q[1], one.q[2], one.q[3]
        wx, wy, wz = one.w[0], one.w[1], one.w[2]
        vx, vy, vz = one.v[0], one.v[1], one.v[2]
        speed = math.sqrt(vx * vx + vy * vy + vz * vz + 1e-9)
        x = 1e-3 * k - math.floor(1e-3 * k)
        wave = x * (1.0 - x * x * (1.0 / 6.0 - x * x * (1.0 / 120.0 - x * x / 5040.0)))
        thrust = 9.81 * (1.0 + 0.1 * wave) / (1.0 + 0.01 * speed)
        fx = 2.0 * (q1 * q3 + q0 * q2) * thrust - 0.1 * speed * vx
        fy = 2.0 * (q2 * q3 - q0 * q1) * thrust - 0.1 * speed * vy
        fz = (1.0 - 2.0 * (q1 * q1 + q2 * q2)) * thrust - 9.81 - 0.1 * speed * vz
        for i, f in enumerate((fx, fy, fz)):
            one.p[i] += dt_s * one.v[i]
            one.v[i] += dt_s * f
        half_s = 0.5 * dt_s
        r0 = q0 - half_s * (q1 * wx + q2 * wy + q3 * wz)
        r1 = q1 + half_s * (q0 * wx + q2 * wz - q3 * wy)
        r2 = q2 + half_s * (q0 * wy - q1 * wz + q3 * wx)
        r3 = q3 + half_s * (q0 * wz + q1 * wy - q2 * wx)
        scale = 1.0 / math.sqrt(r0 * r0 + r1 * r1 + r2 * r2 + r3 * r3)
        one.q[0], one.q[1], one.q[2], one.q[3] = r0 * scale, r1 * scale, r2 * scale, r3 * scale
        one.w[0] = wx + dt_s * (0.7 * wy * wz - 0.2 * wx + 0.3 * wave)
        one.w[1] = wy + dt_s * (-0.7 * wz * wx - 0.2 * wy - 0.2 * wave)
        one.w[2] = wz + dt_s * (0.01 * wx * wy - 0.2 * wz + 0.1)


@compiled
def update_covariance(P: Any, F: Any, FP: Any, gain: Any, count: int) -> None:
    """Predictions of a covariance of 15 states, each with three updates by one number."""
    n = len(P)
    for _ in range(count):
        for i in range(n):
            for j in range(n):
                total = 0.0
                for m in range(n):
                    total += F[i, m] * P[m, j]
                FP[i, j] = total
        for i in range(n):
            for j in range(i + 1):
                total = 0.0
                for m in range(n):
                    total += FP[i, m] * F[j, m]
                P[i, j] = P[j, i] = total
            P[i, i] += 1e-3
        for h in range(3):
            variance = P[h, h] + 0.1
            for i in range(n):
                gain[i] = P[i, h] / variance
            for i in range(n):
                for j in range(i + 1):
                    P[i, j] -= variance * gain[i] * gain[j]
                    P[j, i] = P[i, j]


@compiled
def walk_rays(heights: Any, count: int) -> int:
    """Rays over a table of heights: branches, and reads in no order."""
    size, steps = len(heights) - 1, 0
    for k in range(count):
        slope = 0.1 + 1e-3 * k
        dx, dy = 0.7 / math.sqrt(1.0 + slope * slope), 0.7 * slope / math.sqrt(1.0 + slope * slope)
        x, y, z = 0.5 * size, 0.5 * size, 3.0
        while True:
            i, j = math.floor(x), math.floor(y)
            if i < 0 or j < 0 or i >= size or j >= size:
                break
            u, v = x - i, y - j
            near = (1.0 - v) * heights[i, j] + v * heights[i, j + 1]
            far = (1.0 - v) * heights[i + 1, j] + v * heights[i + 1, j + 1]
            if z < (1.0 - u) * near + u * far:
                break
            x, y, z = x + dx, y + dy, z - 0.01
            steps += 1
    return steps


def compiled_loops() -> Callable[[], None]:
    """The three in turn, from the same start each time."""
    rng = np.random.default_rng(1)
    fields = [("p", float, 3), ("v", float, 3), ("q", float, 4), ("w", float, 3)]
    body = np.zeros(1, fields).view(np.recarray)
    F = 0.99 * np.eye(15) + 1e-3 * rng.normal(size=(15, 15))
    FP, gain, heights = np.zeros((15, 15)), np.zeros(15), rng.uniform(size=(257, 257))

    def run() -> None:
        body.fill(0.0)
        body.q[0, 0] = 1.0
        fly_body(body, STEPS)
        update_covariance(np.eye(15), F, FP, gain, UPDATES)
        walk_rays(heights, RAYS)

    return run
