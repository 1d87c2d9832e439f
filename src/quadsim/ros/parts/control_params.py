"""Gains of autopilot and mixer that change in flight, and the files that they come from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from quadsim.base.errors import InputError
from quadsim.base.files import find
from quadsim.base.parameters import flatten, load, unflatten
from quadsim.control.airframe import AirframeParams
from quadsim.control.parameters import AutopilotParams
from quadsim.control.pid import MOST_STEP_S
from quadsim.ros.runtime.params import ON_RESET, declare, declare_text
from quadsim.sim.scenario import known_airframe
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


def read_controller(config: str, vehicle: str) -> dict[str, Any]:
    """Parameters of autopilot and mixer as their own files say.

    Args:
        config: a file of config/autopilots, or a path.
        vehicle: a file of config/vehicles, or a path.

    Raises:
        InputError: one of them cannot be read.
    """
    gains = load(AutopilotParams, find("autopilots", config))
    return _flat(gains, known_airframe(load(VehicleParams, find("vehicles", vehicle))))


def _flat(gains: AutopilotParams, airframe: AirframeParams) -> dict[str, Any]:
    body = {AIRFRAME + name: value for name, value in flatten(airframe).items()}
    return {**flatten(gains), **body}


def declare_controller(
    node: Any, when: Callable[[str], str] = lambda _: ""
) -> tuple[AutopilotParams, AirframeParams]:
    """Declare what autopilot and mixer both need: gains, and the airframe as they believe it.

    Parameters: ``config`` (a file of config/autopilots) and every field of it; ``vehicle`` (a file
    of config/vehicles) and ``airframe.*``.

    Args:
        node: the node.
        when: says of a name when it may be changed, as of :func:`descriptor`.
    """
    config = declare_text(
        node, "config", "default", "a file of config/autopilots, or a path", ON_RESET
    )
    vehicle = declare_text(
        node, "vehicle", "x500", "a file of config/vehicles, or a path", ON_RESET
    )
    gains = declare(node, load(AutopilotParams, find("autopilots", config)), when=when)
    known = known_airframe(load(VehicleParams, find("vehicles", vehicle)))
    body = declare(node, known, "airframe.", lambda name: when(f"airframe.{name}"))
    return gains, body


class LiveGains:
    """Takes changes of gains and airframe, all of one request or none.

    Args:
        kind: autopilot or mixer.
        gains: as it was started.
        airframe: likewise.
        turning: whether the motors turn.
        apply: takes what holds from now on.
    """

    def __init__(
        self,
        kind: str,
        gains: AutopilotParams,
        airframe: AirframeParams,
        turning: Callable[[], bool],
        apply: Callable[[AutopilotParams, AirframeParams], None],
    ) -> None:
        self._kind = kind
        self._values = _flat(gains, airframe)
        self._commands = airframe.commands
        self._turning, self._apply = turning, apply

    def take(self, given: dict[str, Any], reset: bool = False) -> Callable[[], None]:
        """Check parameters, and give what lets them hold from then on.

        Args:
            given: name to value; names of others are ignored.
            reset: whether the flight begins anew right after.

        Raises:
            InputError: one is refused.
        """
        changed = {name: value for name, value in given.items() if name in self._values}
        for name in () if reset else changed:
            if name.startswith(ELSEWHERE[self._kind]):
                raise InputError(f"{name}: {when(self._kind, name)}")
            if self._turning() and not name.startswith(LIVE[self._kind]):
                raise InputError(f"{name}: {when(self._kind, name)}; disarm first")
        if not changed:
            return lambda: None
        values = self._values | changed
        body = {
            name.removeprefix(AIRFRAME): value
            for name, value in values.items()
            if name.startswith(AIRFRAME)
        }
        rest = {name: value for name, value in values.items() if not name.startswith(AIRFRAME)}
        gains = unflatten(AutopilotParams, rest, "parameters")
        airframe = unflatten(AirframeParams, body, "parameters")
        refuse_other_commands(self._commands, airframe.commands)
        refuse_long_hold(gains)

        def apply() -> None:
            self._values = values
            self._apply(gains, airframe)

        return apply


def refuse_long_hold(gains: AutopilotParams) -> None:
    """Refuse to wait longer for an odometry than one step of the control can be.

    Raises:
        InputError: the attitude that is carried on would fall behind.
    """
    hold_s = gains.watchdog.odometry_hold_s
    if hold_s > MOST_STEP_S:
        raise InputError(
            f"watchdog.odometry_hold_s = {hold_s:g} s; allowed: at most {MOST_STEP_S:g} s, the"
            " longest step of the control"
        )


def refuse_other_commands(before: Sequence[str], now: Sequence[str]) -> None:
    """Refuse another number of rotors, or a helicopter for rotors.

    Raises:
        InputError: the motor commands are others.
    """
    if tuple(before) != tuple(now):
        raise InputError(
            f"the vehicle takes {len(now)} commands ({', '.join(now)}) where it took"
            f" {len(before)}: restart the graph"
        )
