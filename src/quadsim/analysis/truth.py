"""What estimates are judged by: the ground truth, or a motion capture system's poses."""

from __future__ import annotations

from functools import partial

import numpy as np

from quadsim.bag.log import ODOMETRY, POSE, read_track
from quadsim.bag.reading import Bag
from quadsim.bag.topics import topic
from quadsim.base.errors import InputError
from quadsim.sim.log import Track
from quadsim.wire.damaged import decoded
from quadsim.wire.decode import decode

POSE_WITH_COVARIANCE = "geometry_msgs/msg/PoseWithCovarianceStamped"
TYPES = (ODOMETRY, POSE, POSE_WITH_COVARIANCE)


def truth_topic(bag: Bag, namespace: str, name: str) -> str:
    """Full name of the topic that the truth is taken from.

    Args:
        namespace: the vehicle, which a name without a leading slash is relative to.

    Raises:
        InputError: the bag does not have it, or it is no pose.
    """
    full = name if name.startswith("/") else topic(namespace, name)
    if not bag.counts.get(full):
        there = sorted(t for t, kind in bag.types.items() if kind in TYPES and bag.counts[t])
        raise InputError(
            f"{bag.path}: no message on {full} (--truth); poses in this bag:"
            f" {', '.join(there) or 'none'}"
        )
    if bag.types[full] not in TYPES:
        raise InputError(
            f"{bag.path}: {full} (--truth) is {bag.types[full]}; allowed: {', '.join(TYPES)}"
        )
    return full


def read_truth(bag: Bag, full: str, notes: list[str]) -> Track:
    """Motion on a topic of odometry or of poses; of poses the velocity is NaN: it is not known.

    Args:
        notes: gets what was left out.
    """
    if bag.types[full] == ODOMETRY:
        return read_track(bag, full, notes, sigma=False)
    blocks = []
    for batch in bag.batches([full]):
        block = decoded(partial(decode, bag.types[full]), batch.payloads)
        if block.bad:
            notes.append(f"{full}: {len(block.bad)} messages left out: {block.reason}")
        blocks += [] if block.good is None else [block.good]
    if not blocks:
        return Track.empty()
    stamp_ns = np.concatenate([block.stamp_ns for block in blocks])
    p_W = np.concatenate([block["p"] for block in blocks])
    q_WB = np.roll(np.concatenate([block["q_xyzw"] for block in blocks]), 1, axis=1)
    length = np.linalg.norm(q_WB, axis=1)
    good = np.isfinite(p_W).all(axis=1) & (np.abs(length - 1.0) < 0.01)
    good[1:] &= stamp_ns[1:] > np.maximum.accumulate(stamp_ns)[:-1]
    if not good.all():
        notes.append(
            f"{full}: {int((~good).sum())} messages left out (NaN, no unit quaternion, or stamps"
            " not rising)"
        )
    unknown = np.full((int(good.sum()), 3), np.nan)
    q_WB = q_WB[good] / length[good, None]
    return Track(stamp_ns[good], p_W[good], unknown, q_WB, unknown)
