"""Setpoints as MAVLink has them: places and velocities, attitudes and body rates with a thrust.

What an autopilot makes of a thrust differs. ArduPilot takes it for one only by bit 3 of
GUID_OPTIONS (else 0.5 is to hold the height), divides it by the cosine of the tilt (angle boost,
AC_AttitudeControl_Multi.cpp), and maps it to the speeds from MOT_SPIN_MIN to MOT_SPIN_MAX
(AP_MotorsMulticopter.cpp). It refuses an attitude of which one body rate alone is masked.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from quadsim.base.parameters import Vec3
from quadsim.base.records import MODE_POSITION
from quadsim.control.airframe import AirframeParams
from quadsim.firmware.axes import attitude_out, flipped, heading_of, swapped
from quadsim.firmware.mavlink import Port
from quadsim.geometry.rotation import Quat

#: Bits of type_mask that say what is not wanted (POSITION_TARGET_TYPEMASK).
NO_PLACE, NO_ACCELERATION, NO_YAW, NO_YAW_RATE = 7, 448, 1024, 2048
#: Likewise of ATTITUDE_TARGET_TYPEMASK; all rates count.
NO_ATTITUDE = 128


class ThrustTarget(NamedTuple):
    """An attitude, or body rates, with a thrust.

    Attributes:
        q_WB: FLU in ENU; of body rates the present one.
        w_B: body rates in FLU, rad/s; of an attitude those at which it turns.
        thrust_mps2: collective thrust over mass, along body z.
        rates: whether the rates are wanted, not the attitude.
    """

    q_WB: Quat
    w_B: Vec3
    thrust_mps2: float
    rates: bool = False


class Throttle(NamedTuple):
    """How an autopilot turns the thrust of a message into speeds of the motors.

    Attributes:
        idle, full: share of the highest speed at 0 and at 1; the thrust grows with the square of
            what is between.
        boosts: whether it adds thrust as the vehicle tilts, so that the lift stays.
    """

    idle: float
    full: float
    boosts: bool

    def of(self, share: float, q_WB: Quat) -> float:
        """The number that gives a share of the highest thrust.

        Args:
            share: of the highest thrust, 0 to 1.
            q_WB: attitude at which it shall be given.
        """
        speed = (math.sqrt(max(share, 0.0)) - self.idle) / (self.full - self.idle)
        _, x, y, _ = q_WB
        lifts = max(1.0 - 2.0 * (x * x + y * y), 0.1) if self.boosts else 1.0
        return min(max(speed, 0.0), 1.0) ** 2 * lifts


class TargetSender:
    """Sends setpoints to one autopilot.

    Args:
        airframe: the vehicle as its installer knows it.
        throttle: what it makes of thrusts.
    """

    def __init__(
        self, port: Port, system: int, airframe: AirframeParams, throttle: Throttle
    ) -> None:
        self._port, self._system, self._throttle = port, system, throttle
        rotors = len(airframe.rotor_directions) * airframe.thrust_coefficient_N_s2
        self._top_mps2 = rotors * airframe.rotor_speed_max_radps**2 / airframe.mass_kg

    def send_motion(self, setpoint: np.record, origin_W: Vec3) -> None:
        """Send a place with its velocity and heading, or a velocity with its yaw rate.

        Args:
            setpoint: SETPOINT in mode position or velocity.
            origin_W: where the autopilot's frame begins, m.
        """
        held = int(setpoint["mode"]) == MODE_POSITION
        mask = NO_YAW_RATE if held else NO_PLACE | NO_ACCELERATION | NO_YAW
        p_W: Any = setpoint["p_W"].tolist()
        place = swapped([p - o for p, o in zip(p_W, origin_W, strict=True)])
        frame = self._port.messages.MAV_FRAME_LOCAL_NED
        self._port.send(
            "set_position_target_local_ned", 0, self._system, 1, frame, mask, *place,
            *swapped(setpoint["v_W"].tolist()), *swapped(setpoint["a_W"].tolist()),
            heading_of(float(setpoint["yaw"])) % (2.0 * math.pi), -float(setpoint["yaw_rate"]),
        )  # fmt: skip

    def send_thrust(self, target: ThrustTarget) -> None:
        """Send an attitude or body rates, and a thrust."""
        self._port.send(
            "set_attitude_target", 0, self._system, 1, NO_ATTITUDE if target.rates else 0,
            attitude_out(target.q_WB), *flipped(target.w_B),
            self._throttle.of(target.thrust_mps2 / self._top_mps2, target.q_WB),
        )  # fmt: skip
