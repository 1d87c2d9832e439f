"""PX4 by MAVLink's messages for hardware in the loop: SITL in lockstep, or a board.

src/modules/simulation/simulator_mavlink/SimulatorMavlink.cpp: the firmware connects to TCP 4560,
takes HIL_SENSOR (its clock is ``time_usec``) and HIL_GPS, and answers with HIL_ACTUATOR_CONTROLS,
whose flag 1 means that it waits for the next HIL_SENSOR. Missions go by its MAVLink for companions,
UDP 14540. On a board both share a serial port or a UDP port, and follow the wall clock.

Flows go in by HIL_OPTICAL_FLOW, ranges by DISTANCE_SENSOR, an odometry's poses by ODOMETRY.

It takes a barometer only with pressure, altitude and temperature, and reads ``eph`` and ``epv`` as
the accuracy in cm.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from quadsim.base.errors import InputError
from quadsim.firmware import mavlink
from quadsim.firmware.axes import FRAMES, Rotor, degrees_e7, flipped, swapped
from quadsim.firmware.betaflight import pressure_height_m
from quadsim.firmware.bridge import Craft
from quadsim.firmware.companion import ARMED, PX4, Companion
from quadsim.firmware.seeing import new_distance, new_flow, px4_sources
from quadsim.firmware.transport import (
    HOST,
    ByteStream,
    Process,
    SerialStream,
    Strays,
    TcpStream,
    UdpPort,
    explained,
    fail,
)
from quadsim.sim.loop import ALL_OUTSIDE

SIMULATOR_PORT, COMPANION_PORT = 4560, 14540
#: Bits of fields_updated (HIL_SENSOR_UPDATED_FLAGS).
ACCEL, GYRO, FIELD = 0b111, 0b111000, 0b111000000
BARO = 1 << 9 | 1 << 11 | 1 << 12  # absolute pressure, altitude, temperature
GAUSS_T = 1e4
LOCKSTEP = 1
#: A started firmware connects, and one in lockstep answers, in this time, s.
START_S, ANSWER_S = 30.0, 5.0
#: HIL_SENSOR a second, at most; PX4 is made for 250.
SENSOR_HZ = 250.0
TEMPERATURE_C = 15.0


def board_stream(port: str, strays: Strays) -> ByteStream:
    """The port of a board: ``udp:14560``, ``udp:192.168.7.1:14560`` or a serial device.

    Without an address it is heard on this machine alone.

    Raises:
        InputError: it is neither, or cannot be opened.
    """
    kind, _, place = port.partition(":")
    if kind == "udp":
        host, _, number = place.rpartition(":")
        if not number.isdigit() or not 0 < int(number) < 65536:
            raise InputError(
                f"port {port!r}: udp:[ADDRESS:]NUMBER, up to 65535, or a serial device"
            )
        return UdpPort(int(number), host=host or HOST, fits=mavlink.fits, strays=strays)
    return SerialStream(port)


class Px4:
    """One PX4.

    Args:
        executable: of the SITL (``px4``); None: it runs already.
        parameters: a file of its start script's lines; its folder holds its own files.
        port: of a board; empty: SITL.
        rate: simulated over wall time of a board.
    """

    name, outside = "px4", ALL_OUTSIDE
    frames: Mapping[int, tuple[Rotor, ...]] = FRAMES

    def __init__(
        self,
        executable: Path | None = None,
        parameters: Path | None = None,
        port: str = "",
        rate: float = 1.0,
    ) -> None:
        if port and executable is not None:
            raise InputError("px4: a board and an executable; leave one of them out")
        self._executable, self._parameters = executable, parameters
        self._board, self._rate = port, rate
        self._process: Process | None = None
        self._streams: list[ByteStream] = []
        self._throttles: Sequence[float] = ()
        self._lockstep = self._sent = False
        self._controls_us = -1
        self._counts = Counter(controls=0, late=0, doubled=0, missing=0)
        self._next_ns = 0
        self._updated = 0
        self._fix: NDArray[np.record] | None = None
        self._field_frd_T: Sequence[float] = (0.0, 0.0, 0.0)
        self._pressure_pa = 101325.0

    @property
    def ready(self) -> bool:
        """Whether it would arm."""
        return self._companion.ready

    def open(self, craft: Craft) -> None:
        """Start it and wait until it connects.

        Raises:
            FlightError: it does not.
        """
        self._craft = craft
        self._motors = len(craft.airframe.rotor_directions)
        self._throttles = (0.0,) * self._motors
        self._period_ns = round(1e9 / min(SENSOR_HZ, craft.sensors["imu"].rate_hz))
        if self._board:
            if craft.index > 0:
                raise InputError("px4: one board flies one vehicle")
            stream = board_stream(self._board, craft.strays)
            self._streams = [stream]
            self._hil = companion = mavlink.Port(stream)
        else:
            server = TcpStream(SIMULATOR_PORT + craft.index, True, craft.strays)
            number = COMPANION_PORT + craft.index
            commands = UdpPort(number, fits=mavlink.fits, strays=craft.strays)
            self._streams = [server, commands]
            self._start()
            commands.expect(self._process)
            if not server.open(START_S, self._process):
                fail(
                    self.name,
                    self._process,
                    f"nobody connects to tcp {server.port} in {START_S:g} s{craft.strays}",
                )
            self._hil, companion = mavlink.Port(server), mavlink.Port(commands)
        self._shared = companion is self._hil
        self._companion = Companion(companion, craft, PX4, craft.index + 1)
        self._begin_s = time.monotonic()

    def _start(self) -> None:
        if self._executable is None:
            return
        index = str(self._craft.index)
        arguments = ["-i", index, "-d"]
        if self._parameters is not None:
            arguments += ["-s", str(self._parameters.resolve())]
        settings = px4_sources(self._craft.sensors)
        self._process = Process(self._executable, arguments, self.name, settings)
        self._process.start()

    def send(self, now_ns: int) -> None:
        """Send what the devices say, at its rate."""
        with explained(self._process):
            self._take_slow()
            self._sent = now_ns >= self._next_ns
            if self._sent:
                self._next_ns += self._period_ns
                self._pace(now_ns)
                self._send_sensors(now_ns)
                if self._fix is not None:  # behind what its clock goes by
                    self._send_fix(self._fix[0])
                    self._fix = None
                self._send_seen()

    def receive(self, now_ns: int) -> Sequence[float]:
        """Take its controls; wait for them where it waits for us."""
        with explained(self._process):
            if self._sent:
                self._receive(now_ns)
            if not self._shared:
                self._companion.step(now_ns)
        return self._throttles

    def _pace(self, now_ns: int) -> None:
        """Keep the wall clock of what does not wait for us."""
        if self._lockstep:
            return
        left_s = self._begin_s + now_ns * 1e-9 / self._rate - time.monotonic()
        if left_s > 0.0:
            time.sleep(left_s)

    def _take_slow(self) -> None:
        """Take what came from the slower devices."""
        devices = self._craft.devices
        field_B_T = devices.vector_B("magnetometer", "m_S")
        if field_B_T is not None:
            self._field_frd_T, self._updated = flipped(field_B_T), self._updated | FIELD
        pressure_pa = devices.value("barometer", "pressure_pa")
        if pressure_pa is not None:
            self._pressure_pa, self._updated = pressure_pa, self._updated | BARO
        fix = devices.take("gnss")
        if fix is not None:
            self._fix = fix.copy()

    def _send_sensors(self, now_ns: int) -> None:
        f_B, w_B = self._craft.devices.imu()
        field = [GAUSS_T * value for value in self._field_frd_T]
        pressure_hpa, height_m = 0.01 * self._pressure_pa, pressure_height_m(self._pressure_pa)
        self._hil.send(
            "hil_sensor", now_ns // 1000, *flipped(f_B), *flipped(w_B), *field, pressure_hpa, 0.0,
            height_m, TEMPERATURE_C, self._updated | ACCEL | GYRO, 0,
        )  # fmt: skip
        self._updated = 0

    def _send_seen(self) -> None:
        """Send a flow and a distance, where there are new ones."""
        flow = new_flow(self._craft.devices)
        if flow is not None:
            self._hil.send(
                "hil_optical_flow", flow.stamp_us, 0, flow.interval_us, *flow.angles_rad,
                *flow.turn_rad, 0, flow.quality, 0, -1.0,  # no temperature, no range
            )  # fmt: skip
        distance = new_distance(self._craft.devices, self._craft.sensors.get("rangefinder"))
        if distance is not None:
            self._hil.send("distance_sensor", *distance)

    def _send_fix(self, fix: NDArray[np.record]) -> None:
        latitude, longitude, height_m = self._craft.datum.to_geodetic(fix["p_W"])
        speed = [round(100.0 * value) for value in swapped(fix["v_W"].tolist())]
        course = math.degrees(math.atan2(speed[1], speed[0])) % 360.0
        accuracy = np.sqrt(fix["p_variance"]).tolist()
        self._hil.send(
            "hil_gps", int(fix["stamp_ns"]) // 1000, 3, degrees_e7(latitude),
            degrees_e7(longitude), round(1000.0 * height_m),
            max(1, round(100.0 * max(accuracy[:2]))), max(1, round(100.0 * accuracy[2])),
            round(math.hypot(speed[0], speed[1])), *speed, round(100.0 * course) % 36000,
            int(fix["satellites"]), 0, 0,
        )  # fmt: skip

    def _receive(self, now_ns: int) -> None:
        """Take its controls; in lockstep wait for them."""
        until_s = time.monotonic() + ANSWER_S
        while True:
            waits = self._lockstep and self._controls_us < now_ns // 1000
            answered = False
            for message in self._hil.receive(0.2 if waits else 0.0):
                if message.get_type() == "HIL_ACTUATOR_CONTROLS":
                    answered = self._take_controls(message, now_ns) or answered
                elif self._shared:
                    self._companion.take(message, now_ns)
            if answered or not waits:
                break
            if self._process is not None:
                self._process.check()
            if time.monotonic() > until_s:
                self._counts["missing"] += 1
                fail(self.name, self._process, f"no HIL_ACTUATOR_CONTROLS for {ANSWER_S:g} s")
        if self._shared:
            self._companion.step(now_ns)

    def _take_controls(self, message: mavlink.Message, now_ns: int) -> bool:
        """Keep throttles; whether they are new."""
        stamp_us = message.time_usec
        if stamp_us == self._controls_us:
            self._counts["doubled"] += 1
            return False
        if stamp_us < self._controls_us:
            self._counts["late"] += 1
            return False
        self._controls_us = stamp_us
        self._counts["controls"] += 1
        self._lockstep = bool(message.flags & LOCKSTEP) and not self._board
        armed = bool(message.mode & ARMED)
        controls = message.controls[: self._motors]
        self._throttles = [v if armed else 0.0 for v in controls]
        return True

    def close(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.stop()
        for stream in self._streams:
            stream.close()

    def counts(self) -> Mapping[str, int]:
        """Controls, late and doubled ones, and MAVLink's lost and damaged messages."""
        counts = self._hil.counts if self._streams else Counter()
        return {**self._counts, "mavlink_lost": counts["lost"],
                "mavlink_damaged": counts["damaged"]}  # fmt: skip
