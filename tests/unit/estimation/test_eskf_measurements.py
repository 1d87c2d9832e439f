"""Updates of the error-state filter: rows by finite differences, dense algebra, signs, gates."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from quadsim.base.parameters import pack
from quadsim.estimation.eskf import (
    aiding,
    gnss_heading,
    heights,
    magnetic_field,
    odometry,
    optical_flow,
)
from quadsim.estimation.eskf import gnss as measurements
from quadsim.estimation.eskf.alignment import new_eskf
from quadsim.estimation.eskf.driver import upper_half
from quadsim.estimation.eskf.gnss import fuse_gnss_position, fuse_gnss_velocity
from quadsim.estimation.eskf.heights import fuse_pressure, fuse_range
from quadsim.estimation.eskf.input_validation import accept
from quadsim.estimation.eskf.layout import (
    ACCEPTED,
    ANTENNA,
    BA,
    BG,
    FIELD,
    FIELD_BIAS,
    FLOW_SCALE,
    FRAME,
    FRAME_SCALE,
    FRAME_YAW,
    GNSS_BIAS,
    GNSS_POSITION,
    GNSS_TIME,
    GNSS_VELOCITY,
    IGNORED,
    MAGNETIC_FIELD,
    PRESSURE,
    PRESSURE_SCALE,
    RANGE,
    REASON_GNSS_POSITION,
    REJECTED,
    SENSORS,
    STATIC_PRESSURE,
    TERRAIN,
    THETA,
    WIND,
    N,
    P,
    V,
)
from quadsim.estimation.eskf.measurement_buffer import new_timeline
from quadsim.estimation.eskf.parameters import (
    AlignParams,
    EstimatorParams,
    FusionParams,
    MountingParams,
    NisParams,
    NoiseParams,
)
from quadsim.estimation.eskf.update import HEADING_MOVED_RAD, LARGE_TILT_RAD
from quadsim.world.air.atmosphere import height_of, pressure_at

Array = NDArray[np.float64]
FIELD_W = np.array([0.0, 2.15e-5, -4.3e-5])
#: Every state is carried; the field counts as heading alone where no test is about its inclination.
FULL = replace(
    EstimatorParams(),
    start=AlignParams(field_bias_T=1e-6, lever_arm_m=0.1, field_T=1e-6, flow_scale=0.1),
    fusion=FusionParams(drag_per_s=0.3, magnetic_inclination=False),
)
MOUNTED = replace(
    FULL,
    ground_height_m=-2.0,
    mount=MountingParams(
        imu_position_B_m=(0.05, -0.02, 0.03),
        imu_roll_pitch_yaw_deg=(10.0, -20.0, 30.0),
        antenna_position_B_m=(-0.3, 0.2, 0.4),
        baseline_B_m=(0.4, -0.3, 0.2),
        rangefinder_position_B_m=(0.1, 0.2, -0.15),
        flow_position_B_m=(-0.1, 0.05, -0.1),
        flow_roll_pitch_yaw_deg=(3.0, -5.0, 40.0),
    ),
    # nothing is rejected where the row and the algebra are tested
    gate=NisParams(chi2_1=1e9, chi2_3=1e9),
)
#: What is added to the nominal state, and where it is in the error state; the attitude is turned.
ADDED = {
    "v_W": slice(V, V + 3), "p_W": slice(P, P + 3), "gyro_bias_S": slice(BG, BG + 3),
    "accel_bias_S": slice(BA, BA + 3), "pressure_offset_m": PRESSURE,
    "pressure_scale": PRESSURE_SCALE, "gnss_time_s": GNSS_TIME, "terrain_height_m": TERRAIN,
    "gnss_bias_W": slice(GNSS_BIAS, GNSS_BIAS + 3),
    "field_bias_S_T": slice(FIELD_BIAS, FIELD_BIAS + 3), "antenna_S": slice(ANTENNA, ANTENNA + 3),
    "field_W_T": slice(FIELD, FIELD + 3), "wind_W_mps": slice(WIND, WIND + 2),
    "flow_scale": FLOW_SCALE, "frame_p_W": slice(FRAME, FRAME + 3), "frame_yaw": FRAME_YAW,
    "frame_scale": FRAME_SCALE,
}  # fmt: skip
NOMINAL = ("q_WS", "covariance", *ADDED)
#: Of the error states: fields are microteslas.
SCALE = np.ones(N)
SCALE[FIELD_BIAS : FIELD_BIAS + 3] = SCALE[FIELD : FIELD + 3] = 1e-6


def mount_of(params: EstimatorParams) -> Rotation:
    """R_BS, by scipy."""
    roll, pitch, yaw = params.mount.imu_roll_pitch_yaw_deg
    return Rotation.from_euler("ZYX", [yaw, pitch, roll], degrees=True)


def attitude(state: Any) -> Rotation:
    return Rotation.from_quat([*state.q_WS[1:], state.q_WS[0]])


def running(params: EstimatorParams, rng: np.random.Generator, size: float = 0.1) -> Any:
    """A filter in some lively state with a full covariance."""
    state = new_eskf(pack(params))
    state.running = 1
    state.imu_count = 10
    state.period_s = 0.01
    state.stamp_ns = state.imu_stamp_ns = 5_000_000_000
    state.p_W = rng.normal([0.0, 0.0, 8.0], 3.0)
    state.v_W = rng.normal(0.0, 3.0, 3)
    x, y, z, w = Rotation.from_euler("ZYX", rng.uniform(-0.4, 0.4, 3)).as_quat()
    state.q_WS = w, x, y, z
    R_WS = attitude(state) * mount_of(params)  # a level vehicle, not a level IMU
    x, y, z, w = R_WS.as_quat()
    state.q_WS = w, x, y, z
    state.gyro_bias_S = rng.normal(0.0, 0.01, 3)
    state.accel_bias_S = rng.normal(0.0, 0.1, 3)
    state.w_S = rng.normal(0.0, 1.0, 3)
    state.pressure_offset_m = 480.0
    state.pressure_scale, state.pressure_from_m = -0.03, 482.0
    state.pressure_started = 1
    state.terrain_height_m = -1.0
    state.terrain_started = 1
    state.field_bias_S_T = rng.normal(0.0, 1e-6, 3)
    state.wind_W_mps = rng.normal(0.0, 2.0, 2)
    if state.n == FRAME:  # all that parameters ask for: an odometry's states too
        state.n = N
    A = size * rng.normal(size=(N, N)) * SCALE[:, None]
    state.covariance[:] = A @ A.T
    return state


def moved(state: Any, x: Array) -> Any:
    """The true state where the error is x: R exp'ed in the world, the rest added."""
    other = state.copy()
    q = (Rotation.from_rotvec(x[THETA : THETA + 3]) * attitude(state)).as_quat()
    other.q_WS = q[3], q[0], q[1], q[2]
    for name, at in ADDED.items():
        other[name] += x[at]
    return other


def predicted_position(state: Any, params: EstimatorParams) -> Array:
    return np.array(state.p_W) + attitude(state).apply(state.antenna_S)


def predicted_velocity(state: Any, params: EstimatorParams) -> Array:
    w_S = np.array(state.w_S) - state.gyro_bias_S
    return np.array(state.v_W) + attitude(state).apply(np.cross(w_S, state.antenna_S))


def late_position(state: Any, params: EstimatorParams) -> Array:
    """Position of the antenna when the fix was taken; without a past the velocity is as now."""
    late_m = state.gnss_time_s * predicted_velocity(state, params)
    return predicted_position(state, params) - late_m


def base_velocity(state: Any, params: EstimatorParams) -> Array:
    """Of ``base_link``, in its own axes."""
    B_S = mount_of(params)
    w_B = B_S.apply(np.array(state.w_S) - state.gyro_bias_S)
    v_B = (attitude(state) * B_S.inv()).inv().apply(state.v_W)
    return np.asarray(v_B - np.cross(w_B, params.mount.imu_position_B_m))


def pressure_height(state: Any) -> float:
    """Height of the standard atmosphere that has the pressure."""
    way_m = state.p_W[2] + state.pressure_offset_m - state.pressure_from_m
    return float(state.pressure_from_m + (1.0 + state.pressure_scale) * way_m)


def predicted_range(state: Any, params: EstimatorParams) -> float:
    """Slant range down to the flat ground."""
    mount = params.mount
    R_WB = attitude(state) * mount_of(params).inv()
    lever = np.subtract(mount.rangefinder_position_B_m, mount.imu_position_B_m)
    height = state.p_W[2] + R_WB.apply(lever)[2] - params.ground_height_m
    return float(height / R_WB.as_matrix()[2, 2])


def differences(state: Any, predict: Callable[[Any], Any]) -> Array:
    """H by central differences."""
    columns = []
    for k in range(N):
        h = 1e-5 * SCALE[k]
        x = np.zeros(N)
        x[k] = h
        columns.append((predict(moved(state, x)) - predict(moved(state, -x))) / (2.0 * h))
    return np.atleast_2d(np.array(columns).T)


def dense_update(
    covariance: Array, H: Array, noise: Array, innovation: Array
) -> tuple[Array, Array]:
    """Correction and covariance of the textbook's update."""
    S = H @ covariance @ H.T + noise
    K = np.linalg.solve(S, H @ covariance).T
    A = np.eye(N) - K @ H
    return K @ innovation, A @ covariance @ A.T + K @ noise @ K.T


def reset(covariance: Array, before: Any, correction: Array) -> Array:
    """Covariance about the corrected state.

    A large correction of the tilt: exp(theta) exp(-x) by central differences at x. One of the
    heading keeps the errors of what is fixed in the IMU where they are in the world.
    """
    G, h = np.eye(N), 1e-6
    x, y, z = correction[THETA : THETA + 3]
    if np.hypot(x, y) > LARGE_TILT_RAD:
        tilt = np.array([x, y, 0.0])
        back = Rotation.from_rotvec(-tilt)
        for k, e in enumerate(h * np.eye(3)):
            up, down = ((Rotation.from_rotvec(tilt + d) * back).as_rotvec() for d in (e, -e))
            G[THETA : THETA + 3, THETA + k] = (up - down) / (2.0 * h)
    z += before.heading_moved_rad
    if abs(z) > HEADING_MOVED_RAD:
        R = attitude(before)
        turn = (R.inv() * Rotation.from_euler("z", -z) * R).as_matrix()
        for at in (BG, BA, FIELD_BIAS, ANTENNA):
            G[at : at + 3, at : at + 3] = turn
    return np.asarray(G @ covariance @ G.T)


def correction_of(before: Any, after: Any) -> Array:
    x = np.zeros(N)
    x[THETA : THETA + 3] = (attitude(after) * attitude(before).inv()).as_rotvec()
    for name, at in ADDED.items():
        x[at] = after[name] - before[name]
    return x


def upper(covariance: Array) -> tuple[float, ...]:
    """Upper half of a symmetric matrix."""
    return tuple(covariance[np.triu_indices(3)].tolist())


@dataclass(frozen=True)
class Modelled:
    """One measurement: where its kernel is, what it takes, and what its innovation should be.

    ``ideal`` is a measurement that the state predicts; ``take`` what the kernel is called with
    behind state and parameters; ``innovation`` is written here, by scipy: of another state and the
    same measurement.
    """

    kernel: Any
    ideal: Callable[[Any, EstimatorParams], Any]
    take: Callable[[Any, Any, EstimatorParams], tuple[Any, ...]]
    innovation: Callable[[Any, Any, EstimatorParams], Any]
    more: Callable[[EstimatorParams], EstimatorParams] = lambda params: params
    unit: float = 1.0  # of the innovation
    within: float = 1e-6  # of the rows


UNIT = (1.0, 0.0, 0.0, 1.0, 0.0, 1.0)


def base_position(state: Any, params: EstimatorParams) -> Array:
    R_WB = attitude(state) * mount_of(params).inv()
    return np.array(state.p_W) - R_WB.apply(params.mount.imu_position_B_m)


def foot_height(state: Any, range_m: float, params: EstimatorParams) -> float:
    """Height in map of the nearest level ground that a beam of that length reaches."""
    mount = params.mount
    R_WB = attitude(state) * mount_of(params).inv()
    lever = np.subtract(mount.rangefinder_position_B_m, mount.imu_position_B_m)
    tilt = math.acos(R_WB.as_matrix()[2, 2])
    edge = max(tilt - math.radians(0.5 * mount.rangefinder_beam_deg), 0.0)
    return float(state.p_W[2] + R_WB.apply(lever)[2] - range_m * math.cos(edge))


def levelled(state: Any, m_S: Array) -> Array:
    """Field in the world, less its bias."""
    return attitude(state).apply(m_S - state.field_bias_S_T)


def baseline_azimuth(state: Any, params: EstimatorParams) -> float:
    R_WB = attitude(state) * mount_of(params).inv()
    return direction(R_WB.apply(params.mount.baseline_B_m))


def direction(m_W: Array) -> float:
    return math.atan2(m_W[1], m_W[0])


def drag_innovation(state: Any, f_S: Array, params: EstimatorParams) -> Array:
    """Force across the rotors' axis, less that of the drag."""
    R_BS = mount_of(params)
    R_WB = attitude(state) * R_BS.inv()
    air_W = np.array(state.v_W) - [*state.wind_W_mps, 0.0]
    f_B = R_BS.apply(f_S - state.accel_bias_S)
    return (f_B + params.fusion.drag_per_s * R_WB.inv().apply(air_W))[:2]


def force_W(state: Any, f_S: Array) -> Array:
    return attitude(state).apply(f_S - state.accel_bias_S)


def quaternion_of(R: Rotation) -> tuple[float, ...]:
    x, y, z, w = (float(v) for v in R.as_quat())
    return (w, x, y, z)


#: Of a flow: so short that the turn in it is none of second order.
FLOW_S = 1e-5


def predicted_flow(state: Any, params: EstimatorParams) -> Array:
    """Turn that the ground seems to make about the sensor's x and y, over a short time.

    The point where the view meets the ground moves through the picture of a pinhole: its direction
    in the sensor's axes, now less before, over the length of the view.
    """
    R_BF = Rotation.from_euler("ZYX", params.mount.flow_roll_pitch_yaw_deg[::-1], degrees=True)
    R_SF = mount_of(params).inv() * R_BF
    lever_B = np.subtract(params.mount.flow_position_B_m, params.mount.imu_position_B_m)
    lever_S = mount_of(params).inv().apply(lever_B)
    ground_m = params.ground_height_m if params.flat_ground else state.terrain_height_m
    w_S = np.array(state.w_S) - state.gyro_bias_S
    f_W = attitude(state).apply(np.array(state.f_S) - state.accel_bias_S)
    v_W = np.array(state.v_W) - 0.5 * FLOW_S * (f_W - [0.0, 0.0, params.gravity_mps2])
    eyes, axes = [], []
    for t in (-0.5 * FLOW_S, 0.5 * FLOW_S):
        R_WS = attitude(state) * Rotation.from_rotvec((t - 0.5 * FLOW_S) * w_S)
        p_W = np.array(state.p_W) + (t - 0.5 * FLOW_S) * v_W
        eyes.append(p_W + R_WS.apply(lever_S))
        axes.append(R_WS * R_SF)
    between = attitude(state) * Rotation.from_rotvec(-0.5 * FLOW_S * w_S) * R_SF
    middle, view = 0.5 * (eyes[0] + eyes[1]), between.apply([0.0, 0.0, -1.0])
    seen_W = middle + view * (middle[2] - ground_m) / -view[2]
    before, after = (R.inv().apply(seen_W - eye) for R, eye in zip(axes, eyes, strict=True))
    moved = before[:2] / before[2] - after[:2] / after[2]
    return (1.0 + state.flow_scale) * np.array([-moved[1], moved[0]])


RANGE_MODEL = Modelled(
    heights.fuse_range,
    predicted_range,
    lambda state, z, params: (z, 1.0),
    lambda state, z, params: params.ground_height_m - foot_height(state, z, params),
)
FORCE_S = np.array([1.0, -2.0, 9.0])
MODELS = {
    "gnss_position": Modelled(
        measurements.fuse_gnss_position,
        lambda state, params: late_position(state, params) + state.gnss_bias_W,
        lambda state, z, params: (tuple(z), UNIT),
        lambda state, z, params: z - late_position(state, params) - state.gnss_bias_W,
    ),
    "gnss_velocity": Modelled(
        measurements.fuse_gnss_velocity,
        predicted_velocity,
        lambda state, z, params: (tuple(z), UNIT),
        lambda state, z, params: z - predicted_velocity(state, params),
    ),
    "gnss_heading": Modelled(
        gnss_heading.fuse_gnss_heading,
        baseline_azimuth,
        lambda state, z, params: (z, 1.0),
        lambda state, z, params: z - baseline_azimuth(state, params),
    ),
    "heading": Modelled(
        magnetic_field.fuse_magnetic_heading,
        lambda state, params: attitude(state).inv().apply(state.field_W_T) + state.field_bias_S_T,
        lambda state, z, params: (tuple(z), 1.0),
        lambda state, z, params: direction(state.field_W_T) - direction(levelled(state, z)),
    ),
    "inclination": Modelled(
        magnetic_field.fuse_inclination,
        lambda state, params: attitude(state).inv().apply(state.field_W_T) + state.field_bias_S_T,
        lambda state, z, params: (tuple(z), 1.0, 0.0),  # of a heading that turns
        lambda state, z, params: state.field_W_T[2] - levelled(state, z)[2],
        unit=1e-6,
    ),
    "pressure": Modelled(
        heights.fuse_pressure,
        lambda state, params: pressure_at(pressure_height(state)),
        lambda state, z, params: (z, 36.0),
        lambda state, z, params: height_of(z) - pressure_height(state),
    ),
    "range": RANGE_MODEL,
    "range_of_a_wide_beam": replace(
        RANGE_MODEL,
        ideal=lambda state, params: 8.0,
        more=lambda params: replace(params, mount=replace(params.mount, rangefinder_beam_deg=31.0)),
    ),
    "range_over_terrain": replace(
        RANGE_MODEL,
        ideal=lambda state, params: predicted_range(
            state, replace(params, ground_height_m=float(state.terrain_height_m))
        ),
        innovation=lambda state, z, params: state.terrain_height_m - foot_height(state, z, params),
        more=lambda params: replace(params, flat_ground=False),
    ),
    "optical_flow": Modelled(
        optical_flow.fuse_optical_flow,
        predicted_flow,
        lambda state, z, params: ((*z, FLOW_S), 1.0),
        lambda state, z, params: z - predicted_flow(state, params),
        unit=FLOW_S,
        within=5e-5,  # a turn of second order, and rounding over so short a time
    ),
    "optical_flow_over_terrain": Modelled(
        optical_flow.fuse_optical_flow,
        predicted_flow,
        lambda state, z, params: ((*z, FLOW_S), 1.0),
        lambda state, z, params: z - predicted_flow(state, params),
        more=lambda params: replace(
            params, flat_ground=False, noise=replace(params.noise, terrain_walk=0.0)
        ),
        unit=FLOW_S,
        within=5e-5,  # a turn of second order, and rounding over so short a time
    ),
    "external_position": Modelled(
        aiding.fuse_external_position,
        base_position,
        lambda state, z, params: (tuple(z), UNIT),
        lambda state, z, params: z - base_position(state, params),
    ),
    "external_attitude": Modelled(
        aiding.fuse_external_attitude,
        lambda state, params: attitude(state) * mount_of(params).inv(),
        lambda state, z, params: (quaternion_of(z), UNIT),
        lambda state, z, params: (z * mount_of(params) * attitude(state).inv()).as_rotvec(),
    ),
    "zero_velocity": Modelled(
        aiding.fuse_zero_velocity,
        lambda state, params: np.array(state.w_S),
        lambda state, z, params: (tuple(z), UNIT[:3]),
        lambda state, z, params: np.concatenate([-state.v_W, z - state.gyro_bias_S]),
    ),
    "external_velocity": Modelled(
        odometry.fuse_external_velocity,
        base_velocity,
        lambda state, z, params: (tuple(z), UNIT),
        lambda state, z, params: (attitude(state) * mount_of(params).inv()).apply(
            z - base_velocity(state, params)
        ),
    ),
    "gravity": Modelled(
        aiding.fuse_gravity,
        lambda state, params: FORCE_S,
        lambda state, z, params: (tuple(force_W(state, z)), 0.1),
        lambda state, z, params: -force_W(state, z)[:2],
    ),
    "drag": Modelled(
        aiding.fuse_drag,
        lambda state, params: FORCE_S,
        lambda state, z, params: (tuple(force_W(state, z)),),
        drag_innovation,
    ),
}


def random_mount(rng: np.random.Generator) -> EstimatorParams:
    """Sensors anywhere on the vehicle, the IMU turned anyhow."""
    places = rng.normal(0.0, 0.3, (4, 3))
    mount = MountingParams(
        imu_position_B_m=tuple(places[0]),
        imu_roll_pitch_yaw_deg=tuple(rng.uniform([-180, -90, -180], [180, 90, 180])),
        antenna_position_B_m=tuple(places[1]),
        rangefinder_position_B_m=tuple(places[2]),
        flow_position_B_m=tuple(places[3]),
        flow_roll_pitch_yaw_deg=(3.0, -5.0, 40.0),
    )
    noise = NoiseParams(gnss_correlated_share=0.4)
    return replace(MOUNTED, mount=mount, noise=noise, ground_height_m=float(rng.normal(-5.0, 1.0)))


@pytest.mark.parametrize("sensor", MODELS)
def test_rows_equal_central_differences(sensor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """H and innovation of every measurement on random states, mounts and lever arms, to 1e-6.

    The kernel runs as Python, and what it hands to the update is caught.
    """
    caught: list[tuple[Array, Array]] = []

    def catch_scalar(state: Any, sensor: int, innovation: float, *rest: Any) -> int:
        caught.append((state.h[None].copy(), np.array([innovation])))
        return ACCEPTED

    def catch_vector(state: Any, sensor: int, innovation: Any, *rest: Any) -> int:
        caught.append((state.H.copy(), np.array(innovation)))
        return ACCEPTED

    found = (measurements, magnetic_field, heights, aiding, optical_flow, odometry, gnss_heading)
    for module in found:
        monkeypatch.setattr(module, "update_scalar", catch_scalar, raising=False)
        monkeypatch.setattr(module, "update_vector", catch_vector, raising=False)
    rng = np.random.default_rng(31)
    model = MODELS[sensor]
    for _ in range(25):
        params = model.more(random_mount(rng))
        state = running(params, rng, size=1e-3)
        state.gnss_bias_W = rng.normal(0.0, 1.0, 3)
        state.field_W_T = FIELD_W + rng.normal(0.0, 5e-6, 3)
        state.antenna_S += rng.normal(0.0, 0.1, 3)
        z = model.ideal(state, params)
        H = -differences(state, lambda s, z=z, p=params: model.innovation(s, z, p))
        innovation = np.atleast_1d(model.innovation(state, z, params))
        caught.clear()
        kernel = getattr(model.kernel, "py_func", model.kernel)
        assert kernel(state, pack(params), *model.take(state, z, params)) == ACCEPTED
        rows = np.vstack([rows for rows, _ in caught])
        scale = SCALE / model.unit
        np.testing.assert_allclose(
            rows * scale, H.reshape(-1, N) * scale, rtol=0.0, atol=model.within
        )
        values = np.concatenate([values for _, values in caught])
        np.testing.assert_allclose(values, innovation, rtol=0.0, atol=max(1e-9 * model.unit, 1e-10))


def test_noise_of_a_slanted_beam_turns_the_attitude_by_nothing_on_average() -> None:
    """Standing on a slope, ranges that are off by as much either way take each other back.

    With the beam's measured length in the row they would not: on 20 degrees 0.08 rad a minute.
    """
    params = replace(FULL, flat_ground=False)
    state = running(params, np.random.default_rng(3))
    state.q_WS = math.cos(math.radians(10.0)), 0.0, math.sin(math.radians(10.0)), 0.0
    state.terrain_height_m = foot_height(state, 0.3, params)
    turns = []
    for error_m in (0.01, -0.01):
        moved = state.copy()
        fuse = getattr(heights.fuse_range, "py_func", heights.fuse_range)
        assert fuse(moved, pack(params), 0.3 + error_m, 1e-4) == ACCEPTED
        turns.append((attitude(state).inv() * attitude(moved)).as_rotvec())
    assert np.linalg.norm(turns[0]) > 1e-5
    np.testing.assert_allclose(turns[0] + turns[1], 0.0, atol=1e-3 * np.abs(turns[0]).max())


@pytest.mark.parametrize("kind", ["position", "velocity"])
def test_gnss_equals_the_dense_update(kind: str) -> None:
    """Whitened scalars one after the other are the joint update, levers and bias included."""
    rng = np.random.default_rng(11)
    params = pack(MOUNTED)
    for _ in range(10):
        state = running(MOUNTED, rng)
        A = rng.normal(size=(3, 3))
        noise = 0.5 * A @ A.T + 0.1 * np.eye(3)
        fuse, predict = {
            "position": (fuse_gnss_position, late_position),
            "velocity": (fuse_gnss_velocity, predicted_velocity),
        }[kind]
        H = differences(state, lambda s, predict=predict: predict(s, MOUNTED))
        innovation = rng.normal(0.0, 0.3, 3)
        measured = predict(state, MOUNTED) + innovation
        stated = noise.copy()
        if kind == "position":  # the term of second order, of an open heading and lever arm
            P = state.covariance
            turned2 = P[THETA + 2, THETA + 2] * max(
                P[ANTENNA, ANTENNA], P[ANTENNA + 1, ANTENNA + 1]
            )
            noise += np.diag([turned2, turned2, 0.0])
        correction, covariance = dense_update(np.array(state.covariance), H, noise, innovation)
        before = state.copy()
        assert fuse(state, params, tuple(measured), upper(stated)) == ACCEPTED
        # H by differences is good to 1e-9; gains are up to ten
        np.testing.assert_allclose(correction_of(before, state), correction, rtol=0.0, atol=1e-7)
        covariance = reset(covariance, before, correction)
        np.testing.assert_allclose(state.covariance, covariance, rtol=0.0, atol=1e-7)
        i = GNSS_POSITION if kind == "position" else GNSS_POSITION + 1
        S = H @ before.covariance @ H.T + noise
        assert state.nis[i] == pytest.approx(innovation @ np.linalg.solve(S, innovation), rel=1e-6)
        np.testing.assert_allclose(state.innovation_variance[i], np.diag(S), rtol=1e-6)
        np.testing.assert_allclose(state.innovation[i], innovation, rtol=0.0, atol=1e-12)


def test_pressure_equals_the_dense_update() -> None:
    rng = np.random.default_rng(14)
    params = pack(FULL)
    state = running(FULL, rng)
    H = np.zeros((1, N))
    H[0, P + 2] = H[0, PRESSURE] = 1.0 + state.pressure_scale
    H[0, PRESSURE_SCALE] = state.p_W[2] + state.pressure_offset_m - state.pressure_from_m
    height_m = pressure_height(state) + 0.05
    slope = (pressure_at(height_m + 0.5) - pressure_at(height_m - 0.5)) ** -1.0
    noise = np.array([[(6.0 * slope) ** 2]])
    correction, covariance = dense_update(np.array(state.covariance), H, noise, np.array([0.05]))
    before = state.copy()
    assert fuse_pressure(state, params, pressure_at(height_m), 36.0) == ACCEPTED
    # the slope's difference quotient is good to 1e-8, the pressure's inverse to 1e-9 m
    np.testing.assert_allclose(correction_of(before, state), correction, rtol=0.0, atol=1e-7)
    np.testing.assert_allclose(state.covariance, covariance, rtol=0.0, atol=1e-8)


def test_pressure_tells_no_height_but_its_changes() -> None:
    """A height that is off by metres, as fixes find later, is not the scale's of 20 K, nor known.

    A hundred pressures at rest, whose only information is on height plus offset.
    """
    params = pack(FULL)
    state = running(FULL, np.random.default_rng(15))
    state.pressure_started = 0
    off_m = 8.0
    state.p_W[2] += off_m
    state.covariance[:, :] = 0.0
    state.covariance[P + 2, P + 2] = off_m**2
    state.covariance[PRESSURE_SCALE, PRESSURE_SCALE] = 0.07**2
    assert fuse_pressure(state, params, pressure_at(503.0), 36.0) == ACCEPTED
    height_m = float(state.p_W[2] - off_m)
    fuse_gnss_position(state, params, (*state.p_W[:2], height_m), upper(4.0 * np.eye(3)))
    before, before_scale = np.array(state.covariance), float(state.pressure_scale)
    assert abs(state.p_W[2] - height_m) < 1.0
    for _ in range(100):
        assert fuse_pressure(state, params, pressure_at(503.0), 36.0) == ACCEPTED
    # the first pressure's own noise has become way: 0.6 m of 6 Pa, which 7 % make 0.04 m
    assert abs(state.pressure_scale - before_scale) < 0.1 * 0.07
    assert state.covariance[P + 2, P + 2] == pytest.approx(before[P + 2, P + 2], rel=0.01)


def test_first_pressure_sets_the_offset_and_its_correlation() -> None:
    rng = np.random.default_rng(16)
    params = pack(FULL)
    state = running(FULL, rng)
    state.pressure_started = 0
    before = np.array(state.covariance)
    assert fuse_pressure(state, params, pressure_at(503.0), 36.0) == ACCEPTED
    assert state.pressure_offset_m + state.p_W[2] == pytest.approx(503.0, abs=1e-6)
    np.testing.assert_array_equal(state.covariance[PRESSURE, :PRESSURE], -before[P + 2, :PRESSURE])
    noise = (6.0 / (pressure_at(503.5) - pressure_at(502.5))) ** 2
    assert state.covariance[PRESSURE, PRESSURE] == pytest.approx(before[8, 8] + noise, rel=1e-6)
    assert np.linalg.eigvalsh(state.covariance).min() > -1e-12


def test_rejected_measurements_leave_the_state_bit_equal() -> None:
    rng = np.random.default_rng(17)
    params = pack(FULL)
    state = running(FULL, rng, size=0.01)
    before = {name: np.array(state[name]).tobytes() for name in NOMINAL}
    far = tuple(np.array(state.p_W) + 50.0)
    turned = attitude(state).inv().apply(Rotation.from_rotvec([0.0, 0.0, 3.0]).apply(FIELD_W))
    assert fuse_gnss_position(state, params, far, upper(np.eye(3))) == REJECTED
    assert fuse_gnss_velocity(state, params, far, upper(0.01 * np.eye(3))) == REJECTED
    assert magnetic_field.fuse_magnetic_field(state, params, tuple(turned), 0.01, 1e-14) == REJECTED
    assert fuse_pressure(state, params, pressure_at(600.0), 36.0) == REJECTED
    assert fuse_range(state, params, 60.0, 0.01) == REJECTED
    for name in NOMINAL:
        assert np.array(state[name]).tobytes() == before[name], name
    messages = [SENSORS.index(name) for name in SENSORS[: RANGE + 1]]
    np.testing.assert_array_equal(state.rejected[messages], 1)
    np.testing.assert_array_equal(state.accepted, 0)


def test_useless_measurements_are_ignored() -> None:
    rng = np.random.default_rng(18)
    params = pack(FULL)
    state = running(FULL, rng)
    before = {name: np.array(state[name]).tobytes() for name in NOMINAL}
    for range_m in (math.inf, -math.inf, math.nan, 0.001, 1000.0):
        assert fuse_range(state, params, range_m, 0.01) == IGNORED
    tilted = state.copy()
    tilted.q_WS = math.cos(0.4), math.sin(0.4), 0.0, 0.0  # 46 degrees, 35 are the limit
    assert fuse_range(tilted, params, 8.0, 0.01) == IGNORED
    up = tuple(attitude(state).inv().apply([0.0, 0.0, 4e-5]))
    assert magnetic_field.fuse_magnetic_field(state, params, up, 0.01, 1e-14) == IGNORED
    flat = np.diag([1.0, 1.0, 0.0])  # no covariance of a measurement
    assert fuse_gnss_position(state, params, tuple(state.p_W), upper(flat)) == IGNORED
    for name in NOMINAL:
        assert np.array(state[name]).tobytes() == before[name], name
    assert state.accepted[MAGNETIC_FIELD] == state.accepted[RANGE] == 0


def test_unknown_variances_take_the_defaults() -> None:
    rng = np.random.default_rng(19)
    estimator_params = FULL
    params = pack(estimator_params)
    noise = estimator_params.noise
    known, unknown = (running(estimator_params, np.random.default_rng(19)) for _ in range(2))
    m_S = tuple(attitude(known).inv().apply(FIELD_W))
    magnetic_field.fuse_magnetic_field(
        known, params, m_S, noise.heading_sigma_rad**2, noise.field_sigma_T**2
    )
    magnetic_field.fuse_magnetic_field(unknown, params, m_S, 0.0, 0.0)
    fuse_pressure(known, params, 95000.0, noise.pressure_sigma_pa**2)
    fuse_pressure(unknown, params, 95000.0, 0.0)
    fuse_range(known, params, 8.0, noise.range_sigma_m**2)
    fuse_range(unknown, params, 8.0, 0.0)
    np.testing.assert_array_equal(known.covariance, unknown.covariance)
    np.testing.assert_array_equal(known.nis, unknown.nis)
    for kind, sigma in (
        (GNSS_POSITION, noise.gnss_position_sigma_m),
        (GNSS_VELOCITY, noise.gnss_velocity_sigma_mps),
    ):
        lines = [new_timeline(estimator_params) for _ in range(2)]
        for line, variance in zip(lines, (np.square(sigma), np.zeros(3)), strict=True):
            assert accept(line, kind, 1, rng.normal(size=3), np.diag(variance).ravel()) == 0
        stated, default = (upper_half(line[0].events[0].values, 3) for line in lines)
        np.testing.assert_allclose(stated, default)


def test_heading_noise_does_not_lean_the_vehicle() -> None:
    """A row of H that carried the field's noise would lean it by the noise's variance."""
    rng = np.random.default_rng(20)
    params = pack(FULL)
    state = running(FULL, rng)
    state.q_WS = 1.0, 0.0, 0.0, 0.0
    variance = 0.01**2
    state.field_bias_S_T = 0.0
    known = [1e-12] * (PRESSURE - 2) + [0.0] * (N - PRESSURE - 1)
    state.covariance[:] = np.diag([variance, variance, variance, *known])
    sigma, count = 0.1, 2000
    for _ in range(count):
        turned = Rotation.from_rotvec([0.0, 0.0, rng.normal(0.0, sigma)]).apply(FIELD_W)
        magnetic_field.fuse_magnetic_field(state, params, tuple(turned), sigma**2, 1e-14)
    # What heading says of the tilt is theta_z + 2 theta_y (the field dips by 63 degrees); the sum
    # is known to sigma / sqrt(count) afterwards, and theta_x not touched: four sigma.
    x, y, z = attitude(state).as_rotvec()
    assert abs(x) < 1e-6
    assert abs(z + 2.0 * y) < 4.0 * sigma / math.sqrt(count)
    assert abs(y) < 4.0 * 0.01


@pytest.mark.many
def test_joseph_form_survives_tiny_variances() -> None:
    """Ten thousand updates with a variance 1e-14 of the state's: symmetric, not negative."""
    rng = np.random.default_rng(21)
    params = pack(MOUNTED)
    state = running(MOUNTED, rng, size=10.0)
    p_W = predicted_position(state, MOUNTED)
    for _ in range(10_000):
        fuse_gnss_position(state, params, tuple(p_W), upper(1e-12 * np.eye(3)))
    np.testing.assert_array_equal(state.covariance, state.covariance.T)
    # rounding of the largest entries (about 1e3) is 1e-13; its square root of length adds up
    assert np.linalg.eigvalsh(state.covariance).min() > -1e-10


def test_recovery_from_a_lost_position() -> None:
    """Rejected for two seconds at 5 Hz: position and velocity are GNSS's then, with a reason."""
    rng = np.random.default_rng(22)
    params = pack(replace(FULL, start=replace(FULL.start, lever_arm_m=0.0)))
    state = running(FULL, rng, size=0.01)
    truth_p, truth_v = np.array([100.0, -50.0, 20.0]), np.array([3.0, 0.0, -1.0])
    results = []
    for k in range(12):
        state.stamp_ns = 5_000_000_000 + k * 200_000_000
        fuse_gnss_velocity(state, params, tuple(truth_v), upper(0.01 * np.eye(3)))
        results.append(fuse_gnss_position(state, params, tuple(truth_p), upper(np.eye(3))))
        if state.recoveries:
            break
    assert results[-1] == REJECTED
    assert k == 11  # the first fix after more than two seconds
    assert state.running == 1
    assert state.reason == REASON_GNSS_POSITION
    np.testing.assert_allclose(state.p_W, truth_p)
    np.testing.assert_allclose(state.v_W, truth_v)
    # 1 m^2, and what an open heading makes of an open lever arm
    np.testing.assert_allclose(np.diag(state.covariance)[P : P + 3], 1.0, rtol=1e-4)
    assert np.degrees(np.sqrt(state.covariance[THETA, THETA])) == pytest.approx(30.0)
    assert fuse_gnss_position(state, params, tuple(truth_p), upper(np.eye(3))) == ACCEPTED


def test_pressure_that_jumped_is_taken_up_again() -> None:
    rng = np.random.default_rng(23)
    params = pack(FULL)
    state = running(FULL, rng, size=0.01)
    z = float(state.p_W[2])
    for k in range(30):
        state.stamp_ns = 5_000_000_000 + k * 100_000_000
        fuse_pressure(state, params, pressure_at(560.0), 36.0)
    assert state.pressure_offset_m == pytest.approx(560.0 - z, abs=0.2)
    assert state.p_W[2] == pytest.approx(z, abs=0.2)
    assert state.rejected_in_row[STATIC_PRESSURE] == 0


def rotation_variance_after(turned: bool, count: int = 1000) -> float:
    """Variance of the rotation about the field itself, of 0.01 rad^2, after many fields at rest."""
    params = pack(replace(EstimatorParams(), gate=NisParams(chi2_1=1e9)))
    rng = np.random.default_rng(5)
    state = running(EstimatorParams(), rng, size=0.0)
    state.q_WS = 1.0, 0.0, 0.0, 0.0
    state.field_bias_S_T = 0.0
    state.covariance[THETA : THETA + 3, THETA : THETA + 3] = 0.01 * np.eye(3)
    level2 = FIELD_W[0] ** 2 + FIELD_W[1] ** 2
    for _ in range(count):
        if turned:  # about the vertical alone
            field = Rotation.from_euler("z", rng.normal(0.0, 0.1)).apply(FIELD_W)
            variances = 0.01, 1e-16
        else:
            # so small that no correction turns the covariance, which has a second order of its own
            field = FIELD_W + rng.normal(0.0, 5e-8, 3)
            variances = 25e-16 / level2, 25e-16
        state.stamp_ns += 10_000_000
        magnetic_field.fuse_magnetic_field(state, params, tuple(field), *variances)
    along = FIELD_W / np.linalg.norm(FIELD_W)
    return float(along @ state.covariance[THETA : THETA + 3, THETA : THETA + 3] @ along)


def test_white_noise_does_not_tell_the_rotation_about_the_field() -> None:
    """No field tells it at rest, however many there are."""
    assert rotation_variance_after(turned=False) > 0.0099


def test_a_field_that_turns_tells_it() -> None:
    """A vertical part that is seen from many sides tells the tilt, and so the rest."""
    assert rotation_variance_after(turned=True) < 1e-4
