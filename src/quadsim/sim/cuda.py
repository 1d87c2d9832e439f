"""Worlds on a GPU of NVIDIA, a thread for each, by the kernels that processors run.

numba-cuda compiles the same functions. Every product and sum is rounded by itself, which NVIDIA's
compiler fuses if it may. The arithmetic is that of :class:`quadsim.sim.worlds.Worlds`, but for the
last bits of what is from a library on both, ``math.erfc`` and ``math.hypot``. So is the randomness:
each device of each vehicle has its own stream, begun by seed, episode and device.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any
from unittest.mock import patch

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.np import ufunc_db
from numpy.typing import NDArray

from quadsim.base import scratch
from quadsim.base.errors import InputError
from quadsim.base.extras import need
from quadsim.sim.worlds import SEEN, Worlds, begin_vehicle, draw_beginning, step_world
from quadsim.vehicle.neighbours import interact

#: Threads of a block.
BLOCK = 64

#: Numba's module, once it is loaded; its simulator looks for it here.
cuda: Any = None


def _simulated() -> bool:
    """Whether Numba plays the GPU (``NUMBA_ENABLE_CUDASIM=1``), kernel by kernel, in Python."""
    return bool(getattr(numba.config, "ENABLE_CUDASIM"))  # noqa: B009


def _adapt() -> None:
    """Make numba-cuda compile as described above, and add what it lacks of Numba."""
    found: list[Any] = [
        import_module(f"numba.cuda.{name}")
        for name in (
            "compiler", "dispatcher", "ufuncs", "typing.templates", "target", "cgutils",
            "itanium_mangler",
        )
    ]  # fmt: skip
    compiler, dispatcher, ufuncs, templates, target, cgutils, mangler = found
    # a name that spells out the fields of its records takes 6 kB at each mention
    numbers: dict[Any, int] = {}
    mangler.mangle_args = lambda kinds: "".join(
        f"_{numbers.setdefault(kind, len(numbers))}" for kind in kinds
    )
    compile_cuda = compiler.compile_cuda

    def compiled(function: Any, *args: Any, **options: Any) -> Any:
        """Functions are called, but for small ones, not written into their callers.

        That makes a third of the code, in a fraction of the time.
        """
        options["nvvm_options"] = {**(options.get("nvvm_options") or {}), "fma": 0}
        result = compile_cuda(function, *args, **options)
        if not options.get("forceinline"):
            result.library.get_function(result.fndesc.llvm_func_name).attributes.add("noinline")
        return result

    compiler.compile_cuda = dispatcher.compile_cuda = compiled
    pack = target.CUDATargetContext.pack_value

    def packed(context: Any, builder: Any, kind: Any, value: Any, place: Any, **rest: Any) -> None:
        """Records are copied by a loop; else the copy of each of their bytes is written out."""
        if not isinstance(kind, types.Record) or kind.size % 8:
            pack(context, builder, kind, value, place, **rest)
            return
        words = context.get_constant(types.intp, kind.size // 8)
        word = ir.IntType(64).as_pointer()
        of, to = builder.bitcast(value, word), builder.bitcast(place, word)
        with cgutils.for_range(builder, words) as loop:
            at = [loop.index]
            builder.store(builder.load(builder.gep(of, at)), builder.gep(to, at))

    target.CUDATargetContext.pack_value = packed
    numbas: Any = ufunc_db
    numbas.get_ufunc_info(np.isnan)  # fills it
    for ufunc, loops in numbas._ufunc_db.items():
        ufuncs.ufunc_db().setdefault(ufunc, loops)
    for made in scratch.MADE:
        template = templates.make_intrinsic_template(made, made._defn, "scratch")
        templates.infer_global(made, types.Function(template))

    def alone(vehicles: Any, params: Any, environment: Any, physics: Any) -> None:
        """What the only vehicle of a world feels of others; the kernel makes arrays for those."""

    # where numba-cuda looks for its own version of a function
    setattr(interact, "_CUDATypingContext__dispatcher", cuda.jit(device=True)(alone))  # noqa: B010


@cache
def functions() -> dict[str, Callable[..., None]]:
    """What a thread runs, for a world or a vehicle.

    Raises:
        InputError: numba-cuda is not installed.
    """
    if not _simulated():
        need("numba_cuda", "device: cuda")
    global cuda
    cuda = import_module("numba.cuda")
    if not _simulated():
        _adapt()

    def step(given: Any, active: Any) -> None:
        world = cuda.grid(1)
        if world < active.size and active[world]:
            step_world(*given, world)  # type: ignore[call-arg]

    def begin(given: Any, which: Any) -> None:
        m = cuda.grid(1)
        if m < which.size:
            begin_vehicle(*given, which[m])  # type: ignore[call-arg]

    def draw(given: Any, which: Any) -> None:
        m = cuda.grid(1)
        if m < which.size:
            draw_beginning(*given, which[m])  # type: ignore[call-arg]

    return {"step": step, "begin": begin, "draw": draw}


class CudaWorlds(Worlds):
    """:class:`Worlds` of one vehicle each in a GPU's memory; ``seen`` and ``rays`` are copies.

    Raises:
        InputError: there is no GPU, numba-cuda is not installed, or an argument is wrong.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        threads = functions()
        if not cuda.is_available():
            raise InputError("device: cuda: here is no GPU of NVIDIA with a driver; allowed: cpu")
        super().__init__(*args, **kwargs)
        if self.size != 1:
            raise InputError(f"vehicles: {self.size} in a world; allowed with device cuda: 1")
        self._jitted = {name: cuda.jit(each) for name, each in threads.items()}
        self._twins: dict[int, Any] = {}
        for words, records in zip(self._content, (self.states, *self._flight.devices), strict=True):
            twin = self._twin(records).view(np.uint64)
            self._twins[id(words)] = twin if twin.ndim == 2 else twin.reshape(len(words), -1)

    def _twin(self, array: Any) -> Any:
        """The array in the GPU's memory that belongs to one here, copied when it is first met."""
        if id(array) not in self._twins:
            self._twins[id(array)] = array if _simulated() else cuda.to_device(array)
        return self._twins[id(array)]

    def _there(self, given: Any) -> Any:
        """A tuple whose arrays are the GPU's."""
        if isinstance(given, np.ndarray):
            return self._twin(given)
        if isinstance(given, tuple):
            parts = [self._there(part) for part in given]
            return type(given)(*parts) if hasattr(given, "_fields") else tuple(parts)
        return given

    def _launch(self, name: str, given: Any, which: Any) -> None:
        """Run a kernel there: what changes here is copied before, and what is read here after."""
        new, back = {
            "draw": ((self.seeds, self._episodes), (self._numbers,)),
            "begin": ((self._whose, self._every_ns, self._motions), (self.seen, self.rays)),
            "step": ((self._actions,), (self.seen, self.rays)),
        }[name]
        there = self._there(given)
        if not _simulated():
            for array in new:
                self._twin(array).copy_to_device(array)
        self._jitted[name][-(-len(which) // BLOCK), BLOCK](there, which)
        if not _simulated():
            for array in back:
                self._twin(array).copy_to_host(array)

    def column(self, *names: str) -> Any:
        """A field of ``seen`` in the GPU's memory, such as ``("true", "p_W")``: (N, numbers).

        Others read it by DLPack without a copy: ``torch.from_dlpack(column)``,
        ``jax.dlpack.from_dlpack(column)``. It changes with each step.
        """
        dtype: Any = SEEN
        first = 0
        for name in names:
            dtype, offset = dtype.fields[name]
            first += offset // 8
        rows = self._twin(self.seen).view(dtype.base).reshape(len(self.seen), -1)
        column = rows[:, first : first + dtype.itemsize // 8]
        if _simulated():
            return column
        view: Any = import_module("cuda.core.utils").StridedMemoryView
        return view.from_cuda_array_interface(column, stream_ptr=-1)  # a step waits for its end

    def fault(self, i: int) -> str:
        """Why the motion of vehicle ``i`` cannot go on, as :meth:`Worlds.fault`."""
        if not _simulated():
            self._twin(self.states)[i : i + 1].copy_to_host(self.states[i : i + 1])
        return super().fault(i)


def compile_ptx(
    function: Callable[..., None], given: Any, which: NDArray[Any], cc: tuple[int, int] = (9, 0)
) -> str:
    """The assembler of a kernel for a GPU, which need not be here.

    Args:
        function: of a thread, one of :func:`functions` or another, after a call of that.
        given, which: arrays as those that it will be given.
        cc: compute capability of the GPU.
    """
    typeof = import_module("numba.cuda.typing.typeof").typeof
    signature = types.void(typeof(given), typeof(which))

    class Asked:
        compute_capability = cc

    with patch("numba.cuda.dispatcher.get_current_device", return_value=Asked):
        return str(cuda.compile(function, signature, device=False, abi="numba", cc=cc)[0])
