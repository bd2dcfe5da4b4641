"""Progress of a command on stderr: a changing line on a terminal, separate lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from toolchain.cli import terminal
from toolchain.cli.output import note
from toolchain.events.counted import is_counted, is_last
from toolchain.foreign import printable

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

        def tell(text: str) -> None:
            spinner.update(text=Text(printable(text)))
            if not is_counted(text) or is_last(text):
                note(text)

        yield tell


def thinned_out(say: Callable[[str], None]) -> Callable[[str], None]:
    """Return a function that passes steps to `say`; of counted steps, one in 30 s and the last."""
    said = -_BETWEEN_S

    def tell(text: str) -> None:
        nonlocal said
        if is_counted(text):
            now = time.monotonic()
            if now - said < _BETWEEN_S and not is_last(text):
                return
            said = now
        say(text)

    return tell
