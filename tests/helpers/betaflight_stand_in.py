"""Betaflight's stand-in: SITL's packets, angle mode, rate loops and the mixer of quad X.

Constants and signs by src/platform/SIMULATOR/sitl.c (updateState, ENABLE_GAZEBO_BRIDGE 1),
sitl_gyro.h, flight/mixer_init.c and flight/mixer.c. Strict; it computes one step per packet.
"""

import math
import select
import socket
import struct
import sys
import time
from pathlib import Path

from stand_in_copter import need, refuse

#: Roll, pitch, yaw of motors 1 to 4 (mixerQuadX); yaw is subtracted, the motors are not reversed.
MIXER = ((-1, 1, -1), (-1, -1, 1), (1, 1, 1), (1, -1, -1))
STEP_S = 0.002


def gyro_of(rates):
    """Betaflight's rates of a packet's (sitlGyroBodyFromSim for Gazebo)."""
    return rates[0], -rates[1], rates[2]


def acc_of(acceleration):
    """Betaflight's specific force of a packet's (updateState)."""
    return tuple(-value for value in acceleration)


def mix(throttle, sums):
    """PWM of the motors: sums are of the rate loops, roll, pitch, yaw."""
    roll, pitch, yaw = sums[0], sums[1], -sums[2]
    return [
        1000 + 1000 * min(max(throttle + m[0] * roll + m[1] * pitch + m[2] * yaw, 0.055), 1.0)
        for m in MIXER
    ]


class StandIn:
    def __init__(self):
        self.serial = socket.create_server(("127.0.0.1", 5761))
        self.client = None
        self.sticks = [1500, 1500, 1000, 1500, 1000, 1000] + [1000] * 10
        self.stamp = self.first = None
        self.roll = self.pitch = 0.0
        self.armed = False
        self.sum = [0.0] * 3

    def run(self):
        state = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        state.bind(("127.0.0.1", 9003))
        rc = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        rc.bind(("127.0.0.1", 9004))
        out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        heard_s = time.monotonic()
        while time.monotonic() < heard_s + 5.0:
            for ready in select.select([state, rc, self.serial, *self.clients()], [], [], 0.1)[0]:
                if ready is self.serial:
                    self.client, _ = self.serial.accept()
                elif ready is self.client:
                    self.answer()
                elif ready is rc:
                    self.take_sticks(rc.recv(2048))
                else:
                    heard_s = time.monotonic()
                    pwm = self.take_state(state.recv(2048))
                    raw = struct.pack("<Hxx16f", 4, *pwm, *[0.0] * 12)
                    out.sendto(raw, ("127.0.0.1", 9001))

    def clients(self):
        return [self.client] if self.client is not None else []

    def answer(self):
        data = self.client.recv(64)
        if not data:
            self.client = None
        elif data == b"$M<\x00\x65\x65":
            body = struct.pack("<HHHIB", 1000, 0, 0, 1, 0)
            check = len(body) ^ 101
            for byte in body:
                check ^= byte
            self.client.sendall(b"$M>" + bytes((len(body), 101)) + body + bytes((check,)))
        else:
            refuse(f"MSP {data!r}")

    def take_sticks(self, data):
        need(len(data) == 40, f"{len(data)} bytes of sticks")
        self.sticks = struct.unpack("<d16H", data)[1:]
        need(all(1000 <= value <= 2000 for value in self.sticks), f"sticks {self.sticks}")

    def take_state(self, data):
        need(len(data) == 144, f"{len(data)} bytes of state")
        values = struct.unpack("<18d", data)
        need(all(map(math.isfinite, values)), f"numbers {values}")
        stamp, rates, acceleration = values[0], values[1:4], values[4:7]
        need(self.stamp is None or stamp > self.stamp, "time goes on")
        self.stamp = stamp
        gyro, acc = gyro_of(rates), acc_of(acceleration)
        if self.first is None:
            self.first = acc
            need(abs(acc[2] - 9.81) < 1.0, "at rest 1 g upwards")
        return self.step(gyro, acc)

    def step(self, gyro, acc):
        """FLU: roll is positive to the right, pitch nose down."""
        gain = 0.05 * STEP_S if self.armed else 1.0
        self.roll += gyro[0] * STEP_S + gain * (math.atan2(acc[1], acc[2]) - self.roll)
        self.pitch += gyro[1] * STEP_S + gain * (math.atan2(-acc[0], acc[2]) - self.pitch)
        roll, pitch, throttle, yaw, arm, level = self.sticks[:6]
        need(arm < 1700 or level > 1700, "angle mode is on AUX2")
        if arm > 1700 and not self.armed:
            need(throttle <= 1050, "armed with the throttle low")
        self.armed = arm > 1700
        if not self.armed:
            return [1000.0] * 4
        lean, turn = math.radians(45.0), math.radians(200.0)
        wanted = (
            5 * ((roll - 1500) / 500 * lean - self.roll),
            5 * ((pitch - 1500) / 500 * lean - self.pitch),
            -(yaw - 1500) / 500 * turn,
        )
        sums = [k * (wanted[i] - gyro[i]) for i, k in enumerate((0.04, 0.04, 0.1))]
        share = max(throttle - 1050, 0) / 950
        return mix(0.055 + 0.945 * share, sums if throttle > 1060 else [0.0] * 3)


if __name__ == "__main__":
    if sys.argv[1] == "--config":
        text = Path(sys.argv[2]).read_text()
        need("aux 0 0 0 1700 2100 0 0\naux 1 1 1 1700 2100 0 0\n" in text, "switches")
        need(text.rstrip().endswith("save"), "saved")
        Path("eeprom.bin").write_text(text)
    else:
        need(sys.argv[1:] == ["--ip", "127.0.0.1"], f"arguments {sys.argv}")
        need(Path("eeprom.bin").exists(), "configured")
        StandIn().run()
