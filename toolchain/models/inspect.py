"""What is in a model, whether it can be built or not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import onnx

from toolchain.models.costs import count_macs, count_parameters
from toolchain.models.importer import unsupported_operators
from toolchain.models.modernise import modernised
from toolchain.models.options import ModelOptions
from toolchain.models.shapes import dimensions, dtype_of, inferred, specialise
from toolchain.models.source import read_source
from toolchain.models.walk import all_nodes, input_values, opset_of


def inspect_model(source: str, options: ModelOptions) -> dict[str, Any]:
    """Describe a model; open shapes and unsupported operators are shown, not refused.

    Returns
    -------
    dict
        For JSON: name, source, sha256, opset, inputs and outputs (open dimensions by name, shape null
        where the rank is unknown), operators (type -> count), unsupported ([{op, nodes}]), parameters,
        macs and flops (two per multiply-accumulate of convolutions and matrix products; null where
        shapes are open).

    Raises
    ------
    UsageError
        The source cannot be read, or the options contradict it.
    """
    found = read_source(source, options)
    proto = modernised(found.proto, found.origin)
    model = inferred(specialise(proto, options, found.origin, partly=True), found.origin, strict=False)
    macs = count_macs(model)
    unsupported = unsupported_operators(model)
    return {
        "name": found.name,
        "source": found.origin,
        "sha256": found.sha256,
        "opset": opset_of(model),
        "inputs": _describe(input_values(model.graph)),
        "outputs": _describe(model.graph.output),
        "operators": dict(Counter(node.op_type for node in all_nodes(model.graph)).most_common()),
        "unsupported": [{"op": operator, "nodes": nodes} for operator, nodes in unsupported.items()],
        "parameters": count_parameters(model),
        "macs": macs,
        "flops": None if macs is None else 2 * macs,
    }


def _describe(values: Iterable[onnx.ValueInfoProto]) -> list[dict[str, Any]]:
    described = []
    for value in values:
        shape = dimensions(value)
        described.append(
            {"name": value.name, "shape": None if shape is None else list(shape), "dtype": dtype_of(value)}
        )
    return described
