"""1024 vehicles with a new action before each step, and 1024 environments with sensors and filter.

``quadsim bench --only learning``. The batch is Crazyflies with the attitude law, Euler at 500 Hz.
The environments are ``hover`` on the estimate with attitudes as actions, each a tenth of its range.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np

from quadsim_bench.batch import million_a_second
from quadsim_bench.figure import Measurement, Session, Unavailable, lines
from quadsim_bench.peer_program import commands
from quadsim_bench.peers import Ours

if TYPE_CHECKING:
    from quadsim.gym import VectorEnv

COUNT, CALLS, HELD, ENV_STEPS = 1024, 500, 10, 20
#: Steps of control in a step of an environment.
CONTROL_STEPS = 10


def fly(ours: Ours, thrusts_N: Any, actions: list[Any], steps: int) -> None:
    """Give each action, and hold it for some steps."""
    for angles in actions:
        ours.want(angles, thrusts_N)
        ours.step(steps)


def measure_batch(session: Session) -> dict[str, Any]:
    """Millions of vehicle steps a second with new actions."""
    ours = session.once("1024 Crazyflies", lambda: Ours(COUNT))
    angles, thrusts_N = commands(COUNT)
    actions = [angles * (1.0 - k / CALLS) for k in range(CALLS)]
    fly(ours, thrusts_N, actions[:50], 1)
    return {
        f"learning_{name}_million_per_s": million_a_second(
            partial(fly, ours, thrusts_N, given, steps), COUNT * steps * len(given)
        )
        for name, given, steps in (("new", actions, 1), ("held", actions[::HELD], HELD))
    }


def environments() -> VectorEnv:
    """Environments that have flown for a second.

    Raises:
        Unavailable: Gymnasium is not installed.
    """
    try:
        from quadsim.gym import VectorEnv
    except ImportError:
        raise Unavailable("pip install 'quadsim[gym]'") from None
    envs = VectorEnv("hover", COUNT, observation="estimate", action="attitude")
    envs.reset(seed=1)
    for _ in range(50):
        envs.step(np.zeros((COUNT, 4)))
    return envs


def measure_environments(session: Session) -> dict[str, Any]:
    """Thousands of control steps a second, and what is not the compiled loop's."""
    envs = session.once("1024 environments", environments)
    rng = np.random.default_rng(1)
    actions = np.clip(rng.normal(0.0, 0.1, (ENV_STEPS, COUNT, 4)), -1.0, 1.0)
    advance, loops_s = envs.worlds.step, []

    def timed(*given: Any) -> None:
        begin_s = time.perf_counter()
        advance(*given)
        loops_s.append(time.perf_counter() - begin_s)

    with patch.object(envs.worlds, "step", timed):
        begin_s = time.perf_counter()
        for action in actions:
            envs.step(action)
        taken_s = time.perf_counter() - begin_s
    return {
        "learning_filter_thousand_per_s": CONTROL_STEPS * ENV_STEPS * COUNT / taken_s * 1e-3,
        "learning_environment_percent": 100.0 * (1.0 - sum(loops_s) / taken_s),
    }


BATCH = f"""
learning_new_million_per_s million/s >=10 {COUNT} Crazyflies, attitude law, Euler, an action a step
learning_held_million_per_s million/s more the same, an action for {HELD} steps
"""
ENVIRONMENTS = f"""
learning_filter_thousand_per_s thousand/s >=250 control steps of {COUNT} worlds, sensors and filter
learning_environment_percent % <=15 of the time not in the compiled loop
"""

MEASUREMENTS = (
    Measurement("learning_batch", lines(BATCH), measure_batch),
    Measurement("learning_environments", lines(ENVIRONMENTS), measure_environments),
)
