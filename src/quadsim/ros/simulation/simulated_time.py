"""What makes simulated time, in ``dynamics`` and ``swarm``: its services, its pace, its report."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from std_srvs.srv import SetBool, Trigger

from quadsim.ros.runtime.base import QuadsimNode
from quadsim.ros.runtime.pacing import WallClock
from quadsim.ros.simulation.simulation_services import SimulationServices
from quadsim.ros.simulation.spawned import SimulatedWorld, Spawned


class SimulatedTime:
    """Services ``/sim/pause``, ``/sim/reset``, ``/sim/step``, and the tie to the wall clock.

    Besides them those of :class:`~quadsim.ros.simulation.simulation_services.SimulationServices`.

    Args:
        node: whose services these are.
        period_ns: length of a step.
        rate: simulated over wall time; 0: not paced.
        paused: whether it begins so.
        step: makes one step.
        reset: brings the vehicles back to the start; why not, in words.
        world: what is simulated.

    Attributes:
        restarted_ns: steady time at which time last began to go on.
        spawned: what was spawned into the world.
    """

    def __init__(
        self,
        node: QuadsimNode,
        period_ns: int,
        rate: float,
        paused: bool,
        step: Callable[[], None],
        reset: Callable[[], str],
        world: SimulatedWorld,
    ) -> None:
        self.wall = WallClock(period_ns, rate or 1.0)
        self.paused = paused
        self._now_ns, self._make_step, self.reset = world.now_ns, step, reset
        self.spawned = Spawned(node, world)
        self.restart()
        self._reported = time.monotonic_ns(), 0
        node.create_service(SetBool, "/sim/pause", self._on_pause)
        node.create_service(Trigger, "/sim/reset", self._on_reset)
        node.create_service(Trigger, "/sim/step", self._on_step)
        SimulationServices(node, self, world, self.spawned)

    @property
    def words(self) -> str:
        """Whether it goes on."""
        return "paused" if self.paused else "running"

    def restart(self) -> None:
        """Simulated time goes on from here and from the next :meth:`tie`."""
        self._tied = False
        self.restarted_ns = time.monotonic_ns()

    def tie(self) -> None:
        """Let it be the wall time now, if it is not tied."""
        if not self._tied:
            self._tied = True
            self.wall.tie(self._now_ns(), time.monotonic_ns())

    def steps_due(self, wall_ns: int) -> int:
        """Steps that are due at a wall time."""
        return self.wall.steps_due(self._now_ns(), wall_ns)

    @property
    def now_ns(self) -> int:
        """Simulated time."""
        return self._now_ns()

    def pause(self, paused: bool) -> None:
        """Stop simulated time, or let it go on."""
        self.paused = paused
        self.restart()

    def step(self) -> int:
        """Make one step; simulated time, ns."""
        self._make_step()
        return self._now_ns()

    def _on_pause(self, request: Any, response: Any) -> Any:
        self.pause(request.data)
        response.success, response.message = True, self.words
        return response

    def _on_reset(self, _: Any, response: Any) -> Any:
        """All as the scenario states; time goes on, so that no node sees it jump."""
        response.message = self.reset()
        response.success = not response.message
        if response.success:
            self.spawned.remove(*self.spawned.entities)
        return response

    def _on_step(self, _: Any, response: Any) -> Any:
        response.success, response.message = self.paused, "pause first"
        if self.paused:
            response.message = f"t = {self.step() * 1e-9:.4f} s"
        return response

    def values(self) -> dict[str, Any]:
        """Time and pace since the last call, for ``/diagnostics``."""
        wall_ns, sim_ns = time.monotonic_ns(), self._now_ns()
        before_wall_ns, before_sim_ns = self._reported
        self._reported = wall_ns, sim_ns
        return {
            "time_s": sim_ns * 1e-9,
            "paused": str(self.paused).lower(),
            "real_time_factor": (sim_ns - before_sim_ns) / max(1, wall_ns - before_wall_ns),
            "slips": self.wall.slips,
            "slipped_s": self.wall.slipped_ns * 1e-9,
        }
