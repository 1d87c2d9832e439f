"""``quadsim bench``: its code is in ``benchmarks/`` of a checkout, and not installed."""

from __future__ import annotations

import sys
from importlib import import_module

import click

from quadsim.base.errors import InputError
from quadsim.base.files import share_dir


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def only_in_a_checkout(arguments: tuple[str, ...]) -> None:
    """Measure how fast everything is; this needs a checkout of quadsim."""
    raise InputError("quadsim bench needs a checkout: its benchmarks are not installed")


def _command() -> click.Command:
    """The command of the checkout that runs, where there is one."""
    folder = share_dir() / "benchmarks"
    if not (folder / "quadsim_bench").is_dir():
        return only_in_a_checkout
    sys.path.append(str(folder))
    command: click.Command = import_module("quadsim_bench.command").bench
    return command


bench = _command()
