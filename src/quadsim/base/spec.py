"""What is declared of one parameter or option; it imports nothing heavy, for ``--help``."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Spec:
    """Meaning, unit and allowed range of one parameter.

    ``term`` is the kind of error that a sensor's parameter is the size of
    (``quadsim.sensors.error_terms``).
    """

    doc: str
    unit: str = ""
    gt: float | None = None
    ge: float | None = None
    lt: float | None = None
    le: float | None = None
    choices: tuple[str, ...] = ()
    max_items: int = 0
    term: str = ""

    def allowed(self) -> str:
        """The range in words, for messages and docs."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        bounds = [
            f"{sign} {bound:g}"
            for sign, bound in ((">", self.gt), (">=", self.ge), ("<", self.lt), ("<=", self.le))
            if bound is not None
        ]
        return " and ".join(bounds) if bounds else "any finite value"

    def admits(self, value: float) -> bool:
        """Whether one number is inside the range."""
        return (
            math.isfinite(value)
            and (self.gt is None or value > self.gt)
            and (self.ge is None or value >= self.ge)
            and (self.lt is None or value < self.lt)
            and (self.le is None or value <= self.le)
        )
