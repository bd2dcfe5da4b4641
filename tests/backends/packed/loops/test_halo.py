"""Around a packed value lie zeros, wherever its producer's rows are."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
import pytest
import tvm
from tvm import tirx
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.layout import Layout
from toolchain.backends.packed.loops.emitter import zero_halo
from toolchain.backends.packed.loops.function import build
from toolchain.backends.packed.loops.nest import Nest
from toolchain.backends.packed.machines import AVX2

LANES = 4


@dataclass(frozen=True)
class Case:
    spatial: tuple[int, ...]
    halo: tuple[int, ...]
    batch: int = 1
    blocks: int = 2
    offset: int = 0
    whole: int = 0

    @property
    def layout(self) -> Layout:
        return Layout(LANES, self.halo, self.offset, self.whole)


CASES = (
    Case((5,), (2, 3)),
    Case((1,), (1, 0)),
    Case((3, 4), (0, 0, 0, 0)),
    Case((3, 4), (1, 1, 1, 1), batch=2),
    Case((3, 4), (2, 0, 0, 3)),
    Case((1, 1), (1, 2, 3, 1)),
    Case((2, 3, 2), (1, 2, 1, 1, 0, 2)),
    Case((3, 4), (1, 1, 1, 1), offset=1, whole=4),  # a part of a concatenation
)


def filled(case: Case) -> tirx.PrimFunc:
    """Return what writes ones row by row, and the zeros around each row."""
    layout, shape = case.layout, (case.batch, case.blocks * LANES, *case.spatial)

    def body(nest: Nest) -> None:
        out = ir.arg("out", ir.buffer(layout.shape(shape), "float32"))
        with nest.grid([case.batch, case.blocks, *case.spatial[:-1]]) as (n, block, *row):
            with nest.grid([case.spatial[-1]]) as (column,), nest.vector(LANES) as lane:
                index = [n, block * LANES + lane, *row, column]
                ir.buffer_store(out, tirx.const(1, "float32"), layout.at(index, nest.analyzer))
            zero_halo(nest, out, layout, case.spatial, n, block, row)

    return build(AVX2, body)


@pytest.mark.slow
def test_every_zero_is_written_and_nothing_else() -> None:
    names = {f"case{at}": case for at, case in enumerate(CASES)}
    functions = {name: filled(case).with_attr("global_symbol", name) for name, case in names.items()}
    library = tvm.compile(tvm.IRModule(functions), "llvm")
    for name, case in names.items():
        logical = (case.batch, case.blocks * LANES, *case.spatial)
        shape = case.layout.shape(logical)
        out = tvm.runtime.tensor(np.full(shape, np.nan, np.float32))
        library[name](out)
        expected = np.full(shape, np.nan, np.float32)
        own = Layout(LANES, case.halo).pack(np.ones(logical, np.float32))
        expected[:, case.offset : case.offset + case.blocks] = own
        np.testing.assert_array_equal(out.numpy(), expected, err_msg=str(case))
        assert np.nansum(out.numpy()) == prod(logical), case
