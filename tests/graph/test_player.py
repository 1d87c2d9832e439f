"""A bag on DDS: order, stamps, time, what people ask, and a live estimator against the core."""

import threading
from functools import partial

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import TwistWithCovarianceStamped
from nav_msgs.msg import Odometry
from rclpy.serialization import deserialize_message, serialize_message
from rosgraph_msgs.msg import Clock
from scipy.spatial.transform import Rotation
from sensor_msgs.msg import Imu, MagneticField, NavSatFix
from std_srvs.srv import SetBool

from quadsim.analysis.replay import Settings, replay
from quadsim.bag.metadata import qos_yaml
from quadsim.bag.reading import open_bag
from quadsim.bag.writer import BagWriter
from quadsim.base.errors import InputError
from quadsim.geometry.geodesy import Datum
from quadsim.ros.messages.cdr import stamp_ns_of, stamp_of
from quadsim.ros.messages.world import make_datum, make_time
from quadsim.ros.nodes import estimator, player
from quadsim.ros.runtime import qos

START_NS = 1_000_000_000_000
PERIOD_NS = 10_000_000
IMU, FIX, EVENTS = "/quad/imu/data_raw", "/quad/gps/fix", "/quad/events"
DATUM = Datum()
FAST = qos_yaml(depth=200)


def stamped(message, stamp_ns, frame):
    message.header.stamp = make_time(stamp_ns)
    message.header.frame_id = frame
    return message


def sensors(k, rng):
    """Messages of a vehicle that stands at (1, 2, 3), facing east, at step k, in order."""
    stamp_ns = START_NS + k * PERIOD_NS
    imu = stamped(Imu(), stamp_ns, "imu_link")
    noise = rng.normal(0.0, 0.01, 3)
    imu.linear_acceleration.x, imu.linear_acceleration.y = noise[0], noise[1]
    imu.linear_acceleration.z = 9.80665 + noise[2]
    imu.linear_acceleration_covariance[::4] = [1e-4] * 3
    imu.angular_velocity_covariance[::4] = [1e-6] * 3
    yield IMU, imu, stamp_ns
    if k % 5 == 0:
        field = stamped(MagneticField(), stamp_ns, "imu_link")
        field.magnetic_field.y, field.magnetic_field.z = 2.15e-5, -4.3e-5
        yield "/quad/imu/mag", field, stamp_ns
    if k % 20 == 3:  # of the time of step k - 2: late, as in flight
        fix = stamped(NavSatFix(), stamp_ns - 2 * PERIOD_NS, "gps_link")
        fix.status.status = 0
        place = np.array([1.0, 2.0, 3.0]) + rng.normal(0.0, 0.1, 3)
        fix.latitude, fix.longitude, fix.altitude = map(float, DATUM.to_geodetic(place))
        fix.position_covariance[::4] = [0.01] * 3
        fix.position_covariance_type = NavSatFix.COVARIANCE_TYPE_DIAGONAL_KNOWN
        yield FIX, fix, stamp_ns
        velocity = stamped(TwistWithCovarianceStamped(), stamp_ns - 2 * PERIOD_NS, "map")
        velocity.twist.covariance[::7] = [0.01] * 6
        yield "/quad/gps/vel", velocity, stamp_ns


def written(path, rows):
    """A bag of (topic, message, log time, quality of service)."""
    with BagWriter(path) as writer:
        for topic, message, log_ns, profile in rows:
            package = type(message).__module__.split(".")[0]
            type_name = f"{package}/msg/{type(message).__name__}"
            writer.add(topic, type_name, profile, log_ns, bytes(serialize_message(message)))
    return path


@pytest.fixture
def bag(tmp_path):
    """Three seconds of sensors at 100 Hz, and a state that changes."""
    rng = np.random.default_rng(5)
    latched = qos_yaml(durability="transient_local", depth=1)
    rows = [("/datum", make_datum(DATUM), START_NS, latched)]
    for k in range(300):
        if k % 100 == 0:
            status = DiagnosticStatus(name="mission", message=f"state {k // 100}")
            rows.append((EVENTS, status, START_NS + k * PERIOD_NS, latched))
        rows += [(*row, FAST) for row in sensors(k, rng)]
    return written(tmp_path / "bag", rows)


class Listener:
    """Hears topics of one bag, in the order of arrival."""

    def __init__(self, bench, kinds):
        self.heard: list[tuple[str, bytes]] = []
        for name, kind in kinds.items():
            # as long a queue as the bag: a machine that stalls shall not lose what is counted here
            profile = qos.profile(1000, reliable=name != "/clock")
            bench.node.create_subscription(
                kind, name, partial(self._on_message, name), profile, raw=True
            )

    def _on_message(self, name, payload):
        self.heard.append((name, payload))

    def of(self, name):
        return [payload for topic, payload in self.heard if topic == name]


KINDS = {IMU: Imu, FIX: NavSatFix, EVENTS: DiagnosticStatus, "/clock": Clock}


class Play:
    """A player in a thread of this process, as the command runs it."""

    def __init__(self, bench, path, **overrides):
        self.over = threading.Event()
        self.bench = bench
        self.node = bench.add(
            player.make(bench.context, stop=self.over, overrides={"bag": str(path)} | overrides)
        )

    def to_the_end(self):
        self.bench.until(self.over.is_set)
        assert self.node.finished


def clock_ns(payload):
    return stamp_ns_of(deserialize_message(payload, Clock).clock)


def test_order_stamps_and_time_are_the_bags(bench, bag):
    """At rate 4: byte for byte, in the bag's order, with a clock that runs before the messages."""
    listener = Listener(bench, KINDS)
    play = Play(bench, bag, rate=4.0)
    play.to_the_end()
    with open_bag(bag) as opened:
        expected = [(m.topic, m.payload) for m in opened.messages(KINDS) if m.topic in KINDS]
    bench.until(lambda: len(listener.heard) >= len(expected) + 300)
    heard = [item for item in listener.heard if item[0] != "/clock"]
    assert heard == expected
    times = [clock_ns(payload) for payload in listener.of("/clock")]
    assert times == [START_NS + k * PERIOD_NS for k in range(300)]
    # every message comes after the tick of its log time, and before the next
    newest_ns = 0
    for name, payload in listener.heard:
        if name == "/clock":
            newest_ns = clock_ns(payload)
        elif name == IMU:
            assert stamp_of(payload) == newest_ns
    late = play.node.pace.lateness
    assert late.count == len(expected) + 299 + 60 + 15  # ticks, field, velocity; the datum is early


def test_a_pause_holds_all_but_what_holds_from_the_beginning(bench, bag):
    """A state that was told before the part that is played comes first, and then all of it."""
    listener = Listener(bench, KINDS | {"/datum": NavSatFix})
    play = Play(bench, bag, paused=True, start_s=2.5, rate=4.0, topics=["/datum", IMU, EVENTS])

    def messages(name):
        return listener.of(name)

    bench.until(lambda: bool(messages("/datum")) and len(listener.of("/clock")) > 2)
    assert {clock_ns(payload) for payload in listener.of("/clock")} == {START_NS + 2_500_000_000}
    (state,) = messages(EVENTS)
    assert deserialize_message(state, DiagnosticStatus).message == "state 2"
    assert not messages(IMU)
    assert bench.call(SetBool, "/player/pause", SetBool.Request(data=False)).success
    play.to_the_end()
    bench.until(lambda: len(messages(IMU)) == 50)
    stamps = [stamp_of(payload) for payload in messages(IMU)]
    assert stamps == [START_NS + k * PERIOD_NS for k in range(250, 300)]


def test_a_live_estimator_gives_what_the_core_gives(bench, bag, capfd):
    """As fast as it goes, and once more after time went back: bit for bit, both times."""
    node = bench.add(
        estimator.make(bench.context, namespace="/quad", overrides={"use_sim_time": True})
    )
    heard: list[Odometry] = bench.heard(Odometry, "/quad/odometry/filtered", qos.profile(1000))
    awaited = {"wait_for": ["/quad/estimator"], "without": ["estimator"]}
    for _ in range(2):
        play = Play(bench, bag, rate=0.0, window=8, **awaited)
        play.to_the_end()
        bench.end(play.node)
    core = replay(bag, Settings()).log.estimates["eskf"]
    assert len(core) > 100
    bench.until(lambda: len(heard) >= 2 * len(core))
    log = capfd.readouterr().err
    assert f"/clock went back by {299 * PERIOD_NS * 1e-9:.3f} s: the estimators begin anew" in log
    for once in (heard[: len(core)], heard[len(core) : 2 * len(core)]):
        assert [stamp_ns_of(m.header.stamp) for m in once] == core.stamp_ns.tolist()
        p, q = zip(*((m.pose.pose.position, m.pose.pose.orientation) for m in once), strict=True)
        assert np.array_equal([(a.x, a.y, a.z) for a in p], core.p_W)
        assert np.array_equal([(a.w, a.x, a.y, a.z) for a in q], core.q_WB)
        v = [m.twist.twist.linear for m in once]
        turn = Rotation.from_quat([(a.x, a.y, a.z, a.w) for a in q])
        # turned into the body and back: rounding alone
        assert turn.apply([(a.x, a.y, a.z) for a in v]) == pytest.approx(core.v_W, abs=1e-12)
    assert node.counts == {}


def test_what_cannot_be_played_is_said(bench, bag):
    make = partial(player.make, bench.context)
    for words, values in {
        "start 4 s is beyond its end, 2.990 s": {"start_s": 4.0},
        "no topic fits '/quad/gsp/*'": {"topics": ["/quad/gsp/*"]},
        "nothing of it can be played": {"topics": [EVENTS], "without": ["autopilot"]},
    }.items():
        with pytest.raises(InputError, match=words.replace("(", r"\(").replace("*", r"\*")):
            make(overrides={"bag": str(bag)} | values)
