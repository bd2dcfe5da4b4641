"""Applies the user's options to a file's graph: shapes, constant inputs and outputs."""

from __future__ import annotations

from typing import NamedTuple

import onnx

from toolchain.arrays import Array
from toolchain.models.options import ModelOptions
from toolchain.models.preparing.cutting import cut
from toolchain.models.preparing.freeze import frozen_inputs
from toolchain.models.preparing.modernise import modernise
from toolchain.models.preparing.specialise import check_options, specialise
from toolchain.models.reading.source import Source


class Prepared(NamedTuple):
    """A prepared graph, with the file's own nodes: nothing is folded or rewritten.

    Attributes
    ----------
    given
        The file's graph as it came, but for the requested outputs: nothing is converted.
    static
        The same network with the requested shapes, in the operators and spellings that the importer knows.
    frozen
        Values of the inputs that become constants; both graphs still have these inputs.
    """

    given: onnx.ModelProto
    static: onnx.ModelProto
    frozen: dict[str, Array]


def prepare(found: Source, options: ModelOptions, *, partly: bool = False) -> Prepared:
    """Return the graph with the shapes, the outputs and the constant inputs of `options`.

    Parameters
    ----------
    partly
        Leave dimensions open that the options do not fix, instead of refusing.

    Raises
    ------
    UsageError
        An option does not fit the file, or a dimension stays open.
    """
    whole = modernise(found.proto, found.origin)
    check_options(whole, options, found.origin)
    frozen = frozen_inputs(whole, options, found.origin)
    part = cut(whole, options.outputs, found.origin)
    shapes = {name: array.shape for name, array in frozen.items()}
    model = specialise(part, options, found.origin, frozen=shapes, partly=partly)
    read = {value.name for value in model.graph.input}
    given = _given(found, part, options)
    return Prepared(given, model, {name: array for name, array in frozen.items() if name in read})


def _given(found: Source, part: onnx.ModelProto, options: ModelOptions) -> onnx.ModelProto:
    """Return the file's own graph with the outputs of `part`; `part` if one lies inside a function."""
    if not options.outputs:
        return found.proto
    wanted = {value.name for value in part.graph.output}
    if wanted <= {name for node in found.proto.graph.node for name in node.output}:
        return cut(found.proto, options.outputs, found.origin)
    return part
