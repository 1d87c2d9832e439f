"""Sensors of Gazebo from the devices of a suite, at the places where they sit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any
from xml.etree.ElementTree import Element  # the type alone

from quadsim.base.parameters import Spec, Vec3
from quadsim.gazebo.noise import (
    Noise,
    barometer_noise,
    echo_noise,
    field_noise,
    gnss_noise,
    imu_noise,
)
from quadsim.gazebo.xml import add_child, add_pose
from quadsim.geometry.geodesy import Datum
from quadsim.geometry.rotation import from_euler
from quadsim.sensors import PUBLISHING, SECONDS, TABLE, topics_of
from quadsim.sensors.error_terms import Position, Rotation, SensorParams
from quadsim.sensors.lidar import LidarParams
from quadsim.sensors.rangefinder import RangefinderParams
from quadsim.world.scene.obstacles import Pose

#: Farther things are not drawn by a camera, m.
FAR_M = 300.0
#: Topic of each sensor in Gazebo, in the vehicle's namespace: what ours is called in ROS (a lidar's
#: cloud is on scan/points, a camera's figures on camera/camera_info); and the messages' frame.
TOPICS = {kind: TABLE[kind].topics[0].name for kind in PUBLISHING} | {"camera": "camera/image"}
FRAMES = {kind: topics_of(kind)[0].frame for kind in (*PUBLISHING, *SECONDS)}
FRAMES["camera"] = "camera_link"

AXES = ("x", "y", "z")


@dataclass(frozen=True)
class CameraParams:
    """A camera that Gazebo draws; x of ``camera_link`` is ahead, as of all links."""

    rate_hz: Annotated[float, Spec("pictures a second", "Hz", ge=0.1, le=200.0)] = 30.0
    width: Annotated[int, Spec("pixels of a row", ge=16, le=8192)] = 640
    height: Annotated[int, Spec("pixels of a column", ge=16, le=8192)] = 480
    field_of_view_deg: Annotated[float, Spec("its width", "deg", ge=1.0, le=170.0)] = 80.0
    near_m: Annotated[float, Spec("nearer things are not drawn", "m", gt=0.0, le=10.0)] = 0.05
    position_B_m: Position = (0.1, 0.0, 0.0)
    rotation_deg: Rotation = (0.0, 0.0, 0.0)


Device = SensorParams | CameraParams


def mount_of(params: Device) -> Pose:
    """Where a device sits in ``base_link``; one that has no place sits in its origin."""
    p_B: Vec3 = getattr(params, "position_B_m", (0.0, 0.0, 0.0))
    roll, pitch, yaw = map(math.radians, getattr(params, "rotation_deg", (0.0, 0.0, 0.0)))
    return Pose(p_B, from_euler(roll, pitch, yaw))


def sensor_frames(devices: Mapping[str, Device]) -> dict[str, Pose]:
    """Where the frames of the devices' messages are in ``base_link``; of equal ones the first."""
    found: dict[str, Pose] = {}
    for kind, params in devices.items():
        if kind in FRAMES and FRAMES[kind] != "base_link":
            found.setdefault(FRAMES[kind], mount_of(params))
    return found


def _add_noise(parent: Element, noise: Noise) -> None:
    add_child(parent, "noise", noise.content(), type=noise.kind)


def _imu(sensor: Element, params: Any, _: Datum) -> None:
    imu = add_child(sensor, "imu")
    for quantity, noises in imu_noise(params).items():
        element = add_child(imu, quantity)
        for axis, noise in zip(AXES, noises, strict=True):
            _add_noise(add_child(element, axis), noise)
    add_child(imu, "enable_orientation", False)


def _magnetometer(sensor: Element, params: Any, _: Datum) -> None:
    element = add_child(sensor, "magnetometer")
    for axis, noise in zip(AXES, field_noise(params), strict=True):
        _add_noise(add_child(element, axis), noise)


def _barometer(sensor: Element, params: Any, _: Datum) -> None:
    element = add_child(sensor, "air_pressure")
    add_child(element, "reference_altitude", 0.0)  # no release heeds it; one that will must not
    _add_noise(add_child(element, "pressure"), barometer_noise(params))


def _gnss(sensor: Element, params: Any, datum: Datum) -> None:
    element = add_child(sensor, "navsat")
    parents: dict[str, Element] = {}
    for (sensing, direction), noise in gnss_noise(params, datum).items():
        parent = parents.get(sensing)
        if parent is None:
            parent = parents[sensing] = add_child(element, sensing)
        _add_noise(add_child(parent, direction), noise)


def _scan(sensor: Element, params: Any, columns: Any, channels: Any) -> None:
    """A pattern of rays: number and angles in rad, horizontal and vertical."""
    keys = ("samples", "resolution", "min_angle", "max_angle")
    scan = {
        "horizontal": dict(zip(keys, columns, strict=True)),
        "vertical": dict(zip(keys, channels, strict=True)),
    }
    within = {"min": params.range_min_m, "max": params.range_max_m, "resolution": params.step_m}
    noise = {"type": "gaussian", **echo_noise(params).content()}
    add_child(sensor, "lidar", {"scan": scan, "range": within, "noise": noise})


def _lidar(sensor: Element, params: LidarParams, _: Datum) -> None:
    azimuths = (math.radians(params.azimuth_min_deg), math.radians(params.azimuth_max_deg))
    elevations = (math.radians(params.elevation_min_deg), math.radians(params.elevation_max_deg))
    _scan(sensor, params, (params.columns, 1, *azimuths), (params.channels, 1, *elevations))


def _rangefinder(sensor: Element, params: RangefinderParams, _: Datum) -> None:
    _scan(sensor, params, (1, 1, 0.0, 0.0), (1, 1, 0.0, 0.0))


def _camera(sensor: Element, params: CameraParams, _: Datum) -> None:
    content = {
        "horizontal_fov": math.radians(params.field_of_view_deg),
        "image": {"width": params.width, "height": params.height, "format": "R8G8B8"},
        "clip": {"near": params.near_m, "far": FAR_M},
    }
    add_child(sensor, "camera", content)


#: How Gazebo calls each kind, and what describes it.
_KINDS: dict[str, tuple[str, Any]] = {
    "imu": ("imu", _imu),
    "gnss": ("navsat", _gnss),
    "magnetometer": ("magnetometer", _magnetometer),
    "barometer": ("air_pressure", _barometer),
    "rangefinder": ("gpu_lidar", _rangefinder),
    "lidar": ("gpu_lidar", _lidar),
    "camera": ("camera", _camera),
}


def add_sensor(
    link: Element,
    kind: str,
    params: Device,
    datum: Datum,
    namespace: str,
    prefix: str = "",
    fortress: bool = False,
) -> None:
    """Append a sensor to ``base_link``; a device that Gazebo does not have is left out.

    Args:
        link: gets it.
        kind: a key of :data:`TOPICS`.
        params: of the device.
        datum: origin of the world, for what Gazebo wants in degrees.
        namespace: of the vehicle, without slashes at its ends.
        prefix: of its frames.
        fortress: as Gazebo Fortress calls things.
    """
    if kind not in _KINDS:
        return
    gazebo, describe = _KINDS[kind]
    sensor = add_child(link, "sensor", name=kind, type=gazebo)
    add_pose(sensor, mount_of(params))
    add_child(sensor, "always_on", True)
    add_child(sensor, "update_rate", params.rate_hz)
    add_child(sensor, "topic", f"{namespace}/{TOPICS[kind]}")
    frame = "ignition_frame_id" if fortress else "gz_frame_id"
    add_child(sensor, frame, prefix + FRAMES[kind])
    describe(sensor, params, datum)
