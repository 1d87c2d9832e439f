"""Which resets and which data count, by their stamps; it knows no ROS graph."""

from __future__ import annotations

import math
from typing import Any

from quadsim.ros.messages.cdr import MessageError
from quadsim.ros.runtime.base import values_of

#: Data of this time after a reset are of no flight: until then all nodes have heard of it.
QUIET_NS = 500_000_000
#: How far a reset may be ahead of all that is known of the time, and data behind the newest.
SLACK_NS = 1_000_000_000
#: Odometries in a row, all far behind the newest, that mean that time began anew.
BEHIND_IN_ROW = 5
#: For how long a late message counts, and how much of its lateness, s.
LATE_MEMORY_S, MOST_LATE_S = 5.0, 0.1


def reset_stamp(message: Any) -> int:
    """Stamp that an event of a reset states, ns; 0 where it states none.

    Raises:
        MessageError: it is no time.
    """
    text = values_of(message).get("stamp_s", "0")
    try:
        stamp_s = float(text)
    except ValueError:
        stamp_s = math.nan
    if not 0.0 <= stamp_s < 2.0**63 * 1e-9:
        raise MessageError(f"stamp_s: {text!r} is no time")
    return round(stamp_s * 1e9)


class ResetTimes:
    """The last reset, and the newest data."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Time begins anew: resets and data of another time do not count."""
        self._newest_ns, self._reset_ns, self._until_ns = 0, -1, 0

    def settled(self, stamp_ns: int) -> bool:
        """Whether data of this stamp are of the flight that goes on."""
        self._newest_ns = max(self._newest_ns, stamp_ns)
        return stamp_ns >= self._until_ns

    def follow(self, stamp_ns: int) -> None:
        """Take the stamp of a stream in order; one far behind means that time began anew."""
        if stamp_ns < self._newest_ns - SLACK_NS:
            self.forget()
        self._newest_ns = max(self._newest_ns, stamp_ns)

    def check(self, reset_ns: int, clock_ns: int) -> None:
        """Refuse a reset that would make the node deaf.

        Args:
            reset_ns: its stamp.
            clock_ns: simulated time.

        Raises:
            MessageError: it is ahead of clock and data.
        """
        if reset_ns > max(self._newest_ns, clock_ns) + SLACK_NS:
            raise MessageError(f"a reset of the future, at {reset_ns * 1e-9:.3f} s")

    def begin(self, reset_ns: int) -> bool:
        """Begin a flight at a reset; older ones than the last do not count."""
        if reset_ns < self._reset_ns:
            return False
        self._reset_ns, self._until_ns = reset_ns, reset_ns + QUIET_NS
        return True


class Ahead:
    """Refuses a stamp far ahead of the newest, until the next one confirms it.

    A single stamp of the future would make all that follow look old. A stream that was silent, or
    whose clock was set, loses one message by it.
    """

    def __init__(self) -> None:
        self._ahead_ns: int | None = None

    def check(self, stamp_ns: int, newest_ns: int) -> None:
        """Check a stamp against the newest that was taken; 0: there was none.

        Raises:
            MessageError: it is the first one so far ahead.
        """
        if not newest_ns or stamp_ns <= newest_ns + SLACK_NS:
            self._ahead_ns = None
            return
        before_ns, self._ahead_ns = self._ahead_ns, stamp_ns
        if before_ns is None or not 0 < stamp_ns - before_ns <= SLACK_NS:
            ahead_s = (stamp_ns - newest_ns) * 1e-9
            raise MessageError(f"its stamp is {ahead_s:.3f} s ahead of the last one")
        self._ahead_ns = None


class Lateness:
    """How late messages come: the most of late, which is forgotten over seconds."""

    def __init__(self) -> None:
        self._late_s, self._stamp_ns = 0.0, 0

    def take(self, stamp_ns: int, now_ns: int) -> None:
        """Take a message's stamp, and the clock when it comes; neither goes back."""
        passed_s = min((stamp_ns - self._stamp_ns) * 1e-9 / LATE_MEMORY_S, 1.0)
        late_s = min(max((now_ns - stamp_ns) * 1e-9, 0.0), MOST_LATE_S)
        self._late_s = max(late_s, self._late_s + passed_s * (late_s - self._late_s))
        self._stamp_ns = stamp_ns

    @property
    def round_trip_s(self) -> float:
        """Time from a sample until what answers it is obeyed: as long there as back."""
        return 2.0 * self._late_s


class Behind:
    """Counts messages in a row that are far behind the newest: a loop whose clock nobody tells."""

    def __init__(self) -> None:
        self._count = 0

    def seen(self, stamp_ns: int, newest_ns: int) -> bool:
        """Whether this one means that time began anew."""
        self._count = self._count + 1 if stamp_ns < newest_ns - SLACK_NS else 0
        return self._count >= BEHIND_IN_ROW
