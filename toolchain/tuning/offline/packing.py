"""Fills an exported folder: builds candidates, and takes each that still fits."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from toolchain.boards.board import Board
from toolchain.errors import ToolchainError
from toolchain.targets.target import BoardTarget
from toolchain.tasks.evaluator import Builder, BuiltCandidate
from toolchain.tasks.reference import Case, Probe
from toolchain.tasks.task import Task
from toolchain.tuning.boards.pace import trial_limit_s
from toolchain.tuning.offline import about, plan
from toolchain.tuning.offline.about import About, NotExported
from toolchain.tuning.offline.blocks import CaseBlock, block, case_block, content_digest
from toolchain.tuning.offline.members import Member, Members
from toolchain.tuning.offline.proposals import Wanted
from toolchain.tuning.options import TuneOptions
from toolchain.tuning.run.preflight import probe_case

_MIB = 1 << 20
_MEMBER_LINE = len("member ") + 64 + len(" 1000000000\n")
_FRAME = 4096  # bytes of a plan and a document without candidates, rounded up


@dataclass
class _Taken:
    """A candidate that is in the folder."""

    wanted: Wanted
    built: BuiltCandidate
    library: str
    cases: list[CaseBlock] = field(default_factory=list)


class Packing:
    """Fills a folder with candidates, in the order in which they come.

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
        library = Member.of(built.library.read_bytes())
        case = case_block(probe.candidate, probe_case(probe, scratch))
        lines = self._block("probe", "probe", probe.task, built, library.digest, [case])
        digest = content_digest(lines, probe.task.workload, probe.candidate.entry)
        if not self._members.add([library, *case.members], _length(lines)):
            raise ToolchainError(
                f"--max-mib {self._most // _MIB}: edge-rt and a known-good kernel do not fit", "give it more"
            )
        self._probe = _named(lines, digest)

    def add(self, batch: Sequence[Wanted], cases: Sequence[Case]) -> None:
        """Build candidates of one task and take those that fit, with these cases."""
        built = self._builder.build([each.candidate for each in batch])
        for wanted, one in zip(batch, built, strict=True):
            if wanted.stage == "default" and one.library is None:
                self._without_default.add(wanted.task.workload)
                self._leave_out(wanted, f"its default does not compile: {one.failure}: {one.message}")
            elif wanted.task.workload in self._without_default:
                self._leave_out(wanted, "the default of its task is not in the folder")
            elif one.library is None:
                self._failed.append(_about(wanted, failure=one.failure, message=one.message))
            else:
                self._take(wanted, one, [case_block(wanted.candidate, case) for case in cases])

    def add_cases(self, known: Mapping[str, Sequence[Case]]) -> None:
        """Add further cases of the candidates, the first ones first, as far as there is room."""
        for each in self._taken:
            for case in known[each.wanted.task.workload][len(each.cases) :]:
                more = case_block(each.wanted.candidate, case)
                if not self._members.add(more.members, _length(more.lines)):
                    return
                each.cases.append(more)

    def write(self, document: about.FolderContents, head: Sequence[str]) -> int:
        """Write the plan and the document; return the bytes of the folder."""
        blocks, candidates = [self._probe] if self._probe else [], []
        for place, each in enumerate(self._taken):
            wanted = each.wanted
            name = f"{wanted.task.id}:{place}"
            lines = self._block("candidate", name, wanted.task, each.built, each.library, each.cases)
            digest = content_digest(lines, wanted.task.workload, wanted.candidate.entry)
            blocks.append(_named(lines, digest))
            candidates.append(_about(wanted, digest=digest))
        text = plan.text(head, self._members.sizes, blocks)
        (self._root / plan.FILE).write_text(text)
        digest = text.splitlines()[-1].partition(" ")[2]
        document = document.model_copy(
            update={"plan": digest, "candidates": tuple(candidates + self._failed)}
        )
        content = json.dumps(document.model_dump(), separators=(",", ":"), sort_keys=True)
        (self._root / about.FILE).write_text(f"{content}\n")
        return sum(file.stat().st_size for file in self._root.rglob("*") if file.is_file())

    def _take(self, wanted: Wanted, built: BuiltCandidate, cases: Sequence[CaseBlock]) -> None:
        if built.library is None:
            raise AssertionError("a candidate without a library was to be packed")
        library = Member.of(built.library.read_bytes())
        members = [library, *(member for case in cases for member in case.members)]
        entry = wanted.candidate.entry
        beside = sum(_length(case.lines) for case in cases) + len(json.dumps(entry.payload)) + 1024
        if self._members.add(members, beside + _MEMBER_LINE * len(members)):
            self._taken.append(_Taken(wanted, built, library.digest, list(cases)))
            return
        mib = sum(len(member.content) for member in members) / _MIB
        if wanted.stage == "default":
            self._without_default.add(wanted.task.workload)
        self._leave_out(wanted, f"it does not fit: {mib:.1f} MiB of code and operands, shared ones included")

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
