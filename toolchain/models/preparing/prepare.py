"""Applies the user's options to a file's graph: shapes, constant inputs, and outputs at which it is cut."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

import numpy as np
import onnx

from toolchain.arrays import Array
from toolchain.errors import UsageError
from toolchain.foreign import printable
from toolchain.models.onnx_graph import all_graphs, input_values
from toolchain.models.options import ARRAY_FILE, ModelOptions, format_shape, split_named
from toolchain.models.preparing.modernise import modernise
from toolchain.models.preparing.tensor_types import (
    Shape,
    check_options,
    dtype_of,
    sized,
    specialise,
    wanted_shape,
)
from toolchain.models.reading.source import Source
from toolchain.models.samples import read_array
from toolchain.quantities import counted

# Cuts a graph at tensors that become its outputs, and finds suitable tensors.


def cut(model: onnx.ModelProto, outputs: Sequence[str], origin: str) -> onnx.ModelProto:
    """Return a copy of `model` that computes `outputs` alone, and reads only the inputs that these need.

    Parameters
    ----------
    model
        The model, not changed.
    outputs
        Values of `--outputs`: each a tensor's name, or several between commas; none: the same model.
    origin
        Name of the source, for messages.

    Raises
    ------
    UsageError
        A tensor does not exist, or no node computes it; the message suggests similar names.
    """
    if not outputs:
        return model
    graph = model.graph
    names = _named(graph, outputs, origin)
    nodes = needed_nodes(graph, names)
    read = {name for node in nodes for name in read_by(node)}
    declared = {value.name: value for value in (*graph.value_info, *graph.output)}
    part = onnx.ModelProto()
    part.CopyFrom(model)
    del part.graph.node[:], part.graph.output[:], part.graph.input[:], part.graph.initializer[:]
    part.graph.node.extend(nodes)
    part.graph.input.extend(value for value in graph.input if value.name in read)
    part.graph.initializer.extend(tensor for tensor in graph.initializer if tensor.name in read)
    part.graph.output.extend(declared.get(name, onnx.ValueInfoProto(name=name)) for name in names)
    return part


def with_output_types(model: onnx.ModelProto, folded: onnx.ModelProto) -> onnx.ModelProto:
    """Write the types that folding inferred for the outputs at which `model` was cut."""
    known = {value.name: value for value in folded.graph.output}
    for value in model.graph.output:
        if not value.HasField("type"):
            value.CopyFrom(known[value.name])
    return model


def needed_nodes(graph: onnx.GraphProto, outputs: Iterable[str]) -> list[onnx.NodeProto]:
    """Return the nodes that `outputs` are computed from, in the order of the graph."""
    needed = set(outputs)
    kept = []
    for node in reversed(graph.node):
        if not needed.isdisjoint(name for name in node.output if name):
            needed.update(read_by(node))
            kept.append(node)
    return kept[::-1]


def read_by(node: onnx.NodeProto) -> set[str]:
    """Return the names that a node reads, including those that graphs inside it may read from outside."""
    names = {name for name in node.input if name}
    for attribute in node.attribute:
        for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
            for graph in all_graphs(inner):
                names.update(name for node in graph.node for name in node.input if name)
                names.update(value.name for value in graph.output)
    return names


def cut_points(folded: onnx.GraphProto, bad: Collection[str], source: onnx.GraphProto) -> list[str]:
    """Return the last tensors that can be computed before the nodes that cannot be compiled.

    Parameters
    ----------
    folded
        The graph after folding, without superfluous nodes.
    bad
        The first outputs of the nodes that cannot be compiled.
    source
        The original graph: only its tensors can be named, not those inside its nodes.

    Returns
    -------
    list
        In the order of the graph, with the outputs that do not depend on these nodes. Empty if nothing is
        computed before them.
    """
    makers = {name: node for node in folded.node for name in node.output if name}
    visible = {name for node in source.node for name in node.output if name}
    behind: set[str] = set()
    needed: list[str] = []
    for node in folded.node:
        read = read_by(node)
        if next(filter(None, node.output), "") in bad or not behind.isdisjoint(read):
            behind.update(name for name in node.output if name)
            needed += sorted(read)
    needed += [value.name for value in folded.output]
    points: dict[str, None] = {}
    seen: set[str] = set()
    while needed:
        name = needed.pop(0)
        if name in behind or name in seen or name not in makers:
            continue
        seen.add(name)
        if name in visible:
            points[name] = None
        else:  # inside an `If` or loop that was written flat: go back to its inputs
            needed += makers[name].input
    order = {name: position for position, name in enumerate(makers)}
    return sorted(points, key=lambda name: order[name])


def outputs_option(names: Sequence[str]) -> str:
    """Return the command-line option that cuts at `names`."""
    if any("," in name for name in names):
        return " ".join(f"--outputs {quote(name)}" for name in names)
    return f"--outputs {quote(','.join(names))}"


def _named(graph: onnx.GraphProto, outputs: Sequence[str], origin: str) -> list[str]:
    """Return the tensors that `--outputs` names; a name with commas is one name if the graph has it."""
    computed = {name for node in graph.node for name in node.output if name}
    inputs = {value.name for value in input_values(graph)}
    names: dict[str, None] = {}
    for text in outputs:
        for name in [text] if text in computed else [part.strip() for part in text.split(",")]:
            if name in computed:
                names[name] = None
                continue
            option = f"--outputs {printable(name)}: {origin}"
            if name in inputs:
                raise UsageError(
                    f"{option}: this is an input, and nothing is computed for it", "leave it out"
                )
            close = get_close_matches(name, computed, 3, 0.5) or [value.name for value in graph.output]
            raise UsageError(
                f"{option} has no tensor of this name",
                "there are: " + ", ".join(printable(name) for name in close),
            )
    return list(names)


# Turns inputs that are really parameters into constants, as `--input-value` says.

_TRUTHS = {"true": True, "1": True, "false": False, "0": False}


def frozen_inputs(model: onnx.ModelProto, options: ModelOptions, origin: str) -> dict[str, Array]:
    """Return the values of the inputs that the options make constants.

    Parameters
    ----------
    model
        The original model; all its inputs may be named.

    Raises
    ------
    UsageError
        An input does not exist, all inputs are named, or a value does not fit its input.
    """
    inputs = {value.name: value for value in input_values(model.graph)}
    values: dict[str, Array] = {}
    for first, rest in options.input_values.items():
        typed = f"{first}={rest}"
        name, text = split_named(typed, inputs) or (first, rest)
        if name not in inputs:
            raise UsageError(
                f"--input-value {typed}: {origin} has no input {name!r}",
                "its inputs are: " + ", ".join(inputs),
            )
        if name in values:
            raise UsageError(f"--input-value {typed}: {name!r} was given another value before")
        values[name] = _value(inputs[name], text, options, origin)
    if inputs and inputs.keys() <= values.keys():
        raise UsageError(
            f"{origin}: --input-value makes constants of all inputs ({', '.join(inputs)}): nothing is left "
            "to compute",
            "leave out the one that changes from run to run",
        )
    return values


def _value(value: onnx.ValueInfoProto, text: str, options: ModelOptions, origin: str) -> Array:
    option = f"--input-value {value.name}={text}"
    shape = wanted_shape(value, options, origin)
    dtype = dtype_of(value)
    if dtype in ("?", "string"):
        raise UsageError(f"{option}: {origin}: this input is no tensor of numbers", "leave it out")
    if text.endswith(ARRAY_FILE):
        array = read_array(Path(text), option)
        if array.dtype.name != dtype:
            raise UsageError(
                f"{option}: dtype {array.dtype.name} where {dtype} is expected",
                f"save it as numpy.{dtype}: array.astype({dtype!r})",
            )
        if shape is not None and not _fits(array.shape, shape):
            raise UsageError(
                f"{option}: shape {list(array.shape)} where {format_shape(value.name, shape)} is expected",
                "save an array of that shape, or choose open dimensions with --shape",
            )
        return array
    if "/" in text or Path(text).suffix[1:].isalpha():
        what = (
            f"is no {ARRAY_FILE} file" if Path(text).exists() else "is no number, and there is no such file"
        )
        raise UsageError(f"{option}: {text} {what}", "write it by numpy.save(FILE.npy, array)")
    numbers = np.array([_number(word.strip(), np.dtype(dtype), option) for word in text.split(",")], dtype)
    return _shaped(numbers, shape, value.name, option)


def _fits(given: tuple[int, ...], shape: Shape) -> bool:
    return len(given) == len(shape) and all(
        isinstance(extent, str) or extent == got for extent, got in zip(shape, given, strict=True)
    )


def _number(word: str, dtype: np.dtype[Any], option: str) -> bool | int | float:
    """Parse one number; refuse one that the type cannot represent, such as a fraction for an integer."""
    try:
        if dtype.kind == "b":
            return _TRUTHS[word.lower()]
        if dtype.kind not in "iu":
            return float(word)
        number = int(word)
    except (ValueError, KeyError) as error:
        raise UsageError(
            f"{option}: {word!r} is no {dtype.name}", "numbers with commas between them, or a .npy file"
        ) from error
    limits = np.iinfo(dtype)
    if not limits.min <= number <= limits.max:
        raise UsageError(f"{option}: {number} is no {dtype.name}: these go from {limits.min} to {limits.max}")
    return number


def _shaped(numbers: Array, shape: Shape | None, name: str, option: str) -> Array:
    """Return the numbers in the input's shape; a single one fills it, an open dimension takes all given."""
    if shape is None:
        return numbers.reshape(()) if numbers.size == 1 else numbers
    known = math.prod(extent for extent in shape if isinstance(extent, int))
    unknown = [extent for extent in shape if isinstance(extent, str)]
    if not unknown and numbers.size == known:
        return numbers.reshape(sized(shape))
    if not unknown and numbers.size == 1:
        return np.full(sized(shape), numbers[0])
    if unknown and numbers.size == known:  # so every open one is 1
        return numbers.reshape([extent if isinstance(extent, int) else 1 for extent in shape])
    if len(unknown) == 1 and numbers.size % known == 0:
        return numbers.reshape([extent if isinstance(extent, int) else -1 for extent in shape])
    count = counted(numbers.size, "number")
    raise UsageError(
        f"{option}: {count} for an input of the shape {format_shape(name, shape)}",
        "give as many as it holds, or one for all of them"
        + (f", and its shape: --shape {format_shape(name, ['D' if isinstance(e, str) else e for e in shape])}"
           if unknown else ""),
    )  # fmt: skip


class Prepared(NamedTuple):
    """A prepared graph, with the file's own nodes: nothing is folded or rewritten.

    Attributes
    ----------
    given
        The file's graph, cut at the requested outputs but not converted.
    static
        The same network with the requested shapes, in operators that the importer reads.
    frozen
        Values of the inputs that become constants; both graphs still have these inputs.
    """

    given: onnx.ModelProto
    static: onnx.ModelProto
    frozen: dict[str, Array]


def prepare(source: Source, options: ModelOptions, *, partly: bool = False) -> Prepared:
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
    whole = modernise(source.proto, source.origin)
    check_options(whole, options, source.origin)
    frozen = frozen_inputs(whole, options, source.origin)
    part = cut(whole, options.outputs, source.origin)
    shapes = {name: array.shape for name, array in frozen.items()}
    model = specialise(part, options, source.origin, frozen=shapes, partly=partly)
    read = {value.name for value in model.graph.input}
    given = _given(source, part, options)
    return Prepared(given, model, {name: array for name, array in frozen.items() if name in read})


def _given(source: Source, part: onnx.ModelProto, options: ModelOptions) -> onnx.ModelProto:
    """Return the file's graph cut at the outputs of `part`; `part` if an output is inside a function."""
    if not options.outputs:
        return source.proto
    outputs = {value.name for value in part.graph.output}
    if outputs <= {name for node in source.proto.graph.node for name in node.output}:
        return cut(source.proto, options.outputs, source.origin)
    return part
