"""Transposed convolutions: what is one, what meets what, how it is computed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from hypothesis import given
from hypothesis import strategies as st
from tvm import te, tirx, topi

from tests.backends.packed.computed import wrong
from tests.backends.packed.contractions import A72, AVX2, TURNED, WIDE, Turned, seeded
from tests.backends.packed.drawn import Network, Pointwise
from tests.backends.packed.windows import Conv, Window
from tests.backends.packed.windows import Transposed as Layer
from toolchain.backends.packed.algorithms.direct.choice import DirectChoice
from toolchain.backends.packed.algorithms.interleaved import algorithm as interleaved_space
from toolchain.backends.packed.algorithms.interleaved import (
    choice as interleaved_weight,
)
from toolchain.backends.packed.algorithms.interleaved import (
    loops as interleaved,
)
from toolchain.backends.packed.algorithms.interleaved.choice import InterleavedChoice
from toolchain.backends.packed.algorithms.policy import candidates, legal
from toolchain.backends.packed.layout import Layout
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.contraction import recognise
from toolchain.backends.packed.recognise.read import read
from toolchain.backends.packed.recognise.transposed import Transposed, transposed


@pytest.mark.parametrize("case", TURNED, ids=str)
def test_transposed_convolutions_are_recognised(case: Turned) -> None:
    found = recognise(read(case.function()))
    assert isinstance(found, Transposed)
    rank = len(case.size)
    kernel, stride = (case.kernel,) * rank, (case.stride,) * rank
    assert (found.batch, found.ci, found.co, found.groups) == (case.batch, case.ci, case.co, case.groups)
    assert (found.size, found.kernel, found.stride) == (case.size, kernel, stride)
    assert (found.crop, found.dilation) == ((case.crop,) * rank, (1,) * rank)


def turned(change: Callable[[te.Tensor, te.Tensor], tuple[te.Tensor, te.Tensor]]) -> Transposed | None:
    """Return what topi's transposed convolution is taken for, its two operands changed."""
    x, w = te.placeholder((1, 4, 5, 5), name="x"), te.placeholder((4, 4, 3, 3), name="w")
    data, kernel = topi.nn.conv2d_transpose_nchw_preprocess(x, w, (2, 2), (1, 1), "float32", (0, 0))
    data, kernel = change(data, kernel)
    c, h, v = (te.reduce_axis((0, extent)) for extent in (4, 3, 3))
    y = te.compute(
        (1, 4, 9, 9), lambda n, o, i, j: te.sum(data[n, c, i + h, j + v] * kernel[o, c, h, v], axis=[c, h, v])
    )
    return transposed(read(te.create_prim_func([x, w, y])))


def test_near_misses_are_no_transposed_convolutions() -> None:
    assert turned(lambda data, kernel: (data, kernel)) is not None
    assert turned(lambda data, kernel: (topi.nn.relu(data), kernel)) is None
    assert turned(lambda data, kernel: (data, topi.nn.relu(kernel))) is None
    assert turned(lambda data, kernel: (topi.flip(data, 3), kernel)) is None
    assert turned(lambda data, kernel: (data, topi.flip(kernel, 3))) is None
    assert turned(lambda data, kernel: (topi.add(data, 1.0), kernel)) is None


@pytest.mark.slow
@given(*[st.integers(1, 6)] * 3, st.integers(0, 5), st.integers(0, 3), st.integers(1, 3))
def test_phases_meet_every_output_and_tap_once(
    size: int, kernel: int, stride: int, crop: int, more: int, dilation: int
) -> None:
    out = (size - 1) * stride + dilation * (kernel - 1) + 1 - crop + more
    if out < 1:
        return
    none = tirx.decl_buffer((1,), "float32")
    contraction = Transposed(
        1, 1, 1, 1, (size,), (kernel,), (out,), (stride,), (dilation,), none, none, none, (crop,)
    )
    met = []
    before, after = contraction.pads
    for phase in contraction.phases(0):
        for place in range(contraction.places(0, phase)):
            for j in range(phase.taps):
                source = place + phase.offset - j * phase.back
                assert -before <= source < size + after
                met.append((place * stride + phase.remainder, phase.first + j * phase.step, source))
    wanted = [
        (o, tap, (o + crop - tap * dilation) // stride)
        for o in range(out)
        for tap in range(kernel)
        if (o + crop - tap * dilation) % stride == 0
    ]
    assert sorted(met) == sorted(wanted)


@pytest.mark.parametrize("machine", [WIDE, AVX2, A72], ids=["16", "8", "4"])
@pytest.mark.parametrize("case", TURNED[:3], ids=str)
def test_candidates_are_legal(case: Turned, machine: Machine) -> None:
    contraction = recognise(read(case.function()))
    assert contraction is not None
    found = candidates(contraction, machine)
    assert found[0] == interleaved_space.default(contraction, machine)
    assert all(legal(choice, contraction, machine) for choice in found)
    for other in (DirectChoice(), InterleavedChoice(7), InterleavedChoice(1, 0)):
        assert not legal(other, contraction, machine)


@pytest.mark.slow
def test_every_candidate_computes_the_transposed_convolution() -> None:
    case = Turned((5, 6), 16, 32, 3, stride=2, crop=1, more=1)
    found = read(case.function())
    contraction = recognise(found)
    _function, (x, _packed, out), expected = case.made(WIDE)
    weight = seeded(*[tuple(map(int, param.shape)) for param in found.params[:-1]])[1]
    assert isinstance(contraction, Transposed)
    layouts = [Layout(16, contraction.pads), None, case.layout(WIDE)]
    for choice in candidates(contraction, WIDE):
        function = interleaved.interleaved(found, contraction, choice, layouts, WIDE)
        library = tvm.compile(tvm.IRModule({"main": function}), target="llvm")
        packed = interleaved_weight.pack_weight(weight, contraction, choice, 16, 16)
        result = tvm.runtime.tensor(out)
        library["main"](*map(tvm.runtime.tensor, (x, packed)), result)
        np.testing.assert_allclose(
            case.plain(result.numpy(), WIDE), expected, rtol=1e-4, atol=1e-5, err_msg=str(choice)
        )


@pytest.mark.slow
@pytest.mark.parametrize("machine", [WIDE, A72], ids=["16 lanes", "4 lanes"])
def test_networks_compute_what_onnxruntime_does(machine: Machine) -> None:
    def window(kernel: int, stride: int, pad: int, dilation: int = 1) -> Window:
        return Window((kernel,) * 3, (stride,) * 3, (dilation,) * 3, ((pad, pad),) * 3)

    networks = [
        Network(shape, (Conv(32, window(3, 1, 1)), layer, Pointwise("Sigmoid"), Conv(5, window(3, 1, 1))))
        for shape, layer in (
            ((2, 3, 6, 7), Layer(20, window(3, 2, 1), more=(1, 1, 1))),
            ((1, 3, 6, 7), Layer(16, window(4, 2, 1))),
            ((1, 3, 5, 5), Layer(8, window(3, 2, 1, 2))),
            ((2, 3, 9), Layer(16, window(5, 3, 1), more=(2, 2, 2))),
            ((1, 3, 3, 4, 4), Layer(16, window(2, 2, 0))),
            ((1, 3, 6, 7), Layer(16, window(3, 2, 1), groups=2)),
        )
    ]
    assert not wrong(networks, machine)
