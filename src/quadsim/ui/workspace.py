"""What the page shows: the flight under way, those that were flown or opened, and the gains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from quadsim.analysis.report.page import MAX_RUNS, render
from quadsim.api.flight import Flight, load, replay
from quadsim.base.errors import InputError
from quadsim.lab.campaign.batch import Processes, run_apart
from quadsim.sim.log import FlightLog
from quadsim.ui.choices import FlightSetup
from quadsim.ui.gain_bench import Flat, GainBench
from quadsim.ui.live_flight import LiveFlight
from quadsim.ui.models import Models, ModelStore

#: Flights that are stored; the oldest goes first.
MOST_RUNS = 20
#: A bag as it was recorded, in the list of estimators.
AS_RECORDED = "as recorded"


@dataclass
class Workspace:
    """Everything that outlives a reload of the page; one for all its tabs.

    Attributes:
        live: the flight under way, or the last one.
        runs: flights by number, each with its title.
        bench: where gains are tried out; None before somebody asked for it.
        gains: keys of the autopilot as the sliders stand.
    """

    setup: FlightSetup = field(default_factory=FlightSetup)
    rate: float = 1.0
    live: LiveFlight | None = None
    models: Models | None = None
    runs: dict[int, tuple[str, Flight]] = field(default_factory=dict)
    bench: GainBench | None = None
    gains: Flat = field(default_factory=dict)
    store: ModelStore = field(default_factory=ModelStore)
    _count: int = 0
    _others: Processes = field(default_factory=partial(Processes, 1))

    def warm_up(self) -> None:
        """Load the compiled kernels, so that the first flight starts at once."""
        FlightSetup("hover").simulation().step()

    def fly(self) -> None:
        """Fly the set-up; a flight under way ends. Takes a second, more where kernels are new.

        Raises:
            InputError: the set-up cannot be flown.
        """
        simulation, title = self.setup.simulation(), self.setup.title
        self.stop()
        log = simulation.log()
        points_W = np.vstack([log.waypoints, simulation.state.p_W])
        self.models = self.store.of_flight(simulation.scenario, points_W)
        self.live = LiveFlight(simulation, self.rate, self._keep, title)

    def stop(self) -> None:
        """End the flight under way, if there is one."""
        if self.live is not None and not self.live.over:
            self.live.end()

    def set_rate(self, rate: float) -> None:
        """Choose the simulated seconds in a second, of this flight and those to come."""
        self.rate = rate
        if self.live is not None:
            self.live.rate = rate

    def _keep(self, live: LiveFlight) -> None:
        assert live.flight is not None
        self.add(f"{live.name}, ended" if live.ended else live.name, live.flight)

    # ---- runs ----------------------------------------------------------------------------------

    def add(self, title: str, flight: Flight) -> int:
        """Keep a flight; its number."""
        self._count += 1
        self.runs[self._count] = (f"{self._count}: {title}", flight)
        while len(self.runs) > MOST_RUNS:
            del self.runs[next(iter(self.runs))]
        return self._count

    def open(self, path: str, namespace: str = "/quad", estimator: str = AS_RECORDED) -> int:
        """Open a run or a bag, as it was recorded or with an estimator run over it; its number.

        Raises:
            InputError: it cannot be read.
        """
        if not path.strip():
            raise InputError("type the path of a bag, or of a run's folder")
        place = Path(path.strip()).expanduser()
        if estimator == AS_RECORDED:
            return self.add(place.name, load(place, namespace))
        bag = place / "bag" if (place / "bag").is_dir() else place
        return self.add(f"{place.name}, {estimator}", replay(bag, [estimator], namespace=namespace))

    def chosen(self, numbers: Sequence[int]) -> dict[str, Flight]:
        """Flights by title.

        Raises:
            InputError: one is gone, or they are too many for one picture.
        """
        if not numbers or len(numbers) > MAX_RUNS:
            raise InputError(f"choose one to {MAX_RUNS} runs")
        if gone := [number for number in numbers if number not in self.runs]:
            raise InputError(f"run {gone[0]} is gone")
        return dict(self.runs[number] for number in numbers)

    def report(self, numbers: Sequence[int]) -> str:
        """The report of some flights, a page of HTML; made in another process.

        Raises:
            FlightError: that process died.
            InputError: as of :meth:`chosen`.
        """
        job = {
            title: (flight.log, flight.summary) for title, flight in self.chosen(numbers).items()
        }
        return run_apart(report_page, job, self._others)

    # ---- gains ---------------------------------------------------------------------------------

    def open_bench(self, vehicle: str, sensors: str, autopilot: str) -> GainBench:
        """The bench of a vehicle, with the gains of a file.

        Raises:
            InputError: a file is wrong.
        """
        self.bench = GainBench(vehicle, sensors, autopilot)
        self.gains = dict(self.bench.start)
        return self.bench


def report_page(flights: Mapping[str, tuple[FlightLog, dict[str, Any]]]) -> str:
    """The report of flights, each a log and a summary by its title, as a page of HTML."""
    return render(
        {title: log for title, (log, _) in flights.items()},
        {title: summary for title, (_, summary) in flights.items()},
    )
