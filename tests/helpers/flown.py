"""A tiny flight of our own in a Crazyflie's uSD log, for whatever reads recorded flights."""

import struct
import zlib
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

from quadsim.base.files import find
from quadsim.base.parameters import load
from quadsim.vehicle.fleet import Fleet
from quadsim.vehicle.parameters import VehicleParams
from quadsim.world.environment import EnvironmentParams

#: Flights that others recorded; they state no licence, so that they are no part of the project.
BESIDE = (parent / "shared" / "data" for parent in Path(__file__).resolve().parents)
FLIGHTS = next((each for each in BESIDE if each.is_dir()), Path("shared") / "data")
#: Milliseconds between two rows, and rows between two poses.
STEP_MS, POSE_EVERY = 2, 5


def usd_log(events: list[tuple[str, list[tuple[str, str]], list[tuple]]]) -> bytes:
    """A uSD log, version 2: of each event its name, variables with codes, rows of µs and values."""
    content = struct.pack("<BHH", 0xBC, 2, len(events))
    for number, (name, variables, _) in enumerate(events):
        content += struct.pack("<H", number) + name.encode() + b"\0"
        content += struct.pack("<H", len(variables))
        for variable, code in variables:
            content += f"{variable}({code})".encode() + b"\0"
    for number, (_, variables, rows) in enumerate(events):
        codes = "".join(code for _, code in variables)
        for row in rows:
            content += struct.pack(f"<HQ{codes}", number, *row)
    return content + struct.pack("<I", zlib.crc32(content))


def crazyflie() -> VehicleParams:
    """The vehicle that is flown."""
    return load(VehicleParams, find("vehicles", "crazyflie2"))


def write_flight(
    path: Path,
    seconds: float,
    vehicle: VehicleParams,
    seed: int = 1,
    mount_rad: tuple[float, float, float] = (0.0, 0.0, 0.0),
    bias_radps: tuple[float, float, float] = (0.0, 0.0, 0.0),
    shown: tuple[float, float, float, float] = (1.0, 1.0, 1.0, 1.0),
    swing: float = 0.06,
    lost: float = 0.0,
    pose_B_m: tuple[float, float, float] = (0.0, 0.0, 0.0),
    torque_B_Nm: np.ndarray | None = None,
) -> None:
    """Fly a vehicle with smooth random rotor speeds about hover, and write what it would log.

    The poses are those of axes that ``mount_rad`` turns into the vehicle's; ``shown`` is what the
    sensors of the rotors show of their speeds. Rotors swing by a share of their speed, and a share
    of the poses is lost. Positions are of a point at ``pose_B_m``. Row by row of the log,
    ``torque_B_Nm`` acts besides.
    """
    mount = Rotation.from_rotvec(mount_rad)
    rng = np.random.default_rng(seed)
    fleet = Fleet(vehicle, EnvironmentParams())
    hover = np.sqrt(vehicle.mass_kg * 9.80665 / 4 / vehicle.thrust_coefficient_N_s2)
    fleet.set_motion(0, (0.0, 0.0, 50.0), rotor_speeds_radps=np.full(4, hover))
    push, fast, poses = np.zeros(4), [], []
    for k in range(round(seconds * 1e3 / STEP_MS)):
        stamp_ns = k * STEP_MS * 1_000_000
        truth = fleet.truth(0)
        q_WB, w_B = truth["q_WB"], truth["w_B"]
        # attitude and height are held, so that it stays where the model is told apart
        level = np.array([q_WB[1], q_WB[2], 0.0]) * 2.0 + 0.15 * w_B
        up = 0.3 * (50.0 - truth["p_W"][2]) - 0.5 * truth["v_W"][2]
        push += 0.05 * (rng.normal(0.0, swing, 4) - push)
        side = np.sign(np.array(vehicle.rotor_positions_B_m))
        correct = -level[0] * side[:, 1] + level[1] * side[:, 0]
        fleet.set_motor_command(0, hover * (1.0 + push + 0.08 * correct + 0.1 * up))
        micro = stamp_ns // 1000
        rates = np.rad2deg(w_B + np.array(bias_radps))
        g = (truth["a_W"] + [0.0, 0.0, 9.80665]) @ _matrix(q_WB) / 9.80665
        rpm = np.array(truth["rotor_speed_radps"][:4]) * shown * 30.0 / np.pi
        fast.append((micro, *rates, *g, *rpm))
        if k % POSE_EVERY == 0 and (not lost or rng.random() > lost):
            pose = Rotation.from_quat(np.roll(q_WB, -1)) * mount.inv()
            seen_W = truth["p_W"] + _matrix(q_WB) @ pose_B_m
            poses.append((micro, *seen_W, *pose.as_quat()))
        if torque_B_Nm is not None:
            fleet.set_external_wrench(0, (0.0, 0.0, 0.0), torque_B_Nm[k])
        fleet.step_to(stamp_ns + STEP_MS * 1_000_000)
    names = [f"{kind}.{axis}" for kind in ("gyro", "acc") for axis in "xyz"]
    variables = [(name, "d") for name in (*names, "rpm.m1", "rpm.m2", "rpm.m3", "rpm.m4")]
    pose = [(f"locSrv.{name}", "d") for name in ("x", "y", "z", "qx", "qy", "qz", "qw")]
    path.write_bytes(usd_log([("fixedFrequency", variables, fast), ("estPose", pose, poses)]))


def _matrix(q: np.ndarray) -> np.ndarray:
    w, x, y, z = q
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )
