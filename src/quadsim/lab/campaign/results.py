"""The summary of a campaign: one JSON object, made of its table."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from quadsim.base.surroundings import machine, versions
from quadsim.lab.campaign.plan import Campaign
from quadsim.lab.campaign.statistics import (
    counted,
    dependences,
    distribution,
    metrics_of,
    success_of,
    worst,
)
from quadsim.lab.campaign.tables import Columns


def campaign_summary(campaign: Campaign, table: Columns, folder: Path) -> dict[str, Any]:
    """What a campaign shows.

    Args:
        campaign: what was flown.
        table: its runs, not necessarily all.
        folder: where it lies.
    """
    done, total = len(table["run"]), len(campaign)
    success = success_of(table)
    return {
        "campaign": campaign.name,
        "scenario": campaign.file.scenario,
        "runs": total,
        "left": total - done,
        "passed": done == total and success.rate >= campaign.file.pass_share,
        "pass_share": campaign.file.pass_share,
        "success": success.summary(),
        **counted(table),
        "flown_s": float(np.nansum(table["duration_s"])),
        "metrics": {name: distribution(table[name]) for name in metrics_of(table)},
        "dependences": [asdict(item) for item in dependences(table, campaign.factors)],
        "worst": [_named(campaign, table, row) for row in worst(table)],
        "folder": folder,
        "versions": versions(),
        "machine": machine(),
    }


def _named(campaign: Campaign, table: Columns, row: int) -> dict[str, Any]:
    """A run, and how to fly it again."""
    run = campaign.run(int(table["run"][row]))
    return {
        "run": run.number,
        "status": table["status"][row],
        "reason": table["reason"][row],
        "seed": run.seed,
        "values": dict(run.values),
        "digest": table["digest"][row],
        "again": again(campaign, run.number),
        "command": run.command(),
    }


def again(campaign: Campaign, number: int) -> str:
    """The command that flies one run of a campaign by itself."""
    name = campaign.name if campaign.is_shipped else str(campaign.path)
    return shlex.join(["quadsim", "campaign", name, "--run", str(number)])
