#!/usr/bin/env python3
"""Run the steps of docker/wheels.Dockerfile without Docker, in a fresh Debian made by mmdebstrap.

    sudo docker/try_in_chroot.py                         # in a scratch folder, removed afterwards
    sudo docker/try_in_chroot.py --folder /var/tmp/root  # kept, to look into
    sudo docker/try_in_chroot.py -- sim --scenario hover # what is run at the end, instead of doctor

It needs root, Linux's namespaces, and Debian's packages mmdebstrap and util-linux; 3 GB of disk.
``http_proxy``, ``https_proxy``, ``no_proxy`` and pip's ``PIP_*`` are passed on, as a builder would
be told them; a file that ``PIP_CERT`` names is copied. Exit status: that of the last step, 2 where
a step cannot be run here.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCKERFILE = ROOT / "docker" / "wheels.Dockerfile"
#: Images that a Debian made by mmdebstrap stands for, and the release.
BASES = {"debian:bookworm-slim": "bookworm", "debian:trixie-slim": "trixie"}
#: As Docker sets it.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: Where a file that PIP_CERT names is copied to.
CERTIFICATES = "/etc/pip-certificates.pem"
MIRROR = "http://deb.debian.org/debian"
#: The root, the process's folder, user, then the command: in namespaces of its own, so that mounts
#: and whatever it leaves running are gone with it.
ENTER = """
set -e
mount -t proc proc "$1/proc"
mount --rbind /dev "$1/dev"
mount -t tmpfs tmpfs "$1/tmp"
chmod 1777 "$1/tmp"
exec chroot --userspec="$3" "$1" sh -c 'cd "$1" && shift && exec "$@"' sh "$2" "${@:4}"
"""


class CannotRun(Exception):
    """A step that this script does not know, or a machine that does not let it."""


@dataclass
class Image:
    """What the steps have said so far."""

    root: Path
    environment: dict[str, str] = field(default_factory=lambda: {"PATH": PATH})
    folder: str = "/"
    user: str = "0:0"
    entrypoint: list[str] = field(default_factory=list)


def instructions(text: str) -> list[tuple[str, str]]:
    """Instructions of a Dockerfile with their arguments, comments and continued lines resolved."""
    found: list[tuple[str, str]] = []
    begun = ""
    for line in text.splitlines():
        if line.lstrip().startswith("#") or not (begun or line.strip()):
            continue
        begun += line.rstrip().removesuffix("\\")
        if line.rstrip().endswith("\\"):
            continue
        name, _, rest = begun.strip().partition(" ")
        found.append((name.upper(), rest.strip()))
        begun = ""
    return found


def debian(image: Image, base: str) -> None:
    """A fresh Debian in the image's root, without what ``-slim`` leaves out."""
    if base not in BASES:
        raise CannotRun(f"FROM {base}: only {', '.join(BASES)} can be made here")
    subprocess.run(
        [
            "mmdebstrap",
            "--variant=minbase",
            "--quiet",
            "--dpkgopt=path-exclude=/usr/share/doc/*",
            "--dpkgopt=path-exclude=/usr/share/man/*",
            BASES[base],
            str(image.root),
            MIRROR,
        ],
        check=True,
    )
    shutil.copyfile("/etc/resolv.conf", image.root / "etc/resolv.conf")
    if "PIP_CERT" in os.environ:
        shutil.copyfile(os.environ["PIP_CERT"], image.root / CERTIFICATES.lstrip("/"))


def copied(image: Image, words: list[str]) -> None:
    """COPY: files into a folder, and what is in folders."""
    *sources, target = words
    if any(word.startswith("--") for word in words):
        raise CannotRun(f"COPY {' '.join(words)}: options are not known here")
    place = image.root / str(Path(image.folder, target)).lstrip("/")
    for source in sources:
        if (ROOT / source).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(ROOT / source, place, dirs_exist_ok=True, ignore=ignored)
        else:
            place.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / source, place)


def run(image: Image, command: list[str]) -> int:
    """A command as the image's user, in its folder, with its environment."""
    passed = {
        name: value
        for name, value in os.environ.items()
        if name.lower() in ("http_proxy", "https_proxy", "no_proxy") or name.startswith("PIP_")
    }
    if "PIP_CERT" in passed:
        passed["PIP_CERT"] = CERTIFICATES
    inside = [f"{name}={value}" for name, value in (passed | image.environment).items()]
    enter = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", "-c", ENTER, "bash"]
    step = [*enter, str(image.root), image.folder, image.user, "env", "-i", *inside, *command]
    return subprocess.run(step, check=False).returncode


def build(image: Image, text: str) -> int:
    """Go through the steps; the status of the first that fails, else 0."""
    for name, rest in instructions(text):
        begin_s = time.monotonic()
        print(f"== {name} {' '.join(rest.split())}", file=sys.stderr, flush=True)
        status = 0
        if name == "FROM":
            debian(image, rest)
        elif name == "ENV":
            image.environment |= dict(word.split("=", 1) for word in shlex.split(rest))
        elif name == "WORKDIR":
            image.folder = str(Path(image.folder, rest))
            (image.root / image.folder.lstrip("/")).mkdir(parents=True, exist_ok=True)
        elif name == "COPY":
            copied(image, shlex.split(rest))
        elif name == "USER":
            image.user = rest
        elif name == "RUN":
            status = run(image, ["/bin/sh", "-c", rest])
        elif name == "ENTRYPOINT":
            image.entrypoint = json.loads(rest)
        elif name != "CMD":
            raise CannotRun(f"{name}: an instruction that is not known here")
        print(f"   {time.monotonic() - begin_s:.0f} s", file=sys.stderr, flush=True)
        if status:
            return status
    return 0


def main() -> int:
    """Make it, run a command in it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, help="make it here, and keep it; must not exist")
    parser.add_argument("command", nargs="*", default=["doctor"], help="of quadsim, at the end")
    asked = parser.parse_args()
    try:
        if os.geteuid() != 0:
            raise CannotRun("needs root: sudo docker/try_in_chroot.py")
        missing = [name for name in ("mmdebstrap", "unshare") if shutil.which(name) is None]
        if missing:
            raise CannotRun(f"needs {' and '.join(missing)}: apt-get install mmdebstrap util-linux")
        if asked.folder is not None and asked.folder.exists():
            raise CannotRun(f"--folder {asked.folder}: exists already")
        folder = asked.folder or Path(tempfile.mkdtemp(prefix="quadsim-chroot-"))
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)
        try:
            image = Image(folder.resolve())
            status = build(image, DOCKERFILE.read_text(encoding="utf-8"))
            if not status:
                print(f"== quadsim {shlex.join(asked.command)}", file=sys.stderr, flush=True)
                status = run(image, [*image.entrypoint, *asked.command])
            return status
        finally:
            if asked.folder is None:
                shutil.rmtree(folder)
    except CannotRun as error:
        print(f"try_in_chroot: {error}", file=sys.stderr)
        return 2
    except subprocess.CalledProcessError as error:
        print(
            f"try_in_chroot: {error.cmd[0]} failed with status {error.returncode}", file=sys.stderr
        )
        return 2


if __name__ == "__main__":
    sys.exit(main())
