"""A flight that was flown, recorded or replayed: arrays, tables, scores and plots of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from quadsim.bag.contents import Bag
from quadsim.base.errors import InputError, did_you_mean
from quadsim.base.extras import need
from quadsim.sim.log import Event, FlightLog, Track

if TYPE_CHECKING:
    import plotly.graph_objects as go
    import pyarrow as pa

    from quadsim.analysis.metrics import Errors
    from quadsim.analysis.summary import Summary
    from quadsim.sim.closed_loop import ClosedLoop

_TIMES = ("builtin_interfaces/msg/Time", "builtin_interfaces/msg/Duration")


def message_columns(bag: Bag, topic: str) -> dict[str, NDArray[Any]]:
    """All messages of a topic, field by field.

    Returns:
        ``log_ns`` (N,) and the fields by their names, those of nested messages behind a dot: (N,)
        or (N, K); times in ns; of type object where the length changes.

    Raises:
        QuadsimError: the bag does not say what the type is, or a message does not fit it.
    """
    rows: list[dict[str, Any]] = []
    for message in bag.messages([topic]):
        row = {"log_ns": message.log_ns}
        _add_fields(row, "", bag.deserialize(message))
        rows.append(row)
    return {name: _column([row[name] for row in rows]) for name in (rows[0] if rows else ())}


def _add_fields(row: dict[str, Any], name: str, value: Any) -> None:
    """Put a value, or the fields of a message, into a row."""
    kind = getattr(value, "__msgtype__", None)
    if kind in _TIMES:
        row[name] = value.sec * 1_000_000_000 + value.nanosec
    elif kind is None:
        row[name] = value
    else:
        for field in fields(value):
            if field.name != "__msgtype__":
                inner = f"{name}.{field.name}" if name else field.name
                _add_fields(row, inner, getattr(value, field.name))


def _column(values: list[Any]) -> NDArray[Any]:
    """One field of all messages."""
    lists = isinstance(values[0], (list, np.ndarray))
    if not lists or (len({np.shape(value) for value in values}) == 1 and len(values[0])):
        column = np.array(values)
        if column.dtype != object or not lists:
            return column
    column = np.empty(len(values), object)
    column[:] = values
    return column


#: What :meth:`Flight.plot` draws, and the function of the report that draws it.
PLOTS = {
    "path": "path_from_above",
    "path_3d": "path_in_space",
    "height": "height",
    "position_errors": "position_errors",
    "attitude_errors": "attitude_errors",
    "motors": "motor_speeds",
}


@dataclass(frozen=True)
class Flight:
    """One vehicle's flight.

    Attributes:
        log: tracks, motors, events and notes, as arrays; see :class:`quadsim.sim.log.FlightLog`.
        summary: the scores, as in ``summary.json`` of a run.
        bag: where it was read from; None where it was flown here.
        namespace: of the vehicle in that bag.
    """

    log: FlightLog
    summary: Summary
    bag: Path | None = None
    namespace: str = "/quad"

    @property
    def passed(self) -> bool:
        """Whether every criterion was met."""
        return bool(self.summary["passed"])

    @property
    def truth(self) -> Track:
        """The true motion; empty where the log holds none."""
        return self.log.truth

    @property
    def estimate(self) -> Track | None:
        """The estimate that was flown on, or that was asked for first; None without any."""
        return next(iter(self.log.estimates.values()), None)

    @property
    def events(self) -> list[Event]:
        """What happened: changes of state, faults, crashes."""
        return self.log.events

    @classmethod
    def of_simulation(cls, loop: ClosedLoop) -> Flight:
        """The flight of a closed loop so far."""
        from quadsim.analysis.summary import summarize

        log = loop.log(0.0)
        summary = summarize(log, loop.scenario.criteria)
        summary["digest"] = loop.digest()
        return cls(log, summary)

    def errors(self, estimate: str | None = None) -> Errors:
        """Errors of an estimate at each of its stamps at which the truth is known.

        The truth is interpolated at these stamps.

        Args:
            estimate: its name; None: the first one.

        Returns:
            ``stamp_ns`` (N,), ``position_W`` m, ``velocity_W`` m/s and ``attitude_W`` rad (N, 3),
            estimate less truth, east, north, up; ``yaw`` and ``tilt`` (N,) rad; ``sigma`` (N, 9),
            the stated deviations of position, velocity and attitude.

        Raises:
            InputError: the flight has no such estimate, or no truth.
        """
        from quadsim.analysis.metrics import errors

        estimates = self.log.estimates
        name = next(iter(estimates), "") if estimate is None else estimate
        if name not in estimates:
            there = ", ".join(estimates) or "none"
            raise InputError(f"no estimate {name!r}; this flight has {there}")
        if not len(self.truth):
            raise InputError("this flight has no truth to compare with")
        return errors(estimates[name], self.truth)

    # ---- messages of the bag ---------------------------------------------------------------------

    @property
    def topics(self) -> dict[str, str]:
        """Topics of the bag with their types; none where the flight is of no bag."""
        if self.bag is None:
            return {}
        from quadsim.bag.reading import open_bag

        with open_bag(self.bag) as bag:
            return bag.types

    def messages(self, topic: str) -> dict[str, np.ndarray[Any, Any]]:
        """All messages of a topic of the bag, as columns.

        Args:
            topic: its full name, or the one within the vehicle's namespace, as ``imu/data``.

        Returns:
            ``log_ns`` and the message's fields by their names, as ``linear_acceleration.x`` or
            ``pose.pose.position.x``, (N,) each; (N, K) of fields with K numbers; stamps in ns, and
            of type object what changes its length.

        Raises:
            InputError: the flight is of no bag, the bag has no such topic, or it does not say
                what its type is.
        """
        from quadsim.bag.reading import open_bag

        if self.bag is None:
            raise InputError("this flight is of no bag; simulation.samples has its sensors")
        with open_bag(self.bag) as bag:
            full = topic if topic in bag.types else f"{self.namespace}/{topic}"
            if full not in bag.types:
                meant = did_you_mean(full, bag.types)
                raise InputError(f"{self.bag}: no topic {topic!r}{meant}; Flight.topics lists them")
            return message_columns(bag, full)

    # ---- tables --------------------------------------------------------------------------------

    def columns(self, track: str = "truth") -> dict[str, np.ndarray[Any, Any]]:
        """Columns of a track: ``time_s``, ``x_m``, ... ``vx_mps``, ... ``qw``, ... ``wx_radps``.

        Args:
            track: ``"truth"``, ``"reference"``, or the name of an estimate.

        Raises:
            InputError: the flight has no such track.
        """
        tracks: dict[str, Track | None] = {"truth": self.truth, "reference": self.log.reference}
        tracks |= self.log.estimates
        found = tracks.get(track)
        if found is None:
            names = ", ".join(name for name, each in tracks.items() if each is not None)
            raise InputError(f"no track {track!r}; this flight has {names}")
        columns = {"time_s": (found.stamp_ns - self.log.start_ns) * 1e-9}
        parts = (("{}_m", found.p_W), ("v{}_mps", found.v_W), ("w{}_radps", found.w_B))
        for pattern, values in parts:
            columns |= {pattern.format(axis): values[:, i] for i, axis in enumerate("xyz")}
        columns |= {f"q{axis}": found.q_WB[:, i] for i, axis in enumerate("wxyz")}
        return columns

    def to_arrow(self, track: str = "truth") -> pa.Table:
        """A track as a table of Arrow; arguments, columns and errors of :meth:`columns`."""
        table: pa.Table = need("pyarrow", "to_arrow").table(self.columns(track))
        return table

    def to_pandas(self, track: str = "truth") -> Any:
        """A track as a frame of pandas, which has to be installed; see :meth:`columns`."""
        return need("pandas", "to_pandas").DataFrame(self.columns(track))

    def to_polars(self, track: str = "truth") -> Any:
        """A track as a frame of Polars, which has to be installed; see :meth:`columns`."""
        return need("polars", "to_polars").DataFrame(self.columns(track))

    # ---- pictures ------------------------------------------------------------------------------

    def plot(self, what: str = "path_3d") -> go.Figure:
        """A figure of plotly, which notebooks show by themselves.

        Args:
            what: ``path``, ``path_3d``, ``height``, ``position_errors``, ``attitude_errors`` or
                ``motors``.

        Raises:
            InputError: there is no such plot.
        """
        from quadsim.analysis.report import parts
        from quadsim.analysis.report.flights import Flights

        if what not in PLOTS:
            raise InputError(f"no plot {what!r}; there are {', '.join(PLOTS)}")
        name = self.log.scenario or "flight"
        flights = Flights({name: self.log}, {name: self.summary})
        figure: go.Figure = getattr(parts, PLOTS[what])(flights)
        return figure

    def report(self, path: str | PathLike[str]) -> Path:
        """Write the report of the flight, a page of HTML that needs nothing else.

        Returns:
            Where it lies.
        """
        from quadsim.analysis.report.page import write_report

        name, page = self.log.scenario or "flight", Path(path)
        write_report({name: self.log}, {name: self.summary}, page)
        return page


def load(path: str | PathLike[str], namespace: str = "/quad") -> Flight:
    """Read a flight as it was recorded.

    Args:
        path: a bag (a folder, ``.mcap`` or ``.db3``), or the folder of a run with one in it.
        namespace: the vehicle.

    Raises:
        InputError: it is no bag, or nothing of this vehicle is in it.
    """
    from quadsim.analysis.summary import summarize
    from quadsim.bag.log import read_log
    from quadsim.bag.reading import open_bag
    from quadsim.bag.topics import namespaces

    place = Path(path)
    if (place / "bag").is_dir():
        place = place / "bag"
    with open_bag(place) as bag:
        log = read_log(bag, namespace, with_imu=True)
        if not len(log.truth) and not log.estimates:
            there = ", ".join(namespaces(bag)) or "none"
            raise InputError(f"{place}: no truth and no estimate of {namespace}; vehicles: {there}")
    return Flight(log, summarize(log, bag=place), place, namespace)


def replay(
    bag: str | PathLike[str],
    estimators: Sequence[str | type] = ("eskf",),
    *,
    namespace: str = "/quad",
    config: str | None = None,
    changes: Mapping[str, Any] | None = None,
    settle_s: float = 5.0,
) -> Flight:
    """Run estimators over the sensor messages of a bag, and score them against its truth.

    Args:
        bag: as of :func:`load`.
        estimators: names, the one that is asked about first; ``eskf``, ``ekf7``, ``gps_ins``,
            ``blind``, ``smoother``; or a class of one's own, itself or by its name
            ``module:Class``.
        namespace: the vehicle.
        config: parameters, a name in ``config/estimators`` or a path; None takes those that the
            bag names.
        changes: keys of the parameters to set, as ``{"noise.gyro_density": 1e-3}``.
        settle_s: time from the start that is not scored, s.

    Raises:
        InputError: the bag cannot be replayed.
    """
    from quadsim.analysis.replay import Settings, estimator_params, known_keys
    from quadsim.analysis.replay import replay as run
    from quadsim.analysis.scoring import Scoring, judge_replay
    from quadsim.base.parts import class_name

    texts = tuple(f"{key}={value}" for key, value in (changes or {}).items())
    names = (one if isinstance(one, str) else class_name(one) for one in estimators)
    settings = Settings(
        tuple(names),
        namespace,
        estimator_params(config, texts),
        as_flown=config is None,
        changes=texts,
        known=known_keys(config, texts),
    )
    place = Path(bag)
    scored = judge_replay(
        place.stem, place, settings.estimators, run(place, settings), Scoring(settle_s)
    )
    return Flight(scored.log, scored.summary, place, namespace)
