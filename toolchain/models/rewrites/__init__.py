"""Operators written in terms of others, so that the importer and the generated code know them.

A rule sees one node of a static graph and writes what takes its place. The graph that onnxruntime computes
the expected output from is never rewritten.
"""

from __future__ import annotations

import onnx

from toolchain.models.rewrites import sklearn
from toolchain.models.rewrites.dropout import without_dropout
from toolchain.models.rewrites.graph import Rule, operator_of, rewritten

__all__ = ["RULES", "Rule", "operator_of", "rewrite"]

RULES: dict[str, Rule] = {
    "Dropout": without_dropout,
    **sklearn.RULES,
}
"""By the type of operator that they replace."""


def rewrite(model: onnx.ModelProto, origin: str) -> onnx.ModelProto:
    """Return `model` (static, with inferred shapes) with what the rules replace replaced.

    Raises
    ------
    UsageError
        A node is used in a way that cannot be compiled; names it.
    """
    return rewritten(model, RULES, origin)
