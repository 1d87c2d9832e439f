"""Shared memory that killed processes leave behind: a node that opens it later can crash.

Fast DDS keeps a process's data in ``/dev/shm/fastdds_ID`` and its mailboxes in ``fastdds_portN``.
While the owner lives it holds a lock (flock) on the file ``_el`` there, ``_sl`` where several
read. A mailbox whose owner was killed in the middle of a change faults in whoever opens it next
(eProsima/Fast-DDS, issue 6501).
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from contextlib import suppress
from pathlib import Path

FOLDER = Path("/dev/shm")

#: Ports of a DDS domain: the first of all, and how many each has (RTPS 2.3, 9.6.1.1).
PORT_BASE, DOMAIN_GAIN = 7400, 250
#: What is younger may belong to a process that has not locked it yet, s.
YOUNGEST_S = 5.0

_PART = re.compile(r"fastdds_(?:port(\d+)|[0-9a-f]{16})")
_LOCKS = ("_el", "_sl")


def clear_left_behind(domain: int, folder: Path = FOLDER) -> int:
    """Remove mailboxes of a domain, and data of any, whose owners have ended.

    Args:
        domain: DDS domain that the caller holds.
        folder: where shared memory lies.

    Returns:
        How many parts were removed.
    """
    first = PORT_BASE + DOMAIN_GAIN * domain
    removed = 0
    for path in sorted(folder.glob("fastdds_*")):
        found = _PART.fullmatch(path.name)
        if found is None:
            continue
        port = found[1]
        if port is not None and not first <= int(port) < first + DOMAIN_GAIN:
            continue
        if _is_left(path, mailbox=port is not None):
            removed += _remove(path)
    return removed


def _is_left(path: Path, mailbox: bool) -> bool:
    """Whether nobody holds a part; data without a lock next to it may be anybody's."""
    locks = [lock for end in _LOCKS if (lock := Path(f"{path}{end}")).exists()]
    try:
        young = time.time() - path.stat().st_mtime < YOUNGEST_S
    except OSError:
        return False
    return not young and (mailbox or bool(locks)) and all(map(_is_free, locks))


def _is_free(lock: Path) -> bool:
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _remove(path: Path) -> bool:
    try:
        path.unlink()
    except OSError:  # another user's
        return False
    alongside = [Path(f"{path}{end}") for end in _LOCKS]
    for other in (*alongside, path.with_name(f"sem.{path.name}_mutex")):
        with suppress(OSError):
            other.unlink()
    return True
