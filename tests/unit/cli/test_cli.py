"""The command: overview, usage, errors as one line, exit status, and what stays on stdout."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import click
import pytest
from click.testing import CliRunner

from quadsim import __version__
from quadsim.base.errors import FlightError, InputError
from quadsim.cli import common, main


def run(*arguments: str):
    """The command in this process; stdout and stderr apart."""
    return CliRunner().invoke(main.main, list(arguments))


@pytest.fixture
def command(monkeypatch):
    """A subcommand made of a function, as ``quadsim try``."""

    def make(function):
        monkeypatch.setitem(main.COMMANDS, "try", (__name__, "made", "An attempt."))
        monkeypatch.setattr(sys.modules[__name__], "made", click.command()(function), raising=False)

    return make


def test_the_overview_names_every_command_and_imports_none():
    code = (
        "import sys\n"
        "from quadsim.cli.main import main\n"
        "try:\n    main(['--help'])\n"
        "except SystemExit as end:\n    assert end.code == 0\n"
        "heavy = {'numpy', 'numba', 'rich', 'plotly', 'rosbags', 'rclpy'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for name in main.COMMANDS:
        assert f"  {name} " in done.stdout


def test_a_flight_imports_only_what_it_needs(tmp_path):
    """With its report, which plotly's Python half describes and its script draws."""
    code = (
        "import sys\n"
        "from quadsim.cli.main import main\n"
        "try:\n"
        f"    main('sim --scenario hover --duration 2 --output {tmp_path}/run'.split())\n"
        "except SystemExit as end:\n    assert end.code == 1\n"
        "print(*sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (tmp_path / "run" / "report.html").is_file()
    needless = {
        "rasterio", "trimesh", "allantools", "rclpy", "apsw", "rosbags.rosbag2",
        "scipy.stats", "scipy.special", "scipy.spatial", "scipy.optimize",
        "scipy.signal", "scipy.ndimage", "matplotlib", "pyarrow", "dask",
    }  # fmt: skip
    imported = set(done.stdout.split())
    assert "quadsim.sim.closed_loop" in imported
    assert not needless & imported


def test_the_version():
    result = run("--version")
    assert result.exit_code == 0
    assert __version__ in result.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nonsense"], "No such command 'nonsense'"),
        (["sim", "--nonsense"], "No such option"),
        (["sim", "--seed", "-1"], "-1 is not in the range"),
        (["replay"], "Missing argument 'BAG...'"),
        (["replay", "x", "--settle", "soon"], "'soon' is not a valid float"),
        (["replay", "x", "--datum", "1,2"], "is not LAT,LON,H"),
        (["replay", "x", "--settle", "nan"], "nan is not a finite number"),
        (["replay", "x", "--settle", "inf"], "inf is not a finite number"),
        *(
            ([name], "Missing argument")
            for name in ("convert", "campaign", "rehearse", "new", "firmware", "validate")
        ),
        (["new", "controller"], "Missing argument 'NAME'"),
        *(([name], "Missing command") for name in ("sensors", "model", "experiment")),
    ],
)
def test_bad_usage_is_one_line_and_status_2(arguments, words):
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("quadsim: error: ")
    assert words in line
    assert "--help" in line


def test_no_command_shows_the_overview_and_is_bad_usage():
    result = run()
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Commands:" in result.stderr


@pytest.mark.parametrize(
    ("error", "status"),
    [(InputError("a.yaml: mass_kg:\n-1 is out of range"), 2), (FlightError("a node died"), 1)],
)
def test_errors_are_one_line_with_their_status(command, error, status):
    def fail() -> None:
        raise error

    command(fail)
    result = run("try")
    assert result.exit_code == status
    assert result.stdout == ""
    assert result.stderr == f"quadsim: error: {' '.join(str(error).split())}\n"


def test_an_error_of_ours_is_not_hidden(command):
    """A programming error keeps its traceback."""

    def fail() -> None:
        raise ZeroDivisionError

    command(fail)
    assert isinstance(run("try").exception, ZeroDivisionError)


@pytest.mark.parametrize(("to", "words"), [("/dev/full", "No space left"), ("|", "")])
def test_an_output_that_cannot_be_written_is_one_line_and_status_1(to, words):
    """A disk that is full, and a reader that is gone."""
    code = (
        "import click\n"
        "from quadsim.cli import main\n"
        "main.COMMANDS['try'] = ('__main__', 'made', 'An attempt.')\n"
        "made = click.command()(lambda: click.echo('x' * 1_000_000))\n"
        "main.main(['try'])\n"
    )
    if to == "|":
        read, write = os.pipe()
        os.close(read)
    else:
        write = os.open(to, os.O_WRONLY)
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=write, stderr=subprocess.PIPE, check=False
    )
    os.close(write)
    assert done.returncode == 1
    lines = done.stderr.decode().splitlines()
    assert len(lines) == bool(words)
    assert all("quadsim: error: the output cannot be written" in line for line in lines)
    assert words in done.stderr.decode()


def test_ctrl_c_is_status_130_without_a_traceback():
    code = (
        "import signal, time, click\n"
        # a test that runs in the background inherits that SIGINT is ignored
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from quadsim.cli import main\n"
        "import types, sys\n"
        "module = types.ModuleType('slow')\n"
        "@click.command()\n"
        "def slow():\n    print('ready', flush=True)\n    time.sleep(60)\n"
        "module.slow = slow\n"
        "sys.modules['slow'] = module\n"
        "main.COMMANDS['slow'] = ('slow', 'slow', '')\n"
        "main.main(['slow'])\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in stderr
    assert "quadsim: interrupted" in stderr


def test_run_folders_are_never_taken_twice(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first = common.run_folder("square", None)
    first.mkdir(parents=True)
    second = common.run_folder("square", None)
    assert first != second
    assert first.parent.name == "runs"
    assert common.run_folder("config/my.yaml", None).name.startswith("my-")
    named = tmp_path / "named"
    assert common.run_folder("square", named) == named
    named.mkdir()
    assert common.run_folder("square", named) == named  # empty is free
    (named / "summary.json").write_text("{}")
    with pytest.raises(InputError, match="exists already"):
        common.run_folder("square", named)


def test_a_staged_folder_is_there_whole_or_not_at_all(tmp_path):
    target = tmp_path / "runs" / "one"
    with common.staged(target) as scratch:
        (scratch / "a").write_text("a")
        assert not target.exists()
    assert (target / "a").read_text() == "a"

    def fail() -> None:
        with common.staged(tmp_path / "two") as scratch:
            (scratch / "a").write_text("a")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs"]
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["one"]


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(InputError, match="cannot be written"),
        common.staged(tmp_path / "file" / "run"),
    ):
        pass


def test_progress_off_a_terminal_is_a_line_now_and_then(capsys):
    now = [100.0]
    with common.FlightProgress("square", 40.0, quiet_s=10.0, clock=lambda: now[0]) as progress:
        for step in range(251):
            now[0] = 100.0 + step * 0.1
            progress.update(step * 0.2, height_m=1.5, state="mission")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "quadsim: square: 20.0 of 40 s, 2.00 x real time, height 1.5 m, mission",
        "quadsim: square: 40.0 of 40 s, 2.00 x real time, height 1.5 m, mission",
    ]


def test_replay_scores_a_bag(circle_bag):
    result = run("replay", str(circle_bag), "--settle", "4", "--json")
    assert result.exit_code == 0, result.stderr
    summary = json.loads(result.stdout)
    assert summary["estimator"]["name"] == "eskf"
    # sensors without noise: what is left is the start, which happens in a turn of 0.14 g
    assert summary["estimator"]["position_rmse_m"] < 0.1
    assert summary["estimator"]["tilt_rmse_rad"] < 0.05
    assert summary["estimators"].keys() == {"eskf"}
    assert summary["counts"]["eskf"]["imu_received"] == 1200
    assert summary["duration_s"] == pytest.approx(11.99)
    assert summary["scenario"] == "circle"


def test_replay_is_repeatable_and_takes_several_estimators(circle_bag, tmp_path):
    page, copy = tmp_path / "out" / "page.html", tmp_path / "out" / "copy.json"
    several = ["--estimator", "blind", "--estimator", "eskf", "--json"]
    first = run("replay", str(circle_bag), *several, "--report", str(page), "--output", str(copy))
    second = run("replay", str(circle_bag), *several)
    one, two = json.loads(first.stdout), json.loads(second.stdout)
    assert one["digest"] == two["digest"]
    assert list(one["estimators"]) == ["blind", "eskf"]
    assert one["estimator"]["name"] == "blind"
    assert json.loads(copy.read_text()) == one
    assert "Path from above" in page.read_text(encoding="utf-8")


def test_replay_prints_a_table_for_people(circle_bag):
    result = run("replay", str(circle_bag))
    assert result.exit_code == 0
    assert "eskf" in result.stdout
    assert "position" in result.stdout


def test_replay_without_a_datum_says_how_to_give_one(circle_rows, write_rows):
    bag = write_rows([item for item in circle_rows if item.topic != "/datum"])
    result = run("replay", str(bag), "--json")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.splitlines()[-1] == (
        f"quadsim: error: {bag}: no /datum; say where map begins with --datum LAT,LON,H"
    )
    result = run("replay", str(bag), "--json", "--datum", "47.397742,8.545594,488")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["estimator"]["position_rmse_m"] < 0.1


def test_replay_says_what_is_absent_where_nothing_starts(circle_rows, write_rows):
    rows = [row for row in circle_rows if "/gps/" not in row.topic]
    result = run("replay", str(write_rows(rows)), "--json")
    assert result.exit_code == 1
    notes = json.loads(result.stdout)["notes"]
    assert "eskf: never started" in str(notes)
    assert any(note.startswith("no message on gps/fix") for note in notes)


def test_replay_says_that_nothing_is_left_to_score(circle_bag):
    result = run("replay", str(circle_bag), "--json", "--settle", "1000")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert found["estimator"]["position_rmse_m"] is None
    assert "it ends within 1000 s (--settle): nothing is scored" in found["notes"]


def test_replay_of_a_cut_bag_says_so(circle_bag):
    (path,) = circle_bag.glob("*.mcap")
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 3 // 4])
    result = run("replay", str(circle_bag), "--json")
    assert result.exit_code == 0
    notes = json.loads(result.stdout)["notes"]
    (note,) = (words for words in notes if not words.startswith("assumed: "))
    assert "cut short; repaired" in note


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["missing"], "missing: no such bag"),
        (["{bag}", "--namespace", "/drone"], "no topic /drone/imu/data_raw"),
        (
            ["{bag}", "--estimator", "magic"],
            "unknown estimator 'magic'; known: eskf, ekf7, gps_ins, blind",
        ),
        (["{bag}", "--config", "magic"], "unknown estimator 'magic'"),
        (["{bag}", "--datum", "91,0,0"], "--datum: latitude_deg: 91.0 is out of range"),
        (["{bag}", "--report", "page.txt"], "a report ends in .html"),
        (["{bag}", "--publish", "--estimator", "ekf7"], "--estimator: not with --publish"),
        (["{bag}", "--publish", "--report", "page.html"], "--report: not with --publish"),
    ],
)
def test_bad_input_of_replay_is_named(circle_bag, arguments, words):
    result = run("replay", *(text.format(bag=circle_bag) for text in arguments))
    assert result.exit_code == 2
    assert result.stdout == ""
    line = result.stderr.splitlines()[-1]
    assert line.startswith("quadsim: error: ")
    assert words in line


def test_doctor_tells_what_is_there(monkeypatch):
    from quadsim.cli import doctor

    monkeypatch.setattr(
        doctor, "probe_dds", lambda: {"works": True, "seconds": 0.1, "reason": None}
    )
    result = run("doctor", "--json")
    found = json.loads(result.stdout)
    assert found["quadsim"] == __version__
    assert found["required"]["numba"]["installed"] is True
    assert set(found["optional"]) >= {"tf2_msgs", "mavros_msgs", "px4_msgs", "chromium"}
    assert found["kernels"]["folder"] == os.environ["NUMBA_CACHE_DIR"]
    assert result.exit_code == (0 if found["passed"] else 1)
    assert "DDS: works" in run("doctor").stdout


def test_doctor_says_what_is_wrong(monkeypatch):
    from quadsim.cli import doctor

    monkeypatch.setitem(doctor.REQUIRED, "no_such_package", "testing")
    monkeypatch.setattr(
        doctor, "probe_dds", lambda: {"works": False, "seconds": None, "reason": "no network"}
    )
    result = run("doctor", "--json")
    assert result.exit_code == 1
    problems = json.loads(result.stdout)["problems"]
    assert any("no_such_package is missing" in problem for problem in problems)


def test_doctor_gives_up_on_a_silent_network(monkeypatch):
    pytest.importorskip("rclpy")
    from quadsim.cli import doctor

    begin_s = time.monotonic()
    found = doctor.probe_dds(timeout_s=0.01)
    assert (found["works"], found["seconds"]) == (False, None)
    assert re.fullmatch(r"no message within 0.01 s; load [\d.]+ on \d+ processors", found["reason"])
    assert time.monotonic() - begin_s < 10.0


@pytest.mark.graph
def test_doctor_passes_a_message_over_dds():
    pytest.importorskip("rclpy")
    from quadsim.cli import doctor

    found = doctor.probe_dds()
    assert found["works"] is True, found["reason"]
    assert 0.0 < found["seconds"] < 20.0


def test_sim_flies_the_square_and_writes_its_folder(tmp_path):
    folder = tmp_path / "run"
    result = run("sim", "--scenario", "square", "--output", str(folder), "--json")
    assert result.exit_code == 0, result.stderr
    summary = json.loads(result.stdout)
    assert json.loads((folder / "summary.json").read_text(encoding="utf-8")) == summary
    assert summary["scenario"] == "square"
    assert summary["passed"] is True
    assert summary["criteria"]
    assert summary["report"] == str(folder / "report.html")
    assert "Path from above" in (folder / "report.html").read_text(encoding="utf-8")
    again = run("sim", "--output", str(tmp_path / "again"), "--no-report", "--json")
    assert json.loads(again.stdout)["digest"] == summary["digest"]
    assert [path.name for path in (tmp_path / "again").iterdir()] == ["summary.json"]
    other = run("sim", "--seed", "2", "--output", str(tmp_path / "two"), "--no-report", "--json")
    assert json.loads(other.stdout)["digest"] != summary["digest"]


def test_sim_that_fails_its_criteria_is_status_1(tmp_path):
    """A flight cut short has not ended its mission."""
    folder = tmp_path / "run"
    result = run("sim", "--duration", "5", "--output", str(folder), "--no-report", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["passed"] is False
    assert (folder / "summary.json").is_file()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--scenario", "nowhere"], "unknown scenario 'nowhere'; known: "),
        (["--vehicle", "brick"], "'brick'"),
        (["--sensors", "magic"], "'magic'"),
        (["--duration", "-1"], "duration_s: -1.0 is out of range"),
        (["--output", "{taken}"], "exists already"),
    ],
)
def test_bad_input_of_sim_leaves_nothing(tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "file").write_text("")
    result = run("sim", *(text.format(taken=taken) for text in arguments))
    assert result.exit_code == 2
    assert result.stdout == ""
    line = result.stderr.splitlines()[-1]
    assert line.startswith("quadsim: error: ")
    assert words in line
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
