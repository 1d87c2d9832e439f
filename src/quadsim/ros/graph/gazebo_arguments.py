"""What the arguments of ``gazebo.launch.py`` say of Gazebo's part, and what it cannot do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from quadsim.base.errors import InputError
from quadsim.base.files import find
from quadsim.ros.graph.graph import LAUNCH_ARGUMENTS, as_flag, as_names, as_number
from quadsim.sim.scenario import Scenario, ScenarioFile

CAMERA = "camera"
#: What Gazebo can lend to a vehicle that it does not fly.
DRAWN = ("lidar", CAMERA)
#: Arguments of ``gazebo.launch.py``: those of ``sim.launch.py`` that hold here too, and its own.
GAZEBO_ARGUMENTS: dict[str, tuple[str, str]] = {
    **{
        name: LAUNCH_ARGUMENTS[name]
        for name in (
            "scenario", "vehicle", "sensors", "seed", "count", "pacing", "rate", "record",
            "record_profile", "split_mb", "split_s", "compression", "arm", "beside", "joystick",
        )
    },
    "physics": ("", "who flies: gazebo or ours; empty: gazebo, ours with gazebo:=view"),
    "gazebo": ("fly", "fly, or view: Gazebo shows what our physics fly"),
    "lent": (
        "",
        "sensors that are Gazebo's, with commas; empty: where it flies all of the suite, else none",
    ),
    "bridge": ("", "a file of config/bridge, or a path; empty: physics or view"),
    "gui": ("true", "false: Gazebo's server alone"),
    "start": ("true", "start Gazebo; false: it runs already, with the world of world_file"),
    "world_file": ("", "where the world with its vehicles is written; empty: in ~/.cache/quadsim"),
    "fortress": ("false", "Gazebo Fortress, with its names; false: Harmonic and later"),
}  # fmt: skip


@dataclass(frozen=True)
class Choice:
    """What the arguments say of Gazebo's part.

    Attributes:
        flies: whether Gazebo flies the vehicles.
        lent: kinds of sensors that are Gazebo's.
        bridge: file of each vehicle's bridge.
        fortress: as Gazebo Fortress is called.
    """

    flies: bool
    lent: tuple[str, ...]
    bridge: Path
    fortress: bool


def _refuse(name: str, value: str, allowed: str) -> InputError:
    return InputError(f"launch argument {name}: {value!r}; allowed: {allowed}")


def _flies(values: Mapping[str, str]) -> bool:
    """Whether Gazebo flies.

    Raises:
        InputError: ``physics`` and ``gazebo`` say different things.
    """
    physics, gazebo = values["physics"], values["gazebo"]
    if gazebo not in ("fly", "view"):
        raise _refuse("gazebo", gazebo, "fly, view")
    if physics not in ("", "gazebo", "ours"):
        raise _refuse("physics", physics, "gazebo, ours")
    if physics == "gazebo" and gazebo == "view":
        raise _refuse("physics", physics, "ours, with gazebo:=view, which only shows")
    if physics == "ours" and gazebo == "fly":
        raise _refuse("physics", physics, "gazebo; ours needs gazebo:=view")
    return gazebo == "fly"


def choice_of(values: Mapping[str, str], scenario: Scenario) -> Choice:
    """What the arguments say of Gazebo's part in a scenario.

    Raises:
        InputError: naming the argument and what is allowed.
    """
    flies = _flies(values)
    carried = (*scenario.devices, CAMERA)
    known = carried if flies else tuple(kind for kind in carried if kind in DRAWN)
    lent = as_names(values["lent"]) or (tuple(scenario.devices) if flies else ())
    for name in lent:
        if name not in known:
            raise _refuse("lent", name, f"{', '.join(known)}, with suite {scenario.file.sensors}")
    if flies and "imu" not in lent:
        raise _refuse("lent", ", ".join(lent), "with imu, which tells when to answer")
    if flies and values["pacing"] != "realtime":
        raise _refuse("pacing", values["pacing"], "realtime, as Gazebo does not wait for commands")
    if flies and as_number("rate", values["rate"], float) != 1.0:
        raise _refuse("rate", values["rate"], "1.0; of Gazebo, <real_time_factor> in the world")
    bridge = find("bridge", values["bridge"] or ("physics" if flies else "view"))
    return Choice(flies, lent, bridge, as_flag("fortress", values["fortress"]))


def refuse_what_gazebo_lacks(scenario: Scenario, choice: Choice) -> None:
    """A flight that looks as if it had what it has not would be worth nothing.

    Raises:
        InputError: naming what Gazebo does not have.
    """
    file, usual = scenario.file, ScenarioFile()
    flight = {
        "disturbances": bool(scenario.disturbances),
        "load": scenario.vehicle.load.rope_length_m > 0.0,
        "tether": scenario.vehicle.tether.length_m > 0.0,
        "environment.wind": file.environment.wind != usual.environment.wind
        or any(file.environment.wind_W_mps),
        "faults": any(scenario.faults.get(kind) for kind in choice.lent),
    }
    ground = {
        "terrain": file.terrain != usual.terrain,
        "heightmap": file.heightmap != usual.heightmap,
    }
    for key in (name for name, given in flight.items() if given and choice.flies):
        raise InputError(
            f"{scenario.path}: {key}: Gazebo does not know it; leave it away, or let our physics"
            " fly: gazebo:=view"
        )
    for key in (name for name, given in ground.items() if given):
        raise InputError(
            f"{scenario.path}: {key}: Gazebo does not know it; leave it away, or choose a world"
            " whose file has the ground"
        )
