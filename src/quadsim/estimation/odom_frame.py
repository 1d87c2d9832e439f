"""The pose in ``odom``: the filter's motion without its corrections (REP 105).

``odom`` begins as ``map``. It is level: the corrections of the position and of the heading go into
``map -> odom``, those of the tilt do not, so that the pose never jumps by more than the tilt does.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Records, kernel
from quadsim.base.elementary import atan2
from quadsim.base.records import ODOMETRY, Odometry
from quadsim.geometry.rotation import conjugate, exp, from_euler, multiply, quat, rotate, yaw_of
from quadsim.geometry.vector import add, scale, store, vec3


@kernel
def follow(
    odoms: Records[Odometry], befores: Records[Odometry], filtereds: Records[Odometry], leaps: bool
) -> None:
    """Move the pose in ``odom`` as the filter's velocity and rate say.

    The correction of the heading is the turn about the vertical that the rates do not explain. The
    position goes on by the trapezoid of the velocities, rotated from ``map`` into ``odom``.

    Args:
        odoms: (1,) the pose in ``odom`` at the last stamp, changed in place.
        befores, filtereds: (1,) what the filter stated then and reports now, in ``map``.
        leaps: whether the filter has begun anew since: then only its new velocity counts.
    """
    odom, before, now = odoms[0], befores[0], filtereds[0]
    dt_s = (now.stamp_ns - before.stamp_ns) * 1e-9
    w_B = scale(0.5, add(vec3(before.w_B), vec3(now.w_B)))
    v_W = scale(0.5, add(vec3(before.v_W), vec3(now.v_W)))
    if leaps:
        w_B, v_W = vec3(now.w_B), vec3(now.v_W)
    q_odom_map = multiply(quat(odom.q_WB), conjugate(quat(before.q_WB)))
    foreseen = multiply(quat(before.q_WB), exp(scale(dt_s, w_B)))
    correction = multiply(quat(now.q_WB), conjugate(foreseen))
    rotated = yaw_of(q_odom_map) - 2.0 * atan2(correction[3], correction[0])
    q_odom_map = from_euler(0.0, 0.0, rotated)
    store(odom.p_W, add(vec3(odom.p_W), rotate(q_odom_map, scale(dt_s, v_W))))
    store(odom.q_WB, multiply(q_odom_map, quat(now.q_WB)))
    odom.stamp_ns = now.stamp_ns


class OdomFrame:
    """The pose in ``odom`` next to a filter.

    Attributes:
        odoms: (1,) ODOMETRY; position and attitude are those of ``base_link`` in ``odom``.
    """

    def __init__(self) -> None:
        self.odoms: NDArray[np.record] = np.zeros(1, ODOMETRY)
        self._befores: NDArray[np.record] = np.zeros(1, ODOMETRY)
        self._starts = 0

    def take(self, filtered: np.record, starts: int) -> np.record:
        """Go on with what the filter reports now; the pose in ``odom``.

        Args:
            filtered: ODOMETRY in ``map``.
            starts: how often the filter has begun; with less than before all begins anew.
        """
        befores = self._befores.copy()
        self._befores[0] = filtered
        if not self._starts or starts < self._starts:
            self.odoms[0] = filtered
        elif filtered.stamp_ns > befores[0].stamp_ns:
            follow(self.odoms, befores, self._befores, starts != self._starts)
        self._starts = starts
        odom: np.record = self.odoms[0]
        return odom
