"""How one function is computed: what a tuner chooses and a record keeps."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Literal

from pydantic import TypeAdapter

from toolchain.errors import ToolchainError
from toolchain.foreign import first_line

Algorithm = Literal["direct", "depthwise", "winograd", "dense", "interleaved", "general"]
Order = Literal["rows", "channels"]


@dataclass(frozen=True)
class Choice:
    """How one task is computed.

    Attributes
    ----------
    blocks, columns
        Tile of sums in registers: output blocks x output columns (`dense`: rows of the matrix; `winograd`:
        tiles of outputs; `depthwise`: one block).
    rows
        Of one parallel piece: output rows (`dense`: tiles of rows; `winograd`: rows of tiles; `interleaved`:
        always one of every phase).
    tile
        Of winograd: outputs that are computed together along each spatial axis, m of F(m, k); 1: the taps
        of the axis are summed up as they are.
    order
        What runs in parallel first: `rows` of the output, or its `channels` (each thread then reads
        its own weights).
    flat
        A tile is whole rows (of small images).
    depth
        Input blocks that are summed up for all tiles of a piece before the next ones are; 0: all.
    """

    algorithm: Algorithm
    blocks: int = 1
    columns: int = 1
    rows: int = 1
    tile: tuple[int, ...] = ()
    order: Order = "rows"
    flat: bool = False
    depth: int = 0

    def to_json(self) -> str:
        """Return the choice as a record's payload."""
        return json.dumps(asdict(self), separators=(",", ":"), sort_keys=True)


GENERAL = Choice("general")


def choice_from(payload: str) -> Choice:
    """Return the choice of a record's payload.

    Raises
    ------
    ToolchainError
        It is none of this version.
    """
    try:
        unknown = set(json.loads(payload)) - {field.name for field in fields(Choice)}
        if unknown:
            raise ValueError(f"unknown: {', '.join(sorted(unknown))}")
        return TypeAdapter(Choice).validate_json(payload, strict=True)
    except (ValueError, TypeError) as error:
        raise ToolchainError(
            f"a record's choice is none of this version: {first_line(error)}",
            "tune the task again with --fresh",
        ) from error
