"""A bag of a driver's topics, seen as ours."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from quadsim.bag.contents import Bag, Opened
from quadsim.bag.storage import Batch
from quadsim.base.errors import InputError, QuadsimError
from quadsim.drivers.convert import Converter, StrangeDefinition
from quadsim.drivers.driver import Driver, Route, routes
from quadsim.wire.payloads import Payloads


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
            route.target: Converter(
                route.topic, lambda: self.typestore, vehicle=route.target.split("/")[1]
            )
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
        chosen = frozenset(topics)
        passed = chosen - self._routes.keys() - self._targets.keys()
        ways: dict[str, list[Route]] = {}
        for target, route in self._targets.items():
            if target in chosen:
                ways.setdefault(route.source, []).append(route)
        for batch in super().batches(passed | ways.keys(), start_ns):
            parts, places = [], []  # of the messages that come out, their places in the batch
            for name, _, rows in batch.by_topic():
                if name in passed:
                    parts.append(batch[rows].compact())
                    places.append(rows)
                for route in ways.get(name, ()):
                    payloads = self._converted(route, list(batch.payloads[rows]))
                    good = np.flatnonzero([payload is not None for payload in payloads])
                    parts.append(
                        Batch(
                            ((route.target, route.topic.our_type),),
                            np.zeros(len(good), np.int64),
                            batch.log_ns[rows[good]],
                            Payloads.of([payload for payload in payloads if payload is not None]),
                        )
                    )
                    places.append(rows[good])
            if parts:
                yield Batch.joined(parts)[np.argsort(np.concatenate(places), kind="stable")]
        for target, count in self._bad.items():
            self.notes.append(f"{target}: {count} messages make no sense: left out")
        self._bad = {}

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
