"""``quadsim view``: a flight in three dimensions and as time series, live, from a bag, or flown."""

from __future__ import annotations

import signal
import webbrowser
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from quadsim.base.errors import InputError, QuadsimError
from quadsim.base.options import option
from quadsim.cli.common import FlightProgress, loading, ready_for_ros, say
from quadsim.cli.options import Domain, Driver, MapOrigin, command, given

if TYPE_CHECKING:
    from quadsim.sim.scenario import Scenario
    from quadsim.view.flights import Picture
    from quadsim.view.output import Viewer

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


#: Options that count for some of what is looked at only.
FITTING = {
    "save": ("live", "bag", "flight"),
    "scenario": ("live", "bag"),
    "vehicle": ("live", "bag", "flight"),
    "namespaces": ("live", "bag"),
    "driver": ("bag",),
    "datum": ("live", "bag"),
    "seed": ("flight",),
    "duration": ("bag", "flight"),
    "camera": ("live", "bag", "flight"),
    "rate_hz": ("live", "bag", "flight"),
    "domain": ("live",),
}
#: Options of the page.
OF_PAGE = ("bind", "port", "browser")


@dataclass(frozen=True)
class ViewOptions:
    """Options of ``quadsim view``."""

    what: str | None = option(None, "", argument=True)
    scenario: str | None = option(
        None, "world, vehicle and mounts to draw with a bag or a live graph"
    )
    vehicle: str | None = option(None, "a vehicle of config/vehicles, or a file")
    namespaces: tuple[str, ...] = option(
        (), "a vehicle (may be repeated)", flags="--namespace", unset="all"
    )
    driver: Driver = None
    datum: MapOrigin = None
    seed: int | None = option(None, "seed of a scenario's flight", ge=0)
    duration_s: float | None = option(
        None, "of a flight or a bag, the first so many", "s", gt=0.0, name="duration"
    )
    camera: str = option(
        "chase", "the one that is seen first", choices=("chase", "fixed", "cockpit", "free")
    )
    web: bool = option(False, "a page for a browser, not a window", flags="--web --serve")
    browser: bool = option(False, "with --web: open a browser", flags="--browser/--no-browser")
    port: int = option(0, "of the page; 0: any", ge=0, le=65535)
    bind: str = option("127.0.0.1", "with --web: address to serve at")
    save: Path | None = option(None, "write a Rerun recording (.rrd)", path="file")
    rate_hz: float = option(
        50.0, "poses a second that are drawn at most", ge=1.0, le=200.0, flags="--rate"
    )
    memory_limit: str = option("1GiB", "of what the viewer keeps; the oldest goes first")
    domain: Domain = None

    @property
    def recording(self) -> bool:
        """Whether a saved recording is looked at."""
        return self.what is not None and self.what.endswith(RECORDING)

    @property
    def kind(self) -> str:
        """What is looked at."""
        if self.what is None:
            return "live"
        if self.recording:
            return "recording"
        return "bag" if is_bag(self.what) else "flight"

    def check(self) -> None:
        """Refuse options that would be ignored, and files that cannot be meant.

        Raises:
            InputError: naming the option and what it goes with.
        """
        for name, flag in given().items():
            if name in OF_PAGE and not self.web:
                raise InputError(f"{flag}: of the page for a browser; add --web")
            if self.kind not in FITTING.get(name, (self.kind,)):
                what = "live graph" if self.kind == "live" else self.kind
                fits = ", ".join(FITTING[name])
                raise InputError(f"{flag}: not for a {what}; it goes with: {fits}")
        if self.save is not None and self.save.suffix != RECORDING:
            raise InputError(f"--save {self.save}: a recording ends in {RECORDING}")
        if self.recording and not Path(str(self.what)).is_file():
            raise InputError(f"{self.what}: no such file")


@command(ViewOptions)
def view(options: ViewOptions) -> None:
    """Look at a flight: WHAT is a bag, a scenario to be flown, a saved .rrd; without it, live.

    In a window of Rerun, in a browser (--web), or into a file (--save). Exit status: 0 closed,
    2 bad input.
    """
    options.check()
    _ready()
    from quadsim.view.output import check_bind, check_memory, has_display, viewer

    check_memory(options.memory_limit)
    opened = str(options.what) if options.recording else ""
    with ExitStack() as stack:
        scenario = None if opened else _scenario(options)
        picture = None if opened else _picture(options, scenario)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _interrupt)  # so that the viewer never outlives us
        shown = None
        if options.web or options.save is None:
            shown = stack.enter_context(
                viewer(
                    options.web,
                    options.memory_limit,
                    check_bind(options.bind),
                    options.port,
                    opened,
                )
            )
            if options.web:
                say(f"open {shown.page} (Ctrl-C ends it)")
                if options.browser and has_display():
                    webbrowser.open(shown.page)
        if picture is not None:
            _draw(options, picture, scenario, shown)
        if shown is not None and options.what is not None:
            shown.wait()


def _scenario(options: ViewOptions) -> Scenario | None:
    """The scenario that is asked for."""
    from quadsim.sim.scenario import load_scenario

    name = options.what if options.kind == "flight" else options.scenario
    if not name:
        return None
    with loading("loading"):
        return load_scenario(
            name, vehicle=options.vehicle, seed=options.seed, duration_s=options.duration_s
        )


def _picture(options: ViewOptions, scenario: Scenario | None) -> Picture:
    """What is drawn, in the scenario and of the vehicle that are asked for."""
    from quadsim.base.files import find
    from quadsim.base.parameters import load
    from quadsim.vehicle.parameters import VehicleParams
    from quadsim.view.flights import Picture, new_recording
    from quadsim.view.scenarios import site_of

    site, live = site_of(scenario) if scenario else None, options.kind == "live"
    picture = Picture(new_recording(), site, options.camera, options.rate_hz, live=live)
    if options.vehicle is not None and options.kind != "flight":  # whatever flew
        picture.vehicle = load(VehicleParams, find("vehicles", options.vehicle))
    return picture


def _draw(
    options: ViewOptions, picture: Picture, scenario: Scenario | None, shown: Viewer | None
) -> None:
    """Draw what was asked for, to where it was asked."""
    from quadsim.view.output import send_to

    save = options.save
    send_to(picture.recording, shown, save)
    try:
        if options.kind == "live":
            _draw_live(options, picture, shown)
        elif scenario is not None and options.kind == "flight":
            from quadsim.view.scenarios import draw_scenario

            with FlightProgress(scenario.name, scenario.file.duration_s) as progress:
                draw_scenario(picture, scenario, progress.update)
        else:
            _draw_bag(options, picture)
    except QuadsimError:
        if save is not None:
            save.unlink(missing_ok=True)
        raise
    finally:
        picture.recording.disconnect()  # while the viewer still listens
    for note in picture.notes:
        say(note)
    if save is not None:
        say(f"saved {save}; look at it with: quadsim view {save}")


def _draw_live(options: ViewOptions, picture: Picture, shown: Viewer | None) -> None:
    ready_for_ros()
    from quadsim.ros.parts.viewer import watch
    from quadsim.ros.runtime.domain import chosen_domain

    watch(picture, options.namespaces, options.datum, chosen_domain(options.domain), shown)


def _draw_bag(options: ViewOptions, picture: Picture) -> None:
    from quadsim.bag.reading import open_bag
    from quadsim.view.flights import draw_bag
    from quadsim.view.scenarios import scenario_of_bag, site_of

    path, duration_s = Path(str(options.what)), options.duration_s
    with open_bag(path, options.driver) as bag:
        picture.notes += bag.notes
        if picture.site is None:
            scenario, note = scenario_of_bag(bag)
            picture.site = site_of(scenario) if scenario else None
            picture.notes += [note] if note else []
        with FlightProgress(path.name, duration_s or bag.duration_s) as progress:
            draw_bag(picture, bag, options.namespaces, options.datum, duration_s, progress.update)
