"""Environments of Gymnasium and PettingZoo over worlds of the compiled closed loop."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from quadsim.base.compiled import Array
from quadsim.base.errors import InputError, shown
from quadsim.gym.interface import Limits, Observer, action_limits, checked_number, limits_from
from quadsim.gym.tasks import Task, task_of, told_by_task
from quadsim.gym.view import Beginning, View
from quadsim.lab.campaign.factors import draw, factor_from
from quadsim.sim.library import Library
from quadsim.sim.scenario import Scenario, load_scenario
from quadsim.sim.worlds import Units, Worlds
from quadsim.vehicle.start import hover_speed_radps

#: Keys that make another scene, which all worlds share.
_OF_SCENE = ("world", "terrain", "heightmap", "scenario")
#: Keys of a scenario that no episode looks at, and what decides instead.
_UNUSED = {
    **dict.fromkeys(("start", "mission", "commands", "criteria", "fence"), "the task decides it"),
    **dict.fromkeys(("vehicles", "swarm"), "see quadsim.gym.SwarmEnv"),
    **dict.fromkeys(("fly_on", "switch_at_s", "landed"), "see the argument fly_on"),
    "duration_s": "the task's episode_s decides it",
    "seed": "see reset(seed=)",
}


def scenarios_of(
    name: str,
    changes: Mapping[str, Any],
    randomise: Mapping[str, Any],
    units: int,
    task: Task,
) -> list[Scenario]:
    """The scenarios of the units: one, or one for each draw of what is randomised.

    Args:
        name: of the scenario, or its path.
        changes: dotted keys to set in all.
        randomise: dotted keys to factors, as ``vary`` of a campaign has them.
        units: how many.
        task: whose own changes come first.

    Raises:
        InputError: naming the key and what is allowed.
    """
    for name_of, given in (("changes", changes), ("randomise", randomise)):
        if not isinstance(given, Mapping):
            raise InputError(f"{name_of}: {shown(given)}; needed: keys and values")
    factors = [factor_from(key, content, "randomise") for key, content in randomise.items()]
    for key in (*changes, *(factor.name for factor in factors)):
        if (first := str(key).split(".")[0]) in _UNUSED:
            raise InputError(f"{key}: no episode looks at it; {_UNUSED[first]}")
    for factor in factors:
        if factor.name.split(".")[0] in _OF_SCENE:
            raise InputError(f"randomise: {factor.name}: all worlds share one scene")
    samples, library = draw(factors, "latin_hypercube", units, seed=1), Library()
    found = []
    for u in range(units if factors else 1):
        keys = {**task.changes, **changes}
        for factor, value in zip(factors, samples.at(u), strict=True):
            keys |= factor.changes(value)
        scenario = load_scenario(name, keys, library)
        found.append(replace(scenario, items=(), criteria=(), commands=()))
    rotors = {len(each.vehicle.rotor_directions) for each in found}
    if len(rotors) > 1:
        raise InputError(f"randomise: vehicles of {min(rotors)} and {max(rotors)} rotors; one kind")
    return found if factors else found * units


class VectorEnv(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """N episodes of a task at once, each in a world of its own.

    Args:
        task: its name, a :class:`~quadsim.gym.Task`, or a class of one.
        num_envs: how many episodes.
        observation: ``truth``, ``estimate`` or ``sensors``.
        action: ``rotor_speeds``, ``thrusts``, ``rates``, ``attitude`` or ``velocity``.
        period_s: of a step, for which an action is held; a multiple of the IMU's.
        limits: what an action of 1 is.
        fly_on: what control is told, ``truth`` or ``estimate``; None: the truth where that is seen.
        estimate_sigma: of the first estimate about the truth: position m, velocity m/s, tilt and
            heading rad.
        scenario: another one than the task's, a name or a path; its mission is not flown.
        changes: dotted keys to set in it: ``{"vehicle": "crazyflie"}``.
        randomise: what differs from episode to episode, as ``vary`` of a campaign:
            ``{"vehicle.mass_kg": {"range": [1.8, 2.2]}}``.
        units: vehicles with devices of their own that were drawn beforehand; each episode has one.
        vehicles: in each world; here one.
        autoreset_mode: of Gymnasium: next step, same step, or disabled.
        threads: 0: as many as there are processors.
        device: ``cpu``, or ``cuda``: the worlds fly on a GPU of NVIDIA; of observations, rewards
            and ends the arrays are here. ``worlds.column`` reads what is seen in its memory.
        render_mode: None.

    Raises:
        InputError: an argument is wrong, in a line.
    """

    #: Whether a world may have several vehicles, whose rows follow each other.
    _several = False

    def __init__(
        self,
        task: str | Task | type[Task] = "hover",
        num_envs: int = 1,
        observation: str = "truth",
        action: str = "rates",
        period_s: float = 0.02,
        limits: Limits | Mapping[str, float] | None = None,
        fly_on: str | None = None,
        estimate_sigma: Sequence[float] = (0.3, 0.1, 0.02, 0.05),
        scenario: str | None = None,
        changes: Mapping[str, Any] | None = None,
        randomise: Mapping[str, Any] | None = None,
        units: int = 64,
        vehicles: int = 1,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        threads: int = 0,
        device: str = "cpu",
        render_mode: str | None = None,
    ) -> None:
        self.task = task_of(task)
        if fly_on not in (None, "truth", "estimate"):
            raise InputError(f"fly_on: {fly_on!r}; allowed: truth, estimate")
        if device not in ("cpu", "cuda"):
            raise InputError(f"device: {device!r}; allowed: cpu, cuda")
        kind: type[Worlds] = Worlds
        if device == "cuda":
            kind = import_module("quadsim.sim.cuda").CudaWorlds
        if render_mode is not None:
            raise InputError("render_mode: None alone; fly the policy to watch it (quadsim view)")
        if vehicles != 1 and not self._several:
            raise InputError(f"vehicles: {vehicles}; several in a world: quadsim.gym.SwarmEnv")
        if isinstance(units, bool) or not isinstance(units, int) or not 1 <= units <= 100_000:
            raise InputError(f"units: {units}; allowed: 1 to 100000")
        try:
            sigma = tuple(float(each) for each in estimate_sigma)
        except (TypeError, ValueError):
            sigma = ()
        if len(sigma) != 4 or not all(0.0 <= each < math.inf for each in sigma):
            raise InputError(f"estimate_sigma: {estimate_sigma}; needed: 4 finite numbers, >= 0")
        self._sigma = (sigma[0], sigma[1], sigma[2], sigma[3])
        if autoreset_mode not in [each.value for each in AutoresetMode] + list(AutoresetMode):
            raise InputError(
                f"autoreset_mode: {autoreset_mode!r}; allowed: "
                + ", ".join(each.value for each in AutoresetMode)
            )
        period_ns = round(checked_number("period_s", period_s, 0.0, 1.0) * 1e9)
        name, keys = scenario or self.task.scenario, {} if changes is None else changes
        found = scenarios_of(name, keys, {} if randomise is None else randomise, units, self.task)
        for each in found:
            if each.vehicle.kind != "multirotor":
                raise InputError(
                    f"vehicle: {each.vehicle.name} is a {each.vehicle.kind}; allowed: multirotors"
                )
        # of the vehicle that nothing was drawn of, as a policy's flights are
        self.scenario = (
            load_scenario(name, {**self.task.changes, **keys}) if randomise else found[0]
        )
        vehicle = self.scenario.vehicle
        self._observer = Observer(observation, self.task, self.scenario)
        on_truth = observation == "truth" if fly_on is None else fly_on == "truth"
        drawn = Units(found)
        for each_ns in set(drawn.setups["imu_period_ns"].tolist()):
            if period_ns % each_ns:
                raise InputError(
                    f"period_s: {period_s:g}; allowed: a multiple of the IMU's"
                    f" {each_ns * 1e-9:g} s, at most 1 s"
                )
        self.worlds = kind(
            drawn, num_envs, vehicles, action, period_ns, on_truth,
            self.task.rays, self.task.reach_m, threads,
        )  # fmt: skip
        self.num_envs, self.period_s, self._size = num_envs, period_s, vehicles
        self._low, self._high = action_limits(action, vehicle, limits_from(limits))
        width = len(self._low)
        seen = self._observer.count(width)
        self.single_action_space = spaces.Box(-1.0, 1.0, (width,), np.float32)
        self.single_observation_space = spaces.Box(-np.inf, np.inf, (seen,), np.float32)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {"autoreset_mode": self.autoreset_mode, "render_modes": []}
        self.render_mode = None
        total = num_envs * vehicles
        self._everybody = np.arange(total)
        self.memory = np.zeros((total, self.task.memory))
        self._action, self._last = np.zeros((total, width)), np.zeros((total, width))
        self._goal_W = np.zeros((total, 3))
        self._hover_radps = hover_speed_radps(vehicle)
        #: Of all vehicles, in the last step: rewards, ends, and whether each world's time is up.
        self.rewards: Array = np.zeros(total)
        self.ends: NDArray[np.bool_] = np.zeros(total, bool)
        self.late: NDArray[np.bool_] = np.zeros(num_envs, bool)
        self._over: NDArray[np.bool_] = np.zeros(num_envs, bool)
        self._begun = False

    # ---- Gymnasium -----------------------------------------------------------------------------

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Begin all episodes, or those of ``options["reset_mask"]``.

        Args:
            seed: world ``i`` has the randomness of ``seed + i``; or one for each; None goes on.
            options: ``reset_mask``: (num_envs,) bools.
        """
        mask: NDArray[np.bool_] = np.ones(self.num_envs, bool)
        if options and "reset_mask" in options:
            mask = np.asarray(options["reset_mask"])
            if mask.shape != (self.num_envs,) or mask.dtype != np.bool_ or not mask.any():
                raise InputError(f"reset_mask: needed: {self.num_envs} bools, one of them true")
            if not self._begun and not mask.all():
                raise InputError("reset_mask: the first reset begins all environments")
        if seed is None and not self._begun:
            seed = int(np.random.SeedSequence().generate_state(1)[0])
        if seed is not None:
            self._seed(seed, mask)
        self._begun = True
        self._begin(mask)
        self._over[mask] = False
        return self._observe(), {}

    def _seed(self, seed: int | Sequence[int | None], mask: NDArray[np.bool_]) -> None:
        """Give worlds their seeds; the vehicles of one have streams apart."""
        if isinstance(seed, int | np.integer):
            given: list[Any] = [int(seed) + i for i in range(self.num_envs)]
        elif isinstance(seed, Sequence | np.ndarray):
            given = list(seed)
        else:
            raise InputError(f"seed: {seed!r}; needed: a whole number, or one for each environment")
        if len(given) != self.num_envs:
            raise InputError(f"seed: {len(given)} for {self.num_envs} environments")
        for i, each in enumerate(given):
            if each is None or not mask[i]:
                continue
            if not isinstance(each, int | np.integer):
                raise InputError(f"seed: {each!r}; needed: a whole number")
            if not 0 <= each < 2**63 // 1024:
                raise InputError(f"seed: {each}; allowed: 0 to {2**63 // 1024 - 1}")
            own = np.arange(i * self._size, (i + 1) * self._size)
            self.worlds.restart(own, int(each) * 1000 + np.arange(self._size))

    def _begin(self, mask: NDArray[np.bool_]) -> None:
        """Begin the episodes of worlds."""
        which = np.flatnonzero(np.repeat(mask, self._size))
        normals = self.worlds.draw(which)
        start = Beginning.of(normals, self._hover_radps, self._rotors, self.task.memory)
        shares = start.uniform(0.0, 1.0)[:, 0]
        self.task.begin(start)
        start.check()
        if self._size > 1:  # in a row, 2 m apart as in a line formation
            start.motions["p_W"][:, 1] += 2.0 * (which % self._size)
        self.worlds.begin(which, shares, start.motions, self._sigma)
        self.memory[which] = start.memory
        self._action[which] = self._last[which] = 0.0
        memory = self.memory.copy()  # a goal may count, which is for these alone
        view = self._view()
        self._goal_W[which] = told_by_task("goal", self.task.goal(view), view, 3)[which]
        memory[which] = self.memory[which]
        self.memory = memory

    @property
    def _rotors(self) -> int:
        return len(self.scenario.vehicle.rotor_directions)

    def _view(self) -> View:
        """All vehicles as they are now."""
        seen = self.worlds.seen
        true = seen["true"]
        return View(
            seen["time_s"], true["p_W"], true["v_W"], true["w_B"], true["q_WB"],
            true["rotor_speed_radps"], self._goal_W, self._action, self._last,
            seen["crash"] > 0, seen["contact"] > 0, seen["fault"] > 0, self.worlds.rays,
            self.memory, seen,
        )  # fmt: skip

    def _checked(self, actions: Any) -> Array:
        """Actions of all vehicles, (N, width).

        Raises:
            InputError: of another shape, not a number, or outside of [-1, 1].
        """
        wanted = (self.num_envs * self._size, len(self._low))
        try:
            found = np.asarray(actions, float)
        except (TypeError, ValueError):
            raise InputError(f"action: no array of numbers; needed: {wanted}") from None
        if found.shape != wanted:
            raise InputError(f"action: of shape {found.shape}; needed: {wanted}")
        if not (np.abs(found) <= 1.0).all():
            bad = np.argwhere(~(np.abs(found) <= 1.0))[0]
            raise InputError(
                f"action: {found[tuple(bad)]:g} of environment {bad[0] // self._size}; allowed: -1"
                " to 1 (gymnasium.wrappers.ClipAction cuts it)"
            )
        return found

    def go_on(self) -> None:
        """Let what is over go on, for whoever counts the ends of vehicles himself."""
        self._over[:] = False

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Advance all by a step; who was over begins anew instead, in the mode next step.

        ``info["fault"]``: why a motion ended that was no longer finite, or what was hit.
        """
        if not self._begun:
            raise InputError("step: reset the environment first")
        found, active = self._checked(actions), ~self._over
        if self.autoreset_mode == AutoresetMode.DISABLED and self._over.any():
            raise InputError(f"step: environment {self._over.argmax()} is over; reset it first")
        goes = np.repeat(active, self._size)
        self._last[goes], self._action[goes] = self._action[goes], found[goes]
        middle, half = 0.5 * (self._high + self._low), 0.5 * (self._high - self._low)
        self.worlds.step(middle + half * found, active)
        if self._over.any():
            self._begin(self._over)
        reward, terminated, truncated, info = self._judge(active)
        observation = self._observe()
        self._over = terminated | truncated
        if self.autoreset_mode == AutoresetMode.SAME_STEP and self._over.any():
            final = np.full(self.num_envs, None, object)
            for i in np.flatnonzero(self._over):
                final[i] = observation[i].copy()
            info |= {"final_obs": final, "_final_obs": self._over.copy()}
            info |= {"final_info": {}, "_final_info": self._over.copy()}
            self._begin(self._over)
            observation = self._observe()
            self._over = np.zeros(self.num_envs, bool)
        return observation, reward, terminated, truncated, info

    def _judge(self, active: NDArray[np.bool_]) -> tuple[Any, Any, Any, dict[str, Any]]:
        """Rewards and ends, of worlds; of several vehicles the sum, and the first end."""
        view = self._view()
        with np.errstate(all="ignore"):  # a motion that is not finite is nobody else's
            self._goal_W[:] = told_by_task("goal", self.task.goal(view), view, 3)
            rewards = told_by_task("reward", self.task.reward(view), view)
            ends = told_by_task("terminated", self.task.terminated(view), view)
        self.rewards = np.where(np.isfinite(rewards), rewards, 0.0)
        self.ends = (ends != 0.0) | view.faulty
        shape = (self.num_envs, self._size)
        reward = self.rewards.reshape(shape).sum(axis=1) * active
        terminated = self.ends.reshape(shape).any(axis=1) & active
        time_s = view.time_s.reshape(shape)[:, 0]
        self.late = time_s >= self.task.episode_s - 1e-9
        truncated = self.late & active & ~terminated
        info: dict[str, Any] = {}
        told = (view.faulty | view.crashed).reshape(shape) & terminated[:, None]
        if told.any():
            words = np.full(self.num_envs, None, object)
            for world in np.flatnonzero(told.any(axis=1)):
                words[world] = self.worlds.fault(int(world * self._size + told[world].argmax()))
            info |= {"fault": words, "_fault": told.any(axis=1)}
        return reward, terminated, truncated, info

    def _observe(self) -> NDArray[np.float32]:
        """What the policies see, (N, numbers)."""
        return self._observer.numbers(self._view())

    def close_extras(self, **kwargs: Any) -> None:
        """End the threads."""
        self.worlds.close()


class Env(gymnasium.Env[Any, Any]):
    """One episode of a task at a time; the arguments are those of :class:`VectorEnv`."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def __init__(self, task: str | Task | type[Task] = "hover", **kwargs: Any) -> None:
        if kwargs.get("render_mode") is not None:
            # of this class, as stable-baselines3 asks for pictures first, and then does without
            raise TypeError("render_mode: None alone; fly the policy to watch it (quadsim view)")
        if kwargs.get("num_envs", 1) != 1:
            raise InputError(f"num_envs: {kwargs['num_envs']}; several: gymnasium.make_vec")
        kwargs |= {"num_envs": 1, "autoreset_mode": AutoresetMode.DISABLED}
        self._one = VectorEnv(task, **kwargs)
        self.action_space = self._one.single_action_space
        self.observation_space = self._one.single_observation_space
        self.render_mode = None

    @property
    def worlds(self) -> Worlds:
        """Its world."""
        return self._one.worlds

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        observation, info = self._one.reset(seed=seed)
        return observation[0], info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Advance by a step."""
        observation, reward, terminated, truncated, info = self._one.step(np.asarray(action)[None])
        fault = {"fault": info["fault"][0]} if "fault" in info else {}
        return observation[0], float(reward[0]), bool(terminated[0]), bool(truncated[0]), fault

    def close(self) -> None:
        """End its threads."""
        self._one.close()
