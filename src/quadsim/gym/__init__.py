"""Environments to learn in: Gymnasium and PettingZoo over the compiled closed loop.

Importing it tells Gymnasium of the tasks: ``gymnasium.make_vec("quadsim/Hover-v0", num_envs=64)``.
See ``docs/learning.md``. Needs ``quadsim[gym]``.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from quadsim.base.extras import need

if TYPE_CHECKING:
    from quadsim.gym.envs import Env, VectorEnv
    from quadsim.gym.interface import Limits
    from quadsim.gym.swarm import SwarmEnv
    from quadsim.gym.tasks import TASKS, Task
    from quadsim.gym.view import Beginning, View

__all__ = ["TASKS", "Beginning", "Env", "Limits", "SwarmEnv", "Task", "VectorEnv", "View"]

_PLACES = {
    **dict.fromkeys(("Env", "VectorEnv"), "envs"),
    **dict.fromkeys(("TASKS", "Task"), "tasks"),
    "Limits": "interface",
    **dict.fromkeys(("Beginning", "View"), "view"),
    "SwarmEnv": "swarm",
}

#: Names under which Gymnasium makes the tasks: quadsim/Hover-v0, ...
NAMES = ("Hover", "Reach", "Trajectory", "Race", "Land", "Forest")


def register() -> None:
    """Tell Gymnasium of the tasks."""
    import gymnasium

    for name in NAMES:
        gymnasium.register(
            f"quadsim/{name}-v0",
            entry_point="quadsim.gym.envs:Env",
            vector_entry_point="quadsim.gym.envs:VectorEnv",
            kwargs={"task": name.lower()},
        )


def __getattr__(name: str) -> object:
    """A public name, imported when it is first used.

    Raises:
        InputError: Gymnasium or PettingZoo is not installed.
    """
    if name not in _PLACES:
        raise AttributeError(f"module 'quadsim.gym' has no attribute {name!r}")
    need("pettingzoo" if name == "SwarmEnv" else "gymnasium", "quadsim.gym")
    return getattr(import_module(f"quadsim.gym.{_PLACES[name]}"), name)


if find_spec("gymnasium") is not None:
    register()
