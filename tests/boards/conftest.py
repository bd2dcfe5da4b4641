"""One sshd for all tests of a run that do no harm to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.boards.ssh.sshd import Sshd, sshd
from toolchain.boards.ssh.address import Way
from toolchain.boards.ssh.transport import SshTransport


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("sshd")) as running:
        yield running


@pytest.fixture
def ssh(server: Sshd, tmp_path: Path) -> Iterator[SshTransport]:
    """A board in a folder of the test's own."""
    yield from _board(server, tmp_path, "paramiko")


@pytest.fixture
def by_client(server: Sshd, tmp_path: Path) -> Iterator[SshTransport]:
    """The same board, reached by the OpenSSH client."""
    yield from _board(server, tmp_path, "openssh")


def _board(server: Sshd, folder: Path, way: Way) -> Iterator[SshTransport]:
    root = folder / "board"
    root.mkdir()
    transport = SshTransport(server.address(ssh=way), str(root))
    yield transport
    transport.close()
