"""``python -m quadsim.precompile [ARCHIVE]``: compile every kernel once.

Kernels are compiled at their first call; here each is called as the commands and nodes call it.
They go into the cache that all commands share. With an archive they are compiled for any recent
processor and go into this file instead: a wheel that is built with ``src/quadsim/kernels.zip.xz``
brings them along.
"""

from __future__ import annotations

import lzma
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from io import BytesIO
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import ZipFile

import numpy as np

from quadsim.base.errors import InputError
from quadsim.base.kernel_folder import BASELINES, baseline, set_filled
from quadsim.base.parameters import new, pack
from quadsim.base.python_processes import module_command, outside_working_folder
from quadsim.base.records import KINEMATICS, MAX_ROTORS, ODOMETRY, SETPOINT, AttitudeCommand
from quadsim.base.surroundings import need_compiler
from quadsim.control.airframe import pack_airframe
from quadsim.control.assisted import (
    assisted_step,
    at_rest,
    begin_assisted,
    new_assisted,
    write_assisted,
)
from quadsim.control.inner_loop import INNER_LOOP, inner_loop_from_python
from quadsim.control.parameters import FlightParams
from quadsim.control.position import new_position_control, position_control
from quadsim.estimation import ESTIMATORS
from quadsim.estimation.eskf.standing import STANDING, node_stands
from quadsim.estimation.interface import BlindIns, ErrorStateEkf, Estimator
from quadsim.estimation.odom_frame import follow
from quadsim.geometry.rotation import rotate, unrotate
from quadsim.mission.flight.flight import FlightManager
from quadsim.sensors import SCANNERS, SENSORS, TABLE, kind_of
from quadsim.sensors.devices import load_device, simulate
from quadsim.sensors.model import SimulatedSensor
from quadsim.sim.scenario import Scenario, load_scenario
from quadsim.vehicle.fleet import Fleet
from quadsim.vehicle.start import check_place

MONTH_S = 30 * 86400.0
#: Simulated time by which every kernel of a device and of an estimator has been called, those too
#: that an estimator calls once it runs; and by which those of the first flight's start have been.
ALL_S, FIRST_S = 3.0, 0.6


def precompile_vehicle(scenario: Scenario, lasting_s: float = ALL_S) -> None:
    """Fleet and the scenario's sensors as the nodes call them, one sample at a time."""
    fleet = Fleet(scenario.vehicle, scenario.environment)
    devices = [
        SimulatedSensor(SENSORS[kind_of(name)], params, scenario.environment, 1, "quad")
        for name, params in scenario.sensors.items()
    ]
    for stamp_ns in range(0, round(lasting_s * 1e9), scenario.imu_period_ns):
        fleet.step_to(stamp_ns)
        for device in devices:
            device.measure(fleet.truth(0))
    world = scenario.environment, fleet.scene, fleet.physics
    check_place(scenario.vehicle, *world, fleet.truth(0))


def precompile_scanners(scenario: Scenario) -> None:
    """Lidar and depth camera, as their nodes call them."""
    world = scenario.environment, 1, "quad", scenario.scene
    devices = [simulate(kind, load_device(kind, TABLE[kind].device), *world) for kind in SCANNERS]
    fleet = Fleet(scenario.vehicle, scenario.environment)
    for stamp_ns in range(0, round(FIRST_S * 1e9), scenario.imu_period_ns):
        fleet.step_to(stamp_ns)
        for device in devices:
            device.measure(fleet.truth(0))


def precompile_estimators(
    scenario: Scenario, names: Sequence[str], lasting_s: float = ALL_S
) -> None:
    """Estimators as the nodes call them."""
    for name in names:
        estimator = ESTIMATORS[name](scenario.estimator, scenario.environment.datum)
        stand_on_ground(estimator, scenario, lasting_s)
        estimator.odometry()
        estimator.pose_covariance()
        estimator.twist_covariance()


def precompile_blind(scenario: Scenario) -> None:
    """Inertial navigation alone, as the node estimator starts it next to the filter."""
    datum = scenario.environment.datum
    blind = BlindIns(scenario.estimator, datum)
    blind.start_from(ErrorStateEkf(scenario.estimator, datum))
    odom = np.zeros(1, ODOMETRY)
    follow(odom, odom.copy(), odom.copy(), False)


def precompile_replays(scenario: Scenario) -> None:
    """Estimators as replays call them."""
    from quadsim.estimation.messages import Messages
    from quadsim.estimation.running import Running

    for name in ("eskf", "ekf7", "gps_ins"):
        estimator = ESTIMATORS[name](scenario.estimator, scenario.environment.datum)
        Running(estimator).take(Messages.of([]))


def precompile_smoother(scenario: Scenario) -> None:
    """The smoother, as replays call it."""
    from quadsim.estimation.smoother.smoother import Smoother

    smoother = Smoother(scenario.estimator, scenario.environment.datum)
    stand_on_ground(smoother, scenario)
    smoother.smooth()


def stand_on_ground(estimator: Estimator, scenario: Scenario, lasting_s: float = ALL_S) -> None:
    """Hand an estimator the messages of a time on the ground."""
    fix, still = scenario.environment.datum.to_geodetic((0.0, 0.0, 0.0)), np.zeros(3)
    f_S = np.array((0.0, 0.0, scenario.estimator.gravity_mps2))
    field_S, variance = np.array(scenario.estimator.magnetic_field_W_T), np.eye(3) * 1e-4
    for sample in range(round(lasting_s * 500.0)):
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
    gains: Any = pack(scenario.autopilot)
    airframe = pack_airframe(scenario.airframe)
    odometries, setpoints = np.zeros(1, ODOMETRY), np.zeros(1, SETPOINT)
    odometry, setpoint = odometries[0], setpoints[0]
    command = new(AttitudeCommand)
    odometry.q_WB[0] = 1.0
    manager = FlightManager(scenario.autopilot.flight, scenario.items)
    manager.ground.use()
    manager.step(0, odometries, setpoints, 0.0)
    manager.ground.at(1.0, 0.0)
    manager.reference.go((1.0, 0.0, 1.0), 0.0, above=True)
    manager.step(20_000_000, odometries, setpoints, 0.0)
    precompile_assisted(scenario.autopilot.flight)
    position = new_position_control(scenario.autopilot, airframe)
    position_control(position, gains, odometry, setpoint, 0.02, command)
    speeds = np.zeros(MAX_ROTORS)
    inner_loop_from_python(
        np.zeros(1, INNER_LOOP),
        np.array([gains]),
        np.array([airframe]),
        odometries,
        0.0,
        np.array([command]),
        0.0,
        0.002,
        speeds,
    )


def precompile_assisted(params: FlightParams) -> None:
    """The reference that sticks move, as the flight manager calls it."""
    states, setpoints = new_assisted(), np.zeros(1, SETPOINT)
    begin_assisted(states, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0), 0.0, 0.0)
    packed = np.array([pack(params.assisted)])
    ground = (1, 0.0, 0.0, 0.0, 1.0)
    assisted_step(states, packed, (0.0, 0.0, 0.0), ground, 1.0, 0.02)
    write_assisted(states, setpoints)
    at_rest(states)


def precompile_planner() -> None:
    """The planner's map, as the planner marks a scan in it."""
    from quadsim.hil.planner.parameters import PlannerParams
    from quadsim.hil.planner.planner import Planner

    planner = Planner(PlannerParams())
    planner.take_goals(np.array([[5.0, 0.0, 2.0]]))
    for stamp_ns in (0, 20_000_000):
        planner.step(stamp_ns, (0.0, 0.0, 2.0), (0.0, 0.0, 0.0))
        seen = np.array([[3.0, 0.0, 2.0]])
        planner.take_scan(stamp_ns, (0.0, 0.0, 2.0), seen, -seen)


def precompile_guard() -> None:
    """Half-spaces and certificate, as the guard steps with a request and an obstacle."""
    from quadsim.hil.guard.guard import Guard, GuardParams
    from quadsim.hil.guard.parameters import WatchParams

    guard = Guard(GuardParams(watch=WatchParams(dead_man=False)))
    guard.expect_neighbours({"quad2": 0.5})
    p_W, level = (0.0, 0.0, 1.5), (1.0, 0.0, 0.0, 0.0)
    for stamp_ns in range(0, 1_000_000_000, 20_000_000):
        guard.take_pose(stamp_ns, stamp_ns, p_W, level, (0.0, 0.0, 0.0))
        guard.take_neighbour("quad2", stamp_ns, stamp_ns, [(9.0, 0.0, 1.5)])
        guard.take_scan(stamp_ns, stamp_ns, p_W, np.array([[2.0, 0.0, 1.5]]))
        guard.enable(stamp_ns)
        guard.take_wish(stamp_ns, (1.0, 0.0, 0.0), 0.0)
        guard.step(stamp_ns)


def precompile_plant(scenario: Scenario) -> None:
    """Vehicle, sensors and control of every graph and closed loop."""
    precompile_vehicle(scenario, FIRST_S)
    precompile_control(scenario)


def precompile_filter(scenario: Scenario) -> None:
    """The estimator of every graph and closed loop."""
    precompile_estimators(scenario, ["eskf"], FIRST_S)
    precompile_blind(scenario)
    node_stands(np.zeros(1, STANDING), 9.81, 0, np.zeros(3), np.zeros(3))
    rotate((1.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0))  # velocities in messages
    unrotate((1.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0))


def precompile_nodes(scenario: Scenario) -> None:
    """What the nodes of every graph call; the others' kernels are loaded where they are called."""
    precompile_plant(scenario)
    precompile_filter(scenario)


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
    from quadsim.sim.closed_loop import run

    precompile_vehicle(scenario)
    run(scenario)
    run(load_scenario("square"))
    precompile_worlds(scenario)


def precompile_worlds(scenario: Scenario) -> None:
    """Worlds as the environments of quadsim.gym begin and step them."""
    from quadsim.sim.worlds import Units, Worlds

    worlds = Worlds(Units([scenario]), 1, 1, "rates", 20_000_000, True)
    one: Any = np.zeros(1, np.int64)
    motions: Any = np.zeros(1, KINEMATICS)
    motions["p_W"][:, 2], motions["q_WB"][:, 0] = 5.0, 1.0
    worlds.draw(one)
    worlds.begin(one, np.zeros(1), motions, (0.0, 0.0, 0.0, 0.0))
    worlds.step(np.zeros((1, 4)), np.ones(1, bool))


def precompile_rest(scenario: Scenario) -> None:
    """What the closed loop is made of besides the vehicle, and the other estimators."""
    precompile_filter(scenario)
    precompile_estimators(scenario, ("eskf", "ekf7", "gps_ins"))
    precompile_control(scenario)
    precompile_replays(scenario)
    precompile_smoother(scenario)
    precompile_scanners(scenario)
    precompile_planner()
    precompile_guard()


def compile_at_once(*jobs: Callable[[Scenario], None]) -> None:
    """Do jobs at once, each in a process; what one has compiled the others take from the cache."""
    scenario = load_scenario("hover", duration_s=5.0)
    with ProcessPoolExecutor(
        len(jobs), get_context("spawn"), signal.signal, (signal.SIGINT, signal.SIG_DFL)
    ) as processes:  # by Ctrl-C they end without a word
        with outside_working_folder():
            underway = [processes.submit(job, scenario) for job in jobs]
        for done in underway:
            done.result()
    set_filled()
    forget_old_kernels()


def fill_first() -> None:
    """Compile what a first flight needs; where memory runs out, each call compiles for itself."""
    with suppress(BrokenProcessPool):
        compile_at_once(precompile_plant, precompile_filter)


def write_archive(path: Path) -> None:
    """Compile for the baseline of this architecture, in a cache of its own, and pack that.

    Raises:
        InputError: this processor is not of a kind that wheels are made for.
    """
    processor = baseline()
    if processor is None:
        raise InputError(f"{path}: wheels bring kernels for {', '.join(BASELINES)} alone")
    with TemporaryDirectory() as folder:
        name, features = processor
        chosen = {"NUMBA_CACHE_DIR": folder, "NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": features}
        subprocess.run(module_command("quadsim.precompile"), env=os.environ | chosen, check=True)
        content = BytesIO()
        with ZipFile(content, "w") as archive:
            for file in sorted(Path(folder).rglob("*.nb[ci]")):
                archive.write(file, file.relative_to(folder))
        path.write_bytes(lzma.compress(content.getvalue()))  # together, as they are alike


def main() -> None:
    """Fill the cache, or write the archive that is asked for."""
    try:
        need_compiler()
    except InputError as error:
        sys.exit(f"quadsim: error: {error}")
    if len(sys.argv) > 1:
        write_archive(Path(sys.argv[1]))
    else:  # by the time the loop is compiled, its parts come out of the cache
        compile_at_once(precompile_closed_loop, precompile_rest)


if __name__ == "__main__":
    main()
