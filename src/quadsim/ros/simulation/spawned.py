"""What was spawned into the world of ``dynamics`` or ``swarm``, and who is told of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from quadsim.base.compiled import new_record, plain
from quadsim.base.records import KINEMATICS
from quadsim.geometry.rotation import unrotate
from quadsim.ros.messages.markers import obstacle_markers
from quadsim.ros.runtime import topics
from quadsim.sensors.error_terms import due
from quadsim.sim.log import OK
from quadsim.world.entities import Drift, Entity
from quadsim.world.scene.moving_scene import scene_with
from quadsim.world.scene.obstacles import Obstacle, Pose
from quadsim.world.scene.scene import Scene

#: Between two messages of what moves, ns.
PERIOD_NS = 20_000_000


@dataclass(frozen=True)
class SimulatedWorld:
    """What a node simulates, as services see it.

    Attributes:
        name: of the world, a file of worlds or a path.
        now_ns: simulated time.
        truths: name of each vehicle to its KINEMATICS now.
        place: puts a vehicle of a name into the pose and velocities of a KINEMATICS.
        outline_m: radius and height of a vehicle about its centre.
        scene: of the world, without what was spawned.
        see: lets all fly in another scene.
        tell: reports on every vehicle's ``events`` that something happened: level, name, words.
    """

    name: Callable[[], str]
    now_ns: Callable[[], int]
    truths: Callable[[], Mapping[str, Any]]
    place: Callable[[str, Any], None]
    outline_m: Callable[[], tuple[float, float]]
    scene: Callable[[], Scene]
    see: Callable[[Scene], None]
    tell: Callable[[int, str, str], None]


class Spawned:
    """The entities by name; whatever changes is in the physics and on ``/obstacles`` at once."""

    def __init__(self, node: Any, world: SimulatedWorld) -> None:
        self._node, self._world = node, world
        self._output: Any = None
        self._moving: list[Entity] = []
        self._still: Scene | None = None  # the world with what stands still
        self.entities: dict[str, Entity] = {}
        self.infos: dict[str, Any] = {}  # EntityInfo that was set, of vehicles too

    def add(self, name: str, entity: Entity) -> None:
        """Put something into the world, or where it is from now on."""
        known = name in self.entities
        self.entities[name] = entity
        self._show()
        if not known:
            self._world.tell(OK, "spawned", name)

    def move(self, name: str, pose_W: Pose, v_W: Any, w_W: Any) -> None:
        """Let one go on from here."""
        course = Drift(pose_W, v_W, w_W, self._world.now_ns())
        self.add(name, replace(self.entities[name], course=course))

    def remove(self, *names: str) -> None:
        """Take some out of the world."""
        for name in names:
            del self.entities[name]
            self.infos.pop(name, None)
            self._world.tell(OK, "deleted", name)
        if names:
            self._show()

    def restart(self) -> None:
        """Put each where it was spawned: the node's world has just begun anew."""
        for name, entity in self.entities.items():
            self.entities[name] = replace(entity, course=entity.start)
        if self.entities:
            self._show()

    def obstacles(self, name: str) -> list[Obstacle]:
        """The shapes of one as they are now."""
        return self.entities[name].obstacles(self._world.now_ns())

    def motion(self, name: str) -> Any:
        """KINEMATICS of one now."""
        record, course = new_record(KINEMATICS), self.entities[name].course
        now_ns = self._world.now_ns()
        pose_W = course.at(now_ns)
        record["stamp_ns"], record["p_W"], record["q_WB"] = now_ns, pose_W.p_A, pose_W.q_AB
        record["v_W"], record["w_B"] = course.v_W, plain(unrotate)(pose_W.q_AB, course.w_W)
        return record

    def step(self, now_ns: int, period_ns: int) -> None:
        """Move what moves, before the physics of a step from a time on."""
        if self._moving:
            self._see(now_ns)
            if due(PERIOD_NS, now_ns, now_ns + period_ns):
                self._publish(now_ns)

    def _show(self) -> None:
        now_ns = self._world.now_ns()
        self._moving = [entity for entity in self.entities.values() if entity.course.moves]
        still = (entity for entity in self.entities.values() if not entity.course.moves)
        self._still = scene_with(self._world.scene(), _shapes(still, now_ns))
        self._see(now_ns)
        self._publish(now_ns)

    def _see(self, now_ns: int) -> None:
        """Let all fly among what is there now; what stands still is put together no more."""
        assert self._still is not None
        self._world.see(scene_with(self._still, _shapes(self._moving, now_ns)))

    def _publish(self, now_ns: int) -> None:
        if self._output is None:  # nobody is told of nothing
            self._output = self._node.offer(topics.OBSTACLES)
        by_name = {name: entity.obstacles(now_ns) for name, entity in self.entities.items()}
        self._output.publish(obstacle_markers(by_name, now_ns))


def _shapes(entities: Iterable[Entity], stamp_ns: int) -> list[Obstacle]:
    return [one for entity in entities for one in entity.obstacles(stamp_ns)]
