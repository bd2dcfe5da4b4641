"""A network that computes on the device of lazy_device.cc, by that device's own function."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import tvm
from tvm import relax, te

from tests.runtime.networks import TARGETS
from toolchain.linking import ZigLinker
from toolchain.lowering.objects.export import export_objects
from toolchain.profiles import load_profile

WEIGHT = np.float32([0.5, -2, 3, 100])
FUNCTION = "edge.lazy.add"


def expected(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return what it computes, by numpy."""
    return x + x, x + x + WEIGHT


def library() -> bytes:
    """Return its library: x + x, and that and a constant."""
    number = relax.TensorType((4,), "float32")
    x = relax.Var("x", number)
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        twice = builder.emit(relax.call_dps_packed(FUNCTION, [x, x], out_ty=number))
        more = builder.emit(relax.call_dps_packed(FUNCTION, [twice, relax.const(WEIGHT)], out_ty=number))
        builder.emit_func_output(relax.Tuple([twice, more]))
    module = builder.get()
    a = te.placeholder((4,), "float32")
    spare = te.create_prim_func(
        [a, te.compute((4,), lambda i: a[i])]
    )  # without one there is no object to link
    module["spare"] = spare.with_attr("global_symbol", "spare")
    with tempfile.TemporaryDirectory() as name, tvm.target.Target(TARGETS["x86_64"]) as target:
        folder = Path(name)
        executable = tvm.compile(module, target=target)
        ZigLinker().link(export_objects(executable, folder), folder / "out.so", load_profile("x86_64"))
        return (folder / "out.so").read_bytes()
