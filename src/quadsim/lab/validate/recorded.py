"""A recorded flight on an even grid: motion, forces and rotor speeds, as validation takes them.

The motion is the truth of the log (motion capture, or a simulation's). Where it has no velocities,
its poses are smoothed with the IMU's help: what a pose adds to the integrated gyroscope, and a
position next to the accelerometer integrated twice, changes slowly, so that its noise is averaged
out over 0.2 and 0.4 s about each time. A prediction may know nothing behind its start: for that
the same is made once more of what was logged by each time (``RecordedFlight.known``). The
recorder's delays are those of the vehicle's file (``recorder``).
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import cumulative_trapezoid
from scipy.ndimage import binary_dilation, median_filter
from scipy.signal import lfilter, savgol_coeffs, savgol_filter
from scipy.spatial.transform import Rotation, Slerp

from quadsim.bag import topics
from quadsim.bag.log import read_log
from quadsim.bag.logs.columns import BATTERY_STATE
from quadsim.bag.logs.motion import columns_at
from quadsim.bag.reading import Bag
from quadsim.base.errors import InputError
from quadsim.sim.log import Array, Stamps, Track
from quadsim.vehicle.parameters import RecorderParams, VehicleParams
from quadsim.wire.decode import decode

Places = NDArray[np.intp]

#: Bounds of the grid's step, s.
SHORTEST_S, LONGEST_S = 0.001, 0.005


class Smoothing(NamedTuple):
    """Length over which a parabola is fitted about a time; length and degree of a fit before it."""

    about_s: float
    before_s: float
    degree: int


#: Of a position's slope, and of a rate's; of a rate.
SLOPE, RATE_SLOPE, RATE = (
    Smoothing(0.12, 0.12, 2),
    Smoothing(0.04, 0.04, 2),
    Smoothing(0.03, 0.016, 1),
)
#: Of attitudes and positions next to the integrated IMU. What is fitted before a time is short, as
#: the tilt of the axes shows in it: by how near it comes to what is fitted about the time.
ATTITUDE, POSITION = Smoothing(0.2, 0.1, 0), Smoothing(0.4, 0.1, 1)
#: Length of the windows by which poses are levelled, s, and a tilt that is told, rad.
LEVEL_S, TILTED_RAD = 1.0, 0.02
#: Gravity by which they are levelled.
GRAVITY_MPS2 = 9.81
#: An attitude that is farther than this from the median over a time jumps, rad, s; the median is of
#: samples so far apart, s; so long before and behind a jump attitudes are on their way, s.
JUMP_RAD, JUMP_S, THIN_S, EDGE_S = 0.15, 10.0, 0.1, 0.05
#: Farthest that two samples may be apart for what lies between to be known, s.
FARTHEST_S = 0.1
#: A flight is free above this height over its lowest point, where that is on the ground, m.
FREE_M = 0.15
#: A rotor that turns at less than this share of the others' speed is told.
ODD_SHARE = 0.7
#: Told of a log without rotor speeds.
COMMANDED = "commands stand for the rotor speeds, which were not recorded"
#: Rotors slower than this share of their usual speed idle.
IDLE_SHARE = 0.3


@dataclass(frozen=True)
class RecordedFlight:
    """A flight on an even grid of N times.

    Attributes:
        time_s: (N,) from the log's first stamp.
        p_W, v_W, q_WB, w_B: motion; (N, 3) m, m/s, (N, 4) w first, rad/s.
        f_B: (N, 3) specific force where the IMU sits, m/s^2; NaN where the log has none.
        w_dot_B: (N, 3) rad/s^2.
        speed, speed_dot: (N, rotors) rad/s, rad/s^2.
        voltage_V: (N,) of the battery; NaN where the log has none.
        load: (N, 6) position and velocity of a slung load in W; NaN where there is none.
        free: (N,) whether it flies freely and all is known.
        levelled: whether its attitudes were levelled by the accelerometer.
        known: the motion as it is known at each time from what was logged by then; None: as above.
    """

    name: str
    dt_s: float
    time_s: Array
    p_W: Array
    v_W: Array
    q_WB: Array
    w_B: Array
    f_B: Array
    w_dot_B: Array
    speed: Array
    speed_dot: Array
    voltage_V: Array
    load: Array
    free: NDArray[np.bool_]
    recorder: RecorderParams
    levelled: bool = False
    notes: tuple[str, ...] = ()
    known: RecordedFlight | None = None

    def __len__(self) -> int:
        return len(self.time_s)

    @property
    def v_B(self) -> Array:
        """(N, 3) velocity in body axes."""
        return np.asarray(turn(self.q_WB).apply(self.v_W, inverse=True))


def turn(q_WB: Array) -> Rotation:
    """Rotations of (N, 4) quaternions, w first."""
    return Rotation.from_quat(np.roll(q_WB, -1, axis=-1))


def near_samples(at_s: Array, known_s: Array, farthest_s: float) -> NDArray[np.bool_]:
    """(K,) which times lie between samples that are no farther apart."""
    after = np.clip(np.searchsorted(known_s, at_s), 1, len(known_s) - 1)
    near = known_s[after] - known_s[after - 1] <= farthest_s
    return np.asarray(near & (at_s >= known_s[0]) & (at_s <= known_s[-1]))


def _length(dt_s: float, span_s: float) -> int:
    """Odd number of samples that fill a span, at least 5."""
    return max(5, 2 * round(0.5 * span_s / dt_s) + 1)


def _last(at_s: Array, known_s: Array) -> Places:
    """Places of the last samples by some times."""
    return np.clip(np.searchsorted(known_s, at_s, "right") - 1, 0, len(known_s) - 1)


def _fitted(values: Array, dt_s: float, fit: Smoothing, deriv: int, by: Places | None) -> Array:
    """Value or slope of what is fitted about each time; with ``by`` before the place of each."""
    length = _length(dt_s, fit.about_s if by is None else fit.before_s)
    if length > len(values):
        raise InputError(
            f"{len(values) * dt_s:.2f} s of flight; allowed: more than {fit.about_s} s"
        )
    if by is None:
        return np.asarray(savgol_filter(values, length, 2, deriv=deriv, delta=dt_s, axis=0))
    weights = savgol_coeffs(length, fit.degree, deriv=deriv, delta=dt_s, pos=length - 1)
    before = np.pad(values, ((length - 1, 0), (0, 0)), mode="edge")
    return np.asarray(lfilter(weights, 1.0, before, axis=0))[length - 1 :][by]


def _slope(values: Array, dt_s: float, fit: Smoothing, by: Places | None = None) -> Array:
    return _fitted(values, dt_s, fit, 1, by)


def _smooth(values: Array, dt_s: float, fit: Smoothing, by: Places | None = None) -> Array:
    found = _fitted(values, dt_s, fit, 0, by)
    if by is not None:
        since_s = dt_s * (np.arange(len(values)) - by)[:, None]
        found += since_s * _slope(values, dt_s, fit, by)
    return found


def _without_jumps(apart: Array, dt_s: float, notes: list[str], ahead: bool) -> Array:
    """(N, 4) quaternions between pose and gyroscope, without those that jump.

    Motion capture that takes one marker for another turns its body for a second or two; the
    gyroscope knows better. Where that is, what was before counts, and ``ahead`` what is behind it.
    """
    thin, length = max(1, round(THIN_S / dt_s)), round(JUMP_S / THIN_S)
    origin = 0 if ahead else length // 2 - 1 + length % 2
    usual = median_filter(apart[::thin], (length, 1), mode="nearest", origin=(origin, 0))
    places = np.arange(len(apart), dtype=float)
    usual = (
        columns_at(places, places[::thin], usual) if ahead else usual.repeat(thin, 0)[: len(apart)]
    )
    bad = np.linalg.norm(apart - usual, axis=1) > 0.5 * JUMP_RAD
    if bad.any():
        edge = round(EDGE_S / dt_s)
        if not ahead:
            bad = np.convolve(bad, np.ones(edge + 1))[: len(bad)] > 0.0
            last = np.maximum.accumulate(np.where(bad, 0, places.astype(int)))
            return np.asarray(apart[np.where(bad, np.maximum(last - edge, 0), last)])
        bad = binary_dilation(bad, iterations=edge)
        notes.append(f"{100 * bad.mean():.2g} % of the attitudes jump against the gyroscope")
        apart = columns_at(places, places[~bad], apart[~bad])
    return apart


def _smooth_attitude(
    measured: Rotation, w_B: Array, dt_s: float, notes: list[str], by: Places | None
) -> Rotation:
    """Attitudes of which the gyroscope gives what is quick."""
    steps = Rotation.from_rotvec(0.5 * (w_B[1:] + w_B[:-1]) * dt_s).as_quat()
    whole = np.empty((len(w_B), 4))
    rotated = Rotation.identity()
    whole[0] = rotated.as_quat()
    for k, step in enumerate(steps):
        rotated = rotated * Rotation.from_quat(step)
        whole[k + 1] = rotated.as_quat()
    integrated = Rotation.from_quat(whole)
    apart = (measured * integrated.inv()).as_quat()
    one = apart[len(apart) // 2 if by is None else 0]
    apart *= np.where((apart * one).sum(axis=1) < 0.0, -1.0, 1.0)[:, None]
    apart = _without_jumps(apart, dt_s, notes, by is None)
    return Rotation.from_quat(_smooth(apart, dt_s, ATTITUDE, by)) * integrated


def _levelled(
    measured: Rotation, p_W: Array, f_B: Array, dt_s: float, notes: list[str], by: Places | None
) -> Rotation:
    """Attitudes in the accelerometer's axes: motion capture's may be tilted, log by log.

    Over a window that is zero with its slope at both ends the specific force is gravity and the
    second derivative of the position. The median over the log of the tilt that is missing is
    taken off, so that no motion of a single moment counts; with ``by`` that over the log
    till then.
    """
    length = _length(dt_s, LEVEL_S)
    if not np.isfinite(f_B).all() or len(p_W) < 3 * length:
        return measured
    phase = np.pi * np.linspace(-1.0, 1.0, length)
    weight = 1.0 + np.cos(phase)
    bend = -np.cos(phase) * (np.pi / (0.5 * (length - 1) * dt_s)) ** 2 / weight.sum()
    bend -= bend.mean()

    def mean(values: Array, by: Array) -> Array:
        return np.stack([np.convolve(column, by, "valid") for column in values.T], axis=1)

    felt_W = mean(measured.apply(f_B), weight / weight.sum())
    missing_W = mean(p_W, bend) + np.array([0.0, 0.0, GRAVITY_MPS2]) - felt_W
    middle = slice(length // 2, length // 2 + len(felt_W))
    missing = measured[middle].apply(missing_W, inverse=True)
    up = mean(f_B, weight / weight.sum())[:, 2]
    tilts = np.stack([-missing[:, 1] / up, missing[:, 0] / up], axis=1)
    if by is not None:
        found = np.zeros((len(p_W), 3))
        found[length - 1 :, :2] = np.stack([_median_so_far(each) for each in tilts.T], axis=1)
        return measured * Rotation.from_rotvec(found[by])
    x, y = np.median(tilts, axis=0).tolist()
    if np.hypot(x, y) > TILTED_RAD:
        notes.append(f"the poses are tilted by {x:.3f}, {y:.3f} rad against the accelerometer")
    return measured * Rotation.from_rotvec([x, y, 0.0])


def _median_so_far(values: Array) -> Array:
    """Median of the values up to each."""
    sorted_values: list[float] = []
    medians = []
    for value in values.tolist():
        insort(sorted_values, value)
        medians.append(sorted_values[len(sorted_values) // 2])
    return np.array(medians)


def _smooth_positions(
    p_W: Array, attitude: Rotation, f_B: Array, dt_s: float, by: Places | None
) -> tuple[Array, Array]:
    """Positions and velocities of which the accelerometer, where there is one, gives the quick."""
    if not np.isfinite(f_B).all():
        return (p_W if by is None else p_W[by]), _slope(p_W, dt_s, SLOPE, by)
    a_W = attitude.apply(f_B) - [0.0, 0.0, GRAVITY_MPS2]
    v_W = cumulative_trapezoid(a_W, dx=dt_s, axis=0, initial=0.0)
    moved_W = cumulative_trapezoid(v_W, dx=dt_s, axis=0, initial=0.0)
    apart = p_W - moved_W
    p_W = moved_W + _smooth(apart, dt_s, POSITION, by)
    return p_W, v_W + _slope(apart, dt_s, POSITION, by)


def smoothed_motion(
    p_W: Array,
    attitude: Rotation,
    w_B: Array,
    f_B: Array,
    dt_s: float,
    notes: list[str],
    by: Places | None = None,
) -> tuple[Array, Array, Rotation, Array]:
    """Positions, velocities, attitudes and rates out of poses, with the IMU's help.

    Args:
        p_W: (N, 3) positions in m.
        attitude: (N) of the IMU's axes.
        w_B, f_B: (N, 3) rad/s and m/s^2 of the IMU; f_B may be NaN.
        notes: gets what a reader should know.
        by: (N,) place of the grid by which the poses are known at each time; then no later sample
            counts. None: samples behind a time count like those before it.
    """
    w_mean_B = _smooth(w_B, dt_s, RATE, None if by is None else np.arange(len(w_B)))
    attitude = _smooth_attitude(attitude, w_mean_B if by is None else w_B, dt_s, notes, by)
    p_W, v_W = _smooth_positions(p_W, attitude, f_B, dt_s, by)
    return p_W, v_W, attitude, w_mean_B


class RecordedSignals:
    """Signals of one vehicle of a bag, in seconds from the first stamp of its rotors."""

    def __init__(self, bag: Bag, namespace: str, recorder: RecorderParams) -> None:
        self.bag, self.namespace, self.recorder = bag, namespace, recorder
        self.log = read_log(bag, namespace, with_imu=True)
        if len(self.log.motor_stamps_ns) < 20:
            self._take_commands()
        if len(self.log.truth) < 20:
            raise InputError(
                f"{bag.path}: no motion in {topics.topic(namespace, topics.TRUTH)} to judge by"
            )
        self.start_ns = int(self.log.motor_stamps_ns[0])

    def _take_commands(self) -> None:
        if len(self.log.command_stamps_ns) < 20:
            raise InputError(
                f"{self.bag.path}: neither {topics.MOTORS} nor {topics.COMMANDS}; record one"
            )
        self.log.motor_stamps_ns = self.log.command_stamps_ns
        self.log.motor_speed_radps = self.log.command_radps
        self.log.notes.append(COMMANDED)

    def seconds(self, stamp_ns: Stamps, delay_s: float = 0.0) -> Array:
        """When what is stamped so was true."""
        return np.asarray((stamp_ns - self.start_ns) * 1e-9 - delay_s)

    def rows(self, name: str, kind: str, *fields: str) -> tuple[Array, Array]:
        """Times and values of a topic; none where there is none."""
        full = topics.topic(self.namespace, name)
        if self.bag.types.get(full) != kind:
            return np.zeros(0), np.zeros((0, 3))
        block = decode(kind, [message.payload for message in self.bag.messages([full])])
        values = np.hstack([np.asarray(block[field], float) for field in fields])
        return self.seconds(block.stamp_ns), values

    def voltage(self, at_s: Array) -> Array:
        """Voltage of the battery at some times."""
        full = topics.topic(self.namespace, "battery_state")
        messages = self.bag.messages([full] if self.bag.types.get(full) == BATTERY_STATE else [])
        found = [(each.log_ns, self.bag.deserialize(each).voltage) for each in messages]
        if not found:
            return np.full(len(at_s), np.nan)
        log_ns, volts = np.array(found).T
        return np.asarray(np.interp(at_s, self.seconds(log_ns.astype(np.int64)), volts))


def _poses(reader: RecordedSignals) -> tuple[Array, Track]:
    """Times and motion of the truth, without poses that were only repeated."""
    track = reader.log.truth
    new = np.r_[True, np.abs(np.diff(track.p_W, axis=0)).max(axis=1) > 0.0]
    new |= np.r_[True, np.abs(np.diff(track.q_WB, axis=0)).max(axis=1) > 0.0]
    track = track[new]
    return reader.seconds(track.stamp_ns, reader.recorder.pose_delay_s), track


def pose_and_gyroscope(
    bag: Bag, namespace: str, recorder: RecorderParams
) -> tuple[Array, Rotation, Array, Array]:
    """Times in s and attitudes of the poses, times in s and (N, 3) rates of the gyroscope in rad/s.

    By the recorder's delay of the IMU; that of the poses, mount and bias are not taken off.

    Raises:
        InputError: there is no gyroscope or no true motion.
    """
    reader = RecordedSignals(bag, namespace, replace(recorder, pose_delay_s=0.0))
    imu = reader.log.imu
    if imu is None or len(imu.stamp_ns) < 20:
        raise InputError(f"{bag.path}: no {topics.IMU}")
    pose_s, track = _poses(reader)
    imu_s = reader.seconds(imu.stamp_ns, recorder.imu_delay_s)
    return pose_s, turn(track.q_WB), imu_s, np.asarray(imu.w_S)


def read_recorded(bag: Bag, namespace: str, vehicle: VehicleParams) -> RecordedFlight:
    """Read a flight.

    Args:
        vehicle: for its number of rotors and its recorder.

    Raises:
        InputError: the log lacks rotor speeds or a true motion, or is of another vehicle.
    """
    reader = RecordedSignals(bag, namespace, vehicle.recorder)
    log, recorder = reader.log, reader.recorder
    rotors = len(vehicle.rotor_directions)
    if log.motor_speed_radps.shape[1] != rotors:
        raise InputError(
            f"{bag.path}: {log.motor_speed_radps.shape[1]} rotors, but {rotors} in the vehicle"
        )
    motor_s = reader.seconds(log.motor_stamps_ns, recorder.rotor_speed_delay_s)
    pose_s, track = _poses(reader)
    dt_s = float(np.clip(np.median(np.diff(motor_s)), SHORTEST_S, LONGEST_S))
    begin, end = max(motor_s[0], pose_s[0]), min(motor_s[-1], pose_s[-1])
    time_s = np.arange(begin + dt_s, end - dt_s, dt_s)
    if len(time_s) < _length(dt_s, SLOPE.about_s):
        raise InputError(f"{bag.path}: rotor speeds and motion hardly overlap")
    speed = columns_at(time_s, motor_s, log.motor_speed_radps)
    _note_odd_rotors(speed, log.notes)
    near = near_samples(time_s, pose_s, FARTHEST_S) & near_samples(time_s, motor_s, FARTHEST_S)
    none = np.zeros((0, 3))
    still = RecordedFlight(
        str(bag.path), dt_s, time_s, none, none, none, none, none, none, speed, none,
        reader.voltage(time_s), none, near, recorder,
    )  # fmt: skip
    flight = _with_motion(still, reader, pose_s, track, None)
    flight = replace(flight, free=flight.free & where_flying(flight))
    _note_left_out(flight, log.notes)
    flight = replace(flight, notes=tuple(log.notes))
    known = _with_motion(still, reader, pose_s, track, _last(pose_s[_last(time_s, pose_s)], time_s))
    return replace(flight, known=replace(known, free=known.free & flight.free))


def _with_motion(
    flight: RecordedFlight, reader: RecordedSignals, pose_s: Array, track: Track, by: Places | None
) -> RecordedFlight:
    """A flight whose motion is found, with ``by`` from what is known at each time alone."""
    dt_s, time_s, recorder = flight.dt_s, flight.time_s, flight.recorder
    here, notes = (None, reader.log.notes) if by is None else (np.arange(len(time_s)), [])
    p_W, v_W = columns_at(time_s, pose_s, track.p_W), track.v_W
    attitude = Slerp(pose_s, turn(track.q_WB))(time_s) * Rotation.from_rotvec(recorder.mount_rad)
    moving = bool(np.isfinite(v_W).all() and np.abs(v_W).max() > 0.0)
    w_B, f_B, near = _felt(reader, time_s, track, pose_s, here is not None and not moving)
    if moving:
        v_W = columns_at(time_s, pose_s, v_W)
    else:
        attitude = _levelled(attitude, p_W, f_B, dt_s, notes, by)
        p_W, v_W, attitude, w_B = smoothed_motion(p_W, attitude, w_B, f_B, dt_s, notes, by)
        if by is not None:
            near = near & (time_s > time_s[0] + LEVEL_S)
    given_s, given = reader.rows("ground_truth/accel", "geometry_msgs/msg/AccelStamped", "w_dot")
    told = len(given) > 0 and np.isfinite(given).all() and np.abs(given).max() > 0.0
    found = replace(
        flight, p_W=p_W, v_W=v_W, q_WB=np.roll(attitude.as_quat(), 1, axis=1), w_B=w_B, f_B=f_B,
        w_dot_B=columns_at(time_s, given_s, given) if told
        else _slope(w_B, dt_s, RATE_SLOPE, here),
        speed_dot=_slope(flight.speed, dt_s, Smoothing(4 * dt_s, 4 * dt_s, 2), here),
        load=_load(reader, time_s, by),
        free=flight.free & near, levelled=not moving and bool(np.isfinite(f_B).all()),
    )  # fmt: skip
    return _of_centre(found, np.array(recorder.pose_position_B_m), here)


def _note_odd_rotors(speed: Array, notes: list[str]) -> None:
    """Say which rotors can hardly have rotated as they were recorded."""
    usual = np.median(speed, axis=0)
    shares = usual / max(float(np.median(usual)), 1e-9)
    notes += [
        f"rotor {i} turns at {share:.2f} of the others' speed: does its sensor skip?"
        for i, share in enumerate(shares.tolist())
        if share < ODD_SHARE
    ]


def _of_centre(flight: RecordedFlight, pose_B: Array, by: Places | None = None) -> RecordedFlight:
    """A flight whose poses were of a point at ``pose_B``, in m, with the centre's own motion.

    With the IMU's help the arm was smoothed like the positions, by which its rate is known, too.
    """
    if not pose_B.any():
        return flight
    attitude = turn(flight.q_WB)
    arm_W, rate_W = attitude.apply(pose_B), attitude.apply(np.cross(flight.w_B, pose_B))
    if flight.levelled:
        rate_W = _slope(arm_W, flight.dt_s, POSITION, by)
        arm_W = _smooth(arm_W, flight.dt_s, POSITION, by)
    return replace(flight, p_W=flight.p_W - arm_W, v_W=flight.v_W - rate_W)


def as_recorded_by(flight: RecordedFlight, recorder: RecorderParams) -> RecordedFlight:
    """A flight as it would have been read by a recorder that is slightly another one."""
    was, time_s = flight.recorder, flight.time_s
    if recorder == was:
        return flight
    motion_s = time_s + (recorder.pose_delay_s - was.pose_delay_s)
    rotor_s = time_s + (recorder.rotor_speed_delay_s - was.rotor_speed_delay_s)
    imu_s = time_s + (recorder.imu_delay_s - was.imu_delay_s)
    remount = Rotation.from_rotvec(was.mount_rad).inv() * Rotation.from_rotvec(recorder.mount_rad)
    bias_mps2 = np.subtract(recorder.accelerometer_bias_mps2, was.accelerometer_bias_mps2)
    if flight.levelled:  # what the accelerometer shows too much is what levels it
        x, y, _ = bias_mps2 / GRAVITY_MPS2
        remount = Rotation.from_rotvec([-y, x, 0.0]) * remount
    bias_radps = np.subtract(recorder.gyroscope_bias_radps, was.gyroscope_bias_radps)
    flight = _of_centre(flight, -np.array(was.pose_position_B_m))
    attitude = turn(flight.q_WB) * remount
    if recorder.pose_delay_s != was.pose_delay_s:
        attitude = Slerp(time_s, attitude)(np.clip(motion_s, time_s[0], time_s[-1]))
    moved = replace(
        flight,
        p_W=columns_at(motion_s, time_s, flight.p_W),
        v_W=columns_at(motion_s, time_s, flight.v_W),
        q_WB=np.roll(attitude.as_quat(), 1, axis=1),
        w_B=columns_at(imu_s, time_s, flight.w_B) - bias_radps,
        f_B=columns_at(imu_s, time_s, flight.f_B) - bias_mps2,
        w_dot_B=columns_at(imu_s, time_s, flight.w_dot_B),
        speed=columns_at(rotor_s, time_s, flight.speed),
        speed_dot=columns_at(rotor_s, time_s, flight.speed_dot),
        load=columns_at(motion_s, time_s, flight.load),
        recorder=recorder,
        known=None,
    )
    return _of_centre(moved, np.array(recorder.pose_position_B_m))


def _felt(
    reader: RecordedSignals, time_s: Array, track: Track, pose_s: Array, held: bool
) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Rates and specific force of the IMU, and where they are known; else of the motion itself.

    ``held``: its last sample by each time counts.
    """
    imu = reader.log.imu
    if imu is None or len(imu.stamp_ns) < 20:
        w_B = columns_at(time_s, pose_s, track.w_B)
        if not np.isfinite(w_B).all():
            raise InputError(f"{reader.bag.path}: neither {topics.IMU} nor rates in its motion")
        return w_B, np.full_like(w_B, np.nan), np.ones(len(time_s), bool)
    imu_s = reader.seconds(imu.stamp_ns, reader.recorder.imu_delay_s)
    time_s = imu_s[_last(time_s, imu_s)] if held else time_s
    w_B = columns_at(time_s, imu_s, imu.w_S) - reader.recorder.gyroscope_bias_radps
    f_B = columns_at(time_s, imu_s, imu.f_S) - reader.recorder.accelerometer_bias_mps2
    return w_B, f_B, near_samples(time_s, imu_s, FARTHEST_S)


def _load(reader: RecordedSignals, time_s: Array, by: Places | None) -> Array:
    """(N, 6) position and velocity of a slung load; NaN where there is none."""
    point_s, point = reader.rows("ground_truth/load", "geometry_msgs/msg/PointStamped", "p")
    if not len(point):
        return np.full((len(time_s), 6), np.nan)
    p_W = columns_at(time_s, point_s, point)
    dt_s = float(time_s[1] - time_s[0])
    if by is not None:
        by = _last(point_s[_last(time_s, point_s)], time_s)
    return np.hstack([_smooth(p_W, dt_s, SLOPE, by), _slope(p_W, dt_s, SLOPE, by)])


def where_flying(flight: RecordedFlight) -> NDArray[np.bool_]:
    """Where the vehicle flies: not on the ground, where all rotors idle, nor close above it.

    A single rotor may be slow in a quick turn. One that shows no speed at all is not known.
    """
    usual = float(np.median(flight.speed[flight.speed > 0.0])) if flight.speed.any() else 0.0
    idle = flight.speed.max(axis=1) <= IDLE_SHARE * usual
    flies = (flight.speed > 0.0).all(axis=1) & ~idle
    height_m = flight.p_W[:, 2] - flight.p_W[:, 2].min()
    if idle.any() and height_m[idle].min() < FREE_M:  # its lowest point is on the ground
        flies &= height_m > FREE_M
    return np.asarray(flies)


def _note_left_out(flight: RecordedFlight, notes: list[str]) -> None:
    """Say how much of a log is not judged, and how fast it is there."""
    out = ~flight.free
    if out.any():
        fastest_mps = np.linalg.norm(flight.v_W[out], axis=1).max()
        out_s, all_s = flight.dt_s * out.sum(), flight.dt_s * len(flight)
        notes.append(
            f"{out_s:.2g} s of {all_s:.3g} s are left out: on the ground, less than {FREE_M:g} m"
            f" above it, or without samples (up to {fastest_mps:.2g} m/s)"
        )
