"""docs/howto/python.md does what it says, as a doctest."""

from __future__ import annotations

import doctest
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "howto" / "python.md"


@pytest.mark.slow
def test_examples(tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert state
    monkeypatch.setenv("TOOLCHAIN_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["convolution.py", "convolution.onnx"])
    runpy.run_path(str(ROOT / "docs" / "examples" / "convolution.py"))
    failed, tried = doctest.testfile(str(PAGE), module_relative=False)
    assert tried > 20 and failed == 0
