"""Whether an estimate can be flown on, judged by what it reports of itself and by its own motion.

Nothing of the filter's inside is seen here (no innovation, no sensor), so that any source of an
odometry is watched alike: deviations that grow, steps that neither motion nor the deviations
explain, a position that goes where the velocity does not, a vehicle that stays tilted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Quaternion, Record, Records, Vector, kernel
from quadsim.base.elementary import acos
from quadsim.base.parameters import Vec3, dtype_of, pack
from quadsim.base.records import Odometry
from quadsim.control.inputs import LARGEST
from quadsim.control.parameters import FailsafeParams, FlightParams
from quadsim.geometry.rotation import normalize, quat, rotate, yaw_of
from quadsim.geometry.vector import norm, store, subtract, vec3

#: Time without a new estimate that means it is lost, s.
ESTIMATE_TIMEOUT_S = 0.5
#: Good estimates this long are flown on again, s.
ESTIMATE_RETURN_S = 1.0
#: Tilt that control never asks for, and how long it may last, rad.
UPSET_RAD = 1.2
UPSET_S = 0.5
#: Verdicts on an estimate.
VERDICTS = (
    "good",
    "there is no estimate",
    "the estimate is too old",
    "the position has diverged",
    "the velocity has diverged",
    "the attitude has diverged",
    "the position has jumped",
    "the velocity has jumped",
    "the attitude has jumped",
    "position and velocity disagree",
    "the attitude does not follow",
)
(
    GOOD, MISSING, STALE, POSITION_DIVERGED, VELOCITY_DIVERGED, ATTITUDE_DIVERGED, JUMPED,
    VELOCITY_JUMPED, ATTITUDE_JUMPED, DISAGREES, UPSET,
) = range(11)  # fmt: skip

#: What is asked of a good estimate before the motors start.
ARMING_CHECKS = (
    "position uncertain",
    "height uncertain",
    "velocity uncertain",
    "tilt uncertain",
    "yaw uncertain",
    "not level",
    "in motion",
)
#: What to do about some of them.
ARMING_REMEDIES = {
    "not level": "to start on a slope, raise flight.arming.tilt_rad of the autopilot"
}

ZERO: Vec3 = (0.0, 0.0, 0.0)

#: Time over which position and velocity are compared, s.
COMPARED_S = 5.0
#: Time over which the usual deviation of the position is taken, s.
USUAL_S = 10.0
#: A correction of so many stated deviations is none that is held against the estimate.
EXPLAINED_SIGMAS = 4.0
#: More acceleration than any vehicle has in flight, m/s^2.
MOST_MPS2 = 50.0


class EstimateWatch(Record):
    """The last estimate that was whole, and what tells whether it can be flown on.

    ``arrived_ns`` and ``good_ns`` are by the flight's clock: when a new stamp was last seen, and
    since when all has been well.
    """

    known: int
    verdict: int
    stamp_ns: int
    arrived_ns: int
    good_ns: int
    p_W: Vector
    v_W: Vector
    q_WB: Quaternion
    w_B: Vector
    yaw: float
    tilt: float
    position_sigma: float  # horizontal, the larger axis, m
    height_sigma: float
    velocity_sigma: float  # the largest axis, m/s
    tilt_sigma: float  # the larger of the two, rad
    yaw_sigma: float
    usual_sigma: float  # low-passed position_sigma, m
    growth: float  # of position_sigma over the usual one, m
    loose: float  # largest position_sigma of late, m
    loose_mps: float  # largest velocity_sigma of late
    loose_rad: float  # largest sum of tilt_sigma and yaw_sigma of late
    apart_W: Vector  # way of the position less that of the velocity, of late, m
    tilted_s: float  # time for which the tilt has been that of an upset


WATCH = dtype_of(EstimateWatch)

#: Verdict, seconds for which the estimate has been good, p_W, v_W and yaw; growth of the position's
#: deviation, that deviation, and the height's, m.
Observation = tuple[int, float, Vec3, Vec3, float, float, float, float]


@kernel
def is_valid_odometry(odometry: Odometry) -> bool:
    """Whether every number of an odometry is finite and its variances are none below zero."""
    total, least, length = 0.0, 0.0, 0.0
    for i in range(4):
        length += odometry.q_WB[i] * odometry.q_WB[i]
    for i in range(3):
        total += abs(odometry.p_W[i]) + abs(odometry.v_W[i]) + abs(odometry.w_B[i])
        p, v, turn = odometry.p_variance[i], odometry.v_variance[i], odometry.attitude_variance[i]
        total += p + v + turn
        least = min(least, p, v, turn)
    return total < LARGEST and least >= 0.0 and 0.25 < length < 4.0


@kernel
def _turned(watch: EstimateWatch, odometry: Odometry) -> float:
    """Angle between the last attitude and the new one, in rad."""
    dot = 0.0
    for i in range(4):
        dot += watch.q_WB[i] * odometry.q_WB[i]
    return 2.0 * acos(min(abs(dot), 1.0))


@kernel
def _compare(watch: EstimateWatch, odometry: Odometry, moved_s: float) -> None:
    """Go on with what tells of unaided navigation and of position against velocity."""
    if watch.known == 0:
        watch.usual_sigma = watch.position_sigma
        return
    weight = min(moved_s / USUAL_S, 1.0)
    watch.usual_sigma += weight * (watch.position_sigma - watch.usual_sigma)
    watch.growth = watch.position_sigma - watch.usual_sigma
    left = max(1.0 - moved_s / COMPARED_S, 0.0)
    watch.loose = max(watch.loose * left, watch.position_sigma, watch.height_sigma)
    watch.loose_mps = max(watch.loose_mps * left, watch.velocity_sigma)
    watch.loose_rad = max(watch.loose_rad * left, watch.tilt_sigma + watch.yaw_sigma)
    for i in range(3):
        way = 0.5 * (watch.v_W[i] + odometry.v_W[i]) * moved_s
        watch.apart_W[i] = left * (watch.apart_W[i] + odometry.p_W[i] - watch.p_W[i] - way)


@kernel
def _judge(watch: EstimateWatch, limits: FailsafeParams, odometry: Odometry, moved_s: float) -> int:
    """Verdict on a new, whole estimate; ``watch`` holds its deviations, and the motion before."""
    if watch.velocity_sigma > limits.velocity_sigma_mps:
        return VELOCITY_DIVERGED
    if watch.tilt_sigma > limits.attitude_sigma_rad:
        return ATTITUDE_DIVERGED
    if max(watch.position_sigma, watch.height_sigma) > limits.position_sigma_m:
        return POSITION_DIVERGED
    if watch.known == 0:
        return GOOD
    explained = EXPLAINED_SIGMAS * watch.loose
    step = norm(subtract(vec3(odometry.p_W), vec3(watch.p_W)))
    fastest = max(norm(vec3(odometry.v_W)), norm(vec3(watch.v_W)))
    if step > limits.jump_m + fastest * moved_s + explained:
        for i in range(3):
            watch.apart_W[i] = 0.0
        return JUMPED
    step = norm(subtract(vec3(odometry.v_W), vec3(watch.v_W)))
    if step > limits.jump_mps + MOST_MPS2 * moved_s + EXPLAINED_SIGMAS * watch.loose_mps:
        return VELOCITY_JUMPED
    quickest = max(norm(vec3(odometry.w_B)), norm(vec3(watch.w_B)))
    turn = 2.0 * quickest * moved_s + EXPLAINED_SIGMAS * watch.loose_rad
    if _turned(watch, odometry) > limits.jump_rad + turn:
        return ATTITUDE_JUMPED
    if norm(vec3(watch.apart_W)) > limits.jump_m + explained:
        return DISAGREES
    if watch.tilted_s > UPSET_S:
        return UPSET
    return GOOD


@kernel
def _take_deviations(watch: EstimateWatch, odometry: Odometry) -> None:
    """Keep what a new estimate reports of itself."""
    p, v, turn = odometry.p_variance, odometry.v_variance, odometry.attitude_variance
    watch.position_sigma = math.sqrt(max(p[0], p[1]))
    watch.height_sigma = math.sqrt(p[2])
    watch.velocity_sigma = math.sqrt(max(v[0], v[1], v[2]))
    watch.tilt_sigma = math.sqrt(max(turn[0], turn[1]))
    watch.yaw_sigma = math.sqrt(turn[2])


@kernel
def _take_motion(watch: EstimateWatch, odometry: Odometry) -> None:
    """Keep the motion of a new estimate."""
    store(watch.p_W, vec3(odometry.p_W))
    store(watch.v_W, vec3(odometry.v_W))
    store(watch.w_B, vec3(odometry.w_B))
    q_WB = normalize(quat(odometry.q_WB))
    store(watch.q_WB, q_WB)
    watch.yaw = yaw_of(q_WB)


@kernel
def _take_tilt(
    watch: EstimateWatch, limits: FailsafeParams, odometry: Odometry, moved_s: float
) -> None:
    """Keep the tilt, and for how long it has been one that control does not ask for."""
    cosine = rotate(normalize(quat(odometry.q_WB)), (0.0, 0.0, 1.0))[2]
    watch.tilt = acos(min(max(cosine, -1.0), 1.0))
    watch.tilted_s = watch.tilted_s + moved_s if watch.tilt > UPSET_RAD else 0.0


@kernel
def observe(
    watches: Records[EstimateWatch],
    limits: Records[FailsafeParams],
    stamp_ns: int,
    odometries: Records[Odometry],
) -> Observation:
    """Take note of an estimate.

    Age is counted from when a new stamp was last seen, by the flight's own clock, so that the
    estimator's clock need not be the same. An estimate that is not whole was not received.

    Args:
        watches: (1,) WATCH, changed in place.
        limits: (1,) packed FailsafeParams.
        stamp_ns: the flight's time.
        odometries: (1,) ODOMETRY, the newest.

    Returns:
        Verdict (index of VERDICTS), time in s for which it has been GOOD, position, velocity, yaw,
        and what is reported of :data:`Observation`.
    """
    watch, odometry = watches[0], odometries[0]
    new = watch.known == 0 or odometry.stamp_ns != watch.stamp_ns
    if new and is_valid_odometry(odometry):
        moved_s = min(abs(odometry.stamp_ns - watch.stamp_ns) * 1e-9, COMPARED_S)
        _take_deviations(watch, odometry)
        _compare(watch, odometry, moved_s)
        _take_tilt(watch, limits[0], odometry, moved_s)
        watch.verdict = _judge(watch, limits[0], odometry, moved_s)
        _take_motion(watch, odometry)
        watch.known = 1
        watch.stamp_ns = odometry.stamp_ns
        watch.arrived_ns = stamp_ns
    elif watch.known != 0 and (stamp_ns - watch.arrived_ns) * 1e-9 > ESTIMATE_TIMEOUT_S:
        watch.verdict = STALE
    if watch.verdict != GOOD:
        watch.good_ns = stamp_ns
    good_s = (stamp_ns - watch.good_ns) * 1e-9
    return (
        watch.verdict, good_s, vec3(watch.p_W), vec3(watch.v_W), watch.yaw, watch.growth,
        watch.position_sigma, watch.height_sigma,
    )  # fmt: skip


class EstimateCheck:
    """The newest estimate that was whole, and whether it can be flown on.

    Attributes:
        watches: (1,) WATCH, what is remembered of it.
        odometries: (1,) ODOMETRY, the newest; None before the first.
        good: whether it can be flown on.
        verdict: index of VERDICTS; ``words`` is that in words.
        good_s: time for which it has been good.
        p_W, v_W, yaw: position in m, velocity in m/s, yaw in rad.
        growth_m: of the deviation of the position over the usual one.
        sigma_m, sigma_z_m: that deviation, and the height's.
        yaw_sigma: (1,) of the heading, rad.
        awaited: gives what the estimator waits for, to start or for a heading, in words.
    """

    def __init__(self, params: FlightParams) -> None:
        self._arming, self._limits = params.arming, np.array([pack(params.failsafe)])
        self.watches: NDArray[np.record] = np.zeros(1, WATCH)
        self.watches["verdict"] = MISSING
        self.yaw_sigma = self.watches["yaw_sigma"]  # a view: finding a field takes longer
        self.odometries: Any = None
        self.awaited: Callable[[], str] = str
        self._keep((MISSING, 0.0, ZERO, ZERO, 0.0, 0.0, 0.0, 0.0))

    def _keep(self, observation: Observation) -> None:
        (
            self.verdict, self.good_s, self.p_W, self.v_W, self.yaw, self.growth_m, self.sigma_m,
            self.sigma_z_m,
        ) = observation  # fmt: skip
        self.good = self.verdict == GOOD

    @property
    def words(self) -> str:
        """The verdict."""
        return VERDICTS[self.verdict]

    def look(self, stamp_ns: int, odometries: Any) -> None:
        """Take note of the newest odometry ((1,) ODOMETRY; None: none) at the flight's time."""
        if odometries is not None:
            self.odometries = odometries
        if self.odometries is not None:
            self._keep(observe(self.watches, self._limits, stamp_ns, self.odometries))

    def forget(self) -> None:
        """Odometries come from elsewhere from now on: a step is no jump."""
        self.watches["known"] = 0

    def refusal(self, charge: float = math.nan) -> str | None:
        """Why the motors may not be started, in words; None if they may.

        Args:
            charge: of the battery, 0 to 1; NaN where it is not known.
        """
        watch, limits = self.watches[0], self._arming
        if watch.verdict == MISSING:
            return ": ".join(filter(None, (self.words, self.awaited())))
        if watch.verdict != GOOD:
            return self.words
        speed = math.hypot(*watch.v_W.tolist())
        values = (
            (watch.position_sigma, limits.position_sigma_m, "m"),
            (watch.height_sigma, limits.height_sigma_m, "m"),
            (watch.velocity_sigma, limits.velocity_sigma_mps, "m/s"),
            (watch.tilt_sigma, limits.tilt_sigma_rad, "rad"),
            (watch.yaw_sigma, limits.yaw_sigma_rad, "rad"),
            (watch.tilt, limits.tilt_rad, "rad"),
            (speed, limits.speed_mps, "m/s"),
        )
        for words, (value, limit, unit) in zip(ARMING_CHECKS, values, strict=True):
            if value > limit:
                found = f"{words}: {float(value):.3g} {unit}, at most {limit:g}"
                why = self.awaited() if "yaw" in words else ARMING_REMEDIES.get(words, "")
                return "; ".join(filter(None, (found, why)))
        if charge < limits.charge:
            return f"battery low: {100.0 * charge:.0f} %, at least {100.0 * limits.charge:g}"
        return None
