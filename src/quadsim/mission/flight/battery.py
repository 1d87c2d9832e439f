"""What is left in the battery, how fast it goes, and what that is enough for."""

from __future__ import annotations

import math

from quadsim.control.parameters import FailsafeParams

#: Time constant of the consumption, s.
DRAIN_S = 10.0
#: What is counted on top of a way home.
SPARE = 1.3


class Battery:
    """Charge and consumption of one vehicle's battery.

    Args:
        limits: when it warns and when it is critical.

    Attributes:
        charge: 0 to 1; NaN as long as nobody has told.
        voltage_V: under load; NaN likewise.
        drain_per_s: low-passed consumption in flight.
    """

    def __init__(self, limits: FailsafeParams) -> None:
        self._limits = limits
        self.charge = math.nan
        self.voltage_V = math.nan
        self.drain_per_s = 0.0
        self._stamp_ns = 0
        self._flew = False
        self._warned = False

    def begin(self) -> None:
        """A new flight: a warning may come once."""
        self._warned = False

    def take(self, stamp_ns: int, charge: float, voltage_V: float, flying: bool) -> None:
        """Take a reading; one without a charge is none.

        Args:
            stamp_ns: when.
            charge: 0 to 1.
            voltage_V: under load.
            flying: what is drawn on the ground states nothing of the flight.
        """
        if not math.isfinite(charge):
            return
        charge = min(max(charge, 0.0), 1.0)
        passed_s = (stamp_ns - self._stamp_ns) * 1e-9
        if flying and self._flew and passed_s > 0.0:
            drain = max(self.charge - charge, 0.0) / passed_s
            first = self.drain_per_s == 0.0
            weight = 1.0 if first else min(passed_s / DRAIN_S, 1.0)
            self.drain_per_s += weight * (drain - self.drain_per_s)
        self._flew = flying
        self._stamp_ns, self.charge, self.voltage_V = stamp_ns, charge, voltage_V

    @property
    def words(self) -> str:
        """The charge, as messages tell it."""
        return f"{100.0 * self.charge:.0f} %"

    @property
    def is_critical(self) -> bool:
        """Whether it must land now."""
        return self.charge <= self._limits.battery_critical

    def lasts(self, time_s: float) -> bool:
        """Whether so long a flight leaves more than what is critical."""
        return self.charge - self.drain_per_s * time_s > self._limits.battery_critical

    def warns(self, home_s: float) -> bool:
        """Whether it is time to go home; true once a flight.

        Args:
            home_s: how long the way home takes.
        """
        low = self.charge <= self._limits.battery_warn or (
            self.charge > self._limits.battery_critical
            and self.drain_per_s > 0.0
            and not self.lasts(SPARE * home_s)
        )
        if not low or self._warned:
            return False
        self._warned = True
        return True
