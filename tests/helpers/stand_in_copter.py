"""The flight controller of the stand-ins for firmware: plain cascaded loops, NED and FRD.

It shares nothing with quadsim: what flies by it shows that signs, axes, units and the numbers of
the motors agree with what the protocols say.
"""

import math
import os

G = 9.80665
#: Share of the highest rotor speed that lifts x500: sqrt(m g / (4 k w^2)).
HOVER = math.sqrt(2.0643 * G / (4 * 8.54858e-06 * 1000.0**2))
#: Motors of quad X, 1 to 4 as ArduPilot and PX4 number them: front right and rear left turn
#: counter-clockwise. Each by what it gives to roll right, pitch up, yaw clockwise.
MIX = ((-1, 1, 1), (1, -1, 1), (1, 1, -1), (-1, -1, -1))


def refuse(words):
    """End, as a firmware that was told what it cannot take."""
    print(f"refused: {words}", flush=True)
    os._exit(3)


def need(true, words):
    if not true:
        refuse(words)


def matrix(q):
    """Body to world of a quaternion, w first."""
    w, x, y, z = q
    return (
        (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        (2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    )


def euler(R):
    """Roll, pitch and yaw of a matrix."""
    return (
        math.atan2(R[2][1], R[2][2]),
        -math.asin(clip(R[2][0], 1.0)),
        math.atan2(R[1][0], R[0][0]),
    )


def clip(value, limit):
    return min(max(value, -limit), limit)


class Copter:
    """Place and heading to throttles."""

    def __init__(self):
        self.armed = False
        self.landing = False
        self.place = None  # NED, wanted
        self.speed = (0.0, 0.0, 0.0)
        self.by_speed = False  # wherever it is
        self.trim, self.before_s = 0.0, None  # m/s^2 down, for a mass that is another
        self.heading = None
        self.thrust = None  # roll, pitch, yaw or None, body rates, share of the highest thrust
        self.low_since = None

    def motors(self, q, w, place, speed, now_s):
        """Throttles of the four, by the motion: FRD in NED, place and speed NED."""
        if not self.armed:
            return [0.0] * 4
        if self.place is None and not self.landing:
            return [0.1] * 4
        R = matrix(q)
        if self.thrust is not None and not self.landing:
            angles, rates, share = self.thrust
            if angles is not None:
                is_angles = euler(R)
                rates = [
                    6 * math.remainder(angles[i] - is_angles[i], 2 * math.pi) + rates[i]
                    for i in range(3)
                ]
            return mixed(math.sqrt(share), [rates[i] - w[i] for i in range(3)])
        heading = math.atan2(R[1][0], R[0][0])
        self.heading = heading if self.heading is None else self.heading
        wanted = list(place if self.by_speed else self.place or place)
        ff = self.speed
        if self.landing:
            wanted[2], ff = place[2], (0.0, 0.0, 0.5)
        v = [1.2 * clip(wanted[i] - place[i], 2.0) + ff[i] for i in range(3)]
        a = [clip(2.5 * (v[i] - speed[i]), 4.0) for i in range(3)]
        if not self.landing:
            dt = now_s - (now_s if self.before_s is None else self.before_s)
            self.trim = clip(self.trim + 1.5 * (v[2] - speed[2]) * dt, 3.0)
        self.before_s = now_s
        a[2] += self.trim
        north, east = a[0], a[1]
        forward = math.cos(heading) * north + math.sin(heading) * east
        right = -math.sin(heading) * north + math.cos(heading) * east
        pitch, roll = -math.atan2(forward, G), math.atan2(right, G)
        is_pitch, is_roll = -math.asin(clip(R[2][0], 1.0)), math.atan2(R[2][1], R[2][2])
        turn = math.remainder(self.heading - heading, 2 * math.pi)
        rates = (6 * (roll - is_roll), 6 * (pitch - is_pitch), clip(2 * turn, 1.0))
        lift = HOVER * math.sqrt(max((G - a[2]) / G, 0.1) / max(R[2][2], 0.5))
        if self.landing and abs(speed[2]) < 0.1:
            self.low_since = self.low_since or now_s
            if now_s - self.low_since > 1.0:
                lift = 0.1
            if now_s - self.low_since > 2.5:
                self.armed = self.landing = False
        else:
            self.low_since = None
        return mixed(lift, [rates[i] - w[i] for i in range(3)])


def mixed(lift, wrong):
    """Throttles of a mean one and rate errors, FRD."""
    tilt, yaw = 0.04, 0.10
    gains = (tilt, tilt, yaw)
    return [
        min(max(lift + sum(m[i] * gains[i] * wrong[i] for i in range(3)), 0.0), 1.0) for m in MIX
    ]
