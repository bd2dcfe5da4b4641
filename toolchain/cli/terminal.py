"""The one way to the terminal: whatever a command prints is escaped here, and no call can forget it.

Names and messages of boards, bundles, models, files and libraries are printed by many commands. While one
runs, `sys.stdout` and `sys.stderr` are streams that escape what is not printable; rich, which has to send
control sequences of its own, writes through a console that escapes the texts it is given.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO, cast

from toolchain.errors import ToolchainError
from toolchain.foreign import printable_lines

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live


class OutputError(ToolchainError):
    """Standard output cannot be written any more: its disk is full, or it is closed."""


class Escaping(io.TextIOBase):
    """A text stream that escapes what is not printable.

    Parameters
    ----------
    stream
        Where it goes.
    name
        What an error calls it; None: what cannot be written is lost, as nobody could be told.
    """

    def __init__(self, stream: TextIO, name: str | None) -> None:
        self.stream = stream
        self._name = name

    def write(self, text: str) -> int:
        """Write `text`, escaped."""
        if shown := printable_lines(text):  # click tries streams with nothing
            with self._checked():
                self.stream.write(shown)
        return len(text)

    def flush(self) -> None:
        """Pass on what was written."""
        with self._checked():
            self.stream.flush()

    @contextmanager
    def _checked(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:  # nobody reads: the command ends
            raise
        except OSError as error:
            forget(self.stream)
            if self._name is not None:
                raise output_error(self._name, error) from error

    def isatty(self) -> bool:
        """Return whether a person may be looking."""
        return self.stream.isatty()

    def fileno(self) -> int:
        """Return the descriptor; what is written there is not escaped."""
        return self.stream.fileno()

    def writable(self) -> bool:
        """Return that it is."""
        return True

    @property
    def buffer(self) -> Any:
        """The stream of bytes below, which escapes nothing."""
        return self.stream.buffer

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding below."""
        return self.stream.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        """What becomes of characters that the encoding does not have."""
        return self.stream.errors


class EscapingBytes(io.RawIOBase):
    """A stream of bytes, for what a program prints: escaped if a person looks, else exact."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, data: Any) -> int:
        """Write `data`."""
        self._stream.write(bytes(data).decode(errors="surrogateescape"))
        return len(data)

    def flush(self) -> None:
        """Pass on what was written."""
        self._stream.flush()


def bytes_for(stream: Any) -> BinaryIO:
    """Return the stream to write a board's output to: escaped on a terminal, exact elsewhere."""
    return cast(BinaryIO, EscapingBytes(stream) if stream.isatty() else stream.buffer)


def output_error(name: str, error: OSError) -> OutputError:
    """Return the error that says why a stream cannot be written any more."""
    closed = error.errno == errno.EBADF
    why = "it is closed" if closed else error.strerror or str(error)
    hint = "" if closed else "free some space, or print elsewhere"
    return OutputError(f"{name} cannot be written: {why}", hint)


def forget(stream: TextIO) -> None:
    """Let a stream drop what is written from now on: else the interpreter complains when it exits."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, stream.fileno())
    os.close(nothing)


@contextmanager
def escape_streams() -> Iterator[None]:
    """Escape what is printed until the block ends, and refuse to print to streams that are closed."""
    _open_what_is_closed()
    kept = sys.stdout, sys.stderr
    for stream in kept:
        if isinstance(stream, io.TextIOWrapper):
            # ASCII is what a machine without a locale says: click writes UTF-8 there, past us.
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
    """Give streams that were closed a descriptor on which every write fails.

    Without it the next file that is opened, a database perhaps, would be standard output.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)  # takes the lowest number that is free: this one
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


_drawn: Console | None = None


def say(text: str) -> None:
    """Print a line on stderr, above a bar that is drawn there."""
    if _drawn is not None:
        _drawn.print(text, soft_wrap=True)
    else:
        print(text, file=sys.stderr)


@contextmanager
def drawing(live: Live) -> Iterator[None]:
    """Draw a bar or a line that changes until the block ends."""
    global _drawn
    with live:
        _drawn = live.console
        try:
            yield
        finally:
            _drawn = None


def console(*, stderr: bool = False) -> Console:
    """Return a console whose texts are escaped, and in which no name is taken for markup."""
    from rich.console import Console, ConsoleOptions, RenderableType
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
