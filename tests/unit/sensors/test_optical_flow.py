"""Optical flow sensor against closed forms, and a published algorithm on rendered pictures."""

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import ndimage
from scipy.spatial.transform import Rotation
from sensor_rig import assert_deviation

from quadsim.base.records import KINEMATICS
from quadsim.sensors.devices import load_device
from quadsim.sensors.model import SimulatedSensor
from quadsim.sensors.optical_flow import MODEL, OpticalFlowParams
from quadsim.world.environment import EnvironmentParams
from quadsim.world.scene.obstacles import Box, Obstacle, Pose
from quadsim.world.scene.scene import EMPTY_SCENE, Scene, scene_of

Array = NDArray[np.float64]
PERIOD_NS = 10_000_000
DT = PERIOD_NS * 1e-9


def truth(k: int, p_W: Any, q: Rotation) -> Any:
    row = np.zeros(1, KINEMATICS)[0]
    x, y, z, w = q.as_quat()
    row["stamp_ns"], row["p_W"], row["q_WB"] = k * PERIOD_NS, p_W, (w, x, y, z)
    return row


def device(params: OpticalFlowParams, seed: int = 1, scene: Scene = EMPTY_SCENE) -> SimulatedSensor:
    return SimulatedSensor(MODEL, params, EnvironmentParams(), seed, "quad", scene)


def flows(
    params: OpticalFlowParams,
    v_W: Any = (0.0, 0.0, 0.0),
    w_B: Any = (0.0, 0.0, 0.0),
    height_m: float = 2.0,
    q: Rotation | None = None,
    count: int = 1,
    seed: int = 1,
    scene: Scene = EMPTY_SCENE,
) -> Any:
    """Samples of a steady motion, the middle of whose first interval is at the height."""
    sensor, q, found = device(params, seed, scene), q or Rotation.identity(), []
    for k in range(count + 1):
        t = (k - 0.5) * DT
        p_W = np.array([0.0, 0.0, height_m]) + t * np.array(v_W)
        sample = sensor.measure(truth(1 + k, p_W, q * Rotation.from_rotvec(t * np.array(w_B))))
        if sample is not None:
            found.append(sample.copy())
    return np.array(found)


def test_rest_is_no_flow() -> None:
    (sample,) = flows(OpticalFlowParams())
    assert sample["flow"] == pytest.approx([0.0, 0.0, DT], abs=1e-12)
    assert sample["quality"] == 1.0
    assert np.isnan(sample["turn"]).all()


def test_motion_and_rotation_have_the_signs_of_mavlink() -> None:
    """Forward: about y (right) up, ours (left) down; to the left: about x up (docs.px4.io)."""
    (ahead,) = flows(OpticalFlowParams(), v_W=(1.0, 0.0, 0.0))
    assert ahead["flow"][:2] == pytest.approx([0.0, -0.5 * DT], abs=1e-12)
    (left,) = flows(OpticalFlowParams(), v_W=(0.0, 1.0, 0.0))
    assert left["flow"][:2] == pytest.approx([0.5 * DT, 0.0], abs=1e-12)
    (turned,) = flows(OpticalFlowParams(gyro=True), w_B=(0.3, -0.2, 0.0))
    assert turned["flow"][:2] == pytest.approx([0.3 * DT, -0.2 * DT], abs=1e-9)
    assert turned["turn"] == pytest.approx([0.3 * DT, -0.2 * DT, 0.0], abs=1e-9)


def test_distance_is_along_the_view_and_to_what_stands_there() -> None:
    q = Rotation.from_euler("y", 0.4)
    (tilted,) = flows(OpticalFlowParams(), v_W=(0.0, 1.0, 0.0), q=q)
    assert tilted["flow"][0] == pytest.approx(DT * math.cos(0.4) / 2.0, rel=1e-9)
    table = scene_of([Obstacle("table", Box((2.0, 2.0, 1.0)), Pose((0.0, 0.0, 0.5)))])
    (above,) = flows(OpticalFlowParams(), v_W=(0.0, 1.0, 0.0), scene=table)
    assert above["flow"][0] == pytest.approx(DT * 1.0, rel=1e-9)


def test_a_mount_turns_and_swings() -> None:
    """Turned by 90 deg about z, and 0.2 m ahead of a vehicle that pitches: it moves up and down."""
    turned = OpticalFlowParams(rotation_deg=(0.0, 0.0, 90.0))
    (sample,) = flows(turned, v_W=(1.0, 0.0, 0.0))
    # forward is to its right
    assert sample["flow"][:2] == pytest.approx([-0.5 * DT, 0.0], abs=1e-12)
    low = OpticalFlowParams(position_B_m=(0.0, 0.0, -0.1))
    (swung,) = flows(low, w_B=(0.5, 0.0, 0.0))
    # w x (0, 0, -0.1) goes along +y
    assert swung["flow"][0] == pytest.approx(0.5 * DT * (1.0 + 0.1 / 1.9), rel=1e-4)


def test_white_noise_has_its_deviation_and_grows_without_contrast() -> None:
    count = 4000
    full = OpticalFlowParams(noise_sigma_rad=1e-3)
    poor = OpticalFlowParams(noise_sigma_rad=1e-3, texture=0.125)
    for params, sigma in ((full, 1e-3), (poor, 4e-3)):
        samples = flows(params, count=count)
        assert samples["variance_rad2"] == pytest.approx(sigma**2, rel=1e-9)
        assert_deviation(samples["flow"][:, :2], sigma)


def test_the_scale_is_drawn_once() -> None:
    params = OpticalFlowParams(scale_sigma=0.02)
    scales = [
        flows(params, v_W=(1.0, 0.0, 0.0), seed=k)["flow"][0, 1] / (-0.5 * DT) - 1.0
        for k in range(200)
    ]
    assert_deviation(np.array(scales)[:, None], 0.02)


def test_its_own_gyroscope_has_a_bias_of_its_own() -> None:
    params = OpticalFlowParams(gyro=True, gyro_turn_on_sigma_radps=0.02)
    biases = np.array([flows(params, seed=k)["turn"][0] / DT for k in range(150)])
    assert_deviation(biases, 0.02)
    walking = OpticalFlowParams(gyro=True, gyro_noise_density=1e-3)
    assert_deviation(flows(walking, count=3000)["turn"] / math.sqrt(DT), 1e-3)


def test_counts_dead_band_and_the_fastest_flow() -> None:
    counts = OpticalFlowParams(step_rad=2e-3)
    (sample,) = flows(counts, v_W=(1.0, 0.0, 0.0))
    assert sample["flow"][1] == pytest.approx(-0.004)  # of 0.005, half up
    slow = OpticalFlowParams(dead_band_rad=1e-2)
    assert flows(slow, v_W=(1.0, 0.0, 0.0))[0]["flow"][1] == 0.0
    fast = OpticalFlowParams(range_radps=7.4)
    assert np.isnan(flows(fast, v_W=(15.0, 0.0, 0.0))[0]["flow"][:2]).all()
    assert flows(fast, v_W=(15.0, 0.0, 0.0))[0]["quality"] == 0.0


@pytest.mark.parametrize(
    ("params", "height_m", "v", "quality"),
    [
        (OpticalFlowParams(texture=0.3), 1.0, 0.0, 0.3),
        (OpticalFlowParams(least_light_lux=60.0, light_lux=60.0), 1.0, 0.0, 0.5),
        (OpticalFlowParams(distance_min_m=0.08), 0.08, 0.0, 0.5),
        (OpticalFlowParams(exposure_s=0.01, pixel_rad=0.02), 1.0, 2.0, 0.5),
    ],
    ids=["texture", "light", "focus", "blur"],
)
def test_quality_falls_where_it_should(
    params: OpticalFlowParams, height_m: float, v: float, quality: float
) -> None:
    (sample,) = flows(params, v_W=(v, 0.0, 0.0), height_m=height_m)
    assert sample["quality"] == pytest.approx(quality, rel=1e-6)


def test_nothing_is_measured_in_the_dark_or_beyond_reach() -> None:
    dark = OpticalFlowParams(light_lux=1.0, least_light_lux=60.0)
    assert np.isnan(flows(dark)[0]["flow"][:2]).all()
    far = OpticalFlowParams(distance_max_m=5.0)
    assert np.isnan(flows(far, height_m=5.1)[0]["flow"][:2]).all()


@pytest.mark.parametrize("name", ["pmw3901", "ark_flow", "px4flow", "ideal_optical_flow"])
def test_shipped_devices_measure_over_a_floor(name: str) -> None:
    params = load_device("optical_flow", name)
    sensor, found = device(params), []
    period_ns = round(1e9 / params.rate_hz)
    for k in range(200):
        row = truth(0, (k * 0.5 / params.rate_hz, 0.0, 1.0), Rotation.identity())
        row["stamp_ns"] = (k + 1) * period_ns
        sample = sensor.measure(row)
        found += [] if sample is None else [sample.copy()]
    rate = np.array([s["flow"][1] for s in found[1:]]) * params.rate_hz
    sigma = math.sqrt(found[-1]["variance_rad2"]) * params.rate_hz
    assert abs(rate.mean() + 0.5) < 1e-9 + 4.0 * (
        0.5 * params.scale_sigma + sigma / math.sqrt(len(rate))
    )


# ---- a published algorithm on rendered pictures --------------------------------------------------

PIXELS, FOV_RAD, TEXTURE_M = 160, math.radians(42.0), 0.01


def picture(ground: Array, p_W: Array, R_WS: Rotation) -> Array:
    """What a pinhole that looks along its -z sees of a flat, textured ground."""
    half = math.tan(0.5 * FOV_RAD)
    u = (np.arange(PIXELS) + 0.5) / PIXELS * 2.0 * half - half
    x, y = np.meshgrid(u, u, indexing="ij")
    rays = R_WS.apply(np.stack([x, y, -np.ones_like(x)], axis=-1).reshape(-1, 3))
    places = p_W[:2] - rays[:, :2] * (p_W[2] / rays[:, 2])[:, None]
    at = places.T / TEXTURE_M + 0.5 * ground.shape[0]
    return np.asarray(ndimage.map_coordinates(ground, at, order=3).reshape(PIXELS, PIXELS))


@pytest.mark.parametrize(
    ("v_W", "w_B"),
    [
        ((0.4, 0.0, 0.0), (0.0, 0.0, 0.0)),
        ((0.3, -0.5, 0.0), (0.0, 0.0, 0.0)),
        ((0.0, 0.0, 0.0), (0.25, 0.3, 0.0)),
        ((0.3, 0.2, 0.0), (0.2, -0.3, 0.0)),
    ],
)
def test_mean_equals_lucas_kanade_on_rendered_pictures(v_W: Any, w_B: Any) -> None:
    """Pyramidal Lucas-Kanade of OpenCV (Bouguet 2001) in the middle of two pictures: within 2 %."""
    cv2 = pytest.importorskip("cv2")
    rng = np.random.default_rng(4)
    ground = ndimage.gaussian_filter(rng.normal(size=(600, 600)), 2.0)
    ground = (ground - ground.min()) / np.ptp(ground) * 255.0
    interval_s, height_m = 0.05, 1.2
    poses = [
        (
            np.array([0.0, 0.0, height_m]) + t * np.array(v_W),
            Rotation.from_rotvec(t * np.array(w_B)),
        )
        for t in (-0.5 * interval_s, 0.5 * interval_s)
    ]
    before, after = (np.clip(picture(ground, *pose), 0, 255).astype(np.uint8) for pose in poses)
    middle = np.linspace(0.4, 0.6, 8) * PIXELS
    points = np.array([(a, b) for a in middle for b in middle], np.float32)[:, None]
    moved, found, _ = cv2.calcOpticalFlowPyrLK(before, after, points, None, winSize=(31, 31))
    pixels = (moved - points)[found.ravel() == 1, 0].mean(axis=0)
    # columns of the picture are y, rows x; a point's way in the picture, over the focal length
    focal = 0.5 * PIXELS / math.tan(0.5 * FOV_RAD)
    way_y, way_x = pixels / focal
    seen = np.array([-way_y, way_x])
    sensor = device(OpticalFlowParams(rate_hz=1.0 / interval_s))
    sample = None
    for k, (p_W, q) in enumerate(poses):
        row = truth(0, p_W, q)
        row["stamp_ns"] = (k + 1) * round(1e9 * interval_s)
        sample = sensor.measure(row)
    assert sample is not None
    error = np.linalg.norm(sample["flow"][:2] - seen)
    assert error < 0.02 * np.linalg.norm(sample["flow"][:2]), (sample["flow"], seen)
