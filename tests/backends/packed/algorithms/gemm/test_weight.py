"""The packed weight of `gemm`."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.backends.packed.contractions import Product
from toolchain.backends.packed.algorithms.gemm.algorithm import GemmChoice, pack_weight, weight_shape
from toolchain.backends.packed.recognise.contraction import Matmul, recognise
from toolchain.backends.packed.recognise.read import read

LANES = 4


@given(
    inner=st.integers(1, 30), columns=st.integers(2, 40), blocks=st.integers(1, 3), splits=st.integers(1, 3)
)
def test_each_weight_lies_once_where_its_group_reads_it(
    inner: int, columns: int, blocks: int, splits: int
) -> None:
    product = recognise(read(Product(3, inner, columns).function()))
    assert isinstance(product, Matmul)
    choice = GemmChoice(blocks, tile=(2, 1), depth=2, splits=splits)
    weight = np.arange(1, inner * columns + 1, dtype="float32").reshape(inner, columns)
    packed, wide = pack_weight(weight, product, choice, LANES), choice.channels(LANES)
    assert packed.shape == weight_shape(product, choice, LANES)
    for k, column in np.ndindex(weight.shape):
        assert packed[0, column // wide, k // LANES, k % LANES, column % wide] == weight[k, column]
    assert np.count_nonzero(packed) == weight.size
