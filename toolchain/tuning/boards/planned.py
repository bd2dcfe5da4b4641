"""Measures candidates on a board by plans, which its edge-rt reads and follows.

Operands are drawn and packed there, and outputs are compared there. Each candidate has a process of its own,
so what it does to its memory affects no other.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import tvm

from toolchain.answers import lie, shown, understood
from toolchain.errors import ToolchainError
from toolchain.foreign import first_line
from toolchain.records.record import RecordKey
from toolchain.rpc.client import Grant
from toolchain.rpc.session import connect
from toolchain.runtime import expected_fingerprint
from toolchain.targets.target import BoardTarget
from toolchain.tasks.candidate import Case, FileCode, Parameter
from toolchain.tasks.evaluator import BuiltCandidate
from toolchain.tasks.task import Task
from toolchain.tasks.tuner import Result
from toolchain.tuning.boards.measure import WAITED, BoardBusyError, check_not_lost
from toolchain.tuning.options import TuneOptions
from toolchain.tuning.plans import plan
from toolchain.tuning.plans.answers import CandidateLine, PossibleTimes, possible_times
from toolchain.tuning.plans.blocks import block, case_block, content_digest
from toolchain.tuning.plans.members import Member, Members

SWITCH = "EDGE_MEASURE_BY_PLANS"
"""Environment variable that switches plans on for live runs; docs/decisions/0102 says until when."""

SESSION_S = 20.0
"""Seconds that a session has beyond its candidates' deadlines, to get files and to make operands."""

_MEASURE = "edge.measure"
_MOST_BYTES = 1 << 40  # of the files on this host: those of a run, as its libraries


def is_switched_on() -> bool:
    """Whether live runs measure by plans."""
    return bool(os.environ.get(SWITCH))


@dataclass(frozen=True)
class CandidatePlan:
    """The plan of one candidate.

    Attributes
    ----------
    candidate
        Its digest, by which edge-rt names it.
    members
        The files that the plan names, by their digests.
    possible
        The times that are believed; `most_s` is its deadline.
    code
        Its code, if that is a file of a device's own; None for a library.
    unknown
        Cases, by their numbers, whose outputs become the expected ones: nothing else is known of them.
    """

    candidate: str
    text: str
    members: Mapping[str, Path]
    possible: PossibleTimes
    code: FileCode | None = None
    unknown: Mapping[int, UnknownCase] = field(default_factory=dict)


@dataclass(frozen=True)
class UnknownCase:
    """A case of which no expected outputs are known, and the parameters that a candidate writes."""

    case: Case
    outputs: tuple[Parameter, ...]

    def learn(self, contents: Sequence[bytes]) -> None:
        """Make the outputs of a candidate, given as they are in memory, the expected ones."""
        values = []
        for parameter, content in zip(self.outputs, contents, strict=True):
            empty = parameter.filled(None)
            values.append(parameter.logical(np.frombuffer(content, empty.dtype).reshape(empty.shape)))
        self.case.expect(values)


class Planner:
    """Writes plans of candidates, and the files that they name.

    Parameters
    ----------
    folder
        An empty folder for the files, which must exist as long as the plans are used.
    """

    def __init__(self, folder: Path, target: BoardTarget) -> None:
        self._folder, self._target = folder, target
        self._members = Members(folder, _MOST_BYTES, 0)
        self._lock = threading.Lock()

    def plan(
        self,
        task: Task,
        key: RecordKey,
        built: BuiltCandidate,
        cases: Sequence[Case],
        how: TuneOptions,
        limit_s: float,
    ) -> CandidatePlan:
        """Return the plan of a candidate that was built.

        Raises
        ------
        OSError
            Its file cannot be read.
        """
        if built.library is None:
            raise AssertionError("a candidate without a library was to be measured")
        library = Member.of(built.library.read_bytes())
        blocks = [case_block(built.candidate, case) for case in cases]
        members = [library, *(member for each in blocks for member in each.members)]
        candidate = built.candidate
        code = candidate.code if isinstance(candidate.code, FileCode) else None
        function = "-" if code else built.function
        lines = block("candidate", task.id, limit_s, library.digest, function, candidate.memory, blocks)
        digest = content_digest(lines, task.workload, built.candidate.entry)
        with self._lock:  # boards share files
            self._members.add(members, 0)
        sizes = {member.digest: len(member.content) for member in members}
        return CandidatePlan(
            digest,
            plan.text(
                plan.head(expected_fingerprint(), self._target, how),
                sizes,
                [(lines[0].format(digest=digest), *lines[1:])],
            ),
            {name: self._members.path(name) for name in sizes},
            possible_times(task, key, self._target, how.repeat, limit_s),
            code,
            {
                number: UnknownCase(case, candidate.parameters[-candidate.outputs :])
                for number, case in enumerate(cases)
                if not case.outputs.exists()
            },
        )


@dataclass(frozen=True)
class PlanRequest:
    """The arguments of `measure_plans`.

    Attributes
    ----------
    kind
        Kind of the device that computes.
    timeout_s
        The server's deadline for the whole session, in seconds.
    """

    grant: Grant
    key: str
    plans: tuple[CandidatePlan, ...]
    kind: str
    timeout_s: float


def measure_plans(request: PlanRequest) -> list[Result]:
    """Send plans to a board, one after the other; runs in a worker process.

    Returns
    -------
    list
        The results of the first plans, at least one; those for which the session has no time are left.

    Raises
    ------
    BoardBusyError
        The session's time passed while it waited for others who measure there.
    SessionLostError
        The session ended on this host's side before anything was measured.
    ToolchainError
        The lab, not a candidate, is at fault.
    CheckError
        An answer of the board cannot be true.
    """
    until = time.monotonic() + request.timeout_s
    session = connect(request.grant, request.key, request.timeout_s)
    board = request.key.partition("@")[2] or request.key
    results: list[Result] = []
    sent: set[str] = set()
    try:
        measure = session.get_function(_MEASURE)
        for each in request.plans:
            if results and time.monotonic() + each.possible.most_s > until:
                break
            for digest, path in each.members.items():
                if digest not in sent:
                    session.upload(str(path), digest)
                    sent.add(digest)
            results.append(_believed(each, measure(each.text), board, request.kind))
            for number, unknown in each.unknown.items() if not results[-1].failure else ():
                places = range(len(unknown.outputs))
                unknown.learn([bytes(session.download(f"output-{number}-{place}")) for place in places])
    except tvm.error.RPCSessionTimeoutError as error:
        if WAITED in str(error) and not results:
            raise BoardBusyError(f"others have measured there for {request.timeout_s:.0f} s") from error
        message = f"not done within {request.timeout_s:.0f} s"
        results.append(Result(failure="timeout", message=message))
    except ToolchainError:
        raise
    except Exception as error:  # TVM raises anything from TypeError to its own kinds
        if not results:
            check_not_lost(error)
        results.append(Result(failure="upload", message=first_line(error)))
    return results


def _believed(each: CandidatePlan, said: object, board: str, kind: str) -> Result:
    """Return the result that a board answered: of this candidate, with possible times."""
    what = f"the answer of {_MEASURE}"
    if not isinstance(said, str):
        raise lie(board, what, f"it is {shown(said)}, not text")
    line = understood(CandidateLine, said, board, what)
    if line.candidate != each.candidate:
        raise lie(board, what, f"it is about candidate {line.candidate[:12]}, not {each.candidate[:12]}")
    if problem := line.problem(each.possible, each.code):
        raise lie(board, "the time of a measurement", problem)
    return line.result(board, kind, each.code)
