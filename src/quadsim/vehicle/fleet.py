"""All vehicles of a world, stepped together by one compiled call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quadsim.compiled import kernel
from quadsim.errors import FlightError
from quadsim.geometry.rotation import from_euler
from quadsim.parameters import pack
from quadsim.records import KINEMATICS
from quadsim.vehicle.integrators import steps_within
from quadsim.vehicle.multirotor import ROTOR, VEHICLE, P, Q, rotor_current_A, step, truth
from quadsim.vehicle.parameters import VehicleParams
from quadsim.world.environment import EnvironmentParams


@kernel
def fleet_step(
    vehicles: Any,
    kinematics: Any,
    params: Any,
    environment: Any,
    start_ns: int,
    until_ns: int,
    step_ns: int,
) -> None:
    """Advance every vehicle in equal steps and write their motion at the end.

    Args:
        vehicles: (N,) VEHICLE records.
        kinematics: (N,) KINEMATICS records.
        params: packed VehicleParams of all.
        environment: packed EnvironmentParams.
        start_ns: time before the first step.
        until_ns: time after the last.
        step_ns: the longest step.
    """
    steps = steps_within(until_ns - start_ns, step_ns)
    dt_s = (until_ns - start_ns) * 1e-9 / max(steps, 1)
    for i in range(vehicles.shape[0]):
        for k in range(steps):
            step(vehicles[i], params, environment, start_ns + round(k * dt_s * 1e9), dt_s)
        truth(vehicles[i], params, environment, until_ns, kinematics[i])


def stand(
    vehicle: np.record, params: VehicleParams, ground_height_m: float, pose: Sequence[float]
) -> None:
    """Set a vehicle on the ground, at rest, motors off.

    Args:
        vehicle: VEHICLE record.
        params: its parameters.
        ground_height_m: of the flat ground.
        pose: x, y in m and yaw in rad.
    """
    lowest_m = min((foot[2] for foot in params.contact.points_B_m), default=0.0)
    vehicle.x[:] = 0.0
    vehicle.x[P : P + 3] = pose[0], pose[1], ground_height_m - lowest_m - params.contact.sag_m
    vehicle.x[Q : Q + 4] = from_euler(0.0, 0.0, pose[2])
    vehicle.inputs.rotor_command_radps[:] = 0.0
    vehicle.inputs.external_force_W_N[:] = 0.0
    vehicle.inputs.external_torque_B_Nm[:] = 0.0
    vehicle.charge_C = params.battery.capacity_Ah * 3600.0
    vehicle.fault_ns = 0


class Fleet:
    """N vehicles of one kind in one world.

    Args:
        params: the vehicle.
        environment: the world.
        poses: x, y in m and yaw in rad of each vehicle on the ground.
        step_ns: longest step of the physics.
    """

    def __init__(
        self,
        params: VehicleParams,
        environment: EnvironmentParams,
        poses: Sequence[Sequence[float]] = ((0.0, 0.0, 0.0),),
        step_ns: int = 1_000_000,
    ) -> None:
        self.params = params
        self.environment = environment
        self.poses = [tuple(pose) for pose in poses]
        self.step_ns = step_ns
        self.count = len(self.poses)
        self.rotor_count = len(params.rotor_directions)
        self._params = pack(params)
        self._environment = pack(environment)
        self._vehicles = np.zeros(self.count, VEHICLE)
        self._kinematics = np.zeros(self.count, KINEMATICS)
        self.stamp_ns = 0
        self.reset()

    def reset(self, stamp_ns: int = 0) -> None:
        """Every vehicle back to its start, at rest on the ground."""
        self.stamp_ns = stamp_ns
        for vehicle, pose in zip(self._vehicles, self.poses, strict=True):
            stand(vehicle, self.params, self.environment.ground_height_m, pose)
        self._advance(stamp_ns)

    def _advance(self, until_ns: int) -> None:
        fleet_step(
            self._vehicles,
            self._kinematics,
            self._params,
            self._environment,
            self.stamp_ns,
            until_ns,
            self.step_ns,
        )
        self.stamp_ns = until_ns

    def step_to(self, stamp_ns: int) -> None:
        """Advance to a time, in equal steps; a time that has passed changes nothing.

        Raises:
            FlightError: a vehicle's state is no longer finite.
        """
        self._advance(max(self.stamp_ns, stamp_ns))
        for i in range(self.count):
            fault_ns = int(self._vehicles[i].fault_ns)
            if fault_ns:
                raise FlightError(
                    f"the motion of vehicle {i + 1} went to infinity at t ="
                    f" {fault_ns * 1e-9:.3f} s: the step is too long for its drag, contact or"
                    " motors"
                )

    def truth(self, i: int) -> np.record:
        """KINEMATICS record of vehicle ``i`` now (a view: copy it to keep it)."""
        return cast(np.record, self._kinematics[i])

    def set_motor_command(self, i: int, speeds_radps: ArrayLike) -> None:
        """Rotor speeds asked of vehicle ``i`` in rad/s; NaN stops the rotor."""
        speeds = np.nan_to_num(np.asarray(speeds_radps, dtype=float), nan=0.0)
        self._vehicles[i].inputs.rotor_command_radps[: self.rotor_count] = speeds[
            : self.rotor_count
        ]

    def set_external_wrench(self, i: int, force_W_N: ArrayLike, torque_B_Nm: ArrayLike) -> None:
        """Push vehicle ``i`` with a force (world axes) and a torque (body axes) from now on."""
        self._vehicles[i].inputs.external_force_W_N[:] = force_W_N
        self._vehicles[i].inputs.external_torque_B_Nm[:] = torque_B_Nm

    def motor_speeds(self, i: int) -> NDArray[np.float64]:
        """Rotor speeds of vehicle ``i``, (rotors,) rad/s."""
        return np.array(self._vehicles[i].x[ROTOR : ROTOR + self.rotor_count])

    def motor_currents(self, i: int) -> NDArray[np.float64]:
        """Motor currents of vehicle ``i``, (rotors,) A."""
        return np.array([rotor_current_A(speed, self._params) for speed in self.motor_speeds(i)])

    def contact(self, i: int) -> bool:
        """Whether vehicle ``i`` touches the ground."""
        return bool(self._vehicles[i].contact)

    def battery_charge(self, i: int) -> float:
        """What is left in the battery of vehicle ``i``, 0 to 1."""
        full_C = self.params.battery.capacity_Ah * 3600.0
        return max(0.0, float(self._vehicles[i].charge_C) / full_C)
