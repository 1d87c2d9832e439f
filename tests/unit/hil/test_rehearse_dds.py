"""What ``quadsim rehearse --dds`` makes of a rehearsal, and what it refuses."""

import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy")

from ray_casts import cast_rays

from quadsim.base.errors import InputError
from quadsim.base.files import find
from quadsim.cli.rehearse import rehearse
from quadsim.hil.guard.parameters import GuardParams
from quadsim.hil.rehearsal.parameters import TroubleParams
from quadsim.hil.rehearsal.rehearsal import load_rehearsal
from quadsim.hil.rehearsal.stopping import StopWatch
from quadsim.ros.graph import dds_rehearsal as rehearsing
from quadsim.ros.graph.dds_rehearsal import DdsRehearsal, FlightTime, options_for, stops_of
from quadsim.ros.graph.graph_events import Report
from quadsim.ros.graph.hil_graph import describe_hil
from quadsim.ros.nodes.stand_in import stop_values
from quadsim.world.scene.scene import scene_of
from quadsim.world.sdf.world_file import load_world


def test_the_world_of_a_field_is_that_of_the_core(tmp_path):
    """Rays into the written file, and into the field that the core flies in."""
    rehearsal = load_rehearsal("dead_end", seed=4)
    options = options_for(rehearsal, tmp_path, None)
    written = [o for o in load_world(Path(options.world)).obstacles if not o.is_level_ground()]
    assert len(written) == len(rehearsal.field.obstacles)
    rng = np.random.default_rng(1)
    origins = np.column_stack(
        [rng.uniform(0, 40, (400, 1)), rng.uniform(-9, 9, (400, 1)), np.full(400, 2.0)]
    )
    azimuth = rng.uniform(-np.pi, np.pi, 400)
    rays = np.column_stack([np.cos(azimuth), np.sin(azimuth), np.zeros(400)])
    found = [
        cast_rays(scene, 0.0, origins, rays, 40.0)[0]
        for scene in (scene_of(written), rehearsal.scene)
    ]
    assert np.isfinite(found[0]).sum() > 50
    np.testing.assert_allclose(found[0], found[1], atol=1e-5)


def test_the_graph_flies_as_the_core_does(tmp_path):
    """Guard, planner and lidar have the parameters with which the core flies the rehearsal."""
    rehearsal = load_rehearsal("appearing", seed=2, speed_mps=2.5)
    specs = {spec.executable: spec for spec in describe_hil(options_for(rehearsal, tmp_path, None))}
    assert specs["guard"].parameters["limits.speed_max_mps"] == 2.5
    assert specs["lidar"].parameters["columns"] == rehearsal.eye.columns
    assert specs["lidar"].parameters["rate_hz"] == rehearsal.eye.rate_hz
    # what appears is seen, but no vehicle that says where it is
    topic = f"/others/{rehearsal.field.movers[0].name}/odom"
    assert specs["lidar"].parameters["others.odometry"] == [topic]
    assert "others.odometry" not in specs["guard"].parameters


def test_a_rehearsal_by_depth_has_a_camera_in_the_graph_and_no_lidar(tmp_path):
    rehearsal = load_rehearsal("pillars", seed=2, speed_mps=2.0, sensors="depth")
    specs = {spec.executable: spec for spec in describe_hil(options_for(rehearsal, tmp_path, None))}
    assert "lidar" not in specs
    assert specs["depth_camera"].parameters["baseline_m"] == rehearsal.eye.baseline_m
    assert specs["planner"].parameters["speed.look_rad"] == 0.4
    assert specs["guard"].parameters["sight.memory_s"] == 4.0
    assert specs["guard"].parameters["camera.position_B_m"] == [0.12, 0.0, 0.02]


def test_vehicles_that_move_are_known_with_their_sizes(tmp_path):
    rehearsal = load_rehearsal("moving_vehicle", seed=2)
    specs = {spec.executable: spec for spec in describe_hil(options_for(rehearsal, tmp_path, None))}
    radii = [mover.radius_m for mover in rehearsal.field.movers]
    assert len(set(radii)) == len(radii) > 1
    for name in ("lidar", "planner", "guard"):
        assert specs[name].parameters["others.radius_m"] == radii


def rehearsal_with(trouble, tmp_path):
    """A file with one trouble for good."""
    path = tmp_path / "mine.yaml"
    path.write_text(
        find("rehearsals", "pose_lost").read_text().replace("what: pose", f"what: {trouble}")
    )
    return path


@pytest.mark.parametrize("trouble", ["scan", "planner"])
def test_troubles_that_the_graph_cannot_have_are_refused_before_it_starts(trouble, tmp_path):
    path = rehearsal_with(trouble, tmp_path)
    arguments = [str(path), "--dds", "--output", str(tmp_path / "run")]
    words = rf"mine.yaml: troubles: {trouble}: not with --dds; allowed: motion_capture, "
    with pytest.raises(InputError, match=words):
        rehearse.main(arguments, standalone_mode=False)
    assert not (tmp_path / "run").exists()


def test_every_stop_comes_back_from_the_stand_ins_report():
    watch = StopWatch(GuardParams())
    for what, at_s, v in (("pose", 1.0, 4.0), ("link", 2.0, 3.0)):
        watch.begin(TroubleParams(what, at_s), at_s, (0.0, 0.0, 2.0), (v, 0.0, 0.0))
    watch.look(2.5, (2.0, 0.0, 2.0), (0.0, 0.0, 0.0))
    found = stops_of(Report(values={key: str(x) for key, x in stop_values(watch.stops).items()}))
    assert [(stop.what, stop.at_s, stop.speed_mps) for stop in found] == [
        ("pose", 1.0, 4.0), ("link", 2.0, 3.0),
    ]  # fmt: skip
    assert [stop.stop_m for stop in found] == [2.0, 2.0]
    assert math.isnan(found[0].landing_s)


def test_the_dead_man_button_is_let_go_by_the_time_flown_not_by_reports(tmp_path, monkeypatch):
    """Reports come once a second; the trouble is from 2.3 s on."""
    path = rehearsal_with("dead_man", tmp_path)
    path.write_text(path.read_text().replace("at_s: 4.0", "at_s: 2.3"))
    flight = DdsRehearsal(load_rehearsal(str(path)), [], 0, None)
    said = []
    operator = SimpleNamespace(flown=FlightTime(), hold=said.append)
    for ms in range(0, 4000, 20):
        now_s = 100.0 + 0.001 * ms
        monkeypatch.setattr(
            rehearsing, "time", SimpleNamespace(monotonic=lambda now_s=now_s: now_s)
        )
        if ms % 1000 == 0:  # it flies from 0.5 s on
            values = {"flying": str(ms > 500).lower(), "t_s": str(max(0.001 * ms - 0.5, 0.0))}
            operator.flown.take(Report(values=values), now_s)
        flight._release(operator)
    assert 0.02 * said.index(False) == pytest.approx(0.5 + 2.3, abs=0.03)
    assert not any(said[said.index(False) :])
