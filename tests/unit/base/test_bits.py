"""A flight has the same bits whatever the processor can do, and nothing brings the old way back."""

import ast
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from flown_bits import digests

import quadsim

ROOT = Path(quadsim.__file__).parent
HELPER = Path(__file__).parents[2] / "helpers" / "flown_bits.py"
#: The usual flight; turbulence; several vehicles; a course; three rotors. Courses through points
#: come with each.
FLIGHTS = ("square", "windy_square", "crossing", "figure_of_eight", "failsafe_motor_loss")
AVX512 = "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL"
#: Numpy without AVX2, OpenBLAS of 2008, and the C library without FMA.
PLAIN = {
    "NPY_DISABLE_CPU_FEATURES": f"{AVX512} AVX2 FMA3",
    "OPENBLAS_CORETYPE": "Nehalem",
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA",
}
#: Kernels are compiled anew for each: minutes.
COMPILED: dict[str, dict[str, str]] = {
    "any x86-64": {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""},
    "AVX2": {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": "+avx2,+fma"},
    "AVX-512": {"NUMBA_CPU_NAME": "skylake-avx512", "NUMBA_CPU_FEATURES": "+avx512f,+avx2,+fma"},
}

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64" or sys.platform != "linux", reason="variables of x86-64 Linux"
)


def can(feature: str) -> bool:
    return feature in Path("/proc/cpuinfo").read_text()


def fly(settings: list[dict[str, str]], flights: tuple[str, ...]) -> list[dict[str, str]]:
    """Digests under each environment; all fly at the same time."""
    running = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", str(HELPER), *flights],
            env=os.environ | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for variables in settings
    ]
    found = []
    for process in running:
        out, errors = process.communicate()
        assert process.returncode == 0, errors
        found.append(json.loads(out))
    return found


@pytest.mark.many
def test_digest_is_the_same_with_other_libraries():
    assert fly([PLAIN], FLIGHTS) == [digests(FLIGHTS)]


@pytest.mark.thorough
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", COMPILED)
def test_digest_is_the_same_compiled_for_another_processor(name):
    if name != "any x86-64" and not can("avx512f" if name == "AVX-512" else "avx2"):
        pytest.skip("this processor cannot run it")
    usual, other = fly([{}, COMPILED[name]], ("square", "windy_square"))
    assert other == usual


# ---- nobody brings it back -----------------------------------------------------------------------

ROOMS = ("control", "estimation", "geometry", "mission", "sensors", "sim", "vehicle", "world")
#: Not in a scenario's digest.
ELSEWHERE = (
    "control/avoidance.py", "estimation/mounting_check/",
    "world/scene/obstacle_fields.py",
)  # fmt: skip
LIBRARY = {
    "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh",
    "atanh", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "pow", "cbrt", "arcsin",
    "arccos", "arctan", "arctan2", "power", "float_power", "sinc", "dot", "vdot", "inner", "matmul",
    "tensordot", "convolve", "correlate", "solve", "inv", "pinv", "eig", "eigh", "svd", "lstsq",
    "det", "norm", "cholesky",
}  # fmt: skip
DRAWS = {"standard_normal", "normal", "exponential"}
KERNELS = {"kernel", "threaded", "inline", "template"} | {
    f"{kind}_kernel" for kind in ("lane", "owning", "block", "inlined")
}
#: Line of the source that may, and why.
ALLOWED = {
    ("sim/closed_loop.py", "cos"): "the reference's attitude, of the log alone",
    ("sim/closed_loop.py", "sin"): "the reference's attitude, of the log alone",
    ("estimation/interface.py", "norm"): "refuses what is off by a hundredth",
    ("estimation/running.py", "norm"): "refuses what is off by a hundredth",
}


def decorated(function: ast.FunctionDef) -> bool:
    return any(isinstance(of, ast.Name) and of.id in KERNELS for of in function.decorator_list)


def library_calls(tree: ast.Module) -> list[tuple[int, str]]:
    """Lines and names of what has other bits on another processor."""
    in_kernels = {
        id(inner)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef) and decorated(function)
        for inner in ast.walk(function)
    }
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            of = ast.unparse(node.value)
            in_library = of in ("math", "np", "cmath", "np.linalg") and node.attr in LIBRARY
            length = node.attr == "hypot" and (of == "np" or id(node) in in_kernels)
            if in_library or length:
                found.append((node.lineno, node.attr))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in DRAWS:
                found.append((node.lineno, node.func.attr))
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
            whole = isinstance(node.left, ast.Constant) and isinstance(node.left.value, int)
            times = id(node) in in_kernels and isinstance(node.right, ast.Constant)
            if not whole and not (times and isinstance(node.right.value, int)):
                found.append((node.lineno, "**"))
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_no_function_of_the_c_library(room):
    wrong = []
    for path in sorted((ROOT / room).rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(ELSEWHERE):
            calls = library_calls(ast.parse(path.read_text()))
            wrong += [
                f"{name}:{line}: {call}" for line, call in calls if (name, call) not in ALLOWED
            ]
    assert not wrong, (
        "take quadsim.base.elementary, geometry.linear, quadsim.base.normals: " + ", ".join(wrong)
    )


def test_such_a_call_is_found():
    source = (
        "@kernel\ndef f(x):\n    return math.hypot(x, x) + x**1.5 + x**2\ny = np.linalg.pinv(A)\n"
    )
    assert [call for _, call in library_calls(ast.parse(source))] == ["pinv", "**", "hypot"]
