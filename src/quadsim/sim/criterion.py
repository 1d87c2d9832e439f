"""What a passed flight keeps: bounds of the summary, bands of signals, and events that come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, TypeAlias

from quadsim.base.errors import InputError
from quadsim.base.parameters import Spec, from_mapping
from quadsim.base.parts import Part


@dataclass(frozen=True)
class Criterion:
    """A bound on a value of the summary, for every sensor suite or for one."""

    value: Annotated[str, Spec("dotted name in the summary, such as estimator.position_rmse_m")]
    limit: Annotated[float, Spec("the largest value that passes")]
    sensors: Annotated[str, Spec("the suite that it holds for; empty for all")] = ""


@dataclass(frozen=True)
class SignalCriterion:
    """A band in which a signal of the flight stays for a time without a break.

    Signals are what an error, a share or a probability is over the flight, none below zero; they
    are declared in :mod:`quadsim.analysis.signals`.
    """

    signal: Annotated[str, Spec("its name, such as position_error_m")]
    limit: Annotated[float, Spec("the largest value that passes")]
    least: Annotated[float, Spec("the smallest value that passes", ge=0.0)] = 0.0
    hold_s: Annotated[
        float, Spec("how long without a break; 0: all the time from from_s to to_s", "s", ge=0.0)
    ] = 0.0
    from_s: Annotated[float, Spec("since the start: what was before does not count", "s")] = 0.0
    to_s: Annotated[float, Spec("since the start: what comes later does not count", "s")] = 86400.0
    sensors: Annotated[str, Spec("the suite that it holds for; empty for all")] = ""

    def __post_init__(self) -> None:
        """Refuse what no flight can pass."""
        if self.least > self.limit:
            raise InputError(f"least: {self.least:g}; allowed: <= limit, {self.limit:g}")
        if self.from_s < 0.0 or self.to_s - self.from_s < max(self.hold_s, 1e-9):
            raise InputError(
                f"from_s, to_s: {self.from_s:g}, {self.to_s:g}; allowed: 0 <= from_s, and to_s at"
                f" least hold_s, {self.hold_s:g} s, later"
            )


@dataclass(frozen=True)
class EventCriterion:
    """An event that must come; one that is an error does then not fail the flight."""

    event: Annotated[str, Spec("its name, such as failsafe_landing")]
    message: Annotated[str, Spec("what is in its message; empty for any")] = ""
    from_s: Annotated[float, Spec("since the start: not before", "s", ge=0.0)] = 0.0
    to_s: Annotated[float, Spec("since the start: not after", "s", ge=0.0)] = 86400.0
    sensors: Annotated[str, Spec("the suite that it holds for; empty for all")] = ""


@dataclass(frozen=True)
class PartCriterion:
    """A bound on a number that an own class makes of a flight; see ``docs/parts.md``."""

    part: Annotated[str, Spec("module:Class, or the name of an entry point")]
    limit: Annotated[float, Spec("the largest value that passes")]
    least: Annotated[float, Spec("the smallest value that passes")] = 0.0
    sensors: Annotated[str, Spec("the suite that it holds for; empty for all")] = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def of(self) -> Part:
        """The own part."""
        return Part("criterion", self.part, self.arguments)

    @staticmethod
    def read(content: Mapping[str, Any], where: str) -> PartCriterion:
        """Read it; keys that are not its own are arguments of the class."""
        own = {key: content[key] for key in PART_KEYS if key in content}
        more = {key: value for key, value in content.items() if key not in own}
        arguments = {**(more.pop("arguments", None) or {}), **more}
        return replace(from_mapping(PartCriterion, own, where), arguments=arguments)


#: Keys of a criterion of an own class; the others are arguments of the class.
PART_KEYS = ("part", "limit", "least", "sensors")

AnyCriterion: TypeAlias = Criterion | SignalCriterion | EventCriterion | PartCriterion

_KINDS: Mapping[str, type[SignalCriterion] | type[EventCriterion]] = {
    "signal": SignalCriterion,
    "event": EventCriterion,
}


def criteria_from(content: Any, suite: str, where: str) -> tuple[AnyCriterion, ...]:
    """Read the criteria of a scenario that hold for a sensor suite.

    Args:
        content: a list of mappings, as YAML gives it.
        suite: name of the suite.
        where: the file that errors name.

    Raises:
        InputError: naming the criterion, the key, the value and what is allowed.
    """
    if not isinstance(content, list):
        raise InputError(f"{where}: criteria: expected a list")
    read: list[AnyCriterion] = []
    for i, item in enumerate(content):
        keys = item if isinstance(item, Mapping) else {}
        if "part" in keys:
            read.append(PartCriterion.read(keys, f"{where}: criteria[{i}]"))
            continue
        kind: type[Criterion] | type[SignalCriterion] | type[EventCriterion] = next(
            (of for key, of in _KINDS.items() if key in keys), Criterion
        )
        read.append(from_mapping(kind, item, f"{where}: criteria[{i}]"))
    return tuple(criterion for criterion in read if criterion.sensors in ("", suite))
