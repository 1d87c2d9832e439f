"""The page on scenario files: its example loads, its table has every key."""

import re
from dataclasses import fields
from pathlib import Path

from quadsim.sim.scenario import LISTS, ScenarioFile, load_scenario

PAGE, _, _ = (Path(__file__).parents[3] / "docs/scenarios.md").read_text().partition("\n## ")


def test_the_example_is_a_scenario(tmp_path):
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    scenario = load_scenario(str(path))
    assert len(scenario.items) == 3
    assert set(scenario.faults) == {"gnss"}


def test_the_table_has_every_key():
    rows = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    keys = re.findall(r"`(\w+)`", " ".join(rows))
    assert {*keys, "description"} == {*LISTS, *(field.name for field in fields(ScenarioFile))}
