"""Python processes of ours in a folder whose modules have the names of the standard library's."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[3] / "src"
#: Modules that those which start processes import by themselves.
SHADOWED = ("signal", "socket", "pickle", "json", "threading", "runpy", "tempfile", "struct")
#: A program beside whose own folder, as that of a command, there is none of these.
PROGRAM = """
import multiprocessing, os, subprocess, sys
from multiprocessing.forkserver import ensure_running
from quadsim.base.python_processes import module_command, outside_working_folder

def where(queue):
    import signal  # of the standard library
    queue.put(os.getcwd())

if __name__ == "__main__":
    said = []
    for method in ("spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        queue = context.SimpleQueue()
        process = context.Process(target=where, args=(queue,))
        with outside_working_folder():
            process.start() if method == "spawn" else ensure_running()
        if method == "forkserver":
            process.start()
        process.join()
        said.append(queue.get() if process.exitcode == 0 else process.exitcode)
    done = subprocess.run(module_command("quadsim.base.surroundings"), check=False)
    said += [done.returncode, os.getcwd(), os.environ.get("PYTHONSAFEPATH")]
    import json
    print(json.dumps(said[sys.version_info < (3, 11):]))
"""
BATCH = """
import os
from quadsim.lab.campaign.batch import run_batch
if __name__ == "__main__":
    print(set(run_batch(os.path.realpath, ["."] * 3, processes=2)))
"""


@pytest.fixture
def shadowed(tmp_path):
    """A working folder with such modules."""
    folder = tmp_path / "work"
    folder.mkdir()
    for name in SHADOWED:
        (folder / f"{name}.py").write_text('raise ImportError("of the working folder")')
    return folder


def _run(folder: Path, program: str, python: str = sys.executable) -> str:
    place = folder.parent / "program.py"
    place.write_text(program)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run(
        [python, str(place)], cwd=folder, env=environment | {"PYTHONPATH": str(SOURCES)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("version", ["", "3.10", "3.12", "3.13"])
def test_no_process_imports_from_the_working_folder(shadowed, version):
    python = shutil.which(f"python{version}") if version else sys.executable
    if python is None or subprocess.run([python, "-V"], check=False).returncode:
        pytest.skip(f"there is no Python {version}")
    here = os.path.realpath(shadowed)
    spawned = [] if version == "3.10" else [here]  # spawned ones begin in / there
    assert json.loads(_run(shadowed, PROGRAM, python)) == [*spawned, here, 0, here, None]


def test_no_process_of_a_batch_does(shadowed):
    assert _run(shadowed, BATCH).strip() == f"{{'{os.path.realpath(shadowed)}'}}"
