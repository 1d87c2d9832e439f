"""The package as a ROS user gets it: built by colcon into a scratch workspace."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from catkin_pkg.package import parse_package

from quadsim import __version__
from quadsim.sensors import PUBLISHING

ROOT = Path(__file__).parents[2]
MODULES = sorted(
    path.stem for path in (ROOT / "src/quadsim/ros/nodes").glob("*.py") if path.stem != "__init__"
)
NODES = sorted({*MODULES, *PUBLISHING})

pytestmark = pytest.mark.packaging


def colcon_build(workspace: Path, *options: str) -> Path:
    """Build the checkout in a workspace; returns the package's install prefix."""
    source = workspace / "src" / "quadsim"
    source.parent.mkdir(parents=True)
    source.symlink_to(ROOT)
    build = subprocess.run(
        [sys.executable, "-m", "colcon", "build", *options],
        cwd=workspace,
        env={**os.environ, "COLCON_HOME": str(workspace / ".colcon")},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert build.returncode == 0, build.stdout + build.stderr
    assert "WARNING" not in build.stderr, build.stderr
    return workspace / "install" / "quadsim"


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return colcon_build(tmp_path_factory.mktemp("workspace"))


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_package_is_indexed(prefix: Path) -> None:
    assert (prefix / "share/ament_index/resource_index/packages/quadsim").is_file()
    installed = prefix / "share/quadsim/package.xml"
    assert installed.read_bytes() == (ROOT / "package.xml").read_bytes()


@pytest.mark.parametrize("folder", ["launch", "config", "worlds", "examples/parts"])
def test_share_holds_every_file(prefix: Path, folder: str) -> None:
    source = ROOT / folder
    assert source.is_dir(), f"{folder}/ is missing in the checkout"
    pattern = {"launch": "*.launch.py", "examples/parts": "*.py"}.get(folder, "*")
    wanted = {str(p.relative_to(source)) for p in source.rglob(pattern) if p.is_file()}
    assert wanted
    assert files_below(prefix / "share/quadsim" / folder) == wanted


@pytest.mark.parametrize("node", NODES)
def test_ros2_run_finds_the_node(prefix: Path, node: str) -> None:
    executable = prefix / "lib/quadsim" / node
    assert os.access(executable, os.X_OK)
    assert f"'console_scripts','{node}'" in executable.read_text(encoding="utf-8")


def test_every_node_has_an_executable(prefix: Path) -> None:
    """Every module of ros/nodes is a node with a main(); the sensors have one too."""
    for node in MODULES:
        source = (ROOT / f"src/quadsim/ros/nodes/{node}.py").read_text(encoding="utf-8")
        assert re.search(r"^(def main\(|make, main = )", source, re.MULTILINE), node
    assert {p.name for p in (prefix / "lib/quadsim").iterdir()} == {"quadsim", *NODES}


def test_installed_package_runs_from_its_prefix(prefix: Path) -> None:
    """Sourcing the workspace puts its site-packages first; config is then found in its share."""
    (site_packages,) = prefix.glob("lib/python3.*/site-packages")
    code = "from quadsim.base import files; print(files.__file__); print(files.share_dir())"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(site_packages)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    module, share = run.stdout.splitlines()
    assert module == str(site_packages / "quadsim/base/files.py")
    assert share == str(prefix / "share/quadsim")
    assert (site_packages / "quadsim/py.typed").is_file()


@pytest.mark.thorough
def test_symlink_install(tmp_path: Path) -> None:
    prefix = colcon_build(tmp_path, "--symlink-install")
    assert os.access(prefix / "lib/quadsim/imu", os.X_OK)
    vehicles = list((prefix / "share/quadsim/config/vehicles").iterdir())
    assert vehicles
    for vehicle in vehicles:
        assert vehicle.resolve() == ROOT / "config/vehicles" / vehicle.name


def test_package_xml() -> None:
    """An invalid one makes colcon build a plain Python package, without a word."""
    warnings: list[str] = []
    package = parse_package(ROOT / "package.xml", warnings=warnings)
    assert warnings == []
    assert package.get_build_type() == "ament_python"
    assert package.package_format == 3
    assert package.version == __version__


def test_package_xml_names_the_messages_that_are_imported() -> None:
    named = {dependency.name for dependency in parse_package(ROOT / "package.xml").exec_depends}
    imported = set()
    for path in (ROOT / "src/quadsim").rglob("*.py"):
        for line in path.read_text(encoding="utf-8").splitlines():
            words = line.split()
            if words[:1] in (["from"], ["import"]):
                module = words[1].split(".")[0]
                if module.endswith(("_msgs", "_srvs", "_interfaces")) or module == "rclpy":
                    imported.add(module)
    assert imported <= named
