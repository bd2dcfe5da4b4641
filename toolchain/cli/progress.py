"""What a command is at: a line that changes on a terminal, lines elsewhere. On stderr."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from toolchain.cli.output import note

if TYPE_CHECKING:
    from toolchain.tuning.events import Event, Listener, Trial


_COUNT = re.compile(r" (\d+)/(\d+) ")
_BETWEEN_S = 5.0  # lines that count


@contextmanager
def step_progress() -> Iterator[Callable[[str], None]]:
    """Yield what is told each step of a build; steps may count what they are at: `compiling 3/7 …`."""
    if not sys.stderr.isatty():
        yield _counted(note)
        return
    from rich.console import Console

    console = Console(stderr=True)
    with console.status("") as status:

        def tell(text: str) -> None:
            status.update(text)
            if not _COUNT.search(text) or _is_last(text):
                console.print(text, markup=False, highlight=False)

        yield tell


def _counted(say: Callable[[str], None]) -> Callable[[str], None]:
    """Leave out steps that only count on, but for some and the last."""
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
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from toolchain.tuning.events import Notice, Trial

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("tuning", total=trials)

        def listen(event: Event) -> None:
            if isinstance(event, Trial):
                progress.update(
                    bar,
                    advance=event.stage == "search",
                    description=f"{event.task.id} {describe(event)}",
                )
                if event.failure:
                    progress.console.print(f"{event.task.id} {describe(event)}", markup=False)
            elif isinstance(event, Notice):
                progress.console.print(event.text, markup=False)
            else:
                progress.update(bar, description=event.text)

        yield listen


def describe(trial: Trial) -> str:
    """Return what came of one trial."""
    if trial.ms is None:
        return f"failed, {trial.failure}: {trial.message}"
    return f"{trial.ms:9.3f} ms  best {trial.best_ms:9.3f} ms"
