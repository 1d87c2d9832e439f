"""Which executor nodes run on, by the release of rclpy, and how their processes end."""

import subprocess
import sys
import threading

import pytest

from quadsim.ros.runtime import dds_environment
from quadsim.ros.runtime.domain import leaving

runtime = pytest.importorskip("quadsim.ros.runtime.runtime", exc_type=ImportError)


@pytest.mark.parametrize(
    ("release", "events"),
    [
        ("3.3.16", False),  # Humble
        ("7.1.3", False),  # Jazzy, without one
        ("7.1.10", False),  # Jazzy, whose services cannot be coroutines
        ("7.1.11", True),
        ("9.1.2", True),  # Kilted
        ("10.0.5", True),
        ("rolling", False),
    ],
)
def test_events_are_taken_where_services_can_wait(monkeypatch, release, events):
    monkeypatch.setattr(dds_environment, "version", {"rclpy": release}.__getitem__)
    assert runtime.in_order_of_arrival() is events


def test_an_rclpy_of_no_known_release_gets_the_common_executor(monkeypatch):
    monkeypatch.setattr(runtime, "release", lambda: ())
    assert not runtime.in_order_of_arrival()


LOOKS = """
import inspect, os
from quadsim.ros.runtime import runtime, topics

runtime.find_sources()

def look(path, **_):
    raise AssertionError(f"looks for {path}")

os.path.realpath = look
assert inspect.getmodule(topics.full_name.__code__) is topics
"""


def test_the_files_of_modules_are_found_before_a_flight():
    """In a process of its own: other tests' modules come and go in this one."""
    subprocess.run([sys.executable, "-c", LOOKS], check=True)


STANDS_STILL = """
import ctypes
from rclpy.context import Context
from quadsim.ros.runtime import runtime

runtime.END_S = 0.5
with runtime.ending(Context()):
    pass  # what ends in time is let go
lock = ctypes.create_string_buffer(64)
with runtime.ending(Context()):
    for _ in range(2):  # a deadlock with Python's lock in the hand
        ctypes.PyDLL(None).pthread_mutex_lock(lock)
"""


def test_a_process_that_stands_still_in_dds_ends_and_says_where():
    words = [sys.executable, "-c", STANDS_STILL]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Timeout (0:00:00.500000)!" in done.stderr
    assert 'File "<string>", line 12 in <module>' in done.stderr


def test_a_domain_is_left_by_one_at_a_time():
    """Whoever comes while one leaves waits for it; another domain is nobody's business."""
    inside, both = threading.Semaphore(1), []

    def leave(domain):
        with leaving(domain):
            both.append(not inside.acquire(blocking=False))
            elsewhere.wait(60.0)
            inside.release()

    elsewhere = threading.Event()
    leaves = [threading.Thread(target=leave, args=(231,)) for _ in range(3)]
    for thread in leaves:
        thread.start()
    with leaving(232):
        elsewhere.set()
    for thread in leaves:
        thread.join(60.0)
    assert both == [False, False, False]


def test_a_folder_that_cannot_be_written_keeps_nobody_from_leaving(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "quadsim.ros.runtime.domain.lock_path", lambda _: tmp_path / "none" / "lock"
    )
    with leaving(231):
        pass
