"""The folder of the compiled kernels, chosen when the package is imported."""

from __future__ import annotations

import hashlib
import os
import sys
from contextlib import suppress
from importlib.machinery import PathFinder
from pathlib import Path

PACKAGE = Path(__file__).parent

#: The first Numba that asks :mod:`quadsim.kernel_cache` whether a kernel is old.
FIRST_THAT_ASKS = (0, 62)


def _sources_digest() -> str:
    """SHA-256 of every file that may hold a kernel which another file calls."""
    digest = hashlib.sha256(sys.version.encode())
    for source in sorted(PACKAGE.rglob("*.py")):
        if source.relative_to(PACKAGE).parts[0] not in ("nodes", "cli", "bench"):
            digest.update(source.read_bytes())
    return digest.hexdigest()


def _numba_version() -> tuple[int, ...]:
    """Of the Numba that would be imported; (0, 0) if there is none.

    By the name of its metadata beside it: to import what reads metadata takes longer than
    ``quadsim --help`` does otherwise.
    """
    found = PathFinder.find_spec("numba")
    if found is None or found.origin is None:
        return (0, 0)
    for folder in Path(found.origin).parents[1].glob("numba-*-info"):
        numbers = folder.name.removeprefix("numba-").split(".")[:2]
        if all(number.isdecimal() for number in numbers):
            return tuple(map(int, numbers))
    return (0, 0)


def choose_folder() -> None:
    """Tell Numba its folder: one for each place where the package lies.

    A Numba that asks nobody whether a kernel is old gets a folder for exactly these sources. Numba
    reads the variables when it is first imported; after that this changes nothing.
    """
    if "numba" in sys.modules:
        return
    if _numba_version() >= FIRST_THAT_ASKS:
        key = hashlib.sha256(f"{PACKAGE} {sys.version}".encode()).hexdigest()
        os.environ.setdefault("NUMBA_CACHE_LOCATOR_CLASSES", "quadsim.kernel_cache.SourcesLocator")
    else:
        key = _sources_digest()
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    os.environ.setdefault("NUMBA_CACHE_DIR", str(root / "quadsim" / f"kernels-{key[:16]}"))


def is_filled() -> bool:
    """Whether the folder holds the kernels of these sources."""
    mark = Path(os.environ.get("NUMBA_CACHE_DIR", "/")) / "sources"
    return mark.is_file() and mark.read_text() == _sources_digest()


def set_filled() -> None:
    """Note that the folder holds them now; nothing is noted where there is none."""
    folder = os.environ.get("NUMBA_CACHE_DIR")
    if folder:
        with suppress(OSError):
            Path(folder).mkdir(parents=True, exist_ok=True)
            (Path(folder) / "sources").write_text(_sources_digest())
