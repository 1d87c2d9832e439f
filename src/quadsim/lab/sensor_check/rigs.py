"""How the parameters of IMU, magnetometer and barometer are shown on the bench."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy import integrate, optimize, signal
from scipy.spatial.transform import Rotation

from quadsim.lab.sensor_check.bench import Bench, Truth, truth_at_rest
from quadsim.lab.sensor_check.experiments import Array, Experiment, Figures, Probe, Rig, certain
from quadsim.lab.sensor_check.figures import Specified, trials_for_squares
from quadsim.sensors.imu_channel import is_filtered
from quadsim.sensors.vibration import VibrationParams
from quadsim.world.air.atmosphere import density_at

#: What the bench shows: m/s^2, rad/s, K, A, m/s.
PUSH_MPS2, SPIN_RADPS, WARM_K, CURRENT_A, AIR_MPS = 10.0, 1.0, 10.0, 10.0, 12.0

X, Y, Z = np.eye(3)
EVERY = np.ones(3)
WARM = {"ambient_offset_K": WARM_K}
BOTH_WAYS = (1.0, -1.0)
#: Rotor speed at which lines are measured: 10 turns a second.
SLOW_ROTOR_RADPS = 20.0 * math.pi
#: Samples in a turn of a rotor.
A_TURN = 24
#: Amplitudes of lines: at the frequency of the rotor, or of the blades.
LINES = ("accel_rotor_mps2", "accel_blade_mps2", "gyro_rotor_radps", "gyro_blade_radps")
#: What a line depends on.
LINE_KEYS = ("vibration.reference_speed_radps", "vibration.blades")


def passed_noise(bandwidth_hz: float, rate_hz: float) -> float:
    """Part of the variance of white noise that a second-order Butterworth filter lets through."""
    b, a = signal.butter(2, bandwidth_hz, fs=rate_hz)

    def power(frequency_hz: float) -> float:
        return float(abs(signal.freqz(b, a, [frequency_hz], fs=rate_hz)[1][0]) ** 2)

    return float(integrate.quad(power, 0.0, 0.5 * rate_hz)[0] / (0.5 * rate_hz))


def turning(calm: Truth, speed_radps: float) -> Truth:
    """The same truth with one rotor turning."""
    truth = Truth(calm.previous.copy(), calm.now.copy())
    for record in (truth.previous, truth.now):
        record["rotor_speed_radps"][0, 0] = speed_radps
    return truth


def _amplitudes(rig: Any, params: Any, field: str, speed_radps: float, harmonic: int) -> Any:
    """(3,) of the line at a multiple of a rotor's speed, by least squares on sine and cosine."""
    count = 50 * A_TURN
    dt_s = 2.0 * math.pi / speed_radps / A_TURN
    readings = rig.bench.run(params, "line", count, turning(rig.calm, speed_radps), dt_s)[field]
    phase = 2.0 * math.pi * harmonic * np.arange(count) / A_TURN
    return 2.0 / count * np.abs(np.exp(1j * phase) @ readings)


def corner_by_noise(rig: Rig, channel: str, confidence: float) -> Figures:
    """The corner of a filter that runs at the sample rate: what is left of white noise."""
    name, rate_hz = f"{channel}_bandwidth_hz", rig.params.rate_hz
    corner_hz, density = rig.of(name), f"{channel}_noise_density"
    # what is let through grows as the corner does, its deviation as the root: half the
    # precision; far enough apart the samples are independent
    apart = math.ceil(rate_hz / corner_hz)
    noisy = rig.alone(name, **{density: (1.0 / math.sqrt(rate_hz),) * 3})
    count = apart * trials_for_squares(confidence)
    samples = rig.bench.run(noisy, name, count, rig.probes(density)[0].truth)
    whole = rig.specified(name, confidence).deviation(samples[rig.field_of(channel)][::apart, 0])
    ends = [
        optimize.brentq(
            lambda hz, passed=value**2: passed_noise(hz, rate_hz) - passed,
            1e-3 * corner_hz,
            0.499 * rate_hz,
        )
        for value in (whole.measured, whole.low, whole.high)
    ]
    return [rig.specified(name, confidence).within(*ends)]


def corner_by_line(rig: Rig, channel: str) -> Figures:
    """The corner of a filter that runs faster than the samples: what is left of a rotor's line."""
    name = f"{channel}_bandwidth_hz"
    corner_hz = rig.of(name)
    # about the corner, where a sample lasts a whole number of nanoseconds
    line_hz = 1e9 / (A_TURN * round(1e9 / (A_TURN * corner_hz)))
    speed_radps = 2.0 * math.pi * line_hz
    sizes: dict[str, Any] = {next(n for n in LINES if n.startswith(channel)): (1.0, 1.0, 1.0)}
    params = rig.alone(name, vibration=VibrationParams(reference_speed_radps=speed_radps, **sizes))
    gain = _amplitudes(rig, params, rig.field_of(channel), speed_radps, 1)[0]
    # of a second-order Butterworth filter: 1 / gain^2 = 1 + (line / corner)^4
    found_hz = line_hz * (1.0 / gain**2 - 1.0) ** -0.25
    return [rig.specified(name).exactly(found_hz, 1e-6 * corner_hz)]


def vibration_line(rig: Rig, amplitude: str) -> Figures:
    """Amplitudes of a line of the propellers, at a slow turn."""
    name, vibration = f"vibration.{amplitude}", rig.params.vibration
    share = (vibration.reference_speed_radps / SLOW_ROTOR_RADPS) ** 2
    harmonic = 1 if "rotor" in amplitude else vibration.blades
    params = rig.alone(name, *LINE_KEYS)
    found = share * _amplitudes(rig, params, rig.field_of(name), SLOW_ROTOR_RADPS, harmonic)
    stated = rig.of(name)
    return [
        rig.specified(name, component=i).exactly(found[i], 1e-6 * stated[i])
        for i in rig.components(name)
    ]


def in_frequency(rig: Rig) -> Iterator[Experiment]:
    """Experiments of the low-pass of each channel, and of the propellers' lines."""
    for channel in ("accel", "gyro"):
        name = f"{channel}_bandwidth_hz"
        if rig.is_set(name):
            if is_filtered(rig.of(name), rig.params.rate_hz):
                yield Experiment((name,), 1, partial(corner_by_noise, rig, channel))
            else:
                yield certain((name,), partial(corner_by_line, rig, channel))
    for line in LINES:
        if rig.is_set(f"vibration.{line}"):
            yield certain((f"vibration.{line}", *LINE_KEYS), partial(vibration_line, rig, line))


def scatter(confidence: float, name: str, squares: Array) -> Figures:
    """Squared errors over what messages state of their variance: 1 on the mean."""
    words = f"{name}: error² over stated variance".removeprefix(": ")
    return [Specified(words, "1", 1.0, confidence).mean(np.ravel(squares))]


#: Tags of errors that show in readings at rest.
AT_REST = ("constant", "turn-on", "white", "white density", "random walk", "quantisation")
TIMED = ("rate", "latency", "jitter", "loss")


class PlainRig(Rig):
    """A device at rest, of which each error shows against what it reads without errors."""

    field = "values"

    def __init__(self, bench: Bench, params: Any) -> None:
        super().__init__(bench, params)
        self.still = bench.run(self.alone(), "certain", 1)["values"][0]
        self.rounding = 1e-12 * max(1.0, float(np.abs(self.still).max()))

    def probes(self, name: str) -> tuple[Probe, ...]:
        """By the tag; counts show where noise spreads over them."""
        tag = self.leaves[name].spec.term
        if tag == "quantisation":
            noise = next(n for n, leaf in self.leaves.items() if leaf.spec.term == "white")
            spread = np.full(np.shape(self.of(noise)), 1.5 * self.of(name))
            return (Probe(others={noise: tuple(spread) if spread.ndim else float(spread)}),)
        return (Probe(ideal=self.still),) if tag in (*AT_REST, *TIMED) else ()


class ImuRig(Rig):
    """An IMU, pushed and rotated; its sample is that of an instant."""

    kind = "imu"
    given: ClassVar[dict[str, Any]] = {"sampling": "point"}

    def __init__(self, bench: Bench, params: Any) -> None:
        super().__init__(bench, params)
        self.gravity_mps2 = bench.environment.gravity_and_gradient()[0]
        self.calm = self.pushed()

    def pushed(self, f: Any = (0.0, 0.0, 0.0), w: Any = (0.0, 0.0, 0.0)) -> Truth:
        """A truth, level, whose specific force is f and whose rate is w, at one instant."""
        return truth_at_rest(a_W=(f[0], f[1], f[2] - self.gravity_mps2), w_B=w)

    def field_of(self, name: str) -> str:
        """Specific force, but for what is the gyroscope's."""
        return "w_S" if "gyro" in name else "f_S"

    def probes(self, name: str) -> tuple[Probe, ...]:
        """By what is left of the name without the channel's."""
        channel, _, what = name.partition("_")
        if channel in ("accel", "gyro"):
            return self._of_channel(name, channel, what)
        if name == "position_B_m":  # f = w x (w x r): about z it gives x and y, about x z
            return (
                Probe(self.pushed(w=2.0 * Z), gain=-4.0, columns=(0, 1)),
                Probe(self.pushed(w=2.0 * X), gain=-4.0, columns=(2,)),
            )
        if name == "rotation_deg":
            return tuple(Probe(self.pushed(PUSH_MPS2 * axis), gain=PUSH_MPS2) for axis in (X, Y, Z))
        if name.startswith("vibration."):
            speed_radps = self.of("vibration.reference_speed_radps")
            return (Probe(turning(self.calm, speed_radps), keeps=LINE_KEYS),)
        per_kelvin = {"accel_temperature_bias": (1.0, 1.0, 1.0)}
        return (Probe(self.calm, columns=(0,), others=per_kelvin),)

    def _of_channel(self, name: str, channel: str, what: str) -> tuple[Probe, ...]:
        size, by = (PUSH_MPS2, "f") if channel == "accel" else (SPIN_RADPS, "w")
        limit = self.of(f"{channel}_range")

        def moved(vector: Any) -> Truth:
            return self.pushed(**{by: vector})

        if what == "cross_axis":
            return tuple(
                Probe(moved(size * axis), gain=size, columns=columns, components=components)
                for axis, columns, components in (
                    (X, (1, 2), (2, 4)), (Y, (0, 2), (0, 5)), (Z, (0, 1), (1, 3)),
                )
            )  # fmt: skip
        if what == "range":
            return tuple(
                Probe(self.calm, gain=sign, others={f"{channel}_bias": (sign * 3.0 * limit,) * 3})
                for sign in BOTH_WAYS
            )
        # noise of a count and a half falls on all counts about zero
        density = 1.5 * self.of(f"{channel}_step") / math.sqrt(self.params.rate_hz)
        spread = {f"{channel}_noise_density": (density,) * 3}
        probes = {
            "scale": Probe(moved(size * EVERY), gain=size),
            "scale_sigma": Probe(moved(size * Y), size, size, columns=(1,)),
            "cross_axis_sigma": Probe(moved(size * Y), gain=size, columns=(0, 2)),
            "step": Probe(self.calm, others=spread),
            # half of the full scale reads a quarter of its error too much
            "nonlinearity": Probe(
                moved(0.5 * limit * X), 0.5 * limit, 0.25 * limit, (0,), keeps=(f"{channel}_range",)
            ),
            "temperature_bias": Probe(self.calm, gain=WARM_K, others=WARM),
            "temperature_scale": Probe(moved(size * EVERY), size, WARM_K * size, others=WARM),
            "g_sensitivity": Probe(self.pushed(PUSH_MPS2 * EVERY), gain=PUSH_MPS2),
        }
        return (probes.get(what, Probe(self.calm)),)

    def more(self) -> Iterator[Experiment]:
        """The low-pass, the propellers' lines, and what messages say."""
        yield from in_frequency(self)
        for channel in ("accel", "gyro"):
            names = [f"{channel}_{key}" for key in ("noise_density", "bandwidth_hz", "step")]
            stated = getattr(self.alone(*names), f"{channel}_variance")()
            # finer than the counts the scatter depends on where between two of them it lies
            if (stated > (0.5**2 + 1.0 / 12.0) * self.of(names[2]) ** 2).all():
                measure = partial(self._covariance, channel, names, stated)
                yield Experiment((f"{channel} covariance",), 1, measure)

    def _covariance(
        self, channel: str, names: list[str], stated: Array, confidence: float
    ) -> Figures:
        """What messages say against the scatter; a lasting bias is not in it."""
        apart = max(1, math.ceil(self.params.rate_hz / (self.of(names[1]) or math.inf)))
        count = trials_for_squares(confidence) * apart
        samples = self.bench.run(self.alone(*names), f"{channel} covariance", count, self.calm)
        readings = samples[self.field_of(channel)]
        squares = np.ravel((readings - readings.mean(axis=0)) ** 2 / stated)[::apart]
        return scatter(confidence, channel, squares)


class MagnetometerRig(Rig):
    """A magnetometer, level or rotated so that the field lies along an axis."""

    kind = "magnetometer"
    field = "m_S"
    rounding = 1e-15

    def __init__(self, bench: Bench, params: Any) -> None:
        super().__init__(bench, params)
        self.field_T = np.array(bench.environment.field_W_T())

    def facing(self, direction_B: Any) -> Truth:
        """The vehicle rotated so that the field lies along a direction of the body."""
        turn, _ = Rotation.align_vectors([self.field_T], [direction_B])
        return truth_at_rest(np.roll(turn.as_quat(), 1))

    def _heading(self, readings: Array) -> Array:
        """Angle by which the field is rotated about the vertical."""
        east, north, _ = self.field_T
        angle = np.arctan2(readings[:, 1], readings[:, 0]) - math.atan2(north, east)
        return np.asarray((angle + math.pi) % (2.0 * math.pi) - math.pi)[:, None]

    def probes(self, name: str) -> tuple[Probe, ...]:
        """By name; what is not named shows in the level field."""
        size = float(np.linalg.norm(self.field_T))
        if name == "soft_iron":
            return tuple(
                Probe(self.facing(axis), gain=size, components=components)
                for axis, components in ((X, (0, 3, 4)), (Y, (3, 1, 5)), (Z, (4, 5, 2)))
            )
        if name == "rotation_deg":
            return tuple(Probe(self.facing(axis), gain=size) for axis in (X, Y, Z))
        if name == "range_T":
            driven = 3.0 * self.of(name)
            return tuple(
                Probe(gain=sign, others={"hard_iron_T": (sign * driven,) * 3}) for sign in BOTH_WAYS
            )
        shown, along_y = Probe(ideal=self.field_T), self.facing(Y)
        warming = replace(shown, columns=(0,), others={"temperature_bias": (1.0, 1.0, 1.0)})
        probes = {
            "heading_sigma_rad": Probe(see=self._heading),
            "scale_sigma": Probe(along_y, size, size, columns=(1,)),
            "cross_axis_sigma": Probe(along_y, gain=size, columns=(0, 2)),
            "step_T": Probe(others={"noise_sigma_T": (1.5 * self.of("step_T"),) * 3}),
            "motor_current_T_per_A": replace(
                shown, truth=truth_at_rest(motor_current_A=CURRENT_A), gain=CURRENT_A
            ),
            "temperature_bias": replace(shown, gain=WARM_K, others=WARM),
            "ambient_offset_K": warming,
            "warm_up_K": warming,
        }
        return (probes.get(name, shown),)

    def more(self) -> Iterator[Experiment]:
        """What messages say against the whole error of many units, each at its own attitude."""
        params = self.alone(
            "noise_sigma_T", "turn_on_sigma_T", "scale_sigma", "cross_axis_sigma", "step_T",
            "range_T",
        )  # fmt: skip
        stated = params.variance(self.bench.environment.field_W_T())

        def measure(confidence: float) -> Figures:
            count = trials_for_squares(confidence)
            attitudes = Rotation.random(count, random_state=1)
            truths = [truth_at_rest(np.roll(q, 1)) for q in attitudes.as_quat()]
            samples = self.bench.switch_on(params, "covariance", count, truths)
            errors = samples["m_S"][:, 0] - attitudes.inv().apply(self.field_T)
            return scatter(confidence, "", np.mean(errors**2 / stated, axis=1))

        if (stated > 0.0).all():
            yield Experiment(("covariance",), 1, measure)


class BarometerRig(Rig):
    """A barometer, standing, in moving air, or rising."""

    kind = "barometer"
    field = "pressure_pa"
    rounding = 1e-9

    def __init__(self, bench: Bench, params: Any) -> None:
        super().__init__(bench, params)
        self.still_pa = self._pressure(truth_at_rest())

    def _pressure(self, truth: Truth) -> float:
        return float(self.bench.run(self.alone(), "certain", 1, truth)["pressure_pa"][0])

    def probes(self, name: str) -> tuple[Probe, ...]:
        """By name; what is not named shows at rest."""
        shown = Probe(ideal=self.still_pa)
        if name in ("ahead_error", "back_error"):
            height_m = self.bench.environment.datum.height_m + 1.0
            dynamic_pa = 0.5 * density_at(height_m, self.still_pa) * AIR_MPS**2
            speed = AIR_MPS if name == "ahead_error" else -AIR_MPS
            return tuple(
                Probe(truth_at_rest(v_W=speed * axis), self.still_pa, dynamic_pa, (0,), (i,))
                for i, axis in enumerate((X, Y, Z))
            )
        if name == "response_time_s":  # a metre up in each interval
            low, high = truth_at_rest(), truth_at_rest()
            high.now["p_W"][0, 2] += 1.0
            risen_pa = self._pressure(high) - self.still_pa
            return (Probe(Truth(low.previous, high.now), self.still_pa, risen_pa),)
        warming = replace(shown, others={"temperature_bias": 1.0})
        probes = {
            "step_pa": Probe(others={"noise_sigma_pa": 1.5 * self.of("step_pa")}),
            "range_min_pa": Probe(others={"bias_pa": -1e6}),
            "range_max_pa": Probe(others={"bias_pa": 1e6}),
            "temperature_bias": replace(shown, gain=WARM_K, others=WARM),
            "ambient_offset_K": warming,
            "warm_up_K": warming,
        }
        return (probes.get(name, shown),)

    def more(self) -> Iterator[Experiment]:
        """What messages say against the scatter: a barometer's lasting error is not in it."""
        params = self.alone("noise_sigma_pa", "step_pa", "turn_on_sigma_pa")

        def measure(confidence: float) -> Figures:
            count = trials_for_squares(confidence)
            readings = self.bench.run(params, "covariance", count)["pressure_pa"]
            return scatter(confidence, "", (readings - readings.mean()) ** 2 / params.variance())

        if params.noise_sigma_pa > 0.0 and params.noise_sigma_pa >= 0.5 * params.step_pa:
            yield Experiment(("covariance",), 1, measure)
