"""Sets the open dimensions of a file from `--shape` and `--batch`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import prod
from shlex import quote

import onnx
from onnx import helper, shape_inference

from toolchain.errors import UsageError
from toolchain.foreign import first_line, shortened
from toolchain.models.options import ModelOptions, format_shape
from toolchain.models.walk import input_values

Dimension = int | str
"""An extent, or the name of an open dimension (`?` if the file gives no name)."""

Shape = tuple[Dimension, ...]


FIRST_IR_WITHOUT_STORED_INPUTS = 4
"""Older versions required stored tensors among the inputs (ONNX's IR.md, "Graphs")."""

NAMELESS = frozenset({"?", "-1", "None"})
"""Dimension names that mean "no name"; exporters write them."""

WINDOWED = frozenset({"Conv", "MaxPool", "AveragePool", "LpPool"})
"""Operators that move a kernel over an image."""

LARGE = 1 << 16
"""Size in bytes above which a stored tensor is a weight, not a shape used for inference."""

MOST_ELEMENTS = 2**31 - 1
"""Limit for one tensor: compiled code indexes with 32 bits."""

LONGEST_LIST = 1 << 16
"""Most values of a computed constant used to infer shapes; onnx needs 100 bytes for each."""

MOST_DIMENSIONS = 32
"""Limit for one tensor: numpy's own before version 2, and far more than networks have."""

_HINT = "`toolchain model inspect` shows the inputs; check the file, --shape and --batch"


def dimensions(value: onnx.ValueInfoProto) -> Shape | None:
    """Return the shape that `value` declares; None if even the rank is unknown."""
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return None
    return tuple(dim.dim_value if dim.dim_value > 0 else _named(dim) or "?" for dim in tensor.shape.dim)


def _named(dim: onnx.TensorShapeProto.Dimension) -> str:
    """Return the name of an open dimension; empty if it has none.

    Exporters use "unknown" for several different dimensions, so it counts as no name.
    """
    return "" if dim.dim_param.startswith("unk__") or dim.dim_param in NAMELESS else dim.dim_param


def dtype_of(value: onnx.ValueInfoProto) -> str:
    """Return the numpy name of the element type; `string`, or `?` if it is unknown."""
    code = value.type.tensor_type.elem_type
    if code == onnx.TensorProto.STRING:
        return "string"
    try:
        return str(helper.tensor_dtype_to_np_dtype(code).name)
    except KeyError:  # not a tensor, or a type unknown to onnx
        return "?"


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
        wanted = held if held is not None else wanted_shape(value, options, origin)
        if wanted is not None:
            _fill(value, wanted, bound, origin)
    for value in (*inputs, *model.graph.value_info, *model.graph.output):
        for dim in value.type.tensor_type.shape.dim:  # a dimension's name has the same extent in all inputs
            if dim.dim_param in bound:
                dim.dim_value = bound[dim.dim_param]
    if not partly:
        _check_static(inputs, origin)
    return model


def infer_shapes(model: onnx.ModelProto, origin: str, *, strict: bool = True) -> onnx.ModelProto:
    """Return a copy of `model` with the shapes of its inner tensors.

    Parameters
    ----------
    model
        The model; its inputs must be static to get static inner shapes.
    origin
        Name of the source, for messages.
    strict
        Refuse shapes that don't fit together, instead of leaving them out.

    Raises
    ------
    UsageError
        The shapes don't fit the operators, or a tensor is too large.
    """
    if strict:
        _check_sizes(
            model, origin
        )  # on shapes known from folding, since inference may allocate these tensors
    try:
        known = shape_inference.infer_shapes(
            _without_large_weights(model),
            check_type=strict,
            strict_mode=strict,
            data_prop=not _has_long_constant(model),
        )
    except Exception as error:  # InferenceError, or whatever the C++ side throws at a broken graph
        if not strict:
            return model
        raise UsageError(f"{origin}: the shapes don't fit together: {first_line(error)}", _HINT) from error
    for tensor, whole in zip(known.graph.initializer, model.graph.initializer, strict=True):
        if len(whole.raw_data) > LARGE:
            tensor.CopyFrom(whole)
    if strict:
        _check_windows(known, origin)
        _check_sizes(known, origin)
    return known


def _without_large_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy with only the shapes of large weights, since inference serialises the whole model."""
    outline = onnx.ModelProto()
    outline.CopyFrom(model)
    for tensor in outline.graph.initializer:
        if len(tensor.raw_data) > LARGE:
            tensor.ClearField("raw_data")
    return outline


def _check_windows(model: onnx.ModelProto, origin: str) -> None:
    """Refuse images smaller than a kernel; onnx itself would continue with empty ones."""
    values = {value.name: value for value in (*model.graph.value_info, *model.graph.output)}
    for node in model.graph.node:
        value = values.get(node.output[0]) if node.op_type in WINDOWED else None
        if value and any(
            dim.HasField("dim_value") and dim.dim_value < 1 for dim in value.type.tensor_type.shape.dim
        ):
            raise UsageError(
                f"{origin}: the shapes don't fit together: nothing is left of {value.name!r}", _HINT
            )


def _has_long_constant(model: onnx.ModelProto) -> bool:
    """Whether a tensor longer than any shape is computed from constants alone.

    onnx would propagate each of its values.
    """
    constant = {tensor.name for tensor in model.graph.initializer}
    for node in model.graph.node:
        if all(name in constant for name in node.input if name):
            constant.update(node.output)
    return any(
        value.name in constant
        and prod(dim.dim_value for dim in value.type.tensor_type.shape.dim) > LONGEST_LIST
        for value in (*model.graph.value_info, *model.graph.output)
    )


def _check_sizes(model: onnx.ModelProto, origin: str) -> None:
    """Refuse tensors with more elements than 32 bits can count, before anything allocates them."""
    for value in (*model.graph.input, *model.graph.value_info, *model.graph.output):
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        if len(shape) > MOST_DIMENSIONS:
            raise UsageError(
                f"{origin}: tensor {shortened(repr(value.name))} has {len(shape)} dimensions; "
                f"{MOST_DIMENSIONS} can be compiled",
                _HINT,
            )
        if prod(shape) > MOST_ELEMENTS:
            raise UsageError(
                f"{origin}: {format_shape(value.name, shape)} has {prod(shape)} elements, "
                f"and compiled code can count {MOST_ELEMENTS}",
                _HINT,
            )


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
        if name not in names:
            raise UsageError(
                f"--shape {format_shape(name, shape)}: {origin} has no input {name!r}",
                "its inputs are: " + ", ".join(names),
            )
    if options.batch is None:
        return
    wanted = [(value.name, wanted_shape(value, options, origin)) for value in inputs]
    if all(shape is not None and shape[:1] != (options.batch,) for _, shape in wanted):
        shapes = "; ".join(format_shape(name, shape or ()) for name, shape in wanted)
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
    wanted = options.shapes[value.name]
    if declared is not None and not (
        len(declared) == len(wanted)
        and all(isinstance(old, str) or old == new for old, new in zip(declared, wanted, strict=True))
    ):
        raise UsageError(
            f"--shape {format_shape(value.name, wanted)}: {origin} declares "
            f"{format_shape(value.name, declared)}, and only open dimensions can be chosen",
            "leave --shape out, or export the network with that shape",
        )
    return wanted


def _fill(value: onnx.ValueInfoProto, wanted: Shape, bound: dict[str, int], origin: str) -> None:
    shape = value.type.tensor_type.shape
    if not value.type.tensor_type.HasField("shape"):
        shape.SetInParent()
        for _ in wanted:
            shape.dim.add()
    for dim, extent in zip(shape.dim, wanted, strict=True):
        if isinstance(extent, str):
            continue
        if _named(dim) and bound.setdefault(dim.dim_param, extent) != extent:
            raise UsageError(
                f"{origin}: input {format_shape(value.name, wanted)}: dimension {dim.dim_param!r} was given "
                f"as {bound[dim.dim_param]} before",
                "give it one extent in all --shape and --batch options",
            )
        dim.dim_value = extent


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
    told = "; ".join(
        format_shape(name, shape) if shape is not None else f"{name} (not even how many dimensions)"
        for name, shape in unknown.items()
    )
    given = shapes_to_give(unknown)
    typed = "".join(f" --shape {quote(text)}" for text in given)
    numbers = " with numbers for D" if any("D" in text.rpartition("=")[2] for text in given) else ""
    hint = f"add to what you typed:{typed}{numbers}"
    if all(shape is not None and shape[1:] == sized(shape[1:]) for shape in unknown.values()):
        hint += "; or --batch N"
    raise UsageError(f"{origin} leaves open the shapes of its inputs: {told}", hint)


def open_inputs(inputs: Iterable[onnx.ValueInfoProto]) -> dict[str, Shape | None]:
    """Return name -> shape of the inputs whose shapes are not static."""
    shapes = {value.name: dimensions(value) for value in inputs}
    return {
        name: shape
        for name, shape in shapes.items()
        if shape is None or any(isinstance(extent, str) for extent in shape)
    }


def shapes_to_give(unknown: Mapping[str, Shape | None]) -> list[str]:
    """Return an argument of `--shape` for each open input, with D for numbers that only the user knows."""
    batches = {shape[0] for shape in unknown.values() if shape is not None and len(shape) > 1} - {"?"}
    return [format_shape(name, _example(shape, batches)) for name, shape in unknown.items()]


def sized(shape: Shape) -> tuple[int, ...]:
    """Return the known extents of a shape."""
    return tuple(extent for extent in shape if isinstance(extent, int))


def _example(shape: Shape | None, batches: Collection[Dimension]) -> Sequence[int | str]:
    """Return an example shape with batch 1, and D for numbers that only the user knows."""
    if shape is None:
        return ("D",) * 4
    return [
        extent if isinstance(extent, int) else 1 if extent in batches or (not axis and shape[1:]) else "D"
        for axis, extent in enumerate(shape)
    ]
