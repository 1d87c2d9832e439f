"""Messages that nobody should send: a seeded mutator of any message of ROS."""

import copy
import math
import random
import re
import struct
from collections.abc import Iterator
from typing import Any

from rclpy.serialization import serialize_message

DOUBLES = (math.nan, math.inf, -math.inf, 1e160, -1e308, 1e308, 5e-324)
FLOATS = (math.nan, math.inf, -math.inf, 3e38, -3e38, 1e-45)
INTEGERS = {f"uint{bits}": (0, 1, 2**bits - 1) for bits in (8, 16, 32, 64)} | {
    f"int{bits}": (0, 1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1))) for bits in (8, 16, 32, 64)
}
TEXTS = ("", "../map", "elsewhere", "\u00e9" * 50_000)
#: Elements of a long sequence, and bytes of a long message.
LONG = 100_000
#: Elements of a long sequence of messages.
MANY = 2000
CUTS, GARBAGE, LENGTHS = 24, 8, 16


def _leaves(message: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Path and type of each number, text and sequence in a message."""
    for name, kind in message.get_fields_and_field_types().items():
        value = getattr(message, name)
        here = (*path, name)
        element = re.match(r"(?:sequence<([^,>]+).*>|([^\[]+)\[.*\])$", kind)
        if element is None:
            if "/" in kind:
                yield from _leaves(value, here)
            else:
                yield here, kind
            continue
        yield here, "sequence" if element[1] else "array"
        inner = element[1] or element[2]
        count = len(value)
        for at in sorted({0, count // 2, count - 1} if count else ()):
            if "/" in inner:
                yield from _leaves(value[at], (*here, at))
            else:
                yield (*here, at), inner


def _changed(message: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy of a message with one thing in it changed."""
    made = copy.deepcopy(message)
    owner = made
    for part in path[:-1]:
        owner = owner[part] if isinstance(part, int) else getattr(owner, part)
    if isinstance(path[-1], int):
        owner[path[-1]] = value
    else:
        setattr(owner, path[-1], value)
    return made


def _values(message: Any, path: tuple[Any, ...], kind: str) -> Iterator[Any]:
    """What one thing in a message is changed to."""
    if kind in ("double", "float64"):
        yield from DOUBLES
    elif kind in ("float", "float32"):
        yield from FLOATS
    elif kind == "boolean":
        yield from (False, True)
    elif kind in INTEGERS:
        yield from INTEGERS[kind]
    elif kind.startswith("string"):
        yield from TEXTS
    elif kind == "sequence":
        value = message
        for part in path:
            value = value[part] if isinstance(part, int) else getattr(value, part)
        yield value[:0]
        if len(value):
            yield value[:1] * (LONG if isinstance(value[0], (int, float, str)) else MANY)


def bad_payloads(message: Any, seed: int = 0) -> Iterator[tuple[str, bytes]]:
    """Serialised messages that are wrong each in its own way, and in words how.

    Args:
        message: a good one, with its sequences filled.
        seed: of what is random.
    """
    rng = random.Random(f"{seed} {type(message).__name__}")
    for path, kind in _leaves(message):
        for value in _values(message, path, kind):
            words = repr(value) if kind != "sequence" else f"{len(value)} elements"
            name = ".".join(map(str, path))
            yield f"{name} = {words[:40]}", serialize_message(_changed(message, path, value))
    good = serialize_message(message)
    yield "nothing", b""
    for end in sorted(rng.sample(range(len(good)), min(CUTS, len(good)))):
        yield f"cut after {end} of {len(good)} bytes", good[:end]
    yield "100 kB of zeros behind it", good + bytes(LONG)
    places = range(4, len(good) - 3, 4)
    for at in [*places[:LENGTHS], *rng.sample(places, min(LENGTHS, len(places)))]:
        for length in (2**32 - 1, 2**31 - 1):
            yield f"{length} at byte {at}", good[:at] + struct.pack("<I", length) + good[at + 4 :]
    for count in (1, 3, 4, 11, 12, 60, 400, LONG):
        for _ in range(GARBAGE // 4):
            noise = rng.randbytes(count)
            yield f"{count} random bytes", noise
            yield f"{count} random bytes behind a header of CDR", good[:4] + noise
    big = b"\x00\x00" + good[2:]
    yield "the other order of bytes", big
    for _ in range(GARBAGE):
        flipped = bytearray(good)
        for _ in range(rng.randint(1, 8)):
            flipped[rng.randrange(len(flipped))] = rng.randrange(256)
        yield "random bytes changed", bytes(flipped)


def numbers_in(message: Any) -> Iterator[float]:
    """Every floating-point number in a message."""
    for name, kind in message.get_fields_and_field_types().items():
        value = getattr(message, name)
        if "double" in kind or "float" in kind:
            yield from [value] if isinstance(value, float) else value
        elif "/" in kind:
            for one in value if isinstance(value, (list, tuple)) else [value]:
                yield from numbers_in(one)
