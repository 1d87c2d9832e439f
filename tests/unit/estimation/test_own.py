"""An own estimator over messages: what it is handed, and what is refused of what it gives."""

import math

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from quadsim.base.parts import Part, PartError
from quadsim.estimation import make_estimator
from quadsim.estimation.eskf.parameters import EstimatorParams
from quadsim.estimation.messages import Measurement
from quadsim.estimation.own import OwnEstimator
from quadsim.geometry.geodesy import Datum

TURN = Rotation.from_euler("ZYX", [0.7, -0.3, 0.2])


class Kept:
    """Keeps what it is handed, and gives what it is told to."""

    gives = None

    def __init__(self, params):
        self.params, self.handed = params, []

    def imu(self, stamp_ns, f_S, w_S):
        self.handed.append(("imu", stamp_ns, f_S, w_S))

    def gnss_position(self, stamp_ns, p_W, covariance):
        self.handed.append(("gnss_position", stamp_ns, p_W, covariance))

    def pressure(self, stamp_ns):
        self.handed.append(("pressure", stamp_ns))

    def range(self, stamp_ns, range_m):
        self.handed.append(("range", stamp_ns, range_m))

    def flow(self, stamp_ns, values):
        self.handed.append(("flow", stamp_ns, values))

    def odometry(self):
        return self.gives


@pytest.fixture
def kept():
    """The part, and what runs it."""
    made = Kept(EstimatorParams())
    return made, OwnEstimator(Part("estimator", "my:Kept", made=made), made.params, Datum())


def test_a_range_without_an_echo_is_no_message_by_whatever_way_it_comes(kept):
    """As our filter takes it: REP 117's infinities say that nothing is in range."""
    made, runs = kept
    for range_m in (math.inf, 1.5, -math.inf):
        assert runs.take("range", 1, (range_m, 1e-4)) == "ok"
        assert runs.range(2, range_m, 1e-4) == "ok"
        runs.take_measurement(Measurement("range", 3, (range_m, 1e-4)))
    assert made.handed == [("range", stamp_ns, 1.5) for stamp_ns in (1, 2, 3)]
    assert runs.counts == {"range": 3}


def test_methods_are_handed_as_much_as_they_take(kept):
    made, runs = kept
    p_W = np.array([3.0, -4.0, 5.0])
    runs.imu(1, np.ones(3), np.zeros(3), np.eye(3), np.eye(3))
    runs.gnss_position(2, Datum().to_geodetic(p_W), np.eye(3))
    runs.gnss_velocity(3, np.zeros(3), np.eye(3))  # it has no use for it
    runs.pressure(4, 1e5, 1.0)
    runs.take("flow", 5, (np.array([0.1]),))
    assert [each[:2] for each in made.handed] == [
        ("imu", 1), ("gnss_position", 2), ("pressure", 4), ("flow", 5)
    ]  # fmt: skip
    np.testing.assert_allclose(made.handed[1][2], p_W, atol=1e-6)
    assert runs.counts == dict.fromkeys(
        ("imu", "gnss_position", "gnss_velocity", "pressure", "flow"), 1
    )
    assert not runs.running


def test_a_fix_without_datum_is_no_position():
    made = Kept(EstimatorParams())
    runs = OwnEstimator(Part("estimator", "my:Kept", made=made), made.params)
    assert runs.gnss_position(1, (47.0, 8.0, 400.0), np.eye(3)) == "no_datum"
    assert made.handed == []


def test_what_it_states_is_published(kept):
    made, runs = kept
    q_WB = TURN.as_quat()[[3, 0, 1, 2]]
    sigma = np.arange(1.0, 10.0) / 10.0
    made.gives = np.ones(3), np.array([2.0, 0.0, 0.0]), q_WB, np.zeros(3), sigma
    runs.imu(7, np.ones(3), np.zeros(3))
    odometry = runs.odometry()
    assert runs.running
    assert odometry["stamp_ns"] == 7
    np.testing.assert_allclose(odometry["q_WB"], q_WB, atol=1e-15)
    np.testing.assert_allclose(
        runs.pose_covariance(), np.diag(np.square(sigma[[0, 1, 2, 6, 7, 8]])), atol=1e-15
    )
    # a velocity's covariance in W, turned into B by scipy
    R_BW = TURN.inv().as_matrix()
    wanted = R_BW @ np.diag(np.square(sigma[3:6])) @ R_BW.T
    np.testing.assert_allclose(runs.twist_covariance()[:3, :3], wanted, atol=1e-12)


@pytest.mark.parametrize(
    "gives",
    [
        3.0,
        (np.zeros(3), np.zeros(3)),
        (np.zeros(3), np.zeros(3), np.array([2.0, 0.0, 0.0, 0.0]), np.zeros(3)),
        (np.zeros(3), np.zeros(3), np.full(4, np.nan), np.zeros(3)),
        (np.full(3, np.inf), np.zeros(3), np.array([1.0, 0.0, 0.0, 0.0]), np.zeros(3)),
        (np.zeros(3), np.zeros(3), np.array([1.0, 0.0, 0.0, 0.0]), np.zeros(3), np.zeros(6)),
    ],
)
def test_what_is_no_odometry_is_refused(kept, gives):
    made, runs = kept
    made.gives = gives
    with pytest.raises(PartError, match=r"estimator my:Kept: ") as error:
        runs.imu(7, np.ones(3), np.zeros(3))
    assert "\n" not in str(error.value)


def test_names_of_ours_are_ours():
    assert not isinstance(make_estimator("eskf", EstimatorParams(), None), OwnEstimator)
