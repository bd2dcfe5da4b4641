"""A board whose server does what no server of ours does is put aside, until somebody starts it again."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import until
from toolchain.boards.board import Board
from toolchain.boards.emulation import emulated
from toolchain.boards.inventory.lookup import local_board
from toolchain.errors import ToolchainError
from toolchain.rpc import lab, session
from toolchain.rpc.frames import HOST

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]

# In the place of a board's edge-rt, and as large: it is what it should be until it serves.
LIAR = """#!{python}
import os, sys
if sys.argv[1] != "serve":
    os.execv({real!r}, [{real!r}, *sys.argv[1:]])
if {lie!r} == "talks":
    while True:
        print("x" * 1000)
sys.path.insert(0, {root!r})
from tests.rpc import fake_server
sys.argv += ["--lie", {said!r}]
fake_server.main()
"""


def make_a_liar_of(program: Path, lie: str, folder: Path) -> Path:
    """Put a liar in the place of an installed edge-rt; return where that lies now."""
    real, said = folder / "edge-rt", folder / "lie"
    shutil.copy(program, real)
    said.write_text(lie)
    script = LIAR.format(python=sys.executable, real=str(real), root=str(ROOT), said=str(said), lie=lie)
    program.write_bytes(script.encode().ljust(real.stat().st_size, b"#"))
    return real


@pytest.fixture
def board(state: Path) -> Iterator[tuple[Board, Path]]:
    board = emulated.start("x86_64", kind="process", name="a")
    (program,) = (state / "emulated" / "a" / "root" / "bin").iterdir()
    yield board, program
    lab.stop()


def test_one_that_never_stops_talking_fills_no_disk(
    board: tuple[Board, Path], state: Path, tmp_path: Path
) -> None:
    a, program = board
    make_a_liar_of(program, "talks", tmp_path)
    with pytest.raises(ToolchainError, match="board a: its server said more than 100 lines: it was"):
        lab.start([a])
    logged = sum(file.stat().st_size for file in (state / "lab" / "log").iterdir())
    assert logged < 1_000_000


def test_one_that_lied_stays_aside_until_it_is_started_again(
    board: tuple[Board, Path], tmp_path: Path
) -> None:
    a, program = board
    real = make_a_liar_of(program, "callback", tmp_path)
    running = lab.start([local_board(), a])
    with pytest.raises(ToolchainError, match="board a: its server sent kCallFunc, which only a client"):
        session.open_session(HOST, running.port, f"{a.tracker_key}@a", 30, 10)
    until(lambda: lab.status().boards["a"].state == "aside")
    assert "which only a client may say: it was put aside" in lab.status().boards["a"].reason
    assert lab.status().keys[a.tracker_key] == {"total": 0, "free": 0, "pending": 0}
    assert lab.status().boards["local"].state == "serving"
    shutil.copy(real, program)
    assert lab.start([a]).boards["a"].state == "serving"
