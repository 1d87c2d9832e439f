"""Imports go one way, and the contracts that say so would notice if they did not."""

import os
import shutil
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.packaging


def lint_imports(source: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_imports_go_one_way() -> None:
    result = lint_imports(ROOT / "src")
    assert result.returncode == 0, result.stdout


def test_no_modules_import_each_other() -> None:
    """Not even within a function or for types alone."""
    graph = grimp.build_graph("quadsim", cache_dir=None)
    imports = {m: graph.find_modules_directly_imported_by(m) for m in graph.modules}
    TopologicalSorter(imports).prepare()  # CycleError names the circle


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("estimation", "import quadsim.vehicle", "No truth leaks"),
        ("control", "import quadsim.sensors", "No truth leaks"),
        ("geometry", "import quadsim.world", "Imports go one way"),
        ("world", "import quadsim.sensors", "Imports go one way"),
        ("mission", "import quadsim.sim", "Imports go one way"),
        ("sim", "import quadsim.ros", "Imports go one way"),
        ("vehicle", "import rclpy", "Only nodes and the command"),
        ("analysis", "from sensor_msgs.msg import Imu", "Only nodes and the command"),
        ("geometry", "import quadsim.world", "No circles"),
        ("another", "", "Imports go one way"),  # a new folder must be given its place
    ],
)
def test_a_wrong_import_is_noticed(tmp_path: Path, module: str, line: str, contract: str) -> None:
    package = tmp_path / "quadsim"
    shutil.copytree(ROOT / "src/quadsim", package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / module).mkdir(exist_ok=True)
    with (package / module / "__init__.py").open("a", encoding="utf-8") as file:
        file.write(f"\n{line}\n")
    result = lint_imports(tmp_path)
    assert result.returncode == 1, result.stdout
    broken = [text for text in result.stdout.splitlines() if " BROKEN" in text]
    assert any(text.startswith(contract) for text in broken), result.stdout
