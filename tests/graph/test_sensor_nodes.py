"""Sensor nodes on real DDS: latency by the truth's stamps, faults by service and by scenario."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import TwistWithCovarianceStamped
from nav_msgs.msg import Odometry
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import SetParameters
from sensor_msgs.msg import FluidPressure, MagneticField, NavSatFix, NavSatStatus

from quadsim.bag.reading import open_bag
from quadsim.bag.topics import field_of
from quadsim.base.errors import InputError
from quadsim.geometry.geodesy import Datum
from quadsim.ros.nodes import node_module, recorder
from quadsim.ros.runtime import qos
from quadsim.world.earth.magnetic import field_W_T

STEP_NS = 10_000_000


class Truth:
    """Publishes the truth of a vehicle that moves north, as fast as it is asked for."""

    def __init__(self, bench) -> None:
        self._bench = bench
        self._publisher = bench.node.create_publisher(Odometry, "/quad/ground_truth/odom", qos.FAST)
        bench.until(lambda: self._publisher.get_subscription_count() > 0)
        self.stamp_ns = 0

    def until(self, condition, limit_ns=20_000_000_000) -> None:
        """Publish stamp after stamp until a condition holds."""

        def held() -> bool:
            message = Odometry(child_frame_id="base_link")
            message.header.frame_id = "map"
            message.header.stamp.sec, message.header.stamp.nanosec = divmod(self.stamp_ns, 10**9)
            message.pose.pose.position.y = self.stamp_ns * 1e-9
            message.twist.twist.linear.y = 1.0
            message.pose.pose.orientation.w = 1.0
            self._publisher.publish(message)
            self.stamp_ns += STEP_NS
            assert self.stamp_ns < limit_ns
            return condition()

        self._bench.until(held)


def stamp_ns(message) -> int:
    return message.header.stamp.sec * 10**9 + message.header.stamp.nanosec


def set_faults(bench, node, text):
    value = ParameterValue(type=ParameterType.PARAMETER_STRING, string_value=text)
    request = SetParameters.Request(parameters=[Parameter(name="faults", value=value)])
    return bench.call(SetParameters, f"{node}/set_parameters", request).results[0]


def heard(bench, kind, topic):
    messages = bench.heard(kind, topic, qos.SENSOR_INPUT)
    bench.until(lambda: bench.node.count_publishers(topic) > 0)
    return messages


def test_latency_holds_a_sample_back_and_leaves_its_stamp(bench):
    parameters = {"device": "ideal_barometer", "rate_hz": 10.0, "latency_s": 0.2}
    bench.add(node_module("barometer").make(bench.context, namespace="/quad", overrides=parameters))
    truth = Truth(bench)
    arrivals = []
    bench.node.create_subscription(
        FluidPressure,
        "/quad/imu/static_pressure",
        lambda message: arrivals.append((truth.stamp_ns, stamp_ns(message))),
        qos.SENSOR_INPUT,
    )
    bench.until(lambda: bench.node.count_publishers("/quad/imu/static_pressure") > 0)
    truth.until(lambda: len(arrivals) >= 5)
    for now_ns, sample_ns in arrivals:
        assert sample_ns % 100_000_000 == 0
        assert now_ns - sample_ns >= 200_000_000


def test_a_fault_is_set_in_flight_by_a_service_and_told(bench):
    parameters = {"device": "ideal_gnss"}
    node = bench.add(
        node_module("gnss").make(bench.context, namespace="/quad", overrides=parameters)
    )
    fixes = heard(bench, NavSatFix, "/quad/gps/fix")
    velocities = heard(bench, TwistWithCovarianceStamped, "/quad/gps/vel")
    told = []
    bench.node.create_subscription(
        DiagnosticStatus, "/quad/events", lambda m: told.append((m.name, m.message)), qos.EVENTS
    )
    truth = Truth(bench)
    truth.until(lambda: len(fixes) >= 3)
    assert {fix.status.status for fix in fixes} == {NavSatStatus.STATUS_FIX}

    refused = set_faults(bench, "/quad/gnss", "{fault: stuck, channel: engine}")
    assert not refused.successful
    assert "channel: 'engine'; gnss has: position, velocity" in refused.reason

    assert set_faults(bench, "/quad/gnss", "{fault: outage, duration_s: 1.0}").successful
    truth.until(lambda: fixes[-1].status.status == NavSatStatus.STATUS_NO_FIX)
    assert math.isnan(fixes[-1].latitude)
    truth.until(lambda: fixes[-1].status.status == NavSatStatus.STATUS_FIX)
    lost = [fix for fix in fixes if fix.status.status == NavSatStatus.STATUS_NO_FIX]
    assert 9 <= len(lost) <= 11  # of 10 Hz in 1 s
    assert stamp_ns(lost[-1]) - stamp_ns(lost[0]) < 1_000_000_000
    assert not {stamp_ns(fix) for fix in lost} & {stamp_ns(velocity) for velocity in velocities}

    assert set_faults(bench, "/quad/gnss", "{fault: spoofing, value: [0.0, 3.0, 0.0]}").successful
    truth.until(lambda: bool(velocities) and velocities[-1].twist.twist.linear.y > 3.5)
    assert set_faults(bench, "/quad/gnss", "{fault: frozen}").successful  # ends the spoofing
    truth.until(lambda: len(told) >= 5)
    assert set_faults(bench, "/quad/gnss", "").successful
    truth.until(lambda: velocities[-1].twist.twist.linear.y < 1.5)
    bench.until(lambda: len(told) >= 6)
    assert told == [
        ("fault", "gnss: outage begins"),
        ("fault", "gnss: outage ends"),
        ("fault", "gnss: spoofing 0 3 0 begins"),
        ("fault", "gnss: all faults end"),
        ("fault", "gnss: frozen begins"),
        ("fault", "gnss: all faults end"),
    ]
    assert node.sensor.refused == 0


def test_a_node_started_with_a_fault_that_does_not_fit_says_so(bench):
    parameters = {"faults": "{fault: outage}"}
    with pytest.raises(
        InputError,
        match=r"parameter faults: .*is a fault of gnss and visual_odometry, not of barometer",
    ):
        node_module("barometer").make(bench.context, namespace="/quad", overrides=parameters)


def test_a_scenario_with_late_sensors_and_faults_is_flown(fly, tmp_path):
    """Latency, jitter and a fault fly as a graph too, and the bag tells of the fault."""
    suite = tmp_path / "late.yaml"
    suite.write_text(
        "imu: {device: adis16448, latency_s: 0.003, stamp_jitter_s: 1.0e-4}\n"
        "gnss: {device: ublox_f9p_rtk, latency_s: 0.12}\nmagnetometer: ist8310\n"
        "barometer: {device: bmp390, latency_s: 0.02, loss_probability: 0.1}\n"
    )
    scenario = tmp_path / "late_hover.yaml"
    scenario.write_text(
        f"sensors: {suite}\nduration_s: 30.0\nmission:\n  - takeoff: {{height_m: 1.0}}\n"
        "  - hover: {duration_s: 3.0}\n  - land: {}\n"
        "faults: [{sensor: gnss, fault: outage, at_s: 4.0, duration_s: 2.0}]\n"
        "criteria: [{value: estimator.position_rmse_m, limit: 0.2}]\n"
    )
    flight = fly("--json", "--composed", "--pacing", "lockstep", scenario=str(scenario))
    status, out = flight.finish()
    assert status == 0, flight.log
    summary = json.loads(out)
    assert summary["passed"]
    with open_bag(tmp_path / "run" / "bag") as bag:
        counts = dict(bag.counts)
        events, jitter, without_fix = [], [], 0
        for message in bag.messages(["/quad/events", "/quad/gps/fix", "/quad/imu/data_raw"]):
            content = bag.deserialize(message)
            if message.topic == "/quad/events":
                events.append(content.message)
            elif message.topic == "/quad/gps/fix":
                without_fix += content.status.status < 0
            else:
                nanosec = content.header.stamp.nanosec
                jitter.append((nanosec + 1_000_000) % 2_000_000 - 1_000_000)
    assert "gnss: outage begins" in events
    assert "gnss: outage ends" in events
    assert 19 <= without_fix <= 21
    lost = 1.0 - counts["/quad/imu/static_pressure"] / (summary["duration_s"] * 50.0)
    assert 0.05 < lost < 0.16  # of about 500 samples: 0.1 and four deviations
    assert np.std(jitter) == pytest.approx(1e5, rel=0.1)  # ns; of 5000 samples: 1 % deviation


def test_the_receiver_tells_of_its_fix_and_its_sky(bench):
    parameters = {"device": "ublox_f9p_rtk", "latency_s": 0.0}
    node = bench.add(
        node_module("gnss").make(bench.context, namespace="/quad", overrides=parameters)
    )
    fixes = heard(bench, NavSatFix, "/quad/gps/fix")

    def reported(message):
        node.report()
        return bench.reports.get("/quad/gnss", {}).get("message") == message

    bench.until(lambda: reported("no fix"))
    truth = Truth(bench)
    truth.until(lambda: len(fixes) >= 2)
    assert fixes[-1].status.status == NavSatStatus.STATUS_GBAS_FIX
    sky = node.sensor.state["sky"]
    expected = np.array([0.0085, 0.0085, 0.0148]) * [
        sky.hdop / 0.6,
        sky.hdop / 0.6,
        sky.vdop / 0.96,
    ]
    # the deviations above have three figures
    assert fixes[-1].position_covariance[::4] == pytest.approx(expected**2, rel=0.01)
    bench.until(lambda: reported("running"))
    values = bench.reports["/quad/gnss"]
    assert (values["fix"], values["satellites"]) == ("true", "22")
    assert float(values["hdop"]) == pytest.approx(sky.hdop, rel=1e-5)
    assert float(values["vdop"]) == pytest.approx(sky.vdop, rel=1e-5)
    assert set_faults(bench, "/quad/gnss", "{fault: outage}").successful
    truth.until(lambda: fixes[-1].status.status == NavSatStatus.STATUS_NO_FIX)
    bench.until(lambda: reported("no fix"))
    assert bench.reports["/quad/gnss"]["fix"] == "false"


def test_a_magnetometer_started_alone_measures_the_field_at_its_datum(bench):
    parameters = {"device": "ideal_magnetometer", "environment.datum.latitude_deg": -33.0}
    bench.add(
        node_module("magnetometer").make(bench.context, namespace="/quad", overrides=parameters)
    )
    fields = heard(bench, MagneticField, "/quad/imu/mag")
    Truth(bench).until(lambda: len(fields) >= 1)
    place = replace(Datum(), latitude_deg=-33.0)
    found = [getattr(fields[0].magnetic_field, axis) for axis in "xyz"]
    assert found == pytest.approx(field_W_T(place, 2026.0), rel=1e-12)


def test_the_recorder_keeps_the_field_in_the_bag(bench, tmp_path):
    metadata = json.dumps({"magnetic_field_W_T": "1e-06 2.1e-05 -4.3e-05"})
    parameters = {"output": str(tmp_path / "bag"), "metadata": metadata}
    node = bench.add(recorder.make(bench.context, overrides=parameters))
    Truth(bench).until(lambda: node.health()[2]["messages"] > 0)
    bench.end(node)
    with open_bag(tmp_path / "bag") as bag:
        assert field_of(bag) == (1e-6, 2.1e-5, -4.3e-5)
