"""Many jobs in processes: order, errors, ends."""

import math
import os
import signal
import subprocess
import sys
from concurrent.futures import Executor, Future

import pytest
from jobs_that_die import die_but_here, end, end_once

from quadsim.base.errors import FlightError
from quadsim.lab.campaign.batch import Processes, run_batch, stream_results

PATIENCE_S = 60.0


@pytest.mark.parametrize("processes", [1, 2])
def test_results_come_in_the_order_of_the_jobs(processes):
    told = []
    jobs = [float(n * n) for n in range(9)]
    results = run_batch(math.sqrt, jobs, processes, lambda done, total: told.append((done, total)))
    assert results == [float(n) for n in range(9)]
    assert told == [(n, 9) for n in range(1, 10)]


def test_processes_work_in_the_folder_of_their_own_batch(tmp_path, monkeypatch):
    """Those of the batch before stood in that one's folder."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        assert run_batch(os.path.abspath, [".", ".", "."], 2) == [str(tmp_path / name)] * 3


def test_an_error_of_a_job_is_the_batch_s():
    with pytest.raises(ValueError, match=r"math domain error|nonnegative"):
        run_batch(math.sqrt, [1.0, 4.0, -1.0, 9.0], 2)


def test_a_process_that_dies_is_said():
    with pytest.raises(FlightError, match="a process of the batch died"):
        run_batch(die_but_here, [os.getpid()] * 3, 2)


def test_a_run_whose_process_dies_is_named_and_the_others_go_on():
    with Processes(2) as pool:
        found = dict(stream_results(end, range(7), pool, lambda job: f"{job} died"))
    assert found == {n: "2 died" if n == 2 else n for n in range(7)}


def test_a_run_whose_process_is_killed_from_outside_is_flown_again(tmp_path):
    with Processes(2) as pool:
        jobs = [(str(tmp_path), n) for n in range(5)]
        assert dict(stream_results(end_once, jobs, pool, lambda job: "died")) == {
            n: n for n in range(5)
        }


class Lost(Exception):
    """The process of a task died."""


class Counting(Executor):
    """Does every task at once and notes how many jobs it has; job 7 ends its process."""

    def __init__(self):
        self.sizes = []

    def submit(self, do, work, jobs):
        future = Future()
        self.sizes.append(len(jobs))
        if 7 in jobs:
            future.set_exception(Lost())
        else:
            future.set_result(do(work, jobs))
        return future


class Tasks:
    """A pool of so many processes, whose tasks are to take a second."""

    death, all_die, task_s = Lost, False, 1.0

    def __init__(self, width):
        self.counting, self._width = Counting(), width

    def executor(self):
        return self.counting

    def width(self):
        return self._width

    def end(self, underway):
        raise AssertionError("nothing is left under way")


def test_short_jobs_go_together_until_the_end_is_near():
    pool = Tasks(2)
    found = dict(stream_results(math.sqrt, range(100, 200), pool, lambda job: "died", count=100))
    assert found == {n: math.sqrt(100 + n) for n in range(100)}
    # two for each process before anything is known of their time; then an eighth of what is left
    assert pool.counting.sizes[:5] == [1, 1, 1, 1, 96 // 8]
    assert sorted(pool.counting.sizes[4:], reverse=True) == pool.counting.sizes[4:]
    assert pool.counting.sizes[-8:] == [1] * 8


def test_jobs_whose_number_is_not_known_go_one_by_one():
    pool = Tasks(2)
    assert len(dict(stream_results(math.sqrt, range(100, 150), pool, lambda job: "died"))) == 50
    assert set(pool.counting.sizes) == {1}


def test_of_a_task_whose_process_died_each_job_is_done_alone():
    pool = Tasks(1)
    jobs = [*range(100, 150), 7, *range(150, 200)]
    found = dict(stream_results(math.sqrt, jobs, pool, lambda job: f"{job} died", count=101))
    assert found == {n: math.sqrt(job) if job != 7 else "7 died" for n, job in enumerate(jobs)}


INTERRUPTED = """
import time
from quadsim.lab.campaign.batch import run_batch

def slow(seconds):
    time.sleep(seconds)

def tell(done, total):
    print(done, flush=True)

if __name__ == "__main__":
    try:
        run_batch(slow, [0.0] + [0.3] * 1000, 2, tell)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


def test_ctrl_c_ends_the_batch_and_its_processes(tmp_path):
    """A terminal sends it to all: the processes ignore it, the batch ends them and says so."""
    script = tmp_path / "batch.py"
    script.write_text(INTERRUPTED, encoding="utf-8")
    run = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert run.stdout is not None
    for line in run.stdout:
        if line.strip() == "3":  # the processes are at work
            os.killpg(run.pid, signal.SIGINT)
            break
    out, err = run.communicate(timeout=PATIENCE_S)  # until no process holds the pipes
    assert out.endswith("interrupted\n")
    assert err == ""
    assert run.returncode == 0
