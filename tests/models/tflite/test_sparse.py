"""Sparse weights are read with their zeros; what follows from shapes is a constant; the largest values."""

from __future__ import annotations

import numpy as np
import pytest

from tests.models.tflite.judge import computed, drawn, reference
from tests.models.tflite.writer import Writer
from toolchain.errors import UsageError
from toolchain.models.tflite.convert import read_tflite

BEGINS, COLUMNS = (0, 2, 2, 3), (1, 3, 0)
"""Of 3 rows: values in columns 1 and 3, none, and one in column 0."""


def dense_layer(
    begins: tuple[int, ...] = BEGINS,
    columns: tuple[int, ...] = COLUMNS,
    block: int = 0,
    values: int = 3,
    shape: tuple[int, int] = (3, 4),
) -> bytes:
    """Return a dense layer of sparse weights, by way of DENSIFY."""
    file = Writer()
    width = shape[1]
    x = file.add((2, width), "float32")
    stored = np.arange(1, values * (block or 1) + 1, dtype=np.float32)
    sparse = file.add(shape, "float32", stored, sparse=True, rows=(begins, columns), block=block)
    dense = file.add(shape, "float32")
    y = file.add((2, shape[0]), "float32")
    file.call("DENSIFY", [sparse], [dense], "DensifyOptions")
    file.call("FULLY_CONNECTED", [x, dense, -1], [y], "FullyConnectedOptions")
    file.inputs, file.outputs = [x], [y]
    return file.finish()


@pytest.mark.parametrize("block", [0, 2])
def test_sparse_weights_have_their_zeros(block: int) -> None:
    data = dense_layer(block=block, shape=(3, 8 if block else 4))
    inputs = [drawn((2, 8 if block else 4), "float32", 1)]
    np.testing.assert_allclose(computed(data, inputs)[0], reference(data, inputs)[0], 1e-6)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"columns": (1, 4, 0)}, "an index outside of its shape"),
        ({"columns": (1, -3, 0)}, "an index outside of its shape"),
        ({"begins": (0, 2, 1, 3)}, "segments that do not fit the indices"),
        ({"begins": (0, 2, 3)}, "segments that do not fit the indices"),
        ({"values": 2}, "2 values where its indices name 3"),
        ({"shape": (3, 1 << 30)}, "bytes with its zeros"),
    ],
)
def test_sparse_weights_that_contradict_themselves_are_refused(changes: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError, match=r"tensor 1 \('t1'\) is sparse, in parts that contradict") as caught:
        read_tflite(dense_layer(**changes), "x.tflite")
    assert says in caught.value.message and "dense weights" in caught.value.hint


def test_the_largest_values_and_their_places() -> None:
    file = Writer()
    x, k = file.add((3, 9), "float32"), file.constant(np.array(4, np.int32))
    values, places = file.add((3, 4), "float32"), file.add((3, 4), "int32")
    file.call("TOPK_V2", [x, k], [values, places], "TopKV2Options")
    file.inputs, file.outputs = [x], [values, places]
    data, inputs = file.finish(), [drawn((3, 9), "float32", 2)]
    for ours, theirs in zip(computed(data, inputs), reference(data, inputs), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_ranges_and_ranks_are_constants() -> None:
    file = Writer()
    x, rank, one = file.add((3, 4), "int32"), file.add((), "int32"), file.constant(np.array(1, np.int32))
    five, steps, y = file.constant(np.array(5, np.int32)), file.add((4,), "int32"), file.add((3, 4), "int32")
    z = file.add((3, 4), "int32")
    file.call("RANK", [x], [rank], "RankOptions")
    file.call("RANGE", [one, five, one], [steps], "RangeOptions")
    file.call("ADD", [x, steps], [y], "AddOptions")
    file.call("ADD", [y, rank], [z], "AddOptions")
    file.inputs, file.outputs = [x], [z]
    data, inputs = file.finish(), [drawn((3, 4), "int32", 2)]
    np.testing.assert_array_equal(computed(data, inputs)[0], reference(data, inputs)[0])
