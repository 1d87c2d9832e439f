"""The cache of the kernels: what is old goes; what is used, or the user's own, stays."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from quadsim.base import kernel_cache, kernel_folder
from quadsim.precompile import MONTH_S, forget_old_kernels


@pytest.fixture
def cache(tmp_path, monkeypatch):
    long_ago = time.time() - MONTH_S - 1.0
    for name in ("kernels-own", "kernels-old", "kernels-new", "other"):
        (tmp_path / name).mkdir()
        if name != "kernels-new":
            os.utime(tmp_path / name, (long_ago, long_ago))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "kernels-own"))
    return tmp_path


def left(folder):
    return sorted(path.name for path in folder.iterdir())


def test_only_old_kernels_of_other_sources_go(cache):
    forget_old_kernels()
    assert left(cache) == ["kernels-new", "kernels-own", "other"]


def test_a_folder_of_the_users_own_is_left_alone(cache, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(cache / "other"))
    forget_old_kernels()
    assert left(cache) == ["kernels-new", "kernels-old", "kernels-own", "other"]


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package named quadsim of which kernels import one another."""
    sources = {
        "__init__": "",
        "a": "from quadsim.part import (\n    b,  # a module\n)\n",
        "c": "X = 1\n",
        "d": "import numpy\n",
        "part/__init__": "",
        "part/b": "def f():\n    from quadsim.c import X\n",
    }
    for name, text in sources.items():
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(kernel_cache, "PACKAGE", tmp_path)
    kernel_cache._read.cache_clear()
    yield tmp_path
    kernel_cache._read.cache_clear()
    kernel_cache.sources_digest.cache_clear()


def digests(package):
    kernel_cache._read.cache_clear()
    kernel_cache.sources_digest.cache_clear()
    return [
        kernel_cache.sources_digest(package / f"{name}.py") for name in ("a", "part/b", "c", "d")
    ]


def test_a_kernel_is_old_when_anything_it_imports_has_changed(package):
    before = digests(package)
    (package / "c.py").write_text("X = 2\n")
    assert [old != new for old, new in zip(before, digests(package), strict=True)] == [
        True,
        True,
        True,
        False,
    ]
    (package / "c.py").write_text("X = 1\n")
    assert digests(package) == before


def test_numba_asks_for_the_sources_of_a_kernel():
    from quadsim.geometry.rotation import rotate

    stamp = rotate._cache._impl.locator.get_source_stamp()
    assert stamp == kernel_cache.sources_digest(kernel_folder.PACKAGE / "geometry" / "rotation.py")


def test_kernels_of_other_sources_lie_apart_and_go_when_they_are_old(tmp_path):
    from quadsim.geometry.rotation import rotate

    path = Path(rotate._cache._impl.locator.get_cache_path())
    digest = kernel_cache.sources_digest(kernel_folder.PACKAGE / "geometry" / "rotation.py")
    assert path.name == digest[:16]
    assert path.parent.name == "rotation"
    for name, age_s in (("own", 1e5), ("recent", 0.0), ("old", kernel_cache.OLD_S + 1.0)):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (time.time() - age_s,) * 2)
    kernel_cache.remove_old(tmp_path / "own")
    assert left(tmp_path) == ["own", "recent"]


def test_a_filled_folder_is_one_of_these_sources(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "kernels-x"))
    assert not kernel_folder.is_filled()
    kernel_folder.set_filled()
    assert kernel_folder.is_filled()
    monkeypatch.setattr(kernel_folder, "_sources_digest", lambda: "of other sources")
    assert not kernel_folder.is_filled()


def run_alone(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_a_scenario_is_read_and_described_without_a_kernel():
    """By whoever starts a graph: to load the first kernel takes a tenth of a second."""
    pytest.importorskip("rclpy")
    code = (
        "import sys, quadsim.base.compiled\n"
        "from numba.core.dispatcher import Dispatcher\n"
        "def compile_(self, *_):\n"
        "    raise AssertionError(self)\n"
        "Dispatcher.compile = compile_\n"
        "from quadsim.ros.graph.graph import describe\n"
        "from quadsim.sim.scenario import load_scenario\n"
        "specs = describe(load_scenario('hover'))\n"
        "print(len(specs) > 5, 'rosbags.typesys.stores.ros2_kilted' in sys.modules)\n"
    )
    assert run_alone(code) == ["True", "False"]


def test_what_forks_the_nodes_has_loaded_only_what_every_graph_needs():
    """A child's garbage collection would walk over what is not frozen, and copy its memory."""
    pytest.importorskip("rclpy")
    code = (
        "import gc, sys\n"
        "import quadsim.ros.runtime.preload\n"
        "print(gc.get_freeze_count(), len(gc.get_objects()), *sys.modules)\n"
    )
    frozen, others, *imported = run_alone(code)
    assert int(frozen) > 100 * int(others)
    needless = {"plotly", "rich", "jinja2", "rasterio",
                "quadsim.ros.nodes.guard", "scipy.spatial", "scipy.optimize",
                "scipy.ndimage"}  # fmt: skip
    assert "quadsim.ros.nodes.mixer" in imported
    assert not needless & set(imported)


def test_a_second_installation_of_the_same_sources_compiles_nothing(tmp_path):
    code = "from quadsim.geometry.rotation import normalize as f; f((1.0, 0.0, 0.0, 0.0)); "
    code += (
        "print(f.stats.cache_hits.total(), f.stats.cache_misses.total(), f.__code__.co_filename)"
    )
    found = []
    for name in ("first", "second"):
        copy = tmp_path / name / "quadsim"
        skipped = shutil.ignore_patterns("*.xz", "__pycache__")
        shutil.copytree(kernel_folder.PACKAGE, copy, ignore=skipped)
        env = {**os.environ, "PYTHONPATH": str(copy.parent), "XDG_CACHE_HOME": str(tmp_path)}
        env.pop("NUMBA_CACHE_DIR", None)
        done = subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
        )
        hits, misses, file = done.stdout.split()
        assert file.startswith(str(copy))
        found.append((int(hits), int(misses)))
    assert found == [(0, 1), (1, 0)]
