"""The 48 ways of naming three perpendicular axes, which of them happen, and their names."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from quadsim.estimation.mounting_check.evidence import PERM, SIGN, WAYS

Array = NDArray[np.float64]

MATRICES: Array = np.zeros((WAYS, 3, 3))
for _k in range(WAYS):
    MATRICES[_k, np.arange(3), PERM[_k]] = SIGN[_k]


def _index(A: Array) -> int:
    return int(_indices(A))


def _indices(A: Array) -> NDArray[np.intp]:
    """(...) the ways that (..., 3, 3) matrices are most like."""
    likeness = A.reshape(*A.shape[:-2], 9) @ MATRICES.reshape(WAYS, 9).T
    return np.asarray(np.argmax(likeness, axis=-1))


def _rotation(axis: int, degrees: float) -> Array:
    cosine, sine = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    i, j = (axis + 1) % 3, (axis + 2) % 3
    R = np.eye(3)
    R[[i, j], [i, j]], R[i, j], R[j, i] = cosine, -sine, sine
    return R


_SWAP = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
_NED = _SWAP @ np.diag([1.0, 1.0, -1.0])
#: Namings that happen, the likely ones first. A turn is that of the sensor.
BODY = [
    ("FRD", np.diag([1.0, -1.0, -1.0])),
    *(
        (f"turned by {degrees:g} degrees about {'xyz'[axis]}", _rotation(axis, -degrees))
        for axis, degrees in (
            (2, 90.0), (2, -90.0), (2, 180.0), (0, 90.0), (0, -90.0), (1, 90.0), (1, -90.0),
            (1, 180.0),
        )
    ),
    ("NED", _NED),
    ("x and y exchanged", _SWAP),
    ("z with the other sign", np.diag([1.0, 1.0, -1.0])),
    ("x with the other sign", np.diag([-1.0, 1.0, 1.0])),
    ("y with the other sign", np.diag([1.0, -1.0, 1.0])),
]  # fmt: skip
WORLD = [
    ("NED", _NED),
    ("x and y exchanged", _SWAP),
    ("z with the other sign", np.diag([1.0, 1.0, -1.0])),
    ("x with the other sign", np.diag([-1.0, 1.0, 1.0])),
    ("y with the other sign", np.diag([1.0, -1.0, 1.0])),
    *((f"turned by {d:g} degrees about z", _rotation(2, -d)) for d in (90.0, -90.0, 180.0)),
]


class Namings:
    """The 48 namings in the order of their likelihood, the declared one first."""

    def __init__(self, known: Sequence[tuple[str, Array]]) -> None:
        self.names = {_index(A): name for name, A in known}
        listed = [_index(np.eye(3)), *self.names]
        proper = [k for k in range(WAYS) if np.linalg.det(MATRICES[k]) > 0.0]
        rest = [k for k in (*proper, *range(WAYS)) if k not in listed]
        self.order = listed + list(dict.fromkeys(rest))
        self.rank = np.argsort(self.order)

    def words(self, k: int) -> str:
        """What the k-th naming is called, and which measured axis holds which true one."""
        pairs = (
            f"{'xyz'[i]}<-{'-' if SIGN[k, i] < 0.0 else ''}{'xyz'[PERM[k, i]]}" for i in range(3)
        )
        name = self.names.get(k, "others")
        return (
            f"axes look {'' if name.startswith('turned') else 'like '}{name} ({', '.join(pairs)})"
        )


BODY_NAMINGS, WORLD_NAMINGS = Namings(BODY), Namings(WORLD)
IDENTITY = _index(np.eye(3))
PRODUCT = _indices(MATRICES[:, None] @ MATRICES)
INVERSE = _indices(MATRICES.transpose(0, 2, 1))
MIRROR = np.round(np.linalg.det(MATRICES)).astype(int)
OPPOSITE = _indices(-MATRICES)
#: Namings that only turn about the vertical: a wrong heading does the same.
HEADINGS = [_index(_rotation(2, degrees)) for degrees in (90.0, -90.0, 180.0)]
