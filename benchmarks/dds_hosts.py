"""What limits a swarm over several hosts on one DDS domain, measured on network namespaces.

``python benchmarks/dds_hosts.py`` prints one JSON object, and a table of each group of cases on
stderr as it goes. One host publishes for all vehicles from one process, as the node ``swarm`` does;
the others hear them by raw subscriptions. The hosts are namespaces on one switch (``hosts.py``).
Linux, and the commands ip and tc (Debian's iproute2), nft (nftables) for the link that loses; root,
or leave to make user namespaces. docs/scale.md says what came out.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dds_cases import GROUPS, PROFILES, Case, words
from hosts import LINKS, SWITCH, Host, become_a_switch, lay_switch, need

from quadsim.base.surroundings import machine, versions

END = Path(__file__).with_name("dds_end.py")
SERVER_PORT = 11811
#: What the command ``fastdds discovery`` calls its program with.
SERVE = "42"
BUFFER_B = 4_194_304
#: Participants announce themselves each second: whatever is left over from before is then in.
SETTLE_S, IDLE_S = 3.0, 5.0


def traffic() -> dict[str, list[int]]:
    """Bytes and packets that came into each port of the switch, and that the switch sent itself."""
    found = {}
    for line in Path("/proc/self/net/dev").read_text(encoding="ascii").splitlines()[2:]:
        device, _, numbers = line.partition(":")
        words = [int(word) for word in numbers.split()]
        if device.strip().startswith("port"):
            found[device.strip()] = words[:2]
        elif device.strip() == "switch":  # a server of its own, on it
            found["switch"] = words[8:10]
    return found


def added(before: dict[str, list[int]]) -> dict[str, int]:
    """What all have sent since."""
    rows = [(row, before[device]) for device, row in traffic().items()]
    return {
        name: sum(new[k] - old[k] for new, old in rows)
        for k, name in enumerate(("bytes", "packets"))
    }


def environment(case: Case, folder: Path) -> dict[str, str]:
    """How ROS runs on the hosts."""
    found = {"ROS_AUTOMATIC_DISCOVERY_RANGE": "SUBNET", "FASTDDS_BUILTIN_TRANSPORTS": "UDPv4"}
    if case.large_buffers:
        found["FASTDDS_BUILTIN_TRANSPORTS"] = f"UDPv4?sockets_size={BUFFER_B}B"
    if profile := PROFILES.get((case.multicast, case.quick_repair)):
        path = folder / "profiles.xml"
        path.write_text(profile, encoding="utf-8")
        found["FASTDDS_DEFAULT_PROFILES_FILE"] = str(path)
    if case.server:
        found["ROS_DISCOVERY_SERVER"] = f"{SWITCH}:{SERVER_PORT}"
    return found


@contextmanager
def discovery_server(case: Case) -> Iterator[None]:
    """Fast DDS's discovery server, where the case wants it."""
    if not case.server:
        yield
        return
    server = subprocess.Popen(
        [discovery_program(), SERVE, "-i", "0", "-l", SWITCH, "-p", str(SERVER_PORT)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield
    finally:
        server.terminate()
        server.wait()


def discovery_program() -> str:
    """Fast DDS's discovery server, beside Python or in the path."""
    beside = str(Path(sys.executable).parent)
    found = shutil.which("fast-discovery-server", path=f"{beside}:{os.environ['PATH']}")
    if found is None:
        raise SystemExit("dds_hosts: no fast-discovery-server (a part of Fast DDS)")
    return found


def measure(case: Case, domain: int) -> dict[str, Any]:
    """Run one case on hosts of its own."""
    link = LINKS[case.link]

    def host(number: int, **words: Any) -> Host:
        spec = {
            "domain": domain, "vehicles": case.vehicles, "topics": list(case.topics),
            "silent": case.silent, "participants": case.participants, **words,
        }  # fmt: skip
        return Host(number, [sys.executable, str(END), json.dumps(spec)], link, variables)

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        variables = environment(case, folder)
        stack.enter_context(discovery_server(case))
        hearers = 1 if case.shared else case.listeners
        fleet = host(1, role="fleet", staggered=case.staggered)
        stack.callback(fleet.end)
        listeners = []
        for k in range(case.listeners):
            share = [k, case.listeners] if case.shared else [0, 1]
            listeners.append(
                host(2 + k, role="listener", share=share, best_effort=case.best_effort)
            )
            stack.callback(listeners[-1].end)
        fleet_made = fleet.ask(do="begin")
        fleet.ask(do="idle", seconds=SETTLE_S)
        before = traffic()
        ends = [fleet, *listeners]
        for listener in listeners:
            listener.tell(do="begin")
        made = [listener.answer() for listener in listeners]
        for end in ends:
            end.tell(do="match", each=hearers if end is fleet else 1)
        matched = [end.answer() for end in ends]
        found = max(row["matched_at"] for row in matched)
        result: dict[str, Any] = {
            **asdict(case),
            "discovery": {
                "s": found - min(row["begun_at"] for row in made),
                "making_s": max(row["wall_s"] for row in made),
                "fleet_making_s": fleet_made["wall_s"],
                "fleet_MB": fleet.ask(do="memory")["MB"],
                "endpoints": sum(row["endpoints"] for row in matched),
                "not_found": sum(row["left"] for row in matched),
                "cpu_s": sum(row["cpu_s"] for row in made + matched),
                **added(before),
            },
        }  # fmt: skip
        if case.seconds > 0.0:
            result["flight"] = fly(case, fleet, listeners)
        else:
            fleet.ask(do="idle", seconds=SETTLE_S)
            before = traffic()
            fleet.ask(do="idle", seconds=IDLE_S)
            result["discovery"]["idle_bytes_s"] = added(before)["bytes"] / IDLE_S
    return result


def fly(case: Case, fleet: Host, listeners: list[Host]) -> dict[str, Any]:
    """Publish, and hear."""
    for listener in listeners:
        listener.tell(do="listen")
    before = traffic()
    sent = fleet.ask(do="publish", seconds=case.seconds)
    wire = added(before)
    for listener in listeners:
        listener.tell(do="enough")
    heard = [listener.answer() for listener in listeners]
    due = sent["sent"] * (1 if case.shared else case.listeners)
    taken = sum(row["heard"] for row in heard)
    latencies = [row["latency_ms"] for row in heard if row["latency_ms"]]
    return {
        "messages_s": sent["sent"] / sent["wall_s"],
        "rate_kept": case.seconds / sent["wall_s"],
        "lost_percent": 100.0 * (1.0 - taken / due),
        "no_room": sum(row["no_room"] for row in [sent, *heard]),
        "latency_median_ms": max(row[0] for row in latencies),
        "latency_99_ms": max(row[1] for row in latencies),
        "latency_max_ms": max(row[2] for row in latencies),
        "mbit_s": 8e-6 * wire["bytes"] / sent["wall_s"],
        "mbit_s_vehicle": 8e-6 * wire["bytes"] / sent["wall_s"] / case.vehicles,
        "packets_a_message": wire["packets"] / sent["sent"],
        "sender_us_a_message": 1e6 * sent["cpu_s"] / sent["sent"],
        "sender_cores": sent["cpu_s"] / sent["wall_s"],
        "sender_python_cores": sent["main_thread_s"] / sent["wall_s"],
        "hearer_us_a_message": 1e6 * sum(row["cpu_s"] for row in heard) / max(taken, 1),
        "hearer_python_us_a_message": 1e6
        * sum(row["main_thread_s"] for row in heard) / max(taken, 1),
        "hearer_cores": max(row["cpu_s"] / row["wall_s"] for row in heard),
        "by_topic": [row["latency_ms_by_topic"] for row in heard],
    }  # fmt: skip


def main() -> None:
    """Measure the groups that are asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=list(GROUPS), metavar="GROUP",
                        help=f"some of: {', '.join(GROUPS)}")  # fmt: skip
    parser.add_argument("--vehicles", type=int, nargs="+", help="cases of these counts alone")
    parser.add_argument(
        "--repeat", type=int, default=1, help="runs of each case; medians are given"
    )
    parser.add_argument("--domain", type=int, default=160)
    args = parser.parse_args()
    cases = [
        (group, case)
        for group in args.only
        for case in GROUPS[group]
        if not args.vehicles or case.vehicles in args.vehicles
    ]
    if not cases:
        raise SystemExit(f"dds_hosts: --vehicles: no case of {args.vehicles} in {args.only}")
    lossy = any(LINKS[case.link].loss_percent > 0.0 for _, case in cases)
    need("unshare", "nsenter", "ip", "tc", *(["nft"] if lossy else []))
    become_a_switch()
    lay_switch()
    results: list[dict[str, Any]] = []
    try:
        for group, case in cases:
            load = os.getloadavg()[0]
            runs = [measure(case, args.domain) for _ in range(args.repeat)]
            results.append({"group": group, "load": round(load, 1), **middle(runs)})
            sys.stderr.write(f"{group}: {words(case)}: {line(results[-1])}\n")
    finally:  # what there is, after Ctrl-C too
        json.dump({"machine": machine(), "versions": versions(), "cases": results}, sys.stdout)
        sys.stdout.write("\n")


def line(result: dict[str, Any]) -> str:
    """The figures of a case that say most."""
    if "flight" not in result:
        found = result["discovery"]
        return (
            f"{found['s']:.2f} s, {found['endpoints']} endpoints ({found['not_found']} alone), "
            f"{found['bytes'] / 1e6:.2f} MB, {found['packets']} packets, "
            f"{found['cpu_s']:.2f} s of processor time, then {found['idle_bytes_s'] / 1e3:.1f} kB/s"
        )
    flight = result["flight"]
    return (
        f"{flight['messages_s']:.0f} messages/s ({100 * flight['rate_kept']:.0f} % of the rate), "
        f"{flight['mbit_s']:.1f} Mbit/s, lost {flight['lost_percent']:.2f} %, "
        f"{flight['latency_median_ms']:.2f} ms median, {flight['latency_99_ms']:.1f} ms 99 %, "
        f"sender {flight['sender_us_a_message']:.0f} us, "
        f"hearer {flight['hearer_us_a_message']:.0f} us a message, no room for {flight['no_room']}"
    )


def middle(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians of runs, key by key."""
    return {
        key: middle([run[key] for run in runs])
        if isinstance(value, dict)
        else round(statistics.median(run[key] for run in runs), 4)
        if isinstance(value, float)
        else value
        for key, value in runs[0].items()
    }


if __name__ == "__main__":
    main()
