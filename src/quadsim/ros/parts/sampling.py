"""Which truths a sensor needs that samples seldom: a message that nobody needs wakes nobody."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from quadsim.base.errors import InputError
from quadsim.ros.runtime.reset_times import QUIET_NS
from quadsim.sensors.error_terms import due


class Sampling:
    """When a sensor takes a sample, and when one is published after its latency.

    It gives the stamps at which :class:`quadsim.sensors.model.SimulatedSensor` does something, so a
    sensor that hears these alone gives what it gives with all of them. A delay that a fault adds
    ends with the next of them. After a reset, of which a sensor hears nobody knows when, and after
    which it begins with any truth, it gives all until everybody has heard of it.

    Args:
        kind: of the sensor.
        period_ns: between two samples.
        latency_ns: from a sample's stamp to its publication.
    """

    def __init__(self, kind: str, period_ns: int, latency_ns: int) -> None:
        self.kind = kind
        self._period_ns, self._latency_ns = period_ns, latency_ns
        self._first = True
        self._all_until_ns = -1
        self._arrivals: deque[int] = deque()

    def restart(self, reset_ns: int) -> None:
        """Begin after a reset at a time."""
        self._all_until_ns = reset_ns + QUIET_NS + self._latency_ns

    def needs(self, before_ns: int, now_ns: int) -> bool:
        """Whether the truth of this stamp is needed, the one before it being of ``before_ns``."""
        needed = self._first or now_ns <= self._all_until_ns
        self._first = False  # a sensor begins with any
        if due(self._period_ns, before_ns, now_ns):
            needed = True
            if self._latency_ns:
                self._arrivals.append(now_ns + self._latency_ns)
        while self._arrivals and self._arrivals[0] <= now_ns:
            self._arrivals.popleft()
            needed = True
        return needed


def sampling_text(kind: str, rate_hz: float, latency_s: float) -> str:
    """A sensor, as :func:`samplings_from` reads it: kind, period and latency in ns."""
    return f"{kind} {round(1e9 / rate_hz)} {round(latency_s * 1e9)}"


def samplings_from(texts: Sequence[str], where: str) -> list[Sampling]:
    """Sensors from their texts.

    Raises:
        InputError: with ``where`` before it.
    """
    found = []
    for text in texts:
        kind, *numbers = text.split(" ")
        if len(numbers) != 2 or not all(number.isdecimal() for number in numbers):
            raise InputError(f"{where}: {text!r}; allowed: KIND PERIOD_NS LATENCY_NS")
        period_ns, latency_ns = map(int, numbers)
        if not kind.isidentifier() or period_ns < 1:
            raise InputError(f"{where}: {text!r}; allowed: a name, at least 1 ns, and a latency")
        found.append(Sampling(kind, period_ns, latency_ns))
    return found
