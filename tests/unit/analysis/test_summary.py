"""The summary: its keys, its criteria, and JSON that every reader takes."""

import json
from dataclasses import replace

import numpy as np
import pytest

from quadsim.analysis.summary import digest, summarize, value_at
from quadsim.bag.log import read_log
from quadsim.bag.reading import open_bag
from quadsim.base.errors import InputError
from quadsim.cli.common import to_json
from quadsim.sim.criterion import Criterion
from quadsim.sim.log import Event, FlightLog, Track

KEYS = {
    "scenario", "seed", "duration_s", "wall_s", "real_time_factor", "passed", "criteria",
    "estimator", "estimators", "tracking", "topics", "bag", "report", "digest",
}  # fmt: skip


@pytest.fixture
def log(circle_bag):
    with open_bag(circle_bag) as bag:
        return read_log(bag, "/quad")


def test_the_keys_of_the_architecture(log):
    log.wall_s = 6.0
    summary = summarize(log, settle_s=1.0)
    assert set(summary) >= KEYS
    assert summary["real_time_factor"] == pytest.approx(11.99 / 6.0)
    assert summary["estimator"]["name"] == "filtered"
    assert summary["estimator"] == summary["estimators"]["filtered"]
    assert summary["estimator"]["count"] == 1100
    assert summary["tracking"]["position_rmse_m"] == pytest.approx(0.2)
    assert summary["topics"]["imu/data_raw"]["count"] == 1200
    # 1200 messages in 11.99 s
    assert summary["topics"]["imu/data_raw"]["rate_hz"] == pytest.approx(100.0, rel=0.002)


def test_criteria_compare_a_value_with_its_limit(log):
    good = Criterion("estimator.position_rmse_m", 0.51)
    bad = Criterion("tracking.position_rmse_m", 0.19)
    summary = summarize(log, [good, bad])
    first, second = summary["criteria"]
    assert first == {
        "name": "estimator.position_rmse_m",
        "value": pytest.approx(0.5),
        "limit": 0.51,
        "passed": True,
    }
    assert second["passed"] is False
    assert summary["passed"] is False
    assert summarize(log, [good])["passed"] is True


def test_a_value_that_is_not_there_does_not_pass(log):
    lost = summarize(FlightLog(), [Criterion("estimator.position_rmse_m", 1.0)])
    assert lost["passed"] is False
    assert lost["criteria"][0]["value"] is None
    with pytest.raises(InputError, match="no 'positon_rmse_m'"):
        summarize(log, [Criterion("estimator.positon_rmse_m", 1.0)])
    with pytest.raises(InputError, match="not a number"):
        value_at(summarize(log), "estimator.name")


def test_an_error_in_flight_does_not_pass(log):
    log.events.append(Event(5, 2, "autopilot", "no estimate for 0.5 s"))
    summary = summarize(log)
    assert summary["passed"] is False
    assert summary["errors"] == ["no estimate for 0.5 s"]


def test_the_json_knows_no_nan(log):
    odd = {"a": np.float64("nan"), "b": [np.inf, np.int64(3)], "c": np.arange(2), "d": None}
    assert json.loads(to_json(odd)) == {"a": None, "b": [None, 3], "c": [0, 1], "d": None}
    text = to_json(summarize(log))
    assert "NaN" not in text
    assert "Infinity" not in text
    assert json.loads(text)["seed"] == 7


def test_an_empty_flight_has_a_summary():
    summary = summarize(FlightLog())
    assert summary["estimator"] is None
    assert summary["tracking"] is None
    assert summary["duration_s"] == 0.0


def test_the_digest_sees_every_bit(log):
    before = digest(log)
    assert digest(log) == before
    p_W = log.truth.p_W.copy()
    p_W[700, 2] = np.nextafter(p_W[700, 2], 10.0)
    changed = replace(log, truth=replace(log.truth, p_W=p_W))
    assert digest(changed) != before
    assert digest(replace(log, truth=Track.empty())) != before
