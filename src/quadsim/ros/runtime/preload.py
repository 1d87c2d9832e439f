"""What every process of the graph needs, imported once by the server that forks them.

Nothing here starts a thread or a ROS context: a fork would copy half of it.
"""

from __future__ import annotations

import gc
from importlib import import_module

from quadsim.ros.nodes import node_module
from quadsim.sensors import PUBLISHING

NODES = ("dynamics", *PUBLISHING, "estimator", "autopilot", "mixer", "recorder")


def preload() -> None:
    """Import the nodes, load the types of their messages, and call each kernel once."""
    gc.disable()  # nothing that is imported is garbage, and each collection would walk over it
    import_module("quadsim.ros.runtime.runtime")  # first, as it imports rclpy itself
    for module in NODES:
        node_module(module)
    from rclpy.type_support import check_for_type_support

    from quadsim.precompile import precompile_nodes
    from quadsim.ros.runtime.runtime import find_sources
    from quadsim.ros.runtime.topics import VEHICLE_TOPICS, WORLD_TOPICS
    from quadsim.sim.scenario import load_scenario

    for topic in (*WORLD_TOPICS, *VEHICLE_TOPICS):
        check_for_type_support(topic.message)
    precompile_nodes(load_scenario("hover"))
    find_sources()
    # what is here stays: a collection in each process would walk over it, and so copy its memory
    gc.collect()
    gc.freeze()
    gc.enable()


preload()
