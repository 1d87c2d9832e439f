"""Real nodes on real DDS: each test has a domain of its own, and waits for conditions."""

import fcntl
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path

import psutil
import pytest
import yaml

pytest.importorskip("rclpy")

import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from interface_definitions import Services
from rclpy.client import Client
from rclpy.context import Context
from rclpy.executors import Executor
from rclpy.signals import SignalHandlerOptions
from time_limits import WATCH

from quadsim.base.errors import InputError
from quadsim.base.files import find
from quadsim.base.kernel_folder import is_filled
from quadsim.ros.runtime.base import QuadsimNode
from quadsim.ros.runtime.domain import held
from quadsim.ros.runtime.runtime import make_executor

# Workers of one run share their parent, and take turns, so that no two use a domain at a time.
_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
_RUN = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
#: For what comes within seconds where the machine has nothing else to do.
PATIENCE_S = 100.0

#: For what was told to end to be gone.
LEAVE_S = 1.0

_numbers = count(_RUN * 12 + _WORKER, _WORKERS)


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.graph)
            # nodes wait for each other; on a machine full of other work they wait long
            item.add_marker(pytest.mark.timeout(200))


@pytest.fixture(scope="session", autouse=True)
def _kernels(tmp_path_factory):
    """Nodes that compile while they fly are late for everything; one worker compiles for all."""
    path = tmp_path_factory.getbasetemp().parent / f"kernels-{_RUN}"
    with WATCH.compiling(), path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if not is_filled():  # by the set-up, mostly
            subprocess.run([sys.executable, "-m", "quadsim.precompile"], check=True)


@pytest.fixture
def domain() -> int:
    """A DDS domain that no graph on this machine holds.

    From 1 to 100: the ports of higher ones (7400 + 250 domain) are those that Linux gives to UDP
    sockets without a port of their own, and DDS sends what finds others to them. Such reached the
    stand-ins of firmware in other tests.
    """
    for number in _numbers:
        candidate = 1 + number % 100
        try:
            with held(candidate):
                return candidate
        except InputError:
            continue
    raise AssertionError


class Command:
    """A running ``quadsim`` command; its stderr is read as it comes.

    Args:
        args: of the command.
        module: what to run instead of the command.
    """

    def __init__(self, *args: str, module: str = "quadsim.cli") -> None:
        self.log = ""
        self._ended = False
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *args],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, "PYTHONFAULTHANDLER": "1"},
        )
        self.pid = self._process.pid
        self._family: dict[int, int] = {}  # pid to a descriptor that tells of its end

    def wait_for(self, text: str, within_s: float = PATIENCE_S) -> None:
        """Read stderr until a text comes."""
        self._read(lambda: text in self.log, within_s, f"{text!r} did not come")

    def _read(self, condition: Callable[[], bool], within_s: float, message: str) -> None:
        assert self._process.stderr is not None
        deadline = time.monotonic() + within_s
        while not condition():
            rest_s = deadline - time.monotonic()
            ready = select.select([self._process.stderr], [], [], max(0.0, rest_s))[0]
            chunk = os.read(self._process.stderr.fileno(), 65536) if ready else b""
            assert chunk, f"{message} within {within_s} s:\n{self.log}"
            self.log += chunk.decode()

    def family(self) -> dict[str, psutil.Process]:
        """Processes of the graph by their names in ``ps``; all descendants are remembered."""
        found = {}
        for process in psutil.Process(self.pid).children(recursive=True):
            if process.pid not in self._family:
                self._family[process.pid] = os.pidfd_open(process.pid)
            title = " ".join(process.cmdline())
            if title.startswith("quadsim: "):
                found[title.removeprefix("quadsim: ").strip()] = process
        return found

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def interrupt(self) -> None:
        """What Ctrl-C on a terminal does."""
        os.killpg(self.pid, signal.SIGINT)

    def finish(self, within_s: float = PATIENCE_S) -> tuple[int, str]:
        """Wait for the end; exit status and stdout."""
        try:
            out, err = self._process.communicate(timeout=within_s)
        except subprocess.TimeoutExpired:
            left = psutil.Process(self.pid).children(recursive=True)
            self._process.send_signal(signal.SIGABRT)  # PYTHONFAULTHANDLER says where it is
            err = self._process.communicate(timeout=within_s)[1]
            pytest.fail(f"no end within {within_s} s; left: {left}\n{self.log}{err.decode()}")
        self.log += err.decode()
        self._ended = True
        print(self.log)  # with the stack, if a signal ended it
        return self._process.returncode, out.decode()

    def nothing_left(self, within_s: float = 20.0) -> bool:
        """Whether every process that was remembered has ended."""
        deadline = time.monotonic() + within_s
        for pidfd in self._family.values():
            if not select.select([pidfd], [], [], max(0.0, deadline - time.monotonic()))[0]:
                return False
        return True

    def end(self) -> None:
        """Leave nothing behind, whatever the test found."""
        if self._process.poll() is None:
            self.family()
            self._process.kill()
        for pidfd in self._family.values():  # they hold the pipes, which are read afterwards
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            os.close(pidfd)
        if not self._ended:
            self._process.communicate(timeout=PATIENCE_S)


@pytest.fixture
def command() -> Iterator[Callable[..., Command]]:
    """Starts commands, and ends what is left of them."""
    with ExitStack() as stack:

        def start(*args: str, module: str = "quadsim.cli") -> Command:
            started = Command(*args, module=module)
            stack.callback(started.end)
            return started

        yield start


def hover_for(duration_s: float, folder: Path) -> Path:
    """The scenario hover, but for so long."""
    content = yaml.safe_load(find("scenarios", "hover").read_text())
    content["mission"][1]["hover"]["duration_s"] = duration_s
    content["duration_s"] = duration_s + 20.0
    path = folder / "hover_for.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


@pytest.fixture
def long_hover(tmp_path) -> Path:
    """The scenario hover that does not land before somebody is done with it."""
    return hover_for(1000.0, tmp_path)


@pytest.fixture
def short_hover(tmp_path) -> str:
    """The scenario hover that lands after a second."""
    return str(hover_for(1.0, tmp_path))


@pytest.fixture
def fly(command, domain, tmp_path):
    """Starts ``quadsim fly`` in this test's domain; its bag is in ``tmp_path / "run" / "bag"``."""

    def start(*args: str, scenario: str = "hover") -> Command:
        return command(
            "fly", "--scenario", scenario, "--domain", str(domain),
            "--output", str(tmp_path / "run"), "--no-report", *args,
        )  # fmt: skip

    return start


class Bench:
    """A node of the test's own, and an executor that turns it and others until something holds.

    Args:
        domain: of its own.
        executor: made for a context; by default as nodes run.
    """

    def __init__(
        self, domain: int, executor: Callable[[Context], Executor] = make_executor
    ) -> None:
        self.context = Context()
        rclpy.init(
            context=self.context, domain_id=domain, signal_handler_options=SignalHandlerOptions.NO
        )
        self.executor = executor(self.context)
        self.node = rclpy.create_node("bench", context=self.context, enable_rosout=False)
        self.nodes = [self.node]
        self.executor.add_node(self.node)
        self._clients: dict[str, Client] = {}
        self.reports: dict[str, dict[str, str]] = {}
        self.node.create_subscription(DiagnosticArray, "/diagnostics", self._on_report, 10)

    def _on_report(self, message) -> None:
        for status in message.status:
            values = {pair.key: pair.value for pair in status.values}
            self.reports[status.name] = values | {"message": status.message}

    def add(self, node):
        self.nodes.append(node)
        self.executor.add_node(node)
        return node

    def heard(self, kind, name, profile=10) -> list:
        """Messages of a topic, as they come."""
        found: list = []
        self.node.create_subscription(kind, name, found.append, profile)
        return found

    def publisher(self, kind, name, profile=10):
        """A publisher of a topic that somebody listens to."""
        made = self.node.create_publisher(kind, name, profile)
        self.until(lambda: made.get_subscription_count() > 0)
        return made

    def end(self, node) -> None:
        """End one node, while the others go on."""
        self.nodes.remove(node)
        self.executor.remove_node(node)
        for _ in range(100):  # what the executor had taken up for it
            self.executor.spin_once(0.0)
        node.destroy_node()

    def until(self, condition: Callable[[], bool], within_s: float = PATIENCE_S) -> None:
        deadline = time.monotonic() + within_s
        while not condition():
            self.executor.spin_once(0.05)
            assert time.monotonic() < deadline, self.reports

    def call(self, kind, name, request):
        """Ask a service until it answers.

        A server that has not found the client within 0.1 s drops its answer.
        """
        if name not in self._clients:
            self._clients[name] = self.node.create_client(kind, name)
        client = self._clients[name]
        self.until(client.service_is_ready)
        asked = []

        def answered() -> bool:
            if not asked or time.monotonic() > asked[-1][0] + 2.0:
                asked.append((time.monotonic(), client.call_async(request)))
            return any(future.done() for _, future in asked)

        self.until(answered)
        return next(future.result() for _, future in asked if future.done())

    def close(self) -> None:
        """Leave, when all others have: Fast DDS can stand still where both do at once."""
        alone = {(node.get_name(), node.get_namespace()) for node in self.nodes}
        deadline = time.monotonic() + LEAVE_S
        while set(self.node.get_node_names_and_namespaces()) - alone:
            self.executor.spin_once(0.02)
            if time.monotonic() > deadline:
                break  # who was killed is there for 20 s more
        for node in self.nodes:
            self.executor.remove_node(node)
        self.executor.shutdown(0)
        for node in self.nodes:
            node.destroy_node()
        self.context.shutdown()


@pytest.fixture
def bench(domain, request):
    made = Bench(domain, getattr(request, "param", make_executor))
    yield made
    made.close()


@pytest.fixture
def services(monkeypatch):
    """The services of simulation_interfaces, which DDS cannot carry where it is not installed."""
    found = Services(monkeypatch)
    create_service = QuadsimNode.create_service

    def create(node, kind, name, asked, **more):
        if hasattr(kind, "of_definition"):
            return found.create_service(kind, name, asked)
        return create_service(node, kind, name, asked, **more)

    monkeypatch.setattr(QuadsimNode, "create_service", create)
    return found


class Script:
    """A keyboard on which a test presses."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.closed = False

    def pressed(self) -> list[str]:
        keys, self.keys = self.keys, []
        return keys

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def keyboard() -> Script:
    return Script()
