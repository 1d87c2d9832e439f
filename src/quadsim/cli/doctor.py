"""``quadsim doctor``: what is installed, what is missing and what it would add, does DDS work."""

from __future__ import annotations

import importlib.util
import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quadsim._version import __version__
from quadsim.base.files import share_dir
from quadsim.base.python_processes import module_command
from quadsim.base.surroundings import (
    browser,
    installed_version,
    load_words,
    machine,
    misfits,
    versions,
)
from quadsim.cli.common import finish
from quadsim.cli.options import Printed, command

#: Import name: what the core does with it.
REQUIRED = {
    "numpy": "arrays",
    "scipy": "numerics",
    "numba": "compiled kernels",
    "yaml": "parameter files",
    "rosbags": "reading bags",
    "mcap": "writing bags",
    "pygeomag": "the Earth's magnetic field",
    "plotly": "figures",
    "jinja2": "reports",
    "click": "this command",
    "rich": "tables and progress",
}

#: Import name: what it would add.
OPTIONAL = {
    "rclpy": "the ROS 2 graph: quadsim fly (pip install 'quadsim[ros]', or a ROS 2 machine)",
    "rerun": "quadsim view: flights in 3-D (pip install 'quadsim[view]')",
    "allantools": "checks of sensors (pip install 'quadsim[lab]')",
    "pyarrow": "campaigns, tables of Arrow (pip install 'quadsim[lab]')",
    "rasterio": "terrain from GeoTIFF (pip install 'quadsim[terrain]')",
    "nicegui": "quadsim ui: fly, tune and compare in a browser (pip install 'quadsim[ui]')",
    "distributed": "campaigns on a Dask cluster (pip install 'quadsim[cluster]')",
    "tf2_msgs": "transforms on /tf and /tf_static",
    "launch_ros": "ros2 launch quadsim sim.launch.py",
    "actuator_msgs": "vehicles that Gazebo flies: gazebo.launch.py physics:=gazebo",
    "mavros_msgs": "commands to autopilots behind mavros",
    "px4_msgs": "PX4 through its own messages",
    "ros_gz_interfaces": "vehicles that Gazebo shows: gazebo.launch.py gazebo:=view",
    "simulation_interfaces": "the same, and /sim/..., by the services that simulators share",
    "prompt_toolkit": "keys: quadsim fly --pilot, --keys",
    "setproctitle": "names of the node processes in ps and top",
}

PROBE_S = 20.0


def _found(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def _packages(wanted: dict[str, str]) -> dict[str, dict[str, Any]]:
    return {name: {"installed": _found(name), "for": use} for name, use in wanted.items()}


def _kernels() -> dict[str, Any]:
    folder = Path(os.environ["NUMBA_CACHE_DIR"])  # set when quadsim is imported
    there = next(parent for parent in (folder, *folder.parents) if parent.is_dir())
    return {
        "folder": str(folder),
        "writable": os.access(there, os.W_OK),
        "compiled": any(folder.rglob("*.nbc")),
    }


def _ros() -> dict[str, Any]:
    wheels = installed_version("ros-rclpy")
    return {
        "from": "wheels" if wheels else ("install" if _found("rclpy") else None),
        "version": wheels,
        "distribution": os.environ.get("ROS_DISTRO"),
        "rmw": os.environ.get("RMW_IMPLEMENTATION"),
        "domain": int(os.environ.get("ROS_DOMAIN_ID", "0") or 0),
        "discovery_range": os.environ.get("ROS_AUTOMATIC_DISCOVERY_RANGE"),
    }


def probe_dds(timeout_s: float = PROBE_S) -> dict[str, Any]:
    """Pass a message between two nodes, in a child process so that nothing it does can hang us.

    Returns:
        ``works``, ``seconds`` (from discovery to the message) and, if not, ``reason``.
    """
    if not _found("rclpy"):
        return {"works": False, "seconds": None, "reason": "rclpy is not installed"}
    environment = dict(os.environ)
    environment.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    if not environment.get("AMENT_PREFIX_PATH"):
        environment.setdefault("RMW_IMPLEMENTATION", "rmw_fastrtps_cpp")
    try:
        done = subprocess.run(
            module_command("quadsim.ros.runtime.dds_probe"),
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {
            "works": False,
            "seconds": None,
            "reason": f"no message within {timeout_s:g} s; {load_words()}",
        }
    lines = done.stdout.split()
    if done.returncode == 0 and lines:
        return {"works": True, "seconds": float(lines[-1]), "reason": None}
    words = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
    return {"works": False, "seconds": None, "reason": words}


def examine() -> dict[str, Any]:
    """Everything that ``quadsim doctor`` tells."""
    required = _packages(REQUIRED)
    dds = probe_dds()
    python_fits = (3, 10) <= sys.version_info[:2] <= (3, 13)
    kernels = _kernels()
    missing = [name for name, item in required.items() if not item["installed"]]
    problems = [f"{name} is missing: pip install quadsim" for name in missing]
    problems += [f"{line} (docs/install.md)" for line in misfits()]
    if not python_fits:
        problems.append(f"Python {platform.python_version()}: 3.10 to 3.13 are supported")
    if not kernels["writable"]:
        problems.append(f"{kernels['folder']} cannot be written: kernels compile at every start")
    if not dds["works"] and _found("rclpy"):
        problems.append(f"DDS does not work here: {dds['reason']}")
    return {
        "quadsim": __version__,
        "passed": not problems,
        "problems": problems,
        "python": {"version": platform.python_version(), "supported": python_fits},
        "versions": versions(),
        "machine": machine(),
        "files": str(share_dir()),
        "kernels": kernels,
        "ros": _ros(),
        "dds": dds,
        "required": required,
        "optional": _packages(OPTIONAL)
        | {
            "chromium": {
                "installed": browser() is not None,
                "for": "pictures of figures as PNG and SVG (apt install chromium)",
            }
        },
    }


def _show(found: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.text import Text

    from quadsim.cli.show import print_table

    console = Console(highlight=False)
    machine, ros, dds = found["machine"], found["ros"], found["dds"]
    console.print(
        f"quadsim {found['quadsim']}, Python {found['python']['version']}, "
        f"{machine['processor']}, {machine['cores']} cores, {machine['system']}",
        soft_wrap=True,
    )
    console.print(f"config, worlds, launch files: {found['files']}", soft_wrap=True)
    state = "compiled" if found["kernels"]["compiled"] else "not compiled yet"
    console.print(f"kernels: {found['kernels']['folder']} ({state})", soft_wrap=True)
    if ros["from"]:
        where = f"wheels {ros['version']}" if ros["from"] == "wheels" else "a ROS 2 installation"
        console.print(f"ROS: {where}, RMW {ros['rmw'] or 'default'}, domain {ros['domain']}")
    works = f"works ({dds['seconds']:.2f} s)" if dds["works"] else f"no: {dds['reason']}"
    console.print(f"DDS: {works}", markup=False)
    rows = (
        (name, "installed" if item["installed"] else "-", Text(item["for"]))
        for name, item in found["optional"].items()
    )
    print_table(console, ("optional", "", "what it adds"), rows)
    for problem in found["problems"]:
        console.print(f"problem: {problem}", style="red", markup=False, soft_wrap=True)


@dataclass(frozen=True)
class DoctorOptions(Printed):
    """Options of ``quadsim doctor``."""


@command(DoctorOptions)
def doctor(options: DoctorOptions) -> int:
    """List what is installed, which optional packages are missing, and whether DDS works here.

    Exit status: 0 when nothing that quadsim needs is missing, 1 otherwise.
    """
    return finish(examine(), options.as_json, _show)
