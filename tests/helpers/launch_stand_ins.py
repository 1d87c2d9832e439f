"""Stand-ins of the launch packages, which the wheels lack, and a launch file loaded with them."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

FOLDER = Path(__file__).parents[2] / "launch"


class Recorded:
    """Stands for any launch action: keeps what it was made with."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args, self.kwargs = args, kwargs


class LaunchConfiguration(Recorded):
    def perform(self, context: dict[str, str]) -> str:
        return context[self.args[0]]


STUBS = {
    "launch": ["LaunchDescription"],
    "launch.actions": [
        "DeclareLaunchArgument",
        "ExecuteProcess",
        "LogInfo",
        "OpaqueFunction",
        "Shutdown",
    ],
    "launch.substitutions": [],
    "launch_ros": [],
    "launch_ros.actions": ["Node"],
    "launch_ros.parameter_descriptions": ["ParameterValue"],
}


def load(name: str, monkeypatch: Any) -> ModuleType:
    """A launch file as a module."""
    for module_name, classes in STUBS.items():
        module = ModuleType(module_name)
        for item in classes:
            setattr(module, item, type(item, (Recorded,), {}))
        monkeypatch.setitem(sys.modules, module_name, module)
        parent, _, child = module_name.rpartition(".")
        if parent:  # as importing a package's module does
            setattr(sys.modules[parent], child, module)
    substitutions: Any = sys.modules["launch.substitutions"]
    substitutions.LaunchConfiguration = LaunchConfiguration
    spec = importlib.util.spec_from_file_location(f"{name}_launch", FOLDER / f"{name}.launch.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def declared(description: Any) -> dict[str, str]:
    """Arguments of a launch description with their defaults."""
    (entities,) = description.args
    return {e.args[0]: e.kwargs["default_value"] for e in entities if "default_value" in e.kwargs}


def actions(description: Any, values: dict[str, str]) -> list[Recorded]:
    """What a launch description does, for texts of its arguments."""
    (entities,) = description.args
    return [
        action
        for e in entities
        if "function" in e.kwargs
        for action in e.kwargs["function"](values)
    ]


def plain(value: Any) -> Any:
    """What a parameter holds, out of a ParameterValue."""
    return value.args[0] if isinstance(value, Recorded) else value


def ends_all(node: Recorded, status: int) -> bool:
    """Whether everything is stopped when a node ends with a status, as launch asks ``on_exit``."""
    told = node.kwargs["on_exit"](SimpleNamespace(returncode=status), None)
    return type(told).__name__ == "Shutdown"
