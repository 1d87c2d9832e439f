"""Driver files: what a driver calls its topics, in which frames and units, and how it offers them.

They are ``config/drivers/NAME.yaml``; docs/drivers.md says how to write one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Annotated

from quadsim.base.errors import InputError
from quadsim.base.files import find
from quadsim.base.parameters import Spec, load
from quadsim.drivers.commands import (
    DriverCommand,
    DriverParameter,
    DriverRelay,
    DriverService,
)
from quadsim.drivers.convert import can_convert, conversions
from quadsim.wire.axes import BODY, WORLD
from quadsim.wire.definitions import check_standard
from quadsim.wire.px4 import PACKAGE
from quadsim.wire.standard import OURS, our_type

#: Forms of one pose from outside; a topic is one of them.
_FORMS = frozenset({"external/pose", "external/pose_stamped", "external/odom"})
_NAME = re.compile(r"/?[A-Za-z_*][\w*]*(/[\w*]+)*")
#: Vehicle of topics that name none.
ANONYMOUS = "/quad"


@dataclass(frozen=True, slots=True)
class DriverTopic:
    """One topic of a driver."""

    ours: Annotated[str, Spec("our topic, relative to the vehicle, or absolute")]
    names: Annotated[
        tuple[str, ...],
        Spec(
            "the driver's topic, relative to its namespace, or absolute; of several the first that"
            " is there; * stands for any text without a slash"
        ),
    ]
    type: Annotated[str, Spec("the driver's, package/msg/Type")]
    world: Annotated[
        str, Spec("axes of positions and velocities in the world", choices=tuple(WORLD))
    ] = "enu"
    body: Annotated[
        str,
        Spec("axes of the sensor or the vehicle, x y z", choices=tuple(BODY)),
    ] = "flu"
    scale: Annotated[
        float, Spec("times this, the value is in SI units; of an Imu the specific force", gt=0.0)
    ] = 1.0
    rate_scale: Annotated[
        float, Spec("of an Imu: times this, its angular velocity is in rad/s", gt=0.0)
    ] = 1.0
    quaternion: Annotated[
        str, Spec("of a pose: what its four numbers are in turn", choices=("xyzw", "wxyz"))
    ] = "xyzw"
    sigma: Annotated[
        tuple[float, ...],
        Spec(
            "deviations of the axes, SI, where the driver states none; not given: unknown", gt=0.0
        ),
    ] = ()
    covariance: Annotated[str, Spec("the driver's covariances", choices=("stated", "ignored"))] = (
        "stated"
    )
    reliability: Annotated[
        str, Spec("as the driver offers it", choices=("best_effort", "reliable"))
    ] = "best_effort"
    durability: Annotated[
        str, Spec("as the driver offers it", choices=("volatile", "transient_local"))
    ] = "volatile"
    depth: Annotated[int, Spec("messages that its queue keeps", ge=1)] = 10
    bags_only: Annotated[
        bool, Spec("whether it counts in a bag alone: what others send to the driver")
    ] = False
    frame: Annotated[
        str, Spec("that its headers name, where it is ours; not given: ours is written instead")
    ] = ""

    def __post_init__(self) -> None:
        for name in (self.ours, *self.names):
            if not _NAME.fullmatch(name):
                raise InputError(f"{name!r} is not the name of a topic")
        if not self.names:
            raise InputError(f"{self.ours}: names is empty; give the driver's topic")
        if self.type.count("/") != 2:
            raise InputError(f"type: {self.type!r} is not package/msg/Type")
        if len(self.sigma) not in (0, 1, 3):
            raise InputError(f"sigma: {len(self.sigma)} numbers; allowed: none, 1 or 3")
        if self.type.startswith(PACKAGE) and (self.world, self.body) != ("ned", "frd"):
            raise InputError(f"{self.type} is NED and FRD; give world: ned, body: frd")
        if not self.as_it_is and not can_convert(self.type, self.our_type):
            raise InputError(
                f"{self.ours}: {self.type} cannot become {self.our_type};"
                f" what can, beside itself: {conversions(self.our_type)}"
            )
        if self.type not in OURS.values():  # they are; to look takes long
            check_standard(self.type)

    @property
    def our_type(self) -> str:
        """Type that messages have for us."""
        return our_type(self.ours, self.type)

    @property
    def as_it_is(self) -> bool:
        """Whether messages are passed on unchanged."""
        return (
            self.our_type == self.type
            and (self.world, self.body, self.covariance) == ("enu", "flu", "stated")
            and (self.scale, self.rate_scale, self.quaternion) == (1.0, 1.0, "xyzw")
            and not self.sigma
        )


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
    parameters: Annotated[
        tuple[DriverParameter, ...], Spec("of the flight controller, looked at before a flight")
    ] = ()

    def __post_init__(self) -> None:
        if "*" in self.namespace and (self.commands or self.services):
            raise InputError(
                f"namespace: {self.namespace!r}: commands and services need one without *"
            )
        if self.namespace and not _NAME.fullmatch(self.namespace):
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
        InputError: unknown, or the file says what is not allowed.
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
        types: the bag's topics and types.
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
