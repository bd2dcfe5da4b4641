"""The builder of zoo networks knows the shapes that ONNX infers."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from toolchain.models.preparing.infer_shapes import infer_shapes
from toolchain.models.preparing.tensor_types import dimensions
from toolchain.models.zoo.graph_builder import GraphBuilder, Window


@st.composite
def windows(draw: st.DrawFn, axes: int) -> Window:
    """Draw a window, square or not; onnxruntime refuses padding that is no smaller than the kernel."""
    kernel = draw(st.one_of(st.integers(1, 4), st.tuples(*[st.integers(1, 4)] * axes)))
    smallest = kernel if isinstance(kernel, int) else min(kernel)
    return Window(
        kernel=kernel,
        stride=draw(st.one_of(st.integers(1, 3), st.tuples(*[st.integers(1, 3)] * axes))),
        padding=draw(st.integers(0, smallest - 1)),
    )


@pytest.mark.slow
@settings(max_examples=60)
@given(st.data(), st.integers(1, 3))
def test_shapes_are_those_of_onnx(data: st.DataObject, axes: int) -> None:
    extents = data.draw(st.lists(st.integers(12, 16), min_size=axes, max_size=axes))
    conv, maximum, mean = (data.draw(windows(axes)) for _ in range(3))
    net = GraphBuilder("drawn", (2, 4, *extents), seed=0)
    x = net.conv_bn_relu("conv", net.data, 6, groups=2, **conv)
    assume(min(net.shape(x)[2:]) >= 4)  # the poolings' largest kernel
    ends = [net.max_pool("max", x, **maximum), net.average_pool("mean", x, **mean)]
    y = net.concat("concat", x, net.add("add", x, x), net.relu("relu", x))
    net.dense("dense", net.flatten("flat", y), 5)
    ends.append(net.global_average_pool("global", y))
    graph = infer_shapes(net.finish(net.dense("logits", net.flatten("flatten", ends[-1]), 3)), "drawn").graph
    known = {value.name: dimensions(value) for value in (*graph.value_info, *graph.output)}
    assert len(known) == len(graph.node)
    for name, shape in known.items():
        assert net.shape(name) == shape
