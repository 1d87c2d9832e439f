"""What every sensor model is made of, and how one device is run sample by sample.

A model is a pure compiled step with one signature for all sensors:

``step(slots, world, nows, white)``

It writes the sample of a :class:`~quadsim.sensors.slot.Slot` from the truth before (``previous``)
and now, KINEMATICS one sensor interval apart. ``white`` are standard normal numbers from the
sensor's own stream, ``scene`` is what rays meet, and the others are arrays of one record. Stamp,
loss and latency are the same for all sensors (:mod:`quadsim.sensors.slot`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quadsim.base.compiled import kernel, new_record, plain, portable
from quadsim.base.noise import stream
from quadsim.base.normals import fill_normals, words_of
from quadsim.base.parameters import dtype_of, pack
from quadsim.base.records import KINEMATICS
from quadsim.sensors import SensorTopic, topics_of
from quadsim.sensors.error_terms import TIMING_WHITE, SensorParams, due
from quadsim.sensors.faults import FaultParams, add_fault
from quadsim.sensors.slot import OUTBOX_SIZE, Outbox, SensorWorld, deliver, sense
from quadsim.wire.samples import SampleMessages
from quadsim.world.environment import EnvironmentParams
from quadsim.world.scene.scene import EMPTY_SCENE, Scene


def nothing_more(params: Any) -> frozenset[str]:
    """A sensor that needs the vehicle's pose and velocity alone."""
    return frozenset()


def nothing_told(params: Any, environment: EnvironmentParams) -> dict[str, Any]:
    """A sensor of which the estimator knows nothing but its messages."""
    return {}


def nothing_stated(params: Any, environment: EnvironmentParams) -> tuple[ArrayLike, ...]:
    """A sensor of which each sample states its variance, or that states none."""
    return ()


@portable
def never(value: float) -> bool:
    """What measures whatever it reads."""
    return False


@dataclass(frozen=True)
class Reading:
    """A measurement that filters take of a sample.

    Attributes:
        message: the kind of the filter's message, as of ``estimation.eskf.measurement_buffer``.
        values: field of the sample that holds the numbers.
        variance: field of the sample that holds their variances; empty: what ``stated`` of the
            model gives.
        parts: quantities that the numbers are of, each with its own covariance.
        rows: of the covariance of a quantity; 0: as many as it has numbers.
        absent: tells by the first number whether nothing was measured.
        linear: whether the linear filter takes it in the closed loop.
    """

    message: str
    values: str = "values"
    variance: str = ""
    parts: int = 1
    rows: int = 0
    absent: Callable[[float], bool] = never
    linear: bool = False


@dataclass(frozen=True)
class SensorModel:
    """A kind of sensor.

    Attributes:
        name: its kind, as in topics, files and noise streams.
        slot: Slot of its parameter class, of what it remembers (bias, mount), and of its sample.
        white_count: standard normal numbers for one sample.
        start: fills a state from the parameters and the sensor's stream, when it is switched on.
        step: the compiled model.
        channels: parts of a sample that a fault can act on: first index in ``values`` and count.
        needs: which of "accel", "motors", "wind" and "scene" it feels with these parameters, apart
            from the pose and velocity that all have.
        readings: what filters take of a sample.
        stated: variances of each sample by parameters and environment: (n,) of each quantity.
        told: keys of the estimator's parameters that an installer knows of a device: where it sits,
            and what its file states of errors that messages do not.
        only_for: the filter for which alone it flies; empty: for all.
        messages: for each topic of the table what makes its messages, by frame, parameters and
            environment.
        health: what a node reports of parameters and newest sample (None before it): level, words
            and values.
        fixed: parameters of a node that change with a restart only.
        carried: whether any vehicle, a real one too, can carry the simulated device.
    """

    name: str
    slot: Any
    white_count: int
    start: Callable[[Any, Any, np.random.Generator], None]
    step: Callable[..., None]
    channels: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    needs: Callable[[Any], frozenset[str]] = nothing_more
    readings: tuple[Reading, ...] = ()
    stated: Callable[[Any, EnvironmentParams], tuple[ArrayLike, ...]] = nothing_stated
    told: Callable[[Any, EnvironmentParams], dict[str, Any]] = nothing_told
    only_for: str = ""
    messages: tuple[Callable[[str, Any, EnvironmentParams], SampleMessages], ...] = ()
    health: Callable[[Any, Any], tuple[int, str, dict[str, Any]]] | None = None
    fixed: tuple[str, ...] = ()
    carried: bool = False

    def outputs(
        self, params: Any, environment: EnvironmentParams, prefix: str = "", device: str = ""
    ) -> list[tuple[SensorTopic, SampleMessages]]:
        """Topics of a device with their messages; frames have the prefix of the vehicle."""
        return [
            (topic, make(topic.frame_of(prefix), params, environment))
            for topic, make in zip(topics_of(device or self.name), self.messages, strict=True)
        ]

    def stated_covariance(self, params: Any, environment: EnvironmentParams) -> NDArray[np.float64]:
        """(36,) what ``stated`` gives as matrices, row-major, one behind the other."""
        matrices = [np.diag(of).ravel() for of in self.stated(params, environment)]
        return np.resize(np.concatenate([*matrices, np.zeros(36)]), 36)

    @property
    def white_width(self) -> int:
        """Normal numbers that one sample takes from the stream: the model's and the timing's."""
        return self.white_count + TIMING_WHITE

    @property
    def params_type(self) -> type[Any]:
        """Its parameter class."""
        found: type[Any] = get_args(self.slot)[0]
        return found

    @property
    def state(self) -> np.dtype[np.record]:
        """Structured type of what it remembers."""
        return dtype_of(get_args(self.slot)[1])

    @property
    def sample(self) -> np.dtype[np.record]:
        """Structured type of what it gives."""
        return dtype_of(get_args(self.slot)[2])

    @property
    def outbox(self) -> np.dtype[np.record]:
        """Structured type of its outbox."""
        kind: Any = Outbox
        return dtype_of(kind[get_args(self.slot)[2]])

    def all_channels(self) -> dict[str, tuple[int, int]]:
        """Its channels, and the whole under the empty name."""
        width = self.sample["values"].shape[0]
        return {"": (0, width), **self.channels}


@kernel
def read_out(value: float, step: float, limit: float) -> float:
    """Quantise to the nearest count and limit to the range (step 4); 0 switches either off."""
    if step > 0.0:
        value = step * np.floor(value / step + 0.5)
    if limit > 0.0:
        value = min(max(value, -limit), limit)
    return value


def period_ns(params: SensorParams) -> int:
    """Time between two samples."""
    return round(1e9 / params.rate_hz)


def longest_delay_s(params: SensorParams) -> float:
    """Delay that a fault may add to the latency before the outbox is full."""
    return max(0.0, (OUTBOX_SIZE - 1) / params.rate_hz - params.latency_s)


def set_faults(
    outbox: Any, model: SensorModel, params: SensorParams, faults: Sequence[FaultParams]
) -> None:
    """Write the faults of a sensor into its outbox, instead of those that were there.

    Raises:
        InputError: a fault that does not fit, by its place in the list.
    """
    outbox["faults"]["count"] = 0
    channels, delay_s = model.all_channels(), longest_delay_s(params)
    for k, fault in enumerate(faults):
        add_fault(outbox["faults"], fault, model.name, channels, delay_s, f"faults[{k}]: ")


def start_slot(
    slots: NDArray[np.record],
    model: SensorModel,
    params: SensorParams,
    generator: np.random.Generator,
    faults: Sequence[FaultParams] = (),
) -> None:
    """Switch a device on.

    Args:
        slots: (1,) of the device.
        model: the kind of sensor.
        params: its parameters.
        generator: its stream.
        faults: what goes wrong, and when.

    Raises:
        InputError: a fault does not fit the sensor.
    """
    slots[:] = np.zeros(1, slots.dtype)
    slot: Any = slots[0]
    slot["period_ns"], slot["params"] = period_ns(params), pack(params)
    model.start(slot["state"], params, generator)
    set_faults(slot["outbox"], model, params, faults)


class Readings:
    """What a filter takes of recorded samples: for callers in Python, one by one.

    Args:
        model: their kind.
        samples: (N,) that are recorded.
        stated: (36,) of the device.
    """

    def __init__(
        self, model: SensorModel, samples: NDArray[np.record], stated: NDArray[np.float64]
    ) -> None:
        self.stamps_ns = samples["stamp_ns"]
        # views: reading a record is slow
        self._columns = [
            (
                each,
                samples[each.values].reshape(len(samples), each.parts, -1),
                samples[each.variance].reshape(len(samples), -1) if each.variance else None,
            )
            for each in model.readings
        ]
        self._stated = stated

    def at(self, i: int) -> Iterator[tuple[str, int, tuple[Any, ...]]]:
        """Messages of the ``i``-th sample: kind, stamp, then values and (n, n) covariances.

        One number is a float, and so is its variance.
        """
        stamp_ns = self.stamps_ns.item(i)
        for reading, values, variances in self._columns:
            if reading.absent(values.item(i, 0, 0)):
                continue
            parts, size = values.shape[1:]
            if variances is not None:
                covariances = np.diag(variances[i])[None]
            else:
                rows = reading.rows or size
                covariances = self._stated[: parts * rows * rows].reshape(parts, rows, rows)
            if size == 1:
                yield reading.message, stamp_ns, (values.item(i, 0, 0), covariances.item())
            else:
                yield reading.message, stamp_ns, (*values[i], *covariances)


class SimulatedSensor:
    """One device on one vehicle, fed with the truth as it comes.

    Args:
        model: the kind of sensor.
        params: its parameters, of ``model.params_type``.
        environment: the world it measures.
        seed: the scenario's.
        vehicle: the vehicle's name.
        scene: what rays meet on the flat ground.
        faults: what goes wrong, and when.
        device: its name in the suite, of which its noise depends; empty: its kind.

    Raises:
        InputError: a fault does not fit the sensor.
    """

    def __init__(
        self,
        model: SensorModel,
        params: SensorParams,
        environment: EnvironmentParams,
        seed: int,
        vehicle: str,
        scene: Scene = EMPTY_SCENE,
        faults: Sequence[FaultParams] = (),
        device: str = "",
    ) -> None:
        self.model, self._name = model, device or model.name
        self.params = params
        self.period_ns = period_ns(params)
        self.gaps = 0
        self.refused = 0
        self.faults = tuple(faults)
        environments: NDArray[np.record] = np.zeros(1, dtype_of(type(environment)))
        environments[0] = pack(environment)
        self._world = SensorWorld(environments, scene)
        self._seed = seed
        self._vehicle = vehicle
        self._white = np.zeros(model.white_width)
        self._now: NDArray[np.record] = np.zeros(1, KINEMATICS)
        self._slots: NDArray[np.record] = np.zeros(1, dtype_of(model.slot))
        # views: reading a record is slow
        self._on_the_way = self._slots["outbox"]["count"]
        self._previous, self._sample = self._slots["previous"], self._slots["sample"]
        self._no_log = self._sample[:0]
        self.reset()

    def reset(self) -> None:
        """Switch the device off and on again, at the start of its stream."""
        generator = stream(self._seed, self._vehicle, self._name)
        start_slot(self._slots, self.model, self.params, generator, self.faults)
        self._words = words_of(generator)
        self._newest_ns = -1

    def set_faults(self, faults: Sequence[FaultParams]) -> None:
        """Let these faults act instead of those that were set.

        Raises:
            InputError: a fault does not fit the sensor; then all stays as it was.
        """
        trial = new_record(self.model.outbox)
        set_faults(trial, self.model, self.params, faults)
        self.faults = tuple(faults)
        self._slots["outbox"]["faults"] = trial["faults"]

    def see(self, scene: Scene) -> None:
        """Cast rays into this scene from now on: something in it has moved."""
        self._world = self._world._replace(scene=scene)

    @property
    def state(self) -> np.record:
        """What the device remembers (bias and the like), for tests."""
        return cast(np.record, self._slots["state"][0])

    def wants(self, stamp_ns: int) -> bool:
        """Whether :meth:`measure` needs the truth of this stamp (a sample is due, or the first)."""
        return self._newest_ns < 0 or due(self.period_ns, self._newest_ns, stamp_ns)

    def measure(self, truth: np.record) -> np.record | None:
        """Take one truth; give a sample when one is published at its stamp.

        The truth must come at least at the sensor's rate. A stamp that repeats or jumps back is
        refused, a missing interval counted and covered by a longer one.

        Args:
            truth: KINEMATICS record.

        Returns:
            A record of ``model.sample`` (valid until the next call), or None. Where latency ends
            for several at once, :meth:`published` gives the others.
        """
        stamp_ns = int(truth["stamp_ns"])
        if self._newest_ns >= 0 and stamp_ns <= self._newest_ns:
            self.refused += 1
            return None
        if self.wants(stamp_ns):
            if self._newest_ns < 0:
                self._previous[0] = truth
            else:
                if stamp_ns // self.period_ns > self._newest_ns // self.period_ns + 1:
                    self.gaps += 1
                self._now[0] = truth
                fill_normals(self._words, self._white)
                plain(sense)(
                    self.model.step,
                    self._slots,
                    self._world,
                    self._now,
                    stamp_ns,
                    self._white,
                    self.model.white_count,
                )
            self._newest_ns = stamp_ns
        return self.published(stamp_ns)

    def published(self, stamp_ns: int) -> np.record | None:
        """Give the next sample that is published by this time, or None."""
        if self._on_the_way[0] and deliver(self._slots, stamp_ns, self._no_log):
            return cast(np.record, self._sample[0])
        return None
