"""The one exception root; the command turns it into one line and an exit status."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable

#: Most characters of a value in a message.
MOST_SHOWN = 300


class QuadsimError(Exception):
    """Anything quadsim refuses or gives up on; the message names the thing and the remedy."""


class InputError(QuadsimError):
    """A file, key, value or argument that cannot be used (exit status 2)."""


class FlightError(QuadsimError):
    """A run that ended because something broke in flight (exit status 1)."""


#: How alike a name has to be to the one that may be meant, 0 to 1.
NEAR = 0.65


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """For a message about an unknown name: the one that is meant, if one is near."""
    from difflib import get_close_matches  # here, as it takes 3 ms to import

    nearest = get_close_matches(str(name)[:MOST_SHOWN], known, 1, NEAR)
    return f" (did you mean {nearest[0]}?)" if nearest else ""


class _Shown(reprlib.Repr):
    """Texts and numbers as ``repr`` has them; of what nests, no more than a message holds."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 4
        self.maxstring = self.maxother = MOST_SHOWN

    def repr_int(self, x: int, level: int) -> str:
        """Python refuses to write numbers of thousands of digits."""
        return f"a whole number of {x.bit_length()} bits" if x.bit_length() > 1000 else repr(x)


def shown(value: object) -> str:
    """A value for a message, in bounded time and length, however much it holds.

    What came out of YAML may hold itself many times over, by aliases.
    """
    text = _Shown().repr(value)
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 3]}..."
