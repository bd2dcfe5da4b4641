"""Progress of a command: on stderr, and in its event log, which `toolchain ui` follows."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from toolchain.cli import terminal
from toolchain.cli.output import note
from toolchain.errors import ToolchainError
from toolchain.events.counted import is_counted, is_last
from toolchain.foreign import printable

if TYPE_CHECKING:
    from toolchain.events.lines import EndLine
    from toolchain.events.log import EventLog


# The event log of a command, which `toolchain ui` follows.


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
    """End the log of a command that failed but raises no error, since it still prints what failed."""
    from toolchain.events.lines import EndLine

    log.end(EndLine(how="failed", message=message))


def step_logger(log: EventLog, say: Callable[[str], None]) -> Callable[[str], None]:
    """Return a function that passes a step to `say` and writes it to the log."""
    from toolchain.events.lines import StepLine

    def report(text: str) -> None:
        log.write(StepLine(text=text))
        say(text)

    return report


def _end_after(error: BaseException) -> EndLine:
    from toolchain.events.lines import EndLine

    if not isinstance(error, Exception):  # Ctrl-C, or a signal that ends the process
        return EndLine(how="interrupted")
    message = error.message if isinstance(error, ToolchainError) else f"{type(error).__name__}: {error}"
    return EndLine(how="failed", message=message)


_BETWEEN_S = 30.0  # between two lines of a counted step


@contextmanager
def step_progress() -> Iterator[Callable[[str], None]]:
    """Yield a function that shows a step of a build. A counted step, such as `compiling 3/7 …`, changes one
    line on a terminal; elsewhere it prints a line every few seconds.
    """
    if not sys.stderr.isatty():
        yield thinned_out(note)
        return
    from rich.live import Live
    from rich.spinner import Spinner
    from rich.text import Text

    spinner = Spinner("dots", style="status.spinner")
    live = Live(
        spinner,
        console=terminal.console(stderr=True),
        transient=True,
        refresh_per_second=12.5,  # the spinner's frames
        redirect_stdout=False,
        redirect_stderr=False,
    )
    with terminal.drawing(live):

        def report(text: str) -> None:
            spinner.update(text=Text(printable(text)))
            if not is_counted(text) or is_last(text):
                note(text)

        yield report


def thinned_out(say: Callable[[str], None]) -> Callable[[str], None]:
    """Return a function that passes steps to `say`; of counted steps, one in 30 s and the last."""
    reported_s = -_BETWEEN_S

    def report(text: str) -> None:
        nonlocal reported_s
        if is_counted(text):
            now = time.monotonic()
            if now - reported_s < _BETWEEN_S and not is_last(text):
                return
            reported_s = now
        say(text)

    return report
