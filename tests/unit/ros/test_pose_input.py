"""Poses as guard, planner and monitor take them: by stamps that rise."""

from types import SimpleNamespace

import pytest

pytest.importorskip("rclpy")


from quadsim.ros.messages.cdr import MessageError
from quadsim.ros.parts import pose_input
from quadsim.ros.parts.pose_input import PoseInput
from quadsim.wire.encode import Template

MS = 1_000_000


@pytest.fixture
def taken(monkeypatch):
    """Sends a pose by its stamp, which is used or refused; and the stamps that were used."""
    monkeypatch.setattr(pose_input, "declare_one", lambda *_, **__: "pose")
    monkeypatch.setattr(pose_input, "declare_pose_frame", lambda _: "map")
    heard, used = [], []
    node = SimpleNamespace(listen=lambda topic, take, **_: heard.append(take))
    PoseInput(node, used.append)
    poses = Template.of("geometry_msgs/msg/PoseStamped", "map", q_xyzw=(0.0, 0.0, 0.0, 1.0))
    return lambda stamp_ns: heard[0](poses.payload(stamp_ns)), used


def test_a_stamp_that_does_not_rise_is_refused(taken):
    send, used = taken
    send(5_000 * MS)
    for stamp_ns in (5_000 * MS, 4_999 * MS, 4_000 * MS):
        with pytest.raises(MessageError, match="repeats or jumps back in time"):
            send(stamp_ns)
    send(5_001 * MS)
    assert used == [5_000 * MS, 5_001 * MS]


def test_a_clock_that_was_set_back_is_followed(taken):
    send, used = taken
    for stamp_ns in (0, 5_000 * MS, 10 * MS, 20 * MS):
        send(stamp_ns)
    assert used == [0, 5_000 * MS, 10 * MS, 20 * MS]
