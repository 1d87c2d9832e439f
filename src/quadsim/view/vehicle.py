"""One vehicle as Rerun draws it: body, ghost of the estimate, trails, fixes, wind and time series.

Everything comes in blocks of rising stamps, so that a bag is drawn in a stream and a graph while it
flies. Entities (NAME is the vehicle's, ``quad``):

=====================================  ==========================================================
``/world/NAME/vehicle``                the body, at the truth, or at the estimate without one
``/world/NAME/vehicle/rotor_0``, ...   rotors, rotated by the integral of their speed
``/world/NAME/vehicle/range``          beam of the range finder; ``lidar``: points of a scan
``/world/NAME/ghost``                  the body, translucent, at the estimate
``/world/NAME/uncertainty``            ellipsoid of three deviations about the estimate
``/world/NAME/trail/TRACK``            paths: truth, estimate, blind, reference, other estimators
``/world/NAME/gps``, ``setpoint``,     what their names say
``mission``, ``fence``, ``wind``
``/world/NAME/chase``                  a frame that follows the body, level: the chase camera's
``/NAME/position/TRACK``, ...          time series, see :mod:`quadsim.view.series`
``/NAME/camera/depth``, ...            images of a depth camera, and ``segmentation``
``/NAME/events``                       events as text
=====================================  ==========================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import rerun as rr
from numpy.typing import NDArray

from quadsim.base.parameters import Vec3
from quadsim.control.parameters import FenceParams
from quadsim.sim.log import ERROR, WARN, Array, Event, Stamps, Track
from quadsim.vehicle.parameters import VehicleParams
from quadsim.view.motion import ROTOR_SLOWING, Rotors, ellipsoids, heading, spaced, xyzw
from quadsim.view.scenery import as_mesh
from quadsim.view.series import FlightSeries
from quadsim.view.shapes import UP, vehicle_shape

TIMELINE = "time"
#: Where images are, behind the vehicle's name.
IMAGES = "camera/"
TRUTH, ESTIMATE, BLIND, REFERENCE = "truth", "estimate", "blind", "reference"
#: Colours of the project's legend.
COLOURS = {
    TRUTH: (20, 20, 20),
    ESTIMATE: (31, 90, 200),
    BLIND: (230, 126, 0),
    REFERENCE: (120, 120, 120),
}
OTHERS = ((126, 63, 178), (0, 140, 130), (180, 50, 120), (110, 110, 0))
FIXES, WAYPOINTS, WIND, SCAN, FENCE = (
    (214, 39, 40), (20, 140, 60), (0, 150, 200), (200, 40, 60), (220, 60, 0),
)  # fmt: skip
#: Half widths of trails and sizes of points; negative, as Rerun takes them, of the screen's points.
_HALF_WIDTHS = {TRUTH: -2.0, ESTIMATE: -1.6, BLIND: -1.4, REFERENCE: -0.8}
_OTHERS_HALF_WIDTH, _FIX_RADIUS, _SCAN_RADIUS = -1.2, -2.5, -2.5
_LEVELS = {WARN: rr.TextLogLevel.WARN, ERROR: rr.TextLogLevel.ERROR}
#: Length of the wind arrow for each m/s, s.
WIND_SCALE_S = 0.25
#: Time between two pieces of a trail, ns.
PIECE_NS = 200_000_000
#: The fence without a ceiling is drawn this high, m.
FENCE_M = 10.0


#: Stamps that go back further than late messages do mean that time began anew.
BACK_NS = 1_000_000_000


@dataclass(slots=True)
class DrawnTime:
    """Where time begins: at 0 of a simulation, else at the first stamp, which is a date.

    Where stamps go back (a loop, a simulation that begins anew) it goes on behind what is drawn.
    """

    zero_ns: int | None = None
    newest_ns: int = 0

    def since(self, stamp_ns: int) -> int:
        """Time since the beginning, ns."""
        if self.zero_ns is None:
            self.zero_ns = 0 if stamp_ns < _DATES_NS else stamp_ns
        since_ns = stamp_ns - self.zero_ns
        self.newest_ns = max(self.newest_ns, since_ns)
        return since_ns

    def go_on(self, stamp_ns: int) -> None:
        """Let a stamp that is far behind what is drawn be drawn behind it."""
        if self.zero_ns is not None and stamp_ns - self.zero_ns < self.newest_ns - BACK_NS:
            self.zero_ns = stamp_ns - self.newest_ns - 1


#: Stamps above this are dates, not times since a start: three years after 1970.
_DATES_NS = 100_000_000_000_000_000


class VehicleView:
    """Logs one vehicle.

    Attributes:
        low_W, high_W: corners of the box that its body has been in, m.
        start_W: where it was first, m; None before that.

    Args:
        timeline: where time begins, shared by the vehicles of a recording.
        rate_hz: of poses and series; denser tracks are thinned.
        has_truth: whether a truth is known; without one the estimate has the body.
    """

    def __init__(
        self,
        recording: rr.RecordingStream,
        name: str,
        params: VehicleParams,
        timeline: DrawnTime,
        rate_hz: float = 50.0,
        has_truth: bool = True,
    ) -> None:
        self.name, self.has_truth = name, has_truth
        self._recording, self._timeline = recording, timeline
        self.low_W, self.high_W = np.full(3, np.inf), np.full(3, -np.inf)
        self.start_W: Array | None = None
        self.start_ns = 0
        self._period_ns = round(1e9 / rate_hz)
        self._root = f"/world/{name}"
        self._shape = vehicle_shape(params)
        self._rotors = Rotors()
        self._drawn_ns: dict[str, int] = {}
        self._ends: dict[str, Array] = {}
        self._place: tuple[Stamps, Array] | None = None
        self._colours = dict(COLOURS)
        self._static: set[str] = set()
        self._series = FlightSeries(self._send, self._fix, f"/{name}", self._colours)
        self._draw_bodies()

    # ---- ways to log ---------------------------------------------------------------------------

    def _fix(self, path: str, what: rr.AsComponents) -> None:
        """Log once, for all times."""
        if path not in self._static:
            self._static.add(path)
            self._recording.log(path, what, static=True)

    def _send(self, path: str, stamp_ns: Stamps, columns: rr.ComponentColumnList) -> None:
        stamp_ns = np.asarray(stamp_ns, np.int64)
        first_ns = int(stamp_ns[0])
        times = stamp_ns - first_ns + self._timeline.since(first_ns)
        self._timeline.since(int(stamp_ns[-1]))
        index = rr.TimeColumn(TIMELINE, duration=times.astype("timedelta64[ns]"))
        self._recording.send_columns(path, [index], [*columns])

    def _at(self, stamp_ns: int) -> None:
        """Let what is logged next be of a stamp."""
        since = np.timedelta64(self._timeline.since(stamp_ns), "ns")
        self._recording.set_time(TIMELINE, duration=since)

    def _rows(self, what: str, stamp_ns: Stamps, period_ns: int | None = None) -> NDArray[np.intp]:
        """Rows of a block that are drawn."""
        rows = spaced(stamp_ns, period_ns or self._period_ns, self._drawn_ns.get(what))
        if len(rows):
            self._drawn_ns[what] = int(stamp_ns[rows[-1]])
        return rows

    def restart(self, stamp_ns: int) -> None:
        """Draw what comes as another flight, behind what is drawn, though its stamps went back."""
        self._timeline.go_on(stamp_ns)
        self._drawn_ns.clear()
        self._ends = {}
        self._place = None
        self._rotors = Rotors()
        self._series.restart()

    # ---- bodies --------------------------------------------------------------------------------

    def _draw_bodies(self) -> None:
        root, shape = self._root, self._shape
        self._fix(f"{root}/vehicle/body", as_mesh(shape.body))
        self._fix(f"{root}/ghost/body", as_mesh(shape.body, alpha=90))
        for i, rotor in enumerate(shape.rotors):
            self._fix(f"{root}/vehicle/rotor_{i}", rr.Transform3D(translation=rotor.hub_B_m))
            self._fix(f"{root}/ghost/rotor_{i}", rr.Transform3D(translation=rotor.hub_B_m))
            self._fix(f"{root}/vehicle/rotor_{i}/blades", as_mesh(rotor.blades))
            for body in ("vehicle", "ghost"):
                self._fix(f"{root}/{body}/rotor_{i}/disc", as_mesh(rotor.disc, alpha=60))
        self._fix(
            f"{root}/uncertainty",
            rr.Ellipsoids3D.from_fields(
                colors=[(*COLOURS[ESTIMATE], 70)], fill_mode="transparentfillmajorwireframe"
            ),
        )

    def track(self, name: str, track: Track, p_covariance: Array | None = None) -> None:
        """Draw the next block of a track: pose, trail, and time series.

        Args:
            name: truth, estimate, blind, reference, or another estimator's.
            track: rising stamps, later than the block before.
            p_covariance: (N, 3, 3) of the position in the world, m^2; None takes ``track.sigma``.
        """
        rows = self._rows(name, track.stamp_ns)
        if not len(rows):
            return
        track = track[rows]
        if name not in self._colours:
            self._colours[name] = OTHERS[(len(self._colours) - len(COLOURS)) % len(OTHERS)]
        self._trail(name, track)
        self._series.motion(name, track)
        body = TRUTH if self.has_truth else ESTIMATE
        if name == body:
            if self.start_W is None:
                self.start_W, self.start_ns = track.p_W[0], int(track.stamp_ns[0])
            self._place = (track.stamp_ns, track.p_W)
            self.low_W = np.minimum(self.low_W, track.p_W.min(axis=0))
            self.high_W = np.maximum(self.high_W, track.p_W.max(axis=0))
            self._pose("vehicle", track.stamp_ns, track.p_W, track.q_WB)
            self._pose("chase", track.stamp_ns, track.p_W, heading(track.q_WB))
        if name == ESTIMATE:
            if self.has_truth:
                self._pose("ghost", track.stamp_ns, track.p_W, track.q_WB)
            self._uncertainty(track, None if p_covariance is None else p_covariance[rows])
        if name == REFERENCE:
            self._setpoint(track)

    def _pose(self, path: str, stamp_ns: Stamps, p_W: Array, q_WB: Array) -> None:
        columns = rr.Transform3D.columns(translation=p_W, quaternion=xyzw(q_WB))
        self._send(f"{self._root}/{path}", stamp_ns, columns)

    def _uncertainty(self, track: Track, p_covariance: Array | None) -> None:
        if p_covariance is None and track.sigma is not None:
            p_covariance = np.einsum("ni,ij->nij", track.sigma[:, :3] ** 2, np.eye(3))
        if p_covariance is None:
            return
        half_axes_m, q = ellipsoids(p_covariance)
        self._send(
            f"{self._root}/uncertainty",
            track.stamp_ns,
            rr.Ellipsoids3D.columns(centers=track.p_W, half_sizes=half_axes_m, quaternions=xyzw(q)),
        )

    def _setpoint(self, track: Track) -> None:
        """A cross where the autopilot wants the body, and an arrow for its heading."""
        path = f"{self._root}/setpoint"
        self._fix(
            path,
            rr.Arrows3D.from_fields(colors=[COLOURS[REFERENCE]], radii=[0.02]),
        )
        length_m = 1.2 * self._shape.reach_m
        ahead = heading(track.q_WB)
        cos, sin = ahead[:, 0] ** 2 - ahead[:, 3] ** 2, 2.0 * ahead[:, 0] * ahead[:, 3]
        arrows = length_m * np.stack([cos, sin, np.zeros_like(cos)], axis=1)
        self._send(path, track.stamp_ns, rr.Arrows3D.columns(origins=track.p_W, vectors=arrows))

    def _trail(self, name: str, track: Track) -> None:
        """Pieces of the path; what is seen of them ends at the time looked at."""
        path = f"{self._root}/trail/{name}"
        half_width = _HALF_WIDTHS.get(name, _OTHERS_HALF_WIDTH)
        self._fix(
            path, rr.LineStrips3D.from_fields(colors=[self._colours[name]], radii=[half_width])
        )
        ends = np.flatnonzero(np.diff(track.stamp_ns // PIECE_NS, append=-1))
        points = np.asarray(track.p_W, np.float32)
        before = self._ends.get(path)
        strips, begin = [], 0
        for end in ends:
            piece = points[begin : end + 1]
            strips.append(piece if before is None else np.vstack([before[None], piece]))
            before, begin = points[end], end + 1
        assert before is not None
        self._ends[path] = before
        self._send(path, track.stamp_ns[ends], rr.LineStrips3D.columns(strips=strips))

    def rotors(self, stamp_ns: Stamps, speed_radps: Array) -> None:
        """Turn the rotors, and draw their speeds.

        Args:
            stamp_ns: (N,) rising.
            speed_radps: (N, n) of the motor commands' order.
        """
        if not len(stamp_ns):
            return
        drawn = self._rows("motor", stamp_ns)
        self._series.motors(stamp_ns[drawn], speed_radps[drawn])
        if speed_radps.shape[1] != len(self._shape.rotors):
            return
        angles = self._rotors.turn(stamp_ns, speed_radps)[drawn]
        for i, rotor in enumerate(self._shape.rotors):
            half = 0.5 * rotor.direction * angles[:, i] / ROTOR_SLOWING
            zero = np.zeros_like(half)
            q = np.stack([np.cos(half), zero, zero, np.sin(half)], axis=1)
            hubs = np.broadcast_to(np.array(rotor.hub_B_m), (len(drawn), 3))
            self._pose(f"vehicle/rotor_{i}", stamp_ns[drawn], hubs, q)

    # ---- around it -----------------------------------------------------------------------------

    def fixes(self, track: Track) -> None:
        """GPS fixes, as points that stay."""
        if not len(track):
            return
        path = f"{self._root}/gps"
        self._fix(path, rr.Points3D.from_fields(colors=[FIXES], radii=[_FIX_RADIUS]))
        self._send(path, track.stamp_ns, rr.Points3D.columns(positions=track.p_W))
        self._series.fixes(track)

    def wind(self, stamp_ns: Stamps, v_W: Array) -> None:
        """The air's velocity as an arrow above the body."""
        rows = self._rows("wind", stamp_ns)
        if not len(rows):
            return
        stamp_ns, v_W = stamp_ns[rows], v_W[rows]
        self._series.wind(stamp_ns, v_W)
        if self._place is None:
            return
        path = f"{self._root}/wind"
        self._fix(path, rr.Arrows3D.from_fields(colors=[WIND], radii=[0.03]))
        above = self._places(stamp_ns) + 1.2 * self._shape.reach_m * UP
        columns = rr.Arrows3D.columns(origins=above, vectors=WIND_SCALE_S * v_W)
        self._send(path, stamp_ns, columns)

    def _places(self, stamp_ns: Stamps) -> Array:
        """Where the body was last drawn, at some stamps."""
        assert self._place is not None
        stamps, p_W = self._place
        return p_W[np.clip(np.searchsorted(stamps, stamp_ns), 0, len(stamps) - 1)]

    def range(self, stamp_ns: Stamps, range_m: Array, mount_B_m: Vec3 = (0.0, 0.0, 0.0)) -> None:
        """Beam of the range finder that looks down; what is out of range has none."""
        rows = self._rows("range", stamp_ns)
        if not len(rows):
            return
        stamp_ns, range_m = stamp_ns[rows], range_m[rows]
        path = f"{self._root}/vehicle/range"
        self._fix(path, rr.LineStrips3D.from_fields(colors=[(*SCAN, 120)], radii=[0.01]))
        length = np.where(np.isfinite(range_m), range_m, 0.0)
        begin = np.broadcast_to(np.array(mount_B_m), (len(rows), 3))
        end = begin - np.stack([np.zeros_like(length), np.zeros_like(length), length], axis=1)
        strips = np.stack([begin, end], axis=1).astype(np.float32)
        self._send(path, stamp_ns, rr.LineStrips3D.columns(strips=list(strips)))
        self._series.range(stamp_ns, range_m)

    def scan(self, stamp_ns: int, points_B_m: Array) -> None:
        """One scan of the lidar, (N, 3) points in the body's axes."""
        path = f"{self._root}/vehicle/lidar"
        self._fix(path, rr.Points3D.from_fields(colors=[SCAN], radii=[_SCAN_RADIUS]))
        points = points_B_m[np.isfinite(points_B_m).all(axis=1)].astype(np.float32)
        columns = rr.Points3D.columns(positions=points).partition([len(points)])
        self._send(path, np.array([stamp_ns]), columns)

    def image(self, stamp_ns: int, name: str, pixels: NDArray[Any]) -> None:
        """An image of a depth camera: ``depth`` in m, or in mm of integers, ``segmentation``."""
        self._at(stamp_ns)
        meter = 1.0 if pixels.dtype.kind == "f" else 1e3
        finite = np.nan_to_num(pixels, posinf=0.0, neginf=0.0)
        segmented = name == "segmentation"
        made = rr.SegmentationImage(pixels) if segmented else rr.DepthImage(finite, meter=meter)
        self._recording.log(f"/{self.name}/{IMAGES}{name}", made)
        self._series.groups.add(f"{IMAGES}{name}")

    def battery(self, stamp_ns: Stamps, charge: Array, voltage_V: Array) -> None:
        """Charge, 0 to 1, and voltage, (N,)."""
        self._series.battery(stamp_ns, charge, voltage_V)

    @property
    def series(self) -> FlightSeries:
        """The time series, for what has no picture in space."""
        return self._series

    @property
    def tracks(self) -> list[str]:
        """Names of the trails so far."""
        return [path.rpartition("/")[2] for path in self._ends]

    @property
    def reach_m(self) -> float:
        """Size of the body."""
        return self._shape.reach_m

    # ---- what does not move --------------------------------------------------------------------

    def mission(self, points_W: Array, stamp_ns: int | None = None) -> None:
        """Waypoints (K, 3), numbered, and the way between them; static without a stamp."""
        if not len(points_W):
            return
        points_W = np.asarray(points_W, np.float32)
        labels = [str(i + 1) for i in range(len(points_W))]
        marks = rr.Points3D(points_W, colors=WAYPOINTS, radii=0.07, labels=labels)
        way = rr.LineStrips3D([points_W], colors=[(*WAYPOINTS, 120)], radii=0.012)
        for path, what in ((f"{self._root}/mission", marks), (f"{self._root}/mission/way", way)):
            if stamp_ns is None:
                self._recording.log(path, what, static=True)
                continue
            self._at(stamp_ns)
            self._recording.log(path, what)

    def fence(self, fence: FenceParams, home_W_m: Array) -> None:
        """The cylinder about home and the polygon, from floor to ceiling."""
        low = float(home_W_m[2]) + fence.floor_m
        high = float(home_W_m[2]) + (fence.ceiling_m or fence.floor_m + FENCE_M)
        outlines = []
        if fence.radius_m:
            angles = np.linspace(0.0, 2.0 * np.pi, 65)
            circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
            outlines.append(home_W_m[:2] + fence.radius_m * circle)
        if fence.polygon_W_m:
            outlines.append(np.array([*fence.polygon_W_m, fence.polygon_W_m[0]]))
        strips: list[Array] = []
        for outline in outlines:
            levels = [np.insert(outline, 2, height, axis=1) for height in (low, high)]
            posts = outline[:: max(1, len(outline) // 8)]
            strips += [*levels, *(np.array([[*p, low], [*p, high]]) for p in posts)]
        if strips:
            lines = rr.LineStrips3D(strips, colors=[(*FENCE, 150)], radii=0.03)
            self._fix(f"{self._root}/fence", lines)

    def events(self, events: Sequence[Event]) -> None:
        """Events as lines of text."""
        for event in events:
            level = _LEVELS.get(event.level, rr.TextLogLevel.INFO)
            self._at(event.stamp_ns)
            words = f"{event.name}: {event.message}"
            self._recording.log(f"/{self.name}/events", rr.TextLog(words, level=level))
