"""A campaign's file, and the runs that follow from it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations, islice, product
from pathlib import Path
from typing import Annotated, Any

from numpy.typing import NDArray

from quadsim.analysis.criteria import check_signals
from quadsim.base.errors import InputError, shown
from quadsim.base.files import find, share_dir
from quadsim.base.parameters import Spec, from_mapping, read_yaml
from quadsim.lab.campaign.factors import CASES, GRID, METHODS, Factor, Samples, draw, factor_from
from quadsim.lab.parameter_text import one_line_yaml
from quadsim.sim.library import Library
from quadsim.sim.scenario import Scenario, load_scenario
from quadsim.sim.scenario_text import plain_values

#: Runs of one campaign.
MAX_RUNS = 10_000_000

#: Values of the factors that are tried together until some load.
MAX_TRIED = 64

#: Key of the scenario's name among what is set and varied.
SCENARIO = "scenario"


@dataclass(frozen=True)
class CampaignFile:
    """The keys of a campaign's file but for ``set`` and ``vary``."""

    description: Annotated[str, Spec("what it shows")] = ""
    scenario: Annotated[str, Spec("a file of config/scenarios, or a path")] = "square"
    method: Annotated[str, Spec("how samples are drawn", choices=METHODS)] = "random"
    samples: Annotated[
        int, Spec("how many; a grid has as many as its levels make", ge=0, le=MAX_RUNS)
    ] = 0
    repeats: Annotated[int, Spec("flights of each sample, with other noise", ge=1, le=MAX_RUNS)] = 1
    seed: Annotated[int, Spec("of the drawing, and of the first flight", ge=0, le=2**62)] = 1
    same_seeds: Annotated[bool, Spec("fly every sample with the same seeds, to compare them")] = (
        False
    )
    limit_s: Annotated[float, Spec("longest time that a run may take", "s", gt=0.0, le=1e6)] = 120.0
    pass_share: Annotated[float, Spec("share of the runs that has to pass", ge=0.0, le=1.0)] = 1.0


@dataclass(frozen=True)
class CampaignRun:
    """One flight of a campaign.

    Attributes:
        number: from 0 on.
        values: name of a factor to what a table states of it.
    """

    number: int
    sample: int
    seed: int
    scenario: str
    changes: Mapping[str, Any]
    values: Mapping[str, Any]

    def load(self, library: Library | None = None) -> Scenario:
        """The scenario that flies.

        Raises:
            InputError: as of :func:`quadsim.sim.scenario.load_scenario`.
        """
        return load_scenario(self.scenario, self.changes, library, seed=self.seed)

    def command(self) -> str:
        """How to fly it by itself."""
        words = ["quadsim", "sim", "--scenario", self.scenario, "--seed", str(self.seed)]
        for key, value in self.changes.items():
            words += ["--set", f"{key}={one_line_yaml(value)}"]
        return shlex.join(words)


@dataclass(frozen=True)
class Campaign:
    """A campaign with its samples drawn.

    Attributes:
        constants: dotted keys that are set in all runs.
    """

    name: str
    path: Path
    file: CampaignFile
    constants: Mapping[str, Any]
    samples: Samples

    @property
    def factors(self) -> tuple[Factor, ...]:
        """What is varied."""
        return self.samples.factors

    @property
    def is_shipped(self) -> bool:
        """Whether it is one of ``config/campaigns``, known by its name."""
        return self.path.parent == share_dir() / "config" / "campaigns"

    def __len__(self) -> int:
        return self.samples.count * self.file.repeats

    def run(self, number: int) -> CampaignRun:
        """A run by its number, from 0 on."""
        sample, repeat = divmod(number, self.file.repeats)
        seed = self.file.seed + (repeat if self.file.same_seeds else number)
        return self._run(number, sample, seed, self.samples.at(sample))

    def _run(self, number: int, sample: int, seed: int, drawn: list[Any]) -> CampaignRun:
        changes = dict(self.constants)
        for factor, value in zip(self.factors, drawn, strict=True):
            changes |= factor.changes(value)
        scenario = str(changes.pop(SCENARIO, self.file.scenario))
        values = {f.name: f.shown(value) for f, value in zip(self.factors, drawn, strict=True)}
        return CampaignRun(number, sample, seed, self._beside(scenario), changes, values)

    def _beside(self, scenario: str) -> str:
        """A scenario's file is looked for next to the campaign's first."""
        near = self.path.parent / scenario
        is_file = near.suffix in (".yaml", ".yml") and near.is_file()
        return str(near.resolve()) if is_file else scenario

    def _probe(self, drawn: list[Any]) -> CampaignRun:
        """A run that is never flown."""
        return self._run(0, 0, self.file.seed, drawn)

    def _middle(self, library: Library) -> tuple[list[Any], Scenario]:
        """A value of each factor that load together: the middle ones, else few others.

        Raises:
            InputError: what is reported of the middle ones; no others that were tried load.
        """
        wrong: InputError | None = None
        for drawn in islice(_around([factor.probes() for factor in self.factors]), MAX_TRIED):
            result = _tried(self._probe(drawn), library)
            if isinstance(result, Scenario):
                return drawn, result
            wrong = wrong or result
        raise InputError(f"{self.path}: {wrong}")

    def probe(self, library: Library) -> Scenario:
        """Read what the runs will read, and refuse a campaign that cannot fly.

        A value that is refused makes a run of that value fail later, and no campaign; a factor of
        which every value is refused is wrong.

        Args:
            library: where the files are read.

        Returns:
            The scenario of the middle.

        Raises:
            InputError: one line that names the campaign's file, the key and what is allowed.
        """
        middle, found = self._middle(library)
        for i, factor in enumerate(self.factors):
            tried = [
                _tried(self._probe([*middle[:i], value, *middle[i + 1 :]]), library)
                for value in factor.probes()
            ]
            errors = [result for result in tried if isinstance(result, InputError)]
            if len(errors) == len(tried):
                raise InputError(f"{self.path}: vary: {factor.name}: {errors[0]}")
        return found

    def contents(self) -> dict[str, Any]:
        """Everything that decides what is flown, but for the files that are named."""
        return {
            **asdict(self.file),
            "set": plain_values(self.constants),
            "order": {  # of which a mapping states nothing, and which decides what is drawn
                "set": list(self.constants),
                "vary": [factor.name for factor in self.factors],
            },
            "vary": {
                factor.name: plain_values(
                    {"kind": factor.kind, "labels": factor.labels, "values": factor.values}
                    | asdict(factor.numbers)
                )
                for factor in self.factors
            },
        }


def _around(values: Sequence[NDArray[Any]]) -> Iterator[list[Any]]:
    """Values of each factor: the first ones, then one other at a time, then two."""
    first = [found[0] for found in values]
    for count in range(len(values) + 1):
        for places in combinations(range(len(values)), count):
            for others in product(*(values[place][1:] for place in places)):
                drawn = list(first)
                for place, other in zip(places, others, strict=True):
                    drawn[place] = other
                yield drawn


def _tried(run: CampaignRun, library: Library) -> Scenario | InputError:
    """The scenario of a run, or why there is none."""
    try:
        scenario = run.load(library)
        check_signals(scenario.criteria, str(scenario.path))
    except InputError as error:
        return error
    return scenario


def load_campaign(name: str) -> Campaign:
    """Read a campaign.

    Args:
        name: of a file in ``config/campaigns``, or its path.

    Raises:
        InputError: one line that names the file, the key and what is allowed.
    """
    path = find("campaigns", name)
    content = read_yaml(path)
    constants = _keys(content.pop("set", {}), "set", path)
    varied = _keys(content.pop("vary", {}), "vary", path)
    file = from_mapping(CampaignFile, content, str(path))
    factors = [factor_from(key, keys, str(path)) for key, keys in varied.items()]
    _check(file, constants, factors, path)
    samples = draw(factors, file.method, file.samples, file.seed)
    if not 1 <= samples.count * file.repeats <= MAX_RUNS:
        raise InputError(
            f"{path}: {samples.count} samples of {file.repeats} flights; allowed: 1 to {MAX_RUNS}"
        )
    return Campaign(path.stem, path, file, constants, samples)


def _keys(content: Any, key: str, path: Path) -> dict[str, Any]:
    if not isinstance(content, Mapping):
        raise InputError(f"{path}: {key}: expected keys and values, found {shown(content)}")
    return {str(name): value for name, value in content.items()}


def _check(
    file: CampaignFile, constants: Mapping[str, Any], factors: list[Factor], path: Path
) -> None:
    """Refuse what contradicts itself."""
    sets = {factor.name for factor in factors if factor.kind != CASES}
    for keys in (constants, *(case for f in factors if f.kind == CASES for case in f.values), sets):
        if "seed" in keys:
            raise InputError(f"{path}: seed: every run has one of its own; see seed, repeats")
    for factor in factors:
        if factor.kind == CASES:
            both = sets.intersection(*[set().union(*factor.values)])
            if both:
                raise InputError(f"{path}: vary: {factor.name}: {min(both)} is varied as well")
    if file.method == GRID and factors and file.samples:
        raise InputError(f"{path}: samples: a grid has as many as its levels make; leave it out")
    if file.samples < 1 and not (file.method == GRID and factors):
        raise InputError(f"{path}: samples: {file.samples}; allowed: at least 1")
