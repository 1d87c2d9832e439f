"""Faults of a sensor while it flies: what happens to a sample on its way out.

A fault acts from ``at_s`` on for ``duration_s``, on the sensor's numbers in their own units and
axes. Several may act at once, in the order in which they are listed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated

import numpy as np
import yaml
from numpy.typing import NDArray

from quadsim.base.compiled import Array, Record, Records, kernel
from quadsim.base.errors import InputError
from quadsim.base.parameters import Spec, dtype_of, from_mapping, read_yaml_text

STUCK, FROZEN, NOISIER, BIAS, DROPOUT, DELAY, OUTAGE, SPOOFING, JUMP = range(9)
FAULTS = ("stuck", "frozen", "noisier", "bias", "dropout", "delay", "outage", "spoofing", "jump")

#: Faults of one sensor in a flight, and numbers of a sample that a fault can act on.
MAX_FAULTS = 16
MAX_VALUES = 7

FOR_EVER_NS = 1 << 62


@dataclass(frozen=True)
class FaultParams:
    """One fault, with the value that its kind wants.

    stuck: the reading (one for all numbers, or one each; default 0). frozen: nothing; the last
    reading repeats. noisier: factor on the white noise. bias: what is added (one, or one each).
    dropout: probability of losing a sample (default 1). delay: further latency in s. outage: GNSS
    has no fix, an odometry sees nothing. spoofing: GNSS drifts off at this velocity, east, north,
    up, in m/s. jump: an odometry relocalises, by x, y, z in its frame in m and yaw in degrees.
    """

    fault: Annotated[str, Spec("kind", choices=FAULTS)]
    at_s: Annotated[float, Spec("simulated time at which it begins", "s", ge=0.0)] = 0.0
    duration_s: Annotated[float, Spec("0: until the end", "s", ge=0.0)] = 0.0
    value: Annotated[
        tuple[float, ...], Spec("as the kind wants, in the sensor's units", max_items=MAX_VALUES)
    ] = ()
    channel: Annotated[str, Spec("what of the sensor, such as accel; empty for all")] = ""


class ActingFault(Record):
    """One fault as it acts on a sample."""

    kind: int
    start_ns: int
    end_ns: int
    first: int  # channel, as a range of the sample's values
    count: int
    value: Annotated[Array, MAX_VALUES]
    held: Annotated[Array, MAX_VALUES]  # frozen: the reading that repeats
    holds: int


class FaultList(Record):
    """The faults of a device."""

    count: int
    items: Annotated[Records[ActingFault], MAX_FAULTS]


FAULT_LIST = dtype_of(FaultList)


#: Of each kind how many numbers its value may have (-1: one for each of the channel), and the range
#: of the first.
_VALUES: dict[str, tuple[tuple[int, ...], float, float]] = {
    "stuck": ((0, 1, -1), -math.inf, math.inf),
    "frozen": ((0,), -math.inf, math.inf),
    "noisier": ((1,), 0.0, math.inf),
    "bias": ((1, -1), -math.inf, math.inf),
    "dropout": ((0, 1), 0.0, 1.0),
    "delay": ((1,), 0.0, math.inf),
    "outage": ((0,), -math.inf, math.inf),
    "spoofing": ((3,), -math.inf, math.inf),
    "jump": ((4,), -math.inf, math.inf),
}
#: Kinds of sensors that have a fault that not all have.
_ONLY = {
    "outage": ("gnss", "visual_odometry"),
    "spoofing": ("gnss",),
    "jump": ("visual_odometry",),
}


def add_fault(
    faults: FaultList,
    params: FaultParams,
    sensor: str,
    channels: Mapping[str, tuple[int, int]],
    longest_delay_s: float,
    where: str = "",
) -> None:
    """Put a fault on a sensor's list.

    Args:
        faults: FAULT_LIST record.
        params: the fault.
        sensor: kind of the sensor.
        channels: names of its channels, each with the first index and the count of its numbers;
            "" is the whole.
        longest_delay_s: that the sensor can have in all, less its latency.
        where: goes before what errors say.

    Raises:
        InputError: the fault does not fit the sensor; one line that states what is allowed.
    """
    if params.channel not in channels:
        named = ", ".join(name for name in channels if name)
        raise InputError(f"{where}channel: {params.channel!r}; {sensor} has: {named or 'none'}")
    first, count = channels[params.channel]
    only = _ONLY.get(params.fault, (sensor,))
    if sensor not in only:
        raise InputError(
            f"{where}fault: {params.fault!r} is a fault of {' and '.join(only)}, not of {sensor}"
        )
    widths, least, most = _VALUES[params.fault]
    allowed = {count if width < 0 else width for width in widths}
    if len(params.value) not in allowed:
        raise InputError(
            f"{where}value: {len(params.value)} numbers for {params.fault!r} of {sensor}; allowed: "
            + " or ".join(str(number) for number in sorted(allowed))
        )
    value = params.value or ((1.0,) if params.fault == "dropout" else (0.0,))
    most = longest_delay_s if params.fault == "delay" else most
    if not least <= value[0] <= most:
        bound = "" if most == math.inf else f" and <= {most:g}"
        unit = " s" if params.fault == "delay" else ""
        raise InputError(
            f"{where}value: {value[0]!r} is out of range; allowed: >= {least:g}{bound}{unit}"
        )
    if faults.count >= MAX_FAULTS:
        raise InputError(f"more than {MAX_FAULTS} faults of {sensor}")
    item = faults["items"][int(faults.count)]
    item.kind = FAULTS.index(params.fault)
    item.start_ns = round(params.at_s * 1e9)
    item.end_ns = (
        item.start_ns + round(params.duration_s * 1e9) if params.duration_s else FOR_EVER_NS
    )
    item.first, item.count, item.holds = first, count, 0
    item.value[:] = value[0] if len(value) == 1 else np.resize(value, MAX_VALUES)
    faults.count += 1


@kernel
def acts(fault: ActingFault, now_ns: int) -> bool:
    """Whether a fault acts on a sample taken now."""
    return bool(fault.start_ns <= now_ns < fault.end_ns)


@kernel
def amplify(faults: FaultList, now_ns: int, white: NDArray[np.float64], count: int) -> None:
    """Multiply the model's normal numbers while it is noisier."""
    for k in range(faults.count):
        fault = faults.items[k]
        if fault.kind == NOISIER and acts(fault, now_ns):
            for i in range(count):
                white[i] *= fault.value[0]


@kernel
def loss_probability(faults: FaultList, now_ns: int, own: float) -> float:
    """Probability of losing a sample taken now."""
    for k in range(faults.count):
        fault = faults.items[k]
        if fault.kind == DROPOUT and acts(fault, now_ns):
            own = max(own, fault.value[0])
    return own


@kernel
def fault_delay_s(faults: FaultList, now_ns: int) -> float:
    """Further latency of a sample taken now."""
    result = 0.0
    for k in range(faults.count):
        fault = faults.items[k]
        if fault.kind == DELAY and acts(fault, now_ns):
            result += fault.value[0]
    return result


@kernel
def in_outage(faults: FaultList, now_ns: int) -> bool:
    """Whether a GNSS receiver has no fix."""
    for k in range(faults.count):
        if faults.items[k].kind == OUTAGE and acts(faults.items[k], now_ns):
            return True
    return False


@kernel
def apply_faults(faults: FaultList, now_ns: int, values: NDArray[np.float64]) -> None:
    """Change the numbers of a sample as the faults that act on it do.

    Args:
        faults: FAULT_LIST record.
        now_ns: when it was taken.
        values: (n,) its numbers.
    """
    for k in range(faults.count):
        fault = faults.items[k]
        if not acts(fault, now_ns):
            continue
        for i in range(fault.first, fault.first + fault.count):
            own = i - fault.first
            if fault.kind == STUCK:
                values[i] = fault.value[own]
            elif fault.kind == BIAS:
                values[i] += fault.value[own]
            elif fault.kind == FROZEN:
                if fault.holds == 0:
                    fault.held[i] = values[i]
                values[i] = fault.held[i]
        if fault.kind == FROZEN:
            fault.holds = 1
        elif fault.kind == SPOOFING:
            elapsed_s = (now_ns - fault.start_ns) * 1e-9
            for i in range(3):
                values[i] += fault.value[i] * elapsed_s
                values[3 + i] += fault.value[i]


def fault_changes(faults: Sequence[FaultParams]) -> list[tuple[int, str]]:
    """When each fault begins and ends, in order: stamp in ns and words for an event."""
    found = []
    for fault in faults:
        begin_ns = round(fault.at_s * 1e9)
        found.append((begin_ns, f"{fault_in_words(fault)} begins"))
        if fault.duration_s:
            found.append(
                (begin_ns + round(fault.duration_s * 1e9), f"{fault_in_words(fault)} ends")
            )
    return sorted(found)


def faults_from_text(text: str) -> list[FaultParams]:
    """Faults of one sensor from YAML: a list of mappings, or one mapping; empty for none.

    Raises:
        InputError: not YAML, or a key or value that is refused.
    """
    content = read_yaml_text(text, "faults") if text.strip() else []
    items = content if isinstance(content, list) else [content]
    return [from_mapping(FaultParams, item, f"faults[{i}]") for i, item in enumerate(items)]


def faults_to_text(faults: Sequence[FaultParams]) -> str:
    """Faults as :func:`faults_from_text` reads them."""
    items = [asdict(fault) | {"value": list(fault.value)} for fault in faults]
    return str(yaml.safe_dump(items, default_flow_style=True, width=math.inf)).strip()


def fault_in_words(fault: FaultParams) -> str:
    """One fault in words."""
    numbers = " ".join(f"{number:g}" for number in fault.value)
    return " ".join(part for part in (fault.fault, fault.channel, numbers) if part)
