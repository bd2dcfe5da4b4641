"""The page about where onnxruntime is no judge: as measured, and a sample of it measured again."""

from __future__ import annotations

import json
from itertools import chain

import pytest

from tests.models.judging.survey import REMARKS, RESULT, page, surveyed
from tests.models.judging.trials import WEAK, integers, large, moved, places, templates
from toolchain.models.judging.substitutes import RULES

STORED = json.loads(RESULT.read_text())
TOLERANCE = 1e-3
DIVISIONS = {"Div", "Mod"}
"""Operators that are replaced since they end the process, not since they are inexact."""


def test_page_is_made_of_what_was_measured() -> None:
    said = "measure again: python -m tests.models.judging.survey"
    assert RESULT.with_suffix(".md").read_text() == page(STORED), said


def test_each_operator_where_onnxruntime_is_weak_has_a_judge_or_a_reason() -> None:
    weak = {name for name, row in STORED.items() if row["error"] >= WEAK and row["judge"] is None}
    assert weak == set(REMARKS)
    judged = {name for name, row in STORED.items() if row["judge"] is not None}
    assert judged == RULES.keys() - DIVISIONS


@pytest.mark.slow
def test_a_sample_measured_again_finds_nothing_new() -> None:
    """Of processors, onnxruntime's errors differ; what is above the tolerance on one is weak on all."""
    some = [*sorted(templates())[::6], *RULES]
    again = surveyed(chain(*map(moved, some), large(), integers(), places()))
    known = {name for name, row in STORED.items() if row["error"] >= WEAK or row["judge"] is not None}
    assert {name for name, row in again.items() if row["error"] > TOLERANCE} <= known
    assert {name: row["judge"] for name, row in again.items() if (row["judge"] or 0) > WEAK / 10} == {}
