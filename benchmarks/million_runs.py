"""What a campaign of a million runs costs on a cluster, from figures that are measured here.

``python benchmarks/million_runs.py`` prints one JSON object. Measured: processor time of a run,
start and memory of a worker; what the process that hands out the runs, Dask's scheduler and their
network spend on a run, with workers that only give a row back, and as many runs under way as
clusters of some sizes have; the tables. From these: hours, price and loads on these clusters.
The handing out is measured in a network namespace of its own, whose counters are the cluster's
alone: Linux, the command ip (iproute2), root or leave to make user namespaces, and
``quadsim[cluster]``. docs/scale.md says what came out.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import yaml
from hosts import become_a_switch, need, run

from quadsim.base.files import find
from quadsim.base.parameters import read_yaml
from quadsim.base.surroundings import installed_version, machine, versions
from quadsim.lab.campaign.batch import Cluster, stream_results
from quadsim.lab.campaign.flying import Row, Terms, decisive_versions, fly_run
from quadsim.lab.campaign.plan import Campaign, CampaignRun, load_campaign
from quadsim.lab.campaign.record import LINES, TABLE, CampaignRecord, write_tables
from quadsim.sim.library import Library

CAMPAIGN = "thousand"
FLIGHTS, WORKERS, PORT = 10, 2, 8786
CORES = (64, 256, 1000)
#: Runs that are handed out to measure it, by the runs in a task.
HANDED = {1: 3000, 50: 10_000}


def campaign_of(samples: int, folder: Path) -> Campaign:
    """The campaign with so many samples."""
    content = read_yaml(find("campaigns", CAMPAIGN)) | {"samples": samples}
    path = folder / f"{CAMPAIGN}.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return load_campaign(str(path))


def terms_of(campaign: Campaign) -> Terms:
    """What every run is told."""
    library = Library()
    campaign.probe(library)
    return Terms(
        campaign.file.limit_s,
        tuple(sorted(library.digests.items())),
        tuple(decisive_versions().items()),
        own_process=False,
    )


def worker() -> dict[str, Any]:
    """What a process of a worker costs: of this one, which has done nothing yet."""
    with tempfile.TemporaryDirectory() as folder:
        campaign = campaign_of(FLIGHTS + 1, Path(folder))
    terms = terms_of(campaign)
    rows = [fly_run(terms, campaign.run(0))]
    process = psutil.Process()
    ready = {
        "ready_s": time.time() - process.create_time(),
        "ready_cpu_s": time.process_time(),
        "ready_read_MB": 1e-6 * process.io_counters().read_chars,
    }
    flights = []
    for number in range(1, FLIGHTS + 1):
        used_s = time.process_time()
        rows.append(fly_run(terms, campaign.run(number)))
        flights.append(time.process_time() - used_s)
    if broken := [row["reason"] for row in rows if "digest" not in row]:
        raise SystemExit(f"million_runs: {broken[0]}")
    return {
        **ready,
        "flight_cpu_s": statistics.median(flights),
        "flown_s": statistics.median(row["figures"]["duration_s"] for row in rows),
        "memory_MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1.024e-3,
        "rows": rows,
    }


def in_a_process() -> dict[str, Any]:
    """A worker's figures, from a process that starts with nothing."""
    done = subprocess.run(
        [sys.executable, __file__, "--worker"], stdout=subprocess.PIPE, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def others(rows: list[Row], seed: int) -> Row:
    """A row whose numbers lie between those of the flights: no two are the same, as of a flight."""
    rng = np.random.default_rng(seed)
    first, second = (rows[k] for k in rng.integers(len(rows), size=2))
    share = rng.uniform()

    def between(one: Any, two: Any) -> Any:
        if isinstance(one, dict):
            return {key: between(value, two[key]) for key, value in one.items()}
        if isinstance(one, float) and isinstance(two, float):
            return one + share * (two - one)
        return one

    return {**between(first, second), "digest": rng.bytes(32).hex()}


def give_back(terms: Terms, rows: list[Row], runs: list[CampaignRun]) -> list[Row]:
    """What a worker does with the runs of a task, but for flying them."""
    return [rows[each.number % len(rows)] for each in runs]


class Wide:
    """A cluster's workers as if they were many, so that as many runs are under way."""

    def __init__(self, cluster: Cluster, width: int) -> None:
        self.death, self.all_die = cluster.death, cluster.all_die
        self.task_s = 0.0  # what is handed over here is a task
        self.executor, self.end = cluster.executor, cluster.end
        self._width = width

    def width(self) -> int:
        """How many runs are flown at once."""
        return self._width


@contextmanager
def dask() -> Iterator[tuple[psutil.Process, str]]:
    """A scheduler with some workers, each a process; the scheduler's process and address."""
    address = f"tcp://127.0.0.1:{PORT}"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with ExitStack() as stack:
        for words in (
            ["scheduler", "--host", "127.0.0.1", "--port", str(PORT), "--no-dashboard"],
            *[["worker", address, "--nthreads", "1", "--no-dashboard"]] * WORKERS,
        ):
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            process = subprocess.Popen([sys.executable, "-m", "dask", *words], cwd=folder, **quiet)
            stack.callback(process.wait)
            stack.callback(process.terminate)
            if words[0] == "scheduler":
                scheduler = psutil.Process(process.pid)
        yield scheduler, address


def on_the_wire() -> int:
    """Bytes that went over the loopback device of this namespace."""
    lines = Path("/proc/self/net/dev").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.strip().startswith("lo:")).split()[1])


def used_s(process: psutil.Process) -> float:
    """Processor time of another process."""
    times = process.cpu_times()
    return float(times.user + times.system)


def hand_out(
    cluster: Cluster, scheduler: psutil.Process, rows: list[Row], width: int, size: int
) -> dict[str, float]:
    """What it takes to hand out runs and to keep their rows, with so many runs in a task."""
    count = HANDED[size]
    with tempfile.TemporaryDirectory() as folder:
        campaign = campaign_of(count, Path(folder))
        work = partial(give_back, terms_of(campaign), rows)
        tasks = [range(k, min(k + size, count)) for k in range(0, count, size)]
        with CampaignRecord(Path(folder) / "record", {}, count, resume=False) as record:
            feeder_s, scheduler_s, wire = time.process_time(), used_s(scheduler), on_the_wire()
            jobs = ([campaign.run(number) for number in task] for task in tasks)
            with closing(stream_results(work, jobs, Wide(cluster, width))) as done:
                for place, found in done:
                    for number, row in zip(tasks[place], found, strict=True):
                        record.add(number, row)
            return {
                "width": width,
                "batch": size,
                "feeder_ms_a_run": 1e3 * (time.process_time() - feeder_s) / count,
                "scheduler_ms_a_run": 1e3 * (used_s(scheduler) - scheduler_s) / count,
                "bytes_a_run": (on_the_wire() - wire) / count,
            }


def handing(rows: list[Row]) -> list[dict[str, float]]:
    """:func:`hand_out` for each cluster, with one run in a task and with many."""
    found = []
    with dask() as (scheduler, address), Cluster(address, 60.0) as cluster:
        for width in CORES:
            for size in HANDED:
                found.append(hand_out(cluster, scheduler, rows, width, size))
                say(str(found[-1]))
    return found


def tables(rows: list[Row], count: int = 20_000) -> dict[str, float]:
    """Bytes and time of a row in the record and in the table of many."""
    with tempfile.TemporaryDirectory() as folder:
        campaign = campaign_of(count, Path(folder))
        with CampaignRecord(Path(folder) / "record", {}, count, resume=False) as record:
            for number in range(count):
                record.add(number, others(rows, number))
            begin_s = time.process_time()
            write_tables(campaign, record)
            return {
                "line_bytes": (record.folder / LINES).stat().st_size / count,
                "table_bytes": (record.folder / TABLE).stat().st_size / count,
                "table_us": 1e6 * (time.process_time() - begin_s) / count,
            }


def measure(repeat: int) -> dict[str, Any]:
    """Figures of a worker, of the handing out and of the tables; medians of some of each."""
    say("workers")
    workers = [in_a_process() for _ in range(repeat)]
    rows: list[Row] = workers[0].pop("rows")
    say("handing out")
    hands = [handing(rows) for _ in range(repeat)]
    say("tables")
    return {
        **_middle([{key: w[key] for key in workers[0]} for w in workers]),
        **tables(rows),
        "handing": [_middle(list(each)) for each in zip(*hands, strict=True)],
    }


def say(words: str) -> None:
    """Progress."""
    sys.stderr.write(f"million_runs: {words}\n")


def _middle(each: list[dict[str, float]]) -> dict[str, float]:
    return {key: statistics.median(one[key] for one in each) for key in each[0]}


@dataclass(frozen=True)
class Plan:
    """A campaign and its cluster.

    Attributes:
        runs: of the campaign.
        cores: of the cluster, a worker on each.
        batch: runs in a task.
        price: of a core for an hour, in any currency.
        speed: of its cores, in those of this machine.
    """

    runs: int
    cores: int
    batch: int
    price: float
    speed: float


def cost(plan: Plan, measured: Mapping[str, Any]) -> dict[str, float]:
    """Hours, price and loads of a campaign, of :func:`measure`'s figures.

    Workers, the process that hands out and the scheduler work at the same time, so the slowest of
    the three says how long it takes; all cores are paid for so long.
    """
    (hand,) = [
        each
        for each in measured["handing"]
        if (each["width"], each["batch"]) == (plan.cores, plan.batch)
    ]
    flying_s = measured["ready_s"] + plan.runs * measured["flight_cpu_s"] / plan.cores
    feeding_s = 1e-3 * plan.runs * hand["feeder_ms_a_run"]
    scheduling_s = 1e-3 * plan.runs * hand["scheduler_ms_a_run"]
    longest_s = max(flying_s, feeding_s, scheduling_s) / plan.speed
    return {
        "core_hours": plan.runs * measured["flight_cpu_s"] / plan.speed / 3600.0,
        "hours": longest_s / 3600.0,
        "price": longest_s / 3600.0 * plan.cores * plan.price,
        "feeder_share": feeding_s / plan.speed / longest_s,
        "scheduler_share": scheduling_s / plan.speed / longest_s,
        "runs_s": plan.runs / longest_s,
        "network_MB_s": 1e-6 * plan.runs / longest_s * hand["bytes_a_run"],
        "memory_GB": 1e-3 * plan.cores * measured["memory_MB"],
        "start_read_GB": 1e-3 * plan.cores * measured["ready_read_MB"],
        "record_GB": 1e-9 * plan.runs * measured["line_bytes"],
        "table_GB": 1e-9 * plan.runs * measured["table_bytes"],
        "table_minutes": 1e-6 * plan.runs * measured["table_us"] / plan.speed / 60.0,
    }


def main() -> None:
    """Measure and reckon."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--price", type=float, default=0.04, help="of a core for an hour")
    parser.add_argument("--speed", type=float, default=1.0,
                        help="of the cluster's cores, in those of this machine")  # fmt: skip
    parser.add_argument("--repeat", type=int, default=1, help="measurements; medians are given")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        json.dump(worker(), sys.stdout)
        return
    if installed_version("distributed") is None:
        raise SystemExit(
            "million_runs: Dask is missing; install it: pip install 'quadsim[cluster]'"
        )
    need("unshare", "ip")
    become_a_switch()
    run("ip", "link", "set", "lo", "up")
    measured = measure(args.repeat)
    plans = [
        Plan(args.runs, cores, size, args.price, args.speed) for cores in CORES for size in HANDED
    ]
    json.dump({
        "machine": machine(), "versions": versions(), "load": os.getloadavg()[0],
        "measured": measured,
        "campaign": [asdict(plan) | cost(plan, measured) for plan in plans],
    }, sys.stdout, indent=1)  # fmt: skip
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
