"""Pictures for papers and the README: figures as PNG or SVG."""

from __future__ import annotations

import base64
import html
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from quadsim.analysis.report.flights import Flights, Runs
from quadsim.analysis.report.parts import drawn
from quadsim.analysis.summary import Summary
from quadsim.base import surroundings
from quadsim.base.errors import InputError, QuadsimError
from quadsim.base.whole_files import write_whole

_WIDTH, _HEIGHT = 1200, 675
_PAPER_WIDTH = 900
_ENTRY_PX, _LETTER_PX, _LINE_PX = 60, 8, 24  # room that a legend takes, roughly
_PATIENCE_S, _PATIENCE_EACH_S = 60, 5
_HEADLESS = (
    "--headless",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--virtual-time-budget=20000",
    "--use-angle=swiftshader",  # pictures in space, without a graphics card
    "--enable-unsafe-swiftshader",
)


def _page(figures: Sequence[go.Figure], asked: Sequence[dict[str, Any]]) -> str:
    """A page that turns itself into the text of its pictures, one after the other."""
    content = f"[{','.join(figure.to_json() for figure in figures)}]".replace("<", "\\u003c")
    return (
        f"<html><head><meta charset='utf-8'><script>{get_plotlyjs()}</script></head><body><script>"
        f"const figures = {content}, asked = {json.dumps(asked)};"
        "(async () => { const made = [];"
        " for (const each of asked)"
        " made.push(await Plotly.toImage(figures[each.figure], each.options));"
        " document.body.textContent = made.join(' '); })();"
        "</script></body></html>"
    )


def _draw(figures: Sequence[go.Figure], asked: Sequence[dict[str, Any]]) -> list[bytes]:
    """Pictures by one start of the browser."""
    program = need_browser()
    patience_s = _PATIENCE_S + _PATIENCE_EACH_S * len(asked)
    with tempfile.TemporaryDirectory(prefix="quadsim-picture-") as folder:
        page = Path(folder) / "page.html"
        page.write_text(_page(figures, asked), encoding="utf-8")
        command = [program, *_HEADLESS, f"--user-data-dir={folder}/profile", "--dump-dom"]
        if os.geteuid() == 0:
            command.append("--no-sandbox")  # Chromium has no sandbox for root
        try:
            done = subprocess.run(
                [*command, page.as_uri()], capture_output=True, timeout=patience_s, check=False
            )
        except subprocess.TimeoutExpired:
            raise QuadsimError(f"{program} drew no picture within {patience_s} s") from None
    body = done.stdout.partition(b"<body>")[2]
    found = re.findall(rb"data:image/([a-z]+)[^,\s]*,([^<\s]+)", body)
    if len(found) != len(asked):
        raise QuadsimError(f"{program} drew no picture (status {done.returncode})")
    texts = [(kind, html.unescape(text.decode())) for kind, text in found]
    return [
        base64.b64decode(text) if kind == b"png" else unquote(text).encode() for kind, text in texts
    ]


def need_browser() -> str:
    """Path of the browser that draws pictures.

    Raises:
        QuadsimError: there is none.
    """
    program = surroundings.browser()
    if program is None:
        raise QuadsimError("pictures need Chromium or Chrome; install it (apt install chromium)")
    return program


def save_picture(figure: go.Figure, path: Path, width: int = _WIDTH, height: int = _HEIGHT) -> None:
    """Save a figure as PNG or SVG, by the path's ending, drawn by a headless Chromium.

    Raises:
        InputError: the ending is not known, or the file cannot be written.
        QuadsimError: there is no browser, or it drew nothing.
    """
    kind = path.suffix.lstrip(".").lower()
    if kind not in ("png", "svg"):
        raise InputError(f"{path}: pictures end in .png or .svg")
    options = {"format": kind, "width": width, "height": height}
    (content,) = _draw([figure], [{"figure": 0, "options": options}])
    write_whole(path, content)


def save_pictures(runs: Runs, summaries: Mapping[str, Summary], folder: Path) -> list[Path]:
    """Save each figure of a report as PNG (at twice the size, for print) and as SVG.

    Args:
        folder: where they go; it is made. Pictures of the same names are written over.

    Returns:
        The files.

    Raises:
        InputError: a file cannot be written.
        QuadsimError: there is no browser, or it drew nothing.
    """
    need_browser()
    parts = list(drawn(Flights(runs, summaries)))
    paths, asked = [], []
    for number, (part, figure) in enumerate(parts):
        figure.data = [trace for trace in figure.data if trace.visible != "legendonly"]
        names = [trace.name for trace in figure.data if trace.showlegend is not False]
        wide_px = sum(_ENTRY_PX + _LETTER_PX * len(name) for name in names)
        legend_px = _LINE_PX * (1 + int(wide_px / (0.85 * _PAPER_WIDTH)))
        size = {"width": _PAPER_WIDTH, "height": figure.layout.height + legend_px}
        figure.update_layout(margin={"t": 40 + legend_px}, font={"size": 14})
        figure.update_layout(legend={"y": 1.0, "yref": "container", "yanchor": "top"})
        for kind, scale in (("png", 2), ("svg", 1)):
            paths.append(folder / f"{part.key}.{kind}")
            asked.append({"figure": number, "options": {"format": kind, "scale": scale} | size})
    for path, content in zip(paths, _draw([figure for _, figure in parts], asked), strict=True):
        write_whole(path, content)
    return paths
