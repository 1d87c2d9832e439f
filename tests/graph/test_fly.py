"""``quadsim fly``: whole flights over DDS, and every way in which one can end."""

import json
import os
import signal
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from rosgraph_msgs.msg import Clock

from quadsim.bag.reading import open_bag
from quadsim.cli.main import main
from quadsim.ros.graph.supervisor import NAMED_S
from quadsim.ros.runtime import qos
from quadsim.ros.runtime.domain import held
from quadsim.ros.runtime.preload import NODES
from quadsim.sensors import PUBLISHING
from quadsim.sensors.devices import load_suite

#: Without the sensors that the default suite has not.
GRAPH = set(NODES) - ({*PUBLISHING} - {*load_suite("default")})


def counts_of(tmp_path):
    with open_bag(tmp_path / "run" / "bag") as bag:
        return dict(bag.counts)


def summary_of(out):
    summary = json.loads(out)
    assert summary["errors"] == []
    return summary


def check_flight(summary):
    """What a passed flight over DDS says, besides its criteria."""
    assert summary["passed"]
    assert len(summary["nodes"]) == len(GRAPH)
    assert summary["imu_received_fraction"] >= 0.999
    assert 0.0 < summary["latency_ms"]["median"] <= summary["latency_ms"]["p99"]
    assert summary["cpu_s"] > 0.0
    assert summary["supervisor"]["cpu_s"] > 0.0
    imu = summary["topics"]["imu/data_raw"]
    truth = summary["topics"]["ground_truth/odom"]
    # the first truth makes no sample; the recorder loses nothing
    assert truth["count"] - 2 <= imu["count"] <= truth["count"]
    assert imu["rate_hz"] == pytest.approx(500.0, rel=1e-3)
    # what listens to these gets each
    assert truth["count"] - 2 <= summary["topics"]["ground_truth/accel"]["count"] <= truth["count"]
    odometry = summary["topics"]["odometry/filtered"]
    assert summary["topics"]["imu/data"]["count"] == pytest.approx(odometry["count"], abs=2)
    assert summary["topics"]["gps/fix"]["count"] == summary["topics"]["gps/vel"]["count"]


@pytest.mark.alone
def test_a_flight_in_separate_processes(fly, short_hover, tmp_path):
    flight = fly("--json", scenario=short_hover)
    flight.wait_for("takeoff")
    assert set(flight.family()) == GRAPH
    status, out = flight.finish()
    assert status == 0, flight.log
    assert flight.nothing_left()
    summary = summary_of(out)
    check_flight(summary)
    # by the wall clock: never faster, and how much slower is for quadsim bench
    assert 0.0 < summary["real_time_factor"] < 1.01
    shares = [node["cpu_s"] for node in summary["nodes"].values()]
    assert min(shares) > 0.0
    assert sum(shares) == pytest.approx(summary["cpu_s"])
    assert counts_of(tmp_path)["/datum"] == 1
    assert (tmp_path / "run" / "summary.json").is_file()


def test_a_flight_in_lockstep(fly, short_hover):
    flight = fly("--pacing", "lockstep", "--json", scenario=short_hover)
    status, out = flight.finish()
    assert status == 0, flight.log
    check_flight(summary_of(out))


def test_a_killed_node_is_named_and_the_rest_stops(fly, tmp_path):
    """Physics, which is unlike the others; the recorder's test below stands for them."""
    flight = fly("--pacing", "lockstep")
    flight.wait_for("takeoff")
    flight.family()["dynamics"].kill()
    status, _ = flight.finish()
    assert status == 1
    assert "node dynamics was killed by SIGKILL" in flight.log
    assert flight.nothing_left()
    counts = counts_of(tmp_path)
    # at 500 Hz from the start to the take-off, which is later than 2 s; a second may be lost
    assert counts["/quad/ground_truth/odom"] > 500
    assert counts["/quad/imu/data_raw"] > 500


@pytest.mark.thorough  # seconds, and half a minute, in which nothing happens
@pytest.mark.parametrize(
    ("node", "stopped_s"), [("estimator", 7.0), ("mixer", 7.0), ("estimator", 24.0)]
)
def test_a_node_that_stands_still_is_waited_for_and_named(fly, node, stopped_s):
    """Beyond 20 s DDS forgets it, and what it was sent is lost."""
    flight = fly("--pacing", "lockstep", "--json")
    flight.wait_for("takeoff")
    process = flight.family()[node]
    process.suspend()
    flight.wait_for(f"alive and silent: /quad/{node}")
    time.sleep(stopped_s - NAMED_S)
    process.resume()
    status, out = flight.finish()
    assert status == 0, flight.log
    assert summary_of(out)["passed"]


@pytest.mark.thorough
def test_a_node_that_stands_still_for_good_ends_the_flight(fly):
    flight = fly("--pacing", "lockstep")
    flight.wait_for("takeoff")
    flight.family()["estimator"].suspend()
    status, _ = flight.finish()
    assert status == 1
    assert "simulated time stands still" in flight.log
    assert "alive and silent: /quad/estimator" in flight.log


def test_a_killed_recorder_loses_less_than_half_a_second(bench, fly, tmp_path):
    """Compressed and split too: what is older than a quarter of a second is the system's."""
    heard_ns: list[int] = []
    bench.node.create_subscription(
        Clock, "/clock", lambda m: heard_ns.append(m.clock.sec * 10**9 + m.clock.nanosec), qos.CLOCK
    )
    flight = fly(
        "--record-profile", "sensors", "--compression", "zstd", "--split-s", "1",
        "--pacing", "lockstep",
    )  # fmt: skip
    bench.until(lambda: bool(heard_ns) and heard_ns[-1] > 3 * 10**9)
    recorder = flight.family()["recorder"]
    before_ns = heard_ns[-1]
    recorder.kill()
    assert flight.finish()[0] == 1
    assert "node recorder was killed by SIGKILL" in flight.log
    assert flight.nothing_left()
    with open_bag(tmp_path / "run" / "bag") as bag:
        last_ns = max(message.log_ns for message in bag.messages(["/quad/ground_truth/odom"]))
    assert last_ns > before_ns - 5 * 10**8
    assert len(list((tmp_path / "run" / "bag").glob("*.mcap"))) >= 3


def test_a_killed_composed_graph_leaves_a_bag(fly, tmp_path):
    flight = fly("--composed", "--pacing", "lockstep")
    flight.wait_for("takeoff")
    flight.family()["graph"].kill()
    status, _ = flight.finish()
    assert status == 1
    assert counts_of(tmp_path)["/quad/ground_truth/odom"] > 500


@pytest.mark.parametrize("composed", [(), ("--composed",)])
def test_ctrl_c_ends_everything_in_order(fly, tmp_path, composed):
    """In one process too, whose nodes hand on in lockstep and never rest."""
    flight = fly("--pacing", "lockstep", *composed)
    flight.wait_for("takeoff")
    flight.family()
    flight.interrupt()
    flight.interrupt()  # the second one breaks nothing
    status, _ = flight.finish()
    assert status == 130
    assert "Traceback" not in flight.log
    assert "killed" not in flight.log
    assert flight.nothing_left()
    assert counts_of(tmp_path)["/quad/ground_truth/odom"] > 500


def test_nodes_end_with_their_supervisor(fly, tmp_path):
    flight = fly("--pacing", "lockstep")
    flight.wait_for("takeoff")
    flight.family()
    os.kill(flight.pid, signal.SIGKILL)
    assert flight.nothing_left()
    assert counts_of(tmp_path)["/quad/ground_truth/odom"] > 500


def test_a_domain_in_use_is_refused(fly, domain, tmp_path):
    with held(domain):
        flight = fly()
        status, _ = flight.finish()
    assert status == 2
    (line,) = [line for line in flight.log.splitlines() if "error" in line]
    assert f"DDS domain {domain} is in use" in line
    assert str(os.getpid()) in line
    assert not (tmp_path / "run").exists()


def test_a_foreign_clock_is_refused(bench, fly, command, domain, tmp_path, monkeypatch):
    """The graph lacks an IMU until its supervisor and the foreign clock have met."""
    monkeypatch.setenv("ROS_DOMAIN_ID", str(domain))
    publisher = bench.node.create_publisher(Clock, "/clock", 10)
    bench.node.create_timer(0.01, lambda: publisher.publish(Clock()))
    flight = fly("--composed", "--drivers", "sim:-imu")
    bench.until(
        lambda: any(
            listener.node_name == "supervisor"
            for listener in bench.node.get_subscriptions_info_by_topic("/clock")
        )
    )
    assert flight.running
    command("imu", "--ros-args", "-r", "__ns:=/quad", module="quadsim.ros")
    while flight.running:
        bench.executor.spin_once(0.1)
    status, _ = flight.finish()
    assert status == 2
    assert "somebody else publishes /clock" in flight.log
    assert flight.nothing_left()
    assert not (tmp_path / "run").exists()


def test_a_foreign_clock_in_flight_ends_it(bench, fly, tmp_path):
    publisher = bench.node.create_publisher(Clock, "/clock", 10)
    flight = fly("--composed", "--pacing", "lockstep", "--json")
    flight.wait_for("takeoff")
    bench.node.create_timer(0.01, lambda: publisher.publish(Clock()))
    while flight.running:
        bench.executor.spin_once(0.1)
    status, out = flight.finish()
    assert status == 1
    assert "somebody else publishes /clock" in json.loads(out)["errors"][0]
    assert counts_of(tmp_path)["/quad/ground_truth/odom"] > 500
    assert flight.nothing_left()


BAD = [
    (["--scenario", "nowhere"], "nowhere"),
    (["--domain", "233"], "233"),
    (["--domain", "-1"], "-1"),
    (["--rate", "0"], "lockstep"),
    (["--sensors", "none"], "none"),
    (["--duration", "-5"], "duration_s"),
    (["--beside", "nosuch"], "--beside: 'nosuch'; known: eskf"),
    (["--rate", "nan"], "finite"),
]


def check_refusal(status: int, out: str, log: str, word: str, folder: Path) -> None:
    """One line that names the thing, and nothing left behind."""
    assert status == 2
    assert out == ""
    (line,) = [line for line in log.splitlines() if "error" in line]
    assert word in line
    assert "Traceback" not in log
    assert not folder.exists()


@pytest.mark.parametrize(("args", "word"), BAD)
def test_bad_input_is_one_line(tmp_path, args, word):
    refused = CliRunner().invoke(main, ["fly", "--output", str(tmp_path / "run"), *args])
    check_refusal(refused.exit_code, refused.stdout, refused.stderr, word, tmp_path / "run")
