"""Small networks by today's exporters (tools/make_exporter_samples.py) come through the door as they are."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from tests.models.rewrites.judge import assert_same
from toolchain.imports.onnxruntime_import import onnxruntime
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions

FOLDER = Path(__file__).parent.parent / "data" / "exporters"
SHAPES: dict[str, dict[str, tuple[int, ...]]] = {
    "torch_pictures": {"image": (2, 3, 16, 16)},
    "torchscript_pictures": {"image": (2, 3, 16, 16)},
    "torch_half": {},
    "torchscript_half": {},
    "torch_words": {"ids": (1, 9)},
    "torchscript_words": {"ids": (1, 7)},  # the length that it was exported with: it writes it down
    "torch_stream": {},
    "torchscript_stream": {},
    "keras_pictures": {"keras_tensor": (1, 16, 16, 3)},
    "keras_steps": {"keras_tensor_11": (1, 12, 6)},
    "paddle_pictures": {"x": (1, 3, 16, 24)},
    "sklearn_regressor": {"X": (3, 6)},
    "sklearn_ridge": {"X": (3, 6)},
    "sklearn_classifier": {"X": (3, 6)},
    "sklearn_logistic": {"X": (3, 6)},
}

QUICK = (
    "torch_half",
    "torch_stream",
    "torchscript_pictures",
    "keras_steps",
    "paddle_pictures",
    "sklearn_logistic",
)
"""What no other test has a like of; the rest is run by `make test-all`."""


OURS = [f"{folder}/".encode() for folder in FOLDER.resolve().parents[2:4] if folder.name]
PATHS = (b"/tmp/", b"/home/", b"/root/", *OURS)
"""Folders that a maker's machine would leave behind: this checkout and the one around it too."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.full) for name in SHAPES]
)
def test_sample_is_imported_right(name: str) -> None:
    model = load_model(str(FOLDER / f"{name}.onnx"), ModelOptions(shapes=SHAPES[name]))
    assert_same(model, 1e-2 if name.endswith("half") else 1e-4)


def test_every_sample_is_tried_small_and_free_of_paths() -> None:
    files = list(FOLDER.glob("*.onnx"))
    assert {file.stem for file in files} == set(SHAPES)
    for file in files:
        content = file.read_bytes()
        assert len(content) < 50_000, file.name
        assert not [word for word in PATHS if word in content], file.name


@pytest.mark.slow
@pytest.mark.parametrize("name", ["keras_pictures", "torch_words"])
def test_what_onnxruntimes_optimiser_saved_is_imported_right(name: str, tmp_path: Path) -> None:
    """FusedConv and QuickGelu; FusedMatMul, SkipLayerNormalization and BiasGelu."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(tmp_path / "saved.onnx")
    onnxruntime.InferenceSession(FOLDER / f"{name}.onnx", options, providers=["CPUExecutionProvider"])
    saved = onnx.load(tmp_path / "saved.onnx")
    assert any(node.domain == "com.microsoft" for node in saved.graph.node)
    model = load_model(str(tmp_path / "saved.onnx"), ModelOptions(shapes=SHAPES[name]))
    assert_same(model, 1e-4)
