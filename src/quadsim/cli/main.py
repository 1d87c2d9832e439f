"""The command ``quadsim``: its subcommands are imported only when they are called."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import Any

import click

from quadsim._version import __version__
from quadsim.base.errors import InputError, QuadsimError
from quadsim.base.extras import EXTRAS, lacking
from quadsim.cli.common import BAD_INPUT, FAILED, INTERRUPTED, one_line, say, status_of

#: Whoever reads the output is gone, or its disk is full.
_NO_OUTPUT = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT)

#: Name and the line of the overview; each is a function of its name in a module of its name.
_LINES = {
    "fly": "Fly a scenario as a graph of ROS 2 nodes; record, report.",
    "sim": "Fly a scenario without ROS, as fast as the machine goes.",
    "firmware": "Fly a scenario by Betaflight, ArduPilot or PX4.",
    "convert": "Write a log of another format as a bag.",
    "replay": "Run estimators over a bag and score them.",
    "experiment": "Fly many times and say what the flights show together.",
    "campaign": "Fly many sampled scenarios, here or on a cluster; a table and a report of them.",
    "rehearse": "Rehearse a flight with real hardware among virtual obstacles, without it.",
    "tune": "Tune the gains of a vehicle; make an autopilot file.",
    "train": "Train a policy for a task; write it as ONNX, and fly it as its test.",
    "sensors": "Prove devices by measurement; make a device's file from a recording.",
    "identify": "Estimate a vehicle's figures from a bag; make a vehicle file.",
    "validate": "Judge a vehicle file by recorded flights: forces, predicted motions.",
    "view": "Look at a flight in 3-D: live, from a bag, or flown for it.",
    "new": "Write a part of your own: a controller, estimator, sensor, planner, wind, criterion.",
    "ui": "Fly, tune and compare on one page of a browser.",
    "node": "Run one node of the graph, as ros2 run does.",
    "vehicle": "Make vehicle files from those of Gazebo, PX4, RotorPy, Agilicious and others.",
    "model": "Write vehicles and worlds as files for Gazebo (SDF) and RViz (URDF).",
    "bench": "Measure how fast everything is on this machine.",
    "doctor": "Say what is installed and whether DDS works.",
    "selftest": "Try what works on this machine: fly, record, replay, ROS 2.",
}
#: Name: module and attribute of the click command, and the line of the overview.
COMMANDS = {name: (f"quadsim.cli.{name}", name, line) for name, line in _LINES.items()}


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def only_in_a_checkout(arguments: tuple[str, ...]) -> None:
    """Measure how fast everything is; this needs a checkout of quadsim."""
    raise InputError("quadsim bench needs a checkout: its benchmarks are not installed")


def bench_of_checkout() -> click.Command:
    """``quadsim bench``, whose code is in ``benchmarks/`` of a checkout, and not installed."""
    from quadsim.base.files import share_dir

    folder = share_dir() / "benchmarks"
    if not (folder / "quadsim_bench").is_dir():
        return only_in_a_checkout
    sys.path.append(str(folder))
    command: click.Command = import_module("quadsim_bench.command").bench
    return command


class Command(click.Group):
    """A group that loads subcommands when asked for and turns errors into one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one subcommand."""
        if cmd_name not in COMMANDS:
            return None
        if cmd_name == "bench":
            return bench_of_checkout()
        module, attribute, _ = COMMANDS[cmd_name]
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The overview, without importing any subcommand."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, _, line) in COMMANDS.items()])

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = "quadsim",
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run and exit: 0 passed, 1 failed, 2 bad usage or input, 130 on Ctrl-C."""
        run = partial(super().main, args, prog_name, complete_var, standalone_mode=False, **extra)
        if not standalone_mode:
            return run()
        try:
            status: object = run()
        except click.ClickException as error:
            ctx = getattr(error, "ctx", None)
            hint = f" (see {ctx.command_path} --help)" if ctx is not None else ""
            say(f"error: {one_line(error.format_message())}{hint}")
            sys.exit(BAD_INPUT)
        except (click.Abort, KeyboardInterrupt):
            say("interrupted")
            sys.exit(INTERRUPTED)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in EXTRAS:
                raise
            say(f"error: {lacking(str(error.name))}")
            sys.exit(BAD_INPUT)
        except QuadsimError as error:
            say(f"error: {one_line(error)}")
            sys.exit(status_of(error))
        except OSError as error:
            if error.errno not in _NO_OUTPUT:
                raise
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or Python writes again as it ends
            if error.errno != errno.EPIPE:
                say(f"error: the output cannot be written ({error.strerror})")
            sys.exit(FAILED)
        sys.exit(status if isinstance(status, int) else 0)


@click.group(
    cls=Command,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    invoke_without_command=True,
)
@click.version_option(__version__, prog_name="quadsim")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Fly quadrotors as a ROS 2 node graph, record them, read from the bag how good they are."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help(), err=True)
        ctx.exit(BAD_INPUT)


if __name__ == "__main__":
    main()
