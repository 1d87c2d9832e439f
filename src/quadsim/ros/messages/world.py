"""Messages about the world as a whole: time, datum, wind, battery."""

from __future__ import annotations

import math
from typing import Any

from builtin_interfaces.msg import Time
from geometry_msgs.msg import Vector3Stamped
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import BatteryState, NavSatFix

from quadsim.base.errors import InputError
from quadsim.base.parameters import Vec3, from_mapping
from quadsim.geometry.geodesy import Datum
from quadsim.ros.messages.cdr import MessageError, xyz
from quadsim.ros.runtime import topics
from quadsim.wire.encode import SECOND_NS
from quadsim.world.air.wind_parameters import FASTEST_WIND_MPS


def make_time(stamp_ns: int) -> Time:
    """Time message."""
    seconds, nanoseconds = divmod(stamp_ns, SECOND_NS)
    return Time(sec=seconds, nanosec=nanoseconds)


def make_clock(stamp_ns: int) -> Clock:
    """Clock message."""
    return Clock(clock=make_time(stamp_ns))


def make_datum(datum: Any) -> NavSatFix:
    """The origin of ``map`` as ``/datum`` carries it."""
    message = NavSatFix(
        latitude=datum.latitude_deg, longitude=datum.longitude_deg, altitude=datum.height_m
    )
    message.header.frame_id = "map"
    return message


def read_datum(message: NavSatFix) -> Datum:
    """The origin of ``map`` out of ``/datum``.

    Raises:
        MessageError: no place on Earth.
    """
    return datum_at(message.latitude, message.longitude, message.altitude)


def datum_at(latitude_deg: float, longitude_deg: float, height_m: float) -> Datum:
    """An origin of ``map``.

    Raises:
        MessageError: no place on Earth.
    """
    place = {"latitude_deg": latitude_deg, "longitude_deg": longitude_deg, "height_m": height_m}
    try:
        return from_mapping(Datum, place, topics.DATUM.name)
    except InputError as error:
        raise MessageError(str(error)) from None


def wind_of(message: Vector3Stamped) -> Vec3:
    """Velocity of the air in W, m/s, out of a message in ``map``.

    Raises:
        MessageError: another frame, a number is missing, or a wind that no world has.
    """
    if message.header.frame_id != "map":
        raise MessageError(f"frame {message.header.frame_id!r}; give map")
    wind_W_mps = xyz(message.vector)
    if not all(abs(speed) <= FASTEST_WIND_MPS for speed in wind_W_mps):  # NaN is not either
        raise MessageError(f"{wind_W_mps} m/s; give at most {FASTEST_WIND_MPS:g} on each axis")
    return wind_W_mps


def make_battery(
    params: Any, voltage_V: float, charge: float, current_A: float, stamp_ns: int
) -> BatteryState:
    """State of a battery that discharges."""
    message = BatteryState(
        voltage=voltage_V,
        current=-current_A,
        charge=charge * params.capacity_Ah,
        capacity=params.capacity_Ah,
        design_capacity=params.capacity_Ah,
        percentage=charge,
        temperature=math.nan,
        power_supply_status=BatteryState.POWER_SUPPLY_STATUS_DISCHARGING,
        present=True,
    )
    message.header.stamp = make_time(stamp_ns)
    return message
