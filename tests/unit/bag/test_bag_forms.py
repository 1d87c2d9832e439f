"""Every form that rosbag2 gives a bag, and what damage leaves of it, against the plain bag."""

import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tracemalloc
from collections.abc import Iterable
from contextlib import closing
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import yaml
import zstandard
from mcap.reader import make_reader
from mcap.records import Statistics
from mcap.writer import CompressionType, IndexType
from mcap.writer import Writer as McapWriter
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

from quadsim.bag.measurements import measurements
from quadsim.bag.reading import open_bag
from quadsim.base.errors import InputError, QuadsimError

TYPES = get_typestore(Stores.ROS2_HUMBLE)
MCAP, SQLITE = StoragePlugin.MCAP, StoragePlugin.SQLITE3
KEY = "rosbag2_bagfile_information"


@pytest.fixture(scope="module")
def rows(circle_rows):
    """Two seconds of the circle: enough for several chunks of 64 KiB."""
    end_ns = circle_rows[0].stamp_ns + 2_000_000_000
    return [row for row in circle_rows if row.stamp_ns < end_ns]


def by_rosbags(
    path: Path, rows: Iterable, plugin=SQLITE, mode: CompressionMode | None = None
) -> Path:
    """A bag as rosbags writes it."""
    writer = Writer(path, version=8, storage_plugin=plugin)
    if mode is not None:
        writer.set_compression(mode, CompressionFormat.ZSTD)
    with writer:
        known = {}
        for row in rows:
            if row.topic not in known:
                known[row.topic] = writer.add_connection(row.topic, row.type_name, typestore=TYPES)
            writer.write(known[row.topic], row.stamp_ns, row.payload)
    return path


def by_mcap(path: Path, rows: Iterable, **options) -> Path:
    """A single file as the mcap library writes it."""
    with path.open("wb") as file:
        writer = McapWriter(file, **options)
        writer.start("ros2", "test")
        known = {}
        for row in rows:
            kind = row.topic, row.type_name
            if kind not in known:
                schema = writer.register_schema(row.type_name, "ros2msg", b"")
                known[kind] = writer.register_channel(row.topic, "cdr", schema)
            writer.add_message(known[kind], row.stamp_ns, row.payload, row.stamp_ns)
        writer.finish()
    return path


def read(path: Path) -> tuple[list[tuple], list[str]]:
    """All messages of a bag, and its notes."""
    with open_bag(path) as bag:
        return [tuple(message) for message in bag.messages(bag.counts)], bag.notes


def measured(path: Path) -> list[tuple]:
    """Its measurements, as numbers that can be compared."""
    with open_bag(path) as bag:
        return [
            (m.kind, m.stamp_ns, *(np.asarray(value).tolist() for value in m.values))
            for m in chain.from_iterable(measurements(bag, "/quad"))
        ]


def same(found: list[tuple], rows: Iterable) -> bool:
    """Whether these are the messages, in the order of time."""
    times = [item[2] for item in found]
    return times == sorted(times) and sorted(found) == sorted(tuple(row) for row in rows)


@pytest.mark.parametrize(
    ("plugin", "mode"),
    [
        (SQLITE, None),
        (SQLITE, CompressionMode.FILE),
        (SQLITE, CompressionMode.MESSAGE),
        (MCAP, None),
        (MCAP, CompressionMode.FILE),
        (MCAP, CompressionMode.STORAGE),
    ],
)
@pytest.mark.parametrize("metadata", [True, False])
def test_forms_of_rosbag2_give_what_the_plain_bag_gives(
    tmp_path, rows, write_rows, plugin, mode, metadata
):
    path = by_rosbags(tmp_path / "form", rows, plugin, mode)
    if not metadata:
        (path / "metadata.yaml").unlink()
    messages, notes = read(path)
    assert same(messages, rows)
    assert bool(notes) is not metadata
    assert measured(path) == measured(write_rows(rows))


@pytest.mark.parametrize("ending", [".mcap.zstd", ".db3.zstd", ".db3"])
def test_a_single_file_is_enough(tmp_path, rows, ending):
    mode = CompressionMode.FILE if ending.endswith("zstd") else None
    path = by_rosbags(tmp_path / "form", rows, MCAP if "mcap" in ending else SQLITE, mode)
    (file,) = path.glob(f"*{ending}")
    messages, _ = read(file)
    assert same(messages, rows)


@pytest.mark.parametrize(
    "options",
    [
        {"use_chunking": False},  # rosbag2's preset fastwrite
        {"compression": CompressionType.LZ4, "chunk_size": 4096},
        {"compression": CompressionType.ZSTD, "chunk_size": 4096, "index_types": IndexType.NONE},
        {"use_chunking": False, "use_statistics": False, "repeat_channels": False},
        {"use_statistics": False, "index_types": IndexType.NONE, "repeat_schemas": False},
    ],
)
@pytest.mark.parametrize("shuffled", [False, True])
def test_mcap_with_and_without_chunks_index_and_order(tmp_path, rows, options, shuffled):
    """Receivers on several threads write messages a little out of order."""
    written = list(rows)
    if shuffled:
        generator = np.random.default_rng(3)
        when = [row.stamp_ns + generator.integers(0, 50_000_000) for row in rows]
        written = [rows[i] for i in np.argsort(when)]
    messages, notes = read(by_mcap(tmp_path / "lone.mcap", written, **options))
    assert same(messages, rows)
    indexed = options.get("chunk_size") == 4096 and "index_types" not in options
    assert len(notes) == (0 if indexed else 1)
    assert all("has no sound index" in note for note in notes)


def test_a_split_bag_is_one(tmp_path, rows, write_rows):
    """Its files are told apart by their times, not by their names, and may overlap."""
    third = len(rows) // 3
    parts = {"bag_10": rows[2 * third :], "bag_9": rows[third : 2 * third], "bag_2": rows[:third]}
    parts["bag_2"] = parts["bag_2"] + parts["bag_9"][1:9:2]
    parts["bag_9"] = parts["bag_9"][:1] + parts["bag_9"][2:8:2] + parts["bag_9"][8:]
    (tmp_path / "split").mkdir()
    for name, part in parts.items():
        by_rosbags(tmp_path / name, part, MCAP)
        shutil.move(tmp_path / name / f"{name}.mcap", tmp_path / "split")
    for _ in range(2):  # without metadata.yaml, then with one that was made for all three
        messages, notes = read(tmp_path / "split")
        assert same(messages, rows)
    assert notes == []
    # what has one time may come in either order
    assert sorted(measured(tmp_path / "split")) == sorted(measured(write_rows(rows)))
    (tmp_path / "split" / "bag_9.mcap").unlink()
    messages, notes = read(tmp_path / "split")
    assert same(messages, parts["bag_2"] + parts["bag_10"])
    assert any("bag_9.mcap is missing" in note for note in notes)


def old_database(path: Path, version: int) -> None:
    """Take away from a bag of rosbags what a version of rosbag2 did not write yet."""
    (database,) = path.glob("*.db3")
    with sqlite3.connect(database) as connection:
        if version < 5:
            connection.execute("ALTER TABLE topics DROP COLUMN offered_qos_profiles")
        connection.execute("ALTER TABLE topics DROP COLUMN type_description_hash")
        for table in ("schema", "metadata", "message_definitions"):
            connection.execute(f"DROP TABLE {table}")
    connection.close()
    file = path / "metadata.yaml"
    facts = yaml.safe_load(file.read_text())
    information = facts[KEY]
    information["version"] = version
    for key, since in (("ros_distro", 8), ("custom_data", 6), ("files", 5)):
        if version < since:
            information.pop(key, None)
    for item in information["topics_with_message_count"]:
        item["topic_metadata"].pop("type_description_hash")
        if version < 4:
            item["topic_metadata"].pop("offered_qos_profiles")
    if version < 4:  # Foxy: with the bag's folder before the name
        names = information["relative_file_paths"]
        information["relative_file_paths"] = [f"{path.name}/{name}" for name in names]
    file.write_text(yaml.safe_dump(facts))


@pytest.mark.parametrize("version", [3, 5])
def test_older_distributions(tmp_path, rows, write_rows, version):
    """Metadata as of Foxy (3) and Humble (5): no definitions, files named with their folder."""
    path = by_rosbags(tmp_path / "old", rows)
    old_database(path, version)
    messages, notes = read(path)
    assert same(messages, rows)
    assert notes == []
    assert measured(path) == measured(write_rows(rows))
    with open_bag(path) as bag:
        assert bag.first("/quad/motor_speed").velocity.tolist() == [400.0, 410.0, 420.0, 430.0]


def test_metadata_of_the_future_does_not_matter(circle_bag, circle_rows):
    file = circle_bag / "metadata.yaml"
    file.write_text(file.read_text().replace("version: 9", "version: 12"))
    messages, notes = read(circle_bag)
    assert same(messages, circle_rows)
    assert notes == []


def chunks_of(file: Path) -> list:
    with file.open("rb") as stream:
        return make_reader(stream).get_summary().chunk_indexes


@pytest.mark.parametrize("where", ["payload", "head", "index"])
def test_what_lies_before_and_behind_a_damaged_chunk_is_read(circle_bag, circle_rows, where):
    (file,) = circle_bag.glob("*.mcap")
    chunks = chunks_of(file)
    chunk = chunks[len(chunks) // 2]
    content = bytearray(file.read_bytes())
    if where == "payload":
        content[chunk.chunk_start_offset + 1000] ^= 0xFF
    elif where == "head":
        content[chunk.chunk_start_offset : chunk.chunk_start_offset + 40] = bytes(40)
    else:
        content[-200:-100] = bytes(100)
    file.write_bytes(content)
    messages, notes = read(circle_bag)
    lost = {tuple(row) for row in circle_rows} - set(messages)
    assert len(notes) == 1
    if where == "index":
        assert not lost
        assert "has no sound index (wrong checksum); read without it" in notes[0]
        assert file.read_bytes() == content
        return
    assert same(messages, [row for row in circle_rows if tuple(row) not in lost])
    # the one chunk, and nothing else
    assert len(lost) > 0
    assert all(chunk.message_start_time <= m[2] <= chunk.message_end_time for m in lost)
    assert sum(len(m[3]) for m in lost) < chunk.uncompressed_size
    start_s = (chunk.message_start_time - circle_rows[0].stamp_ns) * 1e-9
    assert f"{file.name}: damaged from {start_s:.3f} to" in notes[0]
    assert file.read_bytes() == content  # a bag that has its end is not touched


def test_statistics_without_counts_are_no_empty_bag(tmp_path, rows, monkeypatch):
    """The format: an empty map of counts says that they are not available."""
    real = Statistics.write

    def write(self, stream):
        self.channel_message_counts = {}
        real(self, stream)

    with monkeypatch.context() as patched:
        patched.setattr(Statistics, "write", write)
        path = by_mcap(tmp_path / "lone.mcap", rows)
    messages, notes = read(path)
    assert same(messages, rows)
    assert "the messages are not counted" in notes[0]


def test_a_flipped_byte_in_the_recorders_data_loses_only_them(circle_bag, circle_rows):
    (file,) = circle_bag.glob("*.mcap")
    content = bytearray(file.read_bytes())
    content[content.index(b"scenario")] = 0xFF
    file.write_bytes(content)
    messages, notes = read(circle_bag)
    assert same(messages, circle_rows)
    assert "a record of its metadata is damaged" in notes[0]
    assert len(notes) == 1


def test_a_killed_recorders_journal_is_read(tmp_path, rows):
    """rosbag2's preset ``resilient``: what was written last is beside the database."""
    path = by_rosbags(tmp_path / "whole", rows[:-100])
    (database,) = path.glob("*.db3")
    connection = sqlite3.connect(database)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA wal_autocheckpoint=0")
    (numbers,) = (dict(connection.execute("SELECT name, id FROM topics")),)
    for row in rows[-100:]:
        values = (numbers[row.topic], row.stamp_ns, row.payload)
        connection.execute("INSERT INTO messages(topic_id, timestamp, data) VALUES(?,?,?)", values)
    connection.commit()
    killed = tmp_path / "killed"
    shutil.copytree(path, killed)
    connection.close()
    messages, notes = read(killed)
    assert same(messages, rows)
    assert "what its journal held" in notes[0]


def test_a_topic_of_two_types_is_the_first(tmp_path, write_rows, rows):
    other = [row._replace(topic="/quad/imu/mag") for row in rows if row.topic == "/quad/gps/fix"]
    path = by_mcap(tmp_path / "lone.mcap", [*rows, *other])
    messages, notes = read(path)
    assert same(messages, rows)
    assert (
        "/quad/imu/mag is sensor_msgs/msg/MagneticField and sensor_msgs/msg/NavSatFix" in notes[0]
    )


def test_unknown_types_are_named_and_the_rest_is_read(tmp_path, write_rows, rows):
    strange = rows[0]._replace(topic="/strange", type_name="someone/msg/Secret")
    plain, path = write_rows(rows, "plain"), write_rows([*rows, strange], "strange")
    assert measured(path) == measured(plain)
    with open_bag(path) as bag:
        assert "someone/msg/Secret" in bag.notes[0]
        assert bag.counts["/strange"] == 1
        with pytest.raises(QuadsimError, match="/strange: not a someone/msg/Secret"):
            bag.first("/strange")


def test_some_bad_messages_are_left_out_and_counted(rows, write_rows):
    broken = [
        row._replace(payload=row.payload[:40])
        if row.topic == "/quad/gps/vel" and i % 3 == 0
        else row
        for i, row in enumerate(rows)
    ]
    gone = [row for i, row in enumerate(rows) if not (row.topic == "/quad/gps/vel" and i % 3 == 0)]
    with open_bag(write_rows(broken, "broken")) as bag:
        count = sum(map(len, measurements(bag, "/quad")))
        assert f"/quad/gps/vel: {len(rows) - len(gone)} messages make no sense" in bag.notes[0]
    assert count == len(measured(write_rows(gone, "gone")))


def test_a_file_of_a_split_bag_that_is_nothing_is_left_out(circle_bag, circle_rows):
    """A recorder that is killed just after a split leaves an empty file."""
    (circle_bag / "circle_1.mcap").write_bytes(b"")
    messages, notes = read(circle_bag)
    assert same(messages, circle_rows)
    assert any("circle_1.mcap: not an MCAP file: left out" in note for note in notes)


def test_a_folder_called_like_a_file_is_none(circle_bag, circle_rows, tmp_path):
    (circle_bag / "more.mcap").mkdir()
    messages, notes = read(circle_bag)
    assert same(messages, circle_rows)
    assert notes == []
    (circle_bag / "metadata.yaml").unlink()
    assert same(read(circle_bag)[0], circle_rows)
    (tmp_path / "bag" / "some.mcap").mkdir(parents=True)
    with pytest.raises(InputError, match="not a bag"), open_bag(tmp_path / "bag"):
        pass


def test_a_file_that_cannot_be_read_is_named(tmp_path, monkeypatch):
    """Permissions do not stop root, so opening is refused here."""
    file = tmp_path / "lone.mcap"
    file.write_bytes(b"anything")

    def refused(self, *_, **__):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "open", refused)
    with pytest.raises(InputError, match="cannot be read"), open_bag(file):
        pass


def test_a_compressed_file_that_is_none_or_cut(tmp_path, rows, monkeypatch):
    wrong = tmp_path / "wrong.mcap.zstd"
    wrong.write_bytes(b"no zstandard at all")
    with (
        pytest.raises(InputError, match=r"wrong\.mcap\.zstd: not a compressed file"),
        open_bag(wrong),
    ):
        pass
    path = by_rosbags(tmp_path / "form", rows, MCAP, CompressionMode.FILE)
    (file,) = path.glob("*.zstd")
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])
    messages, notes = read(path)
    assert same(messages, rows[: len(messages)])
    assert messages
    assert "cut short" in notes[0]
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert read(path)[0] == messages


def bomb(folder: Path, form: str, count: int) -> Path:
    """A bag that becomes ``count`` bytes, of a few kilobytes."""
    zeros = bytes(count)
    path = folder / ("bomb.mcap.zstd" if form == "file" else "bomb.mcap")
    row = SimpleNamespace(
        topic="/quad/x", type_name="std_msgs/msg/String", stamp_ns=1, payload=zeros
    )
    if form == "message":
        row.payload = zstandard.ZstdCompressor(write_content_size=False).compress(zeros)
        return by_mcap(path, [row] * 3)
    if form == "file":
        path.write_bytes(zstandard.compress(zeros))
        return path
    by_mcap(path, [row], chunk_size=1 << 40, compression=CompressionType[form.upper()])
    return path


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ("file", "becomes more than 67 MB, which is too much"),
        ("zstd", "300000[0-9]* bytes in one chunk, allowed: 268435456"),
        ("lz4", "300000[0-9]* bytes in one chunk, allowed: 268435456"),
        ("message", "3 messages of another type, too large or damaged"),
    ],
)
def test_what_becomes_too_large_is_refused_in_bounded_memory(tmp_path, form, words):
    """By a process that may have so much memory and no more."""
    path, scratch = bomb(tmp_path, form, 300_000_000), tmp_path / "scratch"
    scratch.mkdir()
    code = (
        "import resource, sys\n"
        "from quadsim.bag.reading import open_bag\n"
        "from quadsim.base.errors import InputError\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try:\n"
        "    with open_bag(sys.argv[1]) as bag:\n"
        "        for message in bag.messages(bag.counts): pass\n"
        "        print(*bag.notes)\n"
        "except InputError as error:\n"
        "    print(error)\n"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, path],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "TMPDIR": str(scratch)},
    )
    said, used_MB = done.stdout.splitlines()
    assert re.search(words, said)
    # a message is unpacked up to its bound before it is given up, the pieces and their sum
    assert int(used_MB) < (600 if form == "message" else 200)
    assert not list(scratch.iterdir())


def test_messages_from_a_time_on(circle_bag, circle_rows):
    start_ns = circle_rows[0].stamp_ns + 5_000_000_000
    with open_bag(circle_bag) as bag:
        messages = [tuple(m) for m in bag.messages(bag.counts, start_ns)]
    assert same(messages, [row for row in circle_rows if row.stamp_ns >= start_ns])


def test_memory_does_not_grow_with_the_bag(tmp_path, rows):
    """Three times the messages: the same chunks at once, and an entry of each chunk."""

    def peak(times: int) -> int:
        span_ns = 2_000_000_000
        longer = [
            row._replace(stamp_ns=row.stamp_ns + k * span_ns) for k in range(times) for row in rows
        ]
        path = by_mcap(tmp_path / f"{times}.mcap", longer, chunk_size=16_384)
        with open_bag(path) as bag:
            tracemalloc.start()
            count = sum(1 for _ in bag.messages(bag.counts))
            high = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert count == len(longer)
        return high

    peak(1)  # what is imported and loaded by the first reading is not counted
    small, large = peak(12), peak(36)
    assert large < small + 500_000  # all messages are eight megabytes more


def test_damaged_database_is_refused_with_the_remedy(tmp_path, rows):
    path = by_rosbags(tmp_path / "hole", rows)
    (database,) = path.glob("*.db3")
    content = database.read_bytes()
    database.write_bytes(content[: int(len(content) * 0.7)])
    with pytest.raises(InputError, match=r"not a readable bag .*\.recover"), open_bag(path):
        pass
    database.write_bytes(content)
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        words = "UPDATE sqlite_master SET sql = replace(sql, 'name TEXT NOT NULL', 'name TEXT')"
        connection.execute(words)
        connection.commit()
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("UPDATE topics SET name = NULL WHERE id = 1")
        connection.commit()
    with pytest.raises(InputError, match="a topic without a name"), open_bag(path):
        pass
    database.write_bytes(content)
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("UPDATE messages SET timestamp = 'noon' WHERE id = 2")
        connection.execute("UPDATE topics SET type = 'a/msg/B\x1b[2J' WHERE id = 1")
        connection.commit()
    with open_bag(path) as bag:
        assert all(note.isprintable() for note in bag.notes)
        messages = bag.messages(bag.types)
        with pytest.raises(InputError, match="without a time or content"):
            list(messages)
