"""Winograd's functions against sums in double precision, and against onnxruntime."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

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
from toolchain.building.cpu import winograd
from toolchain.building.cpu.choice import Choice
from toolchain.building.cpu.convolution import Convolution, convolution
from toolchain.building.cpu.core import Core
from toolchain.building.cpu.layout import Array, Layout, dense_layout
from toolchain.building.cpu.read import Read, read, shape_of
from toolchain.building.cpu.transforms import SIZES, applied, matrices
from toolchain.building.cpu.winograd_tile import legal
from toolchain.building.pipeline import fuse

TARGET = tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v3"})
AVX512 = Core(16, 32, "broadcast", 1)
AVX2 = Core(8, 16, "broadcast", 2)
AARCH64 = Core(4, 32, "lanes", 2)
ARMV7 = Core(4, 16, "lanes", 2)


@dataclass(frozen=True)
class Layer:
    """A convolution with a bias; then nothing, `Relu`, or `Add` of a second input and Relu."""

    ci: int = 16
    co: int = 16
    size: tuple[int, int] = (9, 9)
    pads: tuple[int, int, int, int] = (1, 1, 1, 1)
    batch: int = 1
    then: str = ""

    def run(self, choice: Choice, core: Core, out_halo: tuple[int, ...] = (0, 0, 0, 0)) -> float:
        """Return the largest error against double precision, by the largest output."""
        random = np.random.default_rng(self.ci * 1000 + self.co)
        top, left, bottom, right = self.pads
        out = (self.size[0] + top + bottom - 2, self.size[1] + left + right - 2)
        values = {
            "x": random.standard_normal((self.batch, self.ci, *self.size)),
            "w": random.standard_normal((self.co, self.ci, 3, 3)) / np.sqrt(9 * self.ci),
            "b": random.standard_normal((self.co,)),
            "r": random.standard_normal((self.batch, self.co, *out)),
        }
        floats = {name: value.astype("f4") for name, value in values.items()}
        read_of, conv = self._read(floats)
        around = Layout(core.lanes, winograd.halo(conv, choice.tile))
        layout = Layout(core.lanes, out_halo)
        layouts: list[Layout | None] = []
        arguments: list[Array] = []
        for param in read_of.params:
            shape = shape_of(param)
            if param.same_as(conv.x):
                layouts.append(around)
                arguments.append(around.pack(floats["x"]))
            elif param.same_as(conv.weight):
                layouts.append(None)
                arguments.append(winograd.pack_weight(floats["w"], conv, choice, core.lanes))
            elif param.same_as(read_of.output):
                layouts.append(layout)
                arguments.append(np.full(layout.shape(shape), np.nan, "f4"))
            else:
                dense = dense_layout(core.lanes, len(shape))
                layouts.append(dense)
                value = floats["b"] if shape[0] == 1 and shape[2:] == (1, 1) else floats["r"]
                arguments.append(dense.pack(value.reshape(shape)))
        made = winograd.winograd(read_of, conv, choice, layouts, core)
        library = tvm.compile(tvm.IRModule({"main": made.with_attr("global_symbol", "main")}), TARGET)
        tensors = [tvm.runtime.tensor(each) for each in arguments]
        library["main"](*tensors)
        packed = tensors[-1].numpy()
        found = layout.unpack(packed, (self.batch, self.co, *out))
        assert np.array_equal(packed, layout.pack(found)), "what lies around the values is zero"
        want = self._want(floats, out)
        return float(np.abs(found - want).max() / np.abs(want).max())

    def _read(self, floats: dict[str, Array]) -> tuple[Read, Convolution]:
        nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"], kernel_shape=[3, 3], pads=self.pads)]
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
        for i, j in product(range(3), repeat=2):
            total += np.einsum("oi,nihw->nohw", w[:, :, i, j], x[:, :, i : i + out[0], j : j + out[1]])
        if self.then == "Add":
            total = total + r
        return np.maximum(total, 0) if self.then else total


# Of the largest output, with 16 to 64 input channels: about four times what was seen.
BOUND = {2: 2e-6, 3: 5e-6, 4: 1e-5, 6: 3e-5}


@pytest.mark.parametrize("m", SIZES)
def test_matrices_compute_a_convolution(m: int) -> None:
    inputs, filters, outputs = (
        np.array(each, dtype=float) for each in (matrices(m).inputs, matrices(m).filters, matrices(m).outputs)
    )
    random = np.random.default_rng(0)
    d, g = random.random(m + 2), random.random(3)
    assert np.allclose(outputs @ ((filters @ g) * (inputs @ d)), np.correlate(d, g))


@pytest.mark.parametrize("m", SIZES)
def test_matrices_are_exact_where_they_are_applied(m: int) -> None:
    for row in (*matrices(m).inputs, *matrices(m).outputs):
        assert all(float(np.float32(float(each))) == each for each in row)


@pytest.mark.parametrize("m", SIZES)
def test_products_with_the_matrices_share_terms(m: int) -> None:
    for matrix in (matrices(m).inputs, matrices(m).outputs):
        numbers = np.random.default_rng(1).random(len(matrix[0]))
        shared = [float(each) for each in applied(matrix, [tirx.const(each, "float64") for each in numbers])]
        assert np.allclose(shared, np.array(matrix, dtype=float) @ numbers)


CASES = [
    # every F, lanes and form
    *[(Layer(), Choice("winograd", 1, 3, tile=m), AVX512) for m in SIZES],
    *[(Layer(then="Relu"), Choice("winograd", 2, 4, tile=m), AVX2) for m in SIZES],
    *[(Layer(then="Add"), Choice("winograd", 2, 8, tile=m, order="channels"), AARCH64) for m in (2, 4)],
    (Layer(then="Relu"), Choice("winograd", 2, 4, tile=3), ARMV7),
    # batches, bands of rows that do not divide the image, channels that are no multiple of the lanes
    (Layer(24, 40, (13, 7), batch=2), Choice("winograd", 1, 2, 2, 4), AVX512),
    (Layer(20, 12, (11, 17), batch=3, then="Add"), Choice("winograd", 2, 4, 4, 2), AVX2),
    (Layer(20, 12, (11, 17), batch=2), Choice("winograd", 1, 5, tile=4, order="channels"), AARCH64),
    # pads
    (Layer(pads=(0, 0, 0, 0)), Choice("winograd", 2, 4, tile=4), AVX2),
    (Layer(pads=(2, 2, 2, 2), then="Relu"), Choice("winograd", 2, 4, tile=4, order="channels"), AVX2),
    (Layer(size=(6, 9), pads=(0, 2, 1, 0)), Choice("winograd", 1, 6, 3, 3), AVX2),
    # images smaller than a tile
    (Layer(size=(3, 1)), Choice("winograd", 2, 6, tile=6), AVX2),
]  # fmt: skip


@pytest.mark.parametrize(("layer", "choice", "core"), CASES)
def test_the_sums_are_right(layer: Layer, choice: Choice, core: Core) -> None:
    assert layer.run(choice, core, (0, 1, 2, 0)) < BOUND[choice.tile]


@settings(max_examples=8, deadline=None)
@given(
    layer=st.builds(
        Layer,
        ci=st.integers(8, 33),
        co=st.integers(8, 33),
        size=st.tuples(st.integers(3, 15), st.integers(3, 15)),
        pads=st.tuples(*[st.integers(0, 2)] * 4),
        batch=st.integers(1, 3),
        then=st.sampled_from(["", "Relu", "Add"]),
    ),
    choice=st.builds(
        Choice,
        st.just("winograd"),
        st.integers(1, 2),
        st.integers(1, 6),
        st.integers(1, 4),
        st.sampled_from([2, 3, 4]),
        st.sampled_from(["rows", "channels"]),
    ),
    halo=st.tuples(*[st.integers(0, 2)] * 4),
)
@pytest.mark.slow
def test_any_shape(layer: Layer, choice: Choice, halo: tuple[int, ...]) -> None:
    blocks = -(-layer.co // AVX2.lanes)
    choice = replace(choice, blocks=choice.blocks if blocks % choice.blocks == 0 else 1)
    assert layer.run(choice, AVX2, halo) < 2 * BOUND[choice.tile]


def test_the_error_stays_near_onnxruntimes_with_many_channels() -> None:
    layer = Layer(256, 32, (14, 14))
    errors = [layer.run(Choice("winograd", 2, 6, tile=m), AVX2) for m in (2, 4)]
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
    good = Choice("winograd", 2, 6, tile=4)
    assert legal(good, conv, AVX2)
    for changed in (
        {"columns": 7}, {"columns": 0}, {"blocks": 3, "columns": 2}, {"tile": 5}, {"tile": 0}, {"rows": 0},
        {"flat": True}, {"algorithm": "direct"},
    ):  # fmt: skip
        assert not legal(replace(good, **changed), conv, AVX2)
    assert not legal(good, replace(conv, stride=(2, 2)), AVX2)
    assert not legal(good, replace(conv, ci=3), AVX2)
