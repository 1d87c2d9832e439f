"""Services by which somebody else moves a model of Gazebo."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from quadsim.base.errors import InputError
from quadsim.ros.messages.cdr import put_xyz
from quadsim.ros.runtime.base import QuadsimNode
from quadsim.ros.runtime.topics import message_class

#: ros_gz_interfaces/msg/Entity.MODEL.
MODEL = 2


def put_pose(pose: Any, motion: Any) -> None:
    """Write position and attitude of a KINEMATICS record into a geometry_msgs/Pose."""
    orientation = pose.orientation
    put_xyz(pose.position, motion.p_W)
    orientation.w, orientation.x, orientation.y, orientation.z = motion.q_WB.tolist()


def pose_request(request: Any, model: str, motion: Any) -> Any:
    """Fill a request of ros_gz_interfaces/srv/SetEntityPose."""
    request.entity.name, request.entity.type = model, MODEL
    put_pose(request.pose, motion)
    return request


def state_request(request: Any, model: str, motion: Any) -> Any:
    """Fill a request of simulation_interfaces/srv/SetEntityState, at rest: the model is static."""
    request.entity = model
    put_pose(request.state.pose, motion)
    return request


@dataclass(frozen=True)
class PoseService:
    """A service that moves a model.

    Attributes:
        type_name: ``package/srv/Type``.
        name: of the service; ``{world}`` stands for the world's.
        fill: fills a request for a model and a KINEMATICS record.
        refused: what an answer reports of a refusal; empty: done.
    """

    type_name: str
    name: str
    fill: Callable[[Any, str, Any], Any]
    refused: Callable[[Any], str]

    @property
    def package(self) -> str:
        """Package of its type."""
        return self.type_name.partition("/")[0]


def _pose_refused(answer: Any) -> str:
    return "" if answer.success else "no such model"


def _state_refused(answer: Any) -> str:
    # Result.RESULT_OK is 1
    return "" if answer.result.result == 1 else str(answer.result.error_message or "refused")


#: By their names as the parameter ``service`` has them; the first that is there is used.
SERVICES = {
    "simulation_interfaces": PoseService(
        "simulation_interfaces/srv/SetEntityState",
        "/gzserver/set_entity_state",
        state_request,
        _state_refused,
    ),
    "set_pose": PoseService(
        "ros_gz_interfaces/srv/SetEntityPose",
        "/world/{world}/set_pose",
        pose_request,
        _pose_refused,
    ),
}


class ModelMover:
    """Moves one model through whichever service is there; one request at a time.

    Args:
        node: whose clients these are.
        service: a key of :data:`SERVICES`, or ``auto``.
        world: name of the world in its SDF.
        model: name of the model.

    Raises:
        InputError: no package of these services is installed.
    """

    #: Time that an answer may take beyond the node's own patience, s.
    slowest_s = 0.0

    def __init__(self, node: QuadsimNode, service: str, world: str, model: str) -> None:
        self._model = model
        self._waiting: Any = None
        self._asked: Any = None  # the client that waits
        self._waiting_stamp_ns = 0
        self._clients: list[tuple[PoseService, Any, Any]] = []
        wanted = list(SERVICES.values()) if service == "auto" else [SERVICES[service]]
        for kind in wanted:
            try:
                message = message_class(kind.type_name)
            except ImportError:
                continue
            client = node.create_client(message, kind.name.format(world=world))
            self._clients.append((kind, message, client))
        if not self._clients:
            packages = " or ".join(kind.package for kind in wanted)
            raise InputError(
                f"gazebo_view: {packages} is not installed, so Gazebo's models cannot be moved;"
                " install the ROS package ros_gz_interfaces, which comes with ros_gz_bridge"
            )
        self.names = [kind.name.format(world=world) for kind, _, _ in self._clients]
        #: Stamp of the newest pose that Gazebo has taken, ns; 0: none.
        self.shown_ns = 0
        #: What Gazebo stated of the last refusal.
        self.refusal = ""

    @property
    def busy(self) -> bool:
        """Whether a request has not been answered yet."""
        return self._waiting is not None

    @property
    def ready(self) -> bool:
        """Whether a service is there."""
        return any(client.service_is_ready() for _, _, client in self._clients)

    def move(self, motion: Any) -> bool:
        """Ask Gazebo to move the model to a KINEMATICS record; False where nobody is there."""
        for kind, message, client in self._clients:
            if client.service_is_ready():
                self._waiting_stamp_ns = int(motion.stamp_ns)
                request = kind.fill(message.Request(), self._model, motion)
                self._asked, self._waiting = client, client.call_async(request)
                self._waiting.add_done_callback(partial(self._answered, kind))
                return True
        return False

    def give_up(self) -> None:
        """Wait for the last request no more."""
        if self._waiting is not None:
            self._asked.remove_pending_request(self._waiting)
        self._waiting = None

    def _answered(self, kind: PoseService, future: Any) -> None:
        if future is not self._waiting:
            return
        self._waiting = None
        self.refusal = kind.refused(future.result())
        if not self.refusal:
            self.shown_ns = self._waiting_stamp_ns


class CommandMover:
    """Moves one model by Gazebo's own command line, a process for each pose.

    For bridges without a pose service, such as that of ROS 2 Humble. It shows a few poses a second.

    Args:
        world: name of the world in its SDF.
        model: name of the model.

    Raises:
        InputError: neither ``gz`` nor ``ign`` is on the path.
    """

    #: Commands and the packages of their message types: Gazebo Garden and later, Fortress.
    COMMANDS = (("gz", "gz.msgs"), ("ign", "ignition.msgs"))
    #: Time that a process may take, s.
    slowest_s = 3.0

    @classmethod
    def found(cls) -> list[tuple[str, str]]:
        """Paths of the commands that are there, and the packages of their types."""
        return [(path, kind) for name, kind in cls.COMMANDS if (path := shutil.which(name))]

    def __init__(self, world: str, model: str) -> None:
        found = self.found()
        if not found:
            raise InputError(
                "gazebo_view: neither gz nor ign is on the path, so Gazebo's models cannot be moved"
            )
        path, kind = found[0]
        name = f"/world/{world}/set_pose"
        self._model = model
        self._words = [
            path, "service", "-s", name, "--reqtype", f"{kind}.Pose",
            "--reptype", f"{kind}.Boolean", "--timeout", "1000", "--req",
        ]  # fmt: skip
        self._process: subprocess.Popen[str] | None = None
        self._waiting_stamp_ns = 0
        self.names = [f"{name} by {path}"]
        self.ready = True
        self.shown_ns = 0
        self.refusal = ""

    @property
    def busy(self) -> bool:
        """Whether a request has not been answered yet."""
        process = self._process
        if process is None:
            return False
        if process.poll() is None:
            return True
        answer, _ = process.communicate()
        self._process = None
        if "data: true" in answer:
            self.shown_ns, self.refusal = self._waiting_stamp_ns, ""
        else:
            self.refusal = " ".join(answer.split()) or "no answer"
        return False

    def move(self, motion: Any) -> bool:
        """Ask Gazebo to move the model to a KINEMATICS record."""
        self._waiting_stamp_ns = int(motion.stamp_ns)
        x, y, z = motion.p_W.tolist()
        q_w, q_x, q_y, q_z = motion.q_WB.tolist()
        pose = (
            f'name: "{self._model}", position: {{x: {x!r}, y: {y!r}, z: {z!r}}},'
            f" orientation: {{w: {q_w!r}, x: {q_x!r}, y: {q_y!r}, z: {q_z!r}}}"
        )
        try:
            self._process = subprocess.Popen(
                [*self._words, pose], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
        except OSError as error:  # the command is gone, or no process can be made
            self.refusal = f"{self._words[0]}: {error.strerror}"
            return False
        return True

    def give_up(self) -> None:
        """Wait for the last request no more."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
        self._process = None
