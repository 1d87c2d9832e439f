"""Worlds on a GPU: as Numba plays one, and as the assembler that NVIDIA's compiler makes."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import numpy as np
import pytest

from quadsim import InputError

pytest.importorskip("gymnasium")

#: One flight of four worlds over an end of an episode, on both devices: what is seen, as bytes.
BOTH = """
import hashlib
import numpy as np
from quadsim.gym import VectorEnv

found = []
for device in ("cpu", "cuda"):
    envs = VectorEnv("hover", num_envs=3, observation="estimate", units=2, threads=1, device=device)
    envs.task.episode_s = 0.1
    seen, said = [envs.reset(seed=3)[0]], hashlib.sha256()
    for k in range(8):
        seen.append(envs.step(np.full((3, 4), 0.05 * k - 0.2))[0])
        said.update(envs.worlds.seen.tobytes())
    found.append((np.array(seen).tobytes(), said.hexdigest(), envs.worlds.states.tobytes()))
    if device == "cuda":
        column = np.asarray(envs.worlds.column("true", "p_W"))
        assert np.array_equal(column, envs.worlds.seen["true"]["p_W"]), column
assert type(envs.worlds).__name__ == "CudaWorlds"
assert found[0] == found[1]
"""


def test_worlds_on_a_gpu_that_numba_plays_have_the_bits_of_the_cpu():
    """The GPU's indices, memory and order of copies; the kernels are the CPU's compiled ones."""
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    run = subprocess.run(
        [sys.executable, "-c", BOTH], env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr


def test_without_a_gpu_cuda_is_refused_in_a_line():
    from quadsim.gym import VectorEnv

    with pytest.raises(InputError, match=r"device: cuda: (needs numba-cuda|here is no GPU)"):
        VectorEnv("hover", units=1, device="cuda")
    with pytest.raises(InputError, match="device: 'tpu'; allowed: cpu, cuda"):
        VectorEnv("hover", units=1, device="tpu")


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["draw", "begin", "step"])
def test_kernels_compile_for_a_gpu_without_fused_or_inexact_operations(name):
    """Each operation of the assembler is one that IEEE 754 rounds in one way, as on the CPU."""
    pytest.importorskip("numba_cuda")
    pytest.importorskip("nvidia.cuda_nvcc")
    from quadsim.sim.cuda import compile_ptx
    from quadsim.sim.scenario import load_scenario
    from quadsim.sim.worlds import Units, Worlds

    given = {}

    class Told(Worlds):
        def _launch(self, name, arguments, which):
            given[name] = arguments

    worlds, both = Told(Units([load_scenario("hover")]), 2, 1, "rates", 20_000_000, True), [0, 1]
    worlds.draw(np.array(both))
    worlds.begin(np.array(both), np.zeros(2), worlds._motions, (0.1, 0.1, 0.1, 0.1))
    worlds.step(np.zeros((2, 4)), np.ones(2, bool))
    ptx = compile_ptx(name, given[name])
    assert ".target sm_90" in ptx
    assert not re.findall(r"\.extern \.func.*", ptx)
    inexact = r"\b(?:fma|mad)\.\w+\.f64|\.approx|\.(?:rz|rp|rm)\.f64|\.ftz"
    assert not re.findall(inexact, ptx)
