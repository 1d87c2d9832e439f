"""What killed processes left in shared memory is removed; what somebody holds is not."""

import fcntl
import os

import pytest

from quadsim.ros.runtime.domain import YOUNGEST_S, clear_left_behind

DOMAIN = 91
#: The first participant's unicast port: base + gain * domain + 11 (RTPS 2.3, 9.6.1.1).
PORT = 7400 + 250 * DOMAIN + 11


@pytest.fixture
def part(tmp_path):
    """Makes the files of one part, old enough."""

    def make(name: str, lock: str = "_el", age_s: float = 2.0 * YOUNGEST_S):
        names = [name, *([name + lock] if lock else [])]
        if "port" in name:
            names.append(f"sem.{name}_mutex")
        for one in names:
            path = tmp_path / one
            path.write_bytes(b"")
            then_s = path.stat().st_mtime - age_s
            os.utime(path, (then_s, then_s))
        return tmp_path / name

    return make


def test_what_nobody_holds_is_removed_with_all_that_belongs_to_it(part, tmp_path):
    part(f"fastdds_port{PORT}")
    part(f"fastdds_port{PORT + 2}", lock="")
    part("fastdds_0018ed147b4f90e9")
    assert clear_left_behind(DOMAIN, tmp_path) == 3
    assert not list(tmp_path.iterdir())


def test_what_lives_is_young_or_another_domains_stays(part, tmp_path):
    held = part(f"fastdds_port{PORT}")
    shared = part(f"fastdds_port{PORT + 2}", lock="_sl")
    data = part("fastdds_0018ed147b4f90e9")
    young = part(f"fastdds_port{PORT + 4}", age_s=0.0)
    other = part(f"fastdds_port{PORT + 250}")
    unlocked = part("fastdds_004b6397cb5bc3cf", lock="")
    foreign = part("fastdds_log", lock="")
    locks = [
        (f"{held}_el", fcntl.LOCK_EX),
        (f"{shared}_sl", fcntl.LOCK_SH),
        (f"{data}_el", fcntl.LOCK_EX),
    ]
    files = [open(name, "r+") for name, _ in locks]  # noqa: PTH123, SIM115
    for file, (_, kind) in zip(files, locks, strict=True):
        fcntl.flock(file, kind)
    assert clear_left_behind(DOMAIN, tmp_path) == 0
    for path in (held, shared, data, young, other, unlocked, foreign):
        assert path.exists()
    for file in files:
        file.close()
    assert clear_left_behind(DOMAIN, tmp_path) == 3
