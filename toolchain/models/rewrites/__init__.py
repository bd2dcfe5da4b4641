"""Rewrites operators in terms of others that the importer and the generated code support.

A rule reads one node of a static graph and writes its replacement. The graph from which onnxruntime computes
the expected output is never rewritten.
"""

from __future__ import annotations

from toolchain.models.folding.fold import fold
from toolchain.models.folding.folded import Folded
from toolchain.models.rewrites.graph import Rule, apply_rules, operator_of
from toolchain.models.rewrites.rules import RULES

__all__ = ["RULES", "Rule", "operator_of", "rewrite"]


def rewrite(folded: Folded, origin: str) -> Folded:
    """Apply the rules to a folded graph and fold the result.

    The rules apply to their own results as well.

    Raises
    ------
    UsageError
        A node is used in a way that cannot be compiled; the message names it.
    """
    while (done := apply_rules(folded.model, RULES, origin)) is not folded.model:
        folded = fold(done, origin)
    return folded
