"""A parameter that states what happens in a flight, at the start or set in flight."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from rcl_interfaces.msg import SetParametersResult

from quadsim.base.errors import InputError
from quadsim.ros.runtime.params import declare_one

T = TypeVar("T")
ANY_TIME = "may change at any time"


class TimedParameter(Generic[T]):
    """A parameter whose text is a YAML list of what happens, each with its time ``at_s``.

    What is set in flight replaces what was set before, and its ``at_s`` counts from then.

    Args:
        read: what a text states from a time on, s: what happens, and stamps, ns, with what is to be
            reported then, in any order. It raises an InputError for what cannot be.
        apply: takes what happens, or refuses it likewise; without it nothing is set in flight.

    Attributes:
        items: what happens.

    Raises:
        InputError: the node was started with what cannot be.
    """

    def __init__(
        self,
        node: Any,
        name: str,
        doc: str,
        read: Callable[[str, float], tuple[Sequence[T], list[tuple[int, Any]]]],
        apply: Callable[[Sequence[T]], None] | None = None,
    ) -> None:
        self._node, self._name, self._read = node, name, read
        self._now_ns = 0
        self.apply = apply
        text = declare_one(node, name, "", f"{doc}; at_s counts from when it is set", ANY_TIME)
        try:
            self._set(text)
        except InputError as error:
            where = node.get_fully_qualified_name()
            raise InputError(f"node {where}: parameter {name}: {error}") from None
        node.add_on_set_parameters_callback(self._on_set)

    def _set(self, text: str) -> None:
        items, pending = self._read(text, self._now_ns * 1e-9)
        if self.apply is not None:
            self.apply(items)
        self.items, self._pending = items, sorted(pending, key=lambda report: report[0])

    def _on_set(self, parameters: Sequence[Any]) -> SetParametersResult:
        for parameter in parameters:
            if parameter.name == self._name and self.apply is not None:
                try:
                    self._set(str(parameter.value))
                except InputError as error:
                    return SetParametersResult(successful=False, reason=str(error))
        return SetParametersResult(successful=True)

    def restart(self, now_ns: int) -> None:
        """Let what the parameter reports happen in a flight that begins now."""
        self._now_ns = now_ns
        self._set(str(self._node.get_parameter(self._name).value))

    def due(self, now_ns: int) -> list[tuple[int, Any]]:
        """Stamps and reports of what has happened by this stamp and was not yet reported."""
        self._now_ns = now_ns
        count = sum(stamp_ns <= now_ns for stamp_ns, _ in self._pending)
        found, self._pending = self._pending[:count], self._pending[count:]
        return found
