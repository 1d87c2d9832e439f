"""``metadata.yaml`` of a rosbag2 folder (version 9, what ROS 2 Jazzy and later write)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePath
from typing import Any

import yaml

from quadsim.bag.storage import FileFacts, StoredTopic
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


def _profiles(topic: StoredTopic) -> Any:
    """The offered quality of service; none where a damaged bag's text of it is no YAML."""
    try:
        return read_yaml_text(topic.qos_yaml, topic.name) or []
    except InputError:
        return []


def information(
    files: Sequence[FileFacts], custom: Mapping[str, str], distribution: str = ""
) -> dict[str, Any]:
    """The mapping under ``rosbag2_bagfile_information``.

    Args:
        distribution: of ROS 2 that recorded it; empty: ours.
    """
    filled = [file for file in files if file.count]
    start_ns = min((file.start_ns for file in filled), default=0)
    end_ns = max((file.end_ns for file in filled), default=0)
    topics: dict[str, list[StoredTopic]] = {}
    for topic in (topic for file in files for topic in file.topics):
        topics.setdefault(topic.name, []).append(topic)
    return {
        "version": VERSION,
        "storage_identifier": "mcap",
        "duration": {"nanoseconds": end_ns - start_ns},
        "starting_time": {"nanoseconds_since_epoch": start_ns},
        "message_count": sum(file.count for file in files),
        "topics_with_message_count": [
            {
                "topic_metadata": {
                    "name": name,
                    "type": parts[0].type_name,
                    "serialization_format": "cdr",
                    "offered_qos_profiles": _profiles(parts[0]),
                    "type_description_hash": parts[0].type_hash,
                },
                "message_count": sum(part.count for part in parts),
            }
            for name, parts in topics.items()
        ],
        "compression_format": "",
        "compression_mode": "",
        "relative_file_paths": [file.name for file in files],
        "files": [
            {
                "path": file.name,
                "starting_time": {"nanoseconds_since_epoch": file.start_ns},
                "duration": {"nanoseconds": file.end_ns - file.start_ns},
                "message_count": file.count,
            }
            for file in files
        ],
        "custom_data": dict(custom) or None,
        "ros_distro": distribution or DISTRIBUTION,
    }


def write_metadata(folder: Path, content: Mapping[str, Any]) -> None:
    """Write ``metadata.yaml`` with this :func:`information`, whole or not at all."""
    text = yaml.safe_dump({KEY: dict(content)}, sort_keys=False, width=1000)
    write_whole(folder / FILE_NAME, str(text))


@dataclass(frozen=True, slots=True)
class Metadata:
    """What a ``metadata.yaml`` states of its bag: files, the recorder's data, ROS 2 distribution.

    The distribution is empty where it does not say.
    """

    names: list[str]
    custom: dict[str, str]
    distribution: str


def read_metadata(folder: Path) -> Metadata | None:
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
        return Metadata(
            [PurePath(str(name)).name for name in information["relative_file_paths"]],
            {str(key): str(value) for key, value in custom.items()},
            str(information.get("ros_distro") or ""),
        )
    except (InputError, OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{path}: makes no sense") from error


_TIMES = ("deadline", "lifespan", "liveliness_lease_duration")


@cache
def qos_yaml(reliability: str = "reliable", durability: str = "volatile", depth: int = 10) -> str:
    """``offered_qos_profiles`` of one publisher, with no deadline, lifespan or lease.

    Args:
        reliability: reliable or best_effort.
        durability: volatile or transient_local.
    """
    profile: dict[str, Any] = {
        "history": "keep_last",
        "depth": depth,
        "reliability": reliability,
        "durability": durability,
        "liveliness": "automatic",
        "avoid_ros_namespace_conventions": False,
    }
    for name in _TIMES:
        profile[name] = {"sec": 9223372036, "nsec": 854775807}
    return str(yaml.safe_dump([profile], sort_keys=False))
