"""Executable ``composed``: the nodes of a description in one process.

Launch composes no Python nodes; this does: ``nodes`` is the description as JSON, as
:func:`quadsim.ros.graph.hil_graph.composed` writes it.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from rclpy.node import Node

from quadsim.base.errors import InputError
from quadsim.ros.graph.graph import NodeSpec
from quadsim.ros.runtime.params import declare_one
from quadsim.ros.runtime.processes import maker
from quadsim.ros.runtime.runtime import new_context, report_error, run, secured


def specs_from(text: str) -> list[NodeSpec]:
    """The nodes of a description.

    Raises:
        InputError: it is none.
    """
    try:
        entries = json.loads(text)
        specs = [
            NodeSpec(
                **entry
                | {
                    "remappings": tuple(map(tuple, entry["remappings"])),
                    "arguments": tuple(entry["arguments"]),
                }
            )
            for entry in entries
        ]
    except (ValueError, TypeError, KeyError):
        raise InputError("composed: nodes: no JSON list of described nodes") from None
    if not specs:
        raise InputError("composed: nodes: none")
    return specs


def given_nodes(args: list[str]) -> list[NodeSpec]:
    """The nodes that the parameter ``nodes`` describes.

    Args:
        args: ROS arguments.

    Raises:
        InputError: it is not given, or is no description.
    """
    with secured():
        context = new_context(args=args)
        node: Any = Node("composed", context=context)
    try:
        text = declare_one(node, "nodes", "", "the nodes, as JSON")
        node.destroy_node()
    finally:
        context.try_shutdown()
    return specs_from(text)


def main() -> None:
    """Run the nodes."""
    try:
        specs = given_nodes(sys.argv)
    except InputError as error:
        sys.exit(report_error(error))
    sys.exit(run([maker(spec) for spec in specs]))
