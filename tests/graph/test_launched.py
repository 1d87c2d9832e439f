"""The graph as ``ros2 launch`` starts it: a process and a parameter file for each node, no arming.

launch itself is in no registry; what it does for a node (names as remappings, parameters as a YAML
file) is done here, so that each node is started as a user's machine would start it.
"""

import pytest
import yaml
from diagnostic_msgs.msg import DiagnosticStatus
from nav_msgs.msg import Odometry
from sensor_msgs.msg import JointState
from std_srvs.srv import SetBool, Trigger

from quadsim.ros.graph.graph import GraphOptions, describe
from quadsim.ros.runtime import qos
from quadsim.sim.scenario import load_scenario


@pytest.fixture
def launched(command, domain, tmp_path, monkeypatch):
    """Every node of the scenario ``hover`` in a process of its own, the recorder included."""
    monkeypatch.setenv("ROS_DOMAIN_ID", str(domain))
    specs = describe(load_scenario("hover"), GraphOptions(bag=str(tmp_path / "bag")))
    started = []
    for spec in specs:
        file = tmp_path / f"{spec.executable}.yaml"
        file.write_text(yaml.safe_dump({"/**": {"ros__parameters": dict(spec.parameters)}}))
        names = ("-r", f"__node:={spec.executable}", "-r", f"__ns:={spec.namespace}")
        args = ("--ros-args", *names, "--params-file", str(file))
        started.append(command(spec.executable, *args, module="quadsim.ros"))
    return started


def test_a_launched_graph_waits_for_someone_to_arm_and_then_flies(bench, launched):
    """And no node refuses a message at the start.

    One that loads its kernels only then finds the other nodes ahead of its clock.
    """
    speeds: list[JointState] = bench.heard(JointState, "/quad/command_motor_speed", qos.FAST)
    bench.until(lambda: len(speeds) > 200)  # of the mixer, so all before it runs as well
    reported = dict(bench.reports)
    bench.until(lambda: all(bench.reports[name] is not report for name, report in reported.items()))
    refused = {
        name: values
        for name, report in bench.reports.items()
        if (values := {key: report[key] for key in report if key.endswith(" refused")})
    }
    assert not refused
    states: list[str] = []
    truth: list[Odometry] = []
    bench.node.create_subscription(
        DiagnosticStatus, "/quad/mission/status", lambda m: states.append(m.message), qos.LATCHED
    )
    bench.node.create_subscription(Odometry, "/quad/ground_truth/odom", truth.append, qos.FAST)
    # the first arming checks need an estimate, which needs every sensor
    bench.until(lambda: bench.reports.get("/quad/mixer", {}).get("complete") == "true")
    early = bench.call(Trigger, "/quad/mission/start", Trigger.Request())
    assert not early.success
    assert "arm first" in early.message

    def armed() -> bool:
        return bool(bench.call(SetBool, "/quad/arm", SetBool.Request(data=True)).success)

    bench.until(armed)
    bench.until(lambda: bool(truth) and bool(states))
    first_s = truth[-1].header.stamp.sec
    bench.until(lambda: truth[-1].header.stamp.sec > first_s + 2)
    assert states[-1] == "armed"  # armed and idle, until someone starts
    assert truth[-1].pose.pose.position.z < 0.3
    started = bench.call(Trigger, "/quad/mission/start", Trigger.Request())
    assert started.success, started.message
    bench.until(lambda: truth[-1].pose.pose.position.z > 1.1)
    aborted = bench.call(Trigger, "/quad/mission/abort", Trigger.Request())
    assert aborted.success, aborted.message
    bench.until(lambda: states[-1] == "disarmed")
    assert truth[-1].pose.pose.position.z < 0.3
    for process in launched:
        process.interrupt()
    for process in launched:
        assert process.finish()[0] == 0, process.log
        assert "is not used" not in process.log
