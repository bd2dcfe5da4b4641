"""An answer is taken in its form or refused in a sentence."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from toolchain.answers import LARGEST, Answer, Sentence, Several, Word, formed, lie, shown, understood
from toolchain.boards.edge_rt.answers import EdgeRtInfo, ServerSaid
from toolchain.errors import CheckError
from toolchain.measuring.answers import Failed, Ran, Timed


class Reading(Answer):
    """For these tests."""

    name: Word
    degrees: float = Field(ge=0)
    remarks: Several[Sentence] = ()


def test_what_is_unknown_is_left_alone() -> None:
    said = '{"name": "a", "degrees": 1, "remarks": ["x\\u001b"], "more": [[1e999]]}'
    reading = understood(Reading, said, "b", "it")
    assert (reading.name, reading.degrees) == ("a", 1.0)
    assert "\x1b" not in reading.remarks[0]


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ('{"degrees": 1}', "name is missing"),
        ('{"name": "a", "degrees": "1"}', "degrees is '1': Input should be a valid number"),
        ('{"name": "a", "degrees": -1}', "degrees is -1: Input should be greater"),
        ('{"name": "a", "degrees": NaN}', "degrees is nan: Input should be a finite number"),
        ('{"name": "a\\n", "degrees": 1}', r"name is 'a\\n': a word must not have control characters"),
        ('{"name": [1, 2], "degrees": 1}', "name is a list of 2"),
        ('{"name": {"a": 1}, "degrees": 1}', "name is an object with 1 fields"),
        ('{"name": 1' + "0" * 300 + ', "degrees": 1}', "name is a number of about 30. digits"),
        (
            '{"name": "a", "degrees": 1, "remarks": [1, 2]}',
            r"remarks\.0 is 1: Input should be a valid string",
        ),
        ("abc", "Invalid JSON.*; it begins with 'abc'"),
        ("[]", "it is a list of 0: Input should be an object"),
        (" " * (LARGEST + 1), "it has 262145 bytes, more than the 262144"),
    ],
)
def test_a_lie_is_told_with_board_field_and_value(document: str, says: str) -> None:
    with pytest.raises(CheckError, match=f"board far: the answer of x cannot be right: {says}") as raised:
        understood(Reading, document, "far", "the answer of x")
    assert raised.value.exit_code == 4 and "board exec far" in raised.value.hint


def test_lines_hold_texts_that_are_numbers() -> None:
    assert formed(Reading, {"name": "a", "degrees": "1.5"}, "b", "it").degrees == 1.5
    with pytest.raises(CheckError, match="degrees is 'inf'"):
        formed(Reading, {"name": "a", "degrees": "inf"}, "b", "it")


@pytest.mark.slow
@given(st.one_of(st.text(), st.binary(), st.integers(), st.floats(), st.lists(st.text()), st.none()))
def test_values_are_shown_in_few_plain_characters(value: object) -> None:
    text = shown(value)
    assert len(text) < 500
    assert not [c for c in text if unicodedata.category(c) == "Cc"]
    assert "\x1b" not in lie("b", "it", str(value)).message


@pytest.mark.slow
@settings(max_examples=40)
@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
        lambda inner: st.one_of(
            st.lists(inner),
            st.dictionaries(
                st.sampled_from([*EdgeRtInfo.model_fields, *Timed.model_fields, "error", "port"]), inner
            ),
        ),
    )
)
def test_no_document_is_a_crash(document: object) -> None:
    for kind in (EdgeRtInfo, Ran, Timed, Failed, ServerSaid):
        try:
            understood(kind, json.dumps(document), "b", "it")
        except CheckError as error:
            assert "cannot be right" in error.message
