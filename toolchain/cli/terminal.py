"""Escapes all output of commands, so that no call can forget it.

Many commands print names and messages of boards, bundles, models, files and libraries. While a command
runs, `sys.stdout` and `sys.stderr` escape characters that are not printable. rich, which sends control
sequences of its own, writes through a console that escapes the texts it gets.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO, cast

from toolchain.errors import ToolchainError
from toolchain.foreign import printable_lines

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live


class StdoutError(ToolchainError):
    """Standard output cannot be written: its disk is full, or it is closed."""


class Escaping(io.TextIOBase):
    """A text stream that escapes characters that are not printable.

    Parameters
    ----------
    stream
        The stream to write to.
    name
        Name of the stream in errors; None: errors are ignored, because they could not be reported.
    """

    def __init__(self, stream: TextIO, name: str | None) -> None:
        self.stream = stream
        self._name = name

    def write(self, text: str) -> int:
        """Write `text`, escaped."""
        if shown := printable_lines(text):  # click writes "" to test a stream
            with self._checked():
                self.stream.write(shown)
        return len(text)

    def flush(self) -> None:
        """Flush the stream below."""
        with self._checked():
            self.stream.flush()

    @contextmanager
    def _checked(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:  # the reader is gone: the command ends
            raise
        except OSError as error:
            forget(self.stream)
            if self._name is not None:
                raise output_error(self._name, error) from error

    def isatty(self) -> bool:
        """Return whether the stream below is a terminal."""
        return self.stream.isatty()

    def fileno(self) -> int:
        """Return the descriptor; bytes written to it are not escaped."""
        return self.stream.fileno()

    def writable(self) -> bool:
        """Return True."""
        return True

    @property
    def buffer(self) -> Any:
        """The byte stream below, which escapes nothing."""
        return self.stream.buffer

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding of the stream below."""
        return self.stream.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        """How the stream below handles characters that its encoding lacks."""
        return self.stream.errors


class EscapingBytes(io.RawIOBase):
    """A byte stream for a program's output: escaped on a terminal, else exact."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, data: Any) -> int:
        """Write `data`."""
        self._stream.write(bytes(data).decode(errors="surrogateescape"))
        return len(data)

    def flush(self) -> None:
        """Flush the stream below."""
        self._stream.flush()


def bytes_for(stream: Any) -> BinaryIO:
    """Return the stream for a board's output: escaped on a terminal, exact elsewhere."""
    return cast(BinaryIO, EscapingBytes(stream) if stream.isatty() else stream.buffer)


def output_error(name: str, error: OSError) -> StdoutError:
    """Return the error for a stream that cannot be written."""
    closed = error.errno == errno.EBADF
    why = "it is closed" if closed else error.strerror or str(error)
    hint = "" if closed else "free some space, or print elsewhere"
    return StdoutError(f"{name} cannot be written: {why}", hint)


def forget(stream: TextIO) -> None:
    """Redirect a stream to /dev/null, so that the interpreter does not complain at exit."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, stream.fileno())
    os.close(nothing)


@contextmanager
def escape_streams() -> Iterator[None]:
    """Escape output until the block ends, and refuse to write to closed streams."""
    _open_what_is_closed()
    kept = sys.stdout, sys.stderr
    for stream in kept:
        if isinstance(stream, io.TextIOWrapper):
            # ASCII means a machine without a locale; click would write UTF-8 there and bypass us.
            ascii_only = (stream.encoding or "ascii").lower() in ("ascii", "ansi_x3.4-1968", "646")
            stream.reconfigure(encoding="utf-8" if ascii_only else None, errors="backslashreplace")
    sys.stdout = cast(TextIO, Escaping(kept[0], "standard output"))
    sys.stderr = cast(TextIO, Escaping(kept[1], None))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = kept
        for stream in kept:
            _finish(stream)


def _finish(stream: TextIO) -> None:
    try:
        stream.flush()
    except OSError:
        forget(stream)


def _open_what_is_closed() -> None:
    """Give closed streams a descriptor on which every write fails.

    Otherwise the next file that is opened, perhaps a database, would become standard output.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)  # takes the lowest free number: this one
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


_drawn: Console | None = None


def say(text: str) -> None:
    """Print a line on stderr, above a bar that is being drawn."""
    if _drawn is not None:
        _drawn.print(text, soft_wrap=True)
    else:
        print(text, file=sys.stderr)


@contextmanager
def drawing(live: Live) -> Iterator[None]:
    """Draw a changing bar or line until the block ends."""
    global _drawn
    with live:
        _drawn = live.console
        try:
            yield
        finally:
            _drawn = None


@contextmanager
def live_view(view: Callable[[int], RenderableType]) -> Iterator[None]:
    """Draw `view` on standard error until the block ends.

    It gets the terminal's height in lines, four times a second.
    """
    from rich.live import Live

    screen = console(stderr=True)
    live = Live(
        console=screen,
        get_renderable=lambda: view(screen.size.height),
        transient=True,
        refresh_per_second=4,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    with drawing(live):
        yield


def console(*, stderr: bool = False) -> Console:
    """Return a console that escapes texts and does not read them as markup."""
    from rich.console import Console, ConsoleOptions
    from rich.segment import Segment

    class EscapingConsole(Console):
        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> Iterable[Segment]:
            for segment in super().render(renderable, options):
                if segment.control:
                    yield segment
                else:
                    yield Segment(printable_lines(segment.text), segment.style)

    stream = sys.stderr if stderr else sys.stdout
    below = stream.stream if isinstance(stream, Escaping) else stream
    return EscapingConsole(file=below, markup=False, highlight=False, emoji=False)
