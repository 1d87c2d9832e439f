"""The loops' stability margins, by their linear models; the figures of docs/control.md."""

from __future__ import annotations

import numpy as np
import pytest

from quadsim.control.parameters import AutopilotParams
from quadsim.files import find, known
from quadsim.parameters import load
from quadsim.vehicle.parameters import VehicleParams

OMEGA = np.logspace(-1.0, 2.8, 20_000)  # rad/s
S = 1j * OMEGA
#: IMU sample to rotor: half a sample of hold and what the graph may take (sample to command 3 ms,
#: one sample of waiting on either side).
INNER_DELAY_S = 0.001 + 0.006
#: Position loop: half its period of hold, and one sample of waiting.
OUTER_DELAY_S = 0.010 + 0.002


def margins(loop):
    """Phase margin in degrees and gain margin of an open loop."""
    size, phase = np.abs(loop), np.unwrap(np.angle(loop))
    crossings = np.flatnonzero((size[:-1] >= 1.0) & (size[1:] < 1.0))
    turns = np.flatnonzero((phase[:-1] > -np.pi) & (phase[1:] <= -np.pi))
    assert len(crossings) == 1
    assert len(turns) >= 1
    return 180.0 + np.degrees(phase[crossings[0]]), (1.0 / size[turns]).min()


def loops(params, vehicle):
    """Open loops by name, roll axis and vertical."""
    attitude, position = params.attitude, params.position
    # a turn speeds two rotors up and slows two down: the mean lag counts
    motor = 1.0 / (0.5 * (vehicle.time_constant_up_s + vehicle.time_constant_down_s) * S + 1.0)
    plant = motor * np.exp(-S * INNER_DELAY_S)
    gyro = 1.0 / (S / (2.0 * np.pi * attitude.gyro_cutoff_hz) + 1.0)
    gain, integral = attitude.rate_gain[0], attitude.rate_integral[0] / S
    rate = (gain * (1.0 + attitude.rate_lead_s * S) + integral) * gyro * plant / S
    rate_closed = (gain + integral) * plant / S / (1.0 + rate)
    tilt = attitude.tilt_gain * rate_closed / S
    tilt_closed = tilt / (1.0 + tilt)
    outer = np.exp(-S * OUTER_DELAY_S) / S
    across = (position.velocity_gain_xy + position.velocity_integral_xy / S) * tilt_closed * outer
    up = (position.velocity_gain_z + position.velocity_integral_z / S) * plant * outer
    return {
        "rate": rate,
        "tilt": tilt,
        "velocity": across,
        "position": position.position_gain_xy * across / (1.0 + across) / S,
        "climb": up,
        "height": position.position_gain_z * up / (1.0 + up) / S,
    }


@pytest.mark.parametrize("vehicle", ["x500", "fcnd"])
@pytest.mark.parametrize("name", known("autopilots"))
def test_every_loop_has_45_degrees_and_a_factor_of_3(name, vehicle):
    params = load(AutopilotParams, find("autopilots", name))
    body = load(VehicleParams, find("vehicles", vehicle))
    for loop_name, loop in loops(params, body).items():
        phase_deg, gain = margins(loop)
        assert phase_deg > 45.0, loop_name
        assert gain > 3.0, loop_name
