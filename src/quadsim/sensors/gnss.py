"""Satellite navigation receiver: position and velocity of its antenna in the datum's ENU axes.

Error of a position: white and first-order Gauss-Markov parts that share the variance of the data
sheet's accuracy, scaled by the dilution of precision, and offsets by multipath for a while.

Satellites over the antenna: which it sees, and the dilution of precision that they give.

Langley, *Dilution of precision*, GPS World 10(5), 1999: with rows (e, n, u, 1) of the unit vectors
to the satellites the covariance of position and clock is (H^T H)^-1 of the ranges' variance. Here
the clock is eliminated first: what is left are the second moments of the vectors about their mean.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Array, Over, Record, Records, Vector, kernel
from quadsim.base.elementary import cos, each, exp, log, sin
from quadsim.base.normals import draw_normals
from quadsim.base.parameters import Spec, Vec3
from quadsim.base.records import Kinematics
from quadsim.geometry.rotation import quat, rotate
from quadsim.geometry.vector import add, cross, vec3
from quadsim.sensors.error_terms import (
    DeliveredParams,
    Position,
    Rate,
    next_state,
    share_of_time,
    uniform,
)
from quadsim.sensors.model import Reading, SensorModel
from quadsim.sensors.slot import SensorWorld, Slot
from quadsim.wire.samples import fix_messages, has_fix, velocity_messages
from quadsim.world.environment import EnvironmentParams
from quadsim.world.scene.scene import Scene, cast_ray

#: One bit for each in an int64.
MAX_SATELLITES = 60

#: Fewer give no position and clock.
LEAST_SATELLITES = 4

#: No fix with a worse geometry: the default of u-blox receivers (CFG-NAVSPG-OUTFIL_PDOP, 25.0).
WORST_PDOP = 25.0

#: What stands for a dilution that is not known, as in NMEA 0183.
NO_DOP = 99.99

#: Nothing farther hides a satellite.
VIEW_M = 2000.0


class Sky(Record):
    """The satellites above the mask, and what is seen of them."""

    count: int  # above the mask
    hidden: int  # one bit each
    visible: int
    hdop: float
    vdop: float
    direction_W: Annotated[Array, MAX_SATELLITES, 3]


def draw_sky(sky: Sky, count: int, mask_deg: float, generator: np.random.Generator) -> None:
    """Spread satellites evenly over the sky above a mask.

    Args:
        sky: a :class:`Sky`.
        count: of satellites.
        mask_deg: least elevation.
        generator: the sensor's stream; takes the same number of draws for any count.
    """
    sine = sin(math.radians(mask_deg))
    up = sine + (1.0 - sine) * generator.random(MAX_SATELLITES)
    azimuth = 2.0 * np.pi * generator.random(MAX_SATELLITES)
    level = np.sqrt(1.0 - up * up)
    sky["count"] = count
    sky["direction_W"][:] = np.column_stack(
        [level * each(sin, azimuth), level * each(cos, azimuth), up]
    )
    dilute(sky, 0)


@kernel
def dilute(sky: Sky, hidden: int) -> None:
    """Write how many satellites are seen and the dilution of precision that they give.

    Args:
        sky: a :class:`Sky`.
        hidden: one bit for each satellite that is not seen.
    """
    sky.hidden, sky.visible = hidden, 0
    x, y, z = 0.0, 0.0, 0.0
    xx, yy, zz, xy, xz, yz = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(sky.count):
        if hidden & (1 << i):
            continue
        e, n, u = vec3(sky.direction_W[i])
        sky.visible += 1
        x, y, z = x + e, y + n, z + u
        xx, yy, zz = xx + e * e, yy + n * n, zz + u * u
        xy, xz, yz = xy + e * n, xz + e * u, yz + n * u
    sky.hdop, sky.vdop = NO_DOP, NO_DOP
    if sky.visible < LEAST_SATELLITES:
        return
    m = 1.0 / sky.visible
    xx, yy, zz = xx - m * x * x, yy - m * y * y, zz - m * z * z
    xy, xz, yz = xy - m * x * y, xz - m * x * z, yz - m * y * z
    # diagonal of the inverse of the symmetric matrix
    east, north, up = yy * zz - yz * yz, xx * zz - xz * xz, xx * yy - xy * xy
    determinant = xx * east - xy * (xy * zz - yz * xz) + xz * (xy * yz - yy * xz)
    if determinant > 1e-9:
        sky.hdop = min(NO_DOP, math.sqrt((east + north) / determinant))
        sky.vdop = min(NO_DOP, math.sqrt(up / determinant))


@kernel
def has_position(sky: Sky) -> bool:
    """Whether what is seen gives a fix."""
    dop2 = sky.hdop * sky.hdop + sky.vdop * sky.vdop
    return bool(sky.visible >= LEAST_SATELLITES and dop2 <= WORST_PDOP * WORST_PDOP)


@kernel
def look_up(sky: Sky, scene: Scene, ground_height_m: float, antenna_W: Vec3) -> None:
    """Find out which satellites terrain and obstacles hide.

    Args:
        sky: a :class:`Sky`.
        scene: what stands on the flat ground.
        ground_height_m: height of the flat ground.
        antenna_W: where the antenna is.
    """
    hidden = 0
    obstacles = scene.planes.shape[0] + scene.shapes.boxes.shape[0]
    if obstacles + scene.terrain.heights.shape[0] > 0:
        for i in range(sky.count):
            direction_W = vec3(sky.direction_W[i])
            if cast_ray(scene, ground_height_m, antenna_W, direction_W, VIEW_M)[0] < VIEW_M:
                hidden |= 1 << i
    if hidden != sky.hidden:
        dilute(sky, hidden)


#: Accuracies in deviations of one axis, of equal independent normal axes (Langley, *The mathematics
#: of GPS*, GPS World 2(7), 1991): radius that holds half (CEP) or 95 % of two axes (Rayleigh
#: distribution), root mean square of the distance (DRMS), bound of half or 95 % of one axis.
HORIZONTAL_MEASURES = {
    "sigma": 1.0,
    "cep": math.sqrt(2.0 * log(2.0)),
    "drms": math.sqrt(2.0),
    "2drms": 2.0 * math.sqrt(2.0),
    "r95": math.sqrt(2.0 * log(20.0)),
}
ONE_AXIS_MEASURES = {"sigma": 1.0, "r50": 0.6744897501960817, "r95": 1.959963984540054}

#: NavSatStatus.status of a sample without a fix; with one it is the index of the parameter ``fix``.
NO_FIX = -1.0
FIXES = ("fix", "sbas", "rtk")


@dataclass(frozen=True)
class GnssParams(DeliveredParams):
    """One receiver with its antenna; zero switches an error off."""

    rate_hz: Annotated[float, Rate("fix rate", "Hz", ge=0.1, le=50.0)] = 10.0
    position_B_m: Position = (0.0, 0.0, 0.0)
    fix: Annotated[str, Spec("kind of fix that messages state", choices=FIXES)] = "fix"
    horizontal_accuracy_m: Annotated[
        float, Spec("of the position, east and north", "m", ge=0.0, le=1000.0)
    ] = 0.0
    horizontal_measure: Annotated[
        str,
        Spec("what it is: deviation of an axis, or of both", choices=tuple(HORIZONTAL_MEASURES)),
    ] = "sigma"
    vertical_accuracy_m: Annotated[float, Spec("of the position, up", "m", ge=0.0, le=1000.0)] = 0.0
    vertical_measure: Annotated[str, Spec("what it is", choices=tuple(ONE_AXIS_MEASURES))] = "sigma"
    velocity_accuracy_mps: Annotated[
        float, Spec("of the velocity along any level axis", "m/s", ge=0.0, le=100.0)
    ] = 0.0
    velocity_measure: Annotated[str, Spec("what it is", choices=tuple(ONE_AXIS_MEASURES))] = "sigma"
    vertical_velocity_factor: Annotated[
        float, Spec("error of the vertical velocity over that of the level one", ge=0.0, le=100.0)
    ] = 1.0
    correlated_share: Annotated[
        float, Spec("of the position's variance, correlated in time", ge=0.0, le=1.0)
    ] = 0.0
    correlation_time_s: Annotated[
        float, Spec("of that share, a Gauss-Markov process", "s", gt=0.0, le=1e5)
    ] = 60.0
    satellites: Annotated[
        int, Spec("above the mask; 0: the sky is not modelled", ge=0, le=MAX_SATELLITES)
    ] = 0
    elevation_mask_deg: Annotated[
        float, Spec("lower satellites are not used", "deg", ge=0.0, le=80.0)
    ] = 10.0
    hdop: Annotated[
        float, Spec("horizontal dilution of precision at the stated accuracy", gt=0.0, le=50.0)
    ] = 1.0
    vdop: Annotated[
        float, Spec("vertical dilution of precision at the stated accuracy", gt=0.0, le=50.0)
    ] = 1.5
    first_fix_s: Annotated[
        float,
        Spec("from switch-on to the first fix (hot, warm or cold start)", "s", ge=0.0, le=1e4),
    ] = 0.0
    outage_rate_hz: Annotated[
        float, Spec("losses of the fix, a second", "1/s", ge=0.0, le=10.0)
    ] = 0.0
    outage_mean_s: Annotated[float, Spec("how long they last", "s", ge=0.0, le=1e4)] = 5.0
    multipath_rate_hz: Annotated[
        float, Spec("offsets by multipath, a second", "1/s", ge=0.0, le=10.0)
    ] = 0.0
    multipath_sigma_m: Annotated[
        float, Spec("deviation of such an offset on each axis", "m", ge=0.0, le=1000.0)
    ] = 0.0
    multipath_mean_s: Annotated[float, Spec("how long they last", "s", ge=0.0, le=1e4)] = 10.0

    def position_sigma_m(self) -> Vec3:
        """Deviation of a position at the stated dilution, east, north, up, without multipath."""
        level = self.horizontal_accuracy_m / HORIZONTAL_MEASURES[self.horizontal_measure]
        return level, level, self.vertical_accuracy_m / ONE_AXIS_MEASURES[self.vertical_measure]

    def velocity_sigma_mps(self) -> Vec3:
        """Deviation of a velocity at the stated dilution, east, north, up."""
        level = self.velocity_accuracy_mps / ONE_AXIS_MEASURES[self.velocity_measure]
        return level, level, level * self.vertical_velocity_factor


class GnssState(Record):
    """What it remembers."""

    position_sigma_m: Vector
    velocity_sigma_mps: Vector
    correlated: Vector  # error, in its deviations
    outage: int
    multipath: int
    offset: Vector  # by multipath, in its deviations
    age_s: float  # since switch-on
    sky: Sky


class GnssSample(Record):
    """A fix."""

    stamp_ns: int
    p_W: Vector
    v_W: Vector
    p_variance: Vector
    v_variance: Vector
    satellites: float
    hdop: float
    vdop: float
    status: float  # NavSatStatus
    values: Annotated[Array, 6, Over("p_W")]


GnssSlot = Slot[GnssParams, GnssState, GnssSample]


def start_gnss(state: GnssState, params: GnssParams, generator: np.random.Generator) -> None:
    """Draw the sky, and errors that have wandered for long."""
    state.position_sigma_m[:] = params.position_sigma_m()
    state.velocity_sigma_mps[:] = params.velocity_sigma_mps()
    draw_sky(state["sky"], params.satellites, params.elevation_mask_deg, generator)
    state.correlated[:] = draw_normals(generator, 3)
    state.offset[:] = draw_normals(generator, 3)
    chance = generator.random(2)
    state.outage = chance[0] < share_of_time(params.outage_rate_hz, params.outage_mean_s)
    state.multipath = chance[1] < share_of_time(params.multipath_rate_hz, params.multipath_mean_s)


@kernel
def step_errors(
    state: GnssState, device: GnssParams, dt_s: float, white: NDArray[np.float64]
) -> None:
    """Errors that last, and outages, one interval later."""
    decay = exp(-dt_s / device.correlation_time_s)
    drive = math.sqrt(1.0 - decay * decay)
    for i in range(3):
        state.correlated[i] = decay * state.correlated[i] + drive * white[6 + i]
    state.outage = next_state(
        state.outage, device.outage_rate_hz, device.outage_mean_s, dt_s,
        uniform(white[12], white[13]),
    )  # fmt: skip
    before = state.multipath
    state.multipath = next_state(
        before, device.multipath_rate_hz, device.multipath_mean_s, dt_s,
        uniform(white[14], white[15]),
    )  # fmt: skip
    if state.multipath > before:
        for i in range(3):
            state.offset[i] = white[9 + i]


@kernel
def dilution(state: GnssState, device: GnssParams) -> tuple[float, float]:
    """Factors on the stated accuracy, level and up, that the sky makes now."""
    if device.satellites == 0:
        return 1.0, 1.0
    return state.sky.hdop / device.hdop, state.sky.vdop / device.vdop


@kernel
def state_accuracy(state: GnssState, device: GnssParams, found: bool, sample: GnssSample) -> None:
    """What the receiver states of its fix: the variance is that of all its errors."""
    level, up = dilution(state, device)
    multipath2 = device.multipath_sigma_m**2 * share_of_time(
        device.multipath_rate_hz, device.multipath_mean_s
    )
    for i in range(3):
        factor = level if i < 2 else up
        sample.p_variance[i] = (factor * state.position_sigma_m[i]) ** 2 + multipath2
        sample.v_variance[i] = (factor * state.velocity_sigma_mps[i]) ** 2
    sample.satellites = state.sky.visible
    sample.hdop, sample.vdop = level * device.hdop, up * device.vdop
    sample.status = float(device.fix) if found else NO_FIX


@kernel
def gnss_step(
    slots: Records[GnssSlot], world: SensorWorld, nows: Records[Kinematics], white: Array
) -> None:
    """One fix: antenna position and velocity with their errors, or NaN where there is none."""
    slot, true = slots[0], nows[0]
    state, device, sample = slot.state, slot.params, slot.sample
    q_WB = quat(true.q_WB)
    r_B = vec3(device.position_B_m)
    p_W = add(vec3(true.p_W), rotate(q_WB, r_B))
    v_W = add(vec3(true.v_W), rotate(q_WB, cross(vec3(true.w_B), r_B)))
    dt_s = (true.stamp_ns - slot.previous.stamp_ns) * 1e-9
    step_errors(state, device, dt_s, white)
    state.age_s += dt_s
    if device.satellites > 0:
        look_up(state.sky, world.scene, world.environments[0].ground_height_m, p_W)
    # half a sample: the sum of the intervals rounds
    started = state.age_s + 0.5 / device.rate_hz >= device.first_fix_s
    found = started and state.outage == 0 and (device.satellites == 0 or has_position(state.sky))
    state_accuracy(state, device, found, sample)
    level, up = dilution(state, device)
    apart, together = math.sqrt(1.0 - device.correlated_share), math.sqrt(device.correlated_share)
    multipath_m = device.multipath_sigma_m if state.multipath != 0 else 0.0
    for i in range(3):
        factor = level if i < 2 else up
        noise = apart * white[i] + together * state.correlated[i]
        error_m = factor * state.position_sigma_m[i] * noise + multipath_m * state.offset[i]
        error_mps = factor * state.velocity_sigma_mps[i] * white[3 + i]
        sample.p_W[i] = p_W[i] + error_m if found else np.nan
        sample.v_W[i] = v_W[i] + error_mps if found else np.nan


def fix_health(params: GnssParams, sample: Any) -> tuple[int, str, dict[str, Any]]:
    """Whether there is a fix, and what the sky looks like."""
    fix = sample is not None and has_fix(sample)
    values: dict[str, Any] = {"fix": str(fix).lower()}
    if sample is not None and params.satellites > 0:
        values |= {"satellites": int(sample["satellites"])}
        values |= {name: float(sample[name]) for name in ("hdop", "vdop")}
    return int(not fix), "running" if fix else "no fix", values


def told_of_gnss(gnss: GnssParams, _: EnvironmentParams) -> dict[str, Any]:
    """What an installer tells the estimator of it."""
    return {
        "mount.antenna_position_B_m": gnss.position_B_m,
        "start.gnss_time_s": 0.0,  # a simulated receiver stamps its fixes exactly
        "noise.gnss_correlated_share": gnss.correlated_share,
        "noise.gnss_correlation_s": gnss.correlation_time_s,
    }


MODEL = SensorModel(
    "gnss",
    GnssSlot,
    16,
    start_gnss,
    gnss_step,
    {"position": (0, 3), "velocity": (3, 3)},
    lambda _: frozenset({"scene"}),
    tuple(
        Reading(f"gnss_{name}", f"{letter}_W", f"{letter}_variance", absent=np.isnan, linear=True)
        for name, letter in (("position", "p"), ("velocity", "v"))
    ),
    messages=(
        lambda frame, _, environment: fix_messages(frame, environment.datum),
        lambda *_: velocity_messages(),
    ),
    health=fix_health,
    told=told_of_gnss,
)
