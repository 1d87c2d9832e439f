"""A flight through gazebo_adapter on real DDS, in which a stand-in flies as Gazebo would.

The stand-in is our physics with our sensors, in names of their own, and what Gazebo and its bridge
make of them: other frames, no covariances, no velocity of a fix, a scan for a range. Estimator,
autopilot and mixer are those of ``gazebo.launch.py`` and know nothing of it. The wheels lack
``actuator_msgs``; JointState, which has a velocity too, is in its place.
"""

import math
import sys
from copy import copy
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import yaml
from diagnostic_msgs.msg import DiagnosticStatus
from nav_msgs.msg import Odometry
from sensor_msgs.msg import (
    FluidPressure,
    Imu,
    JointState,
    LaserScan,
    MagneticField,
    NavSatFix,
    Range,
)

from quadsim.base.files import find
from quadsim.base.options import from_texts
from quadsim.ros.graph.gazebo_graph import GazeboLaunch
from quadsim.ros.graph.graph import GraphOptions, describe
from quadsim.ros.runtime import qos, topics
from quadsim.ros.runtime.processes import maker
from quadsim.sim.scenario import Scenario, load_scenario

#: Where the stand-in's own topics are.
INSIDE = "/inside"
#: What is in the stand-in, by its name there and on the bridge.
BRIDGED = {
    "imu/data_raw": ("imu", Imu),
    "imu/static_pressure": ("air_pressure", FluidPressure),
    "gps/fix": ("navsat", NavSatFix),
    "range/down": ("range", Range),
    "imu/mag": ("magnetometer", MagneticField),
    "ground_truth/odom": ("odometry", Odometry),
}


@pytest.fixture
def actuators(monkeypatch):
    package, messages = ModuleType("actuator_msgs"), ModuleType("actuator_msgs.msg")
    messages.Actuators = JointState
    monkeypatch.setitem(sys.modules, "actuator_msgs", package)
    monkeypatch.setitem(sys.modules, "actuator_msgs.msg", messages)


def from_the_sea(pressure_pa: float, datum_m: float = 488.0) -> float:
    """Pressure if the datum were at the sea, by the barometric formula of ISO 2533."""
    scale_m, exponent = 288.15 / 0.0065, 9.80665 / (287.05287 * 0.0065)
    height_m = scale_m * (1.0 - (pressure_pa / 101325.0) ** (1.0 / exponent)) - datum_m
    return 101325.0 * (1.0 - height_m / scale_m) ** exponent


class Gazebo:
    """What Gazebo and the bridge make of our physics and sensors.

    Args:
        node: whose topics these are.
        rotors: names of the rotors by the model's numbers.
    """

    def __init__(self, node, rotors: list[str]) -> None:
        self._node, self._rotors = node, rotors
        self.truth: list[Odometry] = []
        self._outputs = {}

        def listen(kind, topic, callback) -> None:
            node.create_subscription(kind, topic, callback, qos.FAST)

        for inside, (bridged, kind) in BRIDGED.items():
            sent = LaserScan if kind is Range else kind
            self._outputs[sent] = node.create_publisher(sent, f"/quad/gazebo/{bridged}", qos.FAST)
            listen(kind, f"{INSIDE}/{inside}", self.tell if kind is Odometry else self.send)
        self._motors = node.create_publisher(JointState, f"{INSIDE}/command_motor_speed", qos.FAST)
        listen(JointState, "/quad/gazebo/command_motor_speed", self.turn)

    def turn(self, message: JointState) -> None:
        """Rotors by their numbers: Actuators have no names."""
        assert not message.name
        message.name = self._rotors
        self._motors.publish(message)

    def tell(self, message: Odometry) -> None:
        """The truth, as OdometryPublisher calls it."""
        self.truth.append(copy(message))
        self.send(message)

    def send(self, message) -> None:
        """One message as Gazebo and the bridge have it."""
        if isinstance(message, Range):
            message = LaserScan(
                header=message.header, range_min=message.min_range, range_max=message.max_range,
                ranges=[message.range], intensities=[0.0],
            )  # fmt: skip
        elif isinstance(message, NavSatFix):
            message.position_covariance = np.zeros(9)
            message.position_covariance_type = NavSatFix.COVARIANCE_TYPE_UNKNOWN
        elif isinstance(message, FluidPressure):
            message.variance = message.variance**0.25
            message.fluid_pressure = from_the_sea(message.fluid_pressure)
        elif isinstance(message, Odometry):
            message.child_frame_id = "quad/base_footprint"
        else:
            zero = np.zeros(9)
            for name in ("orientation", "linear_acceleration", "angular_velocity"):
                if hasattr(message, name):
                    setattr(message, f"{name}_covariance", zero)
        message.header.frame_id = "quad/base_link/sensor"
        self._outputs[type(message)].publish(message)


def stand_in(bench, scenario: Scenario) -> Gazebo:
    """Our physics and sensors as Gazebo, in step with the commands that come back."""
    # nothing of our physics is heard outside but the clock: no battery, no contact, no datum
    names = [topic.name for topic in topics.VEHICLE_TOPICS if "dynamics" in topic.publishers]
    names += [topics.sampled_truth(kind).name for kind in scenario.sensors]
    names.append(topics.COMMAND_MOTOR_SPEED.name)
    pairs = [(f"/quad/{name}", f"{INSIDE}/{name}") for name in names]
    remapped = {"dynamics": (*pairs, ("/datum", f"{INSIDE}/datum"))}
    options = GraphOptions(pacing="lockstep", rate=0.0, remappings=remapped)
    for spec in describe(scenario, options):
        if spec.executable == "dynamics":
            bench.add(maker(spec)(bench.context))
        elif spec.executable in scenario.sensors:
            bench.add(maker(replace(spec, namespace=INSIDE))(bench.context))
    return Gazebo(bench.node, list(scenario.vehicle.commands))


def position(message: Odometry) -> tuple[float, float, float]:
    place = message.pose.pose.position
    return place.x, place.y, place.z


def stamp_ns_of(message) -> int:
    return message.header.stamp.sec * 10**9 + message.header.stamp.nanosec


@pytest.fixture
def short_hover(tmp_path) -> Path:
    """The scenario ``hover``, shorter, and with an IMU of half the rate."""
    suite = yaml.safe_load(find("sensors/suites", "default").read_text())
    suite["imu"] = {"device": suite["imu"], "rate_hz": 250.0}
    (tmp_path / "suite.yaml").write_text(yaml.safe_dump(suite))
    content = yaml.safe_load(find("scenarios", "hover").read_text())
    content["mission"][1] = {"hover": {"duration_s": 2.0}}
    content["sensors"] = str(tmp_path / "suite.yaml")
    del content["criteria"]
    (tmp_path / "short_hover.yaml").write_text(yaml.safe_dump(content))
    return tmp_path / "short_hover.yaml"


def test_our_nodes_fly_gazebos_vehicle(bench, actuators, short_hover):
    values = {"scenario": str(short_hover), "arm": "true", "record": "false"}
    for spec in from_texts(GazeboLaunch, values).describe():
        if spec.package == "quadsim":
            bench.add(maker(spec)(bench.context))
    states: list[str] = []
    estimates: dict[int, Odometry] = {}
    bench.node.create_subscription(
        DiagnosticStatus, "/quad/mission/status", lambda m: states.append(m.message), qos.LATCHED
    )

    def keep(message: Odometry) -> None:
        estimates[stamp_ns_of(message)] = message

    bench.node.create_subscription(Odometry, "/quad/odometry/filtered", keep, qos.FAST)
    gazebo = stand_in(bench, load_scenario(str(short_hover)))
    bench.until(lambda: "armed" in states and states[-1] == "disarmed", within_s=100.0)
    heights = [position(message)[2] for message in gazebo.truth]
    # it rose by the metre that it was told, and stands again; criteria of hover, and its estimate's
    assert max(heights) == pytest.approx(1.0 + heights[0], abs=0.2)
    assert heights[-1] == pytest.approx(heights[0], abs=0.01)
    errors_m = [
        math.dist(position(message), position(estimates[stamp_ns_of(message)]))
        for message in gazebo.truth
        if stamp_ns_of(message) in estimates
    ]
    assert len(errors_m) > 250.0 * 4.0  # at 250 Hz, with some seconds of climb and descent
    assert math.sqrt(np.mean(np.square(errors_m))) < 0.1
    report = bench.reports["/quad/gazebo_adapter"]
    assert not [key for key in report if "refused" in key or "without velocity" in key], report
    assert "restamped" not in report
