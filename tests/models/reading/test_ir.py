"""Versions of the file format newer than onnxruntime's."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from tests.models.graphs import classifier
from tests.models.rewrites.judge import loaded
from toolchain.errors import UsageError
from toolchain.models.inspect import inspect_model
from toolchain.models.judging.reference import seeded_reference
from toolchain.models.options import ModelOptions
from toolchain.models.preparing.modernise import NEWEST_OPSET
from toolchain.models.reading import onnx_file


def declared(version: int, opset: int = 17) -> onnx.ModelProto:
    graph = classifier(opset=opset)
    graph.ir_version = version
    return graph


@pytest.mark.parametrize("opset", [17, NEWEST_OPSET])
def test_the_newest_that_onnx_writes_is_read_and_verified(opset: int, tmp_path: Path) -> None:
    model = loaded(declared(onnx.IR_VERSION, opset), tmp_path)
    assert onnx.IR_VERSION > onnx_file.NEWEST_IR and seeded_reference(model).outputs["prob"].shape == (1, 5)


@pytest.mark.parametrize("version", [onnx.IR_VERSION + 1, 2**40, -1])
def test_unknown_ir_version_is_refused_with_a_hint(version: int, tmp_path: Path) -> None:
    path = tmp_path / "new.onnx"
    path.write_bytes(declared(version).SerializeToString())
    with pytest.raises(UsageError) as raised:
        inspect_model(str(path), ModelOptions())
    assert raised.value.message == (
        f"{path} has version {version} of ONNX's file format (ir_version); known are 1 to {onnx.IR_VERSION}"
    )
    assert f"m.ir_version = {onnx_file.NEWEST_IR}" in raised.value.hint


def test_the_newest_is_what_the_pinned_onnxruntime_takes() -> None:
    """A file of the next version is refused, whatever is in it; should that change, NEWEST can grow."""
    from toolchain.imports.onnxruntime_import import onnxruntime

    assert onnxruntime.InferenceSession(declared(onnx_file.NEWEST_IR).SerializeToString())
    with pytest.raises(Exception, match=rf"max supported IR version: {onnx_file.NEWEST_IR}"):
        onnxruntime.InferenceSession(declared(onnx_file.NEWEST_IR + 1).SerializeToString())
