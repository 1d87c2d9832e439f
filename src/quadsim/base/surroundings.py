"""What a result was made with: versions, machine, and what the machine offers.

It imports nothing but the standard library, so that ``quadsim doctor`` runs where a package lacks.
"""

from __future__ import annotations

import os
import platform
import shutil
import socket
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from quadsim._version import __version__
from quadsim.base.errors import InputError

LOCALHOST = "127.0.0.1"
_PACKAGES = ("numpy", "scipy", "numba", "rosbags", "mcap", "rclpy")
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def installed_version(package: str) -> str | None:
    """Version of an installed distribution; None if there is none."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def versions() -> dict[str, str]:
    """Versions that a result depends on."""
    found = {"quadsim": __version__, "python": platform.python_version()}
    return found | {name: v for name in _PACKAGES if (v := installed_version(name))}


def machine() -> dict[str, Any]:
    """The kind of machine a result was made on."""
    processor = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    for line in lines:
        if line.startswith("model name"):
            processor = line.partition(":")[2].strip()
            break
    return {"processor": processor, "cores": os.cpu_count(), "system": platform.platform()}


def browser() -> str | None:
    """Path of an installed Chromium or Chrome; None if there is none."""
    return next((path for name in _BROWSERS if (path := shutil.which(name))), None)


def free_port(bind: str = LOCALHOST, port: int = 0) -> int:
    """A port that nobody listens at: the one asked for, or any.

    Raises:
        InputError: it is taken.
    """
    family = socket.AF_INET6 if ":" in bind else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((bind, port))
        except OSError as error:
            raise InputError(
                f"port {port} at {bind} cannot be had ({error.strerror}); choose another with"
                " --port"
            ) from None
        return int(probe.getsockname()[1])


def load_words() -> str:
    """How busy this machine is, for who ran out of time: the load of the last minute."""
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors"
