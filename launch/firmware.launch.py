"""Vehicles flown by firmware: ``ros2 launch quadsim firmware.launch.py executable:=PATH``."""

from quadsim.ros.graph.launching import launch_description
from quadsim.ros.graph.swarm_graph import FirmwareLaunch


def generate_launch_description():
    return launch_description(FirmwareLaunch)
