"""One sshd for all tests of a run that do no harm to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.boards.ssh.sshd import Sshd, sshd
from toolchain.boards.ssh.transport import SshTransport


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("sshd")) as running:
        yield running


@pytest.fixture
def ssh(server: Sshd, tmp_path: Path) -> Iterator[SshTransport]:
    """A board in a folder of the test's own."""
    root = tmp_path / "board"
    root.mkdir()
    transport = SshTransport(server.address(), str(root))
    yield transport
    transport.close()
