"""Node ``gazebo_adapter``: Gazebo's topics, as ros_gz_bridge has them, made those of the graph.

Rotor speeds go out as ``actuator_msgs/Actuators``; sensors and odometry come in. With it estimator,
autopilot and mixer fly Gazebo's vehicle as they fly ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np

from quadsim.base.errors import InputError
from quadsim.base.noise import stream
from quadsim.base.parameters import Spec, Vec3
from quadsim.geometry.geodesy import Datum
from quadsim.geometry.rotation import Quat, from_euler, multiply, quat, rotate
from quadsim.ros.messages.cdr import MessageError, RotorsReader, rotor_names, stamp_of
from quadsim.ros.messages.gazebo import (
    ActuatorsWriter,
    Convert,
    FixConversion,
    TruthConversion,
    imu_conversion,
    magnetic_conversion,
    pressure_conversion,
    range_conversion,
    with_header,
)
from quadsim.ros.messages.world import make_datum
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.base import QuadsimNode
from quadsim.ros.runtime.params import declare, declare_one, declare_texts
from quadsim.ros.runtime.runtime import entry_points
from quadsim.ros.runtime.topics import Topic
from quadsim.sensors.devices import load_suite
from quadsim.sensors.imu import ImuParams

#: So many samples of the field are needed before it is judged.
ENOUGH = 50
#: Error of the heading that is spoken of; that of Gazebo's tables is 1 to 2 degrees.
LARGE_DEG = 5.0


class FieldCheck:
    """Mean of the field in the world, by the truth's attitude, against the expected one.

    Args:
        expected_W_T: what the estimator believes, east, north, up; zero: not known.
        rotation_deg: roll, pitch, yaw of the sensor's axes in ``base_link``.
    """

    def __init__(self, expected_W_T: Vec3, rotation_deg: Vec3) -> None:
        self._expected_W_T = expected_W_T
        roll, pitch, yaw = map(math.radians, rotation_deg)
        self._q_BS = from_euler(roll, pitch, yaw)
        self._sum_W_T = np.zeros(3)
        self._count = 0

    def take(self, m_S_T: Vec3, q_WB: Quat) -> None:
        """Take a sample, with the attitude that the vehicle had about then."""
        self._sum_W_T += rotate(multiply(q_WB, self._q_BS), m_S_T)
        self._count += 1

    @property
    def field_W_T(self) -> Vec3 | None:
        """Mean field in the world, east, north, up; None before there is enough."""
        if self._count < ENOUGH:
            return None
        east, north, up = self._sum_W_T / self._count
        return float(east), float(north), float(up)

    @property
    def heading_error_deg(self) -> float:
        """Angle by which a heading from this field is wrong, positive to the left; 0: not known."""
        field_W_T = self.field_W_T
        if field_W_T is None or not any(self._expected_W_T[:2]):
            return 0.0
        found = math.atan2(field_W_T[1], field_W_T[0])
        expected = math.atan2(self._expected_W_T[1], self._expected_W_T[0])
        # a field rotated to the left looks like a vehicle rotated to the right
        return math.degrees(math.remainder(expected - found, math.tau))

    @property
    def words(self) -> str:
        """What is wrong and what to do; empty: nothing."""
        error_deg, field_W_T = self.heading_error_deg, self.field_W_T
        if field_W_T is None or abs(error_deg) < LARGE_DEG:
            return ""
        numbers = ", ".join(f"{value:.3g}" for value in field_W_T)
        return (
            f"Gazebo's magnetic field is [{numbers}] T, which turns the heading by"
            f" {error_deg:.0f} degrees: <use_earth_frame_ned>false</use_earth_frame_ned> in its"
            " Magnetometer plugin, or this field as magnetic_field_W_T of the estimator"
        )


#: Stamps farther than this from /clock are replaced by it, s.
MAX_STAMP_ERROR_S = 0.5
#: Sensors that Gazebo may have, by their names in suites; a scan or a cloud is a lidar's.
LIDAR = ("scan", "points")
SENSORS = ("imu", "gnss", "magnetometer", "barometer", "rangefinder", *LIDAR)


@dataclass(frozen=True)
class AdapterParams:
    """How the node takes Gazebo's messages; see also ``suite``, ``sensors``, ``rotors``."""

    magnetic_field_W_T: Annotated[
        Vec3, Spec("that the estimator believes in, to be compared; 0: not known", "T")
    ] = (0.0, 0.0, 0.0)
    datum: Datum = field(default_factory=Datum)


def actuators_class() -> Any:
    """The message class that Gazebo's motors take.

    Raises:
        InputError: it is not installed.
    """
    try:
        return topics.GAZEBO_COMMAND.message
    except ImportError:
        raise InputError(
            "gazebo_adapter: actuator_msgs is not installed, so rotor speeds cannot reach Gazebo;"
            " install the ROS package actuator_msgs, which comes with ros_gz_bridge"
        ) from None


class GazeboAdapterNode(QuadsimNode):
    """One vehicle that Gazebo flies, in the vehicle's namespace; the first one tells the datum."""

    def __init__(self, overrides: dict[str, Any] | None = None, **kwargs: Any) -> None:
        # Gazebo's clock is the only one there is
        simulated = {**(overrides or {}), "use_sim_time": True}
        super().__init__("gazebo_adapter", overrides=simulated, **kwargs)
        kind = actuators_class()
        self.params = declare(self, AdapterParams())
        words = "whose devices Gazebo's model has: deviations that its messages do not say"
        self._devices: dict[str, Any] = load_suite(declare_one(self, "suite", "ideal", words))
        sensors = declare_texts(self, "sensors", "which are Gazebo's; empty: all but points")
        sensors = sensors or [name for name in SENSORS if name != "points"]
        names = declare_texts(self, "rotors", "in the order of the model's motorNumber")
        tells_datum = declare_one(self, "publish_datum", True, "say on /datum where map is")
        seed = declare_one(self, "seed", 1, "of the noise of gps/vel", ge=0)
        for name in sensors:
            if name not in SENSORS:
                where = f"node {self.get_fully_qualified_name()}: parameter sensors"
                raise InputError(f"{where}: {name!r}; known: {', '.join(SENSORS)}")
            if name not in (*LIDAR, *self._devices):
                raise InputError(f"{where}: {name!r}, of which the suite has no device")
        self._ahead_ns = round(MAX_STAMP_ERROR_S * 1e9)
        if tells_datum:
            self._datum = self.offer(topics.DATUM)
            self._datum.publish(make_datum(self.params.datum))
        self._stamps: dict[str, int] = {}
        self._last_ns = 0
        self._truth = TruthConversion(self.frame("base_link"))
        self._truth_output = self.offer(topics.TRUTH)
        self._take(topics.GAZEBO_ODOMETRY, self._on_odometry)
        self._fixes: FixConversion | None = None
        self._make_sensors(sensors, seed)
        self._make_motors(kind, names or rotor_names(4))
        self.when_time_goes_back(self._forget, "Gazebo begins anew")

    # ---- endpoints -----------------------------------------------------------------------------

    def _take(self, given: Topic, use: Callable[[bytes, int], None], needed: bool = False) -> None:
        """Listen to one of Gazebo's topics; stamps repeat or go back in no message that is used."""

        def guarded(payload: bytes) -> None:
            now_ns = self.get_clock().now().nanoseconds
            if not now_ns:
                self.count("before /clock")
                return
            stamp_ns = self._stamp_of(payload, now_ns)
            if stamp_ns <= self._stamps.get(given.name, 0):
                raise MessageError("repeats or jumps back in time")
            use(payload, stamp_ns)
            self._stamps[given.name] = stamp_ns

        self.listen(given, guarded, needed=needed)

    def _pass(self, given: Topic, ours: Topic, convert: Convert, needed: bool = False) -> None:
        """Let one of Gazebo's topics be one of ours."""
        output = self.offer(ours, needed=needed)
        self._take(
            given,
            lambda payload, stamp_ns: output.publish(convert(payload, stamp_ns)),
            needed=needed,
        )

    def _make_sensors(self, sensors: list[str], seed: int) -> None:
        devices, frame, expected_W_T = self._devices, self.frame, self.params.magnetic_field_W_T
        imu = devices.get("imu", ImuParams())
        self._field = FieldCheck(expected_W_T, imu.rotation_deg)
        if "imu" in sensors:
            convert = imu_conversion(frame("imu_link"), imu)
            self._pass(topics.GAZEBO_IMU, topics.IMU_RAW, convert, needed=True)
        if "magnetometer" in sensors:
            variance_T2 = devices["magnetometer"].variance(expected_W_T)
            convert = magnetic_conversion(frame("imu_link"), variance_T2, self._compare_field)
            self._pass(topics.GAZEBO_MAGNETIC_FIELD, topics.MAGNETIC_FIELD, convert)
        if "barometer" in sensors:
            variance_pa2, sea_m = devices["barometer"].variance(), self.params.datum.height_m
            convert = pressure_conversion(frame("base_link"), variance_pa2, sea_m)
            self._pass(topics.GAZEBO_PRESSURE, topics.PRESSURE, convert)
        if "rangefinder" in sensors:
            convert = range_conversion(frame("range_link"), devices["rangefinder"])
            self._pass(topics.GAZEBO_RANGE, topics.RANGE, convert)
        for name, given, ours in (
            ("scan", topics.GAZEBO_SCAN, topics.SCAN),
            ("points", topics.GAZEBO_POINTS, topics.POINTS),
        ):
            if name in sensors:
                self._pass(given, ours, self._in_lidar_frame)
        if "gnss" in sensors:
            noise = stream(seed, self.get_namespace().strip("/"), "gazebo")
            self._fixes = FixConversion(frame("gps_link"), devices["gnss"], noise)
            self._fix_output = self.offer(topics.GPS_FIX)
            self._velocity_output = self.offer(topics.GPS_VELOCITY)
            self._take(topics.GAZEBO_NAVSAT, self._on_fix)

    def _make_motors(self, kind: Any, names: list[str]) -> None:
        self._rotors = RotorsReader(len(names), names)
        self._actuators = ActuatorsWriter(kind)
        self._motors = self.offer(topics.GAZEBO_COMMAND, needed=True)
        self.listen(topics.COMMAND_MOTOR_SPEED, self._on_command, needed=True)

    # ---- time ----------------------------------------------------------------------------------

    def _stamp_of(self, payload: bytes, now_ns: int) -> int:
        """A message's stamp in the time of ``/clock``, which is ``now_ns``."""
        stamp_ns = stamp_of(payload)
        if stamp_ns == 0 or abs(stamp_ns - now_ns) > self._ahead_ns:
            self.count("restamped")
            return now_ns
        return stamp_ns

    def _forget(self) -> None:
        self._stamps.clear()
        if self._fixes is not None:
            self._fixes.forget()

    # ---- what comes in -------------------------------------------------------------------------

    def _in_lidar_frame(self, payload: bytes, stamp_ns: int) -> bytes:
        return with_header(payload, stamp_ns, self.frame("lidar_link"))

    def _compare_field(self, m_S_T: Vec3) -> None:
        if topics.GAZEBO_ODOMETRY.name in self._stamps:
            self._field.take(m_S_T, quat(self._truth.record.q_WB))

    def _on_odometry(self, payload: bytes, stamp_ns: int) -> None:
        """Tell the truth, and the velocity of a fix that waited for it."""
        self._truth_output.publish(self._truth(payload, stamp_ns))
        if self._fixes is not None and (done := self._fixes.odometry(self._truth.record)):
            self._publish_fix(*done)

    def _on_fix(self, payload: bytes, stamp_ns: int) -> None:
        assert self._fixes is not None
        for done in self._fixes.fix(payload, stamp_ns):
            self._publish_fix(*done)

    def _publish_fix(self, fix: bytes, velocity: bytes | None) -> None:
        self._fix_output.publish(fix)
        if velocity is None:
            self.count("fixes without velocity")
        else:
            self._velocity_output.publish(velocity)

    def _on_command(self, payload: bytes) -> None:
        """Send rotor speeds to Gazebo's motors; they hold the last ones."""
        speeds = self._rotors.read(payload)
        self._motors.publish(self._actuators.message(stamp_of(payload), speeds.tolist()))
        self.count("commands")

    # ---- health --------------------------------------------------------------------------------

    def health(self) -> tuple[int, str, dict[str, Any]]:
        """Whether Gazebo's messages come, and are stamped by its clock."""
        values = {
            "time_s": self.get_clock().now().nanoseconds * 1e-9,
            "field_heading_error_deg": self._field.heading_error_deg,
        }
        latest_ns = max(self._stamps.values(), default=0)
        silent = latest_ns == self._last_ns
        self._last_ns = latest_ns
        if not self._stamps:
            return 1, "nothing has come from Gazebo; is ros_gz_bridge there, and /clock?", values
        if self._field.words:
            return 2, self._field.words, values
        if silent:
            return 1, "nothing comes from Gazebo: paused, or gone", values
        if self.counts.get("restamped"):
            return 1, "Gazebo's stamps are not those of /clock", values
        return 0, "running", values


make, main = entry_points(GazeboAdapterNode)
