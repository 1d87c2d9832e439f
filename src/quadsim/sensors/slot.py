"""One device of a vehicle: a sample is taken, stamped, disturbed by faults, lost or delivered late.

All kinds of sensors are run by :func:`sense` and :func:`deliver`, wherever they are simulated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Array, Record, Records, kernel, template
from quadsim.base.records import Kinematics
from quadsim.sensors.error_terms import SensorParams, is_lost, stamp_of_sample
from quadsim.sensors.faults import (
    FaultList,
    amplify,
    apply_faults,
    fault_delay_s,
    in_outage,
    loss_probability,
)
from quadsim.world.environment import EnvironmentParams
from quadsim.world.scene.scene import Scene

#: Samples that can be on their way at once; latency and delay are refused beyond it.
OUTBOX_SIZE = 256


class Sample(Protocol):
    """What the record of a sample has: numbers side by side, which are ``values`` too, and more.

    Faults act on ``values``, which a kind of sensor places ``Over`` its first number.
    """

    stamp_ns: int
    values: Array


class SensorWorld(NamedTuple):
    """What sensors measure other than the vehicle: (1,) the environment, and what rays meet."""

    environments: Records[EnvironmentParams]
    scene: Scene


P = TypeVar("P", bound=SensorParams)
S = TypeVar("S", bound=Record)
M = TypeVar("M", bound=Sample)


class Outbox(Record, Generic[M]):
    """The faults of a sensor, and a ring of its samples in the order of their arrival."""

    faults: FaultList
    first: int
    count: int
    newest_arrival_ns: int
    arrival_ns: Annotated[NDArray[np.int64], OUTBOX_SIZE]
    samples: Annotated[Records[M], OUTBOX_SIZE]


class Slot(Record, Generic[P, S, M]):
    """One device: its parameters, what it remembers, and its samples.

    The functions below take an array of one slot. As a scalar a record's description is written
    out anew at each call from Python, which takes 20 us.
    """

    period_ns: int
    params: P
    stated: Annotated[Array, 36]  # covariances that messages state of every sample, row-major
    state: S
    previous: Kinematics  # the truth at the newest sample
    sample: M
    outbox: Outbox[M]
    count: int  # samples published


#: An array of one slot, of any kind of device.
AnySlot = Records[Slot[Any, Any, Any]]


@kernel
def send(slots: AnySlot, nows: Records[Kinematics], now_ns: int, white: Array, count: int) -> None:
    """Stamp a sample that was taken, let faults act on it, lose it or put it on its way."""
    slot, sample = slots[0], slots[0].sample
    box, faults = slot.outbox, slot.outbox.faults
    slot.previous = nows[0]
    probability, latency_s = slot.params.loss_probability, slot.params.latency_s
    sample.stamp_ns = stamp_of_sample(
        slot.params.stamp_jitter_s, now_ns, slot.period_ns, white[count]
    )
    if faults.count > 0:
        probability = loss_probability(faults, now_ns, probability)
        latency_s += fault_delay_s(faults, now_ns)
        apply_faults(faults, now_ns, sample.values)
        if in_outage(faults, now_ns):
            for i in range(sample.values.size):
                sample.values[i] = np.nan
    if is_lost(probability, white[count + 1]):
        return
    if box.count >= OUTBOX_SIZE:
        return
    # in order: what was taken later is not published earlier
    arrival_ns = max(now_ns + round(latency_s * 1e9), box.newest_arrival_ns)
    box.newest_arrival_ns = arrival_ns
    at = (box.first + box.count) % OUTBOX_SIZE
    box.arrival_ns[at] = arrival_ns
    box.samples[at] = sample
    box.count += 1


@template
def sense(
    step: Callable[..., None],
    slots: AnySlot,
    world: SensorWorld,
    nows: Records[Kinematics],
    now_ns: int,
    white: Array,
    count: int,
) -> None:
    """Take a sample and put it on its way.

    Args:
        step: the model's, see :class:`quadsim.sensors.model.SensorModel`.
        slots: (1,) of the device.
        world: that it measures.
        nows: (1,) the truth.
        now_ns: its stamp.
        white: standard normal numbers: the model's own, then those of the timing.
        count: how many are the model's own.
    """
    if slots[0].outbox.faults.count > 0:
        amplify(slots[0].outbox.faults, now_ns, white, count)
    step(slots, world, nows, white)
    send(slots, nows, now_ns, white, count)


@kernel
def deliver(slots: AnySlot, now_ns: int, log: Records[Sample]) -> bool:
    """Take the oldest sample that has arrived by now out of the outbox, if there is one.

    Args:
        slots: (1,) of the device, whose ``sample`` is written and counted.
        now_ns: the time.
        log: (rows,) where the sample is written too, as far as there is room.
    """
    slot, box = slots[0], slots[0].outbox
    if box.count == 0 or box.arrival_ns[box.first] > now_ns:
        return False
    slot.sample = box.samples[box.first]
    box.first = (box.first + 1) % OUTBOX_SIZE
    box.count -= 1
    if slot.count < log.shape[0]:
        log[slot.count] = slot.sample
    slot.count += 1
    return True
