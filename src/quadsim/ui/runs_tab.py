"""The tab with the runs: those that were flown here, and runs and bags from files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nicegui import run, ui

from quadsim.api.flight import Flight
from quadsim.base.errors import InputError
from quadsim.ui.parts import DENSE, errors_told, every, title
from quadsim.ui.workspace import AS_RECORDED, Workspace

ESTIMATORS = (AS_RECORDED, "eskf", "ekf7", "smoother", "gps_ins", "blind")
#: Columns of the table of scores: title, and where the summary has it.
SCORES = {
    "flown, s": ("duration_s",),
    "position RMSE, m": ("estimator", "position_rmse_m"),
    "position max, m": ("estimator", "position_max_m"),
    "velocity RMSE, m/s": ("estimator", "velocity_rmse_mps"),
    "yaw RMSE, rad": ("estimator", "yaw_rmse_rad"),
    "NEES": ("estimator", "nees_mean"),
    "tracking RMSE, m": ("tracking", "position_rmse_m"),
}


def score_row(number: int, title: str, flight: Flight) -> dict[str, Any]:
    """A row of the table of scores."""
    row: dict[str, Any] = {"id": number, "run": title}
    row["verdict"] = "passed" if flight.passed else "failed"
    for name, keys in SCORES.items():
        value: Any = flight.summary
        for key in keys:
            value = value.get(key) if value else None
        row[name] = "–" if value is None else f"{value:.3g}"
    return row


class RunsTab:
    """Builds the tab into the current slot, and keeps it up to date."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._shown: tuple[int, ...] = ()
        with ui.column().classes("w-full p-3 gap-3"):
            with ui.row().classes("w-full gap-2 items-center"):
                self._path = ui.input("run or bag", placeholder="runs/square-…, flight.mcap")
                self._path.props(f"{DENSE} stack-label").classes("grow min-w-56").mark("path")
                self._path.on("keydown.enter", self._open)
                self._estimator = ui.select(
                    list(ESTIMATORS), value=AS_RECORDED, label="estimator",
                    with_input=True, new_value_mode="add-unique",
                ).props(DENSE).classes("w-40").mark("estimator")  # fmt: skip
                self._namespace = ui.input("vehicle", value="/quad").props(DENSE).classes("w-28")
                self._button = ui.button("Open", icon="folder_open", on_click=self._open)
                self._button.props("dense unelevated no-caps").classes("px-3").mark("open")
            title("Runs")
            columns = [
                {"name": name, "label": name, "field": name, "sortable": True,
                 "align": "left" if name in ("run", "verdict") else "right"}
                for name in ("run", "verdict", *SCORES)
            ]  # fmt: skip
            self._table = ui.table(columns=columns, rows=[], row_key="id", selection="multiple")
            self._table.props("dense flat bordered no-data-label='Fly, or open a run or a bag.'")
            self._table.classes("w-full").mark("runs")
            self._table.on_select(self._fit_buttons)
            with ui.row().classes("w-full gap-2 items-center"):
                self._compare = ui.button("Compare", icon="query_stats", on_click=self._show)
                self._compare.props("dense unelevated no-caps").classes("px-3").mark("compare")
                self._file = ui.input("save the report as", value="report.html")
                self._file.props(DENSE).classes("w-48").mark("report-file")
                self._save = ui.button(icon="save", on_click=self._save_report)
                self._save.props("dense flat round").mark("save-report")
                self._save.tooltip("save the report of the chosen runs")
            self._place = ui.column().classes("w-full")
        self._fit_buttons()
        self._refresh()
        every(0.5, self._refresh)

    @property
    def _chosen(self) -> list[int]:
        return sorted(row["id"] for row in self._table.selected)

    def _fit_buttons(self) -> None:
        several = len(self._chosen) > 1
        self._compare.set_text("Compare" if several else "Report")
        for button in (self._compare, self._save):
            button.set_enabled(bool(self._chosen))

    def _refresh(self) -> None:
        """Show runs that came since."""
        runs = dict(self._workspace.runs)
        if tuple(runs) == self._shown:
            return
        self._shown = tuple(runs)
        self._table.rows = [
            score_row(number, title, flight) for number, (title, flight) in runs.items()
        ]
        self._table.selected = [row for row in self._table.selected if row["id"] in runs]
        self._fit_buttons()

    async def _open(self) -> None:
        self._button.props("loading")
        try:
            with errors_told():
                path, namespace = str(self._path.value or ""), str(self._namespace.value)
                estimator = str(self._estimator.value or AS_RECORDED)
                number = await run.io_bound(self._workspace.open, path, namespace, estimator)
                self._refresh()
                self._table.selected = [row for row in self._table.rows if row["id"] == number]
                self._fit_buttons()
                self._show()
        finally:
            self._button.props(remove="loading")

    def _show(self) -> None:
        """The report of the chosen runs, below."""
        with errors_told():
            self._workspace.chosen(self._chosen)
            address = f"report/{','.join(map(str, self._chosen))}"
            self._place.clear()
            with self._place, ui.element("div").classes("relative w-full h-[80vh]"):
                ui.spinner(size="lg").classes("absolute top-16 left-1/2")
                page = ui.element("iframe").props(f'src="{address}" title="report"')
                page.classes("relative w-full h-full border-0 rounded").mark("report")

    async def _save_report(self) -> None:
        with errors_told():
            path = Path(str(self._file.value).strip()).expanduser()
            if path.suffix != ".html":
                raise InputError(f"{path}: a report ends in .html")
            if path.exists():
                raise InputError(f"{path}: exists already; name a new file")
            text = await run.io_bound(self._workspace.report, self._chosen)
            try:
                path.write_text(text, encoding="utf-8")
            except OSError as error:
                raise InputError(f"{path}: cannot be written ({error.strerror})") from None
            ui.notify(f"saved {path.resolve()}", type="positive")
