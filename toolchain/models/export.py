"""Writes a model as one `.onnx` file."""

from __future__ import annotations

from pathlib import Path

from toolchain import atomic
from toolchain.errors import ToolchainError, UsageError
from toolchain.foreign import first_line
from toolchain.models.importer import check_valid
from toolchain.models.modernise import modernised
from toolchain.models.options import ModelOptions
from toolchain.models.shapes import inferred, specialise
from toolchain.models.source import read_source


def export_model(source: str, options: ModelOptions, path: Path) -> None:
    """Write the static graph of `source` to `path`, weights inside; whole or not at all.

    A zoo network's file has the sha256 that the network itself has.

    Raises
    ------
    UsageError
        The source or an option can't be used, or `path` is a folder.
    ToolchainError
        The file cannot be written, or the graph is too large for one file.
    """
    if path.is_dir():
        raise UsageError(f"-o {path} is a folder", f"name a file in it: -o {path}/model.onnx")
    found = read_source(source, options)
    model = specialise(modernised(found.proto, found.origin), options, found.origin)
    check_valid(model, found.origin)
    inferred(model, found.origin)  # refuses shapes that don't fit
    try:
        data = model.SerializeToString(deterministic=True)
    except ValueError as error:  # 2 GiB is protobuf's limit
        raise ToolchainError(f"{found.origin} does not fit into one file: {first_line(error)}") from error
    atomic.write_bytes(path, data)
