"""How long one IMU sample takes in a compiled loop, the drawing of its noise included.

``python benchmarks/imu_sample.py`` prints one JSON object: nanoseconds of processor time a sample,
median of the runs. "everything" has every error on and four rotors that shake; "nothing" is the
ideal device.
"""

from __future__ import annotations

import json
import platform
import statistics
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.compiled import kernel
from quadsim.noise import stream
from quadsim.parameters import pack
from quadsim.records import KINEMATICS
from quadsim.sensors.imu import MODEL, ImuParams, imu_step
from quadsim.sensors.vibration import VibrationParams
from quadsim.world.environment import EnvironmentParams
from quadsim.world.scene import EMPTY_SCENE

SAMPLES, BLOCK, RUNS = 1_000_000, 1_000, 7

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


@kernel
def many(
    states: Any,
    params: Any,
    environments: Any,
    scene: Any,
    previous: Any,
    now: Any,
    white: NDArray[np.float64],
    samples: Any,
) -> None:
    """One sample for each row of white noise."""
    period_ns = now[0].stamp_ns - previous[0].stamp_ns
    for k in range(white.shape[0]):
        imu_step(states, params, environments, scene, previous, now, white[k], samples)
        previous[0].stamp_ns = now[0].stamp_ns
        now[0].stamp_ns += period_ns


def truths() -> tuple[NDArray[np.record], NDArray[np.record]]:
    """Two moments of a flight, 1 ms apart."""
    pair = []
    for k in range(2):
        truth: NDArray[np.record] = np.zeros(1, KINEMATICS)
        truth["stamp_ns"] = k * 1_000_000
        truth["q_WB"] = np.array([1.0, 0.1 + 1e-3 * k, 0.2, 0.0]) / np.sqrt(1.05)
        truth["v_W"], truth["w_B"] = (1.0, 2.0, 3.0 + 0.01 * k), (2.0, 1.0, 0.5)
        truth["a_W"], truth["w_dot_B"] = (0.0, 0.0, 10.0), (5.0, 0.0, 0.0)
        truth["rotor_speed_radps"][0, :4] = 480.0, 490.0, 510.0 + k, 520.0
        pair.append(truth)
    return pair[0], pair[1]


def run_ns(params: ImuParams) -> float:
    """Nanoseconds for one sample."""
    generator = stream(1, "quad", "imu")
    states, packed, environments = (
        np.zeros(1, MODEL.state),
        np.zeros(1, pack(params).dtype),
        np.zeros(1, pack(EnvironmentParams()).dtype),
    )
    packed[0], environments[0] = pack(params), pack(EnvironmentParams())
    MODEL.start(states[0], params, generator)
    previous, now = truths()
    samples: NDArray[np.record] = np.zeros(1, MODEL.sample)
    white = np.empty((BLOCK, MODEL.white_width))
    fixed = (states, packed, environments, EMPTY_SCENE, previous, now)
    many(*fixed, white[:0], samples)
    begin_s = time.process_time()
    for _ in range(SAMPLES // BLOCK):
        generator.standard_normal(out=white)
        many(*fixed, white, samples)
    return 1e9 * (time.process_time() - begin_s) / SAMPLES


def main() -> None:
    """Measure and print."""
    result: dict[str, object] = {"machine": platform.processor() or platform.machine()}
    result["white_numbers"] = MODEL.white_width
    for name, params in (("everything", EVERYTHING), ("nothing", ImuParams(rate_hz=1000.0))):
        runs = [run_ns(params) for _ in range(RUNS)]
        result[f"{name}_ns"] = round(statistics.median(runs), 1)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
