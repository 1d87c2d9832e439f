"""Trained policies, ONNX or TorchScript, as controllers and planners of any flight.

JSON under ``quadsim`` in a file states what its policy sees and does; for a file from elsewhere the
part's arguments do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Array
from quadsim.base.errors import InputError, shown
from quadsim.base.extras import need
from quadsim.gym.interface import (
    PERIODS_S,
    Observer,
    action_limits,
    checked_number,
    limits_from,
)
from quadsim.gym.tasks import task_of
from quadsim.gym.view import View, view_of_one
from quadsim.sim.flight_view import Attitude, FlightView, Rates
from quadsim.sim.scenario import Scenario
from quadsim.sim.worlds import ACTIONS, SEEN

#: Key of a file's description of its policy (of TorchScript an extra file of that name).
KEY = "quadsim"
#: States of the autopilot in which a policy flies; in the others our own control does.
FLOWN = ("mission", "hover", "guided", "velocity", "commanded", "returning", "recovery")
#: Distance at which a goal of the mission is cut, m: training has no farther ones.
FARTHEST_M = 4.0

Network = Callable[[NDArray[np.float32]], Array]


def _onnx(path: Path) -> tuple[Network, str]:
    """A network of observations (1, n), and its file's description."""
    runtime = need("onnxruntime", path)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        session = runtime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
    except Exception as error:  # of many classes, all its own
        words = " ".join(str(error).split())
        words = words if len(words) <= 400 else f"{words[:120]} ... {words[-280:]}"  # its reason
        raise InputError(f"{path}: no ONNX that onnxruntime reads: {words}") from None
    name = session.get_inputs()[0].name
    told = session.get_modelmeta().custom_metadata_map.get(KEY, "")
    return lambda seen: np.ravel(session.run(None, {name: seen})[0]), told


def _torch(path: Path) -> tuple[Network, str]:
    """The same of TorchScript."""
    torch = need("torch", path)
    told: dict[str, Any] = {KEY: ""}  # text goes in, bytes come out
    try:
        module = torch.jit.load(str(path), map_location="cpu", _extra_files=told).eval()
    except RuntimeError as error:
        raise InputError(
            f"{path}: is no TorchScript: {' '.join(str(error).split())[:200]}"
        ) from None

    def act(seen: NDArray[np.float32]) -> Array:
        with torch.inference_mode():
            return np.ravel(module(torch.from_numpy(seen)).numpy())

    return act, told[KEY]


def _description(text: str, path: Path) -> dict[str, Any]:
    """What a file says of its policy.

    Raises:
        InputError: it is no JSON of keys and values.
    """
    try:
        told = json.loads(text or "{}")
    except ValueError as error:
        raise InputError(f"{path}: {KEY} in it is no JSON ({error})") from None
    if not isinstance(told, dict):
        raise InputError(f"{path}: {KEY} in it is {shown(told)}; needed: keys and values")
    return told


class Policy:
    """A policy that flies; see :class:`quadsim.gym.VectorEnv` for what an argument means.

    Args:
        scenario: what flies.
        kind: what it flies as, ``controller`` or ``planner``, which is for velocities.
        file: ``.onnx``, or ``.pt`` of TorchScript: (1, n) observations to (1, m) actions in ±1.
        task, observation, action, period_s, limits: as it was trained; None: as in its file.
        goal: ``mission``, where the mission wants the vehicle, or ``task``; None: the mission's of
            tasks that have no way of their own.
        memory: numbers that the task begins with, such as the first gate.

    Raises:
        InputError: there is no such file, it lacks a description, it takes or gives other numbers,
            it cannot fly as this kind, or an argument is wrong.
    """

    def __init__(
        self,
        scenario: Scenario,
        file: str,
        kind: str,
        task: str | None = None,
        observation: str | None = None,
        action: str | None = None,
        period_s: float | None = None,
        limits: Mapping[str, float] | None = None,
        goal: str | None = None,
        memory: Sequence[float] = (),
    ) -> None:
        path = Path(file).expanduser()
        if not path.is_file():
            raise InputError(f"{path}: there is no such file")
        self._network, text = (_torch if path.suffix == ".pt" else _onnx)(path)
        given = {
            "task": task, "observation": observation, "action": action, "period_s": period_s,
            "limits": limits,
        }  # fmt: skip
        told = _description(text, path) | {k: v for k, v in given.items() if v is not None}
        lacking = [key for key in ("task", "observation", "action") if key not in told]
        if lacking:
            raise InputError(f"{path}: does not say its {', '.join(lacking)}; give it as arguments")
        if task is None and ":" in str(told["task"]):  # a file imports nothing
            raise InputError(f"{path}: its task is {told['task']}; give it as the argument task")
        self.task = task_of(told["task"])
        if self.task.rays:
            raise InputError(f"{path}: task {told['task']} sees ranges, which no flight hands over")
        if told["action"] not in ACTIONS:
            raise InputError(f"{path}: action: {told['action']!r}; allowed: {', '.join(ACTIONS)}")
        role = "planner" if told["action"] == "velocity" else "controller"
        if kind != role:
            raise InputError(f"its actions are {told['action']}; fly it as {role} (--{role})")
        if goal not in (None, "mission", "task"):
            raise InputError(f"{path}: goal: {goal!r}; allowed: mission, task")
        self._action = told["action"]
        self._period_s = checked_number("period_s", told.get("period_s", 0.02), *PERIODS_S)
        self._observer = Observer(told["observation"], self.task, scenario)
        self._sensors = told["observation"] == "sensors"
        bounds = limits_from(told.get("limits"))
        self._low, self._high = action_limits(self._action, scenario.vehicle, bounds)
        self._try_network(path)
        self._thrust_N_s2 = scenario.vehicle.thrust_coefficient_N_s2
        self._follows = self.task.follows if goal is None else goal == "mission"
        self._memory = np.zeros((1, self.task.memory))
        try:
            begun = np.asarray(memory, float)
        except (TypeError, ValueError):
            begun = np.full(1, np.nan)
        if begun.ndim != 1 or len(begun) > self.task.memory or not np.isfinite(begun).all():
            raise InputError(f"memory: {memory}; needed: at most {self.task.memory} finite numbers")
        self._memory[0, : len(begun)] = begun
        self._seen: NDArray[np.record] = np.zeros(1, SEEN)
        self._goal_W: Array = np.zeros((1, 3))
        self._now: Array = np.zeros((1, len(self._low)))
        self._last = self._now
        self._begun_s = self._next_s = -1.0
        self._held: Any = None

    def update(self, now: FlightView) -> Any:
        """What it commands, as controller: rotor speeds, rates or an attitude; None: ours fly."""
        return self._decide(now)

    def plan(self, now: FlightView) -> Any:
        """What it commands, as planner: a velocity in W and a yaw rate."""
        return self._decide(now)

    def _try_network(self, path: Path) -> None:
        """Refuse a network of other numbers before it flies."""
        taken, given = self._observer.count(len(self._low)), len(self._low)
        needed = f"needed: (1, {taken}) observations to (1, {given}) actions"
        try:
            found = self._network(np.zeros((1, taken), np.float32))
        except Exception as error:  # of many classes, of either library
            words = " ".join(str(error).split())[:200]
            raise InputError(f"{path}: cannot be run; {needed} ({words})") from None
        if found.shape != (given,):
            raise InputError(f"{path}: gives {found.size} numbers; {needed}")

    def _decide(self, now: FlightView) -> Any:
        """A command, held for a period."""
        if now.mode not in FLOWN:
            self._begun_s = -1.0
            return None
        time_s = now.time_s
        if self._begun_s < 0.0:
            self._begun_s = self._next_s = time_s
            self._last = self._now = np.zeros_like(self._last)
        if time_s < self._next_s - 1e-6:
            return self._held
        self._next_s += self._period_s
        view = self._view(now, time_s - self._begun_s)
        view.goal_W = self._goal_W = self._goal(now, view)
        found = self._network(self._observer.numbers(view))
        if found.shape != self._low.shape or not np.isfinite(found).all():
            raise ValueError(f"gave {found}; needed: {self._low.size} finite numbers")
        action = np.clip(found.astype(float), -1.0, 1.0)
        self._last, self._now = self._now, action[None]
        half = 0.5 * (self._high - self._low)
        self._held = self._commanded(0.5 * (self._high + self._low) + half * action)
        return self._held

    def _commanded(self, action: Array) -> Any:
        """An action, in its units, as the loop takes it."""
        if self._action == "rates":
            return Rates(action[:3], float(action[3]))
        if self._action == "attitude":
            return Attitude(*action.tolist())
        return np.sqrt(action / self._thrust_N_s2) if self._action == "thrusts" else action

    def _goal(self, now: FlightView, view: View) -> Array:
        """Where the vehicle shall be."""
        if not self._follows:
            return self.task.goal(view)
        setpoint = now.setpoint
        if setpoint.mode != "position":
            return self._goal_W
        off = setpoint.p_W - view.p_W
        far = max(float(np.linalg.norm(off)) / FARTHEST_M, 1.0)
        return np.asarray(view.p_W + off / far)

    def _view(self, now: FlightView, time_s: float) -> View:
        """The flight as the task looks at it: by what is flown on."""
        seen, flown = self._seen, now.records["odometry"]
        seen["estimate"] = flown
        for name in ("p_W", "v_W", "q_WB", "w_B"):
            seen["true"][name] = flown[name]
        if self._sensors:
            self._look_at(now)
        return view_of_one(time_s, seen, self._now, self._last, self._memory)

    def _look_at(self, now: FlightView) -> None:
        """Newest samples."""
        seen, samples = self._seen, now.sensors
        if imu := samples.get("imu"):
            seen["f_S"], seen["w_S"] = imu["f_S"], imu["w_S"]
        if (fix := samples.get("gnss")) and np.isfinite(fix["p_W"]).all():
            seen["gnss_p_W"], seen["gnss_v_W"] = fix["p_W"], fix["v_W"]
            seen["gnss_age_s"] = min(now.time_s - 1e-9 * float(fix["stamp_ns"]), 10.0)
        if field := samples.get("magnetometer"):
            seen["field_S_T"] = field["m_S"]
        if pressure := samples.get("barometer"):
            seen["pressure_pa"] = pressure["values"][0]
        if below := samples.get("rangefinder"):
            seen["range_m"] = below["range_m"]
