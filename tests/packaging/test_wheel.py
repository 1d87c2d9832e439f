"""The wheel as pip lays it out: it flies from an empty folder, far from any checkout."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[2]
BUILT_OF = (
    "src", "config", "worlds", "launch", "resource", "setup.py", "setup.cfg", "pyproject.toml",
    "package.xml", "LICENSE", "constraints.txt",
)  # fmt: skip

# long, as it compiles where the kernels are not those of the sources
pytestmark = [pytest.mark.packaging, pytest.mark.timeout(600)]


def pip(*args: str | Path) -> None:
    quiet = ("--quiet", "--no-index", "--no-deps", "--disable-pip-version-check")
    command = [sys.executable, "-m", "pip", args[0], *quiet, *args[1:]]
    subprocess.run([str(word) for word in command], check=True, timeout=100, capture_output=True)


def build(folder: Path, kernels: bool = False) -> Path:
    """A wheel of the checkout."""
    source = folder / "source"
    for name in BUILT_OF:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        copy(ROOT / name, source / name)
    archive = source / "src/quadsim/kernels.zip.xz"
    archive.unlink(missing_ok=True)
    if kernels:
        archive.write_bytes(b"compiled")
    pip("wheel", "--no-build-isolation", "--wheel-dir", folder, source)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    pip("install", "--ignore-installed", "--prefix", folder / "prefix", build(folder))
    return folder / "prefix"


def run(prefix, cwd, *args):
    """The installed command, in an empty folder, with the kernels of these tests."""
    (site,) = prefix.glob("lib/python3.*/site-packages")
    environment = {**os.environ, "PYTHONPATH": str(site), "HOME": str(cwd)}
    return subprocess.run(
        [sys.executable, "-m", "quadsim.cli", *args],
        cwd=cwd, env=environment, capture_output=True, text=True, timeout=560, check=False,
    )  # fmt: skip


def test_it_flies_records_and_replays(prefix, tmp_path):
    done = run(prefix, tmp_path, "sim", "--scenario", "hover", "--bag", "bag", "--json")
    assert done.returncode == 0, done.stderr
    assert Path(json.loads(done.stdout)["report"]).parts[0] == "runs"
    done = run(prefix, tmp_path, "replay", "bag", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["estimator"]["position_rmse_m"] < 0.1


def test_only_the_command_goes_onto_the_path(prefix):
    """`imu` or `guard` there would be in everybody's way; `quadsim node` runs them."""
    assert [path.name for path in (prefix / "bin").iterdir()] == ["quadsim"]


def test_it_knows_what_the_checkout_knows(prefix, tmp_path):
    done = run(prefix, tmp_path, "sim", "--scenario", "nowhere")
    assert done.returncode == 2
    theirs = prefix / "share/quadsim/config/scenarios"
    assert f"ls {theirs}" in done.stderr
    assert {path.name for path in theirs.glob("*.yaml")} == {
        path.name for path in (ROOT / "config/scenarios").glob("*.yaml")
    }
    for name in ("share/quadsim/worlds", "share/quadsim/launch/sim.launch.py"):
        assert (prefix / name).exists()


def test_compiled_kernels_are_for_one_python_and_one_numba(tmp_path):
    wheel = build(tmp_path, kernels=True)
    version = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert wheel.name.split("-")[2:4] == [version, "none"]
    assert wheel.name.split("-")[4].startswith("manylinux")
    with ZipFile(wheel) as content:
        (metadata,) = [name for name in content.namelist() if name.endswith("/METADATA")]
        needs = content.read(metadata).decode().splitlines()
        assert "quadsim/kernels.zip.xz" in content.namelist()
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert [f"Requires-Dist: {line}" for line in pins if line.startswith("numba==")] == [
        line for line in needs if line.startswith("Requires-Dist: numba=")
    ]
