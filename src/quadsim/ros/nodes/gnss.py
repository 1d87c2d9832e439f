"""Node ``gnss``: the truth in, ``gps/fix`` and ``gps/vel`` with equal stamps out."""

from __future__ import annotations

from typing import Any

from rclpy.context import Context

from quadsim.ros.parts.sensor import SensorNode
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.runtime import main_of
from quadsim.wire import samples


class GnssNode(SensorNode):
    """The satellite receiver; ``environment.datum`` says where ``map`` is."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__("gnss", "ublox_f9p_rtk", **kwargs)
        self._fix = self.offer(topics.GPS_FIX, needed=True)
        self._velocity = self.offer(topics.GPS_VELOCITY, needed=True)
        self._velocities = samples.velocity_messages()
        self._has_fix = False
        self._sky: dict[str, Any] = {}
        self.make_writers()

    def make_writers(self) -> None:
        """Write fixes by the datum of these parameters."""
        self._fixes = samples.fix_messages(self.frame("gps_link"), self.environment.datum)

    def publish_sample(self, sample: Any) -> None:
        """Publish position and velocity; without a fix, that there is none."""
        self._has_fix = bool(samples.has_fix(sample))
        if self._has_fix:
            self._velocity.publish(self._velocities.payload(sample))
        self._fix.publish(self._fixes.payload(sample))
        if self.params.satellites > 0:
            self._sky = {
                "satellites": int(sample["satellites"]),
                "hdop": float(sample["hdop"]),
                "vdop": float(sample["vdop"]),
            }

    def health(self) -> tuple[int, str, dict[str, Any]]:
        """As every sensor; whether there is a fix, and the sky."""
        level, words, values = super().health()
        if not self._has_fix:
            level, words = max(level, 1), "no fix"
        return level, words, {**values, "fix": str(self._has_fix).lower(), **self._sky}


def make(context: Context, **kwargs: Any) -> GnssNode:
    """Make the node in a context."""
    return GnssNode(context=context, **kwargs)


def main() -> None:
    """Run the node."""
    main_of(make)


if __name__ == "__main__":
    main()
