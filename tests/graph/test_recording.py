"""The recorder: its disk fills, and the flight goes on; on the ground it rests."""

import pytest
from rclpy.serialization import serialize_message
from sensor_msgs.msg import MagneticField

from quadsim.bag.reading import open_bag
from quadsim.ros.nodes.recorder import RecorderNode
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.base import make_status


def test_a_recorder_rests_unarmed_and_keeps_what_came_before_arming(bench, tmp_path, capfd):
    """30 s on the ground, 5 s armed: of the wait it keeps the first 5 s and the last 10 s."""
    folder = tmp_path / "bag"
    recorder = RecorderNode(
        overrides={"output": str(folder), "idle_s": 5.0}, context=bench.context,
    )  # fmt: skip
    recorder._simulated = True

    def hear(second, name, topic, message):
        recorder._time_ns = round(second * 1e9)
        recorder._hear(name, topic.type_name, "", None, 0, serialize_message(message))

    def tell(second, armed):
        status = make_status(0, "mission", "state", {"armed": str(armed).lower()})
        hear(second, "/quad/mission/status", topics.MISSION_STATUS, status)

    tell(0.0, False)
    for tenth in range(350):
        if tenth == 300:
            tell(30.0, True)
        hear(0.1 * tenth, "/quad/imu/mag", topics.MAGNETIC_FIELD, MagneticField())
    recorder.destroy_node()
    with open_bag(folder) as bag:
        stamps = [1e-9 * one.log_ns for one in bag.messages(["/quad/imu/mag"])]
    expected = [0.1 * k for k in range(350) if k < 50 or k >= 199]
    assert stamps == pytest.approx(expected, abs=1e-6)
    said = capfd.readouterr().err
    assert f"records into {folder}, some 80 MB a minute" in said
    assert "rests after 5 s unarmed" in said


def test_only_what_somebody_uses_is_subscribed_to(bench, tmp_path):
    """A list of the graph's topics has none that the recorder alone knows."""
    folder = tmp_path / "bag"
    overrides = {"output": str(folder), "also": ["/lab/field sensor_msgs/msg/MagneticField"]}
    recorder = bench.add(RecorderNode(overrides=overrides, context=bench.context))
    name, other = "/quad/imu/mag", "/lab/field"
    there = {name for name, _ in recorder.get_topic_names_and_types()}
    assert not {name, other, "/quad/ground_truth/odom"} & there
    senders = [bench.publisher(MagneticField, each) for each in (name, other)]
    for sender in senders:
        sender.publish(MagneticField())
    bench.until(lambda: {name, other} <= {key for key, n in recorder._bag.counts.items() if n})
    there = {name for name, _ in recorder.get_topic_names_and_types()}
    assert {name, other} <= there
    assert "/quad/ground_truth/odom" not in there
    bench.end(recorder)
    with open_bag(folder) as bag:
        assert (bag.counts[name], bag.counts[other]) == (1, 1)
