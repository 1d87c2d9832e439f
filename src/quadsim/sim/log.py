"""What a flight leaves behind, wherever it was flown: the closed loop, the graph, a bag.

Frames: W is the world (``map``, ENU), B the body (``base_link``, FLU). Quaternions are Hamilton,
``w`` first. Stamps are integer nanoseconds and rise strictly within a track.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Array as Array
from quadsim.base.levels import ERROR as ERROR
from quadsim.base.levels import OK as OK
from quadsim.base.levels import WARN as WARN

Stamps = NDArray[np.int64]

#: Levels of events, as diagnostic_msgs/DiagnosticStatus counts them.

#: How long a flight is stored after a crash, ns.
CRASH_REST_NS = 2_000_000_000


class Event(NamedTuple):
    """Something that happened once: a change of state, a fault, a rule broken.

    ``level`` is 0 (as planned), 1 (a warning) or 2 (an error).
    """

    stamp_ns: int
    level: int
    name: str
    message: str


#: Event by which a flight tells that its time ended while it hovered, its mission done.
HOVERS = "hovers"


def timeout_event(stamp_ns: int, unfinished: str) -> Event:
    """Event of a flight whose time is over.

    Args:
        stamp_ns: when it is over.
        unfinished: why the mission is not, in words; empty: it is, and the vehicle hovers.
    """
    if unfinished:
        return Event(stamp_ns, ERROR, "timeout", f"the mission did not end in time: {unfinished}")
    return Event(stamp_ns, OK, HOVERS, "the mission is done; the vehicle hovers, as no item lands")


@dataclass(frozen=True, slots=True)
class Track:
    """A motion over time.

    Attributes:
        stamp_ns: (N,) int64, ns.
        p_W: (N, 3) position, world, m.
        v_W: (N, 3) velocity, world, m/s.
        q_WB: (N, 4) unit quaternions, turning body axes into world axes.
        w_B: (N, 3) angular rate, body, rad/s.
        sigma: (N, 9) standard deviations of p_W (m), v_W (m/s) and of the attitude as a rotation
            about the world axes (rad); None where nothing states them (the truth).
    """

    stamp_ns: Stamps
    p_W: Array
    v_W: Array
    q_WB: Array
    w_B: Array
    sigma: Array | None = None

    def __len__(self) -> int:
        return len(self.stamp_ns)

    def __getitem__(self, rows: slice | NDArray[np.bool_] | NDArray[np.intp]) -> Track:
        """The same track at some of its stamps."""
        return Track(
            self.stamp_ns[rows],
            self.p_W[rows],
            self.v_W[rows],
            self.q_WB[rows],
            self.w_B[rows],
            None if self.sigma is None else self.sigma[rows],
        )

    @staticmethod
    def empty(count: int = 0, with_sigma: bool = False) -> Track:
        """A track of ``count`` zeroed rows, identity attitude, to be filled in place."""
        q_WB = np.zeros((count, 4))
        q_WB[:, 0] = 1.0
        return Track(
            np.zeros(count, np.int64),
            np.zeros((count, 3)),
            np.zeros((count, 3)),
            q_WB,
            np.zeros((count, 3)),
            np.zeros((count, 9)) if with_sigma else None,
        )


def track_of(rows: NDArray[Any]) -> Track:
    """A track out of (N,) ODOMETRY records."""
    parts = [rows[f"{part}_variance"] for part in ("p", "v", "attitude")]
    return Track(
        rows["stamp_ns"],
        rows["p_W"],
        rows["v_W"],
        rows["q_WB"],
        rows["w_B"],
        np.sqrt(np.maximum(np.hstack(parts), 0.0)),
    )


@dataclass(frozen=True, slots=True)
class ImuSamples:
    """What an IMU published.

    Attributes:
        stamp_ns: (N,) ends of the intervals, ns.
        f_S: (N, 3) specific force in the IMU's axes, m/s^2.
        w_S: (N, 3) angular velocity, rad/s.
        f_sigma: (N, 3) deviations that the messages state for the specific force; 0: unknown.
    """

    stamp_ns: Stamps
    f_S: Array
    w_S: Array
    f_sigma: Array


@dataclass(frozen=True, slots=True)
class Innovations:
    """What one kind of measurement stated against what an estimator expected.

    Attributes:
        stamp_ns: (N,) of the measurements, ns.
        value: (N, d) measured minus expected, in the unit of the kind.
        sigma: (N, d) the deviation that the estimator expected of it.
        nis: (N,) normalised innovation squared; d on average for a filter that is right.
        accepted: (N,) whether the gate let it in.
    """

    stamp_ns: Stamps
    value: Array
    sigma: Array
    nis: Array
    accepted: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Inside:
    """What an estimator assumed besides the motion.

    Attributes:
        stamp_ns: (N,) ns.
        gyro_bias_B: (N, 3) rad/s.
        accel_bias_B: (N, 3) m/s^2.
        sigma: (N, 6) stated deviations of the two, rad/s and m/s^2.
        innovations: kind of measurement (``gnss_position``, ``gnss_velocity``, ``magnetic_field``,
            ``pressure``, ``range``, ``external_position``, ``external_attitude``, ``inclination``)
            to what it stated.
    """

    stamp_ns: Stamps
    gyro_bias_B: Array
    accel_bias_B: Array
    sigma: Array
    innovations: dict[str, Innovations] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """How the messages of one topic came.

    Attributes:
        count: messages.
        rate_hz: 1 over the median period of the stamps; None with fewer than two.
        gaps_ns: (G, 2) first and last stamp of each gap longer than three median periods.
        repeated: stamps that did not rise.
        latency_median_s: log time minus stamp, median, s; None where the type has no stamp.
        latency_p99_s: its 99th percentile, s.
    """

    count: int
    rate_hz: float | None
    gaps_ns: NDArray[np.int64]
    repeated: int
    latency_median_s: float | None
    latency_p99_s: float | None


@dataclass(slots=True)
class FlightLog:
    """One vehicle's flight, as reports and metrics take it.

    Attributes:
        truth: the true motion; empty where a bag holds none.
        estimates: name to track; the one that flew (or was asked for) comes first.
        reference: what the autopilot wanted; only ``p_W`` and the yaw of ``q_WB`` mean something.
        motor_stamps_ns: (M,) int64, ns.
        motor_speed_radps: (M, n) speeds of the n rotors, rad/s.
        command_stamps_ns: (C,) int64, ns, of the commands to the motors; none where unknown.
        command_radps: (C, n) what was commanded, rad/s.
        topics: topic (relative to the vehicle's namespace, or absolute) to count of messages.
        gnss: GNSS fixes rotated into the world frame: stamps, ``p_W`` and its ``sigma``, as the
            messages state it, mean something.
        imu: samples of the IMU; None where nobody asked for them.
        hull_m: radius and height of the upright cylinder around the vehicle; 0 where unknown.
        ground_m: (N,) height of the ground beneath the truth, world, m; None where unknown.
        waypoints: (K, 3) corners of the mission, world, m.
        inside: estimator to what it assumed besides the motion, where that was stored.
        arrivals: topic, as in ``topics``, to how its messages came, where that was looked at.
        wall_s: how long the flight took on the wall clock; 0 where unknown.
        notes: what a reader should know (a bag that was repaired, a topic that was missing).
    """

    scenario: str = ""
    seed: int = 0
    truth: Track = field(default_factory=Track.empty)
    estimates: dict[str, Track] = field(default_factory=dict)
    reference: Track | None = None
    motor_stamps_ns: Stamps = field(default_factory=lambda: np.zeros(0, np.int64))
    motor_speed_radps: Array = field(default_factory=lambda: np.zeros((0, 4)))
    command_stamps_ns: Stamps = field(default_factory=lambda: np.zeros(0, np.int64))
    command_radps: Array = field(default_factory=lambda: np.zeros((0, 4)))
    topics: dict[str, int] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    wall_s: float = 0.0
    waypoints: Array = field(default_factory=lambda: np.zeros((0, 3)))
    gnss: Track | None = None
    imu: ImuSamples | None = None
    hull_m: tuple[float, float] = (0.0, 0.0)
    ground_m: Array | None = None
    inside: dict[str, Inside] = field(default_factory=dict)
    arrivals: dict[str, Arrivals] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def start_ns(self) -> int:
        """First stamp of the flight: the truth's, else the first estimate's; 0 if empty."""
        for track in (self.truth, *self.estimates.values()):
            if len(track):
                return int(track.stamp_ns[0])
        return 0

    @property
    def duration_s(self) -> float:
        """Time between the first and the last stamp of the truth (or the first estimate), s."""
        for track in (self.truth, *self.estimates.values()):
            if len(track):
                return float(track.stamp_ns[-1] - track.stamp_ns[0]) * 1e-9
        return 0.0
