"""How the records of one vehicle of the closed loop begin in any motion, as compiled code."""

from __future__ import annotations

from quadsim.base.compiled import Array, Records, kernel
from quadsim.base.records import MAX_ROTORS, Kinematics
from quadsim.estimation.eskf.alignment import start_known
from quadsim.estimation.eskf.outputs import eskf_odometry
from quadsim.geometry.rotation import quat
from quadsim.geometry.vector import vec3
from quadsim.sim.loop import LoopState, OfDevices, Setup, start_all
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
    devices: OfDevices,
    i: int,
    scene: Scene,
    motions: Records[Kinematics],
    work: Records[Workspace],
) -> None:
    """Put a vehicle that stands, switched on, into a motion; its rotors go on as they turn.

    Args:
        states, setups, devices: (N,) of the vehicles, as of LoopArrays.
        i: which of them.
        scene: what it is in.
        motions: (N,) KINEMATICS, of which p_W, v_W, q_WB, w_B and the rotor speeds count.
        work: (1,) working memory.
    """
    state, setup, motion = states[i], setups[i], motions[i]
    vehicle, physics = state.vehicle, setup.physics
    x = vehicle.x[:]
    for k in range(3):
        x[P + k], x[V + k] = motion.p_W[k], motion.v_W[k]
    set_attitude(x, vehicle, physics.formalism, quat(motion.q_WB), vec3(motion.w_B))
    for k in range(MAX_ROTORS):
        speed = motion.rotor_speed_radps[k]
        x[ROTOR + k] = vehicle.inputs.rotor_command_radps[k] = state.inner.commanded[k] = speed
        for delayed in range(setup.delay + 1):
            state.pending[delayed, k] = speed
    for k in range(x.size):
        vehicle.last_x[k] = x[k]
    vehicle.feet.reach_m, vehicle.feet.near = 0.0, 0  # nothing is known of its new place
    model = (vehicle, setup.vehicle, setup.environment[0], physics, work[0])
    find_surroundings(model, scene)
    hold_air(model, 1.0)
    write_kinematics(model, state.stamp_ns, state.truth[0])
    start_all(state, i, devices)


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
