"""PX4: fields against MAVLink's own definition, a flight of a strict stand-in, faults."""

import numpy as np
import pytest

from quadsim.base.errors import FlightError, InputError
from quadsim.firmware import px4

pytest.importorskip("pymavlink")
from pymavlink.dialects.v20 import ardupilotmega as mavlink

#: Units as common.xml states them, of what we fill.
UNITS = {
    "MAVLink_hil_sensor_message": {
        "time_usec": "us", "xacc": "m/s/s", "xgyro": "rad/s", "xmag": "gauss",
        "abs_pressure": "hPa", "diff_pressure": "hPa", "temperature": "degC",
    },
    "MAVLink_hil_gps_message": {
        "time_usec": "us", "lat": "degE7", "lon": "degE7", "alt": "mm", "vel": "cm/s",
        "vn": "cm/s", "cog": "cdeg",
    },
}  # fmt: skip
SENSOR = [
    "time_usec", "xacc", "yacc", "zacc", "xgyro", "ygyro", "zgyro", "xmag", "ymag", "zmag",
    "abs_pressure", "diff_pressure", "pressure_alt", "temperature", "fields_updated", "id",
]  # fmt: skip
GPS = [
    "time_usec", "fix_type", "lat", "lon", "alt", "eph", "epv", "vel", "vn", "ve", "vd", "cog",
    "satellites_visible", "id", "yaw",
]  # fmt: skip


@pytest.mark.parametrize(("name", "fields"), [("hil_sensor", SENSOR), ("hil_gps", GPS)])
def test_fields_are_sent_in_the_order_of_the_definition(name, fields):
    cls = getattr(mavlink, f"MAVLink_{name}_message")
    assert sorted(cls.fieldnames) == sorted(fields)
    import inspect

    assert list(inspect.signature(cls).parameters) == fields
    for field, unit in UNITS[cls.__name__].items():
        assert cls.fieldunits_by_name[field] == unit


def test_bits_are_those_of_the_definition():
    names = mavlink.enums["HIL_SENSOR_UPDATED_FLAGS"]
    bits = {entry.name.removeprefix("HIL_SENSOR_UPDATED_"): bit for bit, entry in names.items()}
    assert bits["XACC"] | bits["YACC"] | bits["ZACC"] == px4.ACCEL
    assert bits["XGYRO"] | bits["YGYRO"] | bits["ZGYRO"] == px4.GYRO
    assert bits["XMAG"] | bits["YMAG"] | bits["ZMAG"] == px4.FIELD
    assert bits["ABS_PRESSURE"] | bits["PRESSURE_ALT"] | bits["TEMPERATURE"] == px4.BARO


def test_it_flies_the_square_on_our_sensors_alone(stand_in, fly):
    logs, loops, firmware = fly("px4", stand_in("px4"), "square", duration_s=70.0)
    log, loop = logs[0], loops[0]
    assert loop.manager.finished
    assert not loop.crashed
    assert list(log.estimates) == ["px4"]
    for corner in ((4, 0), (4, 4), (0, 4), (0, 0)):
        assert np.linalg.norm(log.truth.p_W[:, :2] - corner, axis=1).min() < 0.5
    counts = firmware[0].counts()
    assert counts["controls"] > 5000
    assert (counts["late"], counts["doubled"], counts["missing"], counts["mavlink_lost"]) == (
        (0,) * 4
    )


def test_missing_controls_are_named(stand_in, fly, monkeypatch):
    monkeypatch.setattr(px4, "ANSWER_S", 0.5)
    with pytest.raises(FlightError, match=r"px4: no HIL_ACTUATOR_CONTROLS for 0\.5 s"):
        fly("px4", stand_in("px4", silent=1000))


def test_a_firmware_that_refuses_is_quoted(stand_in, fly, monkeypatch):
    monkeypatch.setattr(px4, "GAUSS_T", 1.0)  # teslas are no gauss
    with pytest.raises(FlightError, match="px4: ended with status 3; it said: refused: gauss"):
        fly("px4", stand_in("px4"))


@pytest.mark.parametrize(
    ("port", "words"), [("udp:x", r"udp:\[ADDRESS:\]NUMBER"), ("/dev/none", "/dev/none")]
)
def test_a_board_that_is_not_there_is_named(fly, port, words):
    with pytest.raises(InputError, match=words):
        fly("px4", None, port=port)


def test_nobody_connects(fly, monkeypatch):
    monkeypatch.setattr(px4, "START_S", 0.3)
    with pytest.raises(FlightError, match=r"px4: nobody connects to tcp 4560 in 0\.3 s"):
        fly("px4", None)
