"""What ArduPilot makes of setpoints: by the gateway, and by the driver's file through mavros.

The stand-in shows that signs, axes and masks are those of the protocol, the real ArduCopter
(QUADSIM_ARDUPILOT) that it flies them.
"""

import math
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from quadsim.base.files import find, share_dir
from quadsim.control.turning import TurningHeading
from quadsim.drivers.driver import load_driver
from quadsim.drivers.outward import ThrustCommand, sent_as
from quadsim.firmware.fly import FirmwareChoice
from quadsim.firmware.targets import Throttle, ThrustTarget
from quadsim.geometry.rotation import from_euler, to_euler, yaw_of
from quadsim.hil.rehearsal.rehearsal import load_rehearsal
from quadsim.hil.rehearsal.stand_in import VehicleCommand
from quadsim.hil.rehearsal.vehicle_side import VehicleSide

pytest.importorskip("pymavlink")

G = 9.80665
#: Least thrust of x500's hover over its highest, and what ArduCopter's message has then.
HOVER = 2.0643 * G / (4 * 8.54858e-06 * 1000.0**2)
MOT_THST_HOVER = ((math.sqrt(HOVER) - 0.15) / 0.8) ** 2

REAL = pytest.param("real", marks=pytest.mark.alone)


class ByMavros:
    """What mavros (setpoint_raw.cpp) makes of the fields that ``mavros_ardupilot`` sends."""

    def __init__(self, port):
        self._port = port
        attitude, rates = (
            load_driver("mavros_ardupilot").commands_of(f"command_{kind}/safe")[0]
            for kind in ("attitude", "rates")
        )
        self._said = [replace(said, hover=MOT_THST_HOVER) for said in (attitude, rates)]

    def send_thrust(self, target):
        said = sent_as(
            self._said[target.rates],
            ThrustCommand(1, 1, target.q_WB, target.w_B, target.thrust_mps2),
        )
        enu_to_ned = Rotation.from_matrix([[0, 1, 0], [1, 0, 0], [0, 0, -1]])
        flip = Rotation.from_matrix(np.diag([1.0, -1.0, -1.0]))
        x, y, z, w = (enu_to_ned * Rotation.from_quat(said["orientation"]) * flip).as_quat()
        rates = flip.apply(said["body_rate"]).tolist()
        self._port.send(
            "set_attitude_target", 0, 1, 1, said["type_mask"], (w, x, y, z), *rates, said["thrust"]
        )


class Flight:
    """A vehicle of a rehearsal of nominal mass, hovering, flown by ArduPilot."""

    def __init__(self, executable, folder, lines=""):
        file = folder / "still.yaml"
        given = find("rehearsals", "row").read_text()
        file.write_text(f"{given}\nmass_share: [1.0, 1.0]\ngain_share: [1.0, 1.0]\n")
        parameters = folder / "more.txt"
        ours = share_dir() / "config/firmware/ardupilot_x500_motion_capture.txt"
        parameters.write_text(ours.read_text() + lines)
        choice = FirmwareChoice("ardupilot", str(executable), str(parameters))
        rehearsal = load_rehearsal(str(file), firmware=choice)
        scenario = replace(
            rehearsal.scenario, file=replace(rehearsal.scenario.file, duration_s=300.0)
        )
        self.side = VehicleSide(rehearsal, scenario, rehearsal.scene)
        self.vehicle = self.side.vehicle
        self.companion = self.side._flown.firmware[0]._companion
        self.heading = TurningHeading()
        while self.vehicle.manager.state != "hover":
            assert not self.vehicle.over, self.vehicle.events[-1].message
            self.side.tick()
        self.rest(3.0)

    def truth(self):
        true = self.vehicle.state["truth"][0]
        q_WB = tuple(true["q_WB"].tolist())
        return *true["p_W"], *true["v_W"], *to_euler(q_WB), *true["w_B"]

    @property
    def q_WB(self):
        return tuple(self.vehicle.state["odometry"]["q_WB"].tolist())

    def run(self, for_s, command):
        """Rows of truth of each tick: place, velocity, roll, pitch, yaw, rates."""
        rows = []
        for _ in range(round(100 * for_s)):
            self.vehicle.obey(command())
            assert not self.vehicle.refused, self.vehicle.refused
            self.side.tick()
            rows.append(self.truth())
        return np.array(rows)

    def fly(self, for_s, v_W, yaw_rate=0.0):
        return self.run(for_s, lambda: VehicleCommand(0, v_W, yaw_rate))

    def rest(self, for_s):
        return self.fly(for_s, (0.0, 0.0, 0.0))

    def lean(self, for_s, roll, pitch, yaw_rate=0.0, thrust=G):
        def command():
            yaw = self.heading.advance(self.vehicle.stamp_ns, yaw_of(self.q_WB), yaw_rate)
            q_WB = from_euler(roll, pitch, yaw)
            target = ThrustTarget(q_WB, (0.0, 0.0, yaw_rate), thrust)
            return VehicleCommand(0, (0.0, 0.0, 0.0), 0.0, thrust=target)

        return self.run(for_s, command)

    def turn(self, for_s, w_B, thrust=G):
        def command():
            target = ThrustTarget(self.q_WB, w_B, thrust, rates=True)
            return VehicleCommand(0, (0.0, 0.0, 0.0), 0.0, thrust=target)

        return self.run(for_s, command)


@pytest.fixture(params=["stand-in", REAL])
def executable(request, stand_in):
    if request.param == "stand-in":
        return stand_in("ardupilot")
    path = os.environ.get("QUADSIM_ARDUPILOT", "")
    if not Path(path).is_file():
        pytest.skip("QUADSIM_ARDUPILOT names no executable")
    return path


@pytest.fixture
def flight(executable, tmp_path):
    made = Flight(executable, tmp_path)
    yield made
    made.side.close()


@pytest.mark.parametrize(
    ("executable", "way"),
    [
        ("stand-in", "gateway"),
        pytest.param("stand-in", "mavros", marks=pytest.mark.thorough),
        pytest.param("real", "gateway", marks=pytest.mark.alone),
        pytest.param("real", "mavros", marks=pytest.mark.alone),
    ],
    indirect=["executable"],
)
def test_it_flies_attitudes_and_body_rates_as_they_are_asked_for(flight, way):
    """Ten degrees within one, rates within 0.08 rad/s, thrust within 9 %.

    ArduPilot adds 4 % of thrust for the thin air at 488 m, and by a proportion through what hovers
    15 % less come out as 11 % less.
    """
    if way == "mavros":
        by_mavros = ByMavros(flight.companion._port)
        by_mavros.send_motion = flight.companion._targets.send_motion
        flight.companion._targets = by_mavros
    ten, lift = math.radians(10.0), G / math.cos(math.radians(10.0))
    for roll, pitch in ((ten, 0.0), (0.0, ten), (-ten, -ten)):
        rows = flight.lean(1.0, roll, pitch, thrust=lift)
        assert rows[50:, 6:8].mean(axis=0) == pytest.approx([roll, pitch], abs=math.radians(1.0))
        ahead, left = math.tan(pitch), -math.tan(roll)  # where lift leans to, nose to the east
        gained = rows[-1, 3:5] - rows[49, 3:5]  # in half a second, less what drag takes
        assert gained == pytest.approx([0.5 * G * ahead, 0.5 * G * left], abs=0.25)
        assert abs(rows[-1, 2] - rows[0, 2]) < 0.25
        flight.rest(1.0)
    for rate in (0.5, -0.5):
        assert flight.lean(3.0, 0.0, 0.0, rate)[-100:, 11].mean() == pytest.approx(rate, rel=0.1)
        flight.rest(1.0)
    for share in (1.15, 0.85):
        flight.lean(0.3, 0.0, 0.0, thrust=share * G)
        assert flight.vehicle.state["command"]["thrust"] == pytest.approx(share * G, rel=0.09)
        flight.rest(1.0)
    for axis in range(3):
        w_B = [0.5 * (axis == i) for i in range(3)]
        rows = flight.turn(0.5 if axis < 2 else 3.0, tuple(w_B))
        assert rows[-20:, 9:12].mean(axis=0) == pytest.approx(w_B, abs=0.08)
        flight.rest(1.0)


def test_it_flies_velocities_and_places_on_each_axis(flight):
    for axis in range(3):
        v_W = [0.8 * (axis == i) for i in range(3)]
        assert flight.fly(3.0, tuple(v_W))[-50:, 3:6].mean(axis=0) == pytest.approx(v_W, abs=0.1)
        flight.rest(1.0)
    assert flight.fly(3.0, (0.0, 0.0, 0.0), 0.4)[-100:, 11].mean() == pytest.approx(0.4, abs=0.04)
    flight.rest(1.0)
    manager, goal_W = flight.vehicle.manager, (1.0, -2.0, 3.5)
    assert manager.command_pose(goal_W, math.radians(-120.0)) is None
    for _ in range(1500):
        flight.side.tick()
        true = flight.truth()
        if math.dist(true[:3], goal_W) < 0.1 and abs(math.degrees(true[8]) + 120.0) < 3.0:
            break
    else:
        pytest.fail(f"at {true[:3]}, heading {math.degrees(true[8]):.1f} deg")


@pytest.mark.parametrize("executable", ["stand-in"], indirect=True)
def test_an_attitude_of_the_mission_goes_out_too(flight):
    """As a Crazyflie's script streams it, or a pilot without assistance; it stayed where it was."""
    commander, ten = flight.vehicle.manager.commander, math.radians(10.0)
    commander.attitude(0.0, 0.0, 0.0, 0.0)  # unlocks the thrust
    rows = []
    for _ in range(200):
        assert commander.attitude(ten, 0.0, 0.4, G / math.cos(ten)) is None
        flight.side.tick()
        rows.append(flight.truth())
    later = np.array(rows[100:]).mean(axis=0)
    assert later[6] == pytest.approx(ten, abs=math.radians(1.5))
    assert later[11] == pytest.approx(0.4, abs=0.06)


@pytest.mark.parametrize("executable", [REAL], indirect=True)
def test_setpoints_that_stop_are_noticed_after_guid_timeout(executable, tmp_path):
    """mode_guided.cpp: a velocity ends at zero, an attitude level: the vehicle drifts on."""
    flight = Flight(executable, tmp_path, "GUID_TIMEOUT 1\n")
    try:
        flight.fly(2.0, (1.5, 0.0, 0.0))
        silence = Silent()
        said, flight.companion._targets = flight.companion._targets, silence
        rows = flight.rest(5.0)
        assert rows[80, 3] > 1.3
        assert np.linalg.norm(rows[-1, 3:6]) < 0.1
        flight.companion._targets = said
        flight.rest(3.0)
        flight.lean(1.0, 0.0, math.radians(10.0), thrust=G / math.cos(math.radians(10.0)))
        flight.companion._targets = silence
        rows = flight.rest(5.0)
        assert math.degrees(rows[80, 7]) == pytest.approx(9.5, abs=1.0)
        assert abs(math.degrees(rows[200, 7])) < 2.0
        assert 1.0 < np.linalg.norm(rows[-1, 3:5]) < np.linalg.norm(rows[100, 3:5])
        assert abs(rows[-1, 5]) < 0.1
    finally:
        flight.side.close()


class Silent:
    """Sends nothing."""

    def send_motion(self, *_):
        pass

    send_thrust = send_motion


def test_a_heading_turns_at_its_rate_and_stays_near():
    heading = TurningHeading()
    assert heading.advance(0, 3.0, 1.0) == 3.0
    assert heading.advance(100_000_000, 3.0, 1.0) == pytest.approx(3.1)
    assert heading.advance(500_000_000, 3.0, 1.0) == pytest.approx(3.3)  # no farther ahead
    assert heading.advance(600_000_000, -3.0, 1.0) == pytest.approx(-2.88, abs=0.01)  # beyond pi
    assert heading.advance(2_000_000_000, 1.0, 1.0) == 1.0  # after a pause it begins anew


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_the_number_of_a_thrust_is_the_inverse_of_what_the_firmware_makes_of_it(share):
    """AP_MotorsMulticopter.cpp with MOT_THST_EXPO 1: speed = spin_min + (spin_max - min) sqrt."""
    tilted = from_euler(0.3, -0.2, 1.0)
    number = Throttle(0.15, 0.95, True).of(share, tilted)
    boosted = number / math.cos(0.3) / math.cos(0.2)
    assert (0.15 + 0.8 * math.sqrt(boosted)) ** 2 == pytest.approx(share)
    assert Throttle(0.0, 1.0, False).of(share, tilted) == pytest.approx(share)


def test_the_guard_says_the_present_attitude_beside_rates():
    from quadsim.hil.guard.setpoints import RATES, ThrustSetpoint
    from quadsim.ros.messages.setpoint_messages import make_setpoint, read_rates_setpoint

    q_WB = from_euler(0.1, 0.2, 0.3)
    given = ThrustSetpoint(RATES, q_WB, (0.1, 0.2, 0.3), 9.0)
    assert read_rates_setpoint(make_setpoint(given, 5)) == given
