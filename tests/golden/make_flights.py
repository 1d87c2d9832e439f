"""Fly the golden flights anew: ``.venv/bin/python tests/golden/make_flights.py``.

Only when what they hold has to change: their figures are then others too, and whoever reads the
change cannot tell a new flight from a new behaviour. See tests/golden/README.md.
"""

import os
import tempfile
from pathlib import Path

from quadsim.bag.flight import write_flight
from quadsim.bag.origin import run_facts
from quadsim.bag.profiles import Recording
from quadsim.bag.writer import BagWriter
from quadsim.sim.recorded import RecordedLoop
from quadsim.sim.scenario import load_scenario

ROOT = Path(__file__).parents[2]
HERE = Path("tests/golden")  # as the bags shall name it


def make(path: Path) -> Path:
    """Fly a scenario and keep its sensors and its truth as one small MCAP file."""
    scenario = load_scenario(str(path), sensors=str(HERE / "suite.yaml"))
    loop = RecordedLoop(scenario, "quad")
    loop.fly()
    recording = Recording(str(HERE / "recording.yaml"), compression="zstd")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / path.stem
        with BagWriter(folder, run_facts(scenario), storage=recording.storage()) as bag:
            write_flight(bag, [loop], recording)
        (made,) = folder.glob("*.mcap")
        target = HERE / "flights" / f"{path.stem}.mcap"
        target.write_bytes(made.read_bytes())
    return target


def main() -> None:
    """Make every flight."""
    os.chdir(ROOT)
    for path in sorted((HERE / "scenarios").glob("*.yaml")):
        made = make(path)
        print(f"{made.name}: {made.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
