"""The recorder in a flight: its disk fills, and the flight goes on."""

from __future__ import annotations

import json

import psutil
import pytest
import yaml
from rosbags.highlevel import AnyReader


@pytest.mark.thorough
def test_a_full_disk_stops_the_recording_and_not_the_flight(fly, tmp_path):
    """A limit on the size of files: no reserve helps, so the supervisor repairs the bag.

    Where the disk is full the bag is whole at once (tests/unit/bag/test_recording.py).
    """
    flight = fly("--pacing", "lockstep", "--json")
    flight.wait_for("takeoff")
    bag = tmp_path / "run" / "bag"
    room = (bag / "bag_0.mcap").stat().st_size + 1_000_000
    flight.family()["recorder"].rlimit(psutil.RLIMIT_FSIZE, (room, room))
    status, out = flight.finish()
    assert "recording has stopped, the bag has to be repaired" in flight.log
    assert "landed: touch-down" in flight.log  # long after
    assert status == 1
    summary = json.loads(out)
    (error,) = summary["errors"]
    assert error.startswith("File too large; recording has stopped, the bag has to be repaired")
    with AnyReader([bag]) as reader:
        counts = {connection.topic: connection.msgcount for connection in reader.connections}
        last_ns = [log_ns for _, log_ns, _ in reader.messages()][-1]
    text = (bag / "metadata.yaml").read_text(encoding="utf-8")
    custom = yaml.safe_load(text)["rosbag2_bagfile_information"]["custom_data"]
    assert counts["/quad/ground_truth/odom"] > 500
    assert 2e9 < last_ns < 12e9
    assert "mission:" in custom["scenario_yaml"]
    assert flight.nothing_left()
