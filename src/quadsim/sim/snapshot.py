"""The whole of a flight at one moment, from which it goes on to the same last bit."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from copy import deepcopy
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from quadsim.base.errors import InputError

if TYPE_CHECKING:
    from quadsim.sim.closed_loop import ClosedLoop
    from quadsim.sim.vehicles import Vehicles

#: Of a loop, what a flight does not change.
_FIXED = ("scenario", "setup", "state", "records", "_vehicles", "_scene", "_log", "_samples")


def _arrays(found: object, seen: set[int]) -> Iterator[Any]:
    """Every array and record that an object of ours holds, and those that its parts hold."""
    if id(found) in seen:
        return
    seen.add(id(found))
    parts: Iterable[object] = ()
    if isinstance(found, np.ndarray | np.void):
        yield found
    elif isinstance(found, dict):
        parts = found.values()
    elif isinstance(found, list | tuple | set | deque):
        parts = found
    elif hasattr(found, "__self__"):
        parts = (found.__self__,)
    elif hasattr(found, "__dict__") and not isinstance(found, type | ModuleType):
        parts = vars(found).values()
    for part in parts:
        yield from _arrays(part, seen)


class Snapshot:
    """What one vehicle alone in its world is and remembers: motion, devices, filter, autopilot.

    Random streams, what is on its way, own parts and logs are in it. It can be restored as often as
    is wanted.

    Args:
        loop: the flight.
        vehicles: its records.

    Raises:
        InputError: an own part of the user cannot be copied.

    Attributes:
        loop, vehicles: those that were given, which :meth:`restore` takes back to now.
        of: what whoever took it remembers in addition.
    """

    def __init__(self, loop: ClosedLoop, vehicles: Vehicles) -> None:
        self.loop, self.vehicles = loop, vehicles
        self.of: dict[str, Any] = {}
        self._shared = [vehicles.states, vehicles.setups, vehicles.use_truth, vehicles.linear]
        self._shared += vehicles.devices.values()
        self._records = [array.copy() for array in self._shared]
        rows, taken = int(loop.state.log_count), {k: len(loop.samples(k)) for k in vehicles.samples}
        self._logs = [(vehicles.logs[0], vehicles.logs[0, :rows].copy())]
        for kind, samples in vehicles.samples.items():
            if samples.shape[1]:
                self._logs.append((samples[0, 0], samples[0, 0, : taken[kind]].copy()))
        self._noise, self._scene = vehicles.noise.keep(), vehicles.scene
        # objects are copied; arrays, of which others are views, stay, and their content is copied
        content = {name: value for name, value in vars(loop).items() if name not in _FIXED}
        content["outside"] = vehicles.outside
        live = [*self._shared, vehicles.logs, *vehicles.samples.values()]
        self._same: list[Any] = [vars(loop)[name] for name in _FIXED if name in vars(loop)]
        self._same += [loop, vehicles.scene.terrain]
        arrays = list(_arrays(content, {id(each) for each in self._same}))
        self._same += arrays
        self._contents = [
            (array, array.copy())
            for array in arrays
            if array.flags.writeable
            and not any(np.may_share_memory(array, other) for other in live)
        ]
        self._kept = self._copy(content)

    def _copy(self, content: dict[str, Any]) -> dict[str, Any]:
        """What a loop remembers, copied but for what stays."""
        try:
            return deepcopy(content, {id(each): each for each in self._same})
        except TypeError as error:
            raise InputError(f"snapshot: an own part cannot be copied: {error}") from None

    def restore(self) -> None:
        """Go back to the moment at which it was taken."""
        vehicles = self.vehicles
        if vehicles.scene is not self._scene:
            vehicles.see(self._scene)
        for array, before in zip(self._shared, self._records, strict=True):
            array[:] = before
        for log, rows in self._logs:
            log[: len(rows)] = rows
        for array, before in self._contents:
            if isinstance(array, np.ndarray):
                array[...] = before
            else:
                for name in array.dtype.names or ():
                    array[name] = before[name]
        vehicles.noise.restore(self._noise)
        content = self._copy(self._kept)
        vehicles.outside[:] = content.pop("outside")
        vars(self.loop).update(content)
