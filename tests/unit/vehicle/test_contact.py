"""Contact with ground and obstacles: standing, sliding, tipping, bouncing, and what is a crash."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from quadsim.base.files import find
from quadsim.base.parameters import load
from quadsim.geometry.rotation import from_euler
from quadsim.vehicle.contact.hull import hull_points
from quadsim.vehicle.contact.points import (
    HARD_LANDING,
    HULL_STRUCK,
    NO_CRASH,
    TIPPED_OVER,
)
from quadsim.vehicle.fleet import Fleet
from quadsim.vehicle.parameters import VehicleParams
from quadsim.vehicle.physics import FORMALISMS, PhysicsParams
from quadsim.vehicle.state import P, Q, V, W
from quadsim.world.environment import EnvironmentParams
from quadsim.world.scene.obstacles import Box, Cylinder, Mesh, Obstacle, Plane, Pose
from quadsim.world.scene.scene import EMPTY_SCENE, scene_of
from quadsim.world.scene.terrain import Heightmap

G = 9.80665
SECOND_NS = 1_000_000_000
X500 = load(VehicleParams, find("vehicles", "x500"))
FOOT_X, FOOT_Y, FOOT_Z = 0.125, 0.132, 0.229
SAG = X500.contact.sag_m
#: Flat ground out of the way, and none of the weight.
DEEP = EnvironmentParams(ground_height_m=-1000.0)
WEIGHTLESS = EnvironmentParams(ground_height_m=-1000.0, gravity_mps2=0.0)
#: The x500 without air.
BARE = replace(
    X500,
    rotor_drag_N_s2=0.0,
    body_drag_N_s_m=(0.0, 0.0, 0.0),
    drag_area_m2=(0.0, 0.0, 0.0),
)


def touching(params=BARE, **changes):
    return replace(params, contact=replace(params.contact, **changes))


def place(params, environment, scene=EMPTY_SCENE, p=(0, 0, 0), rpy=(0, 0, 0), v=(0, 0, 0), w=None):
    """A vehicle somewhere, its motors off."""
    fleet = Fleet(params, environment, scene=scene)
    x = fleet._vehicles[0].x
    x[P : P + 3], x[Q : Q + 4], x[V : V + 3] = p, from_euler(*map(float, rpy)), v
    x[W : W + 3] = (0.0, 0.0, 0.0) if w is None else w
    return fleet


def run(fleet, seconds):
    fleet.step_to(fleet.stamp_ns + round(seconds * SECOND_NS))
    return fleet.truth(0)


def tilted_plane(angle):
    """Falls towards east."""
    return scene_of(
        [Obstacle("slope", Plane(), Pose((0.0, 0.0, 0.0), from_euler(0.0, angle, 0.0)))]
    )


def tilted_terrain(angle):
    x, y = np.meshgrid(np.linspace(-40.0, 40.0, 33), np.linspace(-40.0, 40.0, 33))
    return scene_of((), Heightmap(-np.tan(angle) * x + 0.0 * y, (80.0, 80.0)))


def tilted_box(angle):
    normal = np.array([math.sin(angle), 0.0, math.cos(angle)])
    pose = Pose(tuple(-0.5 * normal), from_euler(0.0, angle, 0.0))
    return scene_of([Obstacle("ramp", Box((80.0, 80.0, 1.0)), pose)])


def tilted_mesh(angle):
    corners = 50.0 * np.array([[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0], [0, 0, -1.0]])
    faces = [[0, 1, 2], [0, 2, 3], [1, 0, 4], [2, 1, 4], [3, 2, 4], [0, 3, 4]]
    shape = Mesh(corners[faces], closed=True)
    return scene_of([Obstacle("roof", shape, Pose((0.0, 0.0, 0.0), from_euler(0.0, angle, 0.0)))])


SLOPES = (tilted_plane, tilted_terrain, tilted_box, tilted_mesh)


def on_slope(params, slope, angle, yaw=0.0):
    """A vehicle that stands on a slope towards east, its feet just touching."""
    height = FOOT_Z - params.contact.sag_m * math.cos(angle)
    p = (height * math.sin(angle), 0.0, height * math.cos(angle))
    turn = Rotation.from_euler("y", angle) * Rotation.from_euler("z", yaw)
    yaw, pitch, roll = turn.as_euler("ZYX")
    return place(params, DEEP, slope(angle), p, (roll, pitch, yaw))


def test_feet_sink_in_by_their_sag():
    fleet = Fleet(BARE, EnvironmentParams())
    truth = run(fleet, 3.0)
    assert truth.p_W[2] == pytest.approx(FOOT_Z - SAG, abs=1e-9)
    assert truth.a_W == pytest.approx([0.0, 0.0, 0.0], abs=1e-9)
    assert fleet._vehicles[0].contact == 4
    moon = replace(EnvironmentParams(), gravity_mps2=G / 6)
    assert run(Fleet(BARE, moon), 3.0).p_W[2] == pytest.approx(FOOT_Z - SAG / 6, abs=1e-9)


@pytest.mark.parametrize("slope", SLOPES)
def test_it_stands_on_a_slope_and_does_not_creep(slope):
    angle = math.radians(20.0)
    fleet = on_slope(touching(friction=0.5), slope, angle, yaw=0.4)
    start = np.array(run(fleet, 5.0).p_W)
    later = run(fleet, 60.0)
    assert later.p_W == pytest.approx(start, abs=1e-9)
    assert np.linalg.norm(later.v_W) < 1e-9
    assert fleet._vehicles[0].contact == 4
    assert fleet.crash(0) == NO_CRASH


def test_on_a_slope_its_springs_turn_it_a_little():
    """The feet hold m g sin at h below the centre of mass, which their springs turn back.

    Each has k = m g / (4 sag); the weight over them, turned by phi, takes m g h cos phi from that.
    """
    angle = math.radians(10.0)
    truth = run(on_slope(BARE, tilted_plane, angle), 5.0)
    pitch = 2.0 * math.atan2(truth.q_WB[2], truth.q_WB[0])
    turned = math.sin(angle) * FOOT_Z / (FOOT_X**2 / SAG - FOOT_Z * math.cos(angle))
    assert pitch - angle == pytest.approx(turned, rel=0.01)  # linear in the turn, 0.008


@pytest.mark.parametrize("formalism", FORMALISMS)
def test_it_lands_on_a_slope_in_every_formalism(formalism):
    """Dropped level: it turns with the slope, and rests as one that was put there."""
    angle = math.radians(8.0)
    physics = PhysicsParams(formalism=formalism)
    fleet = Fleet(BARE, DEEP, physics=physics, scene=tilted_plane(angle))
    fleet._vehicles[0].x[P + 2] = FOOT_Z + 0.03
    truth = run(fleet, 5.0)
    stood = run(on_slope(BARE, tilted_plane, angle), 5.0)
    # where they stuck the feet may pull against each other, by some of the 0.4 mm of the anchors
    assert truth.q_WB == pytest.approx(stood.q_WB, abs=2e-4)
    assert np.linalg.norm(truth.v_W) < 1e-6
    assert fleet.crash(0) == NO_CRASH


@pytest.mark.parametrize("slope", SLOPES)
@pytest.mark.parametrize("yaw", [0.0, 0.7])
def test_it_slides_down_a_steep_slope_as_coulomb_says(slope, yaw):
    """A = g (sin - mu cos) beyond atan mu."""
    angle, mu = math.radians(25.0), 0.3
    fleet = on_slope(touching(friction=mu), slope, angle, yaw)
    early = np.array(run(fleet, 1.0).v_W)
    late = np.array(run(fleet, 1.0).v_W)
    along = np.array([math.cos(angle), 0.0, -math.sin(angle)])
    expected = G * (math.sin(angle) - mu * math.cos(angle))
    # the feet's springs still ring a little, by 1e-4 of it
    assert late - early == pytest.approx(expected * along, abs=5e-4)
    assert fleet.crash(0) == NO_CRASH


@pytest.mark.parametrize("mu", [0.2, 0.4])
def test_the_angle_at_which_it_slides(mu):
    """It is put down with a shake, which near the limit takes a while to end."""
    for factor, slides in ((0.98, False), (1.02, True)):
        angle = math.atan(mu * factor)
        fleet = on_slope(touching(friction=mu), tilted_plane, angle)
        early = run(fleet, 4.0)
        start, speed = np.array(early.p_W), np.linalg.norm(early.v_W)
        moved = np.linalg.norm(run(fleet, 3.0).p_W - start)
        if slides:
            wanted = 0.5 * G * (math.sin(angle) - mu * math.cos(angle)) * 3.0**2 + speed * 3.0
            assert moved == pytest.approx(wanted, rel=0.01)
        else:
            assert moved < 1e-9


def test_it_slides_to_a_stop_on_flat_ground():
    """v^2 = 2 mu g s."""
    mu, speed = 0.3, 3.0
    fleet = place(
        touching(friction=mu), EnvironmentParams(), p=(0.0, 0.0, FOOT_Z - SAG), v=(speed, 0.0, 0.0)
    )
    truth = run(fleet, 3.0)
    # springs of friction hold 1 mm behind the anchor
    assert truth.p_W[0] == pytest.approx(speed**2 / (2.0 * mu * G), abs=0.01)
    assert np.linalg.norm(truth.v_W) < 1e-6
    assert truth.p_W[1] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(("roll", "half_track"), [(True, FOOT_Y), (False, FOOT_X)])
def test_it_tips_over_when_its_weight_leaves_its_feet_and_not_before(roll, half_track):
    """Tan = half track over height; stiff feet, which would add 2 sag over the track: 0.1 deg."""
    params = touching(friction=2.0, sag_m=2e-4)
    limit = math.degrees(math.atan(half_track / FOOT_Z))
    for change_deg, tips in ((-0.4, False), (0.4, True)):
        angle = math.radians(limit + change_deg)
        fleet = on_slope(params, tilted_plane, angle, yaw=math.pi / 2 if roll else 0.0)
        uphill = np.array([-math.cos(angle), 0.0, math.sin(angle)])
        for held in np.linspace(1.0, 0.0, 200):  # let go slowly: no swing takes it over
            force_N = held * params.mass_kg * G * math.sin(angle)
            fleet.set_external_wrench(0, force_N * uphill, (0.0, 0.0, 0.0))
            run(fleet, 0.02)
        run(fleet, 4.0)
        assert (fleet.crash(0) != NO_CRASH) == tips
        if not tips:
            assert np.linalg.norm(fleet.truth(0).v_W) < 1e-6


def restitution(zeta):
    """Of a damped spring that does not pull: Schwager and Poeschel, Granular Matter 9, 2007."""
    beta, w = zeta, math.sqrt(1.0 - zeta**2)
    return math.exp(-beta / w * (math.pi - math.atan2(2.0 * beta * w, w * w - beta * beta)))


@pytest.mark.parametrize("zeta", [0.0, 0.2, 0.6])
def test_a_bounce_without_weight_gives_the_spring_and_dampers_restitution(zeta):
    params = touching(damping_ratio=zeta)
    fleet = place(params, WEIGHTLESS, tilted_plane(0.0), p=(0, 0, FOOT_Z + 0.1), v=(0, 0, -1.0))
    truth = run(fleet, 1.0)
    # w dt = 0.06, and the damper sets in within a step: 2 zeta w dt / 2 of the speed at most
    assert truth.v_W[2] == pytest.approx(restitution(zeta), abs=1e-4 + 0.06 * zeta)
    assert truth.w_B == pytest.approx([0.0, 0.0, 0.0], abs=1e-9)


def energy(fleet):
    """Of motion and of weight, J; less than the whole while a spring holds some."""
    truth, params = fleet.truth(0), fleet.params
    spin = 0.5 * np.array(params.inertia_kg_m2) @ np.square(truth.w_B)
    gravity = fleet.environment.gravity_mps2
    return params.mass_kg * (0.5 * truth.v_W @ truth.v_W + gravity * truth.p_W[2]) + spin


@pytest.mark.parametrize(
    ("zeta", "friction"), [(0.0, 0.0), (0.0, 0.8), (0.05, 0.0), (0.05, 0.8), (0.7, 0.8)]
)
def test_energy_does_not_grow_while_it_tumbles(zeta, friction):
    """It falls on one rotor's tip, and rolls over its feet and its hull.

    Where a spring sets in within a step, the integral of its force is off by k v dt^2 / 12 at most:
    of the energy (w dt)^2 / 6, here 5e-3, either way. That is more than nothing only without a
    damper, which takes 2 pi zeta.
    """
    params = touching(damping_ratio=zeta, friction=friction, hull_sag_m=0.003)
    start = {"p": (0, 0, 0.6), "rpy": (1.2, 0.4, 0.0), "v": (1.0, 0, 0), "w": (2.0, -3.0, 1.0)}
    fleet = place(params, EnvironmentParams(), **start)
    run(fleet, 0.0)
    least = first = energy(fleet)
    for _ in range(600):
        run(fleet, 0.01)
        if fleet._vehicles[0].contact:
            assert energy(fleet) <= first * (1.0 + 5e-3)  # some of it is in the springs
            continue
        assert energy(fleet) <= least * (1.0 + (5e-3 if zeta == 0.0 else 1e-12))
        least = min(least, energy(fleet))
    if (zeta, friction) == (0.0, 0.0):
        assert least == pytest.approx(first, rel=0.01)
    if zeta == 0.7:
        assert np.linalg.norm(fleet.truth(0).v_W) < 1e-6  # it lies still


def wall(thickness_m):
    return scene_of(
        [Obstacle("wall", Box((thickness_m, 9.0, 9.0)), Pose((2.0 + thickness_m / 2, 0.0, 0.0)))]
    )


def sheet():
    corners = np.array([[2.0, -9.0, -9.0], [2.0, 9.0, -9.0], [2.0, 0.0, 15.0]])
    return scene_of([Obstacle("sheet", Mesh(corners[None], closed=False))])


@pytest.mark.parametrize(
    "scene", [wall(1.0), wall(0.02), sheet()], ids=["wall", "thin wall", "sheet"]
)
@pytest.mark.parametrize(("speed", "crash"), [(0.8, NO_CRASH), (8.0, HULL_STRUCK)])
def test_walls_stop_it(scene, speed, crash):
    fleet = place(BARE, WEIGHTLESS, scene, v=(speed, 0.0, 0.0), rpy=(0.1, 0.2, 0.3))
    furthest = 0.0
    for _ in range(200):
        truth = run(fleet, 0.02)
        furthest = max(furthest, truth.p_W[0])
    assert 1.5 < furthest < 2.0
    assert truth.v_W[0] < 0.0
    assert fleet.crash(0) == crash
    assert energy(fleet) < 0.5 * BARE.mass_kg * speed**2


def test_a_mast_is_met_by_the_hull():
    mast = scene_of([Obstacle("mast", Cylinder(0.05, 8.0), Pose((3.0, 0.25, 0.0)))])
    fleet = place(BARE, WEIGHTLESS, mast, v=(2.0, 0.0, 0.0))
    run(fleet, 3.0)
    assert fleet.crash(0) == HULL_STRUCK
    assert abs(fleet.truth(0).w_B[2]) > 0.3  # met on its left: it turns left
    assert fleet.truth(0).w_B[2] > 0.0


@pytest.mark.parametrize(
    ("start", "crash", "words"),
    [
        ({"p": (0, 0, FOOT_Z + 0.05)}, NO_CRASH, "set down"),
        ({"p": (0, 0, FOOT_Z + 0.44)}, NO_CRASH, "2.94 m/s"),
        ({"p": (0, 0, FOOT_Z + 0.48)}, HARD_LANDING, "3.07 m/s"),
        ({"p": (0, 0, FOOT_Z + 0.01), "v": (4.0, 0, 0)}, NO_CRASH, "fast along the ground"),
        ({"p": (0, 0, 0.35), "rpy": (0.5, 0, 0)}, NO_CRASH, "on two feet at 29 degrees"),
        ({"p": (0, 0, 0.07), "rpy": (math.pi, 0, 0)}, TIPPED_OVER, "laid on its back"),
        ({"p": (0, 0, 0.5), "rpy": (math.pi, 0, 0)}, HULL_STRUCK, "dropped on its back"),
    ],
)
def test_a_crash_is_told_from_a_landing(start, crash, words):
    fleet = place(touching(friction=0.3), EnvironmentParams(), **start)
    run(fleet, 4.0)
    assert fleet.crash(0) == crash, words


def test_the_impact_is_that_before_the_touch():
    """The spring slows it within the step in which the touch is seen."""
    fleet = place(BARE, EnvironmentParams(), p=(0, 0, FOOT_Z + 0.3))
    run(fleet, 0.4)
    assert fleet._vehicles[0].feet.impact_mps == pytest.approx(math.sqrt(2 * G * 0.3), abs=G * 2e-3)


def lying(**changes):
    """Laid on its back at a tilt that the feet do not reach; time until that is a crash."""
    fleet = place(touching(**changes), EnvironmentParams(), p=(0, 0, 0.06), rpy=(math.pi, 0.0, 0.0))
    while fleet.crash(0) == NO_CRASH and fleet.stamp_ns < 5 * SECOND_NS:
        run(fleet, 0.01)
    return fleet.crash(0), fleet.stamp_ns / SECOND_NS


def test_it_is_a_crash_after_it_has_lain_for_a_while():
    assert lying() == (TIPPED_OVER, pytest.approx(0.5, abs=0.05))
    assert lying(crash_time_s=2.0) == (TIPPED_OVER, pytest.approx(2.0, abs=0.05))
    assert lying(crash_tilt_deg=180.0) == (NO_CRASH, 5.0)


def height_after(seconds=0.1, drop=0.2, **changes):
    fleet = place(touching(**changes), EnvironmentParams(), p=(0, 0, FOOT_Z + drop), v=(0.5, 0, 0))
    run(fleet, 0.2)
    return np.concatenate([run(fleet, seconds).p_W, run(fleet, 1.0).p_W, [fleet.crash(0)]])


@pytest.mark.parametrize(
    "change",
    [
        {"points_B_m": ((0.125, 0.132, -0.2), (-0.125, 0.132, -0.229), (-0.125, -0.132, -0.229))},
        {"sag_m": 0.004},
        {"damping_ratio": 0.5},
        {"friction": 0.1},
        {"crash_speed_mps": 1.0},
    ],
)
def test_every_parameter_of_the_feet_changes_what_happens(change):
    assert np.abs(height_after(**change) - height_after()).max() > 1e-4


@pytest.mark.parametrize(
    "change",
    [
        {"hull_B_m": ((0.5, 0.0, 0.0), (-0.5, 0.0, 0.0))},
        {"hull_sag_m": 0.001},
        {"hull_speed_mps": 5.0},
    ],
)
def test_every_parameter_of_the_hull_changes_what_happens(change):
    results = []
    for changes in ({}, change):
        fleet = place(touching(**changes), WEIGHTLESS, wall(1.0), v=(2.0, 0, 0), rpy=(0, 0, 0.1))
        run(fleet, 2.0)
        results.append([*fleet.truth(0).v_W, *fleet.truth(0).w_B, fleet.crash(0)])
    assert np.abs(np.subtract(*results)).max() > 1e-3


def test_feet_alone_or_nothing():
    """Without feet and hull a vehicle falls through the ground, which tests in free space need."""
    fleet = place(touching(points_B_m=()), EnvironmentParams(), p=(0, 0, 1.0))
    assert run(fleet, 1.0).p_W[2] == pytest.approx(1.0 - 0.5 * G, abs=1e-9)
    assert not fleet.contact(0)


def test_hull_of_a_quad():
    points = np.array(hull_points(((0.2, 0.2, 0.05), (-0.2, 0.2, 0.05)), 0.1))
    assert points.shape == (9, 3)
    assert np.linalg.norm(points[0] - [0.2, 0.2, 0.05]) == pytest.approx(0.1)
    assert points[0, 0] == pytest.approx(0.3)  # away from the middle between the two
    assert points[-1] == pytest.approx([0.0, 0.2, 0.05])
    assert hull_points((), 0.1) == ()


def test_from_inside_terrain_the_nearest_way_out_is_taken():
    """A foot that is pushed deep into a steep slope is not thrown up by the depth below it."""
    scene = tilted_terrain(math.radians(60.0))
    normal = np.array([math.sin(math.radians(60.0)), 0.0, 0.5])
    params = touching(friction=0.0, damping_ratio=1.0)
    place_at = tuple((FOOT_Z - 0.05) * normal)
    fleet = place(params, WEIGHTLESS, scene, p=place_at, rpy=(0.0, math.radians(60.0), 0.0))
    truth = run(fleet, 0.5)
    v_W = np.array(truth.v_W)
    assert v_W / np.linalg.norm(v_W) == pytest.approx(normal, abs=1e-6)


@pytest.mark.parametrize("angle", [0.2, 0.5, 0.8])
def test_beside_a_slope_it_is_known_for_a_while_that_nothing_is_near(angle):
    """As far around as the ground below, the slope is higher than the vehicle."""
    fleet = place(BARE, DEEP, tilted_terrain(angle), (0.0, 0.0, 8.0))
    run(fleet, 0.02)
    clear_m = fleet._vehicles[0].feet.clear_m
    assert 1.5 < clear_m <= 8.0 * math.cos(angle)


def test_the_derivative_knows_what_the_step_before_saw():
    """Between two steps a point cannot reach a surface that was not looked for."""
    fast = place(BARE, WEIGHTLESS, wall(1.0), p=(1.0, 0.0, 0.0), v=(60.0, 0.0, 0.0))
    furthest = 0.0
    for _ in range(40):
        furthest = max(furthest, run(fast, 0.002).p_W[0])
    assert furthest < 2.3  # 0.3 m short of the wall's other side with the nose
