"""Lists of shapes on a command line: `--shape 'x=1,3,48,{160,320}'` and `--batch '{1,8}'`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from shlex import quote

from toolchain.errors import UsageError

MOST_PARTS = 64
"""Largest number of parts of an output: a manifest and a release list their ends."""

MOST_SHAPES = 16
"""Most shapes of one bundle: each adds its code, and a sample with its expected outputs."""

_LIST = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True)
class ShapeChoice:
    """One of several shapes: the values of `--batch` and `--shape` that it stands for."""

    batch: int | None
    shapes: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class ShapeLists:
    """The shapes that a command line lists.

    Attributes
    ----------
    typed
        The options as typed: `--batch`, its value, `--shape`, its value.
    choices
        All shapes, in the order of the lists.
    """

    typed: tuple[str, ...]
    choices: tuple[ShapeChoice, ...]

    def __str__(self) -> str:
        return " ".join(word if word.startswith("--") else quote(word) for word in self.typed)


def list_values(option: str, typed: str, text: str) -> list[str]:
    """Return the texts that a text with lists in braces stands for; the text itself if it has none.

    Several lists in one text give every combination: `{1,2},{3,4}` stands for four.

    Parameters
    ----------
    option, typed
        The option and its whole value, for messages.
    text
        The part of the value that may have lists.

    Raises
    ------
    UsageError
        A brace has no partner, or a list is empty or has an entry twice.
    """
    parts = _LIST.split(text)
    if any(brace in part for part in parts for brace in "{}"):
        raise UsageError(f"{option} {typed}: a brace without its partner", _example(option))
    lists = [[word.strip() for word in part.split(",")] for part in parts[1::2]]
    for words in lists:
        if "" in words:
            raise UsageError(f"{option} {typed}: a list with an empty entry", _example(option))
        numbers = [word.lstrip("0") for word in words]
        if twice := next((word for word in numbers if numbers.count(word) > 1), None):
            raise UsageError(f"{option} {typed}: {twice} occurs twice in a list", "give each number once")
    return [_joined(parts[::2], chosen) for chosen in product(*lists)]


def _joined(between: Sequence[str], chosen: Sequence[str]) -> str:
    return "".join(f"{text}{word}" for text, word in zip(between, (*chosen, ""), strict=True))


def _example(option: str) -> str:
    return (
        f"for example {option} '{{1,8}}'"
        if option == "--batch"
        else f"for example {option} 'x=1,3,{{32,64}}'"
    )


def choices_of(
    batches: Sequence[int | None], shapes: Mapping[str, Sequence[tuple[int, ...]]], typed: Sequence[str]
) -> ShapeLists | None:
    """Return the shapes of a command line; None if it lists only one.

    Lists of several inputs go in step: the first shape of one with the first of the others. Every batch
    goes with every shape.

    Parameters
    ----------
    batches
        Values of `--batch`; [None] without the option.
    shapes
        Input -> its listed shapes.
    typed
        The options as typed, for messages.

    Raises
    ------
    UsageError
        The lists of two inputs differ in length, or there are more than `MOST_SHAPES` shapes.
    """
    counts = {name: len(listed) for name, listed in shapes.items() if len(listed) > 1}
    if len(set(counts.values())) > 1:
        told = ", ".join(f"{count} of {name!r}" for name, count in counts.items())
        raise UsageError(
            f"--shape lists shapes of different number: {told}",
            "they go in step, the first of one input with the first of another: list equally many",
        )
    steps = max(counts.values(), default=1)
    if len(batches) * steps == 1:
        return None
    if len(batches) * steps > MOST_SHAPES:
        raise UsageError(
            f"{len(batches) * steps} shapes: a bundle has at most {MOST_SHAPES}, since each adds its code, "
            "a sample and the outputs expected for it",
            "list fewer, or build several bundles",
        )
    rows = [{name: listed[step % len(listed)] for name, listed in shapes.items()} for step in range(steps)]
    return ShapeLists(tuple(typed), tuple(ShapeChoice(batch, row) for row in rows for batch in batches))
