"""``quadsim node``: one node of the graph, where no ``ros2 run`` is at hand."""

from __future__ import annotations

import sys

import click

from quadsim.base.errors import InputError, did_you_mean


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("name")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[--ros-args ...]")
def node(name: str, arguments: tuple[str, ...]) -> None:
    """Run the node NAME, as `ros2 run quadsim NAME` does."""
    from pkgutil import iter_modules

    from quadsim.ros import executables, nodes

    names = sorted(module.name for module in iter_modules(nodes.__path__))
    if name not in names:
        raise InputError(
            f"unknown node {name!r}{did_you_mean(name, names)}; known: {', '.join(names)}"
        )
    sys.argv = [name, *arguments]
    getattr(executables, name)()
