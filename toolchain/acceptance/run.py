"""Runs the steps of an acceptance on a board, keeps what ended, and leaves the board as it was."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from toolchain import __version__
from toolchain.acceptance.context import AcceptContext, Note, UnbuildableError
from toolchain.acceptance.document import Acceptance, StepReport
from toolchain.acceptance.leaving import entries, keeping, remove_what_came
from toolchain.acceptance.plan import check_skips, planned_steps
from toolchain.acceptance.public import class_name, telling_words
from toolchain.acceptance.state import AcceptState, begin_state, identity, state_file, write_state
from toolchain.acceptance.step import AcceptStep, StepEnd
from toolchain.acceptance.timing import TimeLeft
from toolchain.answers import problem
from toolchain.boards.board import Board, named
from toolchain.boards.transport import LostError
from toolchain.errors import CheckError, MissingError, ToolchainError
from toolchain.files import atomic
from toolchain.files.scratch import scratch_folder
from toolchain.files.turns import one_at_a_time
from toolchain.records.store import RecordStore
from toolchain.reports.acceptance import acceptance_page
from toolchain.runtime import expected_fingerprint
from toolchain.tuning.events import Listener

_TURN_S = 1.0
NO_TIME = "no time left"
BY_USER = "left out by --skip"


@dataclass(frozen=True)
class AcceptOptions:
    """The user's options.

    Attributes
    ----------
    time_s
        Seconds in which steps may begin; the facts and the first network of each device always do.
    skips
        Names of steps to leave out, or beginnings of names.
    fresh
        Whether steps that ended in an earlier call are repeated.
    """

    time_s: float = 1800.0
    skips: tuple[str, ...] = ()
    fresh: bool = False


@dataclass(frozen=True)
class Accepted:
    """The result of an acceptance.

    Attributes
    ----------
    json, html
        The files that were written.
    wrong
        Names of the steps that failed because numbers are wrong.
    """

    document: Acceptance
    json: Path
    html: Path
    wrong: tuple[str, ...]

    def problem(self, board: str) -> ToolchainError | None:
        """Return the error to end with; None if no step failed."""
        failed = [step.name for step in self.document.steps if step.result == "failed"]
        if not failed:
            return None
        kind = CheckError if self.wrong else ToolchainError
        what = "has wrong numbers" if self.wrong else "did not pass"
        return kind(
            f"board {board} {what}: {', '.join(self.wrong or failed)}",
            f"{self.html} has the results; the same command tries these steps again",
        )


def accept(board: Board, out: Path, options: AcceptOptions, note: Note, listener: Listener) -> Accepted:
    """Go through everything that a board's class promises, and write a page and a document.

    Parameters
    ----------
    out
        Folder for both files.
    note, listener
        Called with a message for each step, and with each event of tuning.

    Raises
    ------
    UsageError
        A word of `--skip` names no step.
    LostError
        The board cannot be reached; the steps that ended are kept.
    ToolchainError
        The state or a file cannot be written, or another process accepts the same board.
    """
    left = TimeLeft(options.time_s)
    steps = planned_steps(board.profile)
    check_skips(steps, options.skips)
    file = state_file(board.name)
    busy = f"accepting board {board.name}"
    with one_at_a_time(file.with_suffix(".lock"), _TURN_S, busy), scratch_folder() as folder:
        state = begin_state(file, _fresh_state(board), again=options.fresh)
        with _visit(board, file, state, note) as guarded, RecordStore(folder / "records.sqlite") as store:
            telling = telling_words(board)
            context = AcceptContext(guarded, folder, store, left, note, listener, telling, state.steps)
            reports, wrong = _run_all(steps, context, options.skips, lambda: write_state(file, state))
        state.stem = state.stem or _free_stem(board, out, state.date)
        write_state(file, state)
    document = Acceptance(
        toolchain=__version__,
        edge_rt=expected_fingerprint()[:12],
        board_class=class_name(board.profile.name),
        emulated=board.emulated,
        shared_cpu=board.shared_cpu,
        date=state.date,
        steps=tuple(reports),
    )
    return _written(document, out, state.stem, wrong)


def _run_all(
    steps: Sequence[AcceptStep], context: AcceptContext, skips: Sequence[str], keep: Callable[[], None]
) -> tuple[list[StepReport], tuple[str, ...]]:
    """Run the steps that did not end in an earlier call; return all reports, and which have wrong numbers.

    Parameters
    ----------
    keep
        Keeps the steps in `context.done`; called after each that passed or missed.
    """
    reports: list[StepReport] = []
    wrong: list[str] = []
    for number, step in enumerate(steps, 1):
        report, before = context.done.get(step.name), " before"
        if report is None:
            end, seconds = _run(step, context, skips)
            report, before = end.report(step.name, seconds), ""
            if end.wrong:
                wrong.append(step.name)
            if end.result in ("passed", "missed"):
                context.done[step.name] = report
                keep()
        said = f"{report.result}{before} {report.reason}".strip()
        context.note(f"{number}/{len(steps)} {step.name}: {said}")
        reports.append(report)
    return reports, tuple(wrong)


def planned(board: Board, options: AcceptOptions) -> list[tuple[AcceptStep, str]]:
    """Return the steps that `accept` would go through, each with what would become of it; asks no board.

    Raises
    ------
    UsageError
        A word of `--skip` names no step.
    """
    steps = planned_steps(board.profile)
    check_skips(steps, options.skips)
    state = begin_state(state_file(board.name), _fresh_state(board), again=options.fresh)
    return [(step, _fate(step, state, options.skips)) for step in steps]


def _fate(step: AcceptStep, state: AcceptState, skips: Sequence[str]) -> str:
    if step.name in state.steps:
        return f"{state.steps[step.name].result} before"
    if any(step.named_by(text) for text in skips):
        return BY_USER
    return "always" if step.always else "while time is left"


def _fresh_state(board: Board) -> AcceptState:
    return AcceptState(
        toolchain=__version__,
        edge_rt=expected_fingerprint(),
        record_class=board.record_class,
        identity=identity(board),
        date=datetime.now(UTC).date().isoformat(),
    )


@contextmanager
def _visit(board: Board, file: Path, state: AcceptState, note: Note) -> Iterator[Board]:
    """Yield the board with a transport that keeps what is there, and remove what came at the end."""
    with named(board):
        left = set(state.uploads)  # by a run that was killed: they do not count as having been there
        before = {
            folder: tuple(name for name in names if f"{folder}/{name}" not in left)
            for folder, names in entries(board.transport, board.only_device).items()
        }

        def note_upload(entry: str) -> None:
            state.uploads = (*state.uploads, entry)
            write_state(file, state)

        write_state(file, state)
        try:
            yield replace(board, transport=keeping(board.transport, before, note_upload))
        except (KeyboardInterrupt, SystemExit, ToolchainError):
            note("the steps that ended are kept: the same command goes on with the others")
            raise
        finally:
            try:
                remove_what_came(board.transport, before, state.uploads, board.only_device)
                state.uploads = ()
                write_state(file, state)
            except ToolchainError as error:
                note(
                    f"warning: files of this run are still on the board; the next call removes them: {error}"
                )


def _run(step: AcceptStep, context: AcceptContext, skips: Sequence[str]) -> tuple[StepEnd, float]:
    """Run one step; return how it ended and its seconds."""
    if any(step.named_by(text) for text in skips):
        return StepEnd("skipped", BY_USER), 0.0
    if not step.always and not context.left.fits(step.pace, step.work):
        return StepEnd("skipped", NO_TIME), 0.0
    begun = time.monotonic()
    end = _ended(step, context)
    took = time.monotonic() - begun
    if end.result in ("passed", "failed"):
        context.left.note(step.pace, step.work, took)
    return end, round(took, 1)


def _ended(step: AcceptStep, context: AcceptContext) -> StepEnd:
    # What an error says may name the board, an address or a path: it is for the user, not for the document.
    try:
        return step.run(context)
    except LostError:
        raise
    except UnbuildableError as error:
        context.note(f"{step.name}: {error}")
        return StepEnd("skipped", "the toolchain cannot build this network for this device")
    except MissingError as error:
        context.note(f"{step.name}: {error}")
        return StepEnd("skipped", "the host lacks something that this step needs: see `toolchain doctor`")
    except ValidationError as error:
        context.note(f"{step.name}: {problem(error)}")
        return StepEnd("failed", "a number or word that the board reports cannot be right", wrong=True)
    except CheckError as error:
        context.note(f"{step.name}: {error}")
        return StepEnd("failed", "a check failed: an answer or a file cannot be right", wrong=True)
    except ToolchainError as error:
        context.note(f"{step.name}: {error}")
        return StepEnd("failed", "the step could not be done; the terminal said why")


def _free_stem(board: Board, out: Path, date: str) -> str:
    """Return a name for this run's files that says nothing of the board, and is no other run's."""
    stem = f"{class_name(board.profile.name)}{'-emulated' if board.emulated else ''}-{date}"
    stems = (stem if number == 1 else f"{stem}-{number}" for number in itertools.count(1))
    return next(each for each in stems if not (out / f"{each}.json").exists())


def _written(document: Acceptance, out: Path, stem: str, wrong: tuple[str, ...]) -> Accepted:
    json, html = (out.absolute() / f"{stem}.{ending}" for ending in ("json", "html"))
    atomic.write_text(json, document.text())
    atomic.write_text(html, acceptance_page(document.model_dump(mode="json")))
    return Accepted(document, json, html, wrong)
