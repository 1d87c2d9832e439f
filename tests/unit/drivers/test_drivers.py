"""Bags of other drivers: their names, types, axes and units become ours."""

import math
import re
import sqlite3
from itertools import chain

import numpy as np
import pytest
from rosbags.interfaces import Nodetype
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from scipy.spatial.transform import Rotation

from quadsim.bag.log import read_log
from quadsim.bag.measurements import SENSORS, measurements
from quadsim.bag.reading import open_bag
from quadsim.bag.topics import datum_of
from quadsim.base.errors import InputError, QuadsimError
from quadsim.base.files import known
from quadsim.drivers.convert import Converter, DriverTopic
from quadsim.drivers.driver import load_driver, load_drivers
from quadsim.wire import px4
from quadsim.wire.decode import LAYOUTS, decode
from quadsim.wire.definitions import standard_types
from quadsim.wire.encode import Template, renamed
from quadsim.wire.standard import OURS, TWIST

# of px4_msgs, releases 1.13 to 1.16, constants and comments left out
PX4 = {
    "SensorCombined": (
        "uint64 timestamp\nfloat32[3] gyro_rad\nuint32 gyro_integral_dt\n"
        "int32 accelerometer_timestamp_relative\nfloat32[3] accelerometer_m_s2\n"
        "uint32 accelerometer_integral_dt\nuint8 accelerometer_clipping\nuint8 gyro_clipping\n"
        "uint8 accel_calibration_count\nuint8 gyro_calibration_count"
    ),
    "VehicleMagnetometer": (
        "uint64 timestamp\nuint64 timestamp_sample\nuint32 device_id\n"
        "float32[3] magnetometer_ga\nuint8 calibration_count"
    ),
    "VehicleAirData": (
        "uint64 timestamp\nuint64 timestamp_sample\nuint32 baro_device_id\n"
        "float32 baro_alt_meter\nfloat32 baro_pressure_pa\nfloat32 ambient_temperature\n"
        "uint8 temperature_source\nfloat32 rho\nuint8 calibration_count"
    ),
    "SensorGps": (
        "uint64 timestamp\nuint64 timestamp_sample\nuint32 device_id\nfloat64 latitude_deg\n"
        "float64 longitude_deg\nfloat64 altitude_msl_m\nfloat64 altitude_ellipsoid_m\n"
        "float32 s_variance_m_s\nfloat32 c_variance_rad\nuint8 fix_type\nfloat32 eph\n"
        "float32 epv\nfloat32 hdop\nfloat32 vdop\nint32 noise_per_ms\n"
        "uint16 automatic_gain_control\nuint8 jamming_state\nint32 jamming_indicator\n"
        "uint8 spoofing_state\nfloat32 vel_m_s\nfloat32 vel_n_m_s\nfloat32 vel_e_m_s\n"
        "float32 vel_d_m_s\nfloat32 cog_rad\nbool vel_ned_valid\n"
        "int32 timestamp_time_relative\nuint64 time_utc_usec\nuint8 satellites_used\n"
        "float32 heading\nfloat32 heading_offset\nfloat32 heading_accuracy\n"
        "float32 rtcm_injection_rate\nuint8 selected_rtcm_instance\nbool rtcm_crc_failed\n"
        "uint8 rtcm_msg_used"
    ),
    "VehicleOdometry": (
        "uint64 timestamp\nuint64 timestamp_sample\nuint8 pose_frame\nfloat32[3] position\n"
        "float32[4] q\nuint8 velocity_frame\nfloat32[3] velocity\nfloat32[3] angular_velocity\n"
        "float32[3] position_variance\nfloat32[3] orientation_variance\n"
        "float32[3] velocity_variance\nuint8 reset_counter\nint8 quality"
    ),
}
OLD_GPS = (  # 1.14
    "uint64 timestamp\nuint64 timestamp_sample\nuint32 device_id\nint32 lat\nint32 lon\nint32 alt\n"
    "int32 alt_ellipsoid\nfloat32 s_variance_m_s\nfloat32 c_variance_rad\nuint8 fix_type\n"
    "float32 eph\nfloat32 epv\nfloat32 hdop\nfloat32 vdop\nint32 noise_per_ms\n"
    "uint16 automatic_gain_control\nuint8 jamming_state\nint32 jamming_indicator\n"
    "uint8 spoofing_state\nfloat32 vel_m_s\nfloat32 vel_n_m_s\nfloat32 vel_e_m_s\n"
    "float32 vel_d_m_s\nfloat32 cog_rad\nbool vel_ned_valid\nint32 timestamp_time_relative\n"
    "uint64 time_utc_usec\nuint8 satellites_used\nfloat32 heading\n"
    "float32 heading_offset\nfloat32 heading_accuracy\nfloat32 rtcm_injection_rate\n"
    "uint8 selected_rtcm_instance"
)
GEO = (
    "std_msgs/Header header\ngeographic_msgs/GeoPoint position\n" + "=" * 80 + "\n"
    "MSG: geographic_msgs/GeoPoint\nfloat64 latitude\nfloat64 longitude\nfloat64 altitude"
)


def types_with(**definitions: str):
    types = get_typestore(Stores.ROS2_HUMBLE)
    for name, text in definitions.items():
        types.register(get_types_from_msg(text, f"px4_msgs/msg/{name}"))
    return types


TYPES = types_with(**PX4)
TYPES.register(get_types_from_msg(GEO, "geographic_msgs/msg/GeoPointStamped"))


def make(type_name: str, types=TYPES, /, **fields):
    """A message; what is not given is zero. ``header`` is a stamp in ns."""
    values = {}
    for field, (kind, detail) in types.get_msgdef(type_name).fields:
        if field == "header":
            stamp_ns = fields["header"]
            stamp = make(
                "builtin_interfaces/msg/Time",
                types,
                sec=stamp_ns // 10**9,
                nanosec=stamp_ns % 10**9,
            )
            values[field] = types.types["std_msgs/msg/Header"](stamp=stamp, frame_id="any")
        elif field in fields:
            values[field] = fields[field]
        elif kind == Nodetype.NAME:
            values[field] = make(detail, types)
        elif kind == Nodetype.BASE:
            values[field] = "" if detail[0] == "string" else 0
        elif kind == Nodetype.ARRAY:
            values[field] = np.zeros(detail[1])
        else:
            values[field] = np.zeros(0)
    return types.types[type_name](**values)


def xyz(values, name="geometry_msgs/msg/Vector3"):
    x, y, z = (float(value) for value in values)
    return make(name, x=x, y=y, z=z)


def write(path, items, types=TYPES, plugin=StoragePlugin.MCAP):
    """Items are (topic, type, log time, message)."""
    with Writer(path, version=9, storage_plugin=plugin) as writer:
        known_topics = {}
        for topic, kind, log_ns, content in items:
            if topic not in known_topics:
                known_topics[topic] = writer.add_connection(topic, kind, typestore=types)
            writer.write(known_topics[topic], log_ns, types.serialize_cdr(content, kind))
    return path


def measured(path, driver=None, namespace="/quad"):
    with open_bag(path, driver) as bag:
        return list(chain.from_iterable(measurements(bag, namespace))), bag.notes


@pytest.fixture(scope="module")
def flight(circle_rows):
    """A second of the circle, as messages."""
    end_ns = circle_rows[0].stamp_ns + 1_000_000_000
    rows = [row for row in circle_rows if row.stamp_ns < end_ns]
    return [
        (r.topic, r.type_name, r.stamp_ns, TYPES.deserialize_cdr(r.payload, r.type_name))
        for r in rows
    ]


def assert_same(found, expected, rtol=0.0, atol=0.0):
    assert [(m.kind, m.stamp_ns) for m in found] == [(m.kind, m.stamp_ns) for m in expected]
    for one, other in zip(found, expected, strict=True):
        for a, b in zip(one.values, other.values, strict=True):
            np.testing.assert_allclose(a, b, rtol=rtol, atol=atol, err_msg=one.kind)


# -- the files


@pytest.mark.parametrize("name", known("drivers"))
def test_driver_files_say_what_is_known(name):
    driver = load_driver(name)
    for topic in driver.topics:
        assert topic.our_type == OURS.get(topic.ours, topic.our_type)
        if topic.ours in SENSORS:
            assert topic.our_type == SENSORS[topic.ours][0]


def test_a_chain_is_several_drivers():
    assert [name for name, _ in load_drivers("mavros, mocap")] == ["mavros", "mocap"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("topics: [{ours: imu/mag, names: [a], type: std_msgs/msg/Bool}]", "cannot become"),
        ("topics: [{ours: imu/mag, names: [], type: sensor_msgs/msg/MagneticField}]", "is empty"),
        ("topics: [{ours: a b, names: [c], type: std_msgs/msg/Bool}]", "'a b' is not the name"),
        ("topics: [{ours: a, names: [c], type: Bool}]", "'Bool' is not package/msg/Type"),
        (
            "topics: [{ours: imu/data_raw, names: [c], type: px4_msgs/msg/SensorCombined}]",
            "give world: ned, body: frd",
        ),
        (
            "topics: [{ours: imu/mag, names: [c], type: sensor_msgs/msg/MagneticField, body: x}]",
            "one of flu, frd, rfu, y_up",
        ),
        (
            "topics: [{ours: gps/fix, names: [c], type: sensor_msgs/msg/NavSatFix, sigma: [1, 2]}]",
            "allowed: none, 1 or 3",
        ),
        ("topics: []\nspeed: 3", "unknown key 'speed'"),
        ("namespace: a b\ntopics: []", "'a b' is not a namespace"),
    ],
)
def test_a_wrong_driver_file_is_named(tmp_path, text, says):
    file = tmp_path / "mine.yaml"
    file.write_text(f"description: mine\n{text}\n")
    with pytest.raises(InputError, match=re.escape(says)) as caught:
        load_driver(str(file))
    assert str(file) in str(caught.value)


def test_an_unknown_driver_is_named_with_those_there_are(circle_bag):
    with pytest.raises(
        InputError, match=r"unknown driver 'ardupilot'.*; known: crazyswarm2, gazebo, mavros"
    ):
        load_driver("ardupilot")
    says = "no topic of driver mavros, such as mavros/imu/data_raw"
    with pytest.raises(InputError, match=says), open_bag(circle_bag, "mavros"):
        pass


# -- serialising


@pytest.mark.parametrize("type_name", sorted(set(OURS.values()) & LAYOUTS.keys()))
def test_messages_are_serialised_as_rosbags_does(type_name):
    """Random fields through our encoder, then rosbags there and back: the same bytes."""
    types = get_typestore(Stores.ROS2_KILTED)
    generator = np.random.default_rng(1)
    layout = LAYOUTS[type_name]
    fields = {name: generator.integers(0, 3, (4, *shape)) * 0.5 for name, _, shape in layout.fields}
    stamp_ns = np.array([1, 2, 3_000_000_001, 1_700_000_000_123_456_789])
    for frames in (["map", "base_link"], ["", "a"], ["gps_link_2", "abc"]):
        made = Template.of(type_name, *frames[: layout.frames]).payloads(stamp_ns, **fields)
        for payload in made:
            message = types.deserialize_cdr(payload, type_name)
            assert message.header.frame_id == frames[0]
            again = bytes(types.serialize_cdr(message, type_name))
            assert payload == again
            # with other frames, of other lengths, as a live driver's is passed on
            message.header.frame_id = "quad1/imu_link"
            names = ["quad1/imu_link", "quad1/base_link"][: layout.frames]
            if layout.frames > 1:
                message.child_frame_id = names[1]
            assert renamed(type_name, payload, names) == types.serialize_cdr(message, type_name)
        assert decode(type_name, made).stamp_ns.tolist() == stamp_ns.tolist()


# -- mavros


def as_mavros(flight, prefix=""):
    names = {
        "/quad/imu/data_raw": "imu/data_raw",
        "/quad/imu/mag": "imu/mag",
        "/quad/gps/fix": "global_position/raw/fix",
        "/quad/odometry/filtered": "local_position/odom",
    }
    for topic, kind, log_ns, message in flight:
        if topic in names:
            yield f"{prefix}/mavros/{names[topic]}", kind, log_ns, message
        elif topic == "/quad/gps/vel":
            twist = make("geometry_msgs/msg/TwistStamped", header=log_ns, twist=message.twist.twist)
            yield f"{prefix}/mavros/global_position/raw/gps_vel", twist.__msgtype__, log_ns, twist
        elif topic == "/datum":
            place = make(
                "geographic_msgs/msg/GeoPoint",
                latitude=message.latitude,
                longitude=message.longitude,
                altitude=message.altitude,
            )
            kind = "geographic_msgs/msg/GeoPointStamped"
            origin = make(kind, header=log_ns, position=place)
            yield f"{prefix}/mavros/global_position/gp_origin", kind, log_ns, origin


def test_mavros(tmp_path, flight):
    plain, _ = measured(write(tmp_path / "plain", flight))
    path = write(tmp_path / "mavros", as_mavros(flight))
    found, notes = measured(path, "mavros")
    velocity = np.diag([0.09, 0.09, 1e6, 0, 0, 0])  # stated in the file; the vertical one is none
    expected = [
        m._replace(values=(m.values[0], velocity)) if m.kind == "gnss_velocity" else m
        for m in plain
    ]
    assert_same(found, expected)
    assert any("nothing here for imu/data, imu/static_pressure, range/down" in n for n in notes)
    with open_bag(path, "mavros") as bag:
        datum = datum_of(bag)
        assert (datum.latitude_deg, datum.height_m) == (47.397742, 488.0)
        log = read_log(bag, "/quad")
        assert list(log.estimates) == ["autopilot"]
        assert bag.counts["/quad/imu/data_raw"] == 100
        assert "/mavros/imu/data_raw" not in bag.types


def test_vehicles_keep_their_namespaces(tmp_path, flight):
    items = [*as_mavros(flight, "/uav1"), *as_mavros(flight[: len(flight) // 2], "/uav2")]
    path = write(tmp_path / "two", sorted(items, key=lambda item: item[2]))
    one, two = (len(measured(path, "mavros", name)[0]) for name in ("/uav1", "/uav2"))
    assert one > two > 0
    with pytest.raises(InputError, match="vehicles in this bag: /uav1, /uav2"):
        measured(path, "mavros")


def test_without_a_driver_nothing_is_renamed(tmp_path, flight):
    path = write(tmp_path / "mavros", as_mavros(flight))
    with open_bag(path) as bag:
        assert "/mavros/imu/data_raw" in bag.types
    with pytest.raises(InputError, match="no topic /quad/imu/data_raw"):
        measured(path)


def test_another_type_than_the_drivers_is_named(tmp_path, flight):
    items = [
        (t.replace("imu/mag", "imu/data"), *rest) if t.endswith("imu/mag") else (t, *rest)
        for t, *rest in as_mavros(flight)
    ]
    _, notes = measured(write(tmp_path / "bag", items), "mavros")
    assert any(
        "/mavros/imu/data is sensor_msgs/msg/MagneticField, not sensor_msgs/msg/Imu" in note
        for note in notes
    )


# -- PX4

FRD = np.diag([1.0, -1.0, -1.0])
NED = np.array([[0.0, 1, 0], [1, 0, 0], [0, 0, -1]])


def array(v):
    return np.array([v.x, v.y, v.z])


def as_px4(flight, types=TYPES):
    """The same flight in PX4's messages: FRD, NED, gauss, microseconds."""
    velocities = {t: m.twist.twist.linear for name, _, t, m in flight if name == "/quad/gps/vel"}
    for topic, _, log_ns, m in flight:
        stamp_us = log_ns // 1000
        if topic == "/quad/imu/data_raw":
            content = make(
                "px4_msgs/msg/SensorCombined",
                types,
                timestamp=stamp_us,
                gyro_rad=(FRD @ array(m.angular_velocity)).astype(np.float32),
                accelerometer_m_s2=(FRD @ array(m.linear_acceleration)).astype(np.float32),
            )
            name = "sensor_combined"
        elif topic == "/quad/imu/mag":
            content = make(
                "px4_msgs/msg/VehicleMagnetometer",
                types,
                timestamp=stamp_us + 700,
                timestamp_sample=stamp_us,
                magnetometer_ga=(1e4 * FRD @ array(m.magnetic_field)).astype(np.float32),
            )
            name = "vehicle_magnetometer"
        elif topic == "/quad/gps/fix":
            east, north, up = array(velocities[log_ns])
            fields = {
                "timestamp": stamp_us + 900,
                "timestamp_sample": stamp_us,
                "fix_type": 3,
                "eph": 0.1,
                "epv": 0.2,
                "s_variance_m_s": 0.1,
                "vel_n_m_s": north,
                "vel_e_m_s": east,
                "vel_d_m_s": -up,
                "vel_ned_valid": True,
            }
            if "lat" in dict(types.get_msgdef("px4_msgs/msg/SensorGps").fields):
                fields["lat"] = round(m.latitude * 1e7)
                fields["lon"] = round(m.longitude * 1e7)
                fields["alt_ellipsoid"] = round(m.altitude * 1e3)
            else:
                fields["latitude_deg"], fields["longitude_deg"] = m.latitude, m.longitude
                fields["altitude_ellipsoid_m"] = m.altitude
            content = make("px4_msgs/msg/SensorGps", types, **fields)
            name = "vehicle_gps_position"
        elif topic == "/quad/odometry/filtered":
            q = m.pose.pose.orientation
            R_WB = Rotation.from_quat([q.x, q.y, q.z, q.w]).as_matrix()
            x, y, z, w = Rotation.from_matrix(NED @ R_WB @ FRD).as_quat()
            content = make(
                "px4_msgs/msg/VehicleOdometry",
                types,
                timestamp=stamp_us,
                timestamp_sample=stamp_us,
                pose_frame=1,
                position=(NED @ array(m.pose.pose.position)).astype(np.float32),
                q=np.array([w, x, y, z], np.float32),
                velocity_frame=1,
                velocity=(NED @ R_WB @ array(m.twist.twist.linear)).astype(np.float32),
                angular_velocity=(FRD @ array(m.twist.twist.angular)).astype(np.float32),
                position_variance=np.array([0.04, 0.01, 0.16], np.float32),
                orientation_variance=np.array([1e-4, 4e-4, 9e-4], np.float32),
                velocity_variance=np.array([0.04, 0.01, 0.09], np.float32),
            )
            name = "vehicle_odometry"
        else:
            continue
        yield f"/fmu/out/{name}", content.__msgtype__, log_ns, content


def px4_expected(plain):
    """PX4 states no noise of IMU and field; its GPS accuracy is isotropic by axes."""
    for m in plain:
        if m.kind == "imu":
            yield m._replace(values=(*m.values[:2], np.zeros((3, 3)), np.zeros((3, 3))))
        elif m.kind == "gnss_velocity":
            yield m._replace(values=(m.values[0], np.diag([0.01, 0.01, 0.01, 0, 0, 0])))
        else:
            yield m


@pytest.mark.parametrize(
    ("plugin", "defined", "gps"),
    [
        (StoragePlugin.MCAP, True, "1.16"),
        (StoragePlugin.MCAP, False, "1.16"),
        (StoragePlugin.SQLITE3, True, "1.14"),
        (StoragePlugin.SQLITE3, False, "1.14"),
    ],
)
def test_px4(tmp_path, flight, plugin, defined, gps):
    """By the bag's own definitions, or the known ones; float32 has 7 digits."""
    plain, _ = measured(write(tmp_path / "plain", flight))
    types = types_with(**PX4 | {"SensorGps": OLD_GPS}) if gps == "1.14" else TYPES
    path = write(tmp_path / "px4", as_px4(flight, types), types, plugin)
    if not defined:
        (file,) = [f for f in path.iterdir() if f.suffix != ".yaml"]
        if plugin == StoragePlugin.MCAP:
            file.write_bytes(file.read_bytes().replace(b"uint64 timestamp", b"uint99 timestamp"))
        else:
            with sqlite3.connect(file) as connection:
                connection.execute("DELETE FROM message_definitions")
            connection.close()
    found, notes = measured(path, "px4")
    assert not any("make no sense" in note for note in notes)
    expected = sorted(px4_expected(plain), key=lambda m: (m.stamp_ns, m.kind))
    # lat and lon of 1.14 have a step of 1e-7 degrees, height one of 1 mm
    found.sort(key=lambda m: (m.stamp_ns, m.kind))
    assert_same(found, expected, rtol=3e-7, atol=6e-4 if gps == "1.14" else 1e-7)
    fixes = [
        [m.values[0][:2] for m in side if m.kind == "gnss_position"] for side in (found, plain)
    ]
    np.testing.assert_allclose(*fixes, rtol=0, atol=0.6e-7)


def test_px4s_odometry(tmp_path, flight):
    path = write(tmp_path / "px4", as_px4(flight))
    with open_bag(write(tmp_path / "plain", flight)) as bag:
        expected = read_log(bag, "/quad").estimates["filtered"]
    with open_bag(path, "px4") as bag:
        track = read_log(bag, "/quad").estimates["autopilot"]
    assert track.stamp_ns.tolist() == expected.stamp_ns.tolist()
    # float32: 7 digits of 5 m and 2.5 m/s
    for name in ("p_W", "v_W", "w_B"):
        np.testing.assert_allclose(getattr(track, name), getattr(expected, name), atol=2e-6)
    overlap = np.abs(np.einsum("ni,ni->n", track.q_WB, expected.q_WB))
    np.testing.assert_allclose(overlap, 1.0, atol=1e-6)
    # its variances: position and velocity north, east, down; attitude about the body's axes
    np.testing.assert_allclose(track.sigma[:, :3], [[0.1, 0.2, 0.4]] * len(track), rtol=1e-6)
    np.testing.assert_allclose(track.sigma[:, 3:6], [[0.1, 0.2, 0.3]] * len(track), rtol=1e-5)
    np.testing.assert_allclose(track.sigma[:, 8], 0.03, rtol=1e-5)  # level: yaw is yaw
    yaw = 2 * np.arctan2(track.q_WB[:, 3], track.q_WB[:, 0])
    east = np.hypot(0.01 * np.cos(yaw), 0.02 * np.sin(yaw))
    np.testing.assert_allclose(track.sigma[:, 6], east, rtol=1e-4)


@pytest.mark.parametrize(
    ("release", "frames", "unknown"), [("1.13", (0, 3), (2, 9)), ("1.14", (1, 3), (0, 9))]
)
def test_frames_of_px4s_velocity(release, frames, unknown):
    """Numbers by VehicleOdometry.msg of each release: NED, body; OTHER or UNKNOWN, and none."""
    single = [(name, "f4") for name in ("x", "y", "z", "vx", "vy", "vz")]
    rates = [(name, "f4") for name in ("rollspeed", "pitchspeed", "yawspeed")]
    old = [*single, *rates, ("local_frame", "u1"), ("velocity_frame", "u1"), ("q", "f4", 4)]
    new = [(name, "f4", 3) for name in ("position", "velocity", "angular_velocity")]
    new += [(f"{name}_variance", "f4", 3) for name in ("position", "orientation", "velocity")]
    new += [("pose_frame", "u1"), ("velocity_frame", "u1"), ("q", "f4", 4)]
    rows = np.zeros(4, old if release == "1.13" else new)
    rows["local_frame" if release == "1.13" else "pose_frame"] = frames[0]
    rows["velocity_frame"] = frames + unknown
    rows["q"] = (np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5))  # heading east
    if release == "1.13":
        rows["vx"], rows["vy"], rows["vz"] = 1.0, 2.0, 3.0
    else:
        rows["velocity"] = (1.0, 2.0, 3.0)
    fields, _ = px4.odometry(rows)
    # north is to the left of a vehicle that looks east; in body axes FRD becomes FLU
    expected = [[2, 1, -3], [1, -2, -3], [np.nan] * 3, [np.nan] * 3]
    np.testing.assert_allclose(fields["v"], expected, atol=1e-6)


def test_damaged_messages_of_px4_are_left_out(tmp_path, flight):
    items = list(as_px4(flight))
    path = write(tmp_path / "px4", items)
    with Writer(tmp_path / "short", version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        kind = "px4_msgs/msg/SensorCombined"
        topic = writer.add_connection("/fmu/out/sensor_combined", kind, typestore=TYPES)
        samples = [(log_ns, m) for _, type_name, log_ns, m in items if type_name == kind]
        for i, (log_ns, m) in enumerate(samples):
            payload = bytes(TYPES.serialize_cdr(m, kind))
            writer.write(topic, log_ns, payload[:30] if i % 50 == 3 else payload)
    whole = [m for m in measured(path, "px4")[0] if m.kind == "imu"]
    found, notes = measured(tmp_path / "short", "px4")
    assert 0 < len(whole) - len(found) < 10
    assert any(f"{len(whole) - len(found)} messages make no sense" in note for note in notes)


def test_a_definition_without_a_field_is_named_once(tmp_path, flight):
    items = list(as_px4(flight))
    path = write(tmp_path / "px4", items)
    whole = measured(path, "px4")[0]
    (file,) = path.glob("*.mcap")
    content = file.read_bytes()
    assert b"float32[3] gyro_rad" in content
    file.write_bytes(content.replace(b"float32[3] gyro_rad", b"float32[3] gyro_deg"))
    found, notes = measured(path, "px4")
    assert {m.kind for m in found} == {m.kind for m in whole} - {"imu"}
    (note,) = [note for note in notes if "gyro_rad" in note]
    assert "px4_msgs/msg/SensorCombined, as the bag defines it, cannot be converted" in note


# -- the others


def test_vectornav_and_ublox(tmp_path, flight):
    """IMU in right, forward, up; field in FRD and gauss; a receiver of its own."""

    def theirs():
        for topic, kind, log_ns, m in flight:
            if topic == "/quad/imu/data_raw":
                w, f = array(m.angular_velocity), array(m.linear_acceleration)
                imu = make(
                    kind,
                    header=log_ns,
                    angular_velocity=xyz((-w[1], w[0], w[2])),
                    linear_acceleration=xyz((-f[1], f[0], f[2])),
                    linear_acceleration_covariance=np.array([0.1, 0, 0, 0.1, 0, 0, 0, 0, 0.1]),
                )
                yield "/vectornav/imu", kind, log_ns, imu
            elif topic == "/quad/imu/mag":
                field = xyz(1e4 * FRD @ array(m.magnetic_field))
                yield (
                    "/vectornav/magnetic",
                    kind,
                    log_ns,
                    make(kind, header=log_ns, magnetic_field=field),
                )
            elif topic == "/quad/gps/fix":
                yield "/ublox_gps_node/fix", kind, log_ns, m
            elif topic == "/quad/gps/vel":
                yield "/ublox_gps_node/fix_velocity", kind, log_ns, m

    plain, _ = measured(write(tmp_path / "plain", flight))
    found, _ = measured(write(tmp_path / "theirs", theirs()), "vectornav,ublox")
    expected = [
        m._replace(values=(*m.values[:2], np.zeros((3, 3)), np.zeros((3, 3))))
        if m.kind == "imu"
        else m
        for m in plain
    ]
    # the fields went through gauss and back: two roundings of float64
    assert_same(found, expected, rtol=1e-15, atol=1e-20)


def test_motion_capture_beside_mavros(tmp_path, flight):
    """The tracker is truth and external pose; its velocity is not known."""
    kind = "geometry_msgs/msg/PoseStamped"

    def theirs():
        for topic, _, log_ns, m in flight:
            if topic == "/quad/ground_truth/odom":
                pose = make(kind, header=log_ns, pose=m.pose.pose)
                yield "/vrpn_mocap/drone/pose", kind, log_ns, pose
        yield from as_mavros(flight)

    items = sorted(theirs(), key=lambda item: item[2])
    with open_bag(write(tmp_path / "plain", flight)) as bag:
        expected = read_log(bag, "/quad").truth
    path = write(tmp_path / "theirs", items)
    with open_bag(path, "mavros,mocap") as bag:
        truth = read_log(bag, "/quad").truth
        poses = [
            m for part in measurements(bag, "/quad") for m in part if m.kind == "external_pose"
        ]
    np.testing.assert_array_equal(truth.p_W, expected.p_W)
    np.testing.assert_array_equal(truth.q_WB, expected.q_WB)
    assert np.isnan(truth.v_W).all()
    np.testing.assert_array_equal([m.values[0] for m in poses], expected.p_W)
    # a second tracker: which of them it is, nobody can know, until one bears the vehicle's name
    wand = [(t.replace("drone", "wand"), *rest) for t, *rest in items if "vrpn" in t]
    both = sorted([*items, *wand], key=lambda item: item[2])
    with open_bag(write(tmp_path / "both", both), "mavros,mocap") as bag:
        assert "/quad/ground_truth/odom" not in bag.types
        assert any("may all be /quad/ground_truth/odom" in note for note in bag.notes)
    named = [(t.replace("/mavros", "/drone/mavros"), *rest) for t, *rest in both]
    with open_bag(write(tmp_path / "named", named), "mavros,mocap") as bag:
        assert len(read_log(bag, "/drone").truth) == len(expected)


BODIES = {
    "motion_capture_tracking_interfaces/msg/NamedPoseArray": (
        "/poses", "poses",
        {
            "motion_capture_tracking_interfaces/msg/NamedPose": "string name\n"
            "geometry_msgs/Pose pose",
            "motion_capture_tracking_interfaces/msg/NamedPoseArray": "std_msgs/Header header\n"
            "motion_capture_tracking_interfaces/NamedPose[] poses",
        },
    ),
    "mocap4r2_msgs/msg/RigidBodies": (
        "/mocap4r2_optitrack/rigid_bodies", "rigidbodies",
        {
            "mocap4r2_msgs/msg/Marker": "int8 id_type\nint32 marker_index\nstring marker_name\n"
            "geometry_msgs/Point translation",
            "mocap4r2_msgs/msg/RigidBody": "string rigid_body_name\n"
            "mocap4r2_msgs/Marker[] markers\ngeometry_msgs/Pose pose",
            "mocap4r2_msgs/msg/RigidBodies": "std_msgs/Header header\nuint32 frame_number\n"
            "mocap4r2_msgs/RigidBody[] rigidbodies",
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", BODIES)
@pytest.mark.parametrize("others", [(), ("wand", "quad7")])
def test_among_several_bodies_the_vehicle_is_found_by_its_name(kind, others):
    """Messages as rosbags writes them; a message without it is left out."""
    name, field, definitions = BODIES[kind]
    types = get_typestore(Stores.ROS2_KILTED)
    for each, text in definitions.items():
        types.register(get_types_from_msg(text, each))
    made = types.types
    body, whole = made[[each for each in definitions if each != kind][-1]], made[kind]
    point, quaternion, pose = (
        made[f"geometry_msgs/msg/{each}"] for each in ("Point", "Quaternion", "Pose")
    )
    stamp = made["builtin_interfaces/msg/Time"](5, 7)
    header = made["std_msgs/msg/Header"](stamp, "world")
    more = {"markers": []} if "mocap4r2" in kind else {}
    frame = {"frame_number": 3} if "mocap4r2" in kind else {}
    key = "rigid_body_name" if more else "name"

    def message(*names):
        bodies = [
            body(**{key: each}, **more, pose=pose(
                point(1.0, 2.0, float(k)), quaternion(0.0, 0.0, 0.6, 0.8)
            ))
            for k, each in enumerate(names)
        ]  # fmt: skip
        return bytes(types.serialize_cdr(whole(header=header, **frame, **{field: bodies}), kind))

    (topic,) = (t for t in load_driver("mocap").topics if t.type == kind)
    convert = Converter(topic, lambda: None, vehicle="quad").convert
    found = convert([message(*others, "quad"), message()])
    seen = standard_types().deserialize_cdr(found[0], "geometry_msgs/msg/PoseStamped")
    assert (seen.header.stamp.sec, seen.header.stamp.nanosec) == (5, 7)
    assert (seen.pose.position.x, seen.pose.position.z) == (1.0, float(len(others)))
    assert seen.pose.orientation.z == 0.6
    assert found[1] is None
    with pytest.raises(QuadsimError, match="of a, b none is called quad"):
        convert([message("a", "b")])
    with pytest.raises(QuadsimError):
        convert([message("quad")[:30]])
    assert driver_pattern(name)


def driver_pattern(full):
    """Whether the file of motion capture finds a topic."""
    driver = load_driver("mocap")
    return any(
        driver.pattern(name).fullmatch(full) for topic in driver.topics for name in topic.names
    )


def test_odometry_of_motion_capture_is_one_pose(tmp_path, flight):
    """Though it could be taken as a pose, too; with its covariance."""
    name = "/quad/ground_truth/odom"
    items = [("/mocap/odom", *rest) for topic, *rest in flight if topic == name]
    items += [item for item in flight if item[0] == "/quad/imu/data_raw"]
    path = write(tmp_path / "bag", sorted(items, key=lambda item: item[2]))
    with open_bag(path, "mocap,sim") as bag:
        poses = [
            m for part in measurements(bag, "/quad") for m in part if m.kind == "external_pose"
        ]
        assert "/quad/external/odom" in bag.types
        assert len(read_log(bag, "/quad").truth) == len(poses)
    assert len({m.stamp_ns for m in poses}) == len(poses) > 0


def test_gazebo(tmp_path, flight):
    """Names by the model; a distance is a scan of one ray."""
    begin = "/world/default/model/x500_0/link/base_link/sensor"
    kind = "sensor_msgs/msg/LaserScan"

    def theirs():
        for topic, type_name, log_ns, m in flight:
            if topic == "/quad/imu/data_raw":
                yield f"{begin}/imu_sensor/imu", type_name, log_ns, m
            elif topic == "/quad/imu/mag":
                yield f"{begin}/magnetometer_sensor/magnetometer", type_name, log_ns, m
            elif topic == "/quad/gps/fix":
                yield f"{begin}/navsat_sensor/navsat", type_name, log_ns, m
                ray = np.array([1.25], np.float32)
                scan = make(kind, header=log_ns, range_min=0.1, range_max=20.0, ranges=ray)
                yield f"{begin}/down/scan", kind, log_ns, scan
            elif topic == "/quad/ground_truth/odom":
                yield "/model/x500_0/odometry", type_name, log_ns, m

    found, _ = measured(write(tmp_path / "gazebo", theirs()), "gazebo")
    assert {m.kind for m in found} == {"imu", "magnetic_field", "gnss_position", "range"}
    assert all(m.values == (1.25, 0.0) for m in found if m.kind == "range")
    with open_bag(tmp_path / "gazebo", "gazebo") as bag:
        assert len(read_log(bag, "/quad").truth) == 100


@pytest.mark.parametrize(("stated", "variance"), [(0.0, 0.25), (1e-4, 1e-4 * 9.80665**2)])
def test_an_imu_in_multiples_of_g(stated, variance):
    """A deviation of the file is SI, as everywhere; one of the driver is in its unit."""
    text = {
        "ours": "imu/data_raw",
        "names": ("imu",),
        "type": "sensor_msgs/msg/Imu",
        "scale": 9.80665,
        "sigma": (0.5,),
    }
    imu = make(
        "sensor_msgs/msg/Imu",
        header=5,
        angular_velocity=xyz((0.1, 0.2, 0.3)),
        linear_acceleration=xyz((0.0, 0.0, 1.0)),
        linear_acceleration_covariance=(stated * np.eye(3)).ravel(),
    )
    payload = bytes(TYPES.serialize_cdr(imu, imu.__msgtype__))
    (made,) = Converter(DriverTopic(**text), lambda: TYPES).convert([payload])
    read = TYPES.deserialize_cdr(made, imu.__msgtype__)
    np.testing.assert_allclose(array(read.linear_acceleration), (0.0, 0.0, 9.80665))
    np.testing.assert_array_equal(array(read.angular_velocity), (0.1, 0.2, 0.3))
    found = read.linear_acceleration_covariance.reshape(3, 3)
    np.testing.assert_allclose(found, variance * np.eye(3), rtol=1e-12)
    rates = read.angular_velocity_covariance.reshape(3, 3)
    np.testing.assert_allclose(rates, 0.25 * np.eye(3), rtol=1e-12)


def test_axes_of_a_file_of_ones_own(tmp_path, flight):
    """A pose in NED of FRD axes, in millimetres, with its covariance."""
    kind = "geometry_msgs/msg/PoseWithCovarianceStamped"
    R_WB = Rotation.from_euler("ZYX", [0.3, -0.2, 0.1]).as_matrix()
    p_W = np.array([1.0, 2.0, 3.0])
    generator = np.random.default_rng(5)
    half = generator.normal(size=(6, 6))
    P_W = half @ half.T  # of ENU
    both = np.kron(np.eye(2), NED) @ np.diag([1e3] * 3 + [1.0] * 3)
    x, y, z, w = Rotation.from_matrix(NED @ R_WB @ FRD).as_quat()
    pose = make(
        "geometry_msgs/msg/Pose",
        position=xyz(1e3 * NED @ p_W, "geometry_msgs/msg/Point"),
        orientation=make("geometry_msgs/msg/Quaternion", x=x, y=y, z=z, w=w),
    )
    covariance = (both @ P_W @ both.T).ravel()
    content = make(
        kind,
        header=5,
        pose=make("geometry_msgs/msg/PoseWithCovariance", pose=pose, covariance=covariance),
    )
    imu = next(item for item in flight if item[0] == "/quad/imu/data_raw")
    path = write(tmp_path / "bag", [("/box/imu", *imu[1:]), ("/box/place", kind, imu[2], content)])
    file = tmp_path / "box.yaml"
    file.write_text(
        "description: a box\nnamespace: box\ntopics:\n"
        "  - {ours: imu/data_raw, names: [imu], type: sensor_msgs/msg/Imu}\n"
        f"  - {{ours: external/pose, names: [place], type: {kind}, world: ned, body: frd,"
        " scale: 1.0e-3}\n"
    )
    found, _ = measured(path, str(file))
    position, q_WB, stated = found[-1].values
    np.testing.assert_allclose(position, p_W, atol=1e-12)
    x, y, z, w = Rotation.from_matrix(R_WB).as_quat()
    np.testing.assert_allclose(np.abs(q_WB @ np.array([w, x, y, z])), 1.0, atol=1e-12)
    # metres only in the position's own block; angles have none, and the mixed block is not used
    np.testing.assert_allclose(stated[:3, :3], P_W[:3, :3], atol=1e-9)
    np.testing.assert_allclose(stated[3:, 3:], P_W[3:, 3:], atol=1e-9)


def serialised(kind, **fields):
    """A message of px4_msgs as it comes on DDS."""
    name = f"px4_msgs/msg/{kind}"
    message = make(name, **fields)
    for field, value in vars(message).items():
        if isinstance(value, np.ndarray):
            setattr(message, field, value.astype(np.float32))
    return bytes(TYPES.serialize_cdr(message, name))


def px4_topic(ours):
    return next(topic for topic in load_driver("px4").topics if topic.ours == ours)


def test_a_failed_estimate_of_px4_is_no_pose():
    """Quality by VehicleOdometry.msg: -1 failed, 0 not known, 1 to 100."""
    converter = Converter(px4_topic("odometry/autopilot"), lambda: TYPES)
    q = np.array([1.0, 0.0, 0.0, 0.0], np.float32)
    payloads = [serialised("VehicleOdometry", q=q, pose_frame=1, quality=n) for n in (0, -1, 100)]
    assert [made is not None for made in converter.convert(payloads)] == [True, False, True]


def test_a_reset_of_px4s_estimator_is_noticed(monkeypatch):
    """Once for each change of the counter, which counts to 255 and begins anew."""
    pytest.importorskip("rclpy")
    from quadsim.ros.drivers import inputs as driver_inputs

    monkeypatch.setattr(driver_inputs, "defined_by_class", lambda _: TYPES)
    watch = driver_inputs.ResetWatch(px4_topic("odometry/autopilot"))
    said = [
        watch.take(serialised("VehicleOdometry", reset_counter=n)) for n in (7, 7, 8, 8, 255, 0)
    ]
    assert [bool(words) for words in said] == [False, False, True, False, True, True]
    assert "reset_counter 7 to 8" in said[2]


def test_an_extrapolated_fix_is_none():
    """fix_type by SensorGps.msg: 3 is 3D, 8 extrapolated."""
    for kind, status in ((2, -1), (3, 0), (6, 2), (8, -1)):
        payload = serialised("SensorGps", fix_type=kind, vel_ned_valid=True)
        (fix,) = Converter(px4_topic("gps/fix"), lambda: TYPES).convert([payload])
        (velocity,) = Converter(px4_topic("gps/vel"), lambda: TYPES).convert([payload])
        read = TYPES.deserialize_cdr(fix, "sensor_msgs/msg/NavSatFix")
        assert read.status.status == status, kind
        read = TYPES.deserialize_cdr(velocity, "geometry_msgs/msg/TwistWithCovarianceStamped")
        assert math.isnan(read.twist.twist.linear.x) is (kind == 8), kind


#: px4_msgs since 1.14 and mavros_msgs, by their repositories' msg/*.msg.
FLOWS = {
    "px4_msgs/msg/SensorOpticalFlow": (
        "uint64 timestamp\nuint64 timestamp_sample\nuint32 device_id\nfloat32[2] pixel_flow\n"
        "float32[3] delta_angle\nbool delta_angle_available\nfloat32 distance_m\n"
        "bool distance_available\nuint32 integration_timespan_us\nuint8 quality\n"
        "uint32 error_count\nfloat32 max_flow_rate\nfloat32 min_ground_distance\n"
        "float32 max_ground_distance\nuint8 mode"
    ),
    "px4_msgs/msg/VehicleOpticalFlow": (
        "uint64 timestamp\nuint64 timestamp_sample\nuint32 device_id\nfloat32[2] pixel_flow\n"
        "float32[3] delta_angle\nfloat32 distance_m\nuint32 integration_timespan_us\n"
        "uint8 quality\nfloat32 max_flow_rate\nfloat32 min_ground_distance\n"
        "float32 max_ground_distance"
    ),
    "mavros_msgs/msg/OpticalFlow": (
        "std_msgs/Header header\nint16 flow_x\nint16 flow_y\nfloat32 flow_comp_m_x\n"
        "float32 flow_comp_m_y\nuint8 quality\nfloat32 ground_distance\nfloat32 flow_rate_x\n"
        "float32 flow_rate_y"
    ),
    "mavros_msgs/msg/OpticalFlowRad": (
        "std_msgs/Header header\nuint32 integration_time_us\nfloat32 integrated_x\n"
        "float32 integrated_y\nfloat32 integrated_xgyro\nfloat32 integrated_ygyro\n"
        "float32 integrated_zgyro\nint16 temperature\nuint8 quality\n"
        "uint32 time_delta_distance_us\nfloat32 distance"
    ),
}
#: Forward at 1 m/s, 2 m up, over 20 ms, while it turns by (0.001, 0.002, 0.003) rad of FRD: MAVLink
#: has about y +0.01 and the turn; mavros gives that in FLU.
AHEAD, TURN = (0.001, 0.012), (0.001, 0.002, 0.003)


def flow_message(kind, types, stamp_ns, quality=128):
    if kind.startswith("px4"):
        fields = {"timestamp": stamp_ns // 1000, "timestamp_sample": stamp_ns // 1000,
                  "pixel_flow": np.array(AHEAD, np.float32), "delta_angle_available": True,
                  "delta_angle": np.array(TURN, np.float32), "integration_timespan_us": 20_000,
                  "quality": quality}  # fmt: skip
    elif kind.endswith("Rad"):
        fields = {"header": stamp_ns, "integration_time_us": 20_000, "integrated_x": AHEAD[0],
                  "integrated_y": -AHEAD[1], "integrated_xgyro": TURN[0], "quality": quality,
                  "integrated_ygyro": -TURN[1], "integrated_zgyro": -TURN[2]}  # fmt: skip
    else:
        fields = {"header": stamp_ns, "flow_rate_x": AHEAD[0] / 0.02, "quality": quality,
                  "flow_rate_y": -AHEAD[1] / 0.02}  # fmt: skip
    return make(kind, types, **fields)


@pytest.mark.parametrize("kind", FLOWS)
@pytest.mark.parametrize("defined", [True, False])
def test_flow_of_other_peoples_messages_has_our_signs(kind, defined):
    """Ours is in FLU: forward lowers the flow about y; a quality of 0 is no measurement."""
    types = types_with()
    types.register(get_types_from_msg(FLOWS[kind], kind))
    driver = load_driver("px4" if kind.startswith("px4") else "mavros")
    (topic,) = [each for each in driver.topics if each.type == kind]
    payloads = [
        bytes(types.serialize_cdr(flow_message(kind, types, 20_000_000 * k, q), kind))
        for k, q in enumerate([128, 128, 128, 0], 1)
    ]
    converter = Converter(topic, lambda: types if defined else types_with())
    block = decode(TWIST, converter.convert(payloads[:2]) + converter.convert(payloads[2:]))
    first = 1 if kind.endswith("OpticalFlow") and kind.startswith("mavros") else 0
    expected = (AHEAD[0], -AHEAD[1], 0.02)
    np.testing.assert_allclose(block["v"][first:3], [expected] * (3 - first), atol=1e-6)
    assert np.isnan(block["v"][3, :2]).all()
    assert np.isnan(block["v"][:first, :2]).all()  # a rate holds since the one before
    if first == 0:
        np.testing.assert_allclose(block["w"][0], (TURN[0], -TURN[1], -TURN[2]), atol=1e-6)
    assert block["covariance"][0, 2, 2] == pytest.approx(128 / 255)


def test_flow_and_range_of_px4_are_measurements(tmp_path, flight):
    kind = "px4_msgs/msg/VehicleOpticalFlow"
    types = types_with(**PX4)
    types.register(get_types_from_msg(FLOWS[kind], kind))
    begin_ns = flight[0][2]
    flows = [
        ("/fmu/out/vehicle_optical_flow", kind, stamp_ns, flow_message(kind, types, stamp_ns))
        for stamp_ns in range(begin_ns, begin_ns + 1_000_000_000, 20_000_000)
    ]
    items = sorted([*as_px4(flight, types), *flows], key=lambda item: item[2])
    found, _ = measured(write(tmp_path / "flow", items, types), "px4")
    flow = [m.values[0] for m in found if m.kind == "optical_flow"]
    assert len(flow) == 50
    np.testing.assert_allclose(flow[7], (AHEAD[0], -AHEAD[1], 0.02), atol=1e-6)
