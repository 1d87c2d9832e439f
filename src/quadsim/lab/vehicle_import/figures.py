"""Figures of a vehicle in another program's file, under our keys, with their places."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from quadsim.base.compiled import Array
from quadsim.base.errors import InputError

#: Rotors that are tilted by more do not lift, rad.
MOST_TILT_RAD = math.radians(60.0)
#: Smaller tilts and products of inertia (over the largest moment) are rounding.
SMALL_TILT_RAD, SMALL_PRODUCT = 1e-4, 1e-4
#: Speed of the rotors in hover, which some files give instead of a thrust coefficient.
HOVER_SPEED = "hover_speed_radps"


@dataclass(frozen=True)
class Mount:
    """Where a sensor is.

    Attributes:
        position_B_m: from the centre of mass.
    """

    kind: str
    name: str
    position_B_m: tuple[float, ...]


@dataclass
class Figures:
    """Values by our dotted keys, what their comments say, and what a user should know.

    Attributes:
        sources: key to where it stands in the file, or how it was made.
        notes: what was left out or made up, a line each.
    """

    where: str
    values: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    mounts: list[Mount] = field(default_factory=list)

    def put(self, key: str, value: Any, source: str) -> None:
        """Set a key."""
        self.values[key], self.sources[key] = value, source

    def take(self, content: Mapping[str, Any], keys: Mapping[str, str]) -> None:
        """Set keys from numbers of a mapping: its name to our key."""
        for name, key in keys.items():
            if name in content:
                self.put(key, self.number(content, name), name)

    def number(self, content: Mapping[str, Any], name: str) -> float:
        """A number of a mapping.

        Raises:
            InputError: it is missing, or no finite number.
        """
        value = content.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not _finite(value):
            raise InputError(f"{self.where}: {name}: {value!r}; allowed: a finite number")
        return float(value)

    def vector(self, content: Mapping[str, Any], name: str, count: int = 3) -> tuple[float, ...]:
        """So many numbers of a mapping; one more than asked for is left out.

        Raises:
            InputError: they are missing, or no finite numbers.
        """
        values = content.get(name)
        if not isinstance(values, Sequence | np.ndarray) or len(values) < count:
            raise InputError(f"{self.where}: {name}: {values!r}; allowed: {count} numbers")
        return tuple(self.number({name: value}, name) for value in list(values)[:count])

    def put_rotors(
        self, hubs: Iterable[Sequence[float]], directions: Iterable[float], source: str
    ) -> None:
        """Set places and directions of the rotors."""
        self.put("rotor_positions_B_m", [tuple(hub) for hub in hubs], source)
        self.put("rotor_directions", [float(np.sign(d)) for d in directions], source)

    def put_inertia(self, inertia: Array, source: str) -> None:
        """Set the inertia by a tensor (3, 3) about the centre of mass, in B."""
        moments = np.diag(inertia)
        products = inertia[[0, 0, 1], [1, 2, 2]]
        self.put("inertia_kg_m2", moments.tolist(), source)
        if np.abs(products).max() > SMALL_PRODUCT * moments.max():
            self.put("inertia_products_kg_m2", products.tolist(), source)

    def stand_up(self, axes: Sequence[Array]) -> list[int]:
        """Which rotors lift, by their axes in B, which are set where they are tilted.

        Raises:
            InputError: a rotor that pulls downwards.
        """
        lifting, tilts = [], []
        for i, axis in enumerate(axes):
            tilt = math.acos(float(np.clip(axis[2] / np.linalg.norm(axis), -1.0, 1.0)))
            if tilt > math.pi - MOST_TILT_RAD:
                raise InputError(
                    f"{self.where}: rotor {i} pulls down; allowed: rotors within"
                    f" {math.degrees(MOST_TILT_RAD):.0f} deg of upright"
                )
            if tilt > MOST_TILT_RAD:
                self.notes.append(
                    f"rotor {i} is left out: its axis is {math.degrees(tilt):.0f} deg off upright"
                )
                continue
            lifting.append(i)
            tilts.append(tilt)
        if max(tilts, default=0.0) > SMALL_TILT_RAD:
            units = [(axes[i] / np.linalg.norm(axes[i])).tolist() for i in lifting]
            tilted = ", ".join(f"{math.degrees(tilt):.4g}" for tilt in tilts)
            self.put("rotor_axes_B", units, f"tilted by {tilted} deg")
        return lifting


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False
