"""What is recorded: profiles, files of ``config/recording``, and how the bag lies on the disk.

Its options are read for ``--help``, so that nothing heavy is imported here.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated

from quadsim.base.errors import InputError
from quadsim.base.files import find
from quadsim.base.spec import Spec

if TYPE_CHECKING:
    from quadsim.bag.writer import Storage


@dataclass(frozen=True)
class RecordProfile:
    """Topics of a bag; names are relative to a vehicle's namespace, or begin with a slash."""

    topics: Annotated[tuple[str, ...], Spec("names or patterns (*, ?) of what is recorded")]
    description: Annotated[str, Spec("what it is for")] = ""
    without: Annotated[tuple[str, ...], Spec("names or patterns of what is left out of them")] = ()
    thinned: Annotated[tuple[str, ...], Spec("of which not every message is recorded")] = ()
    thin_hz: Annotated[float, Spec("how many of those are recorded", "Hz", gt=0.0, le=1000.0)] = (
        50.0
    )

    def keeps(self, name: str) -> bool:
        """Whether a topic is recorded, by its name in the table of topics."""
        return _matches(name, self.topics) and not _matches(name, self.without)

    def period_ns(self, name: str) -> int:
        """Least time between two messages of a topic, ns; 0 keeps all."""
        return round(1e9 / self.thin_hz) if _matches(name, self.thinned) else 0


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


@dataclass(frozen=True)
class Recording:
    """How a flight is recorded."""

    record_profile: Annotated[
        str, Spec("topics of the bag: a file of config/recording, or a path")
    ] = "all"
    split_mb: Annotated[
        float, Spec("a new file of the bag at this size; 0: never", "MB", ge=0.0, le=1e6)
    ] = 0.0
    split_s: Annotated[
        float, Spec("a new file of the bag after this time; 0: never", "s", ge=0.0, le=1e6)
    ] = 0.0
    compression: Annotated[str, Spec("of the bag, chunk by chunk", choices=("none", "zstd"))] = (
        "none"
    )

    def profile(self) -> RecordProfile:
        """What is recorded.

        Raises:
            InputError: there is no such profile, or it keeps nothing.
        """
        from quadsim.base.parameters import load

        path = find("recording", self.record_profile)
        profile = load(RecordProfile, path)
        if not profile.topics:
            raise InputError(f"{path}: topics: none; name at least one, or a pattern such as '*'")
        return profile

    def storage(self) -> Storage:
        """How it lies on the disk."""
        from quadsim.bag.writer import Storage

        split_ns = round(self.split_s * 1e9)
        return Storage(round(self.split_mb * 1e6), split_ns, self.compression)


class Thinning:
    """Of a thinned topic, which messages are stored: one a period, by their log time."""

    def __init__(self, period_ns: int) -> None:
        self._period_ns = period_ns
        self._slot = -1

    def keeps(self, stamp_ns: int) -> bool:
        """Whether the message of this log time is the first of its period."""
        slot = stamp_ns // self._period_ns if self._period_ns else -1
        if self._period_ns and slot == self._slot:
            return False
        self._slot = slot
        return True
