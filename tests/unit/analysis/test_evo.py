"""Absolute and relative errors of three bags against evo's, from the TUM files of a replay."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from quadsim.analysis import trajectory
from quadsim.analysis.trajectory import NONE, SE3, SIM3, Span
from quadsim.cli import main
from quadsim.sim.log import Track

pytest.importorskip("evo")

from evo.core import metrics, sync
from evo.tools import file_interface

POSITION, ATTITUDE = metrics.PoseRelation.translation_part, metrics.PoseRelation.rotation_angle_rad


def call(*words) -> str:
    called = CliRunner().invoke(main.main, list(map(str, words)))
    assert called.exit_code in (0, 1), called.stderr
    return called.stdout


def our_track(path) -> Track:
    """A TUM file; turns of length 1, as evo makes them."""
    rows = np.loadtxt(path)
    q_WB = np.roll(rows[:, 4:], 1, axis=1)
    q_WB /= np.linalg.norm(q_WB, axis=1, keepdims=True)
    nothing = np.zeros((len(rows), 3))
    stamp_ns = np.rint(1e9 * rows[:, 0]).astype(np.int64)
    return Track(stamp_ns, rows[:, 1:4], nothing, q_WB, nothing, None)


def theirs(measure, truth, estimate) -> dict[str, float]:
    measure.process_data((truth, estimate))
    return measure.get_all_statistics()


def test_errors_are_evos(tmp_path):
    bag, folder = tmp_path / "bag", tmp_path / "tum"
    call("sim", "--scenario", "figure_of_eight", "--duration", 20, "--bag", bag, "--no-report",
         "--output", tmp_path / "run")  # fmt: skip
    summary = json.loads(call("replay", bag, "--tum", folder, "--settle", 0, "--json"))
    (truth_file,) = folder.glob("*_truth.tum")
    (estimate_file,) = folder.glob("*_eskf.tum")
    truth, estimate = map(file_interface.read_tum_trajectory_file, (truth_file, estimate_file))
    truth, estimate = sync.associate_trajectories(truth, estimate, max_diff=1e-6)
    ours, true = trajectory.compared(our_track(estimate_file), our_track(truth_file))
    assert len(ours) == len(true) == estimate.num_poses > 8000
    found = trajectory.absolute(ours, true)
    for kind, scaled in ((NONE, None), (SE3, False), (SIM3, True)):
        moved = file_interface.read_tum_trajectory_file(estimate_file)
        _, moved = sync.associate_trajectories(truth, moved, max_diff=1e-6)
        if scaled is not None:
            moved.align(truth, correct_scale=scaled)
        expected = theirs(metrics.APE(POSITION), truth, moved)
        for key in ("rmse", "mean", "median", "max"):
            assert found[kind][f"{key}_m"] == pytest.approx(expected[key], abs=1e-9)
            # the files have nine digits
            told = summary["estimators"]["eskf"]["ate"][kind][f"{key}_m"]
            assert told == pytest.approx(expected[key], abs=1e-7)
    # evo pairs every pose with the one so many frames later; ours begin ten times a second
    tenths = np.flatnonzero(ours.stamp_ns % 100_000_000 == 0)
    for each in (truth, estimate):
        each.reduce_to_ids(tenths)
    for seconds in (1.0, 5.0):
        relative = trajectory.relative(ours[tenths], true[tenths], Span(seconds, "s"))
        for relation, name in ((POSITION, "translation_{}_m"), (ATTITUDE, "rotation_{}_rad")):
            frames = metrics.Unit.frames
            rpe = metrics.RPE(relation, round(10 * seconds), frames, all_pairs=True)
            expected = theirs(rpe, truth, estimate)
            for key in ("rmse", "mean", "max"):
                assert relative[name.format(key)] == pytest.approx(expected[key], abs=1e-9)
            assert relative["count"] == len(rpe.error)
