"""A server's packets: which answer fits which question, and what a body may hold."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz import rpc_frames as rpc
from toolchain.rpc.packets import (
    CODE_BYTES,
    HEADER,
    MAX_ANSWER_BYTES,
    QUESTIONS,
    LieError,
    PacketCode,
    Question,
    check_answer,
    check_header,
    copied_bytes,
    exception,
    name_of,
)

CALL = Question(PacketCode.CALL_FUNC)
NAME = Question(PacketCode.GET_GLOBAL_FUNC)
COPY = Question(PacketCode.COPY_FROM_REMOTE, 12)
END = Question(PacketCode.SHUTDOWN)


@pytest.mark.parametrize("question", [None, CALL, NAME, COPY, END])
@pytest.mark.parametrize("code", [*PacketCode, 77])
def test_only_the_answer_to_a_question_passes(question: Question | None, code: int) -> None:
    allowed: dict[Question | None, set[PacketCode]] = {
        None: {PacketCode.EXCEPTION},
        CALL: {PacketCode.EXCEPTION, PacketCode.RETURN},
        NAME: {PacketCode.EXCEPTION, PacketCode.RETURN},
        COPY: {PacketCode.EXCEPTION, PacketCode.COPY_ACK},
        END: {PacketCode.EXCEPTION, PacketCode.SHUTDOWN},
    }
    size = CODE_BYTES + (12 if code == PacketCode.COPY_ACK else 0)
    if code in allowed[question]:
        check_header(size, code, question)
    else:
        with pytest.raises(LieError, match=f"^sent {name_of(code)}"):
            check_header(size, code, question)


@pytest.mark.parametrize("size", [0, CODE_BYTES - 1, MAX_ANSWER_BYTES + 1, 2**64 - 1])
def test_an_answer_has_room_for_its_code_and_no_more_than_is_buffered(size: int) -> None:
    with pytest.raises(LieError, match=f"announced kReturn of {size} bytes"):
        check_header(size, PacketCode.RETURN, CALL)
    check_header(MAX_ANSWER_BYTES, PacketCode.RETURN, CALL)


@pytest.mark.parametrize("size", [CODE_BYTES, CODE_BYTES + 11, CODE_BYTES + 13])
def test_a_copy_has_the_bytes_that_were_asked_for(size: int) -> None:
    with pytest.raises(LieError, match=f"sent {size - CODE_BYTES} bytes where 12 were asked for"):
        check_header(size, PacketCode.COPY_ACK, COPY)


@pytest.mark.slow
@given(
    code=st.sampled_from([PacketCode.RETURN, PacketCode.EXCEPTION, PacketCode.SHUTDOWN]),
    body=st.binary(max_size=80)
    | st.builds(
        lambda count, rest: struct.pack("<i", count) + rest, st.integers(1, 3), st.binary(max_size=60)
    ),
    question=st.sampled_from([None, CALL, NAME, END]),
)
def test_any_body_passes_or_is_a_lie(code: PacketCode, body: bytes, question: Question | None) -> None:
    try:
        check_answer(code, body, question)
    except LieError as lie:
        assert str(lie)
    else:
        assert not body if code == PacketCode.SHUTDOWN else len(body) >= 8


@pytest.mark.slow
@given(
    number=st.integers(-(2**63), 2**63 - 1), cut=st.integers(1, 11), more=st.binary(min_size=1, max_size=9)
)
def test_a_number_passes_whole_and_nothing_shorter_or_longer(number: int, cut: int, more: bytes) -> None:
    body = rpc.values(rpc.number(number))
    check_answer(PacketCode.RETURN, body, NAME)
    for wrong in (body[:-cut], body + more):
        with pytest.raises(LieError):
            check_answer(PacketCode.RETURN, wrong, NAME)


@given(st.text())
def test_an_error_of_ours_is_an_exception_that_passes(message: str) -> None:
    packet = exception(message)
    size, code = HEADER.unpack_from(packet)
    assert size == len(packet) - 8
    check_header(size, code, None)
    check_answer(code, packet[HEADER.size :], None)


def test_every_code_is_named_as_tvm_names_it_and_no_answer_is_a_question() -> None:
    assert name_of(PacketCode.GET_GLOBAL_FUNC) == "kGetGlobalFunc"
    assert name_of(77) == "the unknown code 77"
    assert PacketCode.NONE not in QUESTIONS and PacketCode.RETURN not in QUESTIONS
    assert PacketCode.SHUTDOWN in QUESTIONS


def test_a_copy_says_its_size_last() -> None:
    assert copied_bytes(b"tensor" + struct.pack("<Q", 99)) == 99
    with pytest.raises(ValueError, match="without a size"):
        copied_bytes(b"1234567")
