"""./quadsim: sets up once, whole or not at all, and is out of the way afterwards.

A small shell script plays Python, so that no test installs anything: it writes down how it was
called, makes a .venv of the right shape, and fails or waits where a test tells it to.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PINNED = ("quadsim", "constraints.txt", "pyproject.toml", "setup.cfg", "setup.py")

FAKE_PYTHON = """#!/bin/sh
case "$*" in
-c*) echo "${FAKE_VERSION:-3.12 venv}"; exit "${FAKE_PROBE:-0}" ;;
*"-m venv"*)
    for folder; do :; done
    rm -rf "$folder"
    mkdir -p "$folder/bin" "$folder/lib/python3.12"
    cp "$0" "$folder/bin/python"
    for tool in quadsim ruff mypy lint-imports pytest; do
        cp "$0" "$folder/bin/$tool"
    done ;;
esac
echo "${0##*/} $*" >>"$CALLS"
case "$*" in
*"pip config list"*) echo "${FAKE_PIP_CONFIG:-}" ;;
*"uv pip install"*"${FAKE_NO_UV:-no such thing}"*) exit 1 ;;
*"pip install"*editable*)
    echo "bytecode: ${PYTHONDONTWRITEBYTECODE-as usual}" >>"$CALLS"
    [ -z "${FAKE_SLEEP:-}" ] || exec sleep "$FAKE_SLEEP" # no fork, which a signal can miss
    exit "${FAKE_PIP:-0}" ;;
esac
case "${0##*/}" in
quadsim) env >"$CALLS.env" ;;
"${FAKE_BROKEN_TOOL:-}") exit 1 ;;
esac
exit 0
"""

pytestmark = pytest.mark.packaging


class Checkout:
    """A copy of what ./quadsim reads, with a Python that only writes down its calls."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "a checkout"
        self.root.mkdir()
        for name in PINNED:
            shutil.copy(ROOT / name, self.root / name)
        self.python = folder / "fake"
        self.python.write_text(FAKE_PYTHON, encoding="utf-8")
        self.python.chmod(0o755)
        self.calls_file = folder / "calls"

    def environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        kept = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}
        return {
            **kept,
            "QUADSIM_PYTHON": str(self.python),
            "CALLS": str(self.calls_file),
            **extra,
        }

    def start(self, *args: str, **extra: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.root / "quadsim", *args],
            cwd=self.root.parent,
            env=self.environment(extra),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *args: str, **extra: str) -> subprocess.CompletedProcess[str]:
        with self.start(*args, **extra) as process:
            out, err = process.communicate(timeout=30)
        return subprocess.CompletedProcess(args, process.returncode, out, err)

    def calls(self) -> list[str]:
        """What was called since the last look."""
        if not self.calls_file.exists():
            return []
        lines = self.calls_file.read_text(encoding="utf-8").splitlines()
        self.calls_file.unlink()
        return lines

    def installs(self) -> list[str]:
        return [call for call in self.calls() if "--editable" in call]

    def wait_for_call(self, words: str) -> None:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            if self.calls_file.exists() and words in self.calls_file.read_text(encoding="utf-8"):
                return
            time.sleep(0.02)
        raise AssertionError(f"nothing called {words!r} within 20 s")

    def is_stamped(self) -> bool:
        return any((self.root / ".venv").glob("*.stamp"))


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_first_call_sets_up_and_then_does_the_job(checkout: Checkout) -> None:
    result = checkout.run("fly", "--scenario", "a b")
    assert result.returncode == 0, result.stderr
    assert result.stdout == ""
    assert [line[:31] for line in result.stderr.splitlines()] == [
        "quadsim: first use: making .ven",
        "quadsim: first use: installing ",
    ]
    calls = checkout.calls()
    assert any(call.endswith("--editable .[ros,firmware,lab,terrain]") for call in calls)
    assert all("--constraint constraints.txt" in call for call in calls if "install" in call)
    assert "python -m quadsim.precompile" not in calls  # fly compiles what it needs
    assert calls[-1] == "quadsim fly --scenario a b"


def test_a_first_test_compiles_everything_ahead(checkout: Checkout) -> None:
    """Many processes test at once, and each would compile."""
    result = checkout.run("test", "-k", "nothing")
    assert result.returncode == 0, result.stderr
    assert result.stderr.splitlines()[-1].startswith("quadsim: first use: compiling ")
    calls = checkout.calls()
    assert any(call.endswith("--editable .[ros,firmware,lab,terrain,test]") for call in calls)
    assert calls[-2:] == ["python -m quadsim.precompile", "pytest -k nothing"]


def test_second_call_goes_straight_to_the_job(checkout: Checkout) -> None:
    checkout.run("doctor")
    elapsed_s = []
    for _ in range(5):
        checkout.calls()
        started = time.monotonic()
        result = checkout.run("doctor", "--json")
        elapsed_s.append(time.monotonic() - started)
        assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
        assert checkout.calls() == ["quadsim doctor --json"]
    assert min(elapsed_s) < 0.3  # the quickest: others may be using the machine


def test_a_changed_pin_installs_again_into_the_same_venv(checkout: Checkout) -> None:
    checkout.run("doctor")
    checkout.calls()
    with (checkout.root / "constraints.txt").open("a", encoding="utf-8") as file:
        file.write("# another\n")
    result = checkout.run("doctor")
    assert "dependencies changed" in result.stderr
    calls = checkout.calls()
    assert any("--editable" in call for call in calls)
    assert not any("-m venv" in call for call in calls)


def test_another_python_makes_another_venv(checkout: Checkout) -> None:
    checkout.run("doctor")
    checkout.calls()
    checkout.run("doctor", FAKE_VERSION="3.13 venv")
    assert any("-m venv --clear" in call for call in checkout.calls())


def test_a_moved_checkout_makes_another_venv(checkout: Checkout) -> None:
    """Scripts in .venv name its folder, so it cannot be moved."""
    checkout.run("doctor")
    checkout.calls()
    checkout.root = checkout.root.rename(checkout.root.with_name("moved"))
    checkout.run("doctor")
    assert len(checkout.installs()) == 1


def test_a_failed_install_says_so_and_is_done_again(checkout: Checkout) -> None:
    result = checkout.run("doctor", FAKE_PIP="1")
    assert result.returncode == 2
    last = result.stderr.splitlines()[-1]
    assert last.startswith("quadsim: installing failed")
    assert str(checkout.root / ".venv.log") in last
    assert not checkout.is_stamped()
    checkout.calls()
    assert checkout.run("doctor").returncode == 0
    assert any("-m venv --clear" in call for call in checkout.calls())


def test_an_interrupted_install_leaves_no_stamp(checkout: Checkout) -> None:
    with checkout.start("doctor", FAKE_SLEEP="20") as process:
        checkout.wait_for_call("bytecode")
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=10)
    assert process.returncode != 0
    assert not checkout.is_stamped()
    checkout.calls()
    assert checkout.run("doctor").returncode == 0
    assert len(checkout.installs()) == 1


def test_two_first_calls_install_once(checkout: Checkout) -> None:
    with checkout.start("fly", FAKE_SLEEP="1") as first:
        checkout.wait_for_call("bytecode")
        second = checkout.run("doctor")
        first.communicate(timeout=20)
    assert (first.returncode, second.returncode) == (0, 0)
    assert "waiting for another set-up" in second.stderr
    calls = checkout.calls()
    assert len([call for call in calls if "--editable" in call]) == 1
    assert {"quadsim fly", "quadsim doctor"} <= set(calls)


def test_the_check_installs_its_tools_too_and_runs_them_all(checkout: Checkout) -> None:
    checkout.run("doctor")
    checkout.calls()
    result = checkout.run("test", FAKE_BROKEN_TOOL="mypy")
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1] == "quadsim: failed: mypy"
    calls = checkout.calls()
    assert any(call.endswith("--editable .[ros,firmware,lab,terrain,test]") for call in calls)
    beside = [
        call for call in calls
        if call.startswith(("pytest -q -m not many tests/unit/", "pytest -qq --collect-only"))
    ]  # fmt: skip
    assert len(beside) == 2
    assert [call for call in calls if call not in beside][-7:] == [
        "ruff check .",
        "ruff format --check .",
        "lint-imports ",
        "mypy ",
        "quadsim bench --short --check --repeat 1",
        "pytest -m alone and not thorough --durations=10 tests",
        (
            "pytest -q -n 3 --dist worksteal --instafail"
            " -m not alone and not thorough --durations=25 tests"
        ),
    ]
    checkout.run("doctor")
    assert checkout.calls() == ["quadsim doctor"]


def test_the_check_with_arguments_is_pytest_alone(checkout: Checkout) -> None:
    checkout.run("test")
    checkout.calls()
    result = checkout.run("test", "tests/unit", "-k", "a or b")
    assert (result.returncode, result.stderr) == (0, "")
    assert checkout.calls() == ["pytest tests/unit -k a or b"]


def test_a_sourced_ros_does_not_reach_the_wheels(checkout: Checkout) -> None:
    checkout.run(
        "doctor",
        AMENT_PREFIX_PATH="/opt/ros/jazzy",
        LD_LIBRARY_PATH="/opt/ros/jazzy/lib",
        PYTHONPATH="/opt/ros/jazzy/lib/python3.12/site-packages",
        RMW_IMPLEMENTATION="rmw_cyclonedds_cpp",
    )
    seen = Path(f"{checkout.calls_file}.env").read_text(encoding="utf-8")
    assert "/opt/ros" not in seen
    assert "RMW_IMPLEMENTATION=rmw_fastrtps_cpp\n" in seen
    assert "ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST\n" in seen


def test_what_the_user_set_is_kept(checkout: Checkout) -> None:
    checkout.run("doctor", ROS_AUTOMATIC_DISCOVERY_RANGE="SUBNET", LD_LIBRARY_PATH="/a/lib")
    seen = Path(f"{checkout.calls_file}.env").read_text(encoding="utf-8")
    assert "ROS_AUTOMATIC_DISCOVERY_RANGE=SUBNET\n" in seen
    assert "LD_LIBRARY_PATH=/a/lib\n" in seen


def test_installs_compiled_python_whatever_the_environment_says(checkout: Checkout) -> None:
    checkout.run("doctor", PYTHONDONTWRITEBYTECODE="1")
    calls = checkout.calls()
    assert "bytecode: as usual" in calls
    assert all("--compile-bytecode" in call for call in calls if "uv pip" in call)


@pytest.mark.parametrize(
    "given",
    [
        {"FAKE_PIP_CONFIG": "global.index-url='https://packages.example.org/simple'"},
        {"FAKE_PIP_CONFIG": ":env:.no-index='1'"},
        {"FAKE_NO_UV": "editable"},
    ],
)
def test_pip_installs_what_uv_cannot(checkout: Checkout, given: dict[str, str]) -> None:
    """Uv does not read pip's settings, which may name an index of a company."""
    assert checkout.run("doctor", **given).returncode == 0
    *by_uv, install = checkout.installs()
    assert install.startswith("python -m pip install")
    assert len(by_uv) == ("FAKE_NO_UV" in given)


@pytest.mark.parametrize("python", ["/nowhere/python3", "../fake"])
def test_an_unfit_python_is_one_line(checkout: Checkout, python: str) -> None:
    result = checkout.run("doctor", QUADSIM_PYTHON=python, FAKE_PROBE="1")
    assert result.returncode == 2
    (line,) = result.stderr.splitlines()
    assert "is no Python from 3.10 to 3.13" in line
    assert not (checkout.root / ".venv").exists()


def test_a_python_without_venv_names_the_package(checkout: Checkout, tmp_path: Path) -> None:
    """The user is root here; without apt-get there is nothing to install it with."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("sh", "env", "cat", "sha256sum", "readlink", "realpath", "dirname", "flock",
                 "id", "uname", "touch", "rm", "tail"):  # fmt: skip
        found = shutil.which(tool)
        assert found is not None
        (tools / tool).symlink_to(found)
    result = checkout.run("doctor", FAKE_VERSION="3.12 bare", PATH=str(tools))
    assert result.returncode == 2
    (line,) = result.stderr.splitlines()
    assert line.endswith("install it: sudo apt-get install python3.12-venv")
