"""Prints the digest of each flight named: what a test runs as another processor would."""

from __future__ import annotations

import json
import sys

from quadsim.sim.scenario import load_scenario
from quadsim.sim.swarm import run_all


def main() -> None:
    """Fly the scenarios of the arguments; a JSON object of their digests."""
    print(json.dumps({name: run_all(load_scenario(name))[1] for name in sys.argv[1:]}))


if __name__ == "__main__":
    main()
