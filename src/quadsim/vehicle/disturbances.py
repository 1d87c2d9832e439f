"""What befalls a vehicle in flight: pushes, weak motors, dropped mass or load, changed wind.

A scenario lists them under ``events``. They are packed into one small table per vehicle, which
does not change over the flight; :func:`apply_disturbances` applies it to a vehicle at the start of
each step, and :func:`change_wind` to the world's mean wind.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import numpy as np
import yaml

from quadsim.base.compiled import Record, Records, Vector, kernel, new_record
from quadsim.base.elementary import cos
from quadsim.base.errors import InputError, shown
from quadsim.base.parameters import Spec, Vec3, dtype_of, from_mapping, read_yaml_text
from quadsim.vehicle.parameters import VehicleParams
from quadsim.vehicle.state import SLUNG, Vehicle

#: Disturbances of one scenario.
MAX_DISTURBANCES = 16

ZERO: Vec3 = (0.0, 0.0, 0.0)

AtS = Annotated[float, Spec("simulated time at which it happens", "s", ge=0.0, le=86400.0)]
WhichVehicle = Annotated[int, Spec("1 for the first vehicle, and so on; 0 for all", ge=0, le=1000)]


@dataclass(frozen=True)
class Push:
    """A force at the centre of mass, a torque, or both, for some time."""

    at_s: AtS
    duration_s: Annotated[float, Spec("how long", "s", gt=0.0, le=86400.0)]
    force_W_N: Annotated[Vec3, Spec("east, north, up", "N", ge=-1e5, le=1e5)] = ZERO
    torque_B_Nm: Annotated[Vec3, Spec("body axes", "N m", ge=-1e4, le=1e4)] = ZERO
    vehicle: WhichVehicle = 0

    def __post_init__(self) -> None:
        """Refuse a push that does nothing."""
        if self.force_W_N == ZERO and self.torque_B_Nm == ZERO:
            raise InputError("force_W_N: a push needs a force or a torque")


@dataclass(frozen=True)
class MotorChange:
    """A motor gives another share of its thrust and torque from now on: 0 lost, 1 healthy.

    It goes for a speed of the root of that share, with the lag that it has.
    """

    at_s: AtS
    index: Annotated[int, Spec("of the motor, from 0", ge=0, le=7)]
    effectiveness: Annotated[float, Spec("share of its thrust and torque", "1", ge=0.0, le=1.0)] = (
        0.0
    )
    vehicle: WhichVehicle = 0


@dataclass(frozen=True)
class MassDrop:
    """Mass of the body is let go at its centre of mass; inertia and a slung load stay."""

    at_s: AtS
    mass_kg: Annotated[float, Spec("what falls off", "kg", gt=0.0, le=1000.0)]
    vehicle: WhichVehicle = 0


@dataclass(frozen=True)
class LoadRelease:
    """The slung load is let go with its rope, and falls."""

    at_s: AtS
    vehicle: WhichVehicle = 0


@dataclass(frozen=True)
class WindChange:
    """The world's mean wind becomes another one, along half a cosine."""

    at_s: AtS
    wind_W_mps: Annotated[Vec3, Spec("velocity of the air then", "m/s", ge=-100.0, le=100.0)]
    rise_s: Annotated[float, Spec("how long the change takes", "s", ge=0.0, le=86400.0)] = 0.0


Disturbance = Push | MotorChange | MassDrop | WindChange | LoadRelease

PUSH, MOTOR, DROP, WIND, RELEASE = range(5)
#: Kinds in the order of their numbers in a table.
KINDS: Mapping[str, type[Disturbance]] = {
    "push": Push,
    "motor": MotorChange,
    "drop": MassDrop,
    "wind": WindChange,
    "release": LoadRelease,
}


class DisturbanceRow(Record):
    """One row of a table."""

    kind: int
    start_ns: int
    end_ns: int  # of a push, or of the wind's change
    index: int  # of the motor
    value: float  # effectiveness, or mass in kg
    vector_W: Vector  # force in N, or wind in m/s
    torque_B_Nm: Vector


class DisturbanceTable(Record):
    """Disturbances of one vehicle: the first ``count`` rows, in order of time."""

    count: int
    items: Annotated[Records[DisturbanceRow], MAX_DISTURBANCES]


DISTURBANCES = dtype_of(DisturbanceTable)


@kernel
def apply_disturbances(vehicle: Vehicle, table: DisturbanceTable, from_ns: int, to_ns: int) -> None:
    """Apply what happens to a vehicle within one step, at the step's start.

    A push acts with its mean over the step, so that its impulse does not depend on the steps. A
    motor changes, mass drops and a load is released once, in the step that holds their stamp,
    ``from_ns <= at < to_ns``: at that very stamp where a step begins there.

    Args:
        vehicle: VEHICLE record. Of its ``held``, ``push_W_N`` and ``push_B_Nm`` are written,
            ``effectiveness`` and ``mass_kg`` change.
        table: DISTURBANCES record.
        from_ns: time at the step's start.
        to_ns: time at its end.
    """
    held = vehicle.held
    for axis in range(3):
        held.push_W_N[axis] = 0.0
        held.push_B_Nm[axis] = 0.0
    for k in range(table.count):
        row = table.items[k]
        if row.start_ns >= to_ns:
            return
        if row.kind == PUSH and row.end_ns > from_ns:
            share = (min(row.end_ns, to_ns) - max(row.start_ns, from_ns)) / (to_ns - from_ns)
            for axis in range(3):
                held.push_W_N[axis] += share * row.vector_W[axis]
                held.push_B_Nm[axis] += share * row.torque_B_Nm[axis]
        elif row.kind == MOTOR and row.start_ns >= from_ns:
            held.effectiveness[row.index] = row.value
        elif row.kind == DROP and row.start_ns >= from_ns:
            held.mass_kg -= row.value
        elif row.kind == RELEASE and row.start_ns >= from_ns:
            ropes = vehicle.suspension
            ropes.released, ropes.taut[SLUNG], ropes.tension_N[SLUNG] = 1, 0, 0.0


@kernel
def _progress(row: DisturbanceRow, now_ns: int) -> float:
    """Share in [0, 1] of a wind's change that is done: half a cosine."""
    if now_ns >= row.end_ns:
        return 1.0
    if now_ns <= row.start_ns:
        return 0.0
    share = (now_ns - row.start_ns) / (row.end_ns - row.start_ns)
    return 0.5 - 0.5 * cos(math.pi * share)


@kernel
def change_wind(wind_W_mps: Any, table: DisturbanceTable, from_ns: int, to_ns: int) -> None:
    """Change the mean wind from what it is at ``from_ns`` into what it is at ``to_ns``.

    The change that began last counts. Each call goes the same share of what is left, so that a
    wind set from outside in between is where the rest of the change starts.

    Args:
        wind_W_mps: (3,) mean wind, changed in place.
        table: DISTURBANCES record.
        from_ns: time of the wind that is given.
        to_ns: time of the wind that is wanted.
    """
    last = -1
    for k in range(table.count):
        if table.items[k].kind == WIND and table.items[k].start_ns < to_ns:
            last = k
    if last < 0 or table.items[last].end_ns <= from_ns:
        return
    row = table.items[last]
    before, after = _progress(row, from_ns), _progress(row, to_ns)
    for axis in range(3):
        if after >= 1.0:
            wind_W_mps[axis] = row.vector_W[axis]
        else:
            left = row.vector_W[axis] - wind_W_mps[axis]
            wind_W_mps[axis] += left * (after - before) / (1.0 - before)


def disturbances_from(content: Any, where: str) -> tuple[Disturbance, ...]:
    """Disturbances from a list of mappings, each with the key ``kind``.

    Args:
        content: the list, as YAML gives it.
        where: the file that errors name.

    Raises:
        InputError: not a list, too many, an unknown kind, or a key or value that is refused.
    """
    if not isinstance(content, list):
        raise InputError(f"{where}: events: expected a list")
    if len(content) > MAX_DISTURBANCES:
        raise InputError(
            f"{where}: events: {len(content)} items; allowed: at most {MAX_DISTURBANCES}"
        )
    found = []
    for i, item in enumerate(content):
        at = f"{where}: events[{i}]"
        if not isinstance(item, Mapping):
            raise InputError(f"{at}: expected keys and values, found {shown(item)}")
        kind = str(item.get("kind"))
        if kind not in KINDS:
            raise InputError(f"{at}: kind: {shown(kind)} is not known; allowed: {', '.join(KINDS)}")
        keys = {key: value for key, value in item.items() if key != "kind"}
        found.append(from_mapping(KINDS[kind], keys, at))
    return tuple(found)


def disturbances_from_text(text: str, where: str) -> tuple[Disturbance, ...]:
    """Disturbances from YAML, as a node's parameter has them; empty for none.

    Raises:
        InputError: not YAML, or refused by :func:`disturbances_from`.
    """
    return disturbances_from(read_yaml_text(text, where) if text.strip() else [], where)


def disturbances_to_text(disturbances: Sequence[Disturbance]) -> str:
    """Disturbances as :func:`disturbances_from_text` reads them."""
    items = [
        {"kind": kind_of(item)}
        | {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(item).items()}
        for item in disturbances
    ]
    return str(yaml.safe_dump(items, default_flow_style=True, width=math.inf)).strip()


def check_disturbances(
    disturbances: Sequence[Disturbance], params: VehicleParams, count: int, where: str
) -> None:
    """Refuse what cannot happen to these vehicles.

    Args:
        disturbances: in any order.
        params: the vehicles'.
        count: how many vehicles there are.
        where: the file that errors name.

    Raises:
        InputError: a vehicle or a motor that is not there, or more mass dropped than there is.
    """
    motors = len(params.rotor_directions)
    for i, item in enumerate(disturbances):
        at = f"{where}: events[{i}]"
        if not isinstance(item, WindChange) and item.vehicle > count:
            raise InputError(f"{at}: vehicle: {item.vehicle}; allowed: 1 to {count}, or 0 for all")
        if isinstance(item, MotorChange) and item.index >= motors:
            allowed = f"0 to {motors - 1}" if motors else "none"
            raise InputError(f"{at}: index: {item.index}; motors of this vehicle: {allowed}")
        if isinstance(item, LoadRelease) and params.load.rope_length_m == 0.0:
            raise InputError(f"{at}: release: this vehicle has no load; give it one (key load)")
    for number in range(1, count + 1):
        mass_kg = params.mass_kg
        for i, item in enumerate(disturbances):
            if not isinstance(item, MassDrop) or item.vehicle not in (0, number):
                continue
            mass_kg -= item.mass_kg
            if mass_kg <= 0.0:
                raise InputError(
                    f"{where}: events[{i}]: mass_kg: {item.mass_kg:g} leaves {mass_kg:g} kg of"
                    f" {params.mass_kg:g} kg; allowed: what leaves more than 0"
                )


def pack_disturbances(disturbances: Sequence[Disturbance], vehicle: int = 1) -> np.record:
    """The DISTURBANCES record of one vehicle.

    Args:
        disturbances: at most MAX_DISTURBANCES, checked.
        vehicle: 1 for the first, and so on.
    """
    table = new_record(DISTURBANCES)
    for item in sorted(disturbances, key=lambda each: each.at_s):
        if not isinstance(item, WindChange) and item.vehicle not in (0, vehicle):
            continue
        row = table["items"][int(table.count)]
        row.kind = list(KINDS).index(kind_of(item))
        row.start_ns = row.end_ns = round(item.at_s * 1e9)
        if isinstance(item, Push):
            row.end_ns += round(item.duration_s * 1e9)
            row.vector_W[:], row.torque_B_Nm[:] = item.force_W_N, item.torque_B_Nm
        elif isinstance(item, MotorChange):
            row.index, row.value = item.index, item.effectiveness
        elif isinstance(item, MassDrop):
            row.value = item.mass_kg
        elif isinstance(item, WindChange):
            row.end_ns += max(1, round(item.rise_s * 1e9))
            row.vector_W[:] = item.wind_W_mps
        table.count += 1
    return table


def kind_of(item: Disturbance) -> str:
    """Name of a disturbance's kind."""
    return next(name for name, cls in KINDS.items() if isinstance(item, cls))


def describe(item: Disturbance) -> str:
    """One disturbance in words."""
    if isinstance(item, Push):
        parts = []
        if item.force_W_N != ZERO:
            parts.append(f"{_numbers(item.force_W_N)} N")
        if item.torque_B_Nm != ZERO:
            parts.append(f"{_numbers(item.torque_B_Nm)} N m")
        return "push of " + " and ".join(parts)
    if isinstance(item, MotorChange):
        if item.effectiveness == 0.0:
            return f"motor {item.index} lost"
        return f"motor {item.index} at {100.0 * item.effectiveness:g} %"
    if isinstance(item, MassDrop):
        return f"{item.mass_kg:g} kg of the body dropped"
    if isinstance(item, LoadRelease):
        return "load released"
    return f"wind becomes {_numbers(item.wind_W_mps)} m/s"


def _numbers(vector: Vec3) -> str:
    return " ".join(f"{number:g}" for number in vector)


def changes(disturbances: Sequence[Disturbance], vehicle: int = 1) -> list[tuple[int, str]]:
    """When things happen to a vehicle, in order: stamp in ns and words for an event."""
    found = []
    for item in disturbances:
        if not isinstance(item, WindChange) and item.vehicle not in (0, vehicle):
            continue
        begin_ns = round(item.at_s * 1e9)
        if isinstance(item, Push):
            found.append((begin_ns, f"{describe(item)} begins"))
            found.append((begin_ns + round(item.duration_s * 1e9), f"{describe(item)} ends"))
        else:
            found.append((begin_ns, describe(item)))
    return sorted(found)
