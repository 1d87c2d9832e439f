"""MATLAB files (version 5 to 7.2): each matrix is a table whose columns are numbered from 0."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.bag.logs.columns import Table, map_of, to_log
from quadsim.bag.logs.log_file import LogFile
from quadsim.base.errors import InputError

#: Writes the matrices of a MATLAB file as .npz, in a process of its own: damage in one can make
#: scipy's reader end the process.
_READER = """
import sys, numpy, scipy.io
found = {k: v for k, v in scipy.io.loadmat(sys.argv[1]).items() if isinstance(v, numpy.ndarray)}
fit = {k: v for k, v in found.items() if v.ndim == 2 and v.dtype.kind in "fiu" and v.size}
left = {f"?{k}": numpy.array(v.shape) for k, v in found.items() if k not in fit}
numpy.savez(sys.argv[2], **{f"_{k}": v for k, v in fit.items()}, **left)
"""
_LONGEST_S = 60.0
#: An error of the reader may state a piece of the file; so many letters of it are told.
_LONGEST_WORDS = 200


def _content(path: Path) -> dict[str, NDArray[Any]]:
    """Matrices of a file by their names; behind a question mark the shapes of what is none."""
    with TemporaryDirectory(prefix="quadsim-mat-") as folder:
        target = Path(folder) / "content.npz"
        call = [sys.executable, "-I", "-c", _READER, str(path), str(target)]
        try:
            done = subprocess.run(
                call, check=False, capture_output=True, text=True, timeout=_LONGEST_S
            )
            told = done.stderr.strip().splitlines()
            why = told[-1][:_LONGEST_WORDS] if told else f"its reader ended by {done.returncode}"
        except subprocess.TimeoutExpired:
            why = f"not read within {_LONGEST_S:g} s"
        if not target.is_file() or why.startswith("its reader ended by -"):
            raise InputError(
                f"{path}: no MATLAB file of version 5 to 7.2 ({why}); save it with -v7"
            )
        with np.load(target) as found:
            return {name.removeprefix("_"): found[name] for name in found.files}


def read(path: Path, columns: str) -> LogFile:
    """Read a MATLAB file by a column map; vectors of one length make a table by their names."""
    content = _content(path)
    left = {name[1:]: content.pop(name) for name in list(content) if name.startswith("?")}
    tables, vectors = {}, {}
    for name, value in content.items():
        if min(value.shape) == 1:
            vectors[name] = value.ravel()
        else:
            tables[name] = Table({str(k): value[:, k] for k in range(value.shape[1])})
    for length in {len(vector) for vector in vectors.values()}:
        tables[f"vectors of {length}"] = Table(
            {name: vector for name, vector in vectors.items() if len(vector) == length}
        )
    log = to_log(path, tables, map_of(path, "matlab", tables, columns))
    for name, shape in left.items():
        log.leave(name, max(1, int(shape[0])), "no matrix of numbers")
    return log
