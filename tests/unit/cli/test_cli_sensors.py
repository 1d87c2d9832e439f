"""The command ``sensors``: checks, fits, and what it refuses."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from quadsim.bag.reading import open_bag
from quadsim.bag.writer import BagWriter
from quadsim.base.errors import InputError
from quadsim.cli import main
from quadsim.lab.sensor_check import bench, fit
from quadsim.sensors.devices import load_device
from quadsim.wire.encode import Template

IMU = "sensor_msgs/msg/Imu"
RATE_HZ = 50.0
COUNT = 15_000  # five minutes

#: What the recording is made of: density and walk of both triads, constant bias, counts.
ACCEL_DENSITY, ACCEL_WALK, ACCEL_STEP = 2e-3, 4e-4, 5e-3
GYRO_DENSITY = 1e-3
GYRO_BIAS = np.array([0.01, -0.02, 0.005])


def run(*arguments: str):
    return CliRunner().invoke(main.main, list(arguments))


def noise(seed: int, density: float, walk: float) -> np.ndarray:
    white, steps = np.random.default_rng(seed).standard_normal((2, COUNT, 3))
    return density * math.sqrt(RATE_HZ) * white + walk / math.sqrt(RATE_HZ) * np.cumsum(steps, 0)


def at_rest() -> tuple[np.ndarray, np.ndarray]:
    """Forces and rates of the recording."""
    gravity = np.array([0.6, -0.8, 0.0]) * 1.2 + np.array([0.0, 0.0, 9.7])
    force = noise(1, ACCEL_DENSITY, ACCEL_WALK) + gravity
    return ACCEL_STEP * np.round(force / ACCEL_STEP), noise(2, GYRO_DENSITY, 0.0) + GYRO_BIAS


def write_bag(
    path: Path,
    force: np.ndarray,
    rate: np.ndarray,
    stamps_s: np.ndarray,
    topic: str = "imu/data_raw",
) -> Path:
    """A bag of IMU messages."""
    stamp_ns = np.round(stamps_s * 1e9).astype(np.int64)
    payloads = Template.of(IMU, "imu_link").payloads(stamp_ns, w=rate, f=force)
    with BagWriter(path) as bag:
        for at_ns, payload in zip(stamp_ns.tolist(), payloads, strict=True):
            bag.add(f"/quad/{topic}", IMU, None, at_ns, payload)
    return path


def stamps(count: int = COUNT) -> np.ndarray:
    return 100.0 + np.arange(count) / RATE_HZ


@pytest.fixture(scope="module")
def rest_bag(tmp_path_factory) -> Path:
    return write_bag(tmp_path_factory.mktemp("rest") / "rest", *at_rest(), stamps())


def test_a_recording_at_rest_becomes_a_device(rest_bag, tmp_path):
    """The intervals hold what the recording was made of, and the file is a device."""
    path = tmp_path / "mine.yaml"
    result = run("sensors", "fit", str(rest_bag), "--output", str(path), "--json")
    assert result.exit_code == 0, result.stderr
    said = json.loads(result.stdout)
    assert said["passed"]
    assert said["file"] == str(path)
    assert said["rate_hz"] == RATE_HZ
    truth = {
        "accel_noise_density": ACCEL_DENSITY,
        "accel_bias_walk": ACCEL_WALK,
        "gyro_noise_density": GYRO_DENSITY,
    }
    figures = said["accel"]["figures"] + said["gyro"]["figures"]
    assert [figure["name"] for figure in figures] == [name for name in truth for _ in range(3)]
    for figure in figures:
        assert figure["low"] <= truth[figure["name"]] <= figure["high"], figure
        assert figure["low"] <= figure["value"] <= figure["high"]
    assert said["accel"]["step"] == pytest.approx(ACCEL_STEP, rel=1e-9)
    assert said["gyro"]["step"] == 0.0
    device = load_device("imu", str(path))
    # the mean of 15000 samples is off by density / sqrt(300 s)
    np.testing.assert_allclose(device.gyro_bias, GYRO_BIAS, atol=5 * GYRO_DENSITY / math.sqrt(300))
    np.testing.assert_allclose(device.gyro_noise_density, GYRO_DENSITY, rtol=0.05)
    np.testing.assert_allclose(device.accel_noise_density, ACCEL_DENSITY, rtol=0.05)
    assert device.accel_step == pytest.approx(ACCEL_STEP)
    assert device.rate_hz == RATE_HZ


def test_what_was_found_is_shown(rest_bag, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run("sensors", "fit", str(rest_bag))
    assert result.exit_code == 0
    assert "gyro_noise_density x" in result.stdout.replace("\n", "")
    assert "file: rest_imu.yaml" in result.stdout
    text = (tmp_path / "rest_imu.yaml").read_text()
    assert "95 % interval" in text
    again = run("sensors", "fit", str(rest_bag))
    assert again.exit_code == 2
    assert "exists already" in again.stderr


def fit_of(path: Path, tmp_path: Path, *more: str):
    return run("sensors", "fit", str(path), "--output", str(tmp_path / "x.yaml"), *more)


def test_a_flight_is_refused(tmp_path):
    force, rate = at_rest()
    rate[9000:9100, 1] += 0.5  # a turn of a second
    result = fit_of(write_bag(tmp_path / "bag", force, rate, stamps()), tmp_path)
    assert result.exit_code == 2
    assert "moves: gyro y is off by 0.5" in result.stderr
    assert "180 s after the start" in result.stderr
    assert not (tmp_path / "x.yaml").exists()


def test_a_push_is_refused(tmp_path):
    force, rate = at_rest()
    force[5000:5200, 0] += 1.0
    result = fit_of(write_bag(tmp_path / "bag", force, rate, stamps()), tmp_path)
    assert result.exit_code == 2
    assert "moves: accel x is off by 1" in result.stderr


def test_a_short_recording_is_refused(tmp_path):
    force, rate = at_rest()
    short = 2000
    path = write_bag(tmp_path / "bag", force[:short], rate[:short], stamps(short))
    result = fit_of(path, tmp_path)
    assert result.exit_code == 2
    assert "too short: 40 s; allowed: at least 60 s" in result.stderr


def test_the_longest_stretch_without_a_gap_counts(tmp_path):
    force, rate = at_rest()
    times = stamps()
    times[4000:] += 0.5
    path = write_bag(tmp_path / "bag", force, rate, times)
    with open_bag(path) as bag:
        recorded = fit.read_recording(bag, "/quad", "imu/data_raw")
    assert len(recorded.stamp_ns) == COUNT - 4000
    times[4000::1500] += np.arange(len(times[4000::1500]))  # gaps every half minute
    times[:4000] -= 0.3 * (np.arange(4000) // 1500)[::-1]
    with (
        open_bag(write_bag(tmp_path / "gaps", force, rate, times)) as bag,
        pytest.raises(InputError, match="without a gap"),
    ):
        fit.read_recording(bag, "/quad", "imu/data_raw")


@pytest.mark.thorough
def test_a_sensor_without_noise_says_nothing(tmp_path):
    force, rate = at_rest()
    rate[:, 2] = 0.25
    result = fit_of(write_bag(tmp_path / "bag", force, rate, stamps()), tmp_path)
    assert result.exit_code == 2
    assert "gyro z never changes" in result.stderr


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--topic", "imu/other"), "no topic /quad/imu/other"),
        (("--namespace", "/nobody"), "no topic /nobody/imu/data_raw"),
        (("--output", "x.txt"), "ends in .yaml"),
    ],
)
def test_bad_options_of_a_fit(rest_bag, tmp_path, more, words):
    result = fit_of(rest_bag, tmp_path, *more)
    assert result.exit_code == 2
    assert words in result.stderr
    assert len(result.stderr.strip().splitlines()) <= 2  # one line, and what was being done


def test_a_topic_by_its_full_name(tmp_path, rest_bag):
    with open_bag(rest_bag) as bag:
        assert len(fit.read_recording(bag, "/", "/quad/imu/data_raw").stamp_ns) == COUNT


def test_a_bag_of_other_things_is_refused(circle_bag, tmp_path):
    result = fit_of(circle_bag, tmp_path, "--topic", "gps/fix")
    assert result.exit_code == 2
    assert "is sensor_msgs/msg/NavSatFix, not sensor_msgs/msg/Imu" in result.stderr


@pytest.mark.thorough
def test_a_filter_inside_the_sensor_is_left_out():
    """Averages as short as the filter's memory do not fall as white noise does."""
    white = np.random.default_rng(5).standard_normal((COUNT + 4, 3))
    smooth = sum(white[k : k + COUNT] for k in range(5)) / 5.0
    values = 1e-3 * math.sqrt(RATE_HZ) * smooth
    stamp_ns = np.round(stamps() * 1e9).astype(np.int64)
    recorded = fit.ImuRecording(
        Path("x"), "/imu", stamp_ns, {"accel": white[:COUNT] + 9.8, "gyro": values}
    )
    found = fit.fit_recording(recorded).triads["gyro"]
    assert found.from_s > 5.0 / RATE_HZ
    assert found.explained
    for estimate in found.density:  # the mean of five keeps the density
        assert estimate.low <= 1e-3 <= estimate.high


def test_a_device_is_checked(tmp_path):
    report = tmp_path / "report.html"
    result = run(
        "sensors", "check", "bmp390", "--hours", "0.1", "--json", "--report", str(report)
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    said = json.loads(result.stdout)
    assert said["passed"]
    assert said["report"] == str(report)
    device = said["devices"]["bmp390"]
    assert device["sensor"] == "barometer"
    noise_pa = next(figure for figure in device["alone"] if figure["name"] == "noise_sigma_pa")
    assert noise_pa["low"] < noise_pa["specified"] == 0.9 < noise_pa["high"]
    assert noise_pa["high"] - noise_pa["low"] < 0.1 * noise_pa["measured"]
    assert [figure["name"] for figure in device["flight"]] == ["rate in flight", "gaps in flight"]
    assert device["rest"][0]["unit"] == "Pa"
    page = report.read_text()
    assert "noise_sigma_pa" in page
    assert page.count("plotly-graph-div") >= 2


def test_a_suite_is_checked():
    result = run("sensors", "check", "ideal", "--hours", "0.02", "--no-flight")
    assert result.exit_code == 0, result.stderr
    shown = result.stdout.replace("\n", "")
    for kind in ("imu", "gnss", "magnetometer", "barometer", "rangefinder"):
        assert f"ideal/{kind}" in shown
    assert "5 device(s): as specified" in shown


def test_a_device_that_is_not_as_specified_fails(monkeypatch, tmp_path):
    """A bench whose noise is half as large again."""
    path = tmp_path / "mine.yaml"
    path.write_text("sensor: barometer\nnoise_sigma_pa: 2.0\n")
    drawn = bench.Bench.stream

    class Loud:
        def __init__(self, generator):
            self._generator, self.bit_generator = generator, generator.bit_generator

        def standard_normal(self, size=None):
            return 1.5 * self._generator.standard_normal(size)

    monkeypatch.setattr(bench.Bench, "stream", lambda self, name: Loud(drawn(self, name)))
    result = run("sensors", "check", str(path), "--hours", "0.02", "--no-flight")
    assert result.exit_code == 1
    assert "not as specified" in result.stdout


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("sensor: barometer\nnoise_sigma_pa: -1.0\n", "noise_sigma_pa: -1.0 is out of range"),
        ("sensor: barometer\nnoise: 1.0\n", "unknown key 'noise'"),
        ("sensor: sundial\n", "sensor: 'sundial'; allowed: imu"),
        ("rate_hz: 5.0\n", "sensor: None; allowed: imu"),
        ("imu: nosuch\n", "unknown sensor 'nosuch'"),
        ("[1, 2]\n", "expected keys and values"),
        ("a: [\n", "not valid YAML"),
    ],
)
def test_bad_files_are_refused(tmp_path, content, words):
    path = tmp_path / "mine.yaml"
    path.write_text(content)
    result = run("sensors", "check", str(path))
    assert result.exit_code == 2
    assert words in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nosuch"], "'nosuch' is no device and no suite; devices: adis16448"),
        (["./nosuch.yaml"], "no such file"),
        (["bmp390", "--hours", "-1"], "--hours"),
        (["bmp390", "--hours", "100"], "--hours"),
        (["bmp390", "--report", "x.txt"], "a report ends in .html"),
        ([], "Missing argument 'CONFIG...'"),
    ],
)
def test_bad_arguments_are_refused(arguments, words):
    result = run("sensors", "check", *arguments)
    assert result.exit_code == 2
    assert words in result.stderr
