"""A bag of a driver's topics, seen as ours."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from quadsim.bag.contents import Bag, Opened
from quadsim.bag.storage import BagMessage, Batch, batched
from quadsim.base.errors import InputError, QuadsimError
from quadsim.drivers.convert import Converter, StrangeDefinition
from quadsim.drivers.driver import Driver, Route, routes


class DrivenBag(Bag):
    """A bag that shows a driver's topics by our names, with our types, axes and units.

    What no driver claims is shown as it is.

    Args:
        path: what was asked for.
        opened: its files.
        drivers: names and drivers, the first that has a topic gives it.

    Raises:
        InputError: the bag has no topic of any of them.
    """

    def __init__(self, path: Path, opened: Opened, drivers: tuple[tuple[str, Driver], ...]) -> None:
        super().__init__(path, opened)
        found = routes(drivers, super().types, self.notes)
        if not found:
            name, driver = drivers[0]
            raise InputError(
                f"{path}: no topic of driver {name}, such as"
                f" {driver.full_name(driver.topics[0].names[0])}; the bag has"
                f" {', '.join(sorted(super().types)) or 'none'}"
            )
        self._routes: dict[str, list[Route]] = {}
        for route in found:
            self._routes.setdefault(route.source, []).append(route)
        self._targets = {route.target: route for route in found}
        self._converters = {
            route.target: Converter(route.topic, lambda: self.typestore)
            for route in found
            if not route.topic.as_it_is
        }
        self._bad: dict[str, int] = {}

    @property
    def types(self) -> dict[str, str]:
        """Topic to type name."""
        return self._shown(super().types) | {
            target: route.topic.our_type for target, route in self._targets.items()
        }

    @property
    def counts(self) -> dict[str, int]:
        """Topic to number of messages."""
        counts = super().counts
        return self._shown(counts) | {t: counts[r.source] for t, r in self._targets.items()}

    @property
    def qos(self) -> dict[str, str]:
        """Topic to offered quality of service, YAML; empty where the bag does not say."""
        profiles = super().qos
        return self._shown(profiles) | {t: profiles[r.source] for t, r in self._targets.items()}

    def _shown(self, topics: dict[str, str] | dict[str, int]) -> dict[str, Any]:
        return {name: value for name, value in topics.items() if name not in self._routes}

    def batches(self, topics: Collection[str], start_ns: int = 0) -> Iterator[Batch]:
        """Messages of some topics in the order of their log time, in bounded memory."""
        return batched(self._ours(topics, start_ns))

    def _ours(self, topics: Collection[str], start_ns: int) -> Iterator[BagMessage]:
        wanted = {name for name in topics if name not in self._routes and name not in self._targets}
        chosen = [route for name, route in self._targets.items() if name in frozenset(topics)]
        ways: dict[str, list[Route]] = {}
        for route in chosen:
            ways.setdefault(route.source, []).append(route)
        for batch in super().batches(wanted | ways.keys(), start_ns):
            yield from self._converted_batch(list(batch), ways)
        for target, count in self._bad.items():
            self.notes.append(f"{target}: {count} messages make no sense: left out")
        self._bad = {}

    def _converted_batch(
        self, block: list[BagMessage], ways: dict[str, list[Route]]
    ) -> Iterator[BagMessage]:
        made: dict[str, Iterator[bytes | None]] = {}
        for source, chosen in ways.items():
            payloads = [message.payload for message in block if message.topic == source]
            for route in chosen:
                made[route.target] = iter(self._converted(route, payloads))
        for message in block:
            if message.topic not in ways:
                yield message
                continue
            for route in ways[message.topic]:
                payload = next(made[route.target])
                if payload is not None:
                    yield BagMessage(route.target, route.topic.our_type, message.log_ns, payload)

    def _converted(self, route: Route, payloads: list[bytes]) -> list[bytes | None]:
        converter = self._converters.get(route.target)
        if converter is None or not payloads:
            return list(payloads)
        try:
            return converter.convert(payloads)
        except StrangeDefinition as error:
            note = f"{route.target}: {error}: left out"
            if note not in self.notes:
                self.notes.append(note)
            return [None] * len(payloads)
        except QuadsimError:
            if len(payloads) == 1:
                self._bad[route.target] = self._bad.get(route.target, 0) + 1
                return [None]
        half = len(payloads) // 2  # find the bad ones
        return self._converted(route, payloads[:half]) + self._converted(route, payloads[half:])
