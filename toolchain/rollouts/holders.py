"""Finds who is at work on a board: leases of the lab, a measurement, an installation."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import ValidationError

from toolchain.answers import Answer, Sentence
from toolchain.boards.board import Board
from toolchain.boards.transport import LostError
from toolchain.errors import ToolchainError
from toolchain.foreign import printable
from toolchain.rollouts.fleet import status_of
from toolchain.rpc import lab

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
    return [*_leases(names), *_there(board)]


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


def _there(board: Board) -> list[str]:
    """Ask the board itself, which knows users of other hosts, too."""
    found = []
    try:
        said = board.transport.run(["sh", "-c", _SCRIPT], timeout=_ASK_S)
        for line in said.stdout.decode(errors="replace").splitlines()[:_MOST_LINES]:
            try:
                holder = Measurement.model_validate_json(line)
            except ValidationError:
                continue
            found.append(f"{printable(holder.what)} (process {holder.pid} there) measures")
        status = status_of(board)
    except LostError:
        return []
    except ToolchainError:  # without our folder or an edge-rt nobody works there
        return found
    if status and status.at_work:
        found.append(f"a rollout: {printable(status.at_work.what)} (process {status.at_work.pid} there)")
    return found
