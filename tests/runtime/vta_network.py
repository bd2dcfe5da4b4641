"""Networks that are nothing but calls of edge.vta.run."""

from __future__ import annotations

import tempfile
from functools import lru_cache
from pathlib import Path

import numpy as np
import tvm
from tvm import relax, te

from tests.runtime.networks import CLASSES, TARGETS
from tests.vta.regions import CHANNELS, SIZE
from toolchain.linking import ZigLinker
from toolchain.lowering.objects.export import export_objects
from toolchain.profiles import load_profile

FUNCTION = "edge.vta.run"
VALUE = (1, CHANNELS // 16, SIZE, SIZE, 16)


@lru_cache
def library(blobs: tuple[bytes, ...], arch: str = "x86_64", shape: tuple[int, ...] = VALUE) -> bytes:
    """Return a library that runs these programs on its input, one after the other.

    Without any, the program is the network's second input.
    """
    value = relax.TensorType(shape, "int8")
    x = relax.Var("x", value)
    program = relax.Var("program", relax.TensorType(None, "uint8", ndim=1))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, *([] if blobs else [program])]):
        last = x
        for program_value in [relax.const(np.frombuffer(blob, np.uint8)) for blob in blobs] or [program]:
            last = builder.emit(relax.call_dps_packed(FUNCTION, [last, program_value], out_ty=value))
        builder.emit_func_output(last)
    module = builder.get()
    a = te.placeholder((4,), "float32")
    spare = te.create_prim_func([a, te.compute((4,), lambda i: a[i])])  # else there is no object to link
    module["spare"] = spare.with_attr("global_symbol", "spare")
    with tempfile.TemporaryDirectory() as name, tvm.target.Target(TARGETS[arch]) as target:
        folder = Path(name)
        executable = tvm.compile(module, target=target)
        ZigLinker().link(export_objects(executable, folder), folder / "out.so", load_profile(CLASSES[arch]))
        return (folder / "out.so").read_bytes()
