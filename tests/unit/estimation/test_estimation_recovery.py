"""Recovery in proportion to what is wrong, the time offset of GNSS, and the attitude's reset."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.transform import Rotation

from quadsim.base.parameters import pack
from quadsim.control.parameters import ArmingParams
from quadsim.estimation import EstimatorParams
from quadsim.estimation.eskf.alignment import new_eskf
from quadsim.estimation.eskf.covariance import left_jacobian
from quadsim.estimation.eskf.driver import run_events as run_line
from quadsim.estimation.eskf.gnss import fuse_gnss_position, fuse_gnss_velocity
from quadsim.estimation.eskf.inertial import motion_before
from quadsim.estimation.eskf.input_validation import accept
from quadsim.estimation.eskf.layout import (
    ACCEPTED,
    BA,
    EXTERNAL_ATTITUDE,
    GNSS_POSITION,
    GNSS_TIME,
    GNSS_VELOCITY,
    REASON_FIELD,
    THETA,
    N,
    P,
    V,
)
from quadsim.estimation.eskf.measurement_buffer import new_timeline
from quadsim.estimation.eskf.mechanisation import ImuInput, predict_or_align
from quadsim.estimation.eskf.outputs import line_odometry, pose_covariance
from quadsim.estimation.eskf.parameters import DelayParams
from quadsim.estimation.interface import late_words
from quadsim.ros.parts.estimator_parts import judge_estimate
from quadsim.sim.log import OK, WARN
from tests.helpers.matched_flights import START_NS, MatchedRun, Motion, Sensors, flight

Array = NDArray[np.float64]
PARAMS = EstimatorParams()
#: Next to no horizontal acceleration.
HOVER = Motion(0.3, 0.05, 0.02, 0.02, 0.0, (0.1, 0.1, 0.05))


def attitude(state: Any) -> Rotation:
    return Rotation.from_quat(np.roll(state["q_WS"], -1))


def error_deg(run: MatchedRun) -> tuple[float, float]:
    """Tilt and heading that the estimate is off."""
    R = (run.path.R_WS[run.k] * attitude(run.record[0]).inv()).as_matrix()
    tilt = math.degrees(math.acos(min(R[2, 2], 1.0)))
    return tilt, math.degrees(math.atan2(R[1, 0] - R[0, 1], R[0, 0] + R[1, 1]))


def turned_field(run: MatchedRun, during: NDArray[np.bool_], angle_deg: float) -> None:
    """Turn the field about the vertical: strength and inclination stay."""
    values, R_WS = run.messages["magnetic_field"][1], run.path.R_WS[during]
    turn = Rotation.from_rotvec([0.0, 0.0, math.radians(angle_deg)])
    values[during] = (R_WS.inv() * turn * R_WS).apply(values[during])


def track(run: MatchedRun, from_s: float, to_s: float) -> Array:
    """Attitude of the estimate, ten times a second."""
    found = []
    while run.path.t[run.k] < to_s - 1e-6:
        run.fly(0.1)
        if run.path.t[run.k] > from_s:
            found.append(run.record[0]["q_WS"].copy())
    return np.array(found)


@pytest.mark.parametrize(("name", "size"), [("gnss_position", 15.0), ("gnss_velocity", 5.0)])
@pytest.mark.parametrize("duration_s", [3.0, 10.0])
def test_a_jump_of_one_gnss_output_leaves_the_attitude(
    name: str, size: float, duration_s: float
) -> None:
    """Against the same flight without it: the other output and the field agree with the filter."""
    if name == "gnss_velocity" and duration_s > 3.0:
        pytest.skip("the fixes go on to say where it is")
    path = flight(35.0)
    for seed in range(2):
        plain, jumped = (MatchedRun(path, seed, PARAMS, Sensors()) for _ in range(2))
        during = (path.t > 15.0) & (path.t < 15.0 + duration_s)
        jumped.messages[name][1][during, 0] += size
        before, after = (
            Rotation.from_quat(np.roll(track(run, 15.0, 34.0), -1, axis=1))
            for run in (plain, jumped)
        )
        apart = np.degrees((after * before.inv()).as_rotvec())
        assert np.max(np.hypot(apart[:, 0], apart[:, 1])) < 0.5
        assert np.max(np.abs(apart[:, 2])) < 1.0
        assert jumped.record[0]["starts"] == 1
        assert jumped.record[0]["recoveries"] == (0 if duration_s < 7.0 else 2)  # there and back
        assert np.linalg.norm(path.p_imu_W[jumped.k] - jumped.record[0]["p_W"]) < 1.0


@pytest.mark.parametrize("motion", [Motion(), HOVER], ids=["swing", "hover"])
@pytest.mark.parametrize("angle_deg", [20.0, 120.0])
def test_a_wrong_attitude_is_found_by_velocities_alone(motion: Motion, angle_deg: float) -> None:
    """No fixes any more; the attitude is forced off about any horizontal axis."""
    path = flight(18.0, motion=motion)
    for seed in range(3):
        run = MatchedRun(path, seed, PARAMS, Sensors(silent={"gnss_position": (10.0, 1e9)}))
        run.fly(12.0)
        about = np.random.default_rng(seed).uniform(-np.pi, np.pi)
        axis = np.array([math.cos(about), math.sin(about), 0.0])
        forced = Rotation.from_rotvec(math.radians(angle_deg) * axis) * attitude(run.record[0])
        run.record["q_WS"][0] = np.roll(forced.as_quat(), 1)
        run.fly(5.0)
        tilt, yaw = error_deg(run)
        assert tilt < 3.0
        assert abs(yaw) < 6.0
        assert np.linalg.norm(path.v_imu_W[run.k] - run.record[0]["v_W"]) < 1.0


@pytest.mark.parametrize("angle_deg", [45.0, 100.0, 170.0])
def test_a_pad_that_turned_the_field_is_left_behind(angle_deg: float) -> None:
    """Turned for 8 s, then clean, and nothing that accelerates: cured within 10 s."""
    path = flight(19.0, motion=HOVER)
    for seed in range(2):
        run = MatchedRun(path, seed, PARAMS, Sensors())
        turned_field(run, path.t < 8.0, angle_deg)
        run.fly(8.0)
        assert abs(error_deg(run)[1]) > angle_deg - 10.0
        run.fly(3.0)  # contradicted, and said so
        sigma_deg = math.degrees(math.sqrt(pose_covariance(run.lines)[5, 5]))
        assert sigma_deg > 0.8 * angle_deg or abs(error_deg(run)[1]) < 5.0
        assert math.radians(sigma_deg) > ArmingParams().yaw_sigma_rad or sigma_deg < 10.0
        run.fly(7.0)
        assert abs(error_deg(run)[1]) < 5.0


def test_a_field_that_turns_in_flight_does_not_turn_the_heading() -> None:
    """The acceleration that GNSS sees has confirmed the heading."""
    path = flight(40.0)
    run = MatchedRun(path, 1, PARAMS, Sensors())
    turned_field(run, (path.t > 20.0) & (path.t < 35.0), 60.0)
    run.fly(34.0)
    assert run.record[0]["heading"]["confirmed"] == 1
    assert run.record[0]["recoveries"] == 0
    assert abs(error_deg(run)[1]) < 4.0


def test_a_field_of_the_wrong_strength_is_not_followed() -> None:
    """Turned, and half as strong again: iron. Where it starts so, the heading is open."""
    path = flight(30.0, motion=HOVER)
    run = MatchedRun(path, 1, PARAMS, Sensors())
    turned_field(run, path.t > 5.0, 90.0)
    run.messages["magnetic_field"][1][path.t > 5.0] *= 1.5
    run.fly(28.0)
    assert run.record[0]["reason"] != REASON_FIELD
    assert run.record[0]["recoveries"] == 0
    assert abs(error_deg(run)[1]) < 45.0  # what the gyroscope keeps, not the field's 90
    standing = MatchedRun(flight(3.0, motion=Motion(0.3, 0.0, 0.0, 0.0, 0.0, (0.0, 0.0, 0.0))), 1,
                          PARAMS, Sensors())  # fmt: skip
    standing.messages["magnetic_field"][1][:] *= 1.5
    standing.fly(1.3)
    assert standing.record[0]["started_standing"] == 1
    sigma = math.sqrt(standing.record[0]["covariance"][THETA + 2, THETA + 2])
    assert sigma > ArmingParams().yaw_sigma_rad


# --- time offset of GNSS -----------------------------------------------------------------------


def late(run: MatchedRun, late_s: float) -> None:
    """Let fixes and velocities say what was so long ago; below zero, what will be."""
    n = round(late_s / run.path.dt)
    for name in ("gnss_position", "gnss_velocity"):
        values = run.messages[name][1]
        if n > 0:
            values[n:] = values[:-n].copy()
        else:
            values[:n] = values[-n:].copy()


def rmse_m(run: MatchedRun, from_s: float) -> float:
    found = []
    while run.k < len(run.path.f_S):
        run.fly(0.1)
        line_odometry(run.lines, run.odometry)
        if run.path.t[run.k] > from_s:
            found.append(run.odometry[0]["p_W"] - run.path.p_W[run.k])
    return float(np.sqrt(np.mean(np.sum(np.square(found), axis=1))))


def test_late_stamps_are_found_and_cost_little() -> None:
    """120 ms late; with exact stamps the estimate is that of a filter without the state."""
    path = flight(40.0)
    without = replace(PARAMS, start=replace(PARAMS.start, gnss_time_s=0.0))
    left = astray = 0.0
    for seed in range(2):
        exact, plain, shifted, led_astray = (
            MatchedRun(path, seed, params, Sensors()) for params in (PARAMS, without) * 2
        )
        late(shifted, 0.12)
        late(led_astray, 0.12)
        of_exact, of_plain, of_shifted, of_astray = (
            rmse_m(run, 20.0) for run in (exact, plain, shifted, led_astray)
        )
        assert exact.record[0]["gnss_time_counts"] == 0
        assert of_exact == pytest.approx(of_plain, rel=0.02)
        left += of_shifted**2 - of_plain**2
        astray += of_astray**2 - of_plain**2
        state = shifted.record[0]
        assert state["gnss_time_counts"] == 1
        sigma_s = math.sqrt(state["covariance"][GNSS_TIME, GNSS_TIME])
        assert abs(state["gnss_time_s"] - 0.12) < 4.0 * sigma_s + 0.003  # curvature
        assert sigma_s < 0.02


@pytest.mark.parametrize("late_s", [-0.2, 0.02, 0.25, 0.4])
def test_an_estimate_beside_late_stamps_errs_as_it_says(late_s: float) -> None:
    """Mean normalised square of position and velocity over a flight, by the seed's bound.

    Four seeds of six numbers, whose errors last: of chi-square with 24 degrees of freedom, once in
    a thousand 51.2 or more. A wrong look back makes several hundred.
    """
    path, squares = flight(30.0), []
    for seed in range(4):
        run = MatchedRun(path, seed, PARAMS, Sensors())
        late(run, late_s)
        while run.k < len(path.f_S):
            run.fly(0.5)
            if path.t[run.k] > 12.0:
                line_odometry(run.lines, run.odometry)
                row = run.odometry[0]
                error = np.concatenate([row["p_W"] - path.p_W[run.k], row["v_W"] - path.v_W[run.k]])
                variance = np.concatenate([row["p_variance"], row["v_variance"]])
                squares.append(np.sum(error**2 / variance))
        assert run.record[0]["gnss_time_counts"] == (np.sign(late_s) if abs(late_s) > 0.03 else 0)
    assert 4.0 * np.mean(squares) < 51.2


def test_hover_tells_no_time_offset() -> None:
    """Five minutes without motion: what is not observed stays as it was."""
    still = Motion(0.3, 0.0, 0.0, 0.0, 0.0, (0.0, 0.0, 0.0))
    run = MatchedRun(flight(300.0, dt=0.02, motion=still), 1, PARAMS, Sensors())
    run.fly(299.0)
    state = run.record[0]
    assert state["gnss_time_counts"] == 0
    sigma_s = math.sqrt(state["covariance"][GNSS_TIME, GNSS_TIME])
    assert abs(state["gnss_time_s"]) < 3.0 * sigma_s
    # the noise of velocity and acceleration is no motion, and seems to tell a little
    assert sigma_s > 0.25 * PARAMS.start.gnss_time_s


def test_a_known_delay_gives_the_bits_of_exact_stamps() -> None:
    path = flight(6.0)
    exact, delayed = (
        MatchedRun(path, 1, params, Sensors())
        for params in (PARAMS, replace(PARAMS, delay=DelayParams(gnss_s=0.12)))
    )
    exact.fly(5.0)
    # the same messages, their stamps 0.12 s later, and as much later to arrive
    messages = {n: delayed.messages.pop(n) for n in ("gnss_position", "gnss_velocity")}
    for k in range(500):
        delayed.fly(path.dt)
        taken = delayed.k - 12
        for name, (kind, values, covariance) in messages.items():
            if taken > 0 and taken % delayed.sensors.every[name] == 0:
                stamp_ns = START_NS + delayed.k * delayed.period_ns
                assert accept(delayed.lines, kind, stamp_ns, values[taken], covariance) == 0
        run_line(delayed.lines[0])
        assert k == delayed.k - 1
    for name, (kind, values, covariance) in messages.items():
        every = delayed.sensors.every[name]
        for taken in range((500 - 12) // every * every + every, 501, every):
            stamp_ns = START_NS + (taken + 12) * delayed.period_ns
            accept(delayed.lines, kind, stamp_ns, values[taken], covariance)
    run_line(delayed.lines[0])
    for name in ("p_W", "v_W", "q_WS", "covariance"):
        np.testing.assert_array_equal(exact.record[name], delayed.record[name], err_msg=name)


def accelerated(params: Any, a_mps2: float, bias_S: ArrayLike = (0.0, 0.0, 0.0)) -> Any:
    """A filter that has flown east for 0.4 s, level, from 2 m/s on, its accelerometer biased."""
    state = new_eskf(params)
    state.running = state.starts = 1
    state.inertial.started = 1
    state.imu_count = 3
    state.period_s = 0.01
    state.stamp_ns = state.imu_stamp_ns = state.aided_ns = START_NS
    state.v_W = 2.0, 0.0, 0.0
    state.accel_bias_S = bias_S
    state.covariance[:] = 1e-4 * np.eye(len(state.covariance))
    variance = (1e-4, 1e-4, 1e-4)
    for k in range(40):
        stamp_ns = START_NS + (k + 1) * 10_000_000
        f_S = (a_mps2, 0.0, PARAMS.gravity_mps2)
        predict_or_align(
            state, params, stamp_ns, ImuInput(f_S, (0.0, 0.0, 0.0), variance, variance)
        )
    return state


def test_the_look_back_is_that_of_a_constant_acceleration() -> None:
    params = pack(PARAMS)
    a = 3.0
    state = accelerated(params, a)
    speed = 2.0 + 0.4 * a
    for back_s in (-0.1, 0.03, 0.12, 0.25):
        moved, gained, seen = motion_before(state, params, back_s)
        assert moved[0] == pytest.approx(speed * back_s - 0.5 * a * back_s**2, abs=1e-9)
        assert gained[0] == pytest.approx(a * back_s, abs=1e-9)
        np.testing.assert_allclose(seen, (a, 0.0, 0.0), atol=1e-9)
        np.testing.assert_allclose(moved[1:], 0.0, atol=1e-9)


def test_the_time_column_of_a_velocity_is_its_central_difference() -> None:
    """The rows of a position, beside all others, are in the table of the measurements' tests."""
    params = pack(PARAMS)
    state = accelerated(params, 3.0)
    state.gnss_time_s = 0.12
    z, unit = (2.5, 0.1, -0.2), (1.0, 0.0, 0.0, 1.0, 0.0, 1.0)
    ends = []
    for h in (1e-4, -1e-4):
        other = state.copy()
        other.gnss_time_s += h
        assert fuse_gnss_velocity(other, params, z, unit) == ACCEPTED
        ends.append(other.innovation[GNSS_VELOCITY].copy())
    assert fuse_gnss_velocity(state, params, z, unit) == ACCEPTED
    difference = -(ends[0] - ends[1]) / 2e-4
    np.testing.assert_allclose(state.H[:, GNSS_TIME], difference, atol=1e-6)


@pytest.mark.parametrize("back_s", [-0.1, 0.12, 0.25])
@pytest.mark.parametrize("sensor", [GNSS_POSITION, GNSS_VELOCITY])
def test_rows_of_a_late_fix_hold_what_was_wrong_all_that_time(back_s: float, sensor: int) -> None:
    """Central differences: a state that is wrong now flew to where it is by its own past."""
    params = pack(PARAMS)
    fuse = (fuse_gnss_position, fuse_gnss_velocity)[sensor]

    def innovation(error: Array) -> tuple[Array, Array]:
        bias_S = error[BA : BA + 3]
        state = accelerated(params, 3.0, bias_S)
        state.v_W = np.array((3.2, 0.0, 0.0)) + error[V : V + 3]
        state.p_W = error[P : P + 3]
        x, y, z, w = Rotation.from_rotvec(error[THETA : THETA + 3]).as_quat()
        state.q_WS = w, x, y, z
        state.gnss_time_s = back_s
        unit = (1e4, 0.0, 0.0, 1e4, 0.0, 1e4)
        assert fuse(state, params, (0.5, 0.1, -0.2), unit) == ACCEPTED
        return np.array(state.innovation[sensor]), np.array(state.H) * 1e2

    _, H = innovation(np.zeros(N))
    for k in (*range(9), *range(BA, BA + 3)):
        e = np.zeros(N)
        e[k] = 1e-4
        difference = -(innovation(e)[0] - innovation(-e)[0]) / 2e-4
        np.testing.assert_allclose(H[:, k], difference, atol=2e-5, err_msg=str(k))


# --- the reset of the error state ----------------------------------------------------------------


def test_the_left_jacobian_is_a_derivative() -> None:
    rng = np.random.default_rng(1)
    for size in (1e-4, 0.3, 2.0):
        t = size * rng.normal(size=3)
        h = 1e-6
        columns = [
            (
                (Rotation.from_rotvec(t + e) * Rotation.from_rotvec(t).inv()).as_rotvec()
                - (Rotation.from_rotvec(t - e) * Rotation.from_rotvec(t).inv()).as_rotvec()
            )
            / (2.0 * h)
            for e in h * np.eye(3)
        ]
        np.testing.assert_allclose(left_jacobian(tuple(t)), np.array(columns).T, atol=1e-8)


def test_a_large_correction_of_the_heading_keeps_what_levelling_tells() -> None:
    """Heading open by a radian; tilt and accelerometer bias known together, neither of them alone.

    Errors are drawn, and an attitude tells the heading alone. The accelerometer reads R' g + b, so
    a level estimate has theta x g = R b, but for noise. If the bias stayed in the IMU's axes while
    the heading turned, that would be open again, and the next second of standing would tell it.
    """
    rng = np.random.default_rng(2)
    bias, level, g = 0.3, 0.01, 9.80665
    lines = new_timeline(replace(PARAMS, gate=replace(PARAMS.gate, chi2_3=1e9)))
    first = lines.copy()
    known = np.zeros((6, 6))
    known[3:, 3:] = np.diag([1.0, 1.0, 0.02**2])
    T = np.zeros((2, 6))  # the horizontal part of theta x g - b, of theta and b
    T[0, [1, 3]], T[1, [0, 4]] = (g, -1.0), (-g, -1.0)
    both = np.r_[0:3, BA : BA + 3]
    squares, unturned, count = 0.0, 0.0, 400
    for _ in range(count):
        lines[:] = first
        state = lines[0].state
        state.running, state.imu_count, state.stamp_ns = 1, 3, START_NS
        state.q_WS = 1.0, 0.0, 0.0, 0.0
        # tilt = (noise + bias) / g, about the axis a quarter turn to the left of it
        P = np.zeros((6, 6))
        P[3:, 3:] = np.diag([bias**2] * 2 + [1e-6])
        P[2, 2] = 1.0
        M = np.eye(6)
        M[1, 3], M[0, 4] = 1.0 / g, -1.0 / g
        P[0, 0] = P[1, 1] = (level / g) ** 2
        P = M @ P @ M.T
        state.covariance[np.ix_(both, both)] = P
        lines["newest_imu_ns"] = START_NS
        b = np.append(rng.normal(0.0, bias, 2), 0.0)
        n = rng.normal(0.0, level, 2)
        tilt = Rotation.from_rotvec([-(b[1] + n[1]) / g, (b[0] + n[0]) / g, 0.0])
        true = Rotation.from_rotvec([0.0, 0.0, rng.normal()]) * tilt
        seen = Rotation.from_rotvec([0.0, 0.0, 0.02 * rng.normal()]) * true
        accept(lines, EXTERNAL_ATTITUDE, START_NS, np.roll(seen.as_quat(), 1), known.ravel())
        run_line(lines[0])
        found = attitude(state)
        W = np.eye(6)
        W[3:, 3:] = found.as_matrix()
        theta = (true * found.inv()).as_rotvec()
        left = T @ W @ np.r_[theta, b - np.array(state.accel_bias_S)]
        P = np.array(state.covariance)[np.ix_(both, both)]
        after = T @ W
        squares += left @ np.linalg.solve(after @ P @ after.T, left) / count
        after[:, 3:] = after[:, 3:] @ np.array(state.turned).T
        unturned += left @ np.linalg.solve(after @ P @ after.T, left) / count
    # the mean of 400 chi-square numbers of two degrees: deviation 0.1; curvature is left
    assert 1.6 < squares < 2.5
    assert unturned < 0.1


# --- what is said of it ---------------------------------------------------------------------------


def test_the_status_tells_what_is_rejected() -> None:
    values = {"status": "rejects magnetic_field", "axes": ""}
    assert judge_estimate(values, False, "", "") == (WARN, "rejects magnetic_field")
    assert judge_estimate({"status": "running", "axes": ""}, False, "", "") == (OK, "running")
    level, words = judge_estimate(
        {"status": "running", "axes": "", "gnss_time_counts": 1.0, "gnss_time_s": 0.118},
        False, "", "",
    )  # fmt: skip
    assert (level, words) == (WARN, "GNSS stamps are 0.12 s late: delay.gnss_s")
    assert late_words(-0.05) == "IMU stamps are 0.05 s late: delay.imu_s"
    assert late_words(0.4) == "GNSS stamps are 0.40 s or more late: delay.gnss_s"
