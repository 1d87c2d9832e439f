"""Units and axes of a bag's messages, where they are not those that their types ask for.

Each is told by something that is known: at rest, and in the mean of a flight, the specific force is
gravity's and points up; the Earth's field is 22 to 67 uT (World Magnetic Model), the pressure
where people fly 25 to 110 kPa (ICAO atmosphere); a turn of the field or of a pose is that of the
gyroscope, and a height goes with the pressure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from quadsim.bag.logs.motion import columns_at
from quadsim.bag.measurements import SENSORS
from quadsim.bag.reading import Bag, BagMessage, Batch
from quadsim.bag.topics import IMU, topic
from quadsim.base.errors import QuadsimError
from quadsim.drivers.convert import Converter, DriverTopic
from quadsim.wire.axes import WORLD, attitude, rotation_matrices
from quadsim.wire.damaged import decoded
from quadsim.wire.decode import decode
from quadsim.wire.payloads import Payloads

Rows = NDArray[np.float64]
Signal = tuple[NDArray[np.int64], Rows]

GRAVITY_MPS2 = 9.80665
#: No number is larger in any unit.
MOST = 1e50
#: So many messages of an IMU are looked at: a minute at 500 Hz.
MESSAGES = 30_000
#: Unit to what times it is SI, and between which sizes in that unit its values lie.
_FIELDS = {"millitesla": 1e-3, "gauss": 1e-4, "uT": 1e-6, "milligauss": 1e-7, "nT": 1e-9}
_FIELD_T = (1.5e-5, 9.5e-5)
_PRESSURES = {"hPa": 100.0, "kPa": 1000.0}
_PRESSURE_PA = (2.5e4, 1.1e5)
#: No gyroscope of a vehicle turns faster (2000 deg/s is 35 rad/s), and no pose moves so fast.
FASTEST_RADPS, FASTEST_MPS = 40.0, 60.0
#: Time over which turns and ways are compared, s, and the least correlation that tells.
STEP_S, ALIKE = 0.2, 0.6
#: Rates that turn more than the first in that time would be seen; a part below the second is none.
LEAST_TURN_RAD, UNSEEN = 0.02, 0.2
DEGREE = float(np.radians(1.0))
#: So many poses tell axes; they agree with the specific force at this correlation, and move if they
#: bend so much in a second, m.
LEAST_POSES, AGREES, LEAST_BEND_M = 20, 0.8, 0.05
#: One axis is mirrored or not if positions bend so much along it.
LEAST_AXIS_M = 0.008
#: So much better must other axes agree than those of the type, and than likelier ones.
HEAD_START, CHANCE = 0.1, 0.02
BODIES = {"flu": "", "frd": "its body is FRD", "y_up": "its body's y is up"}
#: Pressure of a metre of height; a flight lower than the least tells nothing.
METRE_PA, LEAST_M = 11.5, 0.7


@dataclass(frozen=True, slots=True)
class Confusion:
    """Messages that are not in the units or axes of their type.

    Attributes:
        topic: full name.
        words: what is seen, and what it is likely to be.
        keys: of a driver file's topic (:class:`~quadsim.drivers.driver.DriverTopic`) that mend it;
            empty: nothing does.
    """

    topic: str
    words: str
    keys: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        keys = ", ".join(f"{key}: {value:g}" if isinstance(value, float) else f"{key}: {value}"
                         for key, value in self.keys.items())  # fmt: skip
        return f"{self.topic}: {self.words}" + (f"; mended by {keys}" if keys else "")


def mend_words(confusions: Collection[Confusion], applied: bool) -> list[str]:
    """A line for each confusion, and whether it was mended."""
    end = ": done (--fix-units)" if applied else " in a driver file, or by --fix-units"
    return [f"{each}{end if each.keys else ''}" for each in confusions]


def confusions_of(bag: Bag, namespace: str) -> list[Confusion]:
    """Which sensors of a vehicle are in other units or axes; what cannot be told is not there."""
    seen = _signals(bag, namespace)
    found: list[Confusion] = []
    imu_ns, imu = seen.get(IMU, (np.zeros(0, np.int64), np.zeros((0, 6))))
    f_S, w_S, keys = imu[:, :3].copy(), imu[:, 3:6].copy(), {}
    if len(imu) > 1:
        keys = _imu(topic(namespace, IMU), imu_ns, f_S, found)
        if keys.get("body") == "frd":
            f_S, w_S = f_S * (1.0, -1.0, -1.0), w_S * (1.0, -1.0, -1.0)
    field_ = seen.get("imu/mag")
    if field_ is not None:
        size = float(np.median(np.linalg.norm(field_[1], axis=1)))
        _size(topic(namespace, "imu/mag"), size, "field", "T", _FIELDS, _FIELD_T, found)
    pressure = seen.get("imu/static_pressure")
    pascal = 1.0
    if pressure is not None:
        name, size = topic(namespace, "imu/static_pressure"), float(np.median(pressure[1]))
        pascal = _size(name, size, "pressure", "Pa", _PRESSURES, _PRESSURE_PA, found)
    height = None if pressure is None else (pressure[0], -pascal * pressure[1] / METRE_PA)
    if "range/down" in seen:
        stamp_ns, metres = seen["range/down"]
        if float(np.median(metres)) > 200.0 and abs(_slope(stamp_ns, metres, height)) > 100.0:
            words = f"ranges of {np.median(metres):.0f} grow by a thousand for each metre: mm?"
            found.append(Confusion(topic(namespace, "range/down"), words, {"scale": 1e-3}))
    ratio = None if field_ is None else _turned_field(field_, imu_ns, w_S)
    for name in ("external/pose", "external/pose_stamped", "external/odom"):
        if name not in seen:
            continue
        pose = _pose(topic(namespace, name), seen[name], (imu_ns, f_S), height, found)
        ratio = _turned_pose((seen[name][0], pose), imu_ns, w_S) if ratio is None else ratio
    if len(w_S) > 1:
        _rates(topic(namespace, IMU), w_S, ratio, keys, found)
    return found


def _signals(bag: Bag, namespace: str) -> dict[str, Signal]:
    """Stamps and numbers, if no damage, of the first minute of each sensor."""
    names = {topic(namespace, name): name for name in SENSORS}
    names = {full: n for full, n in names.items() if bag.types.get(full) == SENSORS[n][0]}
    parts: dict[str, list[Signal]] = {}
    count = 0
    for batch in bag.batches(names):
        for full, type_name, rows in batch.by_topic():
            good = decoded(partial(decode, type_name), batch.payloads[rows]).good
            if good is None:
                continue
            found = SENSORS[names[full]][2](good)
            several = names[full] == IMU or names[full].startswith("external/")
            numbers = np.hstack(found[: 1 + several]).astype(float)
            fine = (np.abs(numbers) < MOST).all(axis=1)
            parts.setdefault(names[full], []).append((good.stamp_ns[fine], numbers[fine]))
            count += len(rows) if names[full] == IMU else 0
        if count > MESSAGES:
            break
    joined = {
        name: (np.concatenate([s for s, _ in each]), np.concatenate([v for _, v in each]))
        for name, each in parts.items()
    }
    return {name: each for name, each in joined.items() if len(each[0])}


def _imu(
    full: str, stamp_ns: NDArray[np.int64], f_S: Rows, found: list[Confusion]
) -> dict[str, Any]:
    """What the specific force tells; keys that mend it. ``f_S`` becomes SI."""
    size, mean = float(np.median(np.linalg.norm(f_S, axis=1))), f_S.mean(axis=0)
    of_mean = float(np.linalg.norm(mean))
    begins = np.unique(stamp_ns // 1_000_000_000, return_index=True)[1]  # of each second
    of_seconds = np.diff([*begins, len(f_S)])[:, None]
    calm = float(np.median(np.linalg.norm(np.add.reduceat(f_S, begins) / of_seconds, axis=1)))
    keys: dict[str, Any] = {}
    words = []
    if 0.7 < size < 1.4 and of_mean > 0.7 * size:
        keys["scale"] = GRAVITY_MPS2
        words.append(f"the specific force is {size:.2f}, not 9.81 m/s^2: in g?")
    elif max(calm, of_mean) < 0.5 * GRAVITY_MPS2:  # a second's mean does not see vibration
        words.append(
            f"the mean specific force is {of_mean:.2f}, not 9.81 m/s^2: gravity was taken off;"
            " record the raw topic"
        )
    if of_mean > 0.6 * size and of_mean > 0.5 and mean[2] < -0.75 * of_mean:
        keys["body"] = "frd"
        words.append(
            f"gravity's direction is upside down (z is {mean[2]:.2f}): FRD? If the IMU is"
            " mounted so, set mount.imu_roll_pitch_yaw_deg instead"
        )
    if words:
        found.append(Confusion(full, "; ".join(words), keys))
    f_S *= keys.get("scale", 1.0)
    return keys


def _size(
    full: str, size: float, what: str, unit: str, units: dict[str, float],
    band: tuple[float, float], found: list[Confusion],
) -> float:  # fmt: skip
    """Note the unit in which a size would lie in the band; what times it is SI."""
    for name, scale in units.items():
        if band[0] < size * scale < band[1] and not band[0] < size < band[1]:
            words = f"the {what} is {size:.4g}, which is no {what} in {unit}: {name}?"
            found.append(Confusion(full, words, {"scale": scale}))
            return scale
    return 1.0


def _slope(stamp_ns: NDArray[np.int64], z: Rows, height: Signal | None) -> float:
    """How much numbers grow for each metre of height; 0 where that cannot be told."""
    if height is None or len(z) < 10:
        return 0.0
    h = np.interp(stamp_ns, height[0], height[1].ravel())
    z, h = z.ravel() - z.mean(), h - h.mean()
    if h.std() < LEAST_M or not z.std():
        return 0.0
    alike = (z @ h) / (len(z) * z.std() * h.std())
    return float(z.std() / h.std() * np.sign(alike)) if abs(alike) > 0.9 else 0.0


def _pose(
    full: str, pose: Signal, force: Signal, height: Signal | None, found: list[Confusion]
) -> Rows:
    """What poses tell; their attitudes (N, 4), w first, as they are when that is mended."""
    stamp_ns, p, q = pose[0], pose[1][:, :3], pose[1][:, 3:7]
    keys: dict[str, Any] = {}
    words = []
    slope = _slope(stamp_ns, p[:, 2], height)
    steps = max(1, int(STEP_S * 2.5 * len(p) / max(1e-9 * float(np.ptp(stamp_ns)), 1e-3)))
    dt_s = (stamp_ns[steps:] - stamp_ns[:-steps]) * 1e-9
    way = np.linalg.norm(p[steps:] - p[:-steps], axis=1)[dt_s > 0.0] / dt_s[dt_s > 0.0]
    fast = float(np.percentile(way, 90)) if len(way) else 0.0
    if 300.0 < abs(slope) < 3000.0 or (slope == 0.0 and fast > FASTEST_MPS):
        keys["scale"] = 1e-3
        words.append(f"it moves at {fast:.0f} a second: mm?")
    axes, likely = _axes(pose, force)
    keys |= axes
    if likely:
        words.append(likely)
    elif slope < 0.0:
        keys["world"] = "ned"
        words.append("its z falls as the pressure does: NED?")
    if words:
        found.append(Confusion(full, "; ".join(words), keys))
    q = np.roll(q, -1, axis=1) if keys.get("quaternion") == "wxyz" else q
    return attitude(keys.get("world", "enu"), keys.get("body", "flu"), q)


def _axes(pose: Signal, force: Signal) -> tuple[dict[str, Any], str]:
    """Keys of the axes in which poses agree with the specific force, and what that is called.

    By their attitudes gravity is vertical, and their positions bend as the specific force does
    that is rotated by them. Poses that stand still tell the first alone.
    """
    if len(force[1]) < 2 or np.linalg.norm(force[1].mean(axis=0)) < 0.5 * GRAVITY_MPS2:
        return {}, ""
    good = np.linalg.norm(pose[1][:, 3:7], axis=1) > 0.5
    stamp_ns, numbers = pose[0][good], pose[1][good]
    if len(stamp_ns) < LEAST_POSES:
        return {}, ""
    best: tuple[float, dict[str, Any], str] | None = None
    least = 0.5 * AGREES
    for world, body, order in product(("enu", "ned", "y_up"), tuple(BODIES), ("xyzw", "wxyz")):
        q = np.roll(numbers[:, 3:7], -1, axis=1) if order == "wxyz" else numbers[:, 3:7]
        R = rotation_matrices(attitude(world, body, q))
        up, bent, alike = _agreement(stamp_ns, R, numbers[:, :3] @ WORLD[world].T, force)
        right = (world, body, order) == ("enu", "flu", "xyzw")
        if up < (0.7 if right else 0.9):
            continue
        keys = {"world": (world, "enu"), "quaternion": (order, "xyzw"), "body": (body, "flu")}
        named = {key: value for key, (value, usual) in keys.items() if value != usual}
        if alike is None:
            return named, _likely(named)
        if right:  # another has to be better by more than chance
            best = alike + HEAD_START - CHANCE, {}, ""
            mirrored = [k for k in range(3) if _is_mirrored(*bent, k)]
            if len(mirrored) == 1:  # axes that only turn are likelier
                flipped = _alike(
                    bent[0] * np.where(np.arange(3) == mirrored[0], -1.0, 1.0), bent[1]
                )
                words = f"its positions are mirrored in {'xyz'[mirrored[0]]}: left-handed axes?"
                best = flipped - 2.0 * CHANCE, {}, words
                least = -least  # all axes agree so: of others each has to as well
        elif any(_is_mirrored(*bent, k, least) for k in range(3)):
            continue  # what turns one axis right, and another wrong, is not it
        elif best is None or alike > max(best[0] + CHANCE, AGREES):
            best = alike, named, _likely(named)
    return ({}, "") if best is None else (best[1], best[2])


def _likely(keys: dict[str, Any]) -> str:
    """What keys that mend axes say of them."""
    parts = {
        "world": {"ned": "its world is NED", "y_up": "its y is up"},
        "quaternion": {"wxyz": "its quaternion has w first"},
        "body": BODIES,
    }
    words = [parts[key][value] for key, value in keys.items()]
    return f"by gravity and the specific force {', '.join(words)}?" if words else ""


def _agreement(
    stamp_ns: NDArray[np.int64], R: Rows, p: Rows, force: Signal
) -> tuple[float, tuple[Rows, Rows], float | None]:
    """How poses agree with the specific force.

    Returns:
        How much of the mean specific force is up; how positions and twice integrated force
        bend, (K, 3) each; how alike these are, None where they hardly move.
    """
    inside = (force[0] >= stamp_ns[0]) & (force[0] <= stamp_ns[-1])
    imu_ns, f_B = force[0][inside], force[1][inside]
    nothing = np.zeros((0, 3))
    if len(imu_ns) < 2:
        return 0.0, (nothing, nothing), None
    at = np.searchsorted(stamp_ns, imu_ns).clip(0, len(stamp_ns) - 1)
    a_W = np.einsum("nij,nj->ni", R[at], f_B)
    mean = a_W.mean(axis=0)
    up = float(mean[2]) / max(float(np.linalg.norm(mean)), GRAVITY_MPS2)
    dt_s = np.clip(np.diff(imu_ns, prepend=imu_ns[:1]) * 1e-9, 0.0, 0.1)[:, None]
    v_W = np.cumsum((a_W - mean) * dt_s, axis=0)
    way = np.cumsum(v_W * dt_s, axis=0)
    grid = np.arange(imu_ns[0], imu_ns[-1], round(STEP_S * 1e9 / 2))
    lag = round(2.0 / STEP_S)
    both = []
    for known_ns, values in ((stamp_ns, p), (imu_ns, way)):
        at_grid = columns_at(grid, known_ns, values)
        bend = at_grid[2 * lag :] - 2.0 * at_grid[lag:-lag] + at_grid[: -2 * lag]
        both.append(bend - bend.mean(axis=0) if len(bend) else nothing)
    moves = len(both[1]) > lag and float(np.sqrt((both[1] ** 2).sum(axis=1).mean())) > LEAST_BEND_M
    return up, (both[0], both[1]), _alike(both[0], both[1]) if moves else None


def _is_mirrored(seen: Rows, expected: Rows, axis: int, least: float = AGREES) -> bool:
    """Whether one axis of what bends, (K, 3), is against what is expected.

    Args:
        seen, expected: how positions bend, and the twice integrated force.
        axis: of them.
        least: correlation at which it is.
    """
    seen, expected = seen[:, axis], expected[:, axis]
    return bool(expected.std() > LEAST_AXIS_M and _alike(seen, expected) < -least)


def _alike(seen: Rows, expected: Rows) -> float:
    """Correlation of (K, 3) vectors."""
    sizes = float(np.sqrt(np.sum(seen**2) * np.sum(expected**2)))
    return float(np.sum(seen * expected)) / sizes if sizes > 0.0 else 0.0


def _angles(stamp_ns: NDArray[np.int64], imu_ns: NDArray[np.int64], w_S: Rows) -> Rows:
    """(N, 3) integral of the rates up to other stamps."""
    dt_s = np.clip(np.diff(imu_ns, prepend=imu_ns[:1]) * 1e-9, 0.0, 0.1)
    sums = np.cumsum(w_S * dt_s[:, None], axis=0)
    return columns_at(stamp_ns, imu_ns, sums)


def _thinned(signal: Signal, imu_ns: NDArray[np.int64]) -> Signal:
    """Samples about :data:`STEP_S` apart, while the IMU speaks."""
    stamp_ns, values = signal
    inside = (stamp_ns >= imu_ns[0]) & (stamp_ns <= imu_ns[-1])
    stamp_ns, values = stamp_ns[inside], values[inside]
    _, first = np.unique(stamp_ns // round(STEP_S * 1e9), return_index=True)
    return stamp_ns[first], values[first]


def _ratio(seen: Rows, integral: Rows) -> float | None:
    """What times the integral of the rates, rad, is what was seen; None: that cannot be told.

    Where the integral turns much and nothing of it is seen, it is as of deg/s.
    """
    across, of_integral = float(np.sum(seen * integral)), float(np.sum(integral**2))
    sizes = float(np.sqrt(np.sum(seen**2) * of_integral))
    if sizes > 0.0 and across > ALIKE * sizes:
        return across / of_integral
    if of_integral < len(integral) * LEAST_TURN_RAD**2:
        return None
    slope = across / of_integral
    sigma = float(np.sqrt(np.mean((seen - slope * integral) ** 2) / of_integral))
    return DEGREE if abs(slope) + 3.0 * sigma < UNSEEN else None


def _turned_field(field_: Signal, imu_ns: NDArray[np.int64], w_S: Rows) -> float | None:
    """Turns of the field as parts of those of the gyroscope: dm/dt = m x w."""
    if len(imu_ns) < 2:
        return None
    stamp_ns, m = _thinned(field_, imu_ns)
    if len(m) < 20:
        return None
    turn = np.diff(_angles(stamp_ns, imu_ns, w_S), axis=0)
    size = float(np.median(np.linalg.norm(m, axis=1))) or 1.0
    return _ratio(np.diff(m, axis=0) / size, np.cross(0.5 * (m[1:] + m[:-1]), turn) / size)


def _turned_pose(pose: Signal, imu_ns: NDArray[np.int64], w_S: Rows) -> float | None:
    """Turns of a pose as parts of those of the gyroscope."""
    if len(imu_ns) < 2:
        return None
    stamp_ns, q = _thinned((pose[0], pose[1]), imu_ns)
    good = np.linalg.norm(q, axis=1) > 0.5
    if good.sum() < 20:
        return None
    R = Rotation.from_quat(np.roll(q[good], -1, axis=1))
    turn = np.diff(_angles(stamp_ns[good], imu_ns, w_S), axis=0)
    return _ratio((R[:-1].inv() * R[1:]).as_rotvec(), turn)


def _rates(
    full: str, w_S: Rows, ratio: float | None, keys: dict[str, Any], found: list[Confusion]
) -> None:
    """Note rates in deg/s, by what else turns, else by their size."""
    fast = float(np.percentile(np.linalg.norm(w_S, axis=1), 99.5))
    if ratio is not None and not 0.4 < ratio / DEGREE < 2.5:
        return
    if ratio is None and fast < FASTEST_RADPS:
        return
    by = "what it sees" if ratio is None else "the field or the pose"
    words = f"rates of {fast:.3g} are too large by {by}: deg/s?"
    same = next((k for k, each in enumerate(found) if each.topic == full), None)
    if same is not None:
        words, keys = f"{found.pop(same).words}; {words}", dict(keys)
    found.append(Confusion(full, words, keys | {"rate_scale": DEGREE}))


class MendedBag:
    """A bag whose messages are in the units and axes of their types; else it is that bag.

    Args:
        confusions: what is mended; those without keys are not.
    """

    def __init__(self, bag: Bag, confusions: Collection[Confusion]) -> None:
        self._bag = bag
        self._converters: dict[str, Converter] = {}
        for each in confusions:
            if not each.keys:
                continue
            ours = next(name for name in SENSORS if each.topic.endswith(f"/{name}"))
            way = DriverTopic(ours, (each.topic,), bag.types[each.topic])
            vehicle = each.topic.split("/")[1]
            self._converters[each.topic] = Converter(
                replace(way, **each.keys), lambda: bag.typestore, vehicle=vehicle
            )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bag, name)

    def messages(self, topics: Collection[str], start_ns: int = 0) -> Iterator[BagMessage]:
        """As of :class:`~quadsim.bag.reading.Bag`."""
        for batch in self.batches(topics, start_ns):
            yield from batch

    def batches(self, topics: Collection[str], start_ns: int = 0) -> Iterator[Batch]:
        """As of :class:`~quadsim.bag.reading.Bag`."""
        for batch in self._bag.batches(topics, start_ns):
            if not any(name in self._converters for name, _ in batch.topics):
                yield batch
                continue
            payloads = list(batch.payloads)
            for full, _, rows in batch.by_topic():
                if full in self._converters:
                    mended = self._mended(full, list(batch.payloads[rows]))
                    for k, payload in zip(rows.tolist(), mended, strict=True):
                        payloads[k] = payload
            yield Batch(batch.topics, batch.topic, batch.log_ns, Payloads.of(payloads))

    def _mended(self, full: str, payloads: list[bytes]) -> list[bytes]:
        """Messages of one topic; what makes no sense stays as it is, and is refused later."""
        try:
            made = self._converters[full].convert(payloads)
            return [new or old for new, old in zip(made, payloads, strict=True)]
        except QuadsimError:
            if len(payloads) == 1:
                return payloads
            half = len(payloads) // 2
            return self._mended(full, payloads[:half]) + self._mended(full, payloads[half:])
