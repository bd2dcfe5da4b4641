"""The event log of a command, which `toolchain ui` follows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from toolchain.errors import ToolchainError

if TYPE_CHECKING:
    from toolchain.events.lines import EndLine
    from toolchain.events.log import EventLog


@contextmanager
def event_log(kind: str, title: object, boards: Iterable[str] = ()) -> Iterator[EventLog]:
    """Write the log of a command while the block runs; its last line says how the block ended.

    Parameters
    ----------
    kind
        The command's name, such as `tune`.
    title
        The model or bundle that it works on.
    boards
        Names of the boards that it uses.
    """
    from toolchain.events.lines import EndLine
    from toolchain.events.log import EventLog

    log = EventLog()
    log.begin(kind, str(title), tuple(boards))
    try:
        yield log
    except BaseException as error:
        log.end(_end_after(error))
        raise
    log.end(EndLine(how="done"))


def end_as_failed(log: EventLog, message: str) -> None:
    """End the log of a command that goes on to say what failed, and leaves no error."""
    from toolchain.events.lines import EndLine

    log.end(EndLine(how="failed", message=message))


def step_logger(log: EventLog, say: Callable[[str], None]) -> Callable[[str], None]:
    """Return a function that passes a step to `say` and writes it to the log."""
    from toolchain.events.lines import StepLine

    def tell(text: str) -> None:
        log.write(StepLine(text=text))
        say(text)

    return tell


def _end_after(error: BaseException) -> EndLine:
    from toolchain.events.lines import EndLine

    if not isinstance(error, Exception):  # Ctrl-C, or a signal that ends the process
        return EndLine(how="interrupted")
    message = error.message if isinstance(error, ToolchainError) else f"{type(error).__name__}: {error}"
    return EndLine(how="failed", message=message)
