"""The packed weight of `implicit-gemm`."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.backends.packed.single import Layer
from toolchain.backends.packed.algorithms.implicit_gemm.choice import (
    ImplicitGemmChoice,
    pack_weight,
    weight_shape,
)
from toolchain.backends.packed.algorithms.implicit_gemm.tensor_cores import place_of_half

LANES = 4


@given(
    ci=st.integers(1, 9),
    co=st.integers(1, 20),
    kernel=st.sampled_from([1, 2, 3]),
    blocks=st.integers(1, 3),
    depth=st.integers(1, 5),
    splits=st.integers(1, 3),
)
def test_each_weight_lies_once_where_its_group_reads_it(
    ci: int, co: int, kernel: int, blocks: int, depth: int, splits: int
) -> None:
    conv = Layer(ci, co, (6, 6), kernel).read()[1]
    choice = ImplicitGemmChoice(blocks, tile=(2, 1), depth=depth, splits=splits)
    weight = np.arange(1, co * ci * kernel * kernel + 1, dtype="float32").reshape(co, ci, kernel, kernel)
    packed = pack_weight(weight, conv, choice, LANES)
    assert packed.shape == weight_shape(conv, choice, LANES)
    wide, inner = choice.channels(LANES), -(-ci // LANES)
    for o, i, y, x in np.ndindex(weight.shape):
        unit = (y * kernel + x) * inner + i // LANES
        assert packed[o // wide, unit, i % LANES, o % wide] == weight[o, i, y, x]
    assert np.count_nonzero(packed) == weight.size


@given(ci=st.integers(1, 40), wide=st.sampled_from([(1, 1), (2, 1), (1, 2)]), depth=st.sampled_from([4, 8]))
def test_halves_copied_one_by_one_lie_as_packed_ones(ci: int, wide: tuple[int, int], depth: int) -> None:
    blocks, across = wide
    choice = ImplicitGemmChoice(blocks, tile=(across, 1), depth=depth, arithmetic="f16")
    columns = choice.channels(LANES)
    conv = Layer(ci, columns, (1, 1), 1, pad=0).read()[1]
    weight = np.arange(1, columns * ci + 1, dtype="float16").reshape(columns, ci, 1, 1)
    flat = pack_weight(weight, conv, choice, LANES).reshape(-1)
    step = depth * LANES * columns
    for o, i in np.ndindex(columns, ci):
        first, unit = i // LANES // depth * step, i // LANES % depth
        assert flat[first + place_of_half(unit, i % LANES, o, columns)] == weight[o, i, 0, 0]
