"""Tensors in bundles are what numpy itself writes and reads."""

from __future__ import annotations

import io

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from toolchain.bundles import Tensor
from toolchain.bundles.write import decode, encode

DTYPES = ["bool", "float16", "float32", "float64"]
DTYPES += [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]


@given(data=st.data(), dtype=st.sampled_from(DTYPES), order=st.sampled_from("<>"))
def test_header_equals_numpy_save(data: st.DataObject, dtype: str, order: str) -> None:
    shapes = arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=12)
    array = data.draw(arrays.arrays(np.dtype(dtype).newbyteorder(order), shapes))
    spec = Tensor(name="x", shape=array.shape, dtype=dtype)
    written = encode(array.T.copy().T, spec)
    expected = io.BytesIO()
    np.save(expected, array.astype(np.dtype(dtype).newbyteorder("<")), allow_pickle=False)
    assert written == expected.getvalue()
    back = decode(written, spec)
    assert back.dtype == np.dtype(dtype) and back.shape == array.shape
    np.testing.assert_array_equal(back, array)
