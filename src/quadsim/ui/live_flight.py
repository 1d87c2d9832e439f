"""A simulation that flies in a thread of its own, at a rate that may change while it flies."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from quadsim.api.flight import Flight
from quadsim.api.simulation import Simulation
from quadsim.base.errors import QuadsimError
from quadsim.sim.log import Event, FlightLog

R = TypeVar("R")

#: Wall time between two looks at the clock, s.
CHUNK_S = 0.02
#: Simulated time that is flown in one go without a limit on the rate, s.
UNLIMITED_CHUNK_S = 0.2
#: Wall time that a flight which is late does not catch up on, s.
LATE_S = 0.5
#: Wall time after which a chunk counts little in the real-time factor, s.
MEMORY_S = 2.0


class LiveFlight:
    """Flies a simulation until it ends, is ended, or breaks.

    Everything that touches the simulation goes through :meth:`call`, one caller at a time. A call
    waits for one chunk of the flight at most, a few milliseconds.

    Args:
        simulation: belongs to this flight from now on.
        rate: simulated seconds in a second; infinite: as fast as the machine goes.
        on_end: is told, by the flight's thread, when a flight has been scored.
        name: of the flight; empty: its scenario's.

    Attributes:
        flight: what was flown, with its scores; None until it has ended.
        error: why it broke; empty if it did not.
        real_time_factor: simulated seconds in a second of late.
    """

    def __init__(
        self,
        simulation: Simulation,
        rate: float = 1.0,
        on_end: Callable[[LiveFlight], None] = lambda _: None,
        name: str = "",
    ) -> None:
        self.name = name or simulation.scenario.name
        self.duration_s = simulation.scenario.file.duration_s
        self.scenario = simulation.scenario
        self.rate = rate
        self.flight: Flight | None = None
        self.error = ""
        self.real_time_factor = 0.0
        self._simulation = simulation
        self._on_end = on_end
        self._lock = threading.Lock()
        self._flies = threading.Event()
        self._flies.set()
        self._ends = False
        self._thread = threading.Thread(target=self._fly, name="flight", daemon=True)
        self._thread.start()

    @property
    def over(self) -> bool:
        """Whether nothing more comes."""
        return not self._thread.is_alive()

    @property
    def ended(self) -> bool:
        """Whether somebody ended it before its time."""
        return self._ends

    @property
    def paused(self) -> bool:
        """Whether it waits for :meth:`resume`."""
        return not self._flies.is_set() and not self.over

    def pause(self) -> None:
        """Let the simulated time stand still."""
        self._flies.clear()

    def resume(self) -> None:
        """Go on after :meth:`pause`."""
        self._flies.set()

    def end(self) -> None:
        """End the flight here and score it; returns when that is done."""
        self._ends = True
        self._flies.set()
        self._thread.join()

    def call(self, function: Callable[[Simulation], R]) -> R:
        """What a function gives of the simulation, between two chunks of the flight."""
        with self._lock:
            return function(self._simulation)

    def log(self, since_s: float = 0.0) -> FlightLog:
        """Tracks of the flight from a time on; of one that has ended, of the whole."""
        return self.call(lambda simulation: simulation.log(since_s))

    @property
    def events(self) -> list[Event]:
        """What has happened so far."""
        return self.call(lambda simulation: simulation.events)

    def _fly(self) -> None:
        try:
            while self._flies.wait() and not self._ends and not self._simulation.done:
                self._fly_at_a_rate()
            # to the end: the ticks in which the rotors come to rest, as `quadsim sim` flies them
            self.flight = self.call(Simulation.flight if self._ends else Simulation.run)
            self._on_end(self)
        except QuadsimError as error:
            self.error = str(error)
        except Exception as error:  # the page has to say it: nobody reads the terminal
            self.error = f"{type(error).__name__}: {error}"
            raise

    def _fly_at_a_rate(self) -> None:
        """Until it pauses or ends."""
        begin_s = due_s = time.perf_counter()
        flown_sum_s = wall_sum_s = 0.0
        while self._flies.is_set() and not self._ends and not self._simulation.done:
            rate = self.rate
            limited = math.isfinite(rate)
            chunk_s = CHUNK_S * max(rate, 1.0) if limited else UNLIMITED_CHUNK_S
            before_s = self._simulation.time_s
            count = max(1, round(chunk_s / self._simulation.control_period_s))
            self.call(partial(Simulation.step, count=count))
            flown_s = self._simulation.time_s - before_s
            now_s = time.perf_counter()
            due_s = max(due_s + flown_s / rate, now_s - LATE_S) if limited else now_s
            # others get their turn even where there is no time to wait
            time.sleep(max(due_s - now_s, 0.0005))
            end_s = time.perf_counter()
            stored = math.exp((begin_s - end_s) / MEMORY_S)
            flown_sum_s = stored * flown_sum_s + flown_s
            wall_sum_s = stored * wall_sum_s + end_s - begin_s
            self.real_time_factor = flown_sum_s / wall_sum_s
            begin_s = end_s
