"""What the nodes of simulated sensors share: the truth in, a sample out when one is due."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from quadsim.compiled import new_record
from quadsim.nodes import topics
from quadsim.nodes.base import QuadsimNode
from quadsim.nodes.cdr import stamp_of
from quadsim.nodes.conversion import OdometryReader
from quadsim.nodes.params import declare, declare_int, declare_text
from quadsim.records import KINEMATICS
from quadsim.sensors import SENSORS
from quadsim.sensors.devices import load_device
from quadsim.sensors.model import SimulatedSensor
from quadsim.world.environment import EnvironmentParams


class SensorNode(QuadsimNode, ABC):
    """A node around one simulated sensor.

    Parameters: ``device`` (a file of ``config/sensors``), every field of the sensor's parameters,
    ``environment.*``, ``seed``.

    Args:
        kind: a key of :data:`quadsim.sensors.SENSORS`.
        device: the default device.
        kwargs: as of :class:`QuadsimNode`.
    """

    def __init__(self, kind: str, device: str, **kwargs: Any) -> None:
        super().__init__(kind, **kwargs)
        device = declare_text(self, "device", device, "a file of config/sensors, or a path")
        self.params: Any = declare(self, load_device(kind, device))
        self.environment = declare(self, EnvironmentParams(), "environment.")
        seed = declare_int(self, "seed", 1, "of all randomness; each sensor has its own stream", 0)
        self.sensor = SimulatedSensor(
            SENSORS[kind],
            self.params,
            self.environment,
            seed,
            self.get_namespace().strip("/"),
        )
        self.truth = new_record(KINEMATICS)
        self.reader = OdometryReader(self.truth)
        self.listen(topics.TRUTH, self.on_truth, needed=True)

    def on_truth(self, payload: bytes) -> None:
        """Measure when a sample is due; other truths are not even read."""
        if self.sensor.wants(stamp_of(payload)):
            self.reader.read(payload)
            sample = self.sensor.measure(self.truth)
            if sample is not None:
                self.publish_sample(sample)

    @abstractmethod
    def publish_sample(self, sample: Any) -> None:
        """Publish one sample; each sensor has its messages."""

    def health(self) -> tuple[int, str, dict[str, Any]]:
        """Gaps and repeats in the truth."""
        gaps, refused = self.sensor.gaps, self.sensor.refused
        return (
            int(gaps > 0),
            "gaps in the truth" if gaps else "running",
            {
                "gaps": gaps,
                "repeats": refused,
            },
        )
