"""What tests of the sensors share: a truth, what is published of it, and bounds of chance."""

import numpy as np
from scipy import stats

from quadsim.base.compiled import new_record
from quadsim.base.records import KINEMATICS

#: How often a sound sensor fails a statistical test.
ALPHA = 1e-4


def truth_at(stamp_ns=0, **fields):
    """A vehicle that is level and at rest, but for some fields."""
    record = new_record(KINEMATICS)
    record.q_WB[0] = 1.0
    record.stamp_ns = stamp_ns
    for name, value in fields.items():
        record[name] = value
    return record


def samples(sensor, count, **fields):
    """Samples of a vehicle whose state does not change, (count,) records."""
    truth = truth_at(0, **fields)
    sensor.measure(truth)
    found = np.zeros(count, sensor.model.sample)
    for k in range(count):
        truth.stamp_ns = (k + 1) * sensor.period_ns
        found[k] = sensor.measure(truth)
    return found


def published(sensor, count, period_ns=None, moves=None, **fields):
    """(time, copy of the sample) of everything that is published of ``count`` truths.

    Args:
        sensor: of any kind.
        count: truths after the first.
        period_ns: between truths; the sensor's.
        moves: gives the fields of the k-th truth that differ.
        fields: of every truth.
    """
    truth, found = truth_at(0, **fields), []
    for k in range(count + 1):
        truth.stamp_ns = k * (period_ns or sensor.period_ns)
        for name, value in (moves(k) if moves else {}).items():
            truth[name] = value
        sample = sensor.measure(truth)
        while sample is not None:
            found.append((int(truth.stamp_ns), sample.copy()))
            sample = sensor.published(int(truth.stamp_ns))
    return found


def chi2_bounds(count, alpha=ALPHA):
    """Ratio of a sample deviation to the true one that chance leaves inside."""
    return np.sqrt(stats.chi2.ppf([alpha / 2, 1 - alpha / 2], count) / count)


def assert_deviation(errors, sigma, count=None):
    """Each column of errors, whose mean is known to be zero, has its deviation."""
    low, high = chi2_bounds(count or len(errors))
    ratio = np.sqrt(np.mean(np.square(errors), axis=0)) / sigma
    assert np.all((ratio > low) & (ratio < high)), ratio
