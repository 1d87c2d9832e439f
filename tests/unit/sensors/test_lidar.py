"""Lidar against rooms of known walls; its noise and misses against their distributions."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.spatial.transform import Rotation
from sensor_rig import ALPHA, chi2_bounds

from quadsim.base.compiled import new_record
from quadsim.base.errors import InputError
from quadsim.base.records import KINEMATICS
from quadsim.sensors.devices import load_device
from quadsim.sensors.faults import FaultParams
from quadsim.sensors.lidar import LidarParams, SimulatedLidar
from quadsim.sim.closed_loop import run
from quadsim.sim.scenario import load_scenario
from quadsim.world.environment import EnvironmentParams
from quadsim.world.scene.obstacles import Obstacle, Plane, Pose
from quadsim.world.scene.scene import EMPTY_SCENE, scene_of

HEIGHT_M = 1.5
#: Between two truths.
DT_NS = 2_000_000
#: Relative error of a float32.
FLOAT32 = 2.0**-24


def wall(normal, p_W):
    return Obstacle("wall", Plane(normal), Pose(p_W))


#: Walls at x = 4, x = -3, y = 2.5 and y = -2.
ROOM = scene_of(
    [
        wall((-1.0, 0.0, 0.0), (4.0, 0.0, 0.0)),
        wall((1.0, 0.0, 0.0), (-3.0, 0.0, 0.0)),
        wall((0.0, -1.0, 0.0), (0.0, 2.5, 0.0)),
        wall((0.0, 1.0, 0.0), (0.0, -2.0, 0.0)),
    ]
)
#: One wall at x = 4.
WALL = scene_of([wall((-1.0, 0.0, 0.0), (4.0, 0.0, 0.0))])


def room_distance(origins, rays):
    """Distance to the room's walls and floor, by their half-spaces: origins and rays (..., 3)."""
    normals = np.array([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, -1]], float)
    offsets = np.array([4.0, 3.0, 2.5, 2.0, 0.0])
    with np.errstate(divide="ignore"):
        times = (offsets - origins @ normals.T) / (rays @ normals.T)
    return np.where(times > 0.0, times, np.inf).min(axis=-1)


def still(_):
    return {"p_W": (0.0, 0.0, HEIGHT_M), "q_WB": (1.0, 0.0, 0.0, 0.0)}


def quaternion(rotation):
    x, y, z, w = rotation.as_quat()
    return w, x, y, z


def lidar(params, scene=ROOM, seed=1, faults=()):
    return SimulatedLidar(params, EnvironmentParams(), seed, "quad", scene, faults)


def published(device, duration_s, motion=still, dt_ns=DT_NS):
    """(time, scan) of everything that a lidar publishes on a vehicle that moves as it should."""
    truth = new_record(KINEMATICS)
    found = []
    for stamp_ns in range(0, round(duration_s * 1e9) + 1, dt_ns):
        truth.stamp_ns = stamp_ns
        for name, value in motion(stamp_ns * 1e-9).items():
            truth[name] = value
        scan = device.measure(truth)
        while scan is not None:
            found.append((stamp_ns, scan))
            scan = device.published(stamp_ns)
    return found


def one_scan(params, scene=ROOM, motion=still, **more):
    return published(lidar(params, scene, **more), 2.2 / params.rate_hz, motion)[0][1]


# ---- geometry ----------------------------------------------------------------------------------


def test_a_planar_scan_of_a_room():
    params = LidarParams()
    scan = one_scan(params)
    azimuth = np.radians(np.arange(-180.0, 180.0))
    assert params.azimuths() == pytest.approx(azimuth, abs=1e-12)
    assert scan.ranges.shape == (1, 360)
    rays = np.stack([np.cos(azimuth), np.sin(azimuth), np.zeros(360)], axis=1)
    expected = room_distance(np.array([0.0, 0.0, HEIGHT_M]), rays)
    assert scan.ranges[0] == pytest.approx(expected, rel=2 * FLOAT32)


def test_a_3d_scan_from_a_mount_on_a_tilted_vehicle():
    attitude = Rotation.from_euler("ZYX", [0.7, 0.2, -0.3])
    params = LidarParams(
        channels=5, elevation_min_deg=-40.0, elevation_max_deg=20.0, columns=90,
        azimuth_min_deg=-90.0, azimuth_max_deg=88.0, position_B_m=(0.3, -0.1, 0.2),
        rotation_deg=(10.0, -20.0, 50.0),
    )  # fmt: skip

    def motion(_):
        return {"p_W": (0.5, 0.3, HEIGHT_M), "q_WB": quaternion(attitude)}

    scan = one_scan(params, motion=motion)
    elevation = np.radians([-40.0, -25.0, -10.0, 5.0, 20.0])[:, None]
    azimuth = np.radians(np.arange(-90.0, 90.0, 2.0))[None, :]
    rays_S = np.stack(
        np.broadcast_arrays(
            np.cos(elevation) * np.cos(azimuth),
            np.cos(elevation) * np.sin(azimuth),
            np.sin(elevation),
        ),
        axis=-1,
    )
    assert params.directions() == pytest.approx(rays_S, abs=1e-12)
    mount = Rotation.from_euler("ZYX", [50.0, -20.0, 10.0], degrees=True)
    rays_W = (attitude * mount).apply(rays_S.reshape(-1, 3)).reshape(rays_S.shape)
    origin = np.array([0.5, 0.3, HEIGHT_M]) + attitude.apply([0.3, -0.1, 0.2])
    assert scan.ranges == pytest.approx(room_distance(origin, rays_W), rel=2 * FLOAT32)


def test_a_spin_takes_its_columns_one_after_the_other_while_the_vehicle_turns():
    rate_radps = 1.5
    params = LidarParams(columns=60, azimuth_min_deg=-30.0, azimuth_max_deg=29.0, spinning=True)

    def motion(t_s):
        return {"p_W": (0.0, 0.0, HEIGHT_M),
                "q_WB": quaternion(Rotation.from_euler("z", rate_radps * (t_s - 0.1)))}  # fmt: skip

    scan = one_scan(params, WALL, motion)
    assert scan.stamp_ns == 100_000_000
    azimuth = np.radians(np.arange(-30.0, 30.0))
    t_s = (azimuth - azimuth[0]) / (2.0 * math.pi * 10.0)  # 10 turns a second
    expected = 4.0 / np.cos(azimuth + rate_radps * t_s)
    # times are whole nanoseconds
    assert scan.ranges[0] == pytest.approx(expected, rel=2 * FLOAT32 + 1e-8)
    at_once = one_scan(replace(params, spinning=False), WALL, motion)
    assert at_once.ranges[0] == pytest.approx(4.0 / np.cos(azimuth), rel=2 * FLOAT32)


def test_a_spin_on_a_vehicle_that_approaches_a_wall_with_a_lever_arm():
    params = LidarParams(
        columns=60, azimuth_min_deg=-30.0, azimuth_max_deg=29.0, spinning=True,
        position_B_m=(0.2, 0.0, 0.0), rate_hz=5.0,
    )  # fmt: skip

    def motion(t_s):
        return {"p_W": (3.0 * (t_s - 0.2), 0.0, HEIGHT_M), "q_WB": (1.0, 0.0, 0.0, 0.0)}

    scan = one_scan(params, WALL, motion)
    azimuth = np.radians(np.arange(-30.0, 30.0))
    t_s = (azimuth - azimuth[0]) / (2.0 * math.pi * 5.0)
    expected = (4.0 - 0.2 - 3.0 * t_s) / np.cos(azimuth)
    assert scan.ranges[0] == pytest.approx(expected, rel=2 * FLOAT32 + 1e-8)


def test_a_vehicle_that_speeds_up_is_followed_between_the_truths():
    """An acceleration of 20 m/s^2 and 20 rad/s^2, truths 2 ms apart, read every 5 ms or so."""
    params = LidarParams(
        columns=60, azimuth_min_deg=-30.0, azimuth_max_deg=29.0, spinning=True, rate_hz=2.0
    )

    def motion(t_s):
        t_s = t_s - 0.5
        return {"p_W": (10.0 * t_s**2, 0.0, HEIGHT_M),
                "q_WB": quaternion(Rotation.from_euler("z", 10.0 * t_s**2))}  # fmt: skip

    scan = one_scan(params, WALL, motion)
    azimuth = np.radians(np.arange(-30.0, 30.0))
    t_s = (azimuth - azimuth[0]) / (2.0 * math.pi * 2.0)
    world = azimuth + 10.0 * t_s**2
    expected = (4.0 - 10.0 * t_s**2) / np.cos(world)
    # dt^2 / 8 of up to 6 ms: 0.09 mm and 0.09 mrad, times the slopes of the range
    bound = 9e-5 * (1.0 / np.cos(world) + np.abs(expected * np.tan(world)))
    assert np.all(np.abs(scan.ranges[0] - expected) < bound)
    assert np.abs(scan.ranges[0] - 4.0 / np.cos(azimuth)).max() > 0.05  # it does move


def test_no_echo_beyond_the_largest_incidence():
    scan = one_scan(LidarParams(incidence_max_deg=30.0), WALL)
    azimuth = np.arange(-180.0, 180.0)
    assert np.array_equal(np.isfinite(scan.ranges[0]), np.abs(azimuth) <= 30.0)


def test_limits_follow_rep_117_and_nothing_is_nan():
    scan = one_scan(LidarParams(range_min_m=2.2, range_max_m=3.5))
    expected = one_scan(LidarParams()).ranges[0]
    near, far = expected < 2.2, expected > 3.5
    assert near.any()
    assert far.any()
    assert np.all(scan.ranges[0, near] == -np.inf)
    assert np.all(scan.ranges[0, far] == np.inf)
    assert np.array_equal(scan.ranges[0, ~near & ~far], expected[~near & ~far])
    inside = one_scan(LidarParams(), motion=lambda _: still(0) | {"p_W": (5.0, 0.0, 1.0)})
    assert np.all(inside.ranges == -np.inf)


# ---- errors ------------------------------------------------------------------------------------


def test_noise_has_its_constant_and_its_proportional_part():
    params = LidarParams(columns=8192, noise_sigma_m=0.01, noise_share=0.01)
    noisy = one_scan(params).ranges[0].astype(float)
    true = one_scan(LidarParams(columns=8192)).ranges[0].astype(float)
    z = (noisy - true) / np.hypot(0.01, 0.01 * true)
    low, high = chi2_bounds(z.size)
    assert low < np.sqrt(np.mean(z**2)) < high
    assert abs(z.mean()) < 4.0 / math.sqrt(z.size)  # 1 in 10^4
    # neighbours are independent: their correlation has the deviation 1 / sqrt(n)
    assert abs(np.corrcoef(z[1:], z[:-1])[0, 1]) < 4.0 / math.sqrt(z.size)
    assert stats.kstest(z, "norm").pvalue > ALPHA


def test_scans_have_noise_of_their_own_and_a_seed_repeats_it():
    device = lidar(LidarParams(noise_sigma_m=0.01))
    first, second, *_ = (scan.ranges for _, scan in published(device, 0.35))
    assert not np.any(first == second)
    device.reset()
    assert published(device, 0.35)[0][1].ranges.tobytes() == first.tobytes()
    other = one_scan(LidarParams(noise_sigma_m=0.01), seed=2)
    assert not np.any(other.ranges == first)


def test_ranges_are_multiples_of_the_step():
    ranges = one_scan(LidarParams(step_m=0.25, noise_sigma_m=0.1)).ranges[0].astype(float)
    assert ranges == pytest.approx(0.25 * np.round(ranges / 0.25), abs=1e-9)
    assert len(np.unique(ranges)) > 5


@pytest.mark.parametrize("loud", [None, 5.0])
def test_echoes_are_missed_with_their_probability_however_loud_the_noise(loud):
    params = LidarParams(
        columns=8192, azimuth_min_deg=-60.0, azimuth_max_deg=60.0, incidence_max_deg=60.0,
        dropout_probability=0.05, grazing_dropout_probability=0.4, noise_sigma_m=0.001,
    )  # fmt: skip
    faults = [] if loud is None else [FaultParams("noisier", value=(loud,))]
    missed = np.isinf(one_scan(params, WALL, faults=faults).ranges[0])
    incidence = np.abs(params.azimuths())
    # Lambert: what a tilted surface lacks of the echo, over what it lacks at 60 degrees
    probability = 0.05 + 0.4 * (1.0 - np.cos(incidence)) / 0.5
    for low_deg in range(0, 60, 15):
        part = (incidence >= math.radians(low_deg)) & (incidence < math.radians(low_deg + 15))
        # of independent misses with probabilities of their own: mean and variance of the sum
        mean, sigma = (
            probability[part].sum(),
            math.sqrt(np.sum((probability * (1 - probability))[part])),
        )
        assert abs(missed[part].sum() - mean) < 4.0 * sigma  # 1 in 10^4


def test_intensity_is_the_part_of_the_light_that_a_diffuse_surface_sends_back():
    scan = one_scan(LidarParams(intensity=True, reflectivity=0.8, range_max_m=10.0), WALL)
    azimuth = np.radians(np.arange(-180.0, 180.0))
    heard = np.isfinite(scan.ranges[0])
    expected = np.where(heard, 80.0 * np.cos(azimuth), 0.0)
    assert scan.intensities[0] == pytest.approx(expected, abs=1e-5)
    assert not one_scan(LidarParams(), WALL).intensities.any()


# ---- time --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dt_ns", [1_000_000, 3_000_000, 20_000_000])
def test_scans_begin_at_multiples_of_the_period_and_leave_with_their_last_ray(dt_ns):
    params = LidarParams(spinning=True, azimuth_min_deg=-90.0, azimuth_max_deg=20.0, columns=111)
    found = published(lidar(params), 1.0, dt_ns=dt_ns)
    assert [scan.stamp_ns for _, scan in found] == [100_000_000 * k for k in range(1, 10)]
    for time_ns, scan in found:
        assert 0 <= time_ns - scan.stamp_ns - 100_000_000 * 110 / 360 < dt_ns


def test_a_whole_turn_ends_as_the_next_begins():
    params = LidarParams(spinning=True, columns=361, azimuth_max_deg=180.0)
    found = published(lidar(params), 0.5)
    assert [(time_ns, scan.stamp_ns) for time_ns, scan in found] == [
        (100_000_000 * (k + 1), 100_000_000 * k) for k in range(1, 5)
    ]
    for _, scan in found:
        assert scan.ranges[0] == pytest.approx(np.append(found[0][1].ranges[0, :-1], 3.0))


def test_latency_counts_from_the_last_ray_and_the_order_is_kept():
    params = LidarParams(spinning=True, columns=360, rate_hz=40.0, latency_s=0.07)
    for time_ns, scan in published(lidar(params), 0.5):
        assert 0 <= time_ns - scan.stamp_ns - 70_000_000 - 25_000_000 * 359 / 360 < DT_NS


def test_repeats_are_refused_and_a_scan_with_a_gap_is_given_up():
    device = lidar(LidarParams(spinning=True))
    truth = new_record(KINEMATICS)
    truth.q_WB[0], truth.p_W[2] = 1.0, HEIGHT_M
    stamps = []
    for stamp_ms in [*range(0, 350, 5), 345, 340, *range(500, 900, 5)]:
        truth.stamp_ns = stamp_ms * 1_000_000
        scan = device.measure(truth)
        stamps += [scan.stamp_ns // 1_000_000] if scan else []
    assert (device.refused, device.gaps) == (2, 1)
    assert stamps == [100, 200, 600, 700]


def test_only_the_truths_that_it_needs_are_read():
    device = lidar(
        LidarParams(spinning=True, azimuth_min_deg=0.0, azimuth_max_deg=90.0, columns=91)
    )
    truth = new_record(KINEMATICS)
    truth.q_WB[0] = 1.0
    wanted = []
    for stamp_ms in range(300):
        truth.stamp_ns = stamp_ms * 1_000_000
        if device.wants(int(truth.stamp_ns)):
            wanted.append(stamp_ms)
            device.measure(truth)
    # every 5 ms: the ends of the scans, 25 ms after their beginning, are among them
    assert wanted == list(range(0, 300, 5))


# ---- faults ------------------------------------------------------------------------------------


def under(fault, **params):
    """Scans at 0.1 s to 0.5 s, with a fault from 0.15 s to 0.35 s."""
    fault = replace(fault, at_s=0.15, duration_s=0.2)
    device = lidar(LidarParams(**params), faults=[fault])
    return {round(scan.stamp_ns * 1e-9, 1): scan for _, scan in published(device, 0.55)}


HEALTHY = (0.1, 0.4, 0.5)


@pytest.mark.parametrize(
    ("fault", "change"),
    [
        (FaultParams("stuck", value=(2.0,)), lambda ranges: np.full_like(ranges, 2.0)),
        (FaultParams("bias", value=(0.5,)), lambda ranges: ranges + np.float32(0.5)),
    ],
)
def test_stuck_and_bias_act_on_every_range_in_their_time(fault, change):
    true = one_scan(LidarParams()).ranges
    for time_s, scan in under(fault).items():
        assert np.array_equal(scan.ranges, true if time_s in HEALTHY else change(true))


def test_a_frozen_lidar_repeats_its_scan_under_new_stamps():
    healthy = under(FaultParams("bias", value=(0.0,)), noise_sigma_m=0.01)
    frozen = under(FaultParams("frozen"), noise_sigma_m=0.01)
    assert list(frozen) == list(healthy) == [0.1, 0.2, 0.3, 0.4, 0.5]
    for time_s, scan in frozen.items():
        kept = time_s if time_s in HEALTHY else 0.2
        assert np.array_equal(scan.ranges, healthy[kept].ranges)


def test_a_noisier_lidar_has_the_same_noise_louder():
    true = one_scan(LidarParams()).ranges
    healthy = under(FaultParams("noisier", value=(1.0,)), noise_sigma_m=0.01)
    loud = under(FaultParams("noisier", value=(4.0,)), noise_sigma_m=0.01)
    for time_s, scan in loud.items():
        factor = 1.0 if time_s in HEALTHY else 4.0
        noise = factor * (healthy[time_s].ranges - true)
        assert scan.ranges - true == pytest.approx(noise, abs=5e-6)  # float32 of up to 5 m


def test_dropout_and_delay_act_on_whole_scans():
    assert list(under(FaultParams("dropout"))) == list(HEALTHY)
    fault = FaultParams("delay", at_s=0.15, duration_s=0.1, value=(0.25,))
    found = published(lidar(LidarParams(), faults=[fault]), 0.6)
    late = [(round(scan.stamp_ns * 1e-9, 1), round(time_ns * 1e-9, 2)) for time_ns, scan in found]
    assert late == [(0.1, 0.1), (0.2, 0.45), (0.3, 0.45), (0.4, 0.45), (0.5, 0.5), (0.6, 0.6)]


def test_faults_can_be_set_in_flight_and_one_that_does_not_fit_changes_nothing():
    device = lidar(LidarParams())
    device.set_faults([FaultParams("dropout")])
    for fault, said in (
        (
            FaultParams("outage"),
            "faults[0]: fault: 'outage' is a fault of gnss and visual_odometry, not of lidar",
        ),
        (FaultParams("stuck", channel="left"), "channel: 'left'; lidar has: none"),
        (FaultParams("delay", value=(7.0,)), "allowed: >= 0 and <= 6.3 s"),
    ):
        with pytest.raises(InputError) as refused:
            device.set_faults([fault])
        assert said in str(refused.value)
    assert device.faults == (FaultParams("dropout"),)
    assert published(device, 0.3) == []
    device.reset()
    device.set_faults([])
    assert len(published(device, 0.3)) == 3


# ---- parameters --------------------------------------------------------------------------------


def test_devices_have_the_figures_of_their_data_sheets():
    hokuyo = load_device("lidar", "hokuyo_ust10lx")
    assert math.degrees(np.diff(hokuyo.azimuths()).mean()) == pytest.approx(0.25)
    # 1440 steps in the 25 ms of a turn
    assert np.diff(hokuyo.offsets_s()) == pytest.approx(25e-3 / 1440)
    velodyne = load_device("lidar", "vlp16")
    assert np.degrees(velodyne.elevations()) == pytest.approx(np.arange(-15.0, 16.0, 2.0))
    assert math.degrees(np.diff(velodyne.azimuths()).mean()) == pytest.approx(0.2)
    assert velodyne.offsets_s()[-1] == pytest.approx(0.1 * 1799 / 1800)


def test_an_ideal_device_reads_the_distances():
    ranges = one_scan(load_device("lidar", "ideal_lidar"), WALL).ranges[0]
    assert ranges[180] == 4.0


def test_an_empty_world_is_the_flat_ground():
    params = LidarParams(rotation_deg=(0.0, 90.0, 0.0), columns=2, azimuth_min_deg=0.0,
                         azimuth_max_deg=60.0)  # fmt: skip
    assert one_scan(params, EMPTY_SCENE).ranges[0] == pytest.approx([HEIGHT_M, 2.0 * HEIGHT_M])


# ---- in a suite --------------------------------------------------------------------------------


@pytest.fixture
def seeing(tmp_path):
    """Loads the scenario hover with a lidar, through files as a user does; ``faults`` as YAML."""

    def load(lidar_entry, faults="[]"):
        hover = load_scenario("hover")
        suite = {kind: f"ideal_{kind}" for kind in hover.sensors}
        path = tmp_path / "suite.yaml"
        path.write_text(str(suite | {"lidar": lidar_entry}))
        scenario = tmp_path / "seeing.yaml"
        scenario.write_text(
            f"sensors: {path}\nduration_s: 12.0\nfaults: {faults}\n"
            "mission: [takeoff: {height_m: 1.0}, land: {}]\n"
        )
        return load_scenario(str(scenario))

    return load


def test_a_suite_may_have_a_lidar_and_the_graph_flies_it(seeing):
    scenario = seeing(
        {"device": "vlp16", "position_B_m": [0.0, 0.0, 0.1]}, "[{sensor: lidar, fault: frozen}]"
    )
    assert "lidar" not in scenario.sensors
    assert scenario.scanners["lidar"] == replace(
        load_device("lidar", "vlp16"), position_B_m=(0.0, 0.0, 0.1)
    )
    assert list(scenario.devices) == [*scenario.sensors, "lidar"]
    pytest.importorskip("rclpy")
    from quadsim.ros.graph.graph import GraphOptions, describe

    (node,) = (node for node in describe(scenario) if node.executable == "lidar")
    assert node.namespace == "/quad"
    assert node.parameters["columns"] == 1800
    assert node.parameters["position_B_m"] == [0.0, 0.0, 0.1]
    assert node.parameters["world"] == "flat"
    assert "frozen" in node.parameters["faults"]
    without = describe(scenario, GraphOptions(drivers="sim:-lidar"))
    assert "lidar" not in {node.executable for node in without}


@pytest.mark.many
def test_the_closed_loop_leaves_a_lidar_out(seeing):
    scenario = seeing("ideal_lidar", "[{sensor: lidar, fault: dropout, at_s: 0.5}]")
    log, digest = run(scenario)
    assert digest == run(replace(scenario, scanners={}, faults={}))[1]
    assert "fault" not in {event.name for event in log.events}


@pytest.mark.parametrize(
    ("entry", "faults", "said"),
    [
        ("vlp17", "[]", "unknown sensor 'vlp17'"),
        ("tf_luna", "[]", "sensor: 'rangefinder' where 'lidar' is wanted"),
        ({"device": "vlp16", "columns": 0}, "[]", "columns: 0 is out of range"),
        (
            "vlp16",
            "[{sensor: lidar, fault: outage}]",
            "is a fault of gnss and visual_odometry, not of lidar",
        ),
    ],
)
def test_a_lidar_that_does_not_fit_is_refused(seeing, entry, faults, said):
    with pytest.raises(InputError) as refused:
        seeing(entry, faults)
    assert said in str(refused.value)
