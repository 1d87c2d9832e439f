"""Flow, range and odometry as MAVLink has them, and what firmware is told of the devices.

Flow: MAVLink's OPTICAL_FLOW, OPTICAL_FLOW_RAD and HIL_OPTICAL_FLOW have one sign, about the axes of
FRD: a turn gives a flow of its sign, way forward a positive one about y, way to the right a
negative one about x. PX4 takes it so (VehicleOpticalFlow, EKF2's flow less the turn), ArduPilot too
(AP_OpticalFlow_MAV; EKF3 negates it). That is our sensor's sign, FLU flipped to FRD.

Odometry: its frame is level and has a yaw of its own. It goes out as if its axes were ENU, in NED
order, as mavros does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from quadsim.base.parameters import Vec3
from quadsim.firmware.axes import flipped
from quadsim.firmware.bridge import Devices

#: A covariance that is not stated: the receiver has a parameter for it.
UNKNOWN = (math.nan,) + (0.0,) * 20
#: Places of x, y, z, roll, pitch, yaw in the upper triangle of a matrix of six rows, row by row.
_DIAGONAL = (0, 6, 11, 15, 18, 20)
#: MAV_SENSOR_ROTATION_PITCH_270: looks down. MAV_DISTANCE_SENSOR; of a variance: not known.
LOOKS_DOWN, DISTANCE_KINDS, NO_VARIANCE = 25, {"ultrasound": 1, "infrared": 2}, 255
#: signal_quality of DISTANCE_SENSOR: the worst one, nothing in range; the best.
NO_SIGNAL, GOOD_SIGNAL = 1, 100


class Flow(NamedTuple):
    """A flow over an interval that ends at the stamp, in FRD.

    Attributes:
        stamp_us, interval_us: of it.
        angles_rad: about x and y; 0 where nothing was seen.
        turn_rad: of the vehicle, by the device's gyroscope; NaN without one.
        quality: 1 to 255; 0: nothing was seen.
    """

    stamp_us: int
    interval_us: int
    angles_rad: tuple[float, float]
    turn_rad: Vec3
    quality: int

    def rates_radps(self) -> tuple[float, float]:
        """The same over the interval."""
        x, y = self.angles_rad
        return 1e6 * x / self.interval_us, 1e6 * y / self.interval_us


def new_flow(devices: Devices) -> Flow | None:
    """A flow that was not sent yet."""
    found = devices.fresh("optical_flow")
    if found is None:
        return None
    x, y, interval_s = found["flow"][0].tolist()
    seen = math.isfinite(x + y)
    x, y, _ = flipped(devices.to_body("optical_flow", np.array([x, y, 0.0] if seen else [0.0] * 3)))
    turn = flipped(devices.to_body("optical_flow", found["turn"][0]))
    quality = max(1, round(255.0 * float(found["quality"][0]))) if seen else 0
    return Flow(int(found["stamp_ns"][0]) // 1000, round(1e6 * interval_s), (x, y), turn, quality)


def new_distance(devices: Devices, params: Any) -> tuple[Any, ...] | None:
    """Fields of a DISTANCE_SENSOR of a range finder, if it has a new reading.

    What is too far is a centimetre beyond the largest distance, what is too near the same below the
    least, both without a signal.
    """
    found = devices.fresh("rangefinder")
    if found is None:
        return None
    range_m, variance_m2 = float(found["range_m"][0]), float(found["variance_m2"][0])
    least, most = round(100.0 * params.range_min_m), round(100.0 * params.range_max_m)
    seen = math.isfinite(range_m)
    centimetres = round(100.0 * range_m) if seen else most + 1 if range_m > 0.0 else least - 1
    variance = min(max(1, round(1e4 * variance_m2)), NO_VARIANCE - 1)
    return (
        int(found["stamp_ns"][0]) // 1_000_000, least, most, min(max(centimetres, 0), 65535),
        DISTANCE_KINDS[params.radiation], 0, LOOKS_DOWN, variance if seen else NO_VARIANCE,
        math.radians(params.field_of_view_deg), math.radians(params.field_of_view_deg), (0.0,) * 4,
        GOOD_SIGNAL if seen else NO_SIGNAL,
    )  # fmt: skip


def pose_covariance(variances: Sequence[float]) -> tuple[float, ...]:
    """The upper triangle of a pose's covariance in NED; unknown where nothing is stated.

    Args:
        variances: (6,) of x, y, z, roll, pitch, yaw in ENU; all 0: none is stated.
    """
    if not any(variances):
        return UNKNOWN
    x, y, z, roll, pitch, yaw = variances
    covariance = [0.0] * len(UNKNOWN)
    for place, value in zip(_DIAGONAL, (y, x, z, roll, pitch, yaw), strict=True):
        covariance[place] = value
    return tuple(covariance)


def _delay_ms(device: Any) -> int:
    return round(1000.0 * float(device.latency_s))


def ardupilot_sources(sensors: Mapping[str, Any]) -> dict[str, float]:
    """Parameters of ArduPilot that a suite asks for: EKF3's sources without a receiver, and flow.

    Without a receiver ExternalNav is all but velocities, by an odometry or motion capture; with a
    flow sensor alone velocities are its, heights the barometer's and the heading the compass's,
    which in SITL are always there.
    """
    flow, odometry = sensors.get("optical_flow"), sensors.get("visual_odometry")
    lines: dict[str, float] = {}
    if flow is not None:
        x, y, z = flipped(flow.position_B_m)
        lines |= {
            "FLOW_TYPE": 5, "EK3_FLOW_DELAY": _delay_ms(flow), "FLOW_POS_X": x, "FLOW_POS_Y": y,
            "FLOW_POS_Z": z, "RNGFND1_TYPE": 100, "RNGFND1_ORIENT": LOOKS_DOWN,
        }  # fmt: skip
    if "gnss" in sensors:
        return lines
    external = flow is None or odometry is not None
    place = 6 if external else 0
    lines |= {
        "GPS1_TYPE": 0, "EK3_SRC1_POSXY": place, "EK3_SRC1_VELXY": 0 if external else 5,
        "EK3_SRC1_POSZ": place or 1, "EK3_SRC1_VELZ": 0, "EK3_SRC1_YAW": place or 1,
    }  # fmt: skip
    if external:
        lines |= {"VISO_TYPE": 1, "VISO_POS_M_NSE": 0.05, "VISO_YAW_M_NSE": 0.05}
    if odometry is not None:
        lines["VISO_DELAY_MS"] = _delay_ms(odometry)
    return lines


def px4_sources(sensors: Mapping[str, Any]) -> dict[str, str]:
    """Parameters of PX4 that a suite asks for; its start script (rcS) takes them of these names.

    EKF2_EV_CTRL: places, heights and yaw, by an odometry or motion capture. Heights are those, else
    the range finder's. What a suite lacks is not waited for.
    """
    flow, odometry = sensors.get("optical_flow"), sensors.get("visual_odometry")
    lines: dict[str, int] = {}
    if flow is not None:
        lines |= {"EKF2_OF_CTRL": 1, "EKF2_OF_DELAY": _delay_ms(flow), "EKF2_RNG_CTRL": 2}
    if odometry is not None:
        lines["EKF2_EV_DELAY"] = _delay_ms(odometry)
    if "gnss" not in sensors:
        external = flow is None or odometry is not None
        lines |= {"EKF2_HGT_REF": 3 if external else 2, "EKF2_GPS_CTRL": 0, "SYS_HAS_GPS": 0}
        lines |= {"EKF2_EV_CTRL": 11} if external else {}
        if external or "magnetometer" not in sensors:
            lines |= {"SYS_HAS_MAG": 0, "EKF2_MAG_TYPE": 5}
        if "barometer" not in sensors and not external:
            lines |= {"SYS_HAS_BARO": 0, "EKF2_BARO_CTRL": 0}
    return {f"PX4_PARAM_{name}": str(value) for name, value in lines.items()}
