"""Writing bags that survive a kill, repairing cut ones, and refusing what is no bag."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import yaml
from rosbags.highlevel import AnyReader
from rosbags.interfaces import QosDurability, QosReliability

from quadsim.bag.metadata import qos_yaml
from quadsim.bag.reading import open_bag
from quadsim.bag.repair import is_whole, repair
from quadsim.bag.writer import BagWriter
from quadsim.base.errors import InputError, QuadsimError


def read_back(path):
    """All messages of a bag, by rosbags alone."""
    with AnyReader([path]) as reader:
        return [(c.topic, c.msgtype, t, bytes(raw)) for c, t, raw in reader.messages()]


def the_file(bag: Path) -> Path:
    (path,) = bag.glob("*.mcap")
    return path


def test_rosbags_reads_what_was_written(circle_bag, circle_rows):
    assert read_back(circle_bag) == [tuple(item) for item in circle_rows]


def test_offered_quality_of_service_is_kept(tmp_path, circle_rows):
    item = circle_rows[0]
    latched = qos_yaml("reliable", "transient_local", 1)
    with BagWriter(tmp_path / "bag") as writer:
        writer.add(item.topic, item.type_name, latched, item.stamp_ns, item.payload)
    with AnyReader([tmp_path / "bag"]) as reader:
        (profile,) = reader.connections[0].ext.offered_qos_profiles
    assert profile.durability == QosDurability.TRANSIENT_LOCAL
    assert profile.reliability == QosReliability.RELIABLE
    assert profile.depth == 1


def test_metadata_says_what_rosbag2_writes(circle_bag, circle_rows):
    text = (circle_bag / "metadata.yaml").read_text(encoding="utf-8")
    facts = yaml.safe_load(text)["rosbag2_bagfile_information"]
    assert facts["version"] == 9
    assert facts["storage_identifier"] == "mcap"
    assert facts["message_count"] == len(circle_rows)
    assert facts["starting_time"]["nanoseconds_since_epoch"] == circle_rows[0].stamp_ns
    span_ns = circle_rows[-1].stamp_ns - circle_rows[0].stamp_ns
    assert facts["duration"]["nanoseconds"] == span_ns
    assert facts["relative_file_paths"] == [the_file(circle_bag).name]
    assert facts["custom_data"] == {"scenario": "circle", "seed": "7"}


def test_type_hashes_are_those_of_ros(circle_bag):
    facts = yaml.safe_load((circle_bag / "metadata.yaml").read_text(encoding="utf-8"))
    hashes = {
        item["topic_metadata"]["type"]: item["topic_metadata"]["type_description_hash"]
        for item in facts["rosbag2_bagfile_information"]["topics_with_message_count"]
    }
    # as the recordings of the FCND simulator carry them, written by another program
    assert hashes["sensor_msgs/msg/Imu"] == (
        "RIHS01_7d9a00ff131080897a5ec7e26e315954b8eae3353c3f995c55faf71574000b5b"
    )
    assert hashes["nav_msgs/msg/Odometry"] == (
        "RIHS01_3cc97dc7fb7502f8714462c526d369e35b603cfc34d946e3f2eda2766dfec6e0"
    )


def test_an_existing_folder_is_not_overwritten(circle_bag, circle_rows):
    with pytest.raises(InputError, match="exists already"):
        BagWriter(circle_bag)
    assert len(read_back(circle_bag)) == len(circle_rows)


def test_a_topic_keeps_its_type(tmp_path):
    with BagWriter(tmp_path / "bag") as writer:
        writer.add_topic("/a", "std_msgs/msg/Bool")
        writer.add_topic("/a", "std_msgs/msg/Bool")
        with pytest.raises(QuadsimError, match="/a has type std_msgs/msg/Bool"):
            writer.add_topic("/a", "std_msgs/msg/String")
        writer.add("/a", "std_msgs/msg/Bool", None, 1, b"\x00\x01\x00\x00\x01")


def test_a_type_that_is_not_standard_is_kept_without_its_text(tmp_path):
    with BagWriter(tmp_path / "bag") as writer:
        writer.add("/a", "px4_msgs/msg/SensorCombined", None, 1, b"\x00\x01\x00\x00\x01")
    with open_bag(tmp_path / "bag") as bag:
        assert bag.types == {"/a": "px4_msgs/msg/SensorCombined"}
        assert [m.payload for m in bag.messages(["/a"])] == [b"\x00\x01\x00\x00\x01"]
        with pytest.raises(QuadsimError, match="/a: not a px4_msgs/msg/SensorCombined"):
            bag.first("/a")


def test_messages_reach_the_file_every_quarter_second(tmp_path, circle_rows):
    now = [0.0]
    writer = BagWriter(tmp_path / "bag", clock=lambda: now[0])
    path = the_file(tmp_path / "bag")
    item = circle_rows[0]

    def add() -> None:
        writer.add(item.topic, item.type_name, None, item.stamp_ns, item.payload)

    add()
    before = path.stat().st_size
    now[0] = 0.2
    add()
    assert path.stat().st_size == before
    now[0] = 0.26
    writer.flush_when_due()
    assert path.stat().st_size > before
    writer.close()
    assert len(read_back(tmp_path / "bag")) == 2


def test_a_killed_recorder_leaves_what_it_flushed(tmp_path):
    """A kill -9 in the middle: everything up to the last flush is read, with its custom data."""
    code = textwrap.dedent(
        """
        import os, signal, sys
        from pathlib import Path
        from quadsim.bag.writer import BagWriter
        writer = BagWriter(Path(sys.argv[1]), {"scenario": "killed"})
        for i in range(1000):
            writer.add("/a", "std_msgs/msg/Bool", None, i, b"\\x00\\x01\\x00\\x00\\x01")
        writer.flush()
        writer.add("/a", "std_msgs/msg/Bool", None, 1000, b"\\x00\\x01\\x00\\x00\\x00")
        os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    bag = tmp_path / "bag"
    done = subprocess.run([sys.executable, "-c", code, str(bag)], check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert not (bag / "metadata.yaml").exists()
    with open_bag(bag) as opened:
        assert opened.counts == {"/a": 1000}
        assert opened.custom == {"scenario": "killed"}
        assert "1000 messages" in opened.notes[0]
    assert [stamp for _, _, stamp, _ in read_back(bag)] == list(range(1000))
    with open_bag(bag) as opened:
        assert opened.notes == []  # it is whole now


@pytest.mark.parametrize("share", [0.02, 0.3, 0.5, 0.77, 0.999])
@pytest.mark.parametrize("metadata", [True, False])
def test_a_cut_bag_gives_every_whole_message(circle_bag, circle_rows, share, metadata):
    path = the_file(circle_bag)
    content = path.read_bytes()
    cut = int(len(content) * share)
    path.write_bytes(content[:cut])
    if not metadata:
        (circle_bag / "metadata.yaml").unlink()
    with open_bag(circle_bag) as bag:
        assert bag.notes
        kept = sum(bag.counts.values())
        assert len(list(bag.messages(bag.counts))) == kept
    assert is_whole(path)
    messages = read_back(circle_bag)
    assert messages == [tuple(item) for item in circle_rows[: len(messages)]]
    # a message ends somewhere in the last few hundred bytes before the cut, an Odometry has 720;
    # where the cut goes through the index at the end, nothing is lost
    size = content.index(circle_rows[len(messages)].payload) if kept < len(circle_rows) else 0
    assert size == 0 or cut - size < 800


def test_a_repair_keeps_what_the_old_metadata_say(circle_bag):
    """The recorder's data of a bag by rosbag2 stand in ``metadata.yaml`` alone."""
    where = circle_bag / "metadata.yaml"
    old = yaml.safe_load(where.read_text())
    key = "rosbag2_bagfile_information"
    old[key]["custom_data"]["pilot"] = "Ada"
    old[key]["ros_distro"] = "humble"
    where.write_text(yaml.safe_dump(old))
    file = the_file(circle_bag)
    file.write_bytes(file.read_bytes()[:-1000])
    assert repair(circle_bag)
    new = yaml.safe_load(where.read_text())[key]
    assert new["custom_data"] == old[key]["custom_data"]
    assert new["ros_distro"] == "humble"


def test_a_repair_says_how_much_is_lost(circle_bag):
    path = the_file(circle_bag)
    path.write_bytes(path.read_bytes()[:100_000])
    (done,) = repair(circle_bag)
    assert done.damaged_chunks == 0
    assert 0 < done.lost_bytes < 800
    assert f"{done.messages} messages recovered, {done.lost_bytes} bytes lost" in str(done)
    assert repair(circle_bag) == []


def test_a_damaged_chunk_is_left_out_and_counted(circle_bag, circle_rows):
    path = the_file(circle_bag)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content[:-1000])
    (done,) = repair(circle_bag)
    assert done.damaged_chunks == 1
    lost = len(circle_rows) - done.messages
    # a chunk holds 64 KiB and a message at least 100 bytes
    assert 0 < lost < 660
    known = {tuple(item) for item in circle_rows}
    assert set(read_back(circle_bag)) <= known


def test_a_bag_that_is_being_recorded_is_left_alone(tmp_path, circle_rows):
    writer = BagWriter(tmp_path / "bag")
    for item in circle_rows[:100]:
        writer.add(item.topic, item.type_name, None, item.stamp_ns, item.payload)
    writer.flush()
    with pytest.raises(InputError, match="is being recorded"), open_bag(tmp_path / "bag"):
        pass
    writer.close()
    assert len(read_back(tmp_path / "bag")) == 100


def test_a_cut_bag_in_a_folder_that_cannot_be_written_is_read(circle_bag, circle_rows, monkeypatch):
    path = the_file(circle_bag)
    content = path.read_bytes()[:200_000]
    path.write_bytes(content)
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
    with open_bag(circle_bag) as bag:
        messages = [tuple(m) for m in bag.messages(bag.counts)]
        assert "cut short" in bag.notes[0]
    assert messages == [tuple(item) for item in circle_rows[: len(messages)]]
    assert path.read_bytes() == content


def test_a_single_cut_file_is_read(circle_bag, tmp_path):
    lone = tmp_path / "lone.mcap"
    lone.write_bytes(the_file(circle_bag).read_bytes()[:150_000])
    with open_bag(lone) as bag:
        assert len(list(bag.messages(bag.counts))) == sum(bag.counts.values()) > 100


def refused(path) -> str:
    with pytest.raises(InputError) as caught, open_bag(path):
        pass
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    return message


def test_what_is_no_bag_is_named(tmp_path):
    assert "no such bag" in refused(tmp_path / "missing")
    (tmp_path / "folder").mkdir()
    assert "not a bag" in refused(tmp_path / "folder")
    (tmp_path / "notes.txt").write_text("no bag")
    assert "not a bag" in refused(tmp_path / "notes.txt")
    (tmp_path / "wrong.mcap").write_text("no bag at all, but long enough to look")
    assert "not an MCAP file" in refused(tmp_path / "wrong.mcap")
    (tmp_path / "empty.mcap").write_bytes(b"")
    assert "not an MCAP file" in refused(tmp_path / "empty.mcap")
    (tmp_path / "wrong.db3").write_text("no database")
    assert "not a readable bag" in refused(tmp_path / "wrong.db3")


def test_an_empty_bag_is_named(tmp_path):
    BagWriter(tmp_path / "bag").close()
    assert "is empty" in refused(tmp_path / "bag")


def test_nonsense_in_the_metadata_is_named(circle_bag, circle_rows):
    (circle_bag / "metadata.yaml").write_text("rosbag2_bagfile_information: [1, 2]\n")
    with open_bag(circle_bag) as bag:
        assert "metadata.yaml: makes no sense; read without it" in bag.notes[0]
        assert len(list(bag.messages(bag.counts))) == len(circle_rows)
