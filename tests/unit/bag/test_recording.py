"""Bags in several files, compressed, thinned, and on a disk that takes no more."""

import errno
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from mcap.reader import make_reader
from rosbags.highlevel import AnyReader

from quadsim.bag.profiles import Recording, RecordProfile, Thinning
from quadsim.bag.reading import open_bag
from quadsim.bag.repair import is_whole
from quadsim.bag.writer import BagWriter, McapFile, Storage
from quadsim.base.errors import InputError
from quadsim.base.files import known
from quadsim.ros.runtime import topics


def fill(bag: BagWriter, rows) -> None:
    for item in rows:
        bag.add(item.topic, item.type_name, None, item.stamp_ns, item.payload)


def read_back(path):
    """All messages of a bag, by rosbags alone."""
    with AnyReader([path]) as reader:
        return [(c.topic, c.msgtype, t, bytes(raw)) for c, t, raw in reader.messages()]


def files_of(bag: Path) -> list[Path]:
    return sorted(bag.glob("*.mcap"), key=lambda path: int(path.stem.rpartition("_")[2]))


def information(bag: Path):
    text = (bag / "metadata.yaml").read_text(encoding="utf-8")
    return yaml.safe_load(text)["rosbag2_bagfile_information"]


@pytest.mark.parametrize("storage", [Storage(split_bytes=300_000), Storage(split_ns=3 * 10**9)])
def test_a_bag_is_split_as_rosbag2_splits(tmp_path, circle_rows, storage):
    with BagWriter(tmp_path / "bag", {"scenario": "circle"}, storage=storage) as bag:
        fill(bag, circle_rows)
        assert sum(bag.counts.values()) == len(circle_rows)
    files = files_of(tmp_path / "bag")
    facts = information(tmp_path / "bag")
    assert len(files) >= 4
    assert [path.name for path in files] == [f"bag_{i}.mcap" for i in range(len(files))]
    assert facts["relative_file_paths"] == [path.name for path in files]
    assert sum(file["message_count"] for file in facts["files"]) == len(circle_rows)
    assert facts["message_count"] == len(circle_rows)
    for path in files[:-1]:
        if storage.split_bytes:  # one chunk and the index beyond it
            assert 300_000 <= path.stat().st_size < 500_000
    for file in facts["files"]:
        if storage.split_ns:
            assert file["duration"]["nanoseconds"] < storage.split_ns
    assert read_back(tmp_path / "bag") == [tuple(item) for item in circle_rows]
    with files[2].open("rb") as stream:  # each is a bag of its own, and knows its run
        reader = make_reader(stream, validate_crcs=True)
        assert {record.name for record in reader.iter_metadata()} == {"quadsim", "rosbag2"}
        assert len(list(reader.iter_messages())) == facts["files"][2]["message_count"]


def test_compressed_chunks_are_read_by_others_and_are_smaller(tmp_path, circle_rows):
    size = {}
    for compression in ("none", "zstd"):
        with BagWriter(tmp_path / compression, storage=Storage(compression=compression)) as bag:
            fill(bag, circle_rows)
        assert read_back(tmp_path / compression) == [tuple(item) for item in circle_rows]
        (path,) = files_of(tmp_path / compression)
        size[compression] = path.stat().st_size
        with path.open("rb") as stream:
            summary = make_reader(stream).get_summary()
        kinds = {index.compression for index in summary.chunk_indexes}
        assert kinds == {"" if compression == "none" else compression}
    assert size["zstd"] < 0.5 * size["none"]  # the circle's covariances are constant


def test_what_is_known_only_at_the_end_is_kept_too(tmp_path, circle_rows):
    with BagWriter(tmp_path / "bag", {"scenario": "circle"}) as bag:
        fill(bag, circle_rows[:10])
        bag.tell("digest", "abc")
    assert information(tmp_path / "bag")["custom_data"] == {"scenario": "circle", "digest": "abc"}
    (tmp_path / "bag" / "metadata.yaml").unlink()
    with open_bag(tmp_path / "bag") as opened:
        assert opened.custom == {"scenario": "circle", "digest": "abc"}


#: Records until the system refuses, in a process of its own.
RECORDER = """
import os, resource, sys
from pathlib import Path
from quadsim.bag.writer import BagWriter, Storage

limit = int(sys.argv[3])
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
bag = BagWriter(Path(sys.argv[1]), {"scenario": "full"}, storage=Storage(compression=sys.argv[2]))
for i in range(60_000):
    payload = b"\\x00\\x01\\x00\\x00" + os.urandom(500)
    bag.add("/a", "std_msgs/msg/String", None, i * 1_000_000, payload)
    if bag.stopped:
        break
bag.add("/a", "std_msgs/msg/String", None, 1 << 40, b"")  # nothing happens
bag.flush()
bag.close()
print(i, bag.stopped)
"""


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_full_disk_ends_the_recording_and_leaves_a_whole_bag(tmp_path, compression):
    """On a file system of 20 MB, where one may be mounted."""
    disk, recorder = tmp_path / "disk", tmp_path / "recorder.py"
    disk.mkdir()
    recorder.write_text(textwrap.dedent(RECORDER))
    script = (
        f"mount -t tmpfs -o size=20m none {disk} || exit 77\n"
        f'"$0" {recorder} {disk}/bag {compression} 0 && cp -r {disk}/bag {tmp_path}/kept'
    )
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", script, sys.executable]
    try:
        done = subprocess.run(command, check=False, timeout=60, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("unshare is not there")
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("no file system can be mounted here")
    last, words = done.stdout.split(" ", 1)
    assert words == "No space left on device; recording has stopped, the bag is whole\n"
    path = tmp_path / "kept"
    (file,) = files_of(path)
    assert is_whole(file)
    messages = read_back(path)
    assert int(last) > 30_000  # of 504 bytes in 20 MB, 2 MB of which are reserved
    assert [stamp for _, _, stamp, _ in messages] == [i * 1_000_000 for i in range(int(last) + 1)]
    assert information(path)["message_count"] == len(messages)
    with file.open("rb") as stream:
        assert len(list(make_reader(stream, validate_crcs=True).iter_messages())) == len(messages)
    with open_bag(path) as opened:
        assert opened.notes == []
        assert opened.custom == {"scenario": "full"}


def test_limited_file_ends_the_recording_and_is_repaired(tmp_path):
    """A limit on the size of files leaves no room for the index."""
    path = tmp_path / "bag"
    command = [sys.executable, "-c", textwrap.dedent(RECORDER), str(path), "none", "3000000"]
    done = subprocess.run(command, check=True, timeout=60, capture_output=True, text=True)
    last, words = done.stdout.split(" ", 1)
    assert words == "File too large; recording has stopped, the bag has to be repaired\n"
    with open_bag(path) as opened:
        assert "cut short; repaired" in opened.notes[0]
        assert opened.custom == {"scenario": "full"}
    messages = read_back(path)
    assert [stamp for _, _, stamp, _ in messages] == [i * 1_000_000 for i in range(len(messages))]
    assert 0 < 504 * (int(last) - len(messages)) < 2 * 64 * 1024


@pytest.mark.parametrize("failing", ["__init__", "close"])
def test_disk_that_fills_up_at_a_split_leaves_a_whole_bag(
    tmp_path, circle_rows, monkeypatch, failing
):
    """At the new file, or at the end of the old one."""
    bag = BagWriter(tmp_path / "bag", {"scenario": "circle"}, storage=Storage(split_ns=10**9))
    real, calls = getattr(McapFile, failing), []

    def fails_once(*arguments, **options):
        calls.append(arguments)
        if len(calls) == 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(*arguments, **options)

    monkeypatch.setattr(McapFile, failing, fails_once)
    fill(bag, circle_rows)
    bag.close()
    assert "the bag is whole" in bag.stopped
    assert [path.name for path in files_of(tmp_path / "bag")] == ["bag_0.mcap"]
    assert is_whole(tmp_path / "bag" / "bag_0.mcap")
    count = information(tmp_path / "bag")["message_count"]
    assert count == len(read_back(tmp_path / "bag")) > 100


def test_a_full_disk_is_refused_before_anything_is_made(tmp_path, monkeypatch):
    full = SimpleNamespace(f_bavail=1000, f_frsize=4096)
    monkeypatch.setattr(os, "statvfs", lambda _: full)
    with pytest.raises(InputError, match=r"the disk is full: 4\.1 MB are free.*16 MB"):
        BagWriter(tmp_path / "runs" / "bag")
    assert not (tmp_path / "runs").exists()


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"bag: cannot be made \(Not a directory\)"):
        BagWriter(tmp_path / "file" / "bag")


@pytest.mark.parametrize(
    ("storage", "words"),
    [({"compression": "lzma"}, "'lzma'; allowed: none, zstd"), ({"split_bytes": -1}, "above 0")],
)
def test_what_no_bag_can_be_is_refused(storage, words):
    with pytest.raises(InputError, match=words):
        Storage(**storage)


# ---- profiles ------------------------------------------------------------------------------------


def kept(name: str) -> set[str]:
    profile = Recording(name).profile()
    return {t.name for t in (*topics.WORLD_TOPICS, *topics.VEHICLE_TOPICS) if profile.keeps(t.name)}


def test_profiles_hold_what_they_are_for():
    everything = {t.name for t in (*topics.WORLD_TOPICS, *topics.VEHICLE_TOPICS)}
    sensors = {"imu/data_raw", "imu/mag", "imu/static_pressure", "gps/fix", "gps/vel", "range/down"}
    assert known("recording") == ["all", "flight", "minimal", "sensors", "swarm"]
    assert kept("all") == everything
    assert kept("flight") < everything
    assert kept("flight") >= sensors | {
        "/datum",
        "ground_truth/odom",
        "odometry/filtered",
        "/clock",
    }
    assert kept("sensors") >= sensors | {"/datum", "ground_truth/odom", "external/pose"}
    assert not kept("sensors") & {"imu/data", "motor_speed", "scan"}
    assert kept("minimal") >= {"/datum", "ground_truth/odom", "odometry/filtered", "events"}
    assert not kept("minimal") & {"imu/data_raw", "points", "command_motor_speed"}
    # what the criteria of the scenarios are taken from
    assert all(kept(name) >= {"odometry/filtered", "reference"} for name in known("recording"))
    # another estimator's topic is in no table
    assert Recording("minimal").profile().keeps("odometry/ekf7")
    assert not Recording("sensors").profile().keeps("odometry/ekf7")


def test_every_name_of_a_profile_is_a_topic():
    names = [t.name for t in (*topics.WORLD_TOPICS, *topics.VEHICLE_TOPICS)]
    for name in known("recording"):
        profile = Recording(name).profile()
        for pattern in (*profile.topics, *profile.without, *profile.thinned):
            one = RecordProfile((pattern,))
            assert any(one.keeps(topic) for topic in names), (name, pattern)


def test_a_thinned_topic_keeps_one_message_a_period():
    profile = RecordProfile(("*",), thinned=("imu/*",), thin_hz=10.0)
    thinning, all_of_it = (Thinning(profile.period_ns(name)) for name in ("imu/mag", "gps/fix"))
    stamps = range(0, 2_000_000_000, 7_000_000)
    chosen = [stamp for stamp in stamps if thinning.keeps(stamp)]
    assert len(chosen) == 20
    assert all(0 <= stamp - i * 100_000_000 < 7_000_000 for i, stamp in enumerate(chosen))
    assert all(all_of_it.keeps(5) for _ in range(3))


def test_a_profile_of_ones_own_and_wrong_ones(tmp_path):
    own = tmp_path / "own.yaml"
    own.write_text("topics: [gps/*]\n")
    assert Recording(str(own)).profile().keeps("gps/fix")
    with pytest.raises(InputError, match=r"unknown recording 'none'; known: all, flight"):
        Recording("none").profile()
    own.write_text("topics: []\n")
    with pytest.raises(InputError, match=r"own\.yaml: topics: none; name at least one"):
        Recording(str(own)).profile()
    own.write_text("topics: ['*']\nthin_hz: 0\n")
    with pytest.raises(InputError, match=r"own\.yaml: thin_hz: 0 is out of range"):
        Recording(str(own)).profile()
