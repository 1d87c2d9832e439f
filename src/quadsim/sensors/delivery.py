"""From a sample taken to a sample published: stamp, faults, loss, latency.

Every sensor has an OUTBOX: the faults that are set, and the samples that are on their way.
"""

from __future__ import annotations

from typing import Annotated, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Array, Record, Records, kernel
from quadsim.base.records import Kinematics
from quadsim.sensors.faults import (
    FaultList,
    amplify,
    delay_s,
    disturb,
    in_outage,
    loss_probability,
)
from quadsim.sensors.timing import SensorParams, is_lost, stamp_of_sample

#: Samples that can be on their way at once; latency and delay are refused beyond it.
OUTBOX_SIZE = 256


class Sample(Record):
    """What a sensor gives: numbers side by side, which are ``values`` too, and more about them.

    Faults act on ``values``, which a kind of sensor places ``Over`` its first number.
    """

    stamp_ns: int
    values: Array


P = TypeVar("P", bound=SensorParams)
S = TypeVar("S", bound=Record)
M = TypeVar("M", bound=Sample)


class Outbox(Record, Generic[M]):
    """The faults of a sensor, and a ring of its samples in the order of their arrival."""

    faults: FaultList
    first: int
    count: int
    overflows: int
    newest_arrival_ns: int
    arrival_ns: Annotated[NDArray[np.int64], OUTBOX_SIZE]
    samples: Annotated[Records[M], OUTBOX_SIZE]


class Slot(Record, Generic[P, S, M]):
    """One device: its parameters, what it remembers, and its samples.

    Its step, and the functions below, take an array of one: that is what goes into compiled code
    fast, from Python too.
    """

    period_ns: int  # 0: there is none
    params: P
    state: S
    previous: Kinematics  # the truth at the newest sample
    sample: M
    outbox: Outbox[M]
    count: int  # samples published


@kernel
def prepare(
    outboxes: Records[Outbox[M]], now_ns: int, white: NDArray[np.float64], count: int
) -> None:
    """Before a sample is taken: make its noise louder where a fault does.

    Args:
        outboxes: (1,) of the sensor.
        now_ns: when it will be taken.
        white: its normal numbers, changed in place.
        count: how many of them are the model's own.
    """
    if outboxes[0].faults.count > 0:
        amplify(outboxes[0].faults, now_ns, white, count)


@kernel
def send(
    outboxes: Records[Outbox[M]],
    params: Records[SensorParams],
    samples: Records[M],
    now_ns: int,
    period_ns: int,
    white: NDArray[np.float64],
    count: int,
) -> None:
    """Stamp a sample that was taken now, let faults act on it, lose it or put it on its way.

    Args:
        outboxes: (1,) of the sensor.
        params: (1,) of the sensor.
        samples: (1,) the sample.
        now_ns: when it was taken.
        period_ns: of the sensor.
        white: normal numbers: the model's own, then those of the timing.
        count: how many are the model's own.
    """
    box, device, sample = outboxes[0], params[0], samples[0]
    probability, latency_s = device.loss_probability, device.latency_s
    sample.stamp_ns = stamp_of_sample(device, now_ns, period_ns, white[count])
    if box.faults.count > 0:
        probability = loss_probability(box.faults, now_ns, probability)
        latency_s += delay_s(box.faults, now_ns)
        disturb(box.faults, now_ns, sample.values)
        if in_outage(box.faults, now_ns):
            for i in range(sample.values.size):
                sample.values[i] = np.nan
    if is_lost(probability, white[count + 1]):
        return
    if box.count >= OUTBOX_SIZE:
        box.overflows += 1
        return
    # in order: what was taken later is not published earlier
    arrival_ns = max(now_ns + round(latency_s * 1e9), box.newest_arrival_ns)
    box.newest_arrival_ns = arrival_ns
    at = (box.first + box.count) % OUTBOX_SIZE
    box.arrival_ns[at] = arrival_ns
    box.samples[at] = sample
    box.count += 1


@kernel
def collect(outboxes: Records[Outbox[M]], now_ns: int, samples: Records[M]) -> bool:
    """Take the oldest sample out of the outbox if it has arrived by now.

    Args:
        outboxes: (1,) of the sensor.
        now_ns: the time.
        samples: (1,) receives it.
    """
    box = outboxes[0]
    if box.count == 0 or box.arrival_ns[box.first] > now_ns:
        return False
    samples[0] = box.samples[box.first]
    box.first = (box.first + 1) % OUTBOX_SIZE
    box.count -= 1
    return True
