"""Where a sensor sits on the vehicle: its frame S in ``base_link``."""

from __future__ import annotations

import math
from typing import Annotated, Protocol

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Array
from quadsim.base.parameters import Spec, Vec3
from quadsim.geometry.linear import applied
from quadsim.geometry.rotation import from_euler, to_matrix

Position = Annotated[Vec3, Spec("origin of the sensor in base_link", "m", ge=-10.0, le=10.0)]
Rotation = Annotated[
    Vec3, Spec("roll, pitch, yaw of the sensor in base_link", "deg", ge=-360.0, le=360.0)
]


class Mounted(Protocol):
    """State of a sensor that may sit at any attitude."""

    q_BS: Array


def set_mount(state: Mounted, rotation_deg: Vec3) -> None:
    """Write the attitude of the sensor, q_BS, into its state."""
    roll, pitch, yaw = (math.radians(angle) for angle in rotation_deg)
    state.q_BS[:] = from_euler(roll, pitch, yaw)


def deviation_S(rotation_deg: Vec3, deviation_B: Vec3) -> NDArray[np.float64]:
    """Deviation on each sensor axis, (3,), of noise that is independent on the body's axes."""
    roll, pitch, yaw = (math.radians(angle) for angle in rotation_deg)
    R_BS = np.array(to_matrix(from_euler(roll, pitch, yaw)))
    variance_S: NDArray[np.float64] = applied(np.square(R_BS).T, np.square(deviation_B))
    return np.sqrt(variance_S)
