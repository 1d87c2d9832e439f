"""Node ``mixer``: an odometry and the attitude command in, ``command_motor_speed`` out.

The watchdog runs on ROS time (simulated time in simulation): a lost odometry or command ends in a
descent, see :mod:`quadsim.control.inner_loop`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.parameters import pack
from quadsim.base.records import ATTITUDE_COMMAND, MAX_ROTORS, ODOMETRY
from quadsim.control.airframe import AirframeParams, pack_airframe
from quadsim.control.inner_loop import (
    ODOMETRY_HOLD_S,
    PHASES,
    inner_loop_from_python,
    new_inner_loop,
)
from quadsim.control.parameters import AutopilotParams
from quadsim.ros.messages.cdr import MessageError, Reader, RotorsReader, stamp_ns_of, stamp_of
from quadsim.ros.messages.commands import read_attitude_command
from quadsim.ros.messages.conversion import OdometryReader
from quadsim.ros.parts.control_params import (
    MOTOR_LOST,
    changed_controller,
    declare_controller,
    read_controller,
)
from quadsim.ros.parts.odometry import OdometrySource
from quadsim.ros.runtime import qos, topics
from quadsim.ros.runtime.base import QuadsimNode, make_event
from quadsim.ros.runtime.intra_process import Listening
from quadsim.ros.runtime.params import declare_one
from quadsim.ros.runtime.reset_times import SLACK_NS, Ahead, Behind, Lateness
from quadsim.ros.runtime.resets import Resets
from quadsim.ros.runtime.runtime import entry_points
from quadsim.wire.encode import joint_template

#: Weight of a new difference between gyroscope and odometry in the bias; its largest size, rad/s.
BIAS_WEIGHT, MOST_BIAS_RADPS = 0.02, 0.2
#: How far a clock may be behind, ns: a period of ``/clock``.
CLOCK_SLACK_NS = 10_000_000

Array = NDArray[np.float64]


class Gyro:
    """The newest sample of an IMU with the body's axes, and the bias of its gyroscope.

    Attributes:
        stamp_ns: of the newest sample; 0 before the first.
    """

    def __init__(self) -> None:
        self.stamp_ns = 0
        self._payload = b""
        self._reader = Reader(topics.IMU_RAW.type_name)
        self._bias_B: Array = np.zeros(3)

    def take(self, payload: bytes, now_ns: int, hold_ns: int) -> None:
        """Keep a sample.

        Args:
            payload: CDR bytes of ``imu/data_raw``.
            now_ns: the clock, or the newest odometry where that is later.
            hold_ns: age at which a sample counts as none.

        Raises:
            MessageError: its stamp is ahead of all that is known of the time, repeats or jumps
                back, or the bytes are no such message.
        """
        stamp_ns = stamp_of(payload)
        if stamp_ns > now_ns + hold_ns + CLOCK_SLACK_NS:
            raise MessageError("its stamp is in the future")
        if stamp_ns <= self.stamp_ns:
            raise MessageError("repeats or jumps back in time")
        self._reader.read(payload)
        self._payload, self.stamp_ns = payload, stamp_ns

    def rates_B(self, now_ns: int, hold_ns: int) -> Array:
        """Rates without their bias, rad/s; NaN where no sample is fresh."""
        if not self.stamp_ns or abs(now_ns - self.stamp_ns) > hold_ns:
            return np.full(3, np.nan)
        rates_B: Array = self._rates() - self._bias_B
        return rates_B

    def learn(self, stamp_ns: int, w_B: Array) -> None:
        """Learn the bias from the rates of an odometry, rad/s, if it is of the newest sample."""
        if self.stamp_ns and self.stamp_ns == stamp_ns:
            off = np.clip(self._rates() - w_B, -MOST_BIAS_RADPS, MOST_BIAS_RADPS)
            if np.isfinite(off).all():
                self._bias_B += BIAS_WEIGHT * (off - self._bias_B)

    def _rates(self) -> Any:
        return self._reader.read(self._payload)["w"]


WATCH_PERIOD_S = 0.02
#: Age at which motor_speed counts as none.
TELEMETRY_NS = 100_000_000
#: No rotor turns faster.
FASTEST_RADPS = 1e5
#: The IMU as it is looked at now and then: its newest samples, among them the newest odometry's.
NEWEST_IMU = replace(topics.IMU_RAW, wanted=qos.profile(5, reliable=False))
GYRO_FALLBACK = (
    "without an odometry, go on by the gyroscope of imu/data_raw; for an IMU with the body's axes"
)


class MixerNode(QuadsimNode):
    """Attitude control and mixer, at the odometry's rate."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__("mixer", **kwargs)
        params, airframe = declare_controller(self, "mixer")
        self._apply(params, airframe)
        # arrays of one, which are quick to pass, and their records
        self._odometries = np.zeros(1, ODOMETRY)
        self._commands = np.zeros(1, ATTITUDE_COMMAND)
        self._odometry, self._command = self._odometries[0], self._commands[0]
        self._speeds = np.zeros(MAX_ROTORS)
        self._rotors = len(airframe.commands)
        self._restart()
        self._load_kernels()
        self._output = self.offer(topics.COMMAND_MOTOR_SPEED, needed=True)
        self._template = joint_template(airframe.commands)
        self._reader = OdometryReader(self._odometry)
        reliable = declare_one(self, "odometry_reliable", True, "ask for a reliable odometry")
        self._source = OdometrySource(self, self._on_odometry, reliable, seamless=True)
        self.listen(topics.COMMAND_ATTITUDE, self._on_command, raw=False, needed=True)
        self.listen(topics.STATE_SOURCE, lambda source: self._source.switch(source.data), raw=False)
        self._imu: Listening | None = None
        if airframe.kind == "multirotor":
            self._rotors_reader = RotorsReader(self._rotors, airframe.commands)
            self.listen(topics.MOTOR_SPEED, self._on_motor_speed)
            if declare_one(self, "gyro_fallback", False, GYRO_FALLBACK):
                self._imu = self.pause_messages(self.listen(NEWEST_IMU, self._on_imu))
        self._resets = Resets(
            self, "mixer", partial(read_controller, self), self._take, lambda *_: self._restart()
        )
        self.listen(topics.EVENTS, self._resets.hear, raw=False)
        self._ahead, self._behind = Ahead(), Behind()
        self.when_time_goes_back(self._on_time_back, "waits for odometry and command")
        self.wall_timer(WATCH_PERIOD_S, self._watch)

    def _take(self, changed: dict[str, Any], reset: bool) -> Callable[[], None]:
        turning = None if reset else PHASES[self._phase] != "waiting"
        return changed_controller(self, "mixer", changed, turning, self._apply)

    def _apply(self, params: AutopilotParams, airframe: AirframeParams) -> None:
        """What holds from the next step on."""
        self._params = np.array([pack(params)])
        self._airframes = np.array([pack_airframe(airframe)])
        self._hold_ns = round(ODOMETRY_HOLD_S * 1e9)

    def _load_kernels(self) -> None:
        """Call what a step calls, on copies.

        In a process of its own the first call takes a quarter of a second. If a message waited for
        it, the node's clock would be behind the samples that come meanwhile.
        """
        inner_loop_from_python(
            self._states.copy(),
            self._params,
            self._airframes,
            self._odometries.copy(),
            math.inf,
            self._commands.copy(),
            math.inf,
            0.0,
            self._speeds.copy(),
        )

    def _restart(self) -> None:
        """Wait for the first odometry and command, as before any flight."""
        self._states = np.array([new_inner_loop()])
        # views: finding them takes microseconds
        self._loops = self._states["attitude"]
        self._losts = self._loops["lost"]
        self._motors, self._late = self._states["motors"], Lateness()
        self._measured, self._gyro_B = self._states["measured"][0], self._states["gyro_B"][0]
        self._commands[:] = np.zeros(1, ATTITUDE_COMMAND)
        self._phase = self._lost = 0
        self._stamp_ns = self._stepped_ns = self._command_ns = self._measured_ns = 0
        self._gyro = Gyro()

    def _on_time_back(self) -> None:
        """Begin anew with the stopped motors of a node that starts, in simulation only."""
        self._resets.forget()
        self._restart()

    def _on_motor_speed(self, payload: bytes) -> None:
        measured_ns, speeds = stamp_of(payload), self._rotors_reader.read(payload)
        if not np.abs(speeds).max() <= FASTEST_RADPS:
            raise MessageError(f"a speed that is none; at most {FASTEST_RADPS:g} rad/s")
        self._measured[: self._rotors], self._measured_ns = speeds, measured_ns

    def _on_command(self, message: Any) -> None:
        stamp_ns = stamp_ns_of(message.header.stamp)
        newest_ns = max(self._stamp_ns, self._stepped_ns, self.get_clock().now().nanoseconds)
        if self._stamp_ns and stamp_ns > newest_ns + SLACK_NS:  # it would be obeyed until then
            raise MessageError("its stamp is in the future")
        if self._resets.settled(stamp_ns):
            read_attitude_command(message, self._command)
            self._command_ns = int(self._command.stamp_ns)

    def _on_odometry(self, payload: bytes) -> None:
        stamp_ns = stamp_of(payload)
        self._ahead.check(stamp_ns, self._stamp_ns)
        if not self._resets.settled(stamp_ns):
            return
        if self.simulated and self._behind.seen(stamp_ns, self._stamp_ns):
            self._on_time_back()
        if stamp_ns <= self._stamp_ns:
            raise MessageError("repeats or jumps back in time")
        view = self._reader.read(payload)
        self._odometry["w_variance"] = view["twist_covariance"][3, 3]
        self._stamp_ns = stamp_ns
        self._late.take(stamp_ns, self.get_clock().now().nanoseconds)
        self._motors["late_s"] = self._late.round_trip_s
        if stamp_ns > self._stepped_ns:
            self._step(stamp_ns)
        else:  # the watchdog has gone on without it
            self.count("late odometries")

    def _on_imu(self, payload: bytes) -> None:
        """Keep the newest sample; go on by it while no odometry comes."""
        if not self._stamp_ns:
            return
        now_ns = max(self._stamp_ns, self.get_clock().now().nanoseconds)
        self._gyro.take(payload, now_ns, self._hold_ns)
        imu_ns = self._gyro.stamp_ns
        if imu_ns - self._stamp_ns > self._hold_ns and imu_ns > self._stepped_ns:
            self._step(imu_ns)

    def _watch(self) -> None:
        """Go on without an odometry when none comes."""
        now_ns = self.get_clock().now().nanoseconds
        if self._imu is not None:
            self._look_at(self._imu, now_ns)
        if self._stamp_ns and now_ns - max(self._stamp_ns, self._stepped_ns) > self._hold_ns:
            self._step(now_ns)

    def _look_at(self, imu: Listening, now_ns: int) -> None:
        """Learn the gyroscope's bias while odometries come; else let each sample wake the node."""
        if 2 * (now_ns - self._stamp_ns) > self._hold_ns:
            self.resume_messages(imu)
            return
        self.pause_messages(imu)
        sample = None  # the newest odometry's or one before it: of later ones nothing is learned
        for _, _, payload in imu.taken():
            if self._gyro.stamp_ns < stamp_of(payload) <= self._stamp_ns:
                sample = payload
        if sample is not None:
            imu.callback(sample)
        self._gyro.learn(self._stamp_ns, self._odometry.w_B)

    def _step(self, now_ns: int) -> None:
        """One step of the inner loop, and its rotor speeds."""
        before_ns, self._stepped_ns = self._stepped_ns or now_ns, now_ns
        if now_ns - self._measured_ns > TELEMETRY_NS:
            self._measured[:] = math.nan
        stale = now_ns > self._stamp_ns  # the gyroscope is used where no odometry came
        self._gyro_B[:] = self._gyro.rates_B(now_ns, self._hold_ns) if stale else math.nan
        known = 0 < self._command_ns <= now_ns + SLACK_NS
        command_age_s = (now_ns - self._command_ns) * 1e-9 if known else math.inf
        phase = inner_loop_from_python(
            self._states,
            self._params,
            self._airframes,
            self._odometries,
            (now_ns - self._stamp_ns) * 1e-9,
            self._commands,
            command_age_s,
            (now_ns - before_ns) * 1e-9,
            self._speeds,
        )
        if phase != self._phase:
            self.get_logger().info(f"{PHASES[self._phase]} -> {PHASES[phase]}")
            self._phase = phase
        self._tell_loss(now_ns)
        payload = self._template.payload(now_ns, speeds=self._speeds[: self._rotors])
        self._output.publish(payload)

    def _tell_loss(self, now_ns: int) -> None:
        """Name a motor that is lost, once."""
        lost = int(self._losts[0])
        if lost > self._lost:
            words = f"motor {lost - 1} gives no thrust"
            self.events.publish(make_event(now_ns, 2, MOTOR_LOST, words, motor=lost - 1))
            self.get_logger().error(words)
        self._lost = lost

    def _account(self) -> dict[str, Any]:
        """What the rotors could not give since the last report."""
        attitude = self._loops[0]
        mixed, short = int(attitude["mixed"]), int(attitude["short"])
        thrust_N, *torque_Nm = (float(value) for value in attitude["missing"])
        attitude["mixed"] = attitude["short"] = 0
        attitude["missing"] = 0.0
        return {
            "cut_share": short / mixed if mixed else 0.0,
            "cut_thrust_N": thrust_N,
            "cut_roll_Nm": torque_Nm[0],
            "cut_pitch_Nm": torque_Nm[1],
            "cut_yaw_Nm": torque_Nm[2],
            "lost_motor": str(self._lost - 1) if self._lost else "",
        }

    def health(self) -> tuple[int, str, dict[str, Any]]:
        """Phase of the inner loop, and what the mixer had to cut."""
        lost = "lost" in PHASES[self._phase] or self._lost > 0
        values = {"state_source": self._source.name, **self._account()}
        return 2 if lost else 0, PHASES[self._phase], values


make, main = entry_points(MixerNode)
