"""The vote of two of a kind in words, for status, events and notes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from quadsim.base.levels import OK, WARN
from quadsim.estimation.eskf import pairs
from quadsim.estimation.eskf.layout import GNSS_POSITION, GNSS_VELOCITY, RANGE, SENSORS
from quadsim.estimation.eskf.voting import DIFFERS, GOOD, LATE_NS, LOSES, NOISY, REPEATS, SILENT

IMUS = ("imu", "imu_1")
#: Names of the two of each pair, as of ``eskf.pairs``, and what their messages are to the filter.
PAIRS = (("gnss", "gnss_1"), ("rangefinder", "rangefinder_1"))
_FUSED = ((GNSS_POSITION, GNSS_VELOCITY), (RANGE,))
#: Rejected for so long, what two agree on is named, ns.
_LASTING_NS = 300_000_000
#: Names of events.
LEFT_OUT, TAKEN_BACK = "sensor left out", "sensor taken back"
#: What is named where both agree and contradict the rest.
COMMON = "both IMUs"
#: Sensors of the filter that rest on one device, or on one outside the vehicle.
_SOURCES = {"gnss_position": "gnss", "gnss_velocity": "gnss", "external_attitude": "external pose",
            "external_position": "external pose"}  # fmt: skip


def fault_words(imu: Any, reason: int) -> str:
    """What is wrong with one of two IMUs.

    Args:
        imu: its record.
        reason: of ``eskf.voting``.
    """
    axis, size = int(imu["axis"]), float(imu["size"])
    part = "accelerometer" if axis < 3 else "gyroscope"
    unit = "m/s^2" if axis < 3 else "rad/s"
    return {
        GOOD: "",
        REPEATS: f"{part} repeats one value",
        SILENT: f"silent, or late by more than {LATE_NS * 1e-6:.0f} ms",
        LOSES: f"{1.0 - size:.0%} of its samples are lost",
        NOISY: f"{part} noisy, {size:.2g} {unit} a sample",
        DIFFERS: f"{part} {'xyz'[axis % 3]} off by {abs(size):.2g} {unit}",
    }[reason]


def left_out(vote: Any) -> dict[str, str]:
    """Names of what is left out, or does not agree, and why.

    Args:
        vote: VOTE record of the filter.
    """
    if not vote["on"]:
        return {}
    imus = zip(IMUS, vote["imus"], strict=True)
    found = {
        name: fault_words(imu, int(imu["reason"])) for name, imu in imus if imu["reason"] != GOOD
    }
    if len(found) == 2:
        found[IMUS[int(vote["used"])]] += " (flown on all the same)"
    if vote["disagree_ns"]:
        found[" and ".join(IMUS)] = "disagree, not told yet which is wrong"
    return found


def common_fault(vote: Any, rejected: list[str]) -> str:
    """That two IMUs agree with each other and contradict the rest; empty: they do not.

    One other sensor that is rejected may itself be wrong, two hardly are at once.

    Args:
        vote: VOTE record of the filter.
        rejected: names of sensors of the layout that are rejected now.
    """
    sources = dict.fromkeys(_SOURCES.get(name, name) for name in rejected if name in SENSORS)
    if not vote["on"] or left_out(vote) or len(sources) < 2:
        return ""
    return f"agree, and contradict {', '.join(sources)}: a common fault"


def device_words(g: int, device: Any, reason: int) -> str:
    """What is wrong with one of two receivers or range finders.

    Args:
        g: which pair, as of ``eskf.pairs``.
        device: its record.
        reason: of ``eskf.pairs``.
    """
    axis, size, is_gnss = "xyz"[int(device["axis"])], float(device["size"]), g == pairs.GNSS
    what = ("position", "velocity")[int(device["part"])] if is_gnss else "range"
    unit = "m/s" if what == "velocity" else "m"
    return {
        pairs.GOOD: "",
        pairs.SILENT: f"{what} silent{', or no fix' if is_gnss else ''}",
        pairs.REPEATS: f"{what} repeats one value",
        pairs.TOO_NEAR: f"sees something at once, the other the ground at {size:.1f} m",
        pairs.DIFFERS: f"{what} off by {size:.2g} {unit}" + (f" in {axis}" if is_gnss else ""),
    }[reason]


def pairs_left_out(line: Any) -> dict[str, str]:
    """Of two receivers or range finders, what is left out, does not agree, or is a common fault.

    Args:
        line: LINE record, of the filter and its messages.
    """
    found = {}
    for g, (pair, names) in enumerate(zip(line["pairs"], PAIRS, strict=True)):
        if not pair["on"]:
            continue
        reasons = pair["devices"]["reason"].tolist()
        for name, device, reason in zip(names, pair["devices"], reasons, strict=True):
            if reason != pairs.GOOD:
                found[name] = device_words(g, device, reason)
        if any(reasons):
            continue
        if pair["disagree_ns"].any():
            found[" and ".join(names)] = "the two disagree, not told yet which is wrong"
        elif common := _common_words(line, pair, g):
            found[f"both of {names[0]}"] = common
    return found


def _common_words(line: Any, pair: Any, g: int) -> str:
    """That two agree with each other, and the filter rejects them; empty: it does not."""
    state = line["state"]
    if g == pairs.RANGEFINDER and not line["params"]["flat_ground"]:
        return ""  # they have flown over an edge
    for part, kind in enumerate(_FUSED[g]):
        lasts = state["stamp_ns"] - state["rejected_since_ns"][kind] > _LASTING_NS
        if state["rejected_in_row"][kind] >= 3 and lasts and pair["total"][part] < pairs.AGREE:
            return f"agree, and contradict the rest by their {SENSORS[kind]}: a common fault"
    return ""


def past_words(line: Any) -> list[str]:
    """What was left out so far and since when, for the notes of a flight."""
    vote, words = line["vote"], []
    told = [(name, imu, fault_words) for name, imu in zip(IMUS, vote["imus"], strict=True)]
    for g, names in enumerate(PAIRS):
        devices = zip(names, line["pairs"][g]["devices"], strict=True)
        told += [(name, device, partial(device_words, g)) for name, device in devices]
    for name, device, words_of in told:
        if device["last_reason"] != GOOD:
            back = f", taken back at {device['back_ns'] * 1e-9:.2f} s"
            back = "" if device["reason"] != GOOD else back
            why = words_of(device, int(device["last_reason"]))
            words.append(f"{name} left out at {device['named_ns'] * 1e-9:.2f} s{back}: {why}")
    return words


def vote_changes(before: Mapping[str, str], now: Mapping[str, str]) -> list[tuple[int, str, str]]:
    """Level, name and message of the events between two of :func:`left_out`."""
    begun = [(WARN, LEFT_OUT, f"{name}: {why}") for name, why in now.items() if name not in before]
    return begun + [(OK, TAKEN_BACK, name) for name in before if name not in now]
