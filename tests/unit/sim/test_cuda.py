"""Worlds on a GPU: as Numba plays one, and as the assembler that NVIDIA's compiler makes."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest

from quadsim import InputError
from quadsim.sim.scenario import load_scenario
from quadsim.vehicle.fleet import Fleet, move

pytest.importorskip("gymnasium")

#: Functions that call erfc and hypot, of the C library on a processor: whether a sample is lost,
#: and how a vehicle flies on three rotors.
FROM_A_LIBRARY = ("is_lost", "_give", "steady_spin")

#: A flight of three worlds over an end of an episode, on both devices: what is seen, as bytes.
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


@pytest.fixture(scope="module")
def kernels():
    """What each kernel runs in a thread, what it is given, and for whom."""
    pytest.importorskip("numba_cuda")
    pytest.importorskip("nvidia.cuda_nvcc")
    from quadsim.sim import cuda
    from quadsim.sim.worlds import Units, Worlds

    found, scenario = {}, load_scenario("hover")

    class Told(Worlds):
        def _launch(self, name, given, which):
            found[name] = (cuda.functions()[name], given, which)

    worlds, both = Told(Units([scenario]), 2, 1, "rates", 20_000_000, True), np.array([0, 1])
    worlds.draw(both)
    worlds.begin(both, np.zeros(2), worlds._motions, (0.1, 0.1, 0.1, 0.1))
    worlds.step(np.zeros((2, 4)), np.ones(2, bool))

    def vehicle(given, which):
        i = cuda.cuda.grid(1)
        if i < which.size:
            vehicles, params, air, scene, physics, tables, white, work = given
            move(
                vehicles[i : i + 1], params[0], air[0], scene, physics[0], tables[i : i + 1],
                0, 1_000_000, white[i : i + 1], 0, work[i],
            )  # fmt: skip

    one = Fleet(scenario.vehicle, scenario.environment)
    given = (
        one._vehicles, one._params, one._environments, one.scene, one._physics, one._tables,
        one._calm, one._work,
    )  # fmt: skip
    return {**found, "vehicle": (vehicle, given, both)}


@pytest.mark.thorough
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("name", ["draw", "begin", "vehicle", "step"])
def test_kernels_compile_for_a_gpu_without_fused_or_inexact_operations(kernels, name):
    """Each operation of the assembler is one that IEEE 754 rounds in one way, as on the CPU."""
    from quadsim.sim.cuda import compile_ptx

    ptx = compile_ptx(*kernels[name])
    assert ".target sm_90" in ptx
    assert not re.findall(r"\.extern \.func.*", ptx)
    where, blamed = "", set()
    for line in ptx.splitlines():
        if header := re.search(r"_ZN\w+?\d(\D\w*?)B\w*\($", line):
            where = header[1]
        if re.search(r"\b(?:fma|mad)\.\w+\.f64|\.approx|\.(?:rz|rp|rm)\.f64|\.ftz", line):
            blamed.add(where)
    allowed = FROM_A_LIBRARY if name == "step" else ()
    assert not [each for each in blamed if not each.endswith(allowed)]
