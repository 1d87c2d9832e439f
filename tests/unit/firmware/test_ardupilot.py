"""ArduPilot: the line of JSON, flights of a strict stand-in, and what goes wrong."""

import errno
import json
import math
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from quadsim.base.errors import FlightError, InputError
from quadsim.firmware import ardupilot, transport
from quadsim.firmware.transport import WITH_US, Process
from quadsim.firmware.upload import steps_of
from quadsim.geometry.geodesy import Datum
from quadsim.mission.items import Goto, Hover, Land, Takeoff
from quadsim.mission.waypoint import ReturnHome

pytest.importorskip("pymavlink")
from pymavlink.dialects.v20 import ardupilotmega as mavlink


def until(condition):
    """Wait for what comes about within a minute."""
    end_s = time.monotonic() + 60.0
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.02)


def test_the_line_has_what_the_firmware_looks_for():
    """By SIM_JSON.cpp: behind a key come two characters, then the number or ``[a, b, c]``."""
    line = ardupilot.json_line(
        2_000_000, (1, 2, 3), (4, 5, 6), (7, 8, 9), (1, 0, 0, 0), (10, 11, 12), 1.5
    )
    text = line.decode()
    assert text[0] == text[-1] == "\n"
    for key, words in (
        ("timestamp", "0.002"), ("gyro", "[4, 5, 6]"), ("accel_body", "[1, 2, 3]"),
        ("quaternion", "[1, 0, 0, 0]"), ("rng_1", "1.5"),
    ):  # fmt: skip
        assert text[text.index(key) + len(key) + 2 :].startswith(words)
    assert json.loads(text)["velocity"] == [10, 11, 12]
    without = ardupilot.json_line(0, (0,) * 3, (0,) * 3, (0,) * 3, (1, 0, 0, 0), (0,) * 3, None)
    assert "rng_1" not in json.loads(without)


def test_it_flies_the_square(stand_in, fly):
    logs, loops, firmware = fly("ardupilot", stand_in("ardupilot"), "square", duration_s=60.0)
    log, loop = logs[0], loops[0]
    assert loop.manager.finished
    assert not loop.crashed
    assert list(log.estimates) == ["ardupilot"]
    landed = log.truth.p_W[-1]
    assert math.hypot(*landed[:2]) < 0.3
    corners = np.array([(4, 0), (4, 4), (0, 4)])
    for corner in corners:
        assert np.linalg.norm(log.truth.p_W[:, :2] - corner, axis=1).min() < 0.3
    counts = firmware[0].counts()
    assert counts["frames"] > 10_000
    assert (counts["lost"], counts["doubled"], counts["mavlink_lost"]) == (0, 0, 0)


def test_it_flies_the_mission_itself(stand_in, fly):
    """The stand-in ends where a setpoint comes in this mode."""
    logs, loops, _ = fly("ardupilot", stand_in("ardupilot"), "square", auto=True, duration_s=60.0)
    log, loop = logs[0], loops[0]
    assert loop.manager.finished
    assert not loop.crashed
    assert log.events[-1].message == "motors stopped"
    for corner in ((4, 0), (4, 4), (0, 4)):
        assert np.linalg.norm(log.truth.p_W[:, :2] - corner, axis=1).min() < 0.3
    assert np.linalg.norm(log.truth.p_W[-1, :2]) < 0.5


def test_a_mission_that_is_not_taken_is_named(stand_in, fly):
    with pytest.raises(FlightError, match="the mission is not taken: MAV_MISSION_RESULT 13"):
        fly("ardupilot", stand_in("ardupilot", refuses=True), auto=True)


def test_a_mission_is_what_the_protocol_says():
    items = (Takeoff(2.0), Goto((10.0, 0.0, 5.0), 90.0, 3.0), Hover(4.0), Land())
    steps = steps_of(items, Datum())
    commands = [mavlink.enums["MAV_CMD"][step.command].name for step in steps]
    assert commands == [
        "MAV_CMD_NAV_WAYPOINT", "MAV_CMD_NAV_TAKEOFF", "MAV_CMD_NAV_WAYPOINT",
        "MAV_CMD_CONDITION_YAW", "MAV_CMD_DO_CHANGE_SPEED", "MAV_CMD_NAV_DELAY", "MAV_CMD_NAV_LAND",
    ]  # fmt: skip
    frame = mavlink.enums["MAV_FRAME"][steps[2].frame].name
    assert (steps[1].z, frame) == (2.0, "MAV_FRAME_GLOBAL_INT")
    place = Datum().to_enu(steps[2].x * 1e-7, steps[2].y * 1e-7, steps[2].z)
    assert place == pytest.approx([10.0, 0.0, 5.0], abs=0.02)
    assert (steps[3].params[0], steps[4].params[1], steps[5].params[0]) == (0.0, 3.0, 4.0)


@pytest.mark.parametrize(
    ("item", "words"),
    [
        (ReturnHome(), r"mission\[1\]: return_home: not flown by the firmware itself; allowed"),
        (Goto((1.0, 0.0, 2.0), height="above_ground"), "goto: height: above_ground"),
    ],
)
def test_what_the_firmware_does_not_fly_itself_is_named(item, words):
    with pytest.raises(InputError, match=words):
        steps_of((Takeoff(2.0), item), Datum())


def test_two_vehicles_have_ports_of_their_own(stand_in, fly):
    """Packets that come twice are counted and change nothing.

    A camera on board, of the vehicle's number and with heartbeats of its own, is not the autopilot.
    """
    executable = stand_in("ardupilot", doubled=True, camera=True)
    logs, loops, firmware = fly("ardupilot", executable, duration_s=40.0, vehicles=2)
    assert all(loop.manager.finished and not loop.crashed for loop in loops)
    assert logs[1].truth.p_W[-1, 1] == pytest.approx(logs[0].truth.p_W[-1, 1] - 5.0, abs=0.5)
    for loop, one in zip(loops, firmware, strict=True):
        assert one.counts()["doubled"] > 10
        assert "camera" not in " ".join(event.message for event in loop.events)


@pytest.mark.parametrize(
    ("faults", "words"),
    [
        ({"stop": 500}, "ardupilot: ended with status 7; it said: an internal error"),
        ({"magic": True}, "no servo packet of 16 channels"),
        ({"number": 7}, "it is number 7, 1 wanted: set MAV_SYSID"),
    ],
)
def test_a_firmware_that_stops_or_is_another_is_named(stand_in, fly, faults, words):
    with pytest.raises(FlightError, match=words):
        fly("ardupilot", stand_in("ardupilot", **faults))


def test_no_firmware_is_named(fly, monkeypatch):
    monkeypatch.setattr(ardupilot, "START_S", 0.3)
    with pytest.raises(FlightError, match=r"nothing on tcp 5760 in 0\.3 s"):
        fly("ardupilot", None)


def test_what_is_no_executable_is_named(fly, tmp_path):
    path = tmp_path / "text"
    path.write_text("no program")
    with pytest.raises(InputError, match="text: Permission denied"):
        fly("ardupilot", path)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="a process group needs Python 3.11")
def test_it_is_scheduled_with_us_and_spared_by_ctrl_c(tmp_path):
    """A session of its own has a share of the processor of its own (man 7 sched, autogroup)."""
    path = tmp_path / "firmware.sh"
    path.write_text(
        "#!/bin/sh\nps -o pid=,pgid=,sid= -p $$ > ids.txt; mv ids.txt done.txt\nsleep 60\n"
    )
    path.chmod(0o755)
    process = Process(path, [], "ardupilot")
    process.start()
    try:
        while not (process.folder / "done.txt").exists():
            time.sleep(0.01)
        pid, group, session = map(int, (process.folder / "done.txt").read_text().split())
    finally:
        process.stop()
    assert (pid == group, session) == (True, os.getsid(0))


PARENT = """
import sys, time
from pathlib import Path
from quadsim.firmware.transport import Process
Process(Path(sys.argv[1]), [], "ardupilot").start()
print("started", flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(not WITH_US, reason="needs setpriv")
def test_it_ends_where_we_are_killed(tmp_path):
    """Else it would hold the ports, and the next flight would command it."""
    path, ids = tmp_path / "firmware.sh", tmp_path / "pid"
    path.write_text(f"#!/bin/sh\ntrap '' TERM\necho $$ > {ids}.new; mv {ids}.new {ids}\nsleep 60\n")
    path.chmod(0o755)
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(path)], env={**os.environ, "TMPDIR": str(tmp_path)}
    )
    try:
        until(ids.exists)
    finally:
        parent.kill()
        parent.wait()
    status = Path(f"/proc/{ids.read_text().strip()}/stat")
    until(lambda: not status.exists() or status.read_text().split()[2] == "Z")


def test_a_firmware_that_runs_is_not_commanded_in_place_of_ours(stand_in, fly):
    words = r"port tcp 127\.0\.0\.1:5760: .*; another firmware runs: end it"
    with socket.create_server(("127.0.0.1", 5760)), pytest.raises(InputError, match=words):
        fly("ardupilot", stand_in("ardupilot"))


@pytest.mark.parametrize(
    ("faults", "words"),
    [({"anew": 900}, "frame 0 after 899: it began anew"), ({"stuck": 900}, "frame 899 for 0.5 s")],
)
def test_frames_that_do_not_go_on_end_the_flight(stand_in, fly, monkeypatch, faults, words):
    """Counted as doubled ones, they would have been waited for without end."""
    monkeypatch.setattr(ardupilot, "ANSWER_S", 0.5)
    with pytest.raises(FlightError, match=words):
        fly("ardupilot", stand_in("ardupilot", **faults))


def test_who_takes_nothing_is_named(monkeypatch):
    monkeypatch.setattr(transport, "WRITE_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        stream = transport.TcpStream(server.getsockname()[1], listens=False)
        assert stream.open(1.0)
        with pytest.raises(FlightError, match=r"nothing taken for 0\.1 s"):
            stream.write(bytes(100_000_000))
        stream.close()


@pytest.mark.parametrize("reason", [errno.EHOSTUNREACH, errno.ENETDOWN])
def test_a_network_that_is_down_for_a_while_ends_no_flight(monkeypatch, reason):
    def refuse(*_):
        raise OSError(reason, "down")

    heard = transport.UdpPort(0)
    port = transport.UdpPort(0, to=heard._socket.getsockname()[1])
    with monkeypatch.context() as down:
        down.setattr(socket.socket, "sendto", refuse, raising=False)
        port.write(b"lost")
    port.write(b"heard")
    assert heard.read(1.0) == b"heard"
    with pytest.raises(OSError, match="too long"):
        port.write(bytes(100_000))
    heard.close()
    port.close()


def test_a_taken_port_is_named(fly):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 9002))
        with pytest.raises(InputError, match=r"port udp 127\.0\.0\.1:9002: Address already in use"):
            fly("ardupilot", None)
