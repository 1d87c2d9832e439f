"""Hosts of a small network on this machine: each a network namespace, all on one switch.

The process that makes them is the switch: a bridge in a namespace of its own. A host is a process
started by ``unshare --net`` with one end of a veth pair in it, so the namespaces, their links and
all else are gone when the processes are; nothing has a name, nothing is left over. Nothing of it is
connected to the machine's own network.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: TEST-NET-1 of RFC 5737, which nobody routes.
ADDRESS = "192.0.2.{}"
SWITCH = ADDRESS.format(254)
INSIDE = "QUADSIM_INSIDE_A_NAMESPACE"
MULTICAST = "224.0.0.0/4"


@dataclass(frozen=True)
class Link:
    """What lies between a host and the switch, on the way out of the host.

    Attributes:
        rate_mbps: of all packets.
        multicast_mbps: of packets to many, which an access point sends at its lowest rate.
        queue_kB: what may wait.
        loss_percent: of the packets that come in, each by itself.
    """

    rate_mbps: int
    multicast_mbps: int
    queue_kB: int
    loss_percent: float = 0.0


LINKS = {"gigabit": Link(1000, 1000, 1500), "wifi": Link(100, 6, 400, 1.0)}


#: Commands that are called, with their Debian packages.
PACKAGES = {
    "unshare": "util-linux", "nsenter": "util-linux", "ip": "iproute2", "tc": "iproute2",
    "nft": "nftables",
}  # fmt: skip
_PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def need(*commands: str) -> None:
    """End the program with one line where commands are missing."""
    missing = [name for name in commands if not shutil.which(name, path=_PATH)]
    if missing:
        packages = sorted({PACKAGES[name] for name in missing})
        raise SystemExit(
            f"not installed here: {', '.join(missing)} (Debian: {', '.join(packages)})"
        )


def become_a_switch() -> None:
    """Begin this program again in a network namespace of its own, unless it is in one."""
    if os.environ.get(INSIDE):
        return
    root = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    environment = os.environ | {INSIDE: "1", "PATH": _PATH}
    os.execvpe("unshare", ["unshare", *root, "--net", sys.executable, *sys.argv], environment)


def run(*command: str) -> None:
    """Run a command; one that fails ends the program with its own words."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        words = " ".join((done.stderr or done.stdout).split())
        raise SystemExit(f"{' '.join(command)}: {words}")


class Host:
    """A process in a namespace of its own; lines of JSON go in and come out.

    Args:
        number: 1 to 253.
        command: what runs there. It says one line when it is there, and then obeys lines.
        link: to the switch.
        environment: beside this process's own.
    """

    def __init__(
        self, number: int, command: Sequence[str], link: Link, environment: Mapping[str, str]
    ) -> None:
        self.address = ADDRESS.format(number)
        self._process = subprocess.Popen(
            ["unshare", "--net", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | environment,
        )
        self.answer()  # it is there, and so is its namespace
        self._connect(number, link)

    def _connect(self, number: int, link: Link) -> None:
        """Lay the cable, and shape what goes over it."""
        pid, port = str(self._process.pid), f"port{number}"
        inside = ("nsenter", "--net", "--target", pid)
        run("ip", "link", "add", port, "type", "veth", "peer", "name", "eth", "netns", pid)
        run("ip", "link", "set", port, "master", "switch", "up")
        run(*inside, "ip", "link", "set", "lo", "up")
        run(*inside, "ip", "address", "add", f"{self.address}/24", "dev", "eth")
        run(*inside, "ip", "link", "set", "eth", "up")
        tc = (*inside, "tc")
        run(*tc, "qdisc", "add", "dev", "eth", "root", "handle", "1:", "htb", "default", "1")
        for name, rate_mbps in (("1", link.rate_mbps), ("2", link.multicast_mbps)):
            run(*tc, "class", "add", "dev", "eth", "parent", "1:", "classid", f"1:{name}",
                "htb", "rate", f"{rate_mbps}mbit", "burst", "64kb", "cburst", "64kb")  # fmt: skip
            run(*tc, "qdisc", "add", "dev", "eth", "parent", f"1:{name}",
                "bfifo", "limit", f"{link.queue_kB}kb")  # fmt: skip
        run(*tc, "filter", "add", "dev", "eth", "parent", "1:", "protocol", "ip",
            "u32", "match", "ip", "dst", MULTICAST, "flowid", "1:2")  # fmt: skip
        if link.loss_percent > 0.0:
            share = f"numgen random mod 10000 < {round(100 * link.loss_percent)}"
            run(*inside, "nft", "add table netdev air; add chain netdev air coming "
                "{ type filter hook ingress device eth priority 0; }; "
                f"add rule netdev air coming {share} drop")  # fmt: skip

    def tell(self, **words: Any) -> None:
        """Send a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """The next line that comes; a host that is gone ends the program."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"a host ended with status {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, **words: Any) -> dict[str, Any]:
        """Send a line and wait for the answer."""
        self.tell(**words)
        return self.answer()

    def end(self) -> None:
        """No more lines come: it ends, and its namespace with it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(30.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def lay_switch() -> None:
    """The bridge that all hosts are on; packets to many go to all, as without IGMP snooping."""
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", "switch", "type", "bridge", "mcast_snooping", "0")
    run("ip", "address", "add", f"{SWITCH}/24", "dev", "switch")
    run("ip", "link", "set", "switch", "up")
