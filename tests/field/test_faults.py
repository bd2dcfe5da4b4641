"""Every step of an installation with every fault: the end that faults.py says, on the disk."""

from __future__ import annotations

import errno
import json
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.field.board import Board, new_board, problem
from tests.field.build import faults
from tests.field.faults import AT_ONCE, IN_STEP, PAGE, STEPS, End, page
from tests.field.repeats import cut, policy
from tests.field.toy import APP, BOARD_CLASS, DAY, NEW, NOW, OLD, Toy
from tests.releases.made import EVE

pytestmark = pytest.mark.slow
_SIGNALS = {"the session ends (SIGHUP)": signal.SIGHUP, "somebody stops it (SIGTERM)": signal.SIGTERM}
_ERRORS = {"the disk is full": errno.ENOSPC, "the file system becomes read-only": errno.EROFS}


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return new_board(tmp_path, OLD)


def _looks(board: Board, end: End, said: dict[str, object] | None) -> None:
    """Check the last line, and the board once the fault is over."""
    if said is not None:
        assert said["end"] == end.said, said
        cause = said["cause"]
        assert (cause["code"] if isinstance(cause, dict) else "") == end.code, said
    assert board.call("recover")[0] == 0
    assert problem(board, {"old": OLD, "new": NEW}[end.current]) == ""
    assert board.install(NEW)["end"] in {"installed", "unchanged"}
    assert problem(board, NEW) == ""
    assert not list((board.app / "incoming").iterdir()), "parts of a release that is installed"


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("fault", IN_STEP)
def test_a_fault_in_a_step(fault: str, step: str, board: Board, tmp_path: Path) -> None:
    broken = tmp_path / "fault"
    variables = {
        "FIELD_STOP_IN": step,
        "FAULT_FILE": str(broken),
        "FAULT_ROOT": str(board.field),
        "LD_PRELOAD": str(faults()),
    }
    install = replace(board, environment=variables).begin()
    install.send(NEW.head())
    if step != "receive":
        install.send_parts(NEW)
    assert install.stopped()
    said: dict[str, object] | None = None
    if "killed" in fault:
        install.child.kill()
        install.child.wait()
        if "comes again" in fault:
            said = board.install(NEW)
            said = {**said, "end": "installed"} if said["end"] == "unchanged" else said
    elif fault == "the link breaks":
        install.close()
        install.go_on()
        install.child.wait(60)
        said = board.journal()[-1]
    elif fault in _SIGNALS:
        install.child.send_signal(_SIGNALS[fault])
        if step == "receive" and _SIGNALS[fault] == signal.SIGHUP:
            assert install.child.stdin is not None
            install.child.stdin.close()
        install.go_on()
        said = install.end()
    else:
        broken.write_text(str(int(_ERRORS[fault])))
        install.go_on()
        if step == "receive":
            install.send_parts(NEW)
        said = install.end()
        broken.unlink()
    _looks(board, IN_STEP[fault][step], said)
    install.close()


def _with(**changes: object) -> Callable[[Board], dict[str, object]]:
    return lambda board: board.install(Toy("2.0.0", changes=changes))


def _library(words: str, **changes: object) -> Callable[[Board], dict[str, object]]:
    return lambda board: board.install(Toy("2.0.0", library=words, changes=changes))


def _at(moment: int) -> Callable[[Board], dict[str, object]]:
    return lambda board: replace(board, environment={"FIELD_NOW": str(moment)}).install(NEW)


def _health(*words: str, timeout_s: int = 20) -> Callable[[Board], dict[str, object]]:
    def install(board: Board) -> dict[str, object]:
        policy(board, health=words, health_timeout_s=timeout_s)
        end = board.install(NEW)
        (board.app / "policy.json").unlink()
        return end

    return install


def _corrupt(board: Board) -> dict[str, object]:
    path = board.folder / "bad.edge"
    path.write_bytes(NEW.file()[:-3] + b"bad")
    (board.app / "releases" / OLD.digest / "expected" / "0.npy").rename(board.folder / "kept")
    last = board.call("install", str(path))[1][-1]
    (board.folder / "kept").rename(board.app / "releases" / OLD.digest / "expected" / "0.npy")
    return last


def _damaged(board: Board) -> dict[str, object]:
    policy(board, health=["sh", "-c", 'echo bad >"$EDGE_CURRENT"/../' + OLD.digest + "/library.so; false"])
    return board.install(NEW)


def _busy(board: Board) -> dict[str, object]:
    other = board.begin(FIELD_STOP_IN="receive")
    other.send(NEW.head())
    assert other.stopped()
    said = board.install(NEW)
    other.child.kill()
    other.child.wait()
    other.close()
    return said


RUN: dict[str, Callable[[Board], dict[str, object]]] = {
    "bad signature": lambda board: board.install(Toy("2.0.0", signers=[EVE])),
    "the clock is before the release's date": _at(NOW - 2 * DAY),
    "the clock is after its expiry": _at(NOW + 91 * DAY),
    "another class of board": lambda board: board.install(NEW, **{"class": "pynq"}),
    "an older version": lambda board: board.install(Toy("0.5.0"), downgrade=True),
    "another runtime": _with(
        requires={
            "arch": "toy",
            "glibc": None,
            "tvm": "0.1",
            "tvm_ffi": "toy",
            "features": [],
            "devices": [],
            "functions": [],
        }
    ),
    "a corrupt part": _corrupt,
    "the self-test is wrong": _library("times 3"),
    "the self-test is slow": _library("slow times 2", budget={"latency_us": 40_000, "memory_kib": None}),
    "the self-test needs too much memory": _library("eat times 2"),
    "the library crashes": _library("crash"),
    "the library ends the process": _library("exit"),
    "the library hangs": _library(
        "hang",
        test={
            "runs": 1,
            "timeout_s": 1,
            "outputs": [{"compare": "values", "tolerance_ppb": 0, "step": None, "values": None}],
        },
    ),
    "the health command fails": _health("sh", "-c", "echo first; echo the app is ill; exit 3"),
    "the health command hangs": _health("sleep", "1000", timeout_s=1),
    "the health command fails, and the old release is damaged": _damaged,
    "another installation is at work": _busy,
}


@pytest.mark.parametrize("fault", AT_ONCE)
def test_a_fault_from_the_beginning_on(fault: str, board: Board) -> None:
    end = AT_ONCE[fault]
    said = RUN[fault](board)
    if end.current != "damaged":
        return _looks(board, end, said)
    assert (said["end"], said["rollback"]["code"]) == (end.said, end.current)
    assert board.status()["state"] == "broken"
    (board.app / "policy.json").unlink()
    assert board.install(NEW)["end"] == "installed"
    return None


@pytest.mark.parametrize("damage", ["cut short", "unreadable"])
def test_a_cut_beside_a_damaged_release_is_ended_and_the_next_installation_mends_it(
    board: Board, damage: str
) -> None:
    cut(board, "unpack")
    statement = board.app / "releases" / OLD.digest / "release.json"
    bad = {"LD_PRELOAD": str(faults()), "FAULT_READ": f"{OLD.digest}/expected"}
    if damage == "cut short":
        statement.write_bytes(statement.read_bytes()[:100])
    code, _ = board.call("recover", **(bad if damage == "unreadable" else {}))
    assert code == 0 and board.status()["state"] == "broken"
    assert replace(board, environment=bad).install(NEW)["end"] == "installed"
    assert problem(board, NEW) == ""


@pytest.mark.parametrize("verb", ["recover", "prune"])
def test_a_full_disk_gets_rid_of_what_was_received(board: Board, verb: str) -> None:
    cut(board, "check")
    incoming, full = board.app / "incoming", board.folder / "full"
    assert list(incoming.iterdir())
    full.write_text(str(int(errno.ENOSPC)))
    variables = {"LD_PRELOAD": str(faults()), "FAULT_FILE": str(full), "FAULT_ROOT": str(board.app)}
    app = ["--app", APP] if verb == "prune" else []
    assert board.call(verb, *app, **variables, FAULT_WHILE=str(incoming))[0] == 0
    assert not list(incoming.iterdir()) and problem(board, OLD) == ""
    assert board.install(NEW)["end"] == "installed"


def test_a_part_that_the_disk_does_not_give_back_is_received(board: Board) -> None:
    bad = {"LD_PRELOAD": str(faults()), "FAULT_READ": f"{OLD.digest}/sample"}
    said = replace(board, environment=bad).install(NEW)
    assert (said["end"], problem(board, NEW)) == ("installed", "")


def test_a_part_that_could_not_be_synced_is_received_again(board: Board) -> None:
    bad = {"LD_PRELOAD": str(faults()), "FAULT_SYNC": "/incoming/"}
    said = replace(board, environment=bad).install(NEW)
    assert (said["end"], said["cause"]["code"]) == ("interrupted", "disk")
    assert not list((board.app / "incoming").iterdir()), "the kernel may have bytes that the disk has not"
    assert board.install(NEW)["end"] == "installed"


def test_room_is_made_and_what_was_there_is_looked_for_again(board: Board) -> None:
    # Parts are looked for in the order of the digests: its sample is found before that of OLD.
    toys = (Toy("1.5.0", library="times 3", padding=64 * number) for number in range(1, 100))
    tried = next(toy for toy in toys if toy.digest < OLD.digest)
    assert board.install(tried)["end"] == "refused", "it stays unpacked, and shares its sample"
    assert (board.app / "releases" / tried.digest).is_dir()
    bad = {"LD_PRELOAD": str(faults()), "FAULT_ROOM": "none at first"}
    said = replace(board, environment=bad).install(NEW)
    assert said["end"] == "installed" and not (board.app / "releases" / tried.digest).exists()
    assert problem(board, NEW) == ""


def test_the_page_says_what_the_tests_do() -> None:
    assert PAGE.read_text() == page(), "python -m tests.field.faults"


def test_a_release_from_a_file_is_for_the_class_that_provisioning_noted(board: Board) -> None:
    nobody: dict[str, object] = {"class": None}
    unknown = board.install(NEW, **nobody)["cause"]
    assert unknown["code"] == "class" and "`toolchain board provision` notes" in unknown["message"]
    note = board.field / ".board.json"
    note.write_text('{"class": "pynq"}')
    assert "this is a board of class pynq" in board.install(NEW, **nobody)["cause"]["message"]
    note.write_text(json.dumps({"class": BOARD_CLASS}))
    note.chmod(0o666)
    assert board.install(NEW, **nobody)["cause"]["code"] == "policy"
    note.chmod(0o600)
    assert board.install(NEW, **nobody)["end"] == "installed"
    assert problem(board, NEW) == ""


def test_the_word_of_the_host_and_of_the_policy_go_before_the_noted_class(board: Board) -> None:
    (board.field / ".board.json").write_text('{"class": "pynq"}')
    assert board.install(NEW)["end"] == "installed"  # the host says the class
    policy(board, **{"class": BOARD_CLASS})
    assert board.install(OLD, downgrade=True, **{"class": None})["cause"]["code"] == "version"
