"""The end of a tile: the same outputs whether it is written out or a loop, and zeros in the padding."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import te, tirx, topi
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.layout import Layout
from toolchain.backends.packed.loops.emitter import Emitter
from toolchain.backends.packed.loops.function import build
from toolchain.backends.packed.loops.nest import Nest, store_all
from toolchain.backends.packed.machines import AVX2
from toolchain.backends.packed.recognise.convolution import convolution
from toolchain.backends.packed.recognise.read import Expr, read

LANES = AVX2.lanes
COLUMNS = 4
EPILOGUES: dict[str, Callable[[te.Tensor], te.Tensor]] = {
    "relu": topi.nn.relu,
    "plus one": lambda y: topi.add(y, te.const(1.0, "float32")),
    "silu": lambda y: topi.multiply(y, topi.sigmoid(y)),
}
EXPECTED: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "relu": lambda y: np.maximum(y, 0),
    "plus one": lambda y: y + 1,
    "silu": lambda y: y / (1 + np.exp(-y)),
}


def ending(name: str, channels: int, loop: bool) -> tirx.PrimFunc:
    """Return what takes the sums of all channels of one row from a buffer to the end of a tile."""
    x = te.placeholder((1, 8, 1, COLUMNS), name="x")
    w = te.placeholder((channels, 8, 1, 1), name="w")
    found = read(te.create_prim_func([x, w, EPILOGUES[name](topi.nn.conv2d_nchw(x, w, 1, 0, 1))]))
    conv = convolution(found)
    assert conv is not None
    layout = Layout(LANES, (0, 0, 0, 0))
    blocks = layout.blocks(channels)

    def body(nest: Nest) -> None:
        emitter = Emitter(nest, found, conv, (layout, None, layout), (blocks, 8, LANES))
        assert emitter.long == (name == "silu")
        sums = ir.arg("sums", ir.buffer((blocks, COLUMNS, LANES), "float32"))
        totals = [nest.local((COLUMNS * LANES,), "float32") for _ in range(blocks)]
        for number, total in enumerate(totals):
            with nest.grid([COLUMNS]) as (column,), nest.vector(LANES) as lane:
                ir.buffer_store(total, sums[number, column, lane], [column * LANES + lane])

        def index(block: Expr, column: Expr, lane: tirx.Var) -> list[Expr]:
            zero = tirx.IntImm("int32", 0)
            return [zero, block * LANES + lane, zero, column]

        store_all(emitter, totals, COLUMNS, index, loop=loop)

    return build(AVX2, body)


CASES = (
    ("relu", 13, True),
    ("plus one", 13, True),
    ("silu", 16, True),
    ("silu", 13, True),
    ("silu", 13, False),
)


@pytest.mark.slow
def test_outputs_are_those_of_the_epilogue_and_padding_stays_zero() -> None:
    functions = {
        f"case{at}": ending(*case).with_attr("global_symbol", f"case{at}") for at, case in enumerate(CASES)
    }
    library = tvm.compile(tvm.IRModule(functions), "llvm")
    random = np.random.default_rng(0)
    for at, (name, channels, _loop) in enumerate(CASES):
        y = random.normal(size=(1, channels, 1, COLUMNS)).astype(np.float32) * 3
        packed = Layout(LANES, (0, 0, 0, 0)).pack(y)
        junk = np.where(packed == 0, np.float32(7), packed)[0, :, 0]  # of channels that there are none of
        out = tvm.runtime.tensor(np.full_like(packed, np.nan))
        unused = [
            tvm.runtime.tensor(np.zeros(shape, np.float32))
            for shape in ((1, 1, 1, COLUMNS, LANES), (2, 8, LANES))
        ]
        library[f"case{at}"](*unused, out, tvm.runtime.tensor(np.ascontiguousarray(junk)))
        expected = Layout(LANES, (0, 0, 0, 0)).pack(EXPECTED[name](y))
        np.testing.assert_allclose(out.numpy(), expected, rtol=1e-5, atol=1e-6, err_msg=str(CASES[at]))


@pytest.mark.parametrize(
    ("name", "loop", "count"), [("silu", True, 1), ("silu", False, 0), ("relu", True, 0)]
)
def test_only_a_long_epilogue_waits_in_memory(name: str, loop: bool, count: int) -> None:
    """One buffer more than the sums have: what is read in a loop would be kept out of registers."""
    text = ending(name, 16, loop).script()
    assert text.count("alloc_buffer") == 2 + count
