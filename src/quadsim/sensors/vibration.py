"""Vibration of the propellers, as an inertial sensor feels it.

A rotor out of balance shakes the frame once a revolution, its blades so many times as there are
blades; both forces, and the broadband floor of the flow, grow with the square of the speed. The
phase of each rotor is integrated from its speed and the lines are evaluated at the instant of the
sample (or averaged over its interval), so that they alias as in a real sensor.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from quadsim.compiled import kernel, record_dtype
from quadsim.geometry.vector import add
from quadsim.parameters import Spec, Vec3
from quadsim.records import MAX_ROTORS

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
        Vec3, Spec("broadband, all rotors", "m/s^2/sqrt(Hz)", ge=0.0, le=100.0)
    ] = ZERO
    gyro_rotor_radps: Annotated[
        Vec3, Spec("amplitude of the line at the rotor's frequency", "rad/s", ge=0.0, le=100.0)
    ] = ZERO
    gyro_blade_radps: Annotated[
        Vec3, Spec("amplitude of the line at blades x rotor frequency", "rad/s", ge=0.0, le=100.0)
    ] = ZERO
    gyro_floor: Annotated[
        Vec3, Spec("broadband, all rotors", "rad/s/sqrt(Hz)", ge=0.0, le=10.0)
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


#: Phase of each rotor at the newest sample, and its cosine and sine.
VIBRATION = record_dtype(
    [
        ("on", np.int64),
        ("phase", np.float64, (MAX_ROTORS,)),
        ("cosine", np.float64, (MAX_ROTORS,)),
        ("sine", np.float64, (MAX_ROTORS,)),
    ]
)

#: A rotor that turns less than this between two samples (rad) is averaged by the trapezoid.
SLOW_RAD = 1e-3


def start_vibration(
    state: np.record, params: VibrationParams, generator: np.random.Generator
) -> None:
    """Each rotor begins at a phase of its own."""
    state.on = int(params.on)
    state.phase[:] = generator.uniform(0.0, 2.0 * math.pi, MAX_ROTORS)
    state.cosine[:] = np.cos(state.phase)
    state.sine[:] = np.sin(state.phase)


@kernel
def power(cosine: float, sine: float, n: int) -> tuple[float, float]:
    """Cosine and sine of n times an angle (de Moivre)."""
    c, s = cosine, sine
    for _ in range(n - 1):
        c, s = c * cosine - s * sine, s * cosine + c * sine
    return c, s


@kernel
def analogue_gain(c: float, s: float, speed_radps: float, corner_s: float) -> tuple[float, float]:
    """A line behind a second-order Butterworth low-pass, H = 1 / (1 + sqrt(2) ju - u^2).

    Args:
        c, s: in phase and a quarter turn later, before it.
        speed_radps: angular frequency of the line.
        corner_s: 1 / angular frequency of the corner, 0 without a low-pass.
    """
    u = speed_radps * corner_s
    a, b = 1.0 - u * u, math.sqrt(2.0) * u
    scale = 1.0 / (a * a + b * b)
    return (c * a + s * b) * scale, (s * a - c * b) * scale


@kernel
def line(
    c0: float, s0: float, c1: float, s1: float, turn: float, average: bool
) -> tuple[float, float]:
    """A line of unit amplitude in a sample, in phase and a quarter turn later.

    Args:
        c0, s0, c1, s1: cosine and sine of its phase at the interval's ends.
        turn: difference of the phases, rad.
        average: the mean over the interval, ``integral of exp(j phi) / turn``, instead of the value
            at its end.
    """
    if not average:
        return c1, s1
    if abs(turn) < SLOW_RAD:
        return 0.5 * (c0 + c1), 0.5 * (s0 + s1)
    return (s1 - s0) / turn, (c0 - c1) / turn


@kernel
def shaped(amplitude: Any, strength: float, c: float, s: float) -> Vec3:
    """A line on three axes, y a quarter turn behind x and z, as a rotating imbalance pushes."""
    return (strength * amplitude[0] * c, strength * amplitude[1] * s, strength * amplitude[2] * c)


@kernel
def vibrate(
    state: Any,
    params: Any,
    previous: Any,
    now: Any,
    dt_s: float,
    average: bool,
    accel_corner_s: float,
    gyro_corner_s: float,
) -> tuple[Vec3, Vec3, float]:
    """Turn the rotors on over an interval and sum up their lines.

    Args:
        state: VIBRATION record.
        params: packed VibrationParams.
        previous, now: KINEMATICS records at the interval's ends.
        dt_s: the interval.
        average: mean over the interval, or the value at its end.
        accel_corner_s, gyro_corner_s: as of :func:`analogue_gain`.

    Returns:
        Lines of the accelerometer (m/s^2) and of the gyroscope (rad/s), base_link axes, and the
        factor of the broadband floor.
    """
    accel, gyro = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
    n = params.blades
    total, turning = 0.0, 0
    for i in range(MAX_ROTORS):
        end = now.rotor_speed_radps[i]
        mean = 0.5 * (previous.rotor_speed_radps[i] + end)
        if mean == 0.0:
            continue
        turn = mean * dt_s
        phase = state.phase[i] + turn
        phase -= 2.0 * math.pi * math.floor(phase / (2.0 * math.pi))
        c0, s0 = state.cosine[i], state.sine[i]
        c1, s1 = math.cos(phase), math.sin(phase)
        state.phase[i], state.cosine[i], state.sine[i] = phase, c1, s1
        speed = mean if average else end
        strength = (speed / params.reference_speed_radps) ** 2
        total += strength
        turning += 1
        c, s = line(c0, s0, c1, s1, turn, average)
        ca, sa = analogue_gain(c, s, speed, accel_corner_s)
        accel = add(accel, shaped(params.accel_rotor_mps2, strength, ca, sa))
        cg, sg = analogue_gain(c, s, speed, gyro_corner_s)
        gyro = add(gyro, shaped(params.gyro_rotor_radps, strength, cg, sg))
        c0, s0 = power(c0, s0, n)
        c1, s1 = power(c1, s1, n)
        c, s = line(c0, s0, c1, s1, n * turn, average)
        ca, sa = analogue_gain(c, s, n * speed, accel_corner_s)
        accel = add(accel, shaped(params.accel_blade_mps2, strength, ca, sa))
        cg, sg = analogue_gain(c, s, n * speed, gyro_corner_s)
        gyro = add(gyro, shaped(params.gyro_blade_radps, strength, cg, sg))
    return accel, gyro, total / max(turning, 1)
