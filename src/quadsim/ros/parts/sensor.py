"""The node of a simulated sensor: takes the true motion and publishes the samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from rclpy.context import Context

from quadsim.base.compiled import new_record
from quadsim.base.errors import InputError
from quadsim.base.levels import WARN
from quadsim.base.parameters import flatten
from quadsim.base.records import KINEMATICS
from quadsim.ros.parts.timed_parameter import TimedParameter
from quadsim.ros.parts.truth_input import TruthInput
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.base import QuadsimNode, make_event
from quadsim.ros.runtime.params import (
    ON_RESET,
    current,
    declare,
    declare_one,
    on_reset,
    value_of,
)
from quadsim.ros.runtime.resets import Resets
from quadsim.ros.runtime.topics import Topic
from quadsim.sensors import SECOND
from quadsim.sensors.device_file import read_device
from quadsim.sensors.faults import FaultParams, fault_changes, faults_from_text
from quadsim.world.environment import EnvironmentParams
from quadsim.world.scene.scene import EMPTY_SCENE, Scene

if TYPE_CHECKING:
    from quadsim.ros.parts.scene_params import DeclaredScene

FAULTS = "faults"
#: Gives the message of a sample, as bytes or as an object; None publishes nothing.
Write = Callable[[Any], Any]
#: Topics, and what makes the message of a sample for each.
Messages = Sequence[tuple[Topic, Write]]
#: What a node adds to its diagnostics: level, message and values.
Health = tuple[int, str, dict[str, Any]]


def _declared_scene(node: QuadsimNode) -> DeclaredScene:
    from quadsim.ros.parts.scene_params import DeclaredScene

    return DeclaredScene(node)


@dataclass(frozen=True)
class SensorKind:
    """What a node of a kind of sensor publishes, and from which model.

    Attributes:
        name: key of :data:`quadsim.sensors.DEVICES`.
        device: default file of ``config/sensors``.
        params_type: parameter class.
        needs: what the sensor feels with these parameters, as of ``SensorModel``.
        simulate: makes the device from parameters, environment, seed, vehicle and scene.
        messages: topics, and what makes the message of a sample for each; called again whenever
            the parameters have changed, always with the same topics.
        needed: whether the graph is incomplete while nobody listens.
        fixed: parameters that change with a restart only.
        platform: makes what carries the sensor, see :mod:`quadsim.ros.parts.sensor_nodes`; None is
            the simulated vehicle.
        health: what it reports of the last sample, apart from gaps.
        twice: whether a vehicle may carry two.
    """

    name: str
    device: str
    params_type: type[Any]
    needs: Callable[[Any], frozenset[str]]
    simulate: Callable[..., Any]
    messages: Callable[[SensorNode], Messages]
    needed: bool = True
    fixed: tuple[str, ...] = ()
    platform: Callable[[SensorNode], Any] | None = None
    health: Callable[[SensorNode], Health] | None = None
    twice: bool = False

    def make(self, context: Context, **kwargs: Any) -> SensorNode:
        """Make the node in a context; keyword arguments as of :class:`QuadsimNode`."""
        return SensorNode(self, context=context, **kwargs)


def read_faults(text: str, begin_s: float) -> tuple[list[FaultParams], list[tuple[int, str]]]:
    """Faults of a parameter's text, in the flight's time, and when they begin and end.

    Raises:
        InputError: the text is refused.
    """
    faults = [replace(fault, at_s=fault.at_s + begin_s) for fault in faults_from_text(text)]
    return faults, fault_changes(faults)


class SensorNode(QuadsimNode):
    """A node around one simulated sensor, or a lidar.

    Parameters: ``device`` (a file of ``config/sensors``), every field of the sensor's parameters,
    ``environment.*``, ``world``, ``terrain.*``, ``seed``, ``odometry_reliable``, ``faults``. The
    last can be set in flight: a YAML list of faults, or one, whose ``at_s`` then counts from now.

    Args:
        kind: what it is and publishes.
        kwargs: as of :class:`QuadsimNode`.
    """

    def __init__(self, kind: SensorKind, **kwargs: Any) -> None:
        super().__init__(kind.name, **kwargs)
        device = declare_one(self, "device", kind.device, "a file of config/sensors, or a path")
        self._kind = kind
        words = "the second of its kind on the vehicle"
        self.second = kind.twice and declare_one(self, "second", False, words)
        read = partial(read_device, kind.name, kind.params_type, device)
        self.params: Any = declare(
            self, read(), when=lambda name: "" if name in kind.fixed else ON_RESET
        )
        self.environment = declare(self, EnvironmentParams(), "environment.", on_reset)
        declare_one(
            self, "seed", 1, "of all randomness; each sensor has its own stream", ON_RESET, ge=0
        )
        self.needs = kind.needs(self.params)
        self._scenes = _declared_scene(self) if "scene" in self.needs else None
        self.scene = self._still = self._scenes({}) if self._scenes else EMPTY_SCENE
        self.sensor = self._simulate(self.params, self.environment, self.scene, {})
        self.truth = new_record(KINEMATICS)
        self.sample: Any = None
        self._truth_ns = 0
        self._acting = 0  # faults that have begun and not ended
        words = "what goes wrong, a YAML list"
        self._timed = TimedParameter(self, FAULTS, words, read_faults, self._set_faults)
        reliable = declare_one(self, "odometry_reliable", True, "ask for a reliable odometry")
        self.platform: Any = kind.platform(self) if kind.platform else None
        self._input = (
            self.platform.listen(reliable)
            if self.platform
            else TruthInput(self, self.truth, self.needs, self.on_truth, reliable)
        )
        self._resets = Resets(
            self,
            kind.name,
            lambda: flatten(read()),
            self._take,
            self._restart,
            simulated=True,
        )
        self.listen(topics.EVENTS, self._resets.hear, raw=False)
        if self._scenes:
            self._scenes.hear_spawned(self._see_spawned)
        messages = kind.messages(self)
        self._outputs = [self.offer(topic, needed=kind.needed) for topic, _ in messages]
        self._writers = [write for _, write in messages]

    def _simulate(
        self, params: Any, environment: EnvironmentParams, scene: Scene, changed: dict[str, Any]
    ) -> Any:
        """The device with the node's parameters, but for those that change."""
        seed = changed.get("seed", value_of(self, "seed"))
        vehicle = self.get_namespace().strip("/")
        more = {"device": self._kind.name + SECOND} if self.second else {}
        return self._kind.simulate(params, environment, seed, vehicle, scene, **more)

    def _set_faults(self, faults: Sequence[FaultParams]) -> None:
        """Take other faults; those that act end."""
        self.sensor.set_faults(faults)
        if self._acting:
            self._acting = 0
            self._tell_fault(self._truth_ns, "all faults end")

    def _tell_fault(self, stamp_ns: int, words: str) -> None:
        self.events.publish(make_event(stamp_ns, WARN, "fault", f"{self.get_name()}: {words}"))

    def _take(self, changed: dict[str, Any], _: bool) -> Callable[[], None]:
        """Make another device, for the flight that begins."""
        if not changed.keys() - {FAULTS}:
            return lambda: None
        params = current(self, type(self.params), "", changed)
        environment = current(self, EnvironmentParams, "environment.", changed)
        if self._kind.needs(params) != self.needs:
            raise InputError(f"{self._kind.name} feels something else now: restart the graph")
        scene = self._scenes(changed) if self._scenes else self._still
        sensor = self._simulate(params, environment, scene, changed)

        def apply() -> None:
            self._still, self.params, self.environment = scene, params, environment
            self.sensor = sensor
            self._see_spawned()
            self._writers = [write for _, write in self._kind.messages(self)]

        return apply

    def _see_spawned(self) -> None:
        """See what is spawned, too."""
        if self._scenes:
            self.scene = self._scenes.with_spawned(self._still)
            self.sensor.see(self.scene)

    def _restart(self, reset_ns: int, _: bool) -> None:
        """Switch the device off and on again, at the start of its stream."""
        self.sensor.reset()
        self._acting = 0
        self._timed.restart(reset_ns)

    def on_truth(self, stamp_ns: int, read: Callable[[], None]) -> None:
        """Measure when a sample is due; other truths are not even read."""
        self._resets.follow(stamp_ns)
        self._truth_ns = stamp_ns
        for begun_ns, words in self._timed.due(stamp_ns):
            self._acting += 1 if words.endswith("begins") else -1
            self._tell_fault(begun_ns, words)
        if self.sensor.wants(stamp_ns):
            read()
            if self.platform:
                self.platform.prepare(stamp_ns)
            sample = self.sensor.measure(self.truth)
        else:
            sample = self.sensor.published(stamp_ns)
        while sample is not None:
            self._publish(sample)
            sample = self.sensor.published(stamp_ns)

    def _publish(self, sample: Any) -> None:
        self.sample = sample
        for publisher, write in zip(self._outputs, self._writers, strict=True):
            message = write(sample)
            if message is not None:
                publisher.publish(message)

    def health(self) -> Health:
        """Gaps and repeats in the truth, and what the kind of sensor adds."""
        gaps, refused = self.sensor.gaps, self.sensor.refused
        level, message = (1, "gaps in the truth") if gaps else (0, "running")
        values = {"gaps": gaps, "repeats": refused}
        if self._kind.health is None:
            return level, message, values
        other_level, other_message, more = self._kind.health(self)
        if other_level:
            level, message = max(level, other_level), other_message
        return level, message, values | more
