"""Normal numbers are numpy's, but for the last bit of those in the tail."""

import numpy as np
import pytest

from quadsim.base.noise import stream
from quadsim.base.normals import draw_normals, fill_normals, words_of
from quadsim.sim.vehicles import BLOCK_NS, NoiseSource, WhiteNoise


@pytest.mark.parametrize("seed", range(4))
def test_numbers_and_state_are_those_of_numpy(seed):
    """A quarter of a million: each layer a thousand times, its edge ten times, the tail seventy."""
    generator = stream(seed, "quad", "imu")
    generator.standard_normal(7)  # what a sensor's start has drawn
    words = words_of(generator)
    for count in (1, 250_000, 20):
        drawn = np.zeros(count)
        fill_normals(words, drawn)
        wanted = generator.standard_normal(count)
        tail = np.abs(wanted) > 3.65  # there numpy calls the C library's logarithm
        assert drawn[~tail].tobytes() == wanted[~tail].tobytes()
        np.testing.assert_allclose(drawn[tail], wanted[tail], rtol=4e-16)
        assert np.array_equal(words, words_of(generator))
        if count > 1000:
            assert np.abs(drawn).max() > 3.7  # in the tail


def test_numbers_drawn_in_python_leave_the_generator_where_numpy_would():
    ours, numpys = stream(1, "quad", "imu"), stream(1, "quad", "imu")
    assert np.array_equal(draw_normals(ours, (4, 3)), numpys.standard_normal((4, 3)))
    assert np.array_equal(ours.random(5), numpys.random(5))


def test_rows_are_used_in_order_and_a_kept_state_goes_on():
    period_ns = 10_000_000
    noise = WhiteNoise([[[NoiseSource(stream(1, "quad", "gnss"), period_ns, 3)]]])
    wanted = stream(1, "quad", "gnss").standard_normal((300, 3))
    found, kept = [], None
    for tick in range(250):
        if tick == 130:
            kept = noise.keep()
        noise.draw(tick * period_ns, (tick + 1) * period_ns)
        found.append(noise.white[0][0, 0, noise.used[0][0, 0]].copy())
        noise.used[0][0, 0] += 1
    assert np.array_equal(found, wanted[:250])
    assert kept is not None
    noise.restore(kept)
    noise.draw(130 * period_ns, 130 * period_ns + BLOCK_NS)
    assert np.array_equal(noise.white[0][0, 0, noise.used[0][0, 0]], wanted[130])


def test_rows_of_a_source_without_numbers_begin_anew_too():
    period_ns = 2_000_000
    sources = [NoiseSource(stream(1, "quad", name), period_ns, k) for k, name in enumerate("ab")]
    noise = WhiteNoise([[[source]] for source in sources])
    for tick in range(0, 1200, 10):
        noise.draw(tick * period_ns, (tick + 10) * period_ns)
        for used in noise.used:
            used += 10
    for white, used in zip(noise.white, noise.used, strict=True):
        assert used[0, 0] < white.shape[2]
