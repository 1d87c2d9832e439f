"""Gains of autopilot and mixer that change in flight, and the files that they come from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from quadsim.base.errors import InputError
from quadsim.base.files import find
from quadsim.base.parameters import flatten, leaves, load
from quadsim.control.airframe import AirframeParams, known_airframe
from quadsim.control.parameters import AutopilotParams
from quadsim.ros.runtime.params import ON_RESET, current, declare, declare_one, value_of
from quadsim.vehicle.parameters import VehicleParams

AIRFRAME = "airframe."

#: Name of the event by which the mixer tells a lost motor, which is in its value ``motor``.
MOTOR_LOST = "motor lost"

#: Groups that hold from the next step on, by node; and those that count in the other one.
LIVE = {"autopilot": ("position.",), "mixer": ("attitude.", "position.", "watchdog.")}
ELSEWHERE = {"autopilot": ("attitude.", "watchdog."), "mixer": ("flight.",)}
#: What a node is built around.
FIXED = ("name", "position.rate_hz", "flight.ground.map")
#: Takes gains and airframe.
Apply = Callable[[AutopilotParams, AirframeParams], None]


def when_of_gain(node: str, name: str) -> str:
    """When a parameter may change, in words; empty: never."""
    if name in FIXED:
        return ""
    if name.startswith(ELSEWHERE[node]):
        other = "mixer" if node == "autopilot" else "autopilot"
        return f"counts in the node {other}, where it may change"
    if name.startswith(LIVE[node]):
        return "may change in flight, from the next step on"
    return "may change while the motors stand"


def _read_files(config: str, vehicle: str) -> tuple[AutopilotParams, AirframeParams]:
    """Gains of a file of config/autopilots, and what is assumed of one of config/vehicles."""
    gains = load(AutopilotParams, find("autopilots", config))
    return gains, known_airframe(load(VehicleParams, find("vehicles", vehicle)))


def read_controller(node: Any) -> dict[str, Any]:
    """Parameters of autopilot and mixer as their own files say now.

    Raises:
        InputError: one of them cannot be read.
    """
    gains, body = _read_files(value_of(node, "config"), value_of(node, "vehicle"))
    return {**flatten(gains), **{AIRFRAME + name: value for name, value in flatten(body).items()}}


def declare_controller(node: Any, kind: str) -> tuple[AutopilotParams, AirframeParams]:
    """Declare what autopilot and mixer both need: gains, and the airframe as they believe it.

    Parameters: ``config`` (a file of config/autopilots) and every field of it; ``vehicle`` (a file
    of config/vehicles) and ``airframe.*``.

    Args:
        kind: autopilot or mixer.
    """
    words = "a file of config/{}, or a path"
    config = declare_one(node, "config", "default", words.format("autopilots"), ON_RESET)
    vehicle = declare_one(node, "vehicle", "x500", words.format("vehicles"), ON_RESET)
    gains, body = _read_files(config, vehicle)
    when = partial(when_of_gain, kind)
    gains = declare(node, gains, when=when)
    return gains, declare(node, body, AIRFRAME, lambda name: when(AIRFRAME + name))


def changed_controller(
    node: Any, kind: str, changed: Mapping[str, Any], turning: bool | None, apply: Apply
) -> Callable[[], None]:
    """What applies changes of gains and airframe, all of one request or none.

    Args:
        kind: autopilot or mixer.
        changed: name to value; names of others are ignored.
        turning: whether the motors turn; None: the flight begins anew right after.
        apply: takes gains and airframe from then on.

    Raises:
        InputError: one is refused.
    """
    ours = {leaf.name for leaf in leaves(AutopilotParams)}
    names = [name for name in changed if name in ours or name.startswith(AIRFRAME)]
    for name in () if turning is None else names:
        if name.startswith(ELSEWHERE[kind]):
            raise InputError(f"{name}: {when_of_gain(kind, name)}")
        if turning and not name.startswith(LIVE[kind]):
            raise InputError(f"{name}: {when_of_gain(kind, name)}; disarm first")
    if not names:
        return lambda: None
    gains = current(node, AutopilotParams, "", changed)
    body = current(node, AirframeParams, AIRFRAME, changed)
    refuse_other_commands(current(node, AirframeParams, AIRFRAME).commands, body.commands)
    return lambda: apply(gains, body)


def refuse_other_commands(before: tuple[str, ...], now: tuple[str, ...]) -> None:
    """Refuse another number of rotors, or a helicopter for rotors.

    Raises:
        InputError: the motor commands are others.
    """
    if before != now:
        raise InputError(
            f"the vehicle takes {len(now)} commands ({', '.join(now)}) where it took"
            f" {len(before)}: restart the graph"
        )
