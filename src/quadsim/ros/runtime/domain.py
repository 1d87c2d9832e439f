"""One graph per DDS domain and user: who holds a domain writes its name into a lock file.

``quadsim fly`` and ``rehearse`` hold it, and each ``ros2 launch`` of ours; besides that the nodes
that a vehicle has one of (dynamics, guard, driver) hold their names, however they were started.

What killed graphs left in the domain's shared memory is removed when it is taken.

Another user's graph is heard on ``/clock`` by the supervisor.

Processes leave a domain one after another (:func:`leaving`).
"""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TextIO

from quadsim.base.errors import InputError

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


HIGHEST = 232

#: Until all others have heard who left before, s: some forty endpoints, a few ms.
HEARD_S = 0.03


def chosen_domain(asked: int | None) -> int:
    """The domain that was asked for, else ROS_DOMAIN_ID's, else 0.

    Raises:
        InputError: it is no whole number from 0 to 232.
    """
    text = os.environ.get("ROS_DOMAIN_ID") or "0"
    where = "ROS_DOMAIN_ID" if asked is None else "--domain"
    value = text if asked is None else str(asked)
    if not value.isdecimal() or int(value) > HIGHEST:
        raise InputError(f"{where}: {value!r} is no DDS domain; allowed: 0 to {HIGHEST}")
    return int(value)


def lock_path(domain: int) -> Path:
    """Lock file of a domain; each user has their own, as nobody may write another's."""
    return Path(tempfile.gettempdir()) / f"quadsim-{os.getuid()}-domain-{domain}.lock"


@contextmanager
def held(domain: int, remedy: str = "ROS_DOMAIN_ID, --domain") -> Iterator[None]:
    """Hold a domain; the system lets it go when the process ends, however it ends.

    Args:
        remedy: by what another one is chosen here.

    Raises:
        InputError: another graph holds it.
    """
    words = f"DDS domain {domain} is in use by another graph"
    with _locked(lock_path(domain), words, remedy):
        clear_left_behind(domain)
        yield


def hold_for_good(domain: int) -> None:
    """Hold a domain until this process ends; once is enough for all graphs that it launches.

    Raises:
        InputError: another graph holds it.
    """
    if domain not in _for_good:
        with ExitStack() as stack:
            stack.enter_context(held(domain, "ROS_DOMAIN_ID"))
            _for_good[domain] = stack.pop_all()


#: Domains that this process holds until it ends.
_for_good: dict[int, ExitStack] = {}


@contextmanager
def held_name(domain: int, full_name: str) -> Iterator[None]:
    """Be the only node with a name on a domain of this machine.

    Raises:
        InputError: there is one already.
    """
    path = lock_path(domain).with_suffix(f"{full_name.replace('/', '.')}.lock")
    words = f"{full_name} is on DDS domain {domain} already, of another graph"
    with _locked(path, words):
        yield


def _open(path: Path) -> TextIO:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    return os.fdopen(descriptor, "r+")


@contextmanager
def _locked(path: Path, words: str, remedy: str = "ROS_DOMAIN_ID") -> Iterator[None]:
    try:
        file = _open(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be opened ({error.strerror})") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"{words} (process {file.read().strip()}); stop it, or choose another domain"
                f" ({remedy})"
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)


@contextmanager
def leaving(domain: int) -> Iterator[None]:
    """A block that takes leave of DDS, while no other process of this user's graph does.

    A process that leaves while others do can stand still for ever: ``DomainParticipant::
    set_listener`` waits for the callback of a discovery that waits for it (Fast DDS 3.2.2).
    """
    try:
        file = _open(lock_path(domain).with_suffix(".leaving"))
    except OSError:  # then all at once: the system lets nobody write there
        yield
        return
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        time.sleep(HEARD_S)
        yield
