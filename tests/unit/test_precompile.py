"""The cache of the kernels: what is old goes, what is used or the user's own stays."""

from __future__ import annotations

import os
import time

import pytest

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
