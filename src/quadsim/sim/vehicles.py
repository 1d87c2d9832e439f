"""The vehicles that fly in one world, as :func:`quadsim.sim.loop.ticks` takes them.

The normal numbers of a flight, drawn in blocks: a call to a generator costs more than a row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quadsim.base.noise import stream
from quadsim.base.normals import Words, draw_normals, fill_normals, words_of
from quadsim.base.parameters import dtype_of, pack
from quadsim.base.records import KINEMATICS
from quadsim.control.airframe import pack_airframe
from quadsim.control.inner_loop import new_inner_loop
from quadsim.control.position import new_position_control
from quadsim.estimation.eskf.alignment import KNOWN_WHITE
from quadsim.estimation.eskf.measurement_buffer import TIMELINE, new_timeline
from quadsim.estimation.eskf.parameters import LINEAR
from quadsim.sensors import SECOND, SENSORS
from quadsim.sensors.error_terms import SensorParams
from quadsim.sensors.model import SensorModel, period_ns, start_slot
from quadsim.sim.beginning import begin_estimate, begin_motion, begin_on_truth
from quadsim.sim.loop import LOG_ROW, SETUP, STATE, LoopArrays, ticks
from quadsim.sim.scenario import Scenario
from quadsim.sim.start import ALIGNED
from quadsim.vehicle.disturbances import pack_disturbances
from quadsim.vehicle.start import look_anew, stand
from quadsim.vehicle.state import WORKSPACE, P
from quadsim.world.air.wind import white_width
from quadsim.world.scene.scene import Scene

#: What is drawn at once.
BLOCK_NS = 1_000_000_000


class NoiseSource(NamedTuple):
    """One device of one vehicle: its stream, a row for each period, numbers in a row."""

    generator: np.random.Generator
    period_ns: int
    width: int


class Kept(NamedTuple):
    """Noise as it was at a stamp."""

    words: list[Words]
    white: Sequence[NDArray[np.float64]]
    used: Sequence[NDArray[np.int64]]
    drawn_ns: int


class WhiteNoise:
    """Standard normal numbers of N vehicles: of each stream row for row, as a node draws them.

    Args:
        kinds: of each kind the M devices of each vehicle; all vehicles have the same.

    Attributes:
        sources: those that were given.
        white: (N, M, rows, width) for each kind, refilled in place.
        used: (N, M) rows for each kind that are used up; who uses them counts here.
    """

    def __init__(self, kinds: Sequence[Sequence[Sequence[NoiseSource]]]) -> None:
        self.white: tuple[NDArray[np.float64], ...] = ()
        self.used: tuple[NDArray[np.int64], ...] = ()
        self.sources = kinds
        self._drawn_ns = 0
        self._sources: list[tuple[NoiseSource, Words, NDArray[np.float64], NDArray[np.int64]]] = []
        for vehicles in kinds:
            every_ns = min((of.period_ns for of in vehicles[0]), default=BLOCK_NS)
            width = vehicles[0][0].width if vehicles[0] else 0
            shape = len(vehicles), len(vehicles[0])
            white = np.zeros((*shape, BLOCK_NS // every_ns + 2, width))
            used = np.zeros(shape, np.int64)
            self.white, self.used = (*self.white, white), (*self.used, used)
            self._sources += [
                (source, words_of(source.generator), white[i, d], used[i, d : d + 1])
                for i, sources in enumerate(vehicles)
                for d, source in enumerate(sources)
                if width
            ]

    def draw(self, stamp_ns: int, until_ns: int) -> None:
        """See that there is a row for each sample up to a stamp.

        Args:
            stamp_ns: up to which the rows are used up.
            until_ns: at most BLOCK_NS later.
        """
        if until_ns <= self._drawn_ns:
            return
        drawn_ns = stamp_ns + BLOCK_NS
        for (_, every_ns, _), words, white, used in self._sources:
            left = self._drawn_ns // every_ns - stamp_ns // every_ns
            rows = drawn_ns // every_ns - stamp_ns // every_ns
            white[:left] = white[used.item() :][:left].copy()
            fill_normals(words, white[left:rows].reshape(-1))
        for of_kind in self.used:
            of_kind[:] = 0
        self._drawn_ns = drawn_ns

    def keep(self) -> Kept:
        """What :meth:`restore` goes back to."""
        words = [words.copy() for _, words, _, _ in self._sources]
        white, used = [one.copy() for one in self.white], [one.copy() for one in self.used]
        return Kept(words, white, used, self._drawn_ns)

    def restore(self, saved: Kept) -> None:
        """Go on from where it was saved."""
        for (_, words, _, _), before in zip(self._sources, saved.words, strict=True):
            words[:] = before
        for array, rows in zip((*self.white, *self.used), (*saved.white, *saved.used), strict=True):
            array[:] = rows
        self._drawn_ns = saved.drawn_ns


#: What is stored of every flight, apart from the log's rows.
KEPT = ("imu", "gnss", "rangefinder")


def make_setups(scenario: Scenario, count: int = 1) -> NDArray[np.record]:
    """The (count,) SETUP records of a scenario's vehicles."""
    setups: NDArray[np.record] = np.zeros(count, SETUP)
    setup = setups[0]
    setup.delay = scenario.file.physics.command_delay_samples
    setup.landed_by_contact = int(scenario.file.landed == "contact")
    setup["physics"] = pack(scenario.file.physics)
    setup["vehicle"] = pack(scenario.vehicle)
    setup["environment"][0] = pack(scenario.environment)
    setup["autopilot"] = pack(scenario.autopilot)
    setup["airframe"] = pack_airframe(scenario.airframe)
    setup.imu_period_ns = period_ns(scenario.imu)
    setups[1:] = setups[0]
    for i in range(count):
        setups[i]["disturbances"] = pack_disturbances(scenario.disturbances, i + 1)
    return setups


class Vehicles:
    """The vehicles of one world: how each is, what it remembers, and what is stored of its flight.

    Args:
        scenario: what flies.
        names: of the vehicles, of which their noise depends; they stand where the scenario's
            start puts so many.
        seconds: how long there is room for.
        log_hz: rows of the log a second, at most the IMU's rate.
        keep_samples: keep what every sensor publishes, not that of :data:`KEPT` alone.

    Attributes:
        states: (N,) STATE records.
        setups: (N,) SETUP records.
        missions: what each flies.
        offsets_W_m: by how much the places of its mission are moved for each.
        use_truth: (N,) 1 flies on the truth.
        logs: (N, rows) LOG_ROW records.
        devices: by kind, (N, M) slots of the M devices that each has.
        samples: by kind, (N, M, rows) records.
        linear: (N,) TIMELINE of the linear filter, where it is flown on; else (0,).
        noise: what their devices draw.
        outside: pairs of functions of who flies a vehicle from outside, called with each stamp of
            the IMU, after its samples: first all that send, then all that wait for an answer and
            write the next motor command into ``pending``.
    """

    def __init__(
        self,
        scenario: Scenario,
        names: Sequence[str],
        seconds: float,
        log_hz: float,
        keep_samples: bool = False,
    ) -> None:
        self.scenario = scenario
        count = len(names)
        keep_samples = keep_samples or bool(scenario.parts)  # they are handed what was published
        self.missions = scenario.missions(count)
        self.offsets_W_m = scenario.offsets_W_m(count)
        self.setups = make_setups(scenario, count)
        self.setups["log_period_ns"] = round(1e9 / log_hz)
        self.logs: NDArray[np.record] = np.zeros((count, int(seconds * log_hz) + 2), LOG_ROW)
        self.devices: dict[str, NDArray[np.record]] = {}
        self.samples: dict[str, NDArray[np.record]] = {}
        for kind, model in SENSORS.items():
            carried = self._carried(model)
            keeps = carried and (kind in KEPT or keep_samples)
            room = math.ceil(seconds * max(each.rate_hz for each in carried)) + 2 if keeps else 0
            self.devices[kind] = np.zeros((count, len(carried)), dtype_of(model.slot))
            self.samples[kind] = np.zeros((count, len(carried), room), model.sample)
        self.states: NDArray[np.record] = np.zeros(count, STATE)
        self._work: NDArray[np.record] = np.zeros(1, WORKSPACE)
        filters = count if scenario.estimator.filter == LINEAR else 0
        self.linear: NDArray[np.record] = np.zeros(filters, TIMELINE)
        self.use_truth = np.zeros(count, np.int64)
        poses = scenario.file.start.poses(count)
        sources = [self._start(i, names[i], poses[i]) for i in range(count)]
        self.noise = WhiteNoise([*zip(*sources, strict=True)])
        if not scenario.file.start.is_plain:
            for i, name in enumerate(names):
                self._begin(i, name)
        self.outside: list[tuple[Callable[[int], None], Callable[[int], None]]] = []
        self._until_ns = np.zeros(2, np.int64)
        self._flight = LoopArrays(
            self.states, self.setups, scenario.scene, self.use_truth,
            tuple(self.devices.values()), self.noise.white[:-1], self.noise.white[-1][:, 0],
            self.noise.used, self.logs, tuple(self.samples.values()), self.linear, self._work,
        )  # fmt: skip
        self._ticks = ticks(self._flight, self._until_ns)

    def keep(self) -> tuple[list[NDArray[Any]], Kept]:
        """What :meth:`restore` goes back to: all but the logs."""
        return [array.copy() for array in self._changing()], self.noise.keep()

    def restore(self, saved: tuple[list[NDArray[Any]], Kept]) -> None:
        """Go on from where all was saved."""
        for array, before in zip(self._changing(), saved[0], strict=True):
            array[:] = before
        self.noise.restore(saved[1])

    def _changing(self) -> tuple[NDArray[Any], ...]:
        return (self.states, *self.devices.values())

    @property
    def scene(self) -> Scene:
        """What all fly in."""
        return self._flight.scene

    def see(self, scene: Scene) -> None:
        """Let all fly in this scene from now on: something in it has come, gone or moved."""
        self._flight = self._flight._replace(scene=scene)
        self._ticks = ticks(self._flight, self._until_ns)
        look_anew(self.states["vehicle"])

    def _carried(self, model: SensorModel) -> list[SensorParams]:
        """Devices of a kind on each vehicle that somebody has a use for."""
        names = (model.name, model.name + SECOND) if self._uses(model) else ()
        sensors = self.scenario.sensors
        return [sensors[name] for name in names if name in sensors]

    def _uses(self, model: SensorModel) -> bool:
        return model.only_for in ("", self.scenario.estimator.filter)

    def _start(
        self, i: int, name: str, pose: tuple[float, float, float]
    ) -> list[list[NoiseSource]]:
        """One on the ground, every device switched on, the filter empty.

        Returns:
            Where the noise of each kind comes from, in the order of ``white`` of
            :class:`~quadsim.sim.loop.LoopArrays`.
        """
        scenario, state, setup = self.scenario, self.states[i], self.setups[i]
        seed, world = scenario.file.seed, (scenario.environment, scenario.scene)
        physics, charge = scenario.file.physics, scenario.file.start.charge
        q_WB = stand(state.vehicle, scenario.vehicle, *world, physics, pose, charge)
        state["truth"][0]["p_W"] = state.vehicle.x[P : P + 3]
        state["truth"][0]["q_WB"] = q_WB
        sources = [
            [
                self._switch_on(i, d, name, model, self.devices[kind][i, d : d + 1], params)
                for d, params in enumerate(self._carried(model))
            ]
            for kind, model in SENSORS.items()
        ]
        width = white_width(scenario.environment.wind)
        sources.append([NoiseSource(stream(seed, name, "wind"), int(setup.imu_period_ns), width)])
        state["line"] = new_timeline(scenario.estimator)
        if len(self.linear):
            self.linear[i] = new_timeline(scenario.estimator)[0]
        state["inner"] = new_inner_loop()
        state["position"] = new_position_control(scenario.autopilot, setup.airframe)
        return sources

    def _begin(self, i: int, name: str) -> None:
        """Put one that stands into the motion of the start, and tell its filter so."""
        scenario, one = self.scenario, slice(i, i + 1)
        start, environment, scene = scenario.file.start, scenario.environment, scenario.scene
        count = len(self.states)
        if not start.is_standing:
            motion = np.zeros(count, KINEMATICS)
            motion[one] = start.motion(i, count, scenario.vehicle, environment, scene)
            devices = tuple(self.devices.values())
            begin_motion(self.states, self.setups, devices, i, scene, motion, self._work)
        if start.estimate != ALIGNED:
            generator = stream(scenario.file.seed, name, "start")
            white = draw_normals(generator, KNOWN_WHITE)
            begin_estimate(self.states[one], start.deviations, white)
        elif start.is_airborne:
            begin_on_truth(self.states[one])

    def _switch_on(
        self,
        i: int,
        d: int,
        name: str,
        model: SensorModel,
        slots: NDArray[np.record],
        params: SensorParams,
    ) -> NoiseSource:
        """Switch a device of a vehicle on; where its noise comes from."""
        device = model.name + SECOND * d
        generator = stream(self.scenario.file.seed, name, device)
        faults = self.scenario.faults.get(device, ())
        start_slot(slots, model, params, generator, faults)
        slots["stated"] = model.stated_covariance(params, self.scenario.environment)
        slots["previous"] = self.states[i]["truth"]
        return NoiseSource(generator, period_ns(params), model.white_width)

    def advance(self, stamp_ns: int, until_ns: int, tick_ns: int | None = None) -> None:
        """Fly all from where they are, at ``stamp_ns``, to a stamp: at most a second later.

        Args:
            stamp_ns, until_ns: from where to where.
            tick_ns: length of the mission tick that begins now, 0: it has begun before; None: the
                tick is from the one stamp to the other.
        """
        self.noise.draw(stamp_ns, until_ns)
        self._until_ns[1] = until_ns - stamp_ns if tick_ns is None else tick_ns
        period_ns = int(self.setups[0].imu_period_ns) if self.outside else until_ns - stamp_ns
        for now_ns in range(stamp_ns + period_ns, until_ns + 1, period_ns or 1):
            self._until_ns[0] = now_ns
            next(self._ticks)
            self._until_ns[1] = 0
            for send, _ in self.outside:
                send(now_ns)
            for _, receive in self.outside:
                receive(now_ns)
