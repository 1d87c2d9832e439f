"""Measurements of height: static pressure, and the range to the ground.

As in :mod:`~quadsim.estimation.eskf.gnss`, each kernel fuses at the state's own stamp and
returns REJECTED, ACCEPTED or IGNORED.
"""

from __future__ import annotations

import math

from quadsim.base.compiled import kernel
from quadsim.base.elementary import atan2, cos, sin
from quadsim.base.parameters import Vec3
from quadsim.estimation.eskf.covariance import times_row
from quadsim.estimation.eskf.gnss import repetition
from quadsim.estimation.eskf.layout import (
    ACCEPTED,
    IGNORED,
    PRESSURE,
    PRESSURE_SCALE,
    RANGE,
    STATIC_PRESSURE,
    TERRAIN,
    THETA,
    Eskf,
    N,
    P,
)
from quadsim.estimation.eskf.parameters import RECOVERY_S, EstimatorParams
from quadsim.estimation.eskf.update import forget_links, rejected_for_s, update_scalar
from quadsim.geometry.length import hypot
from quadsim.geometry.rotation import quat, rotate, unrotate
from quadsim.geometry.vector import vec3
from quadsim.world.air.atmosphere import height_of, pressure_slope

#: Deviation of the ground beneath from where the vehicle stood, at the first range, m.
PAD_SIGMA_M = 0.02
#: Largest tilt at which a range counts, deg.
RANGE_TILT_MAX_DEG = 35.0


@kernel
def fuse_pressure(
    state: Eskf, params: EstimatorParams, pressure_pa: float, variance_pa2: float
) -> int:
    """Fuse static pressure as height in the standard atmosphere, less offset and scale, two states.

    The offset is that height at the origin of ``map``. The first pressure sets it from the
    position known then, and does so anew after the pressure was rejected for too long. From there
    that height grows by T_0/T of the true one: air of another temperature T than the standard's
    T_0 is denser or thinner (hydrostatic balance), by 7 % for 20 K. The way up since then is that
    of height plus offset, of which the height's own error, which the offset has with the other
    sign, is no part: pressure tells changes of height alone.

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
    h = state.h
    h[:] = 0.0
    unscaled_m = state.p_W[2] + state.pressure_offset_m
    up_m = unscaled_m - state.pressure_from_m
    h[P + 2] = h[PRESSURE] = 1.0 + state.pressure_scale
    h[PRESSURE_SCALE] = up_m
    innovation = height_m - (unscaled_m + state.pressure_scale * up_m)
    result = update_scalar(state, STATIC_PRESSURE, innovation, variance, params.gate.chi2_1)
    if rejected_for_s(state, STATIC_PRESSURE) > RECOVERY_S:
        start_pressure(state, height_m, variance)
        state.rejected_in_row[STATIC_PRESSURE] = 0
    return result


@kernel
def start_pressure(state: Eskf, height_m: float, variance: float) -> None:
    """Offset from the height known: its error is that height's, with the other sign."""
    covariance = state.covariance
    state.pressure_started = 1
    state.pressure_offset_m = height_m - state.p_W[2]
    state.pressure_from_m = height_m
    state.set_anew[PRESSURE] = 1
    for k in range(N):
        if k != PRESSURE:
            covariance[PRESSURE, k] = -covariance[P + 2, k]
            covariance[k, PRESSURE] = -covariance[P + 2, k]
    covariance[PRESSURE, PRESSURE] = covariance[P + 2, P + 2] + variance


@kernel
def fuse_range(state: Eskf, params: EstimatorParams, range_m: float, variance_m2: float) -> int:
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
    if state.running == 0 or not is_usable_range(state, params, range_m):
        return IGNORED
    if variance_m2 == 0.0:
        variance_m2 = params.noise.range_sigma_m * params.noise.range_sigma_m
    gate, q_WS, up_W = params.gate, quat(state.q_WS), up_of(state)
    down_W = beam(up_W, params.mount.rangefinder_beam_deg)
    lever_W = rotate(q_WS, vec3(state.rangefinder_S))
    # (theta x c)_z with c the beam's foot as seen from the IMU; on terrain as it is expected, as a
    # slanted beam's own noise in c goes with that of the innovation and would turn the attitude
    expected_m = range_m
    if params.flat_ground == 0 and state.n > TERRAIN and state.terrain_started == 1:
        expected_m = (state.p_W[2] + lever_W[2] - state.terrain_height_m) / -down_W[2]
    h = state.h
    h[:] = 0.0
    h[P + 2] = 1.0
    h[THETA] = lever_W[1] + expected_m * down_W[1]
    h[THETA + 1] = -(lever_W[0] + expected_m * down_W[0])
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
        if has_range_offset(params):
            h[TERRAIN] = -1.0
            innovation = state.terrain_height_m - foot_m
        else:
            innovation = params.ground_height_m - foot_m
        return update_scalar(state, RANGE, innovation, variance, gate.chi2_1)
    if state.terrain_started == 0 and state.local == 1:
        start_pad(state, params, constant)
    elif state.terrain_started == 0:
        start_terrain(state, foot_m, variance + constant)
        return ACCEPTED
    h[TERRAIN] = -1.0
    innovation = state.terrain_height_m - foot_m
    result = update_scalar(state, RANGE, innovation, variance, gate.chi2_1)
    if rejected_for_s(state, RANGE) > RECOVERY_S:
        start_terrain(state, foot_m, variance + constant)
        state.rejected_in_row[RANGE] = 0
    return result


@kernel
def up_of(state: Eskf) -> Vec3:
    """The z axis of ``base_link`` in the world."""
    return rotate(quat(state.q_WS), unrotate(quat(state.q_BS), (0.0, 0.0, 1.0)))


@kernel
def is_in_limits(params: EstimatorParams, range_m: float) -> bool:
    """Whether a range is one that the device can measure."""
    return params.gate.range_min_m <= range_m <= params.gate.range_max_m


@kernel
def is_usable_range(state: Eskf, params: EstimatorParams, range_m: float) -> bool:
    """Whether a range is within the limits of range and tilt."""
    level = up_of(state)[2] >= cos(RANGE_TILT_MAX_DEG * math.pi / 180.0)
    return level and is_in_limits(params, range_m)


@kernel
def has_range_offset(params: EstimatorParams) -> bool:
    """Whether the range finder's offset over flat ground is a state."""
    noise = params.noise
    return params.flat_ground == 1 and (noise.range_offset_m != 0.0 or noise.range_scale != 0.0)


@kernel
def walk_ground(state: Eskf, params: EstimatorParams, range_m: float) -> float:
    """Let the terrain, or the range finder's offset over flat ground, walk up to the next range.

    The terrain walks with the distance flown. The offset is carried in the terrain's place: the
    height at which the ground appears. An error of scale is an offset that grows with the range r,
    of variance (e r)^2: between two ranges it walks by e^2 times the change of r^2.

    Args:
        state: ESKF record.
        params: packed EstimatorParams.
        range_m: r.

    Returns:
        1 where something walked, else 0.
    """
    noise, covariance = params.noise, state.covariance
    if not is_in_limits(params, range_m):
        return 0.0
    change_m2 = abs(range_m * range_m - state.range_m * state.range_m)
    state.range_m = range_m
    if params.flat_ground == 1 or state.n <= TERRAIN:
        if not has_range_offset(params):
            return 0.0
        covariance[TERRAIN, TERRAIN] += noise.range_scale**2 * change_m2
        return 1.0
    if state.terrain_started == 0 or not is_usable_range(state, params, range_m):
        return 0.0
    walked_m = hypot(state.v_W[0], state.v_W[1]) * (state.stamp_ns - state.range_ns) * 1e-9
    covariance[TERRAIN, TERRAIN] += noise.terrain_walk * noise.terrain_walk * walked_m
    return 1.0


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
def start_pad(state: Eskf, params: EstimatorParams, constant: float) -> None:
    """Terrain under a vehicle that took its map from where it stood: heights count from there.

    Args:
        state: ESKF record.
        params: packed EstimatorParams.
        constant: variance of the range that stays, m^2.
    """
    state.terrain_started = 1
    state.terrain_height_m = params.ground_height_m
    state.set_anew[TERRAIN] = 1
    forget_links(state.covariance, TERRAIN)
    state.covariance[TERRAIN, TERRAIN] = PAD_SIGMA_M * PAD_SIGMA_M + constant


@kernel
def start_terrain(state: Eskf, height_m: float, variance: float) -> None:
    """Terrain height from a range: its error is that of the beam's foot, and the range's.

    Args:
        state: ESKF record, with the row of the beam's foot in ``h``.
        height_m: of the foot.
        variance: of the range along the vertical, m^2.
    """
    covariance, h, ph = state.covariance, state.h, state.ph
    state.terrain_started = 1
    state.terrain_height_m = height_m
    state.set_anew[TERRAIN] = 1
    h[TERRAIN] = 0.0
    foot_variance = times_row(covariance, state.n, h, ph)
    for k in range(state.n):
        covariance[TERRAIN, k] = ph[k]
        covariance[k, TERRAIN] = ph[k]
    covariance[TERRAIN, TERRAIN] = foot_variance + variance
