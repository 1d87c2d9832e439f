"""Motion capture, or another pose from outside, on its way into the vehicle's own estimator."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from quadsim.base.compiled import new_record
from quadsim.base.errors import InputError
from quadsim.base.records import KINEMATICS
from quadsim.drivers.driver import Driver
from quadsim.drivers.outward import OutsidePose, relayed_as
from quadsim.hil.guard.pose import refused_pose
from quadsim.ros.drivers.outlet import Outlet
from quadsim.ros.drivers.services import set_fields
from quadsim.ros.messages.cdr import MessageError, stamp_of
from quadsim.ros.parts.truth_input import POSES
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.base import QuadsimNode
from quadsim.ros.runtime.packages import is_installed, lost


class Relay:
    """Sends each pose that comes to the first driver that takes poses, with the pose's stamp.

    Args:
        node: whose endpoints they are.
        drivers: their files.
        kind: ``pose`` (external/pose_stamped) or ``odometry`` (external/odom).
        full: full name of a driver's topic.

    Attributes:
        sent: how many poses went out.

    Raises:
        InputError: no driver takes poses here.
    """

    def __init__(
        self,
        node: QuadsimNode,
        drivers: Sequence[Driver],
        kind: str,
        full: Callable[[Driver, str], str],
    ) -> None:
        takers = [(driver, relay) for driver in drivers for relay in driver.relays]
        usable = [(driver, relay) for driver, relay in takers if is_installed(relay.type)]
        if not usable:
            needs = [("relay", relay.type) for _, relay in takers]
            why = "; ".join(lost(needs)) or "no driver file of the chain has relays"
            raise InputError(f"relay: {kind}: {why}")
        driver, self._said = usable[0]
        self._outlet = Outlet(node, self._said, full(driver, self._said.name))
        self._record = new_record(KINEMATICS)
        topic, reader = POSES[kind]
        if kind == "odometry":
            topic = topics.EXTERNAL_ODOMETRY
        self._reader = reader(self._record)
        self.sent = 0
        node.listen(topic, self._take, reliable=False)

    def _take(self, payload: bytes) -> None:
        self._reader.read(payload)
        p_W, q_WB = self._record["p_W"].tolist(), self._record["q_WB"].tolist()
        refusal = refused_pose(tuple(p_W), tuple(q_WB))
        if refusal:
            raise MessageError(f"not relayed: {refusal}")
        sent_ns = time.time_ns()
        pose = OutsidePose(stamp_of(payload) or sent_ns, sent_ns, tuple(p_W), tuple(q_WB))
        set_fields(self._outlet.message, relayed_as(self._said, pose))
        self._outlet.publish()
        self.sent += 1

    def look(self) -> str:
        """What is wrong with who listens and who else publishes; empty: nothing."""
        return self._outlet.look()
