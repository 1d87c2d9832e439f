"""Where the configuration files are, in a checkout, in a wheel and in a colcon workspace."""

from __future__ import annotations

from pathlib import Path

from quadsim.base.errors import InputError


def share_dir() -> Path:
    """Folder that holds ``config``, ``worlds`` and ``launch``."""
    here = Path(__file__).resolve()
    checkout = here.parents[3]
    if here.parents[2].name == "src" and (checkout / "config").is_dir():
        return checkout
    for parent in here.parents:  # <prefix>/lib/python3.x/site-packages/quadsim
        share = parent / "share" / "quadsim"
        if (share / "config").is_dir():
            return share
    raise InputError("the folder share/quadsim with config/ is missing; install quadsim again")


def known(kind: str) -> list[str]:
    """Names of the files in ``config/<kind>``, without the ending."""
    return sorted(path.stem for path in (share_dir() / "config" / kind).glob("*.yaml"))


def _one_of(kind: str) -> str:
    """What one file of ``config/<kind>`` is called."""
    name = kind.rpartition("/")[2]
    return f"{name.removesuffix('ies')}y" if name.endswith("ies") else name.rstrip("s")


def find(kind: str, name: str) -> Path:
    """Path of a configuration file, by its name in ``config/<kind>`` or by its own path.

    Raises:
        InputError: naming what was asked for and what there is.
    """
    if name.endswith((".yaml", ".yml")) or "/" in name:
        path = Path(name).expanduser()
        if not path.is_file():
            raise InputError(f"{name}: no such file")
        return path
    path = share_dir() / "config" / kind / f"{name}.yaml"
    if not path.is_file():
        raise InputError(
            f"unknown {_one_of(kind)} {name!r};"
            f" known: {', '.join(known(kind))}"
            " (or give the path of a .yaml file)"
        )
    return path


def known_worlds() -> list[str]:
    """Names of the files in ``worlds``, without the ending."""
    return sorted(path.stem for path in (share_dir() / "worlds").glob("*.sdf"))


def find_world(name: str) -> Path:
    """Path of a world, by its name in ``worlds`` or by its own path.

    Raises:
        InputError: naming what was asked for and what there is.
    """
    if name.endswith((".sdf", ".world")) or "/" in name:
        path = Path(name).expanduser()
        if not path.is_file():
            raise InputError(f"{name}: no such file")
        return path
    path = share_dir() / "worlds" / f"{name}.sdf"
    if not path.is_file():
        raise InputError(
            f"unknown world {name!r}; known: {', '.join(known_worlds())}"
            " (or give the path of an .sdf file)"
        )
    return path


def read_limited(path: Path, max_bytes: int) -> bytes:
    """Content of a file that nobody vouches for.

    Raises:
        InputError: the file is missing, unreadable, or larger than that.
    """
    try:
        if not path.is_file():
            raise InputError(f"{path}: no such file")
        with path.open("rb") as file:
            content = file.read(max_bytes + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    if len(content) > max_bytes:
        raise InputError(f"{path}: too large; allowed: {max_bytes / 1e6:g} MB")
    return content
