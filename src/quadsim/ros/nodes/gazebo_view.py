"""Node ``gazebo_view``: Gazebo shows a vehicle that it does not fly, and lends camera and lidar.

The vehicle's odometry moves Gazebo's model. Gazebo has a clock of its own then, which nobody else
follows: what its sensors send is stamped with the pose from which they saw it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Annotated, Any

from quadsim.base.compiled import new_record
from quadsim.base.errors import InputError
from quadsim.base.levels import OK, WARN
from quadsim.base.parameters import Spec
from quadsim.base.records import KINEMATICS
from quadsim.ros.gazebo.services import SERVICES, CommandMover, ModelMover
from quadsim.ros.messages.cdr import MessageError, deserialize, stamp_of
from quadsim.ros.messages.conversion import OdometryReader
from quadsim.ros.messages.gazebo import with_header
from quadsim.ros.messages.world import make_time
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.base import QuadsimNode
from quadsim.ros.runtime.params import declare, declare_texts
from quadsim.ros.runtime.runtime import entry_points
from quadsim.ros.runtime.topics import Topic

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
    timeout_s: Annotated[
        float, Spec("a request without an answer is given up", "s", gt=0.0, le=60.0)
    ] = 1.0
    patience_s: Annotated[
        float,
        Spec("auto: after so long without one, by command", "s", ge=0.0, le=600.0),
    ] = 10.0
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
        if self._waits_since_s is None or now_s - self._waits_since_s < self.params.patience_s:
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
            if now_s - self._asked_s < max(self.params.timeout_s, self._mover.slowest_s):
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
