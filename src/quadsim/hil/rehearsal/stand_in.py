"""The stand-in for a real vehicle: a closed loop of its own, held in place by motion capture.

It is what a laboratory's vehicle is to the computer next to it: it has an autopilot with gains of
its own, an estimator that lives on motion capture, and a fall-back for when that is gone. It knows
nothing of virtual obstacles; it hears velocities, and states where it believes to be.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from quadsim.base.noise import stream
from quadsim.base.parameters import Vec3
from quadsim.estimation.eskf.input_validation import accept
from quadsim.estimation.eskf.layout import EXTERNAL_ATTITUDE, EXTERNAL_POSITION
from quadsim.firmware.fly import Flown
from quadsim.firmware.targets import ThrustTarget
from quadsim.geometry.rotation import Quat, multiply
from quadsim.hil.rehearsal.motion_capture import MotionCapture, MotionCaptureParams, SeenPose
from quadsim.hil.rehearsal.parameters import DEAF, FROZEN, TroubleParams
from quadsim.sim.closed_loop import VEHICLE_NAME, ClosedLoop
from quadsim.sim.scenario import Scenario

#: Ticks a second: messages are heard and stated at ticks alone, so they are finer than a mission's.
TICK_HZ = 100.0


#: Turns a vector of a world that is z up into one that is y up: x right, y up, z towards the south.
Q_Y_UP: Quat = (math.sqrt(0.5), -math.sqrt(0.5), 0.0, 0.0)


def y_up(vector: Vec3) -> Vec3:
    """A vector in a world that is y up."""
    x, y, z = vector
    return x, z, -y


class Telemetry(NamedTuple):
    """What the vehicle reports of itself: its estimate by its own clock, and what it does."""

    stamp_ns: int
    p_W: Vec3
    q_WB: Quat
    v_W: Vec3
    state: str


class VehicleCommand(NamedTuple):
    """What the vehicle is told: a velocity in W and a yaw rate, or a thrust; or to land."""

    stamp_ns: int
    v_W: Vec3
    yaw_rate_radps: float
    land: bool = False
    thrust: ThrustTarget | None = None


def varied(scenario: Scenario, mass_share: float, gain_share: float) -> Scenario:
    """Another vehicle of the kind: of another mass, which its autopilot does not know, and gains.

    Args:
        mass_share: true mass over that of the vehicle's file, which the autopilot believes; the
            inertia grows alike.
        gain_share: gains of position, velocity and tilt over those of the autopilot's file.
    """
    vehicle, autopilot = scenario.vehicle, scenario.autopilot
    (x, y, z), (xy, xz, yz) = vehicle.inertia_kg_m2, vehicle.inertia_products_kg_m2
    heavier = replace(
        vehicle,
        mass_kg=mass_share * vehicle.mass_kg,
        inertia_kg_m2=(mass_share * x, mass_share * y, mass_share * z),
        inertia_products_kg_m2=(mass_share * xy, mass_share * xz, mass_share * yz),
    )
    position = replace(
        autopilot.position,
        position_gain_xy=gain_share * autopilot.position.position_gain_xy,
        velocity_gain_xy=gain_share * autopilot.position.velocity_gain_xy,
        velocity_gain_z=gain_share * autopilot.position.velocity_gain_z,
    )
    attitude = replace(autopilot.attitude, tilt_gain=gain_share * autopilot.attitude.tilt_gain)
    return replace(
        scenario,
        vehicle=heavier,
        autopilot=replace(autopilot, position=position, attitude=attitude),
        file=replace(scenario.file, believed_mass=scenario.file.believed_mass / mass_share),
    )


class StandIn(ClosedLoop):
    """A vehicle that is flown from outside, by velocities.

    Args:
        scenario: what it is, with a mission that takes it off.
        motion_capture: what its estimator is aided by.
        dead_reckoning_s: it reports its pose so long after it last heard of the motion capture.
        flown: firmware that flies it; None: our autopilot.

    Attributes:
        arrived: poses of the motion capture that it took at the last tick.
        arms: whether it arms and takes off as soon as it can; somebody else may tell it to.
        refused: why the last command was not obeyed; empty: it was.
        turned_rad: angle to the left by which the frame of commands is rotated against the world.
        is_deaf: whether it does not land when it is told to.
        is_frozen: whether it reports its last pose again, to the bit, under new stamps.
        is_y_up: whether world and body of what it reports are y up, as Motive has them by default.
    """

    def __init__(
        self,
        scenario: Scenario,
        motion_capture: MotionCaptureParams,
        dead_reckoning_s: float,
        flown: Flown | None = None,
    ) -> None:
        super().__init__(
            scenario, log_hz=scenario.imu.rate_hz, vehicle=VEHICLE_NAME, tick_hz=TICK_HZ
        )
        seed = scenario.file.seed
        self.motion_capture = MotionCapture(
            motion_capture, stream(seed, VEHICLE_NAME, "motion_capture")
        )
        self._covariance = motion_capture.covariance()
        self._frame_ns = round(1e9 / motion_capture.rate_hz)
        self._dead_reckoning_ns = round(dead_reckoning_s * 1e9)
        self.arrived: list[SeenPose] = []
        self._line = self._states["line"][0]
        self._looked_ns = 0
        self._aided_ns = -1
        self.refused = ""
        self.arms = True
        self.turned_rad = 0.0
        self.is_y_up = self.is_deaf = self.is_frozen = False
        self._said: Telemetry | None = None
        self._craft = flown.attach(self, self._vehicles, 0) if flown is not None else None

    def tick(self) -> None:
        """One tick: fly on, seen by the motion capture; on the ground, take off when it is to."""
        self.arrived = self.motion_capture.arrived(self.stamp_ns)
        for pose in self.arrived:
            self._aid(pose)
        super().tick()
        self._be_seen()
        if self.arms:
            self.take_off_when_ready()

    def _be_seen(self) -> None:
        """Show the motion capture the true poses of this tick at which a frame is due."""
        rows = self.rows()
        first = int(np.searchsorted(rows["stamp_ns"], self._looked_ns, side="right"))
        stamps_ns = rows["stamp_ns"][first:]
        frames = stamps_ns // self._frame_ns
        before = np.concatenate([[self._looked_ns // self._frame_ns], frames[:-1]])
        for i in np.flatnonzero(frames > before).tolist():
            row = rows[first + i]
            self.motion_capture.see(
                int(stamps_ns[i]), tuple(row["p_W"].tolist()), tuple(row["q_WB"].tolist())
            )
        self._looked_ns = self.stamp_ns

    def _aid(self, pose: SeenPose) -> None:
        """Hand a pose to firmware and to the estimator: its timeline takes what is late."""
        if self._craft is not None:
            self._craft.poses.append(pose)
        p_W, q_WB = np.array(pose.p_W), np.array(pose.q_WB)
        accept(self._line, EXTERNAL_POSITION, pose.stamp_ns, p_W, self._covariance)
        accept(self._line, EXTERNAL_ATTITUDE, pose.stamp_ns, q_WB, self._covariance)
        self._aided_ns = pose.stamp_ns

    @property
    def has_pose(self) -> bool:
        """Whether it vouches for its position: it has an estimate, and it was aided of late."""
        aided = self._aided_ns >= 0 and self.stamp_ns - self._aided_ns <= self._dead_reckoning_ns
        return aided and int(self._odometry.stamp_ns) > 0

    def telemetry(self) -> Telemetry | None:
        """What it reports of itself now; None while it does not know where it is."""
        if not self.has_pose:
            return None
        odometry = self._odometry
        q_WB: Quat = tuple(odometry.q_WB.tolist())
        if self.is_y_up:
            w, x, y, z = Q_Y_UP
            q_WB = multiply(multiply(Q_Y_UP, q_WB), (w, -x, -y, -z))
        stamp_ns, state = int(odometry.stamp_ns), self.manager.state
        if self._said is None or not self.is_frozen:
            p_W, v_W = tuple(odometry.p_W.tolist()), tuple(odometry.v_W.tolist())
            self._said = Telemetry(stamp_ns, self.said_W(p_W), q_WB, self.said_W(v_W), state)
        return self._said._replace(stamp_ns=stamp_ns, state=state)

    def said_W(self, vector: Vec3) -> Vec3:
        """A vector of the world in the frame in which the vehicle states it."""
        return y_up(vector) if self.is_y_up else vector

    def make_trouble(self, troubles: Sequence[TroubleParams], t_s: float) -> set[str]:
        """Have wrong what is wrong so long after the enabling.

        Returns:
            What is wrong or missing then, of :data:`~quadsim.hil.rehearsal.parameters.TROUBLES`.
        """
        now = [trouble for trouble in troubles if trouble.lasts(t_s)]
        missing = {trouble.what for trouble in now}
        self.motion_capture.gone = "motion_capture" in missing
        self.is_deaf, self.is_frozen = DEAF in missing, FROZEN in missing
        self.turned_rad = math.radians(sum(trouble.angle_deg for trouble in now))
        return missing

    def obey(self, command: VehicleCommand) -> None:
        """Take a command; why it was refused is in ``refused``."""
        manager = self.manager
        if command.land and not self.is_deaf:
            self.refused = manager.land() or ""
        elif command.thrust is not None:
            self.refused = self._obey_thrust(command.thrust)
        else:
            x, y, z = command.v_W
            cos, sin = math.cos(self.turned_rad), math.sin(self.turned_rad)
            v_W = (cos * x - sin * y, sin * x + cos * y, z)
            self.refused = manager.command_velocity(v_W, command.yaw_rate_radps) or ""
            if self._craft is not None:
                self._craft.thrust = None

    def _obey_thrust(self, target: ThrustTarget) -> str:
        """Let firmware fly an attitude or rates, and our mission want what comes of it."""
        craft = self._craft
        if craft is None or not craft.takes_thrust:
            return "attitudes and rates are flown by ArduPilot and PX4 alone"
        x, y, z = craft.odometries["v_W"][0].tolist()
        refused = self.manager.command_velocity((x, y, z), 0.0)
        craft.thrust = target if refused is None else None
        return refused or ""
