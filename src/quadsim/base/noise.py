"""The one place where noise comes from: a stream per vehicle and source (a sensor, the wind)."""

from __future__ import annotations

import hashlib

import numpy as np


def stream(seed: int, vehicle: str, source: str) -> np.random.Generator:
    """Generator of one sensor, or of the wind, of one vehicle.

    It depends on the scenario's seed and the two names alone, so that adding or changing another
    sensor or vehicle leaves every bit of it as it was.
    """
    name = hashlib.sha256(f"{vehicle}/{source}".encode()).digest()
    words = np.frombuffer(name, dtype="<u4").tolist()
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence([seed, *words])))
