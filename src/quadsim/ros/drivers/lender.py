"""What a virtual device measures, on its way to the vehicle."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from quadsim.base.errors import InputError
from quadsim.drivers.driver import Driver
from quadsim.drivers.loans import LENT, lent_as
from quadsim.ros.drivers.outlet import Outlet
from quadsim.ros.drivers.services import set_fields
from quadsim.ros.messages.cdr import Reader, stamp_of
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.base import QuadsimNode
from quadsim.ros.runtime.packages import is_installed, lost


class Lender:
    """Sends each message of one of our topics to the first driver that takes it.

    Args:
        ours: a key of :data:`quadsim.drivers.loans.LENT`.
        full: full name of a driver's topic.

    Attributes:
        sent: how many went out.

    Raises:
        InputError: no driver takes it here.
    """

    def __init__(
        self,
        node: QuadsimNode,
        drivers: Sequence[Driver],
        ours: str,
        full: Callable[[Driver, str], str],
    ) -> None:
        takers = [(d, loan) for d in drivers for loan in d.loans if loan.ours == ours]
        usable = [(driver, loan) for driver, loan in takers if is_installed(loan.type)]
        if not usable:
            why = "; ".join(lost([(ours, loan.type) for _, loan in takers]))
            raise InputError(
                f"lend: {ours}: {why or 'no driver file of the chain has it in loans'}"
            )
        driver, self._said = usable[0]
        self._outlet = Outlet(node, self._said, full(driver, self._said.name))
        self._reader, self.ours, self.sent = Reader(LENT[ours]), ours, 0
        node.listen(topics.SENSORS[ours], self._take)

    def _take(self, payload: bytes) -> None:
        numbers, now_ns = self._reader.read(payload), time.time_ns()
        set_fields(
            self._outlet.message, lent_as(self._said, numbers, stamp_of(payload) or now_ns, now_ns)
        )
        self._outlet.publish()
        self.sent += 1

    def look(self) -> str:
        """What is wrong with who listens and who else publishes; empty: nothing."""
        return self._outlet.look()
