"""Runs a program and prints, as JSON on its own stdout, what that used.

It is run as a script by a Python without site packages: a program's peak memory counts from that of
the process that starts it, which is therefore a small one.

``python -I -S beside.py STDOUT STDERR PROGRAM ARGUMENT ...``
"""

from __future__ import annotations

import json
import os
import sys
import time


def main(stdout: str, stderr: str, command: list[str]) -> None:
    """Start it with its output in these files, wait for its end, print."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    files = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, stdout, flags, 0o600),
        (os.POSIX_SPAWN_OPEN, 2, stderr, flags, 0o600),
    ]
    begin_s = time.perf_counter()
    program = os.posix_spawn(command[0], command, os.environ, file_actions=files)
    _, status, used = os.wait4(program, 0)
    found = {
        "status": os.waitstatus_to_exitcode(status),
        "wall_s": time.perf_counter() - begin_s,
        "processor_s": used.ru_utime + used.ru_stime,
        "peak_mb": used.ru_maxrss / 1e3,
    }
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
