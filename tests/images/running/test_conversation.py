"""A container that is talked to: what it gets, what comes back, in which pieces, and how it ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.images.small_image import small_image
from tests.unique import UNIQUE
from toolchain.errors import ToolchainError
from toolchain.images.engine import Engine, connect
from toolchain.images.running.conversation import Conversation
from toolchain.images.running.step import Step

pytestmark = pytest.mark.slow

TAG = f"edge-toolchain/test-conversation:{UNIQUE}"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with connect() as engine, small_image(engine, tmp_path_factory.mktemp("image"), TAG):
        yield engine


def talk(engine: Engine, script: str) -> Conversation:
    return Conversation(engine, Step(TAG, ["/bin/sh", "-c", script], Path("/tmp"), [], name="parrot"))


def test_bytes_go_in_and_come_out_unchanged(engine: Engine) -> None:
    data = bytes(range(256)) * 256
    with talk(engine, "cat") as parrot:
        parrot.write(data, 60)
        assert parrot.read(3, 60) + parrot.read(len(data) - 3, 60) == data


def test_lines_and_bytes_can_be_mixed(engine: Engine) -> None:
    with talk(engine, "echo 4; echo bodyrest; echo words >&2; read -r line; echo $line back") as parrot:
        assert parrot.read_line(60) == "4"
        assert parrot.read(4, 60) == b"body"
        assert parrot.read_line(60) == "rest"
        parrot.write(b"come\n", 60)
        assert parrot.read_line(60) == "come back"
        with pytest.raises(ToolchainError, match="the container of parrot ended: words"):
            parrot.read(1, 60)


def test_container_ends_with_the_block(engine: Engine) -> None:
    with talk(engine, "trap '' TERM INT HUP; echo up; while :; do sleep 1; done") as parrot:
        assert parrot.read_line(60) == "up"
        with pytest.raises(ToolchainError, match="parrot does not answer"):
            parrot.read_line(0.2)
    assert engine.api.containers(all=True, filters={"ancestor": TAG}) == []


def test_input_ends_when_the_process_dies(engine: Engine) -> None:
    """So a compiler in it ends by itself where this process is killed."""
    with talk(engine, "echo up; cat; echo over") as parrot:
        assert parrot.read_line(60) == "up"
        parrot._socket.shutdown(1)  # what the kernel does with a dead process's
        assert parrot.read_line(60) == "over"
