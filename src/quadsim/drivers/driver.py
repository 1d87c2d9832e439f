"""Driver files: what a driver calls its topics, in which frames and units, and how it offers them.

They are ``config/drivers/NAME.yaml``; docs/drivers.md describes how to write one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Annotated

from quadsim.base.errors import InputError
from quadsim.base.files import find
from quadsim.base.parameters import Spec, load
from quadsim.drivers.commands import DriverParameter, DriverService
from quadsim.drivers.convert import NAME, DriverTopic
from quadsim.drivers.loans import DriverLoan
from quadsim.drivers.outward import DriverCommand, DriverRelay

#: Forms of one pose from outside; a topic is one of them.
_FORMS = frozenset({"external/pose", "external/pose_stamped", "external/odom"})
#: Vehicle of topics that name none.
ANONYMOUS = "/quad"


@dataclass(frozen=True, slots=True)
class Driver:
    """A driver, or a set of drivers that run together."""

    description: Annotated[str, Spec("what it is, and for which versions this was looked up")]
    topics: Annotated[tuple[DriverTopic, ...], Spec("what it publishes")]
    namespace: Annotated[
        str, Spec("what its topics begin with, behind the vehicle's namespace; * as in names")
    ] = ""
    commands: Annotated[tuple[DriverCommand, ...], Spec("what it takes")] = ()
    services: Annotated[tuple[DriverService, ...], Spec("what it can be asked for")] = ()
    relays: Annotated[
        tuple[DriverRelay, ...], Spec("where a pose from outside goes, where that is wanted")
    ] = ()
    loans: Annotated[
        tuple[DriverLoan, ...], Spec("where what virtual devices measure goes, if it is lent")
    ] = ()
    parameters: Annotated[
        tuple[DriverParameter, ...], Spec("of the flight controller, looked at before a flight")
    ] = ()

    def __post_init__(self) -> None:
        if "*" in self.namespace and (self.commands or self.services):
            raise InputError(
                f"namespace: {self.namespace!r}: commands and services need one without *"
            )
        if self.namespace and not NAME.fullmatch(self.namespace):
            raise InputError(f"namespace: {self.namespace!r} is not a namespace")

    def full_name(self, name: str) -> str:
        """A topic's name with the driver's namespace; without a slash before it: the vehicle's."""
        return name if name.startswith("/") or not self.namespace else f"{self.namespace}/{name}"

    def commands_of(self, ours: str) -> tuple[DriverCommand, ...]:
        """Where one of our commands goes; one may need several of the driver's topics."""
        return tuple(command for command in self.commands if command.ours == ours)

    def service(self, ours: str) -> DriverService | None:
        """How it is asked for something; None where it cannot be."""
        return next((service for service in self.services if service.ours == ours), None)

    def pattern(self, name: str) -> re.Pattern[str]:
        """Expression for full names of one of its topics; ``vehicle`` is what comes before.

        An absolute name, or one under an absolute namespace, has nothing before it.
        """
        full = self.full_name(name)
        text = re.escape(full.lstrip("/")).replace(r"\*", "[^/]*")
        vehicle = "" if full.startswith("/") else r"(?:/[^/]+)*"
        return re.compile(f"(?P<vehicle>{vehicle})/{text}")


def load_driver(name_or_path: str) -> Driver:
    """A driver by its name in ``config/drivers``, or by the path of its file.

    Raises:
        InputError: unknown, or the file has what is not allowed.
    """
    return load(Driver, find("drivers", name_or_path))


def load_drivers(chain: str) -> tuple[tuple[str, Driver], ...]:
    """Several drivers, as ``mavros,mocap``: for a topic that two have, the first counts.

    Raises:
        InputError: as of :func:`load_driver`.
    """
    names = [name.strip() for name in chain.split(",") if name.strip()]
    if not names:
        raise InputError("--driver: give a name, or several with commas between")
    return tuple((name, load_driver(name)) for name in names)


@dataclass(frozen=True, slots=True)
class Route:
    """A topic of the bag, and what it is to us."""

    source: str
    target: str
    topic: DriverTopic


def routes(
    drivers: Collection[tuple[str, Driver]], types: dict[str, str], notes: list[str]
) -> list[Route]:
    """Which topics of a bag are which of ours.

    A vehicle has the namespace that stands before the driver's; what stands alone belongs to the
    one vehicle that has a namespace, or to ``/quad``.

    Args:
        drivers: names and drivers; the first that has a topic gives it.
        notes: gets what has another type, what is ambiguous and what is missing.
    """
    found: dict[str, Route] = {}
    for name, driver in drivers:
        matched = [(topic, list(_matches(driver, topic, types, notes))) for topic in driver.topics]
        known = sorted({vehicle for _, places in matched for vehicle, _ in places if vehicle})
        known += [v for v in _vehicles(found) if v not in known]
        for topic, places in matched:
            for target, sources in _by_target(topic, places, known).items():
                if target in found:
                    continue
                if len(sources) > 1:  # one may bear the vehicle's name
                    name_of = target.removesuffix(f"/{topic.ours}").strip("/")
                    sources = [s for s in sources if name_of in s.split("/")] or sources
                if len(sources) > 1:
                    notes.append(
                        f"driver {name}: {', '.join(sorted(sources))} may all be {target}: left"
                        " out; name one of them in a driver file of your own"
                    )
                    continue
                if topic.ours in _FORMS and any(
                    route.source == sources[0] and route.topic.ours in _FORMS
                    for route in found.values()
                ):
                    continue  # it would count twice
                found[target] = Route(sources[0], target, topic)
        there = {topic.ours for topic, places in matched if places}
        missing = dict.fromkeys(t.ours for t in driver.topics if t.ours not in there)
        if missing and there:
            notes.append(f"driver {name}: nothing here for {', '.join(missing)}")
    return list(found.values())


def _matches(
    driver: Driver, topic: DriverTopic, types: dict[str, str], notes: list[str]
) -> Iterator[tuple[str, str]]:
    """Vehicle and full name of what fits; for a vehicle, by the first name that does."""
    done: set[str] = set()
    for name in topic.names:
        pattern = driver.pattern(name)
        fits = [(m["vehicle"], full) for full in types if (m := pattern.fullmatch(full))]
        for vehicle, full in fits:
            if types[full] != topic.type:
                notes.append(f"{full} is {types[full]}, not {topic.type}: left out")
            elif vehicle not in done:
                yield vehicle, full
        done |= {vehicle for vehicle, full in fits if types[full] == topic.type}


def _vehicles(found: dict[str, Route]) -> list[str]:
    """Vehicles that earlier drivers of the chain gave topics of."""
    return sorted(
        {
            target[: -len(route.topic.ours) - 1]
            for target, route in found.items()
            if not route.topic.ours.startswith("/")
        }
    )


def _by_target(
    topic: DriverTopic, places: list[tuple[str, str]], known: list[str]
) -> dict[str, list[str]]:
    """Our full names of a topic, each with the topics of the bag that could be it."""
    targets: dict[str, list[str]] = {}
    for vehicle, full in places:
        if topic.ours.startswith("/"):
            target = topic.ours
        else:
            target = f"{vehicle or _owner(full, known)}/{topic.ours}"
        targets.setdefault(target, []).append(full)
    return targets


def _owner(full: str, known: list[str]) -> str:
    """Vehicle of a topic that stands alone: named in it, or the only one there is."""
    named = [vehicle for vehicle in known if vehicle.strip("/") in full.split("/")]
    if len(named) == 1:
        return named[0]
    return known[0] if len(known) == 1 else ANONYMOUS
