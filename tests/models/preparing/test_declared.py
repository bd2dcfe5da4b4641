"""What a file declares: open dimensions with and without names."""

from __future__ import annotations

import pytest

from tests.models.graphs import classifier
from tests.models.preparing.conftest import Save
from toolchain.models.inspect import inspect_model
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions


@pytest.mark.parametrize("nameless", ["?", "-1", "None", "unk__7", ""])
def test_dimensions_without_a_name_are_not_the_same_one(save: Save, nameless: str) -> None:
    model = classifier(shape=(1, 3, "h", "w"))
    for dim in model.graph.input[0].type.tensor_type.shape.dim[2:]:
        dim.dim_param = nameless
    found = inspect_model(save(model), ModelOptions())
    assert found["inputs"][0]["shape"] == [1, 3, "?", "?"]
    shapes = {"data": (1, 3, 9, 8)}
    assert load_model(save(model), ModelOptions(shapes=shapes)).inputs[0].shape == (1, 3, 9, 8)


def test_inspect_shows_open_dimensions_by_name(save: Save) -> None:
    found = inspect_model(save(classifier(shape=("batch", 3, None, 8))), ModelOptions())
    assert found["inputs"] == [{"name": "data", "shape": ["batch", 3, "?", 8], "dtype": "float32"}]
    assert found["outputs"] == [{"name": "prob", "shape": ["batch", 5], "dtype": "float32"}]
    assert found["macs"] is None and found["parameters"] == 4 * 27 + 2 * 4 + 25
