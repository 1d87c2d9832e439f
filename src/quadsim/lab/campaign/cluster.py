"""A Dask cluster as a place where jobs are done, as the processes of this machine are."""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import Executor, Future
from typing import Any

from quadsim.base.errors import InputError
from quadsim.base.extras import need

#: How long the scheduler and its first worker are waited for.
PATIENCE_S = 20.0

#: A task takes one to three milliseconds of the scheduler, however short it is (docs/scale.md): so
#: long ones keep a thousand workers busy, and little is flown again where one is lost.
TASK_S = 20.0

#: How often it is asked how many workers there are.
LOOK_S = 5.0


class Cluster:
    """The workers of a Dask scheduler; they come and go as they like.

    Args:
        address: of the scheduler, as ``tcp://host:8786``.
        patience_s: how long it and its first worker are waited for.

    Raises:
        InputError: Dask is not installed, nobody answers, or there is no worker.
    """

    all_die = False
    task_s = TASK_S

    def __init__(self, address: str, patience_s: float = PATIENCE_S) -> None:
        distributed = need("distributed", "--dask")
        self.death: type[BaseException] = distributed.KilledWorker
        words = "no scheduler answers there; start one: dask scheduler"
        self._client: Any = None
        try:
            self._client = distributed.Client(address, timeout=patience_s, set_as_default=False)
            words = "the scheduler has no worker; start one:"
            words += f" dask worker {address} --nthreads 1 --nworkers auto"
            self._client.wait_for_workers(1, timeout=patience_s)
        except (OSError, ValueError, RuntimeError):  # a TimeoutError is an OSError
            if self._client is not None:
                self._client.close()
            raise InputError(f"--dask {address}: {words}") from None
        self._width, self._looked_s = 0, -LOOK_S

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *error: object) -> None:
        self._client.close()

    def executor(self) -> Executor:
        """What takes jobs."""
        found: Executor = self._client.get_executor(pure=False)
        return found

    def width(self) -> int:
        """How many jobs are done at once, as of a moment ago."""
        if time.monotonic() - self._looked_s >= LOOK_S:
            self._width = max(1, sum(self._client.nthreads().values()))
            self._looked_s = time.monotonic()
        return self._width

    def end(self, underway: Iterable[Future[Any]]) -> None:
        """Take back the jobs that have not begun; those that have come to their end."""
        for future in underway:
            future.cancel()
