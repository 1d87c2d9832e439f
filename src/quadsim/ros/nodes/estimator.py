"""Node ``estimator``: the sensors' messages in, ``odometry/filtered`` out; no truth."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sensor_msgs.msg import NavSatFix
from std_srvs.srv import Trigger

from quadsim.base.errors import InputError
from quadsim.base.files import find
from quadsim.base.parameters import flatten, leaves, load
from quadsim.base.parts import PART_FAILED, Part, PartError
from quadsim.estimation import make_estimator
from quadsim.estimation.assumptions import Unknown, date_year_of
from quadsim.estimation.eskf.parameters import EstimatorParams
from quadsim.estimation.interface import (
    TAKEN,
    BlindIns,
    ErrorStateEkf,
    Estimator,
    noisy_sensors,
    repeating_sensors,
)
from quadsim.estimation.odom_frame import OdomFrame
from quadsim.estimation.own import OwnEstimator
from quadsim.estimation.voting_words import vote_changes
from quadsim.geometry.geodesy import Datum
from quadsim.mission.flight.states import FLYING
from quadsim.ros.messages.cdr import MessageError, Reader, stamp_ns_of, stamp_of
from quadsim.ros.messages.conversion import OdometryWriter
from quadsim.ros.messages.transforms import Mounts, Transforms
from quadsim.ros.messages.world import datum_at, read_datum
from quadsim.ros.parts.estimator_params import (
    SAFE,
    EstimatorNodeParams,
    check_beside,
    when_of_filter,
    when_of_node,
)
from quadsim.ros.parts.estimator_parts import (
    POSES,
    ImuWatch,
    Standing,
    external_pose_of,
    innovations,
    judge_estimate,
)
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.base import QuadsimNode, make_event
from quadsim.ros.runtime.frames import FrameCheck
from quadsim.ros.runtime.params import (
    ON_RESET,
    current,
    declare,
    declare_one,
    declare_texts,
    value_of,
)
from quadsim.ros.runtime.resets import Resets
from quadsim.ros.runtime.runtime import entry_points
from quadsim.ros.runtime.topics import Topic
from quadsim.sensors.error_terms import due
from quadsim.wire.encode import Template
from quadsim.wire.samples import heading_of

BLIND_PERIOD_NS = 20_000_000
WATCH_PERIOD_S = 0.1
AnyEstimator = Estimator | OwnEstimator
ANEW = "the estimators begin anew"
IMU_FIELDS = ("f", "w", "f_covariance", "w_covariance")


def mounts_of(params: EstimatorParams) -> Mounts:
    """Frames of the sensors in ``base_link``."""
    mount = params.mount
    roll, pitch, yaw = map(math.radians, mount.imu_roll_pitch_yaw_deg)
    flow_roll, flow_pitch, flow_yaw = map(math.radians, mount.flow_roll_pitch_yaw_deg)
    second: dict[str, tuple[Any, tuple[float, float, float]]] = {}
    if params.second.gnss:
        second["gps_1_link"] = (params.second.antenna_position_B_m, (0.0, 0.0, 0.0))
    if params.second.rangefinder:
        looks_down = (0.0, math.pi / 2, 0.0)
        second["range_1_link"] = (params.second.rangefinder_position_B_m, looks_down)
    if params.second.imu:
        angles = params.second.imu_roll_pitch_yaw_deg
        rotation = (math.radians(angles[0]), math.radians(angles[1]), math.radians(angles[2]))
        second["imu_1_link"] = (params.second.imu_position_B_m, rotation)
    return {
        **second,
        "imu_link": (mount.imu_position_B_m, (roll, pitch, yaw)),
        "gps_link": (mount.antenna_position_B_m, (0.0, 0.0, 0.0)),
        "range_link": (mount.rangefinder_position_B_m, (0.0, math.pi / 2, 0.0)),
        "flow_link": (mount.flow_position_B_m, (flow_roll, flow_pitch, flow_yaw)),
    }


class EstimatorNode(QuadsimNode):
    """The error-state Kalman filter, predicted at the IMU's rate, and others next to it."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__("estimator", **kwargs)
        config = declare_one(
            self, "config", "eskf", "a file of config/estimators, or a path", ON_RESET
        )
        params = load(EstimatorParams, find("estimators", config))
        params = declare(self, params, when=when_of_filter)
        node_params = declare(self, EstimatorNodeParams(), when=when_of_node)
        names = declare_texts(self, "beside", "other estimators to run: odometry/<name>")
        datum = node_params.datum if node_params.datum_source == "parameter" else None
        self._unknown = Unknown(params) if node_params.installation == "unknown" else None
        self.filter = ErrorStateEkf(params, datum)
        self._blind = BlindIns(params, datum)
        own = declare_one(
            self, "own", "", "estimator of your own to fly on, module:Class; empty: the filter"
        )
        self._own = OwnEstimator(Part("estimator", own), params, datum) if own else None
        check_beside(names, f"node {self.get_fully_qualified_name()}: parameter beside")
        self._beside: dict[str, AnyEstimator] = {
            name.rpartition(":")[2].lower(): make_estimator(name, params, datum) for name in names
        }
        self._all: list[AnyEstimator] = [self.filter, self._blind, *self._beside.values()]
        self._all += [] if self._own is None else [self._own]
        self._datum_heard: Datum | None = None
        self._first_fix = node_params.datum_source == "fix"
        self._starts = 0
        self._grounded = False
        self._odom = OdomFrame()
        self._last_ns = 0
        self._stamp_ns = 0
        self._published_ns = 0
        self._received = 0
        self._checks: list[FrameCheck] = []
        self._standing = Standing(params.gravity_mps2)
        self._make_outputs(params, node_params)
        self._listen_to_sensors(node_params)
        self._listen_to_others(node_params)
        self.create_service(Trigger, "reset", self._on_reset)
        self._resets = Resets(
            self,
            "estimator",
            lambda: flatten(load(EstimatorParams, find("estimators", config))),
            self._take,
            lambda *_: self._begin_anew(),
        )
        self.listen(topics.EVENTS, self._resets.hear, raw=False)
        self.when_time_goes_back(self._on_time_back, ANEW)
        self._watch = ImuWatch(node_params.imu_timeout_s, self.simulated)
        self._trouble, self._frozen, self._noisy = "", 0, ""
        self._left_out: dict[str, str] = {}
        self.wall_timer(WATCH_PERIOD_S, self._look)

    def _make_outputs(self, params: EstimatorParams, node_params: EstimatorNodeParams) -> None:
        self._odometry_output = self.offer(topics.ODOMETRY, needed=True)
        rate_hz = node_params.sampled_rate_hz
        self._sampled_period_ns = round(1e9 / rate_hz) if rate_hz else 0
        if rate_hz:
            self._sampled_output = self.offer(topics.ODOMETRY_SAMPLED)
        self._imu_output = self.offer(topics.IMU)
        body = self.frame("base_link")
        self._odometry_writer = OdometryWriter("map", body, self._flown.odometry())
        others: list[tuple[AnyEstimator, str, Topic]] = [
            (self._blind, self.frame("odom"), topics.BLIND_ODOMETRY)
        ]
        others += [(one, "map", topics.beside_odometry(n)) for n, one in self._beside.items()]
        self._others_outputs = [
            (one, OdometryWriter(frame, body, one.odometry()), self.offer(topic))
            for one, frame, topic in others
        ]
        self._imu_template = Template.of(topics.IMU.type_name, self.frame("imu_link"))
        self._q_WS = self.filter.state["q_WS"]
        self._transforms = Transforms(self, mounts_of(params))

    @property
    def _flown(self) -> AnyEstimator:
        """What the vehicle flies on."""
        return self.filter if self._own is None else self._own

    def _check(self, topic: Topic, parameter: str, frame: str, world: bool = False) -> FrameCheck:
        """A check of a topic's frame; frames of the vehicle get its prefix."""
        expected = frame if world or "/" in frame else self.frame(frame)
        check = FrameCheck(self, topic.name, f"frames.{parameter}", expected)
        self._checks.append(check)
        return check

    def _listen_to_sensors(self, node_params: EstimatorNodeParams) -> None:
        frames = node_params.frames
        self._imu_reader = Reader(topics.IMU_RAW.type_name)
        self._imu_check = self._check(topics.IMU_RAW, "imu", frames.imu)
        self.listen(topics.IMU_RAW, self._on_imu, needed=True)
        if self.filter.params.second.imu:
            self._imu_1_reader = Reader(topics.IMU_RAW_1.type_name)
            self._imu_1_check = self._check(topics.IMU_RAW_1, "imu_1", frames.imu_1)
            self.listen(topics.IMU_RAW_1, self._on_imu_1, needed=True)
        gnss_velocity = self._check(
            topics.GPS_VELOCITY, "gnss_velocity", frames.gnss_velocity, world=True
        )
        field = self._check(topics.MAGNETIC_FIELD, "magnetic_field", frames.magnetic_field)
        self._listen(topics.GPS_FIX, self._on_fix)
        self._listen(topics.GPS_VELOCITY, self._on_gps_velocity, gnss_velocity)
        self._listen(topics.MAGNETIC_FIELD, self._on_magnetic_field, field)
        self._listen(topics.PRESSURE, self._on_pressure)
        self._listen(topics.SENSORS["gps/heading"], self._on_gnss_heading)
        flow = self._check(topics.OPTICAL_FLOW, "optical_flow", frames.optical_flow)
        self._listen(topics.OPTICAL_FLOW, self._on_optical_flow, flow)
        self._listen_to_ranges(topics.RANGE, "range", frames.range)
        second = self.filter.params.second
        if second.gnss:
            velocity_1 = topics.SENSORS["gps_1/vel"]
            check = self._check(velocity_1, "gnss_velocity", frames.gnss_velocity, world=True)
            self._listen(topics.SENSORS["gps_1/fix"], partial(self._on_fix, kind="gnss_position_1"))
            on_velocity = partial(self._on_gps_velocity, kind="gnss_velocity_1")
            self._listen(velocity_1, on_velocity, check)
        if second.rangefinder:
            self._listen_to_ranges(topics.SENSORS["range_1/down"], "range_1", frames.range_1)
        self._listen(topics.VISUAL_ODOMETRY, self._on_visual_odometry)
        velocity = self._check(
            topics.EXTERNAL_VELOCITY, "external_velocity", frames.external_velocity
        )
        self._listen(topics.EXTERNAL_VELOCITY, self._on_external_velocity, velocity)
        if node_params.datum_source == "topic":
            self.listen(topics.DATUM, self._on_datum, raw=False)

    def _listen_to_ranges(self, topic: Topic, kind: str, frame: str) -> None:
        check = self._check(topic, kind, frame)
        self.listen(topic, partial(self._on_range, kind, check), raw=False)

    def _listen_to_others(self, node_params: EstimatorNodeParams) -> None:
        """Motion capture, and whoever knows that the vehicle stands."""
        self.listen(topics.LANDED, lambda m: self._standing.tell(bool(m.data)), raw=False)
        self.listen(topics.MISSION_STATUS, self._on_mission_status, raw=False)
        topic = POSES.get(node_params.external_pose_type)
        if topic is not None:
            frame = node_params.frames.external_pose
            check = self._check(topic, "external_pose", frame, world=True)
            self._listen(topic, self._on_external_pose, check)

    def _listen(self, topic: Topic, callback: Any, check: FrameCheck | None = None) -> None:
        """Subscribe with a reader of the topic's own; the callback takes stamp and view."""
        reader = Reader(topic.type_name)

        def read(payload: bytes) -> None:
            if not self._resets.settled(stamp_of(payload)):
                return
            view = reader.read(payload)
            if check is not None:
                check.check_reader(reader)
            callback(stamp_of(payload), view)

        self.listen(topic, read)

    def _tell(self, method: str, *values: Any) -> None:
        """Hand a measurement to the filter, to the extra estimators and to the own one."""
        for estimator in (self.filter, *self._beside.values(), self._own):
            if estimator is not None:
                self._hand_over(estimator, method, *values)

    def _hand_over(self, estimator: AnyEstimator, method: str, *values: Any) -> str:
        """Hand a message to an estimator, and give its verdict; one that raises is given up."""
        try:
            return str(getattr(estimator, method)(*values))
        except PartError as error:
            self._give_up(estimator, error)
            return "failed"

    def _give_up(self, estimator: AnyEstimator, error: PartError) -> None:
        """Go on without an own estimator; if the vehicle flies on it, on the filter, and land."""
        self._all.remove(estimator)
        self._beside = {name: one for name, one in self._beside.items() if one is not estimator}
        self._others_outputs = [one for one in self._others_outputs if one[0] is not estimator]
        self.get_logger().error(str(error))
        self.events.publish(make_event(self._stamp_ns, 2, PART_FAILED, str(error)))
        if estimator is self._own:
            self._own = None
            body = self.frame("base_link")
            self._odometry_writer = OdometryWriter("map", body, self.filter.odometry())
            self._landing = self.create_client(Trigger, "land")
            self._landing.call_async(Trigger.Request())

    # ---- what comes in -------------------------------------------------------------------------

    def _on_imu(self, payload: bytes) -> None:
        """Predict, and publish what is known at the sample's time."""
        stamp_ns = stamp_of(payload)
        if not self._resets.settled(stamp_ns):
            return
        view = self._imu_reader.read(payload)
        self._imu_check.check_reader(self._imu_reader)
        self._received += 1
        self._stamp_ns = stamp_ns
        # copies: kernels want aligned numbers, and compile anew for others
        sample = [view[name].copy() for name in IMU_FIELDS]
        self._assume(sample[2])
        verdict = self.filter.imu(stamp_ns, *sample)
        for estimator in (*self._beside.values(), self._own):
            if estimator is not None:
                self._hand_over(estimator, "imu", stamp_ns, *sample)
        if verdict not in TAKEN or self.filter.flies_on_second:
            return
        self._last_ns = max(self._last_ns, stamp_ns)
        if verdict == "clock_jump":
            self._last_ns = stamp_ns
            self._resets.forget()
            if self._own is not None:
                self._own.reset()
            self.get_logger().warning(f"IMU stamps went back to {stamp_ns * 1e-9:.3f} s: {ANEW}")
        if self._standing.holds(stamp_ns, sample[0], sample[1]):
            self._tell("zero_velocity", stamp_ns)
        if self.filter.running:
            self._blind.imu(stamp_ns, *sample)
        if self._flown.running:
            self._publish(stamp_ns, view)

    def _on_imu_1(self, payload: bytes) -> None:
        """Take a sample of the second IMU, and publish where the filter flies on that."""
        stamp_ns = stamp_of(payload)
        if not self._resets.settled(stamp_ns):
            return
        view = self._imu_1_reader.read(payload)
        self._imu_1_check.check_reader(self._imu_1_reader)
        before_ns = int(self.filter.state["imu_stamp_ns"])
        self._tell("imu_1", stamp_ns, *(view[name].copy() for name in IMU_FIELDS))
        new_ns = int(self.filter.state["imu_stamp_ns"])
        if new_ns > before_ns and self.filter.running and self._own is None:
            self._received += 1
            self._stamp_ns = self._last_ns = new_ns
            self._publish(new_ns, view)

    def _assume(self, f_covariance: Any) -> None:
        """Assume what is not known, as soon as enough was heard and while the filter aligns."""
        unknown = self._unknown
        if unknown is None or unknown.notes or self.filter.running:
            return
        unknown.hear("imu", f_covariance)
        if unknown.is_ready:
            self._set_params(unknown.assume())
            for words in unknown.notes:
                self.get_logger().info(words)

    def _publish(self, stamp_ns: int, view: Any) -> None:
        before_ns, self._published_ns = self._published_ns, stamp_ns
        flown = self._flown
        odometry = flown.odometry()
        pose_covariance = flown.pose_covariance()
        payload = self._odometry_writer.estimate(pose_covariance, flown.twist_covariance())
        self._odometry_output.publish(payload)
        if self._sampled_period_ns and due(self._sampled_period_ns, before_ns, stamp_ns):
            self._sampled_output.publish(payload)
        if self._imu_output.get_subscription_count() and self.filter.running:
            self._imu_output.publish(
                self._imu_template.payload(
                    stamp_ns,
                    q_xyzw=self._q_WS[[1, 2, 3, 0]],
                    q_covariance=self.filter.pose_covariance()[3:, 3:],
                    **{name: view[name] for name in IMU_FIELDS},
                )
            )
        if not self.filter.running:
            return
        if due(BLIND_PERIOD_NS, before_ns, stamp_ns):
            self._follow_blind()
            for one, writer, output in self._others_outputs:
                if one.running:
                    one.odometry()  # into the record that the writer reads
                    output.publish(writer.estimate(one.pose_covariance(), one.twist_covariance()))
            odom = self._odom.take(self.filter.odometry(), int(self.filter.state["starts"]))
            self._transforms.publish(odometry, odom)

    def _on_mission_status(self, message: Any) -> None:
        self._grounded = message.message not in FLYING

    def _follow_blind(self) -> None:
        """Let inertial navigation alone begin where the filter begins, and where it takes off."""
        starts = int(self.filter.state["starts"])
        if starts != self._starts or self._grounded:
            self._starts = starts
            self._blind.start_from(self.filter)

    def _on_fix(self, stamp_ns: int, view: Any, kind: str = "gnss_position") -> None:
        if view["status"] < 0:
            raise MessageError("no fix")
        geodetic = (view["latitude_deg"], view["longitude_deg"], view["height_m"])
        if self._first_fix and self.filter.datum is None:
            self._set_datum(datum_at(*map(float, geodetic)))
        covariance = view["covariance"].copy()
        if view["covariance_type"] == NavSatFix.COVARIANCE_TYPE_UNKNOWN:
            covariance[:] = 0.0
        if self._unknown is not None and self.filter.datum is not None:
            # a time since 1970 that may be a date: the stamp, or the clock
            date_ns = stamp_ns if date_year_of(stamp_ns) else self.get_clock().now().nanoseconds
            self._unknown.hear_place(self.filter.datum, date_ns)
            self._unknown.hear_fix(covariance)
        self._tell(kind, stamp_ns, geodetic, covariance)

    def _on_gps_velocity(self, stamp_ns: int, view: Any, kind: str = "gnss_velocity") -> None:
        self._tell(kind, stamp_ns, view["v"].copy(), view["covariance"].copy())

    def _on_magnetic_field(self, stamp_ns: int, view: Any) -> None:
        m_S, covariance = view["m"].copy(), view["covariance"].copy()
        if self._unknown is not None:
            self._unknown.hear_field(m_S, covariance)
        self._tell("magnetic_field", stamp_ns, m_S, covariance)

    def _on_pressure(self, stamp_ns: int, view: Any) -> None:
        self._tell("pressure", stamp_ns, float(view["pressure"]), float(view["variance"]))

    def _on_range(self, kind: str, check: FrameCheck, message: Any) -> None:
        check.check(message.header.frame_id)
        stamp_ns = stamp_ns_of(message.header.stamp)
        if not self._resets.settled(stamp_ns):
            return
        distance_m = message.range
        if distance_m < message.min_range:
            distance_m = -math.inf  # too near, REP 117
        elif 0.0 < message.max_range < distance_m:
            distance_m = math.inf  # nothing in range
        variance = getattr(message, "variance", 0.0)
        if self._unknown is not None:
            self._unknown.hear("range", np.array([variance]))
        self._tell(kind, stamp_ns, distance_m, variance)

    def _on_gnss_heading(self, stamp_ns: int, view: Any) -> None:
        heading, variance = heading_of(view["q_xyzw"], view["q_covariance"])
        if not np.isnan(heading):
            self._tell("gnss_heading", stamp_ns, float(heading), float(variance))

    def _on_optical_flow(self, stamp_ns: int, view: Any) -> None:
        flow = view["v"].copy()
        if np.isnan(flow[0]):
            return  # nothing was seen
        self._tell("optical_flow", stamp_ns, flow, float(view["covariance"].reshape(-1)[0]))

    def _on_external_pose(self, stamp_ns: int, view: Any) -> None:
        self._tell("external_pose", stamp_ns, *external_pose_of(view))

    def _on_visual_odometry(self, stamp_ns: int, view: Any) -> None:
        p_F, q_FB, covariance = external_pose_of(view)
        self._tell("external_odometry", stamp_ns, np.concatenate((p_F, q_FB)), covariance)

    def _on_external_velocity(self, stamp_ns: int, view: Any) -> None:
        self._tell("external_velocity", stamp_ns, view["v"].copy(), view["covariance"].copy())

    def _on_datum(self, message: Any) -> None:
        self._datum_heard = read_datum(message)
        self._set_datum(self._datum_heard)

    def _set_datum(self, datum: Datum) -> None:
        known = self.filter.datum
        if known is not None and datum != known and self.filter.running:
            self.get_logger().warning(f"/datum moved to {datum}; the first one counts")
        elif datum != known:
            self._move(datum)

    # ---- what is asked of it -------------------------------------------------------------------

    def _move(self, datum: Datum) -> None:
        for estimator in self._all:
            estimator.datum = datum

    def _take(self, changed: dict[str, Any], reset: bool) -> Callable[[], None]:
        """Parameters of the filter and the datum, all of one request or none."""
        ours = {leaf.name for leaf in leaves(EstimatorParams)} & changed.keys()
        place = [name for name in changed if name.startswith("datum.")]
        for name in () if reset or not self.filter.running else (*ours, *place):
            if not name.startswith(SAFE):
                raise InputError(f"{name}: needs a restart of the estimator (service reset)")
        if place and value_of(self, "datum_source") != "parameter":
            raise InputError(f"{place[0]}: counts only with datum_source: parameter")
        params = current(self, EstimatorParams, "", changed)
        datum = current(self, Datum, "datum.", changed)

        def apply() -> None:
            if ours:
                self._set_params(params if self._unknown is None else self._unknown.update(params))
            if place:
                self._move(datum)

        return apply

    def _set_params(self, params: EstimatorParams) -> None:
        for estimator in self._all:
            estimator.set_params(params)
        self._transforms.move(mounts_of(params))

    def _begin_anew(self) -> None:
        """Forget all, and start with the next IMU sample, where ``map`` is by now."""
        if self._datum_heard is not None:
            self._move(self._datum_heard)
        self._standing = Standing(self.filter.params.gravity_mps2)
        for estimator in self._all:
            estimator.reset()
        self._starts = self._last_ns = 0
        self._odom = OdomFrame()

    def _on_reset(self, _: Any, response: Any) -> Any:
        self._begin_anew()
        response.success = True
        return response

    def _on_time_back(self) -> None:
        """Begin anew; resets of another time do not count."""
        self._resets.forget()
        self._begin_anew()

    # ---- status -------------------------------------------------------------------------------

    def _trouble_now(self) -> str:
        """What is wrong with the IMU's stream, in words."""
        return self._watch.look(
            self._steady.now().nanoseconds,
            self.get_clock().now().nanoseconds,
            self._received,
            self._stamp_ns,
        )

    def _look(self) -> None:
        """Look after the IMU and after sensors that repeat; what changes is reported at once."""
        left_out = self.filter.left_out()
        changes, self._left_out = vote_changes(self._left_out, left_out), left_out
        for level, name, words in changes:
            self.get_logger().warning(f"{name}: {words}")
            self.events.publish(make_event(self._stamp_ns, level, name, words))
        if changes:
            self.report()
        frozen = int(self.filter.lines["frozen"][0])
        if frozen != self._frozen:
            begun = repeating_sensors(frozen & ~self._frozen)
            self._frozen = frozen
            if begun:
                names = ", ".join(begun)
                self.get_logger().warning(f"one value to the bit, again and again: {names}")
            self.report()
        noisy = ", ".join(noisy_sensors(self.filter.lines[0]))
        if noisy != self._noisy:
            self._noisy = noisy
            if noisy:
                self.get_logger().warning(f"noise far beyond what is stated: {noisy}")
            self.report()
        trouble = self._trouble_now()
        kind = trouble.split(" for ")[0]
        if kind != self._trouble:
            if kind and self._received:  # while a graph starts, all are silent
                self.get_logger().warning(trouble)
            self._trouble = kind
            self.report()

    def health(self) -> tuple[int, str, dict[str, Any]]:
        """The filter's own account, what is wrong, and how many IMU samples came."""
        values = self.filter.health()
        waits = self.filter.datum is None and not self.filter.running
        frames = "; ".join(check.recent for check in self._checks if check.recent)
        level, words = judge_estimate(values, waits, self._trouble_now(), frames)
        return (
            level,
            words,
            {
                "imu_messages": self._received,
                "imu_last_ns": self._last_ns,
                "assumed": "; ".join(self._unknown.notes if self._unknown else ()),
                **values,
                **innovations(self.filter.state),
            },
        )


make, main = entry_points(EstimatorNode)
