"""From a task to a policy that flies: learning, the file of it, and flights that test it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from quadsim.api.simulation import Simulation
from quadsim.base.errors import InputError
from quadsim.base.extras import need
from quadsim.gym.envs import VectorEnv
from quadsim.gym.policy import KEY
from quadsim.gym.ppo import SEEN_LIMIT, Ppo, PpoParams
from quadsim.gym.tasks import Task, task_of
from quadsim.gym.view import view_of_one
from quadsim.sim.worlds import SEEN

#: Of the first estimate about the truth: m, m/s, rad of tilt and of heading.
ESTIMATE_SIGMA = (0.3, 0.1, 0.02, 0.05)
#: Period of the IMU for those who learn on the truth.
BARE_PERIOD_NS = 4_000_000
#: Limits that a test flight lifts: a policy leads itself, the mission waits.
FREE = {"autopilot.flight.failsafe.off_course_m": 1000.0}


@dataclass(frozen=True)
class TrainingParams:
    """What is learned, in what, and how; a training that goes on keeps it."""

    task: str
    observation: str = "truth"
    action: str = "rates"
    period_s: float = 0.02
    envs: int = 256
    seed: int = 1
    vehicle: str = ""
    changes: Mapping[str, Any] = field(default_factory=dict)
    ppo: PpoParams = field(default_factory=PpoParams)

    @property
    def keys(self) -> dict[str, Any]:
        """Of the scenario, that are set."""
        return {**({"vehicle": self.vehicle} if self.vehicle else {}), **self.changes}

    def make(self, count: int, **more: Any) -> VectorEnv:
        """So many environments of it.

        Who sees the truth learns on it, without sensors but for an IMU of half the usual rate.
        """
        bare = {}
        if self.observation == "truth" and round(self.period_s * 1e9) % BARE_PERIOD_NS == 0:
            bare = {"sensors": "imu", "sensors.imu.rate_hz": 1e9 / BARE_PERIOD_NS}
        return VectorEnv(
            self.task if ":" in self.task else self.task.lower(), count,
            observation=self.observation, action=self.action, period_s=self.period_s,
            estimate_sigma=ESTIMATE_SIGMA, changes={**bare, **self.keys}, **more,
        )  # fmt: skip


class Training:
    """A policy in the making.

    Args:
        params: what is learned.
        state: of an earlier one, to go on from.
    """

    def __init__(self, params: TrainingParams, state: Mapping[str, Any] | None = None) -> None:
        self.params = params
        self.envs = params.make(params.envs, units=16)
        self._seen, _ = self.envs.reset(seed=params.seed * 1_000_000)
        actions = self.envs.single_action_space.shape[0]
        self.ppo = Ppo(self._seen.shape[1], actions, params.ppo, params.seed)
        if state is not None:
            self.ppo.load(state)

    @classmethod
    def load(cls, file: Path) -> Training:
        """Go on with what :meth:`save` wrote.

        Raises:
            InputError: it is no such file.
        """
        try:
            with np.load(file) as content:
                state = dict(content)
            told = json.loads(str(state.pop("params")))
            params = TrainingParams(**{**told, "ppo": PpoParams(**told["ppo"])})
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{file}: holds no training ({error})") from None
        return cls(params, state)

    @property
    def steps(self) -> int:
        """Of all environments together so far."""
        return int(self.ppo.state["steps"])

    def run(self, steps: int) -> Iterator[dict[str, float]]:
        """Learn up to so many steps; the figures of each rollout."""
        while self.steps < steps:
            self._seen, figures = self.ppo.learn(self.envs, self._seen, self.steps / steps)
            yield figures

    def save(self, file: Path) -> None:
        """Write all from which :meth:`load` goes on; episodes begin anew then.

        Raises:
            InputError: it cannot be written; what was there is kept.
        """
        part, told = file.with_name(f"{file.name}.part"), json.dumps(asdict(self.params))
        try:
            with part.open("wb") as stream:
                np.savez(stream, params=np.array(told), **self.ppo.state)
            part.replace(file)
        except OSError as error:
            raise InputError(f"{file}: cannot be written ({error.strerror})") from None

    def export(self, file: Path) -> None:
        """Write the policy as ONNX: observations as they are seen in, actions in ±1 out."""
        onnx = need("onnx", "quadsim train")
        h, of_array = onnx.helper, onnx.numpy_helper.from_array
        state, width = self.ppo.state, self.envs.single_action_space.shape[0]
        numbers = {"mean": state["mean"], "deviation": self.ppo.deviation}
        numbers |= {"far": SEEN_LIMIT, "near": -SEEN_LIMIT, "most": 1.0, "least": -1.0}
        numbers |= {name: state[f"actor.{name}"] for i in range(3) for name in (f"w{i}", f"b{i}")}
        nodes = [
            h.make_node("Sub", ["observation", "mean"], ["off"]),
            h.make_node("Div", ["off", "deviation"], ["scaled"]),
            h.make_node("Clip", ["scaled", "near", "far"], ["x0"]),
        ]
        for i in range(3):
            out = f"x{i + 1}" if i == 2 else f"y{i}"
            nodes.append(h.make_node("Gemm", [f"x{i}", f"w{i}", f"b{i}"], [out]))
            if i < 2:
                nodes.append(h.make_node("Tanh", [out], [f"x{i + 1}"]))
        nodes.append(h.make_node("Clip", ["x3", "least", "most"], ["action"]))
        kind = onnx.TensorProto.FLOAT
        graph = h.make_graph(
            nodes,
            self.params.task,
            [h.make_tensor_value_info("observation", kind, ["n", self._seen.shape[1]])],
            [h.make_tensor_value_info("action", kind, ["n", width])],
            [of_array(np.asarray(value, np.float32), name) for name, value in numbers.items()],
        )
        model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)
        told = {name: getattr(self.params, name) for name in ("task", "observation", "action")}
        told["period_s"] = self.params.period_s
        h.set_model_props(model, {KEY: json.dumps(told)})
        onnx.checker.check_model(model)
        onnx.save(model, str(file))


def fly(
    policy: Path, params: TrainingParams, count: int, tell: Callable[[int], None] = lambda n: None
) -> list[dict[str, Any]]:
    """Fly a policy from beginnings of its task that it has not seen, on the estimate.

    Each is a flight of :class:`quadsim.Simulation` with the file as its controller, or planner.

    Returns:
        Of each: seed, whether the task was achieved, seconds, distance from the goal in the end,
        how it crashed.
    """
    task = task_of(params.task)
    if task.rays:
        return []
    with_all = params.make(count, units=count, threads=1)
    with_all.reset(seed=900_000_000 + params.seed * 1000)
    kind, found = "planner" if params.action == "velocity" else "controller", []
    sigma = zip(("position_sigma_m", "velocity_sigma_mps"), ESTIMATE_SIGMA[:2], strict=True)
    angles = zip(("tilt_sigma_deg", "yaw_sigma_deg"), np.degrees(ESTIMATE_SIGMA[2:]), strict=True)
    known = {"estimate": "drawn", **dict(sigma), **{key: float(each) for key, each in angles}}
    for i in range(count):
        begin, memory = with_all.worlds.seen["true"][i], with_all.memory[i].copy()
        part = {
            "part": str(policy.absolute()), "task": params.task, "goal": "task",
            "memory": memory.tolist(),
        }  # fmt: skip
        simulation = Simulation(
            task.scenario, seed=1000 + i, duration_s=task.episode_s + 1.0, start_mission=False,
            changes={**FREE, **task.changes, **params.keys}, parts={kind: part},
            start={**{k: begin[k] for k in ("p_W", "v_W", "q_WB", "w_B")}, **known},
        )  # fmt: skip
        found.append({"seed": 1000 + i, **_judged(simulation, task, memory, params.period_s)})
        tell(i + 1)
    with_all.close()
    return found


def _judged(simulation: Simulation, task: Task, memory: Any, period_s: float) -> dict[str, Any]:
    """Fly an episode, and judge it by the truth."""
    seen: Any = np.zeros(1, SEEN)
    own_memory, none = memory[None].copy(), np.zeros((1, 4))
    steps, achieved, ended = round(period_s / simulation.control_period_s), False, False
    crashed = False
    while not (ended or simulation.done or simulation.time_s >= task.episode_s - 1e-9):
        simulation.step(steps)
        crashed = any(event.name == "crash" for event in simulation.events)
        seen["true"] = simulation.records["truth"]
        view = view_of_one(simulation.time_s, seen, none, none, own_memory)
        view.crashed = np.array([crashed])
        view.goal_W = task.goal(view)
        ended, achieved = bool(task.terminated(view)[0]), bool(task.achieved(view)[0])
    return {
        "achieved": achieved and not crashed,
        "crashed": crashed,
        "flown_s": simulation.time_s,
        "error_m": float(view.error_m[0]),
    }
