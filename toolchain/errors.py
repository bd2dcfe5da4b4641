"""One root error; every error a user can meet is its child and knows its exit code."""

from __future__ import annotations

from typing import ClassVar


class ToolchainError(Exception):
    """The work began and failed (disk full, port in use, compile error, board lost).

    Parameters
    ----------
    message
        What happened, to which board, file or task; repeats the offending value.
    hint
        What to type next. Empty when there is nothing better to say than the message.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class UsageError(ToolchainError):
    """What the user typed or handed over can't be used."""

    exit_code = 2


class MissingError(ToolchainError):
    """Something this machine lacks; `toolchain doctor` says what."""

    exit_code = 3


class CheckError(ToolchainError):
    """A bundle fails its check (hash, hostile member, numerics), or a board answers what cannot be right."""

    exit_code = 4
