"""What ``dynamics`` publishes of one vehicle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from std_msgs.msg import Bool

from quadsim.ros.graph.vehicles import frame_prefix
from quadsim.ros.messages.conversion import AccelWriter, OdometryWriter
from quadsim.ros.messages.world import make_battery
from quadsim.ros.parts.sampling import Sampling
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.base import QuadsimNode, make_event
from quadsim.ros.runtime.topics import Topic, full_name
from quadsim.sensors.error_terms import due
from quadsim.sim.log import ERROR
from quadsim.vehicle.fleet import Fleet
from quadsim.wire.encode import Template, joint_template

WIND_PERIOD_NS = 20_000_000
BATTERY_PERIOD_NS = 1_000_000_000


class VehicleTruth:
    """Truth, motors, wind, contact, battery and events of one vehicle of a fleet.

    Args:
        motors_period_ns: between two messages of the motors.
    """

    def __init__(
        self,
        node: QuadsimNode,
        fleet: Fleet,
        index: int,
        namespace: str,
        motors_period_ns: int,
        sampled: Sequence[Sampling],
    ) -> None:
        self.index = index
        self.namespace = namespace
        self.command_ns = -1
        self._motors_period_ns = motors_period_ns
        self._body = frame_prefix(namespace) + "base_link"

        def offer(topic: Topic, needed: bool = False) -> Any:
            return node.offer(topic, self.topic(topic), needed)

        self._truth = offer(topics.TRUTH, needed=True)
        self._sampled_outputs = {one.kind: offer(topics.sampled_truth(one.kind)) for one in sampled}
        self._accel = offer(topics.ACCEL)
        self._motors = offer(topics.MOTOR_SPEED)
        self._load = offer(topics.LOAD) if fleet.params.load.rope_length_m > 0.0 else None
        self._wind = offer(topics.WIND)
        self._contacts = offer(topics.CONTACT)
        self._battery = offer(topics.BATTERY)
        self._events = offer(topics.EVENTS)
        self._wind_template = Template.of(topics.WIND.type_name, "map")
        self._load_template = Template.of(topics.LOAD.type_name, "map")
        self._motors_template = joint_template(fleet.params.commands, with_current=True)
        self.restart(fleet, sampled)

    def restart(self, fleet: Fleet, sampled: Sequence[Sampling]) -> None:
        """Publish from now on of this fleet, for these sensors."""
        self._fleet = fleet
        outputs = self._sampled_outputs
        self._sampled = [(one, outputs[one.kind]) for one in sampled if one.kind in outputs]
        self._contact: bool | None = None
        self._crash = 0
        truth = fleet.truth(self.index)
        self._odometry_writer = OdometryWriter("map", self._body, truth)
        self._accel_writer = AccelWriter(self._body, truth)

    def topic(self, topic: Topic) -> str:
        """Full name of a topic of this vehicle."""
        return full_name(self.namespace, topic.name)

    def event(self, level: int, name: str, message: str) -> None:
        """Say on ``events`` that something happened."""
        self._events.publish(make_event(self._fleet.stamp_ns, level, name, message))

    def publish(self, before_ns: int, now_ns: int) -> None:
        """Publish the truth and whatever else fell due between two times."""
        if due(self._motors_period_ns, before_ns, now_ns):  # first: the IMU feels them
            speeds = self._fleet.motor_speeds(self.index)
            currents = self._fleet.motor_currents(self.index)
            payload = self._motors_template.payload(now_ns, speeds=speeds, currents=currents)
            self._motors.publish(payload)
        truth = self._odometry_writer.payload()
        self._truth.publish(truth)
        for sampling, output in self._sampled:
            if sampling.needs(before_ns, now_ns):
                output.publish(truth)
        if self._accel.get_subscription_count():  # few listen, at the truth's rate
            self._accel.publish(self._accel_writer.payload())
        if due(WIND_PERIOD_NS, before_ns, now_ns):
            wind_W = self._fleet.truth(self.index).wind_W
            self._wind.publish(self._wind_template.payload(now_ns, v=wind_W))
            if self._load is not None:
                load_W = self._fleet.load_position(self.index)
                self._load.publish(self._load_template.payload(now_ns, p=load_W))
        if due(BATTERY_PERIOD_NS, before_ns, now_ns):
            self._battery.publish(
                make_battery(
                    self._fleet.params.battery,
                    self._fleet.battery_voltage(self.index),
                    self._fleet.battery_charge(self.index),
                    float(self._fleet.motor_currents(self.index).sum()),
                    now_ns,
                )
            )
        crash = self._fleet.crash(self.index)
        if crash != self._crash:
            self._crash = crash
            if crash:
                self.event(ERROR, "crash", f"{self._fleet.crash_words(self.index)}: motors off")
        contact = self._fleet.contact(self.index)
        if contact != self._contact:
            self._contact = contact
            self._contacts.publish(Bool(data=contact))
