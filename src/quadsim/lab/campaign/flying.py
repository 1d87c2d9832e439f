"""Flying a campaign: a run by whichever process it comes to, and the runs that are left."""

from __future__ import annotations

import faulthandler
import math
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from quadsim.analysis.summary import Summary, outcome_all, value_at
from quadsim.base.errors import FlightError, InputError
from quadsim.base.files import share_dir
from quadsim.base.surroundings import versions
from quadsim.lab.campaign.batch import Pool, stream_results
from quadsim.lab.campaign.factors import FIGURES, OF_LIMIT
from quadsim.lab.campaign.plan import Campaign, CampaignRun
from quadsim.lab.campaign.record import CampaignRecord, write_tables
from quadsim.sim.closed_loop import ClosedLoop, vehicle_names
from quadsim.sim.library import Library, OtherFileError
from quadsim.sim.swarm import run_all

#: How a run ended: it flew and met its criteria, flew and missed some, or gave no flight.
PASSED, FAILED, BROKEN = STATES = ("passed", "failed", "broken")

#: Packages on whose versions a digest depends.
_DECISIVE = ("quadsim", "python", "numpy", "scipy", "numba")

#: After its limit a run that does not look at the clock has so much longer, s.
GRACE_S = 10.0

Row = dict[str, Any]


def decisive_versions() -> dict[str, str]:
    """Versions on which a digest depends."""
    found = versions()
    return {name: found[name] for name in _DECISIVE if name in found}


@dataclass(frozen=True)
class Terms:
    """What holds for all runs of a campaign.

    Attributes:
        limit_s: longest time that a run may take.
        files: SHA-256 of the files that it stands on, by their shared names.
        own_process: whether a run has its process for itself, which may then be ended.
    """

    limit_s: float
    files: tuple[tuple[str, str], ...]
    versions: tuple[tuple[str, str], ...]
    own_process: bool


@lru_cache(maxsize=1)
def _library(terms: Terms) -> Library:
    """The files that this process has read, for the campaign that it flew last.

    The first run of a process sees to it that the versions are the same.
    """
    here = decisive_versions()
    for name, version in terms.versions:
        if here.get(name) != version:
            raise OtherFileError(
                f"{socket.gethostname()}: {name} {here.get(name)} flies there, {version} here;"
                " a digest depends on it: install the same"
            )
    return Library(dict(terms.files))


@contextmanager
def _limited(terms: Terms) -> Iterator[None]:
    """End this process if a block hangs where it cannot look at the clock."""
    if not terms.own_process or threading.current_thread() is not threading.main_thread():
        yield
        return
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        faulthandler.dump_traceback_later(terms.limit_s + GRACE_S, exit=True, file=nowhere)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()


def fly_run(terms: Terms, run: CampaignRun) -> Row:
    """Fly a run and give its row; whatever goes wrong in it is its reason.

    Raises:
        OtherFileError: here are other files or versions than the campaign stands on.
    """
    begin_s = time.perf_counter()
    try:
        with _limited(terms):
            row = _flown(terms, run, begin_s)
    except OtherFileError:
        raise
    except Exception as error:  # a campaign goes on, and the row states what to look at
        known = isinstance(error, InputError | FlightError)
        row = broken(str(error) if known else f"{type(error).__name__}: {error}")
    row["wall_s"] = time.perf_counter() - begin_s
    row["process"] = f"{socket.gethostname()}:{os.getpid()}"
    return row


def _flown(terms: Terms, run: CampaignRun, begin_s: float) -> Row:
    """Row of a run that came to its end."""

    def look(flown_s: float, height_m: float, state: str) -> None:
        if time.perf_counter() - begin_s > terms.limit_s:
            raise FlightError(f"took longer than {terms.limit_s:g} s")

    scenario = run.load(_library(terms))
    logs, digest = run_all(scenario, look)
    flown = dict(zip(vehicle_names(len(logs)), logs, strict=True))
    return row_of(outcome_all(flown, scenario.criteria), digest)


def row_of(summary: Summary, digest: str) -> Row:
    """What a table keeps of a summary."""
    criteria = _by_name(summary)
    missed = [name for name, item in criteria.items() if not item["passed"]]
    words = [_missed_words(name, criteria[name]) for name in missed]
    return {
        "status": PASSED if summary["passed"] else FAILED,
        "missed": "; ".join(missed + (["no error"] if summary["errors"] else [])),
        "reason": "; ".join([*words, *summary["errors"]]),
        "figures": {name: value_at(summary, name) for name in FIGURES},
        "criteria": {name: _finite(item["value"]) for name, item in criteria.items()},
        OF_LIMIT: _of_limit(criteria),
        "digest": digest,
    }


def broken(reason: str) -> Row:
    """Row of a run that gave no flight; its reason is the same wherever quadsim is installed."""
    return {"status": BROKEN, "reason": " ".join(reason.split()).replace(f"{share_dir()}/", "")}


def _by_name(summary: Summary) -> dict[str, Mapping[str, Any]]:
    """Criteria by names that are unique: the second of a name is ``name 2``."""
    found: dict[str, Mapping[str, Any]] = {}
    for item in summary["criteria"]:
        names = (item["name"], *(f"{item['name']} {k}" for k in range(2, 3 + len(found))))
        found[next(name for name in names if name not in found)] = item
    return found


def _missed_words(name: str, item: Mapping[str, Any]) -> str:
    value, limit = item["value"], item["limit"]
    if value is None or limit is None:
        return f"{name} missed"
    if value > limit:
        return f"{name} {value:.4g} > {limit:g}"
    return f"{name} missed: {value:.4g}"


def _of_limit(criteria: Mapping[str, Mapping[str, Any]]) -> float | None:
    """The largest finite share; of what is not finite the criterion's own column tells."""
    bounded = [item for item in criteria.values() if not (item.get("least") or "event" in item)]
    shares = [i["value"] / i["limit"] for i in bounded if i["value"] is not None and i["limit"]]
    return max((float(share) for share in shares if math.isfinite(share)), default=None)


def _finite(value: Any) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None


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
