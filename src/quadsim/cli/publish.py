"""``quadsim replay BAG --publish``: the bag on DDS, with live nodes if asked for."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quadsim.base.errors import InputError
from quadsim.base.options import option
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
from quadsim.cli.options import Domain
from quadsim.ros.graph.options import ReplayOptions

if TYPE_CHECKING:
    from rclpy.context import Context

    from quadsim.ros.graph.graph import NodeSpec
    from quadsim.ros.nodes.player import PlayerNode


@dataclass(frozen=True)
class PublishOptions:
    """Options of ``quadsim replay --publish``."""

    publish: bool = option(False, "play the bag on DDS instead; the options below are for that")
    replay: ReplayOptions = field(default_factory=ReplayOptions)
    record: Path | None = option(None, "record what is heard into this new folder")
    domain: Domain = None


def publish(
    bag: Path, asked: PublishOptions, settle_s: float, output: Path | None, as_json: bool
) -> int:
    """Play a bag on DDS until it ends or somebody presses Ctrl-C.

    Args:
        bag: what to play.
        asked: how.
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
    from quadsim.ros.graph.replay_graph import describe_replay, played_name
    from quadsim.ros.runtime.domain import chosen_domain, held
    from quadsim.ros.runtime.processes import prepare

    domain = chosen_domain(asked.domain)
    with held(domain), ExitStack() as stack:
        recorded = asked.record
        if recorded is None and "estimator" in asked.replay.live:
            scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="quadsim-replay-"))
            recorded = Path(scratch) / "bag"
        folder = None if recorded is None else str(recorded.absolute())
        options = replace(asked.replay, bag=folder)
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
            summary |= _score(recorded, played_name(options, options.namespace), settle_s)
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
    """Run the player in this process and the other nodes in theirs; exit status and figures."""
    from quadsim.ros.graph.child_processes import child_nodes
    from quadsim.ros.nodes.keys import Keyboard
    from quadsim.ros.runtime.processes import maker
    from quadsim.ros.runtime.runtime import run

    players: list[PlayerNode] = []
    stop = threading.Event()
    with ExitStack() as stack:
        keyboard = Keyboard() if _at_a_terminal() else None
        if keyboard is not None:
            stack.callback(keyboard.close)
        progress = stack.enter_context(FlightProgress(bag.name, None))

        def tell(played_s: float, words: str) -> None:
            progress.update(played_s, None, words)

        def make(context: Context) -> PlayerNode:
            node: PlayerNode = maker(specs[0])(
                context=context, stop=stop, keyboard=keyboard, progress=tell
            )
            players.append(node)
            return node

        failures = stack.enter_context(child_nodes(specs[1:], domain, stop))
        status = run([make], domain=domain, stop=stop)
    for failure in failures:
        say(failure)
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
        "errors": failures,
        "duration_s": player.played_s,
        "wall_s": player.wall_s,
        "rate": player.control.rate,
        "messages": sum(player.outputs.counts.values()),
        "topics": {name: {"count": n} for name, n in sorted(player.outputs.counts.items())},
        "skipped": player.outputs.skipped,
        "late_ms": {"median": late.percentile_ms(50.0), "p99": late.percentile_ms(99.0)},
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
    if summary["late_ms"]["median"] >= 0.0:  # NaN: nothing was waited for
        median, most = summary["late_ms"].values()
        words += f"; late by {median:.2f} ms (median), {most:.2f} ms (99 %)"
    return words
