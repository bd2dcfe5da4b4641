"""Files of other frameworks, and the command that converts each kind to ONNX."""

from __future__ import annotations

from pathlib import Path
from shlex import quote

from toolchain.errors import UsageError

SAVED_MODEL = "saved_model.pb"
"""The file with the graph in a folder that TensorFlow saved."""

_TORCH = (
    "in the program that makes the network: torch.onnx.export(network, (example,), {onnx!r}, dynamo=True)"
)
_TF = "pip install tf2onnx; python -m tf2onnx.convert"
_KERAS = "in Python: keras.saving.load_model({file!r}).export({onnx!r}, format='onnx')"

FOREIGN = {
    ".pb": (
        "no ONNX file; if it is TensorFlow's",
        _TF + " --graphdef {quoted} --inputs NAME:0 --outputs NAME:0 --output {out}",
    ),
    ".pt": ("a file of PyTorch", _TORCH),
    ".pth": ("a file of PyTorch", _TORCH),
    ".ckpt": ("a file of PyTorch", _TORCH),
    ".pt2": (
        "a program of torch.export",
        "in Python: torch.onnx.export(torch.export.load({file!r}), (), {onnx!r}, dynamo=True)",
    ),
    ".safetensors": ("weights without a network", "build the network and load them; then " + _TORCH),
    ".h5": ("a file of Keras", _KERAS),
    ".keras": ("a file of Keras", _KERAS),
    ".pdmodel": (
        "a file of Paddle",
        "pip install paddle2onnx; paddle2onnx --model_dir {folder} --model_filename {quoted_name} "
        "--params_filename {params} --save_file {out}",
    ),
}
"""File ending -> what such a file is, and the command that converts it to ONNX."""


def export_first(path: Path) -> UsageError:
    """Return the error that says what kind of file `path` is and how to convert it to ONNX."""
    what, how = FOREIGN[path.suffix]
    out = path.with_suffix(".onnx").name
    if path.name == SAVED_MODEL:
        what, how = "a graph of TensorFlow", _TF + " --saved-model {folder} --output {out}"
    told = how.format(
        file=str(path),
        onnx=out,
        out=quote(out),
        quoted=quote(str(path)),
        folder=quote(str(path.parent)),
        quoted_name=quote(path.name),
        params=quote(path.with_suffix(".pdiparams").name),
    )
    return UsageError(f"{path} is {what}, which must be converted to an ONNX file first", told)
