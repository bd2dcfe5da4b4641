"""The shapes and element types of a graph's values: declared, requested by options, or empty."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from shlex import quote

import onnx

from toolchain.errors import UsageError
from toolchain.models.onnx_graph import called, input_values, type_name
from toolchain.models.options import ModelOptions, format_shape, no_values
from toolchain.models.spec import TensorSpec

# Refuses empty tensors.

TAKES_NOTHING = frozenset({"Pad", "Reshape", "Resize", "Slice", "Squeeze", "Unsqueeze", "Upsample"})
"""Operators for which an empty parameter means the same as an omitted one."""


def check_not_empty(model: onnx.ModelProto, origin: str) -> None:
    """Refuse a static graph whose nodes read empty tensors: no code can be generated for these.

    Raises
    ------
    UsageError
        The message names the first of them.
    """
    shapes = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    for value in (*model.graph.input, *model.graph.value_info, *model.graph.output):
        dims = value.type.tensor_type.shape.dim
        shapes[value.name] = tuple(dim.dim_value if dim.HasField("dim_value") else 1 for dim in dims)
    read = {name for node in model.graph.node for name in node.input if node.op_type not in TAKES_NOTHING}
    read |= {value.name for value in model.graph.output}
    for name, shape in shapes.items():
        if 0 in shape and name in read:
            maker = next((node for node in model.graph.node if name in node.output), None)
            of = f", the result of {called(maker)}," if maker is not None else ""
            raise UsageError(
                f"{origin}: the tensor {format_shape(name, shape)}{of} is empty",
                "export the network without it",
            )


Dimension = int | str
"""An extent, or the name of an open dimension (`?` if the file gives no name)."""

Shape = tuple[Dimension, ...]

NAMELESS = frozenset({"?", "-1", "None"})
"""Dimension names that mean "no name"; exporters write them."""


def dimensions(value: onnx.ValueInfoProto) -> Shape | None:
    """Return the shape that `value` declares; None if even the rank is unknown."""
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return None
    return tuple(
        dim.dim_value if dim.dim_value > 0 else dimension_name(dim) or "?" for dim in tensor.shape.dim
    )


def dimension_name(dim: onnx.TensorShapeProto.Dimension) -> str:
    """Return the name of an open dimension; empty if it has none.

    Exporters use "unknown" for several different dimensions, so it counts as no name.
    """
    return "" if dim.dim_param.startswith("unk__") or dim.dim_param in NAMELESS else dim.dim_param


def dtype_of(value: onnx.ValueInfoProto) -> str:
    """Return the numpy name of the element type; `string`, or `?` if it is unknown."""
    return type_name(value.type)


def input_specs(model: onnx.ModelProto) -> tuple[TensorSpec, ...]:
    """Return the true inputs of a static model, in model order."""
    return tuple(
        TensorSpec(
            value.name, tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim), dtype_of(value)
        )
        for value in input_values(model.graph)
    )


def open_inputs(inputs: Iterable[onnx.ValueInfoProto]) -> dict[str, Shape | None]:
    """Return name -> shape of the inputs whose shapes are not static."""
    shapes = {value.name: dimensions(value) for value in inputs}
    return {
        name: shape
        for name, shape in shapes.items()
        if shape is None or any(isinstance(extent, str) for extent in shape)
    }


def sized(shape: Shape) -> tuple[int, ...]:
    """Return the extents of a shape that are numbers, without open dimensions."""
    return tuple(extent for extent in shape if isinstance(extent, int))


# Sets the open dimensions of a file from `--shape` and `--batch`.

FIRST_IR_WITHOUT_STORED_INPUTS = 4
"""Older versions required stored tensors among the inputs (ONNX's IR.md, "Graphs")."""


def specialise(
    proto: onnx.ModelProto,
    options: ModelOptions,
    origin: str,
    *,
    frozen: Mapping[str, tuple[int, ...]] | None = None,
    partly: bool = False,
) -> onnx.ModelProto:
    """Return a copy of `proto` without stored tensors among its inputs, in the shapes of `options`.

    Parameters
    ----------
    proto
        The model, not changed.
    options
        Only `shapes` and `batch` are used.
    origin
        Name of the source, for messages.
    frozen
        Shapes of the inputs that are constants.
    partly
        Leave dimensions open that the options do not fix, instead of refusing.

    Raises
    ------
    UsageError
        An option names an unknown input or contradicts the file, or a dimension stays open.
    """
    model = onnx.ModelProto()
    model.CopyFrom(proto)
    given = input_values(model.graph)
    if len(given) < len(model.graph.input):
        del model.graph.input[:]
        model.graph.input.extend(given)
        model.ir_version = max(model.ir_version, FIRST_IR_WITHOUT_STORED_INPUTS)
    inputs = list(model.graph.input)
    bound: dict[str, int] = {}
    for value in inputs:
        held = (frozen or {}).get(value.name)
        requested = held if held is not None else wanted_shape(value, options, origin)
        if requested is not None:
            _fill(value, requested, bound, origin)
    for value in (*inputs, *model.graph.value_info, *model.graph.output):
        for dim in value.type.tensor_type.shape.dim:  # a dimension's name has the same extent in all inputs
            if dim.dim_param in bound:
                dim.dim_value = bound[dim.dim_param]
    _check_not_empty(inputs, origin)
    if not partly:
        _check_static(inputs, origin)
    return model


def check_options(proto: onnx.ModelProto, options: ModelOptions, origin: str) -> None:
    """Refuse a `--shape` or `--batch` that fits no input of a model.

    Raises
    ------
    UsageError
        The message repeats the option.
    """
    inputs = input_values(proto.graph)
    names = [value.name for value in inputs]
    for name, shape in options.shapes.items():
        if 0 in shape:
            raise no_values(f"--shape {format_shape(name, shape)}")
        if name not in names:
            raise UsageError(
                f"--shape {format_shape(name, shape)}: {origin} has no input {name!r}",
                "its inputs are: " + ", ".join(names),
            )
    if options.batch is None:
        return
    requested = [(value.name, wanted_shape(value, options, origin)) for value in inputs]
    if all(shape is not None and shape[:1] != (options.batch,) for _, shape in requested):
        shapes = "; ".join(format_shape(name, shape or ()) for name, shape in requested)
        raise UsageError(
            f"--batch {options.batch}: {origin} has no input that can have this first dimension ({shapes})",
            "leave --batch out, or export the network with an open batch dimension",
        )


def wanted_shape(value: onnx.ValueInfoProto, options: ModelOptions, origin: str) -> Shape | None:
    """Return the requested shape, with the names of open dimensions; None if nothing is known.

    Raises
    ------
    UsageError
        The requested shape contradicts the declared one.
    """
    declared = dimensions(value)
    if value.name not in options.shapes:
        if options.batch is not None and declared and isinstance(declared[0], str):
            return (options.batch, *declared[1:])
        return declared
    requested = options.shapes[value.name]
    if declared is not None and not (
        len(declared) == len(requested)
        and all(isinstance(old, str) or old == new for old, new in zip(declared, requested, strict=True))
    ):
        raise UsageError(
            f"--shape {format_shape(value.name, requested)}: {origin} declares "
            f"{format_shape(value.name, declared)}, and only open dimensions can be chosen",
            "leave --shape out, or export the network with that shape",
        )
    return requested


def _fill(value: onnx.ValueInfoProto, requested: Shape, bound: dict[str, int], origin: str) -> None:
    shape = value.type.tensor_type.shape
    if not value.type.tensor_type.HasField("shape"):
        shape.SetInParent()
        for _ in requested:
            shape.dim.add()
    for dim, extent in zip(shape.dim, requested, strict=True):
        if isinstance(extent, str):
            continue
        if dimension_name(dim) and bound.setdefault(dim.dim_param, extent) != extent:
            raise UsageError(
                f"{origin}: input {format_shape(value.name, requested)}: dimension {dim.dim_param!r} was "
                f"given as {bound[dim.dim_param]} before",
                "give it one extent in all --shape and --batch options",
            )
        dim.dim_value = extent


def _check_not_empty(inputs: list[onnx.ValueInfoProto], origin: str) -> None:
    """Refuse inputs that are declared with an extent of 0; `--shape` may give another."""
    for value in inputs:
        extents = value.type.tensor_type.shape.dim
        if any(dim.HasField("dim_value") and dim.dim_value == 0 for dim in extents):
            shape = [dim.dim_value if dim.HasField("dim_value") else dim.dim_param or "?" for dim in extents]
            typed = " ".join(f"--shape {quote(text)}" for text in shapes_to_give(open_inputs([value])))
            error = no_values(f"{origin}: its input {format_shape(value.name, shape)}")
            raise UsageError(error.message, f"{error.hint}; or give it another shape: {typed}")


def _check_static(inputs: list[onnx.ValueInfoProto], origin: str) -> None:
    """Refuse open dimensions; the message lists them all and the options to type."""
    for value in inputs:
        if dtype_of(value) in ("?", "string"):
            raise UsageError(
                f"{origin}: input {value.name!r} is no tensor of numbers", "export the network without it"
            )
    unknown = open_inputs(inputs)
    if not unknown:
        return
    shapes = "; ".join(
        format_shape(name, shape) if shape is not None else f"{name} (not even how many dimensions)"
        for name, shape in unknown.items()
    )
    given = shapes_to_give(unknown)
    typed = "".join(f" --shape {quote(text)}" for text in given)
    numbers = " with numbers for D" if any("D" in text.rpartition("=")[2] for text in given) else ""
    hint = f"add to what you typed:{typed}{numbers}"
    if all(shape is not None and shape[1:] == sized(shape[1:]) for shape in unknown.values()):
        hint += "; or --batch N"
    raise UsageError(f"{origin} leaves open the shapes of its inputs: {shapes}", hint)


def shapes_to_give(unknown: Mapping[str, Shape | None]) -> list[str]:
    """Return an argument of `--shape` for each open input, with D for numbers that only the user knows."""
    batches = {shape[0] for shape in unknown.values() if shape is not None and len(shape) > 1} - {"?"}
    return [format_shape(name, _example(shape, batches)) for name, shape in unknown.items()]


def _example(shape: Shape | None, batches: Collection[Dimension]) -> Sequence[int | str]:
    """Return an example shape with batch 1, and D for numbers that only the user knows."""
    if shape is None:
        return ("D",) * 4
    return [
        extent if isinstance(extent, int) else 1 if extent in batches or (not axis and shape[1:]) else "D"
        for axis, extent in enumerate(shape)
    ]
