"""Validates answers of boards and other programs against a schema.

Only here does a board's answer become values: each kind of answer is a subclass of `Answer`.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, FailFast, Field, ValidationError

from toolchain.errors import CheckError
from toolchain.foreign import printable, shortened

LARGEST = 256 * 2**10
"""Default limit of an answer in bytes: parsing takes about thirty times as much memory."""

_SHOWN = 80  # characters of a value in a message
_LONG_BITS = 200  # a number with more of them is not written out


class Answer(BaseModel):
    """Base class of answers: exact types, finite numbers; unknown fields are ignored.

    Its JSON may be nested as deeply as pydantic's parser allows, which is 200; a larger depth, text that
    is not Unicode and numbers of thousands of digits are no JSON to it.
    """

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", allow_inf_nan=False)


def _without_controls(text: str) -> str:
    if not text.isprintable():
        raise ValueError("a word must not have control characters")
    return text


Word = Annotated[str, Field(max_length=1024), AfterValidator(_without_controls)]
"""A name, version or path, without control characters."""

Sentence = Annotated[str, AfterValidator(shortened)]
"""Text for messages: shortened, with control characters escaped."""

Item = TypeVar("Item")
Several = Annotated[tuple[Item, ...], FailFast()]
"""A list whose validation stops at the first wrong item: each reported error takes a thousand bytes."""

Kind = TypeVar("Kind", bound=Answer)


def understood(kind: type[Kind], text: bytes | str, board: str, what: str, most: int = LARGEST) -> Kind:
    """Parse a JSON document as an answer.

    Parameters
    ----------
    board, what
        The board's name and a noun for messages, such as "the answer of `edge-rt info`".
    most
        Limit of the answer in bytes.

    Raises
    ------
    CheckError
        The document is no such answer; the message names the field and its value.
    """
    if len(text) > most:
        raise lie(board, what, f"it has {len(text)} bytes, more than the {most} that such an answer may have")
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        raise lie(board, what, problem(error)) from error


def formed(kind: type[Kind], values: dict[str, Any], board: str, what: str) -> Kind:
    """Return the answer with these values, which are strings, also for numbers.

    Parameters and errors are those of `understood`.
    """
    try:
        return kind.model_validate(values, strict=False)
    except ValidationError as error:
        raise lie(board, what, problem(error), of_system=True) from error


def lie(board: str, what: str, problem: str, *, of_system: bool = False) -> CheckError:
    """Return the error for an answer that cannot be true.

    Parameters
    ----------
    of_system
        The answer came from the board's own programs, not from edge-rt.
    """
    anew = f"send edge-rt anew: `toolchain board exec {board} -- rm -rf bin`, then the same command again"
    look = f"look at its system: `toolchain board shell {board}`"
    return CheckError(
        f"board {board}: {what} cannot be right: {shortened(problem)}",
        f"{look if of_system else anew}; a board that goes on saying so is not to be trusted",
    )


def problem(error: ValidationError) -> str:
    """Describe the first validation error: the field, its value, and the rule."""
    first = error.errors(include_url=False)[0]
    field = printable(".".join(str(part)[:_SHOWN] for part in first["loc"]))
    if first["type"] == "json_invalid":
        return f"{first['msg']}; it begins with {shown(first['input'])}"
    if first["type"] == "missing":
        return f"{field} is missing"
    said = f"{field} is {shown(first['input'])}" if field else f"it is {shown(first['input'])}"
    return f"{said}: {first['msg'].removeprefix('Value error, ')}"


def shown(value: object) -> str:
    """Return a short text for a value, without control characters."""
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
