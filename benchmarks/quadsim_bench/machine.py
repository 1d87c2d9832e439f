"""Where and when figures were measured: processor, load, versions, commit."""

from __future__ import annotations

import os
import subprocess
from datetime import datetime, timezone
from typing import Any

from quadsim.base.errors import InputError
from quadsim.base.files import share_dir
from quadsim.base.surroundings import machine, versions


def commit() -> str | None:
    """Commit of the checkout that is measured, ``+`` behind it where files differ; else None."""
    try:
        root = share_dir()
        if not (root / ".git").exists():
            return None  # installed, or inside a checkout of something else
        head = _git("rev-parse", "--short=12", "HEAD")
        return head + ("+" if _git("status", "--porcelain") else "")
    except (InputError, OSError, subprocess.SubprocessError):
        return None


def _git(*arguments: str) -> str:
    """What git says of the checkout."""
    done = subprocess.run(
        ["git", "-C", share_dir(), *arguments],
        capture_output=True,
        text=True,
        timeout=20.0,
        check=True,
    )
    return done.stdout.strip()


def load() -> list[float]:
    """Mean number of programs that wanted a processor in the last 1, 5 and 15 minutes."""
    return [round(value, 2) for value in os.getloadavg()]


def surroundings() -> dict[str, Any]:
    """What figures depend on, as it is now."""
    return {
        "machine": machine() | {"cores_allowed": len(os.sched_getaffinity(0))},
        "versions": versions(),
        "commit": commit(),
        "began": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "load_before": load(),
    }
