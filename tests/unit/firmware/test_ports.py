"""Who is believed on the ports of a firmware: its own process, or the first that fits."""

import math
import socket
import sys
import threading

import pytest

from quadsim.base.errors import FlightError, InputError
from quadsim.firmware import ardupilot, mavlink
from quadsim.firmware.axes import FRAMES
from quadsim.firmware.fly import Flown
from quadsim.firmware.px4 import board_stream
from quadsim.firmware.transport import MOST_STRAYS, Process, Strays, TcpStream, UdpPort
from quadsim.sim.loop import MOTORS_OUTSIDE
from quadsim.sim.scenario import load_scenario
from quadsim.sim.swarm import Swarm

FITS = b"fits"


@pytest.fixture
def sender():
    """Makes somebody who can send to a port."""
    made = []

    def make():
        made.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        made[-1].bind(("127.0.0.1", 0))
        made[-1].settimeout(2.0)
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def port():
    """A port for which packets of four bytes fit, its address, and who is not believed on it."""
    strays = Strays()
    made = UdpPort(0, fits=lambda data: len(data) == 4, strays=strays)
    yield made, made._socket.getsockname(), strays
    made.close()


def test_the_first_that_fits_is_believed_and_nobody_after_it(port, sender):
    heard, address, strays = port
    first, other = sender(), sender()
    other.sendto(b"x", address)  # a stray byte before all
    assert heard.read(0.5) == b""
    first.sendto(FITS, address)
    assert heard.read(0.5) == FITS
    other.sendto(b"lies", address)
    first.sendto(b"longer", address)
    assert heard.read(0.5) == b"longer"  # what it says is its own matter
    heard.write(b"answer")
    assert first.recv(100) == b"answer"
    assert strays.count == 2
    place = f"127.0.0.1:{other.getsockname()[1]}"
    words = f"udp {heard.port}: 1 bytes from {place} not taken: not the firmware's"
    assert strays.news == [words]


def test_of_a_process_that_we_started_only_its_own_packets_are_taken(port, sender, tmp_path):
    heard, address, strays = port
    program = tmp_path / "firmware"
    program.write_text(
        f"#!{sys.executable}\nimport socket, time\n"
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        f"while True:\n    s.sendto(b'ours', {address!r}); time.sleep(0.02)\n"
    )
    program.chmod(0o755)
    process = Process(program, [], "test")
    try:
        sender().sendto(b"lies", address)
        process.start()
        heard.expect(process)
        got = [heard.read(2.0) for _ in range(5)]
        assert b"lies" not in got
        assert b"ours" in got
        assert strays.count == 1
    finally:
        process.stop()


def test_others_cannot_connect_in_place_of_our_process(tmp_path):
    strays = Strays()
    server = TcpStream(0, True, strays)
    program = tmp_path / "firmware"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    process = Process(program, [], "test")
    try:
        process.start()
        with socket.create_connection(server._server.getsockname()):
            assert not server.open(0.5, process)
        assert strays.count == 1
    finally:
        process.stop()
        server.close()


def test_a_flood_does_not_hold_the_reader(port, sender):
    heard, address, strays = port
    sender().sendto(FITS, address)
    assert heard.read(0.5) == FITS
    flood = sender()
    sent = 0
    for _ in range(2 * MOST_STRAYS):  # as many as the socket's buffer takes
        sent += flood.sendto(b"x", address)
    assert heard.read() == b""
    assert strays.count == min(sent, MOST_STRAYS)


@pytest.mark.parametrize(("text", "host"), [("udp:{}", "127.0.0.1"), ("udp:0.0.0.0:{}", "0.0.0.0")])
def test_a_board_is_heard_on_this_machine_unless_told(text, host):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        number = probe.getsockname()[1]
    stream = board_stream(text.format(number), Strays())
    assert stream._socket.getsockname() == (host, number)
    stream.close()
    with pytest.raises(InputError, match="udp:"):
        board_stream("udp:no.such.address.example:0", Strays())


def test_what_is_no_message_of_mavlink_fits_not():
    link = mavlink.dialect().MAVLink(None, 1, 1)
    message = mavlink.dialect().MAVLink_heartbeat_message(2, 12, 0, 0, 4, 3)
    assert mavlink.fits(bytes(message.pack(link)))
    assert not any(mavlink.fits(data) for data in (b"", b"x", b"\xfd", b"GET / HTTP/1.1\r\n"))


class Lying:
    """A firmware with a motor that is no number."""

    name, outside, frames, ready = "lying", MOTORS_OUTSIDE, FRAMES, True

    def __init__(self, value):
        self._throttles = [0.5, 0.5, value, 0.5]

    def open(self, craft):
        pass

    def send(self, now_ns):
        pass

    def receive(self, now_ns):
        return self._throttles

    def close(self):
        pass


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_motor_that_is_no_number_is_refused_by_name(value):
    scenario = load_scenario("hover", duration_s=1.0)
    swarm = Swarm(scenario, make=Flown(lambda: Lying(value)), log_hz=scenario.imu.rate_hz)
    with pytest.raises(FlightError, match=f"lying: motor 3 is {value}, not taken"):
        swarm.fly()


def test_packets_of_others_change_nothing(stand_in, fly):
    """Forged servo packets of the right form, and stray bytes, while it flies."""
    forged = ardupilot.SERVOS.pack(ardupilot.MAGIC, 400, 1 << 30, *(1000,) * 16)
    over = threading.Event()

    def lie():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as liar:
            while not over.wait(0.01):
                for data in (forged, b"x"):
                    liar.sendto(data, ("127.0.0.1", ardupilot.SERVO_PORT))

    liar = threading.Thread(target=lie)
    liar.start()
    try:
        _, loops, firmware = fly("ardupilot", stand_in("ardupilot"), duration_s=6.0)
    finally:
        over.set()
        liar.join()
    assert firmware[0].counts()["lost"] == 0  # a forged frame would have lost a thousand million
    said = [event.message for event in loops[0].events if "not taken" in event.message]
    assert len(said) == 1
    assert said[0].startswith("udp 9002: ")
