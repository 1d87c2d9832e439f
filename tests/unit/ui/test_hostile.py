"""The page's server against other pages of a browser, other names of this machine, and bots."""

import http.client
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import closing

import psutil
import pytest

pytest.importorskip("nicegui")

from starlette.datastructures import Headers

from quadsim.ui.page import refusal

SOCKET = "/_nicegui_ws/socket.io/?EIO=4&transport="
UPGRADE = {
    "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}  # fmt: skip
PATIENCE_S = 90.0


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The command as a process, and where it serves."""
    log = tmp_path_factory.mktemp("ui") / "log"
    environment = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    command = [sys.executable, "-m", "quadsim.cli", "ui", "--port", "0", "--no-browser"]
    with log.open("w") as output:
        process = subprocess.Popen(
            command, cwd=log.parent, env=environment, stderr=output, stdout=output
        )
    try:
        end_s = time.monotonic() + PATIENCE_S
        while not ((found := re.search(r"127\.0\.0\.1:\d+", log.read_text())) and up(found[0])):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end_s, log.read_text()
            time.sleep(0.1)
        yield psutil.Process(process.pid), found[0]
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(30.0) == 0
    assert "Traceback" not in log.read_text()


def up(address):
    try:
        return ask(address, "/favicon.ico")[0] == 200
    except OSError:
        return False


def ask(address, path, **headers):
    """Status and headers of an answer."""
    with closing(http.client.HTTPConnection(address, timeout=60.0)) as connection:
        connection.putrequest("GET", path, skip_host="Host" in headers)
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        answer = connection.getresponse()
        if answer.status != 101:  # a websocket that is open goes on
            answer.read()
        return answer.status, answer.headers


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "http://127.0.0.1:9", "http://localhost", "null", ""]
)
def test_a_websocket_of_another_page_is_refused(server, origin):
    _, address = server
    for kind, headers in (("websocket", UPGRADE), ("polling", {})):
        asked = {**{name.replace("-", "_"): value for name, value in headers.items()}}
        assert ask(address, SOCKET + kind, Origin=origin, **asked)[0] == 403
        assert ask(address, SOCKET + kind, Origin=f"http://{address}", **asked)[0] in (101, 200)


def test_another_name_of_this_machine_is_refused(server):
    _, address = server
    port = address.partition(":")[2]
    for host in (f"evil.example:{port}", "evil.example", "[::1]:80", "0.0.0.0"):
        assert ask(address, "/", Host=host)[0] == 400
        assert ask(address, SOCKET + "polling", Host=host, Origin=f"http://{host}")[0] == 400
    assert ask(address, "/", Host=f"localhost:{port}")[0] == 200
    with pytest.raises(OSError, match="refused"):
        ask(f"127.0.0.2:{port}", "/")


@pytest.mark.parametrize("path", ["/models/setup.py", "/report/99", "/report/etc"])
def test_what_is_not_there_is_not_found(server, path):
    assert ask(server[1], path)[0] == 404


def test_the_page_says_that_nobody_may_frame_it_and_what_it_loads(server):
    _, address = server
    status, headers = ask(address, "/")
    assert status == 200
    policy = headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy


@pytest.mark.parametrize(
    ("path", "asked", "status"),
    [
        ("/", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "document"}, 0),  # a link
        ("/", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "iframe"}, 403),
        ("/", {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Dest": "empty"}, 403),  # another port
        ("/report/1", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "image"}, 403),
        ("/report/1", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "document"}, 403),
        ("/report/1", {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Dest": "iframe"}, 0),
        ("/models/a.glb", {"Origin": "http://127.0.0.1:8080"}, 0),
        ("/models/a.glb", {"Origin": "https://127.0.0.1:8080"}, 403),
        ("/", {}, 0),  # no browser
        ("/wp-login.php", {}, 404),
    ],
)
def test_other_pages_get_nothing(path, asked, status):
    assert refusal(Headers({"Host": "127.0.0.1:8080", **asked}), path) == status


def test_pages_that_never_connect_cost_next_to_nothing(server):
    process, address = server
    ask(address, "/")
    end_s = time.monotonic() + PATIENCE_S
    while process.cpu_percent(1.0) > 10.0:  # it loads kernels
        assert time.monotonic() < end_s
    before_s = sum(process.cpu_times()[:2])
    count = 50
    for _ in range(count):
        assert ask(address, "/")[0] == 200
        assert ask(address, "/wp-login.php")[0] == 404
    used_s = sum(process.cpu_times()[:2]) - before_s
    # whole pages, as they were built for everybody, took 100 ms each, and these 13 ms
    assert used_s / count < 0.04
