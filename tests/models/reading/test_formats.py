"""Other frameworks' files: what they are, and the command that makes an ONNX file of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolchain.errors import UsageError
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions

OPTIONS = ModelOptions()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("net.pb", "tf2onnx.convert --graphdef {path} --inputs NAME:0"),
        ("net.pt", "torch.onnx.export(network, (example,), 'net.onnx', dynamo=True)"),
        ("net.pth", "torch.onnx.export(network, (example,), 'net.onnx', dynamo=True)"),
        ("net.pt2", "torch.onnx.export(torch.export.load('{path}'), (), 'net.onnx', dynamo=True)"),
        ("net.safetensors", "build the network and load them; then in the program"),
        ("net.h5", "keras.saving.load_model('{path}').export('net.onnx', format='onnx')"),
        ("net.keras", "keras.saving.load_model('{path}').export('net.onnx', format='onnx')"),
        ("net.pdmodel", "--model_filename net.pdmodel --params_filename net.pdiparams --save_file net.onnx"),
    ],
)
def test_foreign_file_names_the_conversion_command(tmp_path: Path, name: str, says: str) -> None:
    path = tmp_path / name
    with pytest.raises(UsageError, match="there is no file"):
        load_model(str(path), OPTIONS)
    path.write_bytes(b"PK\x03\x04" + bytes(100))
    with pytest.raises(UsageError, match="which must be converted to an ONNX file first") as caught:
        load_model(str(path), OPTIONS)
    assert caught.value.hint and says.format(path=path) in caught.value.hint
    assert str(path) in caught.value.message and caught.value.exit_code == 2


def test_tensorflow_folder_names_the_conversion_command(tmp_path: Path) -> None:
    (tmp_path / "saved_model.pb").write_bytes(bytes(100))
    with pytest.raises(UsageError, match="a graph of TensorFlow") as caught:
        load_model(str(tmp_path), OPTIONS)
    assert f"--saved-model {tmp_path} --output" in str(caught.value.hint)
