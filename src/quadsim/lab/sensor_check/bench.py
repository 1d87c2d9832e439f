"""A device on the bench: sample by sample in compiled loops, with whatever truth it is shown.

The steps are the sensors' own, as the closed loop and the nodes call them. A truth is a pair of
KINEMATICS one interval apart that is shown again and again: at rest, turning, flying straight on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.transform import Rotation

from quadsim.base.compiled import Records, kernel
from quadsim.base.noise import stream
from quadsim.base.parameters import dtype_of, pack
from quadsim.base.records import KINEMATICS, Kinematics
from quadsim.sensors import SENSORS
from quadsim.sensors.model import SensorModel, start_slot
from quadsim.sensors.slot import AnySlot, Sample, SensorWorld, send
from quadsim.world.environment import EnvironmentParams
from quadsim.world.scene.scene import EMPTY_SCENE, Scene

Samples = NDArray[np.record]
Worlds = Records[EnvironmentParams]
Nows = Records[Kinematics]
Taken = Records[Sample]
Steps = NDArray[np.int64]
White = NDArray[np.float64]

#: Rows of normal numbers that are drawn at once.
BLOCK = 8192

#: Where the bench stands: level, this high over the flat ground.
HEIGHT_M = 1.0


#: The step of a kind, in its copy of :func:`take`.
step = SENSORS["imu"].step


def take(
    slots: AnySlot,
    environments: Worlds,
    scene: Scene,
    nows: Nows,
    steps_ns: Steps,
    white: White,
    samples: Taken,
) -> None:
    """Samples one after the other, each an interval later: what all benches do.

    The clock begins anew with each: a sensor knows intervals alone, and some take years here.
    """
    for k in range(samples.shape[0]):
        nows[0].stamp_ns = steps_ns[k]
        step(slots, SensorWorld(environments, scene), nows, white[k])
        samples[k] = slots[0].sample


def loop_of(model: SensorModel) -> Callable[..., None]:
    """A compiled :func:`take` with the step of a kind; Numba keeps none that is an argument."""
    function = FunctionType(take.__code__, {**globals(), "step": model.step})
    function.__qualname__ = f"take_{model.name}"
    return kernel(function)


#: Compiled loop of each kind of sensor.
LOOPS = {kind: loop_of(model) for kind, model in SENSORS.items()}


@kernel
def send_each(
    slots: AnySlot,
    nows: Records[Kinematics],
    white: NDArray[np.float64],
    stamps_ns: NDArray[np.int64],
    arrivals_ns: NDArray[np.int64],
) -> None:
    """Send a sample each period and write down what becomes of it.

    Args:
        slots: (1,) of the sensor.
        nows: (1,) the truth.
        white: (N, 2) standard normal numbers of the timing.
        stamps_ns: (N,) receives its stamps.
        arrivals_ns: (N,) receives when it is published; -1: never.
    """
    slot, box = slots[0], slots[0].outbox
    for k in range(stamps_ns.shape[0]):
        box.count = 0
        send(slots, nows, (k + 1) * slot.period_ns, white[k], 0)
        stamps_ns[k] = slot.sample.stamp_ns
        arrivals_ns[k] = box.arrival_ns[box.first] if box.count > 0 else -1


@dataclass(frozen=True)
class Truth:
    """What the bench shows a sensor; two instants, between which it moves evenly."""

    previous: NDArray[np.record]
    now: NDArray[np.record]


def truth_at_rest(q_WB: ArrayLike = (1.0, 0.0, 0.0, 0.0), **fields: Any) -> Truth:
    """A truth that does not turn.

    Args:
        q_WB: attitude.
        fields: further fields of KINEMATICS, such as ``v_W``; the place does not change.
    """
    records: NDArray[np.record] = np.zeros(2, KINEMATICS)
    records["q_WB"] = q_WB
    records["p_W"] = (0.0, 0.0, HEIGHT_M)
    for name, value in fields.items():
        records[name] = value
    return Truth(records[:1].copy(), records[1:].copy())


def above(height_m: float, tilt_deg: float = 0.0, towards_deg: float = 0.0) -> Truth:
    """At rest over the ground, tilted about a level axis.

    Args:
        height_m: over the ground.
        tilt_deg: of the vehicle.
        towards_deg: azimuth of the axis.
    """
    axis = np.array([math.cos(math.radians(towards_deg)), math.sin(math.radians(towards_deg)), 0.0])
    turn = Rotation.from_rotvec(math.radians(tilt_deg) * axis)
    return truth_at_rest(np.roll(turn.as_quat(), 1), p_W=(0.0, 0.0, height_m))


class Bench:
    """One device with its own stream of noise for each experiment.

    Args:
        kind: of the device, a key of SENSORS.
        environment: the world it measures.
        seed: of all its streams.
    """

    def __init__(self, kind: str, environment: EnvironmentParams, seed: int = 1) -> None:
        self.model = SENSORS[kind]
        self.environment = environment
        self._environments = np.array([pack(environment.packed_as())])
        self._seed = seed

    def stream(self, experiment: str) -> np.random.Generator:
        """Noise of one experiment; others have their own."""
        return stream(self._seed, f"bench/{experiment}", self.model.name)

    def _slot(self, params: Any, generator: Any, truth: Truth) -> NDArray[np.record]:
        """A device that is switched on."""
        slots: NDArray[np.record] = np.zeros(1, dtype_of(self.model.slot))
        start_slot(slots, self.model, params, generator)
        slots["previous"] = truth.previous
        return slots

    def _run(self, params: Any, truth: Truth, steps_ns: Any, generator: Any) -> Samples:
        samples: Samples = np.zeros(len(steps_ns), self.model.sample)
        slots, now = self._slot(params, generator, truth), truth.now.copy()
        for first in range(0, len(samples), BLOCK):
            part = samples[first : first + BLOCK]
            white = generator.standard_normal((len(part), self.model.white_count))
            LOOPS[self.model.name](
                slots, self._environments, EMPTY_SCENE, now, steps_ns[first : first + BLOCK],
                white, part,
            )  # fmt: skip
        return samples

    def run(
        self,
        params: Any,
        experiment: str,
        count: int,
        truth: Truth | None = None,
        dt_s: float | None = None,
    ) -> Samples:
        """Switch a device on once and let it take samples.

        Args:
            params: of the device.
            experiment: name of its noise.
            count: of samples.
            truth: what it is shown; None: level and at rest.
            dt_s: from one sample to the next; None: its period.

        Returns:
            (count,) records of the model's samples.
        """
        generator = self.stream(experiment)
        step_ns = round(1e9 * (1.0 / params.rate_hz if dt_s is None else dt_s))
        steps_ns = np.full(count, step_ns, np.int64)
        return self._run(params, truth or truth_at_rest(), steps_ns, generator)

    def switch_on(
        self,
        params: Any,
        experiment: str,
        count: int,
        truth: Truth | Sequence[Truth] | None = None,
        each: int = 1,
    ) -> Samples:
        """Switch a device on again and again.

        Args:
            params, experiment: as of :meth:`run`.
            count: of switch-ons.
            truth: what it is shown, or what each one is shown.
            each: samples after each.

        Returns:
            (count, each) records.
        """
        generator = self.stream(experiment)
        shown = truth or truth_at_rest()
        truths = [shown] * count if isinstance(shown, Truth) else shown
        samples: Samples = np.zeros((count, each), self.model.sample)
        steps_ns = np.full(each, round(1e9 / params.rate_hz), np.int64)
        for k in range(count):
            samples[k] = self._run(params, truths[k], steps_ns, generator)
        return samples

    def deliveries(
        self, params: Any, experiment: str, count: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """What becomes of samples on their way out.

        Returns:
            (count,) times at which they were taken, stamps that they say, and times at which they
            are published (-1: never), ns.
        """
        period_ns = round(1e9 / params.rate_hz)
        taken_ns = period_ns * np.arange(1, count + 1)
        stamps_ns, arrivals_ns = np.zeros((2, count), np.int64)
        slots = self._slot(params, self.stream("switch-on"), truth_at_rest())
        white = self.stream(experiment).standard_normal((count, 2))
        send_each(slots, truth_at_rest().now, white, stamps_ns, arrivals_ns)
        return taken_ns, stamps_ns, arrivals_ns


def alone(params: Any, *names: str, **others: Any) -> Any:
    """A device with only some of its figures: all else is as without errors.

    Args:
        params: of the device.
        names: what stays as it is, as the rate does; of nested parameters by dotted names.
        others: what is set to something else.
    """
    base: dict[str, Any] = {"rate_hz": params.rate_hz}
    for name in names:
        first, _, rest = name.partition(".")
        value = getattr(params, first)
        if rest:
            value = replace(base.get(first, type(value)()), **{rest: getattr(value, rest)})
        base[first] = value
    return replace(type(params)(), **base | others)
