"""Where a sensor sits on the vehicle: its frame S in ``base_link``."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np

from quadsim.geometry.rotation import from_euler
from quadsim.parameters import Spec, Vec3

Position = Annotated[Vec3, Spec("origin of the sensor in base_link", "m", ge=-10.0, le=10.0)]
Rotation = Annotated[
    Vec3, Spec("roll, pitch, yaw of the sensor in base_link", "deg", ge=-360.0, le=360.0)
]
MOUNT_FIELD = ("q_BS", np.float64, (4,))


def set_mount(state: np.record, rotation_deg: Vec3) -> None:
    """Write the attitude of the sensor, q_BS, into its state."""
    roll, pitch, yaw = (math.radians(angle) for angle in rotation_deg)
    state.q_BS[:] = from_euler(roll, pitch, yaw)
