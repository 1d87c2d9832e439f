"""Gyroscope and poses of a flight put side by side: mount, bias and clocks, without any model.

Between two poses the body turns by what the gyroscope integrates to, seen from other axes and at
other times. Rotation vectors of many short spans tell how the axes are rotated, what the gyroscope
shows at rest, and by how much the poses are later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.integrate import cumulative_trapezoid
from scipy.optimize import least_squares
from scipy.spatial.transform import Rotation
from scipy.stats import t as student

from quadsim.bag.logs.motion import columns_at
from quadsim.bag.reading import Bag
from quadsim.base.compiled import Array
from quadsim.lab.validate.recorded import pose_and_gyroscope
from quadsim.vehicle.parameters import RecorderParams

#: Length of a span, s; error of a rotation that counts as one, rad; least turn of a flight, rad/s.
SPAN_S, UNIT_RAD, LEAST_RADPS = 0.1, 0.005, 0.05
#: Parts of a flight, each of which tells by itself, and fewest spans in one.
PARTS, FEWEST = 4, 10


#: Names in the vehicle's file of what is told, and the widest half of an interval that tells it.
NAMES = {
    "recorder.mount_rad[2]": 0.05,
    **{f"recorder.gyroscope_bias_radps[{i}]": 0.02 for i in range(3)},
    "recorder.pose_delay_s": 0.02,
}


@dataclass(frozen=True)
class Alignment:
    """What was found, with half of the 95 % intervals, infinite where nothing was.

    Attributes:
        value, half: (7,) mount in rad, bias of the gyroscope in rad/s, lateness of the poses in s.
    """

    value: Array
    half: Array

    @property
    def told(self) -> dict[str, tuple[float, float]]:
        """Value and half of its interval by the name in the file, of what the flights tell."""
        pairs = zip(self.value[2:].tolist(), self.half[2:].tolist(), strict=True)
        found = zip(NAMES.items(), pairs, strict=True)
        return {name: pair for (name, widest), pair in found if pair[1] < widest}

    @property
    def undetermined(self) -> dict[str, float]:
        """Half of the interval by the name in the file, of what they do not tell."""
        halves = zip(NAMES, self.half[2:].tolist(), strict=True)
        return {name: half for name, half in halves if name not in self.told}

    def applied(self, recorder: RecorderParams) -> RecorderParams:
        """A recorder with mount about z, bias and delay; tilt is told better by the thrust."""
        x, y, z = recorder.mount_rad
        known = (z, *recorder.gyroscope_bias_radps, recorder.pose_delay_s - recorder.imu_delay_s)
        z, bias_x, bias_y, bias_z, delay_s = (
            self.told.get(name, (before, 0.0))[0] for name, before in zip(NAMES, known, strict=True)
        )
        return replace(
            recorder,
            mount_rad=(x, y, z),
            gyroscope_bias_radps=(bias_x, bias_y, bias_z),
            pose_delay_s=recorder.imu_delay_s + delay_s,
        )


def _spans(pose_s: Array, q_WB: Rotation, imu_s: Array, w_S: Array) -> tuple[Array, Array, Array]:
    """Rotation vectors (K, 3) by poses, integrals (4, K, 3) of rates and their changes, lengths."""
    # poses need not come regularly
    at_cut = np.flatnonzero(np.diff(np.floor((pose_s - pose_s[0]) / SPAN_S), prepend=-1.0))
    begin, end = at_cut[:-1], at_cut[1:]
    good = (pose_s[begin] > imu_s[0] + 0.05) & (pose_s[end] < imu_s[-1] - 0.05)
    good &= pose_s[end] - pose_s[begin] < 1.5 * SPAN_S
    begin, end = begin[good], end[good]
    rotated = (q_WB[begin].inv() * q_WB[end]).as_rotvec()
    whole = cumulative_trapezoid(w_S, imu_s, axis=0, initial=0.0)

    end_s, begin_s = pose_s[end], pose_s[begin]
    integral = columns_at(end_s, imu_s, whole) - columns_at(begin_s, imu_s, whole)
    change = columns_at(end_s, imu_s, w_S) - columns_at(begin_s, imu_s, w_S)
    length = pose_s[end] - pose_s[begin]
    return rotated, np.stack([integral, change]), length


def _fit(rotated: Array, integrals: Array, length: Array) -> Array:
    """(7,) of one part of a flight, by robust least squares."""

    def errors(x: Array) -> Array:
        felt = integrals[0] - length[:, None] * x[3:6] - x[6] * integrals[1]
        left = Rotation.from_rotvec(x[:3]).apply(felt) - rotated
        return np.asarray(left.ravel() / UNIT_RAD)

    scale = np.array([0.1] * 3 + [0.01] * 3 + [0.01])
    return np.asarray(least_squares(errors, np.zeros(7), x_scale=scale, loss="soft_l1").x)


def align_recorder(bags: Sequence[Bag], namespace: str, recorder: RecorderParams) -> Alignment:
    """Align the recorder of several flights of one vehicle.

    Args:
        recorder: as far as it is known; its mount, bias and pose delay are found anew.

    Raises:
        InputError: a log has no gyroscope or no poses.
    """
    found = []
    for bag in bags:
        spans = _spans(*pose_and_gyroscope(bag, namespace, recorder))
        for part in np.array_split(np.arange(len(spans[2])), PARTS):
            rotated, integrals, length = spans[0][part], spans[1][:, part], spans[2][part]
            if len(part) > FEWEST and (rotated / length[:, None]).std() > LEAST_RADPS:
                found.append(_fit(rotated, integrals, length))
    if len(found) < 2:
        return Alignment(np.zeros(7), np.full(7, np.inf))
    each = np.array(found)
    middle = np.median(each, axis=0)
    spread = 1.4826 * np.median(np.abs(each - middle), axis=0) * np.sqrt(np.pi / 2.0 / len(each))
    return Alignment(middle, np.asarray(student.ppf(0.975, len(each) - 1) * spread))
