"""The bench: it finds every figure of devices that are as specified, and every one that is not."""

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from quadsim.base.files import known, share_dir
from quadsim.base.parameters import leaves, read_yaml
from quadsim.lab.sensor_check.bench import Bench
from quadsim.lab.sensor_check.check import (
    LEFT_OUT,
    RIGS,
    planned,
    unmeasured,
)
from quadsim.lab.sensor_check.echo import LidarBench
from quadsim.lab.sensor_check.experiments import (
    TERMS,
    Experiment,
    clipped_deviation,
    experiments,
)
from quadsim.lab.sensor_check.figures import WANTED
from quadsim.lab.sensor_check.rest import channels_of, plain_channels, rest
from quadsim.lab.sensor_check.rigs import PlainRig, passed_noise
from quadsim.sensors import DEVICES, SENSORS
from quadsim.sensors.barometer import BarometerParams
from quadsim.sensors.devices import load_device
from quadsim.sensors.gnss import GnssParams
from quadsim.sensors.imu import ImuParams
from quadsim.sensors.imu_channel import noise_gain
from quadsim.sensors.lidar import LidarParams
from quadsim.sensors.magnetometer import MagnetometerParams
from quadsim.sensors.rangefinder import RangefinderParams
from quadsim.sensors.vibration import VibrationParams
from quadsim.world.environment import EnvironmentParams

WORLD = EnvironmentParams()

IMU_TRIAD: dict[str, Any] = {
    "scale": (1.01, 0.99, 1.02), "scale_sigma": 0.01,
    "cross_axis": (0.01, -0.02, 0.03, 0.01, -0.01, 0.02), "cross_axis_sigma": 0.005,
    "bias": (0.1, -0.2, 0.3), "turn_on_sigma": 0.05, "noise_density": (1e-3, 2e-3, 3e-3),
    "instability": (1e-3, 2e-3, 3e-3), "instability_time_s": 200.0, "bias_walk": (1e-4, 2e-4, 3e-4),
    "bandwidth_hz": 60.0, "step": 1e-3, "temperature_bias": (1e-3, -2e-3, 1e-3),
    "temperature_scale": (1e-4, 2e-4, -1e-4),
}  # fmt: skip

TIMING = {"latency_s": 0.01, "stamp_jitter_s": 1e-4, "loss_probability": 0.02}
ECHO = {
    "noise_sigma_m": 0.02, "noise_share": 0.01, "turn_on_sigma_m": 0.05, "scale_sigma": 0.02,
    "step_m": 0.01, "range_min_m": 0.3, "range_max_m": 12.0, "incidence_max_deg": 70.0,
    "dropout_probability": 0.05, "grazing_dropout_probability": 0.2,
}  # fmt: skip
WARM = {"ambient_offset_K": 5.0, "warm_up_K": 12.0, "warm_up_s": 100.0}

#: Devices on which everything is wrong that can be.
WORST: dict[str, Any] = {
    "imu": ImuParams(
        rate_hz=200.0,
        position_B_m=(0.1, -0.2, 0.05),
        rotation_deg=(10.0, -20.0, 30.0),
        **{f"accel_{key}": value for key, value in IMU_TRIAD.items()},
        **{f"gyro_{key}": value for key, value in IMU_TRIAD.items()},
        accel_range=50.0,
        gyro_range=5.0,
        gyro_g_sensitivity=(1e-3, -1e-3, 2e-3),
        vibration=VibrationParams(
            reference_speed_radps=600.0,
            blades=3,
            accel_rotor_mps2=(1.0, 2.0, 3.0),
            accel_blade_mps2=(2.0, 1.0, 3.0),
            accel_floor=(0.1, 0.2, 0.3),
            gyro_rotor_radps=(0.1, 0.2, 0.3),
            gyro_blade_radps=(0.2, 0.1, 0.3),
            gyro_floor=(0.01, 0.02, 0.03),
        ),
        **WARM,
        **TIMING,
    ),
    "gnss": GnssParams(
        rate_hz=5.0,
        position_B_m=(0.1, 0.2, 0.3),
        horizontal_accuracy_m=2.0,
        horizontal_measure="drms",
        vertical_accuracy_m=4.0,
        vertical_measure="r95",
        velocity_accuracy_mps=0.1,
        velocity_measure="r95",
        vertical_velocity_factor=1.5,
        correlated_share=0.7,
        correlation_time_s=100.0,
        satellites=12,
        elevation_mask_deg=10.0,
        hdop=0.85,
        vdop=1.4,
        outage_rate_hz=0.02,
        outage_mean_s=4.0,
        multipath_rate_hz=0.05,
        multipath_sigma_m=3.0,
        multipath_mean_s=8.0,
        **TIMING,
    ),
    "magnetometer": MagnetometerParams(
        rate_hz=50.0,
        rotation_deg=(5.0, 10.0, -15.0),
        noise_sigma_T=(1e-7, 2e-7, 3e-7),
        heading_sigma_rad=0.05,
        soft_iron=(1.1, 0.9, 1.05, 0.02, -0.03, 0.04),
        scale_sigma=0.02,
        cross_axis_sigma=0.01,
        hard_iron_T=(1e-6, -2e-6, 3e-6),
        turn_on_sigma_T=1e-6,
        bias_walk=(1e-8, 2e-8, 3e-8),
        temperature_bias=(1e-8, -2e-8, 3e-8),
        motor_current_T_per_A=(1e-7, 2e-7, -3e-7),
        step_T=1e-7,
        range_T=1e-4,
        **WARM,
        **TIMING,
    ),
    "barometer": BarometerParams(
        rate_hz=25.0,
        noise_sigma_pa=2.0,
        bias_pa=30.0,
        turn_on_sigma_pa=50.0,
        bias_walk=0.1,
        temperature_bias=0.5,
        ahead_error=(0.1, 0.2, 0.3),
        back_error=(-0.1, -0.2, -0.3),
        response_time_s=0.2,
        step_pa=0.5,
        range_min_pa=30000.0,
        range_max_pa=110000.0,
        **WARM,
        **TIMING,
    ),
    "rangefinder": RangefinderParams(
        rate_hz=20.0,
        position_B_m=(0.05, 0.1, -0.1),
        field_of_view_deg=30.0,
        rays=48,
        **ECHO,
        **TIMING,
    ),
    "lidar": LidarParams(
        rate_hz=20.0,
        channels=8,
        elevation_min_deg=-20.0,
        elevation_max_deg=10.0,
        columns=100,
        azimuth_min_deg=-90.0,
        azimuth_max_deg=60.0,
        spinning=True,
        intensity=True,
        reflectivity=0.3,
        **ECHO,
        **TIMING | {"loss_probability": 0.2},
    ),
}


def set_parameters(params: Any) -> set[str]:
    """Dotted names of the parameters that differ from a device without errors."""
    found = set()
    for leaf in leaves(type(params)):
        value = params
        for part in leaf.name.split("."):
            value = getattr(value, part)
        if value != leaf.default:
            found.add(leaf.name)
    return found


def choices(params: Any) -> set[str]:
    """Names of the parameters that are words: how others are meant, not figures."""
    return {field.name for field in fields(params) if isinstance(getattr(params, field.name), str)}


def measured(plan: list[Experiment], confidence: float, name: str = "") -> list[Any]:
    """Figures of a parameter's experiments, or of all."""
    return [
        figure
        for experiment in plan
        if not name or name in experiment.names
        for figure in experiment.measure(confidence)
    ]


def intervals(plan: list[Experiment]) -> int:
    return sum(experiment.intervals for experiment in plan)


def covered(plan: list[Experiment]) -> set[str]:
    return {name for experiment in plan for name in experiment.names}


#: What the worst devices do not set: tests of each sensor show what these change.
ELSEWHERE = {
    "imu": {"sampling", "accel_nonlinearity", "gyro_nonlinearity"},
    "gnss": {"fix", "elevation_mask_deg", "first_fix_s"},
    "rangefinder": {"radiation", "rotation_deg"},
    "lidar": {"position_B_m", "rotation_deg"},
}


@pytest.mark.parametrize("kind", WORST)
def test_everything_is_wrong_with_the_worst_devices(kind):
    names = {leaf.name for leaf in leaves(DEVICES[kind])}
    assert names - set_parameters(WORST[kind]) == ELSEWHERE.get(kind, set())


def test_every_tag_has_an_experiment():
    for params_type in DEVICES.values():
        assert {leaf.spec.term for leaf in leaves(params_type)} <= {*TERMS, ""}


@pytest.mark.parametrize("kind", WORST)
def test_every_figure_of_the_worst_device_comes_back(kind):
    """All that can be set is measured, and is what was set; with 95 % for all together."""
    params = WORST[kind]
    plan = planned(kind, params, WORLD, 2)
    assert not set(set_parameters(DEVICES[kind]()))  # a device as it comes has no errors
    left = set(set_parameters(params)) - covered(plan) - choices(params)
    assert not left, "set, but not measured"
    for figure in measured(plan, 1.0 - 0.05 / intervals(plan)):
        assert figure.ok, figure
        assert figure.half_width <= WANTED, figure


#: Not figures of the output: geometry that is whole numbers or yes and no, and what describes the
#: sky, of which only the median over many skies is known.
NOT_SHIFTED = {
    "rays", "channels", "columns", "spinning", "intensity", "satellites", "elevation_mask_deg",
    "hdop", "vdop",
}  # fmt: skip


def shifted(params: Any, name: str, by: float = 1.2) -> Any:
    """A device with one parameter a fifth larger than its file says."""
    first, _, rest = name.partition(".")
    value = getattr(params, first)
    if rest:
        return replace(params, **{first: shifted(value, rest, by)})
    if isinstance(value, tuple):
        return replace(params, **{first: tuple(by * item for item in value)})
    return replace(params, **{first: value + 1 if isinstance(value, int) else by * value})


class WrongBench(Bench):
    """On which one parameter of every device is not what the experiment sets."""

    wrong = ""

    def run(self, params, *more, **others):
        return super().run(shifted(params, self.wrong), *more, **others)

    def switch_on(self, params, *more, **others):
        return super().switch_on(shifted(params, self.wrong), *more, **others)

    def deliveries(self, params, *more, **others):
        return super().deliveries(shifted(params, self.wrong), *more, **others)


class WrongLidarBench(LidarBench):
    wrong = ""

    def scans(self, params, *more, **others):
        return super().scans(shifted(params, self.wrong), *more, **others)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (kind, name)
        for kind, params in WORST.items()
        for name in sorted(set_parameters(params))
        if name not in choices(params) | NOT_SHIFTED
    ],
)
def test_a_device_that_is_not_as_its_file_says_is_found(kind, name):
    bench = WrongLidarBench(WORLD, 3) if kind == "lidar" else WrongBench(kind, WORLD, 3)
    bench.wrong = name
    plan = experiments(RIGS[kind](bench, WORST[kind]))
    assert not all(figure.ok for figure in measured(plan, 0.99, name))


#: Figures of all shipped devices, at most: with 95 % none of them is a false alarm.
ALL_FIGURES = 2000


def kind_of(name):
    return read_yaml(share_dir() / "config" / "sensors" / f"{name}.yaml")["sensor"]


SHIPPED = [name for name in known("sensors") if kind_of(name) in {*DEVICES} - {*LEFT_OUT}]

#: Devices of a kind take turns at the experiments, so that a device is put to every so-maniest;
#: ``quadsim sensors check`` puts it to all.
TURNS = 6


def of_each_kind(names: list[str]) -> list[object]:
    """The first device of each kind, and the others for who asks for more.

    Lidars take long; the worst one above is put to all experiments.
    """
    first = {kind_of(name): name for name in reversed(names) if kind_of(name) != "lidar"}.values()
    return [n if n in first else pytest.param(n, marks=pytest.mark.thorough) for n in names]


def test_a_sensor_without_a_rig_of_its_own_is_measured_by_its_tags():
    params = BarometerParams(
        noise_sigma_pa=2.0, turn_on_sigma_pa=30.0, bias_walk=0.5, step_pa=0.4, latency_s=0.01
    )
    bench = Bench("barometer", WORLD, 3)
    plan = experiments(PlainRig(bench, params))
    assert covered(plan) >= set(set_parameters(params))
    for figure in measured(plan, 0.999):
        assert figure.ok, figure
    (channel,) = plain_channels(params, bench, bench.run(params, "first", 1)[0])
    known = next(channels_of("barometer")[0](params, bench, None))
    assert (channel.noise, channel.rounding) == (known.noise, known.rounding)
    assert channel.spread == known.spread


@pytest.mark.parametrize("name", of_each_kind(SHIPPED))
def test_every_shipped_device_is_as_its_file_says(name):
    kind = kind_of(name)
    params = load_device(kind, name)
    plan = planned(kind, params, WORLD, 1)
    assert kind not in RIGS or not unmeasured(params, plan)  # what others leave out is told
    turn = [other for other in SHIPPED if kind_of(other) == kind].index(name)
    plan = plan[turn % TURNS :: TURNS]
    for figure in measured(plan, 1.0 - 0.05 / ALL_FIGURES):
        assert figure.ok, figure
        assert figure.half_width <= WANTED, figure
    if kind in SENSORS:
        bench = Bench(kind, WORLD, 1)
        for _, found in rest(kind, params, bench, 0.05, 1.0 - 0.05 / ALL_FIGURES):
            assert found.figure.ok, found.figure


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("imu", "accel_noise_density"),
        ("imu", "gyro_instability"),
        ("imu", "accel_bias_walk"),
        ("gnss", "horizontal_accuracy_m"),
        ("barometer", "noise_sigma_pa"),
    ],
)
def test_an_hour_at_rest_finds_it_too(kind, name):
    params = {
        "imu": ImuParams(
            rate_hz=20.0,
            accel_noise_density=(1e-3,) * 3,
            accel_bias_walk=(1e-3,) * 3,
            gyro_noise_density=(1e-4,) * 3,
            gyro_instability=(1e-3,) * 3,
            gyro_instability_time_s=10.0,
            gyro_temperature_bias=(1e-4, 0.0, 0.0),
            warm_up_K=10.0,
            gyro_step=1e-4,
            accel_bandwidth_hz=5.0,
        ),
        "gnss": GnssParams(
            rate_hz=5.0,
            horizontal_accuracy_m=1.0,
            vertical_accuracy_m=2.0,
            velocity_accuracy_mps=0.1,
            correlated_share=0.5,
            correlation_time_s=5.0,
        ),
        "barometer": BarometerParams(
            rate_hz=10.0, noise_sigma_pa=1.0, bias_walk=0.1, step_pa=1.0, temperature_bias=2.0,
            warm_up_K=5.0,
        ),
    }[kind]  # fmt: skip
    bench, confidence = Bench(kind, WORLD, 4), 1.0 - 0.01 / 60
    assert all(found.figure.ok for _, found in rest(kind, params, bench, 1.0, confidence))
    wrong = WrongBench(kind, WORLD, 4)
    wrong.wrong = name
    off = [channel for channel, found in rest(kind, params, wrong, 1.0, confidence)
           if not found.figure.ok]  # fmt: skip
    assert off
    part = name.split("_")[0]
    expected = {"accel": "accel", "gyro": "gyro", "horizontal": "position", "noise": "pressure"}
    assert all(channel.name.startswith(expected[part]) for channel in off)


def test_what_cannot_be_judged_is_not():
    """AllanNoise that is finer than the counts: what is rounded off depends on where it stands."""
    params = RangefinderParams(noise_sigma_m=0.002, step_m=0.01, range_max_m=8.01)
    [(channel, found)] = rest("rangefinder", params, Bench("rangefinder", WORLD, 1), 0.02, 0.95)
    assert not channel.judged
    assert (found.figure.specified, found.figure.verdict) == (None, "not judged")


def test_each_experiment_has_noise_of_its_own_and_repeats():
    bench = Bench("barometer", WORLD, 5)
    params = BarometerParams(noise_sigma_pa=1.0)
    first, again = (bench.run(params, "a", 50)["pressure_pa"] for _ in range(2))
    other = bench.run(params, "b", 50)["pressure_pa"]
    np.testing.assert_array_equal(first, again)
    assert abs(np.corrcoef(first, other)[0, 1]) < 0.6  # 4 deviations of 1 / sqrt(50)
    reseeded = Bench("barometer", WORLD, 6).run(params, "a", 50)["pressure_pa"]
    assert not np.array_equal(first, reseeded)


def test_blocks_of_noise_go_on_where_the_last_one_ended():
    """More samples than one block: the walk has no seam, and the first ones are the same."""
    params = BarometerParams(bias_walk=1.0, rate_hz=1.0)
    bench = Bench("barometer", WORLD, 7)
    long = bench.run(params, "walk", 20_000)["pressure_pa"]
    np.testing.assert_array_equal(long[:100], bench.run(params, "walk", 100)["pressure_pa"])
    assert np.abs(np.diff(long)).max() < 6.0


@pytest.mark.parametrize("bandwidth_hz", [5.0, 30.0, 45.0])
def test_passed_noise_is_that_of_the_sensors_closed_form(bandwidth_hz):
    """Scipy's filter integrated, against partial fractions."""
    expected = noise_gain(bandwidth_hz, 100.0)
    assert passed_noise(bandwidth_hz, 100.0) == pytest.approx(expected, rel=1e-6)


def test_a_cut_normal_value():
    values = np.clip(np.random.default_rng(8).standard_normal(200_000), -0.7, 0.7)
    # 5 deviations of a deviation from so many values
    assert clipped_deviation(2.0, 1.4) == pytest.approx(2.0 * values.std(), rel=5 / 632)
    assert clipped_deviation(0.0, 1.0) == 0.0
