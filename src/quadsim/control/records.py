"""What laws of control remember; the laws are in the modules about them."""

from __future__ import annotations

from typing import Annotated

from quadsim.base.compiled import Array, Record, Vector
from quadsim.base.records import PerRotor


class AttitudeControl(Record):
    """State of the attitude loop.

    The mixer's account, for whoever reads and clears it: wrenches ``mixed``, those that fell
    ``short``, and the most that was ``missing`` of thrust (N) and each torque (N m).
    """

    running: int
    lost: int  # a motor that gives no thrust, from 1; 0: none
    spinning: int  # whether ``speeds`` are followed
    speeds: PerRotor  # of the rotors by their mean lag, rad/s
    w_B: Vector  # low-passed body rates, rad/s
    integral: Vector  # rad/s^2
    cut: Vector  # angular acceleration that the rotors did not give
    # the mixer's account, for whoever reads and clears it: wrenches mixed, those that the
    # rotors could not give, and the most that was missing of thrust (N) and each torque (N m)
    mixed: int
    short: int
    missing: Annotated[Array, 4]
