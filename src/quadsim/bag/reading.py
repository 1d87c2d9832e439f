"""Opening bags of rosbag2 (MCAP, SQLite; any ROS 2 distribution), of whatever driver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from quadsim.bag.contents import BLOCK, Bag
from quadsim.bag.driver_topics import DrivenBag
from quadsim.bag.folder import open_files
from quadsim.bag.storage import BagMessage, Batch
from quadsim.base.errors import InputError
from quadsim.drivers.driver import load_drivers

__all__ = ["BLOCK", "Bag", "BagMessage", "Batch", "open_bag"]


@contextmanager
def open_bag(path: Path | str, driver: str | None = None) -> Iterator[Bag]:
    """Open a rosbag2 folder, or a single ``.mcap`` or ``.db3`` file, compressed or not.

    A cut MCAP is repaired first: in its place, or, where that cannot be written, in a scratch
    folder. Compressed files are unpacked onto the disk. ``Bag.notes`` then says so.

    Args:
        path: what to open.
        driver: who published it, if not quadsim: a name of ``config/drivers``, a file, or several
            with commas between. The bag then shows our topics, types and frames.

    Raises:
        InputError: missing, not a bag, empty, or damaged beyond reading; one line with the remedy.
    """
    path = Path(path)
    with ExitStack() as stack:
        drivers = load_drivers(driver) if driver is not None else ()
        opened = open_files(path, stack)
        bag = DrivenBag(path, opened, drivers) if drivers else Bag(path, opened)
        if not sum(bag.counts.values()):
            raise InputError(f"{path}: the bag is empty; record again")
        yield bag
