"""What the nodes of simulated sensors share: the truth in, a sample out when one is due."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from quadsim.compiled import new_record
from quadsim.nodes.base import QuadsimNode
from quadsim.nodes.faults import FaultControl
from quadsim.nodes.params import (
    declare,
    declare_bool,
    declare_int,
    declare_scene,
    declare_text,
)
from quadsim.nodes.truth_input import TruthInput
from quadsim.records import KINEMATICS
from quadsim.sensors.devices import load_device, needs_of, simulate
from quadsim.world.environment import EnvironmentParams
from quadsim.world.scene import EMPTY_SCENE


class SensorNode(QuadsimNode, ABC):
    """A node around one simulated sensor, or a lidar.

    Parameters: ``device`` (a file of ``config/sensors``), every field of the sensor's parameters,
    ``environment.*``, ``world``, ``terrain.*``, ``seed``, ``odometry_reliable``, ``faults``. The
    last can be set in flight: a YAML list of faults, or one, whose ``at_s`` then counts from now.

    Args:
        kind: a key of :data:`quadsim.sensors.DEVICES`.
        device: the default device.
        kwargs: as of :class:`QuadsimNode`.
    """

    def __init__(self, kind: str, device: str, **kwargs: Any) -> None:
        super().__init__(kind, **kwargs)
        device = declare_text(self, "device", device, "a file of config/sensors, or a path")
        self.params: Any = declare(self, load_device(kind, device))
        self.environment = declare(self, EnvironmentParams(), "environment.")
        seed = declare_int(self, "seed", 1, "of all randomness; each sensor has its own stream", 0)
        needs = needs_of(kind, self.params)
        self.sensor = simulate(
            kind,
            self.params,
            self.environment,
            seed,
            self.get_namespace().strip("/"),
            declare_scene(self, self.environment) if "scene" in needs else EMPTY_SCENE,
        )
        self._truth = new_record(KINEMATICS)
        self._fault_control = FaultControl(self, self.sensor.set_faults)
        reliable = declare_bool(self, "odometry_reliable", True, "ask for a reliable odometry")
        self._input = TruthInput(self, self._truth, needs, self._on_truth, reliable)

    def _on_truth(self, stamp_ns: int, read: Callable[[], None]) -> None:
        """Measure when a sample is due; other truths are not even read."""
        self._fault_control.tell(stamp_ns)
        if self.sensor.wants(stamp_ns):
            read()
            sample = self.sensor.measure(self._truth)
        else:
            sample = self.sensor.published(stamp_ns)
        while sample is not None:
            self.publish_sample(sample)
            sample = self.sensor.published(stamp_ns)

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
