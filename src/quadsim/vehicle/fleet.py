"""All vehicles of a world, stepped together by one compiled call."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quadsim.base.compiled import Array, Records, template, threaded
from quadsim.base.errors import FlightError
from quadsim.base.noise import stream
from quadsim.base.normals import Words, fill_normals, words_of
from quadsim.base.parameters import pack
from quadsim.base.records import KINEMATICS, Kinematics
from quadsim.vehicle.contact.contact import CRASHES
from quadsim.vehicle.disturbances import (
    DISTURBANCES,
    Disturbance,
    DisturbanceTable,
    change_wind,
    pack_disturbances,
)
from quadsim.vehicle.faults import fault_words
from quadsim.vehicle.multirotor import (
    advance_vehicle,
    begin_period,
    find_surroundings,
    hold_air,
    meet_surroundings,
    write_kinematics,
)
from quadsim.vehicle.neighbours import interact
from quadsim.vehicle.parameters import VehicleParams
from quadsim.vehicle.physics import PhysicsParams
from quadsim.vehicle.start import look_anew, place, stand
from quadsim.vehicle.state import LOAD_P, ROTOR, VEHICLE, WORKSPACE, Vehicle, Workspace
from quadsim.world.air.wind import white_width
from quadsim.world.environment import EnvironmentParams
from quadsim.world.scene.scene import EMPTY_SCENE, Scene


@template
def move(
    vehicles: Records[Vehicle],
    params: VehicleParams,
    environment: EnvironmentParams,
    scene: Scene,
    physics: PhysicsParams,
    tables: Records[DisturbanceTable],
    start_ns: int,
    until_ns: int,
    white: Array,
    row: int,
    work: Workspace,
) -> None:
    """Physics of all vehicles of a world over one period of the wind.

    Args:
        vehicles: (N,) of them.
        params: of all.
        environment: the world; its mean wind changes by the disturbances.
        scene: terrain, obstacles and recorded wind.
        physics: how the motion is computed.
        tables: (N,) what befalls each.
        start_ns: time before the first step.
        until_ns: time after the last; the wind is linear in between.
        white: (N, rows, WIND_WHITE) standard normal numbers, unused in calm air.
        row: of them, for this time.
        work: working memory.
    """
    period_s = (until_ns - start_ns) * 1e-9
    change_wind(environment.wind_W_mps, tables[0], start_ns, until_ns)
    for i in range(vehicles.shape[0]):
        model = (vehicles[i], params, environment, physics, work)
        begin_period(model, scene, until_ns, period_s, white[i, row])
    # equal ones, none longer than the integrator's
    steps = -((start_ns - until_ns) // round(physics.step_s * 1e9))
    dt_s = period_s / steps
    for k in range(steps):
        if vehicles.shape[0] > 1:
            interact(vehicles, params, environment, physics)
        step_ns = start_ns + round(k * dt_s * 1e9)
        for i in range(vehicles.shape[0]):
            model = (vehicles[i], params, environment, physics, work)
            if advance_vehicle(model, tables[i], step_ns, dt_s, (k + 0.5) / steps):
                meet_surroundings(model, scene, dt_s)


@threaded
def fleet_advance(
    vehicles: Records[Vehicle],
    kinematics: Records[Kinematics],
    params: Records[VehicleParams],
    environments: Records[EnvironmentParams],
    scene: Scene,
    physics: Records[PhysicsParams],
    tables: Records[DisturbanceTable],
    start_ns: int,
    until_ns: int,
    period_ns: int,
    white: Array,
    work: Records[Workspace],
) -> None:
    """Advance every vehicle and write their motion at the end.

    Args:
        vehicles, scene, tables: as of :func:`move`.
        kinematics: (N,) records.
        params, environments, physics: arrays of one.
        start_ns: time before the first step.
        until_ns: time after the last.
        period_ns: the wind is computed at its ends and is linear in between.
        white: (N, periods, WIND_WHITE) standard normal numbers; the last row serves all periods
            that are left, as in calm air, which needs none.
        work: (1,) working memory.
    """
    begin_ns, row = start_ns, 0
    while begin_ns < until_ns:
        end_ns = min(begin_ns + period_ns, until_ns)
        move(
            vehicles, params[0], environments[0], scene, physics[0], tables, begin_ns, end_ns,
            white, min(row, white.shape[1] - 1), work[0],
        )  # fmt: skip
        begin_ns = end_ns
        row += 1
    for i in range(vehicles.shape[0]):
        model = (vehicles[i], params[0], environments[0], physics[0], work[0])
        find_surroundings(model, scene)
        hold_air(model, 1.0)
        write_kinematics(model, until_ns, kinematics[i])


class Fleet:
    """N vehicles of one kind in one world.

    Args:
        params: the vehicle.
        environment: the world.
        poses: x, y in m and yaw in rad of each vehicle on the ground.
        physics: how the motion is computed.
        scene: terrain and obstacles on the flat ground, and recorded wind.
        disturbances: what befalls the vehicles.
        names: of the vehicles, for their wind's randomness and for messages.
        seed: of the wind.
        period_ns: between two values of the wind; the time between two calls of `step_to`
            at most.
        charge: of each battery at the start, 0 to 1.
    """

    def __init__(
        self,
        params: VehicleParams,
        environment: EnvironmentParams,
        poses: Sequence[Sequence[float]] = ((0.0, 0.0, 0.0),),
        physics: PhysicsParams | None = None,
        scene: Scene = EMPTY_SCENE,
        disturbances: Sequence[Disturbance] = (),
        names: Sequence[str] = (),
        seed: int = 1,
        period_ns: int = 2_000_000,
        charge: float = 1.0,
    ) -> None:
        self.params = params
        self.environment = environment
        self.poses = [tuple(pose) for pose in poses]
        self.physics = physics or PhysicsParams()
        self.scene = scene
        self.count = len(self.poses)
        self.names = list(names) or [f"quad{i + 1}" for i in range(self.count)]
        self.rotor_count = len(params.commands)
        self._seed = seed
        self._period_ns = period_ns
        self._charge = charge
        self._params = self._array_of(params)
        self._environments = self._array_of(environment)
        self._physics = self._array_of(self.physics)
        self._vehicles: Any = np.zeros(self.count, VEHICLE)
        # views: finding a field of a record takes microseconds
        self._faults_ns, self._x = self._vehicles["fault_ns"], self._vehicles["x"]
        self._contacts, self._crashes = self._vehicles["contact"], self._vehicles["crash"]
        self._commands = self._vehicles["inputs"]["rotor_command_radps"]
        self._currents_A = self._vehicles["held"]["motor_current_A"]
        self._tables = np.zeros(self.count, DISTURBANCES)
        self.set_disturbances(disturbances)
        self._kinematics = np.zeros(self.count, KINEMATICS)
        self._calm = np.zeros((self.count, 1, 0))
        self._work: Any = np.zeros(1, WORKSPACE)
        self._white_width = white_width(environment.wind)
        self._words: list[Words] = []
        self.stamp_ns = 0
        self.reset()

    @staticmethod
    def _array_of(params: Any) -> NDArray[np.record]:
        """A packed parameter class as an array of one: records alone are slow to pass."""
        record = pack(params)
        array: NDArray[np.record] = np.zeros(1, record.dtype)
        array[0] = record
        return array

    def reset(self, stamp_ns: int = 0) -> None:
        """Every vehicle back to its start, at rest on the ground, in the wind of the start."""
        self.stamp_ns = stamp_ns
        self._environments = self._array_of(self.environment)
        self._words = [words_of(stream(self._seed, name, "wind")) for name in self.names]
        for vehicle, pose in zip(self._vehicles, self.poses, strict=True):
            world = (self.environment, self.scene, self.physics)
            stand(vehicle, self.params, *world, pose, self._charge)
        self._advance(stamp_ns)

    def _white(self, until_ns: int) -> Array:
        """Normal numbers of the wind up to a time; an empty row where it needs none."""
        periods = -(-(until_ns - self.stamp_ns) // self._period_ns)
        if self._white_width == 0 or periods == 0:
            return self._calm
        draws = np.empty((len(self._words), periods * self._white_width))
        for words, row in zip(self._words, draws, strict=True):
            fill_normals(words, row)
        return draws.reshape(len(draws), periods, -1)

    def _advance(self, until_ns: int) -> None:
        fleet_advance(
            self._vehicles,
            self._kinematics,
            self._params,
            self._environments,
            self.scene,
            self._physics,
            self._tables,
            self.stamp_ns,
            until_ns,
            self._period_ns,
            self._white(until_ns),
            self._work,
        )
        self.stamp_ns = until_ns

    def step_to(self, stamp_ns: int) -> None:
        """Advance to a time, in equal steps; a time that has passed changes nothing.

        Raises:
            FlightError: a vehicle's motion cannot go on: the first, with time, state and likely
                cause.
        """
        self._advance(max(self.stamp_ns, stamp_ns))
        if self._faults_ns.any():
            first = min(np.flatnonzero(self._faults_ns), key=self._faults_ns.__getitem__)
            who = self.names[first] if self.count > 1 else ""
            raise FlightError(fault_words(self._vehicles[first], self.params, self.physics, who))

    def truth(self, i: int) -> np.record:
        """KINEMATICS record of vehicle ``i`` now (a view: copy it to keep it)."""
        return cast(np.record, self._kinematics[i])

    def model(self, i: int) -> tuple[Any, ...]:
        """The ``model`` of :mod:`quadsim.vehicle.multirotor` for vehicle ``i``, as it is now."""
        params, environment, physics = self._params[0], self._environments[0], self._physics[0]
        return self._vehicles[i], params, environment, physics, self._work[0]

    def set_motion(
        self,
        i: int,
        p_W: ArrayLike,
        v_W: ArrayLike = (0.0, 0.0, 0.0),
        q_WB: ArrayLike = (1.0, 0.0, 0.0, 0.0),
        w_B: ArrayLike = (0.0, 0.0, 0.0),
        rotor_speeds_radps: ArrayLike = (),
    ) -> None:
        """Put vehicle ``i`` into a state of motion: m, m/s, unit quaternion, rad/s, rad/s."""
        place(self._vehicles[i], self.physics, p_W, v_W, q_WB, w_B)
        speeds = np.asarray(rotor_speeds_radps, dtype=float)
        self._vehicles[i].x[ROTOR : ROTOR + len(speeds)] = speeds
        self._advance(self.stamp_ns)

    def see(self, scene: Scene) -> None:
        """Fly in this scene from now on: something in it has come, gone or moved."""
        self.scene = scene
        look_anew(self._vehicles)

    def set_motor_command(self, i: int, speeds_radps: ArrayLike) -> None:
        """Rotor speeds asked of vehicle ``i`` in rad/s; NaN stops the rotor."""
        speeds = np.asarray(speeds_radps, dtype=float)[: self.rotor_count]
        if not math.isfinite(sum(speeds.tolist())):  # takes a tenth of what it guards
            speeds = np.nan_to_num(speeds, nan=0.0)
        self._commands[i, : self.rotor_count] = speeds

    def set_external_wrench(self, i: int, force_W_N: ArrayLike, torque_B_Nm: ArrayLike) -> None:
        """Push vehicle ``i`` with a force (world axes) and a torque (body axes) from now on."""
        self._vehicles[i].inputs.external_force_W_N[:] = force_W_N
        self._vehicles[i].inputs.external_torque_B_Nm[:] = torque_B_Nm

    def set_disturbances(self, disturbances: Sequence[Disturbance]) -> None:
        """What befalls the vehicles from now on; what has happened stays, pushes end."""
        for i in range(self.count):
            self._vehicles[i].held.push_W_N[:] = 0.0
            self._vehicles[i].held.push_B_Nm[:] = 0.0
            self._tables[i] = pack_disturbances(disturbances, i + 1)

    def set_wind(self, wind_W_mps: ArrayLike) -> None:
        """Mean wind of the world in m/s from now on."""
        self._environments[0].wind_W_mps[:] = wind_W_mps

    def motor_speeds(self, i: int) -> Array:
        """Rotor speeds of vehicle ``i``, (rotors,) rad/s."""
        return np.array(self._x[i, ROTOR : ROTOR + self.rotor_count])

    def motor_currents(self, i: int) -> Array:
        """Motor currents of vehicle ``i``, (rotors,) A."""
        return np.array(self._currents_A[i, : self.rotor_count])

    def contact(self, i: int) -> bool:
        """Whether vehicle ``i`` touches something."""
        return bool(self._contacts[i])

    def crash(self, i: int) -> int:
        """How vehicle ``i`` crashed: an index of :data:`CRASHES`; 0 if it did not."""
        return int(self._crashes[i])

    def crash_words(self, i: int) -> str:
        """How vehicle ``i`` crashed, with the speed; empty if it did not."""
        vehicle = self._vehicles[i]
        words = CRASHES[int(vehicle.crash)]
        return f"{words}, at {float(vehicle.feet.impact_mps):.1f} m/s" if words else ""

    def load_position(self, i: int) -> Array:
        """Position of the load of vehicle ``i`` in W, (3,) m."""
        return np.array(self._vehicles[i].x[LOAD_P : LOAD_P + 3])

    def battery_charge(self, i: int) -> float:
        """What is left in the battery of vehicle ``i``, 0 to 1."""
        full_C = self.params.battery.capacity_Ah * 3600.0
        return max(0.0, float(self._vehicles[i].charge_C) / full_C)

    def battery_voltage(self, i: int) -> float:
        """Voltage of the battery of vehicle ``i`` under its load, in V."""
        return float(self._vehicles[i].held.battery_V)
