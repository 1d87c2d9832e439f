"""Rotations against scipy, frames against hand-built cases, geodesy against pymap3d."""

from __future__ import annotations

import math
import sys
from fractions import Fraction

import numpy as np
import pymap3d
import pytest
from scipy.spatial.transform import Rotation

from quadsim.geometry import rotation, vector
from quadsim.geometry.geodesy import Datum
from quadsim.geometry.length import hypot
from quadsim.wire import axes

RNG = np.random.default_rng(20)
# A product of a few dozen double operations is exact to some 1e-15 of numbers near one.
ROUNDING = 1e-14


def scipy_of(q):
    return Rotation.from_quat([q[1], q[2], q[3], q[0]])


def random_quat():
    return rotation.normalize(tuple(RNG.standard_normal(4)))


@pytest.mark.parametrize("_", range(20))
def test_rotations_match_scipy(_):
    a, b = random_quat(), random_quat()
    v = tuple(RNG.standard_normal(3))
    assert rotation.rotate(a, v) == pytest.approx(scipy_of(a).apply(v), abs=ROUNDING)
    assert rotation.unrotate(a, v) == pytest.approx(scipy_of(a).inv().apply(v), abs=ROUNDING)
    assert np.array(rotation.to_matrix(a)) == pytest.approx(scipy_of(a).as_matrix(), abs=ROUNDING)
    product = scipy_of(rotation.multiply(a, b)).as_matrix()
    assert product == pytest.approx((scipy_of(a) * scipy_of(b)).as_matrix(), abs=ROUNDING)
    yaw, pitch, roll = scipy_of(a).as_euler("ZYX")
    assert rotation.to_euler(a) == pytest.approx((roll, pitch, yaw), abs=1e-12)
    assert rotation.yaw_of(a) == pytest.approx(yaw, abs=1e-12)
    back = scipy_of(rotation.from_euler(roll, pitch, yaw)).as_matrix()
    assert back == pytest.approx(scipy_of(a).as_matrix(), abs=1e-12)


@pytest.mark.parametrize("angle", [0.0, 1e-9, 1e-5, 9.9e-5, 1.1e-4, 0.1, 1.0, 3.0, math.pi - 1e-6])
def test_exp_and_log_match_scipy_across_the_switch_to_the_series(angle):
    axis = RNG.standard_normal(3)
    phi = tuple(angle * axis / np.linalg.norm(axis))
    q = rotation.exp(phi)
    expected = Rotation.from_rotvec(phi).as_quat()
    assert q == pytest.approx((expected[3], *expected[:3]), abs=ROUNDING)
    assert rotation.log(q) == pytest.approx(phi, abs=1e-13)
    negative = tuple(-x for x in q)
    assert rotation.log(negative) == pytest.approx(phi, abs=1e-13)


def test_yaw_is_zero_east_and_counter_clockwise():
    north = rotation.from_euler(0.0, 0.0, math.pi / 2)
    assert rotation.rotate(north, (1.0, 0.0, 0.0)) == pytest.approx((0.0, 1.0, 0.0), abs=ROUNDING)


def test_positive_pitch_lowers_the_nose():
    q = rotation.from_euler(0.0, 0.1, 0.0)
    assert rotation.rotate(q, (1.0, 0.0, 0.0))[2] < 0.0


@pytest.mark.parametrize(
    ("angle", "expected"),
    [
        (0.0, 0.0),
        (3.5, 3.5 - 2 * math.pi),
        (-3.5, 2 * math.pi - 3.5),
        (math.pi, math.pi),
        (-math.pi, math.pi),
        (7 * math.pi, math.pi),
        (100.0, 100.0 - 32 * math.pi),
    ],
)
def test_wrap(angle, expected):
    assert rotation.wrap(angle) == pytest.approx(expected, abs=1e-12)


def test_vector_operations_match_numpy():
    a, b = RNG.standard_normal(3), RNG.standard_normal(3)
    assert vector.cross(tuple(a), tuple(b)) == pytest.approx(np.cross(a, b), abs=ROUNDING)
    assert vector.dot(tuple(a), tuple(b)) == pytest.approx(a @ b, abs=ROUNDING)
    assert vector.norm(tuple(a)) == pytest.approx(np.linalg.norm(a), abs=ROUNDING)
    assert vector.subtract(vector.add(tuple(a), tuple(b)), tuple(b)) == pytest.approx(a)
    assert vector.scale(2.0, tuple(a)) == pytest.approx(2 * a)


def test_north_of_ned_is_y_of_enu_and_down_is_minus_z():
    given = (1.0, 2.0, 3.0)
    assert rotation.rotate(axes.Q_ENU_NED, given) == pytest.approx((2.0, 1.0, -3.0), abs=2e-15)
    assert rotation.rotate(axes.Q_FLU_FRD, given) == pytest.approx((1.0, -2.0, -3.0), abs=2e-15)


def attitude_from_ned(q):
    return rotation.multiply(rotation.multiply(axes.Q_ENU_NED, q), axes.Q_FLU_FRD)


def test_attitude_from_ned():
    # heading north, level: yaw 0 in NED is yaw 90 degrees in ENU
    q = attitude_from_ned((1.0, 0.0, 0.0, 0.0))
    assert rotation.to_euler(q) == pytest.approx((0.0, 0.0, math.pi / 2), abs=1e-12)
    # right roll and nose-up of FRD: roll keeps its sign, pitch changes it, heading east is 0
    q_ned = rotation.from_euler(0.1, 0.2, math.pi / 2)
    assert rotation.to_euler(attitude_from_ned(q_ned)) == pytest.approx((0.1, -0.2, 0.0), abs=1e-12)


def test_geodesy_small_offsets_follow_the_radii_of_curvature():
    datum = Datum(47.0, 8.0, 500.0)
    # WGS 84: a = 6378137 m, 1/f = 298.257223563
    a, f = 6378137.0, 1 / 298.257223563
    e2 = f * (2 - f)
    s2 = math.sin(math.radians(47.0)) ** 2
    meridian = a * (1 - e2) / (1 - e2 * s2) ** 1.5 + 500.0
    normal = a / math.sqrt(1 - e2 * s2) + 500.0
    step = 1e-5  # degrees, about a metre: curvature changes the result by 1e-7 m
    north = datum.to_enu(47.0 + step, 8.0, 500.0)
    east = datum.to_enu(47.0, 8.0 + step, 500.0)
    assert north == pytest.approx([0.0, math.radians(step) * meridian, 0.0], abs=1e-6)
    assert east == pytest.approx(
        [math.radians(step) * normal * math.cos(math.radians(47.0)), 0.0, 0.0], abs=1e-6
    )


@pytest.mark.parametrize("latitude_deg", [-90.0, -35.0, 0.0, 47.4, 89.99, 90.0])
def test_geodesy_is_pymap3d_s_there_and_back(latitude_deg):
    datum = Datum(latitude_deg, 179.9, 500.0)
    origin = (datum.latitude_deg, datum.longitude_deg, datum.height_m)
    for p_W in ([350.0, -120.0, 40.0], [-9000.0, 8000.0, 3000.0]):
        place = datum.to_geodetic(p_W)
        assert datum.to_enu(*place) == pytest.approx(p_W, abs=1e-8)
        assert pymap3d.geodetic2enu(*place, *origin) == pytest.approx(p_W, abs=1e-8)


def test_lengths_are_rounded_as_python_rounds_them():
    """Against whole numbers: half a unit in the last place, and a hundredth for the last step."""
    rng = np.random.default_rng(5)
    scales = 10.0 ** rng.integers(-9, 9, (2000, 2))
    for x, y in (rng.standard_normal((2000, 2)) * scales).tolist():
        found = hypot(x, y)
        square = Fraction(x) ** 2 + Fraction(y) ** 2
        half = Fraction(math.ulp(found)) * Fraction(51, 100)
        assert (Fraction(found) - half) ** 2 < square < (Fraction(found) + half) ** 2
        if sys.version_info[:2] == (3, 11):
            assert found == math.hypot(x, y)
    assert [hypot(3.0, -4.0), hypot(0.0, 0.0), hypot(-1e300, 0.0)] == [5.0, 0.0, 1e300]
