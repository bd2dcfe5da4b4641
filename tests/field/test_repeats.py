"""Cut anywhere, faulted anywhere, and repeated: a command ends where one undisturbed run ends."""

from __future__ import annotations

import errno
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.field.board import Board, new_board, problem
from tests.field.build import faults
from tests.field.faults import AGAIN, End
from tests.field.repeats import COMMANDS, MEMORY, OLDEST, RESIGNED, Scene, cut, cut_rollback, flip, run
from tests.field.toy import APP, NEW, OLD, Toy

pytestmark = pytest.mark.slow
_SAMPLE = 20  # cases of each command, drawn by a seed
_TOYS = {"old": OLD, "new": NEW, "another": RESIGNED}
Said = dict[str, object] | None


@pytest.fixture
def scenes() -> Iterator[Callable[[str], Scene]]:
    with TemporaryDirectory(dir=MEMORY, prefix="repeats-") as folder:
        yield lambda name: Scene(name, Path(folder) / name.replace(" ", "-"))


@pytest.mark.parametrize("name", COMMANDS)
def test_a_sample_of_cuts_and_faults_ends_as_undisturbed(name: str, scenes: Callable[[str], Scene]) -> None:
    scene = scenes(name)
    cases = list(scene.cases())
    chosen = random.Random(name).sample(cases, min(_SAMPLE, len(cases)))
    assert [text for text in map(scene.wrong, chosen) if text] == []


@pytest.mark.full
@pytest.mark.parametrize("name", COMMANDS)
def test_every_cut_and_fault_ends_as_undisturbed(name: str, scenes: Callable[[str], Scene]) -> None:
    scene = scenes(name)
    assert [text for text in map(scene.wrong, scene.cases()) if text] == []


def _faulted(
    scene: Scene, call: str, how: str = "once", error: int = errno.EIO, last: bool = False
) -> tuple[Board, Said]:
    """Give a command with a fault at the first or last call of a name; return the board and the answer."""
    numbers = [number for number, each in enumerate(scene.calls, 1) if each.startswith(call)]
    assert numbers, scene.calls
    board = scene.copy("faulted")
    number = str(numbers[-1 if last else 0])
    _, lines = run(board, scene.command, FAULT_CALL=number, FAULT_HOW=how, FAULT_ERROR=str(error))
    return board, lines[-1] if how != "kill" else None


def _again(scene: Scene, board: Board) -> Said:
    return run(board, scene.command)[1][-1]


def _rollback(board: Board, *words: str) -> Said:
    return board.call("rollback", "--app", APP, *words)[1][-1]


Play = Callable[[Callable[[str], Scene]], tuple[Board, Said]]


def _killed_rollback(scenes: Callable[[str], Scene]) -> tuple[Board, Said]:
    board = scenes("install a newer release").copy("board")
    assert board.install(NEW)["end"] == "installed"
    cut_rollback(board)
    return board, _rollback(board)


def _lost_answer(scenes: Callable[[str], Scene]) -> tuple[Board, Said]:
    scene = scenes("roll back")
    board = scene.copy("board")
    assert run(board, scene.command)[0] == 0
    return board, _again(scene, board)


def _same_link(scenes: Callable[[str], Scene]) -> tuple[Board, Said]:
    board = scenes("roll back").copy("board")
    (board.app / "previous").unlink()
    (board.app / "previous").symlink_to(f"releases/{NEW.digest}")
    return board, _rollback(board)


def _no_previous(scenes: Callable[[str], Scene]) -> tuple[Board, Said]:
    board, said = _faulted(scenes("install a newer release"), "rename /toy/previous")
    assert (board.app / "releases" / OLD.digest).exists(), "it is what a rollback goes to"
    assert board.status()["state"] == "cut"
    assert board.call("recover")[0] == 0 and board.current("previous") == OLD.digest
    return board, said


def _no_prune(scenes: Callable[[str], Scene]) -> tuple[Board, Said]:
    scene = scenes("install a newer release")
    board, said = _faulted(scene, "rename /toy/releases", last=True)
    assert len(list((board.app / "releases").iterdir())) == 3
    assert _again(scene, board)["end"] == "unchanged"
    assert len(list((board.app / "releases").iterdir())) == 2 and not board.status()["error"]
    return board, said


def _killed_before_pruning(scenes: Callable[[str], Scene]) -> tuple[Board, Said]:
    board, said = _faulted(scenes("install a newer release"), "rename /toy/releases", "kill", last=True)
    assert board.call("recover")[0] == 0
    assert sorted(path.name for path in (board.app / "releases").iterdir()) == sorted(
        [OLD.digest, NEW.digest]
    )
    return board, said


def _killed_mending(scenes: Callable[[str], Scene]) -> tuple[Board, Said]:
    scene = scenes("mend what is current")
    board, _ = _faulted(scene, f"rename /toy/releases/{NEW.digest}/library.so", "kill")
    return board, _again(scene, board)


def _changed(scenes: Callable[[str], Scene]) -> tuple[Board, Said]:
    scene = scenes("mend what is current")
    board = scene.copy("board")
    return board, _again(scene, board)


def _resigned(scenes: Callable[[str], Scene]) -> tuple[Board, Said]:
    board = scenes("install another statement").copy("board")
    said = board.install(RESIGNED)
    status = board.status()
    assert said["received"] == 0 and (status["version"], status["newest"]) == ("3.0.0", "3.0.0")
    assert (status["digest"], status["statement"]) == (OLD.digest, RESIGNED.statement_digest)
    return board, said


def _older_than_resigned(scenes: Callable[[str], Scene]) -> tuple[Board, Said]:
    board, _ = _resigned(scenes)
    return board, board.install(Toy("2.5.0"))


def _back(scenes: Callable[[str], Scene]) -> Board:
    """A board that went back from NEW to OLD."""
    scene = scenes("roll back")
    board = scene.copy("board")
    assert run(board, scene.command)[0] == 0
    return board


def _another_content(scenes: Callable[[str], Scene]) -> tuple[Board, Said]:
    board = _back(scenes)
    return board, board.install(Toy(NEW.version, padding=999))


def _state_lost(scenes: Callable[[str], Scene]) -> tuple[Board, Said]:
    board = _back(scenes)
    (board.app / "state").write_text("{ no more")
    return board, board.install(Toy("1.5.0"))


def _newest_lost(scenes: Callable[[str], Scene]) -> tuple[Board, Said]:
    board = _back(scenes)
    (board.app / "newest").write_bytes(b"\0\0\0")
    said = board.install(NEW)
    assert board.status()["error"]["code"] == "newest"
    _way_out(board, said)
    return board, said


def _both_lost(scenes: Callable[[str], Scene]) -> tuple[Board, Said]:
    board = _back(scenes)
    (board.app / "newest").unlink()
    (board.app / "state").unlink()
    said = board.install(NEW)
    _way_out(board, said)
    return board, said


def _way_out(board: Board, said: dict[str, Any]) -> None:
    """Do what a message says."""
    said_how = said["cause"]["message"]
    assert str(board.app / "newest") in said_how and "`echo 2.0.0 >newest` in that folder" in said_how
    (board.app / "newest").write_text("2.0.0\n")
    assert board.install(Toy("1.5.0"))["cause"]["code"] == "version"


def _writable(scenes: Callable[[str], Scene]) -> tuple[Board, Said]:
    board = scenes("install a newer release").copy("board")
    board.app.chmod(0o777)
    said = board.install(NEW)
    assert board.call("prune", "--app", APP)[1][0]["error"]["kind"] == "folder"
    board.app.chmod(0o755)
    return board, said


def _linked(name: str) -> Play:
    def play(scenes: Callable[[str], Scene]) -> tuple[Board, Said]:
        board = scenes("install a newer release").copy("board")
        folder, elsewhere = board.app / name, board.folder / "elsewhere"
        folder.rename(elsewhere)
        (elsewhere / "mine").write_text("not edge-rt's")
        before = sorted(path.name for path in elsewhere.rglob("*"))
        folder.symlink_to(elsewhere)
        said = board.install(NEW)
        for verb in ("prune", "recover", "rollback"):
            assert board.call(verb, *(() if verb == "recover" else ("--app", APP)))[0] != 0
        assert board.status()["error"]["code"] == "folder"
        assert sorted(path.name for path in elsewhere.rglob("*")) == before
        folder.unlink()
        (elsewhere / "mine").unlink()
        elsewhere.rename(folder)
        return board, said

    return play


def _filled(scenes: Callable[[str], Scene]) -> tuple[Board, Said]:
    board = scenes("install a newer release").copy("board")
    assert board.install(Toy("1.5.0", library="times 3"))["cause"]["code"] == "wrong"
    full = board.folder / "full"
    # Until what was received goes, there is space for nothing.
    variables = {
        "LD_PRELOAD": str(faults()),
        "FAULT_FILE": str(full),
        "FAULT_ROOT": str(board.app),
        "FAULT_WHILE": str(board.app / "incoming"),
    }
    install = replace(board, environment=variables).begin(FIELD_STOP_IN="receive")
    install.send(NEW.head())
    assert install.stopped()
    (board.app / "incoming" / "begun").write_bytes(b"x")
    full.write_text(str(int(errno.ENOSPC)))
    install.go_on()
    install.send_parts(NEW)
    said = install.end()
    install.close()
    full.unlink()
    there = board.status()
    assert (there["state"], there["error"]["code"], there["tried"]["version"]) == ("active", "space", "2.0.0")
    assert not list(board.app.rglob("*.new")) and there["incoming"] == 0
    return board, said


PLAYS: dict[str, Play] = {
    "a rollback is killed once it is decided, and comes again": _killed_rollback,
    "a rollback's answer is lost, and it comes again": _lost_answer,
    "the disk fails once in a rollback, before `current` is another": lambda scenes: _faulted(
        scenes("roll back"), "rename /toy/current"
    ),
    "the disk fails once in a rollback, after `current` is another": lambda scenes: _faulted(
        scenes("roll back"), "rename /toy/previous"
    ),
    "the disk takes no change from the decision of a rollback on": lambda scenes: _faulted(
        scenes("roll back"), "symlink /toy/current.new", "on", errno.EROFS
    ),
    "`previous` names what is current": _same_link,
    "`previous` cannot be written after the commit": _no_previous,
    "what is old cannot be removed after the commit": _no_prune,
    "edge-rt is killed after the commit, before it removes what is old; `recover`": _killed_before_pruning,
    "a changed library is mended, that is killed, and the release comes again": _killed_mending,
    "a byte of the current library has changed, and the release comes again": _changed,
    "another statement of the bundle in use": _resigned,
    "an older version than another statement of the bundle in use": _older_than_resigned,
    "after a way back, another release of the version that was left": _another_content,
    "after a way back with a state that cannot be read, an older version": _state_lost,
    "`newest` cannot be read": _newest_lost,
    "neither `newest` nor the state can be read": _both_lost,
    "others may write to the app's folder": _writable,
    "`incoming` is a link": _linked("incoming"),
    "`releases` is a link": _linked("releases"),
    "a program fills the disk in receive, after a refusal": _filled,
}


@pytest.mark.parametrize("what", AGAIN)
def test_what_another_command_left(what: str, scenes: Callable[[str], Scene]) -> None:
    end: End = AGAIN[what]
    board, said = PLAYS[what](scenes)
    if said is not None:
        cause = said["cause"]
        assert (said["end"], cause["code"] if isinstance(cause, dict) else "") == (end.said, end.code), said
    assert board.call("recover")[0] == 0
    toy = _TOYS[end.current]
    assert problem(board, toy) == ""
    last = RESIGNED if end.current == "another" else NEW
    assert board.install(last)["end"] in {"installed", "unchanged"}
    assert problem(board, last) == "" and not list((board.app / "incoming").iterdir())


def test_a_rollback_from_another_statement_has_the_old_one_again(tmp_path: Path) -> None:
    board = new_board(tmp_path, OLDEST, OLD)
    assert board.install(RESIGNED)["end"] == "installed"
    said = _rollback(board, "--leave", RESIGNED.statement_digest)
    assert said and said["version"] == OLD.version and problem(board, OLD) == ""
    again = _rollback(board, "--leave", RESIGNED.statement_digest)
    assert again and again["version"] == OLD.version, "it was left already"
    assert board.status()["newest"] == RESIGNED.version


def test_another_statement_is_tested_by_its_own_budget(tmp_path: Path) -> None:
    board = new_board(tmp_path, OLD)
    greedy = Toy("3.0.0", bundle_of=OLD.version, changes={"budget": {"latency_us": None, "memory_kib": 1}})
    assert board.install(greedy)["cause"]["code"] == "memory"
    assert problem(board, OLD) == "" and board.status()["newest"] == OLD.version


def test_a_board_says_which_attempt_it_speaks_of(tmp_path: Path) -> None:
    board = new_board(tmp_path, OLD)
    (board.app / "policy.json").write_text(json.dumps({"health": ["false"], "health_tries": 1}))
    said = board.install(NEW, attempt="0123456789abcdef")
    assert (said["end"], said["attempt"]) == ("rolled-back", "0123456789abcdef")
    assert board.status()["tried"]["attempt"] == "0123456789abcdef"
    assert board.install(NEW)["attempt"] is None, "a host of the first version gives none"
    assert board.install(NEW, attempt="../x")["cause"]["code"] == "stream"


def test_one_board_that_cannot_be_recovered_keeps_no_other_waiting(tmp_path: Path) -> None:
    board = new_board(tmp_path, OLD, NEW)
    cut_rollback(board)
    first = board.field / "a"
    first.mkdir()
    (first / "state").write_text("{}")
    first.chmod(0o777)
    code, lines = board.call("recover")
    assert code != 0 and lines[0]["error"]["kind"] == "folder"
    assert board.current() == OLD.digest and board.current("previous") == NEW.digest


def test_a_flipped_byte_that_was_cut_in_mending_is_mended_by_the_first_repeat(tmp_path: Path) -> None:
    board = new_board(tmp_path, OLD, NEW)
    flip(board)
    # As a cut before the rename left it: the fresh file beside the changed one.
    (board.app / "current" / "library.so.new").write_bytes(NEW.parts["library.so"])
    assert board.install(NEW)["end"] == "installed" and problem(board, NEW) == ""


_FIRST_KEYS = ("step", "version", "digest", "current", "previous", "newest", "since", "error")


def _as_the_first_version(board: Board) -> None:
    """Leave what edge-rt 0.1.0 leaves: a state of fewer keys, and no file `newest`."""
    state = json.loads((board.app / "state").read_text())
    (board.app / "state").write_text(json.dumps({key: state[key] for key in _FIRST_KEYS}) + "\n")
    (board.app / "newest").unlink()


def test_a_board_of_the_first_version_goes_on(tmp_path: Path) -> None:
    board = new_board(tmp_path, OLDEST, OLD)
    _as_the_first_version(board)
    assert board.status()["newest"] == OLD.version
    assert board.install(OLDEST)["cause"]["code"] == "version"
    assert board.install(Toy(OLD.version, padding=999))["cause"]["code"] == "version"
    assert board.install(OLD)["end"] == "unchanged"
    assert (board.app / "newest").read_text().split() == [OLD.version, OLD.statement_digest]
    assert board.install(NEW)["end"] == "installed" and problem(board, NEW) == ""


def test_a_board_of_the_first_version_that_went_back_knows_what_it_left(tmp_path: Path) -> None:
    board = new_board(tmp_path, OLD, NEW)
    assert board.call("rollback", "--app", APP)[0] == 0
    _as_the_first_version(board)
    assert board.install(Toy("1.5.0"))["cause"]["code"] == "version"
    assert board.install(Toy(NEW.version, padding=999))["cause"]["code"] == "version"
    assert board.install(NEW)["end"] == "installed"


def test_a_rollback_that_the_first_version_was_cut_in_comes_to_its_end(tmp_path: Path) -> None:
    board = new_board(tmp_path, OLD, NEW)
    cut_rollback(board)
    _as_the_first_version(board)
    said = _rollback(board)
    assert said and said["end"] == "rolled-back" and problem(board, OLD) == ""


def test_what_the_first_version_was_undoing_is_undone(tmp_path: Path) -> None:
    board = new_board(tmp_path, OLD)
    cut(board, "health")
    state = json.loads((board.app / "state").read_text())
    (board.app / "state").write_text(json.dumps(state | {"step": "rollback"}))
    _as_the_first_version(board)
    assert board.call("recover")[1][0]["recovered"][0]["step"] == "rollback"
    assert board.status()["error"]["code"] == "cut" and problem(board, OLD) == ""


def test_the_first_version_reads_what_this_one_writes(tmp_path: Path) -> None:
    """Its reader wants these keys, of these types, and takes more; its releases have their bundles' names."""
    board = new_board(tmp_path, OLD, NEW)
    state = json.loads((board.app / "state").read_text())
    assert [type(state[key]) for key in _FIRST_KEYS] == [str, str, str, str, str, str, int, type(None)]
    assert (state["current"], state["newest"]) == (NEW.digest, NEW.version)
    assert sorted(path.name for path in (board.app / "releases").iterdir()) == sorted(
        [OLD.digest, NEW.digest]
    )


def test_what_the_first_version_installed_in_between_counts(tmp_path: Path) -> None:
    board = new_board(tmp_path, OLD, NEW)
    (board.app / "newest").write_text(
        f"{OLD.version} {OLD.statement_digest}\n"
    )  # as it was before 0.1.0 came
    assert board.status()["newest"] == NEW.version
    assert board.install(Toy("1.5.0"))["cause"]["code"] == "version"
