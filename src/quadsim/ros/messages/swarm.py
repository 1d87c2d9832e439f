"""Messages of many vehicles made together: numbers of all are written in a few array operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.ros.messages.cdr import SECOND_NS
from quadsim.wire.decode import LAYOUTS, message_dtype

Indices = NDArray[np.intp]


class Copies:
    """Serialised messages of one topic of several vehicles.

    Messages of one length, so of frame names of one length, are one array, whose columns are set.

    Args:
        type_name: one of :data:`quadsim.wire.decode.LAYOUTS`.
        templates: a serialised message of each vehicle, with its frame names and what stays.
    """

    def __init__(self, type_name: str, templates: Sequence[bytes]) -> None:
        lengths = np.array([len(template) for template in templates])
        self._lengths = lengths
        self._within = np.zeros(len(templates), np.intp)  # row of a vehicle among its like
        self._like: dict[int, tuple[NDArray[np.uint8], np.dtype[np.void]]] = {}
        for length in sorted(set(lengths.tolist())):
            chosen = np.flatnonzero(lengths == length)
            self._within[chosen] = np.arange(len(chosen))
            rows = np.frombuffer(b"".join(templates[i] for i in chosen), np.uint8)
            dtype = message_dtype(LAYOUTS[type_name], templates[chosen[0]])
            self._like[length] = (rows.reshape(len(chosen), length), dtype)

    def payloads(
        self, vehicles: Indices, stamp_ns: NDArray[np.int64], **columns: NDArray[Any]
    ) -> list[bytes]:
        """One message for each row.

        Args:
            vehicles: (M,) whose.
            stamp_ns: (M,) ns.
            columns: names of the layout to (M, ...) numbers.
        """
        found: list[bytes] = [b""] * len(vehicles)
        lengths = self._lengths[vehicles]
        for length, (templates, dtype) in self._like.items():
            chosen = np.flatnonzero(lengths == length)
            if not len(chosen):
                continue
            rows = templates[self._within[vehicles[chosen]]]
            view = rows.reshape(-1).view(dtype)
            view["sec"], view["nanosec"] = np.divmod(stamp_ns[chosen], SECOND_NS)
            for name, values in columns.items():
                if name in (dtype.names or ()):  # older ROS lack some
                    view[name] = values[chosen]
            whole = rows.tobytes()
            for k, i in enumerate(chosen.tolist()):
                found[i] = whole[k * length : (k + 1) * length]
        return found
