"""Whether a sensor still measures, or repeats one value to the bit under new stamps.

What measures has noise, and a coarse step repeats by chance: the sooner, the coarser. So each
sensor is judged by its own past. Of values that repeat with the probability p, the longest run of N
is about ln N / ln(1/p) (Erdos and Renyi 1970); one of three times that has the chance 1 / N^2. A
receiver that publishes more often than it measures has runs of one length. A run that ends with a
change of one step was the step's; one that ends with another was a fault, and is not learned from.

A simulated sensor without noise repeats at rest, once the vehicle has settled on its feet, and so
may what has never changed, until the vehicle moves. An IMU that states noise may not: its other
part shows that there is some.

Of an IMU each axis is watched as well, by what the others do: while they jump to and fro by several
of their least steps, noise changes this one too, if it states some or has ever changed by noise. At
the end of its range an axis repeats by right.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

from quadsim.base.compiled import Array, Record, argument, kernel
from quadsim.estimation.eskf.layout import (
    EXTERNAL_ATTITUDE,
    EXTERNAL_ODOMETRY,
    EXTERNAL_POSITION,
    GNSS_POSITION,
    SENSORS,
)

#: Of each sensor of the layout, of the accelerometer and of the gyroscope: as often may a value be
#: repeated at least. Values of one number repeat by chance more easily than those of three.
ACCELEROMETER, GYROSCOPE = map(argument, range(len(SENSORS), len(SENSORS) + 2))
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
#: An axis jitters that jumps to and fro by more than so many of its least changes. So often it, or
#: another, must have jittered until one that stays is out of the ordinary; if it never changed.
WIDE, JITTERS, MANY_JITTERS = 2.5, 10, 100
#: From here on an axis may be at the end of its range: 2 g, m/s^2, and 250 deg/s, rad/s.
LEAST_RANGE = np.array([19.0, 4.3])
#: Share of a new sample in the running variance of the noise. It counts as so many times that at
#: most, so that an impact is no noise; and as some, so that it can begin.
NOISE_SHARE, MOST_OVER, LEAST_VARIANCE = 1.0 / 64.0, 8.0, 1e-8


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
    # of the axes of a part of an IMU: the last change, the least, how often a value came in a row
    # and the longest such run of late, how often another jittered in it, the variance of the noise
    axis_change: Annotated[Array, 3]
    axis_step: Annotated[Array, 3]
    axis_run: Annotated[Array, 3]
    axis_longest: Annotated[Array, 3]
    axis_seen: Annotated[Array, 3]
    noise: Annotated[Array, 3]
    jitters: int  # samples in which any of them did


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
def watch_axes(source: Source, values: Array, first: int, least_range: float, states: bool) -> bool:
    """Take a sample of an IMU's part; whether one axis repeats while the others jitter.

    A sixth of the mean square of second differences is the variance of white noise, whatever slow
    motion is beneath (as von Neumann 1941 has it of the first ones).
    """
    jitters = 0
    for i in range(3):
        before, change = source.axis_change[i], values[first + i] - source.values[i]
        bend = change - before
        most = MOST_OVER * max(source.noise[i], LEAST_VARIANCE)
        source.noise[i] += NOISE_SHARE * (min(bend * bend / 6.0, most) - source.noise[i])
        wide = max(WIDE * source.axis_step[i], NOISELESS_STEP)
        if change * before < 0.0 and min(abs(change), abs(before)) > wide:
            jitters = 1
        source.axis_change[i] = change
    source.jitters += jitters
    stays = 0
    for i in range(3):
        change = abs(source.axis_change[i])
        ordinary = ORDINARY * source.axis_longest[i] + LEAST_RUN[GYROSCOPE]
        needed = JITTERS if source.axis_step[i] > 0.0 else MANY_JITTERS
        stayed = source.axis_run[i] > ordinary and source.axis_seen[i] >= needed
        stayed &= states or source.axis_step[i] >= NOISELESS_STEP
        if change == 0.0:
            source.axis_run[i] += 1.0
            source.axis_seen[i] += jitters
            stays += int(stayed and abs(values[first + i]) < least_range)
            continue
        source.axis_longest[i] -= FORGOTTEN * source.axis_longest[i]
        if not stayed or change <= STEPS * source.axis_step[i]:
            run = min(source.axis_run[i], LONGEST)
            source.axis_longest[i] = max(source.axis_longest[i], run)
        step = source.axis_step[i]
        source.axis_step[i] = change if step == 0.0 else min(step, change)
        source.axis_run[i] = source.axis_seen[i] = 0.0
    return stays > 0


@kernel
def forget_run(source: Source) -> None:
    """Begin a new run: values come from another device from now on."""
    source.run = source.frozen = 0
    source.axis_run[:] = 0.0
    source.axis_seen[:] = 0.0


@kernel
def forget_source(source: Source) -> None:
    """Forget all."""
    forget_run(source)
    source.count = source.changes = source.noiseless = source.jitters = 0
    source.longest = source.step = 0.0
    source.axis_change[:] = 0.0
    source.axis_step[:] = 0.0
    source.axis_longest[:] = 0.0
    source.noise[:] = 0.0


@kernel
def stated_noise(variance: float, other: Source) -> int:
    """Whether a part of an IMU states noise, 1, and the other part shows some, 2; else 0.

    Args:
        variance: that it states of its first axis; zero: unknown.
        other: of the other part.
    """
    if variance <= 0.0:
        return 0
    return 2 if other.jitters >= JITTERS else 1


@kernel
def watch_source(
    source: Source, kind: int, values: Array, rests: bool, stands: bool, states: int
) -> None:
    """Take a value, and judge whether the sensor is frozen.

    Args:
        source: changed in place.
        kind: index of SOURCES.
        values: of the message, of an IMU those of both parts; four at most of another sensor count.
        rests: whether the vehicle has not moved yet.
        stands: whether it is known to stand.
        states: of a part of an IMU, see :func:`stated_noise`.
    """
    stays = varies = False
    first = 3 if kind == GYROSCOPE else 0
    if kind >= ACCELEROMETER and source.count > 0:
        least_range = LEAST_RANGE[kind - ACCELEROMETER]
        stays = watch_axes(source, values, first, least_range, states > 0)
        own = source.jitters >= JITTERS and source.step >= NOISELESS_STEP
        varies = own or states == 2
    change, size = 0.0, min(values.size - first, 3 if kind >= ACCELEROMETER else 4)
    for i in range(size):
        change = max(change, abs(values[first + i] - source.values[i]))
        source.values[i] = values[first + i]
    source.count += 1
    if source.count == 1:
        return
    if change == 0.0:
        source.run += 1
        alike = min(source.axis_run[0], source.axis_run[1], source.axis_run[2])
        stays |= varies and source.changes < KNOWN and alike >= KNOWN
        if stays:
            source.frozen = 1  # at rest too
            return
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
    source.run, source.frozen = 0, int(stays)
