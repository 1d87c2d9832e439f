"""Swapped, mirrored and turned axes are found and named, and sound ones never are."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from quadsim.estimation.eskf.parameters import EstimatorParams, MountingParams
from quadsim.estimation.mounting_check.check import AxesMonitor
from quadsim.sim.closed_loop import ClosedLoop
from quadsim.sim.scenario import load_scenario

Array = NDArray[np.float64]
G_W = np.array([0.0, 0.0, -9.80665])
FIELD_W = np.array([0.0, 2.15e-5, -4.3e-5])
RATE_HZ = 200
PERIOD_NS = 5_000_000
START_NS = 3_000_000_000

SWAP = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
NED = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, -1.0]])
FRD = np.diag([1.0, -1.0, -1.0])
#: What a sensor reads that is turned by +90 degrees about an axis of the body.
ABOUT_X = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]])
ABOUT_Z = np.array([[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
NO_Z = np.diag([1.0, 1.0, -1.0])


@dataclass(frozen=True)
class Recording:
    """What sensors gave: (N,) stamps and (N, 3) vectors of each; GNSS deviations in m and m/s."""

    imu_ns: NDArray[np.int64]
    f_B: Array
    w_B: Array
    field_ns: NDArray[np.int64]
    m_B: Array
    fix_ns: NDArray[np.int64]
    p_W: Array
    v_W: Array
    p_sigma: Array
    v_sigma: Array


def motion(t: Array) -> tuple[Array, Array, Array, Array]:
    """A multirotor that stands for 2 s and then flies: p, v, a and yaw."""
    s = np.maximum(t - 2.0, 0.0)
    # (1 - exp(-s^2)) lets all begin at rest
    begin = 1.0 - np.exp(-(s**2))
    p = np.stack([4.0 * np.sin(0.8 * s), 3.0 * np.sin(1.1 * s), 2.0 + np.sin(0.7 * s)]).T
    p *= begin[:, None]
    v = np.gradient(p, t, axis=0)
    return p, v, np.gradient(v, t, axis=0), 0.9 * np.sin(0.6 * s) * begin


def attitude(a_W: Array, yaw: Array) -> Rotation:
    """By differential flatness: thrust along z of the body, x towards the heading."""
    z = a_W - G_W
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    y = np.cross(z, np.column_stack([np.cos(yaw), np.sin(yaw), np.zeros_like(yaw)]))
    y /= np.linalg.norm(y, axis=1, keepdims=True)
    return Rotation.from_matrix(np.stack([np.cross(y, z), y, z], axis=2))


def fly(seed: int) -> Recording:
    """2 s on the ground and 10 s in the air."""
    t = np.arange(0.0, 12.0, 1.0 / RATE_HZ)
    p, v, a, yaw = motion(t)
    return record(seed, p, v, a, attitude(a, yaw))


def stand(seed: int, tilt_deg: float) -> Recording:
    """Three minutes on a slope."""
    zero = np.zeros((180 * RATE_HZ, 3))
    angles = np.tile([77.0, 0.7 * tilt_deg, 0.7 * tilt_deg], (len(zero), 1))
    return record(seed, zero, zero, zero, Rotation.from_euler("ZYX", angles, degrees=True))


def record(seed: int, p: Array, v: Array, a: Array, R: Rotation) -> Recording:
    """What sensors with noise and biases say of a motion."""
    rng = np.random.default_rng(seed)
    w_B = np.zeros(p.shape)
    w_B[1:] = (R[:-1].inv() * R[1:]).as_rotvec() * RATE_HZ
    w_B += rng.normal(0.0, 0.02, w_B.shape) + rng.normal(0.0, 0.015, 3)
    f_B = R.inv().apply(a - G_W) + rng.normal(0.0, 0.3, w_B.shape) + rng.normal(0.0, 0.1, 3)
    stamps_ns = START_NS + PERIOD_NS * np.arange(len(p))
    m_B = R.inv().apply(FIELD_W) + rng.normal(0.0, 5e-7, w_B.shape)
    p_sigma, v_sigma = np.array([0.3, 0.3, 0.6]), np.array([0.1, 0.1, 0.2])
    fixes = slice(0, None, 20)
    return Recording(
        stamps_ns, f_B, w_B, stamps_ns[::4], m_B[::4], stamps_ns[fixes],
        p[fixes] + rng.normal(0.0, p_sigma, p[fixes].shape),
        v[fixes] + rng.normal(0.0, v_sigma, v[fixes].shape),
        p_sigma, v_sigma,
    )  # fmt: skip


def watch(
    recording: Recording,
    params: EstimatorParams | None = None,
    late_ns: int = 0,
    until_s: float = np.inf,
    **changed: Array,
) -> list[dict[str, str]]:
    """Reports of each half second; ``changed`` are matrices that the measured vectors go through.

    Args:
        recording: what the sensors gave.
        params: of the filter.
        late_ns: how much later than the IMU all else arrives.
        until_s: end.
    """
    monitor = AxesMonitor(params or EstimatorParams())

    def through(name: str, vectors: Array) -> Array:
        return vectors @ changed.get(name, np.eye(3)).T

    r = recording
    f, w = through("f", r.f_B), through("w", r.w_B)
    m, p, v = through("m", r.m_B), through("p", r.p_W), through("v", r.v_W)
    p_covariance, v_covariance = np.diag(r.p_sigma**2), np.zeros((6, 6))
    v_covariance[:3, :3] = np.diag(r.v_sigma**2)
    rows = [(int(stamp), 0, i) for i, stamp in enumerate(r.imu_ns)]
    rows += [(int(stamp) + late_ns, 1, i) for i, stamp in enumerate(r.field_ns)]
    rows += [(int(stamp) + late_ns, 2, i) for i, stamp in enumerate(r.fix_ns)]
    reports, due_ns = [], rows[0][0] + 500_000_000
    end_ns = rows[0][0] + min(until_s, 1e4) * 1e9
    for arrival_ns, kind, i in sorted(rows):
        if arrival_ns > end_ns:
            break
        if kind == 0:
            monitor.imu(arrival_ns, f[i], w[i])
        elif kind == 1:
            monitor.magnetic_field(arrival_ns - late_ns, m[i])
        else:
            monitor.gnss_velocity(arrival_ns - late_ns, v[i], v_covariance)
            monitor.gnss_position(arrival_ns - late_ns, p[i], p_covariance)
        if arrival_ns >= due_ns:
            due_ns += 500_000_000
            reports.append(monitor.report())
    return reports


CASES = [
    ({"f": FRD, "w": FRD}, {"imu": "axes look like FRD (x<-x, y<--y, z<--z)"}),
    ({"f": SWAP, "w": SWAP}, {"imu": "axes look like x and y exchanged (x<-y, y<-x, z<-z)"}),
    (
        {"f": ABOUT_Z, "w": ABOUT_Z},
        {
            "imu": "axes look turned by 90 degrees about z (x<-y, y<--x, z<-z), or the"
            " magnetometer's the other way round"
        },
    ),
    (
        {"f": ABOUT_X, "w": ABOUT_X},
        {"imu": "axes look turned by 90 degrees about x (x<-x, y<-z, z<--y)"},
    ),
    ({"w": NO_Z}, {"gyroscope": "axes look like z with the other sign (x<-x, y<-y, z<--z)"}),
    ({"m": NED}, {"magnetic_field": "axes look like NED (x<-y, y<-x, z<--z)"}),
    ({"m": FRD}, {"magnetic_field": "axes look like FRD (x<-x, y<--y, z<--z)"}),
    ({"m": SWAP}, {"magnetic_field": "axes look like x and y exchanged (x<-y, y<-x, z<-z)"}),
    ({"v": NED}, {"gnss_velocity": "axes look like NED (x<-y, y<-x, z<--z)"}),
    ({"v": SWAP}, {"gnss_velocity": "axes look like x and y exchanged (x<-y, y<-x, z<-z)"}),
    ({"p": SWAP}, {"gnss_position": "axes look like x and y exchanged (x<-y, y<-x, z<-z)"}),
    (
        {"p": ABOUT_Z},
        {"gnss_position": "axes look turned by 90 degrees about z (x<-y, y<--x, z<-z)"},
    ),
    (
        {"v": SWAP, "p": SWAP},
        {
            "gnss_velocity": "axes look like x and y exchanged (x<-y, y<-x, z<-z)",
            "gnss_position": "axes look like x and y exchanged (x<-y, y<-x, z<-z)",
        },
    ),
]


@pytest.mark.parametrize(("changed", "said"), CASES)
@pytest.mark.parametrize("seed", [1, 2])
def test_wrong_axes_are_named_within_ten_seconds_of_flight(
    changed: dict[str, Array], said: dict[str, str], seed: int
) -> None:
    reports = watch(fly(seed), **changed)  # 2 s on the ground, 10 s in the air
    assert reports[-1] == said
    # whoever is named meanwhile is named rightly, if not yet by the right name
    assert all(set(report) <= set(said) for report in reports)


@pytest.mark.parametrize(
    ("changed", "sensor"),
    [
        ({"f": FRD, "w": FRD}, "imu"),
        ({"f": ABOUT_X, "w": ABOUT_X}, "imu"),
        ({"m": FRD}, "magnetic_field"),
    ],
)
def test_what_points_the_wrong_way_is_named_at_rest(changed: dict[str, Array], sensor: str) -> None:
    (*_, last) = watch(fly(3), until_s=2.0, **changed)
    assert list(last) == [sensor]


def test_sound_axes_are_not_named() -> None:
    for seed in range(5):
        assert not any(watch(fly(seed)))


def test_late_data_are_compared_at_their_own_time() -> None:
    recording = fly(4)
    assert not any(watch(recording, late_ns=400_000_000))
    assert set(watch(recording, late_ns=400_000_000, v=NED)[-1]) == {"gnss_velocity"}


@pytest.mark.parametrize("tilt_deg", [0.0, 15.0, 25.0])
def test_a_vehicle_that_stands_for_long_is_not_named(tilt_deg: float) -> None:
    """Noise and biases alone, for three minutes."""
    assert not any(watch(stand(5, tilt_deg)))


def test_a_declared_mount_is_not_an_error() -> None:
    mount = MountingParams(imu_roll_pitch_yaw_deg=(90.0, 0.0, 0.0))
    params = replace(EstimatorParams(), mount=mount)
    turned = {"f": ABOUT_X, "w": ABOUT_X, "m": ABOUT_X}
    assert not any(watch(fly(6), params, **turned))
    assert "imu" in watch(fly(6), **turned)[-1]
    assert "imu" in watch(fly(6), params)[-1]


@pytest.mark.parametrize("name", ["square", "windy_square", "hover"])
def test_scenarios_are_not_named(name: str) -> None:
    """With all that the default set's devices do wrong, from the ground to the ground."""
    for seed in (1, 2, 3) if name == "square" else (1,):
        loop = ClosedLoop(load_scenario(name, seed=seed), keep_samples=True)
        loop.fly()
        imu, field, fix = (loop.samples(kind) for kind in ("imu", "magnetometer", "gnss"))
        recording = Recording(
            imu["stamp_ns"], imu["f_S"], imu["w_S"], field["stamp_ns"], field["m_S"],
            fix["stamp_ns"], fix["p_W"], fix["v_W"],
            np.sqrt(fix["p_variance"][0]), np.sqrt(fix["v_variance"][0]),
        )  # fmt: skip
        field_W_T = tuple(loop.scenario.environment.field_W_T())
        params = replace(EstimatorParams(), magnetic_field_W_T=field_W_T)
        assert not any(watch(recording, params))
        if name == "square":
            assert set(watch(recording, params, until_s=12.3, v=NED)[-1]) == {"gnss_velocity"}
            assert set(watch(recording, params, until_s=12.3, w=NO_Z)[-1]) == {"gyroscope"}


def test_an_external_pose_is_compared_too() -> None:
    """Motion capture: its position in NED, or its attitude with axes of an FRD body."""
    recording = fly(7)
    t = (recording.imu_ns - START_NS) * 1e-9
    p_W, _, a_W, yaw = motion(t)
    R = attitude(a_W, yaw).as_matrix()
    # a map that does not face north
    away = Rotation.from_euler("z", 50.0, degrees=True).as_matrix()
    for A_p, A_q, said in (
        (np.eye(3), np.eye(3), ""),
        (NED, np.eye(3), "position: axes look like NED"),
        (np.eye(3), FRD, "attitude: axes look like FRD"),
    ):
        monitor = AxesMonitor(EstimatorParams())
        q = Rotation.from_matrix(away @ R @ A_q).as_quat()
        for i, stamp_ns in enumerate(recording.imu_ns.tolist()):
            monitor.imu(stamp_ns, recording.f_B[i], recording.w_B[i])
            if i % 5 == 0:
                monitor.external_pose(stamp_ns, A_p @ away @ p_W[i], np.roll(q[i], 1))
        report = monitor.report()
        assert report.get("external_pose", "").startswith(said)
        assert bool(report) == bool(said)
