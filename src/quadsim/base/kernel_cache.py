"""Which compiled kernels are still those of the sources.

Numba compares a function's own file with the one that it was compiled from, and does not notice
that a function which it calls changed in another. Here a kernel is compiled anew where its file, or
anything that this imports from the package, directly or not, has changed. Numba takes the class by
``NUMBA_CACHE_LOCATOR_CLASSES`` (from 0.62 on); the package sets that when it is imported.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from numba.core.caching import UserProvidedCacheLocator

PACKAGE = Path(__file__).parents[1]

_IMPORT = re.compile(
    r"^[ \t]*(?:from (quadsim[\w.]*) import (\([^)]*\)|[^\n]*)|import (quadsim[\w.]*))",
    re.MULTILINE,
)


def _file_of(module: str) -> Path | None:
    """Source of a module or package of ours; None if it is neither."""
    path = PACKAGE.joinpath(*module.split(".")[1:])
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None


#: A module whose name is made of a table's: any of its package.
_ANY = re.compile(r'import_module\(f"quadsim\.([\w.]+)\.{')


@cache
def _read(path: Path) -> tuple[bytes, tuple[Path, ...]]:
    """Digest of a file, and the files of the package that it imports."""
    content = path.read_bytes()
    modules = set()
    for package, names, module in _IMPORT.findall(content.decode()):
        modules.add(package or module)
        # a name may be a module of its own
        modules |= {f"{package}.{name}" for name in re.findall(r"\w+", names)}
    found = {file for file in map(_file_of, modules) if file is not None}
    for package in _ANY.findall(content.decode()):
        found |= {*PACKAGE.joinpath(*package.split(".")).glob("*.py")}
    return hashlib.sha256(content).digest(), tuple(sorted(found))


@cache
def sources_digest(path: Path) -> str:
    """SHA-256 of a file with every file of the package that it imports, directly or not."""
    seen: set[Path] = set()
    ahead = [path]
    while ahead:
        file = ahead.pop()
        if file not in seen:
            seen.add(file)
            ahead += _read(file)[1]
    content = hashlib.sha256()
    for file in sorted(seen):
        content.update(_read(file)[0])
    return content.hexdigest()


#: Kernels of other sources are removed once nobody has loaded them for this time: other versions
#: that are installed, and other branches, share the folder.
OLD_S = 3 * 86400.0
#: Folders that exist and can be written.
_WRITABLE: set[str] = set()


@cache
def _folder(of_file: str, module: str, file: Path) -> str:
    """Where kernels of a file lie; Numba's own choice for it is ``of_file``."""
    # a cached kernel is loaded as of its module, and a user's may have several names
    folder = Path(of_file) / module
    if file.is_relative_to(PACKAGE):  # a place that does not say where the package lies
        above = Path(os.environ["NUMBA_CACHE_DIR"])
        folder = above / file.relative_to(PACKAGE).with_suffix("")
    return str(folder / sources_digest(file)[:16])


class SourcesLocator(UserProvidedCacheLocator):
    """A folder for each state of the sources that a kernel depends on.

    Numba compares a stamp in the file of a cached kernel, but it unpickles the file first. That
    fails where a module in it was renamed, so kernels of older sources lie elsewhere.
    """

    def __init__(self, py_func: Any, py_file: str) -> None:
        super().__init__(py_func, py_file)  # type: ignore[no-untyped-call]
        self._cache_path = _folder(self._cache_path, py_func.__module__, Path(py_file))
        note_use(self._cache_path)

    def ensure_cache_path(self) -> None:
        """Make the folder, once in a process, and remove those of older sources."""
        folder: str = self._cache_path
        if folder in _WRITABLE:
            return
        if not os.access(folder, os.W_OK):
            super().ensure_cache_path()  # type: ignore[no-untyped-call]
            remove_old(Path(folder))
        _WRITABLE.add(folder)

    def get_source_stamp(self) -> str:
        """What a compiled kernel is compared by."""
        return sources_digest(Path(self._py_file))


@cache
def note_use(folder: str) -> None:
    """Note in the folder's time that its kernels are loaded."""
    with suppress(OSError):
        os.utime(folder)


def remove_old(folder: Path) -> None:
    """Remove the other folders of its parent that nobody has used for :data:`OLD_S`."""
    for other in folder.parent.iterdir():
        with suppress(OSError):  # another process removes it too
            if other != folder and time.time() - other.stat().st_mtime > OLD_S:
                shutil.rmtree(other)
