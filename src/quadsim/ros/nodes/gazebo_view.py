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
from quadsim.base.parameters import Spec
from quadsim.base.records import KINEMATICS
from quadsim.ros.gazebo.services import SERVICES, ModelMover
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


#: So many requests one after the other without an answer are said.
SILENT = 3
NO_SERVICE = (
    "no service {names} after {patience:g} s, so {model} stays where it is: Gazebo does not run, or"
    " ros_gz_bridge has no SetEntityPose, as that of Humble and before 1.0.11; use a later one,"
    " Gazebo's server of ros_gz_sim, or gazebo:=physics"
)
NO_ANSWER = (
    "{model} does not move: {count} requests to {names} in a row were not answered in {wait:g} s"
)


@dataclass(frozen=True)
class ViewParams:
    """Which model of Gazebo shows the vehicle."""

    world: Annotated[str, Spec("name of the world in its SDF")] = "flat"
    model: Annotated[str, Spec("name of the model; empty: the namespace without its slash")] = ""
    service: Annotated[str, Spec("by which it is moved", choices=("auto", *SERVICES))] = "auto"
    rate_hz: Annotated[float, Spec("poses a second of wall time", "Hz", ge=1.0, le=500.0)] = 60.0
    timeout_s: Annotated[
        float, Spec("a request without an answer is given up", "s", gt=0.0, le=60.0)
    ] = 1.0
    patience_s: Annotated[
        float, Spec("without a service for so long it says why", "s", ge=0.0, le=600.0)
    ] = 15.0
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
        self._mover = ModelMover(self, self.params.service, self.params.world, model)
        self._model = model
        self._motion = new_record(KINEMATICS)
        self._reader = OdometryReader(self._motion)
        self._newest: bytes | None = None
        self._asked_s, self._begun_s = 0.0, time.monotonic()
        self._silent, self._answered_ns = 0, 0  # requests in a row without an answer
        self._told: set[str] = set()
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

    # ---- the vehicle ---------------------------------------------------------------------------

    def _on_odometry(self, payload: bytes) -> None:
        self._newest = payload

    def _show(self) -> None:
        """Move the model to the newest odometry, if Gazebo has answered the one before."""
        payload, now_s = self._newest, time.monotonic()
        if self._mover.busy:
            if now_s - self._asked_s < self.params.timeout_s:
                return
            self._mover.give_up()
            self.count("unanswered")
            self._silent += 1
        self._tell_silence(now_s)
        if payload is None:
            return
        self._newest = None
        try:
            self._reader.read(payload)
        except MessageError as error:
            self.fault(topics.TRUTH.name, str(error))
            return
        answered_ns = self._mover.shown_ns
        if answered_ns != self._answered_ns:
            self._answered_ns, self._silent = answered_ns, 0
        if self._mover.move(self._motion):
            self._asked_s = now_s
            self.count("poses")

    def _tell_silence(self, now_s: float) -> None:
        """Say once why the model stands still."""
        mover, patience_s = self._mover, self.params.patience_s
        about: dict[str, Any] = {
            "names": " nor ".join(mover.names), "model": self._model, "patience": patience_s,
            "count": self._silent, "wait": self.params.timeout_s,
        }  # fmt: skip
        if not mover.ready and now_s - self._begun_s > patience_s:
            self._say(NO_SERVICE, about)
        elif self._silent >= SILENT:
            self._say(NO_ANSWER, about)

    def _say(self, words: str, about: dict[str, Any]) -> None:
        if words not in self._told:
            self._told.add(words)
            self.get_logger().error(words.format(**about))

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
