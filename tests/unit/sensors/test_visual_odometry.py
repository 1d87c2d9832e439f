"""Visual odometry: its frame, its drift, losses and jumps, and the published size of its errors."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from quadsim.base.errors import InputError
from quadsim.base.records import KINEMATICS
from quadsim.sensors import SENSORS
from quadsim.sensors.devices import load_device
from quadsim.sensors.faults import FaultParams
from quadsim.sensors.model import SimulatedSensor
from quadsim.sensors.visual_odometry import VisualOdometryParams
from quadsim.world.environment import EnvironmentParams

Array = NDArray[np.float64]
MODEL = SENSORS["visual_odometry"]
PERIOD_NS = 50_000_000


def flown(duration_s: float, speed_mps: float = 1.0) -> NDArray[Any]:
    """Truth at 20 Hz: through a room of 8 m by 8 m, the nose along the way."""
    t = np.arange(round(duration_s * 1e9 / PERIOD_NS)) * PERIOD_NS * 1e-9
    a = speed_mps * t / 4.0
    truth = np.zeros(len(t), KINEMATICS)
    truth["stamp_ns"] = np.arange(1, len(t) + 1) * PERIOD_NS
    truth["p_W"] = np.column_stack([4 * np.cos(a), 4 * np.sin(a), 1.5 + 0.5 * np.sin(0.5 * a)])
    yaw = a + np.pi / 2
    truth["q_WB"] = np.column_stack([np.cos(yaw / 2), 0 * a, 0 * a, np.sin(yaw / 2)])
    truth["w_B"][:, 2] = speed_mps / 4.0
    return truth


def copied(sample: np.record | None) -> Any:
    """A sample that the next one does not overwrite: of a record, ``copy`` is a view."""
    return None if sample is None else np.frombuffer(sample.tobytes(), sample.dtype)[0]


def seen(truth: NDArray[Any], faults: Any = (), seed: int = 1, **params: Any) -> NDArray[Any]:
    """What a device gives of a truth, by its stamps."""
    device = VisualOdometryParams(rate_hz=20.0, **params)
    sensor = SimulatedSensor(MODEL, device, EnvironmentParams(), seed, "quad", faults=faults)
    found = [copied(sensor.measure(row)) for row in truth]
    return np.array([row for row in found if row is not None])


def errors_of(samples: NDArray[Any], truth: NDArray[Any]) -> tuple[Array, Array, Array]:
    """Errors of position (n, 3) and yaw (n,) in the frame of the first pose, and the way (n,)."""
    p_W = truth["p_W"][np.isin(truth["stamp_ns"], samples["stamp_ns"])]
    R = Rotation.from_quat(
        truth["q_WB"][np.isin(truth["stamp_ns"], samples["stamp_ns"])][:, [1, 2, 3, 0]]
    )
    F = Rotation.from_quat(samples["q_FB"][:, [1, 2, 3, 0]])
    turn = F[0] * R[0].inv()
    expected = samples["p_F"][0] + turn.apply(p_W - p_W[0])
    yaw = (F * (turn * R).inv()).as_rotvec()[:, 2]
    way = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(p_W, axis=0), axis=1))])
    return samples["p_F"] - expected, yaw, way


def test_without_errors_it_is_the_motion_in_a_frame_of_its_own() -> None:
    truth = flown(60.0)
    samples = seen(truth, origin_sigma_m=10.0, frame_yaw_sigma_deg=180.0)
    errors, yaw, _ = errors_of(samples, truth)
    assert np.abs(errors).max() < 1e-9
    assert np.abs(yaw).max() < 1e-9
    assert np.linalg.norm(samples["p_F"][0] - truth["p_W"][0]) > 1.0
    plain = seen(truth)
    np.testing.assert_allclose(plain["p_F"], truth["p_W"][-len(plain) :], atol=1e-9)


@pytest.mark.parametrize(
    ("term", "value"),
    [("position_walk", 0.05), ("yaw_walk_deg", 0.5), ("turn_walk_deg", 0.5), ("scale_sigma", 0.02)],
)
def test_each_error_alone_grows_as_it_is_declared(term: str, value: float) -> None:
    """Over 30 units; the variance of 30 normal numbers is known to 26 % (2.5 sigma: 65 %)."""
    truth = flown(20.0)
    found = []
    for seed in range(30):
        samples = seen(truth, seed=seed, **{term: value})
        errors, yaw, way = errors_of(samples, truth)
        if term == "position_walk":
            found.append(errors[-1] / np.sqrt(way[-1]))
        elif term == "yaw_walk_deg":
            found.append(np.degrees(yaw[-1:]) / np.sqrt(way[-1]))
        elif term == "turn_walk_deg":
            found.append(np.degrees(yaw[-1:]) / np.sqrt(way[-1] / 4.0))
        else:
            far = samples["p_F"][200] - samples["p_F"][0]
            found.append([errors[200] @ far / (far @ far)])
    assert np.mean(np.square(found)) == pytest.approx(value**2, rel=0.65)


def test_white_noise_is_that_of_its_figures() -> None:
    samples = seen(
        flown(100.0, 0.0), noise_sigma_m=0.01, noise_yaw_sigma_deg=1.0, noise_tilt_sigma_deg=0.5
    )
    turns = np.degrees(Rotation.from_quat(samples["q_FB"][:, [1, 2, 3, 0]]).as_euler("ZYX"))
    n = len(samples)  # deviation of a deviation: 1 / sqrt(2 n)
    bound = 4.0 / np.sqrt(2 * n)
    np.testing.assert_allclose(samples["p_F"].std(axis=0), 0.01, rtol=bound)
    np.testing.assert_allclose(turns.std(axis=0), [1.0, 0.5, 0.5], rtol=bound)


def test_it_is_lost_in_fast_turns_and_by_an_outage() -> None:
    """Nothing then; afterwards its frame has jumped."""
    truth = flown(20.0)
    truth["w_B"][100:120, 2] = 8.0
    faults = [FaultParams("outage", at_s=12.0, duration_s=2.0)]
    samples = seen(
        truth, faults, turn_rate_max_radps=6.0, relocalised_sigma_m=0.5, loss_probability=0.0
    )
    lost = np.isnan(samples["p_F"][:, 0])
    t_s = samples["stamp_ns"] * 1e-9
    np.testing.assert_array_equal(
        lost, ((t_s > 5.01) & (t_s < 6.01)) | ((t_s > 11.99) & (t_s < 13.99))
    )
    good = samples[~lost]
    errors, _, _ = errors_of(good, truth)
    steps = np.linalg.norm(np.diff(errors, axis=0), axis=1)
    assert np.count_nonzero(steps > 0.05) == 2


def test_a_jump_is_what_a_fault_says_and_a_closure_takes_the_drift_back() -> None:
    truth = flown(20.0)
    samples = seen(truth, [FaultParams("jump", at_s=10.0, value=(1.0, -2.0, 0.5, 20.0))])
    errors, yaw, _ = errors_of(samples, truth)
    at = int(np.argmax(np.abs(yaw) > 0.1))
    assert samples["stamp_ns"][at] == 10_000_000_000
    np.testing.assert_allclose(errors[at] - errors[at - 1], [1.0, -2.0, 0.5], atol=1e-6)
    np.testing.assert_allclose(np.degrees(yaw[at:]), 20.0, atol=1e-6)
    drifting = {"position_walk": 0.3, "yaw_walk_deg": 1.0}
    open_m = np.linalg.norm(errors_of(seen(truth, **drifting), truth)[0], axis=1)
    closed_m = np.linalg.norm(
        errors_of(seen(truth, closure_rate_hz=2.0, **drifting), truth)[0], axis=1
    )
    assert closed_m.mean() < 0.5 * open_m.mean()


def test_variances_are_those_of_the_errors_or_as_dishonest_as_asked() -> None:
    """Position and yaw after 20 m: over 30 units the mean square of errors over variances is 1."""
    device = load_device("visual_odometry", "vio_euroc")
    params = {
        name: getattr(device, name)
        for name in ("position_walk", "yaw_walk_deg", "turn_walk_deg", "scale_sigma")
    }
    truth = flown(20.0)
    stated = seen(truth, **params)["variances"]
    ratios = []
    for seed in range(30):
        errors, yaw, _ = errors_of(seen(truth, seed=seed, **params), truth)
        ratios.append([yaw[-1] ** 2 / stated[-1, 5], errors[-1, 2] ** 2 / stated[-1, 2]])
    mean = np.mean(ratios, axis=0)
    assert 0.35 < mean[0] < 1.65
    assert 0.35 < mean[1] < 1.65
    small = seen(truth, stated_ratio=0.01, **params)["variances"]
    np.testing.assert_allclose(small, 1e-4 * stated)


def test_the_device_has_the_published_errors() -> None:
    """OpenVINS on EuRoC: 1.13 deg, 0.18 m RMSE over flights of 81 m, aligned in yaw and place."""
    device = load_device("visual_odometry", "vio_euroc")
    truth, found = flown(81.0), []
    for seed in range(12):
        sensor = SimulatedSensor(MODEL, device, EnvironmentParams(), seed, "quad")
        rows = [copied(sensor.measure(row)) for row in truth]
        samples = np.array([row for row in rows if row is not None])
        p_W = truth["p_W"][np.isin(truth["stamp_ns"], samples["stamp_ns"])]
        p_F = samples["p_F"]
        a, b = p_W - p_W.mean(axis=0), p_F - p_F.mean(axis=0)
        # best turn about z (Umeyama 1991, of four degrees of freedom)
        yaw = np.arctan2((a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]).sum(), (a * b)[:, :2].sum())
        align = Rotation.from_euler("Z", yaw)
        q_WB = truth["q_WB"][np.isin(truth["stamp_ns"], samples["stamp_ns"])][:, [1, 2, 3, 0]]
        turn = (align * Rotation.from_quat(q_WB)).inv() * Rotation.from_quat(
            samples["q_FB"][:, [1, 2, 3, 0]]
        )
        rmse_m = np.sqrt(((b - align.apply(a)) ** 2).sum(axis=1).mean())
        found.append((np.degrees(np.sqrt((turn.magnitude() ** 2).mean())), rmse_m))
    degrees, metres = np.mean(found, axis=0)
    assert 0.8 < degrees < 1.6
    assert 0.11 < metres < 0.32


def test_faults_of_others_are_refused() -> None:
    with pytest.raises(InputError, match=r"'jump' is a fault of visual_odometry, not of imu"):
        SimulatedSensor(
            SENSORS["imu"], SENSORS["imu"].params_type(), EnvironmentParams(), 1, "quad",
            faults=[FaultParams("jump", value=(0.0, 0.0, 0.0, 0.0))],
        )  # fmt: skip
