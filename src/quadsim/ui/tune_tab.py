"""The tab with the gains on sliders and the steps that the vehicle flies with them."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from nicegui import run, ui

from quadsim.analysis.report.template import figure_text
from quadsim.base.files import known
from quadsim.base.whole_files import write_whole
from quadsim.lab.tune.loop_margins import LEAST_GAIN, LEAST_PHASE_DEG
from quadsim.ui.charts import options, step_panels
from quadsim.ui.gain_bench import GAINS, Gain, GainBench, Tried
from quadsim.ui.parts import DENSE, errors_told, new_file, title
from quadsim.ui.workspace import Workspace

#: A slider goes up to so many times the file's gain, or to this where the file's is 0.
SPAN, FROM_ZERO = 3.0, 10.0
_NUMBER = {"align": "right"}


class TuneTab:
    """Builds the tab into the current slot."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._before: Tried | None = None
        self._before_on: GainBench | None = None
        self._tried: Tried | None = None
        self._busy = self._waiting = False
        self._sliders: dict[Gain, ui.slider] = {}
        with ui.element("div").classes(
            "w-full flex flex-col lg:grid lg:grid-cols-[330px_minmax(0,1fr)]"
            " lg:h-[calc(100vh-48px)]"
        ):
            with ui.column().classes("w-full p-3 gap-2 lg:h-full lg:overflow-y-auto flex-nowrap"):
                self._build_choice()
                self._gains = ui.column().classes("w-full gap-0")
            with ui.column().classes("w-full p-3 gap-2 lg:h-full lg:overflow-y-auto flex-nowrap"):
                self._build_results()
        if workspace.bench is not None:
            self._build_sliders()
            ui.timer(0.1, self._try_out, once=True)

    # ---- what is tuned -------------------------------------------------------------------------

    def _build_choice(self) -> None:
        title("Vehicle and gains")
        bench = self._workspace.bench
        names = ("vehicle", "sensors", "autopilot")
        folders = ("vehicles", "sensors/suites", "autopilots")
        now = ("x500", "default", "default")
        if bench is not None:
            now = (bench.vehicle, bench.sensors, bench.autopilot)
        self._chosen = []
        for name, folder, value in zip(names, folders, now, strict=True):
            select = ui.select(
                list(dict.fromkeys([*known(folder), value])), label=name, value=value,
                with_input=True, new_value_mode="add-unique",
            )  # fmt: skip
            self._chosen.append(select.props(DENSE).classes("w-full").mark(f"tune-{name}"))
        with ui.row().classes("w-full gap-2"):
            self._open = ui.button("Fly steps", icon="show_chart", on_click=self._open_bench)
            self._open.props("dense unelevated no-caps").classes("px-3").mark("steps")
            relay = ui.button("Tune by relay", icon="auto_fix_high", on_click=self._relay)
            relay.props("dense flat no-caps").mark("relay")
            relay.tooltip("relay experiments and the rule 'cascade', as quadsim tune does")

    async def _open_bench(self) -> None:
        vehicle, sensors, autopilot = (str(select.value) for select in self._chosen)
        with errors_told():
            await run.io_bound(self._workspace.open_bench, vehicle, sensors, autopilot)
            self._build_sliders()
            await self._try_out()

    async def _relay(self) -> None:
        if self._workspace.bench is None:
            await self._open_bench()
        bench = self._workspace.bench
        if bench is None:
            return
        with errors_told():
            flat, notes = await run.io_bound(bench.by_relay)
            self._workspace.gains = flat
            self._show_gains()
            for note in notes:
                ui.notify(note, type="warning")
            await self._try_out()

    # ---- sliders -------------------------------------------------------------------------------

    def _build_sliders(self) -> None:
        workspace = self._workspace
        assert workspace.bench is not None
        self._gains.clear()
        self._sliders = {}
        with self._gains:
            for group, gains in groupby(GAINS, key=lambda gain: gain.group):
                title(group)
                for gain in gains:
                    self._sliders[gain] = self._slider(gain)
            with ui.row().classes("w-full gap-1 pt-2"):
                for label, icon, action in (
                    ("Reset", "restart_alt", self._reset),
                    ("Use to fly", "flight_takeoff", self._use),
                ):
                    button = ui.button(label, icon=icon, on_click=action)
                    button.props("dense flat no-caps").mark(label.lower().replace(" ", "-"))
            with ui.row().classes("w-full gap-2 flex-nowrap items-center"):
                self._path = ui.input("file", value="autopilot.yaml").props(DENSE)
                self._path.classes("grow").mark("autopilot-file")
                ui.button(icon="save", on_click=self._save).props("dense flat round").mark(
                    "save"
                ).tooltip("save as an autopilot file")

    def _slider(self, gain: Gain) -> ui.slider:
        bench = self._workspace.bench
        assert bench is not None
        file = gain.read(bench.start)
        highest = min(SPAN * file if file else FROM_ZERO, gain.spec.le or float("inf"))
        with ui.row().classes("w-full justify-between items-end gap-2 flex-nowrap"):
            ui.label(gain.label).classes("text-sm").tooltip(gain.spec.doc)
            value = ui.label().classes("text-xs opacity-70 tabular-nums whitespace-nowrap")
        slider = ui.slider(
            min=0.0, max=highest, step=highest / 300.0, value=gain.read(self._workspace.gains)
        )
        slider.props("dense").mark(gain.key + "".join(str(axis) for axis in gain.axes))
        value.bind_text_from(slider, "value", lambda now: f"{now:.3g} {gain.spec.unit}")

        def change(event: Any) -> None:
            gain.write(self._workspace.gains, float(event.args))

        slider.on("update:model-value", change, throttle=0.1)
        slider.on("change", self._try_out)
        return slider

    def _show_gains(self) -> None:
        """Let the sliders stand as the gains do."""
        for gain, slider in self._sliders.items():
            slider.set_value(gain.read(self._workspace.gains))

    async def _reset(self) -> None:
        assert self._workspace.bench is not None
        self._workspace.gains = dict(self._workspace.bench.start)
        self._show_gains()
        await self._try_out()

    def _use(self) -> None:
        """Fly with these gains: now, and from now on."""
        workspace = self._workspace
        bench, live = workspace.bench, workspace.live
        assert bench is not None
        workspace.setup.autopilot = bench.autopilot
        changed = workspace.setup.gains = bench.changed(workspace.gains)
        with errors_told():
            if live is not None and not live.over:
                live.call(lambda simulation: simulation.set_gains(workspace.gains))
        words = f"{len(changed)} gains differ from {bench.autopilot}; the next flight has them"
        ui.notify(words if live is None or live.over else f"{words}, and this one", type="positive")

    def _save(self) -> None:
        bench = self._workspace.bench
        assert bench is not None
        with errors_told():
            path = new_file(str(self._path.value), ".yaml", "an autopilot file")
            write_whole(path, bench.file_text(self._workspace.gains))
            ui.notify(f"saved {path.resolve()}", type="positive")

    # ---- what they give ------------------------------------------------------------------------

    def _build_results(self) -> None:
        with ui.row().classes("w-full items-center gap-3"):
            self._windy = ui.toggle(
                {False: "calm", True: "in wind"}, value=False, on_change=self._show_results
            )
            self._windy.props("dense unelevated no-caps size=sm").mark("windy")
            self._cost = ui.label("Choose a vehicle, and fly the steps.").classes("text-sm")
            self._cost.mark("cost")
            self._spinner = ui.spinner(size="sm")
            self._spinner.set_visibility(False)
        self._chart = ui.echart({}).classes("w-full h-[70vh] lg:h-auto lg:grow min-h-[420px]")
        with ui.row().classes("w-full gap-4 items-start"):
            self._steps = ui.table(
                columns=[
                    {"name": "axis", "label": "step", "field": "axis", "align": "left"},
                    *(
                        {"name": name, "label": label, "field": name, **_NUMBER}
                        for name, label in (
                            ("rise", "rise, s"), ("overshoot", "overshoot, %"),
                            ("settling", "settling, s"), ("error", "steady error"),
                        )
                    ),
                ],
                rows=[], row_key="axis",
            )  # fmt: skip
            self._margins = ui.table(
                columns=[
                    {"name": "loop", "label": "loop", "field": "loop", "align": "left"},
                    {"name": "phase", "label": "phase margin, °", "field": "phase", **_NUMBER},
                    {"name": "gain", "label": "gain margin", "field": "gain", **_NUMBER},
                    {"name": "holds", "label": "", "field": "holds", "align": "left"},
                ],
                rows=[], row_key="loop",
            )  # fmt: skip
        for table, mark in ((self._steps, "step-table"), (self._margins, "margins")):
            table.props("dense flat bordered").classes("grow").mark(mark)
            table.set_visibility(False)

    async def _try_out(self) -> None:
        """Fly the steps with the gains as they stand; once more if they moved meanwhile."""
        self._waiting = True
        if self._busy:
            return
        self._busy = True
        self._spinner.set_visibility(True)
        try:
            with errors_told():
                while self._waiting:
                    self._waiting = False
                    await self._fly_steps()
        finally:
            self._busy = False
            self._spinner.set_visibility(False)

    async def _fly_steps(self) -> None:
        bench = self._workspace.bench
        if bench is None:
            return
        if self._before_on is not bench:
            self._cost.set_text("flying the steps")
            self._before = await run.io_bound(bench.try_out, dict(bench.start))
            self._before_on = bench
        self._tried = await run.io_bound(bench.try_out, dict(self._workspace.gains))
        self._show_results()

    def _show_results(self) -> None:
        tried, before = self._tried, self._before
        if tried is None or before is None:
            return
        windy = bool(self._windy.value)
        lost = (tried.steps.windy if windy else tried.steps.calm) is None
        self._cost.set_text(
            "the vehicle is lost with these gains"
            if lost
            else f"cost {tried.steps.cost:.3f}, with the file's gains {before.steps.cost:.3f}"
        )
        self._chart.options.clear()
        panels = step_panels(tried.steps, before.steps, windy)
        self._chart.options.update(options(panels, "time since the step, s", 2))
        self._chart.update()
        responses = (tried.steps.windy if windy else tried.steps.calm) or []
        self._steps.rows = [
            {
                "axis": item.axis,
                "rise": figure_text(item.figures.rise_s),
                "overshoot": figure_text(100.0 * item.figures.overshoot),
                "settling": figure_text(item.figures.settling_s),
                "error": figure_text(item.figures.steady_error),
            }
            for item in responses
        ]
        self._margins.rows = [
            {
                "loop": name.replace("_", " "),
                "phase": f"{found.phase_deg:.3g}",
                "gain": f"{found.gain:.3g}",
                "holds": "" if found.hold else f"below {LEAST_PHASE_DEG:g}° or {LEAST_GAIN:g}",
            }
            for name, found in tried.margins.items()
        ]
        for table in (self._steps, self._margins):
            table.set_visibility(True)
