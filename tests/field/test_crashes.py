"""A power cut at any moment: every state that it could leave ends with the old release or the new one, whole.

The installer's calls are recorded (installer/record.c) and every state is built (replay.py). On each of them
`recover` runs, the board is looked at, and the release is installed again.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.field.board import Board, new_board, problem
from tests.field.build import installer, recorder
from tests.field.real import real
from tests.field.replay import Recording, Step, Tree
from tests.field.toy import APP, NEW, NEXT_TRUST, OLD, TRUST, Toy
from tests.releases.made import BERT
from tests.runtime.networks import CLASSES
from toolchain.boards.emulation.qemu import emulator
from toolchain.profiles import load_profile
from toolchain.releases.envelope import Envelope
from toolchain.runtime import ensure_runtime

OLDEST = Toy("0.9.0")
NEXT = Toy("2.0.0", signers=(BERT,))
BROKEN_BY = {
    **dict.fromkeys(("part", "release", "inner", "names", "releases", "field", "journal"), "first"),
    **dict.fromkeys(("state", "app", "trust"), "update"),
    "incoming": "interrupted",
    "links": "roll back",
    **dict.fromkeys(("newest", "grown"), "update"),
}
"""A scenario for each fsync of the installer, by its name (field/disk.h), that shows why it is there."""
_MEMORY = "/dev/shm"


@dataclass(frozen=True)
class Scenario:
    """A run to record.

    Attributes
    ----------
    installed
        What the board has before, one after the other.
    run
        Does it on the board; the recorder is at work in what it starts.
    old, new
        What must be current before, and after the moment of the decision.
    decided
        Whether a call decides: a cut after it, and not before, leaves `new`.
    toy
        What is installed afterwards.
    """

    installed: tuple[Toy, ...]
    run: Callable[[Board], None]
    old: Toy | None
    new: Toy | None
    decided: Callable[[Step, Step | None], bool]
    toy: Toy
    trusts: tuple[Envelope, ...] = (TRUST,)


def _state(step: Step, word: str, before: Step | None) -> bool:
    return (
        step.said["op"] == "rename"
        and step.said.get("to") == f"{APP}/state"
        and before is not None
        and f'"step": "{word}"' in before.said.get("text", "")
    )


def _install(toy: Toy, end: str, trusts: tuple[Envelope, ...] = (TRUST,)) -> Callable[[Board], None]:
    def run(board: Board) -> None:
        assert board.install(toy, trusts)["end"] == end

    return run


def _interrupt(board: Board) -> None:
    install = board.begin()
    install.send(NEW.head())
    assert install.until("need")["need"][:2] == [[0, 0], [1, 0]]
    install.send(NEW.parts["manifest.json"] + NEW.parts["library.so"][:50])
    assert install.child.stdin is not None
    install.child.stdin.close()
    assert install.end()["end"] == "interrupted"


def _roll_back(board: Board) -> None:
    assert board.call("rollback", "--app", APP)[1][-1]["end"] == "rolled-back"


def _recover(board: Board) -> None:
    assert board.call("recover")[0] == 0


def _fail(board: Board) -> None:
    (board.app / "policy.json").write_text('{"health": ["false"], "health_tries": 1}')
    assert board.install(NEW)["end"] == "rolled-back"
    (board.app / "policy.json").unlink()


def _never(_step: Step, _before: Step | None) -> bool:
    return False


def _committed(step: Step, before: Step | None) -> bool:
    return _state(step, "commit", before)


def _turned(step: Step, before: Step | None) -> bool:
    return _state(step, "rollback", before)


SCENARIOS = {
    "first": Scenario((), _install(NEW, "installed"), None, NEW, _committed, NEW),
    "update": Scenario(
        (OLDEST, OLD),
        _install(NEXT, "installed", (TRUST, NEXT_TRUST)),
        OLD,
        NEXT,
        _committed,
        NEXT,
        (TRUST, NEXT_TRUST),
    ),
    "interrupted": Scenario((OLD,), _interrupt, OLD, OLD, _never, NEW),
    "health fails": Scenario((OLD,), _fail, OLD, OLD, _never, NEW),
    "roll back": Scenario((OLD, NEW), _roll_back, NEW, OLD, _turned, NEW),
}


@dataclass
class Crashes:
    """States of one recording, tried."""

    scenario: Scenario
    recording: Recording
    board: Board
    arch: str
    incoming: int = 0  # bytes of parts that the run left, which no cut after its end may take
    tried: dict[object, str] = field(
        default_factory=dict
    )  # of a board after `recover`: what is wrong after installing

    def broken(self, most: int = 1000) -> list[str]:
        """Return what is wrong with which state, the first ones; each different one is tried once."""
        seen: dict[object, tuple[int, str, Tree]] = {}
        for count, lost, tree in self.recording.states():
            key = (self._phase(count), count == len(self.recording.steps), tree.picture())
            seen.setdefault(key, (count, lost, tree))
        with ThreadPoolExecutor(4) as threads:
            found = threads.map(lambda state: self._try(*state), seen.values())
            return list(islice(filter(None, found), most))

    def _phase(self, count: int) -> str:
        """Return whether the old release must be there after a cut, or the new one, or either."""
        steps = self.recording.steps
        for number, step in enumerate(steps):
            if self.scenario.decided(step, _content_before(steps, number)):
                return "old" if count <= number else "either" if count < number + 2 else "new"
        return "old"

    def _try(self, count: int, lost: str, tree: Tree) -> str:
        with TemporaryDirectory(dir=_MEMORY, prefix="field-") as folder:
            board = replace(self.board, folder=Path(folder))
            board.field.mkdir()
            tree.build(board.field)
            wrong = self._wrong(board, count)
            if not wrong:
                return ""
            last = self.recording.steps[count - 1].said if count else {}
            return f"cut after {count} of {len(self.recording.steps)} {last}, lost: {lost}: {wrong}"

    def _wrong(self, board: Board, count: int) -> str:
        journal = board.journal_lines()
        if count == len(self.recording.steps) and not any('"end"' in line for line in journal[-1:]):
            return f"the journal does not say the end: {journal[-1:]}"
        incoming = sum(path.stat().st_size for path in board.app.glob("incoming/*"))
        code, said = board.call("recover")
        if code != 0:
            return f"recover: {said}"
        scenario = self.scenario
        wanted = {"old": (scenario.old,), "new": (scenario.new,), "either": (scenario.old, scenario.new)}
        problems = [problem(board, toy) for toy in wanted[self._phase(count)]]
        if all(problems):
            return f"{problems}"
        if board.current() and board.current() == board.current("previous"):
            return "current and previous are one release"
        newest = board.app / "newest"
        known = newest.read_text() if newest.exists() else ""
        if board.current() == scenario.toy.digest and not known.startswith(scenario.toy.version):
            return f"the newest version is {known!r}"
        after = sum(path.stat().st_size for path in board.app.glob("incoming/*"))
        if count == len(self.recording.steps) and min(incoming, after) < self.incoming:
            return f"{incoming} bytes of parts were kept, and {after} after recovering, not {self.incoming}"
        # Most cuts recover to one of a few states; what is installed on each of them is tried once.
        board.app.mkdir(exist_ok=True)
        there = Recording(board.app).before.picture()
        recovered = tuple(each for each in there if each[0] not in {"journal", "state"})
        if recovered not in self.tried:
            self.tried[recovered] = self._install_wrong(board)
        return self.tried[recovered]

    def _install_wrong(self, board: Board) -> str:
        for _ in range(2):  # a part that was damaged where it was cut is refused once
            end = board.install(self.scenario.toy, self.scenario.trusts)
            if end["end"] in {"installed", "unchanged"}:
                return problem(board, self.scenario.toy)
            if not end["cause"] or end["cause"]["code"] != "resumed":
                break
        return f"installing again: {end}"


def _content_before(steps: list[Step], number: int) -> Step | None:
    """Return the last write before a call, with its text: what a rename brings."""
    for step in reversed(steps[:number]):
        if step.said["op"] == "write":
            return replace(
                step, said={**step.said, "text": bytes.fromhex(step.said["hex"]).decode(errors="replace")}
            )
    return None


def record(
    name: str, folder: Path, arch: str = "x86_64", program: Path | None = None, **environment: str
) -> Crashes:
    """Record a scenario; the replay of all of it must give what is there."""
    scenario = SCENARIOS[name]
    board = new_board(folder, *scenario.installed, program=program or installer())
    before = folder / "before"
    shutil.copytree(board.field, before, symlinks=True)
    recording = Recording(board.field)
    log = folder / "log"
    # The recorder compares paths as text.
    preload = {"RECORD_ROOT": str(board.field), "RECORD_TO": str(log), "LD_PRELOAD": str(recorder(arch))}
    words: tuple[str | Path, ...] = (program or installer(arch),)
    if arch != "x86_64":
        inner = [word for key, value in preload.items() for word in ("-E", f"{key}={value}")]
        words, preload = (*emulator(load_profile(CLASSES[arch])), *inner, *words), {}
    scenario.run(replace(board, program=words, environment={**preload, **environment}))
    recording.read(log)
    whole = Recording(board.field).before.picture()
    states = list(recording.states())
    assert states[-1][0] == len(recording.steps)
    full = next(tree for count, lost, tree in states if count == len(recording.steps) and lost == "nothing")
    assert full.picture() == whole, (
        "the record is not whole: the program changed files by calls that it does not see"
    )
    crashes = Crashes(scenario, recording, board, arch)
    if name == "interrupted":
        crashes.incoming = sum(path.stat().st_size for path in board.app.glob("incoming/*"))
    return crashes


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_cut_at_any_moment_leaves_the_old_release_or_the_new_one(name: str) -> None:
    with TemporaryDirectory(dir=_MEMORY, prefix="field-") as folder:
        assert record(name, Path(folder)).broken() == []


@pytest.mark.slow
@pytest.mark.parametrize("sync", BROKEN_BY)
def test_without_any_one_fsync_a_cut_breaks_something(sync: str) -> None:
    with TemporaryDirectory(dir=_MEMORY, prefix="field-") as folder:
        broken = record(BROKEN_BY[sync], Path(folder), FIELD_LEAVE_OUT=sync).broken(most=1)
        assert broken, f"nobody would notice if the fsync {sync!r} were missing"


@pytest.mark.slow
def test_a_cut_of_the_installer_for_aarch64_leaves_the_old_release_or_the_new_one() -> None:
    with TemporaryDirectory(dir=_MEMORY, prefix="field-") as folder:
        assert record("update", Path(folder), "aarch64").broken() == []


@pytest.mark.slow
def test_a_cut_of_edge_rt_leaves_the_old_release_or_the_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    now = int(time.time())
    old, new = (
        replace(each, changes={**each.changes, "issued": now - 3600, "expires": now + 3600})
        for each in (real("1.0.0"), real("2.0.0", bias=1.0))
    )
    monkeypatch.setitem(
        SCENARIOS, "edge-rt", Scenario((old,), _install(new, "installed"), old, new, _committed, new)
    )
    program = ensure_runtime("x86_64").program
    with TemporaryDirectory(dir=_MEMORY, prefix="field-") as folder:
        assert record("edge-rt", Path(folder), program=program).broken() == []
