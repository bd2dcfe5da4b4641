"""Operators written in terms of others, so that the importer and the generated code know them.

A rule sees one node of a static graph and writes what takes its place. The graph that onnxruntime computes
the expected output from is never rewritten.
"""

from __future__ import annotations

from toolchain.models.folding.fold import fold
from toolchain.models.folding.result import Folded
from toolchain.models.rewrites.graph import Rule, apply_rules, operator_of
from toolchain.models.rewrites.table import RULES

__all__ = ["RULES", "Rule", "operator_of", "rewrite"]


def rewrite(folded: Folded, origin: str) -> Folded:
    """Return a folded graph with what the rules replace replaced, and folded again.

    What a rule writes may be replaced in its turn.

    Raises
    ------
    UsageError
        A node is used in a way that cannot be compiled; names it.
    """
    while (done := apply_rules(folded.model, RULES, origin)) is not folded.model:
        folded = fold(done, origin)
    return folded
