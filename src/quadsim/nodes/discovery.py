"""How the processes of a graph find each other: on this machine alone, and at once."""

from __future__ import annotations

import os

from quadsim.files import share_dir

#: Where Fast DDS is told its file of profiles: from version 3 on, and before.
PROFILES = ("FASTDDS_DEFAULT_PROFILES_FILE", "FASTRTPS_DEFAULT_PROFILES_FILE")


def set_discovery() -> None:
    """Set what DDS reads when a context gets its first node, unless whoever starts it has.

    Nodes are heard on this machine only, and say for longer that they are there
    (``config/dds/fast_dds.xml``).
    """
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    if os.environ.keys().isdisjoint(PROFILES):
        os.environ |= dict.fromkeys(PROFILES, str(share_dir() / "config/dds/fast_dds.xml"))
