"""A flight of a bag: its errors, and any of its topics as columns."""

import math

import numpy as np
import pytest

import quadsim
from quadsim.bag.reading import open_bag
from quadsim.wire.decode import decode


@pytest.fixture
def flight(circle_bag):
    return quadsim.load(circle_bag)


def test_columns_are_the_fields_of_the_messages(flight, circle_bag):
    """Beside our decoder of the common types, which knows the bytes by itself."""
    with open_bag(circle_bag) as bag:
        messages = list(bag.messages(["/quad/imu/data_raw"]))
    block = decode("sensor_msgs/msg/Imu", [message.payload for message in messages])
    found = flight.messages("imu/data_raw")
    np.testing.assert_array_equal(found["log_ns"], [message.log_ns for message in messages])
    np.testing.assert_array_equal(found["header.stamp"], block.stamp_ns)
    np.testing.assert_array_equal(found["linear_acceleration.z"], block["f"][:, 2])
    covariance = block["w_covariance"].reshape(-1, 9)
    np.testing.assert_array_equal(found["angular_velocity_covariance"], covariance)
    assert set(flight.messages("/quad/imu/data_raw")) == set(found)
    assert flight.topics["/quad/imu/data_raw"] == "sensor_msgs/msg/Imu"


def test_errors_are_those_that_are_scored(circle_bag):
    flight = quadsim.replay(circle_bag, settle_s=0.0)
    errors = flight.errors("eskf")
    rms_m = math.sqrt(np.mean(np.sum(errors.position_W**2, axis=1)))
    assert rms_m == pytest.approx(flight.summary["estimators"]["eskf"]["position_rmse_m"])
    with pytest.raises(quadsim.InputError, match="no estimate 'ekf'; this flight has eskf"):
        flight.errors("ekf")


def test_what_is_not_there_is_named(flight):
    with pytest.raises(quadsim.InputError, match=r"no topic 'imu/dat' \(did you mean /quad/imu/"):
        flight.messages("imu/dat")
    flown = quadsim.Simulation("hover", duration_s=1.0).run()
    with pytest.raises(quadsim.InputError, match="of no bag"):
        flown.messages("imu/data_raw")
    assert flown.topics == {}
