"""Sensor models; every error is made here.

:data:`TABLE` names every kind of sensor. The module of a kind is ``quadsim.sensors.KIND``, whose
``MODEL`` (:class:`~quadsim.sensors.model.SensorModel`) defines how a sample is made, what a filter
takes of it, and how messages state it. Begin with ``model.py``, then read ``barometer.py``.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

from quadsim.wire.standard import (
    CAMERA_INFO,
    FIX,
    FLOW,
    IMAGE,
    IMU,
    MAGNETIC_FIELD,
    ODOMETRY,
    POINTS,
    PRESSURE,
    RANGE,
    SCAN,
    TWIST,
)

#: Where a depth camera's pixels are: z ahead, x right, y down (REP-103).
OPTICAL = "camera_depth_optical_frame"


class SensorTopic(NamedTuple):
    """A topic on which a kind of sensor publishes: its name, its type and the frame it is in."""

    name: str
    type_name: str
    frame: str

    def frame_of(self, prefix: str) -> str:
        """Its frame of a vehicle with this prefix; the world's has none."""
        return self.frame if self.frame == "map" else prefix + self.frame


class Entry(NamedTuple):
    """A kind of sensor.

    Attributes:
        topics: where its samples are published; none: it flies in the closed loop alone.
        device: the file of ``config/sensors`` that its node takes unless told otherwise.
    """

    topics: tuple[SensorTopic, ...] = ()
    device: str = ""


#: Every kind of sensor by its name, in the order in which the closed loop samples them.
TABLE = {
    "imu": Entry((SensorTopic("imu/data_raw", IMU, "imu_link"),), "adis16448"),
    "ahrs": Entry(),
    "gnss": Entry(
        (SensorTopic("gps/fix", FIX, "gps_link"), SensorTopic("gps/vel", TWIST, "map")),
        "ublox_f9p_rtk",
    ),
    "gnss_heading": Entry(
        (SensorTopic("gps/heading", IMU, "gps_link"),), "septentrio_mosaic_h_heading"
    ),
    "magnetometer": Entry((SensorTopic("imu/mag", MAGNETIC_FIELD, "imu_link"),), "ist8310"),
    "barometer": Entry((SensorTopic("imu/static_pressure", PRESSURE, "base_link"),), "bmp390"),
    "rangefinder": Entry((SensorTopic("range/down", RANGE, "range_link"),), "tf_luna"),
    "visual_odometry": Entry(
        (SensorTopic("odometry/visual", ODOMETRY, "visual_odom"),), "ideal_visual_odometry"
    ),
    "optical_flow": Entry((SensorTopic("flow/down", FLOW, "flow_link"),), "pmw3901"),
    "lidar": Entry(
        (SensorTopic("scan", SCAN, "lidar_link"), SensorTopic("points", POINTS, "lidar_link")),
        "ideal_lidar",
    ),
    "depth_camera": Entry(
        (
            SensorTopic("camera/depth/image_rect_raw", IMAGE, OPTICAL),
            SensorTopic("camera/depth/camera_info", CAMERA_INFO, OPTICAL),
            SensorTopic("camera/depth/points", POINTS, OPTICAL),
            SensorTopic("camera/segmentation", IMAGE, OPTICAL),
        ),
        "ideal_depth_camera",
    ),
}
#: Those that scan line by line, in the graph alone: ``SCANNER`` of their modules, no ``MODEL``.
#: They publish some of their topics.
SCANNERS = ("lidar", "depth_camera")
#: Those that publish, which is what has a node.
PUBLISHING = tuple(kind for kind, entry in TABLE.items() if entry.topics)
#: Kinds of which a vehicle may carry two; the second has the name of its kind with this behind it.
TWICE, SECOND = ("imu", "gnss", "rangefinder"), "_1"
SECONDS = tuple(kind + SECOND for kind in TWICE)
#: The model of each kind that the closed loop samples, a ``SensorModel``.
SENSORS: dict[str, Any]
#: Parameter class of every kind, and of those that publish.
KINDS: dict[str, type[Any]]
DEVICES: dict[str, type[Any]]


def kind_of(device: str) -> str:
    """The kind of a device of a suite: of ``imu_1``, the second IMU, it is ``imu``."""
    kind = device.removesuffix(SECOND)
    return kind if kind in TWICE else device


def topics_of(device: str) -> tuple[SensorTopic, ...]:
    """Topics of a device of a suite; of a second one ``imu_1/data_raw``, in ``imu_1_link``."""
    topics, kind = TABLE[kind_of(device)].topics, kind_of(device)
    if device == kind:
        return topics
    return tuple(
        SensorTopic(
            topic.name.replace("/", f"{SECOND}/", 1),
            topic.type_name,
            topic.frame.replace("_link", f"{SECOND}_link"),
        )
        for topic in topics
    )


def module_of(kind: str) -> Any:
    """The module of a kind; no other is loaded."""
    return import_module(f"quadsim.sensors.{kind}")


def __getattr__(name: str) -> Any:
    """The tables of models, made when they are first asked for."""
    if name not in ("SENSORS", "KINDS", "DEVICES"):
        raise AttributeError(f"module 'quadsim.sensors' has no attribute {name!r}")
    sensors = {kind: module_of(kind).MODEL for kind in TABLE if kind not in SCANNERS}
    kinds = {kind: model.params_type for kind, model in sensors.items()}
    kinds |= {kind: module_of(kind).SCANNER.params_type for kind in SCANNERS}
    devices = {kind: kinds[kind] for kind in PUBLISHING}
    globals().update(SENSORS=sensors, KINDS=kinds, DEVICES=devices)
    return globals()[name]
