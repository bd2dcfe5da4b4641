"""Fixture of the tests of what prepares files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

Save = Callable[[onnx.ModelProto], str]
"""Writes a model and returns its path."""


@pytest.fixture
def save(tmp_path: Path) -> Save:
    def write(model: onnx.ModelProto) -> str:
        path = tmp_path / "net.onnx"
        path.write_bytes(model.SerializeToString())
        return str(path)

    return write
