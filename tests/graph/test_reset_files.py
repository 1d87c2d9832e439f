"""What the files say is read again on a reset: the next flight is another one."""

from __future__ import annotations

from collections import deque
from functools import partial
from itertools import count

import numpy as np
import pytest
import yaml
from diagnostic_msgs.msg import DiagnosticStatus
from nav_msgs.msg import Odometry
from rclpy.parameter import Parameter
from sensor_msgs.msg import Imu, JointState
from std_srvs.srv import Trigger

from quadsim.files import find
from quadsim.nodes import imu, qos
from quadsim.nodes.base import make_status

#: Noise density of the accelerometer in the second flight, m/s^2/sqrt(Hz); before: 0.002.
LOUD = 0.02
RATE_HZ = 500.0


def changed(path, change):
    """Change a YAML file."""
    content = yaml.safe_load(path.read_text())
    change(content)
    path.write_text(yaml.safe_dump(content))


@pytest.fixture
def files(tmp_path):
    """The scenario hover in copies of the files that it names."""
    for kind, name in (
        ("vehicles", "x500"),
        ("sensors/suites", "default"),
        ("scenarios", "hover"),
    ):
        target = tmp_path / f"{name}.yaml"
        target.write_text(find(kind, name).read_text())

    def name_copies(content):
        content["vehicle"] = str(tmp_path / "x500.yaml")
        content["sensors"] = str(tmp_path / "default.yaml")
        content["mission"][1]["hover"]["duration_s"] = 60.0
        content["duration_s"] = 120.0
        content["criteria"] = []

    changed(tmp_path / "hover.yaml", name_copies)
    return tmp_path


def _keep(messages, message) -> None:
    messages.append(message)  # rclpy cannot look into a deque's own method


def seconds(message) -> float:
    """Stamp of a message."""
    return message.header.stamp.sec + message.header.stamp.nanosec * 1e-9


class Heard:
    """What the bench hears of a flight: the last second, and all events."""

    def __init__(self, bench) -> None:
        self.truth: deque[Odometry] = deque(maxlen=500)
        self.imu: deque[Imu] = deque(maxlen=500)
        self.motors: deque[JointState] = deque(maxlen=100)
        self.events: list[DiagnosticStatus] = []
        for kind, name, keep, profile in (
            (Odometry, "ground_truth/odom", self.truth, qos.FAST),
            (Imu, "imu/data_raw", self.imu, qos.FAST),
            (JointState, "motor_speed", self.motors, qos.RELIABLE),
            (DiagnosticStatus, "events", self.events, qos.EVENTS),
        ):
            bench.node.create_subscription(kind, f"/quad/{name}", partial(_keep, keep), profile)

    def said(self, name: str, words: str = "") -> list[str]:
        """What events of a name told."""
        return [e.message for e in self.events if e.name == name and words in e.message]

    def hovers_at(self, height_m: float) -> bool:
        """Whether the last second was at rest within 0.1 m of a height above the start.

        A bench that comes too late loses messages: all windows must be of the same second.
        """
        if (len(self.truth), len(self.imu), len(self.motors)) != (500, 500, 100):
            return False
        windows = (self.truth, self.imu, self.motors)
        begin_s = [seconds(window[0]) for window in windows]
        end_s = [seconds(window[-1]) for window in windows]
        return max(end_s) - min(begin_s) < 1.1 and all(
            abs(one.pose.pose.position.z - 0.23 - height_m) < 0.1
            and abs(one.twist.twist.linear.z) < 0.1
            for one in self.truth
        )

    def squared_speed(self) -> float:
        """Of the rotors, mean of the last second."""
        return float(np.mean([np.square(one.velocity) for one in self.motors]))

    def steps_mps2(self) -> float:
        """Deviation of the change of the vertical specific force from sample to sample."""
        force = [one.linear_acceleration.z for one in self.imu]
        return float(np.std(np.diff(force)))


def test_the_second_flight_is_by_the_files_as_they_are_then(bench, fly, files):
    """Heavier, noisier, higher; in lockstep, which would stall if somebody did not begin anew."""
    flight = fly("--composed", "--pacing", "lockstep", scenario=str(files / "hover.yaml"))
    heard = Heard(bench)
    bench.until(lambda: heard.hovers_at(1.0))
    first, quiet = heard.squared_speed(), heard.steps_mps2()

    changed(files / "x500.yaml", lambda file: file.update(mass_kg=1.25 * file["mass_kg"]))
    noisy = {"device": "adis16448", "accel_noise_density": [LOUD] * 3}
    changed(files / "default.yaml", lambda file: file.update(imu=noisy))
    changed(files / "hover.yaml", lambda file: file["mission"][0]["takeoff"].update(height_m=1.6))
    assert not heard.said("files")  # nothing changes in flight without a reset
    assert heard.hovers_at(1.0)
    assert bench.call(Trigger, "/sim/reset", Trigger.Request()).success
    bench.until(lambda: heard.hovers_at(1.6))
    # thrust goes with the squared speed and carries the weight; a mean acceleration of at most
    # 0.2 m/s^2 in either window, of 9.8
    assert heard.squared_speed() / first == pytest.approx(1.25, rel=0.04)
    # white noise of a sample is density times the root of the rate; a difference has two of them
    assert quiet < 0.2
    assert heard.steps_mps2() == pytest.approx(LOUD * (2.0 * RATE_HZ) ** 0.5, rel=0.15)
    # the messages say the new noise: squared density times the rate
    variance = heard.imu[-1].linear_acceleration_covariance[0]
    assert variance == pytest.approx(LOUD**2 * RATE_HZ, rel=0.01)
    assert heard.said("files", "dynamics: read again: mass_kg")
    assert heard.said("files", "imu: read again: accel_noise_density")
    flight.interrupt()
    flight.finish()
    assert "Traceback" not in flight.log


def test_what_cannot_be_read_changes_nothing_and_is_named(bench, tmp_path):
    path = tmp_path / "device.yaml"
    path.write_text(find("sensors", "adis16448").read_text())
    given = {"device": str(path), "gyro_step": 0.25}
    node = bench.add(imu.make(bench.context, namespace="/quad", overrides=given))
    told: list[str] = []
    bench.node.create_subscription(
        DiagnosticStatus,
        "/quad/events",
        lambda event: told.append(event.message) if event.name == "files" else None,
        qos.EVENTS,
    )
    said = bench.node.create_publisher(DiagnosticStatus, "/quad/events", qos.EVENTS)
    bench.until(lambda: said.get_subscription_count() > 1)
    later_s = count(1)

    def reset(last: str) -> str:
        told.clear()
        said.publish(make_status(0, "reset", "back", {"stamp_s": f"{next(later_s)}.0"}))
        bench.until(lambda: any(last in words for words in told))
        return "; ".join(told)

    def value(name):
        return node.get_parameter(name).value

    before = list(value("accel_noise_density"))
    refused = node.set_parameters([Parameter("accel_noise_density", value=[LOUD] * 3)])[0]
    assert not refused.successful  # a sensor does not change in flight
    assert "/sim/reset" in refused.reason
    changed(path, lambda file: file.update(accel_noise_density=[LOUD] * 3, gyro_step=0.5))
    good = path.read_text()
    path.write_text(good + "gyro_noise: 3.0\n")
    words = reset("nothing is read again")
    assert "unknown key 'gyro_noise'" in words
    assert str(path) in words
    path.unlink()
    assert "no such file" in reset("nothing is read again")
    assert list(value("accel_noise_density")) == before
    path.write_text(good)
    changed(path, lambda file: file.update(rate_hz=200.0))
    words = reset("read again: accel_noise_density")
    assert "rate_hz: changes with a restart of the graph only" in words
    assert "stays as given, not as the files say: gyro_step" in words
    assert (value("rate_hz"), value("gyro_step")) == (node.params.rate_hz, 0.25)
    assert node.params.accel_noise_density == (LOUD,) * 3
