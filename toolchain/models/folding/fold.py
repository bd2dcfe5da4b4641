"""Folding of a whole model."""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from toolchain.arrays import Array
from toolchain.models.folding import sequences
from toolchain.models.folding.control import branch, loop, scan
from toolchain.models.folding.finish import finish
from toolchain.models.folding.result import Folded
from toolchain.models.folding.simple import dropout, identity, shape_of, size
from toolchain.models.folding.walk import Special, Walk

SPECIAL: dict[str, Special] = {
    "Dropout": dropout,
    "Identity": identity,
    "If": branch,
    "Loop": loop,
    "Scan": scan,
    "ConcatFromSequence": sequences.concatenated,
    "SequenceAt": sequences.at,
    "SequenceConstruct": sequences.construct,
    "SequenceEmpty": sequences.construct,
    "SequenceInsert": sequences.insert,
    "SequenceLength": sequences.length,
    "SplitToSequence": sequences.split,
    "Shape": shape_of,
    "Size": size,
}
"""Operators with special folding; all others are computed once their inputs are known."""


def fold(
    model: onnx.ModelProto,
    origin: str,
    frozen: Mapping[str, Array] | None = None,
    *,
    strict: bool = True,
    kept: frozenset[str] = frozenset(),
) -> Folded:
    """Fold everything that follows from the shapes of the inputs and from constants.

    Parameters
    ----------
    model
        The model, not changed; its inputs must be static for complete folding.
    origin
        Name of the source, for messages.
    frozen
        Values of the inputs that become constants.
    strict
        Refuse shapes that don't fit together, instead of leaving them open.
    kept
        Operators that are not folded even if all their inputs are known.

    Raises
    ------
    UsageError
        The shapes don't fit the operators; names the node.
    """
    walk = Walk(model, origin, strict, SPECIAL, kept)
    scope = walk.whole(frozen or {})
    return finish(walk, scope, set(frozen or {}))
