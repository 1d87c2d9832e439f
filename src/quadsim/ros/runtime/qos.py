"""Qualities of service, each declared once; the table of topics names them."""

from __future__ import annotations

from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy

#: Depth of topics at the IMU's rate: 0.4 s at 500 Hz.
FAST_DEPTH = 200


def profile(depth: int, reliable: bool = True, latched: bool = False) -> QoSProfile:
    """The newest messages, reliable or not, latched (transient local) or not."""
    return QoSProfile(
        history=HistoryPolicy.KEEP_LAST,
        depth=depth,
        reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE,
    )


#: At the IMU's rate, nothing lost.
FAST = profile(FAST_DEPTH)
#: Commands and states at lower rates.
RELIABLE = profile(10)
#: What a late listener gets too; a few, for events and status.
LATCHED = profile(1, latched=True)
EVENTS = profile(50, latched=True)
#: Sensors, as listeners take them (REP-2003): whatever the driver offers will do.
SENSOR_INPUT = profile(FAST_DEPTH, reliable=False)
#: The clock, as ROS does.
CLOCK = profile(10, reliable=False)


def best_effort(given: QoSProfile) -> QoSProfile:
    """The same for a listener that takes what is offered, reliable or not."""
    return profile(given.depth, reliable=False)


def deeper(given: QoSProfile, depth: int) -> QoSProfile:
    """The same for a listener that looks seldom, and keeps more till then."""
    return QoSProfile(
        history=HistoryPolicy.KEEP_LAST,
        depth=max(given.depth, depth),
        reliability=given.reliability,
        durability=given.durability,
    )
