"""A lidar's rays: where they start while the vehicle moves, and what is read off their echoes."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Records, kernel
from quadsim.base.parameters import Vec3
from quadsim.base.records import Kinematics
from quadsim.geometry.rotation import Quat, conjugate, exp, log, multiply, quat, rotate, to_matrix
from quadsim.geometry.vector import add, scale, vec3
from quadsim.sensors.echo import EchoState, is_missed, read_echo
from quadsim.sensors.faults import FaultList, amplify, delay_s, loss_probability
from quadsim.sensors.lidar_pattern import LidarParams
from quadsim.sensors.timing import is_lost, stamp_of_sample
from quadsim.world.scene.scene import Scene, cast_ray

#: A white diffuse surface, hit along its normal, has this intensity.
WHITE_INTENSITY = 100.0


@kernel
def pose_between(previous: Kinematics, now: Kinematics, stamp_ns: int) -> tuple[Vec3, Quat]:
    """Position and attitude at a time between two KINEMATICS records.

    Constant velocity and constant angular velocity: wrong by at most dt^2 / 8 times the
    acceleration.
    """
    part = (stamp_ns - previous.stamp_ns) / (now.stamp_ns - previous.stamp_ns)
    p_W = add(scale(1.0 - part, vec3(previous.p_W)), scale(part, vec3(now.p_W)))
    q_WB = quat(previous.q_WB)
    turn = log(multiply(conjugate(q_WB), quat(now.q_WB)))
    return p_W, multiply(q_WB, exp(scale(part, turn)))


@kernel
def cast_columns(
    lidars: Records[LidarParams],
    states: Records[EchoState],
    scene: Scene,
    ground_height_m: float,
    previous: Records[Kinematics],
    now: Records[Kinematics],
    stamps_ns: NDArray[np.int64],
    columns: tuple[int, int],
    elevations: NDArray[np.float64],
    azimuths: NDArray[np.float64],
    distances: NDArray[np.float64],
    cosines: NDArray[np.float64],
) -> None:
    """Cast the rays of some columns, each from where the lidar is at the column's time.

    Args:
        lidars: (1,) parameters.
        states: (1,) LIDAR_STATE.
        scene: what is there.
        ground_height_m: of the flat ground.
        previous, now: (1,) KINEMATICS between which the columns' times lie.
        stamps_ns: (columns,) time of each column.
        columns: first, and behind the last.
        elevations: (channels, 2) cosine and sine.
        azimuths: (columns, 2) cosine and sine.
        distances: (channels, columns) is filled; inf for nothing in range.
        cosines: (channels, columns) of the incidence, likewise.
    """
    lidar, state = lidars[0], states[0]
    position_B, q_BS = vec3(lidar.position_B_m), quat(state.q_BS)
    for column in range(columns[0], columns[1]):
        p_W, q_WB = pose_between(previous[0], now[0], stamps_ns[column])
        origin_W = add(p_W, rotate(q_WB, position_B))
        x, y, z = to_matrix(multiply(q_WB, q_BS))
        east, north = azimuths[column, 0], azimuths[column, 1]
        level_W = (
            x[0] * east + x[1] * north,
            y[0] * east + y[1] * north,
            z[0] * east + z[1] * north,
        )
        up_W = (x[2], y[2], z[2])
        for channel in range(elevations.shape[0]):
            ray_W = add(scale(elevations[channel, 0], level_W), scale(elevations[channel, 1], up_W))
            distances[channel, column], cosines[channel, column] = cast_ray(
                scene, ground_height_m, origin_W, ray_W, lidar.range_max_m
            )


@kernel
def read_scan(
    lidars: Records[LidarParams],
    states: Records[EchoState],
    distances: NDArray[np.float64],
    cosines: NDArray[np.float64],
    white: NDArray[np.float64],
    chances: NDArray[np.float64],
    ranges: NDArray[np.float32],
    intensities: NDArray[np.float32],
) -> None:
    """What a lidar reads off its echoes.

    Args:
        lidars: (1,) parameters.
        states: (1,) LIDAR_STATE.
        distances: (channels, columns), as :func:`cast_columns` left them.
        cosines: likewise.
        white: (channels * columns,) standard normal.
        chances: (channels * columns,) uniform in [0, 1).
        ranges: (channels, columns) is filled: m, and +-inf by REP-117.
        intensities: (channels, columns) is filled: 100 times the reflectivity times the cosine of
            the incidence (Lambert), as a device gives it that makes up for the distance; 0 without
            an echo, and everywhere where it is switched off.
    """
    lidar, state = lidars[0], states[0]
    for channel in range(distances.shape[0]):
        for column in range(distances.shape[1]):
            ray = channel * distances.shape[1] + column
            distance, cosine = distances[channel, column], cosines[channel, column]
            if distance < math.inf and (
                cosine < state.cos_incidence_max or is_missed(lidar, state, cosine, chances[ray])
            ):
                distance = math.inf
            reading = read_echo(lidar, state, distance, white[ray])
            ranges[channel, column] = reading
            intensities[channel, column] = 0.0
            if lidar.intensity != 0 and not math.isinf(reading):
                intensities[channel, column] = WHITE_INTENSITY * lidar.reflectivity * cosine


@kernel
def prepare_scan(
    lidars: Records[LidarParams],
    faults: Records[FaultList],
    begin_ns: int,
    period_ns: int,
    white: NDArray[np.float64],
    timing_white: NDArray[np.float64],
) -> tuple[int, bool, float]:
    """What timing and faults make of a scan: noise is made louder in place.

    Args:
        lidars: (1,) parameters.
        faults: (1,) FAULT_LIST.
        begin_ns: when its first ray was cast.
        period_ns: of the scans.
        white: standard normal numbers of its noise.
        timing_white: (2,) standard normal, of stamp and loss.

    Returns:
        Its stamp, whether it is lost, and its latency in s.
    """
    lidar = lidars[0]
    amplify(faults[0], begin_ns, white, white.size)
    probability = loss_probability(faults[0], begin_ns, lidar.loss_probability)
    return (
        stamp_of_sample(lidar, begin_ns, period_ns, timing_white[0]),
        is_lost(probability, timing_white[1]),
        lidar.latency_s + delay_s(faults[0], begin_ns),
    )
