"""Parameters of the flight controller that a flight depends on, read through its driver."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

from rcl_interfaces.msg import ParameterType
from rcl_interfaces.srv import GetParameters

from quadsim.drivers.commands import DriverParameter
from quadsim.drivers.driver import Driver
from quadsim.ros.runtime.base import QuadsimNode

#: Wall time until it is asked again: while nothing is known, and else.
ASK_S, AGAIN_S = 2.0, 10.0


def number_in(answer: Any) -> float:
    """A number of a ParameterValue; NaN: it is none."""
    if answer.type == ParameterType.PARAMETER_DOUBLE:
        return float(answer.double_value)
    if answer.type == ParameterType.PARAMETER_INTEGER:
        return float(answer.integer_value)
    return math.nan


class FlightParameters:
    """Asks for parameters from time to time, and judges them.

    mavros offers those of the flight controller as ROS parameters of its node ``param``, once it
    has read them from there (mavros/src/plugins/param.cpp).

    Args:
        node: whose clients they are.
        drivers: their files.
        full: full name of a driver's node.
        sent: our commands that go out.
    """

    def __init__(
        self,
        node: QuadsimNode,
        drivers: Sequence[Driver],
        full: Callable[[Driver, str], str],
        sent: Collection[str] = (),
    ) -> None:
        self._asked_s = -math.inf
        self._values: dict[str, float] = {}
        self._known: list[tuple[DriverParameter, str, Any]] = []
        for driver in drivers:
            for rule in driver.parameters:
                if rule.of and not set(rule.of) & set(sent):
                    continue
                name = full(driver, rule.node) if rule.node else ""
                client = None
                if name:
                    client = node.create_client(GetParameters, f"{name}/get_parameters")
                self._known.append((rule, name, client))

    def ask(self) -> None:
        """Ask again, when it is time."""
        now_s = time.monotonic()
        every = all(math.isfinite(self._values.get(s.name, math.nan)) for s, _, _ in self._known)
        if now_s - self._asked_s < (AGAIN_S if every else ASK_S):
            return
        self._asked_s = now_s
        for rule, _, client in self._known:
            if client is not None and client.service_is_ready():
                request = GetParameters.Request(names=[rule.name])
                future = client.call_async(request)
                future.add_done_callback(lambda done, name=rule.name: self._take(name, done))

    def _take(self, name: str, done: Any) -> None:
        answer = done.result()
        if answer is not None and answer.values:
            self._values[name] = number_in(answer.values[0])

    def judge(self) -> tuple[int, str]:
        """0 in order, 1 not known, 2 no flight; and why."""
        unread = []
        for rule, name, _ in self._known:
            value = self._values.get(rule.name, math.nan)
            if not math.isnan(value) and not rule.allows(value):
                return 2, (
                    f"{rule.name} of the flight controller is {value:g}; allowed: {rule.allowed}:"
                    f" {rule.why}"
                )
            if math.isnan(value):
                whence = f"could not be read from {name}" if name else "cannot be read by this link"
                unread.append(f"{rule.name} {whence}; see that it is {rule.allowed}")
        return (1, "; ".join(unread)) if unread else (0, "")
