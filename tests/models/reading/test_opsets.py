"""Operator sets newer than onnxruntime's, declared under one that it knows."""

from __future__ import annotations

from pathlib import Path

from tests.models.graphs import classifier
from tests.models.rewrites.judge import loaded
from toolchain.models.judging.reference import reference_outputs, sample_inputs
from toolchain.models.preparing.modernise import NEWEST_OPSET
from toolchain.models.reading import opsets


def test_sets_newer_than_onnxruntimes_are_verified_where_their_operators_are_old(tmp_path: Path) -> None:
    model = loaded(classifier(opset=NEWEST_OPSET), tmp_path)
    assert NEWEST_OPSET > opsets.NEWEST and model.onnx.opset_import[0].version == NEWEST_OPSET
    assert reference_outputs(model, sample_inputs(model))
