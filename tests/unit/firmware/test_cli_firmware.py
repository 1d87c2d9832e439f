"""``quadsim firmware``: a summary, and one line where something cannot be."""

import json

import pytest
from click.testing import CliRunner

from quadsim.cli import main
from quadsim.firmware import ardupilot

pytest.importorskip("pymavlink")


def call(*arguments):
    return CliRunner().invoke(main.main, list(map(str, arguments)))


def test_a_flight_has_a_summary_and_a_bag(stand_in, tmp_path):
    executable, run, bag = stand_in("ardupilot"), tmp_path / "run", tmp_path / "bag"
    called = call(
        "firmware", "ardupilot", "--executable", executable, "--scenario", "hover", "--json",
        "--no-report", "--output", run, "--bag", bag, "--duration", 40,
    )  # fmt: skip
    summary = json.loads(called.stdout)
    assert summary["firmware"]["name"] == "ardupilot"
    assert summary["firmware"]["packets"][0]["lost"] == 0
    assert summary["firmware"]["parameters"].endswith("config/firmware/ardupilot_x500.txt")
    assert summary["estimator"]["name"] == "ardupilot"
    assert summary["estimator"]["position_rmse_m"] < 0.1
    assert (run / "summary.json").is_file()
    assert (bag / "metadata.yaml").is_file()


def test_a_firmware_that_stops_keeps_the_bag(stand_in, tmp_path):
    executable, bag = stand_in("ardupilot", stop=2000), tmp_path / "bag"
    called = call(
        "firmware", "ardupilot", "--executable", executable, "--scenario", "hover", "--bag", bag,
        "--output", tmp_path / "run",
    )  # fmt: skip
    assert called.exit_code == 1
    assert "error: ardupilot: ended with status 7; it said: an internal error" in called.stderr
    assert (bag / "metadata.yaml").is_file()


@pytest.mark.parametrize("name", ["ardupilot", "px4"])
def test_a_firmware_that_ends_at_once_is_not_waited_for(name, tmp_path, monkeypatch):
    monkeypatch.setattr(f"quadsim.firmware.{name}.START_S", 3600.0)
    called = call(
        "firmware", name, "--executable", "/bin/true", "--scenario", "hover", "--output", tmp_path,
    )  # fmt: skip
    assert called.exit_code == 1
    assert f"{name}: ended with status 0; it said nothing" in called.stderr


@pytest.mark.parametrize("name", ["ardupilot", "px4"])
def test_a_rehearsal_is_flown_by_firmware_on_poses_of_motion_capture(name, stand_in, tmp_path):
    """The stand-in checks each pose against the truth or its own estimate, and each setpoint."""
    called = call(
        "rehearse", "row", "--speed", 3, "--firmware", name, "--executable",
        stand_in(name), "--output", tmp_path / "run", "--json",
    )  # fmt: skip
    assert called.exit_code == 0, called.stderr
    (flown,) = json.loads(called.stdout)["runs"]
    assert (flown["arrived"], flown["collided"]) == (True, False)
    assert flown["speed_mps"] > 2.5
    assert 10.0 < flown["time_s"] < 30.0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--firmware", "inav"], "firmware 'inav'; known: betaflight, ardupilot, px4"),
        (["--executable", "/no/px4"], "only with firmware"),
        (["--rate", 0.5], "--rate: only with --firmware"),
        (["--firmware", "betaflight", "--rate", 0.5, "--dds"], "not with --dds, which is in real"),
        (["--firmware", "ardupilot", "--executable", "/no/px4"], "/no/px4: there is no such file"),
    ],
)
def test_a_rehearsal_refuses_what_is_no_firmware(arguments, words, tmp_path):
    called = call("rehearse", "row", *arguments, "--output", tmp_path / "run")
    assert called.exit_code == 2
    assert words in called.stderr
    assert "Traceback" not in called.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["inav"], "firmware 'inav'; known: betaflight, ardupilot, px4"),
        (["px4", "--executable", "/no/px4"], "/no/px4: there is no such file"),
        (["px4", "--auto"], "--auto: of ardupilot; px4 is sent setpoints"),
        (["ardupilot", "--port", "/dev/ttyACM0"], "--port: of a board with PX4"),
        (
            ["px4", "--vehicle", "thesis_helicopter"],
            "flies multirotors, the vehicle is a helicopter",
        ),
        (["betaflight", "--vehicle", "hexacopter"], "flies 4 rotors, the vehicle has 6"),
    ],
)
def test_what_cannot_be_is_one_line_and_status_2(arguments, words, tmp_path):
    called = call("firmware", *arguments, "--output", tmp_path / "run")
    assert called.exit_code == 2
    assert words in called.stderr
    assert called.stderr.count("error:") == 1


def test_no_firmware_is_one_line_and_status_1(tmp_path, monkeypatch):
    monkeypatch.setattr(ardupilot, "START_S", 0.3)
    called = call("firmware", "ardupilot", "--output", tmp_path / "run")
    assert called.exit_code == 1
    assert "error: ardupilot: nothing on tcp 5760" in called.stderr
