"""What commands leave on a board: processes and files."""

from __future__ import annotations

from pathlib import Path

from tests.waiting import until
from toolchain.boards.local.transport import LocalTransport
from toolchain.boards.ssh.transport import SshTransport

# A shell that has a child, both deaf to SIGTERM; the pids are in the file `pids`.
STUBBORN = "trap '' TERM; (trap '' TERM; sleep 300) & echo $$ $! > pids; wait"


def pids(board: LocalTransport | SshTransport) -> list[int]:
    file = Path(board.root, "pids")
    until(lambda: file.exists() and file.read_text().endswith("\n"), what="the start of the command")
    return [int(word) for word in file.read_text().split()]


def assert_gone(numbers: list[int]) -> None:
    until(lambda: not any(Path(f"/proc/{n}").exists() and not _zombie(n) for n in numbers), what="their end")


def _zombie(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())
