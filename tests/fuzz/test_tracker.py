"""The tracker and a door of it: whatever strangers say there, in any order, others go on being served.

What is tried: requests made by a grammar and broken ones, of several connections that take turns with an
honest server, an honest board's server behind a door, and their clients.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from random import Random
from typing import Any

import psutil
import pytest

from tests.fuzz import rpc_frames as rpc
from tests.fuzz.json_values import any_json
from tests.fuzz.loop import Attempt, run
from tests.rpc.peers import Peer
from tests.waiting import PATIENCE_S, until
from toolchain.rpc import frames
from toolchain.rpc.door import Door
from toolchain.rpc.frames import HOST, MAGIC, TrackerCode
from toolchain.rpc.tracker import Tracker

pytestmark = pytest.mark.slow

SECRET = "known to the board's server alone"  # noqa: S105
BOARD = "board@b1"
OWN = {"honest", "board"}
MOST_STRANGERS = 4
CROWD = 11  # more than a door has room for
# What may be answered at a door to one who isn't its server: to a ping, and to "which of my offers are left".
SAID_AT_A_DOOR: tuple[object, ...] = (0, [])


def request(random: Random, keys: list[str]) -> list[Any]:
    """Return a request in its right form, though it may be the wrong one."""
    key = random.choice(keys)
    role = random.choice(("server", "server", "client", "x"))
    secret: object = random.choice((None, "", "guessed", SECRET[:-1], "\ud800", 5, [], "x" * 5000))
    address = [
        random.choice((None, HOST, "::1", "192.0.2.1", 7)),
        random.choice((1, 9000, 0, -1, 2**16, "1")),
    ]
    user = random.choice(("me", "me ttl=5.0", "me ttl=1.1.1", "x ttl=99999999999", 5, None))
    priority = random.choice((0, 1, -1, 2**70, 1e300, float("inf"), float("nan"), "1", None))
    return random.choice(
        (
            [TrackerCode.PING],
            [TrackerCode.STOP, key],
            [TrackerCode.SUMMARY],
            [TrackerCode.GET_PENDING_MATCHKEYS],
            [TrackerCode.REQUEST, key, user, priority],
            [TrackerCode.PUT, key, [random.choice((9000, 0, None)), random.choice(("match", "", 7))], None],
            [TrackerCode.UPDATE_INFO, {"key": f"{role}:{key}", "addr": address, "secret": secret}],
        )
    )


def words(random: Random, keys: list[str]) -> bytes:
    """Return what a stranger sends in one go."""
    message = request(random, keys)
    match random.randrange(5):
        case 0:
            message[random.randrange(len(message))] = any_json(random)
        case 1:
            size = random.choice((0, -1, 5, 2**16, 2**16 + 1, 2**31 - 1))
            return struct.pack("<i", size) + json.dumps(message).encode()
        case 2:
            return rpc.mutated(random, frames.encode(message))
        case 3 if random.random() < 0.2:
            deep = random.choice((b"[", b'{"":')) * random.choice((1000, 10_000))
            return struct.pack("<i", len(deep)) + deep
        case _:
            pass
    body = json.dumps(message).encode()
    return struct.pack("<i", len(body)) + body


class Stranger:
    """A connection whose owner means no good."""

    def __init__(self, random: Random, port: int, *, at_a_door: bool) -> None:
        self.connection = socket.create_connection((HOST, port), timeout=60)
        self.at_a_door = at_a_door
        # At the main port every program of the owner may be any server: the honest one's name is its own.
        keys = (
            ["honest", "board", BOARD, "board@b2", "@", "x"] if at_a_door else ["a", "a@b1", "@", "x" * 300]
        )
        self.words = [words(random, keys) for _ in range(random.randrange(6))]
        if random.random() < 0.95:
            self.words.insert(0, MAGIC)

    def speak(self) -> None:
        """Say the next thing, if anybody still listens."""
        with suppress(OSError):
            self.connection.sendall(self.words.pop(0))

    def heard(self) -> list[Any]:
        """Say that this is the end; return the answers."""
        said = bytearray()
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            while part := self.connection.recv(1 << 16):
                said += part
        self.connection.close()
        answers, place = [], len(MAGIC)
        while place + 4 <= len(said):
            size = struct.unpack_from("<i", said, place)[0]
            answers.append(json.loads(said[place + 4 : place + 4 + size]))
            place += 4 + size
        return answers


class Honest:
    """A server, a board's server at its door, and a client; each must be served all the time."""

    def __init__(self, tracker: Tracker, door: Door, stack: ExitStack) -> None:
        self.client = stack.enter_context(Peer(HOST, tracker.port))
        self.server = stack.enter_context(Peer(HOST, tracker.port))
        self.at_door = stack.enter_context(Peer(HOST, door.port))
        said: dict[str, Any] = {"key": "server:honest", "addr": [None, 9000]}
        assert self.server.say(TrackerCode.UPDATE_INFO, said) == 0
        said = {"key": f"server:{BOARD}", "addr": [None, 1], "secret": SECRET}
        assert self.at_door.say(TrackerCode.UPDATE_INFO, said) == 0
        self._number = count()

    def serve(self, server: Peer, key: str) -> None:
        """Let the client have one session's worth of a server."""
        match_key = f"honest:{next(self._number)}"
        server.offer(key, match_key=match_key)
        grant = self.client.request(key, wait_s=PATIENCE_S)
        assert grant is not None, f"{key} was offered, and nobody was given it"
        assert grant.match_key == match_key, f"for {key} came {grant}"

    def step(self, random: Random) -> None:
        """Do one thing."""
        if random.random() < 0.5:
            self.serve(self.server, "honest")
        else:
            self.serve(self.at_door, BOARD)


def check(stranger: Stranger) -> None:
    """Check that it was told nothing that is not for it."""
    for answer in stranger.heard():
        assert "honest:" not in json.dumps(answer), f"a stranger was given {answer}"
        if stranger.at_a_door:
            assert answer in SAID_AT_A_DOOR, f"at a door was answered {answer}"


@contextmanager
def harness() -> Iterator[Attempt]:
    """Run a tracker with one door; yield what lets strangers in."""
    crashes: list[str] = []
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda _, context: crashes.append(repr(context)))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    tracker = Tracker()

    def do(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(60)

    def attempt(random: Random) -> None:
        crowd = random.choice((MOST_STRANGERS, MOST_STRANGERS, CROWD))
        strangers = []
        for _ in range(random.randrange(1, crowd + 1)):
            at_a_door = crowd == CROWD or random.random() < 0.5
            strangers.append(Stranger(random, door.port if at_a_door else tracker.port, at_a_door=at_a_door))
        while speaking := [stranger for stranger in strangers if stranger.words]:
            random.choice(speaking).speak()
            if random.random() < 0.2:
                honest.step(random)
        honest.step(random)
        for stranger in strangers:
            check(stranger)
        until(lambda: honest.client.summary().keys() == OWN)
        assert all(entry["total"] == 1 for entry in honest.client.summary().values()), "a server too many"
        until(lambda: psutil.Process().num_fds() <= descriptors and threading.active_count() <= threads)
        assert not crashes, crashes

    logging.disable(logging.WARNING)  # each refusal is told
    try:
        with ExitStack() as stack:
            do(tracker.start())
            door: Door = do(tracker.open_door(BOARD))
            door.secret = SECRET
            honest = Honest(tracker, door, stack)
            descriptors, threads = psutil.Process().num_fds(), threading.active_count()
            yield attempt
        do(tracker.close())
        assert not crashes, crashes
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
        logging.disable(logging.NOTSET)


def test_some_crowds_of_strangers_disturb_nobody() -> None:
    run("tracker", harness, seed=20260, cases=150)
