"""Searches for flights whose estimate is wrong without saying so: ``python tests/search``.

Prints every finding, rates of each class with their interval, and the smallest scenario that each
kind of finding shrinks to; with ``--output`` these are files for ``quadsim sim --scenario``.
"""

import argparse
import math
from contextlib import closing
from pathlib import Path

import yaml
from drawn_flights import Flight, fly_drawn, shrink_flight
from scenario_drawing import CLASSES

from quadsim.lab.campaign.batch import Processes, stream_results

#: Of the interval of a rate: 95 %.
NORMAL = 1.96


def rate(found: int, count: int) -> str:
    """A share with its interval (Wilson 1927)."""
    share, square = found / count, NORMAL * NORMAL / count
    middle = (share + square / 2) / (1 + square)
    half = NORMAL / (1 + square) * math.sqrt(share * (1 - share) / count + square / 4 / count)
    low, high = max(middle - half, 0.0), middle + half
    return f"{found} of {count}, {100 * share:.1f} % ({100 * low:.1f} to {100 * high:.1f} %)"


def print_rates(flights: list[Flight]) -> None:
    """Print how often each kind of finding came."""
    flew = sum(flight.findings.flew for flight in flights)
    print(f"{flights[0].kind}: {len(flights)} flights, {flew} took off")
    names = sorted({name for flight in flights for name in flight.findings.kinds if " " in name})
    for word in ("material", "wrong", "crash", "failsafe", "timeout", *names):
        print(f"  {word:18s} {rate(sum(f.has(word) for f in flights), len(flights))}")
    silent = [f for f in flights if f.has("crash") or f.has("failsafe")]
    print(f"  ended so without a cause: {sum(not f.findings.cause for f in silent)}", flush=True)


def main() -> None:
    """Draw, fly, print, shrink."""
    parser = argparse.ArgumentParser(prog="tests/search", description=__doc__)
    parser.add_argument("--flights", type=int, default=1000, help="of each class")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first flight")
    parser.add_argument("--class", dest="kinds", action="append", choices=CLASSES)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--shrink", type=int, default=2, help="of each kind of finding; 0: none")
    parser.add_argument("--output", type=Path, help="folder for the shrunk scenarios")
    args = parser.parse_args()
    with Processes(args.processes) as pool:
        for kind in args.kinds or CLASSES:
            jobs = [(kind, args.seed, args.first + i) for i in range(args.flights)]
            with closing(stream_results(fly_drawn, jobs, pool)) as results:
                flights = sorted((flight for _, flight in results), key=lambda f: f.number)
            print_rates(flights)
            names = [flight.gravest for flight in flights]
            few = [f for i, f in enumerate(flights) if names[:i].count(names[i]) < args.shrink]
            few = [flight for flight in few if flight.gravest]
            with closing(stream_results(shrink_flight, few, pool)) as results:
                for i, content in results:
                    text = yaml.safe_dump(content, sort_keys=False, default_flow_style=None)
                    print(f"--- {text}", flush=True)
                    if args.output is not None:
                        args.output.mkdir(parents=True, exist_ok=True)
                        name = f"{kind}_{few[i].gravest.replace(' ', '_')}_{few[i].number}.yaml"
                        (args.output / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
