"""Campaigns that fly: the same table however they are flown, interrupted or broken."""

import json
import os
import re
import resource
import signal
import time
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from jobs_that_die import hang

from quadsim.base.errors import InputError
from quadsim.cli import campaign as command
from quadsim.cli.main import main
from quadsim.lab.campaign import record as record_module
from quadsim.lab.campaign.batch import Processes, stream_results
from quadsim.lab.campaign.flying import Terms, fly_campaign, fly_run, prepare_campaign
from quadsim.lab.campaign.plan import load_campaign
from quadsim.lab.campaign.record import (
    CONTENTS,
    LINES,
    LOCK,
    TABLE,
    TIMES,
    CampaignRecord,
    read_table,
    write_tables,
)
from quadsim.sim.library import OtherFileError

PATIENCE_S = 120.0

#: Six flights of three seconds: up a little and down again.
CAMPAIGN = """
scenario: hover
method: latin_hypercube
samples: 6
seed: 5
pass_share: 0.5
set:
  fly_on: truth
  duration_s: 12.0
  mission: [{takeoff: {height_m: 0.3}}, {land: {}}]
  criteria: [{value: tracking.position_rmse_m, limit: 0.5}]
vary:
  vehicle.mass_kg: {range: [1.9, 2.2]}
  environment.wind_W_mps.0: {range: [-3.0, 3.0]}
"""


class Here(Executor):
    """Does every job at once, in this process."""

    def submit(self, work, /, *arguments, **keys):
        future = Future()
        try:
            future.set_result(work(*arguments, **keys))
        except Exception as error:
            future.set_exception(error)
        return future


class Alone:
    """A pool of this process alone, one job at a time."""

    death, all_die, task_s = BrokenProcessPool, False, 0.0

    def executor(self):
        return Here()

    def width(self):
        return 1

    def end(self, underway):
        pass


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "some.yaml"
    path.write_text(CAMPAIGN)
    return path


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory):
    """The campaign flown once: its folder, and the bytes of its table."""
    folder = tmp_path_factory.mktemp("campaign")
    path = folder / "some.yaml"
    path.write_text(CAMPAIGN)
    campaign = load_campaign(str(path))
    flown = fly_campaign(campaign, prepare_campaign(campaign), folder / "out", Alone())
    assert (flown.flown, flown.left) == (6, 0)
    return folder / "out", (folder / "out" / TABLE).read_bytes()


def test_the_table_has_a_row_for_each_run(undisturbed):
    folder, _ = undisturbed
    table = read_table(folder / TABLE)
    campaign = load_campaign(str(folder.parent / "some.yaml"))
    assert list(table["run"]) == list(range(6))
    assert list(table["seed"]) == [5, 6, 7, 8, 9, 10]
    for number in range(6):
        values = campaign.run(number).values
        assert {name: table[name][number] for name in values} == values
    assert set(table["status"]) == {"passed"}
    assert all(0.0 < value < 0.5 for value in table["criterion.tracking.position_rmse_m"])
    assert len(set(table["digest"])) == 6
    times = read_table(folder / TIMES)
    assert all(value > 0.0 for value in times["wall_s"])
    assert "wall_s" not in table


def fly_until_killed(path: Path, folder: Path, rows: int) -> int:
    """Fly in a process of its own, resuming, which stops at so many rows, and kill it there."""
    campaign = load_campaign(str(path))
    contents = prepare_campaign(campaign)  # in this process: the child has its kernels
    child = os.fork()
    if child == 0:
        try:
            fly_campaign(
                campaign, contents, folder, Alone(), resume=True,
                progress=lambda done, *_: done >= rows and signal.pause(),
            )  # fmt: skip
        finally:
            os._exit(1)
    lines, until_s = folder / LINES, time.monotonic() + PATIENCE_S
    while not (lines.is_file() and lines.read_bytes().count(b"\n") >= rows):
        assert time.monotonic() < until_s, f"never {rows} rows"
        assert os.waitpid(child, os.WNOHANG) == (0, 0), "it ended by itself"
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return lines.read_bytes().count(b"\n")


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded, use of fork")
def test_killed_twice_it_ends_with_the_same_table(undisturbed, path, tmp_path):
    folder = tmp_path / "out"
    first = fly_until_killed(path, folder, 1)
    # as if the kill had come within a write
    with (folder / LINES).open("ab") as file:
        file.write(b'{"run":5,"status":"pas')
    second = fly_until_killed(path, folder, first + 2)
    assert 1 <= first < second < 6
    assert not (folder / TABLE).exists()
    campaign = load_campaign(str(path))
    flown = fly_campaign(campaign, prepare_campaign(campaign), folder, Alone(), resume=True)
    assert flown.flown == 6 - second
    assert (folder / TABLE).read_bytes() == undisturbed[1]


def test_a_dask_cluster_flies_the_same(undisturbed, path, tmp_path):
    distributed = pytest.importorskip("distributed")
    from quadsim.lab.campaign.batch import Cluster

    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
    )
    with cluster, Cluster(cluster.scheduler_address) as pool:
        campaign = load_campaign(str(path))
        fly_campaign(campaign, prepare_campaign(campaign), tmp_path / "out", pool)
    assert (tmp_path / "out" / TABLE).read_bytes() == undisturbed[1]


def test_without_a_scheduler_it_says_so():
    pytest.importorskip("distributed")
    from quadsim.lab.campaign.batch import Cluster

    with pytest.raises(InputError, match="no scheduler answers there; start one: dask scheduler"):
        Cluster("tcp://127.0.0.1:1", patience_s=0.5)


def run_of(text, path, number=0, limit_s=60.0):
    path.write_text(text)
    campaign = load_campaign(str(path))
    return fly_run(Terms(limit_s, (), (), False), campaign.run(number))


def test_a_run_that_cannot_fly_is_a_row_with_its_reason(path):
    row = run_of(CAMPAIGN.replace("[1.9, 2.2]", "[-2.0, -1.0]"), path)
    assert row["status"] == "broken"
    assert row["reason"].startswith("config/vehicles/x500.yaml with mass_kg set: mass_kg: -1")
    assert "digest" not in row


def test_a_run_that_takes_too_long_is_a_row(path):
    row = run_of(CAMPAIGN, path, limit_s=1e-6)
    assert (row["status"], row["reason"]) == ("broken", "took longer than 1e-06 s")


def test_a_run_that_misses_its_criteria_says_by_how_much(path):
    row = run_of(CAMPAIGN.replace("limit: 0.5", "limit: 0.001"), path)
    assert row["status"] == "failed"
    assert row["missed"] == "tracking.position_rmse_m"
    value = row["criteria"]["tracking.position_rmse_m"]
    assert row["reason"] == f"tracking.position_rmse_m {value:.4g} > 0.001"
    assert row["of_limit"] == pytest.approx(1000.0 * value)


def test_other_files_than_planned_end_the_campaign(path, tmp_path):
    campaign = load_campaign(str(path))
    contents = prepare_campaign(campaign)
    contents["files"]["config/scenarios/hover.yaml"] = "0" * 64
    for attempt in ("out", "again"):  # a process that refused a file once does so the next time
        with pytest.raises(OtherFileError, match=r"hover\.yaml: is not the file"):
            fly_campaign(campaign, contents, tmp_path / attempt, Alone())
    contents["versions"]["numpy"] = "0.1"
    with pytest.raises(OtherFileError, match=r"numpy .* flies there, 0\.1 here"):
        fly_campaign(campaign, contents, tmp_path / "other", Alone())


def test_a_factor_of_which_no_value_is_right_is_refused_before_any_flight(path):
    for change, words in (
        (("vehicle.mass_kg", "vehicle.mas_kg"), "unknown key 'mas_kg'"),
        (("[1.9, 2.2]", "[-2.0, -1.0]"), "out of range"),
        (("scenario: hover", "scenario: hoover"), "unknown scenario 'hoover'"),
        (("value: tracking.position_rmse_m", "signal: nothing"), "signal: 'nothing'"),
    ):
        path.write_text(CAMPAIGN.replace(*change))
        with pytest.raises(InputError, match=words):
            prepare_campaign(load_campaign(str(path)))


def test_a_folder_belongs_to_one_campaign(tmp_path):
    folder = tmp_path / "out"
    with CampaignRecord(folder, {"seed": 1, "set": {"a": 2}}, 3, False) as record:
        record.add(1, {"status": "passed"})
        with pytest.raises(InputError, match="another process flies this campaign"):
            CampaignRecord(folder, {"seed": 1, "set": {"a": 2}}, 3, True)
    with pytest.raises(InputError, match="go on with --resume"):
        CampaignRecord(folder, {"seed": 1, "set": {"a": 2}}, 3, False)
    with pytest.raises(InputError, match=r"other contents \(set\.a was 2, is 3\)"):
        CampaignRecord(folder, {"seed": 1, "set": {"a": 3}}, 3, True)
    with CampaignRecord(folder, {"seed": 1, "set": {"a": 2}}, 3, True) as record:
        assert list(record.left()) == [0, 2]
        assert list(record.rows()) == [{"run": 1, "status": "passed"}]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").touch()
    with pytest.raises(InputError, match="no campaign's"):
        CampaignRecord(tmp_path / "mine", {}, 3, True)


def test_what_a_kill_before_the_first_run_leaves_is_gone_on_with(tmp_path):
    for names in (["lock"], ["lock", "rows.jsonl"], ["lock", ".campaign.json.77"]):
        folder = tmp_path / names[-1]
        folder.mkdir()
        for name in names:
            (folder / name).touch()
        with CampaignRecord(folder, {"seed": 1}, 1, False):
            pass
        with CampaignRecord(folder, {"seed": 1}, 1, False) as record:  # again before the first row
            record.add(0, {"status": "passed"})
        with pytest.raises(InputError, match="go on with --resume"):
            CampaignRecord(folder, {"seed": 1}, 1, False)


def test_another_s_first_row_is_seen_though_it_comes_after_the_first_look(tmp_path, monkeypatch):
    """Between the look and the lock another process flies all of another campaign."""
    locked = record_module._locked

    def late(folder):
        monkeypatch.setattr(record_module, "_locked", locked)
        with CampaignRecord(folder, {"seed": 2}, 1, False) as record:
            record.add(0, {"status": "passed"})
        return locked(folder)

    monkeypatch.setattr(record_module, "_locked", late)
    with pytest.raises(InputError, match=r"other contents \(seed was 2, is 1\)"):
        CampaignRecord(tmp_path / "out", {"seed": 1}, 1, False)
    with CampaignRecord(tmp_path / "out", {"seed": 2}, 1, True) as record:  # the lock was let go
        assert len(record) == 1


@contextmanager
def files_at_most(size):
    """No file of this process may grow beyond a size in bytes, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def keep(record, rows):
    for number, row in enumerate(rows):
        record.add(number, row)


def test_a_full_disk_costs_the_row_that_it_does_not_take(path, tmp_path):
    folder = tmp_path / "out"
    row = {"status": "broken", "reason": "x" * 50}
    words = rf"^{re.escape(str(folder / LINES))}: cannot be written \(File too large\); .*--resume$"
    with CampaignRecord(folder, {}, 6, False) as record:
        with files_at_most(250), pytest.raises(InputError, match=words):
            keep(record, [row] * 6)
        kept = (folder / LINES).read_bytes()
        assert 1 < len(record) < 6
    assert [json.loads(line)["run"] for line in kept.splitlines()] == list(range(len(record)))
    assert kept.endswith(b"\n")
    words = rf"^{re.escape(str(folder / TABLE))}: cannot be written .*--resume$"
    with CampaignRecord(folder, {}, 6, True) as record:
        assert len(record) == kept.count(b"\n")
        (folder / f".{TABLE}.part").touch()  # as a kill leaves it
        with files_at_most(250), pytest.raises(InputError, match=words):
            write_tables(load_campaign(str(path)), record)
        record.add(5, row)
        write_tables(load_campaign(str(path)), record)
    assert sorted(item.name for item in folder.iterdir()) == sorted(
        [CONTENTS, LINES, LOCK, TABLE, TIMES]
    )


def quadsim(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_the_command_flies_reports_and_repeats_a_run(undisturbed, path, tmp_path):
    folder = tmp_path / "out"
    done = quadsim("campaign", path, "--output", folder, "--processes", 1, "--json")
    assert done.exit_code == 0, done.output
    summary = json.loads(done.stdout)
    assert summary == json.loads((folder / "summary.json").read_text())
    assert summary["passed"]
    assert summary["success"]["passed"] == summary["runs"] == summary["flown"] == 6
    assert summary["states"] == {"passed": 6, "failed": 0, "broken": 0}
    assert (folder / TABLE).read_bytes() == undisturbed[1]
    page = (folder / "report.html").read_text()
    assert not re.search(r'<(script|link|img)[^>]*(src|href)="', page)  # nothing from elsewhere
    worst = summary["worst"][0]
    for words in (worst["digest"], "100 %", "sensitivity", "vehicle.mass_kg"):
        assert words in page
    # by its number, and by the command of its changes
    again = quadsim("campaign", path, "--output", folder, "--run", worst["run"], "--json")
    assert again.exit_code == 0, again.output
    repeated = json.loads(again.stdout)
    assert repeated["digest"] == worst["digest"]
    assert "the digest is that of the run" in repeated["notes"][0]
    words = [word.strip("'") for word in re.findall(r"'[^']*'|\S+", worst["command"])][1:]
    alone = quadsim(*words, "--no-report", "--output", tmp_path / "alone", "--json")
    assert json.loads(alone.stdout)["digest"] == worst["digest"]


def test_ctrl_c_keeps_what_was_flown_and_says_how_to_go_on(
    undisturbed, path, tmp_path, monkeypatch
):
    folder = tmp_path / "out"
    counting = command.counting

    class Interrupted:
        """Ctrl-C after the second flight."""

        def __init__(self, label):
            self._counting = counting(label)

        def __enter__(self):
            self._counting.__enter__()
            return self

        def __exit__(self, *error):
            return self._counting.__exit__(*error)

        def __call__(self, done, total, note=""):
            if done == 2:
                raise KeyboardInterrupt

    class Here(Alone):
        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

    monkeypatch.setattr("quadsim.lab.campaign.batch.Processes", lambda count: Here())
    monkeypatch.setattr(command, "counting", Interrupted)
    done = quadsim("campaign", path, "--output", folder)
    assert done.exit_code == 130
    assert f"continue with: quadsim campaign {path} --output {folder} --resume" in done.stderr
    assert len(read_table(folder / TABLE)["run"]) == 2
    monkeypatch.setattr(command, "counting", counting)
    assert quadsim("campaign", path, "--output", folder).exit_code == 2
    assert quadsim("campaign", path, "--output", folder, "--resume").exit_code == 0
    assert (folder / TABLE).read_bytes() == undisturbed[1]


def test_a_run_that_hangs_where_it_sees_no_clock_is_ended():
    jobs = [Terms(limit_s, (), (), True) for limit_s in (60.0, 0.1, 60.0)]
    with Processes(2) as pool:
        found = dict(stream_results(hang, jobs, pool, lambda job: "died"))
    assert found == {0: "done", 1: "died", 2: "done"}
