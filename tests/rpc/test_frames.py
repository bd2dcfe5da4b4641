"""The frames of trackers: what is said is heard, and any other bytes are refused."""

from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolchain.rpc import frames
from toolchain.rpc.frames import FrameError, TrackerCode

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@pytest.mark.slow
@settings(max_examples=25)
@given(JSON)
def test_a_message_survives(message: object) -> None:
    wire = frames.encode(message)
    size = frames.body_size(wire[:4], frames.MAX_REPLY_BYTES)
    assert size == len(wire) - 4
    assert frames.decode(wire[4:]) == message


@pytest.mark.slow
@settings(max_examples=25)
@given(st.sampled_from(list(TrackerCode)), st.lists(JSON))
def test_a_request_survives(code: TrackerCode, arguments: list[object]) -> None:
    assert frames.decode_request(frames.encode([code, *arguments])[4:]) == (code, arguments)


@given(st.binary() | JSON.map(lambda message: frames.encode(message)[4:]))
def test_any_bytes_are_a_request_or_a_frame_error(body: bytes) -> None:
    with contextlib.suppress(FrameError):
        code, arguments = frames.decode_request(body)
        assert isinstance(code, TrackerCode)
        assert isinstance(arguments, list)


@given(st.integers(-(2**31), 2**31 - 1))
def test_a_length_is_limited(size: int) -> None:
    header = struct.pack("<i", size)
    if 0 < size <= frames.MAX_REQUEST_BYTES:
        assert frames.body_size(header, frames.MAX_REQUEST_BYTES) == size
    else:
        with pytest.raises(FrameError):
            frames.body_size(header, frames.MAX_REQUEST_BYTES)


@given(st.text(max_size=40), st.floats(min_value=0.1, max_value=1e6))
def test_who_asks_survives_the_wire(who: str, ttl: float) -> None:
    said, seconds = frames.parse_user(frames.user_text(who, ttl))
    assert said == who
    assert seconds == pytest.approx(min(ttl, frames.MAX_TTL_S), abs=0.06)


@pytest.mark.parametrize("text", ["", None, 7, "me", "me ttl=", "me ttl=.", "me ttl=0", "me ttl=1.2.3"])
def test_who_does_not_say_how_long_has_an_hour(text: object) -> None:
    assert frames.parse_user(text)[1] == frames.UNSAID_TTL_S
