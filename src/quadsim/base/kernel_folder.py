"""The folder of the compiled kernels, chosen and looked at when the package is imported.

Numba keeps kernels as pickles next to machine code: whoever may write the folder runs code as its
reader. So it is made for its owner alone, and one that others may write is not used.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
#: Kernels that came with the package; ``python -m quadsim.precompile ARCHIVE`` makes it.
SHIPPED = PACKAGE / "kernels.zip.xz"
#: Processor for which they are compiled, by the machine's architecture, and what it has to have,
#: in the words of /proc/cpuinfo.
BASELINES = {
    "x86_64": ("x86-64-v3", "abm avx avx2 bmi1 bmi2 f16c fma movbe xsave"),
    "aarch64": ("generic", ""),
}
CPUINFO = Path("/proc/cpuinfo")
#: Packages of the compiler, and the file that tells their version.
COMPILERS = {"numba": "_version.py", "llvmlite": "_version.py", "numpy": "version.py"}
#: Room that the kernels of all commands take.
NEEDED_BYTES = 200_000_000


def _sources_digest() -> str:
    """SHA-256 of every file that may hold a kernel which another file calls."""
    digest = hashlib.sha256(sys.version.encode())
    for source in sorted(PACKAGE.rglob("*.py")):
        if source.relative_to(PACKAGE).parts[0] not in ("ros", "cli"):
            digest.update(source.read_bytes())
    return digest.hexdigest()


def _compiler_digest() -> str:
    """SHA-256 of what kernels depend on besides their sources, as text that needs no import.

    Numba tells kernels of other processors apart itself.
    """
    digest = hashlib.sha256(sys.version.encode())
    for package, file in COMPILERS.items():
        spec = find_spec(package)
        for place in (spec and spec.submodule_search_locations) or ():
            with suppress(OSError):
                digest.update((Path(place) / file).read_bytes())
    return digest.hexdigest()


def choose_folder() -> None:
    """Tell Numba its folder: one for all installations with one compiler; a user's stays.

    In it :mod:`quadsim.base.kernel_cache` keeps kernels by the content of their sources.

    Numba reads the variables when it is first imported; after that this changes nothing.

    Raises:
        SystemExit: others may write the folder, or neither it nor a temporary one can be written.
    """
    if "numba" in sys.modules:
        if "NUMBA_CACHE_DIR" in os.environ:
            refuse_if_unsafe(Path(os.environ["NUMBA_CACHE_DIR"]))
        return
    os.environ.setdefault("NUMBA_CACHE_LOCATOR_CLASSES", "quadsim.base.kernel_cache.SourcesLocator")
    name, chosen = f"kernels-{_compiler_digest()[:16]}", os.environ.get("NUMBA_CACHE_DIR")
    given = os.environ.get("XDG_CACHE_HOME")  # others may be meant to read it
    try:
        folder = Path(chosen or Path(given or Path.home() / ".cache") / "quadsim" / name)
        if not given and not chosen:
            make_private(folder)
        refuse_if_unsafe(folder)
        why = _why_unwritable(folder)
    except RuntimeError:
        why = "you have no home"
    if why:
        folder = use_temporary(name, why)
    elif chosen:
        return  # also where the process that started this one has chosen it
    os.environ["NUMBA_CACHE_DIR"] = str(folder)
    if SHIPPED.is_file() and "NUMBA_CPU_NAME" not in os.environ:
        use_shipped(folder)


# ---- where a home cannot be written ------------------------------------------------------------


def _why_unwritable(folder: Path) -> str:
    """Why no kernels can be stored in a folder; empty: they can."""
    try:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        left = os.statvfs(folder)
    except OSError as error:
        return f"{folder} cannot be made ({error.strerror})"
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"{folder} cannot be written"
    left_bytes = left.f_bavail * left.f_frsize
    if left_bytes < NEEDED_BYTES and not any(folder.iterdir()):
        return f"{folder} has room for {left_bytes // 1_000_000} MB, and they take 200"
    return ""


def own_temporary(name: str) -> Path:
    """A folder of the user's own among the temporary files; a new one if its name is another's.

    Raises:
        OSError: there is no place for temporary files.
    """
    import tempfile  # here, as it takes 10 ms to import

    folder = Path(tempfile.gettempdir()) / f"quadsim-{os.getuid()}" / name
    make_private(folder)
    return Path(tempfile.mkdtemp(prefix="quadsim-")) if _why_unsafe(folder) else folder


def use_temporary(name: str, why: str) -> Path:
    """Take :func:`own_temporary`, and say so in one line.

    The processes that this one starts find it in ``NUMBA_CACHE_DIR``, and later commands by its
    name.

    Raises:
        SystemExit: it cannot be written either.
    """
    try:
        folder = own_temporary(name)
        nearby = _why_unwritable(folder)
    except OSError as error:
        nearby = str(error.strerror)
    if nearby:
        sys.stderr.write(
            f"quadsim: error: no room for compiled kernels: {why}; {nearby}; set NUMBA_CACHE_DIR to"
            " a folder that can be written\n"
        )
        raise SystemExit(2)
    sys.stderr.write(f"quadsim: compiled kernels are in {folder}: {why}\n")
    return folder


# ---- kernels of the wheel ----------------------------------------------------------------------


def baseline() -> tuple[str, str] | None:
    """Processor and features for which shipped kernels are compiled, in Numba's words.

    Returns:
        None if this processor has less, or is of another kind.
    """
    name, needed = BASELINES.get(os.uname().machine, ("", ""))
    with suppress(OSError):
        for line in CPUINFO.read_text().splitlines():
            key, _, value = line.partition(":")
            if name and key.strip() in ("flags", "Features"):
                return (name, "") if {*needed.split()} <= {*value.split()} else None
    return None


def use_shipped(folder: Path) -> None:
    """Unpack the kernels that came with the package, once, and have Numba take them.

    Numba takes a kernel that was compiled for the processor it is told, so all are compiled for the
    wheel's from then on. Where the processor has less they are compiled for it, as ever.
    """
    processor = baseline()
    if processor is None:
        return
    facts = SHIPPED.stat()
    mark = folder / f"shipped-{facts.st_size}-{facts.st_mtime_ns}"
    if not mark.is_file():
        import lzma  # here, as these take 10 ms to import
        from io import BytesIO
        from zipfile import ZipFile

        try:
            with ZipFile(BytesIO(lzma.decompress(SHIPPED.read_bytes()))) as archive:
                archive.extractall(folder)
            mark.touch()
            set_filled()
        except OSError:
            return  # nothing can be written there
    os.environ["NUMBA_CPU_NAME"], os.environ["NUMBA_CPU_FEATURES"] = processor


# ---- who may write it --------------------------------------------------------------------------


def make_private(folder: Path) -> None:
    """Make a folder of ours, with the one above it, for its owner alone.

    One that is the user's and in which others may write something is emptied, and that is reported.
    """
    with suppress(OSError):  # where nothing can be written Numba reports it
        folder.parent.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        for ours in (folder.parent, folder):
            ours.mkdir(mode=0o700, exist_ok=True)
            found = ours.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
                return
            if ours == folder and found.st_mode & 0o077 and (why := _why_content(folder, found)):
                from shutil import rmtree  # here, as it takes 2 ms to import

                rmtree(folder)
                folder.mkdir(mode=0o700)
                sys.stderr.write(f"quadsim: kernels are compiled anew: {why}\n")
            elif found.st_mode & 0o077:
                ours.chmod(0o700)


def refuse_if_unsafe(folder: Path) -> None:
    """End the process, with one line and status 2, where others may write the folder.

    This is while the package is imported, so that no command is there yet to catch an error.
    """
    why = _why_unsafe(folder)
    if why:
        sys.stderr.write(
            f"quadsim: error: {why}, and compiled kernels in it would run as you; remove them and"
            f" the permission (chmod -R go-w), or set NUMBA_CACHE_DIR to a folder of your own\n"
        )
        raise SystemExit(2)


def _why_unsafe(folder: Path) -> str:
    """Who else may write the folder, what is in it, or what is above it; empty: nobody."""
    above = {*folder.absolute().parents, *Path(os.path.realpath(folder)).parents}
    for place in above:
        found = _found(place)
        sticky = found is not None and found.st_mode & stat.S_ISVTX
        if found is not None and (why := _whose(place, found, bool(sticky))):
            return why
    found = _found(folder)
    return _why_content(folder, found) if found is not None else ""


def _why_content(folder: Path, found: os.stat_result) -> str:
    """Who else may write the folder, or what is in it; empty: nobody."""
    if why := _whose(folder, found):
        return why
    if not found.st_mode & 0o077:
        return ""  # nobody else gets at what is in it
    return next((why for place, inside in _inside(folder) if (why := _whose(place, inside))), "")


def _found(place: Path) -> os.stat_result | None:
    try:
        return place.stat()
    except OSError:
        return None


def _inside(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """All files and folders in a folder."""
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        with suppress(OSError):
            yield Path(entry.path), entry.stat()
            if entry.is_dir(follow_symlinks=False):
                yield from _inside(Path(entry.path))


def _whose(place: Path, found: os.stat_result, sticky: bool = False) -> str:
    """Why others may write it; empty: they may not.

    Args:
        place: file or folder.
        found: what it is.
        sticky: whether others cannot replace what is not theirs in it.
    """
    if found.st_uid not in (os.getuid(), 0):
        return f"{place} belongs to user {found.st_uid}"
    if sticky or not found.st_mode & 0o022:
        return ""
    if not found.st_mode & stat.S_IWOTH and _is_own_group(found.st_gid):
        return ""
    return f"others may write {place} (mode {stat.S_IMODE(found.st_mode):o})"


def _is_own_group(number: int) -> bool:
    """Whether a group is the user's own, as many systems make one for each user."""
    import grp  # here, as few need it
    import pwd

    try:
        group, user = grp.getgrgid(number), pwd.getpwuid(os.getuid())
    except KeyError:
        return False
    return number == user.pw_gid and group.gr_name == user.pw_name and not group.gr_mem


# ---- what is in it -----------------------------------------------------------------------------


def _filled_mark() -> Path:
    """The file that reports that the folder holds the kernels of these sources."""
    return Path(os.environ.get("NUMBA_CACHE_DIR", "/")) / f"sources-{_sources_digest()[:16]}"


def is_filled() -> bool:
    """Whether the folder holds the kernels of these sources."""
    return _filled_mark().is_file()


def set_filled() -> None:
    """Note that the folder holds them now; nothing is noted where there is none."""
    if "NUMBA_CACHE_DIR" in os.environ:
        with suppress(OSError):
            mark = _filled_mark()
            mark.parent.mkdir(parents=True, exist_ok=True)
            mark.touch()
