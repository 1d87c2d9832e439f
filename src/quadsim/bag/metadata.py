"""``metadata.yaml`` of a rosbag2 folder (version 9, what ROS 2 Jazzy and later write)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path, PurePath
from typing import Any

import yaml

from quadsim.base.errors import InputError
from quadsim.base.parameters import read_yaml_text
from quadsim.base.whole_files import write_whole

VERSION = 9
FILE_NAME = "metadata.yaml"
KEY = "rosbag2_bagfile_information"
#: ROS 2 distribution whose form of ``metadata.yaml`` this is.
DISTRIBUTION = "kilted"

#: Key of a bag's custom data: the magnetic field, east, north, up in T.
FIELD = "magnetic_field_W_T"


@dataclass(slots=True)
class TopicFacts:
    """One topic of a bag: type, offered quality of service (YAML list), type hash, count."""

    name: str
    type_name: str
    qos_yaml: str = ""
    type_hash: str = ""
    count: int = 0


def _profiles(topic: TopicFacts) -> Any:
    """The offered quality of service; none where a damaged bag's text of it is no YAML."""
    try:
        return read_yaml_text(topic.qos_yaml, topic.name) or []
    except InputError:
        return []


@dataclass(slots=True)
class FileFacts:
    """One file of a bag: name in the folder, first and last log time (ns), count."""

    name: str
    start_ns: int = 0
    end_ns: int = 0
    count: int = 0

    def add(self, stamp_ns: int) -> None:
        """One more message, at its log time."""
        self.start_ns = min(self.start_ns, stamp_ns) if self.count else stamp_ns
        self.end_ns = max(self.end_ns, stamp_ns)
        self.count += 1


@dataclass(slots=True)
class BagFacts:
    """What ``metadata.yaml`` says of a bag."""

    files: Sequence[FileFacts]
    topics: Sequence[TopicFacts]
    custom: Mapping[str, str] = field(default_factory=dict)
    distribution: str = DISTRIBUTION

    def information(self) -> dict[str, Any]:
        """The mapping under ``rosbag2_bagfile_information``."""
        filled = [file for file in self.files if file.count]
        start_ns = min((file.start_ns for file in filled), default=0)
        end_ns = max((file.end_ns for file in filled), default=0)
        return {
            "version": VERSION,
            "storage_identifier": "mcap",
            "duration": {"nanoseconds": end_ns - start_ns},
            "starting_time": {"nanoseconds_since_epoch": start_ns},
            "message_count": sum(file.count for file in self.files),
            "topics_with_message_count": [
                {
                    "topic_metadata": {
                        "name": topic.name,
                        "type": topic.type_name,
                        "serialization_format": "cdr",
                        "offered_qos_profiles": _profiles(topic),
                        "type_description_hash": topic.type_hash,
                    },
                    "message_count": topic.count,
                }
                for topic in self.topics
            ],
            "compression_format": "",
            "compression_mode": "",
            "relative_file_paths": [file.name for file in self.files],
            "files": [
                {
                    "path": file.name,
                    "starting_time": {"nanoseconds_since_epoch": file.start_ns},
                    "duration": {"nanoseconds": file.end_ns - file.start_ns},
                    "message_count": file.count,
                }
                for file in self.files
            ],
            "custom_data": dict(self.custom) or None,
            "ros_distro": self.distribution,
        }

    def text(self) -> str:
        """The file's content."""
        return str(yaml.safe_dump({KEY: self.information()}, sort_keys=False, width=1000))

    def write(self, folder: Path) -> None:
        """Write ``metadata.yaml`` whole or not at all."""
        write_whole(folder / FILE_NAME, self.text())


@dataclass(frozen=True, slots=True)
class Stated:
    """What a ``metadata.yaml`` states of its bag: files, the recorder's data, ROS 2 distribution.

    The distribution is empty where it does not say.
    """

    names: list[str]
    custom: dict[str, str]
    distribution: str


def stated(folder: Path) -> Stated | None:
    """What a bag's ``metadata.yaml`` states; None if there is none.

    Raises:
        ValueError: it makes no sense, or cannot be read.
    """
    path = folder / FILE_NAME
    if not path.is_file():
        return None
    try:
        information = read_yaml_text(path.read_text(encoding="utf-8"), str(path))[KEY]
        custom = information.get("custom_data") or {}
        return Stated(
            [PurePath(str(name)).name for name in information["relative_file_paths"]],
            {str(key): str(value) for key, value in custom.items()},
            str(information.get("ros_distro") or ""),
        )
    except (InputError, OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{path}: makes no sense") from error


def combined(parts: Sequence[BagFacts], custom: Mapping[str, str]) -> BagFacts:
    """What ``metadata.yaml`` says of a bag of several files, from what it would say of each."""
    topics: dict[str, TopicFacts] = {}
    for part in parts:
        for topic in part.topics:
            if topic.name in topics:
                topics[topic.name].count += topic.count
            else:
                topics[topic.name] = replace(topic)
    return BagFacts([file for part in parts for file in part.files], list(topics.values()), custom)


_TIMES = ("deadline", "lifespan", "liveliness_lease_duration")


@cache
def qos_yaml(
    reliability: str = "reliable",
    durability: str = "volatile",
    depth: int = 10,
    history: str = "keep_last",
) -> str:
    """``offered_qos_profiles`` of one publisher, with no deadline, lifespan or lease.

    Args:
        reliability: reliable or best_effort.
        durability: volatile or transient_local.
        depth: queue length.
        history: keep_last or keep_all.
    """
    profile: dict[str, Any] = {
        "history": history,
        "depth": depth,
        "reliability": reliability,
        "durability": durability,
        "liveliness": "automatic",
        "avoid_ros_namespace_conventions": False,
    }
    for name in _TIMES:
        profile[name] = {"sec": 9223372036, "nsec": 854775807}
    return str(yaml.safe_dump([profile], sort_keys=False))
