"""Lagrange constraints against numpy, the conditions of optimality, and a double pendulum."""

import math

import numpy as np
import pytest
from lagrange import accelerate, constraint_memory, strike
from scipy.integrate import solve_ivp

from quadsim.vehicle.ropes.constraints import (
    AT_LEAST,
    AT_MOST,
    CONTRADICTORY,
    EQUAL,
    REDUNDANT,
    SINGULAR,
    SOLVED,
    solve_in_place,
    stabilisation,
)

#: Systems here have condition numbers below 1e5, so 1e-16 times that with some room.
ROUNDING = 1e-9


def mass_matrix(rng, n):
    root = rng.normal(size=(n, n))
    return root @ root.T + 0.1 * np.eye(n)


def accelerated(mass, force, jacobian, bias, sides):
    """Outcome, acceleration and multipliers."""
    jacobian = np.atleast_2d(np.asarray(jacobian, float))
    m, n = jacobian.shape
    x_dd, multiplier = np.zeros(n), np.zeros(m)
    outcome = accelerate(
        np.asarray(mass, float),
        np.asarray(force, float),
        jacobian,
        np.asarray(bias, float),
        np.asarray(sides, np.int64),
        constraint_memory(n, m),
        x_dd,
        multiplier,
    )
    return outcome, x_dd, multiplier


@pytest.mark.parametrize("n", [1, 2, 5, 15, 40])
def test_linear_systems_are_solved_as_numpy_does(n):
    rng = np.random.default_rng(n)
    for _ in range(20):
        matrix, rhs = rng.normal(size=(n, n)), rng.normal(size=n)
        wanted = np.linalg.solve(matrix, rhs)
        assert solve_in_place(matrix, rhs)
        # both are backward stable: they differ by rounding times the condition number
        np.testing.assert_allclose(rhs, wanted, rtol=1e-7, atol=1e-9)


def test_a_zero_on_the_diagonal_needs_a_pivot():
    rhs = np.array([1.0, 2.0])
    assert solve_in_place(np.array([[0.0, 2.0], [4.0, 0.0]]), rhs)
    np.testing.assert_allclose(rhs, [0.5, 0.5])


@pytest.mark.parametrize("value", [0.0, 1.0, math.nan, math.inf])
def test_matrices_without_one_solution_are_told(value):
    assert not solve_in_place(np.full((3, 3), value), np.ones(3))


def test_a_scale_does_not_make_a_matrix_singular():
    rhs = np.array([1e-200, 2e-200])
    assert solve_in_place(np.diag([1e-200, 4e-200]), rhs)
    np.testing.assert_allclose(rhs, [1.0, 0.5])


def test_equalities_solve_the_block_matrix_of_the_lecture():
    rng = np.random.default_rng(1)
    for _ in range(50):
        n = int(rng.integers(2, 9))
        m = int(rng.integers(1, n))
        mass, force = mass_matrix(rng, n), rng.normal(size=n)
        jacobian, bias = rng.normal(size=(m, n)), rng.normal(size=m)
        block = np.block([[mass, -jacobian.T], [jacobian, np.zeros((m, m))]])
        wanted = np.linalg.solve(block, np.concatenate([force, bias]))
        outcome, x_dd, multiplier = accelerated(mass, force, jacobian, bias, np.full(m, EQUAL))
        assert outcome == SOLVED
        np.testing.assert_allclose(x_dd, wanted[:n], rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(multiplier, wanted[n:], rtol=1e-6, atol=1e-8)


def test_limits_obey_the_conditions_of_optimality():
    """Karush, Kuhn and Tucker's conditions have one solution: the program is strictly convex.

    More limits than coordinates, some rows twice: so rows follow from others and are let go.
    """
    rng = np.random.default_rng(2)
    outcomes = []
    for trial in range(400):
        n = int(rng.integers(2, 8))
        m = int(rng.integers(1, 3 * n))
        mass, force = mass_matrix(rng, n), rng.normal(size=n)
        jacobian = rng.normal(size=(m, n))
        sides = rng.integers(AT_MOST, AT_LEAST + 1, size=m)
        sides[n // 2 :][sides[n // 2 :] == EQUAL] = AT_LEAST
        # some motion obeys all: on the equalities, inside of the limits or on them
        inside = rng.uniform(0.0, 1.0, m) * rng.integers(0, 2, m)
        bias = jacobian @ rng.normal(size=n) - sides * inside
        if trial % 4 == 0 and m > 1:
            jacobian[-1], bias[-1], sides[-1] = 2.0 * jacobian[0], 2.0 * bias[0], sides[0]
        outcome, x_dd, multiplier = accelerated(mass, force, jacobian, bias, sides)
        outcomes.append(outcome)
        assert outcome in (SOLVED, REDUNDANT)
        residual = jacobian @ x_dd - bias
        size = max(1.0, np.abs(multiplier).max())
        np.testing.assert_allclose(mass @ x_dd, force + jacobian.T @ multiplier, atol=1e-9 * size)
        assert np.all(np.abs(residual[sides == EQUAL]) < ROUNDING * size)
        one_sided = sides != EQUAL
        assert np.all((sides * residual)[one_sided] > -ROUNDING * size)
        assert np.all((sides * multiplier)[one_sided] >= -ROUNDING * size)
        assert np.all(np.abs(residual * multiplier)[one_sided] < ROUNDING * size**2)
    assert outcomes.count(SOLVED) > 300


def test_a_row_given_twice_changes_no_motion_and_is_told():
    force, row = [3.0, -1.0], [1.0, 2.0]
    _, wanted, alone = accelerated(np.eye(2), force, [row], [0.5], [EQUAL])
    twice = [row, [2.0, 4.0]]
    outcome, x_dd, multiplier = accelerated(np.eye(2), force, twice, [0.5, 1.0], [EQUAL, EQUAL])
    assert outcome == REDUNDANT
    np.testing.assert_allclose(x_dd, wanted, rtol=1e-14)
    np.testing.assert_allclose(multiplier, [alone[0], 0.0], rtol=1e-14)


def test_an_equality_that_needs_no_force_is_no_redundant_one():
    outcome, x_dd, multiplier = accelerated(np.eye(2), [0.0, 1.0], [[1.0, 0.0]], [0.0], [EQUAL])
    assert outcome == SOLVED
    np.testing.assert_array_equal(x_dd, [0.0, 1.0])
    np.testing.assert_array_equal(multiplier, [0.0])


@pytest.mark.parametrize(
    ("rows", "bias", "sides"),
    [
        ([[1.0, 0.0], [2.0, 0.0]], [1.0, 1.0], [EQUAL, EQUAL]),
        ([[1.0, 0.0], [1.0, 0.0]], [1.0, 0.0], [AT_LEAST, AT_MOST]),
        ([[0.0, 0.0]], [1.0], [EQUAL]),
        ([[1.0, 1.0], [-1.0, 0.0], [0.0, -1.0]], [1.0, 0.0, 0.0], [AT_LEAST] * 3),
    ],
)
def test_rows_that_no_motion_satisfies_are_told(rows, bias, sides):
    assert accelerated(np.eye(2), [0.0, 0.0], rows, bias, sides)[0] == CONTRADICTORY


@pytest.mark.parametrize(
    ("mass", "force"),
    [(np.zeros((2, 2)), 0.0), (np.diag([1.0, -1.0]), 0.0), (np.eye(2), math.nan)],
)
def test_bodies_without_mass_and_what_is_not_finite_are_told(mass, force):
    assert accelerated(mass, [force, 1.0], [[1.0, 1.0]], [0.0], [EQUAL])[0] == SINGULAR


def test_a_body_on_a_floor_is_carried_and_may_leave():
    for force_N, acceleration, push in ((-9.0, 0.0, 9.0), (6.0, 3.0, 0.0)):
        outcome, x_dd, multiplier = accelerated([[2.0]], [force_N], [[1.0]], [0.0], [AT_LEAST])
        assert outcome == SOLVED
        np.testing.assert_allclose([x_dd[0], multiplier[0]], [acceleration, push], atol=1e-14)


def test_a_double_pendulum_of_two_rods_moves_as_by_its_angles():
    """Two unit masses on unit rods; by the angles' own equations (Landau and Lifshitz, par. 5)."""
    g = 9.80665

    def by_angles(_, y):
        a, b, va, vb = y
        matrix = [[2.0, math.cos(a - b)], [math.cos(a - b), 1.0]]
        s = math.sin(a - b)
        rhs = [-vb * vb * s - 2.0 * g * math.sin(a), va * va * s - g * math.sin(b)]
        return [va, vb, *np.linalg.solve(matrix, rhs)]

    memory, x_dd, multiplier = constraint_memory(4, 2), np.zeros(4), np.zeros(2)
    rods, both = np.zeros((2, 4)), np.full(2, EQUAL)
    mass, weight = np.eye(4), np.array([0.0, -g, 0.0, -g])

    def by_constraints(_, y):
        p, q, vp, vq = y[:2], y[2:4], y[4:6], y[6:]
        rods[0, :2], rods[1, :2], rods[1, 2:] = 2.0 * p, 2.0 * (p - q), 2.0 * (q - p)
        bias = np.array([-2.0 * vp @ vp, -2.0 * (vq - vp) @ (vq - vp)])
        assert accelerate(mass, weight, rods, bias, both, memory, x_dd, multiplier) == SOLVED
        return np.concatenate([y[4:], x_dd])

    accurate = {"method": "DOP853", "rtol": 1e-11, "atol": 1e-12}
    a, b = 2.0, 1.0
    wanted = solve_ivp(by_angles, (0.0, 1.0), [a, b, 0.0, 0.0], **accurate).y[:, -1]
    p = np.array([math.sin(a), -math.cos(a)])
    q = p + np.array([math.sin(b), -math.cos(b)])
    start = np.concatenate([p, q, np.zeros(4)])
    found = solve_ivp(by_constraints, (0.0, 1.0), start, **accurate).y[:, -1]
    tip = [math.sin(wanted[0]) + math.sin(wanted[1]), -math.cos(wanted[0]) - math.cos(wanted[1])]
    # two integrations to 1e-11 a step, some 50 steps, spread by the motion some tens of times
    np.testing.assert_allclose(found[2:4], tip, atol=1e-8)


def test_an_impact_is_that_of_newtons_law():
    rng = np.random.default_rng(3)
    for restitution in (0.0, 0.4, 1.0):
        mass, jacobian = mass_matrix(rng, 5), rng.normal(size=(2, 5))
        before = rng.normal(size=5)
        inverse = np.linalg.inv(mass)
        reach = inverse @ jacobian.T
        share = np.linalg.solve(jacobian @ reach, (1.0 + restitution) * jacobian @ before)
        after, impulse = before.copy(), np.zeros(2)
        sides = np.full(2, EQUAL)
        memory = constraint_memory(5, 2)
        assert strike(mass, after, jacobian, sides, restitution, memory, impulse) == SOLVED
        np.testing.assert_allclose(after, before - reach @ share, atol=ROUNDING)
        np.testing.assert_allclose(impulse, -share, atol=ROUNDING)
        lost_J = 0.5 * before @ mass @ before - 0.5 * after @ mass @ after
        part = 0.5 * (1.0 - restitution**2) * (jacobian @ before)
        wanted_J = part @ np.linalg.solve(jacobian @ reach, jacobian @ before)
        assert lost_J == pytest.approx(wanted_J, abs=ROUNDING)


def test_a_limit_that_is_left_takes_no_part_in_an_impact():
    velocity, impulse = np.array([-1.0, 2.0]), np.zeros(2)
    floor, sides = np.eye(2), np.full(2, AT_LEAST)
    strike(np.eye(2), velocity, floor, sides, 0.5, constraint_memory(2, 2), impulse)
    np.testing.assert_allclose(velocity, [0.5, 2.0])
    np.testing.assert_allclose(impulse, [1.5, 0.0])


def test_a_violation_decays_at_the_rate_of_its_stabilisation():
    rate = 7.0
    motion = solve_ivp(
        lambda _, y: [y[1], -stabilisation(y[0], y[1], rate)],
        (0.0, 0.5),
        [1.0, -rate],
        rtol=1e-10,
        atol=1e-12,
    )
    # started on the slow mode of a critically damped system it is exp(-r t)
    assert motion.y[0, -1] == pytest.approx(math.exp(-0.5 * rate), rel=1e-7)
