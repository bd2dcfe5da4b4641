"""One way to compute a task, and who proposes such ways."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import tvm

from toolchain.lowering.parameter import Parameter
from toolchain.records.key import RecordKey
from toolchain.records.record import Record
from toolchain.records.store import RecordStore
from toolchain.tuning.measure import Measured


@dataclass(frozen=True)
class Candidate:
    """A function that can be compiled as it is, and what it is called with, outputs last.

    Attributes
    ----------
    kind, payload, digest
        As in a `Record`.
    """

    kind: str
    payload: str
    digest: str
    module: tvm.IRModule
    parameters: tuple[Parameter, ...]
    outputs: int


class Search(Protocol):
    """Proposes candidates for one task and learns from what they took."""

    @property
    def size(self) -> int | None:
        """How many candidates are left to propose; None: more than anybody measures."""

    def default(self) -> Candidate:
        """Return what a build takes without a record."""

    def recorded(self, record: Record, definition: str) -> Candidate:
        """Return what a record says.

        Raises
        ------
        ToolchainError
            It no longer applies.
        """

    def learn_earlier(self, store: RecordStore, key: RecordKey) -> None:
        """Begin from what earlier runs found."""

    def batches(self, trials: int, batch: int) -> AbstractContextManager[Iterator[list[Candidate]]]:
        """Yield batches of at most `batch` candidates, at most `trials` in all.

        Each batch must be answered by `learn` before the next is asked for.
        """

    def learn(self, measured: list[Measured]) -> None:
        """Take note of what the candidates of the last batch took."""
