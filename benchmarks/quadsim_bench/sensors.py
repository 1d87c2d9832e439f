"""What one sample of each sensor costs in a compiled loop, the drawing of its noise included.

The devices are those of the suite ``default``, over hills; of the IMU also one with every error on
and four rotors that shake, and an ideal one.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.noise import stream
from quadsim.base.parameters import dtype_of, pack
from quadsim.base.records import KINEMATICS
from quadsim.lab.sensor_check.bench import LOOPS
from quadsim.sensors import SENSORS
from quadsim.sensors.devices import load_suite
from quadsim.sensors.error_terms import SensorParams
from quadsim.sensors.imu import ImuParams
from quadsim.sensors.model import start_slot
from quadsim.sensors.vibration import VibrationParams
from quadsim.world.environment import EnvironmentParams
from quadsim.world.scene.scene import Scene, scene_of
from quadsim.world.scene.terrain_hills import HillsParams, hills
from quadsim_bench.figure import Measurement, Session, lines

BLOCK = 1000

SHAKING = VibrationParams(
    reference_speed_radps=500.0,
    accel_rotor_mps2=(1.0, 1.0, 2.0),
    accel_blade_mps2=(0.5, 0.5, 1.0),
    accel_floor=(0.01, 0.01, 0.02),
    gyro_rotor_radps=(0.02, 0.02, 0.01),
    gyro_blade_radps=(0.01, 0.01, 0.005),
    gyro_floor=(1e-3, 1e-3, 1e-3),
)
EVERYTHING = ImuParams(
    rate_hz=1000.0,
    position_B_m=(0.02, -0.01, 0.03),
    rotation_deg=(1.0, -2.0, 90.0),
    accel_scale_sigma=0.01,
    accel_cross_axis_sigma=0.01,
    accel_turn_on_sigma=0.1,
    accel_noise_density=(2e-3, 2e-3, 2e-3),
    accel_instability=(1e-3, 1e-3, 1e-3),
    accel_bias_walk=(1e-4, 1e-4, 1e-4),
    accel_bandwidth_hz=200.0,
    accel_step=5e-3,
    accel_range=157.0,
    accel_temperature_bias=(1e-3, 1e-3, 1e-3),
    accel_temperature_scale=(1e-4, 1e-4, 1e-4),
    gyro_scale_sigma=0.01,
    gyro_cross_axis_sigma=0.01,
    gyro_turn_on_sigma=0.01,
    gyro_noise_density=(1e-4, 1e-4, 1e-4),
    gyro_instability=(1e-5, 1e-5, 1e-5),
    gyro_bias_walk=(1e-6, 1e-6, 1e-6),
    gyro_bandwidth_hz=200.0,
    gyro_step=1e-3,
    gyro_range=34.9,
    gyro_temperature_bias=(1e-4, 1e-4, 1e-4),
    gyro_temperature_scale=(1e-4, 1e-4, 1e-4),
    gyro_g_sensitivity=(1e-4, 1e-4, 1e-4),
    ambient_offset_K=10.0,
    warm_up_K=15.0,
    vibration=SHAKING,
)


@dataclass(frozen=True, slots=True)
class Device:
    """One device before the hills.

    Attributes:
        kind: of the sensor.
        params: its parameters.
        scene: what its rays meet.
    """

    kind: str
    params: SensorParams
    scene: Scene

    def sample_us(self, samples: int) -> float:
        """Processor time of one sample, us."""
        model, loop = SENSORS[self.kind], LOOPS[self.kind]
        generator = stream(1, "quad", self.kind)
        slots: NDArray[np.record] = np.zeros(1, dtype_of(model.slot))
        start_slot(slots, model, self.params, generator)
        period_ns = round(1e9 / self.params.rate_hz)
        slots["previous"], now = moments(period_ns)
        white, given = np.empty((BLOCK, model.white_width)), np.zeros(BLOCK, model.sample)
        fixed = (slots, one(EnvironmentParams()), self.scene, now, np.full(BLOCK, period_ns))
        loop(*fixed, white, given[:0])
        begin_s = time.process_time()
        for _ in range(samples // BLOCK):
            generator.standard_normal(out=white)
            loop(*fixed, white, given)
        return 1e6 * (time.process_time() - begin_s) / samples


def one(params: Any) -> NDArray[np.record]:
    """A (1,) record of parameters."""
    packed = pack(params)
    records: NDArray[np.record] = np.zeros(1, packed.dtype)
    records[0] = packed
    return records


def moments(period_ns: int) -> tuple[NDArray[np.record], NDArray[np.record]]:
    """Two moments of a flight 30 m above the hills."""
    pair = []
    for k in range(2):
        truth: NDArray[np.record] = np.zeros(1, KINEMATICS)
        truth["stamp_ns"] = k * period_ns
        truth["p_W"] = (20.0, 10.0, 50.0)
        truth["q_WB"] = np.array([1.0, 0.1 + 1e-3 * k, 0.2, 0.0]) / np.sqrt(1.05)
        truth["v_W"], truth["w_B"] = (1.0, 2.0, 3.0 + 0.01 * k), (2.0, 1.0, 0.5)
        truth["a_W"], truth["w_dot_B"] = (0.0, 0.0, 10.0), (5.0, 0.0, 0.0)
        truth["rotor_speed_radps"][0, :4] = 480.0, 490.0, 510.0 + k, 520.0
        pair.append(truth)
    return pair[0], pair[1]


def devices() -> dict[str, Device]:
    """What is measured, by the names in the figures."""
    scene = scene_of((), hills(HillsParams(height_m=20.0, wavelength_m=100.0)))
    suite = load_suite("default")
    found = {kind: Device(kind, suite[kind], scene) for kind in SENSORS if kind in suite}
    found["imu_everything"] = Device("imu", EVERYTHING, scene)
    found["imu_ideal"] = Device("imu", ImuParams(rate_hz=1000.0), scene)
    return found


def measure(session: Session) -> dict[str, Any]:
    """One run of each."""
    count = 20_000 if session.short else 300_000
    made = session.once("devices", devices)
    return {f"sensor_{name}_us": device.sample_us(count) for name, device in made.items()}


WORDS = {
    "imu": "an ADIS16448",
    "gnss": "a u-blox F9P",
    "magnetometer": "an IST8310",
    "barometer": "a BMP390",
    "rangefinder": "a TF-Luna's cone over hills",
    "imu_everything": "an IMU with every error and four rotors that shake",
    "imu_ideal": "an IMU without errors",
}

FIGURES = "\n".join(
    f"sensor_{name}_us us less a sample of {words}" for name, words in WORDS.items()
)

MEASUREMENTS = (Measurement("sensors", lines(FIGURES), measure, short=True),)
