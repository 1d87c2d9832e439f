"""Logs of other people that were read wrongly: ranges, noise before a header, damaged matrices."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import io

from quadsim.bag.reading import format_of, open_bag
from quadsim.base.errors import InputError

HEAD = (
    "FMT, 128, 89, FMT, BBnNZ, Type,Length,Name,Format,Columns",
    "FMT, 129, 37, IMU, QBffffff, TimeUS,I,GyrX,GyrY,GyrZ,AccX,AccY,AccZ",
    "FMT, 130, 17, RFND, QBfBB, TimeUS,Instance,Dist,Stat,Orient",
)


@pytest.mark.parametrize(
    ("orient", "status", "count"), [(25, 4, 20), (0, 4, 0), (25, 1, 0)], ids=["down", "front", "no"]
)
def test_a_range_counts_that_looks_down_and_has_data(tmp_path, orient, status, count):
    lines = list(HEAD)
    for k in range(20):
        lines.append(f"IMU, {1_000_000 + k * 20_000}, 0, 0.0, 0.0, 0.0, 0.0, 0.0, -9.80665")
        lines.append(f"RFND, {1_000_000 + k * 20_000}, 0, 7.5, {status}, {orient}")
    path = tmp_path / "flight.log"
    path.write_text("\n".join(lines) + "\n")
    with open_bag(path) as bag:
        assert bag.counts.get("/quad/range/down", 0) == count
        assert any(left.startswith("RFND (") for left in bag.unread) == (count == 0)


def test_a_blackbox_header_is_found_behind_noise(tmp_path):
    path = tmp_path / "noise.bbl"
    path.write_bytes(b"w9 r c\xff\xd5" + b"H Product:Blackbox flight data recorder\n")
    assert format_of(path).name == "blackbox"


def test_a_damaged_matlab_file_is_refused_in_a_line(tmp_path):
    path = tmp_path / "flight.mat"
    io.savemat(path, {"imu": np.arange(60.0).reshape(10, 6)})
    content = bytearray(path.read_bytes())
    content[136:] = b"\xff" * (len(content) - 136)
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"no MATLAB file|no message"):
        open_bag(path).__enter__()
