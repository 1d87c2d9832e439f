"""Measure, and make the tables and the picture of docs/scale.md.

python docs/make_scale_figures.py [HOSTS.json MILLION.json]

Runs benchmarks/dds_hosts.py and benchmarks/million_runs.py, which need a quarter of an hour of a
quiet machine (or takes what they have printed), and writes the tables between the marks in
docs/scale.md anew: those rows that the page has. A table without marks on the page is printed. The
picture needs Chromium.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from PIL import Image
from plotly.subplots import make_subplots

from quadsim.analysis.report.figures import REFERENCE, RUNS, style
from quadsim.analysis.report.pictures import save_picture

HERE = Path(__file__).parent
PAGE, PICTURE = HERE / "scale.md", HERE / "images" / "scale.png"
BENCHMARKS = HERE.parent / "benchmarks"
WIDTH_PX, HEIGHT_PX, COLOURS = 1500, 480, 96
Case = dict[str, Any]


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def ms(value: float) -> str:
    """A time in ms, with three figures, or in s."""
    return f"{value / 1e3:.1f} s" if value >= 1e3 else f"{value:.3g} ms"


def fate(case: Case) -> list[str]:
    """Loss and latency of a flight's messages."""
    flight = case["flight"]
    return [
        f"{max(flight['lost_percent'], 0.0):.2g} %",
        ms(flight["latency_median_ms"]),
        ms(flight["latency_99_ms"]),
    ]


def of(cases: Sequence[Case], group: str) -> list[Case]:
    """Cases of a group."""
    return [case for case in cases if case["group"] == group]


def vehicles(cases: Sequence[Case]) -> str:
    """What becomes of a swarm's messages, by its size and link."""
    rows = []
    for plain, large, wifi in zip(
        *(of(cases, group) for group in ("vehicles", "buffers", "wifi")), strict=True
    ):
        flight = large["flight"]
        rows.append([
            str(plain["vehicles"]), f"{flight['messages_s']:.0f}", f"{flight['mbit_s']:.1f}",
            *fate(plain)[::2], *fate(large)[::2], *fate(wifi)[::2],
        ])  # fmt: skip
    heads = ["vehicles", "messages/s", "Mbit/s"]
    for link in ("as it comes", "4 MiB sockets", "wifi, 4 MiB"):
        heads += [f"{link}: lost", "99 %"]
    return table(heads, rows)


def processor(cases: Sequence[Case]) -> str:
    """Processor time on both sides."""
    rows = []
    for case in of(cases, "buffers"):
        flight = case["flight"]
        rows.append([
            str(case["vehicles"]), f"{100.0 * min(flight['rate_kept'], 1.0):.0f} %",
            f"{flight['sender_us_a_message']:.0f} µs", f"{flight['sender_cores']:.2f}",
            f"{flight['hearer_us_a_message']:.0f} µs",
            f"{flight['hearer_python_us_a_message']:.0f} µs", f"{flight['hearer_cores']:.2f}",
        ])  # fmt: skip
    return table(
        ["vehicles", "of its rate", "sender, a message", "cores", "hearer, a message",
         "of it Python", "cores"], rows,
    )  # fmt: skip


#: Keys of a case to words.
WORDS: dict[str, Callable[[Any], str]] = {
    "topics": lambda names: f"{' and '.join(names)} alone",
    "link": str,
    "large_buffers": lambda _: "4 MiB sockets",
    "staggered": lambda _: "vehicles one after the other",
    "listeners": lambda count: f"{count} listeners",
    "shared": lambda _: "each its share",
    "best_effort": lambda _: "best effort",
    "quick_repair": lambda _: "heartbeat 0.1 s",
    "multicast": lambda _: "multicast",
}


def special(case: Case) -> str:
    """What is special in a case."""
    plain = {"topics": ["imu", "odometry", "truth"], "link": "gigabit", "listeners": 1}
    found = [say(case[key]) for key, say in WORDS.items() if case[key] != plain.get(key, False)]
    return ", ".join(found) or "as it comes"


def remedies(cases: Sequence[Case]) -> str:
    """What helps."""
    rows = [
        [str(case["vehicles"]), special(case), f"{case['flight']['messages_s']:.0f}", *fate(case)]
        for case in of(cases, "remedies")
    ]
    return table(["vehicles", "what", "messages/s", "lost", "median", "99 %"], rows)


def listeners(cases: Sequence[Case]) -> str:
    """What another host that listens costs."""
    rows = [
        [special(case), f"{flight['packets_a_message']:.2f}", f"{flight['mbit_s']:.1f}",
         f"{flight['sender_us_a_message']:.0f} µs", f"{max(flight['lost_percent'], 0.0):.2g} %"]
        for case in of(cases, "listeners")
        for flight in [case["flight"]]
    ]  # fmt: skip
    return table(["10 vehicles", "packets a message", "Mbit/s", "sender, a message", "lost"], rows)


def discovery(cases: Sequence[Case]) -> str:
    """What it takes to find each other."""
    simple, server = (
        [c for c in of(cases, "discovery") if c["server"] is k] for k in (False, True)
    )
    rows = []
    for one, other in zip(simple, server, strict=True):
        figures = [
            words
            for found in (one["discovery"], other["discovery"])
            for words in (
                f"{found['s']:.1f} s" + (" (not all)" if found["not_found"] else ""),
                f"{found['bytes'] / 1e6:.2f} MB", f"{found['packets']}",
                f"{found['cpu_s']:.2f} s", f"{found['idle_bytes_s'] / 1e3:.1f} kB/s",
            )
        ]  # fmt: skip
        rows.append([str(2 * one["participants"]), str(one["discovery"]["endpoints"]), *figures])
    return table(
        ["participants", "endpoints", "time", "sent", "packets", "processor", "afterwards",
         "by a server: time", "sent", "packets", "processor", "afterwards"], rows,
    )  # fmt: skip


def run_costs(million: Case) -> str:
    """What was measured of a campaign."""
    m = million["measured"]
    start = f"{m['ready_s']:.1f} s, {m['ready_cpu_s']:.1f} s of processor time"
    rows = [
        [
            "a run: flight of a minute, files, scores",
            f"{m['flight_cpu_s']:.2f} s of processor time",
        ],
        ["memory of a worker, at most", f"{m['memory_MB']:.0f} MB"],
        ["start of a worker, to its first row", f"{start}, {m['ready_read_MB']:.0f} MB read"],
        ["a row in `rows.jsonl`", f"{m['line_bytes']:.0f} B"],
        ["a row in `table.parquet`", f"{m['table_bytes']:.0f} B"],
        ["to write it there in the end", f"{m['table_us']:.0f} µs"],
    ]
    return table(["what", "measured"], rows)


def handing(million: Case) -> str:
    """What handing out a run takes."""
    rows = [
        [str(h["width"]), str(h["batch"]), f"{h['feeder_ms_a_run']:.2f} ms",
         f"{h['scheduler_ms_a_run']:.2f} ms",
         f"{1e3 / max(h['feeder_ms_a_run'], h['scheduler_ms_a_run']):.0f}",
         f"{h['bytes_a_run'] / 1e3:.1f} kB"]
        for h in million["measured"]["handing"]
    ]  # fmt: skip
    return table(
        ["workers", "runs in a task", "`quadsim campaign`, a run", "scheduler, a run",
         "runs/s at most", "network, a run"], rows,
    )  # fmt: skip


def plans(million: Case) -> str:
    """Hours and price."""
    rows = [
        [str(p["cores"]), str(p["batch"]), f"{p['core_hours']:.0f}", duration(p["hours"]),
         f"{p['price']:.0f}", f"{100 * max(p['feeder_share'], p['scheduler_share']):.0f} %",
         f"{p['runs_s']:.0f}", f"{p['network_MB_s']:.1f} MB/s", f"{p['memory_GB']:.0f} GB",
         f"{p['start_read_GB']:.0f} GB"]
        for p in million["campaign"]
    ]  # fmt: skip
    return table(
        ["cores", "runs in a task", "core hours", "time", "price", "handing out busy", "runs/s",
         "network", "memory", "read at the start"], rows,
    )  # fmt: skip


def duration(hours: float) -> str:
    """A time in hours or minutes."""
    return f"{hours:.1f} h" if hours >= 1.0 else f"{60.0 * hours:.0f} min"


def picture(cases: Sequence[Case]) -> None:
    """Loss, latency and processor time over the number of vehicles."""
    figure = make_subplots(
        cols=3, horizontal_spacing=0.07,
        subplot_titles=("lost, %", "latency, ms: median, 99 % dotted",
                        "cores, with 4 MiB sockets: sender, listener dashed"),
    )  # fmt: skip
    groups = (("vehicles", "as it comes", RUNS[1]), ("buffers", "4 MiB sockets", RUNS[0]),
              ("wifi", "wifi, 4 MiB sockets", REFERENCE))  # fmt: skip
    for group, name, colour in groups:
        found = of(cases, group)
        counts = [case["vehicles"] for case in found]

        for col, key, dash, shown in (
            (1, "lost_percent", "solid", name),
            (2, "latency_median_ms", "solid", ""),
            (2, "latency_99_ms", "dot", ""),
            (3, "sender_cores", "solid", ""),
            (3, "hearer_cores", "dash", ""),
        ):
            if col == 3 and group != "buffers":
                continue
            trace = go.Scatter(
                x=counts,
                y=[max(case["flight"][key], 0.0) for case in found],
                mode="lines+markers",
                name=shown,
                showlegend=bool(shown),
                line={"color": colour, "dash": dash},
            )
            figure.add_trace(trace, 1, col)
    style(figure, HEIGHT_PX, x_title="vehicles")
    figure.update_xaxes(title_text="vehicles")
    figure.update_yaxes(type="log", dtick=1, col=2)
    figure.update_yaxes(rangemode="tozero", col=1)
    figure.update_yaxes(rangemode="tozero", col=3)
    figure.update_layout(margin={"t": 70}, legend={"y": 1.1})
    save_picture(figure, PICTURE, WIDTH_PX, HEIGHT_PX)
    Image.open(PICTURE).convert("RGB").quantize(COLOURS).save(PICTURE, optimize=True)


def measured(path: Path | None, program: str) -> Case:
    """What a benchmark has printed, or prints now."""
    if path is not None:
        text = path.read_text(encoding="utf-8")
    else:
        command = [sys.executable, str(BENCHMARKS / program)]
        text = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    found: Case = json.loads(text)
    return found


#: How many of its first cells name a row of a table; one, where nothing is said.
KEYS = {"handing": 2, "plans": 2, "remedies": 2, "discovery": 2}


def shortened(table: str, before: str, keys: int) -> str:
    """Rows of a table that it has had before; which these are is the page's choice.

    Args:
        table: with all rows.
        before: the table in the page.
        keys: how many of its first cells name a row.
    """

    def key(line: str) -> list[str]:
        return line.split("|")[1 : keys + 1]

    lines, kept = table.splitlines(), [key(line) for line in before.splitlines()]
    return "\n".join(line for i, line in enumerate(lines) if i < 2 or key(line) in kept)


def main() -> None:
    """Measure and write."""
    given = [Path(word) for word in sys.argv[1:]]
    if len(given) not in (0, 2):
        raise SystemExit((__doc__ or "").strip())
    hosts = measured(given[0] if given else None, "dds_hosts.py")
    million = measured(given[1] if given else None, "million_runs.py")
    cases = hosts["cases"]
    loads = [case["load"] for case in cases]
    made = {
        "run costs": run_costs(million), "handing": handing(million), "plans": plans(million),
        "vehicles": vehicles(cases), "processor": processor(cases), "remedies": remedies(cases),
        "listeners": listeners(cases), "discovery": discovery(cases),
        "load": f"Load of the machine while this was measured: {min(loads):.1f} to {max(loads):.1f}"
        f" (hosts), {million['load']:.1f} (campaign).",
    }  # fmt: skip
    text = PAGE.read_text(encoding="utf-8")
    for name, content in made.items():
        head, mark, rest = text.partition(f"<!-- {name} -->\n")
        before, end, tail = rest.partition("<!-- end -->")
        if not end:
            print(f"{name}\n\n{content}\n")
            continue
        if name != "load":
            content = shortened(content, before, KEYS.get(name, 1))
        text = f"{head}{mark}{content}\n{end}{tail}"
    PAGE.write_text(text, encoding="utf-8")
    picture(cases)


if __name__ == "__main__":
    main()
