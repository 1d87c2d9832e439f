"""Node ``gnss``: publishes ``gps/fix`` and ``gps/vel`` with equal stamps."""

from __future__ import annotations

from typing import Any

from quadsim.ros.parts.scene_params import DeclaredScene
from quadsim.ros.parts.sensor import Health, Messages, SensorNode, sensor_kind
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.runtime import entry_points
from quadsim.sensors.gnss import MODEL
from quadsim.wire import samples
from quadsim.wire.samples import has_fix


def gnss_messages(node: SensorNode) -> Messages:
    """Velocity where there is a fix; position about the datum, or that there is no fix."""
    velocity = samples.velocity_messages()
    fix = samples.fix_messages(node.frame("gps_link"), node.environment.datum)

    def velocity_of(sample: Any) -> bytes | None:
        return velocity.payload(sample) if has_fix(sample) else None

    return [(topics.GPS_VELOCITY, velocity_of), (topics.GPS_FIX, fix.payload)]


def fix_health(node: SensorNode) -> Health:
    """Whether there is a fix, and what the sky looks like."""
    sample = node.sample
    fix = sample is not None and has_fix(sample)
    values: dict[str, Any] = {"fix": str(fix).lower()}
    if sample is not None and node.params.satellites > 0:
        values |= {"satellites": int(sample["satellites"])}
        values |= {name: float(sample[name]) for name in ("hdop", "vdop")}
    return int(not fix), "running" if fix else "no fix", values


GNSS = sensor_kind(MODEL, "ublox_f9p_rtk", gnss_messages, scene=DeclaredScene, health=fix_health)

make, main = entry_points(GNSS.make)
