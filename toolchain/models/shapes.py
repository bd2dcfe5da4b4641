"""Fills in the dimensions that a file leaves open, from `--shape` and `--batch`."""

from __future__ import annotations

import onnx
from onnx import shape_inference

from toolchain.errors import UsageError
from toolchain.models.foreign import first_line
from toolchain.models.options import ModelOptions, format_shape
from toolchain.models.walk import input_values

Dimension = int | str
"""An extent, or the name of an open one (`?` where the file gives no name)."""


def dimensions(value: onnx.ValueInfoProto) -> tuple[Dimension, ...] | None:
    """Return the shape that `value` declares; None where not even the rank is known."""
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return None
    return tuple(
        dim.dim_value if dim.HasField("dim_value") and dim.dim_value > 0 else dim.dim_param or "?"
        for dim in tensor.shape.dim
    )


def specialise(proto: onnx.ModelProto, options: ModelOptions, *, partly: bool = False) -> onnx.ModelProto:
    """Return a copy of `proto` with static inputs and inferred inner shapes.

    Parameters
    ----------
    proto
        A model; left alone.
    options
        Its `shapes` and `batch` are used.
    partly
        Leave open what the options don't say, instead of refusing.

    Raises
    ------
    UsageError
        An option names no input or contradicts the file, a dimension stays open, or the shapes don't
        fit the operators.
    """
    model = onnx.ModelProto()
    model.CopyFrom(proto)
    inputs = input_values(model.graph)
    _check_names(inputs, options)
    bound: dict[str, int] = {}
    for value in inputs:
        _fill(value, _wanted(value, options), bound)
    for value in inputs:  # a name bound by one input holds for the others
        _bind(value, bound)
    if not partly:
        _check_static(inputs)
    for value in (*model.graph.value_info, *model.graph.output):
        _bind(value, bound)
    try:
        return shape_inference.infer_shapes(model, check_type=True, strict_mode=not partly, data_prop=True)
    except Exception as error:  # InferenceError, or whatever the C++ side throws at a broken graph
        raise UsageError(
            f"the shapes of the network don't fit together: {first_line(error)}",
            "check the file, --shape and --batch with `toolchain model inspect`",
        ) from error


def _check_names(inputs: list[onnx.ValueInfoProto], options: ModelOptions) -> None:
    names = [value.name for value in inputs]
    for name, shape in options.shapes.items():
        if name not in names:
            raise UsageError(
                f"--shape {format_shape(name, shape)}: the network has no input {name!r}",
                "its inputs are: " + ", ".join(names),
            )


def _wanted(value: onnx.ValueInfoProto, options: ModelOptions) -> tuple[Dimension, ...] | None:
    """Return the shape asked for, checked against the declared one."""
    declared = dimensions(value)
    option = "--shape " + format_shape(value.name, options.shapes.get(value.name, ()))
    wanted: tuple[Dimension, ...] | None = options.shapes.get(value.name, declared)
    if options.batch is not None and declared and value.name not in options.shapes:
        option = f"--batch {options.batch}"
        wanted = (options.batch, *declared[1:])
    if declared is None or wanted is None:
        return wanted
    fits = len(declared) == len(wanted) and all(
        isinstance(old, str) or old == new for old, new in zip(declared, wanted, strict=True)
    )
    if not fits:
        raise UsageError(
            f"{option}: the file declares {format_shape(value.name, declared)}; only open dimensions can be chosen",
            "leave the option out, or export the network with that shape",
        )
    return wanted


def _fill(value: onnx.ValueInfoProto, wanted: tuple[Dimension, ...] | None, bound: dict[str, int]) -> None:
    if wanted is None:
        return
    shape = value.type.tensor_type.shape
    if not value.type.tensor_type.HasField("shape"):
        for _ in wanted:
            shape.dim.add()
        value.type.tensor_type.shape.SetInParent()
    for dim, extent in zip(shape.dim, wanted, strict=True):
        if isinstance(extent, str):
            continue
        if dim.dim_param and bound.setdefault(dim.dim_param, extent) != extent:
            raise UsageError(
                f"--shape {format_shape(value.name, wanted)}: the dimension {dim.dim_param!r} is "
                f"{bound[dim.dim_param]} in another input",
                "give both the same extent",
            )
        dim.dim_value = extent


def _bind(value: onnx.ValueInfoProto, bound: dict[str, int]) -> None:
    for dim in value.type.tensor_type.shape.dim:
        if dim.dim_param in bound:
            dim.dim_value = bound[dim.dim_param]


def _check_static(inputs: list[onnx.ValueInfoProto]) -> None:
    for value in inputs:
        shape = dimensions(value)
        if shape is None:
            raise UsageError(
                f"the file says nothing about the shape of input {value.name!r}",
                f"add --shape {value.name}=D,D,…",
            )
        if any(isinstance(extent, str) for extent in shape):
            example = format_shape(
                value.name, [extent if isinstance(extent, int) else "D" for extent in shape]
            )
            hint = f"add --shape {example} with a number for each D"
            if [i for i, extent in enumerate(shape) if isinstance(extent, str)] == [0]:
                hint += ", or --batch N"
            raise UsageError(
                f"the file leaves open the shape of input {format_shape(value.name, shape)}", hint
            )
