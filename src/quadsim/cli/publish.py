"""``quadsim replay BAG --publish``: the bag on DDS, with live nodes beside it if asked for."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from quadsim.base.errors import InputError
from quadsim.cli.common import (
    FAILED,
    INTERRUPTED,
    PASSED,
    FlightProgress,
    loading,
    print_json,
    ready_for_ros,
    say,
    to_json,
    working,
)

if TYPE_CHECKING:
    from rclpy.context import Context

    from quadsim.geometry.geodesy import Datum
    from quadsim.ros.graph.graph import NodeSpec
    from quadsim.ros.nodes.player import PlayerNode

F = TypeVar("F", bound=Callable[..., Any])
#: Where the options lie in the command's context.
_KEY = "quadsim.publish"


@dataclass(frozen=True)
class Publishing:
    """What ``--publish`` and its options say; names and meanings as of the player's parameters."""

    rate: float
    paused: bool
    start_s: float
    duration_s: float | None
    loop: bool
    topics: tuple[str, ...]
    exclude: tuple[str, ...]
    remap: tuple[str, ...]
    clock: str
    reliable: bool
    without: tuple[str, ...]
    live: tuple[str, ...]
    wait_for: tuple[str, ...]
    scenario: str | None
    record: Path | None
    domain: int | None


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    """Put a value aside: the command that has these options does not see them one by one."""
    assert param.name is not None
    ctx.meta.setdefault(_KEY, {})[param.name] = value
    return value


def _names(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> Any:
    """Names, given in several options or with commas."""
    names = tuple(name.strip() for value in values for name in value.split(",") if name.strip())
    return _keep(ctx, param, names)


def publish_options(command: F) -> F:
    """``--publish`` and what belongs to it; :func:`publishing` says what was asked for."""
    several: dict[str, Any] = {"multiple": True, "callback": _names, "expose_value": False}
    one: dict[str, Any] = {"callback": _keep, "expose_value": False}
    for option in reversed(
        (
            click.option(
                "--publish",
                is_flag=True,
                help="Play the bag on DDS instead; the options below are for that.",
                **one,
            ),
            click.option(
                "--rate",
                type=click.FloatRange(0.0, 1000.0),
                default=1.0,
                show_default=True,
                help="Bag time over wall time; 0 is as fast as the listeners go.",
                **one,
            ),
            click.option("--paused", is_flag=True, help="Begin paused.", **one),
            click.option(
                "--start",
                "start_s",
                type=click.FloatRange(min=0.0),
                default=0.0,
                help="Begin so long after the bag's first message, s.",
                **one,
            ),
            click.option(
                "--duration",
                "duration_s",
                type=click.FloatRange(min=0.0, min_open=True),
                help="Play so much of the bag, s.",
                **one,
            ),
            click.option("--loop", is_flag=True, help="Begin again at the end.", **one),
            click.option(
                "--topics",
                metavar="PATTERNS",
                help="Play these alone (commas, * and ?).",
                **several,
            ),
            click.option("--exclude", metavar="PATTERNS", help="Leave these out.", **several),
            click.option(
                "--remap",
                metavar="A:=B",
                help="Play topic or namespace A as B (may be repeated).",
                **several,
            ),
            click.option(
                "--clock",
                type=click.Choice(["auto", "log", "none"]),
                default="auto",
                show_default=True,
                help="/clock: the bag's own or else from the log times; always from them; none.",
                **one,
            ),
            click.option(
                "--reliable",
                is_flag=True,
                help="Offer every topic reliable, whatever was recorded.",
                **one,
            ),
            click.option(
                "--without",
                metavar="NODES",
                help="Leave out what these nodes publish: you run them yourself.",
                **several,
            ),
            click.option(
                "--live",
                metavar="NODES",
                help="Start these nodes of ours (estimator, autopilot, mixer) in their place.",
                **several,
            ),
            click.option(
                "--wait-for",
                metavar="NODES",
                help="Begin when these nodes are there; at --rate 0 go in step with them.",
                **several,
            ),
            click.option(
                "--scenario",
                help="Of live autopilots and mixers.  [default: as the bag says]",
                **one,
            ),
            click.option(
                "--record",
                type=click.Path(path_type=Path),
                help="Record what is heard into this new folder.",
                **one,
            ),
            click.option("--domain", type=int, help="DDS domain, 0 to 232.", **one),
        )
    ):
        command = option(command)
    return command


def publishing(ctx: click.Context) -> Publishing | None:
    """What was asked for; None without ``--publish``.

    Raises:
        InputError: an option of ``--publish`` is given without it.
    """
    values = dict(ctx.meta[_KEY])
    if values.pop("publish"):
        return Publishing(**values)
    for field in fields(Publishing):
        source = ctx.get_parameter_source(field.name)
        if source not in (None, click.core.ParameterSource.DEFAULT):
            name = field.name.removesuffix("_s").replace("_", "-")
            raise InputError(f"--{name}: only with --publish")
    return None


def publish(
    bag: Path,
    asked: Publishing,
    *,
    namespace: str = "/quad",
    driver: str | None = None,
    config: str | None = None,
    changes: tuple[str, ...] = (),
    datum: Datum | None = None,
    settle_s: float = 5.0,
    output: Path | None = None,
    as_json: bool = False,
) -> int:
    """Play a bag on DDS until it ends or somebody presses Ctrl-C.

    Args:
        bag: what to play.
        asked: how.
        namespace: the vehicle in the bag, for live nodes.
        driver: who published the bag, if not quadsim.
        config: parameters of a live estimator; None: as flown, where the bag says so.
        changes: of those.
        datum: for a live estimator, where the bag has none.
        settle_s: time from the start that is not scored, s.
        output: write the JSON here too.
        as_json: print one JSON object on stdout.

    Returns:
        Exit status: 0 all was played, 1 a live node died or the record is not complete, 130
        interrupted.

    Raises:
        InputError: what is asked for cannot be done; one line.
    """
    if asked.record is not None and asked.record.exists():
        raise InputError(f"{asked.record}: exists already; name a new folder with --record")
    ready_for_ros()
    from quadsim.base.whole_files import write_whole
    from quadsim.cli.show import show_summary
    from quadsim.ros.graph.replay_graph import ReplayOptions, describe_replay
    from quadsim.ros.runtime.domain import chosen_domain, held
    from quadsim.ros.runtime.processes import prepare

    domain = chosen_domain(asked.domain)
    with held(domain), ExitStack() as stack:
        recorded = asked.record
        if recorded is None and "estimator" in asked.live:
            scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="quadsim-replay-"))
            recorded = Path(scratch) / "bag"
        options = ReplayOptions(
            rate=asked.rate,
            paused=asked.paused,
            start_s=asked.start_s,
            duration_s=asked.duration_s or 0.0,
            loop=asked.loop,
            topics=asked.topics,
            exclude=asked.exclude,
            remap=asked.remap,
            clock=asked.clock,
            reliable=asked.reliable,
            without=asked.without,
            live=asked.live,
            wait_for=asked.wait_for,
            scenario=asked.scenario,
            namespace=namespace,
            driver=driver,
            config=config,
            changes=changes,
            datum=datum,
            record=None if recorded is None else str(recorded.absolute()),
        )
        specs = describe_replay(bag, options)
        if len(specs) > 1:
            with loading("starting the nodes"):
                prepare()
        status, played = _play(bag, specs, domain)
        if not played:
            return status
        say(_words(played))
        if status == INTERRUPTED:
            return status
        summary: dict[str, Any] = {"notes": [], "estimators": {}, "errors": []}
        if recorded is not None and recorded.is_dir():
            summary |= _score(recorded, options.renamed(namespace), settle_s)
    errors = [*summary["errors"], *played.pop("errors")]
    summary |= played | {"passed": status == PASSED, "record": asked.record, "errors": errors}
    if output is not None:
        write_whole(output, to_json(summary) + "\n")
    if as_json:
        print_json(summary)
    elif summary["estimators"]:
        show_summary(summary, as_json=False)
    return status


def _at_a_terminal() -> bool:
    """Whether this process may take the terminal's keys."""
    return sys.stdin.isatty() and os.getpgrp() == os.tcgetpgrp(sys.stdin.fileno())


def _play(bag: Path, specs: list[NodeSpec], domain: int) -> tuple[int, dict[str, Any]]:
    """Run the player in this process and the other nodes beside it; exit status and figures."""
    from quadsim.ros.graph.child_processes import beside
    from quadsim.ros.nodes.keys import Keyboard
    from quadsim.ros.runtime.processes import maker
    from quadsim.ros.runtime.runtime import run

    players: list[PlayerNode] = []
    stop = threading.Event()
    with ExitStack() as stack:
        keyboard = Keyboard() if _at_a_terminal() else None
        if keyboard is not None:
            stack.callback(keyboard.close)
        shown: list[FlightProgress] = []

        def tell(played_s: float, words: str) -> None:
            if not shown:  # what it took to start does not count
                shown.append(stack.enter_context(FlightProgress(bag.name, None)))
            shown[0].update(played_s, None, words)

        def make(context: Context) -> PlayerNode:
            node: PlayerNode = maker(specs[0])(
                context=context, stop=stop, keyboard=keyboard, progress=tell
            )
            players.append(node)
            return node

        watched = stack.enter_context(beside(specs[1:], domain, stop))
        status = run([make], domain=domain, stop=stop)
    if watched.failure:
        say(watched.failure)
        status = FAILED
    if not players:
        return status, {}
    (player,) = players
    if status == PASSED and not player.finished:
        say("interrupted")
        status = INTERRUPTED
    late = player.control.lateness
    return status, {
        "bag": bag,
        "finished": player.finished,
        "errors": [watched.failure] if watched.failure else [],
        "duration_s": player.played_s,
        "wall_s": player.wall_s,
        "rate": player.control.rate,
        "messages": sum(player.outputs.counts.values()),
        "topics": {name: {"count": n} for name, n in sorted(player.outputs.counts.items())},
        "skipped": player.outputs.skipped,
        "late_ms": {"median": late.quantile_ms(0.5), "p99": late.quantile_ms(0.99)},
    }


def _score(recorded: Path, namespace: str, settle_s: float) -> dict[str, Any]:
    """Summary of the recorded bag: how good the live estimator was."""
    from quadsim.analysis.summary import summarize
    from quadsim.bag.log import read_log
    from quadsim.bag.reading import open_bag

    with working("reading the recorded bag"), open_bag(recorded) as opened:
        return summarize(read_log(opened, namespace), settle_s=settle_s)


def _words(summary: dict[str, Any]) -> str:
    """How it was played, in a line."""
    words = (
        f"{summary['bag']}: played {summary['messages']} messages, {summary['duration_s']:.1f} s"
    )
    words += f" in {summary['wall_s']:.1f} s"
    late = summary["late_ms"]
    if late["median"] is not None:
        words += f"; late by {late['median']:.2f} ms (median), {late['p99']:.2f} ms (99 %)"
    return words
