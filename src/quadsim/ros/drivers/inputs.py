"""What a driver publishes, live: which topic is which of ours, and messages converted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from rosbags.typesys.store import Typestore

from quadsim.base.errors import QuadsimError
from quadsim.drivers import bodies
from quadsim.drivers.convert import Converter, DriverTopic, can_convert, frame_names
from quadsim.drivers.driver import Driver
from quadsim.ros.messages.cdr import MessageError, Reader
from quadsim.ros.runtime import qos, topics
from quadsim.ros.runtime.topics import Topic, message_class
from quadsim.wire.encode import renamed

#: Our topics that say where something is: whose pose it is, its name alone can tell.
_POSES = ("external/", "ground_truth/odom", "odometry/")
#: Primitive types as rosidl's classes name them, where a definition states otherwise.
_KINDS = {"float": "float32", "double": "float64", "boolean": "bool", "octet": "byte"}


@dataclass(frozen=True)
class DriverPlace:
    """Where a vehicle's driver may be.

    Attributes:
        namespace: of the vehicle, for us.
        driver_namespace: before the driver's topics; empty: the vehicle's own, or none.
        alone: whether there is one vehicle.
    """

    namespace: str
    driver_namespace: str
    alone: bool

    @property
    def before(self) -> tuple[str, ...]:
        """What may stand before a driver's topics, the likeliest first."""
        if self.driver_namespace:
            own = self.driver_namespace.rstrip("/")
            return (own,) if self.alone else (own, "")
        return (self.namespace.rstrip("/"), "")

    @property
    def expected(self) -> str:
        """What stands there where nothing of the driver has been found."""
        return self.driver_namespace.rstrip("/") or ("" if self.alone else self.namespace)

    @property
    def name(self) -> str:
        """The vehicle's; of several the one of its driver's namespace, if that is its own."""
        own = "" if self.alone else self.driver_namespace.strip("/")
        return own.rpartition("/")[2] or self.namespace.strip("/")

    def names(self, full: str) -> bool:
        """Whether a topic bears the vehicle's name."""
        return self.name in full.split("/")


@dataclass(frozen=True)
class DriverSource:
    """A driver's topic that is published and is one of ours.

    Attributes:
        topic: what the file states of it.
        full: its full name.
        before: what stands before the driver's part of that; None for a name that is absolute.
        certain: no other topic that may yet be discovered would come before it.
    """

    topic: DriverTopic
    full: str
    before: str | None
    certain: bool


def find_source(
    driver: Driver,
    alternatives: Collection[DriverTopic],
    types: Mapping[str, Collection[str]],
    place: DriverPlace,
    notes: list[str],
) -> DriverSource | None:
    """The topic that is published and is one of ours; None if it is not there.

    Args:
        alternatives: what its file states of that one of ours; the first that is there counts.
        types: full name to types of what is published.
        place: of the vehicle.
        notes: gets what has another type, what is ambiguous, and poses of somebody else.
    """
    likeliest = [(topic, name) for topic in alternatives for name in topic.names][:1]
    for topic in alternatives:
        for name in topic.names:
            fits = [full for full in _fitting(driver, name, types, place) if full != topic.ours]
            wrong = [full for full in fits if topic.type not in types[full]]
            notes += [
                f"{full} is {', '.join(types[full])}, not {topic.type}: left out" for full in wrong
            ]
            found = [full for full in fits if full not in wrong]
            if not (place.alone or topic.ours.startswith("/") or topic.type in bodies.TYPES):
                found = [full for full in found if place.names(full)]
            if topic.ours.startswith(_POSES):
                found = _of_the_vehicle(driver, topic, name, found, place, notes)
            if len(found) > 1:
                found = [full for full in found if place.names(full)] or found
            if len(found) > 1:
                notes.append(
                    f"{', '.join(sorted(found))} may all be {topic.ours}: left out; name one of"
                    " them in a driver file of your own"
                )
            elif found:
                (full,) = found
                certain = [(topic, name)] == likeliest and _is_named(driver, name, full, place)
                return DriverSource(topic, full, _before(driver, name, full), certain)
    return None


def _of_the_vehicle(
    driver: Driver,
    topic: DriverTopic,
    name: str,
    found: list[str],
    place: DriverPlace,
    notes: list[str],
) -> list[str]:
    """Of poses by ``*``, those with the vehicle's name, or in a namespace that is its own."""
    starry = "*" in driver.full_name(name).split("/")
    its = [
        full
        for full in found
        if not starry or _is_named(driver, name, full, place) or _before(driver, name, full)
    ]
    if found and not its:
        notes.append(
            f"{', '.join(sorted(found))} may be {topic.ours}, but without the vehicle's name,"
            f" {place.name}: left out; call it so, or name it in a driver file of your own"
        )
    return its


def _is_named(driver: Driver, name: str, full: str, place: DriverPlace) -> bool:
    """Whether a driver's name leaves no choice: every ``*`` in it is the vehicle's name."""
    parts = driver.full_name(name).strip("/").split("/")
    there = full.strip("/").split("/")[-len(parts) :]
    return all(
        "*" not in part or (part == "*" and text == place.name)
        for part, text in zip(parts, there, strict=True)
    )


def _before(driver: Driver, name: str, full: str) -> str | None:
    """What stands before the driver's part of a full name; None for a name that is absolute."""
    match = driver.pattern(name).fullmatch(full)
    if match is None or driver.full_name(name).startswith("/"):
        return None
    return match["vehicle"]


def _fitting(
    driver: Driver, name: str, types: Mapping[str, Collection[str]], place: DriverPlace
) -> list[str]:
    """Full names that fit, all with the same before them."""
    pattern = driver.pattern(name)
    fits = [(m["vehicle"], full) for full in types if (m := pattern.fullmatch(full))]
    if driver.full_name(name).startswith("/"):
        return [full for _, full in fits]
    for before in place.before:
        if there := [full for vehicle, full in fits if vehicle == before]:
            return there
    return []


def topic_of(ours: str, type_name: str) -> Topic:
    """One of our topics: that of the table, or one that only a driver file knows."""
    known = (*topics.WORLD_TOPICS, *topics.VEHICLE_TOPICS)
    found = next((topic for topic in known if topic.name == ours), None)
    if found is not None and found.type_name == type_name:
        return found
    fast = type_name == topics.ODOMETRY.type_name
    profile = qos.FAST if fast else qos.RELIABLE
    return Topic(ours, type_name, profile, profile, ())


def profile_of(topic: DriverTopic) -> Any:
    """Quality of service of a driver's topic, as its file states."""
    return qos.profile(
        topic.depth, topic.reliability == "reliable", topic.durability == "transient_local"
    )


def defined_by_class(type_name: str) -> Typestore:
    """A type with fields of fixed size, as the installed message class has them."""
    types = get_typestore(Stores.EMPTY)
    types.register(get_types_from_msg("\n".join(_lines(type_name)), type_name))
    return types


def _lines(type_name: str) -> Iterator[str]:
    fields = message_class(type_name).get_fields_and_field_types()
    for name, text in fields.items():
        kind, bracket, count = text.partition("[")
        yield f"{_KINDS.get(kind, kind)}{bracket}{count} {name}"


class ResetWatch:
    """Notices when the estimator behind a driver's topic resets."""

    def __init__(self, topic: DriverTopic) -> None:
        self._converter = Converter(topic, lambda: defined_by_class(topic.type))
        self._count: int | None = None

    def take(self, payload: bytes) -> str:
        """In words, how it has reset since the last message; empty: it has not."""
        count, before = self._converter.resets(payload), self._count
        self._count = count
        if before is None or count is None or count == before:
            return ""
        return (
            f"the autopilot has reset its estimate (reset_counter {before} to {count}): its place"
            " and north are others now"
        )


def origin_shift(type_name: str, origin_W: Sequence[float]) -> Callable[[bytes], bytes]:
    """What shifts poses of one of our types into a map that begins elsewhere.

    Args:
        type_name: with a position ``p``.
        origin_W: of the map that the poses are in, m.
    """
    reader = Reader(type_name)

    def move(payload: bytes) -> bytes:
        made = bytearray(payload)
        reader.read(payload)
        position = np.frombuffer(made, np.float64, 3, reader.places["p"])
        position += origin_W
        return bytes(made)

    return move


def converter(
    topic: DriverTopic, prefix: str, vehicle: str = "", alone: bool = True
) -> Callable[[bytes], bytes | None]:
    """What makes one message ours; None for one that is not for us.

    Args:
        prefix: of the vehicle's frames.
        alone: whether there is one vehicle.

    The function raises a MessageError for what cannot be read.
    """
    if not can_convert(topic.type, topic.our_type):
        return lambda payload: payload
    frames = frame_names(topic.our_type, prefix)
    convert = Converter(topic, lambda: defined_by_class(topic.type), prefix, vehicle, alone).convert

    def take(payload: bytes) -> bytes | None:
        try:
            if topic.as_it_is:
                return renamed(topic.type, payload, frames)
            return convert([payload])[0]
        except QuadsimError as error:
            raise MessageError(str(error)) from None

    return take
