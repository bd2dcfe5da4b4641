"""The options that every command with a MODEL shares."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.errors import UsageError
from toolchain.models.options import ModelOptions, format_shape, parse_shape, parse_shapes


@pytest.mark.slow
@given(st.text(min_size=1), st.lists(st.integers(1, 10**6), min_size=1))
def test_a_shape_reads_back_as_it_was_written_whatever_the_name(name: str, shape: list[int]) -> None:
    assert parse_shape(format_shape(name, shape)) == (name, tuple(shape))


@pytest.mark.parametrize("text", ["data", "data=", "=1,2", "data=1,,2", "data=1,-2", "data=1x2", "d=²"])
def test_a_malformed_shape_is_repeated_in_the_message(text: str) -> None:
    with pytest.raises(UsageError, match=r"--shape .*NAME=D,D") as caught:
        parse_shape(text)
    assert text in caught.value.message


def test_an_extent_of_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match=r"--shape data=0: an extent of 0 makes a tensor without values"):
        parse_shape("data=0")


def test_one_input_cannot_have_two_shapes() -> None:
    assert parse_shapes(["a=1", "b:0=2,3", "a=1"]) == {"a": [(1,)], "b:0": [(2, 3)]}
    with pytest.raises(UsageError, match="'a' was given another shape"):
        parse_shapes(["a=1", "a=2"])


@pytest.mark.parametrize(
    ("option", "wrong"),
    [
        ("--batch 0", {"batch": 0}),
        ("--weights-seed -1", {"weights_seed": -1}),
    ],
)
def test_a_wrong_choice_names_the_option(option: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=option) as caught:
        ModelOptions(**wrong)
    assert caught.value.exit_code == 2


def test_options_formats_specs_and_the_zoos_list_import_nothing_heavy() -> None:
    code = (
        "import sys, toolchain.models.options, toolchain.models.reading.formats, toolchain.models.spec;"
        "import toolchain.models.zoo;"
        "print(sorted({'numpy', 'onnx', 'tvm', 'onnxruntime'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"
