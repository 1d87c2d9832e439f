"""Where the configuration files are, in a checkout, in a wheel and in a colcon workspace."""

from __future__ import annotations

import os
from pathlib import Path

from quadsim.base.errors import InputError, did_you_mean

#: More names than these are not listed in an error; so many of them are alike.
MOST_NAMES, MOST_NEAR = 20, 5

#: What is read as a bag, in words.
BAGS = (
    "a rosbag2 folder, a .mcap or .db3 file (compressed: .mcap.zstd, .db3.zstd), a .bag of ROS 1,"
    " or a log (docs/logs.md)"
)


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


def config_dirs(kind: str) -> list[Path]:
    """Folders of files of a kind: the shipped one, ``config/<kind>`` here, and the user's own."""
    own = Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "quadsim"
    return [share_dir() / "config" / kind, Path("config") / kind, own / kind]


def known(kind: str) -> list[str]:
    """Names of the files of a kind, without the ending."""
    return sorted({path.stem for folder in config_dirs(kind) for path in folder.glob("*.yaml")})


def _one_of(kind: str) -> str:
    """What one file of ``config/<kind>`` is called."""
    name = kind.rpartition("/")[2]
    return f"{name.removesuffix('ies')}y" if name.endswith("ies") else name.rstrip("s")


def find(kind: str, name: str) -> Path:
    """Path of a configuration file, by its name or by its own path.

    A name means the first of :func:`config_dirs` that has it, so no file of the user's takes the
    place of a shipped one.

    Raises:
        InputError: naming what was asked for and what there is.
    """
    if name.endswith((".yaml", ".yml")) or "/" in name:
        path = Path(name).expanduser()
        if not path.is_file():
            raise InputError(f"{name}: no such file")
        return path
    for folder in config_dirs(kind):
        if (folder / f"{name}.yaml").is_file():
            return folder / f"{name}.yaml"
    raise InputError(
        f"unknown {_one_of(kind)} {name!r}{did_you_mean(name, known(kind))};"
        f" {_known_words(kind, name)} (or give the path of a .yaml file)"
    )


def _known_words(kind: str, name: str) -> str:
    """What there is: all names, or where they are many those alike and how to list the others."""
    names = known(kind)
    if len(names) <= MOST_NAMES:
        return f"known: {', '.join(names)}"
    from difflib import get_close_matches  # here, as it takes 3 ms to import

    near = get_close_matches(name, names, MOST_NEAR, 0.4)
    alike = f"known: {', '.join(near)}; all" if near else "all"
    folders = dict.fromkeys(
        str(folder.resolve()) for folder in config_dirs(kind) if folder.is_dir()
    )
    return f"{alike} {len(names)}: ls {' '.join(folders)}"


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
            f"unknown world {name!r}{did_you_mean(name, known_worlds())};"
            f" known: {', '.join(known_worlds())}"
            " (or give the path of an .sdf file)"
        )
    return path


def missing_bag(path: Path) -> InputError:
    """The error for a bag that is not there."""
    return InputError(f"{path}: no such bag; give {BAGS}")


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
