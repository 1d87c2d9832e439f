"""Flow, range and odometry to firmware: encoded by us, decoded by pymavlink, in closed form."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from sensor_rig import truth_at

from quadsim.firmware.ardupilot import ArduPilot
from quadsim.firmware.bridge import Devices
from quadsim.firmware.companion import ARDUPILOT, PX4, Companion
from quadsim.firmware.mavlink import Port
from quadsim.firmware.px4 import Px4
from quadsim.firmware.seeing import ardupilot_sources, px4_sources
from quadsim.sensors import SENSORS, imu
from quadsim.sensors.devices import load_suite
from quadsim.sensors.model import SimulatedSensor
from quadsim.sensors.optical_flow import OpticalFlowParams
from quadsim.sensors.rangefinder import RangefinderParams
from quadsim.sensors.visual_odometry import VisualOdometryParams
from quadsim.world.environment import EnvironmentParams

pytest.importorskip("pymavlink")
from pymavlink.dialects.v20 import ardupilotmega as mavlink

HEIGHT_M, DT = 2.5, 0.01


class Stream:
    """Keeps what is written."""

    def __init__(self):
        self.data = bytearray()

    def write(self, data):
        self.data += data

    def read(self, timeout_s=0.0):
        return b""

    def messages(self):
        found = mavlink.MAVLink(None).parse_buffer(self.data) or []
        return {message.get_type(): message for message in found}


def craft_of(v_W=(0.0, 0.0, 0.0), w_B=(0.0, 0.0, 0.0), height_m=HEIGHT_M, q=None, **sensors):
    """A vehicle whose devices have measured a steady motion for a hundredth of a second."""
    sensors = {"imu": imu.ImuParams(), **sensors}
    devices, q = {}, q or Rotation.identity()
    for kind, params in sensors.items():
        sensor = SimulatedSensor(SENSORS[kind], params, EnvironmentParams(), 1, "quad")
        devices[kind] = {"sample": np.zeros(1, sensor.model.sample)}
        for k in range(2):
            t = (k - 0.5) * DT
            p_W = np.array([1.0, 2.0, height_m]) + t * np.array(v_W)
            x, y, z, w = (q * Rotation.from_rotvec(t * np.array(w_B))).as_quat()
            now = truth_at((1 + k) * 10_000_000, p_W=p_W, q_WB=(w, x, y, z), v_W=v_W, w_B=w_B)
            sample = sensor.measure(now)
        devices[kind]["sample"][0] = sample
    loop = SimpleNamespace(scenario=SimpleNamespace(sensors=sensors), devices=devices)
    return SimpleNamespace(
        devices=Devices(loop), sensors=sensors, p_W=np.zeros(3), v_W=np.zeros(3), poses=[],
        q_WB=np.array([1.0, 0.0, 0.0, 0.0]), manager=SimpleNamespace(goes_along=False),
        airframe=SimpleNamespace(
            rotor_directions=(1, -1, 1, -1), thrust_coefficient_N_s2=8.5e-6, mass_kg=2.0,
            rotor_speed_max_radps=1000.0,
        ),
    )  # fmt: skip


def sent_to_px4(craft):
    firmware, stream = Px4(), Stream()
    firmware._craft, firmware._hil = craft, Port(stream)
    firmware._send_seen()
    return stream.messages()


def sent_to_ardupilot(craft):
    """Its MAVLink, and the line of JSON."""
    firmware, stream, lines = ArduPilot(), Stream(), []
    firmware._craft, firmware._port = craft, Port(stream)
    firmware._companion = SimpleNamespace(step=lambda now_ns: None)
    firmware._servos = SimpleNamespace(write=lines.append)
    firmware._send(20_000_000)
    return stream.messages(), lines[0].decode()


MOTIONS = [
    ((2.0, 0.0, 0.0), (0.0, 0.0, 0.0)),  # forward
    ((0.0, -1.5, 0.0), (0.0, 0.0, 0.0)),  # to the right
    ((0.0, 0.0, 0.0), (0.4, 0.0, 0.0)),  # rolls to the right
    ((0.0, 0.0, 0.0), (0.0, -0.3, 0.0)),  # nose up, which is about y of FRD
    ((1.0, 0.7, 0.0), (0.2, -0.1, 0.5)),
]


@pytest.mark.parametrize(("v_W", "w_B"), MOTIONS)
def test_px4_makes_the_true_velocity_of_a_flow(v_W, w_B):
    """EKF2.cpp negates flow and turn; optical_flow_control.cpp: v = h (-comp_y, comp_x) / dt."""
    flow = OpticalFlowParams(rate_hz=100.0, gyro=True)
    m = sent_to_px4(craft_of(v_W, w_B, optical_flow=flow))["HIL_OPTICAL_FLOW"]
    assert (m.time_usec, m.integration_time_us, m.distance) == (20_000, 10_000, -1.0)
    assert m.quality == 255
    compensated = np.array(
        [-m.integrated_x + m.integrated_xgyro, -m.integrated_y + m.integrated_ygyro]
    )
    forward = -HEIGHT_M * compensated[1] / DT
    right = HEIGHT_M * compensated[0] / DT
    assert (forward, right) == pytest.approx((v_W[0], -v_W[1]), abs=2e-3)
    turn = (m.integrated_xgyro, m.integrated_ygyro, m.integrated_zgyro)
    assert turn == pytest.approx((w_B[0] * DT, -w_B[1] * DT, -w_B[2] * DT), abs=1e-7)


@pytest.mark.parametrize(("v_W", "w_B"), MOTIONS)
def test_ardupilot_makes_the_true_velocity_of_a_flow(v_W, w_B):
    """AP_OpticalFlow_MAV takes rates and adds its own gyroscope's.

    Of the negated flow plus that turn EKF3 predicts (vy, -vx) over the range
    (AP_NavEKF3_OptFlowFusion.cpp).
    """
    flow = OpticalFlowParams(rate_hz=100.0)
    messages, _ = sent_to_ardupilot(craft_of(v_W, w_B, optical_flow=flow))
    m = messages["OPTICAL_FLOW"]
    assert (m.flow_x, m.flow_y, m.quality, m.ground_distance) == (0, 0, 255, -1.0)
    x, y = -m.flow_rate_x + w_B[0], -m.flow_rate_y - w_B[1]
    assert (-HEIGHT_M * y, HEIGHT_M * x) == pytest.approx((v_W[0], -v_W[1]), abs=2e-3)


def test_a_device_that_is_turned_states_its_flow_in_the_axes_of_the_body():
    flow = OpticalFlowParams(rate_hz=100.0, rotation_deg=(0.0, 0.0, 90.0))
    m = sent_to_px4(craft_of((2.0, 0.0, 0.0), optical_flow=flow))["HIL_OPTICAL_FLOW"]
    assert (m.integrated_x, m.integrated_y) == pytest.approx((0.0, 2.0 * DT / HEIGHT_M), abs=1e-7)
    assert math.isnan(m.integrated_xgyro)  # it has none of its own


def test_nothing_seen_is_no_quality():
    dark = OpticalFlowParams(rate_hz=100.0, light_lux=0.0, least_light_lux=60.0)
    m = sent_to_px4(craft_of((2.0, 0.0, 0.0), optical_flow=dark))["HIL_OPTICAL_FLOW"]
    assert (m.integrated_x, m.integrated_y, m.quality) == (0.0, 0.0, 0)


@pytest.mark.parametrize(
    ("height_m", "centimetres", "signal", "line"),
    [(1.234, 123, 100, '"rng_1":1.2340'), (9.0, 801, 1, '"rng_1":NaN'), (0.05, 9, 1, "NaN")],
)
def test_ranges_and_what_is_out_of_range(height_m, centimetres, signal, line):
    params = RangefinderParams(rate_hz=100.0, radiation="infrared", rays=1)
    m = sent_to_px4(craft_of(height_m=height_m, rangefinder=params))["DISTANCE_SENSOR"]
    assert (m.min_distance, m.max_distance, m.current_distance) == (10, 800, centimetres)
    assert m.orientation == mavlink.MAV_SENSOR_ROTATION_PITCH_270
    assert (m.signal_quality, m.type) == (signal, mavlink.MAV_DISTANCE_SENSOR_INFRARED)
    assert (m.covariance == 255) == (signal == 1)
    assert line in sent_to_ardupilot(craft_of(height_m=height_m, rangefinder=params))[1]


def sent_odometry(ways, craft, before=None):
    stream = Stream()
    companion = Companion(Port(stream), craft, ways)
    for sample in (*([] if before is None else [before]), craft.devices.fresh("visual_odometry")):
        companion._send_odometry(sample[0])
    return stream.messages()


YAWED = Rotation.from_euler("ZYX", [0.5, 0.1, -0.2])


def test_px4_takes_an_odometry_in_a_frame_of_its_own():
    """By PX4's handle_message_odometry; yaw of ENU 0.5 is heading pi/2 - 0.5."""
    params = VisualOdometryParams(rate_hz=100.0, noise_sigma_m=1e-6, noise_yaw_sigma_deg=0.01)
    craft = craft_of((1.0, 0.0, 0.0), q=YAWED, visual_odometry=params)
    lost = craft.devices._samples["visual_odometry"].copy()
    lost["values"] = math.nan
    m = sent_odometry(PX4, craft, lost)["ODOMETRY"]
    assert (m.frame_id, m.child_frame_id) == (20, 12)  # LOCAL_FRD, BODY_FRD
    assert (m.x, m.y, m.z) == pytest.approx((2.0, 1.0 + 0.5 * DT, -HEIGHT_M), abs=1e-4)
    angles = Rotation.from_quat([*m.q[1:], m.q[0]]).as_euler("ZYX")
    assert angles == pytest.approx([math.pi / 2 - 0.5, -0.1, -0.2], abs=2e-3)
    assert np.isnan([m.vx, m.vy, m.vz, m.rollspeed, m.velocity_covariance[0]]).all()
    variances = [m.pose_covariance[i] for i in (0, 6, 11, 15, 18, 20)]
    assert variances[:3] == pytest.approx([1e-12] * 3, rel=0.1)
    assert variances[5] == pytest.approx(math.radians(0.01) ** 2, rel=0.1)
    assert (m.reset_counter, m.estimator_type) == (1, mavlink.MAV_ESTIMATOR_TYPE_VIO)
    assert m.time_usec == 20_000


def test_ardupilot_takes_it_as_vision_and_what_is_not_stated_is_unknown():
    params = VisualOdometryParams(rate_hz=100.0, noise_sigma_m=1e-6, stated_ratio=0.0)
    craft = craft_of((1.0, 0.0, 0.0), q=YAWED, visual_odometry=params)
    m = sent_odometry(ARDUPILOT, craft)["VISION_POSITION_ESTIMATE"]
    assert (m.x, m.y, m.z) == pytest.approx((2.0, 1.0 + 0.5 * DT, -HEIGHT_M), abs=1e-4)
    assert (m.roll, m.pitch, m.yaw) == pytest.approx((-0.2, -0.1, math.pi / 2 - 0.5), abs=1e-6)
    assert math.isnan(m.covariance[0])
    assert (m.usec, m.reset_counter) == (20_000, 0)


def test_sources_are_those_of_the_suite():
    flow, vio, both, capture = (
        load_suite(name) for name in ("indoor_flow", "indoor_vio", "gnss_flow", "motion_capture")
    )
    found = ardupilot_sources(flow)
    assert {key: found[key] for key in ("GPS1_TYPE", "FLOW_TYPE", "RNGFND1_TYPE")} == {
        "GPS1_TYPE": 0, "FLOW_TYPE": 5, "RNGFND1_TYPE": 100,
    }  # fmt: skip
    places = [found[f"EK3_SRC1_{what}"] for what in ("POSXY", "VELXY", "POSZ", "YAW")]
    assert places == [0, 5, 1, 1]
    assert found["EK3_FLOW_DELAY"] == 20
    places = [ardupilot_sources(vio)[f"EK3_SRC1_{what}"] for what in ("POSXY", "POSZ", "YAW")]
    assert places == [6, 6, 6]
    assert "EK3_SRC1_POSXY" not in ardupilot_sources(both)
    assert ardupilot_sources(capture)["VISO_TYPE"] == 1
    px4 = px4_sources(flow)
    assert (px4["PX4_PARAM_EKF2_OF_CTRL"], px4["PX4_PARAM_EKF2_HGT_REF"]) == ("1", "2")
    assert "PX4_PARAM_EKF2_EV_CTRL" not in px4
    assert (px4["PX4_PARAM_SYS_HAS_MAG"], px4["PX4_PARAM_SYS_HAS_BARO"]) == ("0", "0")
    assert px4_sources(vio)["PX4_PARAM_EKF2_EV_CTRL"] == "11"
    assert "PX4_PARAM_EKF2_HGT_REF" not in px4_sources(both)


def suite_of(folder, **devices):
    path = folder / "seeing.yaml"
    path.write_text("".join(f"{kind}: {device}\n" for kind, device in devices.items()))
    return {"sensors": str(path)}


def test_ardupilot_flies_on_flow(stand_in, fly, tmp_path):
    """The stand-in refuses flows that are not those of its true motion."""
    suite = suite_of(
        tmp_path, imu="adis16448", rangefinder="vl53l1x", optical_flow="ideal_optical_flow"
    )
    keys = {"changes": suite, "duration_s": 60.0}
    _, loops, firmware = fly("ardupilot", stand_in("ardupilot"), "square", **keys)
    assert loops[0].manager.finished
    assert not loops[0].crashed
    assert firmware[0].counts()["mavlink_lost"] == 0


def test_px4_flies_on_an_odometry_beside_flow_and_range(stand_in, fly, tmp_path):
    """And counts controls that come twice."""
    suite = suite_of(
        tmp_path, imu="adis16448", barometer="bmp390", rangefinder="tf_luna",
        optical_flow="ideal_optical_flow", visual_odometry="ideal_visual_odometry",
    )  # fmt: skip
    executable = stand_in("px4", doubled=True)
    _, loops, firmware = fly("px4", executable, changes=suite, duration_s=40.0)
    assert loops[0].manager.finished
    assert not loops[0].crashed
    assert firmware[0].counts()["doubled"] > 50
