"""From a file's graph to the one that was asked for: its shapes, its constants, its part."""

from __future__ import annotations

import onnx

from toolchain.models.cutting import cut
from toolchain.models.freeze import Array, frozen_inputs
from toolchain.models.modernise import modernised
from toolchain.models.options import ModelOptions
from toolchain.models.shapes import check_options, specialise
from toolchain.models.source import Source


def prepared(
    found: Source, options: ModelOptions, *, partly: bool = False
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """Return the graph with the shapes and the outputs of `options`, and the values of constant inputs.

    Its nodes are those of the file: nothing is folded or rewritten, and constant inputs are inputs still.

    Parameters
    ----------
    partly
        Leave open what the options don't say, instead of refusing.

    Raises
    ------
    UsageError
        An option does not fit the file, or a dimension stays open.
    """
    whole = modernised(found.proto, found.origin)
    check_options(whole, options, found.origin)
    frozen = frozen_inputs(whole, options, found.origin)
    part = cut(whole, options.outputs, found.origin)
    shapes = {name: array.shape for name, array in frozen.items()}
    model = specialise(part, options, found.origin, frozen=shapes, partly=partly)
    read = {value.name for value in model.graph.input}
    return model, {name: array for name, array in frozen.items() if name in read}
