"""Whether a vehicle is in the mode in which it obeys setpoints, out of what its driver reports."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.errors import QuadsimError
from quadsim.wire.decode import LITTLE_ENDIAN, STAMP_END

#: As mavros names them: PX4's, and ArduPilot's (mavros/src/lib/uas_stringify.cpp).
MODES = ("OFFBOARD", "GUIDED")
#: VehicleStatus.nav_state, NAVIGATION_STATE_OFFBOARD, in all releases of px4_msgs.
PX4_OFFBOARD = 14
_LENGTH = struct.Struct("<I")
#: Of State between its header and its mode: connected, armed, guided, manual_input.
_FLAGS = 4


def in_mavros_mode(payload: bytes) -> bool:
    """Of a serialised mavros_msgs/msg/State: header, four flags, mode, system_status.

    Raises:
        QuadsimError: it is none.
    """
    try:
        if payload[1] != LITTLE_ENDIAN:
            raise ValueError("not little-endian CDR")
        (length,) = _LENGTH.unpack_from(payload, STAMP_END)
        at = STAMP_END + _LENGTH.size + length + _FLAGS
        at += -at % 4  # lengths are aligned
        (length,) = _LENGTH.unpack_from(payload, at)
        mode = payload[at + _LENGTH.size : at + _LENGTH.size + length]
        if not mode.endswith(b"\0"):
            raise ValueError("its mode has no end")
    except (ValueError, IndexError, struct.error) as error:
        raise QuadsimError(f"no mavros_msgs/msg/State: {error}") from None
    return mode[:-1].decode(errors="replace") in MODES


def in_px4_mode(rows: NDArray[Any]) -> NDArray[np.bool_]:
    """(N,) of px4_msgs/msg/VehicleStatus."""
    return np.asarray(rows["nav_state"] == PX4_OFFBOARD)


def encode_bool(value: bool) -> bytes:
    """A serialised std_msgs/msg/Bool."""
    return bytes((0, LITTLE_ENDIAN, 0, 0, int(value)))
