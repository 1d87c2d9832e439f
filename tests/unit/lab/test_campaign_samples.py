"""What a campaign draws, and what its table is turned into: against closed forms and scipy."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.stats import qmc

from quadsim.base.errors import InputError
from quadsim.base.files import known
from quadsim.base.parameters import read_yaml_text
from quadsim.lab.campaign.factors import FIGURES, RUN_COLUMNS, draw, factor_from, shares
from quadsim.lab.campaign.flying import row_of
from quadsim.lab.campaign.page import render_campaign
from quadsim.lab.campaign.plan import load_campaign, one_line_yaml
from quadsim.lab.campaign.record import TABLE, CampaignRecord, read_table, write_tables
from quadsim.lab.campaign.statistics import (
    Success,
    campaign_summary,
    dependences,
    levels,
    mean_interval,
    regression_slopes,
    success,
    worst,
)
from quadsim.sim.library import Library


def factor(name="x", /, **content):
    return factor_from(name, content, "file")


@pytest.mark.parametrize("count", [7, 64])
def test_a_latin_hypercube_has_one_sample_in_each_stratum(count):
    found = shares("latin_hypercube", count, 3, seed=1)
    for column in found.T:
        assert sorted(np.floor(column * count)) == list(range(count))


def test_sobol_fills_space_more_evenly_than_chance():
    """Centred discrepancy; 2^8 points of Sobol's have about a tenth of that of random ones."""
    sobol, random = (shares(method, 256, 4, seed=1) for method in ("sobol", "random"))
    assert qmc.discrepancy(sobol) < 0.2 * qmc.discrepancy(random)
    # balanced: of a power of two every half of every axis has as many
    assert np.all(np.sum(sobol < 0.5, axis=0) == 128)
    assert np.array_equal(shares("sobol", 100, 4, seed=1), shares("sobol", 128, 4, seed=1)[:100])


@pytest.mark.parametrize("method", ["random", "latin_hypercube", "sobol"])
def test_shares_depend_on_the_seed_alone(method):
    assert np.array_equal(shares(method, 10, 2, 5), shares(method, 10, 2, 5))
    assert not np.array_equal(shares(method, 10, 2, 5), shares(method, 10, 2, 6))
    assert shares(method, 10, 0, 5).shape == (10, 0)


def test_numbers_follow_their_distributions():
    """Each against the closed form of its quantiles."""
    u = np.array([0.1, 0.5, 0.9])
    assert factor(range=[-2.0, 6.0]).draw(u) == pytest.approx([-1.2, 2.0, 5.2])
    assert factor(log_range=[0.01, 100.0]).draw(u) == pytest.approx([10.0**-1.6, 1.0, 10.0**1.6])
    z = 1.2815515655446004  # of 90 %
    assert factor(normal=[3.0, 2.0]).draw(u) == pytest.approx([3.0 - 2 * z, 3.0, 3.0 + 2 * z])
    cut = factor(normal=[0.0, 1.0], within=[-1.0, 1.0]).draw(np.array([0.0, 0.25, 0.5, 1.0]))
    inside = math.erf(1.0 / math.sqrt(2.0))
    quarter = stats.norm.ppf(0.5 - 0.25 * inside)
    assert cut == pytest.approx([-1.0, quarter, 0.0, 1.0], abs=1e-9)
    counts = np.unique(factor(integers=[3, 5]).draw(np.arange(300) / 300.0), return_counts=True)
    assert [list(c) for c in counts] == [[3, 4, 5], [100, 100, 100]]
    picked = factor(choices=["a", "b"]).draw(np.array([0.0, 0.49, 0.51, 1.0]))
    assert list(picked) == [0, 0, 1, 1]


def test_a_grid_is_every_combination():
    factors = [factor(choices=["p", "q"]), factor("y", log_range=[1.0, 100.0], levels=3)]
    samples = draw(factors, "grid", 0, seed=1)
    seen = [
        (f.shown(a), g.shown(b))
        for k in range(samples.count)
        for (f, g), (a, b) in [(factors, samples.at(k))]
    ]
    assert [x for x, _ in seen] == list("pppqqq")
    assert [y for _, y in seen] == pytest.approx([1.0, 10.0, 100.0] * 2)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({}, "allowed: one of range"),
        ({"range": [1.0, 2.0], "normal": [1.0, 2.0]}, "allowed: one of range"),
        ({"range": [2.0, 1.0]}, "allowed: low, high"),
        ({"range": [1.0]}, "two numbers"),
        ({"log_range": [0.0, 1.0]}, "out of range"),
        ({"normal": [1.0, 0.0]}, "allowed: > 0"),
        ({"normal": [1.0, 1.0], "within": [2.0, 1.0]}, "within"),
        ({"range": [1.0, 2.0], "within": [1.0, 2.0]}, "with normal alone"),
        ({"range": [1.0, 2.0], "step": 3}, "unknown key 'step'"),
        ({"choices": []}, None),
        ({"choices": 3}, "allowed: a list"),
        ({"choices": [1], "levels": 2}, "nothing more"),
        ({"cases": {"a": 3}}, "allowed: keys and values"),
        ({"cases": [1]}, "labels with keys"),
    ],
)
def test_a_wrong_factor_is_refused(content, words):
    with pytest.raises(InputError, match=words and f"^file: vary: x.*{words}"):
        factor_from("x", content, "file")


CAMPAIGN = """
scenario: hover
method: {method}
{samples}
repeats: 2
seed: 10
set: {{duration_s: 20.0}}
vary:
  vehicle.mass_kg: {{range: [2.0, 2.2], levels: 2}}
  failure:
    cases:
      none: {{}}
      late: {{faults: [{{sensor: gnss, fault: delay, value: [0.5]}}]}}
"""


def campaign(tmp_path, method="random", samples="samples: 3", text=CAMPAIGN):
    path = tmp_path / "some.yaml"
    path.write_text(text.format(method=method, samples=samples))
    return load_campaign(str(path))


def test_runs_have_samples_seeds_and_changes(tmp_path):
    found = campaign(tmp_path)
    assert len(found) == 6
    runs = [found.run(k) for k in range(6)]
    assert [run.sample for run in runs] == [0, 0, 1, 1, 2, 2]
    assert [run.seed for run in runs] == [10, 11, 12, 13, 14, 15]
    assert runs[0].values == runs[1].values
    mass_kg = runs[2].values["vehicle.mass_kg"]
    assert runs[2].changes["vehicle.mass_kg"] == mass_kg
    assert runs[2].changes["duration_s"] == 20.0
    loaded = runs[2].load()
    assert loaded.vehicle.mass_kg == mass_kg
    assert loaded.file.seed == 12
    for run in runs:
        assert ("faults" in run.changes) == (run.values["failure"] == "late")


def test_seeds_can_be_the_same_for_all_samples(tmp_path):
    found = campaign(tmp_path, samples="samples: 3\nsame_seeds: true")
    assert [found.run(k).seed for k in range(6)] == [10, 11] * 3
    grid = campaign(tmp_path, "grid", "")
    assert [grid.run(k).values["failure"] for k in range(0, 8, 2)] == ["none", "late"] * 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("{samples}", ""), "samples: 0; allowed: at least 1"),
        (("seed: 10", "sead: 10"), "unknown key 'sead'"),
        (("duration_s: 20.0", "seed: 4"), "every run has one of its own"),
        (("none: {{}}", "none: {{vehicle.mass_kg: 2.0}}"), "is varied as well"),
        (("vary:", "vary: 3\nx:"), "vary: expected keys and values"),
        (("repeats: 2", "repeats: 9000000"), "allowed: 1 to"),
        (("repeats: 2", "repeats: 10000001"), "repeats: 10000001 is out of range"),
        (("{samples}", "samples: 10000001"), "samples: 10000001 is out of range"),
    ],
)
def test_a_campaign_that_contradicts_itself_is_refused(tmp_path, change, words):
    with pytest.raises(InputError, match=words):
        campaign(tmp_path, text=CAMPAIGN.replace(*change))


LISTS = """
scenario: hover
{samples}
set:
  criteria: [{{value: tracking.position_rmse_m, limit: 0.5}}]
vary:
  criteria.0.limit: {{range: [0.1, 0.2]}}
  mission.0.takeoff.height_m: {{range: [3.0, 4.0]}}
  mission: {{choices: [[takeoff: {{height_m: 1.0}}], [takeoff: {{height_m: 2.0}}, land: {{}}]]}}
"""


def test_probing_changes_nothing_of_the_campaign(tmp_path):
    """Lists that are set whole, and their parts varied."""
    found, fresh = (campaign(tmp_path, text=LISTS) for _ in range(2))
    found.probe(Library())
    for number in range(3):
        run = found.run(number)
        loaded = run.load()
        assert loaded.items[0].height_m == run.values["mission.0.takeoff.height_m"]
        assert loaded.criteria[0].limit == run.values["criteria.0.limit"]
    assert found.constants == fresh.constants
    assert [f.values for f in found.factors] == [f.values for f in fresh.factors]
    assert found.contents() == fresh.contents()


def test_the_order_of_what_is_varied_decides_what_is_drawn(tmp_path):
    found = campaign(tmp_path, text=LISTS)
    *head, limit, height, mission = LISTS.strip().splitlines()
    other = campaign(tmp_path, text="\n".join([*head, height, limit, mission]))
    assert other.run(0).values != found.run(0).values
    with CampaignRecord(tmp_path / "out", found.contents(), len(found), False) as record:
        record.add(0, {"status": "passed"})
    CampaignRecord.check(tmp_path / "out", found.contents(), True)
    with pytest.raises(InputError, match=r"other contents \(order\.vary was "):
        CampaignRecord.check(tmp_path / "out", other.contents(), True)


def test_a_factor_of_which_the_first_value_is_refused_stands_in_no_other_s_way(tmp_path):
    text = """
scenario: hover
samples: 4
vary:
  vehicle.mass_kg: {{choices: [-1.0, 2.0]}}
  sensors.gnss: {{choices: [no_such, ublox_m8]}}
  duration_s: {{range: [20.0, 30.0]}}
"""
    scenario = campaign(tmp_path, text=text).probe(Library())
    assert scenario.vehicle.mass_kg == 2.0
    for change in (("duration_s", "duration_z"), ("2.0]", "-2.0]"), ("hover", "hoover")):
        with pytest.raises(InputError):
            campaign(tmp_path, text=text.replace(*change)).probe(Library())


def test_a_grid_of_too_many_levels_is_counted_exactly(tmp_path):
    """Four times 2^16 are zero in 64 bits."""
    keys = ("mass_kg", "inertia_kg_m2.0", "inertia_kg_m2.1", "inertia_kg_m2.2")
    vary = "\n".join(f"  vehicle.{key}: {{{{range: [1.0, 2.0], levels: 65536}}}}" for key in keys)
    with pytest.raises(InputError, match=f"{2**64} samples of 1 flights; allowed: 1 to"):
        campaign(tmp_path, text=f"method: grid\nvary:\n{vary}\n")


NAMESAKES = """
method: sobol
samples: 16
seed: 4611686018427387901
vary:
  scenario: {{choices: [hover, square]}}
  duration_s: {{range: [20.0, 30.0]}}
"""


#: How much before its time each ends.
EARLY_S = {"hover": 5.0, "square": 0.0}


def test_factors_that_are_called_like_columns_have_their_own(tmp_path):
    found = campaign(tmp_path, text=NAMESAKES)
    figures = dict.fromkeys(FIGURES, 0.5)
    with CampaignRecord(tmp_path / "out", found.contents(), len(found), False) as record:
        for run in map(found.run, range(len(found))):
            flown_s = run.values["duration_s"] - EARLY_S[run.values["scenario"]]
            row = {"status": "passed", "reason": "", "digest": "0", "figures": dict(figures)}
            row["figures"]["duration_s"] = flown_s
            record.add(run.number, row)
        write_tables(found, record)
    table = read_table(tmp_path / "out" / TABLE)
    assert set(table) == {*RUN_COLUMNS, "vary.scenario", "vary.duration_s"}
    runs = [found.run(number) for number in range(len(found))]
    assert list(table["scenario"]) == [run.scenario for run in runs]
    assert list(table["vary.scenario"]) == [run.values["scenario"] for run in runs]
    assert list(table["vary.duration_s"]) == [run.values["duration_s"] for run in runs]
    early_s = [EARLY_S[name] for name in table["vary.scenario"]]
    assert table["duration_s"] == pytest.approx(table["vary.duration_s"] - early_s)
    # beyond 2^53 a float is one of few: of 2^62 each 512th or 1024th number
    assert table["seed"] == pytest.approx([run.seed for run in runs], abs=512)
    summary = campaign_summary(found, table, tmp_path / "out")
    assert {d["factor"] for d in summary["dependences"]} == {"scenario", "duration_s"}
    assert "Main effects" in render_campaign(found, table, summary)


@pytest.mark.parametrize("value", [1e-05, 2.1293038829492814, True, None, "x", [{"a": [1.5]}, {}]])
def test_a_value_comes_back_from_the_command_line_to_the_bit(value):
    assert read_yaml_text(one_line_yaml(value), "x") == value


@pytest.mark.parametrize("name", known("campaigns"))
def test_shipped_campaigns_can_be_read(name):
    found = load_campaign(name)
    assert found.file.description
    found.run(len(found) - 1).load()


def wilson(passed, count):
    """E. B. Wilson, 1927, as a textbook has it."""
    z = 1.959963984540054
    rate = passed / count
    middle = rate + z * z / (2 * count)
    half = z * math.sqrt(rate * (1 - rate) / count + z * z / (4 * count * count))
    return [(middle - half) / (1 + z * z / count), (middle + half) / (1 + z * z / count)]


@pytest.mark.parametrize(("passed", "count"), [(0, 5), (7, 10), (999, 1000), (20, 20)])
def test_the_interval_of_success_is_wilson_s(passed, count):
    found = success(passed, count)
    assert [found.low, found.high] == pytest.approx(wilson(passed, count), abs=1e-12)
    assert found.rate == passed / count
    assert success(0, 0) == Success(0, 0, 0.0, 1.0)


def test_slopes_are_those_of_independent_causes():
    """Y = 3 a + 4 b of independent a and b: of unit variance, the slopes are 0.6 and 0.8."""
    rng = np.random.default_rng(1)
    a, b = rng.normal(5.0, 2.0, 20_000), rng.normal(0.0, 0.1, 20_000)
    y = 3.0 * (a - 5.0) / 2.0 + 4.0 * b / 0.1
    found = regression_slopes(np.column_stack([a, np.ones(20_000), b]), y)
    # deviations of 20 000 draws are off by 0.5 %
    assert found[[0, 2]] == pytest.approx([0.6, 0.8], abs=0.02)
    assert math.isnan(found[1])


def table_of(count=64):
    """A table in which one figure rises with x and differs with kind, and 3 runs are broken."""
    rng = np.random.default_rng(2)
    x = rng.permutation(np.linspace(0.0, 1.0, count))
    kind = np.array(["a", "b"], object)[np.arange(count) % 2]
    error = np.exp(x)
    error[:3] = np.nan
    nothing = np.full(count, np.nan)
    status = np.where(x > 0.75, "failed", "passed").astype(object)
    status[:3] = "broken"
    return {
        "run": np.arange(count, dtype=float), "status": status,
        "missed": np.where(status == "failed", "e", "").astype(object),
        "reason": np.array([""] * count, object), "x": x, "kind": kind,
        "estimator.position_rmse_m": error, "estimator.position_max_m": 2.0 * error,
        "estimator.velocity_rmse_mps": nothing, "estimator.yaw_rmse_rad": nothing,
        "estimator.tilt_rmse_rad": nothing, "estimator.nees_mean": nothing,
        "tracking.position_rmse_m": np.where(kind == "a", 1.0, 3.0), "duration_s": nothing,
        "of_limit": error / math.exp(0.75),
    }  # fmt: skip


FACTORS = [factor("x", range=[0.0, 1.0]), factor("kind", choices=["a", "b"])]


def test_what_a_figure_depends_on_comes_first():
    found = {(d.factor, d.metric): d for d in dependences(table_of(), FACTORS)}
    rises = found["x", "estimator.position_rmse_m"]
    assert rises.rank_correlation == pytest.approx(1.0)  # whatever the curve
    assert rises.p_value < 1e-12
    differs = found["kind", "tracking.position_rmse_m"]
    assert differs.share == pytest.approx(1.0)  # all variance is between the two
    assert abs(found["x", "tracking.position_rmse_m"].rank_correlation) < 0.3
    assert next(iter(found)) in {
        ("x", "estimator.position_rmse_m"), ("x", "estimator.position_max_m"),
        ("x", "of_limit"), ("kind", "tracking.position_rmse_m"),
    }  # fmt: skip


def test_levels_cut_a_range_into_parts_of_as_many_runs():
    table = table_of()
    parts = levels(table, FACTORS[0])
    assert [part.success.count for part in parts] == [8] * 8
    assert all(np.all(np.diff(part.rows) > 0) for part in parts)
    assert parts[-1].success.passed == 0
    assert [part.middle for part in parts] == pytest.approx(np.arange(8) / 8.0 + 0.0556, abs=0.02)
    assert [part.label for part in levels(table, FACTORS[1])] == ["a", "b"]


def test_the_worst_runs_are_the_failed_ones_and_some_that_broke():
    table = table_of()
    rows = worst(table, 6)
    assert [table["status"][row] for row in rows] == ["failed"] * 4 + ["broken"] * 2
    assert np.all(np.diff(table["of_limit"][rows[:4]]) < 0.0)


def test_what_is_not_finite_is_the_worst_and_hides_no_share():
    criteria = [
        {"name": "a", "value": math.inf, "limit": 1.0, "passed": False},
        {"name": "b", "value": 3.0, "limit": 2.0, "passed": False},
    ]
    summary = dict.fromkeys(("estimator", "tracking", "duration_s"))
    summary |= {"passed": False, "errors": [], "criteria": criteria}
    assert row_of(summary, "")["of_limit"] == 1.5
    assert row_of(summary | {"criteria": criteria[:1]}, "")["of_limit"] is None
    table = table_of()
    least = np.flatnonzero(table["status"] == "failed")[-1]
    table["of_limit"][least] = np.nan
    assert worst(table, 6)[0] == least


def test_the_interval_of_a_mean_is_student_s():
    values = np.array([1.0, 2.0, 3.0, 4.0, np.nan])
    # t(0.975, 3) = 3.182446; deviation sqrt(5/3)
    assert mean_interval(values) == pytest.approx((2.5, 3.182446 * math.sqrt(5.0 / 3.0) / 2.0))
