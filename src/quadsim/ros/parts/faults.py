"""Faults of a sensor node: from its parameter, at the start or in flight, and onto ``events``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from quadsim.base.errors import InputError
from quadsim.ros.runtime.base import QuadsimNode, make_status
from quadsim.ros.runtime.params import declare_live_text
from quadsim.sensors.faults import FaultParams, changes, faults_from_text
from quadsim.sim.log import WARN

PARAMETER = "faults"


class FaultControl:
    """The parameter ``faults``: a YAML list of faults, or one, each without its ``sensor``.

    What is set in flight ends and replaces what was set before, and its ``at_s`` counts from then;
    an empty text just ends. Begin and end of each are published on ``events``.

    Args:
        node: the sensor's.
        apply: takes the faults, or refuses them with an InputError.

    Raises:
        InputError: the node was started with a fault that does not fit.
    """

    def __init__(self, node: QuadsimNode, apply: Callable[[Sequence[FaultParams]], None]) -> None:
        self._node = node
        self._apply = apply
        self._now_ns = 0
        self._pending: list[tuple[int, str]] = []
        self._acting = 0
        doc = "what goes wrong, as a YAML list; at_s counts from when it is set"
        given = declare_live_text(node, PARAMETER, doc, self._set_in_flight)
        try:
            self._set(given)
        except InputError as error:
            where = node.get_fully_qualified_name()
            raise InputError(f"node {where}: parameter {PARAMETER}: {error}") from None

    def _set(self, text: str) -> None:
        begin_s = self._now_ns * 1e-9
        faults = [replace(fault, at_s=fault.at_s + begin_s) for fault in faults_from_text(text)]
        self._apply(faults)
        self._pending = changes(faults)

    def _set_in_flight(self, text: str) -> None:
        self._set(text)
        if self._acting:
            self._acting = 0
            self._publish(self._now_ns, "all faults end")

    def restart(self, now_ns: int) -> None:
        """Let the faults of the parameter act in a flight that begins now."""
        self._now_ns, self._acting = now_ns, 0
        self._set(str(self._node.get_parameter(PARAMETER).value))

    def report_changes(self, now_ns: int) -> None:
        """Publish on ``events`` what has begun or ended by this stamp."""
        self._now_ns = now_ns
        while self._pending and self._pending[0][0] <= now_ns:
            stamp_ns, words = self._pending.pop(0)
            self._acting += 1 if words.endswith("begins") else -1
            self._publish(stamp_ns, words)

    def _publish(self, stamp_ns: int, words: str) -> None:
        name = self._node.get_name()
        self._node.events.publish(
            make_status(WARN, "fault", f"{name}: {words}", {"stamp_s": f"{stamp_ns * 1e-9:.3f}"})
        )
