"""Where a function's values lie: parameters as they are handed over, the rest where there is room."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import tvm_ffi
from tvm import te, tirx, topi
from tvm.ir.expr import TensorLoad
from tvm.tirx.script.builder import ir

from tests.backends.packed.numbers import number
from toolchain.backends.packed.layout import Layout, Layouts, dense_layout
from toolchain.backends.packed.loops.emitter import FunctionStorage
from toolchain.backends.packed.loops.function import build
from toolchain.backends.packed.loops.nest import Nest
from toolchain.backends.packed.machines import AVX2
from toolchain.backends.packed.recognise.read import Read, UnreadableError, read, shape_of

LANES = AVX2.lanes
PACKED = Layout(LANES, (1, 1, 1, 1))


def pooled(shape: tuple[int, ...] = (1, 12, 6, 6)) -> Read:
    """Return a sum and what it is divided by: two stages behind one input."""
    x = te.placeholder(shape, name="x")
    total = topi.sum(x, [2, 3], keepdims=True)
    return read(te.create_prim_func([x, topi.divide(x, total)]))


def tried(found: Read, layouts: Layouts, check: Callable[[FunctionStorage], None]) -> tirx.PrimFunc:
    def body(nest: Nest) -> None:
        check(FunctionStorage(nest, found, layouts))

    return build(AVX2, body)


def test_a_parameter_is_as_large_as_its_layout_and_read_at_its_place() -> None:
    found = pooled()

    def check(memory: FunctionStorage) -> None:
        x, out = found.params
        new, layout = memory.where(x) or (None, None)
        assert layout == PACKED and new is not None
        assert shape_of(new) == PACKED.shape((1, 12, 6, 6)) == (1, 2, 8, 8, LANES)
        plain, none = memory.where(out) or (None, None)
        assert none is None and plain is not None and shape_of(plain) == (1, 12, 6, 6)
        index = [tirx.IntImm("int32", place) for place in (0, 9, 2, 3)]
        load = memory.load(x, index, memory.analyzer)
        assert isinstance(load, TensorLoad)
        assert [number(place) for place in load.indices] == [
            0,
            1,
            3,
            4,
            1,
        ]
        same = memory.load(out, index, memory.analyzer)
        assert isinstance(same, TensorLoad)
        assert [number(place) for place in same.indices] == [0, 9, 2, 3]
        ir.evaluate(0)

    func = tried(found, (PACKED, None), check)
    assert len(func.params) == 2


def test_what_is_stored_nowhere_is_computed_where_it_is_read() -> None:
    found = pooled()
    inner = found.stages[0].buffer

    def check(memory: FunctionStorage) -> None:
        assert memory.where(inner) is None
        assert memory.load(inner, list(inner.shape), memory.analyzer) is None
        memory.allocate(inner)
        new, _ = memory.where(inner) or (None, None)
        assert new is not None and memory.load(inner, [0, 0, 0, 0], memory.analyzer) is not None
        ir.evaluate(0)

    tried(found, (PACKED, None), check)


@pytest.mark.parametrize(
    ("shape", "layouts", "packed"),
    [
        ((1, 12, 6, 6), (PACKED, None), True),
        ((1, 12, 6, 6), (None, None), False),  # no parameter of these channels is packed
        ((1, 12, 1, 1), (Layout(LANES, (0, 0, 0, 0)), None), False),  # a row of numbers
    ],
)
def test_a_value_inside_is_packed_like_the_parameters_of_its_channels(
    shape: tuple[int, ...], layouts: Layouts, packed: bool
) -> None:
    x = te.placeholder(shape, name="x")
    inner = topi.exp(x)
    found = read(te.create_prim_func([x, topi.nn.relu(inner)]))

    def check(memory: FunctionStorage) -> None:
        memory.allocate(found.stages[0].buffer)
        new, layout = memory.where(found.stages[0].buffer) or (None, None)
        assert new is not None and layout == (dense_layout(LANES, 4) if packed else None)
        assert shape_of(new) == (shape if layout is None else layout.shape(shape))
        ir.evaluate(0)

    tried(found, layouts, check)


def extremes() -> Read:
    """Return where the largest of each row is and how large it is: one stage of two outputs."""
    x = te.placeholder((1, 12, 6, 9), name="x")
    larger = te.comm_reducer(
        lambda a, b: (tirx.Select(a[1] >= b[1], a[0], b[0]), tirx.max(a[1], b[1])),
        lambda place, value: (tirx.const(-1, place), tirx.min_value(value)),
    )
    k = te.reduce_axis((0, 9), name="k")
    place, value = te.compute((1, 12, 6), lambda *i: larger((k, x[(*i, k)]), axis=k), name="extreme")
    return read(te.create_prim_func([x, place, value]))


@pytest.mark.parametrize(
    "layouts", [(None, None, None), (None, Layout(LANES, (0, 0)), Layout(LANES, (0, 0)))]
)
def test_parts_of_one_stage_lie_alike(layouts: Layouts) -> None:
    found = extremes()
    (stage,) = found.stages

    def check(memory: FunctionStorage) -> None:
        buffers, layout = memory.targets(stage)
        assert layout == layouts[1] and [str(buffer.dtype) for buffer in buffers] == ["int32", "float32"]
        ir.evaluate(0)

    tried(found, layouts, check)


def test_parts_of_one_stage_in_several_layouts_are_refused() -> None:
    found = extremes()

    def check(memory: FunctionStorage) -> None:
        with pytest.raises(UnreadableError, match="stores values in several layouts"):
            memory.targets(found.stages[0])
        ir.evaluate(0)

    tried(found, (None, Layout(LANES, (0, 0)), None), check)


@pytest.mark.parametrize(("extent", "parallel"), [(4, False), (400, True)])
def test_too_little_to_do_wakes_no_other_core(extent: int, parallel: bool) -> None:
    x = te.placeholder((1, 16, extent, extent), name="x")
    found = read(te.create_prim_func([x, topi.nn.relu(x)]))

    def check(memory: FunctionStorage) -> None:
        with memory.pieces([extent], found.stages[0]) as place:
            ir.evaluate(place[0])

    loops: list[tirx.For] = []
    func = tried(found, (None, None), check)
    tvm_ffi.structural_walk(func.body, [(tirx.For, loops.append)])
    assert [loop.kind == tirx.ForKind.PARALLEL for loop in loops] == [parallel]


def test_a_costly_operator_is_worth_it_earlier() -> None:
    """Of 2000 elements: adding is done at once, exp is shared out."""
    x = te.placeholder((1, 20, 10, 10), name="x")
    kinds = []
    for made in (topi.add(x, x), topi.exp(x)):
        found = read(te.create_prim_func([x, made]))

        def check(memory: FunctionStorage, found: Read = found) -> None:
            with memory.pieces([20], found.stages[0]) as place:
                ir.evaluate(place[0])

        loops: list[tirx.For] = []
        func = tried(found, (None, None), check)
        tvm_ffi.structural_walk(func.body, [(tirx.For, loops.append)])
        kinds.append(loops[0].kind == tirx.ForKind.PARALLEL)
    assert kinds == [False, True]
