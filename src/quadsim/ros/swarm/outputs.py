"""What the node ``swarm`` publishes of its vehicles at each tick."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rclpy.event_handler import PublisherEventCallbacks

from quadsim.ros.graph.vehicles import frame_prefix
from quadsim.ros.messages.transforms import WorldTransforms
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.topics import Topic, full_name
from quadsim.sensors import SENSORS, kind_of, topics_of
from quadsim.sensors.error_terms import due
from quadsim.sim.scenario import Scenario
from quadsim.sim.swarm import Swarm
from quadsim.wire import samples
from quadsim.wire.encode import Template, VehicleTemplates
from quadsim.wire.samples import SampleMessages, motion_columns

REFERENCE_PERIOD_NS = 100_000_000


class VehiclesTopic:
    """One topic of all vehicles.

    Args:
        templates: a message of each vehicle; none: :meth:`begin` gives them.
    """

    _messages: VehicleTemplates

    def __init__(
        self, node: Any, namespaces: Sequence[str], topic: Topic, templates: Sequence[Template] = ()
    ) -> None:
        quiet = PublisherEventCallbacks(use_default_callbacks=False)  # hundreds would be watched
        self._publishers = [
            node.create_publisher(
                topic.message,
                full_name(namespace, topic.name),
                topic.offered,
                event_callbacks=quiet,
            )
            for namespace in namespaces
        ]
        self.count = 0
        if templates:
            self.begin(templates)

    def begin(self, templates: Sequence[Template]) -> None:
        """Publish copies of these messages from now on."""
        self._messages = VehicleTemplates(templates)

    def publish(
        self, vehicles: NDArray[np.intp], stamp_ns: NDArray[np.int64], **columns: Any
    ) -> None:
        """Publish a message for each row; see :meth:`VehicleTemplates.payloads`."""
        payloads = self._messages.payloads(vehicles, stamp_ns, **columns)
        for i, payload in zip(vehicles.tolist(), payloads, strict=True):
            self._publishers[i].publish(payload)
        self.count += len(payloads)


class SwarmOutputs:
    """Truth, estimates and sensors of all vehicles.

    Args:
        level: how much, as of :class:`quadsim.ros.graph.options.SwarmOptions`.
    """

    def __init__(
        self, node: Any, namespaces: Sequence[str], scenario: Scenario, level: str
    ) -> None:
        self._bodies = [frame_prefix(namespace) + "base_link" for namespace in namespaces]
        self._transforms = WorldTransforms(node, "map")
        motions = [samples.odometry_messages(body).template for body in self._bodies]
        references = [samples.reference_messages().template] * len(namespaces)
        self._truth = VehiclesTopic(node, namespaces, topics.TRUTH, motions)
        self._estimate = VehiclesTopic(node, namespaces, topics.ODOMETRY, motions)
        self._reference = VehiclesTopic(node, namespaces, topics.REFERENCE, references)
        self._estimated_ns = np.zeros(len(namespaces), np.int64)
        wanted = {"estimates": (), "imu": ("imu",), "all": tuple(scenario.sensors)}[level]
        self._sensors = {
            kind: [
                VehiclesTopic(node, namespaces, topics.SENSORS[topic.name])
                for topic in topics_of(kind)
            ]
            for kind in wanted
        }
        self._messages: dict[str, list[SampleMessages]] = {}
        self._prefixes = [frame_prefix(name) for name in namespaces]
        self.begin(scenario)

    def begin(self, scenario: Scenario) -> None:
        """Publish the sensors of a scenario from now on: their covariances, and the datum of fixes.

        Kinds that the first scenario lacked have no topic, those that this one lacks are silent.
        """
        for kind in self._sensors.keys() & scenario.sensors.keys():
            params, environment = scenario.sensors[kind], scenario.environment
            made = [
                [
                    messages
                    for _, messages in SENSORS[kind_of(kind)].outputs(
                        params, environment, prefix, kind
                    )
                ]
                for prefix in self._prefixes
            ]
            self._messages[kind] = made[0]
            for batch, *of_each in zip(self._sensors[kind], *made, strict=True):
                batch.begin([messages.template for messages in of_each])

    @property
    def count(self) -> int:
        """Messages so far."""
        batches = (self._truth, self._estimate, self._reference, *chain(*self._sensors.values()))
        return sum(batch.count for batch in batches)

    def publish_references(self, swarm: Swarm, before_ns: int, begun_ns: int) -> None:
        """Publish transforms and references of the last tick, when they are due.

        Args:
            before_ns: their time a tick ago.
            begun_ns: simulated time at which theirs began.
        """
        if not due(REFERENCE_PERIOD_NS, before_ns, swarm.stamp_ns):
            return
        poses = {}
        for body, loop in zip(self._bodies, swarm.loops, strict=True):
            odometry = loop.state.odometry
            if odometry.stamp_ns:
                poses[body] = (odometry.p_W, odometry.q_WB)
        self._transforms.publish(swarm.stamp_ns + begun_ns, poses)
        vehicles, rows = swarm.references()
        half, zero = 0.5 * rows[:, 3], np.zeros(len(rows))
        self._reference.publish(
            vehicles,
            np.full(len(rows), swarm.stamp_ns + begun_ns),
            p=rows[:, :3],
            q_xyzw=np.stack([zero, zero, np.sin(half), np.cos(half)], axis=1),
        )

    def publish(self, swarm: Swarm, begun_ns: int) -> None:
        """Publish what the vehicles' logs hold, stamped from when they began."""
        for kind, batches in self._sensors.items():
            vehicles, rows = swarm.published(kind)
            for batch, messages in zip(batches, self._messages[kind], strict=True):
                there = messages.chosen(rows)
                chosen = rows[there]
                batch.publish(
                    vehicles[there], chosen["stamp_ns"] + begun_ns, **messages.numbers(chosen)
                )
        vehicles, rows = swarm.logged()
        self._truth.publish(vehicles, rows["stamp_ns"] + begun_ns, **motion_columns(rows))
        new_ns = rows["estimate"]["stamp_ns"] + begun_ns
        known = (rows["estimated"] != 0) & (new_ns > self._estimated_ns[vehicles])
        known[1:] &= (vehicles[1:] != vehicles[:-1]) | (new_ns[1:] != new_ns[:-1])
        self._estimated_ns[vehicles[known]] = new_ns[known]
        estimates = rows["estimate"][known]
        self._estimate.publish(
            vehicles[known], new_ns[known], **motion_columns(estimates, stated=True)
        )
