"""One command of edge-rt on a board: what comes back of it, and every way in which nothing does."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.measuring.changed import code, nothing_left, root, with_library
from tests.waiting import PATIENCE_S, until
from toolchain.boards.board import Board
from toolchain.bundles.read import Bundle
from toolchain.errors import CheckError, ToolchainError, UsageError
from toolchain.measuring.answers import Ran
from toolchain.measuring.bench import bench_bundle
from toolchain.measuring.deadlines import Deadline
from toolchain.measuring.execute import VerbRequest, invoke
from toolchain.measuring.execution import Execution, OnBoard
from toolchain.measuring.place import place
from toolchain.measuring.verify import verify_bundle

pytestmark = pytest.mark.slow

LIMIT = Deadline(60.0, "of a test")


def fits(_answer: Ran) -> None:
    """Take every answer."""


RUN = VerbRequest("run", Ran, fits)


def test_outputs_are_keyed_by_position(for_local: Bundle, local: Board, tmp_path: Path) -> None:
    placed, file = place(for_local, OnBoard(local), Execution(threads=1)), tmp_path / "out.npz"
    answer = invoke(placed, RUN, for_local.sample, LIMIT, file)
    assert answer.threads == 1
    with np.load(file) as found:
        assert list(found) == ["0", "1"], "a name of a network may be none of a file's"
        for array, output, expected in zip(
            found.values(), answer.outputs, for_local.expected.values(), strict=True
        ):
            assert (output.dtype, tuple(output.shape)) == (str(array.dtype), array.shape)
            np.testing.assert_allclose(array, expected, rtol=1e-4, atol=1e-5)
    assert nothing_left(local)


def test_fetches_no_outputs_after_bad_answer(for_local: Bundle, local: Board, tmp_path: Path) -> None:
    placed, file = place(for_local, OnBoard(local)), tmp_path / "out.npz"

    def refused(_answer: Ran) -> None:
        raise CheckError("it is another network's")

    with pytest.raises(CheckError, match="another network's"):
        invoke(placed, replace(RUN, check=refused), for_local.sample, LIMIT, file)
    with pytest.raises(CheckError, match=r"board local: the answer of `edge-rt run` cannot be right: it has"):
        invoke(placed, replace(RUN, most=10), for_local.sample, LIMIT, file)
    assert not file.exists() and nothing_left(local)


def test_unknown_edge_rt_option_is_usage_error(for_local: Bundle, local: Board) -> None:
    placed = place(for_local, OnBoard(local))
    with pytest.raises(UsageError, match=r"run of small on board local: .*--bogus"):
        invoke(placed, replace(RUN, options=["--bogus", "1"]), for_local.sample, LIMIT)
    assert nothing_left(local)


@pytest.mark.parametrize("where", ["local", "rk3399"])
def test_crash_is_reported_with_signal(where: str, request: pytest.FixtureRequest) -> None:
    board: Board = request.getfixturevalue(where)
    bundle: Bundle = request.getfixturevalue(f"for_{where}")
    begin, end = code(bundle.library)
    trap = b"\x0f\x0b" if board.profile.arch == "x86_64" else b"\0\0\0\0"  # ud2, udf #0
    filled = (trap * (end - begin))[: end - begin]
    library = bundle.library[:begin] + filled + bundle.library[end:]
    with pytest.raises(ToolchainError, match=r"on board \w+: the library crashed with SIGILL"):
        verify_bundle(with_library(bundle, library), OnBoard(board))
    assert nothing_left(board)
    assert not list(root(board).glob("*core*"))


def test_invalid_library_is_an_error(for_local: Bundle, local: Board) -> None:
    with pytest.raises(ToolchainError, match=r"run of small on board local: .*no ELF header"):
        verify_bundle(with_library(for_local, b"no library"), OnBoard(local))


def test_run_is_killed_after_timeout(for_rk3399: Bundle, rk3399: Board) -> None:
    with pytest.raises(ToolchainError, match=r"did not end within 0.05 s \(given by --timeout\)") as raised:
        verify_bundle(for_rk3399, OnBoard(rk3399, timeout=0.05))
    assert "--timeout S" in raised.value.hint
    assert nothing_left(rk3399)


class Holder:
    """Holds a board's lock as a measurement does."""

    def __init__(self, board: Board) -> None:
        folder = root(board) / "state"
        folder.mkdir(exist_ok=True)
        self._file = (folder / "measure.lock").open("w")
        fcntl.flock(self._file, fcntl.LOCK_EX)
        self._file.write('{"pid": 4711, "what": "bench of another"}\n')
        self._file.flush()

    def release(self) -> None:
        self._file.truncate(0)
        self._file.close()


def test_busy_board_names_holder_and_wait_succeeds(for_local: Bundle, local: Board) -> None:
    holder = Holder(local)
    with pytest.raises(
        ToolchainError, match=r"board local is busy: bench of another \(process 4711"
    ) as raised:
        bench_bundle(for_local, OnBoard(local))
    assert "--wait" in raised.value.hint
    assert raised.value.exit_code == 1
    assert nothing_left(local)
    releasing = threading.Timer(0.7, holder.release)
    releasing.start()
    assert verify_bundle(for_local, OnBoard(local, wait=30)).passed
    releasing.join()


def test_busy_board_counts_waiting_processes(for_local: Bundle, local: Board) -> None:
    holder = Holder(local)
    queue = root(local) / "state" / "measure.queue"
    queue.mkdir(mode=0o700, exist_ok=True)
    with ExitStack() as waiting:
        for number in (1, 2):
            ticket = waiting.enter_context((queue / f"{number:019d}-{number}").open("w"))
            fcntl.flock(ticket, fcntl.LOCK_EX)
        with pytest.raises(ToolchainError, match=r"\(process 4711 there\) holds it; 2 more wait for it"):
            bench_bundle(for_local, OnBoard(local))
    holder.release()


def test_ctrl_c_leaves_neither_process_nor_files(for_local: Bundle, local: Board) -> None:
    holder = Holder(local)
    program = (
        "import sys; from pathlib import Path\n"
        "from toolchain.boards.inventory.lookup import find_board\n"
        "from toolchain.bundles.read import read_bundle\n"
        "from toolchain.measuring.execution import OnBoard\n"
        "from toolchain.measuring.verify import verify_bundle\n"
        "verify_bundle(read_bundle(Path(sys.argv[1])), OnBoard(find_board('local'), wait=60))\n"
    )
    argv = [sys.executable, "-c", program, str(for_local.path)]
    with subprocess.Popen(argv, stderr=subprocess.PIPE) as owner:
        until(lambda: working_in(root(local)))
        runners = working_in(root(local))
        owner.send_signal(signal.SIGINT)
        assert b"KeyboardInterrupt" in owner.communicate(timeout=PATIENCE_S)[1]
    holder.release()
    assert not set(runners) & set(working_in(root(local)))
    assert nothing_left(local)


def working_in(folder: Path) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink() == folder and "run/" in (process / "cmdline").read_text():
                found.append(process.name)
        except OSError:
            continue
    return found


def test_library_is_sent_once_and_stale_runs_are_removed(for_local: Bundle, local: Board) -> None:
    old = root(local) / "run" / "old"
    old.mkdir(parents=True)
    os.utime(old, (1, 1))
    recent = root(local) / "run" / "recent"
    recent.mkdir()
    verify_bundle(for_local, OnBoard(local))
    (library,) = (root(local) / "lib").iterdir()
    inode = library.stat().st_ino
    verify_bundle(for_local, OnBoard(local))
    assert library.stat().st_ino == inode
    assert list(local.transport.listing("run")) == ["recent"]
