"""What the viewer shows where: cameras, time series, events."""

from __future__ import annotations

from collections.abc import Sequence

import rerun.blueprint as rrb

from quadsim.view.vehicle import IMAGES, TIMELINE

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
    """One camera."""
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


def layout(
    names: Sequence[str],
    tracks: Sequence[str],
    reach_m: float,
    middle: tuple[float, float, float] = (0.0, 0.0, 1.0),
    far_m: float = 10.0,
    camera: str = "chase",
    shown: Sequence[str] = (),
    live: bool = False,
) -> rrb.Blueprint:
    """The viewer's layout.

    Args:
        names: of the vehicles; cameras follow the first.
        tracks: names of the trails.
        reach_m: size of the vehicles.
        middle: what the fixed camera looks at, world, m.
        far_m: from how far.
        camera: one of :data:`CAMERAS`, the one that is seen first.
        shown: paths of :data:`TABS` that have something to show; none: all.
        live: follow the newest time, and show the last half minute of it.
    """
    first = names[0]
    spaces = [
        _space(kind, first, names, tracks, reach_m, middle, far_m)
        for kind in sorted(CAMERAS, key=lambda kind: kind != camera)
    ]
    series = []
    for name in names:
        for title, paths in TABS.items():
            there = [path for path in paths if not shown or path in shown]
            if there:
                plots = _plots(name, there, live)
                plots.name = title if len(names) == 1 else f"{name}: {title}"
                series.append(plots)
    spaces += [
        rrb.Spatial2DView(origin=f"/{first}/{path}", name=path.removeprefix(IMAGES))
        for path in shown
        if path.startswith(IMAGES)
    ]
    events = rrb.TextLogView(
        origin="/", contents=[f"+ /{name}/events" for name in names], name="events"
    )
    return rrb.Blueprint(
        rrb.Horizontal(
            rrb.Vertical(rrb.Tabs(*spaces), events, row_shares=[5, 1]),
            rrb.Tabs(*series),
            column_shares=[3, 2],
        ),
        rrb.BlueprintPanel(state="collapsed"),
        rrb.SelectionPanel(state="collapsed"),
        rrb.TimePanel(
            state="collapsed",
            timeline=TIMELINE,
            play_state="Following" if live else "Playing",
        ),
        auto_views=False,
        auto_layout=False,
    )
