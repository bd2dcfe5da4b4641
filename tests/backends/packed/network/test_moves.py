"""Which functions move channels to another axis, and that their outputs stay plain."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tvm import relax, te, tirx, topi

from tests.backends.packed.network.test_plan import LANES, MACHINE
from toolchain.backends.packed.network.choices import Choices
from toolchain.backends.packed.network.plan import moves_channels, plan
from toolchain.backends.packed.network.steps import extents
from toolchain.backends.packed.recognise.read import read
from toolchain.lowering.graph.pipeline import fuse
from toolchain.profiles import load_profile
from toolchain.targets.target import target_for

SHAPE = (1, 2 * LANES, 3 * LANES, 2 * LANES)


def shuffled(x: te.Tensor) -> te.Tensor:
    n, c, h, w = SHAPE
    return topi.reshape(topi.transpose(topi.reshape(x, (n, 2, c // 2, h, w)), (0, 2, 1, 3, 4)), SHAPE)


def there_and_back(x: te.Tensor) -> te.Tensor:
    return topi.add(topi.transpose(topi.nn.relu(topi.transpose(x, (0, 2, 3, 1))), (0, 3, 1, 2)), x)


MOVED: dict[str, Callable[[te.Tensor], te.Tensor]] = {
    "NHWC": lambda x: topi.transpose(x, (0, 2, 3, 1)),
    "rows": lambda x: topi.nn.relu(topi.transpose(x, (0, 2, 1, 3))),
}
KEPT: dict[str, Callable[[te.Tensor], te.Tensor]] = {
    "relu": topi.nn.relu,
    "shuffled": shuffled,
    "slice": lambda x: topi.strided_slice(x, [0, LANES, 0, 0], SHAPE),
    "there and back": there_and_back,
    "sum of both": lambda x: topi.add(topi.transpose(x, (0, 3, 2, 1)), x),
    "summed": lambda x: topi.sum(x, axis=1, keepdims=True),
    "summed first": lambda x: topi.transpose(topi.nn.softmax(x, axis=1), (0, 2, 3, 1)),
    "one of them": lambda x: te.compute((1, 8, 8, 8), lambda *i: x[0, 0, i[1], i[2]]),
}


@pytest.mark.parametrize("name", [*MOVED, *KEPT])
def test_channels_move(name: str) -> None:
    x = te.placeholder(SHAPE, "float32", "x")
    func: tirx.PrimFunc = te.create_prim_func([x, (MOVED | KEPT)[name](x)])
    assert moves_channels(read(func), 0) is (name in MOVED)


@pytest.mark.parametrize(("order", "packed"), [((0, 2, 3, 1), False), (None, True)])
def test_what_computes_along_moved_channels_is_plain(order: tuple[int, ...] | None, packed: bool) -> None:
    """As in ConvNeXt: a convolution, NHWC, a layer norm along the channels."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(SHAPE, "float32"))
    weight = relax.const(np.ones((SHAPE[1], SHAPE[1], 1, 1), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            made = builder.emit(relax.op.nn.conv2d(x, weight))
            if order is not None:
                made = builder.emit(relax.op.permute_dims(made, order))
            made = builder.emit(relax.op.nn.softmax(made, -1))
            out = builder.emit_output(made)
        builder.emit_func_output(out)
    fused = fuse(builder.get(), target_for(load_profile("x86_64")).target)
    found = plan(fused, Choices(MACHINE, winograd=False))
    first, *rest = (step.var for step in found.steps)
    assert first in found.packed and extents(first)[1] == SHAPE[1]
    assert [var in found.packed for var in rest] == [packed] * len(rest)
