"""MATLAB files (version 5 to 7.2): each matrix is a table whose columns are numbered from 0."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy import io

from quadsim.bag.logs.columns import Table, map_of, to_log
from quadsim.bag.logs.log_file import LogFile
from quadsim.base.errors import InputError


def read(path: Path, columns: str) -> LogFile:
    """Read a MATLAB file by a column map; vectors of one length make a table by their names."""
    try:
        content = io.loadmat(str(path))
    except (ValueError, NotImplementedError, OSError, TypeError) as error:
        raise InputError(
            f"{path}: no MATLAB file of version 5 to 7.2 ({error}); save it with -v7"
        ) from None
    tables, vectors = {}, {}
    for name, value in content.items():
        if not isinstance(value, np.ndarray) or value.ndim != 2 or value.dtype.kind not in "fiu":
            continue
        if min(value.shape) == 1:
            vectors[name] = value.ravel()
        else:
            tables[name] = Table({str(k): value[:, k] for k in range(value.shape[1])})
    for length in {len(vector) for vector in vectors.values()}:
        tables[f"vectors of {length}"] = Table(
            {name: vector for name, vector in vectors.items() if len(vector) == length}
        )
    return to_log(path, tables, map_of(path, "matlab", tables, columns))
