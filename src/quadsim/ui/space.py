"""The flight in three dimensions: world, vehicle, ghost of the estimate, trails, cameras."""

from __future__ import annotations

from typing import Any

import numpy as np
from nicegui import ui
from nicegui.elements.scene.scene_object3d import Object3D

from quadsim.sim.log import Array, FlightLog, Track
from quadsim.ui.charts import ESTIMATE, REFERENCE, TRUTH
from quadsim.ui.live_flight import LiveFlight
from quadsim.ui.models import Models
from quadsim.ui.workspace import Workspace
from quadsim.view.motion import heading
from quadsim.view.shapes import UP
from quadsim.wire.axes import rotation_matrices

SKY, WAYPOINT = "#d6e4f0", "#009e73"
#: Least time between two points of a trail, s.
TRAIL_S = 0.04
#: How far the vehicle may leave what the overview shows, m.
MARGIN_M = 2.0
#: Error at which the ghost is seen, over the vehicle's reach.
GHOST_SHARE = 0.2
CAMERAS = ("overview", "chase")


class Trail(Object3D, component="trail.js"):  # type: ignore[call-arg]
    """A line through points, which grows."""

    def __init__(self, colour: str) -> None:
        super().__init__([], colour)

    def extend(self, points: Array) -> None:
        """Add (N, 3) points."""
        listed = np.round(points, 3).tolist()
        self.args[0].extend(listed)
        self.run_method("append", listed)


class Space:
    """The scene of one page, which follows the flight of the workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._shown: LiveFlight | None = None
        self._drawn_s = 0.0
        self._camera = CAMERAS[0]
        self._low_W: Array = np.zeros(3)
        self._high_W: Array = np.zeros(3)
        self._moving: dict[str, Any] = {}
        self._trails: dict[str, Trail] = {}
        camera = ui.scene.perspective_camera(fov=45, near=0.05, far=5000.0)
        self._scene = ui.scene(grid=False, background_color=SKY, camera=camera)
        self._scene.classes("w-full h-full")
        self._scene.move_camera(-7.0, -9.0, 6.0, 1.5, 1.5, 1.0, duration=0.0)

    def look(self, camera: str) -> None:
        """Choose one of :data:`CAMERAS`."""
        self._camera = camera
        if camera == "overview" and self._shown is not None:
            self._look_over()

    def refresh(self) -> None:
        """Draw what has been flown since the last call."""
        live, models = self._workspace.live, self._workspace.models
        if live is None or models is None:
            return
        if live is not self._shown:
            self._begin(live, models)
        log = live.log(self._drawn_s)
        if not len(log.truth):
            return
        self._drawn_s = log.truth.stamp_ns[-1] * 1e-9 + 1e-6
        self._extend(log)
        self._move(log, models)

    def _begin(self, live: LiveFlight, models: Models) -> None:
        """Draw another flight from its beginning."""
        self._shown, self._drawn_s = live, 0.0
        scene = self._scene
        scene.clear()
        with scene:
            scene.gltf(f"models/{models.world}")
            self._moving = {
                "vehicle": scene.group(),
                "ghost": scene.gltf(f"models/{models.ghost}"),
                "bound": scene.sphere(1.0).material(ESTIMATE, 0.16),
            }
            with self._moving["vehicle"]:
                scene.gltf(f"models/{models.body}")
                if models.discs is not None:
                    scene.gltf(f"models/{models.discs}")
            for name in ("ghost", "bound"):
                self._moving[name].visible(False)
            size_m = max(0.06, 0.2 * models.reach_m)
            log = live.log()
            for place in log.waypoints.tolist():
                scene.sphere(size_m).material(WAYPOINT, 0.8).move(*place)
            colours = {"truth": TRUTH, "estimate": ESTIMATE, "reference": REFERENCE}
            self._trails = {name: Trail(colour) for name, colour in colours.items()}
        places = np.vstack([log.waypoints, live.call(lambda simulation: simulation.state.p_W)])
        self._low_W, self._high_W = places.min(axis=0), places.max(axis=0)
        self._look_over()

    def _look_over(self) -> None:
        """The whole of what is flown over, as far as it is known."""
        x, y, z = (0.5 * (self._low_W + self._high_W)).tolist()
        far_m = max(0.65 * float((self._high_W - self._low_W).max()), 3.0)
        self._scene.move_camera(
            x - 1.5 * far_m, y - 1.9 * far_m, z + 1.5 * far_m, x, y, z, duration=0.6
        )

    def _widen(self, p_W: Array) -> None:
        """Look over more where the vehicle leaves what is looked over."""
        inside = np.all((self._low_W - MARGIN_M <= p_W) & (p_W <= self._high_W + MARGIN_M))
        if inside:
            return
        step_m = 0.5 * float((self._high_W - self._low_W).max())
        self._low_W = np.where(p_W < self._low_W, p_W - step_m, self._low_W)
        self._high_W = np.where(p_W > self._high_W, p_W + step_m, self._high_W)
        if self._camera == "overview":
            self._look_over()

    def _extend(self, log: FlightLog) -> None:
        tracks = {"truth": log.truth, "reference": log.reference}
        tracks["estimate"] = next(iter(log.estimates.values()), None)
        for name, track in tracks.items():
            if track is not None and len(track):
                stride = max(1, round(TRAIL_S * 1e9 * len(track) / _span_ns(track)))
                self._trails[name].extend(track.p_W[::stride])

    def _move(self, log: FlightLog, models: Models) -> None:
        truth = log.truth
        p_W, R_WB = truth.p_W[-1], rotation_matrices(truth.q_WB[-1:])[0]
        vehicle = self._moving["vehicle"]
        vehicle.move(*p_W.tolist())
        vehicle.rotate_R(R_WB.tolist())
        estimate = next(iter(log.estimates.values()), None)
        if estimate is not None and len(estimate):
            for name in ("ghost", "bound"):
                self._moving[name].move(*estimate.p_W[-1].tolist())
            # a ghost within the vehicle would only hide it
            off_m = float(np.linalg.norm(estimate.p_W[-1] - p_W))
            self._moving["ghost"].visible(off_m > GHOST_SHARE * models.reach_m)
            self._moving["bound"].visible(True)
            self._moving["ghost"].rotate_R(rotation_matrices(estimate.q_WB[-1:])[0].tolist())
            if estimate.sigma is not None:
                self._moving["bound"].scale(*(3.0 * estimate.sigma[-1, :3]).tolist())
        self._widen(p_W)
        if self._camera == "chase":
            ahead = rotation_matrices(heading(truth.q_WB[-1:]))[0, :, 0]
            eye = p_W - 9.0 * models.reach_m * ahead + 4.0 * models.reach_m * UP
            self._scene.move_camera(*eye.tolist(), *p_W.tolist(), duration=0.0)


def _span_ns(track: Track) -> int:
    """Time that a track covers, as if each row lasted as long as the others."""
    return max(1, int(track.stamp_ns[-1] - track.stamp_ns[0]) or 10_000_000)
