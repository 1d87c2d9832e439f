"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from quadsim.base.errors import InputError


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file through a temporary one next to it and a rename; folders are made.

    Raises:
        InputError: naming the path and the reason; nothing is left behind.
    """
    if isinstance(content, str):
        content = content.encode(errors="replace")  # names of files need not be UTF-8
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from None
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise InputError(f"{path}: cannot be written ({error.strerror})") from None
