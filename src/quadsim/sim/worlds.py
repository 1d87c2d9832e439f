"""Many worlds at once, each with the compiled closed loop that a single flight has.

Nothing of a world reaches another one: its bits are those it has alone. Worlds begin from units,
vehicles whose devices were switched on beforehand, and threads share them.
"""

from __future__ import annotations

import contextlib
import math
import mmap
import os
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Array, Record, Records, kernel, threaded
from quadsim.base.crew import Crew, end_part, goes_on, next_part, seen
from quadsim.base.crew import Words as JobWords
from quadsim.base.elementary import cos, sin
from quadsim.base.errors import InputError
from quadsim.base.normals import fill_normals
from quadsim.base.parameters import dtype_of
from quadsim.base.records import KINEMATICS, MODE_VELOCITY, Kinematics, Odometry
from quadsim.estimation.eskf.alignment import KNOWN_WHITE
from quadsim.estimation.eskf.parameters import LINEAR
from quadsim.geometry.rotation import quat, yaw_of
from quadsim.geometry.vector import vec3
from quadsim.sensors import SENSORS
from quadsim.sim.beginning import begin_estimate, begin_motion, begin_on_truth
from quadsim.sim.loop import (
    LOG_ROW,
    MOTORS_OUTSIDE,
    SETUP,
    STATE,
    WIND,
    LoopArrays,
    LoopState,
    OfDevices,
    Setup,
    advance_vehicles,
    is_running,
    slice_all,
)
from quadsim.sim.scenario import Scenario
from quadsim.sim.vehicles import Vehicles
from quadsim.vehicle.contact.contact import CRASHES
from quadsim.vehicle.faults import fault_words
from quadsim.vehicle.state import WORKSPACE
from quadsim.world.scene.scene import Scene, cast_ray

Words = NDArray[np.uint64]

#: What an action is.
ACTIONS = ("rotor_speeds", "thrusts", "rates", "attitude", "velocity")
ROTOR_SPEEDS, THRUSTS, RATES, ATTITUDE, VELOCITY = range(5)
#: Normal numbers that a world draws for each beginning, without those of its estimate.
DRAWN = 24
#: A reading that is older counts as that old, s.
OLDEST_S = 10.0
#: Fields whose content counts only up to their counters; they are never copied.
_RINGS = ("snapshots", "innovations", "events", "samples", "arrival_ns")
#: Worlds that a thread takes at once, and from which on threads share them.
SHARE, SHARED_FROM = 4, 5


class Seen(Record):
    """What is seen of a vehicle after a step; W is the world, B the body, S the IMU's axes."""

    time_s: float
    true: Kinematics
    estimate: Odometry
    f_S: Annotated[Array, 3]  # newest sample of each sensor
    w_S: Annotated[Array, 3]
    gnss_p_W: Annotated[Array, 3]
    gnss_v_W: Annotated[Array, 3]
    gnss_age_s: float
    field_S_T: Annotated[Array, 3]
    pressure_pa: float
    range_m: float  # inf: nothing in reach
    estimated: int
    contact: int
    crash: int
    fault: int


SEEN = dtype_of(Seen)

#: Places of kinds in the table of sensors.
IMU, GNSS, MAGNETOMETER, BAROMETER, RANGEFINDER = map(
    [*SENSORS].index, ("imu", "gnss", "magnetometer", "barometer", "rangefinder")
)


@kernel
def _mixed(word: Any) -> Any:
    """The finaliser of splitmix64 (Steele, Lea and Flood, 2014)."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@kernel
def seed_stream(words: Any, seed: int, episode: int, device: int) -> None:
    """Begin the (4,) SFC64 of a device in an episode of a world."""
    step = np.uint64(0x9E3779B97F4A7C15)
    word = _mixed(np.uint64(seed) + step)
    word = _mixed(word + step * np.uint64(episode + 1))
    word = _mixed(word + step * np.uint64(device + 1))
    for i in range(3):
        word += step
        words[i] = _mixed(word)
    words[3] = np.uint64(1)


@kernel
def look_at(
    state: LoopState, i: int, devices: OfDevices, seen: Seen, on_truth: int, linear: Any
) -> None:
    """Write what is seen of vehicle ``i``; of what it does not carry, zeros."""
    now_ns = state.stamp_ns
    seen.time_s = now_ns * 1e-9
    seen.true = state.truth[0]
    running = is_running(state, linear)
    seen.estimated = 1 if running else 0
    if running:
        seen.estimate = state.estimate if on_truth != 0 else state.odometry
    imu = devices[IMU][i, 0].sample
    for k in range(3):
        seen.f_S[k], seen.w_S[k] = imu.f_S[k], imu.w_S[k]
    if devices[MAGNETOMETER].shape[1] > 0:
        for k in range(3):
            seen.field_S_T[k] = devices[MAGNETOMETER][i, 0].sample.m_S[k]
    if devices[GNSS].shape[1] > 0 and devices[GNSS][i, 0].count > 0:
        fix = devices[GNSS][i, 0].sample
        finite = True
        for k in range(3):
            finite = finite and np.isfinite(fix.p_W[k] + fix.v_W[k])
        if finite:
            seen.gnss_age_s = min((now_ns - fix.stamp_ns) * 1e-9, OLDEST_S)
            for k in range(3):
                seen.gnss_p_W[k], seen.gnss_v_W[k] = fix.p_W[k], fix.v_W[k]
    if devices[BAROMETER].shape[1] > 0:
        seen.pressure_pa = devices[BAROMETER][i, 0].sample.pressure_pa
    if devices[RANGEFINDER].shape[1] > 0:
        seen.range_m = devices[RANGEFINDER][i, 0].sample.range_m
    vehicle = state.vehicle
    seen.contact, seen.crash, seen.fault = vehicle.contact, vehicle.crash, vehicle.fault


@kernel
def look_around(state: LoopState, setup: Setup, scene: Scene, reach_m: float, row: Array) -> None:
    """Distances in the level plane, from the heading to the left, at most the reach."""
    true = state.truth[0]
    yaw = yaw_of(quat(true.q_WB))
    ground_m, origin_W = setup.environment[0].ground_height_m, vec3(true.p_W)
    for k in range(row.size):
        angle = yaw + 2.0 * math.pi * k / row.size
        ray_W = (cos(angle), sin(angle), 0.0)
        row[k] = min(cast_ray(scene, ground_m, origin_W, ray_W, reach_m)[0], reach_m)


@kernel
def obey(state: LoopState, setup: Setup, kind: int, action: Array) -> None:
    """Hand an action, in its units, to the part of the loop that it is for."""
    if kind <= THRUSTS:
        for i in range(action.size):
            wanted = action[i]
            if kind == THRUSTS:
                wanted = math.sqrt(wanted / setup.vehicle.thrust_coefficient_N_s2)
            state.pending[setup.delay, i] = wanted
        return
    if kind == VELOCITY:
        state.setpoint.mode = MODE_VELOCITY
        for i in range(3):
            state.setpoint.v_W[i] = action[i]
        state.setpoint.yaw_rate = action[3]
        return
    command = state.command
    command.stamp_ns = max(state.odometry.stamp_ns, 1)
    command.thrust = action[3]
    if kind == RATES:
        command.by_rates = 1
        for i in range(3):
            command.w_B[i] = action[i]
        command.q_WB[0] = 1.0
        return
    roll, pitch = 0.5 * action[0], 0.5 * action[1]
    command.q_WB[0], command.q_WB[1] = cos(roll) * cos(pitch), sin(roll) * cos(pitch)
    command.q_WB[2], command.q_WB[3] = cos(roll) * sin(pitch), -sin(roll) * sin(pitch)
    command.yaw_rate = action[2]


@kernel
def step_world(
    flight: LoopArrays,
    noise: OfDevices,
    words: Any,
    periods_ns: NDArray[np.int64],
    kind: int,
    actions: Array,
    seen: Records[Seen],
    rays: Array,
    reach_m: float,
    period_ns: int,
    size: int,
    world: int,
) -> None:
    """Advance a world by one step of the environment.

    Args:
        flight: of all vehicles, world by world.
        noise: for each kind and at last the wind (N, M, rows, width), the memory of its numbers.
        words: for each of them (N, M, 4), the random streams; at last those of the beginnings.
        periods_ns: (N, kinds + 1) of the samples; 0: there are none.
        kind: of the actions.
        actions: (N, 4 or rotors) in their units, held over the step.
        seen: (N,) what is seen afterwards.
        rays: (N, rays) distances around, m.
        reach_m: of them.
        period_ns: of the step.
        size: vehicles of a world.
        world: which.
    """
    states: Any = flight.states
    setups: Any = flight.setups
    work: Any = flight.work
    _, _, scene, use_truth, devices, white, wind, used, log, samples, linear, _ = flight
    a, b = world * size, (world + 1) * size
    now_ns = states[a].stamp_ns
    until_ns = now_ns + period_ns
    for i in range(a, b):
        for k in range(len(noise)):
            every_ns = periods_ns[i, k]
            if every_ns == 0:
                continue
            rows = until_ns // every_ns - now_ns // every_ns
            for d in range(noise[k].shape[1]):
                for row in range(rows):
                    fill_normals(words[k][i, d], noise[k][i, d, row])
                used[k][i, d] = 0
        obey(states[i], setups[i], kind, actions[i])
    part = LoopArrays(
        states[a:b], setups[a:b], scene, use_truth[a:b], slice_all(devices, a, b),
        slice_all(white, a, b), wind[a:b], slice_all(used, a, b) + (used[WIND][a:b],),  # noqa: RUF005
        log[a:b], slice_all(samples, a, b), linear[:0], work[a : a + 1],
    )  # fmt: skip
    advance_vehicles(part, until_ns, period_ns if kind == VELOCITY else 0)
    for i in range(a, b):
        look_at(states[i], i, devices, seen[i], use_truth[i], linear[:0])
        look_around(states[i], setups[i], scene, reach_m, rays[i])


@threaded
def step_worlds(given: Any, active: NDArray[np.bool_], words: JobWords, seat: int) -> bool:
    """Advance the active worlds by a step: the work of a :class:`~quadsim.base.crew.Crew`.

    Args:
        given: what :func:`step_world` takes before the world.
        active: (worlds,) which are advanced.
        words, seat: of the crew; a part has SHARE worlds.
    """
    more = True
    while more:
        job, part = seen(words, seat), next_part(words, seat)
        while part >= 0:
            for world in range(SHARE * part, min(SHARE * part + SHARE, active.size)):
                if active[world]:
                    step_world(*given, world)  # type: ignore[call-arg]
            end_part(words)
            part = next_part(words, seat)
        more = goes_on(words, seat, job)
        if seat == 0:
            break
    return more


@kernel
def begin_vehicle(
    flight: LoopArrays,
    content: OfDevices,
    places: tuple[NDArray[np.int64], ...],
    units: OfDevices,
    unit_setups: Records[Setup],
    whose: NDArray[np.int64],
    motions: Records[Kinematics],
    deviations: tuple[float, float, float, float],
    numbers: Array,
    told: bool,
    seen: Records[Seen],
    rays: Array,
    reach_m: float,
    i: int,
) -> None:
    """Begin a vehicle anew, as one of the units, in a motion of its own.

    Args:
        flight: of all vehicles.
        content: (N, words) of their states and of each kind of devices, the same memory.
        places: of the words of each that are copied.
        units: (U, places) words of each of the units.
        unit_setups: (U,).
        whose: (N,) which unit each is.
        motions: (N,) where each begins.
        deviations: of the estimate, as of :func:`quadsim.sim.beginning.begin_estimate`.
        numbers: as of :func:`draw_beginning`.
        told: the filter begins about the true motion; else it aligns.
        seen, rays, reach_m: as of :func:`step_world`.
        i: which vehicle.
    """
    states: Any = flight.states
    setups: Any = flight.setups
    starts: Any = motions
    work: Any = flight.work
    scene, use_truth, devices = flight.scene, flight.use_truth, flight.devices
    for part in range(len(content)):
        own, unit, where = content[part][i], units[part][whose[i]], places[part]
        for k in range(where.size):
            own[where[k]] = unit[k]
    setups[i] = unit_setups[whose[i]]
    begin_motion(states, setups, devices, i, scene, starts, work[i : i + 1])
    if told:
        begin_estimate(states[i : i + 1], deviations, numbers[i, DRAWN:])
    if use_truth[i] != 0 or not told:
        begin_on_truth(states[i : i + 1])
    seen[i].gnss_age_s = OLDEST_S
    for k in range(3):
        seen[i].gnss_p_W[k] = seen[i].gnss_v_W[k] = 0.0
    look_at(states[i], i, devices, seen[i], use_truth[i], flight.linear[:0])
    look_around(states[i], setups[i], scene, reach_m, rays[i])


@threaded
def begin_worlds(given: Any, which: NDArray[np.int64]) -> None:
    """Begin (M,) vehicles anew; ``given``: what :func:`begin_vehicle` takes before the last."""
    for m in range(which.size):
        begin_vehicle(*given, which[m])  # type: ignore[call-arg]


@kernel
def draw_beginning(
    words: Any, seeds: NDArray[np.int64], episodes: NDArray[np.int64], numbers: Array, i: int
) -> None:
    """Begin the streams of an episode of a vehicle, and draw its first numbers.

    Args:
        words: as of :func:`step_world`.
        seeds, episodes: (N,).
        numbers: (N, DRAWN + KNOWN_WHITE) normal.
        i: which vehicle.
    """
    device = 0
    for k in range(len(words)):
        for d in range(words[k].shape[1]):
            seed_stream(words[k][i, d], seeds[i], episodes[i], device)
            device += 1
    fill_normals(words[len(words) - 1][i, 0], numbers[i])


@threaded
def draw_beginnings(given: Any, which: NDArray[np.int64]) -> None:
    """Begin the episodes of (M,) vehicles; ``given`` as of :func:`begin_worlds`."""
    for m in range(which.size):
        draw_beginning(*given, which[m])  # type: ignore[call-arg]


def sparse_zeros(count: int, dtype: Any) -> NDArray[np.record]:
    """Zeros, of which only pages of 4 kB that are touched take memory.

    numpy asks for pages of 2 MB, as large as a world's state, of which an episode of a second uses
    a fifth.
    """
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    room = mmap.mmap(-1, count * dtype.itemsize, flags=flags)
    with contextlib.suppress(AttributeError, OSError):  # a system without large pages
        room.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(room, dtype)


def _copied(
    dtype: np.dtype[Any], left: tuple[str, ...] = _RINGS, start: int = 0
) -> list[tuple[int, int]]:
    """First and last byte of each field of a record, but for some."""
    found: list[tuple[int, int]] = []
    for name, (kind, offset, *_) in (dtype.fields or {}).items():
        base, shape = kind.base, kind.shape
        if name in left:
            continue
        if base.names is None:
            found.append((start + offset, start + offset + kind.itemsize))
            continue
        for k in range(int(np.prod(shape, dtype=int))):
            found += _copied(base, left, start + offset + k * base.itemsize)
    return found


def words_in(records: NDArray[np.record]) -> Words:
    """The 64-bit words of (N, ...) records, (N, words), the same memory."""
    return records.view(np.uint64).reshape(len(records), -1)


def word_places(dtype: np.dtype[Any], count: int, votes: bool = True) -> NDArray[np.int64]:
    """Places, in 64-bit words, of what is copied of so many where a vehicle begins anew.

    Args:
        dtype: of the records.
        count: of each vehicle.
        votes: whether it has two of a kind; else what compares them stays empty.
    """
    marked = np.zeros(dtype.itemsize, bool)
    for first, last in _copied(dtype, _RINGS if votes else (*_RINGS, "vote", "pairs")):
        marked[first:last] = True
    return np.flatnonzero(np.tile(marked.reshape(-1, 8).any(axis=1), count))


class Units:
    """Vehicles whose devices are switched on, on which worlds begin.

    Args:
        scenarios: of each; they share a scene.

    Raises:
        InputError: one flies on a filter, or with a part, that worlds do not know.
    """

    def __init__(self, scenarios: Sequence[Scenario]) -> None:
        self.setups: NDArray[np.record] = np.zeros(len(scenarios), SETUP)
        self.scenarios = list(scenarios)
        contents, widths, periods = [], [], []
        for u, scenario in enumerate(scenarios):
            if scenario.estimator.filter == LINEAR or scenario.parts:
                raise InputError(f"{scenario.path}: worlds fly on our error-state filter, no parts")
            one = Vehicles(scenario, [f"unit{u}"], 0.0, 1.0)
            records = (one.states, *one.devices.values())
            if u == 0:
                self.devices, self.samples, self.linear = one.devices, one.samples, one.linear
                counts = (1, *(devices.shape[1] for devices in one.devices.values()))
                self.places = tuple(
                    word_places(each.dtype, count, scenario.estimator.second.any)
                    for each, count in zip(records, counts, strict=True)
                )
            if any(
                devices.shape[1] != count
                for devices, count in zip(one.devices.values(), counts[1:], strict=True)
            ):
                raise InputError(f"{scenario.path}: it carries other sensors than the first one")
            contents.append(
                [words_in(each)[0, of] for each, of in zip(records, self.places, strict=True)]
            )
            self.setups[u] = one.setups[0]
            sources = [vehicles[0] for vehicles in one.noise.sources]
            periods.append([min((of.period_ns for of in each), default=0) for each in sources])
            widths.append([each[0].width if each else 0 for each in sources])
        self.content = tuple(np.array(part) for part in zip(*contents, strict=True))
        self.setups["log_period_ns"] = 0
        self.periods_ns: NDArray[np.int64] = np.array(periods, np.int64)
        self.widths = np.max(widths, axis=0)


class Worlds:
    """N worlds of one scene that know nothing of each other.

    Args:
        units: on which they begin.
        count: of worlds.
        size: vehicles in each; those of a world feel each other.
        action: one of :data:`ACTIONS`.
        period_ns: of a step, a multiple of the IMU's.
        on_truth: control flies on the truth; the filter runs too.
        rays: distances around that are looked at.
        reach_m: of them.
        threads: that share the worlds; 0: as many as there are processors.

    Attributes:
        seen: (N,) SEEN of all vehicles, world by world.
        rays: (N, rays) distances around, m.
        seeds: (N,) of the vehicles' randomness.

    Raises:
        InputError: an argument is out of range.
    """

    def __init__(
        self,
        units: Units,
        count: int,
        size: int,
        action: str,
        period_ns: int,
        on_truth: bool,
        rays: int = 0,
        reach_m: float = 10.0,
        threads: int = 0,
    ) -> None:
        processors = len(os.sched_getaffinity(0))
        for name, value, low, high in (
            ("num_envs", count, 1, 10**6),
            ("vehicles", size, 1, 1000),
            ("threads", threads, 0, processors),
        ):
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise InputError(f"{name}: {value!r}; allowed: {low} to {high} here")
        if action not in ACTIONS:
            raise InputError(f"action: {action!r}; allowed: {', '.join(ACTIONS)}")
        imu_ns = int(units.setups["imu_period_ns"][0])
        if period_ns <= 0 or period_ns % imu_ns or period_ns > 1_000_000_000:
            raise InputError(
                f"period_s: {period_ns * 1e-9:g}; allowed: a multiple of the IMU's"
                f" {imu_ns * 1e-9:g} s, at most 1 s"
            )
        total = count * size
        self._units, self.count, self.size = units, count, size
        self._kind, self._period_ns, self.reach_m = ACTIONS.index(action), period_ns, reach_m
        if self._kind <= THRUSTS:
            units.setups["outside"] = MOTORS_OUTSIDE
        self.states = sparse_zeros(total, STATE)
        devices, samples = (
            tuple(np.zeros((total, each.shape[1], *of), each.dtype) for each in kinds.values())
            for kinds, of in ((units.devices, ()), (units.samples, (0,)))
        )
        self._content = tuple(words_in(each) for each in (self.states, *devices))
        every_ns = units.periods_ns
        rows = period_ns // np.where(every_ns > 0, every_ns, 10**12).min(axis=0) + 2
        counts = [*(each.shape[1] for each in devices), 1]
        self._noise = tuple(
            np.zeros((total, m, n, width))
            for m, n, width in zip(counts, rows, units.widths, strict=True)
        )
        self.setups: NDArray[np.record] = np.zeros(total, SETUP)
        self._flight = LoopArrays(
            self.states, self.setups, units.scenarios[0].scene,
            np.full(total, int(on_truth), np.int64), devices, self._noise[:WIND],
            self._noise[WIND][:, 0], tuple(np.zeros((total, m), np.int64) for m in counts),
            np.zeros((total, 0), LOG_ROW), samples, units.linear, np.zeros(total, WORKSPACE),
        )  # fmt: skip
        self._words = tuple(np.zeros((total, m, 4), np.uint64) for m in (*counts, 1))
        self._every_ns = np.zeros((total, len(counts)), np.int64)
        self.seen: NDArray[np.record] = np.zeros(total, SEEN)
        self.rays = np.zeros((total, rays))
        self.seeds, self._episodes = np.zeros(total, np.int64), np.zeros(total, np.int64)
        self._whose = np.zeros(total, np.int64)
        self._numbers = np.zeros((total, DRAWN + KNOWN_WHITE))
        self._motions: NDArray[np.record] = np.zeros(total, KINEMATICS)
        self._threads = (threads or processors) if count >= SHARED_FROM else 1
        self._actions: Array = np.zeros((0, 0))
        self._active: NDArray[np.bool_] = np.zeros(count, bool)
        self._crew: Crew | None = None

    def _launch(self, name: str, given: Any, which: Any) -> None:
        """Run the kernel of ``draw`` or ``begin`` for some vehicles, or of ``step`` for worlds.

        Of ``step`` these are the same arrays each time.
        """
        if name != "step":
            (draw_beginnings if name == "draw" else begin_worlds)(given, which)
            return
        if self._crew is None:
            self._crew = Crew(self._threads, partial(step_worlds, given, which))
        parts = -(-self.count // SHARE)
        self._crew.do(parts, 0, parts - 1, large=True)

    def draw(self, which: NDArray[np.int64]) -> Array:
        """Go over to the next episode of vehicles; its first normal numbers, (M, DRAWN)."""
        self._episodes[which] += 1
        self._launch("draw", (self._words, self.seeds, self._episodes, self._numbers), which)
        return self._numbers[which, :DRAWN]

    def restart(self, which: NDArray[np.int64], seeds: NDArray[np.int64]) -> None:
        """Let vehicles have other seeds, and their first episode before them."""
        self.seeds[which], self._episodes[which] = seeds, 0

    def begin(
        self,
        which: NDArray[np.int64],
        shares: Array,
        motions: NDArray[np.record],
        deviations: tuple[float, float, float, float],
        told: bool = True,
    ) -> None:
        """Begin vehicles anew, after :meth:`draw`.

        Args:
            which: (M,) vehicles.
            shares: (M,) in [0, 1), by which each finds its unit.
            motions: (M,) KINEMATICS: pose, velocities and rotor speeds.
            deviations: of the estimate about them: m, m/s, rad of tilt and heading.
            told: whether the filter begins there; else it aligns.
        """
        units = self._units
        self._whose[which] = (shares * len(units.setups)).astype(np.int64)
        self._every_ns[which] = units.periods_ns[self._whose[which]]
        self._motions[which] = motions
        given = (
            self._flight, self._content, units.places, units.content, units.setups, self._whose,
            self._motions, deviations, self._numbers, told, self.seen, self.rays, self.reach_m,
        )  # fmt: skip
        self._launch("begin", given, which)

    def step(self, actions: Array, active: NDArray[np.bool_]) -> None:
        """Advance worlds by one step.

        Args:
            actions: (N, 4 or rotors) in their units.
            active: (worlds,) which.
        """
        if self._actions.shape != actions.shape:
            self._actions, self._crew = np.zeros(actions.shape), None
        self._actions[:], self._active[:] = actions, active
        given = (
            self._flight, self._noise, self._words, self._every_ns, self._kind, self._actions,
            self.seen, self.rays, self.reach_m, self._period_ns, self.size,
        )  # fmt: skip
        self._launch("step", given, self._active)

    def fault(self, i: int) -> str:
        """Why the motion of vehicle ``i`` cannot go on, or how it crashed; empty: neither."""
        seen, scenario = self.seen[i], self._units.scenarios[int(self._whose[i])]
        if seen["fault"]:
            vehicle: Any = self.states[i]["vehicle"]
            return fault_words(vehicle, scenario.vehicle, scenario.file.physics, "")
        return CRASHES[int(seen["crash"])]

    def close(self) -> None:
        """End the threads."""
        self._crew = None
