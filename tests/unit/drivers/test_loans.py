"""What is lent to a real vehicle, in its software's own types: signs, axes, stamps."""

import math

import numpy as np
import pytest

from quadsim.base.errors import InputError
from quadsim.drivers.driver import load_driver
from quadsim.drivers.loans import LENT, DriverLoan, lent_as
from quadsim.ros.messages.cdr import Reader
from quadsim.sensors import SENSORS
from quadsim.sensors.optical_flow import OpticalFlowParams
from quadsim.sensors.rangefinder import RangefinderParams
from quadsim.sensors.visual_odometry import VisualOdometryParams
from quadsim.world.environment import EnvironmentParams

DRIVERS = ("mavros", "mavros_ardupilot", "px4")
STAMP_NS, SENT_NS = 5_000_000_000, 1_700_000_000_000_000_000


def lent(driver, ours, params, **values):
    """Fields of the driver's message of one sample of ours, through our message."""
    kind = {"flow/down": "optical_flow", "range/down": "rangefinder"}.get(ours, "visual_odometry")
    model = SENSORS[kind]
    sample = np.zeros(1, model.sample)[0]
    sample["stamp_ns"] = STAMP_NS
    for name, value in values.items():
        sample[name] = value
    ((_, messages),) = model.outputs(params, EnvironmentParams())
    (said,) = [loan for loan in load_driver(driver).loans if loan.ours == ours]
    numbers = Reader(LENT[ours]).read(messages.payload(sample))
    return lent_as(said, numbers, STAMP_NS, SENT_NS), said


#: Forward at 2 m/s, 2 m above the ground, while it rolls to the right: FLU, as our sensor gives it.
FLOW = {"flow": (0.003, -0.01, 0.01), "turn": (0.003, 0.0, 0.001), "quality": 0.5}


def test_px4_is_lent_a_flow_in_its_own_axes():
    """VehicleOpticalFlow: about y of FRD way forward is positive."""
    fields, said = lent("px4", "flow/down", OpticalFlowParams(gyro=True), **FLOW)
    assert said.name == "in/sensor_optical_flow"
    assert fields["pixel_flow"] == pytest.approx([0.003, 0.01])
    assert fields["delta_angle"] == pytest.approx([0.003, 0.0, -0.001])
    assert (fields["delta_angle_available"], fields["quality"]) == (True, 128)
    assert (fields["timestamp_sample"], fields["timestamp"]) == (5_000_000, SENT_NS // 1000)
    assert fields["integration_timespan_us"] == 10_000


def test_mavros_is_lent_a_flow_in_ours():
    """It turns FLU into FRD itself (transform_frame_baselink_aircraft)."""
    fields, said = lent("mavros_ardupilot", "flow/down", OpticalFlowParams(), **FLOW)
    assert (said.name, said.type) == ("optical_flow/raw/send", "mavros_msgs/msg/OpticalFlow")
    assert (fields["flow_rate_x"], fields["flow_rate_y"]) == pytest.approx((0.3, -1.0))
    fields, said = lent("mavros", "flow/down", OpticalFlowParams(), **FLOW)
    assert (said.name, said.type) == ("px4flow/raw/send", "mavros_msgs/msg/OpticalFlowRad")
    assert (fields["integrated_x"], fields["integrated_y"]) == pytest.approx((0.003, -0.01))
    assert (fields["integrated_xgyro"], fields["integrated_zgyro"]) == pytest.approx((0.003, 0.001))
    assert (fields["header.stamp"], fields["distance"]) == (STAMP_NS, -1.0)


@pytest.mark.parametrize("driver", DRIVERS)
def test_nothing_seen_has_no_quality(driver):
    values = {**FLOW, "flow": (math.nan, math.nan, 0.01)}
    fields, _ = lent(driver, "flow/down", OpticalFlowParams(), **values)
    flows = [value for name, value in fields.items() if name[:9] in ("pixel_flo", "flow_rate")]
    assert fields["quality"] == 0
    assert not np.any(flows)


@pytest.mark.parametrize(("range_m", "quality"), [(1.5, 100), (math.inf, 0), (-math.inf, 0)])
def test_ranges_are_lent(range_m, quality):
    params = RangefinderParams(radiation="infrared", range_min_m=0.2, range_max_m=8.0)
    fields, _ = lent("px4", "range/down", params, range_m=range_m)
    inside = fields["min_distance"] <= fields["current_distance"] <= fields["max_distance"]
    assert (fields["signal_quality"], inside) == (quality, quality == 100)
    assert (fields["orientation"], fields["type"]) == (25, 0)
    fields, said = lent("mavros", "range/down", params, range_m=range_m)
    assert (said.type, fields["range"]) == ("sensor_msgs/msg/Range", range_m)


def test_an_odometry_is_lent_with_its_deviations():
    half = math.sqrt(0.5)  # looks along y of its frame
    values = {"p_F": (1.0, 2.0, 3.0), "q_FB": (half, 0.0, 0.0, half),
              "variances": (0.1, 0.2, 0.3, 0.01, 0.01, 0.02)}  # fmt: skip
    fields, _ = lent("px4", "odometry/visual", VisualOdometryParams(), **values)
    assert (fields["pose_frame"], fields["position"]) == (2, pytest.approx([2.0, 1.0, -3.0]))
    assert np.abs(fields["q"]) == pytest.approx([1.0, 0.0, 0.0, 0.0], abs=1e-9)
    assert fields["position_variance"] == pytest.approx([0.2, 0.1, 0.3])
    assert fields["orientation_variance"][2] == pytest.approx(0.02)
    assert np.isnan(fields["velocity"]).all()
    values["variances"] = 0.0
    unknown, _ = lent("px4", "odometry/visual", VisualOdometryParams(), **values)
    assert np.isnan(unknown["position_variance"]).all()
    fields, said = lent("mavros_ardupilot", "odometry/visual", VisualOdometryParams(), **values)
    assert (said.name, fields["header.frame_id"]) == ("vision_pose/pose_cov", "odom")
    assert fields["pose.pose.orientation"] == pytest.approx([0.0, 0.0, half, half])
    fields, said = lent("mavros", "odometry/visual", VisualOdometryParams(), **values)
    assert (said.name, fields["child_frame_id"]) == ("odometry/out", "base_link")
    assert np.isnan(fields["twist.twist.linear"]).all()


def test_what_no_vehicle_takes_is_named():
    with pytest.raises(InputError, match="flow/down cannot become nav_msgs/msg/Odometry; allowed"):
        DriverLoan(ours="flow/down", name="x", type="nav_msgs/msg/Odometry")
