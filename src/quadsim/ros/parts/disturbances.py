"""Disturbances of the world: from a parameter, at the start or in flight, and onto ``events``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from quadsim.ros.runtime.params import declare_live_text
from quadsim.vehicle.disturbances import (
    Disturbance,
    changes,
    check_disturbances,
    disturbances_from_text,
)
from quadsim.vehicle.parameters import VehicleParams

PARAMETER = "disturbances"


class DisturbanceControl:
    """The parameter ``disturbances``: a YAML list, as ``events`` of a scenario.

    What is set in flight replaces what has not happened yet, and its ``at_s`` counts from then.

    Args:
        node: of the physics.
        vehicle: the vehicles' parameters.
        count: of vehicles.

    Raises:
        InputError: the node was started with one that cannot be.
    """

    def __init__(self, node: Any, vehicle: VehicleParams, count: int) -> None:
        self._node, self._vehicle = node, vehicle
        self._count = count
        self._now_ns = 0
        self._apply: Callable[[Sequence[Disturbance]], None] | None = None
        self._pending: list[tuple[int, int, str]] = []
        doc = "disturbances of the vehicles, a YAML list; at_s counts from its setting"
        text = declare_live_text(node, PARAMETER, doc, self._set)
        where = f"node {node.get_fully_qualified_name()}: parameter {PARAMETER}"
        self.given = self._read(text, where)

    def _read(self, text: str, where: str) -> tuple[Disturbance, ...]:
        """Disturbances of a text, in the flight's time."""
        found = disturbances_from_text(text, where)
        check_disturbances(found, self._vehicle, self._count, where)
        found = tuple(replace(item, at_s=item.at_s + self._now_ns * 1e-9) for item in found)
        self._pending = sorted(
            (stamp_ns, i, words)
            for i in range(self._count)
            for stamp_ns, words in changes(found, i + 1)
        )
        return found

    def restart(self, vehicle: VehicleParams, now_ns: int) -> tuple[Disturbance, ...]:
        """The disturbances of the parameter, for a flight that begins now.

        Args:
            vehicle: the vehicles' parameters.
            now_ns: simulated time.
        """
        self._vehicle, self._now_ns = vehicle, now_ns
        return self._read(str(self._node.get_parameter(PARAMETER).value), PARAMETER)

    def bind(self, apply: Callable[[Sequence[Disturbance]], None]) -> None:
        """From now on hand what is set in flight to the physics."""
        self._apply = apply

    def _set(self, text: str) -> None:
        if self._apply is not None:
            self._apply(self._read(text, PARAMETER))

    def take(self, now_ns: int) -> list[tuple[int, str]]:
        """Index of the vehicle and words of what has happened by this stamp."""
        self._now_ns = now_ns
        taken = []
        while self._pending and self._pending[0][0] <= now_ns:
            _, index, words = self._pending.pop(0)
            taken.append((index, words))
        return taken
