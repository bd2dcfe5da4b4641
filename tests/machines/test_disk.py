"""The disk loses what was not flushed, a machine's memory is lost besides, and nothing else is."""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.machines.disk import BLOCK, Disk
from tests.machines.machine import Machine, machine
from tests.machines.programs import path_with_qemu

_CHANCE = random.Random(0)


class Client:
    """A machine's side of the protocol."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(path))
        self._take(18)
        self.socket.sendall(struct.pack(">I", 3) + struct.pack(">QII", 0x49484156454F5054, 7, 6) + bytes(6))
        self.size = struct.unpack(">QIIIHQH", self._take(32))[5]
        self._take(20)

    def ask(self, kind: int, offset: int = 0, length: int = 0, data: bytes = b"", flags: int = 0) -> bytes:
        self.socket.sendall(
            struct.pack(">IHHQQI", 0x25609513, flags, kind, 9, offset, length or len(data)) + data
        )
        assert struct.unpack(">IIQ", self._take(16)) == (0x67446698, 0, 9)
        return self._take(length)

    def _take(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            data += self.socket.recv(length - len(data))
        return data


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    monkeypatch.chdir(tmp_path)  # a socket's path is short
    Path("base").write_bytes(b"o" * 8 * BLOCK)
    made = Disk(Path("base"), Path("disk"))
    yield made
    made.close()


def _after(disk: Disk, how: str) -> bytes:
    disk.cut(_CHANCE, how)
    return Client(Path("disk")).ask(0, 0, 8 * BLOCK)


@pytest.mark.parametrize(("how", "there"), [("all", b"o"), ("none", b"b")])
def test_a_cut_loses_what_was_not_flushed(disk: Disk, how: str, there: bytes) -> None:
    client = Client(Path("disk"))
    assert client.size == 8 * BLOCK
    client.ask(1, 0, data=b"a" * BLOCK)  # write
    client.ask(3)  # flush
    client.ask(1, BLOCK, data=b"b" * BLOCK)
    client.ask(1, 2 * BLOCK + 512, data=b"f" * 512, flags=1)  # FUA
    assert client.ask(0, BLOCK, BLOCK) == b"b" * BLOCK, "a machine reads what it wrote"
    client.socket.close()
    content = _after(disk, how)
    assert content[:BLOCK] == b"a" * BLOCK and content[BLOCK : 2 * BLOCK] == there * BLOCK
    assert content[2 * BLOCK : 2 * BLOCK + 1536] == b"o" * 512 + b"f" * 512 + b"o" * 512
    assert disk.flushes == 1


def test_what_a_flush_has_not_finished_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("base").write_bytes(b"o" * BLOCK)
    disk = Disk(Path("base"), Path("disk"), flush_s=60)
    client = Client(Path("disk"))
    client.ask(1, 0, data=b"a" * BLOCK)
    client.socket.sendall(struct.pack(">IHHQQI", 0x25609513, 0, 3, 9, 0, 0))
    disk.switch_off()
    assert disk.cut(_CHANCE, "all").lost == 1 and disk.flushes == 0
    assert Client(Path("disk")).ask(0, 0, BLOCK) == b"o" * BLOCK
    disk.close()


def test_some_lost_means_each_block_by_itself_and_any_of_its_writes(disk: Disk) -> None:
    seen = set()
    for number in range(40):
        disk.restore({})
        client = Client(Path("disk"))
        client.ask(1, 0, data=b"a" * BLOCK)
        client.ask(1, BLOCK, data=b"b" * BLOCK)
        client.ask(1, 0, data=b"c" * BLOCK)
        client.socket.close()
        loss = disk.cut(random.Random(number), "some")
        content = Client(Path("disk")).ask(0, 0, 2 * BLOCK)
        seen.add((content[:1], content[BLOCK : BLOCK + 1]))
        assert loss.unflushed == 2
    assert seen == {(first, second) for first in (b"o", b"a", b"c") for second in (b"o", b"b")}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", path_with_qemu())
        patch.setenv("TOOLCHAIN_STATE_DIR", str(tmp_path_factory.mktemp("state")))
        with machine("cut") as made:
            made.boot()
            made.say("head -c 262144 /dev/zero | tr '\\0' o >direct; cp direct flushed; sync")
            made.say("head -c 262144 /dev/zero | tr '\\0' n >/dev/shm/new")
            made.save()
            yield made


@pytest.mark.full
@pytest.mark.timeout(3600)  # a machine is made, and booted four times
@pytest.mark.parametrize(("how", "direct"), [("none", "n"), ("all", "o")])
def test_a_machine_loses_what_it_did_not_sync(saved: Machine, how: str, direct: str) -> None:
    """With `none`, as if QEMU alone were killed: what a program has written past the page cache survives."""
    saved.restore()
    saved.say("echo kept >synced && sync synced . && echo lost >written")
    write = "dd if=/dev/shm/new bs=4096 conv=notrunc{} oflag=direct of={}"
    saved.say(f"{write.format(',fsync', 'flushed')} && {write.format('', 'direct')}")
    loss = saved.cut(_CHANCE, how)
    assert loss.unflushed >= 64, "the control wrote without a flush"
    saved.boot()
    assert saved.say("cat synced").strip() == "kept"
    assert saved.say("cat written 2>/dev/null || true").strip() == "", (
        "a program without fsync keeps its data"
    )
    assert saved.say("head -c 1 flushed") == "n", "what was flushed is lost"
    assert saved.say("tr -d on <direct | wc -c; head -c 1 direct").split() == ["0", direct]
    saved.cut(_CHANCE, "none")
