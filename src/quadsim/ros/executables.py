"""The executables of the nodes: quiet when they are told to end while they still import.

A node imports for seconds. Every name of ``ros/nodes`` is here as a function, which imports nothing
before SIGINT and SIGTERM end the process without a word, and before somebody watches over whoever
launched it.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable

#: Process that the node is not to outlive, by its id: set for what a launch file starts.
LAUNCHER = "QUADSIM_LAUNCHER"
#: Time for a clean end after the launcher's, s.
END_S = 20.0


def follow_launcher() -> None:
    """End with the process that launched this one, however that ends.

    A file descriptor of a process tells of its end, as a signal at the parent's death would; but
    that comes with the end of the parent's thread already, and another process may be between.
    """
    text = os.environ.get(LAUNCHER, "")
    if not text.isdecimal():
        return
    try:
        launcher = os.pidfd_open(int(text))
    except ProcessLookupError:
        sys.exit("quadsim: whoever launched this node has ended")
    except OSError:  # a kernel or a container without
        return

    def wait() -> None:
        select.select([launcher], [], [])
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(END_S)  # nobody else is left to end it
        os._exit(1)

    threading.Thread(target=wait, name="launcher", daemon=True).start()


def __getattr__(name: str) -> Callable[[], None]:
    """The ``main`` of a node."""
    if name.startswith("_"):
        raise AttributeError(name)

    def main() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: os._exit(0))
        follow_launcher()
        from quadsim.ros.nodes import node_module

        node_module(name).main()

    return main
