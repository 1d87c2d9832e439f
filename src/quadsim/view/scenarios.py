"""Pictures of scenarios: flown in the closed loop, or named by a bag."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from quadsim.bag.origin import SCENARIO_YAML
from quadsim.bag.reading import Bag
from quadsim.base.errors import InputError
from quadsim.sim.closed_loop import Progress
from quadsim.sim.log import FlightLog
from quadsim.sim.scenario import Scenario, load_scenario
from quadsim.sim.scenario_text import scenario_from_text
from quadsim.sim.swarm import Swarm
from quadsim.view.feed import Mounts
from quadsim.view.flights import Picture, Site
from quadsim.view.vehicle import BLIND, ESTIMATE, REFERENCE, TRUTH, VehicleView


def site_of(scenario: Scenario) -> Site:
    """What a picture shows of a scenario."""
    rangefinder, lidar = (scenario.devices.get(name) for name in ("rangefinder", "lidar"))
    mounts = Mounts(
        getattr(rangefinder, "position_B_m", (0.0, 0.0, 0.0)),
        getattr(lidar, "position_B_m", (0.0, 0.0, 0.0)),
        getattr(lidar, "rotation_deg", (0.0, 0.0, 0.0)),
    )
    return Site(
        scenario.scene,
        scenario.environment.ground_height_m,
        scenario.autopilot.flight.fence,
        scenario.vehicle,
        mounts,
    )


def draw_log(view: VehicleView, log: FlightLog) -> None:
    """Draw a flight that is known whole.

    The first estimate is the one that flew; the one named ``blind`` is the blind one.
    """
    view.track(TRUTH, log.truth)
    for i, (name, track) in enumerate(log.estimates.items()):
        view.track(BLIND if name == BLIND else ESTIMATE if i == 0 else name, track)
    if log.reference is not None and len(log.reference):
        view.track(REFERENCE, log.reference)
    view.rotors(log.motor_stamps_ns, log.motor_speed_radps)
    if log.gnss is not None:
        view.fixes(log.gnss)
    view.mission(log.waypoints)
    view.events(log.events)
    for inside in log.inside.values():
        view.series.inside(inside)
        break


def draw_scenario(picture: Picture, scenario: Scenario, progress: Progress | None = None) -> None:
    """Fly a scenario in the closed loop and draw every vehicle of it.

    Raises:
        QuadsimError: the flight broke.
    """
    mounts = site_of(scenario).mounts
    swarm = Swarm(scenario)
    for loop, log in zip(swarm.loops, swarm.fly(progress), strict=True):
        view = picture.view(loop.vehicle, has_truth=True)
        draw_log(view, log)
        readings = loop.samples("rangefinder")
        if len(readings):
            view.range(readings["stamp_ns"], readings["range_m"].ravel(), mounts.rangefinder_B_m)
        wind_W = scenario.environment.wind_W_mps
        if any(wind_W):
            view.wind(log.truth.stamp_ns, np.broadcast_to(wind_W, (len(log.truth), 3)))
    picture.draw_world()
    picture.lay_out()


def scenario_of_bag(bag: Bag) -> tuple[Scenario | None, str]:
    """The scenario that a bag keeps or names, if it is here; else why it is not."""
    text, name = bag.custom.get(SCENARIO_YAML), bag.custom.get("scenario", "")
    if text is not None:
        with suppress(InputError):  # of another version: its name may still do
            return scenario_from_text(text, f"{bag.path}: {SCENARIO_YAML}")[0], ""
    if not name:
        return None, "the bag names no scenario: flat ground and the default vehicle are drawn"
    try:
        return load_scenario(name), ""
    except InputError as error:
        return None, f"{error}: flat ground and the default vehicle are drawn"
