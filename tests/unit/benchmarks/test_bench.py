"""Figures of `quadsim bench`: statistics, targets, choice, and what becomes of a broken one."""

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from quadsim_bench import kept, peers, rounds, timing
from quadsim_bench import ratios as ratio_parts
from quadsim_bench.figure import Figure, Line, Measurement, Session, Unavailable

from quadsim.base.errors import FlightError, InputError
from quadsim.cli.main import main, only_in_a_checkout

FAST = Line("fast_x", "work", "x", "more", 100.0)
SLOW = Line("slow_ms", "work", "ms", "less", 5.0)
TOLD = Line("told_mb", "work", "MB", "less")


def made_of(samples: dict[str, list[float]], name: str = "work", **words) -> Measurement:
    """A measurement that gives these samples in turn."""
    turns = iter(range(1000))

    def once(session: Session) -> dict[str, object]:
        turn = next(turns)
        return {key: values[turn] for key, values in samples.items()} | words

    lines = tuple(line for line in (FAST, SLOW, TOLD) if line.name in samples)
    return Measurement(name, lines, once)


def broken(name: str, error: Exception) -> Measurement:
    def once(session: Session) -> dict[str, object]:
        raise error

    return Measurement(name, (Line(f"{name}_s", "work", "s", "less", 1.0),), once)


@pytest.fixture
def offered(monkeypatch):
    """The command knows these measurements alone."""

    def offer(*measurements: Measurement) -> None:
        monkeypatch.setattr(rounds, "all_measurements", lambda: list(measurements))

    return offer


def bench(*arguments: str):
    return CliRunner().invoke(main, ["bench", *arguments])


@pytest.mark.parametrize(
    ("line", "value", "passed"),
    [
        (FAST, 100.0, True),
        (FAST, 99.9, False),
        (SLOW, 5.0, True),
        (SLOW, 5.1, False),
        (TOLD, 1e9, None),
        (FAST, math.nan, False),
        (SLOW, math.nan, False),
    ],
)
def test_a_target_is_the_least_or_the_most_that_will_do(line, value, passed):
    assert Figure(line, (value,)).passed is passed


def test_rounds_take_turns_and_give_samples_in_their_order(tmp_path):
    told: list[str] = []
    wanted = rounds.chosen(
        [made_of({"fast_x": [3.0, 1.0, 2.0]}, "one"), made_of({"told_mb": [7.0, 8.0, 9.0]}, "two")]
    )
    outcome = rounds.measure(wanted, Session(tmp_path), 3, lambda name, done: told.append(name))
    assert told == ["one", "two"] * 3
    assert [figure.samples for figure in outcome.figures] == [(3.0, 1.0, 2.0), (7.0, 8.0, 9.0)]
    assert not outcome.passed  # 2 where 100 is wanted


def test_what_all_rounds_need_is_made_once(tmp_path):
    session, made = Session(tmp_path), []
    for _ in range(3):
        assert session.once("bag", lambda: made.append(1) or "bag") == "bag"
    assert made == [1]


def test_one_that_breaks_is_named_and_the_others_are_made(offered):
    offered(
        broken("crash", FlightError("it fell")),
        broken("missing", Unavailable("pip install it")),
        made_of({"fast_x": [200.0] * 3}, state="landed"),
    )
    result = bench("--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert found["failed"] == {"crash": "it fell"}
    assert found["absent"] == {"missing": "pip install it"}
    assert [figure["name"] for figure in found["figures"]] == ["fast_x"]
    assert [details["state"] for details in found["details"]["work"]] == ["landed"] * 3


def test_what_is_not_installed_is_no_failure(offered):
    offered(broken("missing", Unavailable("pip install it")), made_of({"told_mb": [1.0] * 3}))
    result = bench()
    assert result.exit_code == 0
    assert "missing: not measured: pip install it" in result.stdout


@pytest.mark.parametrize(("value", "status"), [(101.0, 0), (99.0, 1)])
def test_the_status_says_whether_targets_are_met(offered, value, status):
    offered(made_of({"fast_x": [value] * 3}))
    assert bench("--json").exit_code == status


def test_the_json_object_says_what_figures_depend_on(offered):
    offered(made_of({"fast_x": [300.0, 100.0, 200.0], "slow_ms": [1.0] * 3}))
    found = json.loads(bench("--json").stdout)
    assert found["figures"][0] == {
        "name": "fast_x",
        "value": 200.0,
        "unit": "x",
        "target": 100.0,
        "better": "more",
        "samples": [300.0, 100.0, 200.0],
        "passed": True,
        "what": "work",
    }
    assert found["passed"] is True
    assert found["repeat"] == 3
    assert {"processor", "cores", "cores_allowed"} <= found["machine"].keys()
    assert {"quadsim", "python", "numpy", "numba"} <= found["versions"].keys()
    assert len(found["load_before"]) == len(found["load_after"]) == 3
    assert "commit" in found


def test_figures_and_measurements_are_chosen_by_name_and_pattern():
    both = made_of({"fast_x": [1.0], "slow_ms": [1.0]})
    other = made_of({"told_mb": [1.0]}, "memory")

    def names(*only: str) -> list[str]:
        return [line.name for one in rounds.chosen([both, other], only) for line in one.lines]

    assert names() == ["fast_x", "slow_ms", "told_mb"]
    assert names("slow_ms") == ["slow_ms"]
    assert names("work") == ["fast_x", "slow_ms"]
    assert names("slow") == ["slow_ms"]
    assert names("*m*") == ["slow_ms", "told_mb"]
    assert names("memory", "fast_x") == ["fast_x", "told_mb"]
    with pytest.raises(InputError, match="no figure 'fest_x'; did you mean fast_x"):
        rounds.chosen([both, other], ["fest_x"])


def test_what_there_is():
    """Every name is there once, in a form that is easy to type."""
    measurements = rounds.all_measurements()
    names = [line.name for each in measurements for line in each.lines]
    assert len(set(names)) == len(names)
    assert len({each.name for each in measurements}) == len(measurements)
    for name in names:
        assert name == name.lower().replace("-", "_").replace(" ", "_")
    listed = json.loads(bench("--list", "--json").stdout)
    assert [row["name"] for row in listed] == names


@pytest.fixture
def ratios(tmp_path, monkeypatch):
    """The file of kept ratios, a place of its own."""
    path = tmp_path / "ratios.json"
    monkeypatch.setattr(kept, "kept_file", lambda: path)
    return path


def kept_ratio(value: float) -> Measurement:
    line = Line("ratio_work", "work", "ratio", "less", kept=True)
    return Measurement("ratios", (line,), lambda session: {"ratio_work": value})


@pytest.mark.parametrize(("times", "status"), [(0.5, 0), (1.0, 0), (1.7, 0), (1.8, 1), (2.0, 1)])
def test_what_is_nearly_twice_as_slow_as_it_was_fails(offered, ratios, times, status):
    offered(kept_ratio(1.25), made_of({"fast_x": [1.0] * 3}))
    assert bench("--keep").exit_code == 0
    offered(kept_ratio(1.25 * times), made_of({"fast_x": [1.0] * 3}))
    result = bench("--check", "--json")
    assert result.exit_code == status
    (figure,) = json.loads(result.stdout)["figures"]  # what has another target is not judged
    assert figure["target"] == 1.25 * kept.FACTOR


@pytest.mark.parametrize(("samples", "status"), [([3.0, 1.0], 0), ([3.0, 2.9, 2.8], 1)])
def test_what_others_slowed_for_a_while_is_measured_again(offered, ratios, samples, status):
    offered(kept_ratio(1.0))
    bench("--keep")
    turns = iter(samples)
    line = Line("ratio_work", "work", "ratio", "less", kept=True)
    offered(Measurement("ratios", (line,), lambda session: {"ratio_work": next(turns)}))
    result = bench("--check", "--repeat", "1", "--json")
    assert result.exit_code == status
    assert json.loads(result.stdout)["figures"][0]["value"] == samples[-1]


def test_what_is_kept_and_cannot_be_measured_fails(offered, ratios):
    offered(kept_ratio(1.25))
    assert bench("--keep").exit_code == 0
    line = Line("ratio_work", "work", "ratio", "less", kept=True)

    def cannot(session):
        raise Unavailable("pip install it")

    for work, words in ((cannot, "pip install it"), (lambda session: {}, "gave no figure")):
        offered(Measurement("ratios", (line,), work))
        result = bench("--check", "--json")
        assert result.exit_code == 1
        assert json.loads(result.stdout)["failed"] == {"ratios": words}


def test_what_is_kept_stays_where_it_is_not_measured(offered, ratios):
    offered(kept_ratio(1.25), made_of({"fast_x": [1.0] * 3}))
    bench("--keep")
    written = json.loads(ratios.read_text())
    ratios.write_text(json.dumps(written | {"ratios": {"ratio_other": 3.0}}))
    bench("--keep")
    assert kept.read_kept(ratios) == {"ratio_other": 3.0, "ratio_work": 1.25}
    assert "processor" in written["measured"]["machine"]


def test_the_repository_keeps_every_ratio():
    lines = [line for each in rounds.all_measurements() for line in each.lines if line.kept]
    assert {line.name for line in lines} == kept.read_kept(kept.kept_file()).keys()


def test_works_take_turns_and_the_least_time_of_each_counts():
    """A turn that others disturb does not count."""
    takes = {"reference": iter([4.0, 2.0, 9.0]), "work": iter([9.0, 5.0, 3.0])}
    turns: list[str] = []

    def taking(name: str):
        def work() -> float:
            turns.append(name)
            return next(takes[name])

        return work

    assert ratio_parts.ratios([taking("work")], [taking("reference")], 3) == [3.0 / 2.0]
    assert turns == ["reference", "work"] * 3


def test_a_program_that_fails_is_told_by_its_last_line(tmp_path):
    with pytest.raises(FlightError, match="did not pass: quadsim: error: unknown scenario"):
        timing.run_command(["sim", "--scenario", "nowhere"], tmp_path)


def test_the_memory_of_a_program_is_its_own(tmp_path):
    """Not that of the process that measures, which holds more."""
    held = np.ones(50_000_000)  # 400 MB
    ended = timing.run_command(["--version"], tmp_path)
    assert ended.stdout.startswith("quadsim")
    assert ended.processor_s > 0.0
    assert 5.0 < ended.peak_mb < 100.0 < held.nbytes / 1e6


def test_medians_leave_out_the_first_call_and_the_preparation(monkeypatch):
    clock = [0.0]
    takes = iter([50.0, 1.0, 3.0, 2.0])
    monkeypatch.setattr(timing.time, "process_time", lambda: clock[0])

    def prepare() -> float:
        clock[0] += 1000.0
        return next(takes)

    def act(taken_s: float) -> None:
        clock[0] += taken_s

    assert timing.median_s(prepare, act, 3) == 2.0


def test_peers_that_are_not_there_are_named_with_how_to_install_them(tmp_path):
    with pytest.raises(Unavailable, match="pip install crazyflow rotorpy"):
        peers.measure_rotorpy(Session(tmp_path))
    session = Session(tmp_path, peers=Path(sys.executable))
    with (
        pytest.raises(Unavailable, match="nonsense is not installed in"),
        peers.peer_with(session, "nonsense"),
    ):
        pass
    with peers.peer_with(session, "numpy") as peer:
        assert peer.ask("installed")["numpy"] == np.__version__


def test_an_installed_package_says_that_it_needs_a_checkout():
    result = CliRunner().invoke(only_in_a_checkout, ["--short", "--check"])
    assert isinstance(result.exception, InputError)
    assert "needs a checkout" in str(result.exception)
