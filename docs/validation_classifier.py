"""Whether a classifier tells recorded flights from their closed-loop twins.

Gradient-boosted trees on windows of 1 s of IMU and rotor speeds, cross-validated by flight: a
flight and its twin are left out together. 50 % is what cannot be told apart. Asks for scikit-learn.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.signal import welch
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.inspection import permutation_importance
from sklearn.model_selection import GroupKFold

from quadsim.lab.validate.twin import STEP_S, PathFlight
from quadsim.lab.validate.twin_report import TWIN_BANDS_HZ, TwinFlights

Array = NDArray[np.float64]

#: Length of a window and of the way from one to the next, s, and parts of the cross-validation.
WINDOW_S, APART_S, FOLDS = 1.0, 0.5, 7
CHANNELS = ("w_x", "w_y", "w_z", "f_x", "f_y", "f_z", "m1", "m2", "m3", "m4")


def window_features(flown: PathFlight) -> tuple[Array, list[str]]:
    """(windows, features) and the features' names: mean, deviation and bands of each channel."""
    values = np.hstack([flown.w_B, flown.f_B, flown.speed])
    length = round(WINDOW_S / STEP_S)
    rows = []
    for begin in range(0, len(values) - length + 1, round(APART_S / STEP_S)):
        part = values[begin : begin + length]
        at_hz, density = welch(part, 1.0 / STEP_S, nperseg=length // 2, axis=0)
        bands = [
            np.log(density[(at_hz >= low) & (at_hz < high)].sum(axis=0) + 1e-15)
            for low, high in zip(TWIN_BANDS_HZ[1:], (*TWIN_BANDS_HZ[2:], 251.0), strict=True)
        ]
        rows.append(np.concatenate([part.mean(axis=0), part.std(axis=0), *bands]))
    kinds = ["mean", "deviation", *(f"from {low:g} Hz" for low in TWIN_BANDS_HZ[1:])]
    return np.array(rows), [f"{channel}, {kind}" for kind in kinds for channel in CHANNELS]


def told_apart(
    flights: Sequence[TwinFlights], begins: tuple[str, ...]
) -> tuple[float, list[tuple[str, float]]]:
    """Share of windows that are told right by some channels, and the features that tell most."""
    blocks, labels, groups, names = [], [], [], list[str]()
    for k, each in enumerate(flights):
        for label, side in enumerate((each.recorded, each.simulated)):
            features, names = window_features(side)
            blocks.append(features)
            labels += [label] * len(features)
            groups += [k] * len(features)
    given = [i for i, name in enumerate(names) if name.startswith(begins)]
    names = [names[i] for i in given]
    features, truth = np.vstack(blocks)[:, given], np.array(labels)
    right, weight = 0, np.zeros(features.shape[1])
    for seen, left in GroupKFold(FOLDS).split(features, truth, groups):
        trees = HistGradientBoostingClassifier(random_state=0, max_iter=100)
        trees.fit(features[seen], truth[seen])
        right += int((trees.predict(features[left]) == truth[left]).sum())
        found = permutation_importance(
            trees, features[left], truth[left], n_repeats=3, random_state=0
        )
        weight += found.importances_mean / FOLDS
    order = np.argsort(-weight)[:10]
    return right / len(truth), [(names[i], float(weight[i])) for i in order]
