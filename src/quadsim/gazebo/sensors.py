"""Sensors of Gazebo from the devices of a suite, at the places where they sit, with their noise.

Gazebo's noise (gz-sensors, ``GaussianNoiseModel``): a reading is ``value + bias + N(mean,
stddev)``, rounded to ``precision``. The bias is drawn once, ``N(bias_mean, bias_stddev)``, and its
sign by chance. Where the sensor tells the time between its readings (the IMU alone does) the bias
wanders as a Gauss-Markov process: with the ``dynamic_bias_stddev`` S and the
``dynamic_bias_correlation_time`` T it keeps exp(-dt/T) of itself and gains
S sqrt(T/2 (1 - exp(-2 dt/T))). So S is the density of a random walk for short times, and
S sqrt(T/2) the deviation for long ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any
from xml.etree.ElementTree import Element  # the type alone

import numpy as np

from quadsim.base.parameters import Spec, Vec3
from quadsim.gazebo.xml import add_child, add_pose
from quadsim.geometry.geodesy import Datum, meridian_radius_m, transverse_radius_m
from quadsim.geometry.rotation import from_euler
from quadsim.sensors import PUBLISHING, SECONDS, TABLE, topics_of
from quadsim.sensors.barometer import BarometerParams
from quadsim.sensors.error_terms import Position, Rotation, SensorParams
from quadsim.sensors.gnss import GnssParams
from quadsim.sensors.imu import ImuParams
from quadsim.sensors.lidar import LidarParams
from quadsim.sensors.rangefinder import EchoParams, RangefinderParams
from quadsim.world.scene.obstacles import Pose

#: Farther things are not drawn by a camera, m.
FAR_M = 300.0
#: Topic of each sensor in Gazebo, in the vehicle's namespace: what ours is called in ROS (a lidar's
#: cloud is on scan/points, a camera's figures on camera/camera_info); and the messages' frame.
TOPICS = {kind: TABLE[kind].topics[0].name for kind in PUBLISHING} | {"camera": "camera/image"}
FRAMES = {kind: topics_of(kind)[0].frame for kind in (*PUBLISHING, *SECONDS)}
FRAMES["camera"] = "camera_link"

AXES = ("x", "y", "z")

#: Gazebo takes a smaller precision for none.
LEAST_PRECISION = 1e-6

#: Correlation time in s at which Gazebo's wandering bias is a random walk for any flight.
WALK_S = 1e6


@dataclass(frozen=True)
class Noise:
    """``<noise>`` of one quantity, in the quantity's unit.

    Attributes:
        stddev: white noise of a reading.
        bias_mean, bias_stddev: of the constant bias.
        dynamic_bias_stddev: density of what the bias wanders with, unit sqrt(Hz).
        dynamic_bias_correlation_time: of that, s.
        precision: step of the readings, 0 for none.
    """

    stddev: float = 0.0
    bias_mean: float = 0.0
    bias_stddev: float = 0.0
    dynamic_bias_stddev: float = 0.0
    dynamic_bias_correlation_time: float = 0.0
    precision: float = 0.0

    @property
    def kind(self) -> str:
        """``type`` of the element."""
        return "gaussian_quantized" if self.precision else "gaussian"

    def content(self) -> dict[str, float]:
        """Children of the element that are not zero; Gazebo wants mean and stddev in any case."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {"mean": 0.0, "stddev": self.stddev} | {k: v for k, v in values.items() if v}


def _stepped(variance: float, step: float, **bias: float) -> Noise:
    """Noise with a step; one that Gazebo ignores counts as noise, step^2 / 12."""
    if step < LEAST_PRECISION:
        return Noise(math.sqrt(variance + step**2 / 12.0), **bias)
    return Noise(math.sqrt(variance), precision=step, **bias)


def wandering(instability: float, time_s: float, walk: float) -> tuple[float, float]:
    """Gazebo's wandering bias for a Gauss-Markov process and a random walk.

    Both together keep what they gain in short times.

    Args:
        instability: stationary deviation of the Gauss-Markov process.
        time_s: its correlation time.
        walk: density of the random walk.

    Returns:
        dynamic_bias_stddev and dynamic_bias_correlation_time, zero where nothing wanders.
    """
    density = math.hypot(walk, instability * math.sqrt(2.0 / time_s))
    if density == 0.0:
        return 0.0, 0.0
    return density, WALK_S if walk else time_s


def imu_noise(params: ImuParams) -> dict[str, tuple[Noise, Noise, Noise]]:
    """Noise of ``angular_velocity`` and ``linear_acceleration``, x, y, z.

    White noise of a density N at the rate f has the deviation N sqrt(f) in a sample, behind the
    device's low-pass less; the vibration's floor counts at its reference speed.
    """

    def axes(name: str, variance: Any) -> tuple[Noise, Noise, Noise]:
        def of(key: str) -> Any:
            return getattr(params, f"{name}_{key}")

        step = of("step")
        white = np.maximum(variance - step**2 / 12.0, 0.0)
        made = []
        for k in range(3):
            density, time_s = wandering(
                of("instability")[k], of("instability_time_s"), of("bias_walk")[k]
            )
            made.append(
                _stepped(
                    float(white[k]),
                    step,
                    bias_mean=of("bias")[k],
                    bias_stddev=of("turn_on_sigma"),
                    dynamic_bias_stddev=density,
                    dynamic_bias_correlation_time=time_s,
                )
            )
        return made[0], made[1], made[2]

    return {
        "angular_velocity": axes("gyro", params.gyro_variance()),
        "linear_acceleration": axes("accel", params.accel_variance()),
    }


def field_noise(params: Any) -> tuple[Noise, Noise, Noise]:
    """Noise of x, y, z in T."""
    x, y, z = (
        _stepped(
            params.noise_sigma_T[k] ** 2,
            params.step_T,
            bias_mean=params.hard_iron_T[k],
            bias_stddev=params.turn_on_sigma_T,
        )
        for k in range(3)
    )
    return x, y, z


def barometer_noise(params: BarometerParams) -> Noise:
    """Noise of the pressure in Pa."""
    return _stepped(
        params.noise_sigma_pa**2,
        params.step_pa,
        bias_mean=params.bias_pa,
        bias_stddev=params.turn_on_sigma_pa,
    )


def degrees_per_metre(datum: Datum) -> float:
    """By which a deviation in m is that of latitude and longitude in degrees, alike for both.

    gz-sensors adds the noise of the horizontal position to latitude and longitude in degrees (one
    number for both), though the format states metres: gz-sensors issue 325, sdformat issue 1572.
    With M and N the radii of curvature at the datum, a degree is (M + h) pi/180 north and
    (N + h) cos(latitude) pi/180 east; this gives the two errors together the right variance.
    """
    latitude_deg = datum.latitude_deg
    north_m = meridian_radius_m(latitude_deg) + datum.height_m
    east_m = transverse_radius_m(latitude_deg) + datum.height_m
    east_m *= math.cos(math.radians(latitude_deg))
    return math.degrees(math.sqrt(2.0) / math.hypot(north_m, east_m))


def gnss_noise(params: GnssParams, datum: Datum) -> dict[tuple[str, str], Noise]:
    """Noise by ``position_sensing`` or ``velocity_sensing`` and ``horizontal`` or ``vertical``.

    Gazebo knows no correlated error here: that part of the variance becomes a constant offset.
    """
    east_m, _, up_m = params.position_sigma_m()
    east_mps, _, up_mps = params.velocity_sigma_mps()
    level = east_m * degrees_per_metre(datum)
    white, constant = math.sqrt(1.0 - params.correlated_share), math.sqrt(params.correlated_share)
    return {
        ("position_sensing", "horizontal"): Noise(white * level, bias_stddev=constant * level),
        ("position_sensing", "vertical"): Noise(white * up_m, bias_stddev=constant * up_m),
        ("velocity_sensing", "horizontal"): Noise(east_mps),
        ("velocity_sensing", "vertical"): Noise(up_mps),
    }


def echo_noise(params: EchoParams) -> Noise:
    """Noise of a range in m; what grows with the distance is taken at half the largest range.

    Lidars of Gazebo have white noise alone, and no step.
    """
    sigma_m = math.hypot(params.noise_sigma_m, 0.5 * params.range_max_m * params.noise_share)
    return Noise(math.hypot(sigma_m, params.step_m / math.sqrt(12.0)))


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
