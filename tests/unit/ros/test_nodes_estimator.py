"""Parts of the estimator's node that need no graph: watchdog, frames, standing, parameters."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy")

from quadsim.base.parameters import leaves
from quadsim.estimation.eskf.parameters import EstimatorParams
from quadsim.ros.messages.cdr import MessageError
from quadsim.ros.parts.estimator_params import when_of_filter
from quadsim.ros.parts.estimator_parts import ImuWatch, Standing, judge_estimate
from quadsim.ros.runtime.frames import FrameCheck

SECOND_NS = 1_000_000_000


def test_silence_is_named_and_so_is_its_end():
    watch = ImuWatch(0.5, simulated=False)
    now_ns = 100 * SECOND_NS
    assert watch.look(now_ns, 0, 0, 0) == ""
    assert watch.look(now_ns + SECOND_NS, 0, 0, 0) == "no IMU message yet"
    assert watch.look(now_ns + 2 * SECOND_NS, 0, 1, 5) == ""
    assert watch.look(now_ns + 3 * SECOND_NS, 0, 1, 5) == "IMU silent for 1.0 s"
    assert watch.look(now_ns + 3 * SECOND_NS, 0, 2, 6) == ""


def test_stamps_that_stand_are_named():
    watch = ImuWatch(0.5, simulated=False)
    for tenth in range(12):
        words = watch.look(SECOND_NS + tenth * SECOND_NS // 10, 0, 1 + tenth, 5)
        assert bool(words) == (tenth > 5)
    assert words == "IMU clock stands: messages come, their stamps do not go on"


def test_a_slow_simulation_is_not_silent_but_a_stopped_one_is_named():
    watch = ImuWatch(0.5, simulated=True)
    steady_ns, ros_ns = SECOND_NS, 7 * SECOND_NS
    assert watch.look(steady_ns, ros_ns, 1, 5) == ""
    for step in range(1, 30):  # a hundredth of real time, no IMU
        words = watch.look(steady_ns + step * SECOND_NS, ros_ns + step * SECOND_NS // 100, 1, 5)
        assert words == ""
    steady_ns += 30 * SECOND_NS
    ros_ns += 29 * SECOND_NS // 100
    assert watch.look(steady_ns, ros_ns + 1, 1, 5) == ""
    assert watch.look(steady_ns + 2 * SECOND_NS, ros_ns + 1, 1, 5) == "/clock stands for 2.0 s"
    assert watch.look(steady_ns + 2 * SECOND_NS, ros_ns + SECOND_NS, 1, 5).startswith("IMU silent")
    # set back, as a reset of the simulation does
    assert watch.look(steady_ns + 3 * SECOND_NS, SECOND_NS, 1, 5) == ""


def test_a_clock_that_is_not_that_of_the_stamps_is_named():
    """``ros2 bag play --clock`` of a bag of simulated stamps: log times of a date."""
    watch, date_ns = ImuWatch(0.5, simulated=True), 1_790_000_000 * SECOND_NS
    words = [
        watch.look(k * SECOND_NS // 10, date_ns + k * SECOND_NS // 10, k, k * SECOND_NS // 10)
        for k in range(1, 31)
    ]
    assert not any(words[:20])
    assert words[-1].startswith("/clock and the IMU's stamps disagree for +1790000000 s")


def test_a_clock_that_nobody_publishes_is_named():
    watch = ImuWatch(0.5, simulated=True)
    assert watch.look(SECOND_NS, 0, 0, 0) == ""
    assert watch.look(3 * SECOND_NS, 0, 0, 0) == "/clock not heard for 2.0 s (use_sim_time is true)"


class Log:
    """A node's log and counts."""

    def __init__(self):
        self.counts = Counter()
        self.lines: list[str] = []

    def count(self, what):
        self.counts[what] += 1

    def get_logger(self):
        return SimpleNamespace(error=self.lines.append)


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        ("imu_link_ned", "convert before (NED to ENU: x<-y, y<-x, z<--z)"),
        ("quad1/imu_frd", "convert before (FRD to FLU: y<--y, z<--z)"),
        ("imu", "publish it as 'imu_link', or say what it is called with the parameter frames.imu"),
    ],
)
def test_another_frame_is_refused_with_a_remedy_and_logged_once(frame, words):
    log = Log()
    check = FrameCheck(log, "imu/data_raw", "frames.imu", "imu_link")
    for _ in range(3):
        with pytest.raises(MessageError, match="not 'imu_link'") as error:
            check.check(frame)
        assert str(error.value).endswith(words)
    assert log.counts == {"imu/data_raw wrong frame": 3}
    assert len(log.lines) == 1
    assert check.recent == f"imu/data_raw: {frame}"
    check.check("imu_link")
    check.check("")  # many drivers say nothing


def test_standing_needs_somebody_who_says_so_and_a_still_imu():
    standing = Standing(9.81)
    still, turning = (0.0, 0.3, 9.8), (0.0, 0.0, 0.3)

    def said(rate, seconds):
        count = 0
        for k in range(round(200 * seconds)):
            stamp_ns = start_ns + k * 5_000_000
            count += standing.holds(stamp_ns, np.array(still), np.array(rate))
        return count

    start_ns = SECOND_NS
    assert said((0.0, 0.0, 0.0), 1.0) == 0
    standing.tell(True)
    assert said((0.02, 0.0, 0.0), 1.0) in (9, 10)
    start_ns += SECOND_NS
    assert said(turning, 1.0) <= 1  # of the window that began before
    standing.tell(False)
    start_ns += SECOND_NS
    assert said((0.0, 0.0, 0.0), 1.0) == 0


def test_what_may_change_in_flight_is_stated_of_each_parameter():
    names = {leaf.name: when_of_filter(leaf.name) for leaf in leaves(EstimatorParams)}
    assert names["noise.gyro_density"].startswith("may change in flight")
    assert names["fusion.drag_per_s"].startswith("may change in flight")
    assert "does not run" in names["mount.imu_position_B_m"]
    assert "does not run" in names["gravity_mps2"]


@pytest.mark.parametrize(
    ("values", "waits", "trouble", "frames", "level", "words"),
    [
        ({"status": "running", "axes": ""}, False, "", "", 0, "running"),
        ({"status": "aligning", "axes": ""}, True, "", "", 1, "waits for the datum"),
        ({"status": "aligning", "axes": ""}, False, "", "", 1, "aligning"),
        ({"status": "diverging", "axes": ""}, False, "", "", 2, "diverging"),
        ({"status": "running", "axes": ""}, False, "/clock stands", "", 1, "/clock stands"),
        ({"status": "running", "axes": ""}, False, "IMU silent", "", 2, "IMU silent"),
        ({"status": "running", "axes": "imu: FRD"}, False, "", "", 2, "imu: FRD"),
        ({"status": "running", "axes": ""}, False, "", "a: b", 2, "wrong frame: a: b"),
    ],
)
def test_what_is_worst_gives_the_level(values, waits, trouble, frames, level, words):
    assert judge_estimate(values, waits, trouble, frames) == (level, words)
