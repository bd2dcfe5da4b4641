from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from toolchain.rpc import frames
from toolchain.rpc.frames import Code, FrameError
from toolchain.rpc.registry import Offer, Registry

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@settings(max_examples=25)
@given(JSON)
def test_a_message_survives(message: object) -> None:
    wire = frames.encode(message)
    size = frames.body_size(wire[:4], frames.MAX_REPLY_BYTES)
    assert size == len(wire) - 4
    assert frames.decode(wire[4:]) == message


@settings(max_examples=25)
@given(st.sampled_from(list(Code)), st.lists(JSON))
def test_a_request_survives(code: Code, arguments: list[object]) -> None:
    assert frames.decode_request(frames.encode([code, *arguments])[4:]) == (code, arguments)


@given(st.binary() | JSON.map(lambda message: frames.encode(message)[4:]))
def test_any_bytes_are_a_request_or_a_frame_error(body: bytes) -> None:
    with contextlib.suppress(FrameError):
        code, arguments = frames.decode_request(body)
        assert isinstance(code, Code)
        assert isinstance(arguments, list)


@given(st.integers(-(2**31), 2**31 - 1))
def test_a_length_is_limited(size: int) -> None:
    header = struct.pack("<i", size)
    if 0 < size <= frames.MAX_REQUEST_BYTES:
        assert frames.body_size(header, frames.MAX_REQUEST_BYTES) == size
    else:
        with pytest.raises(FrameError):
            frames.body_size(header, frames.MAX_REQUEST_BYTES)


KEYS = st.sampled_from(["a", "b"])


class Rendezvous(RuleBasedStateMachine):
    """Nothing is given twice, nobody waits beside a free server, who has gone is nowhere."""

    peers = Bundle("peers")

    def __init__(self) -> None:
        super().__init__()
        self.registry = Registry()
        self.given: list[Offer] = []
        self.gone: set[object] = set()
        self.made = 0

    @rule(target=peers)
    def connect(self) -> object:
        return object()

    @rule(peer=peers, key=KEYS)
    def offer(self, peer: object, key: str) -> None:
        self.made += 1
        self.registry.register(peer, key, "127.0.0.1", 9000)
        self.registry.offer(key, Offer(peer, "127.0.0.1", 9000, str(self.made)))

    @rule(peer=peers, key=KEYS, priority=st.integers(0, 3), alive=st.booleans())
    def request(self, peer: object, key: str, priority: int, alive: bool) -> None:
        def deliver(offer: Offer) -> bool:
            if alive:
                assert peer not in self.gone
                self.given.append(offer)
            return alive

        self.registry.request(peer, key, priority, deliver)

    @rule(peer=consumes(peers))
    def disconnect(self, peer: object) -> None:
        self.gone.add(peer)
        self.registry.forget(peer)
        assert self.registry.match_keys(peer) == []
        assert self.registry.waits(peer) == 0

    @invariant()
    def nothing_is_given_twice(self) -> None:
        keys = [offer.match_key for offer in self.given]
        assert len(keys) == len(set(keys))

    @invariant()
    def nobody_waits_beside_a_free_server(self) -> None:
        for queue in self.registry.summary()["queue_info"].values():
            assert not (queue["free"] and queue["pending"])


TestRendezvous = Rendezvous.TestCase
TestRendezvous.settings = settings(max_examples=25, deadline=None)
