"""Who compiles for long says so, with a count."""

import numba

from quadsim.base.compile_count import (
    EVERY_S,
    QUIET_S,
    CompileCount,
    compiled_words,
    count_compiled,
    counting_files,
)


def test_long_compiling_is_said_with_a_count_and_short_is_not():
    now, said = [0.0], []
    counted = CompileCount(said.append, lambda: now[0])

    def compile_for(seconds):
        counted.on_start(None)
        now[0] += seconds
        counted.on_end(None)
        now[0] += 100.0  # of something else

    compile_for(0.9 * QUIET_S)
    assert not said
    compile_for(0.2 * QUIET_S)
    assert said == ["compiling kernels, once: 2 so far in 2 s"]
    compile_for(0.9 * EVERY_S)
    assert len(said) == 1
    compile_for(0.2 * EVERY_S)
    assert said[1:] == ["compiling kernels, once: 4 so far in 8 s"]


def test_a_kernel_within_another_counts_and_its_time_only_once():
    now = [0.0]
    counted = CompileCount(lambda _: None, lambda: now[0])
    counted.on_start(None)
    counted.on_start(None)
    now[0] += 1.0
    counted.on_end(None)
    counted.on_end(None)
    assert (counted.count, counted.spent_s) == (2, 1.0)


def test_numba_tells_of_each_compilation():
    counted = count_compiled(lambda _: None)
    numba.njit(lambda x: x + 1.0)(1.0)
    assert counted.count == 1


def test_the_time_left_is_that_of_the_rate():
    assert compiled_words(0, 200, 3.0) == "0 of about 200 kernels"
    assert compiled_words(50, 200, 10.0) == "50 of about 200 kernels, about 30 s left"
    assert compiled_words(210, 200, 10.0) == "210 kernels, more than the usual 200"


def test_files_of_other_processes_are_counted(tmp_path, monkeypatch):
    import threading

    from quadsim.base import compile_count

    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(compile_count, "EVERY_S", 0.01)
    said, came = [], threading.Event()
    (tmp_path / "old.nbc").touch()

    def say(words):
        said.append(words)
        if words.startswith("2 of about 4 kernels"):
            came.set()

    with counting_files(say, 4):
        for name in ("a", "b"):
            (tmp_path / f"{name}.nbc").touch()
        assert came.wait(10.0)
