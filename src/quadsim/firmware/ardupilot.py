"""ArduPilot's SITL by its JSON interface, in lockstep, and MAVLink to command it.

libraries/SITL/SIM_JSON.h and .cpp: the firmware sends servos to UDP 9002 (magic 18458, rate, count
of frames, 16 PWM) and waits for a line of JSON, NED and FRD. It then computes a step as long as the
time stamps are apart. Gyroscope and accelerometer are ours, with all their errors, and the fixes of
our receiver go in by GPS_INPUT (GPS1_TYPE 14), flows by OPTICAL_FLOW (FLOW_TYPE 5: its rates, in
rad/s, since 4.6), an odometry's poses by VISION_POSITION_ESTIMATE (VISO_TYPE 1). Barometer and
compass cannot be given: the firmware makes them of the true pose, as its SIM_BARO and SIM_MAG
parameters say.
"""

from __future__ import annotations

import math
import struct
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from quadsim.firmware import mavlink
from quadsim.firmware.axes import FRAMES, Rotor, attitude_out, degrees_e7, flipped, swapped
from quadsim.firmware.bridge import Craft
from quadsim.firmware.companion import ARDUPILOT, Companion
from quadsim.firmware.seeing import ardupilot_sources, new_flow
from quadsim.firmware.transport import Process, TcpStream, UdpPort, explained, fail, refuse_taken
from quadsim.firmware.upload import Upload, steps_of
from quadsim.geometry.rotation import yaw_of
from quadsim.sim.loop import ALL_OUTSIDE

SERVO_PORT, MAVLINK_PORT, NEXT_INSTANCE = 9002, 5760, 10
SERVOS, MAGIC = struct.Struct("<HHI16H"), 18458
#: A started firmware connects, and one that runs answers, in this time, s.
START_S, ANSWER_S = 30.0, 5.0
#: Frame class by number of rotors.
FRAME_CLASSES = {4: 1, 6: 2}
#: Samples of the gyroscope in a loop of the firmware; it does not arm with less than 1.8.
GYROS_A_LOOP = 2.0
#: Of its calendar, s since 1970: else the day would be in the flight.
START_TIME = "--start-time=1700000000"
WEEK = 2300  # of GPS time; any
#: Bit 3 of GUID_OPTIONS: the thrust of an attitude is one, not a climb rate.
THRUST_IS_THRUST = 8
#: What a fix does not have is ignored: nothing but the heading (GPS_INPUT_IGNORE_FLAGS: none).
IGNORE_NOTHING = 0


def json_line(
    stamp_ns: int, f_frd: Sequence[float], w_frd: Sequence[float], place: Sequence[float],
    q: Sequence[float], speed: Sequence[float], range_m: float | None,
) -> bytes:  # fmt: skip
    """What the firmware takes: SI, FRD in NED, quaternion w first; NaN: nothing in range."""
    seen = range_m is not None and math.isfinite(range_m)
    ranged = "" if range_m is None else f',"rng_1":{range_m:.4f}' if seen else ',"rng_1":NaN'
    return (
        f'\n{{"timestamp":{stamp_ns * 1e-9:.9f},"imu":{{'
        f'"gyro":[{w_frd[0]:.9g}, {w_frd[1]:.9g}, {w_frd[2]:.9g}],'
        f'"accel_body":[{f_frd[0]:.9g}, {f_frd[1]:.9g}, {f_frd[2]:.9g}]}},'
        f'"position":[{place[0]:.6f}, {place[1]:.6f}, {place[2]:.6f}],'
        f'"quaternion":[{q[0]:.9g}, {q[1]:.9g}, {q[2]:.9g}, {q[3]:.9g}],'
        f'"velocity":[{speed[0]:.6f}, {speed[1]:.6f}, {speed[2]:.6f}]{ranged}}}\n'
    ).encode()


def fits_servos(data: bytes) -> bool:
    """Whether a packet is one of servos, of 16 channels."""
    return len(data) == SERVOS.size and data[:2] == MAGIC.to_bytes(2, "little")


class ArduPilot:
    """One ArduCopter, started from an executable or found running with ``--model JSON``.

    Args:
        executable: ``arducopter``; None: it runs already.
        parameters: a file of its parameters, after ours.
        auto: it flies the mission itself.
    """

    name, outside = "ardupilot", ALL_OUTSIDE
    frames: Mapping[int, tuple[Rotor, ...]] = FRAMES

    def __init__(
        self, executable: Path | None = None, parameters: Path | None = None, auto: bool = False
    ) -> None:
        self._executable, self._parameters, self._auto = executable, parameters, auto
        self._process: Process | None = None
        self._streams: list[UdpPort | TcpStream] = []
        self._frame = -1
        self._range_m: float | None = None
        self._counts = {"frames": 0, "lost": 0, "doubled": 0}

    @property
    def ready(self) -> bool:
        """Whether it would arm."""
        return self._companion.ready

    def open(self, craft: Craft) -> None:
        """Start it and connect.

        Raises:
            FlightError: it does not come up.
        """
        self._craft = craft
        self._motors = len(craft.airframe.rotor_directions)
        steps = steps_of(craft.mission, craft.datum) if self._auto else ()
        port = NEXT_INSTANCE * craft.index
        servos = UdpPort(SERVO_PORT + port, fits=fits_servos, strays=craft.strays)
        commands = TcpStream(MAVLINK_PORT + port, listens=False)
        self._streams, self._servos = [servos, commands], servos
        if self._executable is not None:
            self._process = Process(self._executable, self._arguments(), self.name)
            self._write_parameters(self._process.folder)
            refuse_taken(commands.port)
            self._process.start()
            servos.expect(self._process)
        if not commands.open(START_S, self._process):
            fail(self.name, self._process, f"nothing on tcp {commands.port} in {START_S:g} s")
        self._port = mavlink.Port(commands)
        system = craft.index + 1
        upload = Upload(self._port, system, steps) if steps else None
        self._companion = Companion(self._port, craft, ARDUPILOT, system, upload)
        self._receive(START_S)

    def _arguments(self) -> list[str]:
        datum, index = self._craft.datum, self._craft.index
        yaw = yaw_of(tuple(self._craft.q_WB.tolist()))
        heading_deg = np.degrees(0.5 * np.pi - yaw) % 360.0
        home = f"{datum.latitude_deg},{datum.longitude_deg},{datum.height_m},{heading_deg:.2f}"
        return [
            "--model", "JSON:127.0.0.1", "--speedup", "1000",
            f"--instance={index}", f"--sysid={index + 1}", "--home", home, START_TIME,
            "--defaults", "quadsim.parm", "--wipe",
        ]  # fmt: skip

    def _write_parameters(self, folder: Path) -> None:
        """Write what an installer would set: frame, receiver, the motors' curve.

        No log is written: to arm waits for its file, which the wall clock decides.
        """
        airframe = self._craft.airframe
        top_N = self._motors * airframe.thrust_coefficient_N_s2 * airframe.rotor_speed_max_radps**2
        hover = min(max(9.80665 * airframe.mass_kg / top_N, 0.13), 0.68)
        sensors = self._craft.sensors
        loop_hz = int(min(max(sensors["imu"].rate_hz / GYROS_A_LOOP, 50.0), 400.0))
        fix_latency_s = sensors["gnss"].latency_s if "gnss" in sensors else 0.0
        lines: dict[str, float] = {
            "FRAME_CLASS": FRAME_CLASSES[self._motors], "FRAME_TYPE": 1, "GPS1_TYPE": 14,
            "MOT_THST_EXPO": 1, "MOT_THST_HOVER": round(hover, 3), "INS_GYR_CAL": 1,
            "LOG_BACKEND_TYPE": 0, "FS_GCS_ENABLE": 0, "SCHED_LOOP_RATE": loop_hz,
            "GUID_OPTIONS": THRUST_IS_THRUST,
            "GPS1_DELAY_MS": max(1, round(1000.0 * fix_latency_s)),
        }  # fmt: skip
        lines |= ardupilot_sources(sensors)
        text = "".join(f"{name} {value}\n" for name, value in lines.items())
        if self._parameters is not None:
            text += self._parameters.read_text(encoding="utf-8")
        (folder / "quadsim.parm").write_text(text, encoding="utf-8")

    def send(self, now_ns: int) -> None:
        """Send what the devices say."""
        with explained(self._process):
            self._send(now_ns)

    def receive(self, now_ns: int) -> Sequence[float]:
        """Wait for the servos of the step that it has made of it."""
        return self._receive(ANSWER_S)

    def _send(self, now_ns: int) -> None:
        craft, devices = self._craft, self._craft.devices
        f_B, w_B = devices.imu()
        fix = devices.take("gnss")
        if fix is not None:
            self._send_fix(fix[0])
        reading = devices.fresh("rangefinder")
        if reading is not None:
            self._range_m = float(reading["range_m"][0])
        flow = new_flow(devices)
        if flow is not None:
            still = (0, 0, 0.0, 0.0)  # pixels, and metres that no sensor here compensates
            self._port.send(
                "optical_flow", flow.stamp_us, 0, *still, flow.quality, -1.0, *flow.rates_radps()
            )
        self._companion.step(now_ns)
        line = json_line(
            now_ns, flipped(f_B), flipped(w_B), swapped(craft.p_W.tolist()),
            attitude_out(craft.q_WB.tolist()), swapped(craft.v_W.tolist()), self._range_m,
        )  # fmt: skip
        self._servos.write(line)

    def _receive(self, timeout_s: float) -> Sequence[float]:
        """The throttles of the next frame."""
        until_s = time.monotonic() + timeout_s
        where = f"udp {self._servos.port}"
        while True:
            data = self._servos.read(0.2)
            if not data:
                if self._process is not None:
                    self._process.check()
                if time.monotonic() > until_s:
                    fail(
                        self.name,
                        self._process,
                        f"silent for {timeout_s:g} s on {where}{self._craft.strays}",
                    )
                continue
            if not fits_servos(data):
                words = f"{len(data)} bytes on {where} are no servo packet of 16 channels"
                others = "another version, SERVO_32_ENABLE, or a Betaflight that runs, too"
                fail(self.name, self._process, f"{words}: {others}")
            _, _, frame, *pwm = SERVOS.unpack(data)
            if frame < self._frame:
                fail(self.name, self._process, f"frame {frame} after {self._frame}: it began anew")
            if frame == self._frame:
                self._counts["doubled"] += 1
                if time.monotonic() > until_s:
                    fail(self.name, self._process, f"frame {frame} for {timeout_s:g} s on {where}")
                continue
            self._counts["lost"] += frame - self._frame - 1 if self._frame >= 0 else 0
            self._frame = frame
            self._counts["frames"] += 1
            return [(value - 1000) * 1e-3 if value else 0.0 for value in pwm[: self._motors]]

    def _send_fix(self, fix: NDArray[np.record]) -> None:
        """Send a fix of our receiver, as GPS_INPUT."""
        latitude, longitude, height_m = self._craft.datum.to_geodetic(fix["p_W"])
        north, east, down = swapped(fix["v_W"].tolist())
        place, speed = np.sqrt(fix["p_variance"]).tolist(), np.sqrt(fix["v_variance"]).tolist()
        stamp_ns = int(fix["stamp_ns"])
        self._port.send(
            "gps_input", stamp_ns // 1000, 0, IGNORE_NOTHING, stamp_ns // 1_000_000, WEEK, 3,
            degrees_e7(latitude), degrees_e7(longitude), height_m, float(fix["hdop"]),
            float(fix["vdop"]), north, east, down, max(speed), max(place[:2]), place[2],
            int(fix["satellites"]), 0,
        )  # fmt: skip

    def close(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.stop()
        for stream in self._streams:
            stream.close()

    def counts(self) -> Mapping[str, int]:
        """Frames, lost and doubled ones, and MAVLink's."""
        mavlink_counts = self._port.counts if self._streams else {}
        return {**self._counts, "mavlink_lost": mavlink_counts["lost"],
                "mavlink_damaged": mavlink_counts["damaged"]}  # fmt: skip
