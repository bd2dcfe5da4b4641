"""How small networks are drawn."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.backends.packed.drawn import (
    Branches,
    Drawn,
    Excite,
    Gemm,
    Global,
    Head,
    MatMul,
    Move,
    Network,
    Pointwise,
)
from tests.backends.packed.windows import Conv, Pool, Transposed, Window

POINTWISE = (
    "Relu", "clip", "leaky", "prelu", "silu", "HardSwish", "Tanh", "Sigmoid", "Erf", "add input",
    "from input", "gate", "add channels", "times channels", "add image", "times number", "cosine", "softmax",
    "Abs",
)  # fmt: skip
MOVES = ("shuffle", "slice", "pad", "upsample", "transpose")

CHANNELS = st.one_of(st.integers(1, 40), st.sampled_from((3, 4, 8, 16, 24, 32, 40)))
BATCH = st.sampled_from((1, 1, 1, 2, 3))


def triple(low: int, high: int) -> st.SearchStrategy[tuple[int, int, int]]:
    each = st.integers(low, high)
    return st.one_of(each.map(lambda value: (value,) * 3), st.tuples(each, each, each))


def windows(kernel: int = 7, pads: int = 4, auto: bool = True) -> st.SearchStrategy[Window]:
    pad = st.integers(0, pads)
    explicit = st.one_of(
        st.just(((0, 0),) * 3),
        pad.map(lambda value: ((value, value),) * 3),
        st.tuples(*[st.tuples(pad, pad)] * 3),
    )
    plain = st.builds(Window, triple(1, kernel), triple(1, 3), triple(1, 3), explicit)
    usual = st.sampled_from(
        [
            Window((k,) * 3, (s,) * 3, (1,) * 3, ((k // 2, k // 2),) * 3)
            for k in (1, 3, 3, 3, 5)
            for s in (1, 1, 2)
        ]
    )
    if not auto:
        return st.one_of(usual, plain)
    # Of dilated kernels, ONNX's text and its runtimes do not say the same.
    automatic = st.builds(
        lambda taps, stride, pads: Window((max(taps, stride),) * 3, (stride,) * 3, pads=pads),
        st.integers(1, kernel), st.integers(1, 3), st.sampled_from(("SAME_UPPER", "SAME_LOWER", "VALID")),
    )  # fmt: skip
    return st.one_of(usual, plain, automatic)


@st.composite
def convs(draw: Any) -> Conv:
    groups = draw(st.sampled_from((1, 1, 1, 0, 0, 2, 4)))
    filters = draw(CHANNELS if groups == 1 else st.sampled_from((1, 1, 2, 3, 8, 16)))
    if groups == 0:
        filters = min(filters, 3)
    return Conv(filters, draw(windows()), groups, draw(st.booleans()))


TRANSPOSED = st.builds(
    Transposed,
    st.integers(1, 20),
    windows(5, 3, auto=False),
    st.sampled_from((1, 1, 1, 2, 0)),
    st.booleans(),
    triple(0, 2),
)
POOLS = st.one_of(
    st.builds(
        Pool,
        st.sampled_from(("MaxPool", "AveragePool", "LpPool")),
        windows(4, 3),
        st.booleans(),
        st.booleans(),
    ),
    st.builds(Global, st.sampled_from(("GlobalAveragePool", "GlobalMaxPool"))),
)
ELEMENTWISE = st.builds(Pointwise, st.sampled_from(POINTWISE))
EPILOGUE = st.lists(ELEMENTWISE, max_size=3).map(tuple)


def keeping() -> st.SearchStrategy[Any]:
    """Return layers that keep the size."""
    window = st.sampled_from(
        [Window((k,) * 3, (1,) * 3, (d,) * 3, ((k // 2 * d,) * 2,) * 3) for k in (1, 3, 5) for d in (1, 2)]
    )
    conv = st.builds(Conv, CHANNELS, window, st.just(1), st.booleans())
    deep = st.builds(Conv, st.sampled_from((1, 2)), window, st.just(0), st.booleans())
    pool = st.builds(
        Pool, st.sampled_from(("MaxPool", "AveragePool")), st.just(Window((3,) * 3, pads=((1, 1),) * 3))
    )
    return st.one_of(conv, deep, pool, ELEMENTWISE)


BRANCHES = st.builds(
    Branches,
    st.lists(st.lists(keeping(), max_size=3).map(tuple), min_size=2, max_size=4).map(tuple),
    st.booleans(),
)
LAYERS = st.one_of(
    convs(), convs(), ELEMENTWISE, POOLS, BRANCHES, st.builds(Excite, st.integers(1, 20)),
    st.builds(Move, st.sampled_from(MOVES)), TRANSPOSED,
)  # fmt: skip


@st.composite
def shapes(draw: Any, large: int = 20) -> tuple[int, ...]:
    rank = draw(st.sampled_from((2, 2, 2, 1, 3)))
    size = draw(st.lists(st.integers(1, large if rank < 3 else 9), min_size=rank, max_size=rank))
    return (draw(BATCH), draw(CHANNELS), *size)


def of(layers: st.SearchStrategy[Any], epilogue: bool = True) -> st.SearchStrategy[Network]:
    behind = EPILOGUE if epilogue else st.just(())
    return st.builds(lambda shape, layer, rest: Network(shape, (layer, *rest)), shapes(), layers, behind)


@st.composite
def chains(draw: Any) -> Network:
    layers = draw(st.lists(LAYERS, min_size=2, max_size=5))
    if draw(st.integers(0, 3)) == 0:
        layers.append(
            Head(draw(CHANNELS), draw(st.booleans()), draw(st.sampled_from(("Relu", "Softmax", "Identity"))))
        )
    return Network(draw(shapes(14)), tuple(layers))


LEADING = st.sampled_from(((), (), (1,), (3,), (2, 3), (2, 1), (1, 3)))
THEN = st.sampled_from(("Identity", "Relu", "Softmax", "Erf"))
EXTENT = st.integers(1, 40)
GEMMS = st.builds(
    Gemm, EXTENT, EXTENT, EXTENT, st.tuples(st.booleans(), st.booleans()), st.booleans(),
    st.sampled_from(("row", "column", "whole", "number", "none")), st.sampled_from((1.0, 0.25)), THEN,
)  # fmt: skip


@st.composite
def matmuls(draw: Any) -> MatMul:
    left, right = draw(LEADING), draw(LEADING)
    if any(1 not in ends and ends[0] != ends[1] for ends in zip(left[::-1], right[::-1], strict=False)):
        right = left
    rows, inner, columns = draw(EXTENT), draw(EXTENT), draw(EXTENT)
    return MatMul(left, right, rows, inner, columns, draw(st.booleans()), draw(st.booleans()), draw(THEN))


KINDS: dict[str, st.SearchStrategy[Drawn]] = {
    "convolutions": of(convs()),
    "transposed convolutions": of(TRANSPOSED),
    "products": st.one_of(GEMMS, matmuls()),
    "pools": of(POOLS),
    "chains": chains(),
}
ALL: st.SearchStrategy[Drawn] = st.sampled_from((*KINDS, "convolutions", "chains")).flatmap(KINDS.__getitem__)
