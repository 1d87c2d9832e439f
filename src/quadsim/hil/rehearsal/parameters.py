"""Rehearsal files: which stand-in flies through which obstacles, and what must hold."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field as made
from typing import Annotated

from quadsim.base.errors import InputError
from quadsim.base.parameters import Spec, Vec3
from quadsim.hil.rehearsal.link import LinkParams
from quadsim.hil.rehearsal.motion_capture import MotionCaptureParams
from quadsim.world.scene.obstacle_fields import FIELDS

#: What can be removed in flight.
LOSSES = ("motion_capture", "pose", "commands", "link", "scan", "dead_man", "planner")
#: Frames that can be wrong: from the enabling on, and from the beginning.
TURNED, Y_UP = "turned", "y_up"
#: A vehicle that answers yes, and does not land.
DEAF = "land"
#: The vehicle reports one pose, to the bit, under new stamps.
FROZEN = "frozen"
TROUBLES = (*LOSSES, TURNED, Y_UP, DEAF, FROZEN)
#: What of that can be in the graph of a real vehicle, which is told nothing of a rehearsal.
TROUBLES_ON_DDS = tuple(what for what in TROUBLES if what not in ("scan", "planner"))


@dataclass(frozen=True)
class TroubleParams:
    """Something is removed in flight, or a frame is wrong."""

    what: Annotated[
        str,
        Spec(
            "motion_capture: the vehicle is not seen; pose, commands, link: nothing comes through"
            " from, to, or either; scan, planner: silent; dead_man: released; turned: the vehicle"
            " flies commands in a frame that is rotated by angle_deg; y_up: poses are y up; land:"
            " the vehicle accepts to land, and does not; frozen: its pose stays the same to the"
            " bit, under new stamps",
            choices=TROUBLES,
        ),
    ]
    at_s: Annotated[float, Spec("after the guard was enabled", "s", ge=0.0, le=3600.0)]
    duration_s: Annotated[float, Spec("how long; 0: for good", "s", ge=0.0, le=3600.0)] = 0.0
    angle_deg: Annotated[
        float, Spec("of turned: to the left about up", "deg", ge=-180.0, le=180.0)
    ] = 0.0

    def __post_init__(self) -> None:
        """Refuse a turn that is none, and a y-up world that comes in flight."""
        if (self.what == TURNED) != (self.angle_deg != 0.0):
            raise InputError(
                f"angle_deg: {self.angle_deg:g} with {self.what}; allowed: other than 0 with"
                f" {TURNED}, and with that alone"
            )
        if self.what == Y_UP and (self.at_s, self.duration_s) != (0.0, 0.0):
            raise InputError(f"{Y_UP}: allowed: at_s 0 and no duration_s")

    @property
    def for_good(self) -> bool:
        """Whether it never ends."""
        return self.duration_s == 0.0

    def lasts(self, t_s: float) -> bool:
        """Whether it is there so long after the enabling."""
        return self.at_s <= t_s and not self.over(t_s)

    def over(self, t_s: float) -> bool:
        """Whether it has come and gone by then."""
        return not self.for_good and t_s - self.at_s >= self.duration_s


@dataclass(frozen=True)
class MemberParams:
    """One of several vehicles, each with a guard, a planner and a lidar of its own."""

    start_W_m: Annotated[Vec3, Spec("where it takes off to", "m", ge=-1e5, le=1e5)]
    goal_W_m: Annotated[Vec3, Spec("where it flies", "m", ge=-1e5, le=1e5)]


@dataclass(frozen=True)
class PassParams:
    """What must hold over all flights of a rehearsal."""

    collisions: Annotated[int, Spec("at most so many flights collide", ge=0)] = 0
    arrivals: Annotated[
        float, Spec("at least such a share of the flights arrives", "1", ge=0.0, le=1.0)
    ] = 0.95
    clearance_m: Annotated[
        float, Spec("smallest distance between hull and obstacle in any flight", "m", ge=0.0)
    ] = 0.0
    lands: Annotated[
        bool, Spec("every flight ends in a landing that the guard or the vehicle began")
    ] = False
    says: Annotated[
        str, Spec("words in every flight: the guard's, or its refusal to be enabled")
    ] = ""
    stop_s: Annotated[
        float, Spec("from a trouble to standing, at most; 0: not asked", "s", ge=0.0)
    ] = 0.0
    stop_over_m: Annotated[
        float,
        Spec("way from a trouble to standing beyond v x latency + v^2/(2 brake); 0: not asked", "m",
             ge=0.0),
    ] = 0.0  # fmt: skip


@dataclass(frozen=True)
class RehearsalParams:
    """The keys of a rehearsal file but for ``stand_in`` and ``lidar``."""

    description: Annotated[str, Spec("what it shows")] = ""
    field: Annotated[
        str, Spec("obstacles drawn from the seed; empty: world", choices=("", *FIELDS))
    ] = ""
    world: Annotated[str, Spec("a file of worlds, or a path: the virtual world")] = ""
    start_W_m: Annotated[Vec3, Spec("in world: where it takes off to", "m", ge=-1e5, le=1e5)] = (
        0.0,
        0.0,
        2.0,
    )
    goal_W_m: Annotated[Vec3, Spec("in world: where it flies", "m", ge=-1e5, le=1e5)] = (
        10.0,
        0.0,
        2.0,
    )
    fleet: Annotated[
        tuple[MemberParams, ...], Spec("in world: several vehicles; troubles are the first one's")
    ] = ()
    duration_s: Annotated[float, Spec("longest flight", "s", gt=0.0, le=3600.0)] = 90.0
    speed_mps: Annotated[
        float,
        Spec("limit of speed of planner and guard; 0: of their files", "m/s", ge=0.0, le=50.0),
    ] = 4.0
    arrival_radius_m: Annotated[
        float, Spec("from the goal, in which the vehicle has arrived", "m", gt=0.0, le=100.0)
    ] = 1.0
    mass_share: Annotated[
        tuple[float, float],
        Spec("true mass over what its autopilot believes: from, to", "1", ge=0.5, le=2.0),
    ] = (0.85, 1.2)
    gain_share: Annotated[
        tuple[float, float],
        Spec("gains over those of its autopilot's file: from, to", "1", ge=0.3, le=3.0),
    ] = (0.8, 1.1)
    sensors: Annotated[
        str,
        Spec(
            "a suite whose depth camera the computer sees by, as it is mounted there, instead of a"
            " level lidar; guard and planner are then depth unless they are given; empty: lidar"
        ),
    ] = ""
    guard: Annotated[str, Spec("a file of config/guards")] = "default"
    planner: Annotated[
        str, Spec("a file of config/planners, or a policy of velocities (.onnx, .pt)")
    ] = "default"
    motion_capture: MotionCaptureParams = made(default_factory=MotionCaptureParams)
    pose_link: LinkParams = made(default_factory=LinkParams)
    command_link: LinkParams = made(default_factory=LinkParams)
    troubles: Annotated[tuple[TroubleParams, ...], Spec("what is removed, or wrong")] = ()
    passes: PassParams = made(default_factory=PassParams)

    def __post_init__(self) -> None:
        """Refuse ranges that run backwards."""
        for name in ("mass_share", "gain_share"):
            low, high = getattr(self, name)
            if low > high:
                raise InputError(f"{name}: {[low, high]}; allowed: the smaller one first")
        if self.field and self.world:
            raise InputError(
                f"field, world: {self.field!r} and {self.world!r}; allowed: one of them"
            )
        if len(self.fleet) == 1 or (self.fleet and self.field):
            raise InputError(
                f"fleet: {len(self.fleet)} vehicles, field {self.field!r}; allowed: two or more, in"
                " a world"
            )
        for index, trouble in enumerate(self.troubles):
            if trouble.for_good and self.passes.arrivals > 0.0:
                raise InputError(
                    f"passes.arrivals: {self.passes.arrivals:g}, but troubles.{index}"
                    f" ({trouble.what}) is for good, and nobody arrives then; allowed: 0.0, or a"
                    " trouble with a duration_s"
                )
