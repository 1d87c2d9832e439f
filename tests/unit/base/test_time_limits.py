"""What counts in the time limit of a test: all but compiling."""

import os
import re
import subprocess
import sys
from pathlib import Path

LONG = """
import time

import numba

PAUSE_S = 2.5


def slow_to_compile():
    pass


@numba.extending.overload(slow_to_compile)
def _():
    time.sleep(PAUSE_S)  # the compiler's, as a busy machine makes it
    return lambda: None


@numba.njit
def inner():
    slow_to_compile()


@numba.njit
def outer():
    inner()


def test_compiles():
    outer()
    time.sleep(0.01)


def test_compiles_and_hangs():
    numba.njit(lambda: inner())()
    time.sleep(PAUSE_S)
"""


def test_compiling_does_not_count_and_waiting_does(tmp_path):
    path, helpers = tmp_path / "test_long.py", Path(__file__).parents[2] / "helpers"
    path.write_text(LONG)
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rA", "--timeout", "2", "-p", "no:cacheprovider",
         "-p", "time_limits", "-c", "/dev/null", "--rootdir", tmp_path, path],
        env=os.environ | {"PYTHONPATH": str(helpers)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    outcomes = re.findall(r"^(PASSED|FAILED) \S+::(\w+)", run.stdout, re.MULTILINE)
    assert {name: outcome for outcome, name in outcomes} == {
        "test_compiles": "PASSED",
        "test_compiles_and_hangs": "FAILED",
    }, run.stdout
