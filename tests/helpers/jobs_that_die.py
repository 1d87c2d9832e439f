"""Jobs whose process dies or hangs: here, where the processes of a batch find them."""

import os
import signal
import threading
from pathlib import Path


def die_but_here(here: int) -> None:
    """Ends any process but this one."""
    if os.getpid() != here:
        os._exit(3)


def end(job):
    """Job 2 ends its process."""
    if job == 2:
        os._exit(7)
    return job


def end_once(job):
    """Job 1 of a folder dies if nobody has died there yet, as by a kill from outside."""
    folder, number = job
    if number == 1:
        try:
            Path(folder, "died").touch(exist_ok=False)
        except FileExistsError:
            return number
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def hang(terms):
    """A run that, where its time is short, never looks at the clock again."""
    from quadsim.lab.campaign import flying

    flying.GRACE_S = 0.2
    with flying._limited(terms):
        if terms.limit_s < 1.0:
            threading.Event().wait()
    return "done"
