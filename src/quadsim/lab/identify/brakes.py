"""Latency and deceleration of a vehicle out of stops in a recorded flight, for the guard.

The guard counts on a way of ``v T + v^2 / (2 a)`` from the pose that was last at the sender until
the vehicle stands. The way over the speed is a straight line in half the speed, ``T + v / 2 / a``,
so that a linear regression over stops from several speeds gives both figures with their intervals
(Draper and Smith, *Applied Regression Analysis*, 1998, chapters 1 and 3).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy import stats

from quadsim.bag import topics
from quadsim.bag.reading import Bag
from quadsim.base.errors import InputError
from quadsim.base.parameters import from_mapping
from quadsim.hil.guard.parameters import GuardParams, LimitParams
from quadsim.lab.identify.flight_data import fields_reader, read_rows
from quadsim.lab.parameter_text import parameter_lines
from quadsim.lab.sensor_check.allan_fit import Estimate
from quadsim.sim.log import Array, Stamps
from quadsim.wire.standard import ODOMETRY, POSE, POSE_WITH_COVARIANCE, TWIST_STAMPED

#: What the guard sends.
COMMAND = "command_velocity/safe"
#: Where the pose is looked for, the likeliest first.
POSES = (
    "odometry/autopilot", "external/odom", "external/pose_stamped", "ground_truth/odom",
    topics.FILTERED,
)  # fmt: skip
#: Entry of a bag's own data: the topic by which the guard flew.
POSE_ENTRY = "pose"

#: Commands below this are zero, m/s.
ZERO_MPS = 0.02
#: Slower stops say little, m/s.
SLOWEST_MPS = 0.3
#: Command and motion are steady for so long before a stop, s, within this part of the speed.
STEADY_S, STEADY_SHARE = 0.5, 0.1
#: Fewest poses in that time: 16 Hz.
FEWEST_POSES = 8
#: It stands at the end of the first window of this length in which it is slower than this.
STAND_S, STAND_MPS = 0.5, 0.05
#: Its place is the mean of this time from then on, s.
PLACE_S = 0.5
#: It goes farther than its place only where the mean of this time does, s, by more than this, m.
FARTHEST_S, FARTHER_M = 0.1, 0.005
#: Motion that is farther off the command than this is of another frame, degrees.
BESIDE_DEG = 30.0
#: Fewest stops, and the least ratio of their highest to their lowest speed.
FEWEST_STOPS, LEAST_RATIO = 6, 1.5
#: Stops whose counted way is beyond so many times the measured one tell the guard nothing.
TOO_WIDE = 2.0
#: Poses that are later than this, one against another, tell nothing about latency, s.
LATE_S = 0.2
#: Bounds of the guard's parameters.
BRAKE_MAX_MPS2, LATENCY_MAX_S = 20.0, 2.0


@dataclass(frozen=True)
class BrakeFlight:
    """Poses and velocity commands of a flight, in the recorder's time.

    Attributes:
        source: where they come from, for messages.
        pose_s: (N,) times at which poses come, rising.
        p_W: (N, 3) positions, m.
        command_s: (M,) times at which commands were sent, rising.
        command_W: (M, 3) velocities asked for, m/s.
    """

    source: str
    pose_s: Array
    p_W: Array
    command_s: Array
    command_W: Array
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class BrakeStop:
    """One time at which zero velocity was commanded.

    Attributes:
        at_s: when, since the flight's first pose.
        speed_mps: before.
        way_m: from the pose that was last at the sender until it stood; NaN: not known.
        turned_deg: angle between command and motion.
        why_not: why the stop is not used; empty: it is.
    """

    at_s: float
    speed_mps: float
    way_m: float
    turned_deg: float
    why_not: str = ""


@dataclass(frozen=True)
class Brakes:
    """What the stops of a flight tell.

    Attributes:
        latency_s: with its 95 % interval.
        brake_mps2: the same; infinite where the way grows with the speed alone.
        spread_s: deviation of one stop's way over its speed from the line, s.
        guard_latency_s, guard_brake_mps2: with these the guard counts on a way that is longer than
            that of every stop of the flight and, at 95 %, of the next one.
    """

    flight: BrakeFlight
    stops: tuple[BrakeStop, ...]
    latency_s: Estimate
    brake_mps2: Estimate
    spread_s: float
    guard_latency_s: float
    guard_brake_mps2: float

    @property
    def used(self) -> list[BrakeStop]:
        """Stops that the figures are of."""
        return [stop for stop in self.stops if not stop.why_not]

    @property
    def fastest_mps(self) -> float:
        """Highest speed of these."""
        return max(stop.speed_mps for stop in self.used)

    def counted_m(self, speed_mps: float) -> float:
        """Way that the guard counts on from a speed, m."""
        return speed_mps * (self.guard_latency_s + 0.5 * speed_mps / self.guard_brake_mps2)


def read_brake_flight(
    bag: Bag, namespace: str, odometry: str = "", command: str = COMMAND
) -> BrakeFlight:
    """Read poses and commands.

    Args:
        odometry: topic of the pose in it, or a full name; empty: what the guard flew by where the
            bag states so, else the first of :data:`POSES` that is there.
        command: topic (TwistStamped) of the velocities that were sent, in the pose's frame.

    Raises:
        InputError: a topic is missing or has another type, or the poses came at odd times.
    """
    notes = list(bag.notes)
    if not odometry:
        found = [name for name in POSES if bag.counts.get(topics.topic(namespace, name))]
        odometry = bag.custom.get(POSE_ENTRY, "") or next(iter(found), POSES[0])
    full, sent = (topics.topic(namespace, name) for name in (odometry, command))
    kind = bag.types.get(full, ODOMETRY)
    if kind not in (ODOMETRY, POSE, POSE_WITH_COVARIANCE):
        raise InputError(f"{bag.path}: {full} is {kind}; give a pose or an odometry (--odometry)")
    topics.require(bag, namespace, full, kind)
    pose_log_ns, stamp_ns, p_W = _read(bag, full, kind, "p", notes)
    topics.require(bag, namespace, sent, TWIST_STAMPED)
    command_log_ns, _, command_W = _read(bag, sent, TWIST_STAMPED, "v", notes)
    late_ns = pose_log_ns - stamp_ns
    typical_ns = int(np.median(late_ns))
    spread_s = float(np.ptp(np.quantile(late_ns - typical_ns, (0.02, 0.98)))) * 1e-9
    if spread_s > LATE_S:
        raise InputError(
            f"{bag.path}: {full}: some poses came {spread_s:.2f} s later than others by their"
            f" stamps; allowed: {LATE_S:g} s; record on the computer that flies, and no bag that"
            " was played"
        )
    begin_ns = int(stamp_ns[0])
    pose_s = (stamp_ns - begin_ns).astype(np.float64) * 1e-9
    command_s = (command_log_ns - typical_ns - begin_ns).astype(np.float64) * 1e-9
    source = f"{bag.path}: {full}, {sent}"
    return BrakeFlight(source, pose_s, p_W, command_s, command_W, tuple(notes))


def _read(
    bag: Bag, full: str, kind: str, field: str, notes: list[str]
) -> tuple[Stamps, Stamps, Array]:
    """Log times, stamps and a vector of each message; commands are taken by their log times."""
    rows = read_rows(bag, full, fields_reader(kind, field), notes, rising=field == "p")
    if not len(rows[0]):
        raise InputError(f"{bag.path}: {full}: no message in it is whole")
    return rows


def find_stops(flight: BrakeFlight) -> list[BrakeStop]:
    """Every time at which the commands fall to zero, with what the vehicle did then."""
    asked = np.linalg.norm(flight.command_W, axis=1)
    rests = asked < ZERO_MPS
    begins = np.flatnonzero(rests[1:] & ~rests[:-1]) + 1
    moves = np.flatnonzero(~rests)
    found = []
    for k in begins.tolist():
        later = moves[moves > k]
        last_s = flight.command_s[later[0]] if len(later) else flight.command_s[-1] + STAND_S
        found.append(_stop(flight, k, float(last_s)))
    return found


def _stop(flight: BrakeFlight, k: int, last_s: float) -> BrakeStop:
    """The stop that command ``k`` begins; until ``last_s`` nothing else is commanded."""
    at_s, pose_s = float(flight.command_s[k]), flight.pose_s

    def unused(
        why_not: str, speed_mps: float = math.nan, turned_deg: float = math.nan
    ) -> BrakeStop:
        return BrakeStop(at_s, speed_mps, math.nan, turned_deg, why_not)

    asked = flight.command_W[(flight.command_s >= at_s - STEADY_S) & (flight.command_s < at_s)]
    before = (pose_s >= at_s - STEADY_S) & (pose_s <= at_s)
    if before.sum() < FEWEST_POSES:
        return unused(f"fewer than {FEWEST_POSES} poses in {STEADY_S:g} s")
    mean_W = asked.mean(axis=0)
    aim_mps = float(np.linalg.norm(mean_W))
    if np.linalg.norm(asked - mean_W, axis=1).max() > STEADY_SHARE * aim_mps:
        return unused(f"the command did not fall at once from one that stayed for {STEADY_S:g} s")
    t_s, p_W = pose_s[before] - at_s, flight.p_W[before]
    v_W, p0_W, noise_m = _line(t_s, p_W)
    speed = float(np.linalg.norm(v_W))
    if speed < SLOWEST_MPS:
        return unused(f"slower than {SLOWEST_MPS:g} m/s", speed)
    turned_deg = math.degrees(math.acos(min(1.0, max(-1.0, float(mean_W @ v_W) / aim_mps / speed))))
    half = t_s < -0.5 * STEADY_S
    change = np.linalg.norm(_line(t_s[half], p_W[half])[0] - _line(t_s[~half], p_W[~half])[0])
    blur = 4.0 * noise_m * math.sqrt(24.0 / max(int(half.sum()), 1)) / (0.5 * STEADY_S)
    if change > STEADY_SHARE * speed + blur:
        return unused("not at a steady speed before", speed, turned_deg)
    if abs(v_W[2]) > 0.3 * speed:
        return unused("not level", speed, turned_deg)
    after = (pose_s >= at_s) & (pose_s <= last_s)
    along_m = (flight.p_W[after] - p0_W) @ (v_W / speed)
    way_m = _way(pose_s[after], along_m, noise_m)
    if not way_m > 0.0:
        return unused("did not stand before the next command", speed, turned_deg)
    return BrakeStop(at_s, speed, way_m, turned_deg)


def _line(t_s: Array, p_W: Array) -> tuple[Array, Array, float]:
    """Velocity and place at 0 of a straight motion, and the deviation of the places from it."""
    if len(t_s) < 3:
        return np.zeros(3), p_W.mean(axis=0), 0.0
    basis = np.column_stack((t_s, np.ones_like(t_s)))
    found, *_ = np.linalg.lstsq(basis, p_W, rcond=None)
    off = p_W - basis @ found
    return found[0], found[1], float(np.sqrt((off**2).sum() / (3 * (len(t_s) - 2))))


def _way(t_s: Array, along_m: Array, noise_m: float) -> float:
    """Way until it stands, or until it turns back where it swings beyond; NaN: it does not."""
    begin_s = t_s[0] if len(t_s) else 0.0
    while len(t_s) and begin_s + STAND_S + PLACE_S <= t_s[-1]:
        window = (t_s >= begin_s) & (t_s <= begin_s + STAND_S)
        if window.sum() >= FEWEST_POSES:
            slope = float(np.polyfit(t_s[window] - begin_s, along_m[window], 1)[0])
            if abs(slope) < STAND_MPS:
                break
        begin_s += FARTHEST_S
    else:
        return math.nan
    stands_s = begin_s + STAND_S
    place_m = float(along_m[(t_s >= stands_s) & (t_s <= stands_s + PLACE_S)].mean())
    early = along_m[t_s <= stands_s + PLACE_S]
    width = max(1, round(FARTHEST_S * len(t_s) / (t_s[-1] - t_s[0])))
    farthest_m = float(np.convolve(early, np.full(width, 1.0 / width), "valid").max())
    beyond_m = max(FARTHER_M, 5.0 * noise_m / math.sqrt(width))
    return farthest_m if farthest_m > place_m + beyond_m else place_m


def measure_brakes(flight: BrakeFlight) -> Brakes:
    """Latency and deceleration.

    Raises:
        InputError: too few stops, all from one speed, motion that is not the commands', or stops
            that differ too much.
    """
    stops = find_stops(flight)
    used = [stop for stop in stops if not stop.why_not]
    _check(flight, stops, used)
    speed = np.array([stop.speed_mps for stop in used])
    ratio_s = np.array([stop.way_m for stop in used]) / speed
    half, count = 0.5 * speed, len(used)
    line = stats.linregress(half, ratio_s)
    slope, latency_s = float(line.slope), float(line.intercept)
    spread_s = float(np.sqrt(((ratio_s - latency_s - slope * half) ** 2).sum() / (count - 2)))
    quantile = float(stats.t.ppf(0.975, count - 2))
    slope_off = quantile * float(line.stderr)
    latency_off_s = quantile * float(line.intercept_stderr)
    brake = Estimate(*(1.0 / s if s > 0.0 else math.inf for s in (
        slope, slope + slope_off, slope - slope_off)))  # fmt: skip
    counted = min(_down(brake.low), BRAKE_MAX_MPS2)
    # the line's prediction limit for one more stop, from standing to the fastest
    each = np.linspace(0.0, float(half.max()), 50)
    apart = (each - half.mean()) ** 2 / ((half - half.mean()) ** 2).sum()
    beyond_s = np.sqrt(1.0 + 1.0 / count + apart)
    one_more_s = latency_s + slope * each + quantile * spread_s * beyond_s - each / counted
    needed_s = max(float(one_more_s.max()), float((ratio_s - half / counted).max()), 0.0)
    found = Brakes(
        flight,
        tuple(stops),
        Estimate(latency_s, max(latency_s - latency_off_s, 0.0), latency_s + latency_off_s),
        brake,
        spread_s,
        math.ceil(needed_s * 1e3 - 1e-6) / 1e3,
        counted,
    )
    fastest = found.fastest_mps
    measured_m = fastest * (latency_s + 0.5 * slope * fastest)
    if found.guard_latency_s > LATENCY_MAX_S or found.counted_m(fastest) > TOO_WIDE * measured_m:
        raise InputError(
            f"{flight.source}: the stops differ too much: by {spread_s:.3f} s of way over speed;"
            f" from {fastest:.2f} m/s the guard would count on {found.counted_m(fastest):.2f} m"
            f" where {measured_m:.2f} m were measured: fly more stops, from more speeds"
        )
    return found


def _down(value: float) -> float:
    """Three digits, never more than the value."""
    if not math.isfinite(value):
        return value
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return round(math.floor(value / step * (1.0 + 1e-9)) * step, 9)


def _check(flight: BrakeFlight, stops: Sequence[BrakeStop], used: Sequence[BrakeStop]) -> None:
    """Refuse a flight that cannot tell."""
    known = [stop for stop in stops if math.isfinite(stop.turned_deg)]
    alongside = [stop for stop in known if stop.turned_deg > BESIDE_DEG]
    if 2 * len(alongside) > len(known):
        rotated = float(np.median([stop.turned_deg for stop in alongside]))
        raise InputError(
            f"{flight.source}: the vehicle flew {rotated:.0f} degrees off the commands in"
            f" {len(alongside)} of {len(known)} stops: the frames of pose and command differ"
            " (docs/hil.md)"
        )
    if len(used) < FEWEST_STOPS:
        reasons = Counter(stop.why_not for stop in stops if stop.why_not)
        words = "".join(f"; {count} x {why}" for why, count in reasons.most_common())
        raise InputError(
            f"{flight.source}: {len(used)} stops can be used, of {len(stops)}{words}; allowed: at"
            f" least {FEWEST_STOPS}, each from a steady speed to zero at once (docs/guard.md)"
        )
    speeds = [stop.speed_mps for stop in used]
    if max(speeds) < LEAST_RATIO * min(speeds):
        raise InputError(
            f"{flight.source}: all stops are from {min(speeds):.2f} to {max(speeds):.2f} m/s, which"
            " does not tell latency from deceleration; allowed: the fastest from at least"
            f" {LEAST_RATIO:g} times the slowest's speed"
        )


def guard_text(brakes: Brakes, raw: Mapping[str, Any], base: str) -> str:
    """The text of a guard file.

    Args:
        raw: the mapping of the file whose other keys stay.

    Raises:
        InputError: the result is no guard file.
    """
    used = brakes.used
    slowest, fastest = min(stop.speed_mps for stop in used), brakes.fastest_mps
    source = " ".join(brakes.flight.source.split())
    vehicle = {
        **raw.get("vehicle", {}),
        "brake_mps2": brakes.guard_brake_mps2,
        "latency_s": brakes.guard_latency_s,
        "measured_on": f"{len(used)} stops from {slowest:.2f} to {fastest:.2f} m/s",
    }
    content: dict[str, Any] = {**raw, "vehicle": vehicle}
    one_stop = f"one stop differs by {brakes.spread_s:.3f} s"
    comments = {
        "vehicle.brake_mps2": f"{_words(brakes.brake_mps2)}; its lower end",
        "vehicle.latency_s": f"{_words(brakes.latency_s)}; {one_stop}",
    }
    lowered = lowered_speed_limit(brakes, raw)
    if lowered is not None:
        content["limits"] = {**raw.get("limits", {}), "speed_max_mps": lowered}
        words = "the fastest stop of the flight; faster ones are not measured"
        comments["limits.speed_max_mps"] = words
    from_mapping(GuardParams, content, source)
    lines = [f"# Brakes from {source}.", f"# What has no such words is of {base}."]
    return "\n".join([*lines, *parameter_lines(content, comments)]) + "\n"


def lowered_speed_limit(brakes: Brakes, raw: Mapping[str, Any]) -> float | None:
    """The limit of speed where that of the file is beyond the fastest stop; None: it is not."""
    limit = from_mapping(LimitParams, raw.get("limits", {}), "limits").speed_max_mps
    return None if limit <= 1.02 * brakes.fastest_mps else _down(brakes.fastest_mps)


def _words(estimate: Estimate) -> str:
    value, low, high = (f"{x:.3g}" if math.isfinite(x) else "no bound" for x in (
        estimate.value, estimate.low, estimate.high))  # fmt: skip
    return f"{value}, 95 % interval {low} to {high}"


def brakes_summary(brakes: Brakes) -> dict[str, Any]:
    """As one JSON object."""
    figures = (
        ("latency_s", "s", brakes.latency_s, brakes.guard_latency_s),
        ("brake_mps2", "m/s^2", brakes.brake_mps2, brakes.guard_brake_mps2),
    )
    keys = ("at_s", "speed_mps", "way_m", "counted_m", "why_not")
    return {
        "source": brakes.flight.source,
        "figures": [
            {"name": name, "unit": unit, **asdict(found), "guard": counted}
            for name, unit, found, counted in figures
        ],
        "spread_s": brakes.spread_s,
        "stops": [
            {key: row[key] for key in keys}
            for stop in brakes.stops
            if (row := asdict(stop) | {"counted_m": brakes.counted_m(stop.speed_mps)})
        ],
        "notes": list(brakes.flight.notes),
    }
