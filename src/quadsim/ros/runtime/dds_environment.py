"""What DDS reads from the environment: who hears the nodes, and Fast DDS's profiles."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from quadsim.base.files import share_dir
from quadsim.base.kernel_folder import own_temporary

#: Where Fast DDS looks for the name of a file of profiles; the second is of older ones too.
PROFILES = ("FASTDDS_DEFAULT_PROFILES_FILE", "FASTRTPS_DEFAULT_PROFILES_FILE")

#: The first rclpy next to a Fast DDS 3, whose words our profiles are.
FIRST = (9,)


def release() -> tuple[int, ...]:
    """Release of rclpy; nothing where it is not known."""
    try:
        return tuple(int(part) for part in version("rclpy").split(".")[:3])
    except (PackageNotFoundError, ValueError):
        return ()


def set_dds_environment() -> None:
    """Set what DDS reads when a context gets its first node, unless whoever starts it has.

    Nodes are heard on this machine only; Fast DDS finds and writes as ``config/dds/fast_dds.xml``
    reports. A file of profiles in the working folder is read after it, and so holds.
    """
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    if os.environ.keys().isdisjoint(PROFILES) and release() >= FIRST:
        os.environ[PROFILES[0]] = str(share_dir() / "config" / "dds" / "fast_dds.xml")
    set_log_folder()


def set_log_folder() -> None:
    """Let ROS write its logs among the temporary files where the home cannot be written."""
    if "ROS_LOG_DIR" in os.environ:
        return
    try:
        folder = Path(os.environ.get("ROS_HOME") or Path.home() / ".ros") / "log"
        folder.mkdir(parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK | os.X_OK)
    except (OSError, RuntimeError):  # a user without a home
        writable = False
    if not writable:
        os.environ["ROS_LOG_DIR"] = str(own_temporary("ros-log"))
