"""Measurements of height: static pressure, and the range to the ground.

As in :mod:`~quadsim.estimation.eskf.gnss`, each kernel fuses at the state's own stamp and says
REJECTED, ACCEPTED or IGNORED.
"""

from __future__ import annotations

import math
from typing import Any

from quadsim.base.compiled import kernel, portable
from quadsim.base.elementary import atan2, cos, sin
from quadsim.base.parameters import Vec3
from quadsim.estimation.eskf.covariance import times_row
from quadsim.estimation.eskf.gnss import repetition
from quadsim.estimation.eskf.layout import (
    ACCEPTED,
    IGNORED,
    PRESSURE,
    RANGE,
    STATIC_PRESSURE,
    TERRAIN,
    THETA,
    N,
    P,
)
from quadsim.estimation.eskf.update import rejected_for_s, update_scalar
from quadsim.geometry.length import hypot
from quadsim.geometry.rotation import quat, rotate, unrotate
from quadsim.geometry.vector import vec3
from quadsim.world.air.atmosphere import (
    EARTH_RADIUS_M,
    GAS_CONSTANT_J_PER_KG_K,
    STANDARD_GRAVITY_MPS2,
    height_of,
    temperature_at,
)


@portable
def pressure_slope(pressure_pa: float, height_m: float) -> float:
    """Derivative of the standard atmosphere's height by pressure, m/Pa (hydrostatic balance)."""
    over_geopotential = 1.0 + height_m / EARTH_RADIUS_M
    gas = GAS_CONSTANT_J_PER_KG_K * temperature_at(height_m, 0.0)
    gas *= over_geopotential * over_geopotential
    return -gas / (STANDARD_GRAVITY_MPS2 * pressure_pa)


@kernel
def eskf_pressure(state: Any, params: Any, pressure_pa: float, variance_pa2: float) -> int:
    """Fuse static pressure as height in the standard atmosphere, less an offset that is a state.

    The offset is that height at the origin of ``map``. The first pressure sets it from the
    position known then, and does so anew after the pressure was rejected for too long.

    Args:
        state: ESKF record.
        params: packed EstimatorParams.
        pressure_pa: static pressure.
        variance_pa2: Pa^2; zero: unknown.
    """
    if state.running == 0:
        return IGNORED
    if variance_pa2 == 0.0:
        variance_pa2 = params.noise.pressure_sigma_pa * params.noise.pressure_sigma_pa
    height_m = height_of(pressure_pa)
    slope = pressure_slope(pressure_pa, height_m)
    variance = variance_pa2 * slope * slope
    if not math.isfinite(variance):  # next to no pressure: it tells no height
        return IGNORED
    if state.pressure_started == 0:
        start_pressure(state, height_m, variance)
        return ACCEPTED
    row = state.row
    row[:] = 0.0
    row[P + 2] = 1.0
    row[PRESSURE] = 1.0
    innovation = height_m - (state.p_W[2] + state.pressure_offset_m)
    result = update_scalar(state, STATIC_PRESSURE, innovation, variance, params.gate.chi2_1)
    if rejected_for_s(state, STATIC_PRESSURE) > params.gate.recovery_s:
        start_pressure(state, height_m, variance)
        state.rejected_in_row[STATIC_PRESSURE] = 0
    return result


@kernel
def start_pressure(state: Any, height_m: float, variance: float) -> None:
    """Offset from the height known: its error is that height's, with the other sign."""
    covariance = state.covariance
    state.pressure_started = 1
    state.pressure_offset_m = height_m - state.p_W[2]
    for k in range(N):
        if k != PRESSURE:
            covariance[PRESSURE, k] = -covariance[P + 2, k]
            covariance[k, PRESSURE] = -covariance[P + 2, k]
    covariance[PRESSURE, PRESSURE] = covariance[P + 2, P + 2] + variance


@kernel
def eskf_range(state: Any, params: Any, range_m: float, variance_m2: float) -> int:
    """Fuse the height above the ground, seen along -z of ``base_link``.

    A wide beam sees the nearest ground in it: tilted by less than half its width, the ground right
    below. Flat ground is at ``ground_height_m``; other terrain is a state, whose height walks with
    the distance flown, and which is set anew from a range where ranges were rejected for too long
    (the vehicle has flown over an edge).

    Args:
        state: ESKF record.
        params: packed EstimatorParams.
        range_m: slant range; outside its limits (inf, -inf and NaN too) it is ignored, and so it
            is beyond the largest tilt.
        variance_m2: m^2; zero: unknown.
    """
    gate = params.gate
    if state.running == 0 or not (gate.range_min_m <= range_m <= gate.range_max_m):
        return IGNORED
    has_offset = walk_range_offset(state, params, range_m)
    if variance_m2 == 0.0:
        variance_m2 = params.noise.range_sigma_m * params.noise.range_sigma_m
    q_WS = quat(state.q_WS)
    up_W = rotate(q_WS, unrotate(quat(state.q_BS), (0.0, 0.0, 1.0)))
    if up_W[2] < cos(gate.tilt_max_deg * math.pi / 180.0):
        return IGNORED
    down_W = beam(up_W, params.mount.rangefinder_beam_deg)
    lever_W = rotate(q_WS, vec3(state.rangefinder_S))
    # (theta x c)_z with c the beam's foot as seen from the IMU
    row = state.row
    row[:] = 0.0
    row[P + 2] = 1.0
    row[THETA] = lever_W[1] + range_m * down_W[1]
    row[THETA + 1] = -(lever_W[0] + range_m * down_W[0])
    height_m = -range_m * down_W[2]
    variance = variance_m2 * down_W[2] * down_W[2]
    foot_m = state.p_W[2] + lever_W[2] - height_m
    before_ns = state.range_ns
    state.range_ns = state.stamp_ns
    noise = params.noise
    constant = noise.range_offset_m * noise.range_offset_m
    constant += noise.range_scale * range_m * noise.range_scale * range_m
    variance = max(variance - constant, 0.01 * variance)
    if params.flat_ground == 1 or state.n <= TERRAIN:
        variance *= repetition(state.stamp_ns, before_ns, noise.range_correlation_s)
        if has_offset:
            row[TERRAIN] = -1.0
            innovation = state.terrain_height_m - foot_m
        else:
            innovation = params.ground_height_m - foot_m
        return update_scalar(state, RANGE, innovation, variance, gate.chi2_1)
    if state.terrain_started == 0:
        start_terrain(state, foot_m, variance + constant)
        return ACCEPTED
    speed_mps = hypot(state.v_W[0], state.v_W[1])
    walked_m = speed_mps * (state.stamp_ns - before_ns) * 1e-9
    walk = noise.terrain_walk
    state.covariance[TERRAIN, TERRAIN] += walk * walk * walked_m
    row[TERRAIN] = -1.0
    innovation = state.terrain_height_m - foot_m
    result = update_scalar(state, RANGE, innovation, variance, gate.chi2_1)
    if rejected_for_s(state, RANGE) > gate.recovery_s:
        start_terrain(state, foot_m, variance + constant)
        state.rejected_in_row[RANGE] = 0
    return result


@kernel
def walk_range_offset(state: Any, params: Any, range_m: float) -> bool:
    """The range finder's offset over flat ground at the next range; whether it is a state.

    It is carried in the terrain's place: the height at which the ground appears. An error of scale
    is an offset that grows with the range r, of variance (e r)^2: between two ranges it walks by
    e^2 times the change of r^2.

    Args:
        state: ESKF record.
        params: packed EstimatorParams.
        range_m: r.
    """
    noise = params.noise
    change_m2 = abs(range_m * range_m - state.range_m * state.range_m)
    state.range_m = range_m
    if params.flat_ground == 0 or (noise.range_offset_m == 0.0 and noise.range_scale == 0.0):
        return False
    state.covariance[TERRAIN, TERRAIN] += noise.range_scale**2 * change_m2
    return True


@kernel
def beam(up_W: Vec3, width_deg: float) -> Vec3:
    """Direction to the nearest level ground within a beam about -up_W."""
    tilt = atan2(hypot(up_W[0], up_W[1]), up_W[2])
    half = 0.5 * width_deg * math.pi / 180.0
    if half == 0.0:
        return (-up_W[0], -up_W[1], -up_W[2])
    if tilt <= half:
        return (0.0, 0.0, -1.0)
    size = sin(tilt - half) / hypot(up_W[0], up_W[1])
    return (-size * up_W[0], -size * up_W[1], -cos(tilt - half))


@kernel
def start_terrain(state: Any, height_m: float, variance: float) -> None:
    """Terrain height from a range: its error is that of the beam's foot, and the range's.

    Args:
        state: ESKF record, with the row of the beam's foot in ``row``.
        height_m: of the foot.
        variance: of the range along the vertical, m^2.
    """
    covariance, row, product = state.covariance, state.row, state.product
    state.terrain_started = 1
    state.terrain_height_m = height_m
    row[TERRAIN] = 0.0
    foot_variance = times_row(covariance, state.n, row, product)
    for k in range(state.n):
        covariance[TERRAIN, k] = product[k]
        covariance[k, TERRAIN] = product[k]
    covariance[TERRAIN, TERRAIN] = foot_variance + variance
