"""What ``quadsim rehearse --dds`` makes of a rehearsal, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy")

from quadsim.cli.rehearse import rehearse
from quadsim.cli.rehearse_dds import take_bags, with_dds
from quadsim.errors import InputError
from quadsim.nodes.hil_graph import describe_hil
from quadsim.nodes.rehearsing import options_for
from quadsim.sim.rehearsal.rehearsal import load_rehearsal
from quadsim.world.scene import cast_rays, scene_of
from quadsim.world.sdf import load_world


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
    found = []
    for scene in (scene_of(written), rehearsal.scene):
        distances, cosines = np.zeros(400), np.zeros(400)
        cast_rays(scene, 0.0, origins, rays, 40.0, distances, cosines)
        found.append(distances)
    assert np.isfinite(found[0]).sum() > 50
    np.testing.assert_allclose(found[0], found[1], atol=1e-5)


def test_the_graph_flies_as_the_core_does(tmp_path):
    """Guard, planner and lidar have the parameters with which the core flies the rehearsal."""
    rehearsal = load_rehearsal("appearing", seed=2, speed_mps=2.5)
    specs = {spec.executable: spec for spec in describe_hil(options_for(rehearsal, tmp_path, None))}
    assert specs["guard"].parameters["limits.speed_max_mps"] == 2.5
    assert specs["lidar"].parameters["columns"] == rehearsal.lidar.columns
    assert specs["lidar"].parameters["rate_hz"] == rehearsal.lidar.rate_hz
    # what appears is seen, but no vehicle that says where it is
    topic = f"/others/{rehearsal.field.movers[0].name}/odom"
    assert specs["lidar"].parameters["others.odometry"] == [topic]
    assert "others.odometry" not in specs["guard"].parameters


def test_vehicles_that_move_are_known_with_their_sizes(tmp_path):
    rehearsal = load_rehearsal("moving_vehicle", seed=2)
    specs = {spec.executable: spec for spec in describe_hil(options_for(rehearsal, tmp_path, None))}
    radii = [mover.radius_m for mover in rehearsal.field.movers]
    assert len(set(radii)) == len(radii) > 1
    for name in ("lidar", "planner", "guard"):
        assert specs[name].parameters["others.radius_m"] == radii


def test_bags_come_into_the_runs_folder_and_latencies_into_its_summary(tmp_path):
    flights, folder = tmp_path / ".run.flights", tmp_path / "run"
    for seed in (3, 4):
        (flights / f"seed-{seed}" / "bag").mkdir(parents=True)
    folder.mkdir()
    take_bags(flights, folder)
    assert sorted(path.name for path in folder.iterdir()) == ["seed-3", "seed-4"]
    assert not flights.exists()
    measured = [{"driver_ms": 2.0, "driver_99_ms": 9.0}, {"driver_ms": 3.0, "driver_99_ms": 8.0}]
    summary = with_dds({"runs": [{"seed": 3}, {"seed": 4}]}, measured, folder)
    assert summary["latency"] == {"driver_ms": 3.0, "driver_99_ms": 9.0}
    assert summary["runs"][1]["bag"] == str(folder / "seed-4" / "bag")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--composed"], "only with --dds"),
        (["--domain", "3"], "only with --dds"),
        (["--dds", "--domain", "999"], "'999' is no DDS domain; allowed: 0 to 232"),
    ],
)
def test_options_that_do_not_go_together_are_refused(arguments, words, tmp_path):
    output = ["--output", str(tmp_path / "run")]
    with pytest.raises(InputError, match=words):
        rehearse.main(["pillars", *arguments, *output], standalone_mode=False)
    assert not (tmp_path / "run").exists()
