"""The wind that comes in as a message."""

import math

import pytest
from geometry_msgs.msg import Vector3Stamped
from rclpy.serialization import deserialize_message

from quadsim.ros.messages.cdr import MessageError
from quadsim.ros.messages.world import wind_of
from quadsim.wire.encode import Template


def make_wind(*wind_W):
    """As ``dynamics`` sends it, read by ROS."""
    template = Template.of("geometry_msgs/msg/Vector3Stamped", "map")
    return deserialize_message(template.payload(1, v=wind_W), Vector3Stamped)


def test_it_comes_back_as_it_went():
    assert wind_of(make_wind(1.0, -2.5, 0.25)) == (1.0, -2.5, 0.25)
    assert wind_of(make_wind(100.0, -100.0, 0.0)) == (100.0, -100.0, 0.0)


@pytest.mark.parametrize("frame", ["", "base_link", "odom", "/map"])
def test_another_frame_is_refused(frame):
    message = make_wind(1.0, 2.0, 3.0)
    message.header.frame_id = frame
    with pytest.raises(MessageError, match=f"frame {frame!r}; give map"):
        wind_of(message)


@pytest.mark.parametrize("axis", ["x", "y", "z"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 100.5])
def test_a_number_that_no_wind_has_is_refused(axis, value):
    message = Vector3Stamped()
    message.header.frame_id = "map"
    setattr(message.vector, axis, value)
    with pytest.raises(MessageError, match="give at most 100 on each axis"):
        wind_of(message)
