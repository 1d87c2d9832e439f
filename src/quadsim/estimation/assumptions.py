"""What an estimator assumes of a vehicle that nobody has described, one line for each assumption.

A bag of plain ``ros2 bag record`` holds messages and no parameters. The magnetic field follows from
place and date. The rest is not known, so it is carried as uncertainty: as a state with a prior
where the data can tell it, otherwise as noise.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from quadsim.base.elementary import atan2
from quadsim.base.parameters import flatten
from quadsim.estimation.eskf.parameters import EstimatorParams
from quadsim.geometry.geodesy import Datum
from quadsim.world.earth.magnetic import FIELD_SIGMA_T, MODEL_YEARS, model_field_W_T

#: Deviation of the axes of IMU and magnetometer from each other and from the vehicle's, and of the
#: scale and axes of an uncalibrated MEMS device (data sheets in ``config/sensors``: 0.3 to 1.3 %).
MOUNTING_DEG, SCALE = 1.0, 0.01
#: Deviation of a magnetometer's offset after calibration (``config/sensors``: 0.3 to 2 uT).
FIELD_OFFSET_T = 5e-7
#: Deviation of the scale of an optical flow: a lens that nobody has calibrated.
FLOW_SCALE = 0.05
#: Deviation of the offset of a range finder that nobody has measured, m.
RANGE_OFFSET_M = 0.03
#: Deviation of each part of the lever arm from IMU to antenna of a vehicle that a person carries.
LEVER_ARM_M = 0.05
#: A fix that is less accurate reports too little of a lever arm of that size.
ACCURATE_FIX_M = 0.3
#: How long the correlated error of a fix lasts: multipath of an accurate one, else the orbits and
#: the ionosphere.
MULTIPATH_S, IONOSPHERE_S = 30.0, 600.0
#: Correlated share of an accurate fix's variance where nothing tells it (``ublox_f9p_rtk``).
ACCURATE_SHARE = 0.5
#: Where no stamp is a date; and how close strengths are that are the same on purpose.
NO_DATE_YEAR, SAME_STRENGTH = 2026.0, 1e-3
#: Of the Gregorian calendar, on average.
SECONDS_PER_YEAR = 365.2425 * 86400.0
#: Less than this is not told from a white error; more would leave nothing of a fix.
LEAST_SHARE, LARGEST_SHARE = 0.25, 0.95


@dataclass(frozen=True, slots=True)
class Heard:
    """What the messages say, besides their numbers.

    Attributes:
        place: the datum, or the first fix.
        date_year: decimal year; None where no stamp is a date.
        has_field: a magnetometer speaks.
        field_strength_T: that it measures, median.
        has_range: a rangefinder speaks.
        fix_sigma_m: horizontal deviation of a fix; None without fixes.
        correlated_share: of a fix's variance; None where the messages do not tell.
        has_pose: an external pose is there.
        has_flow: an optical flow sensor speaks.
        has_odometry: an odometry in a frame of its own does.
        without_covariance: sensors whose messages leave their covariance unknown: ``imu``,
            ``magnetic_field``, ``gnss_position``, ``gnss_velocity``, ``pressure``, ``range``.
    """

    place: Datum | None = None
    date_year: float | None = None
    has_field: bool = False
    field_strength_T: float = 0.0
    has_range: bool = False
    has_pose: bool = False
    has_flow: bool = False
    has_odometry: bool = False
    fix_sigma_m: float | None = None
    correlated_share: float | None = None
    without_covariance: Collection[str] = ()


def date_year_of(stamp_ns: int) -> float | None:
    """Decimal year of a time since 1970; None where no model of the field covers it.

    A stamp that counts from the start of a simulation or of a device is no date.
    """
    year = 1970.0 + stamp_ns * 1e-9 / SECONDS_PER_YEAR
    return year if MODEL_YEARS[0] <= year < MODEL_YEARS[1] else None


def differing_keys(params: EstimatorParams) -> set[str]:
    """Dotted keys of the parameters that differ from their defaults: somebody has set them."""
    defaults = flatten(EstimatorParams())
    return {key for key, value in flatten(params).items() if value != defaults[key]}


def assumed(
    params: EstimatorParams, known: Collection[str], heard: Heard
) -> tuple[EstimatorParams, list[str]]:
    """Parameters with an assumption for all that is not known, and each assumption in words.

    Args:
        params: as they are without.
        known: dotted keys of the parameters that somebody has set; they stay as they are.
        heard: what the messages say.
    """
    notes: list[str] = []
    if heard.has_field:
        params = _with_field(params, known, heard, notes)
    params = _with_mounting(params, known, notes)
    if heard.fix_sigma_m is not None:
        params = _with_antenna(params, known, heard.fix_sigma_m, notes)
        params = _with_correlation(params, known, heard, notes)
    moves = heard.has_flow or heard.has_odometry
    local = moves and heard.place is None and not (heard.has_field or heard.has_pose)
    if heard.has_range and not local and not {"flat_ground", "ground_height_m"} & set(known):
        params = replace(params, flat_ground=False)
        notes.append("assumed: height of the ground under the rangefinder not known, estimated")
    if heard.has_flow:
        params = _with_flow(params, known, notes)
    if local:
        params = replace(params, start=replace(params.start, local=True))
        notes.append(
            "assumed: map begins where the vehicle stands, x is its nose: no fix, no field"
        )
        if params.flat_ground and heard.has_range:
            notes.append("assumed: the ground is flat, at the height of 0 of map")
            params = _with_range(params, known, notes)
    notes += [_default(params, name) for name in heard.without_covariance]
    return params, notes


def _with_range(
    params: EstimatorParams, known: Collection[str], notes: list[str]
) -> EstimatorParams:
    """A range finder that is off by a constant, which its own place is part of, and else white."""
    if {"noise.range_offset_m", "noise.range_correlation_s"} & set(known):
        return params
    notes.append(f"assumed: offset of the range finder 0 +- {RANGE_OFFSET_M:g} m, estimated")
    noise = replace(params.noise, range_offset_m=RANGE_OFFSET_M, range_correlation_s=0.0)
    return replace(params, noise=noise)


def _with_flow(
    params: EstimatorParams, known: Collection[str], notes: list[str]
) -> EstimatorParams:
    """An optical flow sensor whose scale is not exact, and changes with what it sees."""
    if {"start.flow_scale", "noise.flow_share"} & set(known):
        return params
    notes.append(
        f"assumed: scale of the optical flow within {100.0 * FLOW_SCALE:g} %, estimated; for a"
        " second it is as much off that"
    )
    start = replace(params.start, flow_scale=FLOW_SCALE)
    return replace(params, start=start, noise=replace(params.noise, flow_share=FLOW_SCALE))


def _with_field(
    params: EstimatorParams, known: Collection[str], heard: Heard, notes: list[str]
) -> EstimatorParams:
    """The field of the World Magnetic Model, and a magnetometer that is off by a constant."""
    if "magnetic_field_W_T" not in known:
        params, words = with_model_field(params, heard)
        notes.append(words)
        if "start.field_T" not in known and "World Magnetic Model" in words:
            params = replace(params, start=replace(params.start, field_T=FIELD_SIGMA_T))
    if "start.field_bias_T" not in known and "magnetic_field" not in heard.without_covariance:
        start = replace(params.start, field_bias_T=max(params.start.field_bias_T, FIELD_OFFSET_T))
        params = replace(params, start=start)
        notes.append(
            f"assumed: offset of the magnetometer 0 +- {start.field_bias_T * 1e6:g} uT, estimated"
        )
    return params


def with_model_field(params: EstimatorParams, heard: Heard) -> tuple[EstimatorParams, str]:
    """Parameters with the model's field at a place and date, and in words what was taken.

    Where no stamp is a date the declination is good to a degree still, but for one case: messages
    of a simulator whose field is that of the parameters, which the strength tells.
    """
    place, year = heard.place, heard.date_year
    strength_T = math.hypot(*params.magnetic_field_W_T)
    alike = abs(heard.field_strength_T - strength_T) < SAME_STRENGTH * strength_T
    if place is None or (year is None and alike):
        why = "no datum and no fix" if place is None else "no date, and the strength is the same"
        words = _in_words(params.magnetic_field_W_T)
        return params, f"assumed: magnetic field of the parameters, {words} ({why})"
    date = f"in {year:.1f}" if year is not None else f"in {NO_DATE_YEAR:.1f} (no stamp is a date)"
    field_W_T = model_field_W_T(place, NO_DATE_YEAR if year is None else year)
    where = f"{place.latitude_deg:.2f}, {place.longitude_deg:.2f} {date}"
    return replace(params, magnetic_field_W_T=field_W_T), (
        f"assumed: magnetic field of the World Magnetic Model at {where}, {_in_words(field_W_T)}"
    )


def _in_words(field_W_T: tuple[float, float, float]) -> str:
    east, north, up = field_W_T
    declination_deg = math.degrees(atan2(east, north))
    inclination_deg = math.degrees(atan2(-up, math.hypot(east, north)))
    strength_uT = 1e6 * math.hypot(east, north, up)
    return (
        f"{strength_uT:.1f} uT, declination {declination_deg:.1f} deg,"
        f" inclination {inclination_deg:.1f} deg"
    )


def _with_mounting(
    params: EstimatorParams, known: Collection[str], notes: list[str]
) -> EstimatorParams:
    """An IMU whose axes and scale are not exact."""
    mounted = "mount.imu_roll_pitch_yaw_deg" in known
    error = SCALE if mounted else math.hypot(SCALE, math.radians(MOUNTING_DEG))
    noise, told = params.noise, False
    if not {"noise.gyro_scale", "noise.gyro_axes"} & set(known) and noise.gyro_scale == 0.0:
        noise, told = replace(noise, gyro_scale=error, gyro_axes=error), True
    if not {"noise.accel_scale", "noise.accel_axes"} & set(known) and noise.accel_scale == 0.0:
        noise, told = replace(noise, accel_scale=error, accel_axes=error), True
    if told:
        axes = "" if mounted else f"axes are those of base_link within {MOUNTING_DEG:g} deg, "
        notes.append(f"assumed: the IMU's {axes}scale within {100.0 * SCALE:g} %")
    return replace(params, noise=noise)


def _with_antenna(
    params: EstimatorParams, known: Collection[str], sigma_m: float, notes: list[str]
) -> EstimatorParams:
    """A lever arm that is a state where fixes are good enough to tell it."""
    given = {"mount.antenna_position_B_m", "mount.imu_position_B_m", "start.lever_arm_m"}
    if given & set(known):
        return params
    if sigma_m >= ACCURATE_FIX_M:
        fixes = f"below fixes of {sigma_m:.2g} m"
        if math.isinf(sigma_m):
            fixes = "as the fixes do not state how good they are"
        notes.append(f"assumed: no lever arm from IMU to antenna, {fixes}")
        return params
    notes.append(
        f"assumed: lever arm from IMU to antenna 0 +- {LEVER_ARM_M:g} m, estimated; base_link is"
        " at the IMU"
    )
    return replace(params, start=replace(params.start, lever_arm_m=LEVER_ARM_M))


def _with_correlation(
    params: EstimatorParams, known: Collection[str], heard: Heard, notes: list[str]
) -> EstimatorParams:
    """Errors of a receiver that last."""
    assert heard.fix_sigma_m is not None
    if "noise.gnss_correlated_share" in known or params.noise.gnss_correlated_share > 0.0:
        return params
    accurate = heard.fix_sigma_m < ACCURATE_FIX_M
    share = heard.correlated_share
    if share is None:
        share = ACCURATE_SHARE if accurate else 0.0
    if share < LEAST_SHARE:
        notes.append("assumed: errors of the fixes are white")
        return params
    share = min(share, LARGEST_SHARE)
    time_s = MULTIPATH_S if accurate else IONOSPHERE_S
    if "noise.gnss_correlation_s" in known:
        time_s = params.noise.gnss_correlation_s
    notes.append(f"assumed: {100.0 * share:.0f} % of the variance of the fixes lasts {time_s:g} s")
    noise = replace(params.noise, gnss_correlated_share=share, gnss_correlation_s=time_s)
    return replace(params, noise=noise)


def _default(params: EstimatorParams, name: str) -> str:
    """What stands in for a covariance that messages leave unknown, in words."""
    noise = params.noise
    taken = {
        "imu": f"{noise.accel_density:g} m/s^2/sqrt(Hz), {noise.gyro_density:g} rad/s/sqrt(Hz)",
        "magnetic_field": (
            f"heading {noise.heading_sigma_rad:g} rad at first, then as its innovations;"
            f" vertical part {noise.field_sigma_T * 1e6:g} uT"
        ),
        "gnss_position": ", ".join(f"{x:g}" for x in noise.gnss_position_sigma_m) + " m",
        "gnss_velocity": ", ".join(f"{x:g}" for x in noise.gnss_velocity_sigma_mps) + " m/s",
        "pressure": f"{noise.pressure_sigma_pa:g} Pa",
        "range": f"{noise.range_sigma_m:g} m",
        "optical_flow": f"{noise.flow_sigma_rad:g} rad",
        "external_odometry": (
            f"{noise.odometry_position_sigma_m:g} m, {noise.odometry_yaw_sigma_rad:g} rad"
        ),
        "gnss_heading": f"{noise.gnss_heading_sigma_rad:g} rad",
        "external_velocity": f"{noise.external_velocity_sigma_mps:g} m/s",
    }[name]
    return f"assumed: noise of {name} {taken}: its messages state no covariance"


class Unknown:
    """What a live estimator assumes where its parameters keep their defaults, once it has heard.

    It hears until there is a place, a field and a fix; the filter, which wants the same and a
    second of it, has not started then.

    Args:
        params: of the estimator; those that differ from the defaults are known.
    """

    def __init__(self, params: EstimatorParams) -> None:
        self.notes: list[str] = []
        self._heard = Heard()
        self._sensors: dict[str, bool] = {}  # whether its messages state a covariance
        self.update(params)

    def update(self, params: EstimatorParams) -> EstimatorParams:
        """Take other parameters, and give them with what is assumed already."""
        self._params, self._known = params, differing_keys(params)
        return self.assume() if self.notes else params

    def hear(self, sensor: str, covariance: NDArray[np.float64]) -> None:
        """Note whether a sensor's messages state a covariance; the first one tells."""
        self._sensors.setdefault(sensor, bool(np.any(covariance)))

    def hear_place(self, place: Datum, now_ns: int) -> None:
        """Take the datum, and a time since 1970 that may be a date."""
        self._heard = replace(self._heard, place=place, date_year=date_year_of(now_ns))

    def hear_fix(self, covariance: NDArray[np.float64]) -> None:
        """Take the covariance (3, 3) of a fix, m^2; all zero: unknown."""
        covariance = covariance.reshape(-1)
        self.hear("gnss_position", covariance)
        if self._heard.fix_sigma_m is None:
            sigma_m = math.sqrt(max(0.5 * (covariance[0] + covariance[4]), 0.0))
            self._heard = replace(self._heard, fix_sigma_m=sigma_m or math.inf)

    def hear_field(self, m_S: NDArray[np.float64], covariance: NDArray[np.float64]) -> None:
        """Take a field (3,), T, and its covariance (9,)."""
        self.hear("magnetic_field", covariance)
        if not self._heard.has_field:
            strength_T = math.hypot(*m_S)
            self._heard = replace(self._heard, has_field=True, field_strength_T=strength_T)

    @property
    def is_ready(self) -> bool:
        """Whether enough was heard, and nothing is assumed yet."""
        heard = self._heard
        known = heard.place is not None and heard.fix_sigma_m is not None and heard.has_field
        return known and not self.notes

    def assume(self) -> EstimatorParams:
        """The parameters with an assumption for all that is not known; it states which in notes."""
        silent = [name for name, stated in self._sensors.items() if not stated]
        has_range = "range" in self._sensors
        heard = replace(self._heard, has_range=has_range, without_covariance=silent)
        params, self.notes = assumed(self._params, self._known, heard)
        return params
