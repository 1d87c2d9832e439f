"""Pictures of vehicles, of the world around them and of bags, and what the viewer shows where."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import rerun as rr
import rerun.blueprint as rrb

from quadsim.bag import topics
from quadsim.bag.reading import Bag
from quadsim.base.errors import InputError
from quadsim.base.files import find
from quadsim.base.parameters import load
from quadsim.control.parameters import FenceParams
from quadsim.geometry.geodesy import Datum
from quadsim.vehicle.parameters import VehicleParams
from quadsim.view.feed import ESTIMATES, ODOMETRY, TOPICS, Feed, Mounts
from quadsim.view.scenery import draw_scene, draw_solids
from quadsim.view.vehicle import (
    COLOURS,
    IMAGES,
    TIMELINE,
    DrawnTime,
    VehicleView,
)
from quadsim.view.world_shapes import MARGIN_M, GroundPatch
from quadsim.wire.definitions import standard_types
from quadsim.world.scene.obstacle_markers import MarkerReader
from quadsim.world.scene.scene import EMPTY_SCENE, Scene, scene_of

CAMERAS = ("chase", "fixed", "cockpit", "free")
#: Series in tabs: title to entities under the vehicle's.
TABS = {
    "errors": ("position_error", "velocity_error", "attitude_error"),
    "motion": ("position", "velocity", "attitude"),
    "blind": ("blind_error",),
    "power": ("motor_speed", "battery"),
    "sensors": ("innovations", "biases", "range", "wind"),
}
_TITLES = {
    "position_error": "position error, m (3 σ)",
    "velocity_error": "velocity error, m/s (3 σ)",
    "attitude_error": "attitude error, deg (3 σ)",
    "blind_error": "position error of inertial navigation alone, m",
    "position": "position, m",
    "velocity": "velocity, m/s",
    "attitude": "attitude, deg",
    "motor_speed": "motor speeds, rad/s",
    "battery": "battery",
    "innovations": "innovations / expected deviation",
    "biases": "biases, rad/s and m/s²",
    "range": "range, m",
    "wind": "wind, m/s",
}
#: A live plot shows this much of the past, s.
LIVE_S = 30.0
_SKY = rrb.Background(kind="SolidColor", color=(214, 228, 240))


def _past(start: rrb.TimeRangeBoundary) -> rrb.VisibleTimeRanges:
    end = rrb.TimeRangeBoundary.cursor_relative(seconds=0.0)
    return rrb.VisibleTimeRanges(timeline=TIMELINE, start=start, end=end)


def _trails(names: Sequence[str], tracks: Sequence[str]) -> dict[str, rrb.VisibleTimeRanges]:
    """Entities of which all of the past is seen, not the last alone."""
    past = _past(rrb.TimeRangeBoundary.infinite())
    paths = [f"/world/{name}/trail/{track}" for name in names for track in tracks]
    paths += [f"/world/{name}/gps" for name in names]
    return dict.fromkeys(paths, past)


def _space(
    camera: str,
    name: str,
    names: Sequence[str],
    tracks: Sequence[str],
    reach_m: float,
    middle: tuple[float, float, float],
    far_m: float,
) -> rrb.Spatial3DView:
    origin, contents = "/world", ["+ /world/**"]
    up = (0.0, 0.0, 1.0)
    if camera == "chase":
        origin = f"/world/{name}/chase"
        eye = rrb.EyeControls3D(
            kind="Orbital",
            position=(-6.5 * reach_m, 2.0 * reach_m, 3.4 * reach_m),
            look_target=(0.6 * reach_m, 0.0, 0.0),
            eye_up=up,
        )
    elif camera == "cockpit":
        origin = f"/world/{name}/vehicle"
        contents = [*contents, f"- {origin}/body", f"- /world/{name}/uncertainty"]
        contents.append(f"- /world/{name}/ghost/**")
        eye = rrb.EyeControls3D(
            kind="FirstPerson",
            position=(0.0, 0.0, 0.3 * reach_m),
            look_target=(10.0, 0.0, -0.5),
            eye_up=up,
        )
    else:
        x, y, z = middle
        eye = rrb.EyeControls3D(
            kind="Orbital" if camera == "fixed" else "FirstPerson",
            position=(x - 0.9 * far_m, y - 1.1 * far_m, z + 0.75 * far_m),
            look_target=middle,
            eye_up=up,
        )
    return rrb.Spatial3DView(
        origin=origin,
        contents=contents,
        name=camera if len(names) == 1 else f"{camera} {name}",
        background=_SKY,
        line_grid=rrb.LineGrid3D(visible=False),
        eye_controls=eye,
        overrides=_trails(names, tracks),
    )


def _plots(name: str, paths: Sequence[str], live: bool) -> rrb.Vertical:
    ranges = None
    if live:
        ranges = _past(rrb.TimeRangeBoundary.cursor_relative(seconds=-LIVE_S))
    views = [
        rrb.TimeSeriesView(
            origin=f"/{name}/{path}",
            name=_TITLES[path],
            plot_legend=rrb.PlotLegend(visible=False),
            time_ranges=ranges,
        )
        for path in paths
    ]
    return rrb.Vertical(*views)


APPLICATION = "quadsim"
#: Series that no message states.
_IN_LOGS_ALONE = ("innovations", "biases")
#: Messages of a bag between two drawings.
BLOCK = 5000
#: Vehicle that is drawn where nothing states which flew.
DEFAULT_VEHICLE = "x500"
#: Entities of what was spawned.
_ROOT = "/world/spawned"
#: The topic that tells of it, and its type.
OBSTACLES_TOPIC, MARKER_ARRAY = "/obstacles", "visualization_msgs/msg/MarkerArray"


class SpawnedDrawer:
    """Draws what ``/obstacles`` tells, as of its stamps.

    Args:
        timeline: where time begins.
    """

    def __init__(self, recording: rr.RecordingStream, timeline: DrawnTime) -> None:
        self._recording, self._timeline = recording, timeline
        self._reader = MarkerReader()

    def take(self, payload: bytes) -> None:
        """Draw all of a message; what is none, or no obstacles, is left out."""
        try:
            message: Any = standard_types().deserialize_cdr(payload, MARKER_ARRAY)
            obstacles = self._reader.read(message)
        except Exception:  # whatever a parser makes of a broken message
            return
        if not message.markers:
            return
        stamp = message.markers[0].header.stamp
        since_ns = self._timeline.since(stamp.sec * 1_000_000_000 + stamp.nanosec)
        self._recording.set_time(TIMELINE, duration=np.timedelta64(since_ns, "ns"))
        self._recording.log(_ROOT, rr.Clear(recursive=True))
        draw_solids(scene_of(obstacles), _ROOT, self._recording.log)


@dataclass(frozen=True)
class Site:
    """Where a flight is drawn, and what flies there.

    Attributes:
        ground_m: height of the ground outside of the terrain.
        vehicle: its shape; None: the default one's.
    """

    scene: Scene = EMPTY_SCENE
    ground_m: float = 0.0
    fence: FenceParams = field(default_factory=FenceParams)
    vehicle: VehicleParams | None = None
    mounts: Mounts = field(default_factory=Mounts)


@dataclass
class Picture:
    """What is drawn of one world: the recording, the site if it is known, the vehicles.

    Attributes:
        site: None draws flat ground and the default vehicle.
        timeline: where time begins.
        views: of the vehicles by name.
        vehicle: drawn whatever the site states; None: the site's.
    """

    recording: rr.RecordingStream
    site: Site | None = None
    camera: str = "chase"
    rate_hz: float = 50.0
    live: bool = False
    timeline: DrawnTime = field(default_factory=DrawnTime)
    views: dict[str, VehicleView] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    vehicle: VehicleParams | None = None

    def __post_init__(self) -> None:
        """Nothing has been spawned."""
        self.spawned = SpawnedDrawer(self.recording, self.timeline)

    def view(self, name: str, has_truth: bool) -> VehicleView:
        """Make the view of a vehicle."""
        params = self.vehicle or (self.site.vehicle if self.site else None)
        self.views[name] = VehicleView(
            self.recording,
            name,
            params or load(VehicleParams, find("vehicles", DEFAULT_VEHICLE)),
            self.timeline,
            self.rate_hz,
            has_truth,
        )
        self.lay_out_likely()  # before the first data: a viewer would lay them out its own way
        return self.views[name]

    @property
    def place(self) -> GroundPatch:
        """Where the vehicles have been so far."""
        corners = [corner for view in self.views.values() for corner in (view.low_W, view.high_W)]
        return GroundPatch.around(np.array(corners).reshape(-1, 3))

    def draw_world(self, place: GroundPatch | None = None) -> None:
        """Ground and obstacles about a place, fences about the starts."""
        site = self.site or Site()
        draw_scene(self.recording, site.scene, site.ground_m, place or self.place)
        for view in self.views.values():
            if view.start_W is not None:
                view.fence(site.fence, view.start_W)

    def lay_out_likely(self) -> None:
        """Send the layout for what messages usually say."""
        groups = [group for groups in TABS.values() for group in groups]
        self.lay_out(list(COLOURS), [group for group in groups if group not in _IN_LOGS_ALONE])

    def lay_out(self, tracks: Sequence[str] = (), shown: Sequence[str] = ()) -> rrb.Blueprint:
        """Send the layout for what has been drawn, or for what is reported will be.

        Cameras follow the first vehicle.
        """
        place, names, views = self.place, list(self.views), self.views.values()
        tracks = tracks or sorted({track for view in views for track in view.tracks})
        shown = shown or sorted({group for view in views for group in view.series.groups})
        flown = [view for view in views if view.start_W is not None]
        heights = [float(0.5 * (view.low_W[2] + view.high_W[2])) for view in flown]
        middle = (place.x_m, place.y_m, float(np.mean(heights or [1.0])))
        reach_m, far_m = max(v.reach_m for v in views), max(1.2 * (place.half_m - MARGIN_M), 6.0)
        spaces = [
            _space(kind, names[0], names, tracks, reach_m, middle, far_m)
            for kind in sorted(CAMERAS, key=lambda kind: kind != self.camera)
        ]
        spaces += [
            rrb.Spatial2DView(origin=f"/{names[0]}/{path}", name=path.removeprefix(IMAGES))
            for path in shown
            if path.startswith(IMAGES)
        ]
        series = []
        for name in names:
            for title, paths in TABS.items():
                if there := [path for path in paths if not shown or path in shown]:
                    series.append(_plots(name, there, self.live))
                    series[-1].name = title if len(names) == 1 else f"{name}: {title}"
        told = [f"+ /{name}/events" for name in names]
        events = rrb.TextLogView(origin="/", contents=told, name="events")
        seen = rrb.Vertical(rrb.Tabs(*spaces), events, row_shares=[5, 1])
        play = "Following" if self.live else "Playing"
        blueprint = rrb.Blueprint(
            rrb.Horizontal(seen, rrb.Tabs(*series), column_shares=[3, 2]),
            rrb.BlueprintPanel(state="collapsed"),
            rrb.SelectionPanel(state="collapsed"),
            rrb.TimePanel(state="collapsed", timeline=TIMELINE, play_state=play),
            auto_views=False,
            auto_layout=False,
        )
        self.recording.send_blueprint(blueprint)
        return blueprint


def new_recording() -> rr.RecordingStream:
    """A recording that is not sent anywhere yet."""
    return rr.RecordingStream(APPLICATION)


def wanted(types: Mapping[str, str], namespace: str) -> dict[str, tuple[str, str]]:
    """Topics of a vehicle that are drawn.

    Args:
        types: full name of each topic to its type.

    Returns:
        Full name to relative name and type.
    """
    found = {}
    begin = topics.topic(namespace, "")
    for full, type_name in types.items():
        name = full.removeprefix(begin)
        alongside = name.startswith(ESTIMATES) and "/" not in name.removeprefix(ESTIMATES)
        if full.startswith(begin) and (
            TOPICS.get(name) == type_name or (alongside and type_name == ODOMETRY)
        ):
            found[full] = (name, type_name)
    return found


def vehicle_name(namespace: str) -> str:
    """Name of a vehicle, for entities."""
    return namespace.strip("/").replace("/", "_") or "vehicle"


def draw_bag(
    picture: Picture,
    bag: Bag,
    namespaces: Sequence[str] = (),
    datum: Datum | None = None,
    duration_s: float | None = None,
    progress: Callable[[float], None] | None = None,
) -> None:
    """Draw a bag in a stream, in bounded memory.

    Args:
        namespaces: of the vehicles; none: all that there are.
        datum: origin of ``map``; None takes the bag's.
        duration_s: how much of it, by log time; None: all.
        progress: called now and then with the time of the bag so far, s.

    Raises:
        InputError: there is no such vehicle, or the bag is damaged.
    """
    there = [full for full, count in bag.counts.items() if count]
    types = {full: bag.types[full] for full in there}
    chosen = list(namespaces) or topics.namespaces(bag)
    place = datum or topics.datum_of(bag)
    feeds: dict[str, tuple[Feed, str, str]] = {}
    for namespace in chosen:
        drawn = wanted(types, namespace)
        names = {name for name, _ in drawn.values()}
        if not any(type_name == ODOMETRY for _, type_name in drawn.values()):
            vehicles = ", ".join(topics.namespaces(bag)) or "none"
            raise InputError(
                f"{bag.path}: no odometry of {namespace}; vehicles in this bag: {vehicles}"
                " (choose with --namespace)"
            )
        view = picture.view(vehicle_name(namespace), "ground_truth/odom" in names)
        mounts = picture.site.mounts if picture.site else Mounts()
        feed = Feed(view, mounts, place, picture.rate_hz)
        feeds |= {full: (feed, name, type_name) for full, (name, type_name) in drawn.items()}
        if "gps/fix" in names and place is None:
            picture.notes.append("no /datum: the GPS fixes are not drawn (give --datum LAT,LON,H)")
    every = {id(feed): feed for feed, _, _ in feeds.values()}.values()
    told = [OBSTACLES_TOPIC] if types.get(OBSTACLES_TOPIC) == MARKER_ARRAY else []
    begin_ns = None
    for i, message in enumerate(bag.messages([*feeds, *told]), start=1):
        begin_ns = message.log_ns if begin_ns is None else begin_ns
        so_far_s = (message.log_ns - begin_ns) * 1e-9
        if duration_s is not None and so_far_s > duration_s:
            break
        if message.topic in told:
            picture.spawned.take(message.payload)
            continue
        feed, name, type_name = feeds[message.topic]
        feed.take(name, type_name, message.payload)
        if i % BLOCK == 0:
            for one in every:
                one.flush()
            if progress is not None:
                progress(so_far_s)
    for one in every:
        one.flush()
    picture.draw_world()
    picture.lay_out()
