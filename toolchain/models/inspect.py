"""Describes a model, whether it can be built or not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import onnx

from toolchain.errors import UsageError
from toolchain.models.costs import count_macs, count_parameters
from toolchain.models.folding.fold import fold
from toolchain.models.importing.importer import unsupported_operators
from toolchain.models.importing.refusing import inputs_to_freeze, ways_to_cut
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions
from toolchain.models.preparing.declared import dimensions, dtype_of, open_inputs
from toolchain.models.preparing.prepare import prepare
from toolchain.models.preparing.specialise import shapes_to_give
from toolchain.models.preparing.undecided import without_undecided
from toolchain.models.reading.source import is_zoo, read_source
from toolchain.models.walk import all_nodes, input_values, node_name, opset_of


def inspect_model(source: str, options: ModelOptions) -> dict[str, Any]:
    """Describe a model; open shapes and unsupported operators are shown, not refused.

    Returns
    -------
    dict
        For JSON: name, source, sha256, opset, inputs and outputs (open dimensions by name, shape null
        where the rank is unknown), operators (type -> count), unsupported ([{op, nodes}]), data_dependent
        ([{op, node, reason}]: nodes whose result cannot be compiled because it depends on the data), cut
        (tensors for `--outputs`, before what cannot be compiled), freeze (inputs for `--input-value` that
        decide what the first of these nodes does), open (what to type after `--shape`, D for a number),
        undecided ([{op, node}]: nodes that can be compiled or not as these shapes are), refusal (message and
        hint of the error that `build` would end with; null: none that shows here), parameters, macs and
        flops (two per multiply-accumulate of convolutions, products and recurrent layers; null where shapes
        are open).

    Raises
    ------
    UsageError
        The source cannot be read, or the options contradict it.
    """
    found = read_source(source, options)
    _, model, frozen = prepare(found, options, partly=True)
    folded = fold(model, found.origin, frozen, strict=False)
    macs = count_macs(folded.model)
    inputs = input_values(folded.model.graph)
    unknown = open_inputs(inputs)
    undecided: list[onnx.NodeProto] = []
    unsupported = unsupported_operators(folded.model, inside=True)
    if unknown:
        folded, unsupported, undecided = without_undecided(folded, unsupported)
    return {
        "name": found.name,
        "source": found.origin,
        "sha256": found.sha256,
        "opset": opset_of(model),
        "inputs": _describe(inputs),
        "outputs": _describe(folded.model.graph.output),
        "operators": dict(Counter(node.op_type for node in all_nodes(model.graph)).most_common()),
        "unsupported": [
            {"op": operator, "nodes": [node_name(node) for node in nodes]}
            for operator, nodes in unsupported.items()
        ],
        "data_dependent": [
            {"op": problem.node.op_type, "node": node_name(problem.node), "reason": problem.reason}
            for problem in folded.problems
        ],
        "freeze": inputs_to_freeze(folded),
        "open": shapes_to_give(unknown),
        "undecided": [{"op": node.op_type, "node": node_name(node)} for node in undecided],
        "cut": ways_to_cut(folded, model),
        "refusal": None if unknown or is_zoo(source) else _refusal(source, options),
        "parameters": count_parameters(model),
        "macs": macs,
        "flops": None if macs is None else 2 * macs,
    }


def _refusal(source: str, options: ModelOptions) -> dict[str, str] | None:
    """Return the error that loading the network in floats ends with."""
    try:
        load_model(source, replace(options, quantizer="", calibration={}))
    except UsageError as error:
        return {"message": error.message, "hint": error.hint}
    return None


def _describe(values: Iterable[onnx.ValueInfoProto]) -> list[dict[str, Any]]:
    described = []
    for value in values:
        shape = dimensions(value)
        described.append(
            {"name": value.name, "shape": None if shape is None else list(shape), "dtype": dtype_of(value)}
        )
    return described
