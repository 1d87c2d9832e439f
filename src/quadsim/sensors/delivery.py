"""From a sample taken to a sample published: stamp, faults, loss, latency.

Every sensor has an OUTBOX: the faults that are set, and the samples that are on their way.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import kernel, record_dtype
from quadsim.sensors.faults import (
    FAULT_LIST,
    amplify,
    delay_s,
    disturb,
    in_outage,
    loss_probability,
)
from quadsim.sensors.timing import is_lost, stamp_of_sample

#: Samples that can be on their way at once; latency and delay are refused beyond it.
OUTBOX_SIZE = 256


def sample_dtype(
    numbers: list[tuple[str, int]], further: list[tuple[str, int]] | None = None
) -> np.dtype[np.record]:
    """Structured type of a sample.

    Args:
        numbers: name and length (1: a scalar) of what is measured, all float64. They lie side by
            side, and ``values`` is all of them as one array, for the faults.
        further: what is said beside it, which no fault changes.
    """
    names, formats, offsets = ["stamp_ns"], ["i8"], [0]
    at = 8
    for name, length in [*numbers, *(further or [])]:
        names.append(name)
        formats.append(f"({length},)f8" if length > 1 else "f8")
        offsets.append(at)
        at += 8 * length
    width = sum(length for _, length in numbers)
    names.append("values")
    formats.append(f"({width},)f8")
    offsets.append(8)
    plain: Any = np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": at})
    return cast("np.dtype[np.record]", np.dtype((np.record, plain)))


def outbox_dtype(sample: np.dtype[np.record]) -> np.dtype[np.record]:
    """Structured type of a sensor's outbox: a ring of samples in the order of their arrival."""
    return record_dtype(
        [
            ("faults", FAULT_LIST),
            ("first", np.int64),
            ("count", np.int64),
            ("overflows", np.int64),
            ("newest_arrival_ns", np.int64),
            ("arrival_ns", np.int64, (OUTBOX_SIZE,)),
            ("samples", sample, (OUTBOX_SIZE,)),
        ]
    )


@kernel
def prepare(outboxes: Any, now_ns: int, white: NDArray[np.float64], count: int) -> None:
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
    outboxes: Any,
    params: Any,
    samples: Any,
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
def collect(outboxes: Any, now_ns: int, samples: Any) -> bool:
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
