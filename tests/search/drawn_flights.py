"""A flight of the search, drawn, flown and shrunk; a process cannot import it from a main."""

from dataclasses import dataclass

from finding_shrinking import shrink
from flight_findings import Findings, fly
from scenario_drawing import Content, draw_scenario

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

    def has(self, word: str) -> bool:
        return any(name.startswith(word) for name in self.findings.kinds)

    @property
    def gravest(self) -> str:
        return next((k for word in GRAVEST for k in self.findings.kinds if k.startswith(word)), "")

    @property
    def title(self) -> str:
        found = "; ".join(f"{name}: {words}" for name, words in self.findings.kinds.items())
        cause = f"; cause: {self.findings.cause}" if self.findings.cause else ""
        return f"{self.kind} {self.seed}/{self.number}: {found}{cause}"


def fly_drawn(job: tuple[str, int, int]) -> Flight:
    """Draw a flight and fly it."""
    content = draw_scenario(*job)
    flight = Flight(*job, content, fly(content))
    if flight.gravest:
        print(f"  {flight.title}", flush=True)
    return flight


def shrink_flight(flight: Flight) -> Content:
    """The smallest scenario that shows a flight's gravest finding."""
    content = shrink(flight.content, flight.gravest)
    return {"description": f"{flight.gravest}; shrunk from {flight.title}"} | content
