"""Link and motion capture of a rehearsal against the distributions that they are to have."""

import math

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from quadsim.hil.rehearsal.link import Link, LinkParams
from quadsim.hil.rehearsal.motion_capture import MotionCapture, MotionCaptureParams

MS = 1_000_000
LEVEL = (1.0, 0.0, 0.0, 0.0)


def sent_through(params, count, period_ns, seed=1):
    """When each of so many messages arrived, in steps of 0.2 ms; None for those that did not."""
    link = Link(params, np.random.default_rng(seed))
    arrived_ns = {}
    for now_ns in range(0, count * period_ns + 1000 * MS, MS // 5):
        if now_ns % period_ns == 0 and now_ns // period_ns < count:
            link.send(now_ns, now_ns // period_ns)
        for message in link.receive(now_ns):
            assert message not in arrived_ns
            arrived_ns[message] = now_ns
    return [arrived_ns.get(k) for k in range(count)], link


def test_a_link_is_late_by_its_latency_and_jitter_and_loses_its_share():
    """200 ms apart none waits for another: the delays are the drawn ones."""
    count, period_ns = 400, 200 * MS
    arrivals, link = sent_through(LinkParams(0.03, 0.005, 0.05), count, period_ns)
    late_ms = np.array(
        [(at - k * period_ns) / MS for k, at in enumerate(arrivals) if at is not None]
    )
    lost = count - len(late_ms)
    assert (link.sent, link.lost) == (count, lost)
    # four deviations of a binomial, a mean and a standard deviation; 0.1 ms of the grid
    assert abs(lost - 0.05 * count) < 4.0 * math.sqrt(0.05 * 0.95 * count)
    assert late_ms.mean() == pytest.approx(30.1, abs=4.0 * 5.0 / math.sqrt(len(late_ms)))
    assert late_ms.std() == pytest.approx(5.0, rel=4.0 / math.sqrt(2.0 * len(late_ms)))
    assert late_ms.max() < 45.3  # three deviations


def test_no_message_overtakes_another():
    arrivals, _ = sent_through(LinkParams(0.03, 0.02, 0.1), 500, 5 * MS, seed=2)
    heard = [at for at in arrivals if at is not None]
    assert heard == sorted(heard)
    assert len(set(heard)) < len(heard)  # some did wait for one before them


def test_a_cut_link_loses_what_is_sent_and_delivers_what_is_on_its_way():
    link = Link(LinkParams(0.03, 0.0, 0.0), np.random.default_rng(1))
    link.send(0, "before")
    link.cut = True
    link.send(10 * MS, "while")
    link.cut = False
    link.send(20 * MS, "after")
    assert link.receive(29 * MS) == []
    assert link.receive(30 * MS) == ["before"]
    assert link.receive(90 * MS) == ["after"]


def seen(params, seconds, seed=1, q_WB=LEVEL):
    """Poses of a vehicle that stands at (1, 2, 3), by true poses at 500 Hz."""
    capture = MotionCapture(params, np.random.default_rng(seed))
    poses = []
    for now_ns in range(2 * MS, round(seconds * 1000) * MS + 1, 2 * MS):
        capture.see(now_ns, (1.0, 2.0, 3.0), q_WB)
        poses += [(now_ns, pose) for pose in capture.arrived(now_ns)]
    return poses, capture


def test_motion_capture_sees_at_its_rate_with_its_noise_and_latency():
    params = MotionCaptureParams(latency_s=0.01, loss=0.0, dropouts_per_s=0.0)
    attitude = Rotation.from_euler("ZYX", [2.0, 0.3, -0.2])
    q_WB = tuple(np.roll(attitude.as_quat(), 1).tolist())
    poses, capture = seen(params, 20.0, q_WB=q_WB)
    assert (capture.frames, capture.unseen) == (2400, 0)
    assert {at_ns - pose.stamp_ns for at_ns, pose in poses} == {10 * MS}
    steps_ns = set(np.diff([pose.stamp_ns for _, pose in poses]).tolist())
    assert steps_ns == {8 * MS, 10 * MS}  # 1/120 s on the grid of the truth
    error_m = np.array([pose.p_W for _, pose in poses]) - (1.0, 2.0, 3.0)
    turned = Rotation.from_quat([np.roll(pose.q_WB, -1) for _, pose in poses]) * attitude.inv()
    error_deg = np.degrees(turned.as_rotvec())
    # 7200 numbers: five deviations of their standard deviation are 4 %
    assert error_m.std() == pytest.approx(params.position_sigma_m, rel=0.04)
    assert error_deg.std() == pytest.approx(params.attitude_sigma_deg, rel=0.04)
    covariance = params.covariance().reshape(6, 6)
    assert np.sqrt(covariance.diagonal()) == pytest.approx(
        [params.position_sigma_m] * 3 + [math.radians(params.attitude_sigma_deg)] * 3
    )


def test_drop_outs_come_at_their_rate_and_last_as_long_as_they_may():
    """Away for 0.2 s to 0.4 s, once in 1 s of sight: an alternating renewal process."""
    params = MotionCaptureParams(loss=0.0, dropouts_per_s=1.0, dropout_s=(0.2, 0.4))
    poses, capture = seen(params, 80.0, seed=3)
    gaps_s = np.diff([pose.stamp_ns for _, pose in poses]) * 1e-9
    away_s = gaps_s[gaps_s > 0.1]
    assert away_s.min() > 0.2
    assert away_s.max() < 0.4 + 0.02  # and a frame on either side
    # 80 s / (1 s + 0.3 s) = 62; the count's deviation is about sqrt(62) * 1 / 1.3
    assert len(away_s) == pytest.approx(62, abs=4.0 * 6.0)
    late = capture.arrived(81_000 * MS)
    assert capture.unseen == capture.frames - len(poses) - len(late)


def test_what_is_gone_sees_nothing():
    capture = MotionCapture(MotionCaptureParams(loss=0.0), np.random.default_rng(1))
    capture.gone = True
    for now_ns in range(0, 500 * MS, 2 * MS):
        capture.see(now_ns, (0.0, 0.0, 0.0), LEVEL)
    assert capture.arrived(1000 * MS) == []
    assert capture.unseen == capture.frames == 59
