"""Own parts in the closed loop: when they are called, and what happens when one fails.

Controller, estimator and sensors are called with each sample of the IMU, planner and wind with each
tick of the mission. Our filter runs next to an own estimator, our loops are ready next to an own
controller: a part that raises is named, ours take over, and the vehicle lands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Array
from quadsim.base.errors import InputError
from quadsim.base.noise import stream
from quadsim.base.parts import PART_FAILED, Part, PartError, given_words, part_of
from quadsim.control.inner_loop import inner_loop_from_python
from quadsim.estimation.eskf.input_validation import offer
from quadsim.estimation.eskf.layout import EXTERNAL_POSITION, GNSS_POSITION, GNSS_VELOCITY
from quadsim.estimation.own import OwnEstimator
from quadsim.geometry.rotation import from_euler
from quadsim.sensors import SECOND, SENSORS
from quadsim.sensors.error_terms import due
from quadsim.sensors.model import Readings
from quadsim.sim.flight_view import Attitude, FlightView, Rates, ViewedLoop
from quadsim.sim.log import ERROR, Event
from quadsim.sim.loop import MOTORS_OUTSIDE, NOTHING_OUTSIDE
from quadsim.sim.vehicles import Vehicles
from quadsim.vehicle.state import ROTOR

#: What an own sensor can measure for our filter, and the kind of the filter's messages.
MEASURES = {
    "position": EXTERNAL_POSITION,
    "gnss_position": GNSS_POSITION,
    "gnss_velocity": GNSS_VELOCITY,
}
#: States of the autopilot in which a planner is asked.
PLANNED = ("mission", "velocity")


class LoopWithParts(ViewedLoop, Protocol):
    """What own parts need of a closed loop."""

    vehicle: str
    devices: dict[str, NDArray[np.record]]
    flies_on: str
    held: bool


class LoopView(FlightView):
    """What an own part is handed as ``now``."""

    def __init__(self, loop: LoopWithParts) -> None:
        self._loop, self.scenario = loop, loop.scenario


class OwnSensor:
    """An own sensor: a class with ``rate_hz`` and ``sample(now)``.

    Args:
        part: which.
        made: the part.
    """

    def __init__(self, part: Part, made: Any) -> None:
        self.part, self._made = part, made
        self.name = str(getattr(made, "name", type(made).__name__.lower()))
        if self.name in SENSORS:
            raise InputError(f"{part}: is called {self.name}, as a sensor of ours; set name")
        rate_hz = float(getattr(made, "rate_hz", 0.0))
        if not 0.0 < rate_hz <= 1e4:
            raise InputError(f"{part}: rate_hz = {rate_hz:g}; allowed: 0 to 10000")
        self.period_ns = round(1e9 / rate_hz)
        measures = str(getattr(made, "measures", ""))
        if measures not in ("", *MEASURES):
            raise InputError(f"{part}: measures = {measures!r}; allowed: {', '.join(MEASURES)}")
        self.kind = MEASURES.get(measures, -1)
        sigma = np.broadcast_to(np.asarray(getattr(made, "sigma", 0.0), float), 3)
        width = 6 if self.kind == EXTERNAL_POSITION else 3
        self.covariance = np.diag(np.append(sigma * sigma, [0.0] * (width - 3))).ravel()
        self._rows: Any = None
        self._count = 0

    def sample(self, now: FlightView, stamp_ns: int) -> Array | None:
        """Its values; None where it has none."""
        values = self._made.sample(now)
        if values is None:
            return None
        found = np.atleast_1d(np.asarray(values, float))
        if self._rows is None:
            dtype = [("stamp_ns", np.int64), ("values", float, found.shape)]
            self._rows = np.zeros(1000, dtype)
        wanted = (3,) if self.kind >= 0 else self._rows["values"].shape[1:]
        if found.shape != wanted or found.ndim != 1:
            raise ValueError(
                f"sample() gave {given_words(values)}; needed: {wanted[0]} numbers, each time"
            )
        if self._count == len(self._rows):
            self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)])
        row = self._rows[self._count]
        row["stamp_ns"], row["values"] = stamp_ns, found
        self._count += 1
        return found

    def readings(self) -> NDArray[np.record]:
        """(N,) records ``stamp_ns`` and ``values`` of all samples so far."""
        rows = np.zeros(0, [("stamp_ns", np.int64)]) if self._rows is None else self._rows
        return cast("NDArray[np.record]", rows[: self._count].view(np.recarray))


class OwnParts:
    """The own parts of one vehicle.

    Args:
        loop: its flight.
        vehicles: among which it flies.
        index: which of them it is.

    Attributes:
        readings: name of an own sensor to what it has given.
        error: why a part failed; None while none has.
    """

    def __init__(self, loop: LoopWithParts, vehicles: Vehicles, index: int) -> None:
        self._loop, self._index, self._vehicles = loop, index, vehicles
        self._now = LoopView(loop)
        self.error: PartError | None = None
        parts = loop.scenario.parts
        self._parts = {part.kind: part for part in parts}
        controller = part_of(parts, "controller")
        if controller is not None and loop.scenario.vehicle.kind != "multirotor":
            raise InputError(f"{controller}: flies multirotors; the vehicle is a helicopter")
        self._controller = self._made(controller)
        self._planner = self._made(part_of(parts, "planner"))
        # one wind blows in the world of all vehicles
        self._wind: Any = self._made(part_of(parts, "wind")) if index == 0 else None
        self._sensors = [
            OwnSensor(part, self._made(part)) for part in parts if part.kind == "sensor"
        ]
        self.readings = {sensor.name: sensor.readings for sensor in self._sensors}
        estimator = part_of(parts, "estimator")
        self._estimator: OwnEstimator | None = None
        if estimator is not None:
            offered = self._offered(estimator)
            self._estimator = OwnEstimator(estimator, loop.scenario.estimator, offered=offered)
            loop.flies_on = estimator.name
        if self._controller or self._estimator or self._sensors:
            self._prepare()
            vehicles.outside.append((self._step, lambda now_ns: None))

    def _offered(self, part: Part) -> dict[str, object]:
        """What the constructor of a part may name."""
        scenario = self._loop.scenario
        return {
            "vehicle": scenario.airframe,
            "scenario": scenario,
            "rng": stream(scenario.file.seed, self._loop.vehicle, part.name),
        }

    def _made(self, part: Part | None) -> Any:
        return None if part is None else part.make(**self._offered(part))

    def _prepare(self) -> None:
        """Find what a step looks at: views, as finding a field of a record takes microseconds."""
        own = slice(self._index, self._index + 1)
        states, setups = self._vehicles.states[own], self._vehicles.setups[own]
        self._lines, self._inner = states["line"][0], states["inner"]
        self._measured = states["inner"]["measured"][0]
        self._rotors_x = states["vehicle"]["x"][0, ROTOR : ROTOR + self._measured.size]
        self._odometry, self._estimate = states["odometry"], states["estimate"]
        self._command, self._controlled = states["command"], states["controlled_ns"]
        self._params, self._airframe = setups["autopilot"], setups["airframe"]
        self._mode = states["setpoint"]["mode"]
        self._motors = states["pending"][0, int(setups["delay"][0])]
        self._log_count, self._log = states["log_count"], self._vehicles.logs[self._index]
        self._readings = [
            (
                Readings(SENSORS[kind], samples, slot["stated"]),
                slots["count"][d : d + 1],
                SECOND * d,
            )
            for kind, slots in self._loop.devices.items()
            for d, (slot, samples) in enumerate(
                zip(slots, self._vehicles.samples[kind][self._index], strict=True)
            )
        ]
        self._taken = [0] * len(self._readings)
        self._imu_count, self._imu_samples = self._loop.devices["imu"]["count"], 0
        self._period_ns = int(setups["imu_period_ns"][0])
        self._outside = setups["outside"]
        if self._controller or self._estimator:
            self._outside[0] = MOTORS_OUTSIDE
        airframe = self._loop.scenario.airframe
        self._rotors = len(airframe.commands)
        self._speeds, self._thrust = self._motors[: self._rotors], self._command["thrust"]
        self._lift = airframe.thrust_coefficient_N_s2 / airframe.mass_kg

    # ---- with each tick of the mission ---------------------------------------------------------

    def tick(self, stamp_ns: int) -> None:
        """Let the wind blow as it is asked to, and the planner lead the mission."""
        if self._wind is not None:
            self._guard("wind", stamp_ns, self._blow)
        if self._planner is not None and self._loop.manager.state in PLANNED:
            self._guard("planner", stamp_ns, self._plan)

    def _blow(self, stamp_ns: int) -> None:
        p_W = self._loop.state["truth"][0]["p_W"].copy()
        v_W = _numbers(self._wind.velocity(stamp_ns * 1e-9, p_W), (3,), "velocity()")
        self._vehicles.setups["environment"]["wind_W_mps"][:, 0] = v_W

    def _plan(self, stamp_ns: int) -> None:
        manager = self._loop.manager
        planned = self._planner.plan(self._now)
        if planned is None:
            if manager.state == "velocity":
                manager.start()  # the rest of the mission
            return
        x, y, z, *yaw_rate = np.ravel(np.asarray(planned, float)).tolist()
        manager.command_velocity((x, y, z), yaw_rate[0] if yaw_rate else 0.0)

    # ---- with each sample of the IMU -----------------------------------------------------------

    def _step(self, now_ns: int) -> None:
        """Sense, estimate and control at a stamp of the IMU."""
        for sensor in self._sensors:
            if due(sensor.period_ns, now_ns - self._period_ns, now_ns):
                self._guard("sensor", now_ns, self._sense, sensor)
        samples = self._imu_count.item(0)
        arrived = samples != self._imu_samples or self._loop.use_truth
        self._imu_samples = samples
        if self._estimator is not None:
            self._guard("estimator", now_ns, self._run_estimator)
        if arrived and self._controller is not None:
            self._guard("controller", now_ns, self._control)
        elif arrived and self._estimator is not None:
            self._inner_loop(now_ns)
        self._log_row(now_ns)

    def _sense(self, now_ns: int, sensor: OwnSensor) -> None:
        values = sensor.sample(self._now, now_ns)
        if values is None:
            return
        if self._estimator is not None:
            self._estimator.take(sensor.name, now_ns, (values,))
        if sensor.kind >= 0:
            offer(self._lines, sensor.kind, now_ns, values, sensor.covariance)

    def _run_estimator(self, now_ns: int) -> None:
        """Hand over what has arrived, and write what is known now."""
        estimator = cast(OwnEstimator, self._estimator)
        for k, (readings, counts, second) in enumerate(self._readings):
            count, before = counts.item(), self._taken[k]
            if count != before:
                self._taken[k] = count
                for i in range(before if before < count else 0, count):
                    for kind, stamp_ns, values in readings.at(i):
                        estimator.take(kind + second, stamp_ns, values)
        estimator.read()
        flown = self._estimate if self._loop.use_truth else self._odometry
        if estimator.running:
            flown[:] = estimator.odometries
        else:
            flown["stamp_ns"] = 0

    def _control(self, now_ns: int) -> None:
        """Let the controller's command take effect where the inner loop's would."""
        found = self._controller.update(self._now)
        if found is None or isinstance(found, Rates | Attitude):
            self._take_command(found)
            self._inner_loop(now_ns)
            return
        speeds = np.asarray(found, float)
        squares = float(speeds @ speeds) if speeds.shape == (self._rotors,) else math.nan
        if not math.isfinite(squares):
            raise ValueError(
                f"update() gave {given_words(found)}; {self._rotors} finite rotor speeds in rad/s"
                " are needed"
            )
        if self._mode.item() == 0:  # disarmed: the motors stand
            self._speeds[:] = squares = 0.0
        else:
            np.maximum(speeds, 0.0, out=self._speeds)
        self._thrust[0] = self._lift * squares  # by which the mission feels the ground

    def _take_command(self, found: Rates | Attitude | None) -> None:
        """Let our inner loop obey a controller; without a command of its own, position control."""
        command = self._command
        command["by_rates"] = 0
        if found is None or self._mode.item() == 0:  # disarmed: it is told to stop
            return
        numbers = np.hstack(found)
        if numbers.shape != (4,) or not np.isfinite(numbers).all():
            raise ValueError(f"update() gave {given_words(found)}; 4 finite numbers are needed")
        command["stamp_ns"] = max(self._odometry["stamp_ns"].item(), 1)
        command["thrust"] = numbers[3]
        if isinstance(found, Rates):
            command["by_rates"], command["w_B"] = 1, numbers[:3]
            command["q_WB"] = (1.0, 0.0, 0.0, 0.0)
        else:
            command["q_WB"] = from_euler(found.roll, found.pitch, 0.0)
            command["yaw_rate"] = found.yaw_rate

    def _inner_loop(self, now_ns: int) -> None:
        """Our inner loop on the estimate, as the loop's kernel runs it on ours."""
        odometry_ns, command_ns = (
            self._odometry["stamp_ns"].item(),
            self._command["stamp_ns"].item(),
        )
        known = odometry_ns > 0
        now_ns = odometry_ns if known else now_ns
        self._measured[:] = self._rotors_x
        inner_loop_from_python(
            self._inner,
            self._params,
            self._airframe,
            self._odometry,
            0.0 if known else np.inf,
            self._command,
            (now_ns - command_ns) * 1e-9 if command_ns > 0 else np.inf,
            (now_ns - self._controlled.item()) * 1e-9,
            self._motors,
        )
        self._controlled[0] = now_ns

    def _log_row(self, now_ns: int) -> None:
        """Write estimate and command of this stamp into its row of the log, if it has one."""
        count = self._log_count.item()
        if not count or self._log["stamp_ns"].item(count - 1) != now_ns:
            return
        row = self._log[count - 1]
        if self._estimator is not None:
            row["estimated"] = int(self._estimator.running)
            row["estimate"] = self._estimator.odometry()
        row["rotor_command_radps"] = self._motors

    # ---- when a part fails ---------------------------------------------------------------------

    def _guard(self, kind: str, now_ns: int, call: Callable[..., None], *more: Any) -> None:
        """Call a part; if it raises, name it, let ours take over, and land."""
        try:
            call(now_ns, *more)
        except Exception as error:
            part = more[0].part if more else self._parts[kind]
            if not isinstance(error, PartError):
                error = part.failed(error, now_ns * 1e-9)
            self.error = error
            self._take_over(str(error), now_ns)

    def _take_over(self, message: str, now_ns: int) -> None:
        """Fly on without own parts, and land."""
        loop = self._loop
        self._controller = self._planner = self._wind = self._estimator = None
        self._sensors = []
        if hasattr(self, "_outside"):
            self._outside[0] = NOTHING_OUTSIDE
        loop.events.append(Event(now_ns, ERROR, PART_FAILED, message))
        loop.held = True
        loop.manager.source_changed()
        if loop.manager.land() is not None:
            loop.manager.disarm()


def _numbers(found: object, shape: Sequence[int], what: str) -> Array:
    """Finite numbers that a part gave."""
    values = np.asarray(found, float)
    if values.shape != tuple(shape) or not np.isfinite(values).all():
        raise ValueError(f"{what} gave {given_words(found)}; needed: {shape[0]} finite numbers")
    return values
