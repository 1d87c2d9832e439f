"""``python -m quadsim.precompile``: compile every kernel once, into the cache that all share.

Kernels are compiled at their first call; here each is called as the commands and nodes call it.
"""

from __future__ import annotations

import os
import shutil
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from quadsim.compiled import new_record
from quadsim.control.airframe import pack_airframe
from quadsim.control.assisted import (
    assisted_step,
    at_rest,
    begin_assisted,
    new_assisted,
    write_assisted,
)
from quadsim.control.guard import Guard, GuardParams
from quadsim.control.guard_parameters import WatchParams
from quadsim.control.parameters import FlightParams
from quadsim.control.position import new_position_control, position_control
from quadsim.control.watchdog import inner_loop, new_inner_loop
from quadsim.estimation import ESTIMATORS
from quadsim.estimation.interface import Estimator
from quadsim.estimation.smoother import Smoother
from quadsim.kernel_folder import set_filled
from quadsim.mission.flight import FlightManager
from quadsim.mission.planner import Planner, PlannerParams
from quadsim.parameters import pack
from quadsim.records import ATTITUDE_COMMAND, MAX_ROTORS, ODOMETRY, SETPOINT
from quadsim.sensors import SENSORS
from quadsim.sensors.devices import load_device, simulate
from quadsim.sensors.lidar import SimulatedLidar
from quadsim.sensors.model import SimulatedSensor
from quadsim.sim.closed_loop import run
from quadsim.sim.scenario import Scenario, load_scenario
from quadsim.vehicle.fleet import Fleet

MONTH_S = 30 * 86400.0


def precompile_vehicle(scenario: Scenario) -> None:
    """Fleet and sensors as the nodes call them, one sample at a time."""
    fleet = Fleet(scenario.vehicle, scenario.environment)
    devices: list[SimulatedSensor | SimulatedLidar] = [
        SimulatedSensor(SENSORS[kind], params, scenario.environment, 1, "quad")
        for kind, params in scenario.sensors.items()
    ]
    lidar = load_device("lidar", "ideal_lidar")
    devices.append(simulate("lidar", lidar, scenario.environment, 1, "quad", scenario.scene))
    for stamp_ns in range(0, 2_000_000_000, scenario.imu_period_ns):
        fleet.step_to(stamp_ns)
        for device in devices:
            device.measure(fleet.truth(0))


def precompile_estimators(scenario: Scenario) -> None:
    """Estimators as the nodes call them."""
    for name in ("eskf", "ekf7", "gps_ins"):
        estimator = ESTIMATORS[name](scenario.estimator, scenario.environment.datum)
        stand(estimator, scenario)
        estimator.odometry()
        estimator.pose_covariance()
        estimator.twist_covariance()


def precompile_smoother(scenario: Scenario) -> None:
    """The smoother, as replays call it."""
    smoother = Smoother(scenario.estimator, scenario.environment.datum)
    stand(smoother, scenario)
    smoother.smooth()


def stand(estimator: Estimator, scenario: Scenario) -> None:
    """Hand an estimator the messages of three seconds on the ground."""
    fix, still = scenario.environment.datum.to_geodetic((0.0, 0.0, 0.0)), np.zeros(3)
    f_S = np.array((0.0, 0.0, scenario.estimator.gravity_mps2))
    field_S, variance = np.array(scenario.estimator.magnetic_field_W_T), np.eye(3) * 1e-4
    for sample in range(1500):
        stamp_ns = sample * 2_000_000
        estimator.imu(stamp_ns, f_S, still, variance, variance)
        if sample % 50 == 0:
            estimator.gnss_position(stamp_ns, fix, np.eye(3))
            estimator.gnss_velocity(stamp_ns, still, np.eye(3))
            estimator.magnetic_field(stamp_ns, field_S, np.eye(3) * 1e-14)
            estimator.pressure(stamp_ns, 101_325.0, 1.0)
            estimator.range(stamp_ns, 0.1, 1e-4)


def precompile_control(scenario: Scenario) -> None:
    """Position loop, inner loop and flight manager, as autopilot and mixer call them."""
    gains, airframe = pack(scenario.autopilot), pack_airframe(scenario.airframe)
    odometry, setpoint = new_record(ODOMETRY), new_record(SETPOINT)
    command = new_record(ATTITUDE_COMMAND)
    odometry.q_WB[0] = 1.0
    manager = FlightManager(scenario.autopilot.flight, scenario.items)
    manager.ground.use()
    manager.take_range(0, 1.0, 0.01)
    manager.step(0, odometry, setpoint, 0.0)
    manager.ground.step(odometry)
    manager.ground.at(0.0, 0.0)
    precompile_assisted(scenario.autopilot.flight)
    position = new_position_control(scenario.autopilot, airframe)
    position_control(position, gains, odometry, setpoint, 0.02, command)
    speeds = np.zeros(MAX_ROTORS)
    inner_loop(new_inner_loop(), gains, airframe, odometry, 0.0, command, 0.0, 0.002, speeds)


def precompile_assisted(params: FlightParams) -> None:
    """The reference that sticks move, as the flight manager calls it."""
    states, setpoint = new_assisted(), new_record(SETPOINT)
    begin_assisted(states, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0), 0.0, 0.0)
    packed = np.array([pack(params.assisted)])
    ground = (1, 0.0, 0.0, 0.0, 1.0)
    assisted_step(states, packed, (0.0, 0.0, 0.0), ground, 1.0, 0.02)
    write_assisted(states, setpoint)
    at_rest(states)


def precompile_planner() -> None:
    """The planner's map, as the planner marks a scan in it."""
    planner = Planner(PlannerParams())
    planner.take_goals(np.array([[5.0, 0.0, 2.0]]))
    for stamp_ns in (0, 20_000_000):
        planner.step(stamp_ns, (0.0, 0.0, 2.0), (0.0, 0.0, 0.0))
        seen = np.array([[3.0, 0.0, 2.0]])
        planner.take_scan(stamp_ns, (0.0, 0.0, 2.0), seen, -seen)


def precompile_guard() -> None:
    """Half-spaces and certificate, as the guard steps with a wish and an obstacle."""
    guard = Guard(GuardParams(watch=WatchParams(dead_man=False)))
    p_W, level = (0.0, 0.0, 1.5), (1.0, 0.0, 0.0, 0.0)
    for stamp_ns in range(0, 1_000_000_000, 20_000_000):
        guard.take_pose(stamp_ns, stamp_ns, p_W, level, (0.0, 0.0, 0.0))
        guard.take_scan(stamp_ns, stamp_ns, p_W, np.array([[2.0, 0.0, 1.5]]))
        guard.enable(stamp_ns)
        guard.take_wish(stamp_ns, (1.0, 0.0, 0.0), 0.0)
        guard.step(stamp_ns)


def precompile_nodes(scenario: Scenario) -> None:
    """All that the nodes call."""
    precompile_vehicle(scenario)
    precompile_estimators(scenario)
    precompile_control(scenario)
    precompile_planner()
    precompile_guard()


def forget_old_kernels() -> None:
    """Remove folders of kernels, but our own, to which nothing was added for a month."""
    own = Path(os.environ.get("NUMBA_CACHE_DIR", ""))
    if not own.name.startswith("kernels-"):
        return  # the user's own folder
    oldest_s = time.time() - MONTH_S
    for folder in own.parent.glob("kernels-*"):
        if folder != own and folder.stat().st_mtime < oldest_s:
            shutil.rmtree(folder, ignore_errors=True)


def precompile_closed_loop(scenario: Scenario) -> None:
    """The vehicle, then the whole closed loop, as ``quadsim sim`` calls it."""
    precompile_vehicle(scenario)
    run(scenario)


def precompile_rest(scenario: Scenario) -> None:
    """What the closed loop is made of besides the vehicle, and the other estimators."""
    precompile_estimators(scenario)
    precompile_control(scenario)
    precompile_smoother(scenario)
    precompile_planner()
    precompile_guard()


def main() -> None:
    """Fill the cache: by the time the loop is compiled, its parts come out of the cache."""
    scenario = load_scenario("hover", duration_s=5.0)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as processes:
        loop = processes.submit(precompile_closed_loop, scenario)
        rest = processes.submit(precompile_rest, scenario)
        loop.result()
        rest.result()
    set_filled()
    forget_old_kernels()


if __name__ == "__main__":
    main()
