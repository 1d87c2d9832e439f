"""Truths that a sensor needs: fed with these alone it gives what it gives with all of them."""

from dataclasses import replace

import numpy as np
import pytest

from quadsim.base.compiled import new_record
from quadsim.base.errors import InputError
from quadsim.base.records import KINEMATICS
from quadsim.ros.parts.sampling import Sampling, sampling_text, samplings_from
from quadsim.sensors import SENSORS
from quadsim.sensors.devices import load_device
from quadsim.sensors.model import SimulatedSensor
from quadsim.world.environment import EnvironmentParams


def truth_at(stamp_ns):
    truth = new_record(KINEMATICS)
    t_s = stamp_ns * 1e-9
    truth.stamp_ns = stamp_ns
    truth.q_WB[0] = 1.0
    truth.p_W[:] = np.sin(t_s), np.cos(t_s), 2.0 + 0.1 * t_s
    truth.v_W[:] = np.cos(t_s), -np.sin(t_s), 0.1
    return truth


def samples_of(kind, params, stamps_ns, needs):
    """When each sample is published, its stamp and values."""
    sensor = SimulatedSensor(SENSORS[kind], params, EnvironmentParams(), 1, "quad")
    found, before_ns = [], 0
    for stamp_ns in stamps_ns:
        if needs(before_ns, stamp_ns):
            sample = sensor.measure(truth_at(stamp_ns))
            while sample is not None:
                found.append((stamp_ns, int(sample.stamp_ns), sample["values"].tobytes()))
                sample = sensor.published(stamp_ns)
        before_ns = stamp_ns
    return found


@pytest.mark.parametrize(
    ("kind", "device", "period_ns", "at_most"),
    [
        ("gnss", "ublox_f9p_rtk", 2_000_000, 0.05),  # 10 Hz, 0.12 s late
        ("gnss", "ublox_f9p_rtk", 3_000_000, 0.07),  # which is no whole number of periods
        ("magnetometer", "ist8310", 1_000_000, 0.11),  # 100 Hz at once
        ("barometer", "bmp390", 4_000_000, 0.21),
    ],
)
def test_a_sensor_misses_nothing(kind, device, period_ns, at_most):
    params = load_device(kind, device)
    stamps_ns = range(period_ns, 3_000_000_000, period_ns)
    (sampling,) = samplings_from([sampling_text(kind, params.rate_hz, params.latency_s)], "test")
    heard = []

    def needs(before_ns, now_ns):
        needed = sampling.needs(before_ns, now_ns)
        heard.append(needed)
        return needed

    all_truths = samples_of(kind, params, stamps_ns, lambda *_: True)
    assert samples_of(kind, params, stamps_ns, needs) == all_truths
    assert len(all_truths) > 25
    assert np.mean(heard) < at_most


def test_the_first_truth_is_needed_by_everybody():
    sampling = Sampling("gnss", 100_000_000, 0)
    assert sampling.needs(2_000_000, 4_000_000)
    assert not sampling.needs(4_000_000, 6_000_000)


@pytest.mark.parametrize("heard_after_ns", [0, 4_000_000, 31_000_000, 400_000_000])
@pytest.mark.parametrize("latency_s", [0.0, 0.12, 0.7])
def test_a_sensor_misses_nothing_after_a_reset_of_which_it_hears_late(heard_after_ns, latency_s):
    params = replace(load_device("gnss", "ublox_f9p_rtk"), latency_s=latency_s)
    period_ns, reset_ns = 2_000_000, 3_001_000_000

    def found(sampled):
        sensor = SimulatedSensor(SENSORS["gnss"], params, EnvironmentParams(), 1, "quad")
        text = sampling_text("gnss", params.rate_hz, params.latency_s)
        (sampling,) = samplings_from([text], "test")
        published, heard = [], False
        for stamp_ns in range(period_ns, 6_000_000_000, period_ns):
            if stamp_ns - period_ns < reset_ns <= stamp_ns:
                (sampling,) = samplings_from([text], "test")
                sampling.restart(reset_ns)
            if not heard and stamp_ns > reset_ns + heard_after_ns:
                heard = True
                sensor.reset()
            if sampled and not sampling.needs(stamp_ns - period_ns, stamp_ns):
                continue
            sample = sensor.measure(truth_at(stamp_ns))
            while sample is not None:
                published.append((stamp_ns, int(sample.stamp_ns), sample["values"].tobytes()))
                sample = sensor.published(stamp_ns)
        return published

    assert found(sampled=True) == found(sampled=False)


@pytest.mark.parametrize("text", ["gnss", "gnss 1", "gnss 0 0", "gnss 1.5 0", "a/b 1 1", "g 1 -1"])
def test_what_is_no_sensor_is_refused(text):
    with pytest.raises(InputError, match="parameter sampled: "):
        samplings_from([text], "parameter sampled")
