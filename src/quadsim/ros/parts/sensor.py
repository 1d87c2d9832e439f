"""What the nodes of simulated sensors share: the truth in, a sample out when one is due."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from quadsim.base.compiled import new_record
from quadsim.base.errors import InputError
from quadsim.base.parameters import flatten
from quadsim.base.records import KINEMATICS
from quadsim.ros.parts.timed_parameter import TimedParameter
from quadsim.ros.parts.truth_input import TruthInput
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.base import QuadsimNode, make_status
from quadsim.ros.runtime.params import (
    ON_RESET,
    SCENE,
    MakeScene,
    declare,
    declare_bool,
    declare_int,
    declare_scene,
    declare_text,
    on_reset,
    taken,
    value_of,
)
from quadsim.ros.runtime.resets import Resets
from quadsim.sensors.devices import load_device, needs_of, simulate
from quadsim.sensors.faults import FaultParams, changes, faults_from_text
from quadsim.sim.log import WARN
from quadsim.world.environment import EnvironmentParams
from quadsim.world.scene.scene import EMPTY_SCENE, Scene

FAULTS = "faults"
#: What a node is built around: the rate that the truth has, the kind of message.
FIXED = {"imu": ("rate_hz",), "lidar": ("channels",)}


def read_faults(text: str, begin_s: float) -> tuple[list[FaultParams], list[tuple[int, str]]]:
    """Faults of a parameter's text, in the flight's time, and when they begin and end.

    Raises:
        InputError: the text is refused.
    """
    faults = [replace(fault, at_s=fault.at_s + begin_s) for fault in faults_from_text(text)]
    return faults, changes(faults)


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
        self._kind = kind
        self.params: Any = declare(self, load_device(kind, device), when=on_reset)
        self.environment = declare(self, EnvironmentParams(), "environment.", on_reset)
        declare_int(
            self, "seed", 1, "of all randomness; each sensor has its own stream", 0, ON_RESET
        )
        self._needs = needs_of(kind, self.params)
        self._make_scene: MakeScene = (
            declare_scene(self) if "scene" in self._needs else lambda _: EMPTY_SCENE
        )
        self._scene = self._make_scene({})
        self.sensor = self._simulate(self.params, self.environment, self._scene, {})
        self._truth = new_record(KINEMATICS)
        self._truth_ns = 0
        self._acting = 0  # faults that have begun and not ended
        words = "what goes wrong, a YAML list"
        self._timed = TimedParameter(self, FAULTS, words, read_faults, self._set_faults)
        reliable = declare_bool(self, "odometry_reliable", True, "ask for a reliable odometry")
        self._input = self.make_input(self._truth, reliable)
        self._resets = Resets(
            self,
            kind,
            lambda: flatten(load_device(kind, device)),
            self._take,
            self._begin_anew,
            FIXED.get(kind, ()),
            simulated=True,
        )
        self.listen(topics.EVENTS, self._resets.hear, raw=False)

    def make_input(self, record: Any, reliable: bool) -> TruthInput:
        """Subscribe to what the sensor rides on."""
        return TruthInput(self, record, self._needs, self._on_truth, reliable)

    def look_around(self, stamp_ns: int) -> None:
        """What is done before a sample is taken."""

    def _simulate(
        self, params: Any, environment: EnvironmentParams, scene: Scene, changed: dict[str, Any]
    ) -> Any:
        """The device with the node's parameters, but for those that change."""
        seed = changed.get("seed", value_of(self, "seed"))
        vehicle = self.get_namespace().strip("/")
        return simulate(self._kind, params, environment, seed, vehicle, scene)

    def _set_faults(self, faults: Sequence[FaultParams]) -> None:
        """Take other faults; those that act end."""
        self.sensor.set_faults(faults)
        if self._acting:
            self._acting = 0
            self._tell_fault(self._truth_ns, "all faults end")

    def _tell_fault(self, stamp_ns: int, words: str) -> None:
        stamp = {"stamp_s": f"{stamp_ns * 1e-9:.3f}"}
        self.events.publish(make_status(WARN, "fault", f"{self.get_name()}: {words}", stamp))

    def _take(self, changed: dict[str, Any], _: bool) -> Callable[[], None]:
        """Make another device, for the flight that begins."""
        if not changed.keys() - {FAULTS}:
            return lambda: None
        params = taken(self, type(self.params), "", changed)
        environment = taken(self, EnvironmentParams, "environment.", changed)
        if needs_of(self._kind, params) != self._needs:
            raise InputError(f"{self._kind} feels something else now: restart the graph")
        in_scene = any(name.startswith(SCENE) for name in changed)
        scene = self._make_scene(changed) if in_scene else self._scene
        sensor = self._simulate(params, environment, scene, changed)

        def apply() -> None:
            self._scene, self.params, self.environment = scene, params, environment
            self.sensor = sensor
            self.make_writers()

        return apply

    def _begin_anew(self, reset_ns: int, _: bool) -> None:
        """Switch the device off and on again, at the start of its stream."""
        self.sensor.reset()
        self._acting = 0
        self._timed.restart(reset_ns)

    def _on_truth(self, stamp_ns: int, read: Callable[[], None]) -> None:
        """Measure when a sample is due; other truths are not even read."""
        self._resets.follow(stamp_ns)
        self._truth_ns = stamp_ns
        for begun_ns, words in self._timed.due(stamp_ns):
            self._acting += 1 if words.endswith("begins") else -1
            self._tell_fault(begun_ns, words)
        if self.sensor.wants(stamp_ns):
            read()
            self.look_around(stamp_ns)
            sample = self.sensor.measure(self._truth)
        else:
            sample = self.sensor.published(stamp_ns)
        while sample is not None:
            self.publish_sample(sample)
            sample = self.sensor.published(stamp_ns)

    @abstractmethod
    def make_writers(self) -> None:
        """Make what writes the messages, by the parameters."""

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
