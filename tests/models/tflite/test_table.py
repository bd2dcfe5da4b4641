"""The table of operators: what the page says of it, and that each row is tried."""

from __future__ import annotations

import re
from pathlib import Path

from tests.models.tflite.cases import CASES
from toolchain.models.tflite.operators.translations import RULES

PAGE = Path(__file__).parents[3] / "docs/howto/other-peoples-files.md"
WEIGHTED = {"BATCH_MATMUL", "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV"}
"""Tried in test_weights.py."""

ELSEWHERE = {"DENSIFY", "RANGE", "RANK", "SHAPE", "TOPK_V2"}
"""Tried in test_sparse.py, and in test_refused.py with what follows from shapes."""


def test_the_page_has_each_operator_and_no_other() -> None:
    table = PAGE.read_text().partition("| | operators | limits |")[2].partition("\n\n")[0]
    told = re.findall(r"`([A-Z0-9_]+)`", table)
    assert sorted(told) == sorted(RULES)


def test_each_operator_is_tried_beside_the_reference_kernels() -> None:
    assert {case.name for case in CASES} | WEIGHTED | ELSEWHERE == set(RULES)
