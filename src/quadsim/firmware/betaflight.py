"""Betaflight's SITL: its attitude and rate loops and its mixer, under our position control.

UDP, as src/platform/SIMULATOR/sitl.c and target.h have it: 9003 takes the state, 9004 the sticks,
9001 gives the motors as PWM in the firmware's own order (9002 has been in another order before).
All of it little-endian, doubles and floats.

Betaflight's axes are FLU and right-handed (imu.c): a rate is positive counter-clockwise seen from
above, and its mixer answers that with more speed of the motors that turn counter-clockwise, front
right and rear left, whose reaction turns the body clockwise. ``sitlGyroBodyFromSim`` negates the
pitch rate of a packet, ``updateState`` all of the specific force, so that a packet has (p, -q, r)
and -f of FLU. (A build with ENABLE_GAZEBO_BRIDGE=0 negates the yaw rate too, and cannot be flown.)

The firmware runs by the wall clock times ``simRate``, which it takes from the newest two packets
whose stamps are nearer than 0.02 s. With delayed packets that rate would diverge, so two such
packets set it once, and all later stamps are farther apart. A machine that is too slow for its
1 kHz loop flies it slower than the clock: its filters assume that they are called in time.
"""

from __future__ import annotations

import math
import struct
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from quadsim.base.compiled import plain
from quadsim.base.errors import FlightError, InputError
from quadsim.base.parameters import Vec3
from quadsim.firmware.axes import CLOCKWISE, COUNTER_CLOCKWISE, Rotor
from quadsim.firmware.bridge import Craft
from quadsim.firmware.transport import Process, TcpStream, UdpPort, fail, refuse_taken
from quadsim.geometry.rotation import Quat, multiply, to_euler
from quadsim.sim.loop import MOTORS_OUTSIDE

MOTORS_PORT, STATE_PORT, STICKS_PORT, SERIAL_PORT = 9001, 9003, 9004, 5761
#: Motors 1 to 4 (mixer_init.c, mixerQuadX; doc "props in").
QUAD_X = (
    Rotor(135.0, CLOCKWISE),
    Rotor(45.0, COUNTER_CLOCKWISE),
    Rotor(-135.0, COUNTER_CLOCKWISE),
    Rotor(-45.0, CLOCKWISE),
)
STATE, STICKS, MOTORS = struct.Struct("<18d"), struct.Struct("<d16H"), struct.Struct("<Hxx16f")
#: Between the stamps of two packets, s: the firmware's clock stays the wall's.
STAMP_STEP_S = 0.025
#: Stamps of the two that set its clock are nearer than 0.02 s, and in wall time than 0.5 s.
CLOCK_STAMP_S, CLOCK_WALL_S = 0.019, 0.4
#: Longest period of its loop with which it flies, us: it assumes 1000 (accgyro_virtual.h).
SLOWEST_LOOP_US = 1500
#: Requests of MSP (msp_protocol.h).
MSP_STATUS = 101
#: Arming is refused so long after power-on (armingdisabled BOOTGRACE and calibration), s.
BOOT_S = 8.0
#: Time in which an armed firmware turns its motors, and in which a started one answers, s.
ARM_S, ANSWER_S = 3.0, 20.0
#: So often it is started where it does not answer the first packets in so many seconds.
STARTS, FIRST_ANSWER_S = 3, 5.0
#: Behind the wall clock by more, the time that is lost is not made up, s.
LATE_S = 0.1

LEVEL: Quat = (1.0, 0.0, 0.0, 0.0)
REST: Vec3 = (0.0, 0.0, 9.80665)
#: Idle of the motors, largest lean of a stick in angle mode, and rate at full yaw stick.
IDLE, LEAN_DEG, YAW_DEG_S = 0.055, 45.0, 200.0
#: PWM at which the sticks begin to count (min_check), and the ends.
LEAST_STICK, MIDDLE, SPAN, OFF, ON = 1050, 1500, 500, 1000, 2000

#: What the firmware is told by its own command line: arm by AUX1, level by AUX2, sticks in
#: proportion. Its feedforward is made for the packets of a radio: by sticks that move with every
#: sample it leans x500 the wrong way first.
CONFIGURATION = f"""feature -GPS
feature -TELEMETRY
aux 0 0 0 1700 2100 0 0
aux 1 1 1 1700 2100 0 0
set motor_pwm_protocol = PWM
set motor_idle = {round(IDLE * 10000)}
set dshot_idle_value = {round(IDLE * 10000)}
set small_angle = 180
set deadband = 0
set yaw_deadband = 0
set angle_limit = {LEAN_DEG:g}
set roll_rc_rate = 20
set pitch_rc_rate = 20
set roll_srate = 20
set pitch_srate = 20
set yaw_rc_rate = {YAW_DEG_S / 10.0:g}
set yaw_srate = {YAW_DEG_S / 10.0:g}
set yaw_expo = 0
set roll_expo = 0
set pitch_expo = 0
set f_roll = 0
set f_pitch = 0
set f_yaw = 0
set angle_feedforward = 0
set failsafe_delay = 10
save
"""


def state_packet(
    stamp_s: float, f_B: Vec3, w_B: Vec3, q_WB: Quat, v_W: Vec3, place: Vec3, pressure_pa: float
) -> bytes:
    """What port 9003 takes.

    Args:
        stamp_s: of the packet.
        f_B, w_B: specific force, m/s^2, and rate, rad/s.
        q_WB: attitude, of which the firmware makes its compass.
        v_W: velocity, m/s.
        place: longitude and latitude in degrees (as the firmware mirrors them) and height, m.
        pressure_pa: for builds that take it.
    """
    w, x, y, z = plain(multiply)((0.0, 0.0, 0.0, 1.0), q_WB)
    return STATE.pack(
        stamp_s, w_B[0], -w_B[1], w_B[2], -f_B[0], -f_B[1], -f_B[2], w, x, -y, -z,
        *v_W, *place, pressure_pa,
    )  # fmt: skip


def whole(q: Sequence[float]) -> Quat:
    """A quaternion of a record, level before it is written."""
    w, x, y, z = q
    return (w, x, y, z) if w or x or y or z else LEVEL


def stick(share: float) -> int:
    """PWM of a stick that is so far from the middle, -1 to 1."""
    return round(MIDDLE + SPAN * min(max(share, -1.0), 1.0))


def sticks_of(q_WB: Quat, yaw_rate: float, throttle: float) -> tuple[int, int, int, int]:
    """Roll, pitch, throttle and yaw as PWM: right, nose down, more and clockwise are above.

    Args:
        q_WB: wanted attitude; its yaw does not count.
        yaw_rate: counter-clockwise, rad/s.
        throttle: mean speed of the motors over the highest.
    """
    roll, pitch, _ = plain(to_euler)(q_WB)
    lean, turn = math.radians(LEAN_DEG), math.radians(YAW_DEG_S)
    share = min(max((throttle - IDLE) / (1.0 - IDLE), 0.0), 1.0)
    power = OFF if throttle <= 0.0 else round(LEAST_STICK + (ON - LEAST_STICK) * share)
    return stick(roll / lean), stick(pitch / lean), power, stick(-yaw_rate / turn)


def pressure_height_m(pressure_pa: float) -> float:
    """Height at which the firmware's own formula gives a pressure (sitl.c)."""
    return float((1.0 - (pressure_pa / 101325.0) ** (1.0 / 5.25588)) / 2.25577e-5)


def msp_request(command: int) -> bytes:
    """A request of MSP version 1 without content."""
    return b"$M<" + bytes((0, command, command))


def msp_answer(data: bytes, command: int) -> bytes | None:
    """Content of the answer to a request; None: it is not whole yet."""
    at = data.find(b"$M>")
    if at < 0 or len(data) < at + 6 or len(data) < at + 6 + data[at + 3]:
        return None
    size = data[at + 3]
    return data[at + 5 : at + 5 + size] if data[at + 4] == command else None


def fits_motors(data: bytes) -> bool:
    """Whether a packet has the size of a motor command."""
    return len(data) == MOTORS.size


class Betaflight:
    """One Betaflight, started from an executable or found running.

    Args:
        executable: of the SITL; None: it runs already, configured by its user.
        parameters: further lines of its command line, a file.
        rate: simulated over wall time.
    """

    name, outside = "betaflight", MOTORS_OUTSIDE
    frames: Mapping[int, tuple[Rotor, ...]] = {4: QUAD_X}

    def __init__(
        self, executable: Path | None = None, parameters: Path | None = None, rate: float = 1.0
    ) -> None:
        self._executable, self._parameters, self._rate = executable, parameters, rate
        self._serial = TcpStream(SERIAL_PORT, listens=False)
        self._process: Process | None = None
        self._ports: list[UdpPort] = []
        self.ready = False
        self._throttles: Sequence[float] = (0.0,) * 4
        self._stamp_s = 0.0
        self._begin_s = 0.0
        self._answered_ns = self._armed_ns = -1
        self._place: Vec3 = (0.0, 0.0, 0.0)
        self._first: Vec3 | None = None
        self._v_W: Vec3 = (0.0, 0.0, 0.0)
        self._pressure_pa = 101325.0
        self._counts = {"motor packets": 0, "late": 0}

    def open(self, craft: Craft) -> None:
        """Configure and start it.

        Raises:
            InputError: a port is taken, or there are several vehicles.
        """
        if craft.index > 0:
            raise InputError("betaflight: its ports are fixed, so one vehicle flies")
        self._craft = craft
        airframe = craft.airframe
        rotors = len(airframe.rotor_directions) * airframe.thrust_coefficient_N_s2
        self._full_mps2 = rotors * airframe.rotor_speed_max_radps**2 / airframe.mass_kg
        self._ports = [UdpPort(MOTORS_PORT, fits=fits_motors, strays=craft.strays)]
        self._ports += [UdpPort(0, to=port) for port in (STATE_PORT, STICKS_PORT)]
        if self._executable is not None:
            self._process = Process(self._executable, ["--ip", "127.0.0.1"], self.name)
            lines = CONFIGURATION
            if self._parameters is not None:
                more = self._parameters.read_text(encoding="utf-8")
                lines = lines.replace("save\n", f"{more}\nsave\n")
            refuse_taken(SERIAL_PORT)
            (self._process.folder / "configuration.txt").write_text(lines, encoding="utf-8")
            self._process.run_once(["--config", "configuration.txt"], ANSWER_S)
        for _ in range(STARTS):
            if self._process is not None:
                self._process.start()
                self._ports[0].expect(self._process)
            self._wait()
            self._set_clock()
            if self._process is None or self._answers():
                break
            self._process.halt()
            self._serial.close()
            self._serial = TcpStream(SERIAL_PORT, listens=False)
        self._begin_s = time.monotonic()

    def _answers(self) -> bool:
        """Whether it answers a vehicle at rest by motor commands: now and then it never does."""
        until_s = time.monotonic() + FIRST_ANSWER_S
        while time.monotonic() < until_s:
            self._stamp_s += STAMP_STEP_S
            self._send_state(REST, (0.0, 0.0, 0.0), LEVEL)
            if self._ports[0].read(0.005):
                return True
        return False

    def _wait(self) -> None:
        """Wait until it has set up its devices: a packet that comes before ends it."""
        until_s = time.monotonic() + ANSWER_S
        while not self._serial.open(0.2, self._process):
            if time.monotonic() > until_s:
                raise FlightError(f"betaflight: nothing on tcp {SERIAL_PORT} in {ANSWER_S:g} s")

    def _send_state(self, f_B: Vec3, w_B: Vec3, q_WB: Quat) -> None:
        place = (self._place[0], self._place[1], pressure_height_m(self._pressure_pa))
        self._ports[1].write(
            state_packet(self._stamp_s, f_B, w_B, q_WB, self._v_W, place, self._pressure_pa)
        )

    def _set_clock(self) -> None:
        """Let its clock run at the rate, by two packets."""
        wall_s = min(CLOCK_WALL_S, CLOCK_STAMP_S / self._rate)
        # the first one after a pause only begins, so it has one more
        steps = ((STAMP_STEP_S, 0.01), (STAMP_STEP_S, wall_s), (self._rate * wall_s, 0.0))
        for stamp_s, wait_s in steps if self._rate != 1.0 else ():
            self._stamp_s += stamp_s
            self._send_state(REST, (0.0, 0.0, 0.0), LEVEL)
            time.sleep(wait_s)

    def _loop_us(self) -> int:
        """Period of its loop, us."""
        self._serial.write(msp_request(MSP_STATUS))
        data, until_s = b"", time.monotonic() + 2.0
        while time.monotonic() < until_s:
            data += self._serial.read(0.01)
            answer = msp_answer(data, MSP_STATUS)
            if answer is not None:
                return int.from_bytes(answer[:2], "little")
        raise FlightError(f"betaflight: no answer to MSP {MSP_STATUS} on tcp {SERIAL_PORT}")

    def send(self, now_ns: int) -> None:
        """Wait for the wall clock, take the newest motor command, send state and sticks."""
        self._pace(now_ns)
        self._take_motors(now_ns)
        craft, devices = self._craft, self._craft.devices
        f_B, w_B = devices.imu()
        self._take_slow()
        self._stamp_s += STAMP_STEP_S
        self._send_state(f_B, w_B, whole(craft.odometries["q_WB"][0].tolist()))
        self._ports[2].write(STICKS.pack(now_ns * 1e-9, *self._channels(), *(OFF,) * 10))
        if not self.ready and now_ns * 1e-9 >= BOOT_S and self._answered_ns >= 0:
            self._check_loop()
            self.ready = True

    def receive(self, now_ns: int) -> Sequence[float]:
        """Throttles of the newest motor command; it is not waited for."""
        return self._throttles

    def _check_loop(self) -> None:
        """See that its loop is as quick as its filters assume."""
        self._counts["loop_us"] = loop_us = self._loop_us()
        if loop_us > SLOWEST_LOOP_US:
            raise FlightError(
                f"betaflight: its loop takes {loop_us} us, at most {SLOWEST_LOOP_US} are flown: the"
                f" machine is too slow or busy; fly it with --rate {self._rate * 0.2:.2g}"
            )

    def _pace(self, now_ns: int) -> None:
        left_s = self._begin_s + now_ns * 1e-9 / self._rate - time.monotonic()
        if left_s > 0.0:
            time.sleep(left_s)
        elif left_s < -LATE_S:
            self._counts["late"] += 1
            self._begin_s -= left_s

    def _take_motors(self, now_ns: int) -> None:
        """Take the newest motor command; see that there are any."""
        while data := self._ports[0].read():
            if not fits_motors(data):
                raise FlightError(
                    f"betaflight: {len(data)} bytes on udp {MOTORS_PORT}, {MOTORS.size} wanted:"
                    " another version"
                )
            motors, *pwm = MOTORS.unpack(data)
            if motors != 4:
                raise FlightError(f"betaflight: {motors} motors, 4 wanted: set its mixer to QUADX")
            self._throttles = [(value - OFF) / (ON - OFF) for value in pwm[:4]]
            self._answered_ns = now_ns
            self._counts["motor packets"] += 1
        if self._process is not None:
            self._process.check()
        silent_s = (now_ns - max(self._answered_ns, 0)) * 1e-9
        if silent_s > (1.0 if self._answered_ns >= 0 else ANSWER_S):
            fail(
                "betaflight",
                self._process,
                f"silent for {silent_s:.0f} s on udp {MOTORS_PORT}{self._craft.strays}",
            )
        self._check_armed(now_ns)

    def _check_armed(self, now_ns: int) -> None:
        """See that an armed firmware turns its motors."""
        if not self._craft.manager.armed or max(self._throttles) > 0.0:
            self._armed_ns = now_ns
        elif (now_ns - self._armed_ns) * 1e-9 > ARM_S:
            stated = self._process.output() if self._process is not None else ""
            why = [line for line in stated.splitlines() if "Arming disabled" in line]
            raise FlightError(f"betaflight: does not arm; {why[-1] if why else 'no reason given'}")

    def _take_slow(self) -> None:
        """Take what came from the receiver of GNSS and the barometer."""
        devices = self._craft.devices
        fix = devices.take("gnss")
        if fix is not None:
            latitude, longitude, height_m = self._craft.datum.to_geodetic(fix["p_W"][0])
            here = (longitude, latitude, height_m)
            first = self._first = self._first or here
            # mirrored about the first, as the firmware mirrors it back
            self._place = (2.0 * first[0] - here[0], 2.0 * first[1] - here[1], height_m)
            x, y, z = fix["v_W"][0].tolist()
            self._v_W = (x, y, z)
        pressure_pa = devices.value("barometer", "pressure_pa")
        if pressure_pa is not None:
            self._pressure_pa = pressure_pa

    def _channels(self) -> tuple[int, ...]:
        """Sticks, and the switches to arm and to fly level."""
        craft, command = self._craft, self._craft.commands[0]
        throttle = math.sqrt(max(float(command["thrust"]), 0.0) / self._full_mps2)
        if not craft.manager.flying:
            throttle = 0.0
        four = sticks_of(whole(command["q_WB"].tolist()), float(command["yaw_rate"]), throttle)
        return (*four, ON if craft.manager.armed else OFF, ON)

    def close(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.stop()
        for port in self._ports:
            port.close()
        self._serial.close()

    def counts(self) -> Mapping[str, int]:
        """How many motor packets came, and how often the wall clock was lost."""
        return self._counts
