"""The rule of docs/howto/add-an-operator.md computes what onnxruntime does."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from tests.howto.page import blocks, files_planted, run_block
from toolchain.errors import UsageError
from toolchain.models.rewrites import rules

PAGE = "add-an-operator.md"


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"metric": "euclidean"}], ids=str)
def test_the_pages_test_passes_with_its_rule_alone(
    options: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _rule, line, test = blocks(PAGE)
    same = run_block(test)["test_distances_between_rows"]
    with pytest.raises(UsageError, match="CDist"):
        same(options, tmp_path)
    with files_planted(PAGE, tmp_path) as (module,):
        scope = {**vars(rules), "distances": importlib.import_module(module)}
        for name, rule in eval(f"{{{line}}}", scope).items():  # noqa: S307 - ours
            monkeypatch.setitem(rules.RULES, name, rule)
        same(options, tmp_path)
