"""Small linear algebra against LAPACK."""

import numpy as np
import pytest

from quadsim.geometry.linear import applied, lengths, product, pseudo_inverse, solve


@pytest.mark.parametrize("count", [1, 3, 40])
def test_solution_is_lapacks(count):
    rng = np.random.default_rng(count)
    A, B = rng.normal(size=(count, count)), rng.normal(size=(count, 3))
    np.testing.assert_allclose(solve(A, B), np.linalg.solve(A, B), rtol=1e-10, atol=1e-12)


def test_zero_pivot_is_passed_and_a_singular_matrix_refused():
    A = np.array([[0.0, 1.0], [2.0, 0.0]])
    assert np.array_equal(solve(A, np.eye(2)), [[0.0, 0.5], [1.0, 0.0]])
    with pytest.raises(np.linalg.LinAlgError):
        solve(np.ones((2, 2)), np.eye(2))


@pytest.mark.parametrize("rotors", [4, 6, 8])
def test_pseudo_inverse_is_lapacks_where_rows_have_other_units(rotors):
    A = np.random.default_rng(rotors).normal(size=(4, rotors)) * [[1.0], [0.2], [0.2], [1e-3]]
    np.testing.assert_allclose(pseudo_inverse(A), np.linalg.pinv(A), rtol=1e-11, atol=1e-12)


def test_products_and_lengths():
    rng = np.random.default_rng(1)
    A, B, v = rng.normal(size=(5, 3, 4)), rng.normal(size=(4, 2)), rng.normal(size=4)
    np.testing.assert_allclose(product(A, B), A @ B, rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(applied(A, v), A @ v, rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(lengths(A), np.linalg.norm(A, axis=-1), rtol=1e-15)
