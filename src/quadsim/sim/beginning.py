"""How the records of one vehicle of the closed loop begin in any motion, as compiled code."""

from __future__ import annotations

from quadsim.base.compiled import Array, Records, kernel
from quadsim.base.records import MAX_ROTORS, Kinematics
from quadsim.estimation.eskf.alignment import start_known
from quadsim.estimation.eskf.outputs import eskf_odometry
from quadsim.geometry.rotation import quat
from quadsim.geometry.vector import vec3
from quadsim.sim.loop import LoopState, Setup
from quadsim.vehicle.formalisms.formalisms import set_attitude
from quadsim.vehicle.multirotor import find_surroundings, hold_air, write_kinematics
from quadsim.vehicle.state import ROTOR, P, V, Workspace
from quadsim.world.scene.scene import Scene

#: Stamp of what is known before the first sample: 0 would say that there is nothing.
FIRST_NS = 1


@kernel
def begin_motion(
    states: Records[LoopState],
    setups: Records[Setup],
    scene: Scene,
    motions: Records[Kinematics],
    work: Records[Workspace],
) -> None:
    """Put a vehicle that stands, switched on, into a motion; its rotors go on as they turn.

    Args:
        states, setups: (1,) of the vehicle.
        scene: what it is in.
        motions: (1,) KINEMATICS, of which p_W, v_W, q_WB, w_B and the rotor speeds count.
        work: (1,) working memory.
    """
    state, setup, motion = states[0], setups[0], motions[0]
    vehicle, physics = state.vehicle, setup.physics
    x = vehicle.x
    for i in range(3):
        x[P + i], x[V + i] = motion.p_W[i], motion.v_W[i]
    set_attitude(x, vehicle, physics.formalism, quat(motion.q_WB), vec3(motion.w_B))
    for i in range(MAX_ROTORS):
        speed = motion.rotor_speed_radps[i]
        x[ROTOR + i] = vehicle.inputs.rotor_command_radps[i] = state.inner.commanded[i] = speed
        for k in range(setup.delay + 1):
            state.pending[k, i] = speed
    for i in range(x.size):
        vehicle.last_x[i] = x[i]
    vehicle.feet.reach_m, vehicle.feet.near = 0.0, 0  # nothing is known of its new place
    model = (vehicle, setup.vehicle, setup.environment[0], physics, work[0])
    find_surroundings(model, scene)
    hold_air(model, 1.0)
    true = state.truth[0]
    write_kinematics(model, state.stamp_ns, true)
    state.imu[0].previous = true
    state.gnss[0].previous = true
    state.magnetometer[0].previous = true
    state.barometer[0].previous = true
    state.rangefinder[0].previous = true


@kernel
def begin_estimate(
    states: Records[LoopState], deviations: tuple[float, float, float, float], white: Array
) -> None:
    """Let the error-state filter run at once, about the true motion.

    Args:
        states: (1,) of a vehicle, whose truth is written.
        deviations, white: as of :func:`quadsim.estimation.eskf.alignment.start_known`.
    """
    state = states[0]
    line = state.line[0]
    start_known(line.state, line.params, state.stamp_ns, state.truth[0], deviations, white)
    eskf_odometry(line.state, line.params, state.estimate)
    state.estimate.stamp_ns = FIRST_NS
    state.odometry = state.estimate


@kernel
def begin_on_truth(states: Records[LoopState]) -> None:
    """Let control of a vehicle, (1,), know the true motion before the first sample."""
    state = states[0]
    true, odometry = state.truth[0], state.odometry
    odometry.stamp_ns = FIRST_NS
    for i in range(3):
        odometry.p_W[i], odometry.v_W[i] = true.p_W[i], true.v_W[i]
        odometry.w_B[i] = true.w_B[i]
    for i in range(4):
        odometry.q_WB[i] = true.q_WB[i]
