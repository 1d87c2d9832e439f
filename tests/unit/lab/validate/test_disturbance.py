"""Torque that acts besides is seen before a start and foretold, and nothing is lost without any."""

from dataclasses import replace

import numpy as np
import pytest
from flown import STEP_MS, crazyflie, write_flight
from scipy.spatial.transform import Rotation

from quadsim.bag.reading import open_bag
from quadsim.base.errors import InputError
from quadsim.lab.validate.recorded import as_recorded_by, read_recorded, smoothed_motion
from quadsim.lab.validate.residuals import (
    BLOCK_S,
    acting_torque,
    predict_flight,
    residual_wrench,
    state_at,
    torque_memory,
)

GRAVITY, SECONDS = 9.80665, 4.0
#: Deviation in N m and time constant in s of the torque that acts.
STRENGTH_NM, FADES_S = 4e-5, 0.15
POSE_B_M = (0.01, -0.02, 0.03)


def coloured(seed):
    """(N, 3) torque that forgets itself, row by row of a log."""
    rng, kept = np.random.default_rng(seed), np.exp(-1e-3 * STEP_MS / FADES_S)
    torque = np.zeros((round(SECONDS * 1e3 / STEP_MS), 3))
    for k in range(1, len(torque)):
        torque[k] = kept * torque[k - 1] + np.sqrt(1.0 - kept**2) * rng.normal(size=3)
    return STRENGTH_NM * torque


def flown(path, vehicle, **about):
    write_flight(path, SECONDS, crazyflie(), **about)
    with open_bag(path) as bag:
        return read_recorded(bag, "/quad", vehicle)


@pytest.fixture(scope="module")
def pushed(tmp_path_factory):
    """Three flights under a coloured torque."""
    folder = tmp_path_factory.mktemp("pushed")
    return [
        flown(folder / f"log{k}", crazyflie(), seed=20 + k, torque_B_Nm=coloured(k))
        for k in range(3)
    ]


def remembering(flights):
    vehicle = crazyflie()
    memory = torque_memory(flights, vehicle, GRAVITY)
    return replace(vehicle, recorder=replace(vehicle.recorder, torque_memory=memory))


def errors(flight, vehicle):
    """Root mean squares of the attitude's error after 0.1 and 0.2 s."""
    found = predict_flight(flight, vehicle, GRAVITY, 0.0, (0.1, 0.2))
    return np.sqrt(np.nanmean(found.attitude_rad**2, axis=0))


def test_a_torque_that_fades_is_foretold_on_another_flight(pushed):
    vehicle, flight = remembering(pushed[:2]), pushed[2]
    first = np.arange(200, len(flight) - 200, 10)
    found = acting_torque(
        flight, vehicle, residual_wrench(flight, vehicle, GRAVITY), first, 0.0, 100
    )
    true, block = coloured(2), round(BLOCK_S / flight.dt_s)
    row = np.round(flight.time_s[first] * 1e3 / STEP_MS).astype(int)
    for k in (1, 4, 9):
        mean = np.stack([true[row + k * block + i] for i in range(block)]).mean(axis=0)
        left = np.sqrt(((found[:, k] - mean) ** 2).mean() / (mean**2).mean())
        # what is known of an Ornstein-Uhlenbeck process after a time (half a block each side)
        best = np.sqrt(1.0 - np.exp(-2.0 * (k + 1.0) * BLOCK_S / FADES_S))
        assert best - 0.15 < left < best + 0.12


def test_attitudes_are_predicted_better_on_another_flight(pushed):
    known, unknown = errors(pushed[2], remembering(pushed[:2])), errors(pushed[2], crazyflie())
    assert known[0] < 0.75 * unknown[0]
    assert known[1] < 0.85 * unknown[1]


def test_nothing_is_lost_where_no_torque_acts(pushed, tmp_path):
    calm = flown(tmp_path / "calm", crazyflie(), seed=30)
    first = np.arange(200, len(calm) - 200, 10)
    wrench = residual_wrench(calm, crazyflie(), GRAVITY)
    seen = acting_torque(calm, remembering(pushed), wrench, first, 0.0, 100)
    assert np.sqrt((seen**2).mean()) < 0.05 * STRENGTH_NM
    assert (errors(calm, remembering(pushed)) < 0.05 * errors(pushed[0], crazyflie())).all()
    assert (errors(calm, remembering([calm])) < 1e-3).all()


def test_nothing_behind_a_start_counts_in_it(pushed, tmp_path):
    """Two logs that are one till 2 s, read whole: what is known till then has the same bits."""
    vehicle, told = remembering(pushed[:2]), 2.0
    torque = np.zeros((round(SECONDS * 1e3 / STEP_MS), 3))
    torque[round(told * 1e3 / STEP_MS) :] = [1e-4, -1e-4, 2e-5]
    one = flown(tmp_path / "one", vehicle, seed=40, lost=0.2)
    other = flown(tmp_path / "other", vehicle, seed=40, lost=0.2, torque_B_Nm=torque)
    now = int(np.searchsorted(one.time_s, told - 2e-3)) - 1
    first = np.arange(600, now + 1, 10)
    before = {}
    for flight in (one, other):
        known = flight.known
        wrench = residual_wrench(known, vehicle, GRAVITY)
        torques = acting_torque(known, vehicle, wrench, first, 1.0, 100)
        before[flight.name] = [state_at(known, first), torques]
        assert not known.free[:450].any()
        assert known.free[550:-10].all()
    np.testing.assert_equal(*before.values())
    assert not (state_at(one, first) == state_at(other, first)).all()  # smoothed about the start
    # and it is a good estimate: poses are exact here, the IMU nearly
    k, here = one.known, slice(600, now)
    assert k.p_W[here] == pytest.approx(one.p_W[here], abs=1e-3)
    assert k.v_W[here] == pytest.approx(one.v_W[here], abs=0.03)
    assert k.w_B[here] == pytest.approx(one.w_B[here], abs=0.05)


def test_predictions_start_by_what_is_known(pushed):
    flight, vehicle = pushed[0], crazyflie()
    causal, smoothed = (
        predict_flight(each, vehicle, GRAVITY, 1.0).position_m
        for each in (flight, replace(flight, known=None))
    )
    rms = [np.sqrt(np.nanmean(position_m**2, axis=0)) for position_m in (causal, smoothed)]
    assert rms[0][0] > 2.0 * rms[1][0]  # at 0.01 s it is the start that is off
    assert rms[0][-1] == pytest.approx(rms[1][-1], rel=0.3)


def test_without_memory_the_mean_goes_on(pushed):
    flight, vehicle = pushed[0], crazyflie()
    wrench, first = residual_wrench(flight, vehicle, GRAVITY), np.array([1500])
    mean = wrench.torque[(wrench.rows >= 500) & (wrench.rows < 1500)].mean(axis=0)
    found = acting_torque(flight, vehicle, wrench, first, 1000 * flight.dt_s, 500)
    assert found.shape == (1, 1, 3)
    assert found[0, 0] == pytest.approx(mean, rel=1e-9)


def test_a_memory_that_grows_is_refused(pushed):
    recorder = replace(crazyflie().recorder, torque_memory=(0.5, 0.6, 0.5, 0.3))
    with pytest.raises(InputError, match="torque_memory: it grows"):
        predict_flight(pushed[0], replace(crazyflie(), recorder=recorder), GRAVITY, 1.0)


def test_poses_of_another_point_tell_the_centre_of_mass(tmp_path):
    vehicle = crazyflie()
    told = replace(vehicle, recorder=replace(vehicle.recorder, pose_position_B_m=POSE_B_M))
    centre = flown(tmp_path / "centre", vehicle)
    for flight in (
        flown(tmp_path / "off", told, pose_B_m=POSE_B_M),
        as_recorded_by(flown(tmp_path / "later", vehicle, pose_B_m=POSE_B_M), told.recorder),
    ):
        inner = slice(150, -150)
        assert flight.p_W[inner] == pytest.approx(centre.p_W[inner], abs=1e-3)
        assert flight.v_W[inner] == pytest.approx(centre.v_W[inner], abs=2e-2)


def test_attitudes_on_their_way_to_a_jump_do_not_count(tmp_path):
    flight = flown(tmp_path / "log", crazyflie())
    true = Rotation.from_quat(np.roll(flight.q_WB, -1, axis=1))
    yaw = np.interp(flight.time_s, [2.0, 2.02, 3.0, 3.02], [0.0, 0.8, 0.8, 0.0])
    jumping = Rotation.from_rotvec(np.outer(yaw, [0.0, 0.0, 1.0])) * true
    notes = []
    _, _, found, _ = smoothed_motion(
        flight.p_W, jumping, flight.w_B, flight.f_B, flight.dt_s, notes
    )
    assert "jump" in notes[0]
    assert (found * true.inv()).magnitude().max() < 0.01
