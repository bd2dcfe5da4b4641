"""A network of many launches of one small kernel, and a program in C that begins the same ones."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tvm
from tvm import relax, te

from benchmarks.gpu.stock import TARGET
from toolchain.linking import ZigLinker
from toolchain.linking.zig import run_zig, zig_cache_environment
from toolchain.lowering.objects.export import export_objects
from toolchain.profiles import load_profile

ITEMS = 16  # of a work group
_OPAQUE = 8  # TVM's pattern of functions that are not fused with others
_PROGRAM = Path(__file__).with_name("chain.c")
_COMPILE_S = 120.0


@dataclass(frozen=True)
class Chain:
    """The network's library and input, and the program in C with the kernel's source."""

    library: Path
    x: Path
    program: Path
    source: Path
    kernel: str


def write_chain(folder: Path, launches: int, numbers: int) -> Chain:
    """Write a network y = x + 1 + 1 + …, one launch for each sum, and its counterpart, into a folder.

    Parameters
    ----------
    numbers
        Of x and of everything between; whole work groups.
    """
    executable = tvm.compile(_module(launches, numbers), target=TARGET)
    (code,) = re.findall(r"// Function: (\w+)\n(.*)", _sources(executable), re.DOTALL)
    chain = Chain(folder / "chain.so", folder / "x.npy", folder / "chain", folder / "kernel.cl", code[0])
    chain.source.write_text(code[1])
    np.save(chain.x, np.zeros(numbers, "float32"))
    with tempfile.TemporaryDirectory() as objects:
        ZigLinker().link(export_objects(executable, Path(objects)), chain.library, load_profile("x86_64"))
    arguments = ["cc", "-O2", "-ldl", str(_PROGRAM), "-o", str(chain.program)]
    ended = run_zig(arguments, _COMPILE_S, zig_cache_environment())
    if ended.returncode:
        raise AssertionError(ended.last_lines())
    return chain


def _module(launches: int, numbers: int) -> tvm.IRModule:
    x = te.placeholder((numbers,), name="x")
    function = te.create_prim_func([x, te.compute((numbers,), lambda i: x[i] + np.float32(1), name="y")])
    schedule = tvm.s_tir.Schedule(function)
    blocks, items = schedule.split(schedule.get_loops("y")[0], [None, ITEMS])
    schedule.bind(blocks, "blockIdx.x")
    schedule.bind(items, "threadIdx.x")
    builder = relax.BlockBuilder()
    plus = schedule.mod["main"].with_attr(
        {"global_symbol": "plus_one", "op_pattern": _OPAQUE, "tirx.is_scheduled": True}
    )
    plus_one = builder.add_func(plus, "plus_one")
    vector = relax.TensorType((numbers,), "float32")
    value = relax.Var("x", vector)
    with builder.function("main", [value]):
        with builder.dataflow():
            for _ in range(launches):
                value = builder.emit(relax.call_tir(plus_one, (value,), vector))
            value = builder.emit_output(value)
        builder.emit_func_output(value)
    return builder.get()


def _sources(executable: tvm.relax.VMExecutable) -> str:
    modules, found = [executable.mod], ""
    while modules:
        module = modules.pop()
        modules.extend(module.imports)
        if module.kind == "opencl":
            found += module.inspect_source()
    return found
