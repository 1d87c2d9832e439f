"""What the vote of two of a kind says, in words, for status, events and notes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quadsim.base.levels import OK, WARN
from quadsim.estimation.eskf.layout import SENSORS
from quadsim.estimation.eskf.voting import DIFFERS, GOOD, LATE_NS, LOSES, NOISY, REPEATS, SILENT

IMUS = ("imu", "imu_1")
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


def past_words(vote: Any) -> list[str]:
    """What was left out so far and since when, for the notes of a flight."""
    words = []
    for name, imu in zip(IMUS, vote["imus"], strict=True):
        if vote["on"] and imu["last_reason"] != GOOD:
            back = "" if imu["reason"] != GOOD else f", taken back at {imu['back_ns'] * 1e-9:.2f} s"
            why = fault_words(imu, int(imu["last_reason"]))
            words.append(f"{name} left out at {imu['named_ns'] * 1e-9:.2f} s{back}: {why}")
    return words


def vote_changes(before: Mapping[str, str], now: Mapping[str, str]) -> list[tuple[int, str, str]]:
    """Level, name and message of the events between two of :func:`left_out`."""
    begun = [(WARN, LEFT_OUT, f"{name}: {why}") for name, why in now.items() if name not in before]
    return begun + [(OK, TAKEN_BACK, name) for name in before if name not in now]
