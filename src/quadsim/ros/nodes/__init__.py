"""The executables: one module each, but for the nodes of sensors, which the table makes."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from quadsim.sensors import SCANNERS, TABLE


def node_module(executable: str) -> Any:
    """What has ``make``, which makes the node in a context, and ``main``, which runs it.

    Raises:
        ModuleNotFoundError: there is no such executable.
    """
    if executable in TABLE and executable not in SCANNERS:
        from quadsim.ros.parts.sensor_nodes import sensor_module

        return sensor_module(executable)
    return import_module(f"quadsim.ros.nodes.{executable}")
