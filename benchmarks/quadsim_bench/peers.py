"""quadsim beside other simulators, in turn with them, where somebody has installed these.

They run in a Python environment of their own (:mod:`quadsim_bench.peer_program`), which ``--peers``
names. Ratios are our rate over theirs.
"""

from __future__ import annotations

import json
import statistics
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from quadsim.base.errors import FlightError, InputError
from quadsim_bench.figure import Measurement, Session, Unavailable, lines
from quadsim_bench.peer_program import (
    FRESH,
    GRAVITY_MPS2,
    HEIGHT_M,
    MASS_KG,
    MOTOR_PER_S,
    RATE_HZ,
    STEPS,
    THRUST_N_RPM2,
    TORQUE_RATIO_M,
    Array,
    Flyers,
    commands,
)

if TYPE_CHECKING:
    from quadsim.vehicle.parameters import VehicleParams

#: Vehicles at once, turns of a round, and time that one RotorPy flies in a turn.
COUNT, TURNS, ROTORPY_S = 10_000, 7, 1.0

INSTALL = (
    "python3 -m venv peers && peers/bin/pip install crazyflow rotorpy (Python 3.11 or newer), "
    "then quadsim bench --peers peers"
)

RPM = 2.0 * np.pi / 60.0
LEVER_M, THRUST_MIN_N, THRUST_MAX_N, PWM_MAX = 0.03253, 0.012817578393224994, 0.12, 65535.0
MIXING = ((-1.0, -1.0, 1.0, 1.0), (-1.0, 1.0, 1.0, -1.0), (-1.0, 1.0, -1.0, 1.0))
INERTIA_KG_M2 = (16.8e-6, 16.8e-6, 29.8e-6)


def crazyflie() -> VehicleParams:
    """Crazyflow's ``cf2x_L250`` for a batch."""
    from quadsim.vehicle.parameters import VehicleParams
    from quadsim.vehicle.propulsion.parameters import RotorParams

    thrust = THRUST_N_RPM2 / RPM**2
    return VehicleParams(
        name="Crazyflie 2.x, cf2x_L250 of Crazyflow 0.4",
        mass_kg=MASS_KG,
        inertia_kg_m2=INERTIA_KG_M2,
        rotor_positions_B_m=tuple(
            (-LEVER_M * pitch, LEVER_M * roll, 0.0) for roll, pitch in zip(*MIXING[:2], strict=True)
        ),
        rotor_directions=tuple(-sense for sense in MIXING[2]),
        thrust_coefficient_N_s2=thrust,
        torque_ratio_m=TORQUE_RATIO_M,
        rotor_speed_min_radps=float(np.sqrt(THRUST_MIN_N / thrust)),
        rotor_speed_max_radps=float(np.sqrt(THRUST_MAX_N / thrust)),
        time_constant_up_s=1.0 / MOTOR_PER_S,
        time_constant_down_s=1.0 / MOTOR_PER_S,
        body_drag_N_s_m=(0.014953790232821078, 0.014953790232821078, 0.013900090000325344),
        rotor=RotorParams(radius_m=0.0231, inertia_kg_m2=34.52e-9),
    )


class Ours(Flyers):
    """Crazyflies of a batch in the air, rotors at hover."""

    def __init__(self, count: int) -> None:
        from quadsim.control.parameters import AutopilotParams
        from quadsim.sim.batched.vehicles import VehicleBatch
        from quadsim.world.environment import EnvironmentParams

        params = crazyflie()
        self._batch = VehicleBatch(
            params,
            EnvironmentParams(gravity_mps2=GRAVITY_MPS2),
            count,
            integrator="explicit_euler",
            step_ns=1_000_000_000 // RATE_HZ,
            autopilot=AutopilotParams(),
            threads=0,
        )
        hover = np.sqrt(params.mass_kg * GRAVITY_MPS2 / 4.0 / params.thrust_coefficient_N_s2)
        self._batch.p_W[2] = HEIGHT_M
        self._batch.rotor_speed_radps[:] = hover

    def want(self, roll_pitch_yaw: Array, thrust_N: Array) -> None:
        """As the base class says."""
        self._batch.want(roll_pitch_yaw[:2], np.zeros(len(thrust_N)), thrust_N / MASS_KG)

    def step(self, steps: int) -> None:
        """As the base class says."""
        self._batch.step(steps)

    def motion(self) -> tuple[Array, Array]:
        """As the base class says."""
        return self._batch.p_W, self._batch.q_WB


class Peer:
    """The program with the other simulators, and what it is asked."""

    def __init__(self, program: subprocess.Popen[str]) -> None:
        self._program = program

    def ask(self, work: str, **more: Any) -> dict[str, Any]:
        """Have a piece of work done.

        Raises:
            FlightError: it broke.
        """
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        try:
            self._program.stdin.write(json.dumps({"work": work, **more}) + "\n")
            self._program.stdin.flush()
            line = self._program.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise FlightError(f"the peers' program broke at {work!r}; it says why above")
        found: dict[str, Any] = json.loads(line)
        return found


def python_of(peers: Path) -> Path:
    """The Python of a venv, or the Python itself.

    Raises:
        InputError: there is none.
    """
    python = peers / "bin" / "python" if peers.is_dir() else peers
    if not python.is_file():
        raise InputError(f"--peers: {python}: no such file; {INSTALL}")
    return python


@contextmanager
def peer_with(session: Session, package: str) -> Iterator[Peer]:
    """The program, if it has a package.

    Raises:
        Unavailable: no environment is named, or the package is not installed there.
    """
    if session.peers is None:
        raise Unavailable(INSTALL)
    script = Path(__file__).with_name("peer_program.py")
    with subprocess.Popen(
        [session.peers, "-I", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=session.folder,
    ) as program:
        try:
            peer = Peer(program)
            if package not in peer.ask("installed"):
                raise Unavailable(f"{package} is not installed in {session.peers}: {INSTALL}")
            yield peer
            assert program.stdin is not None
            program.stdin.close()
        finally:
            if program.poll() is None and program.stdin is not None and not program.stdin.closed:
                program.kill()


def difference(ours: Flyers, peer: Peer) -> dict[str, float]:
    """How far apart the same half second leads both, each by its own law of attitude."""
    from scipy.spatial.transform import Rotation

    theirs = {key: np.array(values) for key, values in peer.ask("moved", count=COUNT).items()}
    ours.want(*commands(COUNT))
    ours.step(RATE_HZ // 2)
    p_W, q_WB = ours.motion()
    turned, other = (Rotation.from_quat(np.roll(q, -1, axis=0).T) for q in (q_WB, theirs["q_WB"]))
    away = np.linalg.norm(p_W - theirs["p_W"], axis=0)
    return {
        "position_m": float(away.max()),
        "attitude_rad": float((turned.inv() * other).magnitude().max()),
        "way_m": float(np.median(np.linalg.norm(p_W - [[0.0], [0.0], [HEIGHT_M]], axis=0))),
        "turn_rad": float(np.median(turned.magnitude())),
    }


def measure_crazyflow(session: Session) -> dict[str, Any]:
    """Attitude-controlled Crazyflies, ours and Crazyflow's in turn."""
    with peer_with(session, "crazyflow") as peer:
        found: dict[str, Any] = {"versions": peer.ask("installed")}
        ours = Ours(COUNT)
        found["difference_after_half_a_second"] = difference(ours, peer)
        ratios: dict[str, list[float]] = {"held": [], "fresh": []}
        rates: dict[str, list[float]] = {"quadsim held": [], "quadsim fresh": []}
        rates |= {"crazyflow held": [], "crazyflow fresh": []}
        for turn in range(TURNS + 1):
            for kind, steps in (("held", STEPS), ("fresh", FRESH)):
                own_s = ours.held_s(COUNT) if kind == "held" else ours.fresh_s(COUNT)
                their_s = peer.ask(kind, count=COUNT)["s"]
                if turn > 0:  # the first compiles
                    ratios[kind].append(their_s / own_s)
                    rates[f"quadsim {kind}"].append(COUNT * steps / own_s * 1e-6)
                    rates[f"crazyflow {kind}"].append(COUNT * steps / their_s * 1e-6)
        medians = {name: statistics.median(values) for name, values in rates.items()}
    return found | {
        "million_steps_per_s": medians,
        "peer_crazyflow_ratio": statistics.median(ratios["held"]),
        "peer_crazyflow_fresh_ratio": statistics.median(ratios["fresh"]),
    }


def measure_rotorpy(session: Session) -> dict[str, Any]:
    """A Hummingbird's flight, ours with sensors and estimator, and RotorPy's, in turn.

    Raises:
        FlightError: one of them does not fly.
    """
    from quadsim.sim.scenario import load_scenario
    from quadsim_bench.closed_loop import flight

    square = session.once("hummingbird", lambda: load_scenario("square", vehicle="hummingbird"))
    with peer_with(session, "rotorpy") as peer:
        found: dict[str, Any] = {"versions": peer.ask("installed")}
        ratios, factors = [], []
        for turn in range(TURNS + 1):
            own_s, own_wall_s, _ = flight(square)
            theirs = peer.ask("rotorpy", seconds=ROTORPY_S)
            if theirs["away_m"] > 1.0:
                raise FlightError(f"RotorPy is {theirs['away_m']:.1f} m from where it should be")
            if turn > 0:
                factors.append((own_s / own_wall_s, theirs["flown_s"] / theirs["s"]))
                ratios.append(factors[-1][0] / factors[-1][1])
    ours, rotorpy = (statistics.median(values) for values in zip(*factors, strict=True))
    return found | {
        "x_realtime": {"quadsim": ours, "rotorpy": rotorpy},
        "rotorpy_away_m": theirs["away_m"],
        "peer_rotorpy_ratio": statistics.median(ratios),
    }


CRAZYFLOW = f"""
peer_crazyflow_ratio x more steps of {COUNT} Crazyflies, held commands, over Crazyflow's on the CPU
peer_crazyflow_fresh_ratio x more the same, new angles before each step
"""
ROTORPY = (
    "peer_rotorpy_ratio x more a Hummingbird with sensors and filter, over RotorPy's environment"
)

MEASUREMENTS = (
    Measurement("peer_crazyflow", lines(CRAZYFLOW), measure_crazyflow),
    Measurement("peer_rotorpy", lines(ROTORPY), measure_rotorpy),
)
