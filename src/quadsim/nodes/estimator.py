"""Node ``estimator``: the sensors' messages in, ``odometry/filtered`` out; no truth."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, Any

from rclpy.context import Context
from std_srvs.srv import Trigger

from quadsim.errors import InputError
from quadsim.estimation.blind import BlindIns
from quadsim.estimation.filter import ErrorStateEkf
from quadsim.estimation.parameters import EstimatorParams
from quadsim.files import find
from quadsim.geometry.geodesy import Datum
from quadsim.nodes import topics
from quadsim.nodes.base import QuadsimNode
from quadsim.nodes.cdr import MessageError, Reader, stamp_of
from quadsim.nodes.conversion import OdometryWriter
from quadsim.nodes.params import declare, declare_text
from quadsim.nodes.runtime import main_of
from quadsim.nodes.sensor_messages import OrientedImuWriter
from quadsim.nodes.topics import Topic
from quadsim.nodes.transforms import Transforms
from quadsim.nodes.world_messages import datum_of, stamp_ns_of
from quadsim.parameters import Spec, load
from quadsim.sensors.timing import due

BLIND_PERIOD_NS = 20_000_000
#: What the filter says of an IMU sample that it used.
TAKEN = ("ok", "gap", "clock_jump")
IMU_FIELDS = ("f", "w", "f_covariance", "w_covariance")


@dataclass(frozen=True)
class EstimatorNodeParams:
    """Where ``map`` is, for the estimator; see also the parameters of the filter."""

    datum_source: Annotated[
        str, Spec("who says where map is", choices=("topic", "parameter", "fix"))
    ] = "topic"
    datum: Datum = field(default_factory=Datum)


class EstimatorNode(QuadsimNode):
    """The error-state Kalman filter, predicted at the IMU's rate, and inertial navigation alone."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__("estimator", **kwargs)
        config = declare_text(self, "config", "eskf", "a file of config/estimators, or a path")
        params = declare(self, load(EstimatorParams, find("estimators", config)))
        node_params = declare(self, EstimatorNodeParams())
        datum = node_params.datum if node_params.datum_source == "parameter" else None
        self.filter = ErrorStateEkf(params, datum)
        self._blind = BlindIns(params, datum)
        self._first_fix = node_params.datum_source == "fix"
        self._starts = 0
        self._last_ns = 0
        self._published_ns = 0
        self._received = 0
        self._make_outputs(params)
        self._listen_to_sensors(node_params)
        self.create_service(Trigger, "reset", self._on_reset)

    def _make_outputs(self, params: EstimatorParams) -> None:
        self._odometry_output = self.offer(topics.ODOMETRY, needed=True)
        self._blind_output = self.offer(topics.BLIND_ODOMETRY)
        self._imu_output = self.offer(topics.IMU)
        body = self.frame("base_link")
        self._odometry_writer = OdometryWriter("map", body, self.filter.odometry())
        self._blind_writer = OdometryWriter(self.frame("odom"), body, self._blind.odometry())
        self._imu_writer = OrientedImuWriter(self.frame("imu_link"))
        self._q_WS = self.filter.state["q_WS"]
        mount = params.mount
        roll, pitch, yaw = map(math.radians, mount.imu_roll_pitch_yaw_deg)
        self._transforms = Transforms(
            self,
            {
                "imu_link": (mount.imu_position_B_m, (roll, pitch, yaw)),
                "gps_link": (mount.antenna_position_B_m, (0.0, 0.0, 0.0)),
                "range_link": (mount.rangefinder_position_B_m, (0.0, math.pi / 2, 0.0)),
            },
        )

    def _listen_to_sensors(self, node_params: EstimatorNodeParams) -> None:
        self._imu_reader = Reader(topics.IMU_RAW.type_name)
        self.listen(topics.IMU_RAW, self._on_imu, needed=True)
        self._listen(topics.GPS_FIX, self._on_fix)
        self._listen(topics.GPS_VELOCITY, self._on_gps_velocity)
        self._listen(topics.MAGNETIC_FIELD, self._on_magnetic_field)
        self._listen(topics.PRESSURE, self._on_pressure)
        self.listen(topics.RANGE, self._on_range, raw=False)
        if node_params.datum_source == "topic":
            self.listen(topics.DATUM, self._on_datum, raw=False)

    def _listen(self, topic: Topic, callback: Any) -> None:
        """Subscribe with a reader of the topic's own; the callback takes stamp and view."""
        reader = Reader(topic.type_name)
        self.listen(topic, lambda payload: callback(stamp_of(payload), reader.read(payload)))

    # ---- what comes in -------------------------------------------------------------------------

    def _on_imu(self, payload: bytes) -> None:
        """Predict, and publish what is known at the sample's time."""
        stamp_ns = stamp_of(payload)
        view = self._imu_reader.read(payload)
        self._received += 1
        self._last_ns = max(self._last_ns, stamp_ns)
        # copies: kernels want aligned numbers, and compile anew for others
        sample = [view[name].copy() for name in IMU_FIELDS]
        if self.filter.imu(stamp_ns, *sample) not in TAKEN or not self.filter.running:
            return
        self._blind.imu(stamp_ns, *sample)
        self._publish(stamp_ns, view)

    def _publish(self, stamp_ns: int, view: Any) -> None:
        odometry = self.filter.odometry()
        pose_covariance = self.filter.pose_covariance()
        self._odometry_output.publish(
            self._odometry_writer.estimate(pose_covariance, self.filter.twist_covariance())
        )
        self._imu_output.publish(
            self._imu_writer.payload(view, self._q_WS, pose_covariance[3:, 3:], stamp_ns)
        )
        self._follow_blind()
        before_ns, self._published_ns = self._published_ns, stamp_ns
        if due(BLIND_PERIOD_NS, before_ns, stamp_ns):
            blind = self._blind.odometry()
            self._blind_output.publish(
                self._blind_writer.estimate(
                    self._blind.pose_covariance(), self._blind.twist_covariance()
                )
            )
            self._transforms.publish(odometry, blind)

    def _follow_blind(self) -> None:
        """Let inertial navigation alone begin where the filter begins."""
        starts = int(self.filter.state["starts"])
        if starts != self._starts:
            self._starts = starts
            self._blind.start_from(self.filter)

    def _on_fix(self, stamp_ns: int, view: Any) -> None:
        if view["status"] < 0:
            raise MessageError("no fix")
        geodetic = (view["latitude_deg"], view["longitude_deg"], view["height_m"])
        if self._first_fix and self.filter.datum is None:
            self._set_datum(Datum(*map(float, geodetic)))
        self.filter.gnss_position(stamp_ns, geodetic, view["covariance"].copy())

    def _on_gps_velocity(self, stamp_ns: int, view: Any) -> None:
        self.filter.gnss_velocity(stamp_ns, view["v"].copy(), view["covariance"].copy())

    def _on_magnetic_field(self, stamp_ns: int, view: Any) -> None:
        self.filter.magnetic_field(stamp_ns, view["m"].copy(), view["covariance"].copy())

    def _on_pressure(self, stamp_ns: int, view: Any) -> None:
        self.filter.pressure(stamp_ns, float(view["pressure"]), float(view["variance"]))

    def _on_range(self, message: Any) -> None:
        stamp_ns = stamp_ns_of(message.header.stamp)
        self.filter.range(stamp_ns, message.range, getattr(message, "variance", 0.0))

    def _on_datum(self, message: Any) -> None:
        try:
            self._set_datum(datum_of(message))
        except InputError as error:
            raise MessageError(str(error)) from None

    def _set_datum(self, datum: Datum) -> None:
        known = self.filter.datum
        if known is not None and datum != known:
            self.get_logger().warning(f"/datum moved to {datum}; the first one is kept")
        elif known is None:
            self.filter.datum = self._blind.datum = datum

    def _on_reset(self, _: Any, response: Any) -> Any:
        self.filter.reset()
        self._blind.reset()
        self._starts = 0
        response.success = True
        return response

    def health(self) -> tuple[int, str, dict[str, Any]]:
        """The filter's own account, and how many IMU samples came."""
        values = self.filter.health()
        status = str(values["status"])
        if self.filter.datum is None:
            status = "waits for the datum"
        return (
            int(status != "running"),
            status,
            {
                "imu_messages": self._received,
                "imu_last_ns": self._last_ns,
                **values,
            },
        )


def make(context: Context, **kwargs: Any) -> EstimatorNode:
    """Make the node in a context."""
    return EstimatorNode(context=context, **kwargs)


def main() -> None:
    """Run the node."""
    main_of(make)


if __name__ == "__main__":
    main()
