"""ArduCopter's stand-in: its JSON interface and MAVLink port, strict about what it is sent.

By libraries/SITL/SIM_JSON.cpp and the message definitions. It ends with status 3 and a line that
says what was wrong.
"""

import argparse
import contextlib
import json
import math
import socket
import struct
import sys
from pathlib import Path

from pymavlink.dialects.v20 import ardupilotmega as mavlink
from stand_in_copter import Copter, euler, matrix, need, refuse

REQUIRED = ("timestamp", "imu", "position", "quaternion", "velocity")


class StandIn:
    def __init__(self, instance, faults):
        self.faults = faults
        server = socket.create_server(("127.0.0.1", 5760 + 10 * instance))
        self.link, _ = server.accept()
        self.link.setblocking(False)
        self.mav = mavlink.MAVLink(None, faults.get("number", instance + 1), 1)
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.settimeout(1.0)
        self.to = ("127.0.0.1", 9002 + 10 * instance)
        self.copter, self.mode, self.frame = Copter(), 0, 0
        self.rates, self.sent, self.targets = {}, {}, 0
        self.fixes, self.origin = 0, None
        self.state = None
        self.home = None
        self.steps, self.wanted, self.at, self.since = [], 0, 0, 0.0

    def send(self, message):
        self.link.setblocking(True)
        self.link.sendall(message.pack(self.mav))
        self.mav.seq = (self.mav.seq + 1) % 256
        self.link.setblocking(False)

    def run(self):
        while True:
            self.send_servos()
            try:
                data = self.udp.recv(65536)
            except TimeoutError:
                continue
            self.take_line(data)
            self.take_mavlink()
            if self.mode == 3:
                self.fly_mission()
            self.tell()
            self.frame += 1
            if self.frame == self.faults.get("anew"):
                self.frame = 0
            while self.frame == self.faults.get("stuck"):
                self.frame -= 1
                self.send_servos()
                self.frame += 1
            if self.faults.get("stop") and self.frame > self.faults["stop"]:
                print("an internal error", flush=True)
                sys.exit(7)

    def throttles(self):
        if self.state is None:
            return [0.0] * 4
        s = self.state
        return self.copter.motors(
            s["quaternion"], s["imu"]["gyro"], s["position"], s["velocity"], s["timestamp"]
        )

    def send_servos(self):
        pwm = [1000 + round(1000 * u) for u in self.throttles()] + [0] * 12
        packet = struct.pack("<HHI16H", 18458, 400, self.frame, *pwm)
        if self.faults.get("magic"):
            packet = struct.pack("<HHI32H", 29569, 400, self.frame, *pwm, *[0] * 16)
        for _ in range(2 if self.frame % 100 == 99 and self.faults.get("doubled") else 1):
            self.udp.sendto(packet, self.to)

    def take_line(self, data):
        need(data[:1] == b"\n" and data[-1:] == b"\n", "a line begins and ends with a line break")
        state = json.loads(data)
        need(all(key in state for key in REQUIRED), f"keys {sorted(state)}")
        numbers = [*state["imu"]["gyro"], *state["imu"]["accel_body"], *state["position"],
                   *state["quaternion"], *state["velocity"], state["timestamp"]]  # fmt: skip
        need(len(numbers) == 17 and all(map(math.isfinite, numbers)), f"numbers {numbers}")
        need(abs(sum(v * v for v in state["quaternion"]) - 1) < 1e-6, "a unit quaternion")
        if self.state is not None:
            step = state["timestamp"] - self.state["timestamp"]
            need(0 < step < 0.1, f"time goes on by {step}")
        else:
            down = matrix(state["quaternion"])[2]
            along = sum(d * f for d, f in zip(down, state["imu"]["accel_body"], strict=True))
            need(abs(along + 9.81) < 1.0, f"at rest specific force points up, {along}")
            self.home = list(state["position"])
        self.state = state

    def take_mavlink(self):
        try:
            data = self.link.recv(65536)
        except BlockingIOError:
            return
        for message in self.mav.parse_buffer(data) or ():
            name = message.get_type()
            need(name != "BAD_DATA", "MAVLink that cannot be read")
            getattr(self, f"take_{name.lower()}", lambda m: refuse(f"{m.get_type()} is not known"))(
                message
            )

    def take_heartbeat(self, message):
        need(message.autopilot == mavlink.MAV_AUTOPILOT_INVALID, "we are no autopilot")

    def take_gps_input(self, message):
        need(message.fix_type == 3 and message.gps_id == 0, "a fix in three dimensions")
        need(abs(message.lat - 473977420) < 20000 and abs(message.lon - 85455940) < 20000, "place")
        need(480 < message.alt < 520 and 5 <= message.satellites_visible < 50, "altitude")
        need(0 < message.horiz_accuracy < 10 and 0 < message.hdop < 10, "accuracy")
        self.fixes += 1

    def take_set_gps_global_origin(self, m):
        need(abs(m.latitude - 473977420) < 20000 and abs(m.longitude - 85455940) < 20000, "origin")
        self.origin = m.latitude, m.longitude, m.altitude

    def take_att_pos_mocap(self, m):
        need(self.origin is not None or self.fixes == 0, "one thing says where it is")
        q, place = self.state["quaternion"], self.state["position"]
        need(abs(sum(a * b for a, b in zip(m.q, q, strict=True))) > 0.995, f"attitude {m.q}, {q}")
        need(math.dist((m.x, m.y, m.z), place) < 0.4, f"place {m.x, m.y, m.z}, {place}")
        late = self.state["timestamp"] - m.time_usec * 1e-6
        need(0.0 <= late < 0.05, f"a pose that is {late} s old")
        self.fixes += 1

    def take_optical_flow(self, m):
        """Flows by MAVLink's definition: forward is up about y, to the right down about x."""
        need(m.flow_x == m.flow_y == 0 and m.quality > 0 and m.ground_distance < 0, "rates alone")
        R, v, w = (self.state[key] for key in ("quaternion", "velocity", "imu"))
        R, w = matrix(R), w["gyro"]
        forward, right = (sum(R[i][k] * v[i] for i in range(3)) for k in range(2))
        height = max(self.home[2] - self.state["position"][2], 0.1) / R[2][2]
        if height > 1.0:
            off = (m.flow_rate_x - w[0] + right / height, m.flow_rate_y - w[1] - forward / height)
            need(max(map(abs, off)) < 0.5, f"flow {m.flow_rate_x, m.flow_rate_y} is {off} off")
        self.fixes += 1

    def take_command_long(self, message):
        need((message.target_system, message.target_component) == (self.mav.srcSystem, 1), "target")
        command, result = message.command, 0
        if command == mavlink.MAV_CMD_SET_MESSAGE_INTERVAL:
            self.rates[int(message.param1)] = message.param2 * 1e-6
        elif command == mavlink.MAV_CMD_REQUEST_MESSAGE:
            need(message.param1 == mavlink.MAVLINK_MSG_ID_GPS_GLOBAL_ORIGIN, "the origin alone")
            if self.fixes > 5:
                origin = self.origin or (473977420, 85455940, 488000)
                self.send(mavlink.MAVLink_gps_global_origin_message(*origin))
        elif command == mavlink.MAV_CMD_DO_SET_MODE:
            need(message.param1 == 1 and message.param2 in (4, 9), "GUIDED or LAND")
            self.mode = int(message.param2)
            self.copter.landing = self.mode == 9
        elif command == mavlink.MAV_CMD_COMPONENT_ARM_DISARM:
            need(self.mode == 4 or message.param1 == 0, "armed in GUIDED")
            self.copter.armed = message.param1 == 1
        elif command == mavlink.MAV_CMD_MISSION_START:
            need(self.copter.armed and self.steps and not message.param1, "armed, with a mission")
            self.mode = 3
            self.begin(1)
        elif command == mavlink.MAV_CMD_NAV_TAKEOFF:
            need(self.copter.armed and self.mode == 4 and 0.5 < message.param7 < 100, "take-off")
            north, east, down = self.home
            self.copter.place = (north, east, down - message.param7)
        else:
            refuse(f"command {command}")
        self.send(mavlink.MAVLink_command_ack_message(command, result))

    def take_mission_count(self, m):
        need((m.target_system, m.target_component) == (self.mav.srcSystem, 1), "target")
        need(m.mission_type == 0 and not self.copter.armed, "a mission, before arming")
        self.steps, self.wanted = [], m.count
        self.send(mavlink.MAVLink_mission_request_int_message(255, 190, 0, 0))

    def take_mission_item_int(self, m):
        need(m.seq == len(self.steps) and m.autocontinue == 1, f"step {m.seq}, as asked for")
        need(m.command in (16, 21, 22, 93, 115, 178), f"command {m.command}")
        need(m.command != 115 or 0 <= m.param1 < 360, "a heading")
        if m.command == 16 and m.seq > 0:
            need(m.frame == mavlink.MAV_FRAME_GLOBAL_INT and 480 < m.z < 520, "altitude")
        self.steps.append(m)
        if len(self.steps) < self.wanted:
            self.send(mavlink.MAVLink_mission_request_int_message(255, 190, len(self.steps), 0))
        else:
            result = 13 if self.faults.get("refuses") else 0
            self.send(mavlink.MAVLink_mission_ack_message(255, 190, result, 0))

    def begin(self, at):
        """Begin a step; what is no place or time is done beside the one before it."""
        self.at, self.since, m = at, self.state["timestamp"], self.steps[at]
        north, east, down = self.home
        if m.command == 22:
            self.copter.place = (north, east, down - m.z)
        elif m.command == 16:
            self.copter.place = (
                math.radians(m.x * 1e-7 - 47.397742) * 6367000.0,
                math.radians(m.y * 1e-7 - 8.545594) * 4325000.0,
                488.0 - m.z,
            )
        elif m.command == 21:
            self.copter.landing = True
        beside = at + 1
        while beside < len(self.steps) and self.steps[beside].command in (115, 178):
            if self.steps[beside].command == 115:
                self.copter.heading = math.radians(self.steps[beside].param1)
            beside += 1
        self.then = beside

    def fly_mission(self):
        m, for_s = self.steps[self.at], self.state["timestamp"] - self.since
        reached = math.dist(self.state["position"], self.copter.place) < 0.15
        waits_s = m.param1 if m.command in (16, 93) else 0.0
        if m.command != 21 and reached and for_s >= waits_s and self.then < len(self.steps):
            self.begin(self.then)

    def take_set_position_target_local_ned(self, m):
        need(m.coordinate_frame == mavlink.MAV_FRAME_LOCAL_NED, "the local frame")
        need(m.type_mask in (2048, 1479), f"type_mask {m.type_mask}")
        need(self.mode == 4 and self.copter.armed, "setpoints are for GUIDED")
        self.targets += 1
        self.copter.thrust = None
        self.copter.place, self.copter.speed = (m.x, m.y, m.z), (m.vx, m.vy, m.vz)
        self.copter.by_speed = m.type_mask == 1479
        if self.copter.by_speed:  # 50 times a second
            self.copter.heading += 0.02 * m.yaw_rate
        else:
            self.copter.heading = m.yaw

    def take_set_attitude_target(self, m):
        """As ArduCopter by bit 3 of GUID_OPTIONS, its angle boost and its spin of 0.15 to 0.95."""
        need((m.target_system, m.target_component) == (self.mav.srcSystem, 1), "target")
        need(m.type_mask in (0, 128), f"type_mask {m.type_mask}: some rates alone are ill-defined")
        need(abs(sum(c * c for c in m.q) - 1) < 1e-3, "a unit quaternion")
        need(self.mode == 4 and self.copter.armed and 0 <= m.thrust <= 1, "thrust in GUIDED")
        rates = (m.body_roll_rate, m.body_pitch_rate, m.body_yaw_rate)
        R = matrix(m.q if m.type_mask == 0 else self.state["quaternion"])
        share = (0.15 + 0.8 * math.sqrt(min(m.thrust / R[2][2], 1.0))) ** 2
        self.copter.thrust = (euler(R) if m.type_mask == 0 else None, rates, share)

    def tell(self):
        now, s = self.state["timestamp"], self.state
        boot_ms = round(now * 1e3)
        motion = mavlink.MAVLink_local_position_ned_message(boot_ms, *s["position"], *s["velocity"])
        turn = mavlink.MAVLink_attitude_quaternion_message(
            boot_ms, *s["quaternion"], *s["imu"]["gyro"]
        )
        good = mavlink.MAV_SYS_STATUS_PREARM_CHECK if self.fixes > 5 else 0
        status = mavlink.MAVLink_sys_status_message(0, 0, good, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
        base = 1 | (128 if self.copter.armed else 0)
        beat = mavlink.MAVLink_heartbeat_message(2, 3, base, self.mode, 4, 3)
        current = mavlink.MAVLink_mission_current_message(self.at)
        for message in (motion, turn, status, current):
            self.due(message, self.rates.get(message.get_msgId()), now)
        self.due(beat, 1.0, now)
        if self.faults.get("camera"):
            self.tell_of_camera(now)

    def tell_of_camera(self, now):
        """Another component of the vehicle, which is disarmed and has places of its own."""
        camera = mavlink.MAVLink(None, self.mav.srcSystem, 100)
        for message in (
            mavlink.MAVLink_heartbeat_message(30, 8, 0, 0, 4, 3),
            mavlink.MAVLink_local_position_ned_message(round(now * 1e3), *6 * [50.0]),
            mavlink.MAVLink_statustext_message(2, b"camera"),
        ):
            self.link.setblocking(True)
            self.link.sendall(message.pack(camera))
            self.link.setblocking(False)

    def due(self, message, period_s, now):
        number = message.get_msgId()
        if period_s is not None and now >= self.sent.get(number, 0.0):
            self.sent[number] = now + period_s
            self.send(message)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("--model", "--speedup", "--home", "--defaults", "--start-time", "--faults"):
        parser.add_argument(name)
    parser.add_argument("--instance", type=int)
    parser.add_argument("--sysid", type=int)
    parser.add_argument("--wipe", action="store_true")
    given = parser.parse_args()
    need(given.model == "JSON:127.0.0.1" and given.sysid == given.instance + 1, "arguments")
    said = dict(map(str.split, Path(given.defaults).read_text().partition("#")[0].splitlines()))
    need(int(said["GUID_OPTIONS"]) & 8, "a thrust is to be one")
    seen = {key: said.get(key) for key in ("VISO_TYPE", "EK3_SRC1_POSXY", "EK3_SRC1_YAW")}
    by_flow = said.get("FLOW_TYPE") == "5" and said.get("EK3_SRC1_VELXY") == "5"
    need(
        said["GPS1_TYPE"] == "14"
        or by_flow
        or (said["GPS1_TYPE"], *seen.values()) == ("0", "1", "6", "6"),
        f"our receiver, or motion capture: {said}",
    )
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        StandIn(given.instance, json.loads(given.faults or "{}")).run()
