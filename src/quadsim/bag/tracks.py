"""Blocks of odometry, poses and rotor speeds as tracks that grow: what makes no sense is left out.

Every row is later than all before it; a bag that states otherwise loses rows, not its order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.sim.disk_arrays import KeptRows, KeptTrack
from quadsim.sim.log import Array, Stamps, Track
from quadsim.wire.axes import rotation_matrices
from quadsim.wire.decode import Block

_BEGINNING_NS = -(2**63)


class Rising:
    """Finds the rows that are later than everything before them, block by block."""

    def __init__(self) -> None:
        self._newest_ns = _BEGINNING_NS

    def good(self, stamp_ns: Stamps) -> NDArray[np.bool_]:
        """(N,) which rows of the next block rise."""
        newest_ns = np.maximum.accumulate(np.concatenate([[self._newest_ns], stamp_ns]))
        self._newest_ns = int(newest_ns[-1])
        return np.asarray(stamp_ns > newest_ns[:-1])


class GrowingTrack:
    """The track of a topic of odometry or of poses.

    Args:
        sigma: whether the deviations that it states are wanted.
    """

    def __init__(self, sigma: bool) -> None:
        self._sigma = sigma
        self._kept = KeptTrack(sigma)
        self._rising = Rising()
        self._stated = False
        self.left_out = 0

    def append(self, block: Block) -> None:
        """Keep a block's rows, but for those with NaN or with a stamp that does not rise."""
        part = track_of_block(block, self._sigma)
        good = self._rising.good(part.stamp_ns)
        good &= np.isfinite(part.p_W).all(axis=1) & np.isfinite(part.q_WB).all(axis=1)
        if part.sigma is not None:
            self._stated = self._stated or bool(part.sigma.any())
        self.left_out += int((~good).sum())
        self._kept.append(part if good.all() else part[good])

    def track(self, name: str, notes: list[str]) -> Track:
        """All of it; ``notes`` gets how many rows of ``name`` were left out."""
        if self.left_out:
            notes.append(f"{name}: {self.left_out} messages left out (NaN, or stamps not rising)")
        found = self._kept.track()
        if self._stated:
            return found
        return Track(found.stamp_ns, found.p_W, found.v_W, found.q_WB, found.w_B)  # all zero


class GrowingSpeeds:
    """Rotor speeds of a topic: of as many rotors as its first block has."""

    def __init__(self) -> None:
        self._width = -1
        self._rising = Rising()
        self._stamps = KeptRows(np.int64)
        self._rows = KeptRows(float)

    def append(self, stamp_ns: Stamps, speeds: Array) -> None:
        """Keep (N,) stamps and (N, rotors) speeds, but for stamps that do not rise."""
        if self._width < 0:
            self._width = speeds.shape[1]
        if speeds.shape[1] != self._width:
            return
        good = self._rising.good(stamp_ns)
        self._stamps.append(stamp_ns[good])
        self._rows.append(speeds[good].ravel())

    def speeds(self) -> tuple[Stamps, Array]:
        """(N,) stamps that rise, and (N, rotors) speeds; of four rotors where there is none."""
        width = self._width if self._width >= 0 else 4
        stamp_ns = self._stamps.whole()
        return stamp_ns, self._rows.whole().reshape(len(stamp_ns), width)


def track_of_block(block: Block, sigma: bool) -> Track:
    """A block of odometry or poses as a track, every row stored.

    Args:
        block: decoded messages.
        sigma: whether the deviations that odometry states are wanted.
    """
    p_W = block["p"]
    q_WB = np.roll(block["q_xyzw"], 1, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):  # bad rows are left out later
        q_WB /= np.linalg.norm(q_WB, axis=1, keepdims=True)
    v_B = w_B = np.zeros_like(p_W)
    R_WB = rotation_matrices(q_WB)
    stated: Array | None = np.zeros((len(p_W), 9)) if sigma else None
    if "v" in block.names:
        v_B, w_B = block["v"], block["w"]  # NaN where a driver knows none
        if sigma:
            stated = _sigma(R_WB, block["pose_covariance"], block["twist_covariance"])
    v_W = np.einsum("nij,nj->ni", R_WB, v_B)
    return Track(block.stamp_ns, p_W, v_W, q_WB, w_B, stated)


def _sigma(R_WB: Array, pose: Array, twist: Array) -> Array:
    """(N, 9) deviations of position, velocity and attitude about the world axes.

    REP-103 and nav_msgs: the pose's covariance is in the parent frame, rotation about its fixed
    axes; the twist's in the child frame, so its velocity part is rotated into the world.
    """
    velocity = R_WB @ twist[:, :3, :3] @ np.swapaxes(R_WB, 1, 2)
    diagonal: NDArray[Any] = np.concatenate(
        [
            np.einsum("nii->ni", pose[:, :3, :3]),
            np.einsum("nii->ni", velocity),
            np.einsum("nii->ni", pose[:, 3:, 3:]),
        ],
        axis=1,
    )
    return np.asarray(np.sqrt(np.maximum(diagonal, 0.0)))
