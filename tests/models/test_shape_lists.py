"""Lists of shapes on a command line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.errors import UsageError
from toolchain.models.options import MOST_SHAPES, ModelOptions, list_values, shape_options


def shapes_of(batch: str | None, *shapes: str) -> list[tuple[int | None, dict[str, tuple[int, ...]]]]:
    options = ModelOptions(**shape_options(batch, shapes))
    return [(each.batch, dict(each.shapes)) for each in options.each()]


def test_a_list_stands_for_a_shape_each() -> None:
    assert shapes_of(None, "x=1,3,{32, 48},{160,320}") == [
        (None, {"x": (1, 3, height, width)}) for height in (32, 48) for width in (160, 320)
    ]


def test_inputs_go_in_step_and_every_batch_goes_with_every_shape() -> None:
    assert shapes_of("{1,8}", "x=1,{4,5}", "y={7,9}", "z=2") == [
        (batch, {"x": (1, x), "y": (y,), "z": (2,)}) for x, y in ((4, 7), (5, 9)) for batch in (1, 8)
    ]


def test_one_shape_is_what_it_was_without_lists() -> None:
    options = ModelOptions(**shape_options("4", ["x=1,{3},5"]))
    assert options == ModelOptions(batch=4, shapes={"x": (1, 3, 5)}) and options.each() == [options]


def test_braces_in_a_name_do_not_list() -> None:
    assert shapes_of(None, "a{b}=1,{2,3}") == [(None, {"a{b}": (1, each)}) for each in (2, 3)]


def test_options_round_trip_as_typed() -> None:
    options = ModelOptions(**shape_options("{1,8}", ["x=1,{4,5}"]))
    assert options.typed() == " --batch '{1,8}' --shape 'x=1,{4,5}'"


@pytest.mark.parametrize(
    ("batch", "shapes", "message"),
    [
        ("{1,1}", [], "--batch {1,1}: 1 occurs twice"),
        (None, ["x=1,{160,320,0160}"], "160 occurs twice"),
        ("{1,8", [], "a brace without its partner"),
        ("{1,{2}}", [], "a brace without its partner"),
        ("{}", [], "a list with an empty entry"),
        (None, ["x=1,{4,}"], "--shape x=1,{4,}: a list with an empty entry"),
        ("{0,1}", [], "must be 1 or more"),
        (None, ["x=1,{4,-5}"], "not NAME=D,D"),
        (None, ["x={4,5}", "x=4"], "another shape before"),
        (None, ["x={4,5}", "y={1,2,3}"], "2 of 'x', 3 of 'y'"),
        ("{1,2,3}", ["x=1,{1,2,3,4,5,6}"], f"18 shapes: a bundle has at most {MOST_SHAPES}"),
    ],
)
def test_refuses_malformed_lists(batch: str | None, shapes: list[str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        shape_options(batch, shapes)
    assert message in caught.value.message


@given(st.lists(st.lists(st.integers(1, 99), min_size=1, max_size=3, unique=True), min_size=1, max_size=3))
def test_there_is_a_text_for_every_combination(lists: list[list[int]]) -> None:
    text = ",".join("{" + ",".join(map(str, numbers)) + "}" for numbers in lists)
    found = list_values("--batch", text, text)
    count = 1
    for numbers in lists:
        count *= len(numbers)
    assert len(set(found)) == len(found) == count and not any("{" in each for each in found)
