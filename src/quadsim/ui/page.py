"""The page, and the server that gives it to browsers on this machine."""

from __future__ import annotations

from nicegui import app, run, ui
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quadsim.base.errors import QuadsimError
from quadsim.base.surroundings import LOCALHOST
from quadsim.ui.fly_tab import FlyTab
from quadsim.ui.runs_tab import RunsTab
from quadsim.ui.tune_tab import TuneTab
from quadsim.ui.workspace import Workspace

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
    """Status with which a request is refused; 0: it is not.

    Args:
        headers: of it.
        path: that is asked for.
    """
    if path != "/" and not path.startswith(PATHS):
        return 404
    if headers.get("Origin", own := f"http://{headers.get('Host')}") != own:
        return 403
    opened = path == "/" and headers.get("Sec-Fetch-Dest") == "document"  # by a link
    return 0 if headers.get("Sec-Fetch-Site", "none") in ("none", "same-origin") or opened else 403


def serve(workspace: Workspace, port: int, browser: bool) -> None:
    """Serve the page on this machine alone, until somebody stops it.

    Args:
        workspace: what it shows.
        port: a free one.
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
