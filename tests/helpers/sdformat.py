"""Gazebo's own reader of SDF, libsdformat, where it is installed.

Its package has no command in Debian, but the library has the one that ``gz sdf --check`` calls.
``QUADSIM_SDFORMAT`` names a library elsewhere, as ``.ci/sdformat`` prints it.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from ctypes.util import find_library
from pathlib import Path

#: Fortress has 12, Harmonic 14, Ionic 15, Jetty 16.
VERSIONS = (12, 13, 14, 15, 16)

CHECK = """
import ctypes, sys
check = ctypes.CDLL(sys.argv[1]).cmdCheck
for path in sys.argv[2:]:
    print(f"quadsim {check(path.encode())} {path}", flush=True)
"""


def library() -> str | None:
    """Name or path of the library, if there is one."""
    given = os.environ.get("QUADSIM_SDFORMAT")
    if given:
        return given
    names = (find_library(f"sdformat{version}") for version in VERSIONS)
    return next((name for name in names if name), None)


def faults_of(files: Sequence[Path], models: Path) -> Mapping[Path, str]:
    """What the library finds wrong with files; nothing where all are valid.

    Args:
        files: of worlds and models.
        models: folder in which ``model://`` is looked for.
    """
    path = library()
    assert path
    folders = [str(Path(path).parent), os.environ.get("LD_LIBRARY_PATH", "")]
    environment = {**os.environ, "SDF_PATH": str(models)}
    if "/" in path:  # its own libraries lie beside it
        environment["LD_LIBRARY_PATH"] = ":".join(filter(None, folders))
    answer = subprocess.run(
        [sys.executable, "-c", CHECK, path, *map(str, files)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )
    faults, said = {}, []
    for line in answer.stdout.splitlines():
        if line.startswith("quadsim "):
            _, status, name = line.split(" ", 2)
            if status != "0":
                faults[Path(name)] = "\n".join(said)[:2000]
            said = []
        else:
            said.append(line)
    return faults
