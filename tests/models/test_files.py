"""Files that can't be read: one clear sentence, exit code 2, whatever is wrong with them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.models.graphs import classifier
from toolchain.errors import MissingError, UsageError
from toolchain.models.inspect import inspect_model
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions
from toolchain.models.reference import reference_outputs, sample_inputs

OPTIONS = ModelOptions()


@pytest.mark.parametrize("name", ["zoo:nope", "nope", "zoo:", "a" * 3000])
def test_an_unknown_name_lists_the_zoo(name: str) -> None:
    with pytest.raises(UsageError, match=r"unknown model .*zoo:mobilenet, zoo:resnet-18, .*zoo:vgg-19"):
        load_model(name, OPTIONS)


def test_torch_programs_come_later() -> None:
    with pytest.raises(MissingError, match=r"edge-toolchain\[torch\]") as caught:
        load_model("net.pt2", OPTIONS)
    assert caught.value.exit_code == 3


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no file .*gone.onnx"):
        load_model(str(tmp_path / "gone.onnx"), OPTIONS)
    with pytest.raises(UsageError, match="is a folder, not an"):
        load_model(str(tmp_path), OPTIONS)


@pytest.mark.parametrize(
    "content",
    [b"", b"hello", b"\x08\x08", classifier().SerializeToString()[:-20], b"PK\x03\x04" + bytes(100)],
    ids=["empty", "text", "no graph", "truncated", "zip"],
)
def test_what_is_no_onnx_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(content)
    for step in (load_model, inspect_model):
        with pytest.raises(UsageError, match=r"net.onnx.* not an ONNX file"):
            step(str(path), OPTIONS)


def test_broken_bytes_never_give_a_traceback(tmp_path: Path) -> None:
    """Changes bytes of a good file: each result is a model or one clear sentence."""
    path = tmp_path / "net.onnx"
    good = classifier().SerializeToString()
    generator = np.random.default_rng(7)
    outcomes = {"loaded": 0, "refused": 0}
    for _ in range(300):
        content = bytearray(good)
        for _ in range(generator.choice((1, 1, 4))):
            content[generator.integers(len(content))] = generator.integers(256)
        path.write_bytes(content)
        try:
            load_model(str(path), OPTIONS)
            outcomes["loaded"] += 1
        except UsageError as error:
            assert str(path) in error.message and "\n" not in error.message
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 30


@pytest.fixture
def external(tmp_path: Path) -> Path:
    """Return a model that keeps its weights in `weights.bin` beside it."""
    path = tmp_path / "net.onnx"
    onnx.save(classifier(), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    return path


def test_external_data_is_read_and_part_of_the_hash(external: Path) -> None:
    model = load_model(str(external), OPTIONS)
    inputs = sample_inputs(model)
    plain = external.with_name("plain.onnx")
    onnx.save(classifier(), plain)
    expected = reference_outputs(load_model(str(plain), OPTIONS), inputs)["prob"]
    np.testing.assert_array_equal(reference_outputs(model, inputs)["prob"], expected)
    weights = external.with_name("weights.bin")
    content = bytearray(weights.read_bytes())
    content[0] ^= 1
    weights.write_bytes(content)
    assert load_model(str(external), OPTIONS).sha256 != model.sha256


def test_missing_external_data(external: Path) -> None:
    external.with_name("weights.bin").unlink()
    with pytest.raises(UsageError, match=r"weights.bin cannot be read: No such file"):
        load_model(str(external), OPTIONS)


def test_truncated_external_data(external: Path) -> None:
    weights = external.with_name("weights.bin")
    weights.write_bytes(weights.read_bytes()[:-4])
    with pytest.raises(UsageError, match=r"external data weights.bin is truncated or foreign: tensor"):
        load_model(str(external), OPTIONS)


@pytest.mark.parametrize("location", ["../weights.bin", "/etc/hostname", "link/weights.bin", ""])
def test_external_data_outside_the_folder_is_refused(external: Path, location: str) -> None:
    folder = external.parent / "inner"
    folder.mkdir()
    (folder / "link").symlink_to(external.parent)
    model = onnx.load(external, load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = location
    path = folder / "net.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(UsageError, match="lies outside the folder of the model"):
        load_model(str(path), OPTIONS)
