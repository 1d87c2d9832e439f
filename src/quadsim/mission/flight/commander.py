"""What a Crazyflie's firmware takes: high-level commands, trajectories, and streamed setpoints.

It decides as the firmware does (bitcraze/crazyflie-firmware: commander.c, planner.c, supervisor.c,
crtp_commander_high_level.c). High-level commands are polynomials of degree 7 in a given time.
Streamed setpoints go before them, until somebody reports that they stop. When they are missing, the
vehicle levels out, and then stops its motors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from quadsim.base.parameters import Vec3
from quadsim.base.records import MODE_ATTITUDE, MODE_POSITION, MODE_VELOCITY, SETPOINT
from quadsim.control.parameters import PositionParams
from quadsim.geometry.rotation import from_euler, rotate
from quadsim.mission.flight.context import FlightContext
from quadsim.mission.flight.estimate_check import ZERO
from quadsim.mission.flight.mission_items import MissionItems
from quadsim.mission.flight.states import STEERED, WARN
from quadsim.mission.reference.legs import Motion, write_setpoint
from quadsim.mission.trajectories.pieces import COEFFICIENTS, Piece, PieceTrajectory

#: Age of a streamed setpoint at which the vehicle levels out, and at which its motors stop, s
#: (supervisor.c: COMMANDER_WDT_TIMEOUT_STABILIZE, COMMANDER_WDT_TIMEOUT_SHUTDOWN).
LEVEL_S, SHUTDOWN_S = 0.5, 2.0
#: Trajectories that the firmware knows (crtp_commander_high_level.h), and pieces that it counts.
#: Its memory has room for 31, but an example of Crazyswarm2, multi_trajectory, uploads 32.
TRAJECTORIES, PIECES = 10, 255
#: States on the ground from which a request takes off.
GROUNDED = ("disarmed", "armed", "landed", "stopped")
#: A number that is asked for is refused beyond this: m, m/s, rad, s.
MOST = 1e4


def _fault(piece: Piece) -> str:
    """What is wrong with a piece, in words; empty: nothing."""
    if [len(row) for row in piece.coefficients] != 4 * [COEFFICIENTS]:
        return f"give {COEFFICIENTS} coefficients for each of x, y, z, yaw"
    if not 0.0 < piece.duration_s < MOST:
        return f"a duration of {piece.duration_s:g} s; allowed: > 0"
    with np.errstate(over="ignore"):  # inf is refused
        moved = np.array(piece.coefficients) * np.vander([piece.duration_s], COEFFICIENTS, True)
    if not (np.abs(moved) <= MOST).all():
        return f"a coefficient is not finite, or moves it over {MOST:g} m or rad"
    return ""


class Commander:
    """Obeys the commands of a Crazyflie, or states why not; as requests of the flight manager.

    Services arm where that is needed. Streamed setpoints never do.

    Args:
        flight: whose state and reference it leads.
        mission: which a command suspends.
        limits: of the position loop, by whose gain a height is held.
        arm: starts the motors, or returns why not.

    Attributes:
        group_mask: groups that it belongs to, as bits.
        locked: after an emergency stop nothing is obeyed any more.
    """

    def __init__(
        self,
        flight: FlightContext,
        mission: MissionItems,
        limits: PositionParams,
        arm: Callable[[], str | None],
    ) -> None:
        self._flight, self._mission, self._limits, self._arm = flight, mission, limits, arm
        self.group_mask, self.locked = 0, False
        self._memory: dict[int, Piece] = {}
        self._trajectories: dict[int, range] = {}
        self._lands = False
        self._given: NDArray[np.record] = np.zeros(1, SETPOINT)
        self._write: Callable[[], None] | None = None  # writes the streamed setpoint; None: no such
        self._streamed_ns = 0
        self._has_priority = self._levels = False
        self._thrust_locked = True
        self._refused = ""

    def addressed(self, mask: int) -> bool:
        """Whether a command for groups is for this vehicle, too."""
        return mask == 0 or bool(mask & self.group_mask)

    # ---- high level ----------------------------------------------------------------------------

    def take_off(self, height_m: float, duration_s: float) -> str | None:
        """Fly straight up to a height in W, with the heading rotated to east."""
        refused = self._refusal((height_m,), duration_s)
        if refused is None and self._flies:
            refused = "it flies already"
        if refused is None:
            refused = self._leave_ground()
        if refused is None:
            self._climb(height_m, duration_s, f"takes off to {height_m:g} m")
        return self._answer(refused)

    def land(self, height_m: float, duration_s: float) -> str | None:
        """Fly straight down to a height in W, and stop the motors there."""
        refused = self._refusal((height_m,), duration_s)
        if refused is None and not self._flight.flying:
            refused = "not on the ground"
        if refused is None and self._flies and self._lands:
            refused = "it lands already"
        if refused is None:
            self._climb(height_m, duration_s, f"lands at {height_m:g} m", lands=True)
        return self._answer(refused)

    def go_to(
        self, goal_W: Vec3, yaw: float, duration_s: float, relative: bool = False
    ) -> str | None:
        """Fly to rest at a pose, which may count from the present setpoint."""
        refused = self._refusal((*goal_W, yaw), duration_s) or self._leave_ground()
        if refused is None:
            start = self._start()
            if relative:
                x, y, z = start[0]
                goal_W, yaw = (x + goal_W[0], y + goal_W[1], z + goal_W[2]), yaw + start[3]
            self._begin("flies to a place")
            self._flight.reference.reach(start, goal_W, yaw, duration_s)
        return self._answer(refused)

    def upload(self, number: int, offset: int, pieces: Sequence[Piece]) -> str | None:
        """Keep a trajectory: its pieces from a place of the memory on."""
        refused = None
        if not 0 <= number < TRAJECTORIES:
            refused = f"trajectory {number}; allowed: 0 to {TRAJECTORIES - 1}"
        elif not pieces or offset < 0 or offset + len(pieces) > PIECES:
            refused = f"pieces {offset} to {offset + len(pieces)}; there is room for {PIECES}"
        for i, piece in enumerate(pieces):
            fault = _fault(piece)
            if fault:
                refused = f"piece {i}: {fault}"
        if refused is None:
            self._memory.update(enumerate(pieces, offset))
            self._trajectories[number] = range(offset, offset + len(pieces))
        return self._answer(refused)

    def start_trajectory(
        self, number: int, timescale: float = 1.0, backwards: bool = False, relative: bool = True
    ) -> str | None:
        """Fly a trajectory that was uploaded, where relative from the present setpoint on."""
        refused = self._refusal((), timescale)
        if refused is None and number not in self._trajectories:
            refused = f"trajectory {number} was not uploaded"
        refused = refused or self._leave_ground()
        if refused is None:
            pieces = [self._memory[i] for i in self._trajectories[number]]
            plan = PieceTrajectory(pieces, timescale, backwards)
            if relative:
                p, first = self._start()[0], plan.at(0.0)[0]
                shift_W = (p[0] - first[0], p[1] - first[1], p[2] - first[2])
                plan = PieceTrajectory(pieces, timescale, backwards, shift_W)
            self._begin(f"flies trajectory {number}")
            self._flight.reference.follow(plan)
        return self._answer(refused)

    def stop_setpoints(self) -> None:
        """High-level commands are obeyed again; the last setpoint is followed until then."""
        self._has_priority = False

    def arm(self, wanted: bool) -> str | None:
        """Start the motors at idle, or stop them, in the air too."""
        flight = self._flight
        if not wanted:
            return self._answer(flight.disarm(force=True))
        if flight.armed:
            return None
        return self._answer("locked by an emergency stop" if self.locked else self._arm())

    def emergency(self) -> None:
        """Stop the motors at once; nothing is obeyed until the simulation is reset."""
        self.locked, self._write = True, None
        self._flight.stop("emergency stop")

    # ---- streamed setpoints --------------------------------------------------------------------

    def full_state(
        self, p_W: Vec3, v_W: Vec3, a_W: Vec3, yaw: float, yaw_rate: float
    ) -> str | None:
        """Follow a motion."""
        write = partial(write_setpoint, self._given, MODE_POSITION, p_W, v_W, a_W, yaw, yaw_rate)
        return self._stream((*p_W, *v_W, *a_W, yaw, yaw_rate), write)

    def velocity(self, v_W: Vec3, yaw_rate: float) -> str | None:
        """Follow a velocity in W."""
        return self._stream((*v_W, yaw_rate), partial(self._write_velocity, v_W, yaw_rate))

    def hover(self, v_B: Vec3, height_m: float, yaw_rate: float) -> str | None:
        """Follow a level velocity, ahead and to the left, at a height in W."""
        write = partial(self._write_hover, v_B, height_m, yaw_rate)
        return self._stream((*v_B, height_m, yaw_rate), write)

    def attitude(self, roll: float, pitch: float, yaw_rate: float, thrust: float) -> str | None:
        """Follow roll and pitch in rad with a collective specific thrust in m/s^2.

        The thrust counts from the first setpoint on that asks for none.
        """
        self._thrust_locked = thrust > 0.0 and (self._thrust_locked or not self._flight.flying)
        thrust = 0.0 if self._thrust_locked else thrust
        write = partial(self._write_attitude, roll, pitch, yaw_rate, thrust)
        return self._stream((roll, pitch, yaw_rate, thrust), write)

    def _write_velocity(self, v_W: Vec3, yaw_rate: float) -> None:
        estimate = self._flight.estimate
        p_W, yaw = estimate.p_W, estimate.yaw
        write_setpoint(self._given, MODE_VELOCITY, p_W, v_W, ZERO, yaw, yaw_rate)

    def _write_hover(self, v_B: Vec3, height_m: float, yaw_rate: float) -> None:
        estimate = self._flight.estimate
        x, y, _ = rotate(from_euler(0.0, 0.0, estimate.yaw), v_B)
        climb_mps = self._limits.position_gain_z * (height_m - estimate.p_W[2])
        limits = self._limits
        climb_mps = min(max(climb_mps, -limits.descent_max_mps), limits.ascent_max_mps)
        self._write_velocity((x, y, climb_mps), yaw_rate)

    def _write_attitude(self, roll: float, pitch: float, yaw_rate: float, thrust: float) -> None:
        given = self._given
        self._write_velocity(self._flight.estimate.v_W, yaw_rate)
        given["mode"] = MODE_ATTITUDE
        given["roll"], given["pitch"], given["thrust"] = roll, pitch, thrust

    def _write_level(self) -> None:
        """Level what was written last: no roll, pitch and turn; the height as it is wanted."""
        given, estimate = self._given, self._flight.estimate
        given["roll"] = given["pitch"] = given["yaw_rate"] = 0.0
        given["a_W"], given["yaw"] = 0.0, estimate.yaw
        given["p_W"][0, :2], given["v_W"][0, :2] = estimate.p_W[:2], estimate.v_W[:2]

    def _stream(self, numbers: tuple[float, ...], write: Callable[[], None]) -> str | None:
        """Follow a setpoint from now on."""
        flight = self._flight
        refused = self._refusal(numbers, streamed=True)
        if refused is None and not flight.armed:
            refused = "disarmed; arm or take off first"
        if refused is not None:
            return self._answer(refused)
        if not flight.flying:
            flight.leave_ground()
        self._write, self._streamed_ns = write, flight.now_ns
        self._has_priority, self._levels = True, False
        write()
        if flight.state != "commanded" or flight.reference.kind != "given":
            self._mission.suspend()
            flight.reference.borrow(self._given)
            flight.enter("commanded", "follows setpoints")
        return None

    # ---- a tick --------------------------------------------------------------------------------

    def tick(self) -> None:
        """Go on with what was commanded."""
        flight = self._flight
        if self._write is None:
            if self._lands and flight.reference.is_over:
                flight.enter("landed", "at the height that was wanted")
            return
        self._write()
        age_s = flight.since_s(self._streamed_ns)
        if age_s > SHUTDOWN_S:
            self._write, self._has_priority = None, False
            flight.stop(f"no setpoint for {SHUTDOWN_S:g} s")
        elif age_s > LEVEL_S:
            if not self._levels:
                self._levels = True
                flight.event(WARN, "setpoints stay away", f"level after {LEVEL_S:g} s")
            self._write_level()

    @property
    def _flies(self) -> bool:
        """Whether a high-level command is being flown."""
        return self._flight.state == "commanded" and self._write is None

    def _start(self) -> Motion:
        """What a high-level command begins with: the setpoint, after streamed ones the estimate."""
        if self._flies:
            return self._flight.reference.motion()
        estimate = self._flight.estimate
        return (estimate.p_W, estimate.v_W, ZERO, estimate.yaw, 0.0)

    def _climb(self, height_m: float, duration_s: float, words: str, lands: bool = False) -> None:
        """Straight up or down, from rest and to rest, the heading rotated to 0 as the firmware."""
        p, _, _, yaw, _ = self._start()
        self._begin(words, lands)
        start = (p, ZERO, ZERO, yaw, 0.0)
        self._flight.reference.reach(start, (p[0], p[1], height_m), 0.0, duration_s)

    def _begin(self, words: str, lands: bool = False) -> None:
        """A high-level command is flown from now on."""
        flight = self._flight
        self._mission.suspend()
        self._write, self._lands, self._refused = None, lands, ""
        self._has_priority = False
        flight.enter("commanded", words)

    def _leave_ground(self) -> str | None:
        """Arm and take off, if it is not in the air; why not, in words."""
        flight = self._flight
        if flight.flying:
            return None
        if flight.state == "landed":
            flight.disarm()
        refused = None if flight.armed else self._arm()
        if refused is None:
            flight.leave_ground()
        return refused

    def _refusal(
        self, numbers: tuple[float, ...], duration_s: float = 1.0, streamed: bool = False
    ) -> str | None:
        """Why a command is not obeyed, before it is looked at closer."""
        state = self._flight.state
        if self.locked:
            return "locked by an emergency stop; reset the simulation"
        if not all(abs(number) <= MOST for number in numbers):
            return f"a number in it is not finite, or larger than {MOST:g}"
        if not 0.0 < duration_s <= MOST:
            return f"a duration or time scale of {duration_s:g}; allowed: > 0"
        if state not in (*GROUNDED, *STEERED):
            return f"not while {state}"
        if self._has_priority and not streamed and state == "commanded":
            return "setpoints have priority; notify that they stop"
        return None

    def _answer(self, refused: str | None) -> str | None:
        """Report a refusal, once while it stays the same."""
        if refused is not None and refused != self._refused:
            self._flight.event(WARN, "command refused", refused)
        self._refused = refused or ""
        return refused
