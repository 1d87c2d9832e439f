"""What was spawned into the world while a flight went on, as Rerun draws it."""

from __future__ import annotations

from typing import Any

import numpy as np
import rerun as rr

from quadsim.view.scenery import draw_solids
from quadsim.view.vehicle import TIMELINE, DrawnTime
from quadsim.wire.definitions import standard_types
from quadsim.world.scene.obstacle_markers import MarkerReader
from quadsim.world.scene.scene import scene_of

#: Entities of what was spawned.
_ROOT = "/world/spawned"
#: The topic that tells of it, and its type.
OBSTACLES_TOPIC, MARKER_ARRAY = "/obstacles", "visualization_msgs/msg/MarkerArray"


class SpawnedDrawer:
    """Draws what ``/obstacles`` tells, as of its stamps.

    Args:
        recording: gets the entities.
        timeline: where time begins.
    """

    def __init__(self, recording: rr.RecordingStream, timeline: DrawnTime) -> None:
        self._recording, self._timeline = recording, timeline
        self._reader = MarkerReader()

    def take(self, payload: bytes) -> None:
        """Draw all of a message; what is none, or no obstacles, is left out."""
        try:
            message: Any = standard_types().deserialize_cdr(payload, MARKER_ARRAY)
            obstacles = self._reader.read(message)
        except Exception:  # whatever a parser makes of a broken message
            return
        if not message.markers:
            return
        stamp = message.markers[0].header.stamp
        since_ns = self._timeline.since(stamp.sec * 1_000_000_000 + stamp.nanosec)
        self._recording.set_time(TIMELINE, duration=np.timedelta64(since_ns, "ns"))
        self._recording.log(_ROOT, rr.Clear(recursive=True))
        draw_solids(scene_of(obstacles), _ROOT, self._recording.log)
