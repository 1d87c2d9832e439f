"""The page with its list of runs, and the server that gives it to browsers on this machine."""

from __future__ import annotations

from typing import Any

from nicegui import app, run, ui
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quadsim.analysis.report.template import figure_text
from quadsim.analysis.summary import value_at
from quadsim.api.flight import Flight
from quadsim.base.errors import QuadsimError
from quadsim.base.surroundings import LOCALHOST
from quadsim.base.whole_files import write_whole
from quadsim.ui.fly_tab import FlyTab
from quadsim.ui.parts import DENSE, errors_told, every, new_file, title
from quadsim.ui.tune_tab import TuneTab
from quadsim.ui.workspace import AS_RECORDED, Workspace

ESTIMATORS = (AS_RECORDED, "eskf", "ekf7", "smoother", "gps_ins", "blind")
#: Columns of the table of scores: title, and where the summary has it.
SCORES = {
    "flown, s": "duration_s",
    "position RMSE, m": "estimator.position_rmse_m",
    "position max, m": "estimator.position_max_m",
    "velocity RMSE, m/s": "estimator.velocity_rmse_mps",
    "yaw RMSE, rad": "estimator.yaw_rmse_rad",
    "NEES": "estimator.nees_mean",
    "tracking RMSE, m": "tracking.position_rmse_m",
}


def score_row(number: int, title: str, flight: Flight) -> dict[str, Any]:
    """A row of the table of scores."""
    row = {"id": number, "run": title, "verdict": "passed" if flight.passed else "failed"}
    return row | {name: figure_text(value_at(flight.summary, at)) for name, at in SCORES.items()}


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
            path = new_file(str(self._file.value), ".html", "a report")
            write_whole(path, await run.io_bound(self._workspace.report, self._chosen))
            ui.notify(f"saved {path.resolve()}", type="positive")


TITLE = "quadsim"
#: What a browser may call this machine: another page's name that leads here is refused.
HOSTS = (LOCALHOST, "localhost")
#: Beginnings of what is served besides the page.
PATHS = ("/_nicegui", "/models/", "/report/", "/favicon.ico")
#: Time in which a browser that got the page connects, s.
VISIT_S = 10.0
#: The page loads its own files alone, makes functions of text (Vue), and is in nobody's frame.
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self'"
    " 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; worker-src 'self' blob:;"
    " connect-src 'self' data: blob:; object-src 'none'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'"
)
#: A report, whose titles come from files, has its own scripts and nothing of the page.
REPORT_POLICY = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; script-src 'unsafe-inline';"
    " style-src 'unsafe-inline'; img-src data: blob:; font-src data:; frame-ancestors 'self'"
)


def show(workspace: Workspace) -> None:
    """Build the page for one visitor."""
    ui.colors(primary="#4f6bed")
    ui.query(".nicegui-content").classes("p-0 gap-0")
    with ui.header().classes("items-center h-12 py-0 px-3 gap-2 flex-nowrap").props("bordered"):
        ui.icon("mode_fan_off").classes("text-2xl rotate-45 max-sm:hidden")
        ui.label(TITLE).classes("text-lg font-bold max-sm:hidden")
        with ui.tabs().props("dense no-caps inline-label shrink") as tabs:
            fly = ui.tab("Fly", icon="flight_takeoff").mark("tab-fly")
            tune = ui.tab("Tune", icon="tune").mark("tab-tune")
            runs = ui.tab("Runs", icon="query_stats").mark("tab-runs")
        ui.space()
        light = ui.button(icon="dark_mode").on("click", js_handler="() => Quasar.Dark.toggle()")
        light.props("flat round dense color=white").tooltip("dark or light").mark("dark")
    with ui.tab_panels(tabs, value=fly, animated=False, keep_alive=True) as panels:
        for tab, build in ((fly, FlyTab), (tune, TuneTab), (runs, RunsTab)):
            with ui.tab_panel(tab).classes("p-0"):
                build(workspace)
    panels.classes("w-full bg-transparent")
    # a scene that was hidden while the window changed has to look at its size again
    panels.on_value_change(
        lambda: ui.run_javascript("setTimeout(() => dispatchEvent(new Event('resize')), 50)")
    )


async def visit(workspace: Workspace) -> None:
    """Build the page once a browser shows it; one that never does is forgotten."""
    client = ui.context.client
    try:
        await client.connected(timeout=VISIT_S)
    except TimeoutError:
        client.delete()
    if client.has_socket_connection:
        show(workspace)


def register(workspace: Workspace) -> None:
    """Serve what the page loads by itself: models and reports."""

    @app.get("/models/{name}")
    def model(name: str) -> Response:
        content = workspace.store.get(name)
        if content is None:
            return Response(status_code=404)
        return Response(content, media_type="model/gltf-binary")

    @app.get("/report/{numbers}")
    async def report(numbers: str) -> Response:
        try:
            chosen = [int(number) for number in numbers.split(",")]
            page = await run.io_bound(workspace.report, chosen)
        except (QuadsimError, ValueError) as error:
            return Response(str(error), status_code=404)
        return HTMLResponse(page, headers={"Content-Security-Policy": REPORT_POLICY})


class OwnPageOnly:
    """ASGI middleware that answers browsers for this page alone, and states what it may load.

    A browser names the page that asks: ``Origin`` of a websocket, ``Sec-Fetch-Site`` of the rest.
    Who asks without a browser has no such headers, and what this machine's programs may.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or pass on."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        if status := refusal(Headers(scope=scope), scope["path"]):
            words = "there is no such page" if status == 404 else "not for other pages"
            await PlainTextResponse(words, status)(scope, receive, send)
            return

        async def send_with_policy(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.setdefault("Content-Security-Policy", POLICY)
                headers.setdefault("X-Content-Type-Options", "nosniff")
                headers.setdefault("Cross-Origin-Resource-Policy", "same-origin")
            await send(message)

        await self._app(scope, receive, send_with_policy)


def refusal(headers: Headers, path: str) -> int:
    """Status with which a request is refused; 0: it is not."""
    if path != "/" and not path.startswith(PATHS):
        return 404
    if headers.get("Origin", own := f"http://{headers.get('Host')}") != own:
        return 403
    opened = path == "/" and headers.get("Sec-Fetch-Dest") == "document"  # by a link
    return 0 if headers.get("Sec-Fetch-Site", "none") in ("none", "same-origin") or opened else 403


def serve(workspace: Workspace, port: int, browser: bool) -> None:
    """Serve the page on this machine alone, until somebody stops it.

    Args:
        browser: whether to open one.
    """
    register(workspace)
    app.on_startup(lambda: run.io_bound(workspace.warm_up))
    app.add_middleware(OwnPageOnly)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(HOSTS))
    ui.run(
        lambda: visit(workspace), host=LOCALHOST, port=port, title=TITLE, dark=None, reload=False,
        show=browser, show_welcome_message=False, reconnect_timeout=30.0,
    )  # fmt: skip
