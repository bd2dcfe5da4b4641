"""What a client may not say in a session: it ends, with a line that says what was refused."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.fuzz import rpc_frames as rpc
from tests.fuzz.rpc_frames import Code, Type
from tests.rpc.peers import running_tracker
from tests.runtime.conftest import Edge, address_of, edge_for
from toolchain.rpc.client import TrackerClient

pytestmark = pytest.mark.slow  # edge-rt may have to be compiled

WELCOME = rpc.greeting(b"server:board")
CPU_DEVICE = struct.pack("<i", Type.DEVICE) + rpc.CPU
F32 = struct.pack("<iBBHi", Type.DTYPE, 2, 32, 1, 0)


class Talk:
    """One session, spoken by hand."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._said = connection.makefile("rb")

    def say(self, body: bytes) -> bytes:
        """Send a frame; return the body of the answer."""
        self._connection.sendall(rpc.framed(body))
        return self.hear()

    def send(self, words: bytes) -> None:
        self._connection.sendall(words)

    def hear(self) -> bytes:
        head = self._said.read(8)
        return self._said.read(struct.unpack("<Q", head)[0]) if head else b""

    def pointer(self, body: bytes) -> int:
        answer = self.say(body)
        assert answer[:12] == struct.pack("<iii", Code.RETURN, 1, Type.POINTER), answer
        return int(struct.unpack("<Q", answer[12:])[0])

    def function(self, name: str) -> int:
        return self.pointer(rpc.frame(Code.GET_FUNCTION, rpc.values(rpc.text(name.encode()))))

    def memory(self, size: int) -> int:
        arguments = rpc.values(CPU_DEVICE, rpc.number(size), rpc.number(64), F32)
        return self.pointer(rpc.frame(Code.ALLOC, arguments))

    def refusal(self, body: bytes) -> str:
        """Return why a frame was refused, after which the session has ended."""
        words = self.say(body)
        code, count, kind, size = struct.unpack_from("<iiiQ", words)
        assert (code, count, kind) == (Code.EXCEPTION, 1, Type.TEXT)
        assert not self.hear()
        return words[20 : 20 + size].decode()


class Server:
    def __init__(self, tracker: int, address: tuple[str, int], words: Path) -> None:
        self._tracker, self._address, self._words = tracker, address, words

    @contextmanager
    def session(self, *, begun: bool = True) -> Iterator[Talk]:
        with TrackerClient("127.0.0.1", self._tracker) as client:
            grant = client.request("board", 20)
        assert grant
        key = f"client:{grant.match_key} -timeout=60".encode()
        with socket.create_connection(self._address, timeout=60) as connection:
            connection.sendall(rpc.greeting(key))
            talk = Talk(connection)
            with talk._said:
                assert talk._said.read(len(WELCOME)) == WELCOME
                if begun:
                    assert talk.say(rpc.init())[:4] == struct.pack("<i", Code.RETURN)
                yield talk

    def said(self) -> str:
        """Return what the server has said since the last time."""
        words = self._words.read_text()
        self._words.write_text("")
        return words


@pytest.fixture(scope="module")
def server(native: Edge, tracker: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("fence")
    with (
        (folder / "stderr").open("ab") as stderr,
        native.serving(folder / "state", tracker, stderr=stderr) as process,
    ):
        yield Server(tracker, address_of(process), folder / "stderr")


@pytest.mark.parametrize("code", [Code.RETURN, Code.EXCEPTION, Code.COPY_ACK, Code.NONE, 22, 99, -1])
def test_refuses_server_messages(server: Server, code: int) -> None:
    with server.session() as talk:
        why = talk.refusal(rpc.frame(code, rpc.values(rpc.text(b"RPCSessionTimeoutError: read me"))))
    assert f"refused: the code {int(code)}, which no client sends" in why
    assert why.removeprefix("edge-rt: ") in server.said()


@pytest.mark.parametrize(
    "body",
    [
        lambda at, device: rpc.frame(
            Code.COPY_TO, rpc.tensor(at, 2, device=device), struct.pack("<Q", 8), bytes(8)
        ),
        lambda at, device: rpc.frame(Code.COPY_FROM, rpc.tensor(at, 2, device=device), struct.pack("<Q", 8)),
        lambda at, device: rpc.frame(
            Code.FREE, rpc.values(struct.pack("<i", Type.DEVICE) + device, rpc.number(at, Type.POINTER))
        ),
    ],
    ids=["copy to", "copy from", "free"],
)
@pytest.mark.parametrize("device", [rpc.OPENCL, struct.pack("<ii", 1, 1)], ids=["opencl:0", "cpu:1"])
def test_devices_do_not_share_memory(
    server: Server, body: Callable[[int, bytes], bytes], device: bytes
) -> None:
    """What is an address to one may be a handle to another: a pointer to what its driver keeps."""
    with server.session() as talk:
        at = talk.memory(64)
        assert talk.say(body(at, rpc.CPU))[:4] != struct.pack("<i", Code.EXCEPTION)
    with server.session() as talk:
        assert "handed out" in talk.refusal(body(talk.memory(64), device))
    assert "handed out" in server.said()


def test_session_begins_once_and_first(server: Server) -> None:
    with server.session(begun=False) as talk:
        assert "before kInitServer" in talk.refusal(
            rpc.frame(Code.GET_FUNCTION, rpc.values(rpc.text(b"edge.info")))
        )
    with server.session() as talk:
        assert "second kInitServer" in talk.refusal(rpc.init())
    with server.session(begun=False) as talk:
        assert 'version "0.7.0"' in talk.refusal(rpc.init(version=b"0.7.0"))
    with server.session(begun=False) as talk:  # a session of another kind: through it to other machines
        assert "of the client's own making" in talk.refusal(rpc.init(rpc.text(b"rpc.Connect")))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (rpc.frame(Code.GET_FUNCTION, struct.pack("<i", 2**31 - 1)), "announces 2147483647 values"),
        (rpc.frame(Code.GET_FUNCTION, struct.pack("<i", -1)), "announces -1 values"),
        (
            rpc.frame(Code.GET_FUNCTION, rpc.values(struct.pack("<iQ", 8, 2**40))),
            "announces 1099511627776 bytes",
        ),
        (rpc.frame(Code.GET_FUNCTION, rpc.values(rpc.text(b"a\0b"))), "shorter than its length"),
        (rpc.frame(Code.GET_FUNCTION, rpc.values(rpc.text(b"a")), b"x"), "1 byte too many"),
        (rpc.frame(Code.GET_FUNCTION, rpc.values(struct.pack("<iI", 65, 66))), "of two types"),
        (rpc.frame(Code.GET_FUNCTION, rpc.values(struct.pack("<i", 10))), "type 10, which no client sends"),
        (rpc.frame(Code.GET_FUNCTION, rpc.values()), "kGetGlobalFunc with other arguments"),
        (rpc.frame(Code.SHUTDOWN, b"more"), "4 bytes too many"),
        (rpc.frame(Code.COPY_TO, rpc.tensor(0, 2), struct.pack("<Q", 9)), "a copy of 9 bytes at 0"),
        (rpc.frame(Code.COPY_TO, rpc.tensor(0, -1), struct.pack("<Q", 0)), "extent -1"),
        (rpc.frame(Code.COPY_TO, rpc.tensor(0, 2**62, 2**62), struct.pack("<Q", 0)), "than there can be"),
        (rpc.frame(Code.COPY_TO, rpc.tensor(0, 2, dtype=(2, 0, 1)), struct.pack("<Q", 0)), "without a size"),
        (rpc.frame(Code.GET_ATTR, rpc.values(struct.pack("<iii", 6, -5, 0), rpc.number(0))), "device -5:0"),
        (rpc.frame(Code.ALLOC, rpc.values(CPU_DEVICE, rpc.number(-1), rpc.number(64), F32)), "of memory"),
        (rpc.frame(Code.ALLOC, rpc.values(CPU_DEVICE, rpc.number(4), rpc.number(3), F32)), "aligned to 3"),
    ],
)
def test_refuses_contradictory_sizes(server: Server, body: bytes, words: str) -> None:
    with server.session() as talk:
        assert words in talk.refusal(body)
    assert words in server.said()


@pytest.mark.parametrize("length", [0, 3, 2**30 + 1, 2**63, 2**64 - 1])
def test_refuses_absurd_lengths(server: Server, length: int) -> None:
    with server.session() as talk:
        talk.send(struct.pack("<Q", length) + bytes(10_000))
        assert b"refused: a message of %d bytes" % length in talk.hear()


def test_refuses_copies_larger_than_an_answer(server: Server) -> None:
    with server.session() as talk:
        data = talk.memory(2**30)
        why = talk.refusal(rpc.frame(Code.COPY_FROM, rpc.tensor(data, 2**28), struct.pack("<Q", 2**30)))
    assert "a copy of 1073741824 bytes at once; the most is" in why
    assert "at once" in server.said()


def test_element_counts_on_32_bit_boards(tmp_path: Path) -> None:
    """2**32 of one bit are 512 MiB, and none for a size_t of 32 bits."""
    edge = edge_for("armv7")
    arguments = rpc.values(
        struct.pack("<i", Type.TENSOR) + rpc.tensor(0, 2**32, dtype=(1, 1, 1)), rpc.NOTHING
    )
    with running_tracker() as tracker, edge.serving(tmp_path / "state", tracker) as process:
        small_board = Server(tracker, address_of(process), tmp_path / "none")
        with small_board.session() as talk:
            assert "than there can be" in talk.refusal(rpc.frame(Code.ALLOC_TENSOR, arguments))


def test_refuses_unknown_handles(server: Server) -> None:
    size = struct.pack("<Q", 64)
    with server.session() as talk:
        data = talk.memory(64)
        assert talk.say(rpc.frame(Code.COPY_TO, rpc.tensor(data, 16), size, bytes(range(64))))
        copied = talk.say(rpc.frame(Code.COPY_FROM, rpc.tensor(data, 8, 2), size))
        assert copied == struct.pack("<i", Code.COPY_ACK) + bytes(range(64))
        assert "lies outside" in talk.refusal(rpc.frame(Code.COPY_FROM, rpc.tensor(data + 4, 16), size))
    for tensor in (rpc.tensor(4096, 16), rpc.tensor(2**64 - 4, 16, offset=0)):
        with server.session() as talk:
            assert "lies outside" in talk.refusal(rpc.frame(Code.COPY_FROM, tensor, size))
    with server.session() as talk:
        data = talk.memory(64)
        freed = rpc.frame(Code.FREE, rpc.values(CPU_DEVICE, rpc.number(data, Type.POINTER)))
        assert talk.say(freed)[:4] == struct.pack("<i", Code.RETURN)
        assert "memory to free" in talk.refusal(freed)
    with server.session() as talk:
        assert "no function of this session" in talk.refusal(
            rpc.frame(Code.CALL, struct.pack("<Q", 0x1000), rpc.values())
        )


@pytest.mark.parametrize("kind", [Type.POINTER, Type.MODULE, Type.FUNCTION, Type.REMOTE])
def test_refuses_foreign_objects(server: Server, kind: Type) -> None:
    value = struct.pack("<iI", kind, kind) + b"\x40" * 8 if kind is Type.REMOTE else rpc.number(0x4040, kind)
    with server.session() as talk:
        info = talk.function("edge.info")
        assert "never handed out" in talk.refusal(
            rpc.frame(Code.CALL, struct.pack("<Q", info), rpc.values(value))
        )
    with server.session() as talk:  # a function is no module
        info = talk.function("edge.info")
        wrong = rpc.values(rpc.number(info, Type.MODULE))
        assert "never handed out" in talk.refusal(rpc.frame(Code.CALL, struct.pack("<Q", info), wrong))
    with server.session() as talk:
        info = talk.function("edge.info")
        free = rpc.frame(Code.FREE_HANDLE, rpc.values(rpc.number(info, Type.POINTER)))
        assert talk.say(free)[:4] == struct.pack("<i", Code.RETURN)
        assert "no function" in talk.refusal(rpc.frame(Code.CALL, struct.pack("<Q", info), rpc.values()))


def test_fence_cannot_be_bypassed(server: Server) -> None:
    with server.session() as talk:
        for name in ("rpc.ServerLoop", "rpc.Connect", "rpc.ReturnException", "rpc.CreatePipeClient"):
            assert talk.function(name) == 0
        assert talk.function("edge.info")


def test_functions_get_their_expected_arguments(server: Server) -> None:
    with server.session() as talk:
        files = [f"tvm.rpc.server.{name}" for name in ("upload", "download", "remove")]
        for name in (*files, "tvm.contrib.random.random_fill_for_measure"):
            function = struct.pack("<Q", talk.function(name))
            assert b"takes" in talk.say(rpc.frame(Code.CALL, function, rpc.values()))
