"""The errors of the toolchain. All are children of one class; each class has its exit code."""

from __future__ import annotations

from typing import ClassVar


class ToolchainError(Exception):
    """The work began and failed (disk full, port in use, compile error, connection to a board lost).

    Parameters
    ----------
    message
        What happened, to which board, file or task, with the offending value.
    hint
        What the user can type next; empty if there is nothing to add.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class UsageError(ToolchainError):
    """An argument or a file of the user's cannot be used."""

    exit_code = 2


class MissingError(ToolchainError):
    """This machine lacks something; `toolchain doctor` reports what."""

    exit_code = 3


class CheckError(ToolchainError):
    """A bundle fails its check (hash, hostile member, numerics), or an answer of a board cannot be right."""

    exit_code = 4
