"""Winograd's functions against sums in double precision, and against onnxruntime."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import onnxruntime
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from tvm import tirx
from tvm.relax.frontend.onnx import from_onnx

from tests.models.graphs import graph_of, tensor_info
from toolchain.arrays import Array
from toolchain.backends.packed import machines
from toolchain.backends.packed.algorithms.algorithm import Order
from toolchain.backends.packed.algorithms.winograd import loops as winograd
from toolchain.backends.packed.algorithms.winograd import transforms as winograd_weight
from toolchain.backends.packed.algorithms.winograd.algorithm import legal
from toolchain.backends.packed.algorithms.winograd.transforms import (
    WinogradChoice,
    applied,
    matrices,
    points,
    sizes,
    summed,
)
from toolchain.backends.packed.layout import Layout, dense_layout
from toolchain.backends.packed.machine import FLOATS, Machine
from toolchain.backends.packed.recognise.convolution import Convolution, convolution
from toolchain.backends.packed.recognise.read import Read, read, shape_of
from toolchain.lowering.graph.pipeline import fuse

TARGET = tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v3"})
AVX512 = machines.AVX512.of(1)
AVX2 = machines.AVX2.of(2)
AARCH64 = machines.AARCH64.of(2)
ARMV7 = machines.ARMV7.of(2)


@dataclass(frozen=True)
class Layer:
    """A convolution with a bias; then nothing, `Relu`, or `Add` of a second input and Relu."""

    ci: int = 16
    co: int = 16
    size: tuple[int, int] = (9, 9)
    pads: tuple[int, int, int, int] = (1, 1, 1, 1)
    batch: int = 1
    then: str = ""
    kernel: tuple[int, int] = (3, 3)

    def run(
        self, choice: WinogradChoice, machine: Machine, out_halo: tuple[int, ...] = (0, 0, 0, 0)
    ) -> float:
        """Return the largest error against double precision, by the largest output."""
        random = np.random.default_rng(self.ci * 1000 + self.co)
        top, left, bottom, right = self.pads
        high, wide = self.kernel
        out = (self.size[0] + top + bottom - high + 1, self.size[1] + left + right - wide + 1)
        values = {
            "x": random.standard_normal((self.batch, self.ci, *self.size)),
            "w": random.standard_normal((self.co, self.ci, *self.kernel)) / np.sqrt(high * wide * self.ci),
            "b": random.standard_normal((self.co,)),
            "r": random.standard_normal((self.batch, self.co, *out)),
        }
        floats = {name: value.astype("f4") for name, value in values.items()}
        read_of, conv = self._read(floats)
        assert legal(choice, conv, machine)
        around = Layout(machine.lanes, winograd_weight.halo(conv, choice.tile))
        layout = Layout(machine.lanes, out_halo)
        layouts: list[Layout | None] = []
        arguments: list[Array] = []
        for param in read_of.params:
            shape = shape_of(param)
            if param.same_as(conv.x):
                layouts.append(around)
                arguments.append(around.pack(floats["x"]))
            elif param.same_as(conv.weight):
                layouts.append(None)
                arguments.append(
                    winograd_weight.pack_weight(floats["w"], conv, choice, machine.lanes, FLOATS[0])
                )
            elif param.same_as(read_of.output):
                layouts.append(layout)
                arguments.append(np.full(layout.shape(shape), np.nan, "f4"))
            else:
                dense = dense_layout(machine.lanes, len(shape))
                layouts.append(dense)
                value = floats["b"] if shape[0] == 1 and shape[2:] == (1, 1) else floats["r"]
                arguments.append(dense.pack(value.reshape(shape)))
        made = winograd.winograd(read_of, conv, choice, layouts, machine)
        library = tvm.compile(tvm.IRModule({"main": made.with_attr("global_symbol", "main")}), TARGET)
        tensors = [tvm.runtime.tensor(each) for each in arguments]
        library["main"](*tensors)
        packed = tensors[-1].numpy()
        found = layout.unpack(packed, (self.batch, self.co, *out))
        assert np.array_equal(packed, layout.pack(found)), "what lies around the values is zero"
        want = self._want(floats, out)
        return float(np.abs(found - want).max() / np.abs(want).max())

    def _read(self, floats: dict[str, Array]) -> tuple[Read, Convolution]:
        nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"], kernel_shape=self.kernel, pads=self.pads)]
        inputs = [tensor_info("x", floats["x"].shape)]
        if self.then == "Add":
            nodes.append(helper.make_node("Add", ["c", "r"], ["a"]))
            inputs.append(tensor_info("r", floats["r"].shape))
        if self.then:
            nodes.append(helper.make_node("Relu", [nodes[-1].output[0]], ["y"]))
        last = tensor_info(nodes[-1].output[0], floats["r"].shape)
        model = graph_of(nodes, inputs, [last], {name: floats[name] for name in "wb"})
        fused = fuse(from_onnx(model, keep_params_in_input=False), TARGET, "NCHW")
        for func in fused.functions.values():
            if isinstance(func, tirx.PrimFunc):
                found = read(func)
                conv = convolution(found)
                if conv is not None:
                    return found, conv
        raise AssertionError("no convolution")

    def _want(self, floats: dict[str, Array], out: tuple[int, int]) -> Array:
        x, w, b, r = (floats[name].astype("f8") for name in "xwbr")
        top, left, bottom, right = self.pads
        x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
        total: Array = np.zeros((self.batch, self.co, *out)) + b[:, None, None]
        for i, j in np.ndindex(*self.kernel):
            total += np.einsum("oi,nihw->nohw", w[:, :, i, j], x[:, :, i : i + out[0], j : j + out[1]])
        if self.then == "Add":
            total = total + r
        return np.maximum(total, 0) if self.then else total


# Of the largest output, with 16 to 64 input channels, by points: about four times what was seen.
BOUND = {4: 2e-6, 5: 5e-6, 6: 1e-5, 8: 3e-5}
SIZES = [(m, taps) for taps in range(2, 8) for m in sizes(taps)]


def square(m: int, blocks: int, columns: int, rows: int = 1, order: Order = "rows") -> WinogradChoice:
    """Return the choice of F(m x m, k x k)."""
    return WinogradChoice(blocks, columns, rows, (m, m), order)


def bound(layer: Layer, choice: WinogradChoice) -> float:
    """Return what the largest error may be."""
    return BOUND[max(points(layer.kernel, choice.tile))]


@pytest.mark.parametrize(("m", "taps"), SIZES)
def test_matrices_compute_a_convolution(m: int, taps: int) -> None:
    made = matrices(m, taps)
    inputs, filters, outputs = (np.array(each, float) for each in (made.inputs, made.filters, made.outputs))
    random = np.random.default_rng(0)
    d, g = random.random(m + taps - 1), random.random(taps)
    assert np.allclose(outputs @ ((filters @ g) * (inputs @ d)), np.correlate(d, g))


@pytest.mark.parametrize(("m", "taps"), SIZES)
def test_matrices_are_exact_where_they_are_applied(m: int, taps: int) -> None:
    for row in (*matrices(m, taps).inputs, *matrices(m, taps).outputs):
        assert all(float(np.float32(float(each))) == each for each in row)


@pytest.mark.parametrize(("m", "taps"), [*SIZES, (1, 3)])
def test_products_with_the_matrices_share_terms(m: int, taps: int) -> None:
    for matrix in (matrices(m, taps).inputs, matrices(m, taps).outputs):
        numbers = np.random.default_rng(1).random(len(matrix[0]))
        shared = [float(each) for each in applied(matrix, [tirx.const(each, "float64") for each in numbers])]
        assert np.allclose(shared, np.array(matrix, dtype=float) @ numbers)


def test_sizes_are_of_kernels_of_several_taps() -> None:
    assert [sizes(taps) for taps in (1, 3, 5, 7, 9)] == [(), (2, 3, 4, 6), (2, 4), (2,), ()]


CASES = [
    # every F, lanes and form
    *[(Layer(), square(m, 1, 3), AVX512) for m in sizes(3)],
    *[(Layer(then="Relu"), square(m, 2, 4), AVX2) for m in sizes(3)],
    *[(Layer(then="Add"), square(m, 2, 8, order="channels"), AARCH64) for m in (2, 4)],
    (Layer(then="Relu"), square(3, 2, 4), ARMV7),
    # other kernels; one axis alone, the other's taps summed up
    (Layer(kernel=(5, 5), pads=(2, 2, 2, 2)), square(2, 2, 5), AVX2),
    (Layer(kernel=(4, 4), pads=(1, 2, 2, 1)), square(3, 2, 5), AVX2),
    (Layer(kernel=(1, 7), pads=(0, 3, 0, 3), then="Add"), WinogradChoice(1, 4, 2, (1, 2)), AVX512),
    (Layer(kernel=(7, 1), pads=(3, 0, 3, 0), then="Relu"), WinogradChoice(2, 4, 2, (2, 1)), AVX2),
    (Layer(kernel=(3, 1), pads=(1, 0, 1, 0)), WinogradChoice(2, 8, 1, (6, 1), "channels"), AARCH64),
    (Layer(24, 40, (13, 7), batch=2), WinogradChoice(1, 5, 4, (1, 2)), AVX512),
    (Layer(20, 12, (7, 7), then="Add"), WinogradChoice(2, 6, 1, (1, 2), "channels"), AVX2),
    (Layer(20, 12, (7, 9), then="Relu"), WinogradChoice(3, 6, 3, (1, 4)), AARCH64),
    (Layer(kernel=(5, 3), pads=(2, 1, 2, 1)), WinogradChoice(2, 4, 2, (1, 3)), ARMV7),
    # batches, bands of rows that do not divide the image, channels that are no multiple of the lanes
    (Layer(24, 40, (13, 7), batch=2), square(4, 1, 2, 2), AVX512),
    (Layer(20, 12, (11, 17), batch=3, then="Add"), square(2, 2, 4, 4), AVX2),
    (Layer(20, 12, (11, 17), batch=2), square(4, 1, 5, order="channels"), AARCH64),
    (Layer(20, 12, (9, 8), batch=2, kernel=(1, 3), pads=(0, 1, 0, 1)),
     WinogradChoice(1, 5, 1, (1, 4), "channels"), AVX2),
    # pads
    (Layer(pads=(0, 0, 0, 0)), square(4, 2, 4), AVX2),
    (Layer(pads=(2, 2, 2, 2), then="Relu"), square(4, 2, 4, order="channels"), AVX2),
    (Layer(size=(6, 9), pads=(0, 2, 1, 0)), square(3, 1, 6, 3), AVX2),
    # images smaller than a tile
    (Layer(size=(3, 2)), square(6, 2, 6), AVX2),
]  # fmt: skip


QUICK = 2  # of them are enough while one works


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layer", "choice", "machine"),
    [*CASES[:QUICK], *(pytest.param(*case, marks=pytest.mark.slow) for case in CASES[QUICK:])],
)
def test_the_sums_are_right(layer: Layer, choice: WinogradChoice, machine: Machine) -> None:
    assert layer.run(choice, machine, (0, 1, 2, 0)) < bound(layer, choice)


KERNELS = [
    *[((3, 3), tile) for tile in ((2, 2), (3, 3), (4, 4), (1, 2), (1, 3), (1, 4))],
    *[((5, 5), (2, 2)), ((5, 3), (4, 4)), ((4, 4), (3, 3)), ((2, 5), (1, 2))],
    *[((1, 7), (1, 2)), ((7, 1), (2, 1)), ((1, 3), (1, 3)), ((3, 1), (4, 1))],
]


@settings(max_examples=16)
@given(
    layer=st.builds(
        Layer,
        ci=st.integers(8, 33),
        co=st.integers(8, 33),
        size=st.tuples(st.integers(7, 15), st.integers(7, 15)),
        pads=st.tuples(*[st.integers(0, 3)] * 4),
        batch=st.integers(1, 3),
        then=st.sampled_from(["", "Relu", "Add"]),
    ),
    kernel=st.sampled_from(KERNELS),
    choice=st.builds(
        WinogradChoice,
        st.integers(1, 2),
        st.integers(1, 6),
        st.integers(1, 4),
        order=st.sampled_from(["rows", "channels"]),
    ),
    halo=st.tuples(*[st.integers(0, 2)] * 4),
)
@pytest.mark.slow
def test_any_shape(
    layer: Layer,
    kernel: tuple[tuple[int, int], tuple[int, int]],
    choice: WinogradChoice,
    halo: tuple[int, ...],
) -> None:
    layer, choice = replace(layer, kernel=kernel[0]), replace(choice, tile=kernel[1])
    if -(-layer.co // AVX2.lanes) % choice.blocks:
        choice = replace(choice, blocks=1)
    if layer.batch > 1 and summed(*kernel) > 1:
        choice = replace(choice, order="rows")
    assert layer.run(choice, AVX2, halo) < 2 * bound(layer, choice)


@pytest.mark.slow
def test_the_error_stays_near_onnxruntimes_with_many_channels() -> None:
    layer = Layer(256, 32, (14, 14))
    errors = [layer.run(square(m, 2, 6), AVX2) for m in (2, 4)]
    assert errors[0] < 5e-6 and errors[1] < 1e-5


def test_onnxruntime_agrees() -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((1, 16, 9, 9)).astype("f4")
    w = random.standard_normal((16, 16, 3, 3)).astype("f4")
    node = helper.make_node("Conv", ["x", "w"], ["y"], kernel_shape=[3, 3], pads=[1] * 4)
    model = graph_of([node], [tensor_info("x", x.shape)], [tensor_info("y", x.shape)], {"w": w})
    want = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})[0]
    floats = {"x": x, "w": w, "b": np.zeros(16, "f4"), "r": want}
    assert np.allclose(Layer()._want(floats, (9, 9)), want, atol=1e-4)


def test_a_choice_that_the_registers_do_not_hold_is_not_legal() -> None:
    _read, conv = Layer()._read({name: np.zeros(shape, "f4") for name, shape in {
        "x": (1, 16, 9, 9), "w": (16, 16, 3, 3), "b": (16,), "r": (1, 16, 9, 9)}.items()})  # fmt: skip
    good = square(4, 2, 6)
    assert legal(good, conv, AVX2)
    changes = [
        {"columns": 7}, {"columns": 0}, {"blocks": 3, "columns": 2}, {"tile_rows": 0},
        {"tile": ()}, {"tile": (4,)}, {"tile": (1, 1)}, {"tile": (5, 5)},
        {"tile": (2, 4)}, {"tile": (4, 1)},
    ]  # fmt: skip
    for changed in changes:
        assert not legal(replace(good, **changed), conv, AVX2)
    assert not legal(good, replace(conv, stride=(2, 2)), AVX2)
    assert not legal(good, replace(conv, ci=3), AVX2)
    row = replace(good, tile=(1, 2), order="channels")
    assert legal(row, conv, AVX2)
    assert not legal(row, replace(conv, batch=2), AVX2), "taps of other images would be summed up"
    assert legal(replace(row, order="rows"), replace(conv, batch=2), AVX2)
