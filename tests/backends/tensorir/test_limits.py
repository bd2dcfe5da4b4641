"""What is refused of schedules for a small GPU: too many private bytes, sums that are no vectors."""

from __future__ import annotations

import pytest
from tvm.s_tir import Schedule

from tests.records.matmul import matmul
from toolchain.backends.tensorir.rules import PrivateBytes, SumsInVectors, private_bytes_of, sums_in_vectors
from toolchain.lowering.functions.definition import module_of


def tiled(rows: int, columns: int, vectors: str) -> Schedule:
    """Return a product of 32 x 32 in tiles of a work item; `vectors` is the axis along which they lie."""
    schedule = Schedule(module_of(matmul(32)))
    block = schedule.get_sblock("C")
    kept = schedule.cache_write(block, 0, "local")
    i, j, k = schedule.get_loops(block)
    io, ii = schedule.split(i, [None, rows])
    jo, ji = schedule.split(j, [None, columns])
    inner = [ji, ii] if vectors == "rows" else [ii, ji]
    schedule.reorder(io, jo, k, *inner)
    group = schedule.fuse(io, jo)
    schedule.bind(group, "threadIdx.x")
    schedule.reverse_compute_at(kept, group)
    if vectors != "none":
        schedule.vectorize(inner[-1])
    schedule.decompose_reduction(block, k)
    return schedule


@pytest.mark.parametrize(("rows", "columns", "size"), [(1, 4, 16), (4, 4, 64), (8, 16, 512)])
def test_private_bytes_are_those_of_a_work_item(rows: int, columns: int, size: int) -> None:
    schedule = tiled(rows, columns, "none")
    assert private_bytes_of(schedule.mod) == size
    assert PrivateBytes(size).apply(schedule) and not PrivateBytes(size - 1).apply(schedule)


@pytest.mark.parametrize(
    ("columns", "vectors", "passes"),
    [(4, "columns", True), (2, "columns", False), (4, "none", False), (4, "rows", False)],
)
def test_sums_are_vectors_along_the_last_axis(columns: int, vectors: str, passes: bool) -> None:
    schedule = tiled(4, columns, vectors)
    assert sums_in_vectors(schedule.mod, 4) is passes
    assert SumsInVectors(4).apply(schedule) is passes


def test_no_vector_is_asked_of_an_axis_that_none_fits() -> None:
    assert sums_in_vectors(tiled(4, 4, "none").mod, 5)


def test_clones_refuse_the_same() -> None:
    schedule = tiled(8, 16, "none")
    assert not PrivateBytes(64).clone().apply(schedule)
    assert not SumsInVectors(4).clone().apply(schedule)
