"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from quadsim.base.errors import InputError


@contextmanager
def whole_file(path: Path, mode: str = "w") -> Iterator[IO[Any]]:
    """A file to write through a temporary one next to it and a rename; folders are made.

    Args:
        path: where it is when the block has ended without an error.
        mode: ``w`` or ``wb``.

    Raises:
        InputError: naming the path and the reason; nothing is left behind.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open(mode, encoding=None if "b" in mode else "utf-8") as file:
            yield file
        temporary.replace(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from None
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file as :func:`whole_file` does."""
    if isinstance(content, str):
        content = content.encode(errors="replace")  # names of files need not be UTF-8
    with whole_file(path, "wb") as file:
        file.write(content)
