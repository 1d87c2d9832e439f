"""Threads that share the parts of jobs: each part is done once, by whoever comes."""

import gc
import threading
import time
from functools import partial

import numpy as np
import pytest

from quadsim.base.compiled import threaded
from quadsim.base.crew import (
    DONE,
    FOUND,
    GIVEN,
    PARTS,
    Crew,
    begin_job,
    end_part,
    goes_on,
    next_part,
    seen,
)

MOST = 40


@threaded
def count_parts(counts, sums, words, seat):
    """Count who does each part how often, and compute for a while."""
    more = True
    while more:
        job, part = seen(words, seat), next_part(words, seat)
        while part >= 0:
            counts[part] += 1
            for k in range(words[GIVEN]):
                sums[part] = 0.5 * sums[part] + k
            if part == 3:
                words[FOUND] = 1
            end_part(words)
            part = next_part(words, seat)
        more = goes_on(words, seat, job)
        if seat == 0:
            break
    return more


def crew_of(threads):
    """A crew, and how often each part was done."""
    counts = np.zeros(MOST, np.int64)
    return Crew(threads, partial(count_parts, counts, np.zeros(MOST))), counts


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("pause_s", [0.0, 1e-4])
def test_each_part_is_done_once(threads, pause_s):
    """Also by threads that are called in a row, sleep between, or come too late."""
    crew, counts = crew_of(threads)
    rng = np.random.default_rng(1)
    expected = np.zeros(MOST, np.int64)
    for job in range(300):
        parts = int(rng.integers(1, MOST))
        found = crew.do(parts, int(rng.integers(0, 2000)), job % 4, job % 3 > 0)
        expected[:parts] += 1
        assert np.array_equal(counts, expected)
        assert found == (parts > 3)
        if pause_s:
            time.sleep(pause_s)


def test_what_an_interrupt_left_is_done_before_the_next_job():
    crew, counts = crew_of(2)
    begin_job(crew.words, 5, 10)
    crew.do(2, 10, 1, True)
    assert counts[:6].tolist() == [2, 2, 1, 1, 1, 0]
    assert crew.words[DONE] == crew.words[PARTS] == 2


def test_threads_sleep_and_end_with_their_crew():
    def of_crews():
        return [each for each in threading.enumerate() if each.name == "crew"]

    gc.collect()
    before = set(of_crews())
    crew, _ = crew_of(3)
    mine = set(of_crews()) - before
    assert len(mine) == 2
    crew.do(30, 1000, 2, True)
    begin_s = time.process_time()
    time.sleep(0.2)
    assert time.process_time() - begin_s < 0.05  # two that look on would take 0.4
    del crew
    gc.collect()
    for each in mine:
        each.join(5.0)
        assert not each.is_alive()
