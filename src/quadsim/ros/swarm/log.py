"""What the node ``swarm`` logs of its vehicles' events: few lines, however many fly."""

from __future__ import annotations

from collections.abc import Iterable

#: Most vehicles that a line names.
NAMED = 5

Event = tuple[int, int, str, str]


class SwarmLog:
    """Events of all vehicles since the last lines, by their names."""

    def __init__(self) -> None:
        self._told: dict[str, dict[str, list[str]]] = {}
        self._levels: dict[str, int] = {}

    def take(self, vehicle: str, events: Iterable[Event]) -> None:
        """Take a vehicle's events: stamp in ns, level, name and message of each."""
        for _, level, name, message in events:
            self._told.setdefault(name, {}).setdefault(message, []).append(vehicle)
            self._levels[name] = max(level, self._levels.get(name, 0))

    def lines(self) -> list[tuple[int, str]]:
        """A line for each kind of event since the last call, and the highest level of it."""
        found = []
        for name, by_message in self._told.items():
            vehicles = [vehicle for each in by_message.values() for vehicle in each]
            more = f" and {len(vehicles) - NAMED} more" if len(vehicles) > NAMED else ""
            words = f" ({next(iter(by_message))})" if len(by_message) == 1 else ""
            line = f"{name}: {', '.join(vehicles[:NAMED])}{more}{words}"
            found.append((self._levels[name], line))
        self._told, self._levels = {}, {}
        return found
