"""Networks against onnxruntime, and each of their functions on buffers beside unreadable pages.

    python -m tests.backends.packed.operators LANES packed|plain NAME...

prints a JSON object per network: its relative error, the rule of each function, and the functions that
wrote something else between the guards, or left a part of their output as it was. A function that reads
or writes beyond a buffer ends the program.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import sys
from typing import Any

import numpy as np
import onnxruntime
import tvm

from tests.backends.packed.networks import CASES, Case
from tests.lowering.executable import virtual_machine
from toolchain.arrays import Array
from toolchain.backends.packed.machines import AVX2, AVX512, SSE
from toolchain.backends.packed.network.choices import Choices
from toolchain.backends.packed.network.rewrite import IN_PLACE, rewrite
from toolchain.host import host_cpu_flags
from toolchain.lowering.graph.pipeline import fuse
from toolchain.models.importing.importer import import_module
from toolchain.models.preparing.infer_shapes import infer_shapes
from toolchain.models.preparing.modernise import modernise

MACHINES = {machine.lanes: machine for machine in (AVX512, AVX2, SSE)}
ALIGNMENT = 64  # of what TVM's functions accept, in bytes
_LIBC = ctypes.CDLL(None, use_errno=True)


class Guards:
    """Copies of tensors that end (short of the alignment) where no page can be read."""

    def __init__(self) -> None:
        self.pages: list[mmap.mmap] = []

    def copy(self, array: Array) -> Array:
        """Return a copy of an array between guards."""
        page = mmap.PAGESIZE
        size = array.nbytes + -array.nbytes % ALIGNMENT
        whole = 2 * page + size + -size % page
        memory = mmap.mmap(-1, whole)
        self.pages.append(memory)
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        for start in (address, address + whole - page):
            if _LIBC.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(page), 0):
                raise OSError(ctypes.get_errno(), "mprotect")
        found = np.frombuffer(memory, array.dtype, array.size, whole - page - size).reshape(array.shape)
        found[...] = array
        return found


class Check:
    """Runs every function of a network a second time, between guards.

    Parameters
    ----------
    parts
        Whether functions may write only a part of their output: of a concatenation.
    """

    def __init__(self, *, parts: bool) -> None:
        self.parts = parts
        self.different: list[str] = []

    def __call__(self, func: Any, name: str, before: bool, _result: Any, *arguments: Any) -> int:
        tensors = [each for each in arguments if isinstance(each, tvm.runtime.Tensor)]
        if before or name.startswith("vm.") or len(tensors) != len(arguments) or len(tensors) < 2:
            return 0
        arrays = [tensor.numpy() for tensor in tensors]
        guards = Guards()
        copies = [guards.copy(array) for array in arrays]
        out, actual = copies[-1], arrays[-1]
        poisoned = bool(np.isfinite(actual).all()) if out.dtype.kind == "f" else False
        if poisoned:
            out[...] = np.nan
        func(*(tvm.runtime.from_dlpack(copy) for copy in copies))
        written = ~np.isnan(out) if poisoned else np.ones(out.shape, bool)
        same = np.array_equal(out[written], actual[written], equal_nan=out.dtype.kind == "f")
        if not same or not (written.any() if self.parts else written.all()):
            self.different.append(name)
        return 0


def run(case: Case, lanes: int, *, packed: bool) -> dict[str, Any]:
    """Return what became of a network and how right it is."""
    model = infer_shapes(modernise(case.model(packed=packed), case.name), case.name)
    # Where there are no vectors of 16 floats, LLVM makes two of each.
    cpu = "x86-64-v4" if "avx512bw" in host_cpu_flags() else "x86-64-v3"
    target = tvm.target.Target({"kind": "llvm", "mcpu": cpu, "num-cores": 2})
    machine = MACHINES[lanes].of(2)
    fused = fuse(import_module(model, case.name), target, "NCHW")
    made = rewrite(fused, Choices(machine, winograd=False))
    vm = virtual_machine(made.module, target)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    random = np.random.default_rng(0)
    inputs = {each.name: random.normal(size=each.shape).astype("f4") for each in session.get_inputs()}
    check = Check(parts=IN_PLACE in made.rules.values())
    vm.set_instrument(check)
    found = vm["main"](*(tvm.runtime.tensor(value) for value in inputs.values()))
    found = [found] if isinstance(found, tvm.runtime.Tensor) else list(found)
    error = 0.0
    for own, other in zip(found, session.run(None, inputs), strict=True):
        mine = own.numpy()
        if mine.shape != other.shape or mine.dtype != other.dtype:
            raise ValueError(f"{mine.dtype}{mine.shape} instead of {other.dtype}{other.shape}")
        scale = max(1.0, float(abs(other).max()))
        error = max(error, float(abs(mine.astype("f8") - other).max()) / scale)
    return {"name": case.name, "error": error, "rules": made.rules, "different": check.different}


if __name__ == "__main__":
    _program, width, kind, *names = sys.argv
    for each in CASES:
        if each.name in names:
            print(json.dumps(run(each, int(width), packed=kind == "packed")), flush=True)
