"""Proximal policy optimisation (Schulman et al. 2017) of a Gaussian policy, in NumPy alone.

Actor and critic are networks of two hidden layers, their gradients written out. What they see is
scaled by its running mean and deviation, advantages are those of Schulman et al. 2016.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.errors import InputError
from quadsim.base.parameters import Spec

Floats = NDArray[np.float32]

#: Scaled observations are cut off there.
SEEN_LIMIT = 8.0


@dataclass(frozen=True)
class PpoParams:
    """How is learned."""

    rollout: Annotated[int, Spec("steps of each environment between two updates", ge=2)] = 16
    epochs: Annotated[int, Spec("times that each step is learned from", ge=1)] = 5
    batches: Annotated[int, Spec("parts in which it is", ge=1)] = 4
    width: Annotated[int, Spec("of each hidden layer", ge=4, le=1024)] = 64
    discount: Annotated[float, Spec("of the next step", gt=0.0, lt=1.0)] = 0.99
    trace: Annotated[float, Spec("lambda of the advantages", ge=0.0, le=1.0)] = 0.95
    clip: Annotated[float, Spec("of the ratio of probabilities", gt=0.0, lt=1.0)] = 0.2
    divergence: Annotated[float, Spec("of policies, by which the rate is set", gt=0.0)] = 0.02
    learning_rate: Annotated[float, Spec("of Adam, at first", gt=0.0)] = 1e-3
    deviation: Annotated[float, Spec("of actions; it falls to a third", gt=0.0, le=2.0)] = 0.45


class Ppo:
    """A policy that learns.

    Args:
        seen: numbers of an observation.
        actions: numbers of an action.
        params: how.
        seed: of weights, actions and the order of learning.

    Attributes:
        state: all that changes, as arrays: weights, those of Adam, scales.
    """

    def __init__(self, seen: int, actions: int, params: PpoParams, seed: int) -> None:
        self._spread = np.float32(params.deviation)
        self._over: Any = False  # whose episode was over at the end of the rollout
        self.params, self._rng, wide = params, np.random.default_rng(seed), params.width
        self.state: dict[str, Any] = {
            "mean": np.zeros(seen), "square": np.ones(seen), "count": np.array(1e-4),
            "updates": np.array(0), "steps": np.array(0), "rate": np.array(params.learning_rate),
        }  # fmt: skip
        weights: dict[str, Any] = {}
        for net, last, gain in (("actor", actions, 0.01), ("critic", 1, 1.0)):
            sizes = (seen, wide, wide, last)
            for i, scale in enumerate((1.0, 1.0, gain)):
                drawn = self._rng.normal(size=(sizes[i], sizes[i + 1]))
                weights[f"{net}.w{i}"] = drawn * scale / np.sqrt(sizes[i])
                weights[f"{net}.b{i}"] = np.zeros(sizes[i + 1])
        for name, value in weights.items():
            self.state[name] = value.astype(np.float32)
            self.state[f"first.{name}"] = np.zeros_like(self.state[name])
            self.state[f"second.{name}"] = np.zeros_like(self.state[name])

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from the state of another one.

        Raises:
            InputError: its networks have another shape.
        """
        for name, mine in self.state.items():
            if name not in state or np.shape(state[name]) != mine.shape:
                raise InputError(f"{name}: is not of the same environment and networks")
        self.state = {name: np.array(state[name]) for name in self.state}

    # ---- networks ------------------------------------------------------------------------------

    @property
    def deviation(self) -> Floats:
        """Of the observations."""
        variance = self.state["square"] - np.square(self.state["mean"])
        return np.sqrt(np.maximum(variance, 1e-6)).astype(np.float32)

    def scaled(self, seen: Any) -> Floats:
        """Observations as the networks take them."""
        scaled = (seen - self.state["mean"].astype(np.float32)) / self.deviation
        return np.clip(scaled, -SEEN_LIMIT, SEEN_LIMIT)

    def act(self, seen: Any) -> Floats:
        """Mean actions, within ±1, of observations."""
        return np.clip(self._forward("actor", self.scaled(seen))[-1], -1.0, 1.0)

    def _forward(self, net: str, x: Floats) -> list[Floats]:
        """What each layer is given, and the result."""
        layers = [x]
        for i in range(3):
            x = x @ self.state[f"{net}.w{i}"] + self.state[f"{net}.b{i}"]
            layers.append(np.tanh(x, out=x) if i < 2 else x)
        return layers

    def _backward(self, net: str, layers: list[Floats], slope: Floats) -> dict[str, Floats]:
        """Slopes of the weights, of that of the result."""
        found = {}
        for i in (2, 1, 0):
            found[f"{net}.w{i}"], found[f"{net}.b{i}"] = layers[i].T @ slope, slope.sum(axis=0)
            if i:
                slope = (slope @ self.state[f"{net}.w{i}"].T) * (1.0 - np.square(layers[i]))
        return found

    def _descend(self, slopes: Mapping[str, Floats], rate: float) -> None:
        """A step of Adam (Kingma and Ba 2015), slopes cut to a length of 1."""
        self.state["updates"] = self.state["updates"] + 1
        n = float(self.state["updates"])
        length = np.sqrt(sum(float(np.square(slope).sum()) for slope in slopes.values()))
        scale = rate * np.sqrt(1.0 - 0.999**n) / (1.0 - 0.9**n)
        for name, slope in slopes.items():
            slope = slope / np.float32(max(length, 1.0))
            first, second = self.state[f"first.{name}"], self.state[f"second.{name}"]
            first += np.float32(0.1) * (slope - first)
            second += np.float32(0.001) * (np.square(slope) - second)
            self.state[name] -= np.float32(scale) * first / (np.sqrt(second) + np.float32(1e-8))

    # ---- learning ------------------------------------------------------------------------------

    def learn(self, envs: Any, seen: Any, share: float) -> tuple[Any, dict[str, float]]:
        """Let environments run for a rollout, and learn from it.

        Args:
            envs: a VectorEnv of Gymnasium that begins anew with the next step.
            seen: their observations now.
            share: of the training that is over, 0 to 1.

        Returns:
            Observations afterwards, and figures: mean reward of a step, share of episodes that
            ended for good, divergence of the policies.
        """
        p, rows, width = self.params, self.params.rollout, self.state["actor.b2"].size
        spread = self._spread = np.float32(p.deviation * (1.0 - share * 2.0 / 3.0))
        shape = rows, envs.num_envs
        observed = np.zeros((rows + 1, *seen.shape), np.float32)
        actions = np.zeros((*shape, width), np.float32)
        rewards, ends, late = (np.zeros(shape, np.float32) for _ in range(3))
        over, observed[0] = np.zeros((rows + 1, shape[1]), bool), seen
        over[0] = self._over
        for t in range(rows):
            mean = self._forward("actor", self.scaled(observed[t]))[-1]
            actions[t] = mean + spread * self._rng.standard_normal(mean.shape, np.float32)
            observed[t + 1], rewards[t], ends[t], late[t], _ = envs.step(
                np.clip(actions[t], -1.0, 1.0)
            )
            over[t + 1] = (ends[t] + late[t]) > 0.0
        self._over = over[-1]
        x = self.scaled(observed.reshape(-1, seen.shape[1]))
        values = self._forward("critic", x)[-1].reshape(rows + 1, -1)
        rewards *= np.float32(1.0 - p.discount)  # so that values are about 1
        advantages, later = np.zeros(shape, np.float32), np.zeros(shape[1], np.float32)
        for t in reversed(range(rows)):
            surprise = rewards[t] + p.discount * values[t + 1] * (1.0 - ends[t]) - values[t]
            later = surprise + p.discount * p.trace * (1.0 - over[t + 1]) * later
            advantages[t] = later
        used = np.flatnonzero(~over[:-1])  # in the others who was over began anew
        advantage = advantages.ravel()[used]
        divergence = self._update(
            x[used], actions.reshape(-1, width)[used], advantage, advantage + values.ravel()[used]
        )
        self._see(observed[:-1].reshape(-1, seen.shape[1])[used])
        self.state["steps"] = self.state["steps"] + advantages.size
        figures = {
            "reward": float(rewards.ravel()[used].mean() / (1.0 - p.discount)),
            "ended": float(ends.sum() / max(over[1:].sum(), 1)),
            "divergence": divergence,
        }
        return observed[-1], figures

    def _update(self, x: Floats, action: Floats, advantage: Floats, wanted: Floats) -> float:
        """Learn from scaled observations; the divergence, by which the rate is set (Adam's)."""
        p, rate, change = self.params, float(self.state["rate"]), 0.0
        before = self._log_probability(self._forward("actor", x)[-1], action)[0]
        advantage = (advantage - advantage.mean()) / (advantage.std() + np.float32(1e-8))
        for _ in range(p.epochs):
            for part in np.array_split(self._rng.permutation(len(x)), p.batches):
                actor, critic = self._forward("actor", x[part]), self._forward("critic", x[part])
                log, off = self._log_probability(actor[-1], action[part])
                more, gain = np.clip(log - before[part], -20.0, 20.0), advantage[part]
                ratio = np.exp(more)
                free = np.where(gain > 0.0, ratio < 1.0 + p.clip, ratio > 1.0 - p.clip)
                slope = (-gain * ratio * free / np.float32(len(part)))[:, None]
                slopes = self._backward("actor", actor, slope * off / self._spread)
                self._descend(slopes, rate)
                error = (critic[-1] - wanted[part, None]) * np.float32(2.0 / len(part))
                self._descend(self._backward("critic", critic, error), rate)
                change = float((ratio - 1.0 - more).mean())  # Schulman's estimate of it
        if not 0.5 * p.divergence < change < 2.0 * p.divergence:
            rate = rate * 1.5 if change < p.divergence else rate / 1.5
            self.state["rate"] = np.clip(rate, 1e-4, 1e-2)
        return change

    def _log_probability(self, mean: Floats, action: Floats) -> tuple[Floats, Floats]:
        """Of actions, but for a constant; and how many deviations they are off."""
        off = (action - mean) / self._spread
        return -0.5 * np.square(off).sum(axis=1), off

    def _see(self, seen: Floats) -> None:
        """Count observations into their mean and mean square."""
        self.state["count"] = self.state["count"] + len(seen)
        part = len(seen) / self.state["count"]
        self.state["mean"] += part * (seen.mean(axis=0, dtype=float) - self.state["mean"])
        square = np.square(seen, dtype=float).mean(axis=0)
        self.state["square"] += part * (square - self.state["square"])
