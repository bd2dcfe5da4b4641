"""Writes a model as one `.onnx` file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import onnx
from onnx import numpy_helper

from toolchain.arrays import Array
from toolchain.errors import ToolchainError, UsageError
from toolchain.files import atomic
from toolchain.foreign import first_line
from toolchain.models.folding.fold import fold
from toolchain.models.load import fold_source, quantised_for_cpus
from toolchain.models.options import AFFINE, POWERS_OF_TWO, ModelOptions
from toolchain.models.preparing.cutting import with_output_types
from toolchain.models.preparing.prepare import prepare
from toolchain.models.preparing.validity import check_valid
from toolchain.models.quantising.result import Quantised
from toolchain.models.reading.source import read_source


def export_model(source: str, options: ModelOptions, path: Path) -> Quantised | None:
    """Write the static graph of `source` to `path` atomically, with its weights inside.

    The graph is cut as `options` say, and constant inputs become stored tensors; other nodes are unchanged.
    A zoo network's file has the same SHA-256 as the network itself. A quantised network is written in QDQ
    form, for other programs too.

    Returns
    -------
    Quantised or None
        The integers that were written; None for a network in floats.

    Raises
    ------
    UsageError
        The source or an option can't be used, or `path` is a folder.
    ToolchainError
        The file cannot be written, the graph is too large for one file, or preparing it changed its outputs.
    """
    if path.is_dir():
        raise UsageError(f"-o {path} is a folder", f"name a file in it: -o {path}/model.onnx")
    quantised = None
    if options.quantizer in POWERS_OF_TWO:
        raise UsageError(
            f"--quantizer {options.quantizer}: its integers have no form that other programs read",
            f"use --quantizer {'|'.join(AFFINE)}",
        )
    if options.quantizer:
        half_loaded = fold_source(source, options)
        found = half_loaded.source
        quantised, _ = quantised_for_cpus(half_loaded, options)
        model = quantised.graph
    else:
        found = read_source(source, options)
        _, model, frozen = prepare(found, options)
        check_valid(model, found.origin)
        with_output_types(model, fold(model, found.origin, frozen).model)
        _store(model.graph, frozen)
    try:
        data = model.SerializeToString(deterministic=True)
    except ValueError as error:  # 2 GiB is protobuf's limit
        raise ToolchainError(f"{found.origin} does not fit into one file: {first_line(error)}") from error
    atomic.write_bytes(path, data)
    return quantised


def _store(graph: onnx.GraphProto, frozen: Mapping[str, Array]) -> None:
    """Turn constant inputs into stored tensors."""
    kept = [value for value in graph.input if value.name not in frozen]
    del graph.input[:]
    graph.input.extend(kept)
    graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in frozen.items())
