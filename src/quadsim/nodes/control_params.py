"""Gains of autopilot and mixer that change in flight, and files that are read again on a reset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rcl_interfaces.msg import SetParametersResult
from rclpy.parameter import Parameter

from quadsim.control.airframe import AirframeParams
from quadsim.control.parameters import AutopilotParams
from quadsim.errors import InputError
from quadsim.files import find
from quadsim.parameters import flatten, load, unflatten
from quadsim.sim.scenario import airframe_of
from quadsim.vehicle.parameters import VehicleParams

AIRFRAME = "airframe."

#: Name of the event by which the mixer tells a lost motor, which is in its value ``motor``.
MOTOR_LOST = "motor lost"

#: Groups that hold from the next step on, by node; and those that count in the other one.
LIVE = {"autopilot": ("position.",), "mixer": ("attitude.", "position.", "watchdog.")}
ELSEWHERE = {"autopilot": ("attitude.", "watchdog."), "mixer": ("flight.",)}
#: What a node is built around.
FIXED = ("name", "position.rate_hz", "flight.ground.map")


def when(node: str, name: str) -> str:
    """When a parameter may change, in words; empty: never.

    Args:
        node: autopilot or mixer.
        name: of the parameter.
    """
    if name in FIXED:
        return ""
    if name.startswith(ELSEWHERE[node]):
        other = "mixer" if node == "autopilot" else "autopilot"
        return f"counts in the node {other}, where it may change"
    if name.startswith(LIVE[node]):
        return "may change in flight, from the next step on"
    return "may change while the motors stand"


class LiveGains:
    """Takes changes of gains and airframe, all of one request or none.

    Args:
        node: the node, with parameters ``config`` and ``vehicle``.
        kind: autopilot or mixer.
        gains: as it was started.
        airframe: likewise.
        turning: whether the motors turn.
        apply: takes what holds from now on.
    """

    def __init__(
        self,
        node: Any,
        kind: str,
        gains: AutopilotParams,
        airframe: AirframeParams,
        turning: Callable[[], bool],
        apply: Callable[[AutopilotParams, AirframeParams], None],
    ) -> None:
        self._node, self._kind = node, kind
        self._values = self._flat(gains, airframe)
        self._turning, self._apply = turning, apply
        self._files = self._read_files()
        self._reading = False
        node.add_on_set_parameters_callback(self.on_set)

    @staticmethod
    def _flat(gains: AutopilotParams, airframe: AirframeParams) -> dict[str, Any]:
        body = {AIRFRAME + name: value for name, value in flatten(airframe).items()}
        return {**flatten(gains), **body}

    def _read_files(self) -> dict[str, Any]:
        config, vehicle = (self._node.get_parameter(name).value for name in ("config", "vehicle"))
        gains = load(AutopilotParams, find("autopilots", config))
        return self._flat(gains, airframe_of(load(VehicleParams, find("vehicles", vehicle))))

    def on_set(self, parameters: Sequence[Any]) -> SetParametersResult:
        """What ROS asks before parameters are set; they are in force when this says yes."""
        try:
            self._set({parameter.name: parameter.value for parameter in parameters})
        except InputError as error:
            return SetParametersResult(successful=False, reason=str(error))
        return SetParametersResult(successful=True)

    def _set(self, given: dict[str, Any]) -> None:
        changed = {name: value for name, value in given.items() if name in self._values}
        for name in () if self._reading else changed:
            if name.startswith(ELSEWHERE[self._kind]):
                raise InputError(f"{name}: {when(self._kind, name)}")
            if self._turning() and not name.startswith(LIVE[self._kind]):
                raise InputError(f"{name}: {when(self._kind, name)}; disarm first")
        if not changed:
            return
        values = self._values | changed
        body = {
            name.removeprefix(AIRFRAME): value
            for name, value in values.items()
            if name.startswith(AIRFRAME)
        }
        rest = {name: value for name, value in values.items() if not name.startswith(AIRFRAME)}
        gains = unflatten(AutopilotParams, rest, "parameters")
        airframe = unflatten(AirframeParams, body, "parameters")
        self._values = values
        self._apply(gains, airframe)

    def read_again(self) -> None:
        """Read the files of gains and vehicle anew; what was given otherwise than in them stays.

        A file that cannot be read leaves everything as it is, and says so in the log.
        """
        before = self._files
        try:
            self._files = self._read_files()
        except InputError as error:
            self._node.get_logger().error(f"not read again: {error}")
            return
        changed = [
            Parameter(name, value=value)
            for name, value in self._files.items()
            if value != before[name] and self._values[name] == before[name] and name not in FIXED
        ]
        if not changed:
            return
        self._reading = True
        try:
            for result in self._node.set_parameters(changed):
                if not result.successful:
                    self._node.get_logger().error(f"not read again: {result.reason}")
        finally:
            self._reading = False
        names = ", ".join(parameter.name for parameter in changed)
        self._node.get_logger().info(f"read again: {names}")
