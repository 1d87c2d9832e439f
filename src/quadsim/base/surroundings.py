"""What a result was made with: versions, machine, and what the machine offers.

It imports nothing but the standard library, so that ``quadsim doctor`` runs where a package lacks.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import socket
from importlib.metadata import PackageNotFoundError, requires, version
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


def misfits() -> list[str]:
    """Installed packages whose version is none that quadsim needs: one line for each."""
    try:
        needs = requires("quadsim") or []
    except PackageNotFoundError:
        return []
    found = []
    for need in needs:
        name, limits = re.split(r"(?=[<>=~!;\[ ])", need, maxsplit=1) if ">" in need else (need, "")
        there = None if "extra ==" in need else installed_version(name)
        bounds = re.findall(r"(>=|<)([\d.]+)", limits.partition(";")[0])
        numbers = [(sign, _numbers(bound)) for sign, bound in bounds]
        if there is not None and any(
            (_numbers(there) >= bound) != (sign == ">=") for sign, bound in numbers
        ):
            wanted = ",".join(sign + bound for sign, bound in bounds)
            found.append(f"{name} {there}: pip install '{name}{wanted}'")
    return found


def need_compiler() -> None:
    """Refuse to compile with a Numba that would not come to an end.

    Raises:
        InputError: naming what is installed, and the remedy.
    """
    for line in misfits():
        if line.startswith("numba "):
            raise InputError(f"{line} (docs/install.md): its kernels would not compile")


def _numbers(version_: str) -> tuple[int, ...]:
    """The leading numbers of a version."""
    found = re.match(r"\d+(?:\.\d+)*", version_)
    return tuple(int(part) for part in found.group().split(".")) if found else ()


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
