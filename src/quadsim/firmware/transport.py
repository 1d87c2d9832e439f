"""Ports and processes: how bytes and executables get in and out. Nothing here knows a protocol."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, Protocol

from quadsim.base.errors import FlightError, InputError
from quadsim.base.extras import need

HOST = "127.0.0.1"
#: Most bytes of a packet.
LARGEST = 65536
#: So many packets of others are read for one of the firmware.
MOST_STRAYS = 256
#: What a UDP socket reports of a packet that nobody hears: nobody is there, or the network is down.
UNHEARD = (
    *(errno.EAGAIN, errno.ECONNREFUSED, errno.ENOBUFS),
    *(errno.EHOSTUNREACH, errno.EHOSTDOWN, errno.ENETUNREACH, errno.ENETDOWN),
)
#: What a firmware that is asked to stop is given, s: it has nothing to keep.
STOP_S = 0.3
#: Time in which the other end of a connection has to take what is sent, s.
WRITE_S = 5.0
#: A connection breaks so long before its process has ended, s.
DYING_S = 0.3


class ByteStream(Protocol):
    """Bytes in both directions."""

    def read(self, timeout_s: float = 0.0) -> bytes:
        """What has arrived, waiting for at most so long; empty: nothing."""
        ...

    def write(self, data: bytes) -> None:
        """Send bytes."""
        ...

    def close(self) -> None:
        """Give the port back."""
        ...


def _bound(kind: socket.SocketKind, host: str, port: int) -> socket.socket:
    """A socket on a port of this machine."""
    made = socket.socket(socket.AF_INET, kind)
    if kind == socket.SOCK_STREAM:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except OSError as error:
        made.close()
        name = "udp" if kind == socket.SOCK_DGRAM else "tcp"
        raise InputError(f"port {name} {host}:{port}: {error.strerror}") from None
    return made


def refuse_taken(port: int) -> None:
    """Refuse a TCP port at which somebody else's firmware would be found.

    Raises:
        InputError: somebody listens there.
    """
    try:
        _bound(socket.SOCK_STREAM, HOST, port).close()
    except InputError as error:
        words = "another firmware runs: end it, or fly it without --executable"
        raise InputError(f"{error}; {words}") from None


class Strays:
    """What came to our ports from others than the firmware, and was not taken.

    Attributes:
        count: packets and connections.
        news: in words, what nobody was told yet; once for each of the first senders.
    """

    #: Senders that are told apart.
    MOST_SENDERS = 16

    def __init__(self) -> None:
        self.count = 0
        self.news: list[str] = []
        self._senders: dict[tuple[str, int], str] = {}

    def add(self, sender: tuple[str, int], what: str) -> None:
        """Count something."""
        self.count += 1
        if sender not in self._senders and len(self._senders) < self.MOST_SENDERS:
            words = f"{what} from {sender[0]}:{sender[1]} not taken: not the firmware's"
            self._senders[sender] = words
            self.news.append(words)

    def __contains__(self, sender: tuple[str, int]) -> bool:
        return sender in self._senders

    def __str__(self) -> str:
        return "".join(f" ({self.count}: {words})" for words in [*self._senders.values()][:1])


class UdpPort:
    """A UDP port of this machine, and the one sender that is assumed on it.

    That is the process which we started, or else whoever first sends what fits.

    Args:
        to: the port it sends to; None: that of the sender.
        host: address to listen at.
        fits: whether a packet is of the firmware's kind.
        strays: counts what others send.
    """

    def __init__(
        self,
        port: int,
        to: int | None = None,
        host: str = HOST,
        fits: Callable[[bytes], bool] = lambda _: True,
        strays: Strays | None = None,
    ) -> None:
        self.port = port
        self._socket = _bound(socket.SOCK_DGRAM, host, port)
        self._timeout_s = 0.0
        self._to = (HOST, to) if to is not None else None
        self._follows = to is None
        self._fits, self._strays = fits, strays or Strays()
        self._process: Process | None = None
        self._sender: tuple[str, int] | None = None

    def expect(self, process: Process | None) -> None:
        """Believe a process that is being started, and nobody else."""
        self._process, self._sender = process, None

    def read(self, timeout_s: float = 0.0) -> bytes:
        """The oldest packet of the firmware that has arrived, waiting for at most so long.

        Returns:
            Nothing where there is none, or only what somebody else sent.
        """
        if timeout_s not in (0.0, self._timeout_s):  # the kernel's own: one call for each packet
            whole_s, rest_us = divmod(round(1e6 * timeout_s), 1_000_000)
            timeout = struct.pack("@ll", whole_s, rest_us)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeout)
            self._timeout_s = timeout_s
        flags = 0 if timeout_s > 0.0 else socket.MSG_DONTWAIT
        for _ in range(MOST_STRAYS):
            try:
                data, sender = self._socket.recvfrom(LARGEST, flags)
            except OSError as error:
                if error.errno not in UNHEARD:
                    raise
                return b""
            if sender == self._sender or self._believes(sender, data):
                return data
            self._strays.add(sender, f"udp {self.port}: {len(data)} bytes")
            flags = socket.MSG_DONTWAIT
        return b""

    def _believes(self, sender: tuple[str, int], data: bytes) -> bool:
        """Whether somebody new is the firmware."""
        if self._sender is not None:
            return False
        if self._process is None:
            assumed = self._fits(data)
        else:
            assumed = sender not in self._strays and self._process.has_port("udp", sender[1])
        if assumed:
            self._sender = sender
            self._to = sender if self._follows else self._to
        return assumed

    def write(self, data: bytes) -> None:
        """Send a packet; nobody listening is no error, nor is a network that is down for a while.

        Raises:
            OSError: the packet itself cannot be sent.
        """
        if self._to is None:
            return
        try:
            self._socket.sendto(data, socket.MSG_DONTWAIT, self._to)
        except OSError as error:
            if error.errno not in UNHEARD:
                raise

    def close(self) -> None:
        """Give the port back."""
        self._socket.close()


class TcpStream:
    """A TCP connection to a port, or from whoever connects to one.

    Args:
        listens: wait for somebody to connect; for our process, if we started one.
        strays: counts connections of others.
    """

    def __init__(self, port: int, listens: bool, strays: Strays | None = None) -> None:
        self.port = port
        self._strays = strays or Strays()
        self._server = _bound(socket.SOCK_STREAM, HOST, port) if listens else None
        if self._server is not None:
            self._server.listen(1)
            self._server.setblocking(False)
        self._connection: socket.socket | None = None

    @property
    def is_open(self) -> bool:
        """Whether somebody is at the other end."""
        return self._connection is not None

    def open(self, timeout_s: float, process: Process | None = None) -> bool:
        """Connect, waiting for at most so long; whether that came about.

        Raises:
            FlightError: the process that should be at the other end has ended.
        """
        until_s = time.monotonic() + timeout_s
        while self._connection is None and time.monotonic() < until_s:
            if process is not None:
                process.check()
            with contextlib.suppress(OSError):
                if self._server is None:
                    self._connection = socket.create_connection((HOST, self.port), 1.0)
                elif select.select([self._server], [], [], 0.1)[0]:
                    made, (host, port) = self._server.accept()
                    if process is None or process.has_port("tcp", port):
                        self._connection = made
                    else:
                        made.close()
                        self._strays.add((host, port), f"tcp {self.port}: a connection")
            if self._connection is None and self._server is None:
                time.sleep(0.05)
        if self._connection is not None:
            self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connection.setblocking(False)
        return self.is_open

    def read(self, timeout_s: float = 0.0) -> bytes:
        """What has arrived.

        Raises:
            FlightError: the other end closed the connection.
        """
        if self._connection is None:
            return b""
        if timeout_s > 0.0 and not select.select([self._connection], [], [], timeout_s)[0]:
            return b""
        try:
            data = self._connection.recv(LARGEST)
        except BlockingIOError:
            return b""
        except OSError as error:
            raise FlightError(f"port tcp {self.port}: {error.strerror}") from None
        if not data:
            raise FlightError(f"port tcp {self.port}: the firmware closed the connection")
        return data

    def write(self, data: bytes) -> None:
        """Send bytes.

        Raises:
            FlightError: the other end closed the connection, or takes nothing.
        """
        if self._connection is None:
            return
        try:
            self._connection.settimeout(WRITE_S)
            self._connection.sendall(data)
            self._connection.setblocking(False)
        except TimeoutError:
            raise FlightError(f"port tcp {self.port}: nothing taken for {WRITE_S:g} s") from None
        except OSError as error:
            raise FlightError(f"port tcp {self.port}: {error.strerror}") from None

    def close(self) -> None:
        """Give the port back."""
        for made in (self._connection, self._server):
            if made is not None:
                made.close()


class SerialStream:
    """A serial port of this machine, by pyserial."""

    def __init__(self, device: str, baud: int = 921600) -> None:
        serial = need("serial", device)
        try:
            self._port: Any = serial.Serial(device, baud, timeout=0.0)
        except (OSError, ValueError) as error:
            raise InputError(f"{device}: {error}") from None

    def read(self, timeout_s: float = 0.0) -> bytes:
        """What has arrived, waiting for at most so long."""
        self._port.timeout = timeout_s
        return bytes(self._port.read(max(1, self._port.in_waiting)))

    def write(self, data: bytes) -> None:
        """Send bytes."""
        self._port.write(data)

    def close(self) -> None:
        """Give the port back."""
        self._port.close()


def fail(name: str, process: Process | None, words: str) -> NoReturn:
    """End a flight by a firmware that does not answer.

    Raises:
        FlightError: what happened, and the last words or where the firmware would come from.
    """
    if process is None:
        raise FlightError(f"{name}: {words}; start the firmware, or name it by --executable PATH")
    process.check()
    raise FlightError(f"{name}: {words}; {process.last_words()}")


@contextlib.contextmanager
def explained(process: Process | None) -> Iterator[None]:
    """Where a connection breaks since the process ended, say that instead."""
    try:
        yield
    except FlightError:
        if process is not None:
            time.sleep(DYING_S)
            process.check()
        raise


#: A group of its own, which Ctrl-C does not reach. Of a session of its own Linux schedules the
#: firmware apart from us (autogroup), and lets it wait for seconds on a busy machine.
APART: dict[str, Any] = (
    {"process_group": 0} if sys.version_info >= (3, 11) else {"start_new_session": True}
)


#: It ends with the thread that started it, even if that is killed (prctl, PR_SET_PDEATHSIG).
WITH_US = ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()


class Process:
    """A firmware's executable, in a scratch folder of its own; what it prints is stored there.

    Args:
        executable: its path.
        arguments: of the command line.
        environment: variables besides those of this process.

    Attributes:
        folder: where it runs: its parameters and logs are written there.
    """

    def __init__(
        self,
        executable: Path,
        arguments: Sequence[str],
        name: str,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._name, self._environment = name, environment or {}
        self._scratch = tempfile.TemporaryDirectory(prefix=f"quadsim-{name}-")
        self.folder = Path(self._scratch.name)
        self._executable = str(executable.resolve())
        self._command = [*WITH_US, self._executable, *arguments]
        self._running: subprocess.Popen[bytes] | None = None

    def run_once(self, arguments: Sequence[str], timeout_s: float) -> None:
        """Run it to its end with other arguments, as it takes a configuration in.

        Raises:
            FlightError: it does not end.
        """
        with (self.folder / "configure.txt").open("wb") as log:
            try:
                subprocess.run(
                    [self._executable, *arguments], cwd=self.folder, stdin=subprocess.DEVNULL,
                    stdout=log, stderr=log, timeout=timeout_s, check=False,
                )  # fmt: skip
            except OSError as error:
                raise InputError(f"{self._executable}: {error.strerror}") from None
            except subprocess.TimeoutExpired:
                raise FlightError(
                    f"{self._name}: does not take its configuration in {timeout_s:g} s"
                ) from None

    def start(self) -> None:
        """Start it.

        Raises:
            InputError: it is no executable of this machine.
        """
        if not os.access(self._executable, os.X_OK):
            raise InputError(f"{self._executable}: {os.strerror(errno.EACCES)}")
        with (self.folder / "output.txt").open("wb") as log:
            try:
                self._running = subprocess.Popen(
                    self._command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log,
                    stderr=log, env={**os.environ, **self._environment}, **APART,
                )  # fmt: skip
            except OSError as error:
                raise InputError(f"{self._executable}: {error.strerror}") from None

    def has_port(self, kind: str, port: int) -> bool:
        """Whether a port of this machine, ``udp`` or ``tcp``, belongs to it or what it started."""
        group = 0 if self._running is None else self._running.pid
        inodes = set()
        for name in (kind, f"{kind}6"):
            with contextlib.suppress(OSError):
                for line in Path("/proc/net", name).read_text().splitlines()[1:]:
                    words = line.split()
                    if int(words[1].rpartition(":")[2], 16) == port:
                        inodes.add(f"socket:[{words[9]}]")
        for folder in Path("/proc").glob("[0-9]*/fd"):
            with contextlib.suppress(OSError):  # another user's, or it has ended
                ours = os.getpgid(int(folder.parent.name)) == group
                if ours and any(str(link.readlink()) in inodes for link in folder.iterdir()):
                    return True
        return False

    def check(self) -> None:
        """See that it still runs.

        Raises:
            FlightError: it ended, with what it stated last.
        """
        status = None if self._running is None else self._running.poll()
        if status is not None:
            raise FlightError(f"{self._name}: ended with status {status}; {self.last_words()}")

    def output(self) -> str:
        """What it has printed."""
        path = self.folder / "output.txt"
        return path.read_text(errors="replace") if path.exists() else ""

    def last_words(self) -> str:
        """The last line that it has printed."""
        lines = [line.strip() for line in self.output().splitlines() if line.strip()]
        return f"it said: {lines[-1][:200]}" if lines else "it said nothing"

    def stop(self) -> None:
        """End it, and its folder."""
        self.halt()
        self._scratch.cleanup()

    def halt(self) -> None:
        """End it with all that it started; it can be started again."""
        if self._running is not None and self._running.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._running.pid, signal.SIGTERM)
            try:
                self._running.wait(STOP_S)
            except subprocess.TimeoutExpired:
                os.killpg(self._running.pid, signal.SIGKILL)
                self._running.wait()
        self._running = None
