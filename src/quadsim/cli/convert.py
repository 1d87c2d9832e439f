"""``quadsim convert``: a log of another format as a bag."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import click

from quadsim.base.options import argument, option
from quadsim.cli.common import PASSED, print_json, working
from quadsim.cli.options import ColumnMapName, Driver, FixUnits, Printed, command


@dataclass(frozen=True)
class ConvertOptions(Printed):
    """Options of ``quadsim convert``."""

    log: Path = argument()
    output: Path | None = option(
        None, "folder of the bag; it must not exist yet", path="folder", unset="LOG_bag"
    )
    columns: ColumnMapName = ""
    driver: Driver = None
    fix_units: FixUnits = False
    compression: str = option("none", "of the bag, chunk by chunk", choices=("none", "zstd"))


@command(ConvertOptions)
def convert(options: ConvertOptions) -> int:
    """Write LOG, of any format that is read, as a rosbag2 folder of our topics.

    Formats are recognised by their content: docs/logs.md lists them. Exit status: 0, or 2 for a
    log that cannot be read or an output that exists.
    """
    from quadsim.bag.confusions import MendedBag, confusions_of, mend_words
    from quadsim.bag.reading import Bag, open_bag
    from quadsim.bag.topics import namespaces
    from quadsim.bag.unread import unread_notes
    from quadsim.bag.writer import BagWriter, Storage

    target = options.output or Path(f"{options.log.resolve().name}_bag")
    with open_bag(options.log, options.driver, options.columns) as opened:
        confused = [each for name in namespaces(opened) for each in confusions_of(opened, name)]
        opened.notes.extend([*unread_notes(opened), *mend_words(confused, options.fix_units)])
        if options.fix_units:
            opened = cast(Bag, MendedBag(opened, confused))
        with (
            working(f"reading {options.log}"),
            BagWriter(
                target, opened.custom, storage=Storage(compression=options.compression)
            ) as bag,
        ):
            for name, type_name in opened.types.items():
                bag.add_topic(name, type_name, opened.qos[name])
            for message in opened.messages(opened.types):
                bag.add(message.topic, message.type_name, None, message.log_ns, message.payload)
        result: dict[str, Any] = {
            "log": options.log,
            "bag": target,
            "topics": opened.counts,
            "duration_s": opened.duration_s,
            "notes": opened.notes,
            "unread": opened.unread,
        }
    if options.as_json:
        print_json(result)
    else:
        _show(result)
    return PASSED


def _show(result: dict[str, Any]) -> None:
    for name, count in result["topics"].items():
        click.echo(f"{count:8d}  {name}")
    for note in result["notes"]:
        click.echo(note)
    click.echo(f"bag: {result['bag']}")
