"""Where a recording goes: a file, a window, or a page that a browser on this machine can open."""

from __future__ import annotations

import importlib.util
import ipaddress
import json
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import rerun as rr

from quadsim.base.errors import InputError, QuadsimError
from quadsim.base.surroundings import LOCALHOST, free_port

#: Until a viewer must listen, s.
PATIENCE_S = 30.0
#: Rerun's own words for memory: a number with a unit, or a share of the machine's.
MEMORY_UNITS = ("MB", "GB", "MiB", "GiB", "%")


@dataclass
class Viewer:
    """A running viewer.

    Attributes:
        process: the viewer's.
        url: where recordings are sent to.
        page: to open in a browser; empty where there is a window.
    """

    process: subprocess.Popen[bytes]
    url: str
    page: str

    def wait(self) -> None:
        """Until it ends, or somebody stops us."""
        with suppress(KeyboardInterrupt):
            self.process.wait()


def check_memory(text: str) -> str:
    """A limit of memory.

    Raises:
        InputError: it is none.
    """
    for unit in MEMORY_UNITS:
        number = text.removesuffix(unit)
        if number != text and number.replace(".", "", 1).isdecimal():
            return text
    raise InputError(f"--memory-limit: {text!r}; allowed: a number and {', '.join(MEMORY_UNITS)}")


def check_bind(text: str) -> str:
    """An address to listen at.

    Raises:
        InputError: it is none.
    """
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise InputError(f"--bind: {text!r} is no address; {LOCALHOST} is this machine") from None


def has_display() -> bool:
    """Whether a window can be opened."""
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _program() -> str:
    """Rerun's viewer, from its wheel."""
    found = importlib.util.find_spec("rerun_cli")
    folders = list(found.submodule_search_locations or ()) if found else []
    for folder in folders:
        path = Path(folder) / "rerun"
        if path.is_file():
            return str(path)
    raise QuadsimError("Rerun's viewer is missing; install it again: pip install rerun-sdk")


def _private(folder: Path) -> dict[str, str]:
    """Environment in which the viewer tells nobody that it is used."""
    settings = folder / "rerun" / "analytics.json"
    settings.parent.mkdir()
    content = {
        "analytics_enabled": False,
        "analytics_id": "",
        "metadata": {},
        "config_file_path": str(settings),
        "data_dir_path": str(folder / "data"),
    }
    settings.write_text(json.dumps(content), encoding="utf-8")
    return {**os.environ, "XDG_CONFIG_HOME": str(folder)}


def _wait_for(port: int, bind: str, process: subprocess.Popen[bytes], log: Path) -> None:
    address = LOCALHOST if bind == "0.0.0.0" else "::1" if bind == "::" else bind
    end_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < end_s:
        try:
            with socket.create_connection((address, port), timeout=1.0):
                return
        except OSError:
            pass
        try:
            process.wait(0.05)
        except subprocess.TimeoutExpired:
            continue
        break
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    stated = " ".join([line.strip() for line in lines if line.strip()][-2:])
    raise QuadsimError(f"Rerun's viewer did not start: {stated[-300:] or 'without a word'}")


@contextmanager
def viewer(
    web: bool, memory_limit: str = "1GiB", bind: str = LOCALHOST, port: int = 0, file: str = ""
) -> Iterator[Viewer]:
    """Run a viewer for as long as the block lasts.

    Args:
        web: a page for a browser instead of a window.
        memory_limit: of what is stored; the oldest goes first.
        bind: address that the page is served at.
        port: of the page; 0: any.

    Raises:
        InputError: there is no screen for a window, or the port is taken.
        QuadsimError: it does not start.
    """
    if not web and not has_display():
        raise InputError("no screen for a window (DISPLAY is not set); give --web or --save FILE")
    bind = bind if web else LOCALHOST
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="quadsim-view-")))
        grpc_port = free_port(bind)
        command = [_program(), "--bind", bind, "--port", str(grpc_port)]
        command += ["--server-memory-limit", memory_limit]
        page = ""
        listens = grpc_port
        if web:
            listens = free_port(bind, port)
            command += ["--serve-web", "--web-viewer-port", str(listens)]
            page = page_url(bind, listens, grpc_port)
        else:
            command += ["--memory-limit", memory_limit, "--hide-welcome-screen"]
        if file:
            command.append(file)
        log = folder / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, stdout=output, stderr=output, stdin=subprocess.DEVNULL,
                env=_private(folder), start_new_session=True,
            )  # fmt: skip
        stack.callback(_stop, process)
        _wait_for(grpc_port, bind, process, log)
        if web:
            _wait_for(listens, bind, process, log)
        host = _host(bind)
        yield Viewer(process, f"rerun+http://{host}:{grpc_port}/proxy", page)


def _host(bind: str) -> str:
    """How this machine calls an address it listens at."""
    if bind in ("0.0.0.0", "::"):
        return LOCALHOST
    return f"[{bind}]" if ":" in bind else bind


def page_url(bind: str, port: int, grpc_port: int) -> str:
    """Address of the page, with what it is to load, in the colours of the project's legend."""
    host = socket.gethostname() if bind in ("0.0.0.0", "::") else _host(bind)
    source = quote(f"rerun+http://{host}:{grpc_port}/proxy", safe="")
    return f"http://{host}:{port}/?url={source}&theme=light&hide_welcome_screen"


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(5.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def send_to(recording: rr.RecordingStream, shown: Viewer | None, save: Path | None) -> None:
    """Let a recording go to a viewer, a file, or both; before anything is logged.

    Raises:
        InputError: the file cannot be written.
    """
    sinks: list[object] = []
    if save is not None:
        try:
            save.open("ab").close()
        except OSError as error:
            raise InputError(f"--save {save}: cannot be written ({error.strerror})") from None
        sinks.append(rr.FileSink(str(save)))
    if shown is not None:
        sinks.append(rr.GrpcSink(shown.url))
    recording.set_sinks(*sinks)
