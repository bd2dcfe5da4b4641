"""Processes that a board of this host runs in the background: none outlives its owner."""

from __future__ import annotations

import subprocess
import sys

from tests.boards.local.left import assert_gone, pids
from toolchain.boards.local.transport import LocalTransport


def test_children_left_by_a_spawned_process_end_with_it(board: LocalTransport) -> None:
    process = board.spawn(["sh", "-c", "sleep 300 & echo $! > pids; exit 0"])
    numbers = pids(board)
    assert process.wait(60) == 0
    process.close()
    assert_gone(numbers)


def test_a_spawned_process_ends_when_its_owner_is_killed(board: LocalTransport) -> None:
    code = (
        "import sys, time; from pathlib import Path\n"
        "from toolchain.boards.local.transport import LocalTransport\n"
        "LocalTransport(Path(sys.argv[1])).spawn(['sh', '-c', 'echo $$ > pids; cat'])\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(board.root)]) as owner:
        numbers = pids(board)
        owner.kill()
    assert_gone(numbers)
