"""Parts of the estimator's node: poses and standing by others, its health, its IMU's watchdog."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.estimation.eskf.layout import SENSORS, VECTORS
from quadsim.estimation.eskf.standing import STANDING, node_stands
from quadsim.estimation.interface import UNKNOWN_POSE, late_words
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.topics import Topic
from quadsim.sim.log import ERROR, OK, WARN

#: How bad what the filter reports of itself is; what is not here is an error.
LEVELS = {"running": OK, "aligning": WARN}
#: Beginnings of what may be meant so: a simulation that is paused, a graph that starts.
MEANT = ("/clock", "no IMU")

#: Parameter ``external_pose_type`` to the topic that is listened to.
POSES: dict[str, Topic] = {
    "pose": topics.EXTERNAL_POSE_STAMPED,
    "pose_with_covariance": topics.EXTERNAL_POSE,
    "odometry": topics.EXTERNAL_ODOMETRY,
}


def external_pose_of(
    view: Any,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Position (3,), quaternion (4,) w first, and covariance (36,), zero: unknown, of a message."""
    covariance = view["pose_covariance"].ravel() if "pose_covariance" in view.dtype.names else None
    return (
        view["p"].copy(),
        np.roll(view["q_xyzw"], 1),
        UNKNOWN_POSE if covariance is None else covariance.copy(),
    )


class Standing:
    """Whether the filter is to hear that the vehicle stands, by the standing kernel.

    Args:
        gravity_mps2: as the filter has it.
    """

    def __init__(self, gravity_mps2: float) -> None:
        self._gravity_mps2 = gravity_mps2
        self._standing: NDArray[np.record] = np.zeros(1, STANDING)

    @property
    def stated(self) -> bool:
        """Whether somebody reports it."""
        return bool(self._standing["stated"][0])

    def tell(self, stated: bool) -> None:
        """Take what somebody reports of it."""
        if stated != self.stated:
            self._standing[:] = np.zeros(1, STANDING)
            self._standing["stated"] = int(stated)

    def holds(self, stamp_ns: int, f_S: Any, w_S: Any) -> bool:
        """Take an IMU sample; true ten times a second while the vehicle stands."""
        if not self.stated:
            return False
        return bool(node_stands(self._standing, self._gravity_mps2, stamp_ns, f_S, w_S))


def innovations(state: Any) -> dict[str, str | float]:
    """Last innovation and its normalised square, of each sensor that has been used."""
    found: dict[str, str | float] = {}
    for sensor, name in enumerate(SENSORS):
        if state.accepted[sensor] + state.rejected[sensor] == 0:
            continue
        size = 3 if sensor in VECTORS else 1
        innovation = state.innovation[sensor][:size]
        found[f"{name}_innovation"] = " ".join(f"{x:.4g}" for x in innovation)
        found[f"{name}_nis"] = float(state.nis[sensor])
    return found


def judge_estimate(
    values: Mapping[str, Any], waits_for_datum: bool, trouble: str, frames: str
) -> tuple[int, str]:
    """Level and message: all that is wrong, the worst counts.

    Args:
        waits_for_datum: whether it does.
        trouble: of the IMU's stream, in words.
        frames: wrong ones of late, in words.
    """
    found: list[tuple[int, str]] = []
    if waits_for_datum:
        found.append((WARN, "waits for the datum"))
    if trouble:
        found.append((WARN if trouble.startswith(MEANT) else ERROR, trouble))
    status = str(values["status"])
    if status.startswith(("rejects", "repeats", "noisy")):
        found.append((WARN, status))
    elif status != "running" and not found:
        words = ": ".join(filter(None, (status, str(values.get("awaited", "")))))
        found.append((LEVELS.get(status, ERROR), words))
    if values.get("gnss_time_counts"):
        found.append((WARN, late_words(float(values["gnss_time_s"]))))
    if values.get("left_out"):
        found.append((WARN, f"left out: {values['left_out']}"))
    if values["axes"]:
        found.append((ERROR, str(values["axes"])))
    if frames:
        found.append((ERROR, f"wrong frame: {frames}"))
    worst = max((level for level, _ in found), default=OK)
    return worst, "; ".join(words for _, words in found) or "running"


#: Time for which ``/clock`` may stand before it is named, s: longer than a slow simulation's step.
CLOCK_PATIENCE_S = 1.0
#: Difference of /clock and stamps that no latency explains, and for how long it is waited out, s.
APART_S, APART_LASTS_S = 5.0, 2.0


class ImuWatch:
    """Says what is wrong with the stream of IMU samples; it knows no ROS.

    Silence is measured in simulated time where there is one, as a slow simulation is not silent;
    whether that time goes on, by the steady clock.

    Args:
        timeout_s: silence that is named.
        simulated: whether there is a simulated time.
    """

    def __init__(self, timeout_s: float, simulated: bool) -> None:
        self._timeout_ns = round(timeout_s * 1e9)
        self._simulated = simulated
        self._received = 0
        self._newest_ns = 0
        self._began_ns = 0  # steady
        self._apart_ns = 0  # simulated time less the newest stamp
        self._together_ns = 0  # steady, when the two last agreed
        self._clock_ns = 0
        self._clock_steady_ns = 0  # when the simulated time was last seen to go on
        self._heard_ns = 0  # by the clock that counts, when something last came
        self._fresh_ns = 0  # the same, when the newest stamp last went on

    def look(self, steady_ns: int, ros_ns: int, received: int, newest_ns: int) -> str:
        """What is wrong now, in words; empty: nothing.

        Args:
            steady_ns: steady clock.
            ros_ns: simulated time; not used without a simulation.
            newest_ns: stamp of the last of them.
        """
        if not self._began_ns:
            self._began_ns = self._clock_steady_ns = self._together_ns = steady_ns
            self._heard_ns = self._fresh_ns = ros_ns if self._simulated else steady_ns
        if self._simulated and ros_ns != self._clock_ns:
            if ros_ns < self._clock_ns:
                self._heard_ns = self._fresh_ns = ros_ns  # a new time
            self._clock_ns, self._clock_steady_ns = ros_ns, steady_ns
        now_ns = ros_ns if self._simulated else steady_ns
        if received != self._received:
            self._received, self._heard_ns = received, now_ns
        if newest_ns != self._newest_ns:
            going_on = self._simulated and self._newest_ns
            self._apart_ns = ros_ns - newest_ns if going_on else 0
            self._newest_ns, self._fresh_ns = newest_ns, now_ns
        if abs(self._apart_ns) <= APART_S * 1e9:
            self._together_ns = steady_ns
        return self._words(steady_ns, now_ns)

    def _words(self, steady_ns: int, now_ns: int) -> str:
        standing_s = (steady_ns - self._clock_steady_ns) * 1e-9
        if self._simulated and standing_s > CLOCK_PATIENCE_S:
            if self._clock_ns == 0:
                return f"/clock not heard for {standing_s:.1f} s (use_sim_time is true)"
            return f"/clock stands for {standing_s:.1f} s"
        if now_ns - self._heard_ns > self._timeout_ns:
            if not self._received:
                return "no IMU message yet"
            return f"IMU silent for {(now_ns - self._heard_ns) * 1e-9:.1f} s"
        if self._received and now_ns - self._fresh_ns > self._timeout_ns:
            return "IMU clock stands: messages come, their stamps do not go on"
        if steady_ns - self._together_ns > APART_LASTS_S * 1e9:
            return (
                f"/clock and the IMU's stamps disagree for {self._apart_ns * 1e-9:+.0f} s of"
                " difference: play the bag without --clock if it holds /clock, else with"
                " quadsim replay or use_sim_time false"
            )
        return ""
