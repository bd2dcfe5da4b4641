"""What others answer, believed only in the form that it must have.

The one place where an answer of a board becomes values: each kind of answer is a child of `Answer`.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, FailFast, Field, ValidationError

from toolchain.errors import CheckError
from toolchain.foreign import printable, shortened

LARGEST = 256 * 2**10
"""Bytes of an answer, where a kind does not need more: parsing takes some thirty times that memory."""

_SHOWN = 80  # characters of a value in a message
_LONG_BITS = 200  # a number with more of them is not written out


class Answer(BaseModel):
    """An answer's form: exact types, finite numbers. What else is in it is left alone.

    Its JSON may be nested as deeply as pydantic's parser allows, which is 200; a larger depth, text that
    is not Unicode and numbers of thousands of digits are no JSON to it.
    """

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", allow_inf_nan=False)


def _without_controls(text: str) -> str:
    if not text.isprintable():
        raise ValueError("a word has no control characters")
    return text


Word = Annotated[str, Field(max_length=1024), AfterValidator(_without_controls)]
"""A name, a version, a path: believed only without control characters."""

Sentence = Annotated[str, AfterValidator(shortened)]
"""Text for people: its beginning, control characters replaced."""

Item = TypeVar("Item")
Several = Annotated[tuple[Item, ...], FailFast()]
"""A list, refused at its first wrong item: each one that is looked at takes a thousand bytes to tell of."""

Kind = TypeVar("Kind", bound=Answer)


def understood(kind: type[Kind], text: bytes | str, board: str, what: str, most: int = LARGEST) -> Kind:
    """Return the answer that a JSON document is.

    Parameters
    ----------
    board, what
        Who answered what: the board's name, and such as "the answer of `edge-rt info`".
    most
        Bytes that such an answer may have.

    Raises
    ------
    CheckError
        It is none; names the field and its value.
    """
    if len(text) > most:
        raise lie(board, what, f"it has {len(text)} bytes, more than the {most} that such an answer may have")
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        raise lie(board, what, problem(error)) from error


def formed(kind: type[Kind], values: dict[str, Any], board: str, what: str) -> Kind:
    """Return the answer that was read from lines: its values are texts, numbers among them.

    Parameters and errors are those of `understood`.
    """
    try:
        return kind.model_validate(values, strict=False)
    except ValidationError as error:
        raise lie(board, what, problem(error), of_system=True) from error


def lie(board: str, what: str, problem: str, *, of_system: bool = False) -> CheckError:
    """Return the error for an answer that is not to be believed.

    Parameters
    ----------
    of_system
        The board's own programs said so, and not its edge-rt.
    """
    anew = f"send edge-rt anew: `toolchain board exec {board} -- rm -rf bin`, then the same command again"
    look = f"look at its system: `toolchain board shell {board}`"
    return CheckError(
        f"board {board}: {what} cannot be right: {shortened(problem)}",
        f"{look if of_system else anew}; a board that goes on saying so is not to be trusted",
    )


def problem(error: ValidationError) -> str:
    """Return what is wrong first: the field, its value, and what it must be."""
    first = error.errors(include_url=False)[0]
    field = printable(".".join(str(part)[:_SHOWN] for part in first["loc"]))
    if first["type"] == "json_invalid":
        return f"{first['msg']}; it begins with {shown(first['input'])}"
    if first["type"] == "missing":
        return f"{field} is missing"
    said = f"{field} is {shown(first['input'])}" if field else f"it is {shown(first['input'])}"
    return f"{said}: {first['msg'].removeprefix('Value error, ')}"


def shown(value: object) -> str:
    """Return a value in few characters, none of them a control character."""
    if isinstance(value, bytes):
        value = value[:_SHOWN].decode(errors="replace")
    if isinstance(value, str):
        return repr(value if len(value) <= _SHOWN else value[:_SHOWN] + "…")
    if isinstance(value, dict):
        return f"an object with {len(value)} fields"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    if isinstance(value, int) and value.bit_length() > _LONG_BITS:
        return f"a number of about {value.bit_length() // 3.3:.0f} digits"
    return printable(repr(value)[:_SHOWN])
