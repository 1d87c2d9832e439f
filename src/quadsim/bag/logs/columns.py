"""Column maps: which columns of a log are which of our topics, in which units and axes.

They are ``config/logs/NAME.yaml``. A log's own map is ``LOG.columns.yaml`` in its folder; without
one, the shipped map of its format that finds most of its columns is taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from quadsim.bag.logs.log_file import JOINT_STATE, LogFile
from quadsim.bag.logs.motion import columns_at, no_attitude
from quadsim.base.errors import InputError
from quadsim.base.files import find, known
from quadsim.base.parameters import Spec, load
from quadsim.wire.axes import BODY, WORLD, attitude, rotation_matrices
from quadsim.wire.decode import LAYOUTS
from quadsim.wire.encode import Cdr
from quadsim.wire.standard import ODOMETRY, OURS

Array = NDArray[np.float64]

BATTERY_STATE = "sensor_msgs/msg/BatteryState"
#: Types of topics that only logs and simulations have.
TOPIC_TYPES = {
    "ground_truth/accel": "geometry_msgs/msg/AccelStamped",
    "ground_truth/load": "geometry_msgs/msg/PointStamped",
    "ground_truth/load_velocity": "geometry_msgs/msg/Vector3Stamped",
    "wind": "geometry_msgs/msg/Vector3Stamped",
    "battery_state": BATTERY_STATE,
    "motor_speed": JOINT_STATE,
    "command_motor_speed": JOINT_STATE,
    "motor_pwm": JOINT_STATE,
}
#: Vectors that our messages state in the world; all others are of the body.
_OF_WORLD = {"p", "v_W"}
#: Stamps hold so much, s.
LONGEST_S = 9e9
#: A battery is told so often, Hz.
_BATTERY_HZ = 50.0


@dataclass(frozen=True, slots=True)
class ColumnEntry:
    """Columns that make one field of a topic."""

    topic: Annotated[str, Spec("our topic, relative to the vehicle, or absolute")]
    field: Annotated[
        str,
        Spec(
            "of its message, such as p, f, w, speeds, voltage; v_W: velocity in the world; q_wxyz;"
            " q_compressed: a Crazyflie's"
        ),
    ]
    columns: Annotated[tuple[str, ...], Spec("names, or numbers from 0 where there are no names")]
    scale: Annotated[float, Spec("times this the value is in SI units")] = 1.0
    table: Annotated[str, Spec("of the log, where it has several; empty: any that has them")] = ""
    world: Annotated[str, Spec("axes of the world", choices=tuple(WORLD))] = "enu"
    body: Annotated[str, Spec("axes of the body", choices=tuple(BODY))] = "flu"


@dataclass(frozen=True, slots=True)
class ColumnMap:
    """How a log's columns become topics."""

    description: Annotated[str, Spec("whose logs these are")]
    format: Annotated[str, Spec("of the log", choices=("crazyflie_usd", "matlab", "csv"))]
    entries: Annotated[tuple[ColumnEntry, ...], Spec("what becomes of the columns")]
    time: Annotated[str, Spec("column of the time; empty: the log has stamps of its own")] = ""
    time_scale_s: Annotated[float, Spec("unit of that column", "s", gt=0.0)] = 1.0
    column_count: Annotated[int, Spec("that a log must have; 0: any", ge=0)] = 0


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a log: stamps in ns where it has any, columns, each (N,), rows left out."""

    columns: Mapping[str, NDArray[Any]]
    stamp_ns: NDArray[np.int64] | None = None
    left: int = 0

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))


#: What the two fields of an IMU are.
_IMU = {"f": "specific force", "w": "rates"}


def map_of(path: Path, kind: str, tables: Mapping[str, Table], name: str) -> ColumnMap:
    """The column map of a log: the one named, its own, or the best of the shipped ones.

    Raises:
        InputError: none fits, saying which columns there are.
    """
    own = path.with_name(path.name + ".columns.yaml")
    if name or own.is_file():
        file = find("logs", name) if name else own
        chosen = load(ColumnMap, file)
        if chosen.format != kind:
            raise InputError(f"{file}: format: {chosen.format}, but {path} is {kind}")
        _check_columns(chosen, path, file, tables)
        if not any(_found(chosen, tables)):
            raise InputError(f"{file}: none of its columns is in {path}; it has {_names(tables)}")
        return chosen
    maps = [load(ColumnMap, find("logs", shipped)) for shipped in known("logs")]
    fitting = [(len(list(_found(each, tables))), each) for each in maps if each.format == kind]
    count, best = max(fitting, key=lambda pair: pair[0], default=(0, None))
    if not count or best is None:
        raise InputError(
            f"{path}: no column map fits; write {own.name} (docs/logs.md) for its columns"
            f" {_names(tables)}"
        )
    return best


def _check_columns(chosen: ColumnMap, path: Path, file: Path, tables: Mapping[str, Table]) -> None:
    """Refuse a map with a column that nothing of the log is called, next to some that are there.

    Raises:
        InputError: naming the entry and the column.
    """
    there = {name for table in tables.values() for name in table.columns}
    stamped = any(table.stamp_ns is not None for table in tables.values())
    if not stamped and chosen.time not in there and any(len(table) for table in tables.values()):
        raise InputError(
            f"{file}: time: {chosen.time or 'not given'}: no such column in {path}; it has"
            f" {_names(tables)}"
        )
    for i, entry in enumerate(chosen.entries):
        lacking = [name for name in entry.columns if name not in there]
        if lacking and len(lacking) < len(entry.columns):
            raise InputError(
                f"{file}: entries[{i}]: no column {lacking[0]} in {path}; it has {_names(tables)}"
            )


def _names(tables: Mapping[str, Table]) -> str:
    names = [name for table in tables.values() for name in table.columns]
    return ", ".join(names[:40]) + (", ..." if len(names) > 40 else "")


def _found(chosen: ColumnMap, tables: Mapping[str, Table]) -> Iterator[tuple[ColumnEntry, Table]]:
    """Entries whose columns are there, with the longest table that has them."""
    longest = sorted(tables.items(), key=lambda item: len(item[1]), reverse=True)
    for entry in chosen.entries:
        for name, table in longest:
            if chosen.column_count and len(table.columns) != chosen.column_count:
                continue
            there = len(table) > 0 and set(entry.columns) <= table.columns.keys()
            timed = table.stamp_ns is not None or chosen.time in table.columns
            if there and timed and entry.table in ("", name):
                yield entry, table
                break


def to_log(path: Path, tables: Mapping[str, Table], chosen: ColumnMap) -> LogFile:
    """Messages of a log's tables by a column map.

    Raises:
        InputError: an entry does not fit its topic.
    """
    log = LogFile(path, {"log": chosen.description})
    rows = sum(map(len, tables.values()))
    tables = {name: _timed(table, chosen) for name, table in tables.items()}
    log.leave("rows", rows - sum(map(len, tables.values())), "without a time")
    grouped: dict[str, list[tuple[ColumnEntry, Table]]] = {}
    for entry, table in _found(chosen, tables):
        grouped.setdefault(entry.topic, []).append((entry, table))
    taken = {name for parts in grouped.values() for entry, _ in parts for name in entry.columns}
    log.units_known = False
    for table in tables.values():
        log.leave("rows", table.left, "of another number of columns")
        for name in sorted(table.columns.keys() - taken - {chosen.time}):
            log.leave(name, len(table))
    for topic, parts in grouped.items():
        stamp_ns = _stamps(parts[0][1], chosen)
        fields = {}
        for entry, table in parts:
            values = _values(entry, table)
            if table is not parts[0][1]:  # as of a gyroscope and an accelerometer told apart
                values = columns_at(stamp_ns, _stamps(table, chosen), values)
            fields[entry.field] = values
        _add(log, topic, stamp_ns, fields, path)
    return log


def _timed(table: Table, chosen: ColumnMap) -> Table:
    """The rows of a table whose time is a number that stamps can hold."""
    if table.stamp_ns is not None or chosen.time not in table.columns:
        return table
    time_s = np.asarray(table.columns[chosen.time], float) * chosen.time_scale_s
    known = np.abs(time_s) < LONGEST_S  # NaN is not either
    if known.all():
        return table
    return Table({name: column[known] for name, column in table.columns.items()}, None, table.left)


def _stamps(table: Table, chosen: ColumnMap) -> NDArray[np.int64]:
    if table.stamp_ns is not None:
        return table.stamp_ns
    time_s = np.asarray(table.columns[chosen.time], float) * chosen.time_scale_s
    return np.rint(time_s * 1e9).astype(np.int64)


def _values(entry: ColumnEntry, table: Table) -> Array:
    """(N, columns) values of an entry, SI, ENU and FLU; quaternions as x, y, z, w."""
    raw = [table.columns[name] for name in entry.columns]
    if entry.field == "q_compressed":
        return _decompressed(raw[0])
    values = np.stack([np.asarray(column, float) for column in raw], axis=1) * entry.scale
    if entry.field == "q_wxyz":
        values = np.roll(values, -1, axis=1)
    if entry.field.startswith("q_"):
        with np.errstate(invalid="ignore"):  # of no length is no attitude: NaN
            q = np.roll(values, 1, axis=1) / np.linalg.norm(values, axis=1, keepdims=True)
        q_WB = attitude(entry.world, entry.body, q)
        return np.asarray(np.roll(q_WB, -1, axis=1))
    if values.shape[1] == 3:
        return np.asarray(values @ _axes(entry).T)
    return np.asarray(values)


def _axes(entry: ColumnEntry) -> Array:
    return np.asarray(WORLD[entry.world] if entry.field in _OF_WORLD else BODY[entry.body])


def _decompressed(packed: NDArray[Any]) -> Array:
    """Quaternions of a Crazyflie's 32 bits: the largest part's number, three parts of 9 bits.

    Source: ``quatdecompress`` of crazyflie-firmware, src/utils/interface/quatcompress.h.
    """
    bits = np.asarray(packed, np.uint32)
    largest = (bits >> 30).astype(int)
    q_xyzw = np.zeros((len(bits), 4))
    for part in range(3, -1, -1):
        other = largest != part
        size = (bits & 0x1FF) / 511.0 * np.sqrt(0.5)
        q_xyzw[:, part] = np.where(other, np.where(bits >> 9 & 1, -size, size), 0.0)
        bits = np.where(other, bits >> 10, bits)
    rows = np.arange(len(bits))
    q_xyzw[rows, largest] = np.sqrt(np.maximum(0.0, 1.0 - (q_xyzw**2).sum(axis=1)))
    return q_xyzw


def _add(
    log: LogFile, topic: str, stamp_ns: NDArray[np.int64], fields: dict[str, Array], path: Path
) -> None:
    """Add one topic's messages."""
    type_name = TOPIC_TYPES.get(topic) or OURS.get(topic, ODOMETRY)
    if type_name == JOINT_STATE:
        log.add_speeds(topic, stamp_ns, fields["speeds"])
    elif type_name == BATTERY_STATE:
        add_battery(log, topic, stamp_ns, fields)
    else:
        given = set(fields)
        _as_laid_out(fields, type_name)
        for name in sorted({"f", "w"} & fields.keys() - given if topic == "imu/data_raw" else ()):
            log.notes.append(f"{topic}: no column gives {name} ({_IMU[name]}): NaN")
        allowed = {name for name, _, _ in LAYOUTS[type_name].fields}
        if unknown := sorted(fields.keys() - allowed):
            raise InputError(
                f"{path}: {topic}: no field {unknown[0]}; allowed: {', '.join(sorted(allowed))}"
            )
        shapes = {name: shape for name, _, shape in LAYOUTS[type_name].fields}
        for name, values in fields.items():
            if not name.endswith("_covariance") and values.shape[1:] != (shapes[name] or (1,)):
                raise InputError(
                    f"{path}: {topic}: field {name} takes {(shapes[name] or (1,))[0]} columns,"
                    f" not {values.shape[1]}"
                )
        columns = {name: v if shapes[name] else v[:, 0] for name, v in fields.items()}
        log.add(topic, stamp_ns, type_name, None, **columns)


def _as_laid_out(fields: dict[str, Array], type_name: str) -> None:
    """Rename the fields of an attitude and a velocity, and say what an odometry does not know."""
    for name in ("q_wxyz", "q_compressed"):
        if name in fields:
            fields["q_xyzw"] = fields.pop(name)
    if type_name == ODOMETRY:
        nothing = np.full((len(next(iter(fields.values()))), 3), np.nan)
        if "v_W" in fields:
            q_WB = np.roll(fields["q_xyzw"], 1, axis=1)
            v_W = fields.pop("v_W")
            fields["v"] = np.einsum("nji,nj->ni", rotation_matrices(q_WB), v_W)
        fields.setdefault("v", nothing)
        fields.setdefault("w", nothing)
    elif type_name == OURS["imu/data_raw"]:
        for name in {"f", "w"} - fields.keys():  # not known, and not 0
            fields[name] = np.full((len(next(iter(fields.values()))), 3), np.nan)
        fields["q_covariance"] = no_attitude()[None]


def add_battery(
    log: LogFile, topic: str, stamp_ns: NDArray[np.int64], fields: dict[str, Array]
) -> None:
    """Add a battery's voltage (V) and current (A, drawn from it), thinned."""
    message = Cdr().text("")
    names = ("voltage", "temperature", "current", "charge", "capacity", "design_capacity")
    for name in (*names, "percentage"):
        message.field(name, "<f4")
    for name in ("status", "health", "technology", "present"):
        message.field(name, "u1")
    template = message.count(0).count(0).text("").text("").template()
    for name in (*names, "percentage"):
        template.fields[name][...] = np.nan
    template.fields["present"][...] = 1
    rows = np.unique(stamp_ns // round(1e9 / _BATTERY_HZ), return_index=True)[1]
    columns = {"voltage": fields["voltage"][rows, 0]}
    if "current" in fields:
        columns["current"] = -fields["current"][rows, 0]
    log.add_payloads(
        topic, BATTERY_STATE, stamp_ns[rows], template.payloads(stamp_ns[rows], **columns)
    )
