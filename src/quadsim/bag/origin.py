"""Where a bag comes from: what its metadata keep of the run, and the run made again from them."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from quadsim._version import __version__
from quadsim.bag.metadata import FIELD
from quadsim.bag.reading import Bag, open_bag
from quadsim.base.errors import InputError
from quadsim.base.parameters import from_mapping, read_yaml_text, without_unknown
from quadsim.base.surroundings import machine, versions
from quadsim.estimation.eskf.parameters import EstimatorParams

if TYPE_CHECKING:
    from quadsim.sim.scenario import Scenario

#: Keys of a bag's custom data, besides ``scenario`` and ``seed``: the version of quadsim, the whole
#: scenario, the versions and the machine (JSON), the command line, and the digest of the closed
#: loop, which a flight over DDS has not.
QUADSIM, SCENARIO_YAML, VERSIONS, MACHINE = "quadsim", "scenario_yaml", "versions", "machine"
COMMAND, DIGEST = "command", "digest"


def surroundings() -> dict[str, str]:
    """What every bag states: versions, machine, command line."""
    words = [Path(sys.argv[0]).name, *sys.argv[1:]]
    return {
        QUADSIM: __version__,
        VERSIONS: json.dumps(versions()),
        MACHINE: json.dumps(machine()),
        COMMAND: shlex.join(words),
    }


def run_facts(scenario: Scenario) -> dict[str, str]:
    """What a bag states of the run of a scenario."""
    from quadsim.sim.scenario_text import scenario_text  # here: a replay needs no scenario

    return {
        "scenario": scenario.name,
        "seed": str(scenario.file.seed),
        **surroundings(),
        FIELD: " ".join(repr(part) for part in scenario.environment.field_W_T()),
        SCENARIO_YAML: scenario_text(scenario),
    }


RECORDED_OVER_DDS = (
    "the bag was recorded over DDS, where no two flights are equal to the bit: the closed loop has"
    " flown its scenario, with a digest of its own"
)


@dataclass(frozen=True)
class Origin:
    """The run that a bag was made by.

    Attributes:
        scenario: what flew, every parameter as it was.
        digest: of the closed loop; empty where the bag was recorded over DDS.
        notes: what is not as it was then, in words.
    """

    scenario: Scenario
    digest: str
    notes: list[str] = field(default_factory=list)

    def compare(self, digest: str) -> list[str]:
        """How the repeated run compares with this one, in words."""
        if not self.digest:
            return [*self.notes, RECORDED_OVER_DDS]
        if digest == self.digest:
            return [*self.notes, "repeated: the digest is that of the bag"]
        why = "" if self.notes else "; versions and processor are the same"
        return [*self.notes, f"not repeated: the bag's digest is {self.digest}{why}"]


def _object(text: str) -> dict[str, object]:
    """A JSON object; ValueError for anything else."""
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError(text)
    return value


def _changed(then: Mapping[str, object], now: Mapping[str, object]) -> list[str]:
    """Entries that a bag states otherwise."""
    return [
        f"{name} was {was}, now {now.get(name)}"
        for name, was in then.items()
        if was != now.get(name)
    ]


def estimator_of(bag: Bag) -> EstimatorParams | None:
    """Parameters of the estimator that flew, as a bag states them; None if it does not.

    Keys of another version are left out, which the bag's notes say.

    Raises:
        InputError: they are none of this version.
    """
    text = bag.custom.get(SCENARIO_YAML)
    if text is None:
        return None
    where = f"{bag.path}: {SCENARIO_YAML}"
    content = read_yaml_text(text, where)
    values = content.get("estimator") if isinstance(content, Mapping) else None
    values = without_unknown(EstimatorParams, values, "estimator", bag.notes)
    return from_mapping(EstimatorParams, values, f"{where}: estimator")


def origin_of(path: Path) -> Origin:
    """Read from a bag's metadata what flew.

    Raises:
        InputError: the bag cannot be read, or does not say.
    """
    from quadsim.sim.scenario_text import scenario_from_text

    with open_bag(path) as bag:
        custom = bag.custom
    text = custom.get(SCENARIO_YAML)
    if text is None:
        by = f"quadsim {custom[QUADSIM]}" if QUADSIM in custom else "another program"
        raise InputError(
            f"{path}: recorded by {by}, which stored no {SCENARIO_YAML} in the metadata: the run"
            " cannot be repeated from it"
        )
    version = custom.get(QUADSIM, "")
    try:
        scenario, notes = scenario_from_text(text, f"{path}: {SCENARIO_YAML}")
        then = _object(custom.get(VERSIONS, "{}"))
        processor = _object(custom.get(MACHINE, "{}")).get("processor")
    except InputError as error:
        if version == __version__:
            raise
        remedy = f"the bag is of quadsim {version}, this is {__version__}"
        raise InputError(f"{error} ({remedy})") from None
    except ValueError:
        raise InputError(
            f"{path}: {VERSIONS}, {MACHINE}: no JSON objects in its metadata"
        ) from None
    notes += _changed(then, versions())
    notes += _changed({"processor": processor}, machine())
    return Origin(scenario, custom.get(DIGEST, ""), notes)
