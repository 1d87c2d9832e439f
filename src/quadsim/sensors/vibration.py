"""Vibration of the propellers, as an inertial sensor feels it.

A rotor out of balance shakes the frame once a revolution, its blades so many times as there are
blades; both forces, and the broadband floor of the flow, grow with the square of the speed. The
phase of each rotor is integrated from its speed and the lines are evaluated at the instant of the
sample (or averaged over its interval), so that they alias as in a real sensor.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Array, Record, kernel
from quadsim.base.elementary import cos_sin
from quadsim.base.parameters import Spec, Vec3
from quadsim.base.records import MAX_ROTORS, Kinematics
from quadsim.geometry.vector import add
from quadsim.sensors.error_terms import WhiteDensity

ZERO: Vec3 = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class VibrationParams:
    """What the propellers do to an inertial sensor, base_link axes; it belongs to the vehicle.

    Amplitudes are those of one rotor at the reference speed and grow with (speed/reference)^2.
    """

    reference_speed_radps: Annotated[
        float, Spec("rotor speed at which the figures below hold", "rad/s", gt=0.0, le=1e4)
    ] = 500.0
    blades: Annotated[int, Spec("blades of a propeller", "1", ge=1, le=8)] = 2
    accel_rotor_mps2: Annotated[
        Vec3, Spec("amplitude of the line at the rotor's frequency", "m/s^2", ge=0.0, le=1e3)
    ] = ZERO
    accel_blade_mps2: Annotated[
        Vec3, Spec("amplitude of the line at blades x rotor frequency", "m/s^2", ge=0.0, le=1e3)
    ] = ZERO
    accel_floor: Annotated[
        Vec3, WhiteDensity("broadband, all rotors", "m/s^2/sqrt(Hz)", ge=0.0, le=100.0)
    ] = ZERO
    gyro_rotor_radps: Annotated[
        Vec3, Spec("amplitude of the line at the rotor's frequency", "rad/s", ge=0.0, le=100.0)
    ] = ZERO
    gyro_blade_radps: Annotated[
        Vec3, Spec("amplitude of the line at blades x rotor frequency", "rad/s", ge=0.0, le=100.0)
    ] = ZERO
    gyro_floor: Annotated[
        Vec3, WhiteDensity("broadband, all rotors", "rad/s/sqrt(Hz)", ge=0.0, le=10.0)
    ] = ZERO

    @property
    def on(self) -> bool:
        """Whether anything shakes."""
        return any(
            max(amplitude) > 0.0
            for amplitude in (
                self.accel_rotor_mps2,
                self.accel_blade_mps2,
                self.accel_floor,
                self.gyro_rotor_radps,
                self.gyro_blade_radps,
                self.gyro_floor,
            )
        )


class VibrationState(Record):
    """Whether anything shakes, and ``exp(j phase)`` of each rotor at the newest sample."""

    on: int
    phasor: Annotated[NDArray[np.complex128], MAX_ROTORS]


#: A rotor that turns less than this between two samples (rad) is averaged by the trapezoid.
SLOW_RAD = 1e-3


def start_vibration(
    state: VibrationState, params: VibrationParams, generator: np.random.Generator
) -> None:
    """Each rotor begins at a phase of its own."""
    state.on = int(params.on)
    state.phasor[:] = [
        complex(*cos_sin(phase)) for phase in generator.uniform(0.0, 2.0 * math.pi, MAX_ROTORS)
    ]


@kernel
def whole_power(z: complex, n: int) -> complex:
    """The n-th power, n at least 1."""
    if n == 2:  # as most propellers; the loop would cost 20 ns
        return z * z
    result = z
    for _ in range(n - 1):
        result *= z
    return result


@kernel
def line_gain(strength: float, speed_radps: float, corner_s: float) -> complex:
    """A line's strength behind a Butterworth low-pass, ``H = 1 / (1 + sqrt(2) ju - u^2)``.

    Args:
        strength: before it.
        speed_radps: angular frequency of the line.
        corner_s: 1 / angular frequency of the corner, 0 without a low-pass.
    """
    u = speed_radps * corner_s
    a, b = 1.0 - u * u, math.sqrt(2.0) * u
    size = strength / (a * a + b * b)
    return complex(a * size, -b * size)


@kernel
def mean_phasor(before: complex, after: complex, turn: float) -> complex:
    """Mean of exp(j phase) while the phase goes on evenly: its integral over the turn (rad)."""
    if abs(turn) < SLOW_RAD:
        return complex(0.5 * (before.real + after.real), 0.5 * (before.imag + after.imag))
    size = 1.0 / turn
    return complex(size * (after.imag - before.imag), size * (before.real - after.real))


@kernel
def on_axes(amplitude: Array | Vec3, z: complex) -> Vec3:
    """A line on three axes, y a quarter turn behind x and z, as a rotating imbalance pushes."""
    return (amplitude[0] * z.real, amplitude[1] * z.imag, amplitude[2] * z.real)


@kernel
def rotate_phasor(z: complex, turn: float) -> complex:
    """A phasor after a turn in rad; its length is unchanged at 1 to first order."""
    z *= complex(*cos_sin(turn))
    size = 1.5 - 0.5 * (z.real * z.real + z.imag * z.imag)
    return complex(size * z.real, size * z.imag)


@kernel
def vibrate(
    state: VibrationState,
    params: VibrationParams,
    previous: Kinematics,
    now: Kinematics,
    dt_s: float,
    average: bool,
    accel_corner_s: float,
    gyro_corner_s: float,
) -> tuple[Vec3, Vec3, float]:
    """Turn the rotors over an interval and sum up their lines.

    Args:
        state: a :class:`VibrationState`.
        params: packed VibrationParams.
        previous, now: KINEMATICS records at the interval's ends.
        dt_s: the interval.
        average: the mean over the interval, or the value at its end.
        accel_corner_s, gyro_corner_s: as of :func:`line_gain`.

    Returns:
        Lines of the accelerometer (m/s^2) and of the gyroscope (rad/s), base_link axes, and the
        factor of the broadband floor's variance, the mean over the rotors that turn.
    """
    n = params.blades
    per_reference = 1.0 / params.reference_speed_radps
    accel_rotor, accel_blade, gyro_rotor, gyro_blade = 0j, 0j, 0j, 0j
    vibration, turning = 0.0, 0
    for i in range(MAX_ROTORS):
        end = now.rotor_speed_radps[i]
        mean = 0.5 * (previous.rotor_speed_radps[i] + end)
        if mean == 0.0:
            continue
        turn = mean * dt_s
        before = state.phasor[i]
        after = rotate_phasor(before, turn)
        state.phasor[i] = after
        rotor, blade, speed = after, whole_power(after, n), end
        if average:
            rotor = mean_phasor(before, rotor, turn)
            blade = mean_phasor(whole_power(before, n), blade, n * turn)
            speed = mean
        strength = (speed * per_reference) ** 2
        accel_rotor += rotor * line_gain(strength, speed, accel_corner_s)
        accel_blade += blade * line_gain(strength, n * speed, accel_corner_s)
        gyro_rotor += rotor * line_gain(strength, speed, gyro_corner_s)
        gyro_blade += blade * line_gain(strength, n * speed, gyro_corner_s)
        vibration += strength * strength
        turning += 1
    accel = add(
        on_axes(params.accel_rotor_mps2, accel_rotor), on_axes(params.accel_blade_mps2, accel_blade)
    )
    gyro = add(
        on_axes(params.gyro_rotor_radps, gyro_rotor), on_axes(params.gyro_blade_radps, gyro_blade)
    )
    return accel, gyro, vibration / max(turning, 1)
