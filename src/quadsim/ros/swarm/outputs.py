"""What the node ``swarm`` publishes of its vehicles at each tick."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rclpy.event_handler import PublisherEventCallbacks

from quadsim.base.records import KINEMATICS, ODOMETRY, SETPOINT
from quadsim.ros.graph.vehicles import frame_prefix
from quadsim.ros.messages.commands import ReferenceWriter
from quadsim.ros.messages.conversion import OdometryWriter
from quadsim.ros.messages.sensors import (
    FixWriter,
    ImuWriter,
    MagneticFieldWriter,
    PressureWriter,
    RangeWriter,
    VelocityWriter,
    has_fix,
)
from quadsim.ros.messages.swarm import Copies
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.topics import Topic, full_name
from quadsim.sensors import SENSORS
from quadsim.sensors.timing import due
from quadsim.sim.scenario import Scenario
from quadsim.sim.swarm import Swarm
from quadsim.wire.encode import motion_columns

REFERENCE_PERIOD_NS = 100_000_000
#: Kind of sensor to its topic and the columns of its messages, by fields of its samples.
COLUMNS: dict[str, tuple[Topic, dict[str, str]]] = {
    "imu": (topics.IMU_RAW, {"f": "f_S", "w": "w_S"}),
    "magnetometer": (topics.MAGNETIC_FIELD, {"m": "m_S"}),
    "barometer": (topics.PRESSURE, {"pressure": "pressure_pa"}),
    "rangefinder": (topics.RANGE, {"range": "range_m", "variance": "variance_m2"}),
}


def new_samples(kind: str) -> Any:
    """One zeroed sample of a kind of sensor."""
    return np.zeros(1, SENSORS[kind].sample).view(np.recarray)[0]


def template(scenario: Scenario, kind: str, prefix: str) -> bytes:
    """A message of a sensor, with its frame and the covariances of its device."""
    params: Any = scenario.sensors[kind]
    sample = new_samples(kind)
    if kind == "imu":
        variances = (params.accel_variance(), params.gyro_variance())
        return ImuWriter(prefix + "imu_link", *variances).payload(sample)
    if kind == "magnetometer":
        variance = params.variance(scenario.environment.field_W_T())
        return MagneticFieldWriter(prefix + "imu_link", variance).payload(sample)
    if kind == "barometer":
        return PressureWriter(prefix + "base_link", params.variance()).payload(sample)
    return RangeWriter(prefix + "range_link", params).payload(sample)


class Batch:
    """One topic of all vehicles.

    Args:
        node: whose publishers these are.
        namespaces: of the vehicles.
        topic: an entry of the table.
        templates: a message of each vehicle; none: :meth:`begin` gives them.
    """

    _copies: Copies

    def __init__(
        self, node: Any, namespaces: Sequence[str], topic: Topic, templates: Sequence[bytes] = ()
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
        self._type_name = topic.type_name
        self.count = 0
        if templates:
            self.begin(templates)

    def begin(self, templates: Sequence[bytes]) -> None:
        """Publish copies of these messages from now on."""
        self._copies = Copies(self._type_name, templates)

    def publish(
        self, vehicles: NDArray[np.intp], stamp_ns: NDArray[np.int64], **columns: Any
    ) -> None:
        """Publish a message for each row; see :meth:`Copies.payloads`."""
        payloads = self._copies.payloads(vehicles, stamp_ns, **columns)
        for i, payload in zip(vehicles.tolist(), payloads, strict=True):
            self._publishers[i].publish(payload)
        self.count += len(payloads)


class Outputs:
    """Truth, estimates and sensors of all vehicles.

    Args:
        node: whose publishers these are.
        namespaces: of the vehicles.
        scenario: what flies.
        level: one of LEVELS.
    """

    def __init__(
        self, node: Any, namespaces: Sequence[str], scenario: Scenario, level: str
    ) -> None:
        bodies = [frame_prefix(namespace) + "base_link" for namespace in namespaces]
        self._truth, self._estimate = (
            Batch(
                node,
                namespaces,
                topic,
                [OdometryWriter("map", body, np.zeros(1, record)[0]).payload() for body in bodies],
            )
            for topic, record in ((topics.TRUTH, KINEMATICS), (topics.ODOMETRY, ODOMETRY))
        )
        self._reference = Batch(
            node,
            namespaces,
            topics.REFERENCE,
            [ReferenceWriter().payload(np.zeros(1, SETPOINT).view(np.recarray)[0], 0)]
            * len(namespaces),
        )
        self._estimated_ns = np.zeros(len(namespaces), np.int64)
        wanted = {"estimates": (), "imu": ("imu",), "all": tuple(COLUMNS)}[level]
        self._sensors = {
            kind: Batch(node, namespaces, COLUMNS[kind][0])
            for kind in wanted
            if kind in scenario.sensors
        }
        self._prefixes = [frame_prefix(name) for name in namespaces]
        self._fixes: list[Any] = []
        self._fix_count = 0
        if level == "all" and "gnss" in scenario.sensors:
            self._velocity_writer = VelocityWriter("map")
            self._fixes, self._velocities = (
                [node.offer(topic, full_name(name, topic.name)) for name in namespaces]
                for topic in (topics.GPS_FIX, topics.GPS_VELOCITY)
            )
        self.begin(scenario)

    def begin(self, scenario: Scenario) -> None:
        """Publish the sensors of a scenario from now on: their covariances, and the datum of fixes.

        Kinds that the first scenario lacked have no topic, those that this one lacks are silent.
        """
        for kind, batch in self._sensors.items():
            if kind in scenario.sensors:
                batch.begin([template(scenario, kind, prefix) for prefix in self._prefixes])
        datum = scenario.environment.datum
        self._fix_writers = [
            FixWriter(prefix + "gps_link", datum) for prefix in self._prefixes[: len(self._fixes)]
        ]

    @property
    def count(self) -> int:
        """Messages so far."""
        batches = (self._truth, self._estimate, self._reference, *self._sensors.values())
        return sum(batch.count for batch in batches) + self._fix_count

    def wish(self, swarm: Swarm, before_ns: int, begun_ns: int) -> None:
        """Publish where the missions want the vehicles, of a tick that was decided, when it is due.

        Args:
            swarm: the vehicles.
            before_ns: their time a tick ago.
            begun_ns: simulated time at which theirs began.
        """
        if not due(REFERENCE_PERIOD_NS, before_ns, swarm.stamp_ns):
            return
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
        for kind, batch in self._sensors.items():
            vehicles, samples = swarm.published(kind)
            columns = {name: samples[field] for name, field in COLUMNS[kind][1].items()}
            batch.publish(vehicles, samples["stamp_ns"] + begun_ns, **columns)
        if self._fixes:
            self._publish_fixes(swarm, begun_ns)
        vehicles, rows = swarm.logged()
        self._truth.publish(vehicles, rows["stamp_ns"] + begun_ns, **motion_columns(rows))
        new_ns = rows["estimate"]["stamp_ns"] + begun_ns
        known = (rows["estimated"] != 0) & (new_ns > self._estimated_ns[vehicles])
        known[1:] &= (vehicles[1:] != vehicles[:-1]) | (new_ns[1:] != new_ns[:-1])
        self._estimated_ns[vehicles[known]] = new_ns[known]
        estimates = rows["estimate"][known]
        self._estimate.publish(
            vehicles[known],
            new_ns[known],
            **motion_columns(estimates, stated=True),
        )

    def _publish_fixes(self, swarm: Swarm, begun_ns: int) -> None:
        """Publish fixes one by one: they are few, and each asks for the datum."""
        vehicles, samples = swarm.published("gnss")
        for i, sample in zip(vehicles.tolist(), samples.copy(), strict=True):
            sample["stamp_ns"] += begun_ns
            if has_fix(sample):
                self._velocities[i].publish(self._velocity_writer.payload(sample))
                self._fix_count += 1
            self._fixes[i].publish(self._fix_writers[i].payload(sample))
            self._fix_count += 1
