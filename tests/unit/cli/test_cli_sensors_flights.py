"""The command ``sensors fit --flight``: lines, floor and clocks of flights that are made up here.

The flights are made by numpy alone, sample by sample from what docs/sensors.md says.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import signal, stats
from scipy.integrate import cumulative_trapezoid

from quadsim.bag.writer import BagWriter
from quadsim.cli import main
from quadsim.lab.sensor_check.shaken import fit_blocks
from quadsim.lab.sensor_check.whitening import folded
from quadsim.sensors.devices import load_device
from quadsim.wire.encode import Template, joint_template

IMU, JOINTS = "sensor_msgs/msg/Imu", "sensor_msgs/msg/JointState"
RATE_HZ, SECONDS, REFERENCE = 400.0, 10.0, 900.0
ROTOR = {"accel": np.array([0.3, 0.2, 0.5]), "gyro": np.array([4e-3, 6e-3, 2e-3])}
#: Blades pass at 286 Hz, which 400 Hz fold to 114 Hz.
BLADE = {"accel": np.array([1.0, 0.6, 2.0]), "gyro": np.array([0.02, 0.04, 0.01])}
FLOOR = {"accel": np.array([0.02, 0.015, 0.03]), "gyro": np.array([4e-4, 5e-4, 3e-4])}
CORNER_HZ, LATE_S, SCALE = 90.0, 0.006, 1.004


def run(*arguments: str):
    return CliRunner().invoke(main.main, list(arguments))


def speeds(rng: np.random.Generator, time_s: np.ndarray) -> np.ndarray:
    """(N, 4) of rotors that a controller moves."""
    own = REFERENCE * (1.0 + 0.02 * rng.standard_normal(4))
    slow, fast = rng.uniform(0.3, 0.6, 4), rng.uniform(1.5, 3.0, 4)
    phase = rng.uniform(0.0, 6.0, (2, 4))
    t = 2.0 * math.pi * time_s[:, None]
    return own + 40.0 * np.sin(slow * t + phase[0]) + 10.0 * np.sin(fast * t + phase[1])


def felt(rng: np.random.Generator, name: str, speed: np.ndarray, phase: np.ndarray) -> np.ndarray:
    """(N, 3) of a triad; the accelerometer has a low-pass."""
    corner_hz = CORNER_HZ if name == "accel" else math.inf
    found = np.zeros((len(speed), 3))
    for order, sizes in ((1, ROTOR[name]), (2, BLADE[name])):
        gain = (speed / REFERENCE) ** 2
        gain /= np.sqrt(1.0 + (order * speed / (2.0 * math.pi * corner_hz)) ** 4)
        for axis, quarter in enumerate((0.0, 0.5 * math.pi, 0.0)):
            found[:, axis] += sizes[axis] * (gain * np.cos(order * phase - quarter)).sum(axis=1)
    strength = np.sqrt(((speed / REFERENCE) ** 4).mean(axis=1))[:, None]
    noise = FLOOR[name] * strength * math.sqrt(RATE_HZ) * rng.standard_normal(found.shape)
    if name == "accel":
        noise = signal.lfilter(*signal.butter(2, CORNER_HZ, fs=RATE_HZ), noise, axis=0)
        noise[:, 2] += 9.81
    motion = signal.butter(2, 2.0, fs=RATE_HZ, output="sos")
    return found + noise + signal.sosfilt(motion, rng.standard_normal(found.shape), axis=0)


def write_flight(path: Path, seed: int, rotors: bool = True) -> Path:
    """A bag of a flight."""
    rng = np.random.default_rng(seed)
    time_s = np.arange(round(SECONDS * RATE_HZ)) / RATE_HZ
    early_s = np.arange(-1.0, SECONDS + 1.0, 1e-3)
    speed = speeds(rng, early_s)
    phase = cumulative_trapezoid(speed, early_s, axis=0, initial=0.0) + rng.uniform(0.0, 6.0, 4)
    now, turned = (
        np.stack([np.interp(time_s, early_s, column) for column in rows.T], axis=1)
        for rows in (speed, phase)
    )
    stamp_ns = np.round((100.0 + time_s) * 1e9).astype(np.int64)
    late_ns = np.round((100.0 + early_s + LATE_S) * 1e9).astype(np.int64)
    values = {name: felt(rng, name, now, turned) for name in ("accel", "gyro")}
    imu = Template.of(IMU, "imu_link").payloads(stamp_ns, f=values["accel"], w=values["gyro"])
    joints = joint_template([f"rotor_{k}" for k in range(4)])
    recorded = joints.payloads(late_ns[::2], speeds=speed[::2] / SCALE)
    with BagWriter(path) as bag:
        for at_ns, payload in zip(stamp_ns.tolist(), imu, strict=True):
            bag.add("/quad/imu/data_raw", IMU, None, at_ns, payload)
        if rotors:
            for at_ns, payload in zip(late_ns[::2].tolist(), recorded, strict=True):
                bag.add("/quad/motor_speed", JOINTS, None, at_ns, payload)
    return path


@pytest.fixture(scope="module")
def flights(tmp_path_factory) -> list[Path]:
    folder = tmp_path_factory.mktemp("flights")
    return [write_flight(folder / f"flight{seed}", seed) for seed in (1, 2)]


@pytest.mark.thorough
def test_flights_become_a_device(flights, tmp_path):
    """Intervals hold what the flights were made of, and the file is a device."""
    path = tmp_path / "mine.yaml"
    logs = [part for flight in flights for part in ("--flight", str(flight))]
    result = run("sensors", "fit", *logs, "--output", str(path), "--json")
    assert result.exit_code == 0, result.stderr
    said = json.loads(result.stdout)["flights"]
    assert said["rotor_speed_scale"][0] == pytest.approx(SCALE, abs=5e-4)
    assert said["rotor_speed_delay_s"][0] == pytest.approx(LATE_S, abs=1e-3)
    assert said["pose_delay_s"] is None
    truths = {
        f"vibration.{sensor}_{part}": sizes[sensor]
        for part, sizes in (("rotor", ROTOR), ("blade", BLADE), ("floor", FLOOR))
        for sensor in ("accel", "gyro")
    }
    grown = (said["reference_speed_radps"] * SCALE / REFERENCE) ** 2
    inside = []
    for each in said["figures"]:
        if each["name"].endswith("bandwidth_hz"):
            continue
        sizes = next(v for name, v in truths.items() if each["name"].startswith(name))
        truth = grown * sizes["xyz".index(each["axis"])]
        assert each["told"], each
        assert each["value"] == pytest.approx(truth, rel=0.12), each
        inside.append(each["low"] <= truth <= each["high"])
    assert len(inside) == 18
    assert sum(inside) >= 14  # of 18 at 95 %
    line_hz = SCALE * said["reference_speed_radps"] / (2.0 * math.pi)
    lines = {each["name"]: each for each in said["figures"] if each["axis"] == "x"}
    seen = lines["vibration.accel_rotor_mps2"]
    passed = (1.0 + (line_hz / CORNER_HZ) ** 4) ** -0.5
    assert seen["recorded"] == pytest.approx(passed * seen["value"], rel=0.05)
    device = load_device("imu", str(path))
    assert device.accel_bandwidth_hz == pytest.approx(CORNER_HZ, rel=0.03)
    assert device.gyro_bandwidth_hz == 0.0
    assert device.vibration.on


def test_what_cannot_be_read_is_refused(tmp_path):
    nothing = run("sensors", "fit")
    assert nothing.exit_code == 2
    assert "nothing to read" in nothing.stderr
    still = write_flight(tmp_path / "still", 3, rotors=False)
    result = run("sensors", "fit", "--flight", str(still), "--output", str(tmp_path / "x.yaml"))
    assert result.exit_code == 2
    assert "neither /quad/motor_speed nor /quad/command_motor_speed" in result.stderr
    assert not (tmp_path / "x.yaml").exists()


def test_a_frequency_folds():
    """As numpy's sampled cosine shows it."""
    for line_hz in (30.0, 260.0, 505.0, 740.0, 1130.0):
        seen = np.abs(np.fft.rfft(np.cos(2.0 * math.pi * line_hz * np.arange(500) / 500.0)))
        assert folded(np.array([line_hz]), 500.0)[0] == pytest.approx(float(seen.argmax()))


def test_an_interval_of_blocks_is_that_of_their_mean():
    """Least squares of one number for each block: Student's interval of the mean."""
    values = np.random.default_rng(4).normal(3.0, 0.5, 30)
    found = fit_blocks(
        lambda x: 0.5 * (values - x[0]) ** 2, np.zeros(1), np.ones(1), np.array([[-9.0, 9.0]])
    )
    wanted = stats.t.interval(0.95, 29, values.mean(), values.std(ddof=1) / math.sqrt(30.0))
    assert found.value[0] == pytest.approx(values.mean(), abs=1e-3)
    assert found.half[0] == pytest.approx(wanted[1] - values.mean(), rel=1e-3)
