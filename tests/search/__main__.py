"""Searches for flights whose estimate is wrong without saying so: ``python tests/search``.

Prints rates of each class with their interval, every finding, and the smallest scenario that each
kind of finding shrinks to; with ``--output`` these are files for ``quadsim sim --scenario``.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import yaml
from finding_shrinking import shrink
from flight_findings import Findings, fly
from scenario_drawing import CLASSES, Content, draw_scenario

from quadsim.lab.campaign.batch import Processes, stream_results

#: Of the interval of a rate: 95 %.
NORMAL = 1.96
#: Kinds in the order of their weight: a flight is shrunk by its gravest.
GRAVEST = ("not finite", "crash", "material", "timeout", "failsafe", "wrong")


@dataclass(frozen=True)
class Flight:
    """A drawn flight and what it showed."""

    kind: str
    seed: int
    number: int
    content: Content
    findings: Findings

    @property
    def gravest(self) -> str:
        """Name of its gravest finding; empty without one."""
        return next((k for word in GRAVEST for k in self.findings.kinds if k.startswith(word)), "")


def fly_drawn(job: tuple[str, int, int]) -> Flight:
    """Draw a flight and fly it."""
    content = draw_scenario(*job)
    return Flight(*job, content, fly(content))


def shrink_flight(flight: Flight) -> Content:
    """The smallest scenario that shows a flight's gravest finding."""
    return shrink(flight.content, flight.gravest)


def rate(found: int, count: int) -> str:
    """A share with its interval (Wilson 1927)."""
    share, square = found / count, NORMAL * NORMAL / count
    middle = (share + square / 2) / (1 + square)
    half = NORMAL / (1 + square) * math.sqrt(share * (1 - share) / count + square / 4 / count)
    low, high = max(middle - half, 0.0), middle + half
    return f"{found} of {count}, {100 * share:.1f} % ({100 * low:.1f} to {100 * high:.1f} %)"


def print_rates(flights: list[Flight]) -> None:
    """Print how often each kind of finding came."""
    count, flew = len(flights), sum(f.findings.flew for f in flights)
    print(f"{flights[0].kind}: {count} flights, {flew} took off")

    def told(words: str, found: Iterable[bool]) -> None:
        print(f"  {words:24s} {rate(sum(found), count)}")

    for word in ("material", "wrong", "crash", "failsafe", "timeout", "not finite"):
        told(word, (any(k.startswith(word) for k in f.findings.kinds) for f in flights))
    ended = [f for f in flights if {"crash", "failsafe"} & set(f.findings.kinds)]
    told("of them without a cause", (not f.findings.cause for f in ended))
    for kind in sorted({k for f in flights for k in f.findings.kinds if " " in k}):
        told(f"  {kind}", (kind in f.findings.kinds for f in flights))


def _title(flight: Flight) -> str:
    found = "; ".join(f"{name}: {words}" for name, words in flight.findings.kinds.items())
    return f"{flight.kind} {flight.seed}/{flight.number}: {found}"


def main() -> None:
    """Draw, fly, print, shrink."""
    parser = argparse.ArgumentParser(prog="tests/search", description=__doc__)
    parser.add_argument("--flights", type=int, default=1000, help="of each class")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first flight")
    parser.add_argument("--class", dest="kinds", action="append", choices=CLASSES)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--shrink", type=int, default=3, help="of each kind of finding; 0: none")
    parser.add_argument("--output", type=Path, help="folder for the shrunk scenarios")
    args = parser.parse_args()
    with Processes(args.processes) as pool:
        for kind in args.kinds or CLASSES:
            numbers = range(args.first, args.first + args.flights)
            jobs = [(kind, args.seed, number) for number in numbers]
            with closing(stream_results(fly_drawn, jobs, pool)) as results:
                flights = sorted((flight for _, flight in results), key=lambda f: f.number)
            print_rates(flights)
            found = [flight for flight in flights if flight.gravest]
            for flight in found:
                cause = f"; cause: {flight.findings.cause}" if flight.findings.cause else ""
                print(f"  {_title(flight)}{cause}")
            names = [flight.gravest for flight in found]
            few = [f for i, f in enumerate(found) if names[:i].count(f.gravest) < args.shrink]
            with closing(stream_results(shrink_flight, few, pool)) as results:
                for i, content in results:
                    _write(few[i], content, args.output)


def _write(flight: Flight, content: Content, folder: Path | None) -> None:
    """Print a shrunk scenario, and write it where a folder is given."""
    content = {"description": f"{flight.gravest}; shrunk from {_title(flight)}"} | content
    text = yaml.safe_dump(content, sort_keys=False, default_flow_style=None, width=100)
    print(f"--- {flight.gravest}\n{text}", flush=True)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{flight.kind}_{flight.gravest.replace(' ', '_')}_{flight.seed}_{flight.number}"
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
