"""The tab in which one flies: set-up, transport, scene, plots, disturbances, faults."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from nicegui import run, ui

from quadsim.base.errors import InputError
from quadsim.base.files import known
from quadsim.sensors import PUBLISHING, SCANNERS
from quadsim.sensors.faults import FAULTS
from quadsim.sim.log import ERROR, WARN
from quadsim.ui.charts import VIEWS, WINDOW_S, options
from quadsim.ui.choices import RATES, WINDS, description, scenarios
from quadsim.ui.live_flight import LiveFlight
from quadsim.ui.parts import DENSE, errors_told, every, file_choice, title
from quadsim.ui.space import CAMERAS, Space
from quadsim.ui.workspace import Workspace

#: Between two drawings of the scene, and of the plots and figures, s.
SCENE_S, PLOTS_S = 0.05, 0.25
#: Directions of a push by the icon of its button: east, north, up.
PUSHES = {
    "north_west": (-0.7, 0.7, 0.0), "north": (0.0, 1.0, 0.0), "north_east": (0.7, 0.7, 0.0),
    "west": (-1.0, 0.0, 0.0), "keyboard_double_arrow_up": (0.0, 0.0, 1.0),
    "east": (1.0, 0.0, 0.0), "south_west": (-0.7, -0.7, 0.0), "south": (0.0, -1.0, 0.0),
    "south_east": (0.7, -0.7, 0.0),
}  # fmt: skip
#: Numbers that a fault gets where none are typed.
FAULT_VALUES = {"noisier": "10", "bias": "1", "delay": "0.2", "spoofing": "1, 0, 0"}
#: Faults of a GNSS receiver alone.
GNSS_FAULTS = ("outage", "spoofing")


class FlyTab:
    """Builds the tab into the current slot, and keeps it up to date."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._view = next(iter(VIEWS))
        self._logged: tuple[LiveFlight | None, int] = (None, 0)
        self._charted: tuple[object, ...] = ()
        with ui.element("div").classes(
            "w-full flex flex-col lg:grid lg:grid-cols-[290px_minmax(0,1fr)_minmax(340px,30%)]"
            " lg:h-[calc(100vh-48px)]"
        ):
            with ui.column().classes(
                "order-2 lg:order-1 w-full p-3 gap-2 lg:h-full lg:overflow-y-auto flex-nowrap"
            ):
                self._build_setup()
                self._build_disturbances()
                self._build_faults()
            with ui.column().classes(
                "order-1 lg:order-2 w-full gap-0 h-[58vh] lg:h-full flex-nowrap"
            ):
                self._build_transport()
                with ui.element("div").classes("relative w-full grow min-h-0 overflow-hidden"):
                    self._space = Space(workspace)
                    self._build_figures()
            with ui.column().classes(
                "order-3 w-full p-2 gap-1 lg:h-full flex-nowrap overflow-hidden"
            ):
                self._build_plots()
        every(SCENE_S, self._space.refresh)
        every(PLOTS_S, self._refresh)

    @property
    def _live(self) -> LiveFlight | None:
        return self._workspace.live

    # ---- set-up --------------------------------------------------------------------------------

    def _build_setup(self) -> None:
        setup = self._workspace.setup

        def keep(name: str) -> Callable[[Any], None]:
            return lambda event: setattr(setup, name, event.value)

        title("Flight")
        names = list(dict.fromkeys([*scenarios(), setup.scenario]))
        scenario = ui.select(
            names, label="scenario", value=setup.scenario, on_change=keep("scenario"),
            with_input=True, new_value_mode="add-unique",
        )  # fmt: skip
        scenario.props(DENSE).classes("w-full").mark("scenario")
        words = ui.label().classes("text-xs opacity-70 leading-snug")
        words.bind_text_from(scenario, "value", lambda name: description(name or ""))
        file_choice(setup, "vehicle", known("vehicles"))
        file_choice(setup, "sensors", known("sensors/suites"))
        with ui.row().classes("w-full gap-2 flex-nowrap"):
            wind = ui.select(list(WINDS), label="wind", value=setup.wind, on_change=keep("wind"))
            wind.props(DENSE).classes("grow").mark("wind")
            seed = ui.number(
                "seed", value=setup.seed, min=0, precision=0, placeholder="file's",
                on_change=self._choose_seed,
            )  # fmt: skip
            seed.props(f"{DENSE} stack-label").classes("w-20").mark("seed")
        more = ui.expansion("more", icon="tune").props("dense").classes("w-full text-sm")
        with more, ui.column().classes("w-full gap-2 pt-1"):
            file_choice(setup, "estimator", known("estimators"))
            file_choice(setup, "autopilot", known("autopilots"))
            keys = ui.textarea(
                "keys to set", value=setup.keys, placeholder="vehicle.mass_kg=2.2",
                on_change=keep("keys"),
            )  # fmt: skip
            keys.props("dense outlined autogrow").classes("w-full").mark("keys")
            keys.tooltip("KEY=VALUE on each line, as of quadsim sim --set")

    def _choose_seed(self, event: Any) -> None:
        self._workspace.setup.seed = None if event.value is None else int(event.value)

    async def _fly(self) -> None:
        self._button.props("loading")
        try:
            with errors_told():
                await run.io_bound(self._workspace.fly)
        finally:
            self._button.props(remove="loading")
        self._refresh()

    # ---- transport -----------------------------------------------------------------------------

    def _build_transport(self) -> None:
        with ui.row().classes("w-full items-center gap-1 px-2 py-1 flex-nowrap"):
            self._button = ui.button("Fly", icon="flight_takeoff", on_click=self._fly)
            self._button.props("dense unelevated no-caps").classes("px-3").mark("fly")
            self._pause = ui.button(icon="pause", on_click=self._toggle)
            self._pause.props("dense flat round").mark("pause").tooltip("pause or go on")
            end = ui.button(icon="stop", on_click=self._end).props("dense flat round").mark("end")
            end.tooltip("end the flight here and score it")
            land = ui.button(icon="flight_land", on_click=self._land).props("dense flat round")
            land.mark("land").tooltip("land here")
            rate = ui.select(
                RATES,
                value=self._workspace.rate,
                on_change=lambda event: self._workspace.set_rate(event.value),
            )
            rate.props("dense borderless options-dense").classes("w-16").mark("rate")
            rate.tooltip("simulated seconds in a second")
            ui.space()
            camera = ui.toggle(
                list(CAMERAS),
                value=CAMERAS[0],
                on_change=lambda event: self._space.look(event.value),
            )
            camera.props("dense unelevated no-caps size=sm").mark("camera")
        for element in (self._pause, end, land):
            element.set_enabled(False)
        self._in_flight = [self._pause, end, land]

    def _toggle(self) -> None:
        live = self._live
        if live is not None:
            live.resume() if live.paused else live.pause()
            self._refresh()

    async def _end(self) -> None:
        await run.io_bound(self._workspace.stop)
        self._refresh()

    def _land(self) -> None:
        with errors_told():
            self._flying().call(lambda simulation: simulation.land())

    def _flying(self) -> LiveFlight:
        """The flight under way.

        Raises:
            InputError: there is none.
        """
        live = self._live
        if live is None or live.over:
            raise InputError("nothing flies; press Fly")
        return live

    # ---- figures over the scene ----------------------------------------------------------------

    def _build_figures(self) -> None:
        box = ui.row().classes(
            "absolute top-2 left-2 max-w-[calc(100%-1rem)] gap-x-4 gap-y-0 px-3 py-1 rounded"
            " text-sm text-white bg-black/60 tabular-nums pointer-events-none"
        )
        with box:
            self._figures = {
                name: ui.label().mark(name)
                for name in ("time", "mode", "height", "speed", "error", "factor")
            }
            self._figures["mode"].set_text("choose a scenario, and press Fly")
        with ui.row().classes(
            "absolute bottom-2 left-2 gap-3 px-3 py-0.5 rounded text-xs text-white bg-black/60"
            " pointer-events-none"
        ):
            for name, colour in (("truth", "#c8c8c8"), ("estimate, 3 σ", "#7db8f5"),
                                 ("reference", "#f0b93a"), ("waypoints", "#4cc79f")):  # fmt: skip
                ui.label(f"● {name}").style(f"color: {colour}")
        self._verdict = ui.label().classes(
            "absolute bottom-2 right-2 px-3 py-1 rounded text-sm text-white"
        )
        self._verdict.mark("verdict").set_visibility(False)

    def _show_figures(self, live: LiveFlight) -> None:
        state, estimate, mode = live.call(
            lambda simulation: (simulation.state, simulation.estimate, simulation.mode)
        )
        error = None if estimate is None else np.linalg.norm(estimate.p_W - state.p_W)
        texts = {
            "time": f"{state.time_s:.1f} s of {live.duration_s:g}",
            "mode": "paused" if live.paused else mode.replace("_", " "),
            "height": f"height {state.p_W[2]:.2f} m",
            "speed": f"{np.linalg.norm(state.v_W):.1f} m/s",
            "error": "no estimate" if error is None else f"error {100.0 * error:.1f} cm",
            "factor": "" if live.over or live.paused else f"{live.real_time_factor:.1f} ×",
        }
        for name, text in texts.items():
            self._figures[name].set_text(text)

    def _show_verdict(self, live: LiveFlight) -> None:
        flight = live.flight
        self._verdict.set_visibility(bool(live.error) or flight is not None)
        if live.error:
            text, colour = live.error, "bg-red-700"
        elif flight is not None and flight.passed:
            text, colour = "passed: every criterion holds", "bg-green-700"
        elif flight is not None:
            failed = [item["name"] for item in flight.summary["criteria"] if not item["passed"]]
            text = "failed: " + ", ".join([*failed, *flight.summary["errors"]][:3])
            colour = "bg-red-700"
        else:
            return
        self._verdict.set_text(text)
        self._verdict.classes(remove="bg-red-700 bg-green-700", add=colour)

    # ---- plots and events ----------------------------------------------------------------------

    def _build_plots(self) -> None:
        def choose(event: Any) -> None:
            self._view = event.value
            self._refresh()

        toggle = ui.toggle(list(VIEWS), value=self._view, on_change=choose)
        toggle.props("dense unelevated no-caps size=sm spread").classes("w-full").mark("view")
        self._chart = ui.echart({}).classes("w-full h-[46vh] lg:h-auto lg:grow min-h-0")
        title("Events")
        self._log = ui.log(max_lines=300).classes("w-full h-40 text-xs").mark("events")

    def _refresh(self) -> None:
        """Figures, plots and events, if there is something new."""
        live = self._live
        over = live is None or live.over
        for element in self._in_flight:
            element.set_enabled(not over)
        if live is None:
            return
        self._pause.props(f"icon={'play_arrow' if live.paused else 'pause'}")
        self._show_figures(live)
        self._show_verdict(live)
        self._show_events(live)
        self._show_chart(live)

    def _show_events(self, live: LiveFlight) -> None:
        shown, count = self._logged
        if shown is not live:
            self._log.clear()
            count = 0
        events = live.events
        for event in events[count:]:
            colour = {WARN: "text-orange-500", ERROR: "text-red-500"}.get(event.level, "")
            self._log.push(
                f"{event.stamp_ns * 1e-9:6.2f}  {event.name}: {event.message}", classes=colour
            )
        self._logged = (live, len(events))

    def _show_chart(self, live: LiveFlight) -> None:
        time_s = live.call(lambda simulation: simulation.time_s)
        now = (live, self._view, time_s, live.over)
        if now == self._charted or not time_s:
            return
        self._charted = now
        log = live.log(0.0 if live.over else max(0.0, time_s - WINDOW_S))
        if len(log.truth):
            self._chart.options.clear()
            self._chart.options.update(options(VIEWS[self._view](log)))
            self._chart.update()

    # ---- disturbances and faults ---------------------------------------------------------------

    def _build_disturbances(self) -> None:
        title("Push")
        with ui.row().classes("w-full gap-3 flex-nowrap items-center"):
            with ui.element("div").classes("grid grid-cols-3 gap-0.5 shrink-0"):
                for icon, direction in PUSHES.items():
                    button = ui.button(icon=icon, on_click=lambda _, d=direction: self._push(d))
                    button.props("dense flat size=sm").mark(f"push-{icon}")
            with ui.column().classes("grow gap-0"):
                self._force = _slider("of the weight", 5, 100, 30, 5, "{:.0f} %")
                self._duration = _slider("for", 0.1, 2.0, 0.5, 0.1, "{:.1f} s")
        title("Wind and motors")
        with ui.row().classes("w-full gap-3 flex-nowrap items-center"):
            with ui.column().classes("grow gap-0"):
                self._wind = _slider("wind", 0, 15, 5, 0.5, "{:.1f} m/s")
            with ui.column().classes("grow gap-0"):
                self._wind_to = _slider("to", 0, 345, 90, 15, "{:.0f}° of north")
            ui.button(icon="air", on_click=self._blow).props("dense flat round").mark(
                "blow"
            ).tooltip("let it blow from now on")
        with ui.row().classes("w-full gap-2 flex-nowrap items-center"):
            self._motor = ui.number("motor", value=0, min=0, max=7, precision=0)
            self._motor.props("dense outlined").classes("w-16")
            self._left = ui.select(
                {0.0: "lost", 0.5: "50 %", 0.8: "80 %", 1.0: "healthy"}, value=0.0
            )
            self._left.props(DENSE).classes("grow")
            ui.button(icon="mode_fan_off", on_click=self._fail_motor).props(
                "dense flat round"
            ).mark("fail-motor").tooltip("change the motor")

    def _push(self, direction: tuple[float, float, float]) -> None:
        with errors_told():
            live = self._flying()
            weight_N = live.scenario.vehicle.mass_kg * 9.81
            size_N = weight_N * float(self._force.value) / 100.0
            force_N = np.round(np.array(direction) * size_N, 2)
            duration_s = float(self._duration.value)
            live.call(lambda simulation: simulation.push(force_N, duration_s=duration_s))
            self._refresh()

    def _blow(self) -> None:
        with errors_told():
            to_rad = math.radians(float(self._wind_to.value))
            speed_mps = float(self._wind.value)
            wind = (speed_mps * math.sin(to_rad), speed_mps * math.cos(to_rad), 0.0)
            self._flying().call(lambda simulation: simulation.set_wind(wind))
            self._refresh()

    def _fail_motor(self) -> None:
        with errors_told():
            index, left = int(self._motor.value or 0), float(self._left.value)
            self._flying().call(lambda simulation: simulation.fail_motor(index, left))
            self._refresh()

    def _build_faults(self) -> None:
        title("Sensor fault")
        with ui.row().classes("w-full gap-2 flex-nowrap"):
            kinds = [kind for kind in PUBLISHING if kind not in SCANNERS]
            self._sensor = ui.select(kinds, value="gnss", on_change=self._fit_faults)
            self._sensor.props(DENSE).classes("grow").mark("sensor")
            self._fault = ui.select(list(FAULTS), value="outage", on_change=self._fit_value)
            self._fault.props(DENSE).classes("grow").mark("fault")
        with ui.row().classes("w-full gap-2 flex-nowrap items-center"):
            self._value = ui.input("value").props("dense outlined stack-label").classes("grow")
            self._lasts = ui.number("seconds", value=5, min=0).classes("w-20")
            self._lasts.props("dense outlined").tooltip("0: until the end")
            ui.button(icon="sensors_off", on_click=self._fail_sensor).props(
                "dense flat round"
            ).mark("fail-sensor").tooltip("let the sensor fail")

    def _fit_faults(self) -> None:
        """Offer the faults of the chosen sensor."""
        fits = [
            fault for fault in FAULTS if self._sensor.value == "gnss" or fault not in GNSS_FAULTS
        ]
        value = self._fault.value if self._fault.value in fits else fits[0]
        self._fault.set_options(fits, value=value)

    def _fit_value(self) -> None:
        self._value.set_value(FAULT_VALUES.get(self._fault.value, ""))

    def _fail_sensor(self) -> None:
        with errors_told():
            value = _numbers(self._value.value or "")
            sensor, fault = self._sensor.value, self._fault.value
            lasts_s = float(self._lasts.value or 0.0)
            self._flying().call(
                lambda simulation: simulation.fail_sensor(sensor, fault, value, lasts_s)
            )
            self._refresh()


def _numbers(text: str) -> list[float]:
    """Numbers that are typed with commas or spaces between them.

    Raises:
        InputError: something else is typed.
    """
    try:
        return [float(word) for word in text.replace(",", " ").split()]
    except ValueError:
        raise InputError(f"value: {text!r}; numbers with commas between them are allowed") from None


def _slider(
    label: str, low: float, high: float, value: float, step: float, words: str
) -> ui.slider:
    """A slider with its value above it."""
    with ui.column().classes("w-full gap-0"):
        text = ui.label().classes("text-xs opacity-70 whitespace-nowrap")
        slider = ui.slider(min=low, max=high, value=value, step=step).props("dense")
        text.bind_text_from(slider, "value", lambda number: f"{label} {words.format(number)}")
    return slider
