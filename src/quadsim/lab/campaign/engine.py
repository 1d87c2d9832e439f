"""Flying a campaign: the runs that are left, wherever they are flown, into its record."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from quadsim.lab.campaign.batch import Pool, stream_results
from quadsim.lab.campaign.flying import GRACE_S, Row, Terms, broken, decisive_versions, fly_run
from quadsim.lab.campaign.plan import Campaign, CampaignRun
from quadsim.lab.campaign.record import CampaignRecord
from quadsim.lab.campaign.tables import write_tables
from quadsim.sim.closed_loop import ClosedLoop
from quadsim.sim.library import Library

#: Called with how many runs are done, how many there are, and how the last one ended.
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class FlownCampaign:
    """What flying gave.

    Attributes:
        flown: runs that ended in this call.
        wall_s: how long it took, from the first run handed over to the last row.
        left: runs that have not been flown; none but for an interruption.
    """

    flown: int
    wall_s: float
    left: int


def prepare_campaign(campaign: Campaign) -> dict[str, Any]:
    """Read what the campaign stands on, compile its kernels if they are not, and say what it is.

    Returns:
        Everything that decides what is flown: its keys, SHA-256 of files, versions.

    Raises:
        InputError: as of :meth:`quadsim.lab.campaign.plan.Campaign.probe`.
    """
    library = Library()
    ClosedLoop(campaign.probe(library)).tick()  # or every process would compile
    return {
        **campaign.contents(),
        "files": dict(sorted(library.digests.items())),
        "versions": decisive_versions(),
    }


def _died(limit_s: float, run: CampaignRun) -> Row:
    """Row of a run whose process ended."""
    return broken(
        "its process died (out of memory, or a fault of compiled code) or hung for more than"
        f" {limit_s + GRACE_S:g} s"
    )


def fly_campaign(
    campaign: Campaign,
    contents: dict[str, Any],
    folder: Path,
    pool: Pool,
    resume: bool = False,
    progress: Progress = lambda done, total, status: None,
) -> FlownCampaign:
    """Fly the runs that are left, store each as it ends, and make the tables.

    Args:
        contents: as of :func:`prepare`.
        pool: where runs are flown.
        resume: go on with what the folder holds.

    Raises:
        InputError: as of :class:`CampaignRecord`; a worker has other files or versions.
        KeyboardInterrupt: Ctrl-C; the tables hold the runs that have ended.
    """
    limit_s, total = campaign.file.limit_s, len(campaign)
    terms = Terms(
        limit_s, tuple(contents["files"].items()), tuple(contents["versions"].items()), pool.all_die
    )
    with CampaignRecord(folder, contents, total, resume) as record:
        before = len(record)
        numbers: list[int] = []

        def runs() -> Any:
            for number in record.left():
                numbers.append(number)
                yield campaign.run(number)

        begin_s = time.perf_counter()
        try:
            with closing(
                stream_results(
                    partial(fly_run, terms), runs(), pool, partial(_died, limit_s), total - before
                )
            ) as flown:
                for place, row in flown:
                    record.add(numbers[place], row)
                    progress(len(record), total, row["status"])
        finally:
            wall_s = time.perf_counter() - begin_s
            write_tables(campaign, record)
        return FlownCampaign(len(record) - before, wall_s, total - len(record))
