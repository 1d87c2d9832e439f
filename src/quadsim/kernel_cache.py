"""Which compiled kernels are still those of the sources.

Numba compares a function's own file with the one that it was compiled from, and does not notice
that a function which it calls changed in another. Here a kernel is compiled anew where its file, or
anything that this imports from the package, directly or not, has changed. Numba takes the class by
``NUMBA_CACHE_LOCATOR_CLASSES`` (from 0.62 on); the package sets that when it is imported.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path

from numba.core.caching import UserProvidedCacheLocator

PACKAGE = Path(__file__).parent

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


@cache
def _read(path: Path) -> tuple[bytes, tuple[Path, ...]]:
    """Digest of a file, and the files of the package that it imports."""
    content = path.read_bytes()
    modules = set()
    for package, names, module in _IMPORT.findall(content.decode()):
        modules.add(package or module)
        # a name may be a module of its own
        modules |= {f"{package}.{name}" for name in re.findall(r"\w+", names)}
    found = sorted(file for file in map(_file_of, modules) if file is not None)
    return hashlib.sha256(content).digest(), tuple(found)


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


class SourcesLocator(UserProvidedCacheLocator):
    """Numba's folder as ever; what is kept there holds as long as the sources are the same."""

    def get_source_stamp(self) -> str:
        """What a compiled kernel is compared by."""
        return sources_digest(Path(self._py_file))
