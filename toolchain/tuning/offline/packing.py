"""Fills an exported folder: builds candidates, and takes those of all tasks in turns as far as they fit."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from toolchain.boards.board import Board
from toolchain.errors import ToolchainError
from toolchain.targets.target import BoardTarget
from toolchain.tasks.candidate import Case, Probe
from toolchain.tasks.evaluator import Builder, BuiltCandidate
from toolchain.tasks.task import Task
from toolchain.tuning.boards.pace import trial_limit_s
from toolchain.tuning.offline import about
from toolchain.tuning.offline.about import About, NotExported
from toolchain.tuning.offline.proposals import Wanted
from toolchain.tuning.options import TuneOptions
from toolchain.tuning.plans import plan
from toolchain.tuning.plans.blocks import CaseBlock, block, case_block, content_digest
from toolchain.tuning.plans.members import Member, Members
from toolchain.tuning.run.preflight import probe_case

# The order in which candidates are taken into a folder that has not room for all.

T = TypeVar("T")


def in_turns(
    tasks: Sequence[Sequence[T]], needs: Callable[[T], int], shares: Callable[[T], bool]
) -> Iterator[T]:
    """Yield the candidates of tasks in rounds, one of each task, the tasks in their order.

    In a round each task has its first candidate that shares all operands with what was taken before, since
    that costs code alone. Only where no task has such a one, each has its next, and those that need least
    come first: so a task with large operands keeps out none with small ones.

    Parameters
    ----------
    needs
        Returns how many bytes a candidate needs beside what was taken before.
    shares
        Whether what a candidate needs is there but for its code.
    """
    waiting = [list(own) for own in tasks]
    while any(waiting):
        cheap = [next((each for each in own if shares(each)), None) for own in waiting]
        chosen = [(own, each) for own, each in zip(waiting, cheap, strict=True) if each is not None]
        if not chosen:
            chosen = sorted(((own, own[0]) for own in waiting if own), key=lambda turn: needs(turn[1]))
        for own, each in chosen:
            own.remove(each)
            yield each


_MIB = 1 << 20
_MEMBER_LINE = len("member ") + 64 + len(" 1000000000\n")
_FRAME = 4096  # bytes of a plan and a document without candidates, rounded up


@dataclass(frozen=True, eq=False)
class _Offered:
    """A candidate that was built.

    Attributes
    ----------
    place
        Its place among all candidates that were asked for.
    library
        The digest of the library that it is in.
    sizes
        Sizes of all files that it needs, by their digests: the operands of all candidates of a network are
        far more than fit, so they are made again for those that are taken.
    beside
        Bytes that it needs in other files, at most.
    cases
        The cases that it is taken with.
    """

    wanted: Wanted
    built: BuiltCandidate
    place: int
    library: str
    sizes: Mapping[str, int]
    beside: int
    cases: Sequence[Case]


@dataclass
class _Taken:
    """A candidate that is in the folder."""

    offered: _Offered
    cases: list[CaseBlock]


class Packing:
    """Fills a folder with candidates.

    Parameters
    ----------
    root
        The folder, which has the program already.
    most
        Largest number of its bytes.

    Attributes
    ----------
    left_out
        Candidates that did not fit, and those of which nothing was measured because their default did not.
    refused
        Number of candidates that did not compile.
    """

    def __init__(
        self, root: Path, most: int, builder: Builder, board: Board, target: BoardTarget, options: TuneOptions
    ) -> None:
        used = sum(file.stat().st_size for file in root.iterdir()) + _FRAME
        self._root, self._most, self._builder = root, most, builder
        self._board, self._target, self._options = board, target, options
        self._members = Members(root, most, used)
        self._offered: list[_Offered] = []
        self._taken: list[_Taken] = []
        self._failed: list[About] = []
        self._probe: tuple[str, ...] = ()
        self._without_default: set[str] = set()
        self.left_out: list[NotExported] = []

    @property
    def count(self) -> int:
        """Number of candidates in the folder."""
        return len(self._taken)

    @property
    def refused(self) -> int:
        """Number of candidates that did not compile."""
        return len(self._failed)

    @property
    def checked(self) -> int:
        """Number of candidates that compute more than one case."""
        return sum(len(each.cases) > 1 for each in self._taken)

    def add_probe(self, probe: Probe | None, scratch: Path) -> None:
        """Add a known-good kernel, which shows that a station works before anything is measured.

        Raises
        ------
        ToolchainError
            It does not compile, or does not fit.
        """
        if probe is None:
            return
        (built,) = self._builder.build([probe.candidate])
        if built.library is None:
            raise ToolchainError(
                f"a known-good kernel fails on this host: {built.failure}: {built.message}",
                "`toolchain doctor` checks this host",
            )
        library = _library(built)
        case = case_block(probe.candidate, probe_case(probe, scratch))
        lines = self._block("probe", "probe", probe.task, built, library.digest, [case])
        digest = content_digest(lines, probe.task.workload, probe.candidate.entry)
        if not self._members.add([library, *case.members], _length(lines)):
            raise ToolchainError(
                f"--max-mib {self._most // _MIB}: edge-rt and a known-good kernel do not fit", "give it more"
            )
        self._probe = _named(lines, digest)

    def add(self, batch: Sequence[Wanted], cases: Sequence[Case]) -> None:
        """Build candidates of one task, to be taken with these cases."""
        built = self._builder.build([each.candidate for each in batch])
        for wanted, one in zip(batch, built, strict=True):
            if one.library is not None:
                self._offer(wanted, one, cases)
            elif wanted.stage == "default":
                self._without_default.add(wanted.task.workload)
                self._leave_out(wanted, f"its default does not compile: {one.failure}: {one.message}")
            elif wanted.task.workload not in self._without_default:
                self._failed.append(_about(wanted, failure=one.failure, message=one.message))

    def fill(self) -> None:
        """Take the candidates that fit: the defaults, the smallest first, then those of all tasks in turns.

        Without its default nothing is known of a task; so a task whose default does not fit is left out.
        """
        defaults = [each for each in self._offered if each.wanted.stage == "default"]
        for each in sorted(defaults, key=self._needs):
            if not self._take(each):
                self._without_default.add(each.wanted.task.workload)
        tasks: dict[str, list[_Offered]] = {}
        for each in self._offered:
            if each.wanted.stage != "default":
                tasks.setdefault(each.wanted.task.workload, []).append(each)
        for each in in_turns(list(tasks.values()), self._needs, self._shares):
            if each.wanted.task.workload in self._without_default:
                self._leave_out(each.wanted, "the default of its task is not in the folder")
            else:
                self._take(each)
        self._taken.sort(key=lambda taken: taken.offered.place)  # the order in which they are measured

    def add_cases(self, known: Mapping[str, Sequence[Case]]) -> None:
        """Add further cases of the candidates, the first ones first, as far as there is room."""
        for each in self._taken:
            wanted = each.offered.wanted
            for case in known[wanted.task.workload][len(each.cases) :]:
                more = case_block(wanted.candidate, case)
                if not self._members.add(more.members, _length(more.lines)):
                    break
                each.cases.append(more)

    def write(self, document: about.FolderContents, head: Sequence[str]) -> int:
        """Write the plan and the document; return the bytes of the folder."""
        blocks, candidates = [self._probe] if self._probe else [], []
        for place, each in enumerate(self._taken):
            wanted, own = each.offered.wanted, each.offered
            name = f"{wanted.task.id}:{place}"
            lines = self._block("candidate", name, wanted.task, own.built, own.library, each.cases)
            digest = content_digest(lines, wanted.task.workload, wanted.candidate.entry)
            blocks.append(_named(lines, digest))
            candidates.append(_about(wanted, digest=digest))
        text = plan.text(head, self._members.sizes, blocks)
        (self._root / plan.FILE).write_text(text)
        digest = text.splitlines()[-1].partition(" ")[2]
        document = document.model_copy(
            update={"plan": digest, "candidates": tuple(candidates + self._failed)}
        )
        (self._root / about.FILE).write_text(about.text(document))
        return sum(file.stat().st_size for file in self._root.rglob("*") if file.is_file())

    def _offer(self, wanted: Wanted, built: BuiltCandidate, cases: Sequence[Case]) -> None:
        blocks, members = _contents(wanted, built, cases)
        sizes = {member.digest: len(member.content) for member in members}
        payload = len(json.dumps(wanted.candidate.entry.payload))
        beside = sum(_length(block.lines) for block in blocks) + payload + 1024 + _MEMBER_LINE * len(members)
        place = len(self._offered)
        self._offered.append(_Offered(wanted, built, place, members[0].digest, sizes, beside, cases))

    def _needs(self, offered: _Offered) -> int:
        return self._members.missing(offered.sizes) + offered.beside

    def _shares(self, offered: _Offered) -> bool:
        operands = {digest: size for digest, size in offered.sizes.items() if digest != offered.library}
        return not self._members.missing(operands)

    def _take(self, offered: _Offered) -> bool:
        """Take a candidate if it fits; else note that it was left out."""
        if self._members.used + self._needs(offered) > self._most:
            mib = sum(offered.sizes.values()) / _MIB
            self._leave_out(
                offered.wanted, f"it does not fit: {mib:.1f} MiB of code and operands, shared ones included"
            )
            return False
        blocks, members = _contents(offered.wanted, offered.built, offered.cases)
        if not self._members.add(members, offered.beside):
            raise AssertionError("a candidate that fits did not fit")
        self._taken.append(_Taken(offered, blocks))
        return True

    def _leave_out(self, wanted: Wanted, reason: str) -> None:
        point = wanted.candidate.entry.digest
        self.left_out.append(NotExported(task=wanted.task.id, point=point, reason=reason))

    def _block(
        self,
        word: str,
        name: str,
        task: Task,
        built: BuiltCandidate,
        library: str,
        cases: Sequence[CaseBlock],
    ) -> tuple[str, ...]:
        limit_s = trial_limit_s(task, self._board, self._options, len(cases), self._target.kind)
        return block(word, name, limit_s, library, built.function, built.candidate.memory, cases)


def _contents(
    wanted: Wanted, built: BuiltCandidate, cases: Sequence[Case]
) -> tuple[list[CaseBlock], list[Member]]:
    """Return a candidate's cases, and the files that it needs: its library first."""
    blocks = [case_block(wanted.candidate, case) for case in cases]
    return blocks, [_library(built), *(member for block in blocks for member in block.members)]


def _library(built: BuiltCandidate) -> Member:
    if built.library is None:
        raise AssertionError("a candidate without a library was to be packed")
    return Member.of(built.library.read_bytes())


def _about(wanted: Wanted, digest: str = "", failure: str | None = None, message: str = "") -> About:
    entry = wanted.candidate.entry
    return About.model_validate(
        {
            "digest": digest,
            "task": wanted.task.workload,
            "kind": entry.kind,
            "payload": entry.payload,
            "point": entry.digest,
            "stage": wanted.stage,
            "failure": failure,
            "message": message,
        }
    )


def _named(lines: Sequence[str], digest: str) -> tuple[str, ...]:
    return (lines[0].format(digest=digest), *lines[1:])


def _length(lines: Sequence[str]) -> int:
    return sum(len(line) + 1 for line in lines)
