"""What a command is at: a line that changes on a terminal, lines elsewhere. On stderr."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from toolchain.cli import terminal
from toolchain.cli.output import note
from toolchain.foreign import printable

if TYPE_CHECKING:
    from toolchain.tuning.events import Event, Listener, Trial


_COUNT = re.compile(r" (\d+)/(\d+) ")
_BETWEEN_S = 5.0  # lines that count


@contextmanager
def step_progress() -> Iterator[Callable[[str], None]]:
    """Yield a function to call with each step of a build. Steps that count, such as `compiling 3/7 …`,
    change one line on a terminal, and elsewhere print one every few seconds.
    """
    if not sys.stderr.isatty():
        yield _thin_out(note)
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

        def tell(text: str) -> None:
            spinner.update(text=Text(printable(text)))
            if not _COUNT.search(text) or _is_last(text):
                note(text)

        yield tell


def _thin_out(say: Callable[[str], None]) -> Callable[[str], None]:
    """Return a function that passes steps on to `say`; of those that count, one in 5 s and the last."""
    said = -_BETWEEN_S

    def tell(text: str) -> None:
        nonlocal said
        if _COUNT.search(text):
            now = time.monotonic()
            if now - said < _BETWEEN_S and not _is_last(text):
                return
            said = now
        say(text)

    return tell


def _is_last(text: str) -> bool:
    found = _COUNT.search(text)
    return found is not None and found[1] == found[2]


@contextmanager
def trial_progress(trials: int) -> Iterator[Listener]:
    """Yield a listener that shows a run of at most `trials` candidates."""
    if sys.stderr.isatty():
        with _bar(trials) as listener:
            yield listener
    else:
        yield _lines(trials)


def _lines(trials: int) -> Listener:
    from toolchain.tuning.events import Trial

    done = 0

    def listen(event: Event) -> None:
        nonlocal done
        if not isinstance(event, Trial):
            note(event.text)
            return
        done += event.stage == "search"
        place = f"{done:>{len(str(trials))}}/{trials}" if event.stage == "search" else "default"
        note(f"  {place:>7}  {event.task.id}  {describe(event)}  {event.task.name}")

    return listen


@contextmanager
def _bar(trials: int) -> Iterator[Listener]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from toolchain.tuning.events import Notice, Trial

    described = TextColumn("{task.description}", markup=False)  # names are no markup
    progress = Progress(
        *(described, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()),
        console=terminal.console(stderr=True),
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    with terminal.drawing(progress.live):
        bar = progress.add_task("tuning", total=trials)

        def listen(event: Event) -> None:
            if isinstance(event, Trial):
                progress.update(
                    bar,
                    advance=event.stage == "search",
                    description=printable(f"{event.task.id} {describe(event)}"),
                )
                if event.failure:
                    note(f"{event.task.id} {describe(event)}")
            elif isinstance(event, Notice):
                note(event.text)
            else:
                progress.update(bar, description=printable(event.text))

        yield listen


def describe(trial: Trial) -> str:
    """Return what came of one trial."""
    if trial.ms is None:
        return f"failed, {trial.failure}: {trial.message}"
    return f"{trial.ms:9.3f} ms  best {trial.best_ms:9.3f} ms"
