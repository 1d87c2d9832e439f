"""A campaign of a thousand flights of a minute, with all that a campaign does beside flying."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from quadsim_bench.figure import Measurement, Session, lines

#: Of config/campaigns; the short version flies the first of it.
CAMPAIGN, SHORT = "thousand", 40


def campaign(session: Session) -> dict[str, Any]:
    """Fly the campaign into a new folder on all cores; its tables are made too.

    The time is that from the first run handed over to the tables; the processes start in it.
    """
    import numpy as np

    from quadsim.lab.campaign.batch import Processes, cores
    from quadsim.lab.campaign.flying import fly_campaign, prepare_campaign
    from quadsim.lab.campaign.plan import load_campaign
    from quadsim.lab.campaign.record import TABLE, TIMES, read_table

    loaded = session.once("campaign", lambda: load_campaign(CAMPAIGN))
    if session.short:
        samples = replace(loaded.samples, count=SHORT)
        loaded = replace(loaded, samples=samples)
    contents = session.once("campaign contents", lambda: prepare_campaign(loaded))
    folder = Path(mkdtemp(prefix="campaign", dir=session.folder))
    begin_s = time.perf_counter()
    with Processes() as pool:
        flown = fly_campaign(loaded, contents, folder, pool)
        wall_s = time.perf_counter() - begin_s
    table, times = read_table(folder / TABLE), read_table(folder / TIMES)
    flown_s = float(np.nansum(table["duration_s"]))
    found: dict[str, Any] = {
        "campaign_flights_per_s": flown.flown / wall_s,
        "campaign_x_realtime_per_core": flown_s / wall_s / cores(),
        "flights": flown.flown,
        "broken": int(np.sum(table["status"] == "broken")),
        "flown_s": flown_s,
        "run_median_s": float(np.median(times["wall_s"])),
    }
    return found if session.short else found | {"campaign_1000_flights_s": wall_s}


FIGURES = """
campaign_1000_flights_s s <=120 1000 flights of 60 s, processes started, rows and tables written
campaign_flights_per_s 1/s more the same, or its first 40
campaign_x_realtime_per_core x more flown time over that of each core
"""

MEASUREMENTS = (Measurement("campaign", lines(FIGURES), campaign),)
