"""What every sensor model is made of, and how one device is run sample by sample.

A model is a pure compiled step with one signature for all sensors:

``step(states, params, environments, scene, previous, now, white, samples)``

``previous`` and ``now`` are KINEMATICS one sensor interval apart, ``white`` standard normal numbers
from the sensor's own stream, ``scene`` what rays meet. All but these two are arrays of one record:
as a scalar, a record's description is written out anew at each call from Python, which takes 20 us.
The step writes the sample; its stamp, loss and latency are the same for all sensors
(:mod:`quadsim.sensors.delivery`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast, get_args

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import kernel, new_record
from quadsim.base.noise import stream
from quadsim.base.normals import fill_normals, words_of
from quadsim.base.parameters import dtype_of, pack
from quadsim.base.records import KINEMATICS
from quadsim.sensors.delivery import OUTBOX_SIZE, Outbox, collect, prepare, send
from quadsim.sensors.faults import FaultParams, add_fault
from quadsim.sensors.timing import TIMING_WHITE, SensorParams, due
from quadsim.world.environment import EnvironmentParams
from quadsim.world.scene.scene import EMPTY_SCENE, Scene


def nothing_more(params: Any) -> frozenset[str]:
    """A sensor that needs the vehicle's pose and velocity alone."""
    return frozenset()


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
        needs: which of "accel", "motors" and "wind" it feels with these parameters, beside the
            pose and velocity that all have.
    """

    name: str
    slot: Any
    white_count: int
    start: Callable[[Any, Any, np.random.Generator], None]
    step: Callable[..., None]
    channels: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    needs: Callable[[Any], frozenset[str]] = nothing_more

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


class SimulatedSensor:
    """One device on one vehicle, fed with the truth as it comes.

    Args:
        model: the kind of sensor.
        params: its parameters, of ``model.params_type``.
        environment: the world it measures.
        seed: the scenario's.
        vehicle: the vehicle's name.
        scene: what rays meet beside the flat ground.
        faults: what goes wrong, and when.

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
    ) -> None:
        self.model = model
        self.params = params
        self.period_ns = period_ns(params)
        self.gaps = 0
        self.refused = 0
        self.faults = tuple(faults)
        self._environments = np.zeros(1, pack(environment).dtype)
        self._environments[0] = pack(environment)
        self._params = np.zeros(1, pack(params).dtype)
        self._params[0] = pack(params)
        self._scene = scene
        self._seed = seed
        self._vehicle = vehicle
        self._samples: NDArray[np.record] = np.zeros(1, model.sample)
        self._white = np.zeros(model.white_width)
        self._previous: NDArray[np.record] = np.zeros(1, KINEMATICS)
        self._now: NDArray[np.record] = np.zeros(1, KINEMATICS)
        self._outboxes: NDArray[np.record] = np.zeros(1, model.outbox)
        self._on_the_way = self._outboxes["count"]  # a view: reading a record is slow
        self.reset()

    def reset(self) -> None:
        """Switch the device off and on again, at the start of its stream."""
        generator = stream(self._seed, self._vehicle, self.model.name)
        self._states: NDArray[np.record] = np.zeros(1, self.model.state)
        self.model.start(self.state, self.params, generator)
        self._words = words_of(generator)
        self._outboxes[:] = np.zeros(1, self.model.outbox)
        set_faults(self._outboxes[0], self.model, self.params, self.faults)
        self._newest_ns = -1

    def set_faults(self, faults: Sequence[FaultParams]) -> None:
        """Let these faults act instead of those that were set.

        Raises:
            InputError: a fault does not fit the sensor; then all stays as it was.
        """
        trial = new_record(self.model.outbox)
        set_faults(trial, self.model, self.params, faults)
        self.faults = tuple(faults)
        self._outboxes[0]["faults"] = trial["faults"]

    @property
    def state(self) -> np.record:
        """What the device remembers (bias and the like), for tests."""
        return cast(np.record, self._states[0])

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
            self._now[0] = truth
            if self._newest_ns >= 0:
                if stamp_ns // self.period_ns > self._newest_ns // self.period_ns + 1:
                    self.gaps += 1
                self._sample(stamp_ns)
            self._previous, self._now = self._now, self._previous
            self._newest_ns = stamp_ns
        return self.published(stamp_ns)

    def _sample(self, stamp_ns: int) -> None:
        """Take a sample and put it into the outbox."""
        fill_normals(self._words, self._white)
        count = self.model.white_count
        prepare(self._outboxes, stamp_ns, self._white, count)
        self.model.step(
            self._states,
            self._params,
            self._environments,
            self._scene,
            self._previous,
            self._now,
            self._white,
            self._samples,
        )
        send(
            self._outboxes,
            self._params,
            self._samples,
            stamp_ns,
            self.period_ns,
            self._white,
            count,
        )

    def published(self, stamp_ns: int) -> np.record | None:
        """Give the next sample that is published by this time, or None."""
        if self._on_the_way[0] and collect(self._outboxes, stamp_ns, self._samples):
            return cast(np.record, self._samples[0])
        return None
