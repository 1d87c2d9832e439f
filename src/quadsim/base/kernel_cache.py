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


#: Time after which kernels of older sources are removed. A process that still runs them may want
#: to add one.
OLD_S = 3600.0
#: Folders that exist and can be written.
_WRITABLE: set[str] = set()


class SourcesLocator(UserProvidedCacheLocator):
    """A folder for each state of the sources that a kernel depends on.

    Numba compares a stamp in the file of a cached kernel, but it unpickles the file first. That
    fails where a module in it was renamed, so kernels of older sources lie elsewhere.
    """

    def __init__(self, py_func: Any, py_file: str) -> None:
        super().__init__(py_func, py_file)  # type: ignore[no-untyped-call]
        file = Path(py_file)
        # a cached kernel is loaded as of its module, and a user's may have several names
        folder = Path(self._cache_path) / py_func.__module__
        if file.is_relative_to(PACKAGE):  # a place that does not say where the package lies
            above = Path(os.environ["NUMBA_CACHE_DIR"])
            folder = above / file.relative_to(PACKAGE).with_suffix("")
        self._cache_path = str(folder / sources_digest(file)[:16])

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


def remove_old(folder: Path) -> None:
    """Remove the folders beside this one that nothing was added to for :data:`OLD_S`."""
    for other in folder.parent.iterdir():
        with suppress(OSError):  # another process removes it too
            if other != folder and time.time() - other.stat().st_mtime > OLD_S:
                shutil.rmtree(other)


@cache
def lean_library() -> Any:
    """Class of loaded kernels of which LLVM's own form is parsed when a caller is compiled.

    The cache keeps it beside the code, for the kernels that call this one. Numba parses it whenever
    it loads the code, which is two thirds of the time to load.

    Raises:
        ImportError, AttributeError: this Numba lacks what is changed here, none of which is public.
    """
    from llvmlite import binding as llvm
    from numba.core.codegen import JITCodeLibrary, JitEngine

    _ = JITCodeLibrary._unserialize, JITCodeLibrary._get_module_for_linking
    _ = JITCodeLibrary.get_pointer_to_function, JitEngine._load_defined_symbols
    no_code = bytes(llvm.parse_assembly("").as_bitcode())

    class LoadedLibrary(JITCodeLibrary):
        """A kernel's code."""

        _unparsed: bytes | None = None

        @classmethod
        def _unserialize(cls, codegen: Any, state: Any) -> Any:
            name, kind, data = state
            if kind != "object":
                return super()._unserialize(codegen, state)  # type: ignore[no-untyped-call]
            machine_code, bitcode = data
            self: Any = super()._unserialize(  # type: ignore[no-untyped-call]
                codegen, (name, kind, (machine_code, no_code))
            )
            self._shared_module, self._unparsed = None, bitcode
            return self

        def get_pointer_to_function(self, name: str) -> Any:
            """Address of a function of the kernel's own; 0 if it has none of that name."""
            if self._unparsed is not None and name.encode() in self._unparsed:
                self._codegen._engine._defined_symbols.add(name)
            return super().get_pointer_to_function(name)  # type: ignore[no-untyped-call]

        def _get_module_for_linking(self) -> Any:
            if self._unparsed is not None:
                self._shared_module = llvm.parse_bitcode(self._unparsed)
                engine: Any = self._codegen._engine
                engine._load_defined_symbols(self._shared_module)
                self._unparsed = None
            return super()._get_module_for_linking()  # type: ignore[no-untyped-call]

    return LoadedLibrary


def load_lean() -> None:
    """Let Numba load kernels by :func:`lean_library`: 0.4 s of each start."""
    with suppress(ImportError, AttributeError):  # else they are loaded as ever
        from numba.core.codegen import JITCPUCodegen

        _ = JITCPUCodegen._library_class
        JITCPUCodegen._library_class = lean_library()


load_lean()
