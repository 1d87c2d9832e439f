"""What the viewer logs to Rerun, read back from its file; skipped where Rerun is not installed."""

import json
import socket
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

pytest.importorskip("rerun", reason="the extra [view] is not installed")

from rerun.experimental import RrdReader

from quadsim.bag.log import read_log
from quadsim.bag.reading import open_bag
from quadsim.base.errors import InputError
from quadsim.base.files import find
from quadsim.base.parameters import load
from quadsim.base.surroundings import free_port
from quadsim.control.parameters import FenceParams
from quadsim.sim.log import Event, Track
from quadsim.vehicle.parameters import VehicleParams
from quadsim.view import output
from quadsim.view.feed import Feed, Mounts
from quadsim.view.flights import Picture, draw_bag, new_recording
from quadsim.view.motion import ROTOR_SLOWING
from quadsim.view.scenery import draw_scene
from quadsim.view.vehicle import DrawnTime, VehicleView
from quadsim.view.world_shapes import GroundPatch, terrain_shape
from quadsim.world.scene.obstacles import Box, Cylinder, Obstacle, Plane, Pose, Sphere
from quadsim.world.scene.scene import scene_of
from quadsim.world.scene.terrain import Heightmap, terrain_arrays

SECOND = 1_000_000_000


class Logged:
    """Entities of a file: times in s, and the values of one component, stacked."""

    def __init__(self, path: Path) -> None:
        self._chunks = {}
        for chunk in RrdReader(path).stream().to_chunks():
            self._chunks.setdefault(str(chunk.entity_path), []).append(chunk.to_record_batch())

    @property
    def entities(self) -> set[str]:
        return set(self._chunks)

    def times_s(self, entity: str) -> np.ndarray:
        batches = [b for b in self._chunks[entity] if "time" in b.schema.names]
        ns = [b.column("time").cast("int64").to_numpy(zero_copy_only=False) for b in batches]
        return 1e-9 * np.concatenate(ns)

    def values(self, entity: str, component: str) -> list:
        """Values of each row."""
        found = []
        for batch in self._chunks[entity]:
            for name in batch.schema.names:
                if name.endswith(f":{component}"):
                    found += [row for row in batch.column(name).to_pylist() if row is not None]
        return found

    def array(self, entity: str, component: str) -> np.ndarray:
        return np.array(self.values(entity, component), float).squeeze(axis=1)


@pytest.fixture
def recording(tmp_path):
    stream = new_recording()
    output.send_to(stream, None, tmp_path / "flight.rrd")
    return stream


@pytest.fixture
def read(recording, tmp_path):
    def finish() -> Logged:
        recording.flush()
        recording.disconnect()
        return Logged(tmp_path / "flight.rrd")

    return finish


@pytest.fixture
def view(recording):
    return VehicleView(
        recording, "quad", load(VehicleParams, find("vehicles", "x500")), DrawnTime(), rate_hz=50.0
    )


def line(stamp_ns, offset_W=(0.0, 0.0, 0.0), sigma=None) -> Track:
    """East at 2 m/s, nose to the north."""
    t_s = stamp_ns * 1e-9
    count = len(t_s)
    p_W = np.stack([2.0 * t_s, 0.0 * t_s, 3.0 + 0.0 * t_s], axis=1) + offset_W
    q = np.tile(np.roll(Rotation.from_euler("z", np.pi / 2).as_quat(), 1), (count, 1))
    v_W = np.tile([2.0, 0.0, 0.0], (count, 1))
    return Track(stamp_ns, p_W, v_W, q, np.zeros((count, 3)), sigma)


STAMPS = np.arange(0, 2 * SECOND, SECOND // 500)


def test_the_body_follows_the_truth_and_the_ghost_the_estimate(view, read):
    truth, estimate = line(STAMPS), line(STAMPS, (0.1, -0.2, 0.3), np.full((len(STAMPS), 9), 0.2))
    for rows in (slice(0, 333), slice(333, None)):  # in blocks
        view.track("truth", truth[rows])
        view.track("estimate", estimate[rows])
    logged = read()
    for entity, track in (("vehicle", truth), ("ghost", estimate)):
        times_s = logged.times_s(f"/world/quad/{entity}")
        assert times_s == pytest.approx(np.arange(100) / 50.0)  # thinned from 500 to 50 Hz
        p_W = logged.array(f"/world/quad/{entity}", "translation")
        assert p_W == pytest.approx(track.p_W[::10], abs=1e-6)  # float32
        xyzw = logged.array(f"/world/quad/{entity}", "quaternion")
        assert Rotation.from_quat(xyzw).as_euler("zyx")[:, 0] == pytest.approx(np.pi / 2)
    half_axes = logged.array("/world/quad/uncertainty", "half_sizes")
    assert half_axes == pytest.approx(0.6)  # three deviations
    error = np.array(logged.values("/quad/position_error/estimate", "scalars"))
    assert error == pytest.approx(np.tile([0.1, -0.2, 0.3], (100, 1)))
    bounds = np.array(logged.values("/quad/position_error/estimate_bounds", "scalars"))
    assert bounds == pytest.approx(np.tile([0.6] * 3 + [-0.6] * 3, (100, 1)))
    trail = [piece for row in logged.values("/world/quad/trail/truth", "strips") for piece in row]
    # the pieces meet: each begins where the one before ended
    for before, after in pairwise(trail):
        assert before[-1] == after[0]
    assert trail[-1][-1] == pytest.approx(truth.p_W[::10][-1])


def test_without_a_truth_the_estimate_has_the_body(recording, read):
    params = load(VehicleParams, find("vehicles", "x500"))
    view = VehicleView(recording, "quad", params, DrawnTime(), has_truth=False)
    view.track("estimate", line(STAMPS))
    logged = read()
    assert len(logged.times_s("/world/quad/vehicle")) == 100
    assert "/world/quad/ghost" not in logged.entities


def test_rotors_turn_in_their_direction_by_the_integral_of_their_speed(view, read):
    speed = np.tile([100.0, 200.0, 300.0, 400.0], (len(STAMPS), 1))
    view.rotors(STAMPS, speed)
    logged = read()
    directions = load(VehicleParams, find("vehicles", "x500")).rotor_directions
    for i, direction in enumerate(directions):
        xyzw = logged.array(f"/world/quad/vehicle/rotor_{i}", "quaternion")
        turned = Rotation.from_quat(xyzw[-2:]).as_euler("zyx")[:, 0]
        step = (turned[1] - turned[0] + np.pi) % (2 * np.pi) - np.pi
        assert step == pytest.approx(direction * speed[0, i] * 0.02 / ROTOR_SLOWING, abs=1e-5)


def test_time_begins_at_zero_in_a_simulation_and_at_the_first_date(recording):
    assert DrawnTime().since(5 * SECOND) == 5 * SECOND
    dated = DrawnTime()
    begin_ns = 1_700_000_000 * SECOND
    assert dated.since(begin_ns) == 0
    assert dated.since(begin_ns + SECOND) == SECOND


def test_events_wind_range_and_fence_are_drawn(view, read):
    view.track("truth", line(STAMPS))
    view.wind(STAMPS, np.tile([4.0, 0.0, 0.0], (len(STAMPS), 1)))
    view.range(STAMPS, np.where(STAMPS < SECOND, 3.0, np.nan), (0.0, 0.0, -0.1))
    view.events([Event(SECOND, 2, "crash", "into the ground")])
    view.fence(FenceParams(radius_m=10.0, ceiling_m=20.0), np.array([1.0, 2.0, 0.5]))
    logged = read()
    assert logged.values("/quad/events", "text") == [["crash: into the ground"]]
    assert logged.values("/quad/events", "level") == [["ERROR"]]
    assert logged.array("/world/quad/wind", "vectors") == pytest.approx(
        np.tile([1.0, 0.0, 0.0], (100, 1))
    )
    beams = np.array(logged.values("/world/quad/vehicle/range", "strips"), float)[:, 0]
    assert beams[0] == pytest.approx(np.array([[0.0, 0.0, -0.1], [0.0, 0.0, -3.1]]))
    assert beams[-1, 0] == pytest.approx(beams[-1, 1])  # nothing seen: no beam
    (strips,) = logged.values("/world/quad/fence", "strips")
    ring = np.array(strips[0]) - [1.0, 2.0, 0.5]
    assert np.hypot(ring[:, 0], ring[:, 1]) == pytest.approx(10.0)
    assert max(np.array(strip)[:, 2].max() for strip in strips) == pytest.approx(20.5)


def test_obstacles_are_drawn_once_each_where_they_are(recording, read):
    turn = np.roll(Rotation.from_euler("z", 0.5).as_quat(), 1)
    boxes = [
        Obstacle(f"b{i}", Box((1.0, 2.0, 3.0)), Pose((i, 0.0, 1.5), tuple(turn))) for i in range(5)
    ]
    others = [
        Obstacle("s", Sphere(2.0), Pose((0.0, 9.0, 2.0))),
        Obstacle("c", Cylinder(0.3, 4.0), Pose((0.0, -9.0, 2.0))),
        Obstacle("p", Plane((1.0, 0.0, 0.0)), Pose((-20.0, 0.0, 0.0))),
    ]
    draw_scene(recording, scene_of([*boxes, *others]), 0.0, GroundPatch())
    logged = read()
    (centers,) = logged.values("/world/obstacles/boxes", "centers")
    assert sorted(center[0] for center in centers) == [0.0, 1.0, 2.0, 3.0, 4.0]
    (halves,) = logged.values("/world/obstacles/boxes", "half_sizes")
    assert halves == [[0.5, 1.0, 1.5]] * 5
    (turns,) = logged.values("/world/obstacles/boxes", "quaternions")
    assert Rotation.from_quat(turns).as_euler("zyx")[:, 0] == pytest.approx(0.5)
    (lengths,) = logged.values("/world/obstacles/cylinders", "lengths")
    assert lengths == [4.0]
    (corners,) = logged.values("/world/obstacles/plane_0", "vertex_positions")
    assert np.array(corners)[:, 0] == pytest.approx(-20.0)


def test_terrain_has_the_heights_of_its_map():
    x, y = np.meshgrid(np.linspace(-30, 30, 13), np.linspace(-20, 20, 9))
    shape = terrain_shape(terrain_arrays(Heightmap(0.1 * x + 0.2 * y + 7.0, (60.0, 40.0))))
    places = shape.points_m
    assert places[:, 2] == pytest.approx(0.1 * places[:, 0] + 0.2 * places[:, 1] + 7.0)
    assert places.min(axis=0)[:2] == pytest.approx([-30.0, -20.0])
    assert places.max(axis=0)[:2] == pytest.approx([30.0, 20.0])
    up = np.array([-0.1, -0.2, 1.0]) / np.linalg.norm([-0.1, -0.2, 1.0])
    assert shape.normals == pytest.approx(np.tile(up, (len(places), 1)))


def test_a_bag_is_drawn_as_it_is_read(circle_bag, recording, read):
    picture = Picture(recording)
    with open_bag(circle_bag) as bag:
        draw_bag(picture, bag)
        log = read_log(bag, "/quad")
    logged = read()
    estimate = log.estimates["filtered"]
    p_W = logged.array("/world/quad/ghost", "translation")
    assert p_W == pytest.approx(estimate.p_W[::2], abs=1e-5)  # from 100 to 50 Hz
    velocity = np.array(logged.values("/quad/velocity/estimate", "scalars"))
    assert velocity == pytest.approx(estimate.v_W[::2], abs=1e-9)
    half_axes = logged.array("/world/quad/uncertainty", "half_sizes")
    assert half_axes == pytest.approx(np.tile([0.3, 0.6, 1.2], (len(p_W), 1)))
    fixes = logged.array("/world/quad/gps", "positions")
    assert log.gnss is not None
    assert fixes == pytest.approx(log.gnss.p_W, abs=1e-4)
    (waypoints,) = logged.values("/world/quad/mission", "positions")
    assert waypoints == log.waypoints.tolist()
    assert logged.values("/quad/events", "text")[0] == ["mission: armed"]
    assert {"reference", "estimate", "truth"} <= set(picture.views["quad"].tracks)


def test_a_vehicle_that_is_not_in_the_bag_is_refused(circle_bag, recording):
    with (
        open_bag(circle_bag) as bag,
        pytest.raises(InputError, match=r"vehicles in this bag: /quad"),
    ):
        draw_bag(Picture(recording), bag, ["/other"])


# ---- where it goes ------------------------------------------------------------------------------


def test_a_window_needs_a_screen(monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    with pytest.raises(InputError, match="--web"), output.viewer(web=False):
        pass


def test_a_port_that_is_taken_is_named():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(InputError, match="--port"):
            free_port("127.0.0.1", taken.getsockname()[1])


def test_the_viewer_is_told_to_tell_nobody(tmp_path):
    environment = output._private(tmp_path)
    settings = Path(environment["XDG_CONFIG_HOME"]) / "rerun" / "analytics.json"
    assert json.loads(settings.read_text())["analytics_enabled"] is False


@pytest.mark.parametrize("text", ["", "1", "GB", "x%", "1 GB"])
def test_a_limit_of_memory_is_a_number_with_a_unit(text):
    assert output.check_memory("1.5GiB") == "1.5GiB"
    with pytest.raises(InputError, match="--memory-limit"):
        output.check_memory(text)


def test_a_flight_whose_stamps_went_back_is_drawn_behind_the_one_before(view, read):
    view.track("truth", line(STAMPS))
    view.restart(0)
    view.track("truth", line(STAMPS))
    times_s = read().times_s("/world/quad/vehicle")
    assert len(times_s) == 200
    assert (np.diff(times_s) >= 0.0).all()


def test_a_feed_begins_anew_when_stamps_go_back_but_not_for_a_late_message():
    pytest.importorskip("rclpy")
    from rclpy.serialization import serialize_message
    from sensor_msgs.msg import Range

    begun, drawn = [], []
    view = SimpleNamespace(
        restart=begun.append,
        events=lambda _: None,
        range=lambda stamps, *_: drawn.extend(stamps),
    )
    feed = Feed(view, Mounts(), None)

    def take(stamp_s):
        message = Range(min_range=0.1, max_range=9.0, range=1.0)
        stamp = message.header.stamp
        stamp.sec, stamp.nanosec = divmod(round(stamp_s * SECOND), SECOND)
        feed.take("range/down", "sensor_msgs/msg/Range", serialize_message(message))

    for stamp_s in (1.0, 9.0, 8.5, 9.1):
        take(stamp_s)
    assert not begun
    take(1.0)
    take(1.1)
    feed.flush()
    assert begun == [SECOND]
    assert drawn == [round(stamp_s * SECOND) for stamp_s in (1.0, 9.0, 9.1, 1.0, 1.1)]


def test_what_is_spawned_is_drawn_from_its_stamp_on_and_gone_with_the_next(recording, read):
    pytest.importorskip("rclpy")
    from rclpy.serialization import serialize_message

    from quadsim.ros.messages.markers import obstacle_markers

    box = Obstacle("box", Box((1.0, 2.0, 4.0)), Pose((5.0, 0.0, 2.0)))
    picture = Picture(recording)
    picture.spawned.take(serialize_message(obstacle_markers({"box": [box]}, 3 * SECOND)))
    picture.spawned.take(b"nonsense")
    picture.spawned.take(serialize_message(obstacle_markers({}, 4 * SECOND)))
    logged = read()
    assert logged.times_s("/world/spawned") == pytest.approx([3.0, 4.0])  # cleared
    assert logged.times_s("/world/spawned/boxes") == pytest.approx([3.0])
    (half,) = logged.values("/world/spawned/boxes", "half_sizes")
    assert half == [pytest.approx([0.5, 1.0, 2.0])]


def test_images_of_a_depth_camera_are_drawn_with_their_unit(view, read):
    from quadsim.ros.messages.images import ImageWriter, millimetres

    depth_m = np.full((4, 6), 2.5, np.float32)
    depth_m[0, 0] = np.inf
    ids = np.arange(24, dtype=np.uint16).reshape(4, 6)
    feed, kind = Feed(view, Mounts(), None), "sensor_msgs/msg/Image"
    for name, encoding, pixels in (
        ("depth/image_rect_raw", "32FC1", depth_m),
        ("segmentation", "mono16", ids),
    ):
        payload = ImageWriter("optical", (4, 6), encoding).message(SECOND, pixels)
        feed.take(f"camera/{name}", kind, payload)
    feed.flush()
    payload = ImageWriter("optical", (4, 6), "16UC1").message(2 * SECOND, millimetres(depth_m))
    feed.take("camera/depth/image_rect_raw", kind, payload)
    feed.flush()
    assert {"camera/depth", "camera/segmentation"} <= view.series.groups
    logged = read()
    assert {"/quad/camera/depth", "/quad/camera/segmentation"} <= logged.entities
    assert np.ravel(logged.values("/quad/camera/depth", "meter")).tolist() == [1.0, 1e3]
