"""What every sensor model is made of, and how one device is run sample by sample.

A model is a pure compiled step with one signature for all sensors:

``step(state, params, environment, previous, now, white, sample)``

``previous`` and ``now`` are KINEMATICS records one sensor interval apart, ``white`` standard normal
numbers from the sensor's own stream, ``sample`` the record it writes (``sample.stamp_ns`` is the
interval's end).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np

from quadsim.compiled import kernel, new_record
from quadsim.parameters import IsDataclass, pack
from quadsim.records import KINEMATICS
from quadsim.sensors.noise import stream
from quadsim.world.environment import EnvironmentParams


class SensorParams(IsDataclass, Protocol):
    """Parameters that every sensor has."""

    @property
    def rate_hz(self) -> float:
        """Samples a second."""
        ...


@dataclass(frozen=True)
class SensorModel:
    """A kind of sensor.

    Attributes:
        name: its kind, as in topics, files and noise streams.
        params_type: its parameter class.
        state: structured type of what it remembers (bias, mount).
        sample: structured type of what it gives.
        white_count: standard normal numbers for one sample.
        start: fills a state from the parameters and the sensor's stream, when it is switched on.
        step: the compiled model.
    """

    name: str
    params_type: type[Any]
    state: np.dtype[np.record]
    sample: np.dtype[np.record]
    white_count: int
    start: Callable[[np.record, Any, np.random.Generator], None]
    step: Callable[..., None]


@kernel
def read_out(value: float, step: float, limit: float) -> float:
    """Quantise to the nearest count and limit to the range (step 4); 0 switches either off."""
    if step > 0.0:
        value = step * math.floor(value / step + 0.5)
    if limit > 0.0:
        value = min(max(value, -limit), limit)
    return value


@kernel
def due(period_ns: int, previous_ns: int, now_ns: int) -> bool:
    """Whether a multiple of the period lies in (previous, now]."""
    return now_ns // period_ns > previous_ns // period_ns


def period_ns(params: SensorParams) -> int:
    """Time between two samples."""
    return round(1e9 / params.rate_hz)


class SimulatedSensor:
    """One device on one vehicle, fed with the truth as it comes.

    Args:
        model: the kind of sensor.
        params: its parameters, of ``model.params_type``.
        environment: the world it measures.
        seed: the scenario's.
        vehicle: the vehicle's name.
    """

    def __init__(
        self,
        model: SensorModel,
        params: SensorParams,
        environment: EnvironmentParams,
        seed: int,
        vehicle: str,
    ) -> None:
        self.model = model
        self.params = params
        self.period_ns = period_ns(params)
        self.gaps = 0
        self.refused = 0
        self._environment = pack(environment)
        self._params = pack(params)
        self._seed = seed
        self._vehicle = vehicle
        self._sample = new_record(model.sample)
        self._white = np.zeros(model.white_count)
        self._previous = new_record(KINEMATICS)
        self.reset()

    def reset(self) -> None:
        """Switch the device off and on again, at the start of its stream."""
        self._stream = stream(self._seed, self._vehicle, self.model.name)
        self._state = new_record(self.model.state)
        self.model.start(self._state, self.params, self._stream)
        self._newest_ns = -1

    @property
    def state(self) -> np.record:
        """What the device remembers (bias and the like), for tests and faults."""
        return self._state

    def wants(self, stamp_ns: int) -> bool:
        """Whether :meth:`measure` needs the truth of this stamp (a sample is due, or the first)."""
        return self._newest_ns < 0 or due(self.period_ns, self._newest_ns, stamp_ns)

    def measure(self, truth: np.record) -> np.record | None:
        """Take one truth; give a sample when one is due.

        The truth must come at least at the sensor's rate. A stamp that repeats or jumps back is
        refused, a missing interval counted and covered by a longer one.

        Args:
            truth: KINEMATICS record.

        Returns:
            A record of ``model.sample`` (valid until the next call), or None.
        """
        stamp_ns = int(truth.stamp_ns)
        if self._newest_ns >= 0:
            if stamp_ns <= self._newest_ns:
                self.refused += 1
                return None
            if not due(self.period_ns, self._newest_ns, stamp_ns):
                return None
            if stamp_ns // self.period_ns > self._newest_ns // self.period_ns + 1:
                self.gaps += 1
            self._stream.standard_normal(out=self._white)
            self.model.step(
                self._state,
                self._params,
                self._environment,
                self._previous,
                truth,
                self._white,
                self._sample,
            )
        first = self._newest_ns < 0
        self._newest_ns = stamp_ns
        for name in cast("tuple[str, ...]", KINEMATICS.names):
            self._previous[name] = truth[name]
        return None if first else self._sample
