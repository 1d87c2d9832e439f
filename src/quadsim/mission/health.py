"""Whether an estimate can be flown on, judged by what it says of itself."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from quadsim.compiled import kernel, new_record, record_dtype
from quadsim.control.parameters import ArmingParams
from quadsim.geometry.rotation import quat, rotate, yaw_of
from quadsim.geometry.vector import norm, store, subtract, vec3

#: Verdicts on an estimate.
VERDICTS = (
    "good",
    "there is no estimate",
    "the estimate is too old",
    "the position has diverged",
    "the velocity has diverged",
    "the attitude has diverged",
    "the position has jumped",
)
GOOD, MISSING, STALE, POSITION_DIVERGED, VELOCITY_DIVERGED, ATTITUDE_DIVERGED, JUMPED = range(7)

#: What is remembered of the estimate: the last one that was whole. ``arrived_ns`` and ``good_ns``
#: are by the flight's clock: when a new stamp was last seen, and since when all has been well.
WATCH = record_dtype(
    [
        ("known", np.int64),
        ("verdict", np.int64),
        ("stamp_ns", np.int64),
        ("arrived_ns", np.int64),
        ("good_ns", np.int64),
        ("p_W", np.float64, (3,)),
        ("v_W", np.float64, (3,)),
        ("yaw", np.float64),
        ("tilt", np.float64),
        ("position_sigma", np.float64),  # horizontal, the larger axis, m
        ("height_sigma", np.float64),
        ("velocity_sigma", np.float64),  # the largest axis, m/s
        ("tilt_sigma", np.float64),  # the larger of the two, rad
        ("yaw_sigma", np.float64),
    ]
)

#: Verdict, seconds for which the estimate has been good, p_W, v_W and yaw.
Observation = tuple[int, float, float, float, float, float, float, float, float]


def new_watch() -> np.record:
    """A watch that has seen no estimate."""
    watch = new_record(WATCH)
    watch.verdict = MISSING
    return watch


@kernel
def _is_whole(odometry: Any) -> bool:
    """Whether every number of an odometry is finite and its variances are none below zero."""
    total, least = 0.0, 0.0
    for i in range(4):
        total += odometry.q_WB[i]
    for i in range(3):
        total += odometry.p_W[i] + odometry.v_W[i] + odometry.w_B[i]
        p, v, turn = odometry.p_variance[i], odometry.v_variance[i], odometry.attitude_variance[i]
        total += p + v + turn
        least = min(least, p, v, turn)
    return math.isfinite(total) and least >= 0.0


@kernel
def _judge(watch: Any, limits: Any, odometry: Any, moved_s: float) -> int:
    """Verdict on a new, whole estimate."""
    sigma = max(watch.position_sigma, watch.height_sigma)
    if sigma > limits.position_sigma_m:
        return POSITION_DIVERGED
    if watch.velocity_sigma > limits.velocity_sigma_mps:
        return VELOCITY_DIVERGED
    if watch.tilt_sigma > limits.attitude_sigma_rad:
        return ATTITUDE_DIVERGED
    step = norm(subtract(vec3(odometry.p_W), vec3(watch.p_W)))
    fastest = max(norm(vec3(odometry.v_W)), norm(vec3(watch.v_W)))
    if watch.known != 0 and step > limits.jump_m + fastest * moved_s:
        return JUMPED
    return GOOD


@kernel
def observe(watch: Any, limits: Any, stamp_ns: int, odometry: Any) -> Observation:
    """Take note of an estimate.

    Age is counted from when a new stamp was last seen, by the flight's own clock, so that the
    estimator's clock need not be the same. An estimate that is not whole was not received.

    Args:
        watch: WATCH record, changed in place.
        limits: packed FailsafeParams.
        stamp_ns: the flight's time.
        odometry: ODOMETRY record, the newest.

    Returns:
        Verdict (index of VERDICTS), time in s for which it has been GOOD, position, velocity, yaw.
    """
    new = watch.known == 0 or odometry.stamp_ns != watch.stamp_ns
    if new and _is_whole(odometry):
        variance = odometry.p_variance
        watch.position_sigma = math.sqrt(max(variance[0], variance[1]))
        watch.height_sigma = math.sqrt(variance[2])
        velocity_variance = odometry.v_variance
        watch.velocity_sigma = math.sqrt(
            max(velocity_variance[0], velocity_variance[1], velocity_variance[2])
        )
        turn = odometry.attitude_variance
        watch.tilt_sigma = math.sqrt(max(turn[0], turn[1]))
        watch.yaw_sigma = math.sqrt(turn[2])
        moved_s = abs(odometry.stamp_ns - watch.stamp_ns) * 1e-9
        watch.verdict = _judge(watch, limits, odometry, moved_s)
        watch.known = 1
        watch.stamp_ns = odometry.stamp_ns
        watch.arrived_ns = stamp_ns
        store(watch.p_W, vec3(odometry.p_W))
        store(watch.v_W, vec3(odometry.v_W))
        q_WB = quat(odometry.q_WB)
        watch.yaw = yaw_of(q_WB)
        watch.tilt = math.acos(min(max(rotate(q_WB, (0.0, 0.0, 1.0))[2], -1.0), 1.0))
    elif watch.known != 0 and (stamp_ns - watch.arrived_ns) * 1e-9 > limits.estimate_timeout_s:
        watch.verdict = STALE
    if watch.verdict != GOOD:
        watch.good_ns = stamp_ns
    p, v = watch.p_W, watch.v_W
    good_s = (stamp_ns - watch.good_ns) * 1e-9
    return (watch.verdict, good_s, p[0], p[1], p[2], v[0], v[1], v[2], watch.yaw)


def refusal(watch: Any, limits: ArmingParams) -> str | None:
    """Why the motors may not be started, in words; None if they may.

    Args:
        watch: WATCH record.
        limits: what must hold.
    """
    if watch.verdict != GOOD:
        return VERDICTS[int(watch.verdict)]
    speed = float(np.linalg.norm(watch.v_W))
    checks = (
        ("position uncertain", watch.position_sigma, limits.position_sigma_m, "m"),
        ("height uncertain", watch.height_sigma, limits.height_sigma_m, "m"),
        ("velocity uncertain", watch.velocity_sigma, limits.velocity_sigma_mps, "m/s"),
        ("tilt uncertain", watch.tilt_sigma, limits.tilt_sigma_rad, "rad"),
        ("yaw uncertain", watch.yaw_sigma, limits.yaw_sigma_rad, "rad"),
        ("not level", watch.tilt, limits.tilt_rad, "rad"),
        ("in motion", speed, limits.speed_mps, "m/s"),
    )
    for words, value, limit, unit in checks:
        if value > limit:
            return f"{words}: {float(value):.3g} {unit}, at most {limit:g}"
    return None
