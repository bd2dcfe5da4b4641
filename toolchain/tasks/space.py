"""The interface of a space: all ways in which a backend can compute one task."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from random import Random
from typing import Protocol, TypeVar

from toolchain.records.store import Usable
from toolchain.tasks.candidate import Candidate, Entry

P = TypeVar("P", bound=Hashable)
"""Type of a backend's points. A point is one way to compute a task: plain data, comparable and hashable."""


class Space(Protocol[P]):
    """All ways to compute one task; a tuner needs nothing else of a task.

    Attributes
    ----------
    kinds
        Kinds of the entries that this space can read.
    excluded
        Name of what the user's options exclude from the space; empty if they exclude nothing.
    usable
        Whether a build with these options can use a record of these kinds.
    allowed
        Whether a record of these kinds may be measured again in this space, even if it was written by a run
        with other exclusions.
    """

    kinds: tuple[str, ...]
    excluded: str
    usable: Usable
    allowed: Usable

    @property
    def size(self) -> int | None:
        """Number of points; None if they cannot be counted, and thus have no order."""

    def default(self) -> P:
        """Return the point that a build uses without a record."""

    def legal(self, point: P) -> bool:
        """Whether a point computes this task correctly on this target."""

    def check(self, point: P) -> None:
        """Check that a point from the store computes this task.

        Raises
        ------
        ToolchainError
            It does not; the message says why.
        """

    def point(self, index: int) -> P:
        """Return the point at an index in [0, `size`): the default first, then the most promising ones.

        Raises
        ------
        UsageError
            The points have no order.
        """

    def index(self, point: P) -> int:
        """Return the index of a point.

        Raises
        ------
        UsageError
            The points have no order.
        """

    def sample(self, random: Random) -> P:
        """Draw a legal point."""

    def neighbours(self, point: P, random: Random) -> list[P]:
        """Return legal points that differ from `point` in one decision; a sample if they are too many."""

    def features(self, point: P) -> Sequence[float]:
        """Return the features from which a cost model predicts times, equally many for each point."""

    def foreign_features(self, entry: Entry, definition: str) -> Sequence[float]:
        """Return the features of a point of another task or target, comparable with those of this space.

        They describe the task, too, so that a model can learn from one task about another.

        Raises
        ------
        ToolchainError
            The backend cannot interpret the entry.
        """

    def adapted(self, entry: Entry, definition: str) -> P | None:
        """Return the legal point most similar to a point of another task; None if none is similar.

        Raises
        ------
        ToolchainError
            The backend cannot interpret the entry.
        """

    def rule(self, point: P) -> str:
        """Return the name, for users, of the algorithm or schedule of a point, such as `winograd`."""

    def entry(self, point: P) -> Entry:
        """Return a point in the form that the store keeps."""

    def read(self, entry: Entry, definition: str) -> P:
        """Parse an entry and return its point. This is fast; `check` does the expensive tests.

        Parameters
        ----------
        definition
            Definition of the task that it was measured for; that task has the same workload as this one.

        Raises
        ------
        ToolchainError
            The entry is not a point of this space: another version wrote it, or it is damaged.
        """

    def candidate(self, point: P) -> Candidate:
        """Return the candidate of a point, which can be compiled and measured.

        Raises
        ------
        ToolchainError
            The point does not apply to the task. If only compiling shows that, compiling raises the error.
        """
