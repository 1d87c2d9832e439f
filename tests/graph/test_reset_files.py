"""What the files say is read again on a reset: the next flight is another one."""

from functools import partial
from itertools import count, pairwise

import numpy as np
import pytest
import yaml
from diagnostic_msgs.msg import DiagnosticStatus
from nav_msgs.msg import Odometry
from rclpy.parameter import Parameter
from sensor_msgs.msg import Imu, JointState
from std_srvs.srv import Trigger

from quadsim.base.files import find
from quadsim.ros.nodes import node_module
from quadsim.ros.runtime import qos
from quadsim.ros.runtime.base import make_status

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
    for kind, name in (("vehicles", "x500"), ("sensors/suites", "default"), ("scenarios", "hover")):
        target = tmp_path / f"{name}.yaml"
        target.write_text(find(kind, name).read_text())

    def name_copies(content):
        content["vehicle"] = str(tmp_path / "x500.yaml")
        content["sensors"] = str(tmp_path / "default.yaml")
        content["mission"][1]["hover"]["duration_s"] = 300.0
        content["duration_s"] = 600.0
        content["criteria"] = []

    changed(tmp_path / "hover.yaml", name_copies)
    return tmp_path


def _keep(messages, message) -> None:
    messages.append(message)  # rclpy cannot look into a deque's own method


def seconds(message) -> float:
    """Stamp of a message."""
    return message.header.stamp.sec + message.header.stamp.nanosec * 1e-9


class Heard:
    """What the bench hears while the vehicle hovers at a height above the start, and all events.

    A bench that gets little time loses samples, and hears some topics later than others: what
    belongs to the hover is told by stamps.
    """

    def __init__(self, bench, height_m: float) -> None:
        self.truth: list[Odometry] = []
        self.imu: list[Imu] = []
        self.motors: list[JointState] = []
        self.events: list[DiagnosticStatus] = []
        self.begin(height_m)
        for kind, name, keep, profile in (
            (Odometry, "ground_truth/odom", self.watch, qos.FAST),
            (Imu, "imu/data_raw", partial(_keep, self.imu), qos.FAST),
            (JointState, "motor_speed", partial(_keep, self.motors), qos.RELIABLE),
            (DiagnosticStatus, "events", partial(_keep, self.events), qos.EVENTS),
        ):
            bench.node.create_subscription(kind, f"/quad/{name}", keep, profile)

    def begin(self, height_m: float) -> None:
        """Forget all samples, and wait for a hover at another height."""
        self.height_m = height_m
        for samples in (self.truth, self.imu, self.motors):
            samples.clear()

    def watch(self, one: Odometry) -> None:
        """Keep the truth; begin anew where the vehicle does not hover there, or may not have."""
        off_m = one.pose.pose.position.z - 0.23 - self.height_m
        unseen_s = seconds(one) - seconds(self.truth[-1]) if self.truth else 0.0
        if abs(off_m) < 0.1 and abs(one.twist.twist.linear.z) < 0.1 and 0.0 <= unseen_s < 0.2:
            self.truth.append(one)
        else:
            self.begin(self.height_m)

    def said(self, name: str, words: str = "") -> list[str]:
        """What events of a name told."""
        return [e.message for e in self.events if e.name == name and words in e.message]

    def hovers(self) -> bool:
        """Whether it has hovered for a second, and enough has been heard of it."""
        if len(self.truth) < 50 or seconds(self.truth[-1]) - seconds(self.truth[0]) < 1.0:
            return False
        return len(self.in_hover(self.motors)) >= 50 and len(self.jumps_mps2()) >= 300

    def in_hover(self, messages: list) -> list:
        """Those with stamps of the hover."""
        begin_s, end_s = seconds(self.truth[0]), seconds(self.truth[-1])
        return [one for one in messages if begin_s <= seconds(one) <= end_s]

    def mass(self) -> float:
        """Of the vehicle, up to a factor: squared speed of the rotors over the specific force."""
        first, last = self.truth[0], self.truth[-1]
        gained_mps = last.twist.twist.linear.z - first.twist.twist.linear.z
        force_mps2 = 9.81 + gained_mps / (seconds(last) - seconds(first))
        squares = [np.square(one.velocity) for one in self.in_hover(self.motors)]
        return float(np.mean(squares)) / force_mps2

    def jumps_mps2(self) -> list[float]:
        """Changes of the vertical specific force between samples of which none was lost between."""
        return [
            after.linear_acceleration.z - before.linear_acceleration.z
            for before, after in pairwise(self.in_hover(self.imu))
            if seconds(after) - seconds(before) < 1.5 / RATE_HZ
        ]


def test_the_second_flight_is_by_the_files_as_they_are_then(bench, fly, files):
    """Heavier, noisier, higher; in lockstep, which would stall if somebody did not begin anew."""
    flight = fly(
        # a flight that outruns the bench is heard with gaps
        *("--composed", "--pacing", "lockstep", "--rate", "2"),
        scenario=str(files / "hover.yaml"),
    )
    heard = Heard(bench, 1.0)
    bench.until(heard.hovers)
    first, quiet = heard.mass(), np.std(heard.jumps_mps2())

    changed(files / "x500.yaml", lambda file: file.update(mass_kg=1.25 * file["mass_kg"]))
    noisy = {"device": "adis16448", "accel_noise_density": [LOUD] * 3}
    changed(files / "default.yaml", lambda file: file.update(imu=noisy))
    changed(files / "hover.yaml", lambda file: file["mission"][0]["takeoff"].update(height_m=1.6))
    assert not heard.said("files")  # nothing changes in flight without a reset
    bench.until(heard.hovers)
    heard.begin(1.6)
    assert bench.call(Trigger, "/sim/reset", Trigger.Request()).success
    bench.until(heard.hovers)
    # thrust goes with the squared speed; the hover's own acceleration is accounted for
    assert heard.mass() / first == pytest.approx(1.25, rel=0.02)
    # white noise of a sample is density times the root of the rate; a difference has two of them
    assert quiet < 0.2
    assert np.std(heard.jumps_mps2()) == pytest.approx(LOUD * (2.0 * RATE_HZ) ** 0.5, rel=0.15)
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
    node = bench.add(node_module("imu").make(bench.context, namespace="/quad", overrides=given))
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
