"""Old operator sets and spellings, in the one way that importer and reference read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from tests.models.graphs import classifier
from tests.models.rewrites.judge import loaded
from toolchain.errors import UsageError
from toolchain.models.judging.reference import reference_outputs, sample_inputs
from toolchain.models.preparing.modernise import NEWEST_OPSET


@pytest.mark.parametrize("opset", [6, 7, 9, 11, 13, 18, 21])
def test_old_and_new_operator_sets(tmp_path: Path, opset: int) -> None:
    model = loaded(classifier(opset=opset), tmp_path)
    assert model.softmax_outputs == {"prob"}
    inputs = sample_inputs(model)
    newest = reference_outputs(loaded(classifier(), tmp_path), inputs)["prob"]
    np.testing.assert_allclose(reference_outputs(model, inputs)["prob"], newest, atol=1e-6)


@pytest.mark.parametrize(
    ("versions", "says"),
    [
        ([NEWEST_OPSET + 1], f"known are 1 to {NEWEST_OPSET}"),
        ([2**40], "has operators of set 1099511627776"),
        ([0], "has operators of set 0"),
        ([-1], "has operators of set -1"),
        ([], "declares no operator set"),
        ([13, 17], r"declares more than one operator set \(13, 17\)"),
        ([3], "cannot be brought to operator set 7"),
    ],
)
def test_operator_sets_that_nobody_knows(tmp_path: Path, versions: list[int], says: str) -> None:
    graph = classifier()
    del graph.opset_import[:]
    graph.opset_import.extend(helper.make_opsetid("", version) for version in versions)
    with pytest.raises(UsageError, match=says) as caught:
        loaded(graph, tmp_path)
    assert caught.value.hint and caught.value.exit_code == 2
