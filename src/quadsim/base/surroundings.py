"""What a result was made with: versions, machine, and what the machine offers.

It imports nothing but the standard library, so that ``quadsim doctor`` runs where a package lacks.
"""

from __future__ import annotations

import os
import platform
import shutil
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from quadsim import __version__

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
