"""What grows with a flight lies on the disk: the same rows, the same figures, and no memory."""

import errno
import json
import mmap
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from quadsim.analysis.replay import Settings, replay
from quadsim.analysis.scoring import Scoring, judge_replay
from quadsim.bag.log import GrowingSpeeds, Rising
from quadsim.base.errors import InputError
from quadsim.sim import disk_arrays as kept
from quadsim.sim.disk_arrays import KeptRows, KeptTrack, blocks_of_track, give_back, slices
from quadsim.sim.log import Track


def flight(count: int, sigma: bool) -> Track:
    """Numbers that differ everywhere."""
    rng = np.random.default_rng(3)
    parts = [rng.normal(size=(count, width)) for width in (3, 3, 4, 3, 9)]
    return Track(np.arange(count) * 2_000_000, *parts[:4], parts[4] if sigma else None)


@pytest.mark.parametrize("sigma", [False, True])
@pytest.mark.parametrize("held_bytes", [1, 1 << 30])  # all on the disk, all in memory
def test_a_track_comes_back_as_it_was(monkeypatch, held_bytes, sigma):
    monkeypatch.setattr(kept, "HELD_BYTES", held_bytes)
    whole = flight(1000, sigma)
    growing = KeptTrack(sigma)
    for rows in (slice(0, 1), slice(1, 1), slice(1, 700), slice(700, 1000)):
        growing.append(whole[rows])
    found = growing.track()
    for name in ("stamp_ns", "p_W", "v_W", "q_WB", "w_B"):
        np.testing.assert_array_equal(getattr(found, name), getattr(whole, name))
    if sigma:
        np.testing.assert_array_equal(found.sigma, whole.sigma)
    else:
        assert found.sigma is None
    give_back(found.p_W, found.stamp_ns)
    np.testing.assert_array_equal(found.p_W, whole.p_W)  # read anew


def test_nothing_kept_is_an_empty_track():
    assert len(KeptTrack(with_sigma=True).track()) == 0
    assert KeptRows(np.int64).whole().shape == (0,)
    assert GrowingSpeeds().speeds()[1].shape == (0, 4)


@pytest.mark.skipif(not hasattr(mmap, "MADV_DONTNEED"), reason="needs Linux")
def test_what_was_looked_at_is_given_back():
    size = 32 << 20
    rows = KeptRows(np.int64)
    rows.append(np.ones(size // 8, np.int64))
    shown = rows.whole()
    process = psutil.Process()
    before = process.memory_info().shared
    assert shown.sum() == size // 8
    seen = process.memory_info().shared
    give_back(shown)
    after = process.memory_info().shared
    assert seen - before > 0.9 * size  # file pages: whole ones, shown by the kernel
    assert after - before < 0.1 * size


def test_a_full_disk_is_named(monkeypatch):
    monkeypatch.setattr(kept, "HELD_BYTES", 1)
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("needs /dev/full")
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: full.open("wb", buffering=0))
    rows = KeptRows(np.int64)
    with pytest.raises(InputError, match="TMPDIR") as caught:
        rows.append(np.zeros(10, np.int64))
    assert tempfile.gettempdir() in str(caught.value)
    assert "No space left" in str(caught.value)
    assert errno.ENOSPC == 28  # what the words stand for


def test_blocks_hold_every_row_once(monkeypatch):
    monkeypatch.setattr(kept, "BLOCK_ROWS", 64)
    whole = flight(300, sigma=False)
    for from_ns, first in (
        (None, 0),
        (-1, 0),
        (199_000_001, 100),
        (200_000_000, 100),
        (10**12, 300),
    ):
        parts = list(blocks_of_track(whole, from_ns))
        assert max(map(len, parts)) <= 64
        stamps = np.concatenate([part.stamp_ns for part in parts])
        np.testing.assert_array_equal(stamps, whole.stamp_ns[first:])
    assert list(slices(0)) == [slice(0, 0)]


@pytest.mark.parametrize("seed", range(3))
def test_rising_stamps_are_those_above_all_before(seed):
    stamps = np.random.default_rng(seed).integers(0, 60, 80)
    rising = Rising()
    found = np.concatenate([rising.good(part) for part in np.split(stamps, [1, 1, 30, 64])])
    expected = [all(stamp > other for other in stamps[:i]) for i, stamp in enumerate(stamps)]
    assert found.tolist() == expected


def figures_of(bag: Path) -> dict[str, Any]:
    """Summary of a replay, without what the clock says."""
    result = replay(bag, Settings(("eskf", "blind")))
    summary = judge_replay("flight", bag, ("eskf", "blind"), result, Scoring(settle_s=1.0)).summary
    return {
        key: value for key, value in summary.items() if key not in ("wall_s", "real_time_factor")
    }


def test_a_flight_in_blocks_on_the_disk_has_the_same_figures(monkeypatch, circle_bag):
    expected = figures_of(circle_bag)
    monkeypatch.setattr(kept, "HELD_BYTES", 1000)
    monkeypatch.setattr(kept, "BLOCK_ROWS", 333)
    found = figures_of(circle_bag)
    assert found["digest"] == expected["digest"]
    # sums over blocks are rounded otherwise than sums over all: 1e-15 of a value, and more of the
    # small difference that an alignment leaves
    flat, other = (json.dumps(each, sort_keys=True) for each in (expected, found))
    assert numbers(flat) == pytest.approx(numbers(other), rel=1e-9, abs=1e-12)


def numbers(text: str) -> list[float]:
    """All of a JSON text, in its order."""
    found: list[float] = []

    def note(literal: str) -> float:
        found.append(float(literal))
        return found[-1]

    json.loads(text, parse_float=note, parse_int=note)
    return found
