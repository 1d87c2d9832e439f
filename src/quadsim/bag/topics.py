"""Topics of a bag by the architecture's names: whose they are, what is missing, where map is."""

from __future__ import annotations

import math

from quadsim.bag.metadata import FIELD
from quadsim.bag.reading import Bag
from quadsim.base.errors import InputError
from quadsim.base.parameters import Vec3
from quadsim.geometry.geodesy import Datum
from quadsim.wire.decode import decode

DATUM = "/datum"
FIX = "sensor_msgs/msg/NavSatFix"
TRUTH = "ground_truth/odom"
IMU = "imu/data_raw"
FILTERED = "odometry/filtered"
BLIND = "odometry/blind"
MOTORS = "motor_speed"
COMMANDS = "command_motor_speed"
#: What the names of estimates begin with; other estimators than these two publish there too.
ESTIMATES = "odometry/"


def topic(namespace: str, name: str) -> str:
    """Full name of a vehicle's topic; a name that begins with / is one already."""
    if name.startswith("/"):
        return name
    return f"/{namespace.strip('/')}/{name}" if namespace.strip("/") else f"/{name}"


def namespaces(bag: Bag) -> list[str]:
    """Vehicles in a bag: namespaces that have an IMU or a truth."""
    found = {
        name[: -len(end) - 1] or "/"
        for name in bag.counts
        for end in (IMU, TRUTH)
        if name.endswith("/" + end)
    }
    return sorted(found)


def require(bag: Bag, namespace: str, name: str, type_name: str) -> str:
    """Full name of a topic that must be in the bag, with its type.

    Raises:
        InputError: naming the topic and what there is instead.
    """
    full = topic(namespace, name)
    if full not in bag.counts:
        there = ", ".join(namespaces(bag)) or "none"
        raise InputError(
            f"{bag.path}: no topic {full}; vehicles in this bag: {there} (choose with --namespace)"
        )
    if bag.types[full] != type_name:
        raise InputError(f"{bag.path}: {full} is {bag.types[full]}, not {type_name}")
    if not bag.counts[full]:
        raise InputError(f"{bag.path}: {full} has no message")
    return full


def datum_of(bag: Bag) -> Datum | None:
    """Origin of ``map`` as the bag states it; None if it does not.

    Raises:
        InputError: the bag's datum is no place on Earth.
    """
    if not bag.counts.get(DATUM):
        return None
    if bag.types[DATUM] != FIX:
        raise InputError(f"{bag.path}: {DATUM} is {bag.types[DATUM]}, not {FIX}")
    fix = decode(FIX, [next(bag.messages([DATUM])).payload])
    latitude_deg, longitude_deg, height_m = (
        float(fix[name][0]) for name in ("latitude_deg", "longitude_deg", "height_m")
    )
    if not (abs(latitude_deg) <= 90 and abs(longitude_deg) <= 180 and abs(height_m) < 1e5):
        raise InputError(
            f"{bag.path}: {DATUM} is {latitude_deg}, {longitude_deg}, {height_m}: no place on"
            " Earth; give --datum LAT,LON,H"
        )
    return Datum(latitude_deg, longitude_deg, height_m)


def field_of(bag: Bag) -> Vec3 | None:
    """Magnetic field of the world that was flown in, as the bag's custom data state it, T.

    Returns:
        East, north, up; None where the bag does not say.

    Raises:
        InputError: it is no field.
    """
    text = bag.custom.get(FIELD, "")
    if not text:
        return None
    try:
        east, north, up = (float(part) for part in text.split())
    except ValueError:
        east, north, up = math.nan, math.nan, math.nan
    if not math.isfinite(east + north + up):
        raise InputError(f"{bag.path}: {FIELD}: {text!r} in its custom data; allowed: 3 numbers")
    return east, north, up
