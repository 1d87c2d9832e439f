"""Recorded flights of a known vehicle, by a recorder that is mounted askew, tell both."""

import json
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from flown import crazyflie, write_flight

from quadsim.bag.reading import open_bag
from quadsim.base.files import find
from quadsim.base.parameters import load
from quadsim.cli.main import main
from quadsim.lab.identify.alignment import Alignment, align_recorder
from quadsim.lab.identify.flights import (
    FlightsFit,
    cut_flight,
    flights_summary,
    residual_unknowns,
    vehicle_unknowns,
)
from quadsim.lab.identify.shooting import Fit, UnknownFigure, fit_figures, start_figures
from quadsim.lab.validate.recorded import as_recorded_by, read_recorded
from quadsim.lab.validate.validation import rank_suspects
from quadsim.vehicle.parameters import RecorderParams, VehicleParams

GRAVITY = 9.80665
MOUNT_RAD, BIAS_RADPS = (0.03, -0.02, 0.05), (0.02, -0.01, 0.015)


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """Paths of logs of 6 s each, poses turned and the gyroscope biased."""
    folder = tmp_path_factory.mktemp("askew")
    paths = [folder / f"log{k}" for k in range(3)]
    for k, path in enumerate(paths):
        write_flight(path, 6.0, crazyflie(), 10 + k, MOUNT_RAD, BIAS_RADPS)
    return paths


@pytest.fixture(scope="module")
def alignment(logs):
    with ExitStack() as stack:
        bags = [stack.enter_context(open_bag(path)) for path in logs]
        return align_recorder(bags, "/quad", RecorderParams())


@pytest.fixture(scope="module")
def flights(logs, alignment):
    recorder = alignment.applied(RecorderParams())
    found = []
    for path in logs:
        with open_bag(path) as bag:
            found.append(read_recorded(bag, "/quad", replace(crazyflie(), recorder=recorder)))
    return found


def test_poses_and_gyroscope_tell_mount_bias_and_clock(alignment):
    assert alignment.value[:3] == pytest.approx(MOUNT_RAD, abs=0.01)
    assert alignment.value[3:6] == pytest.approx(BIAS_RADPS, abs=2e-3)
    assert alignment.value[6] == pytest.approx(0.0, abs=1e-3)


def test_poses_of_which_some_are_lost_tell_as_much(tmp_path):
    write_flight(tmp_path / "log", 6.0, crazyflie(), 10, MOUNT_RAD, BIAS_RADPS, lost=0.5)
    with open_bag(tmp_path / "log") as bag:
        found = align_recorder([bag], "/quad", RecorderParams())
    assert found.value[2] == pytest.approx(MOUNT_RAD[2], abs=0.01)
    assert not found.undetermined


def test_flights_that_hardly_turn_keep_the_mount_of_the_file(tmp_path):
    before = RecorderParams(mount_rad=(0.01, 0.0, 0.2), pose_delay_s=0.003)
    write_flight(tmp_path / "log", 6.0, crazyflie(), 10, swing=0.001)
    with open_bag(tmp_path / "log") as bag:
        found = align_recorder([bag], "/quad", before)
    assert not found.told
    assert len(found.undetermined) == 5
    assert found.applied(before) == before


def test_tilted_poses_are_levelled_by_the_accelerometer(flights):
    assert all("tilted by 0.0" in " ".join(flight.notes) for flight in flights)
    # with level attitudes the predicted specific force is that of the accelerometer, and with the
    # true mount the body of all logs is the same
    turned = as_recorded_by(flights[0], replace(flights[0].recorder, mount_rad=(0.0, 0.0, 0.0)))
    apart = np.linalg.norm(turned.v_B - flights[0].v_B, axis=1)
    assert apart.max() == pytest.approx(
        2.0 * np.sin(0.5 * flights[0].recorder.mount_rad[2])
        * np.linalg.norm(flights[0].v_B[:, :2], axis=1).max(), rel=0.05
    )  # fmt: skip


def test_a_rotor_whose_sensor_skips_is_told(tmp_path):
    path = tmp_path / "skips"
    write_flight(path, 4.0, crazyflie(), 3, shown=(1.0, 1.0, 0.5, 1.0))
    with open_bag(path) as bag:
        notes = read_recorded(bag, "/quad", crazyflie()).notes
    assert [note for note in notes if "skip" in note] == [
        "rotor 2 turns at 0.50 of the others' speed: does its sensor skip?"
    ]


def test_no_bound_is_so_far_away_that_the_search_crawls():
    for unknown in vehicle_unknowns(crazyflie(), GRAVITY):  # SciPy scales steps by the way to it
        assert unknown.high == np.inf or unknown.high < 100.0 * unknown.size
        assert unknown.low == -np.inf or unknown.low > -100.0 * unknown.size


def test_moments_that_no_body_has_are_not_told():
    """The roll's would have to be larger than the sum of the others; what pushes it there ends."""
    roll, _, yaw = crazyflie().inertia_kg_m2
    unknowns = [
        UnknownFigure("thrust_coefficient_N_s2", crazyflie().thrust_coefficient_N_s2),
        UnknownFigure("inertia_kg_m2[1]", roll, 0.2 * roll, 5.0 * roll),
    ]
    wanted = np.array([1.1 * crazyflie().thrust_coefficient_N_s2, 4.0 * roll])

    def errors(vehicle):
        off = start_figures(vehicle, unknowns) / wanted - 1.0
        return [10.0 * off + 0.1 * np.sin([k, 2 * k]) for k in range(8)]

    fit = fit_figures(crazyflie(), unknowns, errors)
    assert fit.values[0] == pytest.approx(wanted[0], rel=0.01)
    assert fit.vehicle.inertia_kg_m2[1] == pytest.approx(roll + yaw, rel=1e-6)
    assert fit.told.tolist() == [True, False]


def test_a_figure_is_told_by_its_own_interval_and_named_on_its_bound():
    """A torque ratio of 0.0005 +- 0.0009 is not told, whatever the file has; a drag may be zero."""
    found = {}
    for name, value, half in (
        ("torque_ratio_m", 0.0005, 0.0009),
        ("inertia_kg_m2[0]", 5.0 * crazyflie().inertia_kg_m2[0], 1e-7),
        ("rotor_drag_N_s2", 0.0, 1e-8),
        ("rotor.hub_moment_N_s2", 1e-9, 2e-9),
    ):
        unknown = next(x for x in vehicle_unknowns(crazyflie(), GRAVITY) if x.name == name)
        fit = Fit(crazyflie(), (unknown,), np.array([value]), np.array([half]), 8)
        found[name] = (*fit.told.tolist(), *fit.bound.tolist())
    assert found == {
        "torque_ratio_m": (False, False),
        "inertia_kg_m2[0]": (True, True),
        "rotor_drag_N_s2": (True, True),
        "rotor.hub_moment_N_s2": (True, False),
    }


def test_a_figure_on_its_bound_is_said(flights):
    alignment = Alignment(np.zeros(7), np.zeros(7))
    unknown = UnknownFigure("rotor_drag_N_s2", 1e-6, 0.0)
    fit = Fit(crazyflie(), (unknown,), np.array([0.0]), np.array([1e-8]), 8)
    found = FlightsFit(fit, {}, crazyflie())
    result = flights_summary(found, flights, alignment)
    assert result["figures"][0]["origin"] == "bound"
    assert (
        "rotor_drag_N_s2 ended on its bound, 0: the flights may want it beyond" in result["notes"]
    )


def test_a_file_without_a_residual_has_room_for_one(flights):
    """Its sixteen numbers are asked for of the file as it is, too, for the table."""
    assert crazyflie().recorder.torque_residual == ()
    unknowns = residual_unknowns(crazyflie(), GRAVITY)
    assert start_figures(crazyflie(), unknowns).tolist() == [0.0] * 16


@pytest.mark.parametrize(
    ("name", "factor", "change"),
    [
        ("mass", 1.05, lambda v: replace(v, mass_kg=v.mass_kg / 1.05)),
        ("mass", 1.75, lambda v: replace(v, mass_kg=v.mass_kg / 1.75)),
        ("inertia", 1.2, lambda v: replace(v, inertia_kg_m2=by(1.0 / 1.2, v.inertia_kg_m2))),
        ("inertia", 0.4, lambda v: replace(v, inertia_kg_m2=by(2.5, v.inertia_kg_m2))),
    ],
)
def test_the_figure_that_is_off_is_named(flights, name, factor, change):
    file = change(replace(crazyflie(), recorder=flights[0].recorder))
    stretches = [part for flight in flights for part in cut_flight(flight, 3)]
    first = rank_suspects(stretches, file, GRAVITY)[0]
    assert first.name == name
    assert first.factor == pytest.approx(factor, rel=0.05)


def by(factor, values):
    return tuple(factor * value for value in values)


def test_a_log_without_velocities_needs_the_fit_of_motions(logs, tmp_path):
    output = str(tmp_path / "mine.yaml")
    args = ["identify", str(logs[0]), "--vehicle", "crazyflie2", "--output", output]
    result = CliRunner().invoke(main, args)
    assert result.exit_code == 2
    assert "add --flights" in result.output


def test_identify_writes_a_file_of_several_logs(logs, tmp_path):
    """Begun at a thrust and moments that are off: they come back; other figures stay the file's."""
    path, wrong = tmp_path / "mine.yaml", tmp_path / "wrong.yaml"
    content = yaml.safe_load(find("vehicles", "crazyflie2").read_text())
    content["thrust_coefficient_N_s2"] *= 1.03
    content["inertia_kg_m2"] = [*by(1.1, content["inertia_kg_m2"][:2]), content["inertia_kg_m2"][2]]
    wrong.write_text(yaml.safe_dump(content))
    args = ["identify", *map(str, logs), "--vehicle", str(wrong), "--output", str(path)]
    result = CliRunner().invoke(main, [*args, "--json"])
    assert result.exit_code in (0, 1), result.output
    figures = {each["name"]: each for each in json.loads(result.stdout)["figures"]}
    mount = figures["recorder.mount_rad[2]"]
    assert mount["low"] - 0.005 < MOUNT_RAD[2] < mount["high"] + 0.005
    assert mount["file_value"] == 0.0
    found, true = load(VehicleParams, path), crazyflie()
    assert found.thrust_coefficient_N_s2 == pytest.approx(true.thrust_coefficient_N_s2, rel=0.01)
    assert found.inertia_kg_m2[:2] == pytest.approx(true.inertia_kg_m2[:2], rel=0.03)
    assert found.recorder.mount_rad[2] == pytest.approx(mount["value"], rel=1e-4)
    assert len(found.recorder.torque_memory) == 12
    assert "+-" in path.read_text(encoding="utf-8")
    assert yaml.safe_load(path.read_text(encoding="utf-8"))["mass_kg"] == true.mass_kg
