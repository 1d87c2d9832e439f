"""Swapped, mirrored and rotated axes of the vector sensors, found without truth, and named.

Every relation between two sensors is tried with each of the 48 ways of naming axes; see
``estimation.mounting_check.evidence``. A sensor is named when its axes as declared contradict
the others and one other naming explains everything that is known. What nothing contradicts is not
named: rotated about the vertical together with its magnetometer, an IMU contradicts nobody.

The 48 ways of naming three perpendicular axes, which of them happen, and their names.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quadsim.base.compiled import Array
from quadsim.estimation.eskf.parameters import EstimatorParams
from quadsim.estimation.mounting_check.evidence import (
    AXES,
    EXTERNAL_MOTION,
    EXTERNAL_TURN,
    FIELD,
    PERM,
    POSITION,
    RELATIONS,
    SIGN,
    VELOCITY,
    WAYS,
    take_imu_block,
    take_magnetic_field,
    take_pose,
    take_position,
    take_velocity,
)
from quadsim.geometry.rotation import from_euler

MATRICES: Array = np.zeros((WAYS, 3, 3))
for _k in range(WAYS):
    MATRICES[_k, np.arange(3), PERM[_k]] = SIGN[_k]


def _index(A: Array) -> int:
    return int(_indices(A))


def _indices(A: Array) -> NDArray[np.intp]:
    """(...) the ways that (..., 3, 3) matrices are most like."""
    likeness = A.reshape(*A.shape[:-2], 9) @ MATRICES.reshape(WAYS, 9).T
    return np.asarray(np.argmax(likeness, axis=-1))


def _rotation(axis: int, degrees: float) -> Array:
    cosine, sine = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    i, j = (axis + 1) % 3, (axis + 2) % 3
    R = np.eye(3)
    R[[i, j], [i, j]], R[i, j], R[j, i] = cosine, -sine, sine
    return R


_SWAP = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
_NED = _SWAP @ np.diag([1.0, 1.0, -1.0])
#: Namings that happen, the likely ones first. A turn is that of the sensor.
BODY = [
    ("FRD", np.diag([1.0, -1.0, -1.0])),
    *(
        (f"turned by {degrees:g} degrees about {'xyz'[axis]}", _rotation(axis, -degrees))
        for axis, degrees in (
            (2, 90.0), (2, -90.0), (2, 180.0), (0, 90.0), (0, -90.0), (1, 90.0), (1, -90.0),
            (1, 180.0),
        )
    ),
    ("NED", _NED),
    ("x and y exchanged", _SWAP),
    ("z with the other sign", np.diag([1.0, 1.0, -1.0])),
    ("x with the other sign", np.diag([-1.0, 1.0, 1.0])),
    ("y with the other sign", np.diag([1.0, -1.0, 1.0])),
]  # fmt: skip
WORLD = [
    ("NED", _NED),
    ("x and y exchanged", _SWAP),
    ("z with the other sign", np.diag([1.0, 1.0, -1.0])),
    ("x with the other sign", np.diag([-1.0, 1.0, 1.0])),
    ("y with the other sign", np.diag([1.0, -1.0, 1.0])),
    *((f"turned by {d:g} degrees about z", _rotation(2, -d)) for d in (90.0, -90.0, 180.0)),
]


class Namings:
    """The 48 namings in the order of their likelihood, the declared one first."""

    def __init__(self, known: Sequence[tuple[str, Array]]) -> None:
        self.names = {_index(A): name for name, A in known}
        listed = [_index(np.eye(3)), *self.names]
        proper = [k for k in range(WAYS) if np.linalg.det(MATRICES[k]) > 0.0]
        rest = [k for k in (*proper, *range(WAYS)) if k not in listed]
        self.order = listed + list(dict.fromkeys(rest))
        self.rank = np.argsort(self.order)

    def words(self, k: int) -> str:
        """What the k-th naming is called, and which measured axis holds which true one."""
        pairs = (
            f"{'xyz'[i]}<-{'-' if SIGN[k, i] < 0.0 else ''}{'xyz'[PERM[k, i]]}" for i in range(3)
        )
        name = self.names.get(k, "others")
        return (
            f"axes look {'' if name.startswith('turned') else 'like '}{name} ({', '.join(pairs)})"
        )


BODY_NAMINGS, WORLD_NAMINGS = Namings(BODY), Namings(WORLD)
IDENTITY = _index(np.eye(3))
PRODUCT = _indices(MATRICES[:, None] @ MATRICES)
INVERSE = _indices(MATRICES.transpose(0, 2, 1))
MIRROR = np.round(np.linalg.det(MATRICES)).astype(int)
OPPOSITE = _indices(-MATRICES)
#: Namings that only turn about the vertical: a wrong heading does the same.
HEADINGS = [_index(_rotation(2, degrees)) for degrees in (90.0, -90.0, 180.0)]

#: The evidence is looked through so often, s, or after so many IMU samples.
BLOCK_NS = 400_000_000
BLOCK_SAMPLES = 512
#: IMU samples that come sooner after the last one are not looked at.
SKIP_NS = 4_500_000
#: So many windows are needed, so far behind the best one (in the logarithm of the likelihood) a
#: naming is wrong, and so near to it it is possible.
WINDOWS, WRONG, POSSIBLE = 6.0, 12.0, 5.0
#: A misfit that is less than this many times the least one is none.
RATIO = 1.5
#: So many windows of GNSS position wait for those of the velocity, which tell whose fault it is.
PATIENCE = 15.0
#: Time or samples that directions are averaged over before they count.
MEAN_S, FIELDS = 1.5, 10.0
#: Cosine of an axis to the direction it should have: at least, and less states it is wrong.
ALONG, NOT_ALONG = 0.75, 0.5
#: What the order of the namings is worth next to the evidence.
PRIOR = 0.2

_TURNED = [k for k in BODY_NAMINGS.order[1 : len(BODY) + 1] if MIRROR[k] > 0]
_MIRRORED = [k for k in BODY_NAMINGS.order[1 : len(BODY) + 1] if MIRROR[k] < 0]
_OTHERS = BODY_NAMINGS.order[len(BODY) + 1 :]
#: Sensors and namings, the likely ones first: a rotated part before a mirrored one.
_EXPLANATIONS: list[tuple[tuple[str, ...], list[int]]] = [
    (("imu",), _TURNED),
    (("magnetic_field",), _TURNED),
    (("imu", "magnetic_field"), _TURNED),
    (("imu",), _MIRRORED),
    (("gyroscope",), _MIRRORED),
    (("magnetic_field",), _MIRRORED),
    (("gyroscope",), _TURNED),
    (("accelerometer",), _TURNED + _MIRRORED),
    (("imu",), _OTHERS),
    (("magnetic_field",), _OTHERS),
    (("gyroscope",), _OTHERS),
]


class AxesMonitor:
    """Collects the evidence message by message, and reports whose axes are wrong.

    Give it the messages that pass input validation.

    Args:
        params: of the filter: mount of the IMU and what is next to it, and the reference field.
    """

    def __init__(self, params: EstimatorParams) -> None:
        roll, pitch, yaw = map(math.radians, params.mount.imu_roll_pitch_yaw_deg)
        self._q_BS = from_euler(roll, pitch, yaw)
        self._field_W = params.magnetic_field_W_T
        self._noise = params.noise
        self._stamps_ns = np.zeros(BLOCK_SAMPLES, np.int64)
        self._f_S, self._w_S = np.zeros((2, BLOCK_SAMPLES, 3))
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self._lines: Any = np.zeros(1, AXES)
        self._lines["weight"] = 1.0
        self._first_ns = 0
        self._last_ns = -(1 << 62)
        self._count = 0
        self._waiting: list[tuple[int, int, list[float]]] = []

    def imu(self, stamp_ns: int, f_S: ArrayLike, w_S: ArrayLike) -> None:
        """Take an IMU sample: (3,) m/s^2, (3,) rad/s."""
        if 0 <= stamp_ns - self._last_ns < SKIP_NS:
            return
        self._last_ns = stamp_ns
        n = self._count
        if n == 0:
            self._first_ns = stamp_ns
        self._stamps_ns[n] = stamp_ns
        self._f_S[n] = np.reshape(f_S, 3)
        self._w_S[n] = np.reshape(w_S, 3)
        self._count = n + 1
        if stamp_ns - self._first_ns >= BLOCK_NS or n + 1 == BLOCK_SAMPLES:
            self._look()

    def magnetic_field(self, stamp_ns: int, m_S: ArrayLike) -> None:
        """Take a magnetic field, (3,) T."""
        self._keep(FIELD, stamp_ns, m_S)

    def gnss_velocity(self, stamp_ns: int, v_W: ArrayLike, covariance: ArrayLike) -> None:
        """Take a GNSS velocity, (3,) m/s, ENU; covariance (9,) or (36,), all zero: unknown."""
        variance = _variance(covariance, self._noise.gnss_velocity_sigma_mps)
        self._keep(VELOCITY, stamp_ns, v_W, variance)

    def gnss_position(self, stamp_ns: int, p_W: ArrayLike, covariance: ArrayLike) -> None:
        """Take a GNSS position, (3,) m in ``map``; covariance (9,), all zero: unknown."""
        variance = _variance(covariance, self._noise.gnss_position_sigma_m)
        self._keep(POSITION, stamp_ns, p_W, variance)

    def external_pose(self, stamp_ns: int, p_W: ArrayLike, q_WB: ArrayLike) -> None:
        """Take a pose of motion capture: (3,) m in its map, and (4,), w first."""
        self._keep(EXTERNAL_TURN, stamp_ns, p_W, q_WB)

    def _keep(self, relation: int, stamp_ns: int, *vectors: ArrayLike) -> None:
        """Keep a measurement, by the first relation it is evidence of, until the IMU is as new."""
        values = np.concatenate([np.ravel(vector) for vector in vectors]).astype(float)
        self._waiting.append((relation, stamp_ns, values.tolist()))

    def _look(self) -> None:
        """Hand what has come to the kernels; what is newer than the IMU waits."""
        lines, count = self._lines, self._count
        take_imu_block(lines, count, self._stamps_ns, self._f_S, self._w_S, self._q_BS)
        self._count = 0
        newest_ns = int(self._stamps_ns[count - 1])
        waiting, self._waiting = self._waiting, []
        for relation, at_ns, values in sorted(waiting, key=itemgetter(0, 1)):
            first: Any = tuple(values[:3])
            rest: Any = tuple(values[3:])
            if at_ns > newest_ns:
                if at_ns < newest_ns + 1_000_000_000:
                    self._waiting.append((relation, at_ns, values))
            elif relation == FIELD:
                take_magnetic_field(lines, at_ns, first, self._q_BS, self._field_W)
            elif relation == VELOCITY:
                take_velocity(lines, at_ns, first, rest)
            elif relation == POSITION:
                take_position(lines, at_ns, first, rest)
            else:
                take_pose(lines, at_ns, first, rest)

    # ---- what it reports -----------------------------------------------------------------------

    def report(self) -> dict[str, str]:
        """Sensor to what its axes look like; empty while nothing contradicts what is declared.

        Names are those of the estimator's methods, and ``accelerometer`` and ``gyroscope`` where
        one of both is at odds with the other.
        """
        behind = [_behind(self._lines[0], relation) for relation in range(RELATIONS)]
        found = self._body(behind[FIELD])
        if found != {}:
            return found or {}  # on wrong axes nothing else can be judged
        patient = float(self._lines[0]["count"][POSITION]) < PATIENCE
        found = _gnss(behind, patient)
        for relation, what in ((EXTERNAL_TURN, "attitude"), (EXTERNAL_MOTION, "position")):
            misfit = behind[relation]
            if _is_wrong(misfit) and "external_pose" not in found:
                namings = BODY_NAMINGS if relation == EXTERNAL_TURN else WORLD_NAMINGS
                best = _first(namings, np.flatnonzero(_possible(misfit)))
                found["external_pose"] = f"{what}: {namings.words(best)}"
        return found

    def _body(self, field: Array | None) -> dict[str, str] | None:
        """IMU and magnetometer: the first explanation of all that is known; None: there is none."""
        up, dip = self._up(), self._dip()
        if up is None or not (_is_wrong(field) or _is_wrong(up) or _is_wrong(dip)):
            return {}
        for sensors, ways in _EXPLANATIONS:
            costs = {k: self._cost(sensors, k, field, up, dip) for k in ways}
            k = min(costs, key=lambda k: costs[k] + PRIOR * BODY_NAMINGS.rank[k])
            if costs[k] < POSSIBLE:
                words = BODY_NAMINGS.words(k)
                if sensors == ("imu",) and k in HEADINGS:
                    words += ", or the magnetometer's the other way round"
                return dict.fromkeys(sensors, words)
        return None

    @staticmethod
    def _cost(
        sensors: tuple[str, ...], k: int, field: Array | None, up: Array, dip: Array | None
    ) -> float:
        """How far the k-th naming of some sensors is behind, at worst."""
        force = k if "imu" in sensors or "accelerometer" in sensors else IDENTITY
        rate = k if "imu" in sensors or "gyroscope" in sensors else IDENTITY
        magnet = k if "magnetic_field" in sensors else IDENTITY
        relative = PRODUCT[magnet, INVERSE[rate]]
        if MIRROR[magnet] < 0:  # m' = F m turns as det(F) F reports
            relative = OPPOSITE[relative]
        cost = float(up[force])
        if field is not None:
            cost = max(cost, float(field[relative]))
        if dip is not None:
            cost = max(cost, float(dip[PRODUCT[force, INVERSE[magnet]]]))
        return cost

    def _up(self) -> Array | None:
        """Of each naming of the accelerometer: a multirotor's mean force points along +z."""
        axes = self._lines[0]
        mean = axes["f_mean_B"]
        size = float(np.linalg.norm(mean))
        if axes["f_weight_s"] < MEAN_S or size < 1.0:
            return None
        return _by_cosine(MATRICES[:, :, 2] @ mean / size)  # (A^-1 f)_z = f . A e_z

    def _dip(self) -> Array | None:
        """Of each naming of the magnetometer against the accelerometer: the field's inclination."""
        axes = self._lines[0]
        size = math.hypot(*self._field_W)
        if axes["field_force_count"] < FIELDS or size == 0.0:
            return None
        expected = self._field_W[2] / size
        if abs(expected) < 0.35:
            return None  # near the magnetic equator its sign states nothing
        found = np.einsum("kij,ij->k", MATRICES, axes["field_force"])
        return _by_cosine(1.0 - np.abs(found - expected))


def _variance(covariance: ArrayLike, sigma: Sequence[float]) -> Array:
    """Diagonal of the first three of a covariance; where it is all zero, sigma^2."""
    flat = np.asarray(covariance, float).ravel()
    diagonal = flat[[0, 7, 14]] if flat.size == 36 else flat[[0, 4, 8]]
    return diagonal if diagonal.any() else np.square(sigma)


def _behind(axes: Any, relation: int) -> Array | None:
    """How far each naming is behind the best, as a logarithm of likelihood; None: not known.

    Of n windows with normal errors of a size that is not known it is n/2 times the logarithm of
    the misfits' ratio; less than RATIO times the least misfit is none.
    """
    count = float(axes["count"][relation])
    if count < WINDOWS:
        return None
    ratio = axes["misfit"][relation] / np.min(axes["misfit"][relation])
    behind: Array = 0.5 * count * np.log(ratio)
    return np.where(ratio < RATIO, np.minimum(behind, WRONG), behind)


def _by_cosine(cosine: Array) -> Array:
    """The same of a direction: possible, not known, wrong."""
    return np.where(cosine > ALONG, 0.0, np.where(cosine > NOT_ALONG, 0.9 * POSSIBLE, 2.0 * WRONG))


def _is_wrong(behind: Array | None) -> bool:
    return behind is not None and bool(behind[IDENTITY] > WRONG)


def _possible(behind: Array | None) -> NDArray[np.bool_]:
    return np.ones(WAYS, bool) if behind is None else behind < POSSIBLE


def _first(namings: Namings, choice: Iterable[int]) -> int:
    return int(min(choice, key=lambda k: namings.rank[k]))


def _gnss(behind: Sequence[Array | None], patient: bool) -> dict[str, str]:
    """GNSS: the least change of velocity and position that both relations allow."""
    field, velocity, position = behind[FIELD], behind[VELOCITY], behind[POSITION]
    if velocity is None and patient:
        return {}
    if velocity is not None and _is_wrong(velocity):
        # a turn about the vertical may be the heading's, where the field does not exclude that
        sure = field is not None and all(field[k] > POSSIBLE for k in HEADINGS)
        if not sure and any(velocity[k] < POSSIBLE for k in HEADINGS):
            velocity = None
    if not (_is_wrong(velocity) or _is_wrong(position)):
        return {}
    rank = PRIOR * WORLD_NAMINGS.rank
    v = np.arange(WAYS)[:, None]
    p = np.arange(WAYS)[None, :]
    allowed = _possible(velocity)[:, None] & _possible(position)[PRODUCT[p, INVERSE[v]]]
    if not allowed.any():
        return {}
    # one sensor before two; of two that will do, the velocity: a driver turns that
    cost = (v != IDENTITY) * 100.0 + (p != IDENTITY) * 101.0 + rank[v] + rank[p]
    if velocity is not None:
        cost = cost + velocity[v]
    if position is not None:
        cost = cost + position[PRODUCT[p, INVERSE[v]]]
    best_v, best_p = np.unravel_index(np.argmin(np.where(allowed, cost, np.inf)), allowed.shape)
    found = {}
    for sensor, best in (("gnss_velocity", best_v), ("gnss_position", best_p)):
        if best != IDENTITY:
            found[sensor] = WORLD_NAMINGS.words(int(best))
    return found
