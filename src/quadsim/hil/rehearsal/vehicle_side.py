"""The vehicle's side of a rehearsal: stand-in, both radio links, what moves around it, its judge.

Both ways to rehearse share it: in one process the links end at :class:`HilSide`, on DDS at the
topics of the node ``stand_in``.
"""

from __future__ import annotations

import math

from quadsim.base.noise import stream
from quadsim.base.parameters import Vec3
from quadsim.firmware.fly import flown_by
from quadsim.hil.rehearsal.hil_side import NAME
from quadsim.hil.rehearsal.judge import Judge, hull_radius_m
from quadsim.hil.rehearsal.link import Link
from quadsim.hil.rehearsal.parameters import Y_UP
from quadsim.hil.rehearsal.rehearsal import Rehearsal
from quadsim.hil.rehearsal.stand_in import StandIn, Telemetry, VehicleCommand
from quadsim.hil.rehearsal.stopping import StopWatch
from quadsim.sim.scenario import Scenario
from quadsim.world.scene.movers import Movers
from quadsim.world.scene.scene import Scene

#: A vehicle reports its pose so long after it last heard of motion capture, s.
DEAD_RECKONING_S = 0.5
#: At which the vehicle reports its pose, Hz.
POSE_RATE_HZ = 50.0
#: A vehicle that is slower has arrived, m/s.
ARRIVED_MPS = 0.5


class VehicleSide:
    """See the module.

    Args:
        scene: obstacles that the judge looks at.

    Attributes:
        begun_ns: the vehicle's time at which the flight began; None before.
        ended_ns: likewise its end.
        reason: how it ended; empty before.
        landing: why the vehicle lands; empty while it does not.
        missing: troubles that act now.
        appeared: names of movers that have appeared since somebody cleared it.
        gap_m: from hull to obstacle now.
        way_m, speed_mps: flown so far, and the largest true speed.
    """

    def __init__(self, rehearsal: Rehearsal, scenario: Scenario, scene: Scene) -> None:
        params, seed = rehearsal.params, rehearsal.seed
        self.rehearsal = rehearsal
        self._flown = None
        if (firmware := rehearsal.firmware) is not None:
            self._flown = flown_by(
                firmware.name, scenario, firmware.executable, firmware.parameters, firmware.port,
                firmware.rate,
            )  # fmt: skip
        try:
            self.vehicle = StandIn(scenario, params.motion_capture, DEAD_RECKONING_S, self._flown)
        except BaseException:
            self.close()
            raise
        self.vehicle.is_y_up = any(trouble.what == Y_UP for trouble in params.troubles)
        self.poses: Link[Telemetry] = Link(params.pose_link, stream(seed, NAME, "pose_link"))
        self.commands: Link[VehicleCommand] = Link(
            params.command_link, stream(seed, NAME, "command_link")
        )
        self.movers = Movers(rehearsal.field.movers)
        self.judge = Judge(scene, hull_radius_m(rehearsal.scenario.vehicle))
        self.stopping = StopWatch(rehearsal.guard)
        self.begun_ns: int | None = None
        self.ended_ns: int | None = None
        self.reason = self.landing = ""
        self.missing: set[str] = set()
        self.appeared: list[str] = []
        self.gap_m = math.inf
        self.way_m = self.speed_mps = 0.0
        self._pose_ns = round(1e9 / POSE_RATE_HZ)
        self._before_W: Vec3 | None = None

    def close(self) -> None:
        """End what flies it."""
        if self._flown is not None:
            self._flown.close()

    @property
    def t_s(self) -> float:
        """Time since the flight began, until it ended; below 0 before."""
        if self.begun_ns is None:
            return -1.0
        now_ns = self.vehicle.stamp_ns if self.ended_ns is None else self.ended_ns
        return (now_ns - self.begun_ns) * 1e-9

    def truth(self) -> tuple[Vec3, Vec3]:
        """True position and velocity of the vehicle in W, the frame of the poses."""
        true = self.vehicle.state["truth"][0]
        said_W = self.vehicle.said_W
        return said_W(tuple(true["p_W"].tolist())), said_W(tuple(true["v_W"].tolist()))

    def begin(self) -> None:
        """The vehicle is flown from now on."""
        if self.begun_ns is None:
            self.begun_ns = self.vehicle.stamp_ns

    def tick(self) -> bool:
        """Fly on by one tick of the vehicle; whether a pose was due."""
        before_ns = self.vehicle.stamp_ns
        self.vehicle.tick()
        self.look()
        is_due = self.vehicle.stamp_ns // self._pose_ns > before_ns // self._pose_ns
        telemetry = self.vehicle.telemetry() if is_due else None
        if telemetry is not None:
            self.poses.send(self.vehicle.stamp_ns, telemetry)
        return is_due

    def look(self) -> None:
        """What the true motion comes to: movers, troubles, clearance, way."""
        if self.begun_ns is None or self.ended_ns is not None:
            return
        (p_W, v_W), t_s = self.truth(), self.t_s
        self.appeared += self.movers.update(t_s, p_W, v_W)
        self.gap_m = self.judge.look(p_W, self.movers)
        self.speed_mps = max(self.speed_mps, math.hypot(*v_W))
        if self._before_W is not None:
            self.way_m += math.dist(p_W, self._before_W)
        self._before_W = p_W
        troubles = self.rehearsal.params.troubles
        for trouble in troubles:
            self.stopping.begin(trouble, t_s, p_W, v_W)
        self.missing = self.vehicle.make_trouble(troubles, t_s)
        self.poses.cut = bool(self.missing & {"pose", "link"})
        self.commands.cut = bool(self.missing & {"commands", "link"})
        self.stopping.look(t_s, p_W, v_W)
        manager = self.vehicle.manager
        if "landing" in manager.state:
            self.landing_began(f"vehicle: {manager.reason or manager.state}")

    def landing_began(self, why: str) -> None:
        """Take note that somebody lands the vehicle, the first time."""
        if not self.landing:
            self.landing = why
            self.stopping.landing_began(self.t_s)

    def ending(self) -> str:
        """Why the flight is over; empty while it is not."""
        vehicle, params = self.vehicle, self.rehearsal.params
        if vehicle.manager.finished:
            return f"landed: {self.landing}"
        if vehicle.over and vehicle.stamp_ns < vehicle.end_ns:
            return f"crashed: {vehicle.events[-1].message}"
        if self.begun_ns is None:
            return ""
        if self.judge.collided:
            x, y, _ = self.judge.at_W
            return f"collided at ({x:.1f}, {y:.1f}) m"
        p_W, v_W = self.truth()
        near = math.dist(p_W, self.rehearsal.field.goal_W) < params.arrival_radius_m
        calm = all(trouble.over(self.t_s) for trouble in params.troubles)
        if near and math.hypot(*v_W) < ARRIVED_MPS and calm:
            return "arrived"
        return "out of time" if self.t_s >= params.duration_s else ""
