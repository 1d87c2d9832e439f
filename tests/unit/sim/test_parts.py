"""Own parts in flight: against our own parts, closed forms and statistics."""

import math

import numpy as np
import pytest
from parts.controller import Geometric
from parts.criterion import Jerk
from parts.estimator import Complementary
from parts.kernel_controller import Compiled
from parts.planner import Potential
from parts.sensor import Beacons
from scipy import stats
from scipy.spatial.transform import Rotation

import quadsim
from quadsim.analysis.metrics import score
from quadsim.bag.profiles import Recording
from quadsim.base.parts import PART_FAILED, Part
from quadsim.cli.sim import fly_once
from quadsim.estimation.eskf.parameters import EstimatorParams
from quadsim.estimation.interface import ErrorStateEkf
from quadsim.estimation.messages import Measurement
from quadsim.estimation.own import OwnEstimator
from quadsim.sim.closed_loop import ClosedLoop, run
from quadsim.sim.scenario import load_scenario
from quadsim.sim.scenario_text import scenario_from_text, scenario_text
from quadsim.sim.swarm import Swarm

G = 9.81


class Constant:
    """A wind."""

    def __init__(self, v_W=(3.0, 1.0, 0.0)):
        self.v_W = v_W

    def velocity(self, time_s, p_W):
        return self.v_W


def test_a_constant_wind_is_the_worlds():
    wind = {"environment.wind_W_mps": [3.0, 1.0, 0.0]}
    ours = quadsim.Simulation("hover", seed=2, duration_s=6.0, changes=wind).run()
    own = quadsim.Simulation("hover", seed=2, duration_s=6.0, parts={"wind": Constant}).run()
    # the world's blows from the start, the own one from the first tick on
    np.testing.assert_allclose(own.truth.p_W, ours.truth.p_W, atol=1e-3)
    calm = quadsim.Simulation("hover", seed=2, duration_s=6.0).run()
    assert np.abs(own.truth.p_W - calm.truth.p_W).max() > 0.02


class Mirror:
    """Our filter as an own estimator: it gets messages one by one, from Python."""

    def __init__(self, params, scenario):
        self.datum = scenario.environment.datum
        self.filter = ErrorStateEkf(params, self.datum)
        for name in ("imu", "gnss_velocity", "magnetic_field", "pressure", "range"):
            setattr(self, name, getattr(self.filter, name))

    def imu(self, *values):
        """Replaced when it is made."""

    def gnss_position(self, stamp_ns, p_W, covariance):
        self.filter.gnss_position(stamp_ns, self.datum.to_geodetic(p_W), covariance)

    def odometry(self):
        if not self.filter.running:
            return None
        found = self.filter.odometry()
        variances = [found[f"{name}_variance"] for name in ("p", "v", "attitude")]
        motion = [found[name] for name in ("p_W", "v_W", "q_WB", "w_B")]
        return *motion, np.sqrt(np.concatenate(variances))


def test_our_filter_as_an_own_estimator_flies_as_ours():
    """Geodetic coordinates and back cost bits, 1e-9 m, which the take-off's contact makes more."""
    ours = quadsim.Simulation("hover", seed=2, duration_s=12.0).run()
    own = quadsim.Simulation("hover", seed=2, duration_s=12.0, estimator=Mirror).run()
    assert own.truth.p_W[:, 2].max() > 0.9
    np.testing.assert_allclose(own.truth.p_W, ours.truth.p_W, atol=1e-3)
    np.testing.assert_array_equal(own.estimate.stamp_ns, ours.estimate.stamp_ns)
    np.testing.assert_allclose(own.estimate.p_W, ours.estimate.p_W, atol=1e-3)
    on_ground = ours.estimate.stamp_ns < 2e9
    for name in ("p_W", "v_W", "q_WB", "sigma"):
        found, wanted = getattr(own.estimate, name), getattr(ours.estimate, name)
        np.testing.assert_allclose(found[on_ground], wanted[on_ground], atol=1e-8)


def test_the_complementary_filter_turns_as_scipy_says():
    """A steady rotation about a tilted axis, with what sensors without errors feel of it."""
    params = EstimatorParams()
    made = Complementary(params)
    field_W = np.array(params.magnetic_field_W_T)
    for i in range(601):
        made.imu(i * 2_000_000, np.array([0.0, 0.0, params.gravity_mps2]), np.zeros(3))
        if i % 5 == 0:
            made.magnetic_field(i * 2_000_000, field_W)
    made.gnss_position(1_200_000_000, np.zeros(3))
    w_B, true = np.array([0.3, -0.2, 0.5]), Rotation.identity()
    for i in range(1, 2001):
        true = Rotation.from_rotvec(w_B * 2e-3 * i)
        f_S = true.inv().apply([0.0, 0.0, params.gravity_mps2])
        made.imu(1_200_000_000 + i * 2_000_000, f_S, w_B)
        if i % 5 == 0:
            made.magnetic_field(1_200_000_000 + i * 2_000_000, true.inv().apply(field_W))
    q_WB = made.odometry()[2]
    apart = Rotation.from_quat(q_WB[[1, 2, 3, 0]]) * true.inv()
    assert apart.magnitude() < 2e-3


@pytest.mark.parametrize(("controller", "name"), [(Geometric, "hover"), (Compiled, "square")])
def test_a_controller_holds_the_weight_and_flies_the_mission(controller, name):
    class Still:
        class odometry:
            p_W, v_W, w_B = np.array([0.0, 0.0, 2.0]), np.zeros(3), np.zeros(3)
            q_WB = np.array([1.0, 0.0, 0.0, 0.0])

        class setpoint:
            p_W, v_W, a_W, yaw = np.array([0.0, 0.0, 2.0]), np.zeros(3), np.zeros(3), 0.0

        records = quadsim.Simulation("hover")._loop.records

    Still.records["odometry"]["q_WB"] = Still.odometry.q_WB
    Still.records["odometry"]["p_W"] = Still.records["setpoint"]["p_W"] = Still.odometry.p_W
    Still.records["odometry"]["v_W"] = Still.records["setpoint"]["v_W"] = 0.0
    Still.records["odometry"]["w_B"] = Still.records["setpoint"]["a_W"] = 0.0
    Still.records["setpoint"]["yaw"] = 0.0
    airframe = load_scenario("hover").airframe
    speeds = controller(airframe).update(Still)
    lift_N = airframe.thrust_coefficient_N_s2 * np.sum(np.square(speeds))
    assert lift_N == pytest.approx(airframe.mass_kg * G, rel=1e-9)
    flight = quadsim.Simulation(name, seed=2, controller=controller).run()
    assert flight.passed, flight.summary["criteria"]


def test_the_motors_stand_while_disarmed():
    simulation = quadsim.Simulation("hover", controller=Geometric, start_mission=False)
    simulation.step(1000)
    assert simulation.setpoint.mode == "stop"
    np.testing.assert_array_equal(simulation.rotor_speed_radps, 0.0)


def test_a_sensor_has_its_noise_and_is_fused():
    kept = {"faults": [{"sensor": "gnss", "fault": "dropout", "at_s": 6.0, "duration_s": 60.0}]}
    blind = quadsim.Simulation("hover", seed=2, duration_s=20.0, changes=kept)
    seen = quadsim.Simulation(
        "hover", seed=2, duration_s=20.0, changes=kept, parts={"sensor": Beacons}
    )
    errors_m = [
        np.linalg.norm(flight.estimate.p_W[-1] - flight.truth.p_W[-1])
        for flight in (blind.run(), seen.run())
    ]
    assert errors_m[1] < 0.15 < errors_m[0]
    rows = seen.samples("beacons")
    np.testing.assert_array_equal(rows["values"][-1], seen.sensors["beacons"]["values"])
    log = seen.flight().truth
    found = np.searchsorted(log.stamp_ns, rows["stamp_ns"])
    known = found < len(log)
    noise_m = rows["values"][known] - log.p_W[found[known]]
    # a sample is taken at a row of the log; sums of squares are chi-square
    low, high = stats.chi2.interval(1.0 - 1e-6, noise_m.size)
    assert low < np.sum(np.square(noise_m / 0.1)) < high
    rate_hz = len(rows) / seen.time_s
    assert 0.85 * 20.0 < rate_hz < 20.0  # one of twenty is lost


def test_a_planner_flies_around_the_pillar_to_its_goal():
    flight = quadsim.Simulation("hover", seed=2, parts={"planner": Potential}).run()
    assert flight.passed, flight.summary
    gaps_m = np.linalg.norm(flight.truth.p_W[:, :2] - [4.0, 0.3], axis=1)
    assert 1.0 < gaps_m.min() < 2.0
    away_m = np.linalg.norm(flight.truth.p_W - [8.0, 0.0, 2.0], axis=1)
    assert away_m.min() < 0.35


def test_jerk_of_a_sine_is_that_of_the_closed_form():
    flight = quadsim.Simulation("hover", duration_s=1.0).run().log
    stamp_ns = np.arange(0, 20_000_000_000, 10_000_000)
    v_W = np.zeros((len(stamp_ns), 3))
    v_W[:, 0] = 2.0 * np.sin(3.0 * stamp_ns * 1e-9)
    track = type(flight.truth)(
        stamp_ns, v_W, v_W, np.tile([1.0, 0.0, 0.0, 0.0], (len(v_W), 1)), v_W
    )
    flight.truth = track
    assert Jerk(from_s=0.0).value(flight) == pytest.approx(2.0 * 9.0 / np.sqrt(2.0), rel=0.02)


# ---- by name, from files ------------------------------------------------------------------------

SCENARIO = """
mission: [takeoff: {height_m: 1.0}, hover: {duration_s: 0.5}, land: {}]
duration_s: 15.0
parts:
  controller: {part: "parts.controller:Geometric", stiffness: 3.0}
  estimator: parts.estimator:Complementary
  sensor: [parts.sensor:Beacons]
criteria:
  - {part: "parts.criterion:Jerk", limit: 1000.0, from_s: 4.0}
  - {part: "parts.criterion:Jerk", limit: 1.0e-3, from_s: 4.0}
"""


@pytest.fixture
def scenario(tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text(SCENARIO)
    return str(path)


def test_a_file_names_parts_and_a_flight_repeats(scenario):
    loaded = load_scenario(scenario, {"parts.controller.stiffness": 3.5}, seed=4)
    assert loaded.parts[0].arguments == {"stiffness": 3.5}
    log, digest = run(loaded)
    assert list(log.estimates) == ["parts.estimator:Complementary"]
    again, same = scenario_from_text(scenario_text(loaded), "text")
    assert not same
    assert again.parts == loaded.parts
    assert again.criteria == loaded.criteria
    assert run(again)[1] == digest


def test_a_criterion_judges(scenario):
    flight = quadsim.Simulation(scenario, seed=4).run()
    kept, missed = flight.summary["criteria"]
    assert (kept["passed"], missed["passed"], flight.passed) == (True, False, False)
    assert kept["value"] == missed["value"] == pytest.approx(Jerk(4.0).value(flight.log))


def test_each_vehicle_has_parts_of_its_own(scenario):
    loaded = load_scenario(scenario, vehicles=2)
    swarm = Swarm(loaded)
    logs = swarm.fly()
    assert all(loop.manager.finished for loop in swarm.loops)
    apart_m = np.linalg.norm(logs[0].truth.p_W[-1] - logs[1].truth.p_W[-1])
    assert apart_m == pytest.approx(5.0, abs=0.5)


def test_a_part_that_is_not_there_is_refused_when_the_scenario_is_read(tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text("parts: {wind: nowhere:Gust}\n")
    with pytest.raises(quadsim.InputError, match="wind nowhere:Gust: there is no module nowhere"):
        load_scenario(str(path))


# ---- parts that fail ----------------------------------------------------------------------------


class Heard(Complementary):
    """Keeps what it is handed of the range finder and the receiver."""

    given: list = []  # noqa: RUF012

    def range(self, stamp_ns, range_m, variance_m2):
        self.given.append(("range", range_m, variance_m2))

    def gnss_velocity(self, stamp_ns, v_W, covariance):
        super().gnss_velocity(stamp_ns, v_W)
        self.given.append(("velocity", *v_W, *np.ravel(covariance)))


def test_an_own_estimator_is_handed_what_was_measured_alone():
    """No echo and no fix are no messages, as for our filter in the loop."""
    Heard.given.clear()
    changes = {"sensors.rangefinder.range_max_m": 0.7, "sensors.gnss.first_fix_s": 1.0}
    flown = quadsim.Simulation("hover", duration_s=8.0, estimator=Heard, changes=changes)
    flown.run()
    samples = flown.samples("rangefinder")["range_m"]
    assert np.isinf(samples).any()
    assert np.isnan(flown.samples("gnss")["p_W"]).any()
    ranges = [given[1] for given in Heard.given if given[0] == "range"]
    assert ranges == samples[np.isfinite(samples)].tolist()
    assert np.isfinite([number for given in Heard.given for number in given[1:]]).all()


def test_an_own_estimator_over_a_bag_is_handed_no_range_without_an_echo():
    Heard.given.clear()
    own = OwnEstimator(Part("estimator", "Heard", made=Heard), EstimatorParams())
    for range_m in (math.inf, 1.0, -math.inf):
        assert own.take_measurement(Measurement("range", 1, (range_m, 1e-4))) is None
        assert own.range(1, range_m, 1e-4) == "ok"
    assert Heard.given == [("range", 1.0, 1e-4)] * 2


class BadController(Geometric):
    def update(self, now):
        if now.time_s > 6.0:
            raise RuntimeError("no more")
        return super().update(now)


class BadEstimator(Mirror):
    def odometry(self):
        found = super().odometry()
        late = self.filter.running and found[0][2] > 0.8
        return (*found[:2], 2.0 * found[2], *found[3:]) if late else found


class BadSensor:
    rate_hz = 10.0

    def sample(self, now):
        return [1.0] * (2 if now.time_s > 5.0 else 1)


class BadPlanner:
    def plan(self, now):
        raise ValueError("lost")


class BadWind:
    def velocity(self, time_s, p_W):
        return [np.nan if time_s > 5.0 else 0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("kind", "part", "said"),
    [
        ("controller", BadController, r"failed at 6.002 s: RuntimeError: no more \(.*py:\d+\)"),
        ("estimator", BadEstimator, "unit quaternion"),
        ("sensor", BadSensor, r"failed at 5.100 s: .* gave \[1.0, 1.0\]; needed: 1 numbers"),
        ("planner", BadPlanner, "failed at .* s: ValueError: lost"),
        ("wind", BadWind, r"velocity\(\) gave .*nan.*; needed: 3 finite numbers"),
    ],
)
def test_a_part_that_fails_is_named_and_the_vehicle_lands(kind, part, said):
    simulation = quadsim.Simulation("hover", seed=2, parts={kind: part})
    with pytest.raises(quadsim.PartError, match=f"{kind} .*{part.__name__}: .*{said}"):
        simulation.run()
    assert simulation.mode == "disarmed"
    flight = simulation.flight()
    assert flight.truth.p_W[:, 2].max() > 0.5
    assert np.linalg.norm(flight.truth.v_W[-1]) < 0.01
    assert not flight.passed
    assert [event.name for event in flight.events].count(PART_FAILED) == 1
    names = [event.name for event in flight.events]
    assert "landed" in names
    assert not {"crash", "timeout"} & set(names)


def test_a_step_raises_once_and_the_next_ones_show_the_landing():
    simulation = quadsim.Simulation("hover", seed=2, controller=BadController)
    with pytest.raises(quadsim.PartError, match="no more"):
        simulation.step(10_000)
    assert simulation.time_s == pytest.approx(6.02, abs=0.02)
    assert simulation.step(500).time_s == pytest.approx(7.0, abs=0.05)
    assert simulation.mode in ("landing", "landed", "disarmed")


def test_a_part_that_fails_on_the_ground_ends_the_flight():
    class Bad:
        def update(self, now):
            return [1.0]

    loop = ClosedLoop(quadsim.Simulation("hover", controller=Bad).scenario)
    loop.fly()
    assert loop.stamp_ns < 1e8


def test_a_criterion_that_fails_is_named(scenario):
    class Broken:
        def value(self, flight):
            return 1.0 / len([])

    Jerk.value, kept = Broken.value, Jerk.value
    try:
        judged, _ = quadsim.Simulation(scenario, duration_s=1.0).run().summary["criteria"]
    finally:
        Jerk.value = kept
    assert judged["value"] is None
    assert "criterion parts.criterion:Jerk: failed: ZeroDivisionError" in judged["error"]


class OnBeacons(Complementary):
    """Takes its position from an own sensor alone."""

    def gnss_position(self, stamp_ns, p_W):
        """Not used."""

    def beacons(self, stamp_ns, p_W):
        super().gnss_position(stamp_ns, p_W)


def test_an_own_estimator_gets_own_sensors_in_flight_and_from_the_bag(tmp_path):
    estimator = f"{__name__}:OnBeacons"
    own = {"parts.sensor": "parts.sensor:Beacons", "parts.estimator": estimator}
    scenario = load_scenario("hover", own, seed=2)
    logs, _ = fly_once(scenario, tmp_path / "bag", Recording(), None)
    flown = logs["quad"]
    in_flight = score(flown.estimates[estimator], flown.truth, 5_000_000_000)
    assert 0.0 < in_flight.position_rmse_m < 0.15  # of fixes with 0.1 m on each axis
    replayed = quadsim.replay(tmp_path / "bag", [estimator]).summary["estimator"]
    assert replayed["position_rmse_m"] == pytest.approx(in_flight.position_rmse_m, rel=0.1)
