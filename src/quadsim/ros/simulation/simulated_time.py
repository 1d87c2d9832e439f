"""What makes simulated time, in ``dynamics`` and ``swarm``: its services, its pace, its report."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from std_srvs.srv import SetBool, Trigger

from quadsim.base.errors import InputError, shown
from quadsim.base.files import find_world, known_worlds
from quadsim.ros.messages.cdr import put_xyz
from quadsim.ros.runtime.base import QuadsimNode
from quadsim.ros.runtime.pacing import WallClock
from quadsim.ros.simulation.entity_services import EntityServices
from quadsim.ros.simulation.interfaces import Interfaces, RefusedError
from quadsim.ros.simulation.spawned import SimulatedWorld, Spawned
from quadsim.ros.simulation.spawning import FORMATS, SpawnServices
from quadsim.world.sdf.world_file import load_frames

TELLS = (
    "quadsim: vehicles are those of the launch and can be moved; SDF models of boxes, spheres,"
    " cylinders and meshes can be spawned as obstacles; of the world's own obstacles there are no"
    " entities (docs/simulation-interfaces.md)"
)
#: Steps of one request, at most: nobody is answered meanwhile.
MOST_STEPS = 100_000


class WorldServices:
    """Offers them.

    Args:
        name: of the world that is flown in: a file of worlds, or a path.
    """

    def __init__(self, interfaces: Interfaces, name: Callable[[], str]) -> None:
        self._interfaces, self._name = interfaces, name
        interfaces.offer("GetCurrentWorld", self._current, "WORLD_INFO_GETTING")
        interfaces.offer("GetAvailableWorlds", self._available, "AVAILABLE_WORLDS")
        interfaces.offer("GetNamedPoses", self._poses, "NAMED_POSES")

    def _current(self, _: Any, response: Any) -> None:
        _fill(response.world, find_world(self._name()))

    def _available(self, request: Any, response: Any) -> str:
        """The shipped worlds; none has a tag."""
        for name in () if request.filter.tags else known_worlds():
            world = self._interfaces.message("WorldResource")()
            _fill(world, find_world(name))
            response.worlds.append(world)
        unknown = ", ".join(shown(source) for source in request.additional_sources[:10])
        return f"sources that are not known: {unknown}" if unknown else ""

    def _poses(self, request: Any, response: Any) -> None:
        """The frames of the world file; none has a tag."""
        frames = {} if request.tags.tags else load_frames(find_world(self._name()))
        for name, pose_W in frames.items():
            named = self._interfaces.message("NamedPose")()
            named.name, named.description = name, "a <frame> of the world file"
            put_xyz(named.pose.position, pose_W.p_A)
            turn = named.pose.orientation
            turn.w, turn.x, turn.y, turn.z = pose_W.q_AB
            response.poses.append(named)


def _fill(world: Any, path: Path) -> None:
    """Write a world file into a WorldResource; 2.0 has another name for the resource."""
    world.name = path.stem
    resource = getattr(world, "world_resource", None) or world.level_resource
    resource.uri = path.resolve().as_uri()


class Steppable(Protocol):
    """What makes simulated time; :class:`~quadsim.ros.simulation.simulated_time.SimulatedTime`."""

    paused: bool

    @property
    def now_ns(self) -> int:
        """Simulated time."""
        ...

    def pause(self, paused: bool) -> None:
        """Stop simulated time, or let it go on."""
        ...

    def reset(self) -> str:
        """Bring the vehicles back to the start; why not, in words."""
        ...

    def step(self) -> int:
        """Make one step; simulated time, ns."""
        ...


class SimulationServices:
    """Offers the services."""

    def __init__(
        self, node: Any, simulation: Steppable, world: SimulatedWorld, spawned: Spawned
    ) -> None:
        self._simulation, self._spawned = simulation, spawned
        self._stopped_ns = -1  # when it was stopped
        self._interfaces = interfaces = Interfaces(node)
        offer = interfaces.offer
        offer("GetSimulatorFeatures", self._features)
        offer("GetSimulationState", self._state, "SIMULATION_STATE_GETTING")
        setting = ("SIMULATION_STATE_SETTING", "SIMULATION_STATE_PAUSE")
        offer("SetSimulationState", self._set_state, *setting)
        scopes = ("SIMULATION_RESET", "SIMULATION_RESET_STATE", "SIMULATION_RESET_SPAWNED")
        offer("ResetSimulation", self._reset, *scopes)
        steps = ("STEP_SIMULATION_SINGLE", "STEP_SIMULATION_MULTIPLE")
        offer("StepSimulation", self._step, *steps)
        EntityServices(interfaces, world, spawned)
        SpawnServices(interfaces, world, spawned)
        WorldServices(interfaces, world.name)

    @property
    def _now(self) -> int:
        """The state that it is in."""
        states, simulation = self._interfaces.message("SimulationState"), self._simulation
        if not simulation.paused:
            return int(states.STATE_PLAYING)
        stopped = simulation.now_ns == self._stopped_ns
        return int(states.STATE_STOPPED if stopped else states.STATE_PAUSED)

    def _features(self, _: Any, response: Any) -> None:
        known = self._interfaces.message("SimulatorFeatures")
        names = [name for name in self._interfaces.features if hasattr(known, name)]
        response.features.features = [getattr(known, name) for name in names]
        response.features.spawn_formats = list(FORMATS)
        response.features.custom_info = TELLS

    def _state(self, _: Any, response: Any) -> None:
        response.state.state = self._now

    def _set_state(self, request: Any, _: Any) -> None:
        """Play, pause, or stop, which is to pause and to reset."""
        wanted, states = request.state.state, self._interfaces.message("SimulationState")
        if wanted == self._now:
            raise RefusedError("ALREADY_IN_TARGET_STATE", "it is in that state")
        if wanted not in (states.STATE_STOPPED, states.STATE_PLAYING, states.STATE_PAUSED):
            raise RefusedError("RESULT_FEATURE_UNSUPPORTED", "end the graph by a signal")
        if wanted == states.STATE_PAUSED and self._now == states.STATE_STOPPED:
            raise RefusedError("INCORRECT_TRANSITION", "it is stopped; play first")
        if wanted == states.STATE_STOPPED:
            try:
                self._begin_anew(all_of_it=True)
            except InputError as error:
                raise RefusedError("STATE_TRANSITION_ERROR", str(error)) from None
        self._simulation.pause(wanted != states.STATE_PLAYING)
        if wanted == states.STATE_STOPPED:
            self._stopped_ns = self._simulation.now_ns

    def _reset(self, request: Any, _: Any) -> None:
        """Vehicles back to their start; time goes on, so that no node sees it jump."""
        kind, scope = type(request), request.scope
        whole = scope in (kind.SCOPE_DEFAULT, kind.SCOPE_ALL)
        if not whole and scope & ~(kind.SCOPE_STATE | kind.SCOPE_SPAWNED):
            words = "allowed: SCOPE_STATE, _SPAWNED, _DEFAULT, _ALL; simulated time goes on"
            raise RefusedError("RESULT_FEATURE_UNSUPPORTED", words)
        if whole or scope & kind.SCOPE_STATE:
            self._begin_anew(all_of_it=bool(whole or scope & kind.SCOPE_SPAWNED))
        else:
            self._spawned.remove(*self._spawned.entities)

    def _begin_anew(self, all_of_it: bool) -> None:
        """Vehicles to the start, and what was spawned gone, or where it was spawned."""
        refused = self._simulation.reset()
        if refused:
            raise InputError(refused)
        if all_of_it:
            self._spawned.remove(*self._spawned.entities)
        self._spawned.restart()

    def _step(self, request: Any, _: Any) -> None:
        if not self._simulation.paused:
            raise InputError("it plays; pause first")
        if request.steps > MOST_STEPS:
            raise InputError(f"{request.steps} steps; allowed: at most {MOST_STEPS} at a time")
        for _step in range(request.steps):
            self._simulation.step()


class SimulatedTime:
    """Services ``/sim/pause``, ``/sim/reset``, ``/sim/step``, and the tie to the wall clock.

    Besides them those of :class:`~quadsim.ros.simulation.simulated_time.SimulationServices`.

    Args:
        period_ns: length of a step.
        rate: simulated over wall time; 0: not paced.
        paused: whether it begins so.
        reset: brings the vehicles back to the start; why not, in words.

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
