"""The files of a world: read safely, from its own folder and ``worlds/models`` alone."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from xml.etree.ElementTree import Element, ParseError  # types alone: defusedxml parses

import defusedxml
import defusedxml.ElementTree

from quadsim.base.errors import InputError
from quadsim.base.files import read_limited, share_dir
from quadsim.world.sdf.values import Place

MAX_XML_BYTES = 10_000_000
VERSIONS = ("1.6", "1.7", "1.8", "1.9", "1.10", "1.11", "1.12")
PACKED = (".gz", ".zip", ".zae", ".3mf", ".tgz", ".bz2", ".xz", ".7z", ".tar")


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
        root: Element = defusedxml.ElementTree.fromstring(content, forbid_dtd=True)
    except defusedxml.DefusedXmlException:
        raise InputError(
            f"{path}: it declares a document type or entities, which world files may not"
        ) from None
    except (ParseError, LookupError, ValueError) as error:
        raise InputError(f"{path}: not valid XML ({error})") from None
    version = root.get("version", "")
    if root.tag != "sdf" or version not in VERSIONS:
        raise InputError(
            f"{path}: <{root.tag} version={version!r}>; allowed: <sdf> of version"
            f" {VERSIONS[0]} to {VERSIONS[-1]}"
        )
    return root


def refuse_packed(name: str, where: str) -> None:
    """Refuse compressed files by their ending."""
    if name.lower().endswith(PACKED):
        raise InputError(f"{where}: compressed files are not read; unpack it")


class WorldFiles:
    """Finds what a world's uris name.

    Args:
        world: path of the world file.
    """

    def __init__(self, world: Path) -> None:
        self._folder = world.resolve().parent
        self._shared_models = share_dir() / "worlds" / "models"
        self._found: dict[tuple[Path, str], Path] = {}

    def find(self, uri: str, place: Place) -> Path:
        """Path of a local file or folder.

        Args:
            uri: ``model://NAME/...``, or relative to the file in which it stands.
            place: where it stands.

        Raises:
            InputError: a remote, absolute or outward path, or nothing is there.
        """
        key = (place.file.parent, uri)
        if key not in self._found:
            self._found[key] = self._look_for(uri, place)
        return self._found[key]

    def _look_for(self, uri: str, place: Place) -> Path:
        refuse_packed(uri, f"{place.file}: {', '.join(place.inside)}: <uri> {uri!r}")
        if uri.startswith("model://"):
            uri_path = PurePosixPath(uri.removeprefix("model://"))
            folders = [self._folder / "models", self._shared_models]
        elif ":" in uri:
            raise place.error(
                f"<uri> {uri!r}: only local files are read; put the model into"
                " worlds/models/NAME and write model://NAME"
            )
        else:
            uri_path, folders = PurePosixPath(uri), [place.file.parent]
        if uri_path.is_absolute() or ".." in uri_path.parts or not uri_path.parts:
            raise place.error(f"<uri> {uri!r}: it must stay in the world's folder, without '..'")
        for folder in folders:
            if self._is_there(folder / uri_path, uri, place):
                return folder / uri_path
        looked = " or ".join(str(folder / uri_path) for folder in folders)
        raise MissingFileError(str(place.error(f"<uri> {uri!r}: no such file ({looked})")))

    def _is_there(self, path: Path, uri: str, place: Place) -> bool:
        try:
            if not path.exists():
                return False
            # Installed models may be links to where they were built; a world brings no such links.
            own = path.is_relative_to(self._shared_models)
            if not own and not path.resolve().is_relative_to(self._folder):
                raise place.error(f"<uri> {uri!r}: it leads out of the world's folder")
        except (OSError, RuntimeError):
            return False
        return True
