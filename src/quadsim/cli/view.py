"""``quadsim view``: a flight in three dimensions and as time series, live, from a bag, or flown."""

from __future__ import annotations

import signal
import webbrowser
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from quadsim.base.errors import InputError, QuadsimError
from quadsim.cli.common import (
    FlightProgress,
    datum_option,
    driver_option,
    loading,
    ready_for_ros,
    say,
)

if TYPE_CHECKING:
    from quadsim.geometry.geodesy import Datum
    from quadsim.sim.scenario import Scenario
    from quadsim.vehicle.parameters import VehicleParams
    from quadsim.view.flights import Picture
    from quadsim.view.output import Viewer

#: As :data:`quadsim.view.layout.CAMERAS`, which needs Rerun to be read.
CAMERAS = ("chase", "fixed", "cockpit", "free")
REMEDY = "install it: pip install 'quadsim[view]'"
BAGS = (".mcap", ".db3")
RECORDING = ".rrd"


def _ready() -> None:
    """Refuse to begin without Rerun."""
    if find_spec("rerun") is None and find_spec("rerun_sdk") is None:
        raise InputError(f"quadsim view needs Rerun (rerun-sdk); {REMEDY}")
    if find_spec("rerun") is None:
        raise InputError(f"Rerun (rerun-sdk) is not whole; {REMEDY} --force-reinstall")


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def is_bag(what: str) -> bool:
    """Whether an argument means a bag: a folder, or a file that ends like one."""
    path = Path(what)
    return path.suffix in BAGS or path.is_dir() or (path / "metadata.yaml").is_file()


@dataclass(frozen=True)
class Source:
    """What is drawn: a live graph (``what`` is None), a flight of the closed loop, or a bag."""

    what: str | None
    flown: bool
    namespaces: tuple[str, ...]
    driver: str | None
    datum: Datum | None
    duration_s: float | None
    domain: int | None

    def draw(self, picture: Picture, shown: Viewer | None) -> None:
        """Draw it."""
        if self.what is None:
            self._live(picture, shown)
        elif self.flown:
            self._flight(picture)
        else:
            self._bag(picture, Path(self.what))

    def _live(self, picture: Picture, shown: Viewer | None) -> None:
        ready_for_ros()
        from quadsim.ros.parts.viewer import watch
        from quadsim.ros.runtime.domain import chosen_domain

        watch(picture, self.namespaces, self.datum, chosen_domain(self.domain), shown)

    def _flight(self, picture: Picture) -> None:
        from quadsim.view.flights import draw_scenario

        scenario = picture.scenario
        assert scenario is not None
        with FlightProgress(scenario.name, scenario.file.duration_s) as progress:
            draw_scenario(picture, progress.update)

    def _bag(self, picture: Picture, path: Path) -> None:
        from quadsim.bag.reading import open_bag
        from quadsim.view.flights import draw_bag, scenario_of

        with open_bag(path, self.driver) as bag:
            picture.notes += bag.notes
            if picture.scenario is None:
                picture.scenario, note = scenario_of(bag)
                picture.notes += [note] if note else []
            with FlightProgress(path.name, self.duration_s or bag.duration_s) as progress:
                draw_bag(
                    picture, bag, self.namespaces, self.datum, self.duration_s, progress.update
                )


@click.command()
@click.argument("what", required=False)
@click.option("--scenario", help="World, vehicle and mounts to draw with a bag or a live graph.")
@click.option("--vehicle", help="A vehicle of config/vehicles, or a file.")
@click.option(
    "--namespace", "namespaces", multiple=True, help="A vehicle (may be repeated).  [default: all]"
)
@driver_option
@datum_option
@click.option("--seed", type=click.IntRange(min=0), help="Seed of a scenario's flight.")
@click.option(
    "--duration", "duration_s", type=click.FloatRange(0.0, min_open=True),
    help="Of a flight or a bag, the first so many s.",
)  # fmt: skip
@click.option(
    "--camera", type=click.Choice(CAMERAS), default="chase", show_default=True,
    help="The one that is seen first.",
)  # fmt: skip
@click.option("--web", "--serve", "web", is_flag=True, help="A page for a browser, not a window.")
@click.option("--browser/--no-browser", default=False, help="With --web: open a browser.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Of the page.  [default: any]"
)
@click.option(
    "--bind", default="127.0.0.1", show_default=True, help="With --web: address to serve at."
)
@click.option(
    "--save",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write a Rerun recording (.rrd).",
)
@click.option(
    "--rate", "rate_hz", type=click.FloatRange(1.0, 200.0), default=50.0, show_default=True,
    help="Poses a second that are drawn at most.",
)  # fmt: skip
@click.option(
    "--memory-limit", default="1GiB", show_default=True,
    help="Of what the viewer keeps; the oldest goes first.",
)  # fmt: skip
@click.option("--domain", type=int, help="DDS domain of the live graph.  [default: ROS_DOMAIN_ID]")
def view(
    what: str | None,
    scenario: str | None,
    vehicle: str | None,
    namespaces: tuple[str, ...],
    driver: str | None,
    datum: Datum | None,
    seed: int | None,
    duration_s: float | None,
    camera: str,
    web: bool,
    browser: bool,
    port: int,
    bind: str,
    save: Path | None,
    rate_hz: float,
    memory_limit: str,
    domain: int | None,
) -> None:
    """Look at a flight: WHAT is a bag, a scenario to be flown, a saved .rrd; without it, live.

    In a window of Rerun, in a browser (--web), or into a file (--save). Exit status: 0 closed,
    2 bad input.
    """
    opened = what if what is not None and what.endswith(RECORDING) else ""
    flown = None if what is None or opened or is_bag(what) else what
    kind = "flight" if flown else "live" if what is None else "recording" if opened else "bag"
    _refuse_unused(kind, web)
    _ready()
    from quadsim.view.output import check_bind, check_memory, has_display, viewer

    check_memory(memory_limit)
    if save is not None and save.suffix != RECORDING:
        raise InputError(f"--save {save}: a recording ends in {RECORDING}")
    if opened and not Path(opened).is_file():
        raise InputError(f"{opened}: no such file")
    if flown is not None and scenario is not None:
        raise InputError(f"--scenario {scenario}: {what} is a scenario itself; give one of the two")
    loaded = _scenario(flown or scenario, vehicle, seed, duration_s)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)  # so that the viewer never outlives us
    with ExitStack() as stack:
        shown = None
        if web or save is None:
            bound = check_bind(bind)
            shown = stack.enter_context(viewer(web, memory_limit, bound, port, opened))
            if web:
                say(f"open {shown.page} (Ctrl-C ends it)")
                if browser and has_display():
                    webbrowser.open(shown.page)
        if not opened:
            source = Source(what, flown is not None, namespaces, driver, datum, duration_s, domain)
            picture_vehicle = None if flown else _vehicle(vehicle)
            _draw(source, loaded, picture_vehicle, camera, rate_hz, shown, save)
        if shown is not None and what is not None:
            shown.wait()


#: Options that count for some of what is looked at only.
FITTING = {
    "save": ("live", "bag", "flight"),
    "scenario": ("live", "bag"),
    "vehicle": ("live", "bag", "flight"),
    "namespaces": ("live", "bag"),
    "driver": ("bag",),
    "datum": ("live", "bag"),
    "seed": ("flight",),
    "duration_s": ("bag", "flight"),
    "camera": ("live", "bag", "flight"),
    "rate_hz": ("live", "bag", "flight"),
    "domain": ("live",),
}
#: Options of the page.
OF_PAGE = ("bind", "port", "browser")


def _refuse_unused(kind: str, web: bool) -> None:
    """Refuse options that would be ignored.

    Raises:
        InputError: naming the option and what it goes with.
    """
    context = click.get_current_context()
    for parameter in context.command.params:
        name = parameter.name or ""
        if context.get_parameter_source(name) != ParameterSource.COMMANDLINE:
            continue
        if name in OF_PAGE and not web:
            raise InputError(f"{parameter.opts[0]}: of the page for a browser; add --web")
        if kind not in FITTING.get(name, (kind,)):
            raise InputError(
                f"{parameter.opts[0]}: not for a {kind}{' graph' * (kind == 'live')}; it goes with:"
                f" {', '.join(FITTING[name])}"
            )


def _scenario(
    name: str | None, vehicle: str | None, seed: int | None, duration_s: float | None
) -> Scenario | None:
    from quadsim.sim.scenario import load_scenario

    if name is None:
        return None
    with loading("loading"):
        return load_scenario(name, vehicle=vehicle, seed=seed, duration_s=duration_s)


def _vehicle(name: str | None) -> VehicleParams | None:
    """The vehicle to draw whatever flew; None: as the scenario says."""
    from quadsim.base.files import find
    from quadsim.base.parameters import load
    from quadsim.vehicle.parameters import VehicleParams

    return None if name is None else load(VehicleParams, find("vehicles", name))


def _draw(
    source: Source,
    scenario: Scenario | None,
    vehicle: VehicleParams | None,
    camera: str,
    rate_hz: float,
    shown: Viewer | None,
    save: Path | None,
) -> None:
    """Draw what was asked for, to where it was asked."""
    from quadsim.view.flights import Picture, new_recording
    from quadsim.view.output import send_to

    recording = new_recording()
    send_to(recording, shown, save)
    picture = Picture(recording, scenario, camera, rate_hz, live=source.what is None)
    picture.vehicle = vehicle
    try:
        source.draw(picture, shown)
    except QuadsimError:
        if save is not None:
            save.unlink(missing_ok=True)
        raise
    finally:
        recording.disconnect()  # while the viewer still listens
    for note in picture.notes:
        say(note)
    if save is not None:
        say(f"saved {save}; look at it with: quadsim view {save}")
