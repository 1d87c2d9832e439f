"""Several vehicles in one world, which feel each other, as agents of PettingZoo."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from pettingzoo import ParallelEnv

from quadsim.base.errors import InputError
from quadsim.gym.envs import VectorEnv
from quadsim.gym.tasks import Task


class _Several(VectorEnv):
    """Environments whose worlds may have several vehicles."""

    _several = True


class SwarmEnv(ParallelEnv[str, Any, Any]):
    """A task for each of several vehicles of one world: ``quad1``, ``quad2``, ...

    Who is over leaves ``agents``; it stays in the world for the others, its action -1 from then on.

    Args:
        task: as of :class:`~quadsim.gym.VectorEnv`.
        vehicles: how many.
        kwargs: as there.
    """

    def __init__(
        self, task: str | Task | type[Task] = "reach", vehicles: int = 4, **kwargs: Any
    ) -> None:
        self.metadata = {"render_modes": [], "name": "quadsim_swarm_v0"}
        self.render_mode = None
        kwargs |= {"num_envs": 1, "vehicles": vehicles, "autoreset_mode": AutoresetMode.DISABLED}
        self._one = _Several(task, **kwargs)
        self.possible_agents = [f"quad{i + 1}" for i in range(vehicles)]
        self.agents: list[str] = []
        self.observation_spaces = dict.fromkeys(
            self.possible_agents, self._one.single_observation_space
        )
        self.action_spaces = dict.fromkeys(self.possible_agents, self._one.single_action_space)

    def observation_space(self, agent: str) -> Any:
        """What an agent sees."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Any:
        """What an agent does."""
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Begin an episode of all."""
        self.agents = list(self.possible_agents)
        observation, _ = self._one.reset(seed=seed)
        return dict(zip(self.agents, observation, strict=True)), {who: {} for who in self.agents}

    def step(self, actions: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
        """Advance all by a step.

        Raises:
            InputError: an agent that flies is given none, or a bad one.
        """
        if not self.agents:
            raise InputError("step: nobody flies; reset the environment first")
        if strangers := [who for who in actions if who not in self.possible_agents]:
            raise InputError(
                f"action: of {strangers[0]}; agents: {', '.join(self.possible_agents)}"
            )
        width = self._one.single_action_space.shape
        found = np.full((len(self.possible_agents), *(width or ())), -1.0)
        for i, who in enumerate(self.possible_agents):
            if who in self.agents:
                try:
                    action = np.asarray(actions.get(who, []), float)
                except (TypeError, ValueError):
                    raise InputError(f"action: no array of numbers for {who}") from None
                if action.shape != width:
                    raise InputError(f"action: of shape {action.shape} for {who}; needed: {width}")
                if not (np.abs(action) <= 1.0).all():
                    raise InputError(f"action: {action} for {who}; allowed: -1 to 1")
                found[i] = action
        self._one.go_on()
        observation = self._one.step(found)[0]
        ends, rewards, late = self._one.ends, self._one.rewards, bool(self._one.late[0])
        flying = [(i, who) for i, who in enumerate(self.possible_agents) if who in self.agents]
        result = (
            {who: observation[i] for i, who in flying},
            {who: float(rewards[i]) for i, who in flying},
            {who: bool(ends[i]) for i, who in flying},
            {who: late and not ends[i] for i, who in flying},
            {who: {"fault": self._one.worlds.fault(i)} if ends[i] else {} for i, who in flying},
        )
        self.agents = [] if late else [who for i, who in flying if not ends[i]]
        return result

    def close(self) -> None:
        """End its threads."""
        self._one.close()
