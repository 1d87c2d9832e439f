"""``quadsim train``: a policy for a task, by reinforcement learning, and flights that test it."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quadsim.base.errors import InputError
from quadsim.base.options import argument, option
from quadsim.cli.common import INTERRUPTED, ProgressLine, finish, loading, run_folder, say, to_json
from quadsim.cli.options import Changes, Printed, RunFolder, command, given

#: What a training that goes on keeps as it was.
KEPT = ("observation", "action", "period_s", "envs", "seed", "vehicle", "changes", "learning")
#: Between two saves, s.
SAVED_EVERY_S = 20.0
#: In a run's folder.
TRAINING, POLICY = "training.npz", "policy.onnx"


@dataclass(frozen=True)
class TrainOptions(Printed):
    """Options of ``quadsim train``."""

    task: str = argument()
    observation: str = option(
        "truth",
        "what the policy sees: truth, which is the estimate where it flies; the estimate with its"
        " deviations; or raw sensors",
        choices=("truth", "estimate", "sensors"),
    )
    action: str = option(
        "rates",
        "what it commands",
        choices=("rotor_speeds", "thrusts", "rates", "attitude", "velocity"),
    )
    steps: int | None = option(None, "of all environments together", unset="as the task says", ge=1)
    envs: int = option(256, "environments at once", ge=1, le=100_000)
    period_s: float = option(0.02, "of a step, in which an action is held", "s", gt=0.0, le=1.0)
    vehicle: str | None = option(
        None, "a vehicle of config/vehicles, or a file", unset="as in the task's scenario"
    )
    seed: int = option(1, "of all randomness", ge=0, le=1_000_000)
    changes: Changes = ()
    learning: tuple[str, ...] = option(
        (), "how is learned, such as discount=0.98; may be repeated", metavar="KEY=VALUE"
    )
    flights: int = option(20, "that test the policy afterwards", ge=0, le=10_000)
    resume: Path | None = option(None, "go on with the training of this folder", path="folder")
    output: RunFolder = None

    def check(self) -> None:
        """Refuse what a training that goes on has already.

        Raises:
            InputError: naming the option.
        """
        for name, flag in given().items() if self.resume is not None else ():
            if name in (*KEPT, "output"):
                raise InputError(f"{flag}: --resume goes on as it was begun; leave it out")


@command(TrainOptions)
def train(options: TrainOptions) -> int:
    """Train a policy for TASK, write it as ONNX, and fly it on the estimate as its test.

    TASK is hover, reach, trajectory, race, land, forest, or module:Class. The run's folder gets
    policy.onnx, training.npz and summary.json; quadsim sim --controller FOLDER/policy.onnx flies
    it. Exit status: 0 all flights achieved the task, 1 not, 2 bad input, 130 interrupted (--resume
    goes on).
    """
    options.check()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # small products: threads would wait
    folder = options.resume or run_folder(f"train-{options.task}", options.output)
    with loading("loading"):
        from quadsim.base.extras import need
        from quadsim.base.whole_files import write_whole

        for package in ("gymnasium", "onnx", "onnxruntime"):
            need(package, "quadsim train")
        training = _begun(options, folder)
    steps = options.steps or training.envs.task.training_steps
    begin_s, first = time.perf_counter(), training.steps
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror})") from None
    try:
        _learn(training, steps, folder)
    except KeyboardInterrupt:
        training.save(folder / TRAINING)
        asked = f" --steps {steps}" if options.steps else ""
        say(
            f"interrupted at {training.steps} steps; quadsim train {options.task} --resume {folder}"
            f"{asked}"
        )
        return INTERRUPTED
    learned_s = time.perf_counter() - begin_s
    training.save(folder / TRAINING)
    training.export(folder / POLICY)
    flights = _flights(training, folder, options.flights)
    achieved = sum(flight["achieved"] for flight in flights)
    summary = {
        "task": options.task,
        "steps": training.steps,
        "learned_s": learned_s,
        "steps_per_s": (training.steps - first) / learned_s,
        "flights": flights,
        "achieved": achieved,
        "passed": achieved == len(flights),
        "policy": folder / POLICY,
    }
    write_whole(folder / "summary.json", to_json(summary) + "\n")
    return finish(summary, options.as_json, _show, f"policy: {folder / POLICY}")


def _begun(options: TrainOptions, folder: Path) -> Any:
    """The training, new or gone on with."""
    from quadsim.base.changes import parse_changes
    from quadsim.base.parameters import from_mapping
    from quadsim.gym.ppo import PpoParams
    from quadsim.gym.tasks import task_of
    from quadsim.gym.training import Training, TrainingParams

    if options.resume is not None:
        training = Training.load(folder / TRAINING)
        if training.params.task != options.task:
            raise InputError(f"{folder}: trains {training.params.task}, not {options.task}")
        return training
    learning = {**task_of(options.task).learning, **parse_changes(options.learning)}
    return Training(
        TrainingParams(
            options.task, options.observation, options.action, options.period_s, options.envs,
            options.seed, options.vehicle or "", parse_changes(options.changes),
            ppo=from_mapping(PpoParams, learning, "--learning"),
        )
    )  # fmt: skip


def _learn(training: Any, steps: int, folder: Path) -> None:
    """Learn, tell how it goes, and save now and then."""
    saved_s = time.monotonic()
    with ProgressLine(training.params.task, steps, "{task.completed:.0f} steps", 5.0) as progress:
        first = training.steps
        for figures in training.run(steps):
            if wall_s := progress.due():
                done = training.steps
                words = (
                    f"reward {figures['reward']:.3f} a step,"
                    f" {100.0 * figures['ended']:.0f} % of episodes end early,"
                    f" {(done - first) / wall_s:.0f} steps/s"
                )
                progress.show(done, words, f"{done} of {steps} steps, {words}")
            if time.monotonic() - saved_s > SAVED_EVERY_S:
                saved_s = time.monotonic()
                training.save(folder / TRAINING)


def _flights(training: Any, folder: Path, count: int) -> list[dict[str, Any]]:
    """Fly the policy; none of a task whose ranges no flight hands over."""
    from quadsim.cli.common import counting
    from quadsim.gym.training import fly

    if not count:
        return []
    with counting("flights") as tell:
        return fly(folder / POLICY, training.params, count, lambda n: tell(n, count))


def _show(summary: dict[str, Any]) -> None:
    """One line."""
    from rich.text import Text

    from quadsim.cli.show import tables, verdict

    flights, console = summary["flights"], tables()
    words = f"train {summary['task']}: {summary['steps']} steps in {summary['learned_s']:.0f} s"
    if flights:
        worst = max(flight["error_m"] for flight in flights)
        words += (
            f"; {summary['achieved']} of {len(flights)} flights on the estimate achieved it,"
            f" {worst:.2f} m from the goal at worst: "
        )
        console.print(Text(words) + verdict(summary["passed"]))
    else:
        console.print(Text(words))
