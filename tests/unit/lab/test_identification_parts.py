"""What identification is made of: windows, motors, intervals, terms, messages of joints."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from rosbags.typesys import Stores, get_typestore
from scipy import integrate, stats

from quadsim.base.errors import InputError
from quadsim.base.files import find
from quadsim.base.parameters import load, pack
from quadsim.lab.identify.equations import TERMS, term_wrench
from quadsim.lab.identify.figures import MEANING, VehicleFigure, file_figures, with_figures
from quadsim.lab.identify.flight_grid import Windows
from quadsim.lab.identify.identification import LATE
from quadsim.lab.identify.least_squares import Prior, fit_least_squares
from quadsim.lab.identify.motor_fit import Motors, fit_motors
from quadsim.vehicle.aerodynamics import body_drag
from quadsim.vehicle.parameters import VehicleParams
from quadsim.vehicle.propulsion.rotors import rotor_wrench
from quadsim.vehicle.state import ROTOR, VEHICLE
from quadsim.wire.joint_states import decode_joints

TYPES = get_typestore(Stores.ROS2_JAZZY)
JOINTS = "sensor_msgs/msg/JointState"
X500 = load(VehicleParams, find("vehicles", "x500"))


# ---- windows -----------------------------------------------------------------------------------


def test_windows_are_exact_for_polynomials():
    """A constant's mean, a ramp's slope, a parabola's bend; and none of the lower powers."""
    time_s = 0.002 * np.arange(500)
    windows = Windows(np.ones(500, bool), 0.002, 0.1)
    middle_s = time_s[windows.middle]
    ramp = 3.0 + 2.0 * time_s
    # rounding of sums over 50 numbers, over the square of 0.05 s for the second derivative
    np.testing.assert_allclose(windows.mean(ramp), 3.0 + 2.0 * middle_s, rtol=1e-12)
    np.testing.assert_allclose(windows.slope(ramp), 2.0, rtol=1e-10)
    np.testing.assert_allclose(windows.bend(ramp), 0.0, atol=1e-8)
    np.testing.assert_allclose(windows.bend(5.0 * time_s**2), 10.0, rtol=1e-8)


def test_windows_move_derivatives_exactly():
    """The slope of a sine is the mean of its cosine, up to far above the window's band."""
    time_s = 0.002 * np.arange(2000)
    windows = Windows(np.ones(2000, bool), 0.002, 0.1)
    for rate_radps in (1.0, 30.0, 100.0):
        sine, cosine = np.sin(rate_radps * time_s), np.cos(rate_radps * time_s)
        # trapezoids of a weight with two derivatives that vanish at its ends: (dt / T)^2 or better
        np.testing.assert_allclose(
            windows.slope(sine), rate_radps * windows.mean(cosine), atol=2e-3 * rate_radps
        )
        np.testing.assert_allclose(
            windows.bend(sine), -(rate_radps**2) * windows.mean(sine), atol=2e-3 * rate_radps**2
        )


def test_windows_hold_no_time_that_is_not_known():
    good = np.ones(1000, bool)
    good[400] = False
    windows = Windows(good, 0.002, 0.1)
    assert np.all(np.abs(windows.middle - 400) > 25)
    assert len(windows.rows) == len(Windows(np.ones(1000, bool), 0.002, 0.1).rows) - 3


# ---- motors ------------------------------------------------------------------------------------

UP_S, DOWN_S, DELAY_S = 0.03, 0.05, 0.0045


@cache
def motors_by_scipy(
    late: float = 0.0, noise_radps: float = 0.0, count: int = 2600, spread_s: float = 0.0
) -> Motors:
    """Two motors under random commands at 250 Hz, reported at 100 Hz; some commands come late."""
    rng = np.random.default_rng(3)
    command_s = 0.004 * np.arange(count)
    command = 500.0 + 15.0 * np.cumsum(rng.standard_normal((count, 2)), axis=0)
    command = 500.0 + 150.0 * np.tanh((command - 500.0) / 150.0)
    delay_s = np.where(rng.random(count) < late, 0.004 + 0.02 * rng.random(count), 0.0) + DELAY_S
    delay_s += spread_s * np.random.default_rng(8).integers(0, 2, count)
    arrive_s = np.maximum.accumulate(command_s + delay_s)

    def slope(t: float, speed: np.ndarray) -> np.ndarray:
        error = command[max(np.searchsorted(arrive_s, t, side="right") - 1, 0)] - speed
        return error / np.where(error > 0.0, UP_S, DOWN_S)

    report_s = 0.01 * np.arange(1, int(command_s[-1] / 0.01))
    found = integrate.solve_ivp(
        slope, (0.0, report_s[-1]), command[0], "RK23", report_s, max_step=1e-3, rtol=1e-6
    )
    speed = found.y.T + noise_radps * rng.standard_normal(found.y.T.shape)
    return Motors(report_s, speed, command_s, command)


def test_time_constants_of_motors_integrated_by_scipy():
    fit = fit_motors(motors_by_scipy())
    assert fit.solution is not None
    # scipy steps over the changes of command: by 1e-3 s of 4e-3 s, at random
    assert fit.solution.value[:2] == pytest.approx([UP_S, DOWN_S], rel=5e-3)
    assert fit.solution.value[2] == pytest.approx(DELAY_S, abs=3e-4)


@pytest.mark.parametrize(("late", "noise_radps"), [(0.15, 0.0), (0.0, 0.5)])
def test_late_commands_and_noise_leave_the_time_constants(late, noise_radps):
    """One command in seven comes up to 24 ms late; or the reports scatter by 0.1 %."""
    fit = fit_motors(motors_by_scipy(late, noise_radps))
    assert fit.solution is not None
    half = fit.solution.quantile * np.sqrt(np.diag(fit.solution.covariance))
    assert fit.solution.value[:2] == pytest.approx([UP_S, DOWN_S], rel=0.05)
    assert np.all(np.abs(fit.solution.value - [UP_S, DOWN_S, DELAY_S]) < 2.0 * half + 3e-4)


def test_commands_whose_delays_differ_widen_what_is_said_of_time_constants():
    """Each command is 0 or 4 ms late at random, a deviation of 2 ms; the median sees about that."""
    exact, spread = fit_motors(motors_by_scipy()), fit_motors(motors_by_scipy(spread_s=0.004))
    assert exact.jitter_s < 5e-4  # of scipy's steps over the changes
    assert 1e-3 < spread.jitter_s < 4e-3
    assert spread.solution is not None
    assert np.all(np.abs(spread.solution.value[:2] - [UP_S, DOWN_S]) < LATE * spread.jitter_s)


def test_speeds_between_reports_follow_the_commands():
    """Closer to the truth than straight lines by far; and through every report."""
    motors = motors_by_scipy()
    half = Motors(
        motors.time_s[::2], motors.speed_radps[::2], motors.command_s, motors.command_radps
    )
    fit = fit_motors(half)
    inside = slice(10, -10)
    np.testing.assert_allclose(
        fit.speeds_at(half.time_s[inside]), half.speed_radps[inside], rtol=1e-9
    )
    spoilt = fit_motors(motors_by_scipy(0.0, 0.5))
    report_s = spoilt.motors.time_s[inside]
    before, after = spoilt.speeds_at(report_s - 1e-9), spoilt.speeds_at(report_s)
    np.testing.assert_allclose(before, after, atol=1e-3)  # rad/s; they change by 1e4 rad/s^2
    bent = fit.speeds_at(motors.time_s[inside]) - motors.speed_radps[inside]
    straight = replace(fit, solution=None).speeds_at(motors.time_s[inside])
    straight = straight - motors.speed_radps[inside]
    assert bent.std() < 0.1 * straight.std()


def test_without_commands_there_are_no_time_constants():
    motors = motors_by_scipy(count=60)
    fit = fit_motors(replace(motors, command_s=np.zeros(0), command_radps=np.zeros((0, 2))))
    assert fit.solution is None


# ---- intervals ---------------------------------------------------------------------------------


def line(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(N, 1) data of a line, with noise that lasts and that is larger in one half."""
    rng = np.random.default_rng(seed)
    x = np.sin(0.05 * np.arange(800)) + 0.3 * rng.standard_normal(800)
    noise = np.zeros(800)
    for i in range(1, 800):
        noise[i] = 0.7 * noise[i - 1] + rng.standard_normal()
    noise[:400] *= 3.0
    return x, (2.0 + 0.5 * x + noise)[:, None]


def test_intervals_cover_under_noise_that_lasts_and_changes():
    """95 % of 200 intervals hold the truth; ordinary ones would not."""
    unknown = Prior(np.zeros(2), np.full(2, 1e3), np.ones(2), np.zeros(1))
    hits = 0
    for seed in range(200):
        x, y = line(seed)
        found = fit_least_squares(
            lambda t, x=x, y=y: y - (t[0] + t[1] * x)[:, None], unknown, np.zeros(2)
        )
        np.testing.assert_allclose(found.value, np.polyfit(x, y[:, 0], 1)[::-1], atol=1e-6)
        half = found.quantile * np.sqrt(found.covariance[1, 1])
        hits += abs(found.value[1] - 0.5) < half
    # of 200 with 95 % each; a jackknife errs to the careful side, so that the upper end is open
    assert hits >= stats.binom.ppf(1e-3, 200, 0.95)


def test_channels_are_weighed_by_their_noise_and_priors_count():
    rng = np.random.default_rng(1)
    data = 1.0 + rng.standard_normal((400, 2)) * [0.01, 10.0]
    open_prior = Prior(np.zeros(1), np.full(1, 1e3), np.ones(1), np.zeros(2))
    found = fit_least_squares(lambda t: data - t[0], open_prior, np.zeros(1))
    assert found.value[0] == pytest.approx(data[:, 0].mean(), abs=2e-4)
    assert found.noise == pytest.approx([0.01, 10.0], rel=0.15)  # 400 numbers: 3.5 % deviation
    tight = replace(open_prior, sigma=np.full(1, 1e-6))
    pulled = fit_least_squares(lambda t: data - t[0], tight, np.full(1, 0.5))
    assert pulled.value[0] == pytest.approx(0.0, abs=1e-3)
    half_fixed = Prior(np.array([0.0, 0.4]), np.array([1e3, 0.0]), np.ones(2), np.zeros(2))
    held = fit_least_squares(lambda t: data - t[0] - t[1], half_fixed, np.zeros(2))
    assert held.value == pytest.approx([found.value[0] - 0.4, 0.4], abs=1e-6)
    assert held.covariance[1, 1] == 0.0


def test_what_only_a_prior_tells_has_the_priors_interval():
    prior = Prior(np.zeros(2), np.array([1e3, 0.1]), np.ones(2), np.zeros(1))
    data = 1.0 + 0.01 * np.random.default_rng(2).standard_normal((400, 1))
    found = fit_least_squares(lambda t: data - t[0] - t[1], prior, np.zeros(2))
    # the data tell the sum to 0.0005, so that each is as open as the prior leaves the second
    assert np.sqrt(found.covariance[0, 0]) == pytest.approx(0.1, rel=0.01)


# ---- terms -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["x500", "hummingbird", "crazyflie2", "hexacopter", "iris"])
def test_terms_add_up_to_the_force_model(name):
    """Figures of a vehicle's file times the terms are what its own kernels say."""
    vehicle = load(VehicleParams, find("vehicles", name))
    vehicle = replace(
        vehicle,
        drag_area_m2=(0.01, 0.02, 0.03),
        rolling_moment_N_s2=2e-6,
        rotor=replace(
            vehicle.rotor,
            inflow_N_s2=2e-5 * vehicle.mass_kg,
            translational_lift_N_s2_m2=1e-3 * vehicle.mass_kg,
            flapping_rad=0.1,
            hinge_stiffness_N_m=0.5 * vehicle.mass_kg,
        ),
    )
    rng = np.random.default_rng(4)
    rotors = len(vehicle.rotor_directions)
    speeds = vehicle.rotor_speed_max_radps * rng.uniform(0.5, 0.9, (5, rotors))
    air_B, w_B = 4.0 * rng.standard_normal((5, 3)), 3.0 * rng.standard_normal((5, 3))
    air_B[:, 2] = 1.0 + np.abs(air_B[:, 2])  # the line through hover, no vortex ring at any hub
    known = file_figures(vehicle)
    known["torque"] *= known["thrust"]
    force, torque = np.zeros((5, 3)), np.zeros((5, 3))
    for term in TERMS:
        if term != "rotor_inertia":
            f_B, t_B = term_wrench(term, speeds, air_B, w_B, vehicle)
            force += vehicle.mass_kg * known[term] * f_B
            torque += vehicle.mass_kg * known[term] * t_B
    packed = pack(vehicle)
    for i in range(5):
        record = np.zeros(1, VEHICLE)[0]
        record.x[ROTOR : ROTOR + rotors] = speeds[i]
        record.held.thrust_gain[:] = 1.0
        record.held.density_ratio = 1.0
        f_B, t_B = rotor_wrench(record.x, tuple(air_B[i]), tuple(w_B[i]), record.held, packed)
        drag_B = body_drag(tuple(air_B[i]), 1.0, packed)
        scale = float(np.abs(force[i]).max())
        np.testing.assert_allclose(force[i], np.add(f_B, drag_B), atol=1e-12 * scale)
        arm_m = float(np.abs(vehicle.rotor_positions_B_m).max())
        np.testing.assert_allclose(torque[i], t_B, atol=1e-12 * scale * arm_m)


def test_the_rotors_momentum_is_felt_as_a_gyroscopic_torque():
    """``-w x h``: a wheel that spins up about z and is rolled pitches."""
    rates = np.array([[2.0, 0.0, 0.0]])
    speeds = np.array([[100.0, 50.0, 50.0, 0.0]]) * X500.rotor_directions
    _, torque = term_wrench("rotor_inertia", speeds, np.zeros((1, 3)), rates, X500)
    np.testing.assert_allclose(torque[0], -np.cross([2.0, 0.0, 0.0], [0.0, 0.0, 200.0]))


# ---- files -------------------------------------------------------------------------------------


def told(value: float, name: str = "thrust") -> VehicleFigure:
    return VehicleFigure(name, value, 0.99 * value, 1.01 * value, 0.0, "flight")


def test_figures_become_a_vehicle_and_come_back():
    """Each figure alone changes what it is named for, and nothing else."""
    known = file_figures(X500)
    for name in MEANING:
        if name in known:
            wanted = 1.03 * known[name] or 0.01 * known["thrust"]
            new = with_figures(X500, {name: told(wanted, name)}, "new")
            assert file_figures(new)[name] == pytest.approx(wanted, rel=1e-12)
            for other in known.keys() - {name}:
                relative = 0.0 if name == "thrust" else 1e-12
                if not (name == "thrust" and other in ("rotor_drag", "torque")):
                    kept = file_figures(new)[other]
                    assert kept == pytest.approx(known[other], rel=max(relative, 1e-12)), other


def test_an_inertia_that_no_body_has_moves_the_torque_ratio():
    """Half the torque over inertia about z would need an inertia above that of x and y together."""
    half = 0.5 * file_figures(X500)["turn_z"]
    new = with_figures(X500, {"turn_z": told(half)}, "new")
    assert new.inertia_kg_m2 == pytest.approx(X500.inertia_kg_m2)
    assert new.torque_ratio_m == pytest.approx(0.5 * X500.torque_ratio_m)
    with pytest.raises(InputError, match="what was found is no vehicle"):
        with_figures(X500, {"thrust": told(0.1 * file_figures(X500)["thrust"])}, "new")


# ---- messages ----------------------------------------------------------------------------------


def joints(stamp_ns: int, names: list[str], speeds: list[float], positions: int = 0) -> bytes:
    types = TYPES.types
    message = types[JOINTS](
        header=types["std_msgs/msg/Header"](
            stamp=types["builtin_interfaces/msg/Time"](
                sec=stamp_ns // 10**9, nanosec=stamp_ns % 10**9
            ),
            frame_id="base",
        ),
        name=names,
        position=np.zeros(positions),
        velocity=np.array(speeds),
        effort=np.zeros(0),
    )
    return bytes(TYPES.serialize_cdr(message, JOINTS))


@pytest.mark.parametrize(
    "names", [["a"], ["rotor_0", "rotor_1", "r"], ["rotor_2", "rotor_0", "rotor_1"], ["x" * 7, "y"]]
)
@pytest.mark.parametrize("positions", [0, 3])
def test_joints_are_read_as_rosbags_writes_them(names, positions):
    rows = [[float(10 * i + k) for k in range(len(names))] for i in range(3)]
    payloads = [
        joints(1_500_000_000 + i, names, row, positions) + bytes(4 * i)
        for i, row in enumerate(rows)
    ]
    stamp_ns, values, read = decode_joints(payloads)
    assert stamp_ns.tolist() == [1_500_000_000, 1_500_000_001, 1_500_000_002]
    in_order = sorted(range(len(names)), key=names.__getitem__) if "rotor_2" in names else ...
    np.testing.assert_array_equal(values, np.array(rows)[:, in_order])
    assert read == np.array(names)[in_order].tolist()
