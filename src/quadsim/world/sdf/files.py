"""The files of a world: read safely, and found where Gazebo finds them.

Nothing outside the world's folder (the folder above, where worlds lie in ``worlds``), quadsim's own
``worlds/models``, the folders that the environment names for Gazebo, and what Gazebo has downloaded
is read.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit
from xml.etree.ElementTree import Element  # the type alone

from quadsim.base.errors import InputError
from quadsim.base.files import read_limited, share_dir
from quadsim.base.xml import DocumentTypeError, XmlError, parse
from quadsim.world.sdf.values import Place

MAX_XML_BYTES = 10_000_000
#: Versions of SDF; before 1.3 a pose had another element.
OLDEST, NEWEST = 3, 12
PACKED = (".gz", ".zip", ".zae", ".3mf", ".tgz", ".bz2", ".xz", ".7z", ".tar")
#: Where Gazebo looks for models, meshes and images, its older releases included.
SEARCHED = (
    "GZ_SIM_RESOURCE_PATH",
    "IGN_GAZEBO_RESOURCE_PATH",
    "SDF_PATH",
    "GAZEBO_MODEL_PATH",
    "GAZEBO_RESOURCE_PATH",
)
SCHEMES = ("model://", "file://", "package://")


class MissingFileError(InputError):
    """What a uri names is not there."""


def read_sdf(path: Path) -> Element:
    """Root element of an SDF file.

    Raises:
        InputError: the file is missing, too large, no XML, holds a DTD or entities, or is not SDF.
    """
    refuse_packed(path.name, f"{path}")
    return sdf_root(read_limited(path, MAX_XML_BYTES), path)


def sdf_root(content: bytes | str, path: Path) -> Element:
    """Root element of SDF.

    Args:
        content: the text.
        path: where it comes from, for errors.

    Raises:
        InputError: no XML, it holds a DTD or entities, or is not SDF.
    """
    try:
        root = parse(content)
    except DocumentTypeError:
        raise InputError(
            f"{path}: it declares a document type or entities, which world files may not"
        ) from None
    except XmlError as error:
        raise InputError(f"{path}: not valid XML ({error})") from None
    version = root.get("version", "").strip()
    if root.tag != "sdf" or version not in [f"1.{n}" for n in range(OLDEST, NEWEST + 1)]:
        raise InputError(
            f"{path}: <{root.tag} version={version!r}>; allowed: <sdf> of version"
            f" 1.{OLDEST} to 1.{NEWEST}"
        )
    return root


def refuse_packed(name: str, where: str) -> None:
    """Refuse compressed files by their ending."""
    if name.lower().endswith(PACKED):
        raise InputError(f"{where}: compressed files are not read; unpack it")


def searched_folders() -> list[Path]:
    """What the environment names for Gazebo."""
    named = (os.environ.get(name, "").split(os.pathsep) for name in SEARCHED)
    return [Path(folder).expanduser() for folders in named for folder in folders if folder]


def downloads() -> Path:
    """Where Gazebo keeps what it has downloaded."""
    return Path(os.environ.get("GZ_FUEL_CACHE_PATH") or "~/.gz/fuel").expanduser()


def model_file(path: Path) -> Path:
    """The file of a model's folder: that of the newest SDF that its ``model.config`` names."""
    if path.is_file() or not (path / "model.config").is_file():
        return path if path.is_file() else path / "model.sdf"
    config = path / "model.config"
    try:
        found = parse(read_limited(config, MAX_XML_BYTES)).findall("sdf")
    except XmlError as error:
        raise InputError(f"{config}: not valid XML ({error})") from None
    numbers = {
        int(minor): (element.text or "").strip()
        for element in found
        if (minor := element.get("version", "1.0").strip().partition(".")[2]).isdecimal()
    }
    known = [n for n in numbers if n <= NEWEST]
    name = numbers[max(known)] if known else "model.sdf"
    if "/" in name or not name:
        raise InputError(f"{config}: <sdf> {name!r}; allowed: a file in its folder")
    return path / name


class WorldFiles:
    """Finds what a world's uris name.

    Args:
        world: path of the world file.
    """

    def __init__(self, world: Path) -> None:
        folder = world.resolve().parent
        #: As packages are laid out: ``worlds`` next to ``models``.
        package = folder.parent if folder.name in ("worlds", "world") else folder
        self._own = list(dict.fromkeys((folder, package)))
        self._shared_models = share_dir() / "worlds" / "models"
        self._searched = searched_folders()
        self._found: dict[tuple[Path, str], Path] = {}

    def find(self, uri: str, place: Place) -> Path:
        """Path of a local file or folder.

        Args:
            uri: ``model://NAME/...``, ``package://``, ``file://``, a path, or a model of Gazebo's
                server that Gazebo has downloaded.
            place: where it stands.

        Raises:
            InputError: it needs a download, leads elsewhere, or nothing is there.
        """
        key = (place.file.parent, uri)
        if key not in self._found:
            self._found[key] = self._look_for(uri, place)
        return self._found[key]

    def _look_for(self, uri: str, place: Place) -> Path:
        refuse_packed(uri, f"{place.file}: {', '.join(place.inside)}: <uri> {uri!r}")
        scheme = next((scheme for scheme in SCHEMES if uri.startswith(scheme)), "")
        if not scheme and "://" in uri:
            return self._downloaded(uri, place)
        path = unquote(uri.removeprefix(scheme)) if scheme == "file://" else uri[len(scheme) :]
        if not path.strip("/. "):
            raise place.error(f"<uri> {uri!r}: it names no file")
        folders = [*self._own, *self._searched, self._shared_models]
        if scheme in ("model://", "package://"):
            path = path.lstrip("/")
            models = [own / "models" for own in self._own]
            folders = [*models, *folders, *(own.parent for own in self._own[-1:])]
        else:
            folders = [place.file.parent, *folders]
        outside = False
        for folder in folders:
            there = folder / path
            if not _exists(there):
                continue
            if self._may_read(there, path):
                return there
            outside = True
        if outside:
            raise place.error(
                f"<uri> {uri!r}: it leads out of the world's folder; name the folder that it is in"
                f" in {SEARCHED[0]}"
            )
        looked = " or ".join(str(folder / path) for folder in folders[:4])
        raise MissingFileError(
            str(place.error(f"<uri> {uri[:200]!r}: no such file ({looked[:600]}, {SEARCHED[0]})"))
        )

    def _may_read(self, there: Path, path: str) -> bool:
        """Whether a path stays in the folders that may be read.

        Installed models may be links to where they were built; a world brings no such links.
        """
        trusted = (self._shared_models, *self._searched)
        if ".." not in Path(path).parts and any(there.is_relative_to(root) for root in trusted):
            return True
        real = there.resolve()
        return any(real.is_relative_to(root.resolve()) for root in (*self._own, *trusted))

    def _downloaded(self, uri: str, place: Place) -> Path:
        """What Gazebo has downloaded of its server: the newest version of a model."""
        parts = [part for part in unquote(urlsplit(uri).path).lower().split("/") if part]
        if "models" in parts[1:-1] and ".." not in parts:
            i = parts.index("models", 1)
            owner = parts[i - 1] if parts[i - 1] != "fuel" else parts[i - 2]
            found = downloads().glob(f"*/{_exactly(owner)}/models/{_exactly(parts[i + 1])}/*")
            versions = [folder for folder in found if folder.name.isdecimal()]
            if versions:
                newest = max(versions, key=lambda folder: int(folder.name))
                files = unquote(urlsplit(uri).path).partition("/files/")[2]
                if _exists(newest / files) and (newest / files).resolve().is_relative_to(
                    downloads().resolve()
                ):
                    return newest / files
        raise place.error(
            f"<uri> {uri[:200]!r}: only local files are read, nothing is downloaded; put the model"
            " into models/NAME in the folder of the world and write model://NAME, or let Gazebo"
            " download it"
        )


def _exactly(name: str) -> str:
    """A name for which alone a pattern stands."""
    return "".join(f"[{sign}]" if sign in "*?[" else sign for sign in name)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, RuntimeError, ValueError):
        return False
