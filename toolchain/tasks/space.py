"""All the ways in which a backend can compute one task."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from random import Random
from typing import Protocol, TypeVar

from toolchain.records.store import Usable
from toolchain.tasks.candidate import Candidate, Entry

P = TypeVar("P", bound=Hashable)
"""A point, one way to compute a task: plain data that can be compared and hashed, of a backend's own type."""


class Space(Protocol[P]):
    """The ways to compute one task. A tuner needs nothing else of a task.

    Attributes
    ----------
    kinds
        Of the entries that are points of such spaces.
    excluded
        What the user's options leave out of the space, in a word; empty: nothing.
    usable
        Which records of these kinds a build with these options takes.
    allowed
        Which of them may be measured again, whatever the run left out that wrote them.
    """

    kinds: tuple[str, ...]
    excluded: str
    usable: Usable
    allowed: Usable

    @property
    def size(self) -> int | None:
        """How many points there are; None: more than can be counted, and they have no order."""

    def default(self) -> P:
        """Return the point that a build takes without a record."""

    def legal(self, point: P) -> bool:
        """Whether a point computes this task on this machine."""

    def check(self, point: P) -> None:
        """Make sure of a point that was read that it computes this task.

        Raises
        ------
        ToolchainError
            It does not, for the reason that the message gives.
        """

    def point(self, index: int) -> P:
        """Return the point of a place, from 0 to below `size`: the default first, then what promises most.

        Raises
        ------
        UsageError
            The points have no order.
        """

    def index(self, point: P) -> int:
        """Return the place of a point.

        Raises
        ------
        UsageError
            The points have no order.
        """

    def sample(self, random: Random) -> P:
        """Draw a legal point."""

    def neighbours(self, point: P, random: Random) -> list[P]:
        """Return legal points that differ from one in a single decision; some, where they are too many."""

    def features(self, point: P) -> Sequence[float]:
        """Return what a cost model may learn a point's time from: as many numbers for each point."""

    def foreign_features(self, entry: Entry, definition: str) -> Sequence[float]:
        """Return the features of a point of another task or place, as if it were a point of this space.

        They say what the task is, as well, so that a model can learn from one task about another.

        Raises
        ------
        ToolchainError
            Nothing is known of the entry here.
        """

    def adapted(self, entry: Entry, definition: str) -> P | None:
        """Return the legal point that is most like a point of another task; None: there is none like it.

        Raises
        ------
        ToolchainError
            Nothing is known of the entry here.
        """

    def rule(self, point: P) -> str:
        """Return, for people, what the code of a point is made by: `winograd`, say."""

    def entry(self, point: P) -> Entry:
        """Return a point as the store keeps it."""

    def read(self, entry: Entry, definition: str) -> P:
        """Return the point of an entry, at little cost: what takes long to find out is left to `check`.

        Parameters
        ----------
        definition
            Of the task that it was measured for, which has the same hash as this one.

        Raises
        ------
        ToolchainError
            It is no point of this space: of another version, say, or damaged.
        """

    def candidate(self, point: P) -> Candidate:
        """Return what is compiled and measured of a point.

        Raises
        ------
        ToolchainError
            The point does not apply to the task, and that is known already; else compiling it says so.
        """
