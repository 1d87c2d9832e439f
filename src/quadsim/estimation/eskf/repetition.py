"""Whether a sensor still measures, or repeats one value to the bit under new stamps.

What measures has noise, and a coarse step repeats by chance: the sooner, the coarser. So each
sensor is judged by its own past. Of values that repeat with the probability p, the longest run of N
is about ln N / ln(1/p) (Erdos and Renyi 1970); one of three times that has the chance 1 / N^2. A
receiver that publishes more often than it measures has runs of one length. A run that ends with a
change of one step was the step's; one that ends with another was a fault, and is not learned from.

A simulated sensor without noise repeats at rest, once the vehicle has settled on its feet, and so
may what has never changed, until the vehicle moves.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

from quadsim.base.compiled import Array, Record, kernel
from quadsim.estimation.eskf.layout import (
    EXTERNAL_ATTITUDE,
    EXTERNAL_ODOMETRY,
    EXTERNAL_POSITION,
    GNSS_POSITION,
    SENSORS,
)

#: Of each sensor of the layout, of the accelerometer and of the gyroscope: as often may a value be
#: repeated at least. Values of one number repeat by chance more easily than those of three.
ACCELEROMETER, GYROSCOPE = len(SENSORS), len(SENSORS) + 1
SOURCES = (*SENSORS, "accelerometer", "gyroscope")
LEAST_RUN = np.array([2, 4, 4, 9, 9, 2, 2, 0, 0, 0, 0, 9, 2, 0, 4, 9, 4, 4])
#: A run is out of the ordinary beyond so many times the longest of late.
ORDINARY = 3.0
#: The longest run that is learned, and the share of it that each new value lets forget.
LONGEST, FORGOTTEN = 256.0, 1.0 / 256.0
#: A sensor's past is known after so many new values.
KNOWN = 40
#: What has been repeated so often at rest has no noise.
NOISELESS = 20
#: A least change below this, in the sensor's unit, is that of a sensor without noise.
NOISELESS_STEP = 1e-9
#: A change of more than so many of the least ones seen is none of the sensor's step.
STEPS = 1.5


class Source(Record):
    """What a sensor stated last, and how often in a row."""

    count: int  # of messages, and of those that stated something new
    changes: int
    run: int
    longest: float  # ordinary run of late
    step: float  # least change seen, the largest of the numbers' changes
    noiseless: int  # repetitions at rest
    frozen: int  # the newest is of a run out of the ordinary
    values: Annotated[Array, 4]


@kernel
def is_fix_or_pose(kind: int) -> bool:
    """Whether a sensor gives fixes or poses, none of whose repetitions is a measurement."""
    return kind in (GNSS_POSITION, EXTERNAL_POSITION, EXTERNAL_ATTITUDE, EXTERNAL_ODOMETRY)


@kernel
def is_repeated(kind: int, source: Source) -> bool:
    """Whether the newest value is refused; of coarse sensors none is, they are gated."""
    if is_fix_or_pose(kind):
        return bool(source.run > 0)
    return bool(kind >= ACCELEROMETER and source.frozen == 1)


@kernel
def watch_source(
    source: Source, kind: int, values: Array, first: int, rests: bool, stands: bool
) -> None:
    """Take a value, and judge whether the sensor is frozen.

    Args:
        source: changed in place.
        kind: index of SOURCES.
        values: of the message.
        first: index of the sensor's first number in them; there are four at most.
        rests: whether the vehicle has not moved yet.
        stands: whether it is known to stand.
    """
    change, size = 0.0, min(values.size - first, 3 if kind >= ACCELEROMETER else 4)
    for i in range(size):
        change = max(change, abs(values[first + i] - source.values[i]))
        source.values[i] = values[first + i]
    source.count += 1
    if source.count == 1:
        return
    if change == 0.0:
        source.run += 1
        coarse = kind < ACCELEROMETER and not is_fix_or_pose(kind)
        still = stands and (coarse or source.noiseless >= NOISELESS)
        settled = source.changes == 0 or source.step < NOISELESS_STEP
        if still or (rests and settled):
            source.run = source.frozen = 0
            source.noiseless += 1
            return
        never = source.changes == 0 and kind < ACCELEROMETER
        judged = source.changes >= KNOWN or never or is_fix_or_pose(kind)
        source.frozen = int(judged and source.run > ORDINARY * source.longest + LEAST_RUN[kind])
        return
    source.longest -= FORGOTTEN * source.longest
    if source.frozen == 0 or change <= STEPS * source.step:
        source.longest = max(source.longest, min(float(source.run), LONGEST))
    source.step = change if source.changes == 0 else min(source.step, change)
    source.changes += 1
    source.run = source.frozen = 0
