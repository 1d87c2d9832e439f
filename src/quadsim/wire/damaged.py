"""Decoding blocks of messages of which a few may be damaged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from quadsim.base.errors import QuadsimError

T = TypeVar("T")


class Decoded(NamedTuple, Generic[T]):
    """What a decoder made of a block.

    Attributes:
        good: of the messages that make sense; None if there is none.
        bad: places of the others in the block.
        reason: why the first of them makes no sense; empty where all do.
    """

    good: T | None
    bad: list[int]
    reason: str


def decoded(decoder: Callable[[Sequence[bytes]], T], payloads: Sequence[bytes]) -> Decoded[T]:
    """Decode a block at once, or, where that is refused, the messages that make sense alone.

    Args:
        decoder: raises QuadsimError for a message that is not what its type reports.
    """
    try:
        return Decoded(decoder(payloads), [], "")
    except QuadsimError as error:
        reason = str(error)
    bad = [i for i, payload in enumerate(payloads) if not _makes_sense(decoder, payload)]
    without = frozenset(bad)
    left = [payload for i, payload in enumerate(payloads) if i not in without]
    try:
        if left:
            return Decoded(decoder(left), bad, reason)
    except QuadsimError as error:  # each makes sense, but not all together
        reason = str(error)
    return Decoded(None, list(range(len(payloads))), reason)


def _makes_sense(decoder: Callable[[Sequence[bytes]], object], payload: bytes) -> bool:
    try:
        decoder([payload])
    except QuadsimError:
        return False
    return True
