"""Disturbances of the world: from a parameter, at the start or in flight, and onto ``events``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from rcl_interfaces.msg import ParameterDescriptor, ParameterType, SetParametersResult

from quadsim.base.errors import InputError
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
        text = node.declare_parameter(
            PARAMETER,
            "",
            ParameterDescriptor(
                type=ParameterType.PARAMETER_STRING,
                description="what befalls the vehicles, a YAML list; at_s counts from its setting",
            ),
        ).value
        where = f"node {node.get_fully_qualified_name()}: parameter {PARAMETER}"
        self.given = self._read(str(text), where)
        node.add_on_set_parameters_callback(self._on_set)

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
        """What the parameter says befalls the vehicles in a flight that begins now.

        Args:
            vehicle: the vehicles' parameters.
            now_ns: simulated time.
        """
        self._vehicle, self._now_ns = vehicle, now_ns
        return self._read(str(self._node.get_parameter(PARAMETER).value), PARAMETER)

    def bind(self, apply: Callable[[Sequence[Disturbance]], None]) -> None:
        """From now on hand what is set in flight to the physics."""
        self._apply = apply

    def _on_set(self, parameters: Sequence[Any]) -> SetParametersResult:
        for parameter in parameters:
            if parameter.name != PARAMETER or self._apply is None:
                continue
            try:
                self._apply(self._read(str(parameter.value), PARAMETER))
            except InputError as error:
                return SetParametersResult(successful=False, reason=str(error))
        return SetParametersResult(successful=True)

    def take(self, now_ns: int) -> list[tuple[int, str]]:
        """Index of the vehicle and words of what has happened by this stamp."""
        self._now_ns = now_ns
        taken = []
        while self._pending and self._pending[0][0] <= now_ns:
            _, index, words = self._pending.pop(0)
            taken.append((index, words))
        return taken
