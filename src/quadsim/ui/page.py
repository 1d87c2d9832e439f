"""The page, and the server that gives it to browsers on this machine."""

from __future__ import annotations

from nicegui import app, run, ui
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import HTMLResponse, Response

from quadsim.base.errors import InputError
from quadsim.base.surroundings import LOCALHOST
from quadsim.ui.fly_tab import FlyTab
from quadsim.ui.runs_tab import RunsTab
from quadsim.ui.tune_tab import TuneTab
from quadsim.ui.workspace import Workspace

TITLE = "quadsim"
#: What a browser may call this machine: another page's name that leads here is refused.
HOSTS = (LOCALHOST, "localhost")


def show(workspace: Workspace) -> None:
    """Build the page for one visitor."""
    ui.colors(primary="#4f6bed")
    ui.query(".nicegui-content").classes("p-0 gap-0")
    dark = ui.dark_mode(None)
    with ui.header().classes("items-center h-12 py-0 px-3 gap-2 flex-nowrap").props("bordered"):
        ui.icon("mode_fan_off").classes("text-2xl rotate-45 max-sm:hidden")
        ui.label(TITLE).classes("text-lg font-bold max-sm:hidden")
        with ui.tabs().props("dense no-caps inline-label shrink") as tabs:
            fly = ui.tab("Fly", icon="flight_takeoff").mark("tab-fly")
            tune = ui.tab("Tune", icon="tune").mark("tab-tune")
            runs = ui.tab("Runs", icon="query_stats").mark("tab-runs")
        ui.space()

        async def change_light() -> None:
            is_dark = dark.value
            if is_dark is None:  # as the browser prefers
                is_dark = await ui.run_javascript("Quasar.Dark.isActive")
            dark.set_value(not is_dark)

        light = ui.button(icon="dark_mode", on_click=change_light)
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
        except (InputError, ValueError) as error:
            return Response(str(error), status_code=404)
        return HTMLResponse(page)


def serve(workspace: Workspace, port: int, browser: bool) -> None:
    """Serve the page on this machine alone, until somebody stops it.

    Args:
        workspace: what it shows.
        port: a free one.
        browser: whether to open one.
    """
    register(workspace)
    app.on_startup(lambda: run.io_bound(workspace.warm_up))
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(HOSTS))
    ui.run(
        lambda: show(workspace), host=LOCALHOST, port=port, title=TITLE, dark=None, reload=False,
        show=browser, show_welcome_message=False, reconnect_timeout=10.0,
    )  # fmt: skip
