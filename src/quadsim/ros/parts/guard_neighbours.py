"""What guards of several vehicles tell each other: where each will be until it stands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from geometry_msgs.msg import Point32, PolygonStamped

from quadsim.base.errors import InputError
from quadsim.base.parameters import Spec
from quadsim.hil.guard.guard import Guard
from quadsim.ros.messages.cdr import checked_stamp, refuse, xyz
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.base import QuadsimNode
from quadsim.ros.runtime.frames import FrameCheck
from quadsim.ros.runtime.params import declare, declare_texts

#: Frame of every reach.
FRAME = "map"


@dataclass(frozen=True)
class NeighbourSizeParams:
    """How large other vehicles are, and how fast they can come."""

    keep_out_m: Annotated[
        tuple[float, ...],
        Spec("about the centre of each: radius and error of its pose", "m", gt=0.0, le=100.0),
    ] = ()
    growth_mps: Annotated[
        tuple[float, ...],
        Spec("most by which the reach of each grows; none: as one's own", "m/s", gt=0.0, le=1e4),
    ] = ()


class GuardNeighbours:
    """The other guards of a graph, by ``/NAME/guard/reach``; nothing where there are none.

    Parameters: ``neighbours.names``, ``neighbours.keep_out_m``, ``neighbours.growth_mps``.

    Args:
        node: of the guard.
        guard: the guard now; another one after time went back.
        now_ns: the watchdogs' clock.
    """

    def __init__(
        self, node: QuadsimNode, guard: Callable[[], Any], now_ns: Callable[[], int]
    ) -> None:
        names = declare_texts(node, "neighbours.names", "vehicles with guards of their own")
        sizes = declare(node, NeighbourSizeParams(), "neighbours.")
        self._radii_m = self._each(node, "keep_out_m", names, sizes.keep_out_m)
        growths = sizes.growth_mps
        self._growths_mps = self._each(node, "growth_mps", names, growths) if growths else None
        self._node = node
        self._guard, self._now_ns, self._clock = guard, now_ns, node.get_clock()
        self._publisher = node.offer(topics.GUARD_REACH) if names else None
        for name in names:
            topic = topics.full_name(f"/{name}", topics.GUARD_REACH.name)
            check = FrameCheck(node, topic, "frames.pose", FRAME)
            take = partial(self._on_reach, name, check)
            node.listen(topics.GUARD_REACH, take, topic, raw=False, reliable=False)

    @staticmethod
    def _each(
        node: QuadsimNode, key: str, names: list[str], numbers: tuple[float, ...]
    ) -> dict[str, float]:
        """A number for each of them."""
        if len(numbers) != len(names):
            raise InputError(
                f"node {node.get_fully_qualified_name()}: parameter neighbours.{key}:"
                f" {len(numbers)} numbers; allowed: one for each of {len(names)} neighbours"
            )
        return dict(zip(names, numbers, strict=True))

    def expect(self) -> None:
        """Tell a new guard of them."""
        guard = self._guard()
        if isinstance(guard, Guard):
            guard.expect_neighbours(self._radii_m, self._growths_mps)

    def _on_reach(self, name: str, check: FrameCheck, message: Any) -> None:
        check.check(message.header.frame_id)
        refuse(self._node.rivals(check.topic) or None)
        stamp = message.header.stamp
        stamp_ns = checked_stamp(stamp.sec, stamp.nanosec)
        points_W = [xyz(point) for point in message.polygon.points]
        refuse(self._guard().take_neighbour(name, stamp_ns, self._now_ns(), points_W))

    def tell(self, now_ns: int) -> None:
        """Tell the others where the vehicle will be."""
        reach_W = None if self._publisher is None else self._guard().reach(now_ns)
        if reach_W is None or self._publisher is None:
            return
        message = PolygonStamped()
        message.header.frame_id, message.header.stamp = FRAME, self._clock.now().to_msg()
        message.polygon.points = [Point32(x=x, y=y, z=z) for x, y, z in reach_W.tolist()]
        self._publisher.publish(message)
