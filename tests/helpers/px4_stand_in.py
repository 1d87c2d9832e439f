"""PX4's stand-in: SimulatorMavlink's side of MAVLink's HIL messages, and a companion's port.

It is given sensors alone, so it has an estimator: gyroscopes, corrected by accelerometer, compass
and fixes. Strict: by the fields, units and enumerations of MAVLink's definition (common.xml).
"""

import argparse
import contextlib
import json
import math
import os
import socket
import time

from pymavlink.dialects.v20 import ardupilotmega as mavlink
from stand_in_copter import Copter, matrix, need, refuse

KNOWN = 0b1 << 31 | 0b1111111111111


#: Parameters of a vehicle that flies on poses of motion capture.
EXTERNAL = {"EKF2_EV_CTRL": "11", "EKF2_HGT_REF": "3", "EKF2_GPS_CTRL": "0"}


def cross(a, b):
    return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]


def quaternion(roll, pitch, yaw):
    c = [math.cos(a / 2) for a in (roll, pitch, yaw)]
    s = [math.sin(a / 2) for a in (roll, pitch, yaw)]
    return [
        c[0] * c[1] * c[2] + s[0] * s[1] * s[2], s[0] * c[1] * c[2] - c[0] * s[1] * s[2],
        c[0] * s[1] * c[2] + s[0] * c[1] * s[2], c[0] * c[1] * s[2] - s[0] * s[1] * c[2],
    ]  # fmt: skip


class Estimator:
    """Attitude by Mahony's filter; place and speed by dead reckoning and fixes. NED, FRD."""

    def __init__(self):
        self.q, self.w, self.field = [1.0, 0.0, 0.0, 0.0], [0.0] * 3, None
        self.p, self.v, self.origin, self.started = [0.0] * 3, [0.0] * 3, None, False
        self.declination = math.radians(3.2)
        self.levels = True  # by the accelerometer

    def start(self, f, field, yaw=None):
        roll, pitch = math.atan2(-f[1], -f[2]), math.atan2(f[0], math.hypot(f[1], f[2]))
        cr, sr, cp, sp = math.cos(roll), math.sin(roll), math.cos(pitch), math.sin(pitch)
        if yaw is None:
            x = field[0] * cp + field[1] * sr * sp + field[2] * cr * sp
            y = field[1] * cr - field[2] * sr
            yaw = math.atan2(-y, x) + self.declination
        self.q = quaternion(roll, pitch, yaw)
        self.started = True

    def step(self, f, w, dt):
        self.w, R = list(w), matrix(self.q)
        down = R[2]
        size = math.sqrt(sum(x * x for x in f))
        wrong = [0.0] * 3
        if self.levels and abs(size - 9.81) < 1.5:
            wrong = [0.3 * x for x in cross([-x / size for x in f], down)]
        if self.field is not None:
            m = [sum(R[i][j] * self.field[j] for j in range(3)) for i in range(3)]
            heading = math.atan2(m[1], m[0]) - self.declination
            wrong = [
                wrong[i] - 0.5 * math.remainder(heading, 2 * math.pi) * down[i] for i in range(3)
            ]
        g = [0.5 * dt * (w[i] + wrong[i]) for i in range(3)]
        a, b, c, d = self.q
        q = [
            a - b * g[0] - c * g[1] - d * g[2], b + a * g[0] + c * g[2] - d * g[1],
            c + a * g[1] - b * g[2] + d * g[0], d + a * g[2] + b * g[1] - c * g[0],
        ]  # fmt: skip
        n = math.sqrt(sum(x * x for x in q))
        self.q = [x / n for x in q]
        R = matrix(self.q)
        for i in range(3):
            acceleration = sum(R[i][j] * f[j] for j in range(3)) + (9.81 if i == 2 else 0.0)
            self.p[i] += self.v[i] * dt
            self.v[i] += acceleration * dt

    def see(self, m):
        """A pose of motion capture: place and attitude; the speed follows."""
        place, seen = (m.x, m.y, m.z), quaternion(m.roll, m.pitch, m.yaw)
        if not self.started:
            self.p, self.q = list(place), seen
        sign = math.copysign(1.0, sum(a * b for a, b in zip(self.q, seen, strict=True)))
        q = [a + 0.2 * (sign * b - a) for a, b in zip(self.q, seen, strict=True)]
        n = math.sqrt(sum(x * x for x in q))
        self.q, self.levels = [x / n for x in q], False
        for i in range(3):
            self.v[i] += 1.5 * (place[i] - self.p[i])
            self.p[i] += 0.2 * (place[i] - self.p[i])

    def fix(self, m):
        place = (m.lat * 1e-7, m.lon * 1e-7, m.alt * 1e-3)
        self.origin = self.origin or place
        lat, lon, alt = self.origin
        p = [
            math.radians(place[0] - lat) * 6367000.0,
            math.radians(place[1] - lon) * 6389000.0 * math.cos(math.radians(lat)),
            alt - place[2],
        ]
        v = [0.01 * m.vn, 0.01 * m.ve, 0.01 * m.vd]
        for i in range(3):
            self.p[i] += 0.5 * (p[i] - self.p[i])
            self.v[i] += 0.5 * (v[i] - self.v[i])


class StandIn:
    def __init__(self, instance, faults):
        self.faults = faults
        for _ in range(200):
            try:
                self.link = socket.create_connection(("127.0.0.1", 4560 + instance))
                break
            except OSError:
                time.sleep(0.05)
        self.link.settimeout(5.0)
        self.mav = mavlink.MAVLink(None, instance + 1, 1)
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.setblocking(False)
        self.udp_to = ("127.0.0.1", 14540 + instance)
        self.udp_mav = mavlink.MAVLink(None, instance + 1, 1)
        self.copter, self.estimator = Copter(), Estimator()
        self.time_us, self.mode, self.fixes, self.count, self.targets = 0, (0, 0), 0, 0, 0
        self.rates, self.sent, self.range, self.flows = {}, {}, 0.0, 0
        self.seen, self.seen_yaw, self.seen_us = 0, None, 0
        self.by_poses = {key: os.environ.get(f"PX4_PARAM_{key}") for key in EXTERNAL}

    def run(self):
        while True:
            try:
                data = self.link.recv(65536)
            except TimeoutError:
                refuse("no HIL_SENSOR for 5 s")
            if not data:
                return
            for message in self.mav.parse_buffer(data) or ():
                getattr(self, f"take_{message.get_type().lower()}")(message)

    def take_hil_gps(self, m):
        need(m.fix_type == 3 and m.id == 0, "a fix in three dimensions")
        need(abs(m.lat - 473977420) < 20000 and abs(m.lon - 85455940) < 20000, "place, degE7")
        need(480_000 < m.alt < 520_000, "altitude, mm")
        need(1 <= m.eph < 2000 and 1 <= m.epv < 2000, "accuracy")
        need(abs(m.vel - math.hypot(m.vn, m.ve)) <= 1 and m.vel < 1500, "speed, cm/s")
        need(0 <= m.cog < 36000 and 5 <= m.satellites_visible < 50, "course, cdeg")
        if m.vel > 50:
            course = math.radians(m.cog * 0.01)
            along = m.vn * math.cos(course) + m.ve * math.sin(course)
            need(abs(along - m.vel) < 2, "course is that of the velocity")
        need(0 <= self.time_us - m.time_usec < 500_000, "time of the fix, us")
        self.fixes += 1
        self.estimator.fix(m)

    def take_hil_sensor(self, m):
        need(m.time_usec > self.time_us, "time goes on")
        need(m.fields_updated & ~KNOWN == 0 and m.id == 0, "known fields")
        need(m.fields_updated & 0b111111 == 0b111111, "accelerometer and gyroscope, always")
        f, w = (m.xacc, m.yacc, m.zacc), (m.xgyro, m.ygyro, m.zgyro)
        if m.fields_updated & 0b111000000:
            need(m.fields_updated & 0b111000000 == 0b111000000, "a whole field")
            self.estimator.field = (m.xmag, m.ymag, m.zmag)
            need(0.2 < math.sqrt(sum(x * x for x in self.estimator.field)) < 0.9, "gauss")
        if m.fields_updated & 1 << 9:
            need(m.fields_updated >> 11 & 3 == 3, "a barometer has altitude and temperature")
            need(900 < m.abs_pressure < 1000, "pressure, hPa")
            need(abs(m.pressure_alt - 488) < 60 and -40 < m.temperature < 60, "pressure altitude")
        need(m.fields_updated >> 10 & 1 == 0 and m.diff_pressure == 0, "no pitot tube")
        self.seen |= m.fields_updated
        dt, self.time_us = (m.time_usec - self.time_us) * 1e-6, m.time_usec
        if not self.estimator.started:
            self.take_udp()
            if self.estimator.field is None and self.seen_yaw is None:
                self.tell()
                self.answer([0.0] * 4)
                return
            need(abs(f[2] + 9.81) < 1.0, "at rest specific force points up")
            self.estimator.start(f, self.estimator.field, self.seen_yaw)
        self.estimator.step(f, w, min(dt, 0.01))
        e = self.estimator
        if self.fixes < 10:
            e.v = [0.0] * 3
        self.take_udp()
        self.tell()
        self.answer(self.copter.motors(e.q, e.w, e.p, e.v, self.time_us * 1e-6))

    def answer(self, throttles):
        self.count += 1
        if self.faults.get("silent") and self.count > self.faults["silent"]:
            time.sleep(20)
        mode = 1 | (128 if self.copter.armed else 0)
        controls = [*throttles, *[0.0] * 12]
        again = self.faults.get("doubled") and self.count % 50 == 0
        for _ in range(2 if again else 1):
            message = mavlink.MAVLink_hil_actuator_controls_message(self.time_us, controls, mode, 1)
            self.link.sendall(message.pack(self.mav))
            self.mav.seq = (self.mav.seq + 1) % 256

    def send(self, message):
        self.udp.sendto(message.pack(self.udp_mav), self.udp_to)
        self.udp_mav.seq = (self.udp_mav.seq + 1) % 256

    def take_udp(self):
        while True:
            try:
                data = self.udp.recv(65536)
            except (BlockingIOError, ConnectionRefusedError):
                return
            for message in self.udp_mav.parse_buffer(data) or ():
                name = message.get_type().lower()
                getattr(self, f"udp_{name}", lambda m: refuse(f"{m.get_type()} is not known"))(
                    message
                )

    def udp_heartbeat(self, m):
        need(m.autopilot == mavlink.MAV_AUTOPILOT_INVALID, "we are no autopilot")

    def udp_set_gps_global_origin(self, m):
        need(m.target_system == self.udp_mav.srcSystem, "target")
        need(abs(m.latitude - 473977420) < 20000 and abs(m.longitude - 85455940) < 20000, "origin")
        self.estimator.origin = m.latitude * 1e-7, m.longitude * 1e-7, m.altitude * 1e-3

    def udp_vision_position_estimate(self, m):
        need(self.by_poses == EXTERNAL, f"parameters {self.by_poses}")
        need(math.isnan(m.covariance[0]), "an unknown covariance is said to be unknown")
        need(self.seen_us < m.usec <= self.time_us and self.time_us - m.usec < 50_000, "time, us")
        self.seen_us, self.seen_yaw = m.usec, m.yaw
        e = self.estimator
        if e.started:
            R = matrix(e.q)
            roll, pitch = math.atan2(R[2][1], R[2][2]), -math.asin(max(-1.0, min(1.0, R[2][0])))
            apart = max(abs(m.roll - roll), abs(m.pitch - pitch))
            need(apart < 0.15, f"roll, pitch {m.roll, m.pitch}, by the IMU {roll, pitch}")
            need(math.dist((m.x, m.y, m.z), e.p) < 1.0, f"place {m.x, m.y, m.z}, {e.p}")
        self.fixes += 1
        e.see(m)

    def udp_odometry(self, m):
        need((m.frame_id, m.child_frame_id, m.estimator_type) == (20, 12, 3), "frames of a VIO")
        need(math.isnan(m.vx) and m.reset_counter == 0, "no velocity, no reset")
        w, x, y, z = m.q
        roll, pitch = (
            math.atan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y)),
            math.asin(2 * (w * y - x * z)),
        )
        m.roll, m.pitch, m.yaw = (
            roll,
            pitch,
            math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)),
        )
        m.usec, m.covariance = m.time_usec, m.pose_covariance
        self.udp_vision_position_estimate(m)

    def take_hil_optical_flow(self, m):
        need(0 <= self.time_us - m.time_usec < 100_000 and m.integration_time_us > 0, "times")
        need(m.distance < 0 and m.temperature == 0, "flow alone")
        e, dt = self.estimator, m.integration_time_us * 1e-6
        R = matrix(e.q)
        forward, right = (sum(R[i][k] * e.v[i] for i in range(3)) for k in range(2))
        if m.quality > 0 and self.range > 1.0:
            x, y = (
                m.integrated_x / dt + right / self.range,
                m.integrated_y / dt - forward / self.range,
            )
            need(max(abs(x - e.w[0]), abs(y - e.w[1])) < 0.5, f"flow {x, y}")
        self.flows += 1

    def take_distance_sensor(self, m):
        need(m.orientation == mavlink.MAV_SENSOR_ROTATION_PITCH_270, "looks down")
        need(m.min_distance < m.max_distance and m.type == 2, "limits")
        if m.signal_quality == 100:
            self.range = 0.01 * m.current_distance
            height = -self.estimator.p[2] / max(0.5, matrix(self.estimator.q)[2][2])
            need(abs(self.range - height) < 1.0, f"range {self.range}, height {height}")
        else:
            need(m.signal_quality == 1 and m.covariance == 255, "no signal")

    def udp_command_long(self, m):
        if m.command == mavlink.MAV_CMD_SET_MESSAGE_INTERVAL:
            self.rates[int(m.param1)] = m.param2 * 1e-6
        elif m.command == mavlink.MAV_CMD_REQUEST_MESSAGE:
            if self.fixes > 10 and self.estimator.origin:
                lat, lon, alt = self.estimator.origin
                place = round(lat * 1e7), round(lon * 1e7), round(alt * 1e3)
                self.send(mavlink.MAVLink_gps_global_origin_message(*place))
        elif m.command == mavlink.MAV_CMD_DO_SET_MODE:
            wanted = (int(m.param2), int(m.param3))
            need(m.param1 == 1 and wanted in ((6, 0), (4, 6)), "OFFBOARD or AUTO.LAND")
            need(wanted != (6, 0) or self.targets > 0, "setpoints before OFFBOARD")
            self.mode = wanted
            self.copter.landing = wanted == (4, 6)
        elif m.command == mavlink.MAV_CMD_COMPONENT_ARM_DISARM:
            self.copter.armed = m.param1 == 1
        else:
            refuse(f"command {m.command}")

    def udp_set_position_target_local_ned(self, m):
        need(m.coordinate_frame == mavlink.MAV_FRAME_LOCAL_NED, "the local frame")
        need(m.type_mask in (2048, 1479), f"type_mask {m.type_mask}")
        self.targets += 1
        if self.copter.armed and self.mode == (6, 0):
            self.copter.place, self.copter.speed = (m.x, m.y, m.z), (m.vx, m.vy, m.vz)
            self.copter.by_speed = m.type_mask == 1479
            if self.copter.by_speed:  # 50 times a second
                self.copter.heading += 0.02 * m.yaw_rate
            else:
                self.copter.heading = m.yaw

    def tell(self):
        e, boot_ms = self.estimator, self.time_us // 1000
        good = mavlink.MAV_SYS_STATUS_PREARM_CHECK if self.fixes > 20 else 0
        number = self.mode[0] << 16 | self.mode[1] << 24
        base = 1 | (128 if self.copter.armed else 0)
        for message, period_s in (
            (mavlink.MAVLink_heartbeat_message(2, 12, base, number, 4, 3), 1.0),
            (mavlink.MAVLink_local_position_ned_message(boot_ms, *e.p, *e.v), None),
            (mavlink.MAVLink_attitude_quaternion_message(boot_ms, *e.q, *e.w), None),
            (mavlink.MAVLink_sys_status_message(0, 0, good, *[0] * 10), None),
        ):
            number = message.get_msgId()
            period_s = period_s or self.rates.get(number)
            if period_s and self.time_us * 1e-6 >= self.sent.get(number, 0.0):
                self.sent[number] = self.time_us * 1e-6 + period_s
                self.send(message)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("-i", type=int)
    parser.add_argument("-d", action="store_true")
    parser.add_argument("--faults")
    given = parser.parse_args()
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        StandIn(given.i, json.loads(given.faults or "{}")).run()
