"""The order in which candidates are taken into a folder that has not room for all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def in_turns(
    tasks: Sequence[Sequence[T]], needs: Callable[[T], int], shares: Callable[[T], bool]
) -> Iterator[T]:
    """Yield the candidates of tasks in rounds, one of each task, the tasks in their order.

    In a round each task has its first candidate that shares all operands with what was taken before, since
    that costs code alone. Only where no task has such a one, each has its next, and those that need least
    come first: so a task with large operands keeps out none with small ones.

    Parameters
    ----------
    needs
        Returns how many bytes a candidate needs beside what was taken before.
    shares
        Whether what a candidate needs is there but for its code.
    """
    waiting = [list(own) for own in tasks]
    while any(waiting):
        cheap = [next((each for each in own if shares(each)), None) for own in waiting]
        chosen = [(own, each) for own, each in zip(waiting, cheap, strict=True) if each is not None]
        if not chosen:
            chosen = sorted(((own, own[0]) for own in waiting if own), key=lambda turn: needs(turn[1]))
        for own, each in chosen:
            own.remove(each)
            yield each
