"""Commands of the installer that are cut or faulted at each call that changes the disk, and given again.

The rule: cut anywhere, faulted anywhere, and repeated, a command ends where one undisturbed run ends, and
what it answers is what is on the disk. `python -m tests.field.repeats` tries all of it and counts.
"""

from __future__ import annotations

import errno
import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.field.board import Board, Install, new_board
from tests.field.build import faults
from tests.field.toy import APP, NEW, NEXT_TRUST, OLD, TRUST, Toy, sha256
from tests.releases.made import BERT
from toolchain.releases.envelope import Envelope

MEMORY = "/dev/shm"
OLDEST = Toy("0.9.0")
RESIGNED = Toy("3.0.0", bundle_of="1.0.0", changes={"expires": 1_800_000_000})
"""Another statement of OLD's bundle."""
NEXT = Toy("2.0.0", signers=(BERT,))
WAYS = {
    "kill": ("kill", 0),
    "EIO": ("once", errno.EIO),
    "ENOSPC": ("once", errno.ENOSPC),
    "ENOSPC from then on": ("on", errno.ENOSPC),
    "EROFS from then on": ("on", errno.EROFS),
}
"""What FAULT_HOW and FAULT_ERROR are (installer/faults.c)."""
REPEATS = ("once", "twice", "after recover")
_KILLED = -9


@dataclass(frozen=True)
class Command:
    """A command, and the board that it meets.

    Attributes
    ----------
    prepare
        Makes the board in an empty folder, with a file `again` that the command reads, if it reads one.
    names
        Whether it names what it does: the same words may be given again, whatever came of them. A rollback
        on the board itself is not given again once it was done.
    """

    prepare: Callable[[Path], Board]
    words: tuple[str, ...]
    names: bool = True


def _with(
    *installed: Toy, file: bytes = b"", more: Callable[[Board], None] | None = None
) -> Callable[[Path], Board]:
    def prepare(folder: Path) -> Board:
        board = new_board(folder, *installed)
        (folder / "again").write_bytes(file)
        if more is not None:
            more(board)
        return board

    return prepare


def _bare(folder: Path) -> Board:
    board = Board(folder)
    board.field.mkdir(parents=True)
    (folder / "again").write_bytes(TRUST.to_bytes())
    return board


def policy(board: Board, **said: object) -> None:
    """Write what the board's owner decides."""
    (board.app / "policy.json").write_text(json.dumps({"health_tries": 1, **said}))


def cut(board: Board, step: str, toy: Toy = NEW) -> None:
    """Kill an installation in a step."""
    install = board.begin(FIELD_STOP_IN=step)
    install.send(toy.head())
    install.send_parts(toy)
    _kill(install)


def cut_rollback(board: Board) -> None:
    """Kill a rollback once it is decided, and before a link is changed."""
    words = board.command("rollback", "--app", APP)
    started = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=board.variables(FIELD_STOP_IN="rollback")
    )
    _kill(Install(started))


def _kill(install: Install) -> None:
    assert install.stopped()
    install.child.kill()
    install.child.wait()
    install.close()


def flip(board: Board) -> None:
    """Change a byte of the current library, and not its size."""
    library = board.app / "current" / "library.so"
    content = bytearray(library.read_bytes())
    content[-1] ^= 1
    library.write_bytes(content)


def _many(board: Board) -> None:
    policy(board, keep=5)
    for number in (2, 3):
        assert board.install(Toy(f"1.{number}.0"))["end"] == "installed"
    policy(board)
    (board.app / "incoming" / NEW.digest).write_bytes(b"begun")


def _resumed(board: Board) -> None:
    library = NEW.parts["library.so"]
    (board.app / "incoming" / sha256(library)).write_bytes(library[:99])


def _sick(board: Board) -> None:
    policy(board, health=["false"])


def _file(toy: Toy, *trusts: Envelope) -> bytes:
    return toy.file(trusts or (TRUST,))


INSTALL = ("install", "again")
LEAVE = ("rollback", "--app", APP, "--leave", NEW.statement_digest)
COMMANDS = {
    "install the first release": Command(_with(file=_file(NEW)), INSTALL),
    "install a newer release": Command(_with(OLDEST, OLD, file=_file(NEW)), INSTALL),
    "go on with a release": Command(_with(OLD, file=_file(NEW), more=_resumed), INSTALL),
    "install another statement": Command(_with(OLDEST, OLD, file=_file(RESIGNED)), INSTALL),
    "install with another trust": Command(_with(OLD, file=_file(NEXT, TRUST, NEXT_TRUST)), INSTALL),
    "install what is current": Command(_with(OLD, NEW, file=_file(NEW)), INSTALL),
    "mend what is current": Command(_with(OLD, NEW, file=_file(NEW), more=flip), INSTALL),
    "install what is not healthy": Command(_with(OLDEST, OLD, file=_file(NEW), more=_sick), INSTALL),
    "install after a cut": Command(_with(OLD, file=_file(NEW), more=lambda b: cut(b, "health")), INSTALL),
    "install after a cut rollback": Command(_with(OLD, NEW, file=_file(NEW), more=cut_rollback), INSTALL),
    "roll back": Command(_with(OLDEST, OLD, NEW), LEAVE),
    "roll back after a cut": Command(_with(OLDEST, OLD, more=lambda b: cut(b, "health")), LEAVE),
    "roll back after a cut rollback": Command(_with(OLD, NEW, more=cut_rollback), LEAVE),
    "roll back on the board": Command(_with(OLD, NEW), ("rollback", "--app", APP), names=False),
    "prune": Command(_with(OLD, more=_many), ("prune", "--app", APP)),
    "recover in unpack": Command(_with(OLD, more=lambda b: cut(b, "unpack")), ("recover",)),
    "recover in health": Command(_with(OLD, more=lambda b: cut(b, "health")), ("recover",)),
    "recover in commit": Command(_with(OLDEST, OLD, more=lambda b: cut(b, "commit")), ("recover",)),
    "recover in rollback": Command(_with(OLD, NEW, more=cut_rollback), ("recover",)),
    "trust for the first time": Command(_bare, ("trust", "--first")),
}


@dataclass(frozen=True)
class Case:
    """One fault: the name of the command, the number of the call from 1, a key of WAYS, one of REPEATS."""

    command: str
    call: int
    way: str
    repeat: str


@dataclass
class Scene:
    """A command, the board that it meets, and what an undisturbed run makes of it; the folder is a test's."""

    name: str
    folder: Path
    ends: Counter[str] = field(default_factory=Counter)

    @property
    def command(self) -> Command:
        """The command."""
        return COMMANDS[self.name]

    @cached_property
    def base(self) -> Board:
        """The board before; nothing changes it."""
        self.folder.mkdir(exist_ok=True)
        return self.command.prepare(self.folder / "base")

    @cached_property
    def calls(self) -> list[str]:
        """The calls of an undisturbed run."""
        board = self.copy("calls")
        log = self.folder / "calls.txt"
        run(board, self.command, FAULT_CALLS=str(log))
        return log.read_text().splitlines()

    @cached_property
    def wanted(self) -> dict[str, Any]:
        """What is on the board after an undisturbed run."""
        board = self.copy("wanted")
        run(board, self.command)
        return picture(board)

    @cached_property
    def before(self) -> str | None:
        """The release that is current before, once what was cut is ended."""
        board = self.copy("before")
        if board.field.exists():
            assert board.call("recover")[0] == 0
        return board.current()

    def cases(self) -> Iterator[Case]:
        """Yield all cases."""
        for call in range(1, len(self.calls) + 1):
            for way in WAYS:
                for repeat in REPEATS:
                    if self.command.names or repeat != "twice":
                        yield Case(self.name, call, way, repeat)

    def copy(self, name: str) -> Board:
        """Return a copy of the board; names of one file stay that, and times."""
        subprocess.run(["cp", "-a", self.base.folder, self.folder / name], check=True)
        return Board(self.folder / name)

    def wrong(self, case: Case) -> str:
        """Return what is wrong with a case; empty if nothing is."""
        name = f"{case.call}-{case.way}-{case.repeat}".replace(" ", "")
        board = self.copy(name)
        how, error = WAYS[case.way]
        fault = {"FAULT_CALL": str(case.call), "FAULT_HOW": how, "FAULT_ERROR": str(error)}
        code, lines = run(board, self.command, **fault)
        said = lines[-1].get("end", "") if lines and code != _KILLED else ""
        self.ends[said or ("killed" if code == _KILLED else "no last line")] += 1
        found = self._false(board, said)
        if said and (code == 0) != (
            said in {"installed", "unchanged"} or (self._goes_back and said == "rolled-back")
        ):
            found = f"its exit code is {code}"
        if not found and case.repeat == "after recover" and board.field.exists():
            if board.call("recover")[0] != 0:
                found = "recover fails"
            found = found or self._false(board, said) or self._torn(board)
        for _ in range(2 if case.repeat == "twice" else 1):
            if not found and not (self._done(board) and not self.command.names):
                code, lines = run(board, self.command)
        after = picture(board)
        if "ENOSPC" in case.way and set(after["incoming"]) < set(self.wanted["incoming"]):
            after["incoming"] = self.wanted["incoming"]  # on a full disk it is what can go
        if not found and after != self.wanted:
            found = f"ends with {differences(after, self.wanted)}, and says {lines[-1:]}"
        if not found:
            shutil.rmtree(board.folder)
        return f"{case}, {self.calls[case.call - 1]!r}, said {said!r}: {found}" if found else ""

    @property
    def _goes_back(self) -> bool:
        return self.command.words[0] == "rollback"

    def _done(self, board: Board) -> bool:
        after = picture(board)
        return bool(after["current"] == self.wanted["current"] and after.get("step") == "idle")

    def _false(self, board: Board, said: str) -> str:
        """Return whether the last word is false on the disk as it is."""
        now, wanted = board.current(), self.wanted["current"]
        true = {
            "installed": (wanted,),
            "unchanged": (wanted,),
            "rolled-back": (wanted if self._goes_back else self.before,),
            "refused": (self.before, self.base.current()),
            "interrupted": (self.before, self.base.current()),
        }.get(said, (now,))
        return "" if now in true else f"it says {said}, and {now} is current"

    def _torn(self, board: Board) -> str:
        """Return whether what is current after `recover` is neither release, or not whole."""
        now = board.current()
        if now not in (self.before, self.wanted["current"]):
            return f"{now} is current"
        whole = picture(board)["releases"].get(now) in (
            self.wanted["releases"].get(now),
            picture(self.base)["releases"].get(now),
        )
        return "" if whole or now is None else f"{now} is not whole"


def run(board: Board, command: Command, **fault: str) -> tuple[int, list[dict[str, Any]]]:
    """Give a command; return its exit code and what it says."""
    verb, *words = command.words
    again = board.folder / "again"
    given = [str(again) if word == "again" else word for word in words]
    preloaded = {"LD_PRELOAD": str(faults()), "FAULT_ROOT": str(board.field)} if fault else {}
    return board.call(verb, *given, stdin=again.read_bytes(), **preloaded, **fault)


def picture(board: Board) -> dict[str, Any]:
    """Return what a board has, without times and the journal."""
    found: dict[str, Any] = {"current": board.current(), "previous": board.current("previous")}
    for name in ("state", "newest", "trust.json"):
        path = (board.field if name == "trust.json" else board.app) / name
        found[name] = path.read_text() if path.exists() else None
    if found["state"]:
        state = json.loads(found["state"])
        found["step"] = state["step"]
        found["error"] = state["error"]["code"] if state["error"] else None
    found["state"] = found["state"] is not None
    releases = board.app / "releases"
    found["releases"] = {
        release.name: {
            str(path.relative_to(release)): sha256(path.read_bytes())
            for path in sorted(release.rglob("*"))
            if path.is_file()
        }
        for release in (sorted(releases.iterdir()) if releases.exists() else ())
    }
    found["incoming"] = sorted(path.name for path in board.app.glob("incoming/*"))
    found["rests"] = sorted(str(path) for path in board.field.rglob("*.new"))
    return found


def differences(after: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """Return what differs, with both values."""
    return {key: (after.get(key), wanted.get(key)) for key in wanted if after.get(key) != wanted.get(key)}


def main() -> None:
    """Try every case; say how many there are of each command, and which are wrong."""
    total, began = 0, time.monotonic()
    bad: list[str] = []
    for name in sys.argv[1:] or COMMANDS:
        with TemporaryDirectory(dir=MEMORY, prefix="repeats-") as folder, ThreadPoolExecutor(3) as threads:
            scene = Scene(name, Path(folder))
            cases = list(scene.cases())
            scene.wanted, scene.before  # noqa: B018 - before threads want them
            wrong = [text for text in threads.map(scene.wrong, cases) if text]
            total += len(cases)
            bad += wrong
            print(
                f"{name}: {len(scene.calls)} calls, {len(cases)} cases, {dict(scene.ends)}, "
                f"{len(wrong)} wrong",
                flush=True,
            )
            for text in wrong[:6]:
                print(f"  {text[:1000]}", flush=True)
    print(f"{total} cases, {len(bad)} wrong, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
