"""Logs of other people that were read wrongly: ranges, noise before a header, damaged matrices."""

import numpy as np
import pytest
from scipy import io

from quadsim.bag.reading import format_of, open_bag
from quadsim.base.errors import InputError


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
