"""Time limits of tests, in which the time that kernels take to compile does not count."""

import faulthandler
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import quadsim  # noqa: F401 - chooses the folder of the kernels before Numba is imported

# isort: split
from numba.core import event

#: After its time-out a test that nothing could interrupt has so much longer, s.
GRACE_S = 30.0
#: The longest that kernels take to compile on a machine full of other work, s.
COMPILE_S = 1200.0


class Watch:
    """Ends a worker whose test hangs where Python cannot interrupt it, and says where it does.

    The run names the test as one that crashed, and goes on with another worker.
    """

    _stderr: int | None = None

    def start(self, limit_s: float, stderr: int) -> None:
        """Watch a test; pytest-timeout starts its own clock."""
        self._stderr = stderr
        faulthandler.dump_traceback_later(limit_s + GRACE_S, exit=True, file=stderr)

    def stop(self) -> None:
        """Leave the test, which has ended."""
        faulthandler.cancel_dump_traceback_later()
        self._stderr = None

    @contextmanager
    def compiling(self) -> Iterator[None]:
        """Let this time not count, here and in pytest-timeout."""
        left_s = self._set(COMPILE_S)
        try:
            yield
        finally:
            self._set(left_s)

    def _set(self, limit_s: float) -> float:
        """Set the clocks that run, s; what was left of pytest-timeout's, 0 if it does not run."""
        left_s = signal.getitimer(signal.ITIMER_REAL)[0]
        if limit_s > 0.0 and left_s > 0.0:
            signal.setitimer(signal.ITIMER_REAL, limit_s)
            if self._stderr is not None:
                self.start(limit_s, self._stderr)
        return left_s


class Compilations(event.Listener):
    """Those of Numba; a kernel's calls of others are compiled within its own compilation."""

    def __init__(self, watch: Watch) -> None:
        self._watch, self._depth = watch, 0

    def on_start(self, _: event.Event) -> None:
        """Stop the clocks at the outermost."""
        self._depth += 1
        if self._depth == 1:
            self._uncounted = self._watch.compiling()
            self._uncounted.__enter__()

    def on_end(self, _: event.Event) -> None:
        """Let them go on."""
        self._depth -= 1
        if self._depth == 0:
            self._uncounted.__exit__(None, None, None)


WATCH = Watch()
event.register("numba:compile", Compilations(WATCH))
