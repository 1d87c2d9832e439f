"""Node ``gazebo_view``: Gazebo shows a vehicle that it does not fly, and lends camera and lidar.

The vehicle's odometry moves Gazebo's model. Gazebo has a clock of its own then, which nobody else
follows: what its sensors send is stamped with the pose from which they saw it.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from quadsim.base.compiled import new_record
from quadsim.base.errors import InputError
from quadsim.base.levels import OK, WARN
from quadsim.base.parameters import Spec
from quadsim.base.records import KINEMATICS
from quadsim.ros.messages.cdr import MessageError, deserialize, put_xyz, stamp_of
from quadsim.ros.messages.conversion import OdometryReader
from quadsim.ros.messages.gazebo import with_header
from quadsim.ros.messages.world import make_time
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.base import QuadsimNode
from quadsim.ros.runtime.params import declare, declare_texts
from quadsim.ros.runtime.runtime import entry_points
from quadsim.ros.runtime.topics import Topic, message_class

#: ros_gz_interfaces/msg/Entity.MODEL, simulation_interfaces/msg/Result.RESULT_OK.
MODEL, RESULT_OK = 2, 1


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


#: By their names as the parameter ``service`` has them; the first that is there is used.
SERVICES = {
    "simulation_interfaces": PoseService(
        "simulation_interfaces/srv/SetEntityState",
        "/gzserver/set_entity_state",
        state_request,
        lambda answer: (
            "" if answer.result.result == RESULT_OK else answer.result.error_message or "refused"
        ),
    ),
    "set_pose": PoseService(
        "ros_gz_interfaces/srv/SetEntityPose",
        "/world/{world}/set_pose",
        pose_request,
        lambda answer: "" if answer.success else "no such model",
    ),
}


class ModelMover:
    """Moves one model through whichever service is there; one request at a time.

    Args:
        service: a key of :data:`SERVICES`, or ``auto``.
        world: name of the world in its SDF.

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


#: A request without an answer is given up after this, s: sixty poses, far above what one takes.
TIMEOUT_S = 1.0
#: After so long without an answer it is moved by command, s: a start of Gazebo is waited for.
PATIENCE_S = 10.0
#: What Gazebo can lend: topics of its own and of ours, and the frame.
LENT: dict[str, tuple[Topic, Topic, str]] = {
    "scan": (topics.GAZEBO_SCAN, topics.SCAN, "lidar_link"),
    "points": (topics.GAZEBO_POINTS, topics.POINTS, "lidar_link"),
    "camera": (topics.GAZEBO_IMAGE, topics.IMAGE, "camera_link"),
}


@dataclass(frozen=True)
class ViewParams:
    """Which model of Gazebo shows the vehicle."""

    world: Annotated[str, Spec("name of the world in its SDF")] = "flat"
    model: Annotated[str, Spec("name of the model; empty: the namespace without its slash")] = ""
    service: Annotated[
        str, Spec("by which it is moved", choices=("auto", *SERVICES, "command"))
    ] = "auto"
    rate_hz: Annotated[float, Spec("poses a second of wall time", "Hz", ge=1.0, le=500.0)] = 60.0
    odometry_reliable: Annotated[bool, Spec("ask for a reliable odometry")] = True


class GazeboViewNode(QuadsimNode):
    """One vehicle, simulated here or real, as a static model of Gazebo."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__("gazebo_view", **kwargs)
        self.params = declare(self, ViewParams())
        lent = declare_texts(self, "lent", f"what Gazebo lends: {', '.join(LENT)}")
        for name in lent:
            if name not in LENT:
                where = f"node {self.get_fully_qualified_name()}: parameter lent"
                raise InputError(f"{where}: {name!r}; known: {', '.join(LENT)}")
        model = self.params.model or self.get_namespace().strip("/")
        self._model = model
        self._mover = self._first_mover()
        self.when_destroyed(self._give_up)
        self._waits_since_s: float | None = time.monotonic()  # for an answer or a service
        self._motion = new_record(KINEMATICS)
        self._reader = OdometryReader(self._motion)
        self._newest: bytes | None = None
        self._asked_s = 0.0
        # by frame: stamp of Gazebo, ours, newest pose by then
        self._seen: dict[str, tuple[int, int, int]] = {}
        reliable = self.params.odometry_reliable
        self.listen(topics.TRUTH, self._on_odometry, needed=True, reliable=reliable)
        for name in lent:
            self._lend(*LENT[name])
        if "camera" in lent:
            self._infos = self.offer(topics.CAMERA_INFO)
            self.listen(topics.GAZEBO_CAMERA_INFO, self._on_camera_info)
        self.wall_timer(1.0 / self.params.rate_hz, self._show)

    # ---- by what it is moved -------------------------------------------------------------------

    def _first_mover(self) -> ModelMover | CommandMover:
        service, world = self.params.service, self.params.world
        if service == "command":
            return CommandMover(world, self._model)
        try:
            return ModelMover(self, service, world, self._model)
        except InputError:
            if service == "auto" and CommandMover.found():
                return CommandMover(world, self._model)
            raise

    def _give_up(self) -> None:
        """Give the last request up, of the mover that there is then."""
        self._mover.give_up()

    def _look_for_answers(self, now_s: float) -> None:
        """Say once that nothing moves the model, and take Gazebo's command where that may help."""
        if self._mover.shown_ns or self._mover.refusal:
            self._waits_since_s = None
        if self._waits_since_s is None or now_s - self._waits_since_s < PATIENCE_S:
            return
        self._waits_since_s = None
        names = " nor ".join(self._mover.names)
        words = f"no answer from {names}: is the world named {self.params.world}, and does it run?"
        if not self._mover.ready:
            words = f"no service {names}: the bridge has none (Humble's has not), or is not there"
            if self.params.service == "auto" and CommandMover.found():
                self._mover = CommandMover(self.params.world, self._model)
                words += f"; taking {self._mover.names[0]}, a few poses a second"
                self._waits_since_s = now_s
                self.get_logger().info(words)  # it may work by this
                self.tell_event(OK, "gazebo", words)
                return
        self.get_logger().warning(words)
        self.tell_event(WARN, "gazebo", words)

    # ---- the vehicle ---------------------------------------------------------------------------

    def _on_odometry(self, payload: bytes) -> None:
        self._newest = payload

    def _show(self) -> None:
        """Move the model to the newest odometry, if Gazebo has answered the one before."""
        payload, now_s = self._newest, time.monotonic()
        self._look_for_answers(now_s)
        if self._mover.busy:
            if now_s - self._asked_s < max(TIMEOUT_S, self._mover.slowest_s):
                return
            self._mover.give_up()
            self.count("unanswered")
        if payload is None:
            return
        self._newest = None
        try:
            self._reader.read(payload)
        except MessageError as error:
            self.fault(topics.TRUTH.name, str(error))
            return
        if self._mover.move(self._motion):
            self._asked_s = now_s
            self.count("poses")

    # ---- what Gazebo lends ---------------------------------------------------------------------

    def _seen_from(self, frame: str, payload: bytes) -> int:
        """Stamp of the pose from which a sensor saw what it sends; 0: of no pose, or of none anew.

        While the vehicle's time stands Gazebo's goes on, and sends the same again. Messages of one
        time of Gazebo, as an image and what its camera is, have one stamp.
        """
        gazebo_ns, shown_ns = stamp_of(payload), self._mover.shown_ns
        before = self._seen.get(frame)
        if before is not None and gazebo_ns == before[0]:
            return before[1]
        if shown_ns == (before[2] if before is not None else 0):
            self._seen[frame] = gazebo_ns, 0, shown_ns
            return 0
        self._seen[frame] = gazebo_ns, shown_ns, shown_ns
        return shown_ns

    def _lend(self, given: Topic, ours: Topic, frame: str) -> None:
        """Let one of Gazebo's topics be one of ours."""
        output = self.offer(ours)

        def restamped(payload: bytes) -> None:
            stamp_ns = self._seen_from(frame, payload)
            if stamp_ns:
                output.publish(with_header(payload, stamp_ns, self.frame(frame)))

        self.listen(given, restamped)

    def _on_camera_info(self, payload: bytes) -> None:
        stamp_ns = self._seen_from("camera_link", payload)
        if stamp_ns:
            message = deserialize(payload, topics.CAMERA_INFO.message)
            message.header.stamp = make_time(stamp_ns)
            message.header.frame_id = self.frame("camera_link")
            self._infos.publish(message)

    # ---- health --------------------------------------------------------------------------------

    def health(self) -> tuple[int, str, dict[str, Any]]:
        """Whether Gazebo moves the model."""
        mover = self._mover
        values = {"model": self._model, "shown_s": mover.shown_ns * 1e-9}
        if not mover.ready:
            missing = " nor ".join(mover.names)
            return 1, f"no service {missing}: is Gazebo there, and bridged?", values
        if mover.refusal:
            return 2, f"Gazebo does not move {self._model}: {mover.refusal}", values
        if not mover.shown_ns:
            return 1, "no pose has been shown yet", values
        return 0, "running", values


make, main = entry_points(GazeboViewNode)
