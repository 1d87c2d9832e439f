"""The estimator in the graph: frames, silence, parameters, motion capture, others beside."""

from __future__ import annotations

import math

import numpy as np
import pytest
from geometry_msgs.msg import PoseWithCovarianceStamped, TwistWithCovarianceStamped
from nav_msgs.msg import Odometry
from rcl_interfaces.srv import SetParametersAtomically
from rclpy.parameter import Parameter
from sensor_msgs.msg import Imu, MagneticField, NavSatFix
from std_msgs.msg import Bool
from std_srvs.srv import Trigger

from quadsim.base.errors import InputError
from quadsim.geometry.geodesy import Datum
from quadsim.ros.messages.world import make_time
from quadsim.ros.nodes import estimator
from quadsim.ros.runtime import qos

START_NS = 5_000_000_000
PERIOD_NS = 5_000_000
DATUM = Datum()
FIXED = {"datum_source": "parameter"}  # the default is DATUM


class Vehicle:
    """Publishes what the sensors of a vehicle say that stands, facing east, at (1, 2, 3)."""

    P_W = (1.0, 2.0, 3.0)

    def __init__(self, bench, node):
        self.bench, self.node = bench, node
        offer = bench.node.create_publisher
        self._imu = offer(Imu, "/quad/imu/data_raw", qos.FAST)
        self._field = offer(MagneticField, "/quad/imu/mag", qos.FAST)
        self._fix = offer(NavSatFix, "/quad/gps/fix", qos.FAST)
        self._velocity = offer(TwistWithCovarianceStamped, "/quad/gps/vel", qos.FAST)
        self._pose = offer(PoseWithCovarianceStamped, "/quad/external/pose", qos.FAST)
        self._landed = offer(Bool, "/quad/landed", 10)
        self.sent = 0
        self.stamp_ns = START_NS
        self.odometry: list[Odometry] = []
        bench.node.create_subscription(
            Odometry, "/quad/odometry/filtered", self.odometry.append, qos.FAST
        )
        bench.until(lambda: node.complete and self._field.get_subscription_count() > 0)
        bench.until(lambda: self._velocity.get_subscription_count() > 0)

    def _header(self, message, frame):
        message.header.frame_id = frame
        message.header.stamp = make_time(self.stamp_ns)
        return message

    def run(self, samples, gnss=True, pose=False, frame="imu_link", field_frame="imu_link"):
        """Publish so many IMU samples and what comes with them, and wait until they were taken."""
        for k in range(samples):
            imu = self._header(Imu(), frame)
            imu.linear_acceleration.z = 9.80665
            imu.linear_acceleration_covariance[::4] = [1e-4] * 3
            imu.angular_velocity_covariance[::4] = [1e-6] * 3
            self._imu.publish(imu)
            if gnss and k % 4 == 0:
                field = self._header(MagneticField(), field_frame)
                # east is ahead, north to the left
                field.magnetic_field.y, field.magnetic_field.z = 2.15e-5, -4.3e-5
                self._field.publish(field)
            if gnss and k % 20 == 0:
                fix = self._header(NavSatFix(), "gps_link")
                fix.status.status = 0
                fix.latitude, fix.longitude, fix.altitude = DATUM.to_geodetic(np.array(self.P_W))
                fix.position_covariance[::4] = [0.01] * 3
                fix.position_covariance_type = NavSatFix.COVARIANCE_TYPE_DIAGONAL_KNOWN
                self._fix.publish(fix)
                velocity = self._header(TwistWithCovarianceStamped(), "map")
                velocity.twist.covariance[::7] = [0.01] * 6
                self._velocity.publish(velocity)
            if pose and k % 4 == 0:
                said = self._header(PoseWithCovarianceStamped(), "map")
                position = said.pose.pose.position
                position.x, position.y, position.z = self.P_W
                said.pose.pose.orientation.z = said.pose.pose.orientation.w = math.sqrt(0.5)
                said.pose.covariance[::7] = [1e-4] * 6
                self._pose.publish(said)
            self.stamp_ns += PERIOD_NS
            self.sent += 1
            if k % 20 == 19:
                self._taken()
        self._taken()

    def _taken(self):
        def all_taken():
            counts = self.node.counts
            refused = counts.get("imu/data_raw refused", 0)
            return self.node.health()[2]["imu_messages"] + refused == self.sent

        self.bench.until(all_taken)

    def land(self, landed):
        self._landed.publish(Bool(data=landed))


def reported(bench, words):
    """Whether the last report of the estimator holds some words."""
    return words in bench.reports.get("/quad/estimator", {}).get("message", "")


def ask(bench, **values):
    """Set parameters in one request; what the node answers."""
    given = [
        Parameter(name.replace("__", "."), value=value).to_parameter_msg()
        for name, value in values.items()
    ]
    request = SetParametersAtomically.Request(parameters=given)
    kind = SetParametersAtomically
    return bench.call(kind, "/quad/estimator/set_parameters_atomically", request).result


def test_frames_silence_and_parameters_in_flight(bench, capfd):
    """One vehicle, one estimator: what is wrong is named; what is safe may change."""
    overrides = FIXED | {"beside": ["eskf"], "imu_timeout_s": 0.3}
    node = bench.add(estimator.make(bench.context, namespace="/quad", overrides=overrides))
    beside: list[Odometry] = bench.heard(Odometry, "/quad/odometry/eskf", 10)
    vehicle = Vehicle(bench, node)
    assert ask(bench, mount__imu_position_B_m=[0.0, 0.0, 0.1]).successful  # it does not run yet
    assert node.filter.params.mount.imu_position_B_m == (0.0, 0.0, 0.1)
    vehicle.run(20, frame="imu_link_ned")
    assert node.counts["imu/data_raw wrong frame"] == 20
    bench.until(lambda: reported(bench, "wrong frame: imu/data_raw: imu_link_ned"))
    log = capfd.readouterr().err
    assert log.count("imu_link_ned") == 2  # in the log, and as a message that is not used
    assert "not 'imu_link'" in log
    assert "NED to ENU: x<-y, y<-x, z<--z" in log

    vehicle.run(250)
    bench.until(lambda: bool(vehicle.odometry) and bool(beside))
    assert beside[-1].header.frame_id == "map"
    position = vehicle.odometry[-1].pose.pose.position
    # base_link is 0.1 m under the IMU, and the fix is the antenna's, at base_link
    assert (position.x, position.y, position.z) == pytest.approx((1.0, 2.0, 3.0), abs=0.05)
    vehicle.run(20, field_frame="quad2/imu_link")
    assert node.counts["imu/mag wrong frame"] == 5
    node.report()
    bench.until(lambda: reported(bench, "imu/mag: quad2/imu_link"))
    values = bench.reports["/quad/estimator"]
    assert float(values["gnss_position_nis"]) < 1e-3
    assert len(values["gnss_position_innovation"].split()) == 3
    assert "range_nis" not in values  # no such sensor here

    answer = ask(bench, noise__gyro_density=0.02, gate__range_max_m=3.0)
    assert answer.successful, answer.reason
    assert node.filter.params.noise.gyro_density == 0.02
    assert float(node.filter._lines[0]["params"]["gate"]["range_max_m"]) == 3.0
    answer = ask(bench, noise__gyro_density=0.03, mount__imu_position_B_m=[0.0, 0.0, 0.2])
    assert not answer.successful
    assert answer.reason == (
        "mount.imu_position_B_m: needs a restart of the estimator (service reset)"
    )
    assert node.filter.params.noise.gyro_density == 0.02  # all or nothing
    assert not ask(bench, noise__gyro_density=-1.0).successful
    answer = ask(bench, noise__gnss_position_sigma_m=[1.0, -1.0, 1.0])
    assert "noise: gnss_position_sigma_m" in answer.reason
    assert "out of range" in answer.reason
    assert not ask(bench, datum__height_m=3.0).successful

    vehicle.run(40)
    before = int(node.filter.state.accepted.sum())
    heard: list[str] = []

    def is_told():
        heard.append(capfd.readouterr().err)
        return "IMU silent" in "".join(heard)

    bench.until(lambda: reported(bench, "IMU silent") and is_told())
    vehicle.run(1)
    bench.until(lambda: not reported(bench, "IMU silent"))

    def repeat():
        vehicle.stamp_ns = START_NS
        vehicle.run(1, gnss=False)
        vehicle.stamp_ns = START_NS
        return reported(bench, "clock stands")

    bench.until(repeat)
    assert int(node.filter.state.accepted.sum()) >= before


def test_motion_capture_alone_flies_the_filter(bench):
    """Without GNSS, field and datum; and the vehicle stands when somebody says so."""
    overrides = {"external_pose_type": "pose_with_covariance"}
    node = bench.add(estimator.make(bench.context, namespace="/quad", overrides=overrides))
    answer = ask(bench, datum__height_m=3.0)
    assert answer.reason == "datum.height_m: counts only with datum_source: parameter"
    vehicle = Vehicle(bench, node)
    vehicle.run(300, gnss=False, pose=True)
    bench.until(lambda: bool(vehicle.odometry))
    pose = vehicle.odometry[-1].pose.pose
    assert (pose.position.x, pose.position.y, pose.position.z) == pytest.approx(
        vehicle.P_W, abs=0.01
    )
    assert (pose.orientation.z, pose.orientation.w) == pytest.approx((0.7071, 0.7071), abs=0.01)
    assert node.filter.counts["zero_velocity_received"] == 0
    vehicle.land(True)
    bench.until(lambda: node._standing.stated)
    vehicle.run(100, gnss=False, pose=True)
    assert 4 <= node.filter.counts["zero_velocity_received"] <= 5  # of half a second, at 10 Hz


@pytest.mark.parametrize("upright", [True, False])
def test_an_odometry_in_a_frame_of_its_own_holds_the_filter_if_that_is_level(bench, upright):
    """Anywhere and turned anyhow about the vertical; upside down it is named, and moves nothing."""
    overrides = FIXED | {"start.local": True}
    node = bench.add(estimator.make(bench.context, namespace="/quad", overrides=overrides))
    visual = bench.node.create_publisher(Odometry, "/quad/odometry/visual", qos.FAST)
    bench.until(lambda: visual.get_subscription_count() > 0)
    vehicle = Vehicle(bench, node)
    vehicle.run(300, gnss=False)
    message = Odometry()
    message.header.frame_id, message.child_frame_id = "odom", "base_link"
    message.pose.pose.position.x, message.pose.pose.position.y = 7.0, -3.0
    q = message.pose.pose.orientation
    q.x, q.w = (0.0, 1.0) if upright else (1.0, 0.0)
    for k in range(10):
        message.header.stamp = make_time(vehicle.stamp_ns)
        message.pose.pose.position.z = 1e-4 * (k % 2)  # a pose that repeats measures nothing
        visual.publish(message)
        vehicle.run(10, gnss=False)
    bench.until(lambda: node.filter.counts["external_odometry_received"] == 10)
    health = node.filter.health()
    place = vehicle.odometry[-1].pose.pose.position
    assert math.hypot(place.x, place.y) < 0.05
    if upright:
        assert health["external_odometry_accepted"] >= 8.0
        assert health["status"] == "running"
    else:
        assert health["external_odometry_accepted"] == 0.0
        assert "z of its frame does not point up" in health["status"]


def test_an_estimator_beside_that_nobody_knows_is_refused(bench):
    with pytest.raises(InputError, match=r"parameter beside: 'ukf'; known: eskf"):
        estimator.make(bench.context, namespace="/quad", overrides={"beside": ["ukf"]})


class Still:
    """An own estimator: it believes what the last fix says, until there is one too many."""

    def __init__(self, params, fixes=5):
        self.p_W, self.fixes, self.params = None, fixes, params

    def imu(self, stamp_ns, f_S, w_S):
        self.w_S = w_S

    def gnss_position(self, stamp_ns, p_W):
        self.p_W, self.fixes = p_W, self.fixes - 1
        if self.fixes < 0:
            raise RuntimeError("enough")

    def odometry(self):
        if self.p_W is None:
            return None
        return self.p_W, np.zeros(3), [1.0, 0.0, 0.0, 0.0], self.w_S, np.full(9, 0.2)


def test_the_vehicle_flies_on_an_own_estimator_and_on_ours_when_it_fails(bench, capfd):
    overrides = FIXED | {"own": f"{__name__}:Still"}
    node = bench.add(estimator.make(bench.context, namespace="/quad", overrides=overrides))
    landed: list[bool] = []

    def land(_, response):
        landed.append(True)
        return response

    bench.node.create_service(Trigger, "/quad/land", land)
    vehicle = Vehicle(bench, node)
    vehicle.run(60)  # three fixes
    assert not node.filter.running
    bench.until(lambda: len(vehicle.odometry) > 20)
    pose = vehicle.odometry[-1].pose
    position = pose.pose.position
    assert (position.x, position.y, position.z) == pytest.approx(vehicle.P_W, abs=1e-6)
    np.testing.assert_allclose(pose.covariance[::7], 0.04)
    vehicle.run(190)
    assert node._flown is node.filter
    bench.until(lambda: bool(landed))
    before = len(vehicle.odometry)
    vehicle.run(20)
    bench.until(lambda: len(vehicle.odometry) > before)
    # ours knows the heading too: east is ahead; it stands on the same place
    position = vehicle.odometry[-1].pose.pose.position
    assert (position.x, position.y, position.z) == pytest.approx(vehicle.P_W, abs=0.05)
    assert "RuntimeError: enough" in capfd.readouterr().err


def test_an_own_estimator_that_is_not_there_is_refused(bench):
    with pytest.raises(InputError, match="there is no module nowhere"):
        estimator.make(bench.context, namespace="/quad", overrides={"own": "nowhere:Filter"})
