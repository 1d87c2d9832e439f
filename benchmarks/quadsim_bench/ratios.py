"""quadsim's time over that of a fixed reference: it tells a slower program from a slower machine.

Each piece of work and the references take turns; of each the least processor time counts, which
others on the machine disturb least. There are two references: a loop in Python, and
:mod:`quadsim_bench.reference`, loops that Numba compiles. What calls kernels from Python is
compared with both together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from quadsim_bench.figure import Line, Measurement, Session
from quadsim_bench.reference import compiled_loops
from quadsim_bench.timing import once_s

if TYPE_CHECKING:
    from quadsim.estimation.interface import Estimator

#: Does a piece of work and returns its processor time, s.
Work = Callable[[], float]

#: Turns of a round; kernels, whose work is short, have more of them.
TURNS, SHORT_TURNS, KERNEL_TURNS = 12, 8, 3


def python_loop() -> float:
    """The reference in Python: a pendulum by Euler's method, objects and dictionaries; 10 ms."""
    angle, rate = 0.3, 0.0
    seen: dict[int, tuple[float, float]] = {}
    for k in range(80_000):
        rate -= 1e-3 * math.sin(angle)
        angle += 1e-3 * rate
        seen[k & 63] = (angle, rate)
    return sum(pair[0] for pair in seen.values())


def timed(work: Callable[[], object]) -> Work:
    """Work of which all counts."""
    return lambda: once_s(lambda: None, lambda _: work())


def least_s(works: Sequence[Work], turns: int) -> list[float]:
    """The least time of each of some pieces of work, which take turns, s."""
    least = [math.inf] * len(works)
    for _ in range(turns):
        for i, work in enumerate(works):
            least[i] = min(least[i], work())
    return least


def ratios(works: Sequence[Work], references: Sequence[Work], turns: int) -> list[float]:
    """Times of pieces of work over that of the references together."""
    times = least_s([*references, *works], turns)
    together_s = sum(times[: len(references)])
    return [taken_s / together_s for taken_s in times[len(references) :]]


def _kernels() -> dict[str, Work]:
    """Work of which next to nothing is Python: about 10 ms each."""
    from quadsim_bench import estimator_loops as loops
    from quadsim_bench import ray_casting as rays
    from quadsim_bench import sensors, vehicle
    from quadsim_bench.estimator import started

    lines = started().lines
    device = sensors.devices()["imu_everything"]
    hover = vehicle.hovers()["everything"]
    scan = rays.caster(rays.scenes()["both"], rays.level(rays.LEVEL))

    def hovers() -> float:
        return sum(once_s(hover.begin, vehicle.fly) for _ in range(10))

    def scans() -> None:
        for _ in range(30):
            scan()

    return {
        "vehicle_step": hovers,
        "imu_sample": lambda: device.sample_us(20_000) * 20_000 * 1e-6,
        "prediction": partial(once_s, lines.copy, partial(loops.predictions, count=20_000)),
        "update": partial(once_s, lines.copy, partial(loops.pressures, count=20_000)),
        "vector_update": partial(once_s, lines.copy, partial(loops.fixes, count=8_000)),
        "ray_casting": timed(scans),
    }


def _mixed(session: Session) -> dict[str, Work]:
    """Work in which Python calls kernels."""
    from quadsim.analysis.replay import Settings, load_kernels, replay
    from quadsim_bench.closed_loop import everything_on, flight
    from quadsim_bench.estimator import calls, started
    from quadsim_bench.replay import short_bag

    estimator = started()
    full = everything_on(5.0)
    bag, settings = short_bag(session), Settings()
    load_kernels(settings)

    def from_the_start() -> Estimator:
        estimator.reset()
        return estimator

    return {
        "closed_loop": lambda: flight(full)[2],
        "estimator_call": partial(once_s, from_the_start, calls),
        "replay": timed(partial(replay, bag, settings)),
    }


WORDS = {
    "vehicle_step": "a step of the vehicle, everything on",
    "imu_sample": "a sample of the IMU, every error and vibration",
    "prediction": "a prediction of the error-state filter",
    "update": "an update of it by one number",
    "vector_update": "an update of it by a fix",
    "ray_casting": "a level scan over terrain with obstacles",
    "closed_loop": "a flight without ROS, everything on",
    "estimator_call": "IMU samples of the estimator from Python",
    "replay": "replay of a bag",
}


def measure(session: Session) -> dict[str, Any]:
    """One round of turns."""
    turns = SHORT_TURNS if session.short else TURNS
    kernels = session.once("kernels", _kernels)
    mixed = session.once("mixed", lambda: _mixed(session))
    loops = timed(session.once("reference", compiled_loops))
    least_s([loops, *kernels.values(), *mixed.values()], 1)  # compiles, and fills caches
    found: dict[str, float] = {}
    for works, references, more in (
        (kernels, [loops], KERNEL_TURNS),
        (mixed, [loops, timed(python_loop)], 1),
    ):
        values = ratios(list(works.values()), references, turns * more)
        found |= {f"ratio_{name}": value for name, value in zip(works, values, strict=True)}
    return found


MEASUREMENTS = (
    Measurement(
        "ratios",
        tuple(
            Line(f"ratio_{name}", f"over a reference: {words}", "ratio", "less", kept=True)
            for name, words in WORDS.items()
        ),
        measure,
        short=True,
    ),
)
