"""Indices in 32 bits mean the same places, and values stay of their type."""

from __future__ import annotations

import pytest
import tvm_ffi
from hypothesis import given
from hypothesis import strategies as st
from tvm import te, tirx
from tvm.ir.expr import TensorLoad
from tvm.sym import Analyzer

from tests.backends.packed.numbers import number
from toolchain.backends.packed.recognise.expressions import substitute
from toolchain.backends.packed.recognise.narrow import narrow_index, narrowed
from toolchain.backends.packed.recognise.read import Expr, loads

WIDE = [tirx.Var(name, "int64") for name in "ij"]
AXES = {var: tirx.Var(var.name, "int32") for var in WIDE}
NUMBERS = st.integers(1, 40).map(lambda number: tirx.IntImm("int64", number))

indices = st.recursive(
    st.sampled_from(WIDE) | NUMBERS,
    lambda inner: st.one_of(
        *(st.builds(kind, inner, inner) for kind in (tirx.Add, tirx.Sub, tirx.Mul, tirx.Min, tirx.Max)),
        *(st.builds(kind, inner, NUMBERS) for kind in (tirx.Div, tirx.Mod, tirx.FloorDiv, tirx.FloorMod)),
        st.builds(lambda a, b, x, y: tirx.Select(tirx.LT(a, b), x, y), inner, inner, inner, inner),
        st.builds(lambda a, b, x, y: tirx.if_then_else(tirx.EQ(a, b), x, y), inner, inner, inner, inner),
        st.builds(lambda x: tirx.Cast("int64", tirx.Cast("int32", x)), inner),
    ),
    max_leaves=6,
)


def types(value: Expr) -> set[str]:
    """Return the types of all variables and numbers in an expression that are indices."""
    found: list[Expr] = []
    tvm_ffi.structural_walk(value, [(tirx.Var, found.append), (tirx.IntImm, found.append)])
    return {str(each.ty) for each in found}


def at(index: Expr, places: dict[tirx.Var, Expr]) -> int:
    def unread(buffer: tirx.Buffer, _index: list[Expr]) -> Expr:
        raise AssertionError(f"{buffer} is read")

    return number(Analyzer().simplify(substitute(index, list(places.items()), unread)))


@given(index=indices, i=st.integers(0, 50), j=st.integers(0, 50))
def test_a_narrow_index_is_the_same_number(index: Expr, i: int, j: int) -> None:
    narrow = narrow_index(index, AXES)
    assert str(narrow.ty) == "int32" and "int64" not in types(narrow)
    wide = at(index, {var: tirx.IntImm("int64", place) for var, place in zip(WIDE, (i, j), strict=True)})
    if abs(wide) < 2**31:
        short = zip(AXES.values(), (i, j), strict=True)
        assert at(narrow, {var: tirx.IntImm("int32", place) for var, place in short}) == wide


@pytest.mark.parametrize("dtype", ["float32", "int64", "int8"])
def test_a_value_keeps_its_type_and_reads_at_narrow_places(dtype: str) -> None:
    i, j = WIDE
    x = tirx.decl_buffer((tirx.IntImm("int64", 9), tirx.IntImm("int64", 9)), dtype)
    value = x[i, tirx.FloorMod(j, tirx.IntImm("int64", 3))] + i.astype(dtype)
    found = narrowed(value, AXES)
    assert str(found.ty) == dtype
    (load,) = loads(found)
    assert {str(index.ty) for index in load.indices} == {"int32"}


def test_a_place_that_is_read_from_memory_is_cast() -> None:
    places = tirx.decl_buffer((tirx.IntImm("int64", 9),), "int64")
    found = narrow_index(places[WIDE[0]], AXES)
    assert isinstance(found, tirx.Cast) and str(found.ty) == "int32"
    assert isinstance(found.value, TensorLoad) and found.value.indices[0].same_as(AXES[WIDE[0]])


def test_numbers_that_are_compared_as_data_stay_wide() -> None:
    """What a network reads may be more than 32 bits hold; where padding begins never is."""
    x = tirx.decl_buffer((tirx.IntImm("int64", 9),), "int64")
    data = narrowed(tirx.LT(x[WIDE[0]], tirx.IntImm("int64", 2**40)), AXES)
    assert isinstance(data, tirx.LT)
    assert str(data.a.ty) == str(data.b.ty) == "int64" and number(data.b) == 2**40
    place = narrowed(tirx.LT(WIDE[0] + WIDE[1], tirx.IntImm("int64", 7)), AXES)
    assert isinstance(place, tirx.LT)
    assert str(place.a.ty) == str(place.b.ty) == "int32"


def test_a_function_of_64_bits_is_read_like_one_of_32() -> None:
    from toolchain.backends.packed.recognise.read import read

    shape = [tirx.IntImm("int64", extent) for extent in (2, 5)]
    x = te.placeholder(shape, "float32", name="x")
    y = te.compute(shape, lambda i, j: x[i, 4 - j] * 2.0, name="y")
    (stage,) = read(te.create_prim_func([x, y])).stages
    assert {str(axis.ty) for axis in stage.axes} == {"int32"}
    assert "int64" not in types(loads(stage.value)[0].indices[1])
