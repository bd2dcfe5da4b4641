"""Asks boards over their transports what they run, what a release would do to them, and who works there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from pydantic import ValidationError

from toolchain.answers import Answer, Sentence
from toolchain.boards.board import Board, named
from toolchain.boards.transport import LostError
from toolchain.errors import ToolchainError
from toolchain.foreign import printable
from toolchain.releases.export import Delivery
from toolchain.releases.statement import Version
from toolchain.rollouts.attempt import head_for, new_number
from toolchain.rollouts.installer import AppStatus, FieldStatus, ask_status
from toolchain.rpc import lab
from toolchain.runtime import arch_of, ensure_runtime

_PROGRAM = re.compile(r"edge-rt-[0-9a-f]{12}")
Answered = TypeVar("Answered")


@dataclass(frozen=True)
class BoardApp:
    """One application of a board, or a board without any; the fields are those of the JSON document.

    Attributes
    ----------
    state
        `active`, `installing`, `cut` (an installation was interrupted), `broken`; of a board without an
        application `none`; `offline` if it cannot be reached, `failed` if it cannot be asked.
    since
        Time of the last change, in ISO 8601 and UTC.
    """

    name: str
    state: str
    app: str | None = None
    version: str | None = None
    digest: str | None = None
    previous: str | None = None
    since: str | None = None
    error: str | None = None
    trust: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the row as plain values."""
        return asdict(self)


def find_program(board: Board) -> str | None:
    """Return the path of the `edge-rt` on a board that was used last, None if it has none."""
    with named(board):
        files = board.transport.listing("bin")
    programs = [name for name in files if _PROGRAM.fullmatch(name)]
    return f"bin/{max(programs, key=lambda name: files[name].changed)}" if programs else None


def status_of(board: Board) -> FieldStatus | None:
    """Return what a board has, as its own edge-rt says; None if it has no edge-rt."""
    program = find_program(board)
    return ask_status(board, program) if program else None


def fleet_status(boards: Sequence[Board], at_once: int) -> list[BoardApp]:
    """Ask all boards, `at_once` at the same time; return their rows in the order of the boards."""
    return [row for rows in ask_all(boards, _rows, at_once) for row in rows]


def ask_all(boards: Sequence[Board], ask: Callable[[Board], Answered], at_once: int) -> list[Answered]:
    """Return `ask` of each board, in their order."""
    answers = {id(board): answer for board, answer in answers_of(boards, ask, at_once)}
    return [answers[id(board)] for board in boards]


def answers_of(
    boards: Sequence[Board], ask: Callable[[Board], Answered], at_once: int
) -> Iterator[tuple[Board, Answered]]:
    """Yield boards with `ask` of them as they answer, and close the connections; a question has deadlines."""

    def asked(board: Board) -> tuple[Board, Answered]:
        try:
            return board, ask(board)
        finally:
            board.transport.close()

    with ThreadPoolExecutor(max(1, min(at_once, len(boards))), "fleet") as pool:
        for future in as_completed([pool.submit(asked, board) for board in boards]):
            yield future.result()


def lost_release(boards: Sequence[Board], app: str, version: str, at_once: int) -> list[str]:
    """Return the names of boards that answer, and do not run the release; silent ones prove nothing."""

    def runs_other(board: Board) -> bool:
        try:
            status = status_of(board)
        except ToolchainError:
            return False
        installed = status.find(app) if status else None
        return installed is None or installed.version != version or installed.state != "active"

    answers = ask_all(boards, runs_other, at_once)
    return [board.name for board, other in zip(boards, answers, strict=True) if other]


def _rows(board: Board) -> list[BoardApp]:
    try:
        status = status_of(board)
    except LostError as error:
        return [BoardApp(board.name, "offline", error=error.message)]
    except ToolchainError as error:
        return [BoardApp(board.name, "failed", error=error.message)]
    trust = status.trust.version if status and status.trust else None
    if not status or not status.apps:
        return [BoardApp(board.name, "none", trust=trust)]
    return [_row(board, status, app, trust) for app in status.apps]


def _row(board: Board, status: FieldStatus, app: AppStatus, trust: int | None) -> BoardApp:
    error = f"{app.error.step}: {app.error.message}" if app.error else None
    if app.state == "installing" and status.at_work:
        error = f"process {status.at_work.pid} there is at work: {status.at_work.what}"
    return BoardApp(
        board.name, app.state, app.app, app.version, app.digest, app.previous, _time(app.since), error, trust
    )


def _time(seconds: int) -> str | None:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return None


# Finds out what a rollout would do to each board, and changes none.


@dataclass(frozen=True)
class PlannedInstall:
    """The action of a rollout on a board, and why; it now runs `version`, and would get at most `bytes`."""

    name: str
    action: str
    reason: str
    version: str | None
    bytes: int

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return asdict(self)


def preview(boards: Sequence[Board], delivery: Delivery, at_once: int) -> list[PlannedInstall]:
    """Ask the boards what they have; return what each would get."""
    return ask_all(boards, lambda board: _of_board(board, delivery), at_once)


def _of_board(board: Board, delivery: Delivery) -> PlannedInstall:
    release = delivery.signed.release
    head = len(head_for(board, delivery, new_number()))
    size = head + sum(release.sizes)

    def plan(action: str, reason: str, version: str | None = None, sent: int = size) -> PlannedInstall:
        return PlannedInstall(board.name, action, reason, version, sent)

    if board.record_class not in release.classes:
        reason = f"its class {board.record_class} is not among {', '.join(release.classes)}"
        return plan("refuse", reason, sent=0)
    try:
        status = status_of(board)
    except LostError as error:
        return plan("retry", error.message)
    except ToolchainError as error:
        return plan("retry", error.message)
    if (status is None or status.trust is None) and delivery.trust is None:
        return plan("refuse", "it trusts nobody yet: give --trust FILE", sent=0)
    app = status.find(release.app) if status else None
    if app is None or app.version is None:
        return plan("install", "it has none")
    same_bundle = app.digest == delivery.signed.digest and app.state == "active"
    if same_bundle and app.version == release.version:
        return plan("nothing", "it runs this release", app.version, 0)
    if not delivery.downgrade and Version(release.version) < Version(app.newest or app.version):
        reason = f"it ran {app.newest or app.version}, which is newer"
        return plan("refuse", reason, app.version, 0)
    return plan("install", f"it runs {app.version}", app.version, head if same_bundle else size)


# Who is at work on a board: leases of the lab, a measurement, an installation.

_ASK_S = 20.0
_MOST_LINES = 100
# edge-rt writes into its lock who holds it, and empties it at the end; one that was killed leaves its words.
_SCRIPT = """
for lock in state*/measure.lock; do
    line= && read -r line <"$lock" || [ -n "$line" ] || continue
    pid=${line#*\\"pid\\": } && pid=${pid%%,*}
    case $pid in *[!0-9]*|'') continue ;; esac
    grep -q edge-rt "/proc/$pid/cmdline" && printf '%s\\n' "$line"
done 2>/dev/null
exit 0
"""


class Measurement(Answer):
    """The words that edge-rt writes into its lock for measurements: a process, and what it does."""

    pid: int
    what: Sentence


def holders_of(board: Board, names: Sequence[str]) -> list[str]:
    """Return who is at work on a board, as sentences; nobody if the board is silent and the lab has no lease.

    Parameters
    ----------
    names
        Names of all boards that are devices of the same machine, for the lab's leases.
    """
    return [*_leases(names), *_work_on(board)]


def _leases(names: Sequence[str]) -> list[str]:
    try:
        status = lab.status()
    except ToolchainError:  # a lab that does not answer cannot say so
        return []
    return [
        f"{printable(str(lease['user'] or 'somebody'))} has leased {lease['board']} from the lab "
        f"for {lease['held_s']:.0f} s"
        for lease in (status.leases if status else ())
        if lease["board"] in names
    ]


def _work_on(board: Board) -> list[str]:
    """Ask the board itself, which knows users of other hosts, too."""
    users = []
    try:
        answer = board.transport.run(["sh", "-c", _SCRIPT], timeout=_ASK_S)
        for line in answer.stdout.decode(errors="replace").splitlines()[:_MOST_LINES]:
            try:
                holder = Measurement.model_validate_json(line)
            except ValidationError:
                continue
            users.append(f"{printable(holder.what)} (process {holder.pid} there) measures")
        status = status_of(board)
    except LostError:
        return []
    except ToolchainError:  # without our folder or an edge-rt nobody works there
        return users
    if status and status.at_work:
        users.append(f"a rollout: {printable(status.at_work.what)} (process {status.at_work.pid} there)")
    return users


def prepare_programs(boards: Iterable[Board], progress: Callable[[str], None]) -> None:
    """Compile each `edge-rt` that the boards need, before many threads want it."""
    for profile in {arch_of(board.profile): board.profile for board in boards}.values():
        ensure_runtime(arch_of(profile), progress=progress)
