"""Gains that change while the mixer runs, motor telemetry, and files that are read again."""

import time

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticStatus
from nav_msgs.msg import Odometry
from rclpy.parameter import Parameter
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import MultiDOFJointTrajectory

from quadsim.base.compiled import new_record
from quadsim.base.files import find
from quadsim.base.records import ATTITUDE_COMMAND
from quadsim.ros.nodes import mixer
from quadsim.ros.runtime import qos
from quadsim.ros.runtime.base import make_status
from quadsim.wire.encode import attitude_template
from quadsim.wire.samples import SampleMessages, attitude_numbers


class Flight:
    """A mixer that flies: an odometry that rolls, and a command to hover level."""

    def __init__(self, bench, **overrides) -> None:
        self.bench = bench
        self.mixer = bench.add(mixer.make(bench.context, namespace="/quad", overrides=overrides))
        self.answers: list[JointState] = []
        self.events: list[DiagnosticStatus] = []
        node = bench.node
        node.create_subscription(
            JointState, "/quad/command_motor_speed", self.answers.append, qos.FAST
        )
        node.create_subscription(DiagnosticStatus, "/quad/events", self.events.append, qos.EVENTS)
        self._odometry = node.create_publisher(Odometry, "/quad/odometry/filtered", qos.FAST)
        self._command = node.create_publisher(
            MultiDOFJointTrajectory, "/quad/command_attitude", qos.RELIABLE
        )
        self._telemetry = node.create_publisher(JointState, "/quad/motor_speed", qos.RELIABLE)
        self.said = node.create_publisher(DiagnosticStatus, "/quad/events", qos.EVENTS)
        for publisher in (self._odometry, self._command, self._telemetry, self.said):
            bench.until(lambda publisher=publisher: publisher.get_subscription_count() > 0)
        # stamps of the future: the watchdog's clock has not come to them
        self.stamp_ns = time.time_ns() + 10**12

    def step(self, roll_rate=0.1, telemetry=None):
        """One odometry, and the rotor speeds that answer it."""
        self.stamp_ns += 2_000_000
        seconds, nanoseconds = divmod(self.stamp_ns, 10**9)
        command = new_record(ATTITUDE_COMMAND)
        command.q_WB[0], command.thrust, command.stamp_ns = 1.0, 9.8, self.stamp_ns
        self._command.publish(
            SampleMessages(attitude_template("base_link"), attitude_numbers).payload(command)
        )
        self.bench.until(lambda: self.mixer._command_ns == self.stamp_ns)
        if telemetry is not None:
            told = JointState(name=[f"rotor_{i}" for i in range(4)], velocity=telemetry)
            told.header.stamp.sec, told.header.stamp.nanosec = seconds, nanoseconds
            self._telemetry.publish(told)
            self.bench.until(lambda: self.mixer._measured_ns == self.stamp_ns)
        message = Odometry(child_frame_id="base_link")
        message.header.frame_id = "map"
        message.header.stamp.sec, message.header.stamp.nanosec = seconds, nanoseconds
        message.pose.pose.position.z = 1.0
        message.twist.twist.angular.x = roll_rate
        count = len(self.answers)
        self._odometry.publish(message)
        self.bench.until(lambda: len(self.answers) > count)
        return np.array(self.answers[-1].velocity)

    def set(self, name, value):
        """Set a parameter of the mixer, as the service does."""
        return self.mixer.set_parameters([Parameter(name, value=value)])[0]


def spread(speeds):
    """Roll torque over the thrust coefficient: left rotors less right ones, squared speeds."""
    return float(speeds[[1, 2]] @ speeds[[1, 2]] - speeds[[0, 3]] @ speeds[[0, 3]])


def test_a_changed_gain_is_in_effect_and_what_is_not_safe_is_refused(bench):
    flight = Flight(bench)
    # without integral and lead the torque is the gain times the rate, at a steady rate
    assert flight.set("attitude.rate_integral", [0.0, 0.0, 0.0]).successful
    for _ in range(40):  # the low-pass of the body rates settles
        before = flight.step()
    assert flight.set("attitude.rate_gain", [16.0, 16.0, 12.0]).successful  # 32 before
    after = flight.step()
    assert spread(after) == pytest.approx(0.5 * spread(before), rel=0.01)
    refused = flight.set("airframe.mass_kg", 3.0)
    assert not refused.successful
    assert "disarm first" in refused.reason
    assert "node autopilot" in flight.set("flight.speed_mps", 1.0).reason
    assert not flight.set("attitude.rate_gain", [-1.0, 0.0, 0.0]).successful
    np.testing.assert_allclose(flight.step(), after, rtol=1e-3)


def test_a_rotor_that_stops_is_named_in_an_event(bench):
    flight = Flight(bench)
    for _ in range(120):  # 0.2 s: a command may be so long on its way
        speeds = flight.step(0.0, flight.answers[-1].velocity if flight.answers else [0.0] * 4)
    assert not [event for event in flight.events if event.name == "motor lost"]
    for _ in range(30):
        speeds = flight.step(0.0, [speeds[0], speeds[1], 0.0, speeds[3]])
    bench.until(lambda: any(event.name == "motor lost" for event in flight.events))
    lost = next(event for event in flight.events if event.name == "motor lost")
    assert {pair.key: pair.value for pair in lost.values}["motor"] == "2"


def test_a_file_is_read_again_on_a_reset(bench, tmp_path):
    path = tmp_path / "gains.yaml"
    path.write_text(find("autopilots", "default").read_text())
    flight = Flight(bench, **{"config": str(path), "attitude.tilt_gain": 9.0, "use_sim_time": True})
    assert flight.mixer.get_parameter("attitude.tilt_gain").value == 9.0
    text = path.read_text().replace("tilt_gain: 10.0", "tilt_gain: 8.0")
    path.write_text(text.replace("rate_lead_s: 0.0125", "rate_lead_s: 0.01"))
    flight.said.publish(make_status(0, "reset", "back at the start"))
    bench.until(lambda: flight.mixer.get_parameter("attitude.rate_lead_s").value == 0.01)
    # what was given otherwise than in the file stays
    assert flight.mixer.get_parameter("attitude.tilt_gain").value == 9.0
