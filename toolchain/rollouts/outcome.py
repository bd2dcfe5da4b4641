"""The result of one board."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from toolchain.rollouts.answers import Cause, FieldTest

BoardState = Literal[
    "installed",
    "unchanged",
    "refused",
    "interrupted",
    "rolled-back",
    "broken",
    "offline",
    "failed",
    "skipped",
]
WORKS: frozenset[BoardState] = frozenset({"installed", "unchanged"})
"""States of boards that run the release."""

FAILURES: frozenset[BoardState] = frozenset({"refused", "rolled-back", "broken", "failed"})
"""States that count against `--max-failures`; a board out of reach says nothing about the release."""


class Outcome(BaseModel):
    """The end of a board's part in a rollout.

    Attributes
    ----------
    state
        The board's own last word; or `offline`: it was never reached; `interrupted`: the link broke or the
        rollout was stopped, and the next try goes on; `failed`: something else went wrong before the release
        was judged; `skipped`: the rollout ended before its turn.
    version
        The version that the board runs now, if known.
    seconds
        Duration of all tries.
    bytes_sent
        Bytes of the stream that were sent, of all tries.
    error, hint
        What went wrong, and what to type.
    power_cycles
        Number of times that the board was power-cycled because it was silent.
    """

    model_config = ConfigDict(frozen=True)

    state: BoardState
    version: str | None = None
    seconds: float = 0.0
    bytes_sent: int = 0
    error: str | None = None
    hint: str = ""
    test: FieldTest | None = None
    cause: Cause | None = None
    power_cycles: int = 0
