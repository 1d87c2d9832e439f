"""Fleets: the same bits whoever else flies and however many threads there are; who meets whom."""

import hashlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from quadsim.base.compiled import new_record
from quadsim.base.errors import FlightError, InputError
from quadsim.base.files import find
from quadsim.base.parameters import load
from quadsim.base.records import KINEMATICS
from quadsim.geometry.rotation import unrotate
from quadsim.vehicle.fleet import Fleet
from quadsim.vehicle.parameters import VehicleParams
from quadsim.vehicle.physics import PhysicsParams
from quadsim.vehicle.start import check_place, standing_height_m
from quadsim.world.air.wind_parameters import WindParams
from quadsim.world.environment import EnvironmentParams
from quadsim.world.scene.obstacles import Box, Obstacle, Pose, Sphere
from quadsim.world.scene.scene import EMPTY_SCENE, scene_of

X500 = load(VehicleParams, find("vehicles", "x500"))
GUSTY = EnvironmentParams(
    wind_W_mps=(3.0, 1.0, 0.0), wind=WindParams(turbulence="dryden", w20_mps=7.7)
)
HOVER_RADPS = 780.0
STANDING_M = standing_height_m(X500, EnvironmentParams(), EMPTY_SCENE, (0.0, 0.0, 0.0))
TICK_NS = 10_000_000


def steady(truth, height_m):
    """Rotor speeds that keep a vehicle level at a height: PD on tilt, rates and height."""
    up_B = np.array(unrotate(tuple(truth.q_WB), (0.0, 0.0, 1.0)))
    roll = -60.0 * up_B[1] - 12.0 * truth.w_B[0]
    pitch = 60.0 * up_B[0] - 12.0 * truth.w_B[1]
    lift = HOVER_RADPS + 60.0 * (height_m - truth.p_W[2]) - 60.0 * truth.v_W[2]
    hubs = np.array(X500.rotor_positions_B_m)
    speeds = lift + np.sign(hubs[:, 1]) * roll - np.sign(hubs[:, 0]) * pitch
    return np.clip(speeds, 100.0, 1000.0)


def flown(poses, names, seconds):
    """Digest of the first vehicle's motion over a flight at 30 m, seen every 10 ms."""
    fleet = Fleet(X500, GUSTY, poses, names=names, seed=5)
    for i, pose in enumerate(poses):
        fleet.set_motion(i, (pose[0], pose[1], 30.0), rotor_speeds_radps=[HOVER_RADPS] * 4)
    content = hashlib.sha256()
    for k in range(round(seconds * 1e9) // TICK_NS):
        for i in range(fleet.count):
            fleet.set_motor_command(i, steady(fleet.truth(i), 30.0))
        fleet.step_to((k + 1) * TICK_NS)
        content.update(fleet.truth(0).tobytes())
    assert 20.0 < fleet.truth(0).p_W[2] < 40.0  # it flew, and did not fall
    return content.hexdigest()


HERE, FAR = (0.0, 0.0, 0.3), (0.0, 900.0, 0.0)


@pytest.fixture(scope="module")
def alone():
    return flown([HERE], ["quad1"], 60.0)


def test_the_same_minute_with_others_out_of_reach(alone):
    assert flown([HERE, FAR, (900.0, 0.0, 0.0)], ["quad1", "quad2", "quad3"], 60.0) == alone


def test_the_same_minute_with_another_thread_flying_beside(alone):
    with ThreadPoolExecutor(2) as threads:
        pair = [threads.submit(flown, [HERE], ["quad1"], 60.0) for _ in range(2)]
        assert [each.result() for each in pair] == [alone, alone]


def test_another_seed_is_another_wind():
    def gust(seed):
        fleet = Fleet(X500, GUSTY, seed=seed)
        fleet.step_to(1_000_000_000)
        return tuple(fleet.truth(0).wind_W)

    assert gust(1) == gust(1)
    assert gust(1) != gust(2)


def test_wind_can_be_set_and_a_disturbance_changes_it():
    fleet = Fleet(X500, EnvironmentParams())
    fleet.set_wind((4.0, -1.0, 0.5))
    fleet.step_to(10_000_000)
    assert fleet.truth(0).wind_W == pytest.approx([4.0, -1.0, 0.5])
    fleet.reset()
    fleet.step_to(10_000_000)
    assert fleet.truth(0).wind_W == pytest.approx([0.0, 0.0, 0.0])


def test_who_is_lost_is_felt_by_nobody():
    """A motion that went to infinity above two others leaves no bit of them changed."""
    places = [(0.0, 0.0, 30.0), (0.1, 0.0, 28.0), (0.05, 0.0, 33.0)]
    flown = []
    for count in (2, 3):
        fleet = Fleet(X500, GUSTY, [(3.0 * i, 0.0, 0.0) for i in range(count)], seed=5)
        for i, p_W in enumerate(places[:count]):
            fleet.set_motion(i, p_W, rotor_speeds_radps=[HOVER_RADPS] * 4)
            fleet.set_motor_command(i, [HOVER_RADPS] * 4)
        if count == 3:
            fleet._vehicles[2].x[:] = np.nan
            fleet._vehicles[2].fault, fleet._vehicles[2].fault_ns = 1, 1
            with pytest.raises(FlightError, match="quad3"):
                fleet.step_to(200_000_000)
        else:
            fleet.step_to(200_000_000)
        flown.append([fleet.truth(i).tobytes() for i in range(2)])
        assert fleet._vehicles[1].inputs.downwash_W_mps[2] < -1.0  # of the first
    assert flown[0] == flown[1]


def test_a_rotor_asked_for_a_speed_that_is_no_number_stops():
    """One that is asked for more than there is turns at its most; the others as asked."""
    fleet = Fleet(X500, EnvironmentParams())
    fleet.set_motion(0, (0.0, 0.0, 20.0), rotor_speeds_radps=[HOVER_RADPS] * 4)
    fleet.set_motor_command(0, [np.nan, np.inf, HOVER_RADPS, -np.inf])
    fleet.step_to(2_000_000_000)
    stopped, fastest, hovers, negative = fleet.motor_speeds(0)
    assert stopped == pytest.approx(0.0, abs=1.0)
    assert negative == pytest.approx(0.0, abs=1.0)
    assert fastest == pytest.approx(X500.rotor_speed_max_radps, rel=0.01)
    assert hovers == pytest.approx(HOVER_RADPS, rel=0.01)


def test_of_several_that_are_lost_the_first_is_named():
    fleet = Fleet(X500, EnvironmentParams(), [(3.0 * i, 0.0, 0.0) for i in range(3)])
    for i, fault_ns in ((0, 7_000_000), (2, 5_000_000)):
        fleet._vehicles[i].fault, fleet._vehicles[i].fault_ns = 1, fault_ns
    with pytest.raises(FlightError, match=r"quad3.* t = 0\.005 s"):
        fleet.step_to(10_000_000)


def test_what_comes_into_the_scene_is_met_as_if_it_had_always_been_there():
    """A vehicle falls upon a box that comes while it falls: bit by bit the same; then it goes."""
    scene = scene_of([Obstacle("box", Box((4.0, 4.0, 1.0)), Pose((0.0, 0.0, 0.5)))])
    before, later = (
        Fleet(X500, EnvironmentParams(), [(20.0, 0.0, 0.0)], scene=each)
        for each in (scene, EMPTY_SCENE)
    )
    for one in (before, later):
        one.set_motion(0, (0.0, 0.0, 2.0))
    for step in range(1, 501):
        if step == 30:
            later.see(scene)
        for one in (before, later):
            one.step_to(step * 2_000_000)
    assert later.truth(0).tobytes() == before.truth(0).tobytes()
    assert later.contact(0)
    assert later.truth(0)["p_W"][2] > 1.0
    later.see(EMPTY_SCENE)
    for step in range(501, 801):
        later.step_to(step * 2_000_000)
    assert later.truth(0)["p_W"][2] < 0.5


@pytest.mark.parametrize(
    ("formalism", "p_W", "q_WB", "words"),
    [
        ("quaternion", (0.0, 0.0, STANDING_M), (1.0, 0.0, 0.0, 0.0), ""),
        ("quaternion", (0.0, 0.0, 0.05), (1.0, 0.0, 0.0, 0.0), "under the ground"),
        ("quaternion", (0.0, 0.0, STANDING_M), (0.7, 0.714, 0.0, 0.0), "under the ground"),
        ("quaternion", (4.0, 0.0, 3.0), (1.0, 0.0, 0.0, 0.0), "inside an obstacle"),
        ("quaternion", (0.0, 0.0, 9.0), (0.5**0.5, 0.0, -(0.5**0.5), 0.0), ""),
        ("euler", (0.0, 0.0, 9.0), (0.5**0.5, 0.0, -(0.5**0.5), 0.0), "points up"),
    ],
)
def test_a_vehicle_is_put_only_where_it_can_be(formalism, p_W, q_WB, words):
    scene = scene_of([Obstacle("ball", Sphere(1.0), Pose((4.0, 0.0, 3.0)))])
    motion = new_record(KINEMATICS)
    motion["p_W"], motion["q_WB"] = p_W, q_WB
    world = EnvironmentParams(), scene, PhysicsParams(formalism=formalism)
    if not words:
        check_place(X500, *world, motion)
        return
    with pytest.raises(InputError, match=words):
        check_place(X500, *world, motion)
